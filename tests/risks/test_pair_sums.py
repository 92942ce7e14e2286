"""Sums over pairs by the form of the loss, compared with enumeration, and risks of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive
import strategies as some
from precede import Hinge, Judgments, Logistic, PairRisk, SquaredHinge
from precede.engine.execution import Context
from precede.losses import Smooth
from precede.risks import splits
from precede.risks.by_order import radix_argsort
from precede.risks.pair_sums import PairSums

KERNELS = {"value": 0, "slope": 1, "curvature": 2}


def log_sums(made, loss, scores, source, kernels, *, winners, jobs=1):
    """Return the logarithmic sums of the library by row."""
    layout = made.to_layout()
    with Context(jobs) as context, np.errstate(divide="ignore"):
        sums = PairSums(layout, loss, context)
        over = sums.over_winners if winners else sums.over_losers
        found = over(scores[layout.order], np.log(source)[layout.order], kernels)
    rows = np.full((len(kernels), len(made)), -np.inf)
    rows[:, layout.order] = found
    return rows


@pytest.mark.parametrize("name", some.LOSSES)
@pytest.mark.parametrize("winners", [True, False])
def test_sums_equal_enumeration(name, winners):
    """All kernels, all kinds of judgments, sources of weight 0 included."""
    check_sums(name, winners)


@pytest.mark.parametrize("name", [name for name in some.LOSSES if "hinge" in name])
@pytest.mark.parametrize("winners", [True, False])
def test_sums_of_long_splits_equal_enumeration(name, winners, monkeypatch):
    """Hinges sort long splits by radix; the threshold makes every split long."""
    monkeypatch.setattr("precede.risks.by_order.LONG_SPLIT_ROWS", 2)
    check_sums(name, winners)


def check_sums(name, winners):
    loss, twin, gap = some.LOSSES[name]

    @given(some.judgments(weighted=False), st.data())
    @settings(max_examples=15)
    def check(made, data):
        size = len(made)
        scores = data.draw(some.scores(size, spread=4.0))
        choice = st.sampled_from([0.0, 0.5, 1.0, 3.0])
        source = np.array(data.draw(st.lists(choice, min_size=size, max_size=size)))
        expected = np.zeros((3, size))
        for p in naive.list_pairs(made):
            margin = naive.Decimal(scores[p.winner]) - naive.Decimal(scores[p.loser])
            margin -= naive.Decimal(p.gap if gap else 0.0)
            give, take = (p.winner, p.loser) if winners else (p.loser, p.winner)
            for j, part in enumerate(twin):
                expected[j, take] += source[give] * p.inner * abs(float(part(margin)))
        found = log_sums(made, loss, scores, source, tuple(KERNELS), winners=winners)
        assert_allclose(np.exp(found), expected, rtol=1e-12, atol=1e-300)

    check()


@given(st.lists(st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, -1.0]), max_size=60))
def test_radix_argsort_equals_a_stable_argsort(values):
    values = np.array(values, float)
    order = radix_argsort(values)
    assert sorted(order) == list(range(values.size))
    assert_array_equal(values[order], np.sort(values))
    for before, after in pairwise(order):  # stable, but -0 comes before 0
        if values[before] == values[after] != 0:
            assert before < after


def test_sums_of_a_long_split_follow_the_scores_in_an_array_that_is_used_again(monkeypatch):
    monkeypatch.setattr("precede.risks.by_order.LONG_SPLIT_ROWS", 2)
    layout = Judgments.bipartite([0, 1, 0, 1, 0]).to_layout()
    again, fresh = (PairSums(layout, SquaredHinge(1.0)) for _ in range(2))
    scores, source = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.zeros(5)
    again.over_winners(scores, source, ("value",))
    scores[:] = scores[::-1].copy()
    for over in ("over_winners", "over_losers"):
        assert_array_equal(
            getattr(again, over)(scores, source, ("value",)),
            getattr(fresh, over)(scores.copy(), source, ("value",)),
        )


@pytest.mark.parametrize("winners", [True, False])
def test_smooth_sums_are_the_same_enumerated_and_interpolated(winners):
    """Splits are enumerated or interpolated depending on their size; both are exact to 1e-13."""
    rng = np.random.default_rng(0)
    n = 6000
    scores = 3 * rng.standard_normal(n)
    made = Judgments(np.arange(n) % 2)
    source = rng.random(n)
    found = log_sums(made, Logistic(), scores, source, ("value", "slope"), winners=winners)
    some_rows = np.arange(0 if winners else 1, n, 2)[:50]
    others = np.arange(1 if winners else 0, n, 2)
    margin = scores[others][:, None] - scores[some_rows][None, :]
    margin = margin if winners else -margin
    for j, kernel in enumerate((Logistic().value, lambda m: -Logistic().slope(m))):
        expected = source[others] @ kernel(margin)
        assert_allclose(np.exp(found[j, some_rows]), expected, rtol=1e-13)


def test_smooth_sums_do_not_depend_on_the_number_of_threads(tiny_thresholds):
    """Moments are summed in chunks of fixed size and order."""
    rng = np.random.default_rng(1)
    n = 70_000  # more than one block of moments
    made = Judgments((rng.random(n) < 0.5).astype(float))
    scores, source = 4 * rng.standard_normal(n), rng.random(n)
    one, three = (
        log_sums(made, Logistic(), scores, source, ("slope",), winners=True, jobs=jobs)
        for jobs in (1, 3)
    )
    assert_array_equal(one, three)


@pytest.mark.parametrize("spread", [30.0, 700.0, 1500.0, 1e5])
@pytest.mark.parametrize("n", [20, 400])
def test_smooth_sums_of_scores_that_are_far_apart(spread, n):
    """Where the loss underflows a sum is 0 or a denormal number, never NaN."""
    rng = np.random.default_rng(2)
    scores = spread * rng.uniform(-1, 1, n)
    made = Judgments(np.arange(n) % 2)
    found = log_sums(made, Logistic(), scores, np.ones(n), ("value", "slope"), winners=True)
    margin = scores[1::2][:, None] - scores[0::2][None, :]
    with np.errstate(divide="ignore", under="ignore"):
        value = np.log(np.logaddexp(0, -margin).sum(axis=0))
        slope = np.log(np.exp(-np.logaddexp(0, margin)).sum(axis=0))
    assert not np.isnan(found).any()
    usual = value > -600
    assert_allclose(found[0, 0::2][usual], value[usual], atol=1e-12)
    assert_allclose(found[1, 0::2][usual], slope[usual], atol=1e-12)


@pytest.mark.parametrize("width", [0.5, 2.0])
def test_cells_of_another_width_give_the_same_sums(width):
    class Other(Logistic):
        form = Smooth(width=width, nodes=20)

    rng = np.random.default_rng(3)
    made = Judgments(rng.integers(0, 3, 3000))
    scores = 2 * rng.standard_normal(3000)
    ours, theirs = (
        log_sums(made, loss, scores, np.ones(3000), ("value",), winners=True)
        for loss in (Other(), Logistic())
    )
    assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("price", [1, 4])
@pytest.mark.parametrize(("levels", "width"), [(2, 6.0), (5, 30.0), (40, 3.0)])
def test_logistic_risk_of_a_large_query(price, levels, width):
    """Splits of thousands of rows go through Chebyshev moments: 1e-12 against all pairs."""
    rng = np.random.default_rng(levels)
    n = 2500
    grade = rng.integers(0, levels, n).astype(float)
    scores = width * rng.standard_normal(n) / 2
    weight = rng.choice([0.5, 1.0, 3.0], n)
    made = Judgments(grade, weight=weight)
    margin = scores[:, None] - scores[None, :]
    above = (grade[:, None] > grade[None, :]) * weight[:, None]
    loss_sum = (above * np.logaddexp(0, -margin)).sum(axis=0, where=above > 0)
    price_slope = (
        weight * price * np.where(loss_sum > 0, loss_sum, 1) ** (price - 1) * (loss_sum > 0)
    )
    force = above * np.exp(-np.logaddexp(0, margin)) * price_slope[None, :]
    risk = PairRisk("logistic", price)
    assert_allclose(risk.value(made, scores), (weight * loss_sum**price).sum(), rtol=1e-12)
    expected = force.sum(axis=1) - force.sum(axis=0)
    assert_allclose(risk.pull(made, scores), expected, atol=1e-12 * force.sum())


def test_a_loss_without_a_form_is_summed_in_tiles(monkeypatch):
    """Many tiles of a few rows give what one tile gives."""
    rng = np.random.default_rng(0)
    made = Judgments(rng.integers(0, 3, 60), qid=rng.integers(0, 2, 60))
    scores = rng.integers(-20, 20, 60) / 8
    risk = PairRisk(some.Hyperbolic(), 2)
    whole = risk.pull(made, scores)
    monkeypatch.setattr(splits, "TILE_ROWS", 7)
    assert_allclose(risk.pull(made, scores), whole, rtol=1e-13)


@pytest.mark.parametrize("rows", [300, 20_000])
def test_pairs_on_the_kink_of_a_hinge_count_for_both_rows_or_neither(rows):
    """Decimal fractions: sums over winners and over losers compare the same rounded numbers."""
    rng = np.random.default_rng(0)
    made = Judgments(rng.integers(0, 2, rows))
    risk = PairRisk(Hinge(), 2).bind(made)
    pull = risk.state(rng.integers(-30, 30, rows) / 10).pull
    assert abs(pull.sum()) < 1e-11
