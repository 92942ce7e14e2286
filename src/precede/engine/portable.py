"""Exponentials and logarithms with the same bits on every processor.

The functions of the C library and of NumPy are accurate, but their last bit depends on the
processor, the operating system and the version. These are sequences of additions,
multiplications and divisions of 64-bit floats, which IEEE 754 defines to the bit; the compiler
fuses none of them. `engine/kernels.cu` has the same sequences for GPUs. Errors are below one unit
in the last place (measured in `tests/engine/test_portable.py`).

    exp(x)    = 2^k exp(r),  r = x - k log(2) in [-0.35, 0.35], a polynomial of degree 13
    log(x)    = e log(2) + log(1 + f),  1 + f in [0.71, 1.41],
                log(1 + f) = 2 (s + s³/3 + s⁵/5 + ...),  s = f / (2 + f)
    log1p(x)  the same, with what rounding took from 1 + x added to the result

A kernel calls no kernel of another file, so files that need one of these inside a loop have a
copy of the functions at the foot of this one; a test compares the copies.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Floats, Integer
from precede.engine.compiling import INNER

__all__ = [
    "cosines",
    "exp",
    "exp2",
    "exp_of",
    "exp_within",
    "expm1",
    "expm1_of",
    "log",
    "log1p",
    "log_of",
    "tanh",
]

# Pi times 2^100.
PI = 3982441812995697363688351113952
# Up to so many logarithms are taken one by one in Python: a first fit compiles less.
FEW = 4


def exp(values: Floats) -> Floats:
    """Exponential of every number, to the same bits everywhere.

    >>> import numpy as np
    >>> exp(np.array([0.0, 1.0, -np.inf, 710.0]))
    array([1.        , 2.71828183, 0.        ,        inf])
    """
    out = np.empty(values.shape)
    _exp_of_rows(np.ravel(values), out.reshape(-1))
    return out


def log(values: Floats) -> Floats:
    """Natural logarithm of every number, to the same bits everywhere.

    >>> import numpy as np
    >>> log(np.array([1.0, 0.0, np.inf]))
    array([  0., -inf,  inf])
    """
    if values.size <= FEW:
        return np.array([*map(log_of, values.flat)]).reshape(values.shape)
    out = np.empty(values.shape)
    _log_of_rows(np.ravel(values), out.reshape(-1))
    return out


def log1p(values: Floats) -> Floats:
    """``log(1 + x)`` of every number, to the same bits everywhere.

    >>> import numpy as np
    >>> log1p(np.array([0.0, 1e-300, -1.0]))
    array([0.e+000, 1.e-300,    -inf])
    """
    out = np.empty(values.shape)
    _log1p_of_rows(np.ravel(values), out.reshape(-1))
    return out


def exp2(values: Floats) -> Floats:
    """``2^x`` of every number, to the same bits everywhere and exact for whole numbers.

    >>> import numpy as np
    >>> exp2(np.array([-1.0, 3.0, 0.5]))
    array([0.5       , 8.        , 1.41421356])
    """
    whole = np.floor(np.clip(values, -1100.0, 1100.0))
    return np.ldexp(exp((values - whole) * 0.6931471805599453), whole.astype(np.int32))


def expm1(values: Floats) -> Floats:
    """``exp(x) - 1`` of every number, to the same bits everywhere.

    With u the rounded exponential it is ``(u - 1) x / log(u)``: the error of u cancels (Kahan).

    >>> import numpy as np
    >>> expm1(np.array([0.0, 1e-300, -np.inf, np.inf]))
    array([ 0.e+000,  1.e-300, -1.e+000,      inf])
    """
    raised = exp(values)
    less, plain = raised - 1.0, (raised == 1.0) | (raised < 1e-20) | np.isinf(raised)
    scale = np.where(plain, 1.0, values) / log(np.where(plain, np.e, raised))
    return np.where(raised == 1.0, values, less * np.where(plain, 1.0, scale))


def tanh(values: Floats) -> Floats:
    """Hyperbolic tangent of every number, to the same bits everywhere.

    >>> import numpy as np
    >>> tanh(np.array([0.0, -1.0, np.inf]))
    array([ 0.        , -0.76159416,  1.        ])
    """
    less = expm1(-2.0 * np.abs(values))
    return np.copysign(less / (2.0 + less), values)


def cosines(numbers: Array, parts: int) -> Floats:
    """``cos(pi number / parts)`` of whole numbers, rounded correctly: by integer arithmetic.

    >>> import numpy as np
    >>> cosines(np.array([0, 1, 2, 3]), 3)
    array([ 1. ,  0.5, -0.5, -1. ])
    """
    known = [_cosine(number, parts) for number in range(2 * parts)]
    return np.array(known)[np.asarray(numbers) % (2 * parts)]


def _cosine(number: int, parts: int) -> float:
    number = min(number, 2 * parts - number)
    if 2 * number >= parts:
        return -_cosine(parts - number, parts) if 2 * number > parts else 0.0
    angle = PI * number // parts
    square, term, total, k = angle * angle, 1 << 100, 0, 0
    while term:
        total += term
        k += 2
        term = -((term * square >> 200) // (k * (k - 1)))
    return total / (1 << 100)


def exp_of(value: float) -> float:
    """`exp` of one number.

    >>> exp_of(0.0)
    1.0
    """
    return float(exp(np.array([value], np.float64))[0])


def expm1_of(value: float) -> float:
    """`expm1` of one number.

    >>> expm1_of(0.0)
    0.0
    """
    return float(expm1(np.array([value], np.float64))[0])


def log_of(value: float) -> float:
    """`log` of one number: `_portable_log` step by step, without compiling anything.

    >>> log_of(1.0)
    0.0
    """
    if not 0.0 < value < math.inf:
        odd = value > 0.0 or math.isnan(value)
        return value if odd else (-math.inf if value == 0.0 else math.nan)
    m, e = math.frexp(value)  # m from 0.5 to 1
    if m <= 0.7071067811865476:
        m, e = 2.0 * m, e - 1
    f = m - 1.0
    ratio = f / (2.0 + f)
    square, z, p = 0.5 * f * f, ratio * ratio, 2.0 / 21.0
    for degree in range(19, 1, -2):
        p = p * z + 2.0 / degree
    small = ratio * (square + z * p) + e * 1.9082149292705877e-10
    return e * 0.6931471803691238 - ((square - small) - f)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _exp_of_rows(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = _portable_exp(values[row])


@njit(cache=True, nogil=True)
def exp_within(values: Floats) -> None:
    """Exponentials in the array itself: of one array, loops take several numbers at a time."""
    for row in range(values.size):
        values[row] = _portable_exp(values[row])


@njit(cache=True, nogil=True)
def _log_of_rows(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = _portable_log(values[row])


@njit(cache=True, nogil=True)
def _log1p_of_rows(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = _portable_log1p(values[row])


@njit(**INNER)
def _portable_exp(x: float) -> float:
    """Exponential; see `precede.engine.portable`."""
    near = x if x < 710.0 else 710.0  # beyond, the result is 0 or infinite all the same
    near = near if near > -746.0 else -746.0
    # Adding 1.5 * 2^52 rounds to a whole number, which is then in the last bits.
    shifted = near * 1.4426950408889634 + 6755399441055744.0
    k, number = shifted - 6755399441055744.0, np.float64(shifted).view(np.int64)
    number = number - 0x4338000000000000
    high, low = near - k * 0.6931471803691238, k * 1.9082149292705877e-10
    r = high - low
    lost = (high - r) - low
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    value = 1.0 + (r + (lost + r * r * p))
    # In two factors: the smallest results are rounded once, by the last product.
    half = number >> 1
    one = np.int64((half + 1023) << 52).view(np.float64)
    other = np.int64((number - half + 1023) << 52).view(np.float64)
    return x if np.isnan(x) else value * one * other


@njit(**INNER, error_model="numpy")
def _portable_log(x: float) -> float:
    """Natural logarithm; see `precede.engine.portable`."""
    if not 0.0 < x < np.inf:
        return x if x > 0.0 or np.isnan(x) else (-np.inf if x == 0.0 else np.nan)
    shift = np.int64(0)
    if x < 2.2250738585072014e-308:  # subnormal
        x, shift = x * 18014398509481984.0, np.int64(54)
    bits = np.float64(x).view(np.int64)
    e = (bits >> 52) - 1023 - shift
    m = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    if m > 1.4142135623730951:
        m, e = 0.5 * m, e + 1
    return _log_of_parts(m - 1.0, e, 0.0)


@njit(**INNER, error_model="numpy")
def _portable_log1p(x: float) -> float:
    """``log(1 + x)``; see `precede.engine.portable`."""
    if not -1.0 < x < np.inf:
        return x if x > 0.0 or np.isnan(x) else (-np.inf if x == -1.0 else np.nan)
    if -1.1102230246251565e-16 < x < 1.1102230246251565e-16:
        return x
    if -0.2928932188134524 < x < 0.41421356237309503:
        return _log_of_parts(x, np.int64(0), 0.0)
    whole = 1.0 + x
    lost = 1.0 - (whole - x) if x > 1.0 else x - (whole - 1.0)
    bits = np.float64(whole).view(np.int64)
    e = (bits >> 52) - 1023
    m = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    if m > 1.4142135623730951:
        m, e = 0.5 * m, e + 1
    return _log_of_parts(m - 1.0, e, lost / whole)


@njit(**INNER, error_model="numpy")
def _log_of_parts(f: float, e: Integer, more: float) -> float:
    """``log(1 + f) + e log(2) + more``; see `precede.engine.portable`."""
    s = f / (2.0 + f)
    z = s * s
    p = 0.09523809523809523
    p = p * z + 0.10526315789473684
    p = p * z + 0.11764705882352941
    p = p * z + 0.13333333333333333
    p = p * z + 0.15384615384615385
    p = p * z + 0.18181818181818182
    p = p * z + 0.2222222222222222
    p = p * z + 0.2857142857142857
    p = p * z + 0.4
    p = p * z + 0.6666666666666666
    square = 0.5 * f * f
    small = s * (square + z * p) + (np.float64(e) * 1.9082149292705877e-10 + more)
    return np.float64(e) * 0.6931471803691238 - ((square - small) - f)
