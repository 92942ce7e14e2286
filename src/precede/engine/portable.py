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

Kernels use them number by number (`precede.engine.portable_kernels`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Floats
from precede.engine.portable_kernels import in_python, portable_exp, portable_log, portable_log1p

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
    """`log` of one number, without compiling anything.

    >>> log_of(1.0)
    0.0
    """
    return in_python("log", value)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _exp_of_rows(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_exp(values[row])


@njit(cache=True, nogil=True)
def exp_within(values: Floats) -> None:
    """Exponentials in the array itself: of one array, loops take several numbers at a time."""
    for row in range(values.size):
        values[row] = portable_exp(values[row])


@njit(cache=True, nogil=True)
def _log_of_rows(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_log(values[row])


@njit(cache=True, nogil=True)
def _log1p_of_rows(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_log1p(values[row])
