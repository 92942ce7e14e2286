"""Reproducible sums, tie breaking and hashing: equal bits for any row order, threads and machines.

Floating-point addition is not associative, integer addition is. So every term is first converted
to fixed point, in one of two formats:

* Numbers whose sums stay within [-1, 1] become multiples of ``1 / SCALE`` (`to_integers`).
* Terms of any size become two words, relative to a power of two above the largest term
  (`fixed_point_sum`, `from_fixed_point`)::

      value / 2^exponent  =  high / 2^31  +  low / 2^62        HIGH = 2^31, LOW = 2^62

The reductions `all_reduce_sum`, `all_reduce_max`, `all_reduce_min`, `all_reduce_all` and
`all_gather`, as well as `exact_sum` and `log_sum_exp`, include the rows of all machines. Every
machine calls them in the same order and gets the same result.

Edges tie if they differ by less than a small share of the largest: such differences are rounding,
and repeated rows and integer weights would round differently. The first of tied candidates is
chosen. Candidates are always ordered by feature, then by threshold, then missing values below the
threshold before missing values above; families of a union in the order given.

Rows are sampled by a hash (splitmix64) of their key, a seed and the round, and so independently of
the order of the rows and of the machine that holds them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Floats, Integer, Integers, Keys
from precede.engine.compiling import njit
from precede.engine.execution import Context, threads_for
from precede.engine.portable import exp, log
from precede.engine.team import add, raise_to

Part = TypeVar("Part")
Result = TypeVar("Result")

# Factor of `to_integers`: 2^-61 is far below the rounding of a floating-point sum, and sums up to
# 4 in size still fit into 64 bits.
SCALE = 2.0**61
# Fixed-point factors of the two words: 31 bits each, so that 2^32 terms add up without overflow.
HIGH = 2.0**31
LOW = 2.0**62
# Number of consecutive exponents for which a machine sums few values in advance, which saves the
# message to agree on one.
N_SCALES = 8


def to_integers(values: Floats) -> Integers:
    """Convert numbers whose sums stay within [-1, 1] to fixed point.

    >>> import numpy as np
    >>> bool(to_integers(np.array([0.5]))[0] == 2**60)
    True
    """
    return np.rint(values * SCALE).astype(np.int64)


def exact_sum(values: Floats, context: Context | None = None) -> float:
    """Return the sum; its bits depend neither on the order of the values nor on threads.

    The error is at most 2^-62 of the largest absolute value for each term. O(n). With `context`
    the values of all machines are summed.

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
    absolute: bool = False,
) -> list[float]:
    """Return the sum of each array, as `exact_sum`; with `absolute`, of the absolute values.

    `few` declares that the arrays are short: each machine then sums them for several exponents,
    which is cheaper than a message to agree on one. `largest` is the result of
    `all_reduce_abs_max`, if known.
    """
    if context is not None and context.backend.is_gpu and context.backend.holds(arrays[0]):
        return context.backend.exact_sums(arrays)
    if context is None or not context.is_distributed:
        known = [None] * len(arrays) if largest is None else largest
        return [
            _sum_on_this_machine(each, context, top, absolute=absolute)
            for each, top in zip(arrays, known, strict=True)
        ]
    arrays = [np.abs(each) for each in arrays] if absolute else arrays
    if largest is not None:
        return _sums_with_known_largest(arrays, np.array(largest), context)
    if few:
        tops, sums = context.all_reduce(
            lambda: [_sum_at_scales(each) for each in arrays], _combine_scales
        )
        return _sums_with_known_largest(arrays, tops, context) if sums is None else sums
    tops = all_reduce_max(lambda: np.array([_largest_absolute(each) for each in arrays]), context)
    return _sums_with_known_largest(arrays, tops, context)


def _largest_absolute(values: Floats) -> float:
    """Return the largest absolute value, 0 for an empty array."""
    return float(np.abs(values).max(initial=0.0))


def _sum_at_scales(values: Floats) -> tuple[float, list[tuple[np.int64, np.int64]]]:
    """Return the largest absolute value, and the words of the sum for `N_SCALES` exponents."""
    top = _largest_absolute(values)
    if not 0 < top < np.inf:
        return top, []
    exponent = math.frexp(top)[1]
    return top, [fixed_point_sum(values, exponent + above) for above in range(N_SCALES)]


def _combine_scales(
    parts: Sequence[Sequence[tuple[float, list[tuple[np.int64, np.int64]]]]],
) -> tuple[Floats, list[float] | None]:
    """Return the largest values and the sums over all machines.

    The sums are None if a machine lacks the words for the common exponent.
    """
    largest = np.array([max_parts([top for top, _ in array]) for array in zip(*parts, strict=True)])
    sums = []
    for overall, array in zip(largest, zip(*parts, strict=True), strict=True):
        if not 0 < overall < np.inf:
            sums.append(float(overall))
            continue
        exponent = math.frexp(overall)[1]
        total = np.zeros(2, np.int64)
        for top, words in array:
            above = exponent - math.frexp(top)[1]
            if top > 0 and above >= N_SCALES:
                return largest, None
            total += words[above] if top > 0 else 0
        sums.append(float(from_fixed_point(total, exponent)))
    return largest, sums


def all_reduce_abs_max(arrays: Sequence[Floats], context: Context) -> list[float]:
    """Return the largest absolute value of each array over all machines; inf if any is NaN.

    >>> import numpy as np
    >>> all_reduce_abs_max([np.array([0.5, -2.0]), np.zeros(0)], Context(1))
    [2.0, 0.0]
    """

    def local() -> Floats:
        return np.array([_largest_over_threads(each, context) for each in arrays])

    largest: list[float] = all_reduce_max(local, context).tolist()
    return largest


def _largest_over_threads(values: Floats, context: Context) -> float:
    """Return the largest absolute value on this machine; inf if any value is NaN."""
    threads = threads_for("rows", values.size)
    if min(threads, context.jobs) == 1:  # without compiling a kernel
        largest = max(abs(float(values.min(initial=0.0))), float(values.max(initial=0.0)))
    else:
        bits = np.zeros(1, np.int64)
        given = np.ascontiguousarray(values, np.float64).view(np.int64), bits
        context.run(_raise_to_largest, values.size, *given, threads=threads)
        largest = float(bits.view(np.float64)[0])
    return math.inf if math.isnan(largest) else largest


def min_and_max(values: Floats, context: Context) -> tuple[float, float]:
    """Return the least and the greatest value on this machine; none may be NaN.

    >>> import numpy as np
    >>> min_and_max(np.array([0.5, -2.0, 1.0]), Context(1))
    (-2.0, 1.0)
    """
    threads = threads_for("rows", values.size)
    if min(threads, context.jobs) == 1:
        return float(values.min()), float(values.max())
    keys = np.full(2, np.iinfo(np.int64).min)
    given = np.ascontiguousarray(values).view(np.int64), keys
    context.run(_raise_extremes, values.size, *given, threads=threads)
    lowest, highest = _order_of_bits(~keys[:1]), _order_of_bits(keys[1:])
    return float(lowest.view(np.float64)[0]), float(highest.view(np.float64)[0])


def _order_of_bits(bits: Integers) -> Integers:
    """Return integers in the order of the floats of these bits; applied twice, the bits again."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


def _sum_on_this_machine(
    values: Floats,
    context: Context | None = None,
    largest: float | None = None,
    *,
    absolute: bool = False,
) -> float:
    """Return the sum of one array; the absolute value of the first non-finite value, if any."""
    if context is not None and min(context.jobs, threads_for("rows", values.size)) == 1:
        context = None
    if largest is None:
        largest = (
            _largest_absolute(values) if context is None else _largest_over_threads(values, context)
        )
    if not 0 < largest < np.inf:
        return 0.0 if largest == 0 else float(np.abs(values[~np.isfinite(values)][0]))
    exponent = math.frexp(largest)[1]
    if context is None:
        values = np.abs(values) if absolute else values
        return _from_fixed_point(_fixed_point_sum(values, exponent, False), exponent)
    words, threads = np.zeros(2, np.int64), threads_for("rows", values.size)
    given = values, exponent, absolute, words
    context.run(_add_fixed_point_sum, values.size, *given, threads=threads)
    return _from_fixed_point(words.tolist(), exponent)


def _sums_with_known_largest(
    arrays: Sequence[Floats], largest: Floats, context: Context
) -> list[float]:
    """Return the sums over all machines, given the largest absolute values."""
    finite = (largest > 0) & np.isfinite(largest)
    if not finite.any():
        return [float(each) for each in largest]
    exponent = np.frexp(np.where(finite, largest, 1.0))[1]
    words = all_reduce_sum(
        lambda: np.array(
            [
                fixed_point_sum(each, e) if is_finite else (0, 0)
                for each, e, is_finite in zip(arrays, exponent, finite, strict=True)
            ],
            np.int64,
        ),
        context,
    )
    sums = from_fixed_point(words.T, exponent)
    return [float(each) for each in np.where(finite, sums, largest)]


def fixed_point_sum(values: Floats, exponent: int) -> tuple[np.int64, np.int64]:
    """Return the sum of values of at most 2^exponent as two words, which may be added up."""
    return _fixed_point_sum(values, int(exponent), False)


def from_fixed_point(words: Sequence[Integer] | Integers, exponent: int | Integers = 0) -> Floats:
    """Convert words of `fixed_point_sum` to floats.

    >>> import numpy as np
    >>> float(from_fixed_point(fixed_point_sum(np.array([0.25, 1.5]), 1), 1))
    1.75
    """
    high, low = words
    with np.errstate(over="ignore"):  # an overflowing sum is infinite
        return np.ldexp(high / HIGH + low / LOW, exponent)


def _from_fixed_point(words: Sequence[Integer], exponent: int) -> float:
    """Convert the words of one sum to a float, ten times as fast as `from_fixed_point`."""
    total = words[0] / HIGH + words[1] / LOW
    try:
        return math.ldexp(total, exponent)
    except OverflowError:
        return math.copysign(math.inf, total)


def sums_at(index: Integers, values: Floats, count: int) -> Floats:
    """Return the sum of the values at each index, like ``np.bincount``, in any order.

    Each sum equals `exact_sum` of its values; it is inf or NaN if one of them is not finite.
    O(values + count).

    >>> sums_at(np.array([0, 2, 0]), np.array([0.1, 3.0, 0.2]), 3)
    array([0.3, 0. , 3. ])
    """
    sums = np.zeros(count)
    if index.size:  # avoids compiling the kernel
        words = np.zeros((2, count), np.int64)
        _add_at_indices(index, values, words, sums)
    return sums


def log_sum_exp(log_values: Floats, context: Context | None = None) -> float:
    """Return the log-sum-exp of the values; its bits do not depend on their order."""
    return log_sum_exps([log_values], context)[0]


def log_sum_exps(arrays: Sequence[Floats], context: Context | None = None) -> list[float]:
    """Return the log-sum-exp of each array."""
    if context is None or not context.is_distributed:
        return [_log_sum_exp(each) for each in arrays]
    largest = all_reduce_max(
        lambda: np.array([each.max(initial=-np.inf) for each in arrays]), context
    )
    finite = np.isfinite(largest)
    base = np.where(finite, largest, 0.0)
    terms = [exp(each - low) for each, low in zip(arrays, base, strict=True)]
    # The largest term, on whichever machine, is exp(0) = 1.
    sums = _sums_with_known_largest(terms, finite.astype(np.float64), context)
    return [
        float(top + each) if is_finite else float(top)
        for top, each, is_finite in zip(largest, log(np.array(sums)), finite, strict=True)
    ]


def _log_sum_exp(log_values: Floats) -> float:
    largest = float(log_values.max(initial=-np.inf))
    if not np.isfinite(largest):
        return largest
    return largest + float(log(np.array([_sum_on_this_machine(exp(log_values - largest))]))[0])


# -- over all machines -------------------------------------------------------------------------


@overload
def all_reduce_sum(part: Callable[[], Part], context: Context | None) -> Part: ...
@overload
def all_reduce_sum(
    part: Callable[[], Part], context: Context | None, then: Callable[[Part], Result]
) -> Result: ...
def all_reduce_sum(
    part: Callable[[], Part],
    context: Context | None,
    then: Callable[[Part], Result] | None = None,
) -> Part | Result:
    """Return the sum over all machines of integers, arrays of integers, or tuples of either.

    `then` is applied to the sum before the result is sent back, so that large sums need not be
    sent. `part` must have no side effects: it is not called on a replacement worker, which replays
    recorded results.

    >>> all_reduce_sum(lambda: 3, Context(1)), all_reduce_sum(lambda: (1, 2), None, then=max)
    (3, 2)
    """
    if then is None:
        return _all_reduce(part, sum_parts, context)
    return _all_reduce(part, partial(_apply_to_sum, then), context)


def all_reduce_max(part: Callable[[], Part], context: Context | None) -> Part:
    """Return the elementwise maximum over all machines.

    >>> all_reduce_max(lambda: 0.5, Context(1))
    0.5
    """
    return _all_reduce(part, max_parts, context)


def all_reduce_min(part: Callable[[], float], context: Context | None) -> float:
    """Return the minimum over all machines.

    >>> all_reduce_min(lambda: 0.5, Context(1))
    0.5
    """
    least: Callable[[Sequence[float]], float] = min
    return _all_reduce(part, least, context)


def all_reduce_all(part: Callable[[], bool], context: Context | None) -> bool:
    """Return whether `part` is true on all machines.

    >>> all_reduce_all(lambda: True, Context(1))
    True
    """
    return bool(_all_reduce(part, all, context))


def all_gather(part: Callable[[], Part], context: Context | None) -> list[Part]:
    """Return the list of the parts of all machines.

    Callers' results must not depend on how the rows are distributed.

    >>> all_gather(lambda: 3, Context(1))
    [3]
    """
    return _all_reduce(part, list, context)


def _all_reduce(
    part: Callable[[], Part],
    combine: Callable[[Sequence[Part]], Result],
    context: Context | None,
) -> Result:
    """Combine the parts of all machines; without a context, of this one."""
    return combine([part()]) if context is None else context.all_reduce(part, combine)


def _apply_to_sum(then: Callable[[Part], Result], parts: Sequence[Part]) -> Result:
    return then(sum_parts(parts))


def sum_parts(parts: Sequence[Part]) -> Part:
    """Return the sum of the parts; tuples are summed member by member."""
    if isinstance(parts[0], tuple):
        return tuple(map(sum_parts, zip(*parts, strict=True)))  # type: ignore[return-value]
    return reduce(operator.add, parts)


def max_parts(parts: Sequence[Part]) -> Part:
    """Return the elementwise maximum of the parts."""
    return reduce(np.maximum, parts)  # type: ignore[arg-type]


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fixed_point_sum(values: Floats, exponent: int, absolute: bool) -> tuple[np.int64, np.int64]:
    """Return the words of `fixed_point_sum`; with `absolute`, of the absolute values."""
    # Scale in two steps: 2^-exponent overflows for subnormal values.
    half = exponent // 2
    one, other = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
    high, low = np.int64(0), np.int64(0)
    for i in range(values.size):  # faster than iterating over the values
        value = abs(values[i]) if absolute else values[i]
        scaled = value * one * other * HIGH
        whole = np.floor(scaled)
        high += np.int64(whole)
        low += np.int64((scaled - whole) * HIGH)
    return high, low


@njit(cache=True, nogil=True)
def _add_fixed_point_sum(
    low: int, high: int, values: Floats, exponent: int, absolute: bool, words: Integers
) -> None:
    """Add the sum of the values low..high, or their absolute values, to words of all threads."""
    one, other = _fixed_point_sum(values[low:high], exponent, absolute)
    add(words, 0, one)
    add(words, 1, other)


@njit(cache=True, nogil=True)
def _raise_to_largest(low: int, high: int, bits: Integers, largest: Integers) -> None:
    """Raise ``largest[0]`` to the bits of the largest absolute value among the floats low..high.

    Without their sign, floats are ordered as the integers of the same bits, with NaN above all.
    """
    most = np.int64(0)
    for i in range(low, high):
        most = max(most, bits[i] & 0x7FFFFFFFFFFFFFFF)
    raise_to(largest, 0, most)


@njit(cache=True, nogil=True)
def _raise_extremes(low: int, high: int, bits: Integers, keys: Integers) -> None:
    """Raise ``keys[1]`` to the key of the greatest of the floats low..high.

    ``keys[0]`` is raised to the inverted key of the least. Keys are integers in the order of the
    floats, see `_order_of_bits`.
    """
    least, most = np.int64(0x7FFFFFFFFFFFFFFF), ~np.int64(0x7FFFFFFFFFFFFFFF)
    for i in range(low, high):
        key = bits[i] ^ ((bits[i] >> 63) & 0x7FFFFFFFFFFFFFFF)
        least, most = min(least, key), max(most, key)
    raise_to(keys, 0, ~least)
    raise_to(keys, 1, most)


@njit(cache=True, nogil=True)
def _add_at_indices(index: Integers, values: Floats, words: Integers, sums: Floats) -> None:
    """See `sums_at`; `words` and `sums` must be 0. `sums` first collects the largest values."""
    for i in range(values.size):
        size = abs(values[i])
        if size > sums[index[i]] or np.isnan(size):
            sums[index[i]] = size
    for i in range(values.size):
        at = index[i]
        if 0.0 < sums[at] < np.inf:
            exponent = math.frexp(sums[at])[1]
            # Scale in two steps: 2^-exponent overflows for subnormal values.
            half = exponent // 2
            scaled = values[i] * math.ldexp(1.0, -half) * math.ldexp(1.0, half - exponent)
            scaled *= HIGH
            whole = np.floor(scaled)
            words[0, at] += np.int64(whole)
            words[1, at] += np.int64((scaled - whole) * HIGH)
    for at in range(sums.size):
        if 0.0 < sums[at] < np.inf:
            exponent = math.frexp(sums[at])[1]
            total = words[0, at] / HIGH + words[1, at] / LOW
            sums[at] = math.ldexp(total, exponent)


# -- Tie breaking ------------------------------------------------------------------------------

# Relative difference from the largest edge up to which another edge ties with it.
TIE = 2.0**-40
# Like TIE, for decreases of the risk: squared differences of square roots are less accurate.
TIE_OF_DECREASES = 1e-9
# Tolerance for the rounding of the terms of fixed-point edges (`to_integers`), in 1 / SCALE.
TIE_UNITS = 256


def least_tied(most: int) -> int:
    """Return the smallest fixed-point edge that ties with the largest, `most`.

    >>> least_tied(2**61) == 2**61 - 2**21 - 256
    True
    """
    return most - (most >> 40) - TIE_UNITS


least_tied_kernel = njit(cache=True, nogil=True)(least_tied)


def first_tied(edges: ArrayLike, tolerance: float = TIE) -> int:
    """Return the index of the first candidate whose edge ties with the largest.

    >>> first_tied([0.5, 1.0 - 1e-14, 1.0])
    1
    """
    values = np.asarray(edges)
    return int(np.argmax(values >= values.max() * (1 - tolerance)))


# -- Hashing -----------------------------------------------------------------------------------


def splitmix64(keys: Keys) -> Keys:
    """Apply the finalizer of splitmix64: a bijection that mixes all bits.

    >>> splitmix64(np.arange(3, dtype=np.uint64)) >> np.uint64(56)
    array([  0,  86, 219], dtype=uint64)
    """
    mixed = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hash_seeds(*numbers: int) -> Keys:
    """Return the increments that `hash_keys` adds to the keys: (number + 1) times 2^64 / phi."""
    return np.array([(number + 1) * 0x9E3779B97F4A7C15 % 2**64 for number in numbers], np.uint64)


def hash_keys(keys: Keys, *numbers: int) -> Keys:
    """Hash keys together with numbers such as a seed and a round. O(n) for each number."""
    return hash_with_seeds(keys, hash_seeds(*numbers))


def hash_with_seeds(keys: Keys, seeds: Keys) -> Keys:
    """Hash keys together with the `hash_seeds` of numbers."""
    for increment in seeds:
        keys = splitmix64(keys + increment)
    return keys
