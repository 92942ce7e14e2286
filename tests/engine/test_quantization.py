"""Quantized pulls and weights: units, layout and ranges of words."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive_trees import quantize
from precede.engine import quantization
from precede.engine.execution import Context
from precede.engine.quantization import MAX_BLOCK_ROWS, power_factors

SIZES = st.integers(-300, 300).map(lambda k: 2.0**k)
NUMBERS = st.lists(
    st.tuples(st.floats(-1, 1, allow_subnormal=False), st.floats(0, 1, allow_subnormal=False)),
    min_size=1, max_size=30,
)  # fmt: skip


def rounded(values, bits):
    """Return the integers nearest to values * 2^bits, halves to even."""
    return [round(Fraction(value) * Fraction(2) ** bits) for value in values.tolist()]


@given(NUMBERS, SIZES, SIZES, st.booleans())
def test_integers_are_the_nearest_multiples_of_the_units(rows, size, weight_size, wide):
    pull, weight = np.array(rows).T * [[size], [weight_size]]
    numbers = quantize(pull, weight, Context(1), wide=wide)
    if not (pull.any() and weight.any()):
        assert numbers is None
        return
    pull_bits = -math.frexp(numbers.pull_unit)[1] + 1
    weight_bits = -math.frexp(numbers.weight_unit)[1] + 1
    if wide:
        pulls, weights = numbers.pull, numbers.weight_count >> numbers.count_bits
        counts = numbers.weight_count & (2**numbers.count_bits - 1)
        # Sums of all rows fit, with a bit to spare for rounding.
        assert sum(map(abs, pulls.tolist())) < 2**61
        assert sum(weights.tolist()) << numbers.count_bits < 2**63
        assert sum(map(abs, pulls.tolist())) >= 2**59 - len(rows)
    else:
        pulls, weights = numbers.packed >> 38, (numbers.packed >> 12) & (2**26 - 1)
        counts = numbers.packed & 4095
        mean = sum(map(abs, pulls.tolist())) / len(rows)
        assert 2**12 - 1 <= mean <= 2**13
    assert (counts == 1).all()
    assert pulls.tolist() == rounded(pull, pull_bits)
    assert weights.tolist() == rounded(weight, weight_bits)
    assert numbers.total == pytest.approx(np.abs(pull).sum(), rel=1e-12)


@pytest.mark.parametrize("count", [1, 100, 5000])
def test_any_sum_of_packed_weights_fits_beside_the_count(count):
    weight = np.full(count, 1.0)
    numbers = quantize(np.ones(count), weight, Context(1))
    total = int(((numbers.packed >> 12) & (2**26 - 1)).sum())
    assert (total << numbers.count_bits) + count < 2**63
    assert total * numbers.weight_unit == pytest.approx(count)


@pytest.mark.parametrize("which", ["pull", "weight"])
def test_a_number_far_beyond_the_mean_is_not_packed(which):
    rows = {"pull": np.ones(10_000), "weight": np.ones(10_000)}
    rows[which][3] = 700.0
    assert quantize(**rows, context=Context(1)).packed is not None
    rows[which][3] = 1e6
    numbers = quantize(**rows, context=Context(1))
    assert numbers.packed is None
    assert (numbers.pull * numbers.pull_unit == rows["pull"]).all()


def test_the_largest_packed_numbers_leave_room_for_others():
    """A word holds a block of average rows, and any row together with some others."""
    assert (quantization.MAX_PULL, quantization.MAX_WEIGHT) == (2.0**23, 2.0**24)
    assert quantization.MAX_PULL < 2 ** (quantization.PULL_BITS - 1) / 3
    assert quantization.MAX_WEIGHT < 2**quantization.WEIGHT_BITS / 3
    assert MAX_BLOCK_ROWS * 2**quantization.MEAN_PULL_BITS <= 2 ** (quantization.PULL_BITS - 1)
    assert MAX_BLOCK_ROWS * 2**quantization.MEAN_WEIGHT_BITS <= 2**quantization.WEIGHT_BITS
    assert MAX_BLOCK_ROWS < 2**quantization.COUNT_BITS


@pytest.mark.parametrize("bits", [-1070, -3, 0, 5, 1200, 2000])
def test_two_factors_exceed_the_range_of_one_float(bits):
    one, other = power_factors(bits)
    assert Fraction(one) * Fraction(other) == Fraction(2) ** bits


@pytest.mark.parametrize("wide", [True, False])
def test_threads_and_order_change_nothing(wide, tiny_thresholds):
    rng = np.random.default_rng(0)
    pull, weight, order = rng.normal(size=99), rng.random(99), rng.permutation(99)
    alone = quantize(pull, weight, Context(1), wide=wide)
    with Context(3) as context:
        shared = quantize(pull[order], weight[order], context, wide=wide)
    names = ("pull", "weight_count") if wide else ("packed",)
    for name in names:
        np.testing.assert_array_equal(getattr(alone, name)[order], getattr(shared, name))
    assert (alone.pull_unit, alone.weight_unit) == (shared.pull_unit, shared.weight_unit)
    assert (alone.total, alone.exact_bits) == (shared.total, shared.exact_bits)


def test_zero_pulls_or_weights_give_none():
    assert quantize(np.zeros(3), np.ones(3), Context(1)) is None
    assert quantize(np.ones(3), np.zeros(3), Context(1)) is None
    assert quantize(np.empty(0), np.empty(0), Context(1)) is None
