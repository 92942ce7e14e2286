"""Sums that do not depend on the order or the number of their parts.

Floating-point sums change with their order. Here every term is first turned into integers, and
integers add up to the same bits in any order, on any number of threads or machines. There are
two conversions:

* Shares, whose sums stay within [-1, 1], become multiples of ``1 / SCALE`` (`to_integers`).
* Terms of any size become two words, relative to a power of two above the largest: the high
  word counts multiples of ``1 / HIGH``, the low word multiples of ``1 / LOW`` (`words_of`,
  `from_words`).

Sums, maxima and minima over the rows of all machines are taken by the reductions `sum_of`,
`greatest_of`, `least_of` and `all_true`, and by `exact_sum` and `log_total`. Every machine calls
them in the same order and gets the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numba import njit

from precede.engine.arrays import Floats, Integers
from precede.engine.execution import Context, is_small
from precede.engine.portable import exp, log

__all__ = [
    "HIGH",
    "LOW",
    "SCALE",
    "added",
    "all_gather",
    "all_reduce_all",
    "all_reduce_max",
    "all_reduce_min",
    "all_reduce_sum",
    "exact_sum",
    "exact_sums",
    "from_words",
    "greatest",
    "largest_of",
    "log_total",
    "log_totals",
    "sums_at",
    "to_integers",
    "words_of",
]


# Shares of a total of 1 become integers by this factor: 2^-61 is far below the rounding of a
# floating-point sum, and sums up to 4 in size still fit into 64 bits.
SCALE = 2.0**61
# Units of the two words of a term: 31 bits each, so that 2^32 of them add up without overflow.
HIGH = 2.0**31
LOW = 2.0**62
# Kernels of this and other files write these numbers out, so that their caches notice a change.
assert (SCALE, HIGH, LOW) == (2305843009213693952.0, 2147483648.0, 2.0**62), "kernels differ"
# Scales for which a machine sums few values before it knows that of all.
SCALES = 8


def to_integers(shares: Floats) -> Integers:
    """Turn numbers whose sums stay within [-1, 1] into integers that add up exactly.

    >>> import numpy as np
    >>> bool(to_integers(np.array([0.5]))[0] == 2**60)
    True
    """
    return np.rint(shares * SCALE).astype(np.int64)


def exact_sum(values: Floats, context: Context | None = None) -> float:
    """Sum as integers, so that no order, block or thread count changes a bit.

    Values are divided by a power of two above the largest and cut into two integers of 31
    bits each; integers add exactly. The error is at most 2^-62 of the largest value for
    each term. O(n). With `context` the values of all machines are summed.

    >>> import numpy as np
    >>> exact_sum(np.array([0.1] * 10))
    1.0
    """
    return exact_sums([values], context)[0]


def exact_sums(
    arrays: Sequence[Floats],
    context: Context | None = None,
    *,
    few: bool = False,
    largest: Sequence[float] | None = None,
) -> list[float]:
    """Several sums, each as `exact_sum` takes it.

    Where machines meet, `few` says that they have few values each, so that summing them for
    several scales is cheaper than to ask the others for the scale. `largest` are the results of
    `largest_of`, where they are known.
    """
    if context is not None and context.device is not None and context.device.holds(arrays[0]):
        return context.device.exact_sums(arrays)
    if context is None or not context.is_distributed:
        tops = [None] * len(arrays) if largest is None else largest
        return [_sum_in_parts(each, context, top) for each, top in zip(arrays, tops, strict=True)]
    if largest is not None:
        return _sums_below(arrays, np.array(largest), context)
    if few:
        tops, sums = context.all_reduce(
            lambda: [_at_several_scales(each) for each in arrays], _at_the_scale_of_all
        )
        return _sums_below(arrays, tops, context) if sums is None else sums
    tops = all_reduce_max(lambda: np.array([_top(each) for each in arrays]), context)
    return _sums_below(arrays, tops, context)


def _top(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))


def _at_several_scales(values: Floats) -> tuple[float, list[tuple[np.int64, np.int64]]]:
    """Largest absolute value, and the integers behind the sum for its scale and those above."""
    top = _top(values)
    if not 0 < top < np.inf:
        return top, []
    exponent = math.frexp(top)[1]
    return top, [words_of(values, exponent + more) for more in range(SCALES)]


def _at_the_scale_of_all(
    parts: Sequence[Sequence[tuple[float, list[tuple[np.int64, np.int64]]]]],
) -> tuple[Floats, list[float] | None]:
    """Largest values, and the sums: None if a machine has not summed for the scale of all."""
    largest = np.array([greatest([top for top, _ in of]) for of in zip(*parts, strict=True)])
    sums = []
    for most, of in zip(largest, zip(*parts, strict=True), strict=True):
        if not 0 < most < np.inf:
            sums.append(float(most))
            continue
        exponent = math.frexp(most)[1]
        total = np.zeros(2, np.int64)
        for top, words in of:
            above = exponent - math.frexp(top)[1]
            if top > 0 and above >= SCALES:
                return largest, None
            total += words[above] if top > 0 else 0
        sums.append(float(from_words(total, exponent)))
    return largest, sums


def largest_of(arrays: Sequence[Floats], context: Context) -> list[float]:
    """Largest absolute values of some arrays, of all machines; infinity where one is no number.

    >>> import numpy as np
    >>> largest_of([np.array([0.5, -2.0]), np.zeros(0)], Context(1))
    [2.0, 0.0]
    """

    def here() -> Floats:
        return np.array([_largest_of(each, context) for each in arrays])

    found: list[float] = all_reduce_max(here, context).tolist()
    return found


def _largest_of(values: Floats, context: Context) -> float:
    """Largest absolute value here; infinity where one is not a number."""
    found = context.run(_ends, values.size, values, small=is_small("rows", values.size))
    ends = [abs(end) for part in found for end in part]
    return math.inf if any(map(math.isnan, ends)) else max(ends)


def _ends(low: int, high: int, values: Floats) -> tuple[float, float]:
    """Least and greatest of the values low..high and 0; NumPy gives NaN where one is."""
    here = values[low:high]
    return float(here.min(initial=0.0)), float(here.max(initial=0.0))


def _sum_in_parts(values: Floats, context: Context | None, largest: float | None = None) -> float:
    """The sum of one array, every thread adding up a part of it."""
    small = context is None or context.jobs == 1 or is_small("rows", values.size)
    if largest is None:
        if context is None or small:
            return _sum_alone(values)
        largest = _largest_of(values, context)
    if largest in (0, np.inf):
        return _sum_alone(values)
    exponent = math.frexp(largest)[1]
    if context is None or small:
        return _from_two(_words_of(values, exponent), exponent)
    parts = context.run(lambda low, high: _words_of(values[low:high], exponent), values.size)
    return _from_two([sum(words) for words in zip(*parts, strict=True)], exponent)


def _sum_alone(values: Floats) -> float:
    """The sum of one array on one thread; if it is not finite, its first such value."""
    largest = _top(values)
    if not 0 < largest < np.inf:
        return 0.0 if largest == 0 else float(np.abs(values[~np.isfinite(values)][0]))
    exponent = math.frexp(largest)[1]
    return _from_two(_words_of(values, exponent), exponent)


def _sums_below(arrays: Sequence[Floats], largest: Floats, context: Context) -> list[float]:
    """Sums of values whose largest are known."""
    finite = (largest > 0) & np.isfinite(largest)
    if not finite.any():
        return [float(each) for each in largest]
    exponent = np.frexp(np.where(finite, largest, 1.0))[1]
    words = all_reduce_sum(
        lambda: np.array(
            [
                words_of(each, e) if known else (0, 0)
                for each, e, known in zip(arrays, exponent, finite, strict=True)
            ],
            np.int64,
        ),
        context,
    )
    sums = from_words(words.T, exponent)
    return [float(each) for each in np.where(finite, sums, largest)]


def words_of(values: Floats, exponent: int) -> tuple[np.int64, np.int64]:
    """Sum of values up to 2^exponent as two integers that add up with those of others."""
    return _words_of(values, int(exponent))


def from_words(words: Any, exponent: Any = 0) -> Any:
    """Sum behind two integers of `words_of`.

    >>> import numpy as np
    >>> float(from_words(words_of(np.array([0.25, 1.5]), 1), 1))
    1.75
    """
    high, low = words
    with np.errstate(over="ignore"):  # a sum beyond the range of floats is infinite
        return np.ldexp(high / HIGH + low / LOW, exponent)


def _from_two(words: Sequence[Any], exponent: int) -> float:
    """The same of one sum, which takes a tenth of the time."""
    total = words[0] / HIGH + words[1] / LOW
    try:
        return math.ldexp(total, exponent)
    except OverflowError:
        return math.copysign(math.inf, total)


def sums_at(index: Integers, values: Floats, count: int) -> Floats:
    """Sums of the values at each of `count` indices, whatever their order: O(values + count).

    Each sum is taken as `exact_sum` takes it, relative to the largest of its own values. A sum over
    values that are not finite is infinite, or NaN.

    >>> sums_at(np.array([0, 2, 0]), np.array([0.1, 3.0, 0.2]), 3)
    array([0.3, 0. , 3. ])
    """
    sums = np.zeros(count)
    if index.size:  # otherwise nothing need be compiled
        words = np.zeros((2, count), np.int64)
        _sums_at(index, values, words, sums)
    return sums


def log_total(log_values: Floats, context: Context | None = None) -> float:
    """Logarithm of a sum of exponentials; the order of the terms does not matter."""
    return log_totals([log_values], context)[0]


def log_totals(arrays: Sequence[Floats], context: Context | None = None) -> list[float]:
    """Logarithms of several sums of exponentials."""
    if context is None or not context.is_distributed:
        return [_log_total(each) for each in arrays]
    largest = all_reduce_max(
        lambda: np.array([each.max(initial=-np.inf) for each in arrays]), context
    )
    finite = np.isfinite(largest)
    base = np.where(finite, largest, 0.0)
    terms = [exp(each - low) for each, low in zip(arrays, base, strict=True)]
    # The largest of the terms, wherever it is, is 1.
    sums = _sums_below(terms, finite.astype(np.float64), context)
    return [
        float(top + each) if known else float(top)
        for top, each, known in zip(largest, log(np.array(sums)), finite, strict=True)
    ]


def _log_total(log_values: Floats) -> float:
    largest = float(log_values.max(initial=-np.inf))
    if not np.isfinite(largest):
        return largest
    return largest + float(log(np.array([_sum_alone(exp(log_values - largest))]))[0])


# -- over all machines -------------------------------------------------------------------------


def all_reduce_sum(
    part: Callable[[], Any], context: Context | None, then: Callable[[Any], Any] | None = None
) -> Any:
    """Sum over all machines: integers, or arrays of them; a tuple is summed member by member.

    `then` is applied to the sum once, before the answer travels back, so that a small answer can
    be drawn from large sums. `part` must change nothing: it is not called on a machine that
    replaces another and knows the answer.

    >>> all_reduce_sum(lambda: 3, Context(1)), all_reduce_sum(lambda: (1, 2), None, then=max)
    (3, 2)
    """
    return _over_all(part, added if then is None else partial(_of_sum, then), context)


def all_reduce_max(part: Callable[[], Any], context: Context | None) -> Any:
    """Greatest over all machines, element by element.

    >>> all_reduce_max(lambda: 0.5, Context(1))
    0.5
    """
    return _over_all(part, greatest, context)


def all_reduce_min(part: Callable[[], Any], context: Context | None) -> Any:
    """Least over all machines.

    >>> all_reduce_min(lambda: 0.5, Context(1))
    0.5
    """
    return _over_all(part, min, context)


def all_reduce_all(part: Callable[[], bool], context: Context | None) -> bool:
    """Whether something holds on all machines.

    >>> all_reduce_all(lambda: True, Context(1))
    True
    """
    return bool(_over_all(part, all, context))


def all_gather(part: Callable[[], Any], context: Context | None) -> list[Any]:
    """The parts of all machines; what is made of them must not depend on who has which rows.

    >>> all_gather(lambda: 3, Context(1))
    [3]
    """
    return _over_all(part, list, context)


def _over_all(
    part: Callable[[], Any], combine: Callable[[Sequence[Any]], Any], context: Context | None
) -> Any:
    """Combine the parts of all machines; without workers there is only this one."""
    return combine([part()]) if context is None else context.all_reduce(part, combine)


def _of_sum(then: Callable[[Any], Any], parts: Sequence[Any]) -> Any:
    return then(added(parts))


def added(parts: Sequence[Any]) -> Any:
    """Sum of the parts; of tuples, member by member."""
    if isinstance(parts[0], tuple):
        return tuple(added(members) for members in zip(*parts, strict=True))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def greatest(parts: Sequence[Any]) -> Any:
    """Greatest of the parts, element by element."""
    most = parts[0]
    for part in parts[1:]:
        most = np.maximum(most, part)
    return most


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _words_of(values: Floats, exponent: int) -> tuple[np.int64, np.int64]:
    """Sum of two integers of 31 bits for every value, as shares of a power of two."""
    # In two factors: of the smallest numbers the inverse is beyond the range of floats.
    half = exponent // 2
    one, other = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
    high, low = np.int64(0), np.int64(0)
    for i in range(values.size):  # (quicker than over the values themselves)
        scaled = values[i] * one * other * 2147483648.0
        whole = np.floor(scaled)
        high += np.int64(whole)
        low += np.int64((scaled - whole) * 2147483648.0)
    return high, low


@njit(cache=True, nogil=True)
def _sums_at(index: Integers, values: Floats, words: Integers, sums: Floats) -> None:
    """See `sums_at`; `words` is room for the integers, `sums` holds zeros."""
    for i in range(values.size):
        size = abs(values[i])
        if size > sums[index[i]] or np.isnan(size):
            sums[index[i]] = size
    for i in range(values.size):
        at = index[i]
        if 0.0 < sums[at] < np.inf:
            exponent = math.frexp(sums[at])[1]
            # In two factors: of the smallest numbers the inverse is beyond the range of floats.
            half = exponent // 2
            scaled = values[i] * math.ldexp(1.0, -half) * math.ldexp(1.0, half - exponent)
            scaled *= 2147483648.0
            whole = np.floor(scaled)
            words[0, at] += np.int64(whole)
            words[1, at] += np.int64((scaled - whole) * 2147483648.0)
    for at in range(sums.size):
        if 0.0 < sums[at] < np.inf:
            exponent = math.frexp(sums[at])[1]
            total = words[0, at] / 2147483648.0 + words[1, at] / 4611686018427387904.0
            sums[at] = math.ldexp(total, exponent)
