"""Exponentials and logarithms with the same bits on every processor."""

import hashlib
import json
import math
from decimal import Context, Decimal

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import precede
from precede.engine import portable
from precede.engine.portable import evaluate_in_python, fmax, fmin

EXACT = Context(prec=60, Emin=-(10**6), Emax=10**6)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def ulps(found, exact):
    """Return the largest error in units of the last place."""
    exact = np.asarray(exact, np.longdouble)
    unit = np.spacing(np.abs(exact).astype(np.float64)).astype(np.longdouble)
    return float((np.abs(found.astype(np.longdouble) - exact) / unit).max())


def ulps_of(found, exact):
    """Return the error of one number in units of the last place, by Decimal arithmetic."""
    return abs(Decimal(found) - exact) / Decimal(math.ulp(float(exact)))


needs_long_doubles = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long doubles are doubles here"
)


def numbers(name, count=400_000):
    """Return arguments of all sizes, many of them near the ends of the formulas' cases."""
    rng = np.random.default_rng(7)
    near = rng.normal(size=count) * 10.0 ** rng.uniform(-18, 0, count)
    if name == "exp":
        steps = np.arange(-1075, 1025) * math.log(2) / 2
        more = [rng.uniform(-745.2, 709.78, count), rng.uniform(-745.2, -708, count), steps]
        return np.concatenate([near, *more])
    sizes = np.exp(rng.uniform(-745, 709, count))
    if name == "log":
        cuts = np.sqrt(2.0) * 2.0 ** np.arange(-1070, 1020)
        more = [1 + near, rng.uniform(0.5, 2, count), cuts, np.nextafter(cuts, 0)]
        found = np.concatenate([sizes, *more])
        return found[found > 0]
    more = [near, -np.exp(rng.uniform(-700, -1e-12, count)), rng.uniform(-0.99, 3, count)]
    found = np.concatenate([sizes, *more, [math.sqrt(2) - 1, math.sqrt(0.5) - 1]])
    return found[found > -1]


@needs_long_doubles
@pytest.mark.parametrize("name", ["exp", "log", "log1p"])
def test_errors_are_below_one_unit_in_the_last_place(name):
    given = numbers(name)
    assert ulps(getattr(portable, name)(given), getattr(np, name)(given.astype(np.longdouble))) < 1


@given(st.floats(-745.1, 709.7))
def test_exp_beside_decimal_arithmetic(x):
    assert ulps_of(portable.exp(np.array([x]))[0], EXACT.exp(Decimal(x))) < 1


@given(FINITE.filter(lambda x: x > 0))
def test_log_beside_decimal_arithmetic(x):
    assert x == 1 or ulps_of(portable.log(np.array([x]))[0], EXACT.ln(Decimal(x))) < 1


@given(FINITE.filter(lambda x: x > -1 and abs(x) > 1e-30))
def test_log1p_beside_decimal_arithmetic(x):
    exact = EXACT.ln(EXACT.add(Decimal(1), Decimal(x)))
    assert ulps_of(portable.log1p(np.array([x]))[0], exact) < 1


@needs_long_doubles
@pytest.mark.parametrize(("name", "most"), [("expm1", 3), ("tanh", 6), ("exp2", 3)])
def test_errors_of_derived_functions(name, most):
    rng = np.random.default_rng(3)
    given = rng.normal(size=100_000) * 10.0 ** rng.uniform(-18, 1.3, 100_000)
    assert ulps(getattr(portable, name)(given), getattr(np, name)(given.astype(np.longdouble))) < (
        most
    )


def test_powers_of_two_are_exact():
    whole = np.arange(-1080.0, 1024.0)
    np.testing.assert_array_equal(portable.exp2(whole), np.ldexp(1.0, whole.astype(int)))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(portable.exp2(np.array([1e300, -1e300])), [np.inf, 0.0])


@pytest.mark.parametrize("parts", [1, 2, 9, 28])
def test_cosines_are_rounded_correctly(parts):
    numbers = np.arange(-5 * parts, 5 * parts)
    exact = np.cos(numbers.astype(np.longdouble) * np.pi / parts)
    found = portable.cosines(numbers, parts)
    np.testing.assert_allclose(found, exact.astype(np.float64), rtol=0, atol=4e-15)
    np.testing.assert_array_equal(found, portable.cosines(-numbers, parts))
    half = np.flatnonzero((2 * numbers) % (2 * parts) == parts)
    assert not found[half].any()
    assert portable.cosines(np.array([1]), 6)[0] == math.sqrt(3) / 2


def test_numbers_one_by_one():
    assert portable.exp_of(1) == portable.exp(np.ones(1))[0]
    assert portable.log_of(0) == -math.inf
    assert portable.expm1_of(1e-9) == pytest.approx(math.expm1(1e-9), rel=1e-15)
    ends = np.array([-math.inf, math.inf, 0.0, -800.0, 800.0, math.nan])
    np.testing.assert_array_equal(portable.expm1(ends), [-1, math.inf, 0, -1, math.inf, math.nan])
    np.testing.assert_array_equal(portable.tanh(ends), [-1, 1, 0, -1, 1, math.nan])


def test_zeros_infinities_and_nan():
    nan, inf = math.nan, math.inf
    tiny, huge = 5e-324, 1.7976931348623157e308
    for found, expected in [
        (portable.exp, {nan: nan, inf: inf, -inf: 0, 0.0: 1, tiny: 1, 709.79: inf,
                        -745.14: 0, -745.13: tiny, huge: inf, -huge: 0}),
        (portable.log, {nan: nan, inf: inf, -inf: nan, 0.0: -inf, 1.0: 0, -tiny: nan,
                        -1.0: nan}),
        (portable.log1p, {nan: nan, inf: inf, -inf: nan, 0.0: 0, tiny: tiny, -tiny: -tiny,
                          -1.0: -inf, -1.5: nan, 1e-17: 1e-17}),
    ]:  # fmt: skip
        np.testing.assert_array_equal(found(np.array([*expected])), [*expected.values()])
    zero = np.array([-0.0])
    assert (portable.exp(zero)[0], portable.log(zero)[0]) == (1, -inf)
    assert math.copysign(1, portable.log1p(zero)[0]) == -1


def test_few_logarithms_have_the_bits_of_many(monkeypatch):
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 2.3e-308, -1.0, 1e308, -1e308]
    given = np.concatenate([numbers("log", 3000), odd])
    many = portable.log(given)
    monkeypatch.setattr(portable, "MAX_WITHOUT_KERNEL", given.size)
    few = portable.log(given)
    np.testing.assert_array_equal(few, many)
    np.testing.assert_array_equal(np.signbit(few), np.signbit(many))


# Computed on x86-64; they hold on every processor that follows IEEE 754.
DIGESTS = {"exp": "e302a5594fc4d7ab", "log": "240b2fb430a3f708", "log1p": "cf9df511dd3355ad"}


@pytest.mark.parametrize("name", ["exp", "log", "log1p"])
def test_bits_are_those_of_other_machines(name):
    """The arguments are made of integers alone, without functions of the platform."""
    mixed = np.arange(200_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    share = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    sizes = np.ldexp(share, (mixed % np.uint64(64)).astype(np.int32))
    given = {"exp": 1400 * share - 700, "log": sizes, "log1p": 4 * share - 1}
    found = getattr(portable, name)(given[name])
    assert hashlib.sha256(found.astype("<f8").tobytes()).hexdigest()[:16] == DIGESTS[name]


def mixed(count):
    """Return pseudorandom integers, the same on every platform."""
    return np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)


def example(queries=True):
    """Return features of few bits, grades and queries, without functions of the platform."""
    X = (mixed(2400) % np.uint64(1021)).astype(np.float64).reshape(600, 4) / 1024.0
    y = np.floor(2.0 * (X[:, 0] + X[:, 1] * X[:, 2]) + (mixed(600) % np.uint64(3)) / 2.0)
    return X, np.minimum(y, 3), np.arange(600) // 30 if queries else None


STUMPS = {"n_estimators": 4, "learning_rate": 0.1}
TREES = {"n_estimators": 3, "num_leaves": 5, "reg_lambda": 5.0}
# By family of losses: estimator, parameters, whether there are queries, and the digest. Computed on
# x86-64 with AVX-512; with numba, NumPy, BLAS and the C library kept from AVX they are the same.
FITTED = {
    "exponential": ("RankBoost", STUMPS, True, "9a3fe2c6384efd37"),
    "bound": ("RankBoost", STUMPS | {"step": "bound"}, True, "cb7a6f505e4327e8"),
    "weighted": ("RankBoost", STUMPS | {"balance": "queries"}, True, "842712d18b72f676"),
    "push": ("PushRanker", STUMPS | {"n_estimators": 3, "price": 4}, True, "fb6567d288e41f64"),
    "top ranks": (
        "RankBoost",
        STUMPS | {"rank_weight": "ndcg@10"},
        True,
        "83cdf7f5ef585780",
    ),
    "ranks": (
        "BoostedRanker",
        {**TREES, "loss": "exponential", "rank_weight": precede.RankWeight()},
        True,
        "3dbc783ccc824093",
    ),
    "ranked pairs": (
        "BoostedRanker",
        {**TREES, "rank_weight": "ndcg@10"},
        True,
        "c74116b8ea227a1a",
    ),
    "logistic": ("BoostedRanker", TREES, True, "50b44b7d61fab31e"),
    "cells": ("BoostedRanker", TREES, False, "a80497449448b597"),
    "softmax": ("BoostedRanker", {**TREES, "loss": "softmax"}, True, "29e16ae276a57469"),
    "xendcg": (
        "BoostedRanker",
        {**TREES, "loss": "xendcg", "line_search": True},
        True,
        "83a7e2b4d252f725",
    ),
    "chances": (
        "BoostedRanker",
        {**TREES, "loss": "query_cross_entropy"},
        True,
        "7752f5e178fa01e4",
    ),
    "hinge": ("BoostedRanker", {**TREES, "loss": "hinge"}, True, "459afc7f2789131c"),
    "sweeps": (
        "BoostedRanker",
        {**TREES, "loss": "squared_hinge", "hessian": "bound", "line_search": True},
        False,
        "641d02a9b343b9b1",
    ),
    "preferences": ("QBRank", {"n_estimators": 3, "num_leaves": 5}, True, "7256e2b218ba5f5f"),
    "plus": ("RankBoostPlus", {"n_estimators": 4}, True, "18f011ac9182ead2"),
    "points": ("AdaBoostRanker", {"n_estimators": 4}, False, "fe00b808c170e8f2"),
}


@pytest.mark.parametrize("name", FITTED)
def test_models_are_those_of_other_machines(name):
    estimator, given, queries, digest = FITTED[name]
    X, y, qid = example(queries)
    if name == "chances":
        y = y / 4
    if name == "points":
        y = y > 1
    model = getattr(precede, estimator)(**given)
    weight = 1.0 + mixed(600) % np.uint64(3) if name == "weighted" else None
    model.fit(X, y, **({} if qid is None else {"qid": qid, "sample_weight": weight}))
    found = json.dumps(model.ensemble_.to_dict(), sort_keys=True)
    assert hashlib.sha256(found.encode()).hexdigest()[:16] == digest


# -- in kernels ----------------------------------------------------------------------------------

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
