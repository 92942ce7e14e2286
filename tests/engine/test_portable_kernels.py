"""Exponentials, logarithms, `fmin` and `fmax` in kernels."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from precede.engine import portable
from precede.engine.portable_kernels import evaluate_in_python, fmax, fmin

NUMBERS = st.floats(allow_subnormal=True)
WHOLE = st.integers(-(2**62), 2**62)


@njit
def both(one, other):
    return fmin(one, other), fmax(one, other)


def same_bits(found, wanted):
    return (math.isnan(found) and math.isnan(wanted)) or (
        (found, math.copysign(1, found)) == (wanted, math.copysign(1, wanted))
    )


@pytest.mark.parametrize("name", ["exp", "log", "log1p"])
@given(x=NUMBERS)
def test_formulas_in_python_have_the_bits_of_kernels(name, x):
    many = np.full(portable.MAX_WITHOUT_KERNEL + 1, x)  # enough to call the kernel
    found = getattr(portable, name)(many)
    assert same_bits(evaluate_in_python(name, x), found[0])
    assert same_bits(found[0], found[-1])


@pytest.mark.parametrize("name", ["log", "log1p"])
def test_formulas_near_the_ends_of_their_cases(name):
    edges = [0.41421356237309503, -0.2928932188134524, 1.4142135623730951, 2.0**-53, 1.0, 2.0]
    edges = np.array([*edges, 2.2250738585072014e-308, 0.5])
    near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    found = getattr(portable, name)(near)
    for x, value in zip(near, found, strict=True):
        assert same_bits(evaluate_in_python(name, x), value)
        exact = getattr(math, name)(x) if x > (-1 if name == "log1p" else 0) else math.nan
        assert math.isnan(exact) or value == pytest.approx(exact, rel=3e-16, abs=0)


@given(one=NUMBERS, other=NUMBERS)
def test_fmin_and_fmax_of_floats_are_those_of_python(one, other):
    found = both(one, other)
    assert same_bits(found[0], min(one, other))
    assert same_bits(found[1], max(one, other))


@given(one=WHOLE, other=WHOLE)
def test_fmin_and_fmax_of_integers_are_those_of_python(one, other):
    assert both(one, other) == (min(one, other), max(one, other))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="Python compares them as they are")
def test_unsigned_numbers_are_refused():
    """They would be compared as signed ones."""
    with pytest.raises(numba.TypingError):
        both(np.uint64(1), np.uint64(2))
