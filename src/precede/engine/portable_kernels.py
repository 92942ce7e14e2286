"""`exp`, `log` and `log1p` for kernels, with the same bits on every processor; `smaller`, `larger`.

Each is written once, as steps on numbers, and numba is given the instructions of these steps
(`numba.extending.intrinsic`): a kernel that uses one has nothing more to compile than the
instructions, and no function to call. There are no branches, so loops take several numbers at a
time. Where the JIT is switched off (``NUMBA_DISABLE_JIT=1``) the same steps are taken in Python.
The formulas are in `precede.engine.portable`, which has these functions for arrays.

`smaller` and `larger` are `min` and `max` of two numbers, which numba compiles as functions of
their own, a tenth of a second for every kind of numbers.

(numba keeps compiled kernels until their own file changes: after a change here, touch the files
that import it.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, types
from numba.extending import intrinsic

__all__ = [
    "fmax",
    "fmin",
    "in_python",
    "portable_exp",
    "portable_log",
    "portable_log1p",
]

# Adding 1.5 * 2^52 rounds to a whole number, which is then in the last bits.
SHIFT, BITS_OF_SHIFT = 6755399441055744.0, 0x4338000000000000
# log(2) in two parts: products of the first with whole numbers below 2^20 are exact.
LOG_2, REST_OF_LOG_2 = 0.6931471803691238, 1.9082149292705877e-10
ROOT_2 = 1.4142135623730951
OF_EXP = tuple(1 / math.factorial(degree) for degree in range(13, 1, -1))
OF_LOG = tuple(2 / degree for degree in range(21, 2, -2))


# -- the steps -------------------------------------------------------------------------------------
#
# `x` is a float or stands for one; `of` has what is no operator: `choose`, `bits` and `from_bits`.


def _exp(x: Any, of: Any) -> Any:
    near = of.choose(x < 710.0, x, 710.0)  # beyond, the result is 0 or infinite all the same
    near = of.choose(near > -746.0, near, -746.0)
    shifted = near * 1.4426950408889634 + SHIFT
    k, number = shifted - SHIFT, of.bits(shifted) - BITS_OF_SHIFT
    high, low = near - k * LOG_2, k * REST_OF_LOG_2
    r = high - low
    lost = (high - r) - low
    p = OF_EXP[0]
    for factor in OF_EXP[1:]:
        p = r * p + factor
    value = (r + (lost + r * r * p)) + 1.0
    # In two factors: the smallest results are rounded once, by the last product.
    half = number >> 1
    one = of.from_bits((half + 1023) << 52)
    other = of.from_bits((number - half + 1023) << 52)
    return of.choose(x == x, value * one * other, x)  # noqa: PLR0124  (NaN is not itself)


def _log(x: Any, of: Any) -> Any:
    subnormal = x < 2.2250738585072014e-308
    m, e = _parts(of.choose(subnormal, x * 2.0**54, x), of)
    e = e - of.choose(subnormal, 54.0, 0.0)
    value = of.choose(x < math.inf, _log_of_parts(m - 1.0, e, 0.0), x)
    return of.choose(x > 0.0, value, of.choose(x == 0.0, -math.inf, math.nan))


def _log1p(x: Any, of: Any) -> Any:
    inside = of.choose(x > -1.0, x, 0.0)
    near = (inside > -0.2928932188134524) & (inside < 0.41421356237309503)
    whole = inside + 1.0
    # What rounding took from 1 + x.
    lost = of.choose(inside > 1.0, -((whole - inside) - 1.0), inside - (whole - 1.0))
    m, e = _parts(whole, of)
    f, e = of.choose(near, inside, m - 1.0), of.choose(near, 0.0, e)
    value = _log_of_parts(f, e, of.choose(near, 0.0, lost / whole))
    tiny = (inside > -(2.0**-53)) & (inside < 2.0**-53)
    value = of.choose(x < math.inf, of.choose(tiny, x, value), x)
    return of.choose(x > -1.0, value, of.choose(x == -1.0, -math.inf, math.nan))


def _parts(x: Any, of: Any) -> tuple[Any, Any]:
    """``m`` from 0.71 to 1.41 and a whole ``e`` such that x = m 2^e, of a normal number."""
    bits = of.bits(x)
    m = of.from_bits((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    e = of.from_bits(((bits >> 52) & 0x7FF) - 1023 + BITS_OF_SHIFT) - SHIFT
    large = m > ROOT_2
    return of.choose(large, m * 0.5, m), e + of.choose(large, 1.0, 0.0)


def _log_of_parts(f: Any, e: Any, more: Any) -> Any:
    """``log(1 + f) + e log(2) + more``."""
    s = f / (f + 2.0)
    z = s * s
    p = OF_LOG[0]
    for factor in OF_LOG[1:]:
        p = z * p + factor
    square = f * 0.5 * f
    small = s * (square + z * p) + (e * REST_OF_LOG_2 + more)
    return e * LOG_2 - ((square - small) - f)


# -- in Python -------------------------------------------------------------------------------------


class _Plain:
    """Operations on Python's numbers."""

    @staticmethod
    def choose(condition: bool, one: float, other: float) -> float:
        return one if condition else other

    @staticmethod
    def bits(x: float) -> int:
        return int(struct.unpack("<q", struct.pack("<d", x))[0])

    @staticmethod
    def from_bits(number: int) -> float:
        return float(struct.unpack("<d", struct.pack("<q", number))[0])


def in_python(name: str, x: float) -> float:
    """`"exp"`, `"log"` or `"log1p"` of a number, step by step in Python.

    >>> in_python("exp", 0.0), in_python("log", 1.0), in_python("log1p", -1.0)
    (1.0, 0.0, -inf)
    """
    return float({"exp": _exp, "log": _log, "log1p": _log1p}[name](float(x), _Plain))


# -- in kernels ------------------------------------------------------------------------------------

DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)


class _Value:
    """A value of a kernel that is being compiled: operators add instructions to it."""

    def __init__(self, builder: Any, value: Any):
        self._builder, self.value = builder, value

    def _with(self, other: Any) -> Any:
        return other.value if isinstance(other, _Value) else ir.Constant(self.value.type, other)

    def _made(self, name: str, other: Any) -> _Value:
        float_ = self.value.type == DOUBLE
        make = getattr(self._builder, f"f{name}" if float_ else name)
        return _Value(self._builder, make(self.value, self._with(other)))

    def _compared(self, sign: str, other: Any) -> _Value:
        made = self._builder.fcmp_ordered(sign, self.value, self._with(other))
        return _Value(self._builder, made)

    def __add__(self, other: Any) -> _Value:
        return self._made("add", other)

    def __sub__(self, other: Any) -> _Value:
        return self._made("sub", other)

    def __mul__(self, other: Any) -> _Value:
        return self._made("mul", other)

    def __truediv__(self, other: Any) -> _Value:
        return self._made("div", other)

    def __neg__(self) -> _Value:
        return _Value(self._builder, self._builder.fneg(self.value))

    def __lt__(self, other: Any) -> _Value:
        return self._compared("<", other)

    def __gt__(self, other: Any) -> _Value:
        return self._compared(">", other)

    def __eq__(self, other: object) -> Any:
        return self._compared("==", other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> _Value:
        return _Value(self._builder, self._builder.and_(self.value, self._with(other)))

    def __or__(self, other: Any) -> _Value:
        return _Value(self._builder, self._builder.or_(self.value, self._with(other)))

    def __lshift__(self, count: int) -> _Value:
        return _Value(self._builder, self._builder.shl(self.value, self._with(count)))

    def __rshift__(self, count: int) -> _Value:
        return _Value(self._builder, self._builder.ashr(self.value, self._with(count)))


class _Compiled:
    """Operations on values of a kernel."""

    def __init__(self, builder: Any):
        self._builder = builder

    def _float(self, x: Any) -> Any:
        return x.value if isinstance(x, _Value) else ir.Constant(DOUBLE, x)

    def choose(self, condition: _Value, one: Any, other: Any) -> _Value:
        both = self._float(one), self._float(other)
        return _Value(self._builder, self._builder.select(condition.value, *both))

    def bits(self, x: _Value) -> _Value:
        return _Value(self._builder, self._builder.bitcast(x.value, INTEGER))

    def from_bits(self, number: _Value) -> _Value:
        return _Value(self._builder, self._builder.bitcast(number.value, DOUBLE))


def _for_kernels(steps: Callable[[Any, Any], Any]) -> Any:
    """What kernels call for these steps."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda x: steps(float(x), _Plain)

    def typed(_: Any, x: Any) -> Any:  # noqa: ARG001  (numba looks at the names of all arguments)
        def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            return steps(_Value(builder, arguments[0]), _Compiled(builder)).value

        return types.float64(types.float64), generate

    return _built_in(typed)


def _chosen(sign: str, plain: Callable[..., Any]) -> Any:
    """The second of two numbers if it compares so with the first, else the first."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return plain

    def typed(_: Any, one: Any, other: Any) -> Any:
        floats = isinstance(one, types.Float) or isinstance(other, types.Float)

        def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            one, other = arguments
            compare = builder.fcmp_ordered if floats else builder.icmp_signed
            return builder.select(compare(sign, other, one), other, one)

        kind = types.float64 if floats else types.int64
        if not all(getattr(each, "signed", True) for each in (one, other)):
            return None
        return kind(kind, kind), generate

    return _built_in(typed)


def _built_in(typed: Callable[..., Any]) -> Any:
    """What kernels call; numba declares it as never returning."""
    return intrinsic(typed)


portable_exp: Callable[[float], float] = _for_kernels(_exp)
portable_log: Callable[[float], float] = _for_kernels(_log)
portable_log1p: Callable[[float], float] = _for_kernels(_log1p)
fmin: Callable[[Any, Any], Any] = _chosen("<", min)
fmax: Callable[[Any, Any], Any] = _chosen(">", max)
