"""Exponentials and logarithms with the same bits on every processor.

The last bit of NumPy's and the C library's functions depends on the processor, the operating system
and the version. These are sequences of additions, multiplications and divisions of 64-bit floats,
which IEEE 754 defines to the bit; the compiler fuses none of them. `engine/kernels.cu` has the same
sequences for GPUs. Errors are below 1 ulp (measured in `tests/engine/test_portable.py`).

    exp(x)    = 2^k exp(r),  r = x - k log(2) in [-0.35, 0.35], a polynomial of degree 13
    log(x)    = e log(2) + log(1 + f),  1 + f in [0.71, 1.41],
                log(1 + f) = 2 (s + s³/3 + s⁵/5 + ...),  s = f / (2 + f)
    log1p(x)  = log(1 + x), corrected by the rounding error of 1 + x

Scalar versions for kernels are in `precede.engine.portable_kernels`.
"""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Array, Floats
from precede.engine.compiling import njit
from precede.engine.portable_kernels import (
    evaluate_in_python,
    portable_exp,
    portable_log,
    portable_log1p,
)

# Pi as a fixed-point number with 100 fractional bits.
PI_FIXED_POINT = 3982441812995697363688351113952
# Up to this many logarithms are computed in pure Python, so that a first fit compiles less.
MAX_WITHOUT_KERNEL = 4


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
    _log_kernel(np.ravel(values), out.reshape(-1))
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


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _exp_kernel(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_exp(values[row])


@njit(cache=True, nogil=True)
def exp_inplace(values: Floats) -> None:
    """Replace values by their exponentials; a loop over a single array is vectorized."""
    for row in range(values.size):
        values[row] = portable_exp(values[row])


@njit(cache=True, nogil=True)
def _log_kernel(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_log(values[row])


@njit(cache=True, nogil=True)
def _log1p_kernel(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_log1p(values[row])
