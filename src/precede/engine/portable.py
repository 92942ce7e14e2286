"""Exponentials and logarithms with the same bits on every processor, for arrays and for kernels.

The last bit of NumPy's and the C library's functions depends on the processor, the operating system
and the version. These are sequences of additions, multiplications and divisions of 64-bit floats,
which IEEE 754 defines to the bit; the compiler fuses none of them. `engine/kernels.cu` has the same
sequences for GPUs. Errors are below 1 ulp (measured in `tests/engine/test_portable.py`).

    exp(x)    = 2^k exp(r),  r = x - k log(2) in [-0.35, 0.35], a polynomial of degree 13
    log(x)    = e log(2) + log(1 + f),  1 + f in [0.71, 1.41],
                log(1 + f) = 2 (s + s³/3 + s⁵/5 + ...),  s = f / (2 + f)
    log1p(x)  = log(1 + x), corrected by the rounding error of 1 + x

Each formula is written once, over abstract numbers, and inlined into kernels as LLVM instructions
(`numba.extending.intrinsic`): callers compile fast, and since there are no branches, loops are
vectorized. With ``NUMBA_DISABLE_JIT=1`` the same steps run on Python's numbers.

Kernels call `portable_exp`, `portable_log`, `portable_log1p`, and `fmin` and `fmax` instead of
`min` and `max` of two numbers, which numba compiles as separate functions, a tenth of a second for
every type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, Union, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, types
from numba.extending import intrinsic

from precede.engine.arrays import Array, Floats
from precede.engine.arrays import Integer as Number
from precede.engine.compiling import INNER, njit

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing import Signature

# Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits.
SHIFT, SHIFT_BITS = 6755399441055744.0, 0x4338000000000000
# log(2) as a sum; products of the high part with integers below 2^20 are exact.
LOG_2_HIGH, LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10
SQRT_2 = 1.4142135623730951
EXP_COEFFICIENTS = tuple(1 / math.factorial(degree) for degree in range(13, 1, -1))
LOG_COEFFICIENTS = tuple(2 / degree for degree in range(21, 2, -2))
# Pi as a fixed-point number with 100 fractional bits.
PI_FIXED_POINT = 3982441812995697363688351113952
# Up to this many logarithms are computed in pure Python, so that a first fit compiles less.
MAX_WITHOUT_KERNEL = 4


# -- arrays ------------------------------------------------------------------------------------


def exp(values: Floats) -> Floats:
    """Return exp(x) elementwise, with the same bits on every processor.

    >>> import numpy as np
    >>> exp(np.array([0.0, 1.0, -np.inf, 710.0]))
    array([1.        , 2.71828183, 0.        ,        inf])
    """
    out = np.empty(values.shape)
    _exp_kernel(np.ravel(values), out.reshape(-1))
    return out


def log(values: Floats) -> Floats:
    """Return log(x) elementwise, with the same bits on every processor.

    >>> import numpy as np
    >>> log(np.array([1.0, 0.0, np.inf]))
    array([  0., -inf,  inf])
    """
    if values.size <= MAX_WITHOUT_KERNEL:
        return np.array([*map(log_of, values.flat)]).reshape(values.shape)
    out = np.empty(values.shape)
    log_array(np.ravel(values), out.reshape(-1))
    return out


def log1p(values: Floats) -> Floats:
    """Return log(1 + x) elementwise, with the same bits on every processor.

    >>> import numpy as np
    >>> log1p(np.array([0.0, 1e-300, -1.0]))
    array([0.e+000, 1.e-300,    -inf])
    """
    out = np.empty(values.shape)
    _log1p_kernel(np.ravel(values), out.reshape(-1))
    return out


def exp2(values: Floats) -> Floats:
    """Return 2^x elementwise, with the same bits on every processor; exact for integers.

    >>> import numpy as np
    >>> exp2(np.array([-1.0, 3.0, 0.5]))
    array([0.5       , 8.        , 1.41421356])
    """
    whole = np.floor(np.clip(values, -1100.0, 1100.0))
    return np.ldexp(exp((values - whole) * 0.6931471805599453), whole.astype(np.int32))


def expm1(values: Floats) -> Floats:
    """Return exp(x) - 1 elementwise, with the same bits on every processor.

    Computed as ``(u - 1) x / log(u)`` with u the rounded exponential, whose error cancels (Kahan).

    >>> import numpy as np
    >>> expm1(np.array([0.0, 1e-300, -np.inf, np.inf]))
    array([ 0.e+000,  1.e-300, -1.e+000,      inf])
    """
    u = exp(values)
    difference, uncorrected = u - 1.0, (u == 1.0) | (u < 1e-20) | np.isinf(u)
    scale = np.where(uncorrected, 1.0, values) / log(np.where(uncorrected, np.e, u))
    return np.where(u == 1.0, values, difference * np.where(uncorrected, 1.0, scale))


def tanh(values: Floats) -> Floats:
    """Return tanh(x) elementwise, with the same bits on every processor.

    >>> import numpy as np
    >>> tanh(np.array([0.0, -1.0, np.inf]))
    array([ 0.        , -0.76159416,  1.        ])
    """
    decay = expm1(-2.0 * np.abs(values))
    return np.copysign(decay / (2.0 + decay), values)


def cosines(numbers: Array, parts: int) -> Floats:
    """Return cos(pi number / parts) of integers, correctly rounded by integer arithmetic.

    >>> import numpy as np
    >>> cosines(np.array([0, 1, 2, 3]), 3)
    array([ 1. ,  0.5, -0.5, -1. ])
    """
    period = [_cosine_fixed_point(number, parts) for number in range(2 * parts)]
    return np.array(period)[np.asarray(numbers) % (2 * parts)]


def _cosine_fixed_point(number: int, parts: int) -> float:
    number = min(number, 2 * parts - number)
    if 2 * number >= parts:
        return -_cosine_fixed_point(parts - number, parts) if 2 * number > parts else 0.0
    angle = PI_FIXED_POINT * number // parts
    square, term, total, k = angle * angle, 1 << 100, 0, 0
    while term:
        total += term
        k += 2
        term = -((term * square >> 200) // (k * (k - 1)))
    return total / (1 << 100)


def exp_of(value: float) -> float:
    """Return `exp` of one number.

    >>> exp_of(0.0)
    1.0
    """
    return float(exp(np.array([value], np.float64))[0])


def expm1_of(value: float) -> float:
    """Return `expm1` of one number.

    >>> expm1_of(0.0)
    0.0
    """
    return float(expm1(np.array([value], np.float64))[0])


def log_of(value: float) -> float:
    """Return `log` of one number, without compiling anything.

    >>> log_of(1.0)
    0.0
    """
    return evaluate_in_python("log", value)


# -- formulas --------------------------------------------------------------------------------------
#
# Numbers are annotated as those of Python, for which a `_LlvmValue` stands in.


class Operations(Protocol):
    """The operations without an operator."""

    def choose(self, condition: bool, one: float, other: float) -> float:
        """Return `one` if the condition holds, else `other`."""
        ...

    def bits(self, x: float) -> int:
        """Return the bits of a float as an integer."""
        ...

    def from_bits(self, number: int) -> float:
        """Return the float of these bits."""
        ...


def _exp(x: float, ops: Operations) -> float:
    clipped = ops.choose(x < 710.0, x, 710.0)  # beyond, the result is inf or 0 as well
    clipped = ops.choose(clipped > -746.0, clipped, -746.0)
    shifted = clipped * 1.4426950408889634 + SHIFT
    k, exponent = shifted - SHIFT, ops.bits(shifted) - SHIFT_BITS
    high, low = clipped - k * LOG_2_HIGH, k * LOG_2_LOW
    r = high - low
    rounding = (high - r) - low
    p = EXP_COEFFICIENTS[0]
    for factor in EXP_COEFFICIENTS[1:]:
        p = r * p + factor
    value = (r + (rounding + r * r * p)) + 1.0
    # Scale by two powers of two, so that subnormal results are rounded once, by the last product.
    half = exponent >> 1
    one = ops.from_bits((half + 1023) << 52)
    other = ops.from_bits((exponent - half + 1023) << 52)
    return ops.choose(x == x, value * one * other, x)  # noqa: PLR0124  (NaN is not itself)


def _log(x: float, ops: Operations) -> float:
    subnormal = x < 2.2250738585072014e-308
    m, e = _mantissa_and_exponent(ops.choose(subnormal, x * 2.0**54, x), ops)
    e = e - ops.choose(subnormal, 54.0, 0.0)
    value = ops.choose(x < math.inf, _log_from_parts(m - 1.0, e, 0.0), x)
    return ops.choose(x > 0.0, value, ops.choose(x == 0.0, -math.inf, math.nan))


def _log1p(x: float, ops: Operations) -> float:
    valid = ops.choose(x > -1.0, x, 0.0)
    near_zero = (valid > -0.2928932188134524) & (valid < 0.41421356237309503)
    total = valid + 1.0
    # The rounding error of 1 + x.
    error = ops.choose(valid > 1.0, -((total - valid) - 1.0), valid - (total - 1.0))
    m, e = _mantissa_and_exponent(total, ops)
    f, e = ops.choose(near_zero, valid, m - 1.0), ops.choose(near_zero, 0.0, e)
    value = _log_from_parts(f, e, ops.choose(near_zero, 0.0, error / total))
    tiny = (valid > -(2.0**-53)) & (valid < 2.0**-53)
    value = ops.choose(x < math.inf, ops.choose(tiny, x, value), x)
    return ops.choose(x > -1.0, value, ops.choose(x == -1.0, -math.inf, math.nan))


def _mantissa_and_exponent(x: float, ops: Operations) -> tuple[float, float]:
    """Split a normal number x = m 2^e into ``m`` from 0.71 to 1.41 and an integer ``e``."""
    bits = ops.bits(x)
    m = ops.from_bits((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    e = ops.from_bits(((bits >> 52) & 0x7FF) - 1023 + SHIFT_BITS) - SHIFT
    large = m > SQRT_2
    return ops.choose(large, m * 0.5, m), e + ops.choose(large, 1.0, 0.0)


def _log_from_parts(f: float, e: float, correction: float) -> float:
    """Return ``log(1 + f) + e log(2) + correction``."""
    s = f / (f + 2.0)
    z = s * s
    p = LOG_COEFFICIENTS[0]
    for factor in LOG_COEFFICIENTS[1:]:
        p = z * p + factor
    square = f * 0.5 * f
    small = s * (square + z * p) + (e * LOG_2_LOW + correction)
    return e * LOG_2_HIGH - ((square - small) - f)


# -- in Python -------------------------------------------------------------------------------------


class _PythonOps:
    """Operations on Python numbers."""

    @staticmethod
    def choose(condition: bool, one: float, other: float) -> float:
        return one if condition else other

    @staticmethod
    def bits(x: float) -> int:
        return int(struct.unpack("<q", struct.pack("<d", x))[0])

    @staticmethod
    def from_bits(number: int) -> float:
        return float(struct.unpack("<d", struct.pack("<q", number))[0])


def evaluate_in_python(name: str, x: float) -> float:
    """Evaluate `"exp"`, `"log"` or `"log1p"` of a number in pure Python.

    >>> evaluate_in_python("exp", 0.0), evaluate_in_python("log1p", -1.0)
    (1.0, -inf)
    """
    return float({"exp": _exp, "log": _log, "log1p": _log1p}[name](float(x), _PythonOps))


# -- in kernels ------------------------------------------------------------------------------------

DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)
Values = Sequence[ir.Value]
# What an intrinsic returns for the types of its arguments: its signature, and its code generator.
Typed = tuple["Signature", Callable[..., ir.Value]]


Operand = Union["_LlvmValue", int, float]


class _LlvmValue:
    """A value in a kernel that is being compiled; operators emit LLVM instructions."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value):
        self._builder, self.value = builder, value

    def _operand(self, other: Operand) -> ir.Value:
        return other.value if isinstance(other, _LlvmValue) else ir.Constant(self.value.type, other)

    def _arithmetic(self, name: str, other: Operand) -> _LlvmValue:
        float_ = self.value.type == DOUBLE
        emit = getattr(self._builder, f"f{name}" if float_ else name)
        return _LlvmValue(self._builder, emit(self.value, self._operand(other)))

    def _compare(self, sign: str, other: Operand) -> _LlvmValue:
        result = self._builder.fcmp_ordered(sign, self.value, self._operand(other))
        return _LlvmValue(self._builder, result)

    def __add__(self, other: Operand) -> _LlvmValue:
        return self._arithmetic("add", other)

    def __sub__(self, other: Operand) -> _LlvmValue:
        return self._arithmetic("sub", other)

    def __mul__(self, other: Operand) -> _LlvmValue:
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Operand) -> _LlvmValue:
        return self._arithmetic("div", other)

    def __neg__(self) -> _LlvmValue:
        return _LlvmValue(self._builder, self._builder.fneg(self.value))

    def __lt__(self, other: Operand) -> _LlvmValue:
        return self._compare("<", other)

    def __gt__(self, other: Operand) -> _LlvmValue:
        return self._compare(">", other)

    def __eq__(self, other: Operand) -> _LlvmValue:  # type: ignore[override]
        return self._compare("==", other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Operand) -> _LlvmValue:
        return _LlvmValue(self._builder, self._builder.and_(self.value, self._operand(other)))

    def __or__(self, other: Operand) -> _LlvmValue:
        return _LlvmValue(self._builder, self._builder.or_(self.value, self._operand(other)))

    def __lshift__(self, count: int) -> _LlvmValue:
        return _LlvmValue(self._builder, self._builder.shl(self.value, self._operand(count)))

    def __rshift__(self, count: int) -> _LlvmValue:
        return _LlvmValue(self._builder, self._builder.ashr(self.value, self._operand(count)))


class _LlvmOps:
    """Operations on `_LlvmValue`s."""

    def __init__(self, builder: ir.IRBuilder):
        self._builder = builder

    def _float(self, x: Operand) -> ir.Value:
        return x.value if isinstance(x, _LlvmValue) else ir.Constant(DOUBLE, x)

    def choose(self, condition: _LlvmValue, one: Operand, other: Operand) -> _LlvmValue:
        both = self._float(one), self._float(other)
        return _LlvmValue(self._builder, self._builder.select(condition.value, *both))

    def bits(self, x: _LlvmValue) -> _LlvmValue:
        return _LlvmValue(self._builder, self._builder.bitcast(x.value, INTEGER))

    def from_bits(self, number: _LlvmValue) -> _LlvmValue:
        return _LlvmValue(self._builder, self._builder.bitcast(number.value, DOUBLE))


def _make_intrinsic(formula: Callable[..., float]) -> Callable[[float], float]:
    """Return a function for kernels that inlines a formula."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda x: formula(float(x), _PythonOps)

    # numba reads the names of all arguments.
    def typed(_: BaseContext, x: types.Type) -> Typed:  # noqa: ARG001
        def generate(
            _: BaseContext, builder: ir.IRBuilder, _signature: Signature, arguments: Values
        ) -> ir.Value:
            return formula(_LlvmValue(builder, arguments[0]), _LlvmOps(builder)).value  # type: ignore[attr-defined]

        return types.float64(types.float64), generate

    return cast("Callable[[float], float]", intrinsic(typed))


def _make_min_or_max(sign: str, plain: Callable[..., Number]) -> Callable[[Number, Number], Number]:
    """Return `min` or `max` for kernels: `other` if ``other sign one``, else `one`."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return plain

    def typed(_: BaseContext, one: types.Type, other: types.Type) -> Typed | None:
        floats = isinstance(one, types.Float) or isinstance(other, types.Float)

        def generate(
            _: BaseContext, builder: ir.IRBuilder, _signature: Signature, arguments: Values
        ) -> ir.Value:
            one, other = arguments
            compare = builder.fcmp_ordered if floats else builder.icmp_signed
            return builder.select(compare(sign, other, one), other, one)

        kind = types.float64 if floats else types.int64
        if not all(getattr(each, "signed", True) for each in (one, other)):
            return None
        return kind(kind, kind), generate

    return cast("Callable[[Number, Number], Number]", intrinsic(typed))


portable_exp = _make_intrinsic(_exp)
portable_log = _make_intrinsic(_log)
portable_log1p = _make_intrinsic(_log1p)
fmin = _make_min_or_max("<", min)
fmax = _make_min_or_max(">", max)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _exp_kernel(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_exp(values[row])


@njit(**INNER)
def exp_array(values: Floats) -> None:
    """Replace values by their exponentials; a loop over a single array is vectorized."""
    for row in range(values.size):
        values[row] = portable_exp(values[row])


@njit(cache=True, nogil=True)
def log_array(values: Floats, out: Floats) -> None:
    """Write the logarithms of the values to `out`."""
    for row in range(values.size):
        out[row] = portable_log(values[row])


@njit(cache=True, nogil=True)
def _log1p_kernel(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_log1p(values[row])
