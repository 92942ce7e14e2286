"""Estimates, standard errors, intervals and tests against their slow twins."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

import naive_evaluation as naive
from precede import Judgments, inference, metrics
from precede.engine.compiling import interpreted
from precede.inference import (
    Estimate,
    auc,
    compare,
    friedman,
    hoeffding_decomposition,
    holm,
    mean_metric,
    nemenyi,
    ranking_risk,
    split_sample_risk,
)

DATES = np.array(["2020-01-01", "NaT"], "M8[D]")
CLOSE = {"rel_tol": 1e-9, "abs_tol": 1e-12}
labels = {
    "two": st.integers(0, 1),
    "grades": st.integers(-1, 3),
    "reals": st.floats(-5, 5),
}
tied = st.integers(0, 4).map(float)
spread = st.floats(-100, 100) | st.sampled_from([math.inf, -math.inf])


@st.composite
def samples(draw, kinds=("two", "grades", "reals"), least=3, queries=False):
    """Labels, two score vectors and (if asked) query ids with at least one comparable pair."""
    n = draw(st.integers(least, 14))
    label = labels[draw(st.sampled_from(kinds))]
    y = draw(st.lists(label, min_size=n, max_size=n))
    score = draw(st.sampled_from([tied, spread]))
    a, b = (draw(st.lists(score, min_size=n, max_size=n)) for _ in range(2))
    qid = draw(st.lists(st.sampled_from("pqrs"), min_size=n, max_size=n)) if queries else None
    groups = [0] * n if qid is None else qid
    assume(any(groups[i] == groups[j] and y[i] != y[j] for i in range(n) for j in range(i)))
    return y, a, b, qid


def check_error(estimate, expected):
    """The jackknife agrees, or is absent for a stated reason exactly where it is worthless."""
    if estimate.std_error is None:
        assert estimate.reason
        assert math.isnan(expected) or expected < 1e-9
    else:
        assert math.isclose(estimate.std_error, expected, **CLOSE)


def twin(function, *args):
    try:
        return function(*args)
    except ZeroDivisionError:
        return math.nan


@settings(max_examples=150, deadline=None)
@given(samples(), st.sampled_from(["half", "wrong"]), st.sampled_from(["all", "comparable"]))
def test_risk_of_items_equals_the_double_sum(sample, ties, pairs):
    y, a, _, _ = sample
    tie = 0.5 if ties == "half" else 1.0

    estimate = ranking_risk(y, a, ties=ties, pairs=pairs)

    assert math.isclose(estimate.value, naive.risk(y, a, tie, pairs), **CLOSE)
    _, comparable, total = naive.pair_sums(y, a, tie)
    assert estimate.n_pairs == (total if pairs == "all" else comparable) / 2
    assert estimate.n_items == len(y)
    assert estimate.n_queries is None
    if pairs == "all" or len(set(y)) > 2:
        check_error(estimate, naive.item_jackknife(y, a, tie, pairs))


@settings(max_examples=150, deadline=None)
@given(
    samples(queries=True),
    st.sampled_from(["half", "wrong"]),
    st.sampled_from(["all", "comparable", "pooled"]),
)
def test_risk_of_queries_equals_the_double_sum(sample, ties, pairs):
    y, a, _, qid = sample
    tie = 0.5 if ties == "half" else 1.0

    estimate = ranking_risk(y, a, qid=qid, ties=ties, pairs=pairs)

    assert math.isclose(estimate.value, naive.query_risk(y, a, qid, tie, pairs), **CLOSE)
    form = "all" if pairs == "all" else "comparable"
    values = [naive.risk(u, v, tie, form) for u, v in naive.by_query(y, a, qid)]
    kept = sum(not math.isnan(v) for v in values)
    assert (estimate.n_queries, estimate.n_skipped) == (kept, len(values) - kept)
    check_error(estimate, twin(naive.query_jackknife, y, a, qid, tie, pairs))


@settings(max_examples=100, deadline=None)
@given(samples(kinds=("two",)))
def test_two_grades_give_delong(sample):
    y, a, b, _ = sample
    value, error = naive.delong(y, a) if min(map(y.count, set(y))) > 1 else (None, math.nan)
    area, pair_error = auc(y, a), ranking_risk(y, a, pairs="comparable")

    assert math.isclose(area.value, 1 - pair_error.value, **CLOSE)
    assert area.std_error == pair_error.std_error or math.isclose(
        area.std_error, pair_error.std_error, **CLOSE
    )
    check_error(area, error)
    if value is not None:
        assert math.isclose(area.value, value, **CLOSE)
        difference, paired = naive.delong(y, a, b)
        result = compare(y, a, b, metric="auc")
        assert math.isclose(result.difference, difference, **CLOSE)
        check_error(result, paired)


@settings(max_examples=100, deadline=None)
@given(samples())
def test_paired_difference_of_items(sample):
    y, a, b, _ = sample
    result = compare(y, a, b)

    expected = naive.risk(y, a) - naive.risk(y, b)
    assert math.isclose(result.difference, expected, **CLOSE)
    check_error(result, naive.item_jackknife(y, a, 0.5, "all", b))
    if len(set(y)) > 2:
        result = compare(y, a, b, metric="pair_error")
        check_error(result, naive.item_jackknife(y, a, 0.5, "comparable", b))


@settings(max_examples=100, deadline=None)
@given(
    samples(queries=True, least=5),
    st.sampled_from(
        ["ranking_risk", "pair_error", "pooled_pair_error", "auc", "pairwise_accuracy"]
    ),
)
def test_paired_difference_of_queries(sample, metric):
    y, a, b, qid = sample
    pairs = {"ranking_risk": "all", "pooled_pair_error": "pooled"}.get(metric, "comparable")
    form = "all" if pairs == "all" else "comparable"
    values = [naive.risk(u, v, 0.5, form) for u, v in naive.by_query(y, a, qid)]
    if sum(not math.isnan(v) for v in values) < 2:
        with pytest.raises(ValueError, match="independent queries"):
            compare(y, a, b, qid=qid, metric=metric)
        return

    result = compare(y, a, b, qid=qid, metric=metric)

    one, two = (naive.query_risk(y, s, qid, 0.5, pairs) for s in (a, b))
    expected = two - one if metric in ("auc", "pairwise_accuracy") else one - two
    assert math.isclose(result.difference, expected, **CLOSE)
    if result.std_error is not None:
        assert -1 <= result.interval(0.99).low <= result.difference <= result.interval(0.99).high
        assert result.interval(0.99).high <= 1
    check_error(result, twin(naive.query_jackknife, y, a, qid, 0.5, pairs, b))


@settings(max_examples=60, deadline=None)
@given(
    samples(queries=True, least=5), st.sampled_from(["pair_error", "pairwise_accuracy", "ndcg@3"])
)
def test_compared_values_are_those_of_evaluate(sample, name):
    """A metric and its name mean the same, and the convention says which values they are."""
    y, a, b, qid = sample
    assume(np.isfinite([*a, *b]).all())  # `evaluate` refuses others
    y = [abs(each) for each in y]  # gains
    try:
        result = compare(y, a, b, qid=qid, metric=name)
    except ValueError:
        return
    ties = {"half": "average", "worst": "worst"}[result.convention.removeprefix(
        "mean over queries, ties ")]  # fmt: skip
    assert (ties == "worst") == name.startswith("ndcg")
    for value, scores in ((result.value_a, a), (result.value_b, b)):
        expected = metrics.evaluate(y, scores, qid, metrics=name, ties=ties).mean[name]
        assert math.isclose(value, expected, **CLOSE)
    assert compare(y, a, b, qid=qid, metric=metrics.metric(name)) == result
    assert f"{name} ({result.convention}): a " in str(result)


def test_pooled_values_say_so():
    y, a, b, qid = [0, 1, 0, 0, 1], [1, 2, 3, 1, 2], [2, 1, 1, 1, 2], [0, 0, 1, 1, 1]
    result = compare(y, a, b, qid=qid, metric="pooled_pair_error")
    assert result.convention == "pooled over queries, ties half"
    pooled = metrics.evaluate(y, a, qid, metrics="pair_error").pooled["pair_error"]
    assert (
        result.value_a
        == pooled
        != metrics.evaluate(y, a, qid, metrics="pair_error").mean["pair_error"]
    )


@settings(max_examples=60, deadline=None)
@given(samples(queries=True, least=5))
def test_sign_flips_over_queries_are_exact_when_few(sample):
    y, a, b, qid = sample
    sizes = [len(u) for u, _ in naive.by_query(y, a, qid)]
    assume(sum(n > 1 for n in sizes) > 1)
    result = compare(y, a, b, qid=qid, method="randomization")

    both = [[naive.risk(u, v) for u, v in naive.by_query(y, s, qid)] for s in (a, b)]
    gaps = [p - q for p, q in zip(*both, strict=True) if not math.isnan(p)]
    assert math.isclose(result.p_value, naive.sign_flip_p(gaps), **CLOSE)
    assert result.n_draws == 2 ** len(gaps)


def test_drawn_sign_flips_agree_with_all_of_them(monkeypatch):
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(12), 5)
    y, a, b = rng.integers(0, 3, 60), rng.normal(size=60), rng.normal(size=60)
    exact = compare(y, a, b, qid=qid, metric="pair_error", method="randomization")
    # Three empty queries (one label only) are skipped and must not count among the 13.
    more = np.concatenate([qid, np.repeat([90, 91, 92], 5)])
    far = [np.concatenate([v, np.zeros(15)]) for v in (y, a, b)]
    same = compare(*far, qid=more, metric="pair_error", method="randomization")
    assert same.p_value == exact.p_value
    assert same.n_skipped == 3
    doubled = [np.concatenate([v, v]) for v in (y, a, b)]
    drawn = compare(
        *doubled, qid=np.concatenate([qid, qid + 20]), method="randomization", random_state=3
    )
    again = compare(
        *doubled, qid=np.concatenate([qid, qid + 20]), method="randomization", random_state=3
    )
    assert drawn.n_draws == 9999
    assert drawn.p_value == again.p_value
    gaps = np.array(
        [
            naive.risk(list(y[qid == q]), list(a[qid == q]))
            - naive.risk(list(y[qid == q]), list(b[qid == q]))
            for q in range(12)
        ]
    )
    signs = np.random.default_rng(1).choice([-1, 1], size=(100_000, 24))
    expected = (abs(signs @ np.tile(gaps, 2)) >= abs(2 * gaps.sum()) - 1e-12).mean()
    assert abs(drawn.p_value - expected) < 5 * math.sqrt(expected * (1 - expected) / 9999)


def test_exchange_of_mid_ranks_by_hand():
    # Two items, one of each class: a is right, b is wrong. Exchanging both or none gives the
    # observed gap of 1; exchanging one makes both rankers tie, a gap of 0. So p is near 1/2.
    result = compare([0, 1], [1.0, 2.0], [2.0, 1.0], method="randomization", random_state=0)

    assert result.difference == -1.0
    assert abs(result.p_value - 0.5) < 0.06
    assert "mid-ranks" in result.exchanged
    assert result.std_error is None
    far = compare([0, 1] * 30, [0.0, 1.0] * 30, list(range(60)), method="randomization")
    assert far.p_value == 1 / 2000


@settings(max_examples=100, deadline=None)
@given(st.floats(0, 1), st.integers(1, 500), st.floats(0.5, 0.999))
def test_bernstein_interval_inverts_equation_one(value, blocks, level):
    estimate = Estimate("risk", value, None, "bernstein", 9, 9, blocks=blocks)
    found = estimate.interval(level)

    grid = np.linspace(0, 1, 401)
    inside = [naive.bernstein_allows(t, value, blocks, 1 - level) for t in grid]
    for truth, allowed in zip(grid, inside, strict=True):
        if min(abs(truth - found.low), abs(truth - found.high)) > 1e-9:
            assert allowed == (truth in found)


def test_bernstein_counts_independent_terms():
    rng = np.random.default_rng(0)
    y, scores, qid = rng.integers(0, 3, 31), rng.normal(size=31), np.arange(31) // 4
    assert ranking_risk(y, scores, method="bernstein").blocks == 15
    assert ranking_risk(y, scores, qid=qid, method="bernstein").blocks == 8
    assert auc([0, 0, 0, 1, 1], [1, 2, 3, 4, 5], method="bernstein").blocks == 2
    assert mean_metric([0.5, 0.5, 1.0], method="bernstein").blocks == 3
    with pytest.raises(ValueError, match="ratio of sums"):
        ranking_risk(y, scores, pairs="comparable", method="bernstein")
    with pytest.raises(ValueError, match="ratio of sums"):
        ranking_risk(y, scores, qid=qid, pairs="pooled", method="bernstein")
    with pytest.raises(ValueError, match=r"from -1 to 2"):
        mean_metric([-1.0, 2.0], method="bernstein")


def test_bernstein_works_where_the_error_is_zero():
    estimate = ranking_risk([0, 1, 2, 3], [1, 2, 3, 4], method="bernstein")
    assert estimate.std_error is None
    assert estimate.interval().low == 0.0
    assert 0.5 < estimate.interval().high <= 1.0


@pytest.mark.parametrize("pairs", ["all", "comparable", "pooled"])
@pytest.mark.parametrize("queries", [False, True])
def test_bootstrap_centers_on_the_estimate_and_matches_the_jackknife(pairs, queries):
    rng = np.random.default_rng(4)
    n = 240
    y = rng.integers(0, 3, n)
    scores = y + rng.normal(size=n)
    qid = np.arange(n) // 6 if queries else None
    if pairs == "pooled" and not queries:
        with pytest.raises(ValueError, match="need qid"):
            ranking_risk(y, scores, pairs=pairs)
        return
    plain = ranking_risk(y, scores, qid=qid, pairs=pairs)
    drawn = ranking_risk(y, scores, qid=qid, pairs=pairs, method="bootstrap", random_state=1)

    assert drawn.value == plain.value
    assert abs(drawn.replicates.mean() - plain.value) < 0.15 * plain.std_error
    assert math.isclose(drawn.std_error, plain.std_error, rel_tol=0.1)
    again = ranking_risk(y, scores, qid=qid, pairs=pairs, method="bootstrap", random_state=1)
    assert again.interval() == drawn.interval()
    assert plain.value in drawn.interval(0.5)
    narrow, wide = drawn.interval(0.5), drawn.interval(0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_bootstrap_of_items_equals_its_replicates_by_listing():
    rng = np.random.default_rng(5)
    y, scores = rng.integers(0, 3, 12), rng.integers(0, 5, 12).astype(float)
    for pairs in ("all", "comparable"):
        found = ranking_risk(y, scores, pairs=pairs, method="bootstrap", random_state=7)
        again = np.random.default_rng(7)
        order = np.argsort(y, kind="stable")
        expected = []
        for _ in range(2000):
            drawn = order[again.integers(12, size=12)]
            wrong, comparable, _ = naive.pair_sums(y[drawn], scores[drawn], 0.5)
            below = 11**2 if pairs == "all" else comparable
            expected.append(wrong / below if below else math.nan)
        expected = [v for v in expected if not math.isnan(v)]
        assert np.allclose(found.replicates, expected)
    area = auc(y > 0, scores, method="bootstrap", random_state=7)
    assert abs(area.replicates.mean() - area.value) < 0.02


def test_bootstrap_without_pairs_in_many_resamples_says_so():
    estimate = ranking_risk([0, 0, 1, 2], [1, 2, 2, 1], pairs="comparable", method="bootstrap")
    assert estimate.reason
    assert estimate.std_error is None


def test_logit_interval_stays_inside_and_plain_is_symmetric():
    y, scores = [0, 0, 0, 0, 1, 1, 1, 1], [1, 2, 3, 6, 4, 5, 7, 8]
    logit, unit = auc(y, scores).interval(0.99), auc(y, scores, scale="unit").interval(0.99)
    assert 0 < logit.low < logit.high < 1
    assert unit.high == 1.0
    estimate = auc(y, scores, scale="unit")
    ends = estimate.interval(0.2)
    assert math.isclose(ends.low + ends.high, 2 * estimate.value)
    center = [math.log(v / (1 - v)) for v in (logit.low, estimate.value, logit.high)]
    assert math.isclose(center[0] + center[2], 2 * center[1])
    # The derivative of the logit is 1/(v(1 − v)), so narrow intervals agree on both scales.
    narrow = [auc(y, scores, scale=scale).interval(0.001) for scale in ("logit", "unit")]
    assert math.isclose(*(ends.high - ends.low for ends in narrow), rel_tol=1e-4)


def test_mean_metric_is_the_t_interval():
    from scipy.stats import ttest_1samp

    values = np.random.default_rng(1).beta(2, 1, size=17)
    expected = ttest_1samp(values, 0.5)
    estimate = mean_metric([*values, math.nan])
    ends = expected.confidence_interval(0.9)
    assert math.isclose(estimate.interval(0.9).low, ends.low)
    assert math.isclose(estimate.interval(0.9).high, ends.high)
    assert (estimate.n_queries, estimate.n_skipped) == (17, 1)


def test_paired_t_test_of_queries_is_scipys():
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(2)
    qid, y = np.repeat(np.arange(20), 6), rng.integers(0, 4, 120)
    a, b = y + rng.normal(size=120), y + 2 * rng.normal(size=120)
    both = [[naive.risk(u, v) for u, v in naive.by_query(y, s, qid)] for s in (a, b)]
    expected = ttest_rel(*both)
    result = compare(y, a, b, qid=qid)
    assert math.isclose(result.p_value, expected.pvalue)
    assert math.isclose(result.interval().low, expected.confidence_interval().low)


def test_pooled_degrees_count_the_effective_queries():
    rng = np.random.default_rng(0)
    sizes = [2, 2, 2, 2, 30]
    qid = np.repeat(np.arange(5), sizes)
    y, scores = np.arange(38.0), rng.normal(size=38)
    pairs = np.array([n * (n - 1) for n in sizes])
    estimate = ranking_risk(y, scores, qid=qid, pairs="pooled")
    assert math.isclose(estimate.degrees, pairs.sum() ** 2 / (pairs**2).sum() - 1)
    assert ranking_risk(y, scores, qid=qid).degrees == 4


def test_metrics_of_the_library_are_compared_over_queries():
    evaluate = pytest.importorskip("precede.metrics").evaluate
    rng = np.random.default_rng(3)
    qid, y = np.repeat(np.arange(25), 8), rng.integers(0, 3, 200)
    y[qid == 4] = 0
    a, b = y + rng.normal(size=200), rng.normal(size=200)
    result = compare(y, a, b, qid=qid, metric="ndcg@5")
    tables = [evaluate(y, s, qid=qid, metrics=("ndcg@5",)).per_query["ndcg@5"] for s in (a, b)]
    gaps = tables[0] - tables[1]
    assert math.isclose(result.difference, np.nanmean(gaps))
    assert result.n_skipped == int(np.isnan(gaps).sum())
    assert result.p_value < 0.001
    kept = gaps[~np.isnan(gaps)]
    assert math.isclose(result.std_error, kept.std(ddof=1) / math.sqrt(len(kept)))


def test_labels_and_queries_may_be_anything_that_sorts():
    y, scores = [3.5, -1.0, 2.0, 7.0], [1, 2, 3, 4]
    assert ranking_risk(y, scores).value == ranking_risk([2, 0, 1, 3], scores).value
    assert ranking_risk([True, False, False, True], scores).n_pairs == 6
    shuffled = ranking_risk(y, scores, qid=["b", "a", "b", "a"], pairs="pooled")
    assert shuffled.value == ranking_risk(y, scores, qid=[9, 1, 9, 1], pairs="pooled").value


@pytest.mark.parametrize("ids", [[1, "1", 2.5, (1, 2)], ["a", "b", "c", "d"], [True, 2, "x", 0]])
def test_queries_of_any_type(ids):
    rng = np.random.default_rng(0)
    number = rng.integers(0, 4, 40)
    y, a, b = rng.integers(0, 3, 40), rng.normal(size=40), rng.normal(size=40)
    qid = [ids[q] for q in number]
    for metric in ("ranking_risk", "pooled_pair_error", "ndcg@3"):
        found, expected = (compare(y, a, b, q, metric=metric) for q in (qid, number))
        assert math.isclose(found.difference, expected.difference, **CLOSE)
        assert math.isclose(found.std_error, expected.std_error, **CLOSE)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"qid\[39\] is <NA>"):
        ranking_risk(y, a, pandas.Series([*qid[:-1], pandas.NA], dtype=object))


def test_judgments_bring_grades_and_queries():
    rng = np.random.default_rng(0)
    y, a, b = rng.integers(0, 3, 40), rng.normal(size=40), rng.normal(size=40)
    qid = np.arange(40) // 8
    assert str(ranking_risk(Judgments(y), a)) == str(ranking_risk(y, a))
    assert str(ranking_risk(Judgments(y, qid), a)) == str(ranking_risk(y, a, qid))
    weighted = Judgments(y, qid, weight=np.ones(40))
    for metric in ("pair_error", "ndcg@5"):
        expected = compare(y, a, b, qid, metric=metric)
        assert compare(weighted, a, b, metric=metric) == expected
    assert str(auc(Judgments(y > 0), a)) == str(auc(y > 0, a))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (Judgments(qid=[1] * 4), "without grades"),
        (Judgments([0, 1, 0, 1], weight=[1, 2, 1, 1]), "y has item weights.*precede.metrics"),
        (Judgments([0, 1, 0, math.nan]), r"y\[3\] is nan"),
    ],
)
def test_judgments_that_say_more_or_less_than_grades_are_refused(y, words):
    s = [1, 2, 3, 4]
    calls = [lambda: ranking_risk(y, s), lambda: auc(y, s), lambda: compare(y, s, s)]
    for call in calls:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(ValueError, match="qid is given with a Judgments"):
        ranking_risk(y, s, [1, 1, 2, 2])
    with pytest.raises(ValueError, match="y has queries, but auc takes one list"):
        auc(Judgments([0, 1, 0, 1], [1, 1, 2, 2]), s)


@settings(max_examples=50, deadline=None)
@given(samples(), st.randoms(use_true_random=False))
def test_order_of_rows_and_increasing_maps_change_nothing(sample, random):
    y, a, _, _ = sample
    order = list(range(len(y)))
    random.shuffle(order)
    one = ranking_risk(y, a)
    two = ranking_risk([y[i] for i in order], [math.atan(a[i]) for i in order])
    assume(len(set(map(math.atan, a))) == len(set(a)))
    assert math.isclose(one.value, two.value, **CLOSE)
    assert one.std_error is two.std_error or math.isclose(one.std_error, two.std_error, **CLOSE)


def test_identical_rankers_differ_by_nothing():
    y, scores = [0, 1, 0, 1, 2], [1, 2, 3, 4, 5]
    result = compare(y, scores, [v * 2 for v in scores])
    assert (result.difference, result.p_value, result.std_error) == (0.0, 1.0, None)
    assert "no interval: all units agree" in str(result)
    with pytest.raises(ValueError, match="all units agree"):
        result.interval()
    flipped = compare([0, 1] * 4, [0, 1] * 4, [1, 0] * 4, qid=np.repeat(range(4), 2))
    assert (flipped.difference, flipped.p_value) == (-1.0, None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ranking_risk([0, 1, 2], [1, 2, 3]), "bernstein"),
        (lambda: ranking_risk([0, 1], [2, 1]), "independent items: 2; give at least 3"),
        (lambda: auc([0, 1, 1], [1, 2, 0]), "single item"),
        (
            lambda: ranking_risk([0, 1, 2, 0], [2, 1, 3, 4], qid=[1, 1, 1, 1]),
            "independent queries: 1",
        ),
        (lambda: ranking_risk([0, 1, 1, 1], [1, 0, 2, 2], pairs="comparable"), "single item"),
        (lambda: mean_metric([0.3]), "independent queries: 1"),
        (lambda: mean_metric([0.3, 0.3, 0.3]), "all units agree"),
    ],
)
def test_an_interval_that_cannot_be_had_is_absent_with_the_reason(make, words):
    estimate = make()
    assert estimate.std_error is None
    assert words in estimate.reason
    assert f"no interval: {estimate.reason}" in str(estimate)
    assert estimate.to_dict()["interval"] is None
    with pytest.raises(ValueError, match="no interval"):
        estimate.interval()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ranking_risk([0, 1], [1.0, math.nan]), r"scores\[1\] is nan"),
        (lambda: ranking_risk([0, math.nan], [1.0, 2.0]), r"y\[1\] is nan"),
        (lambda: ranking_risk([0, 1, 1], [1.0, 2.0]), "scores has 2 values for 3 rows"),
        (lambda: ranking_risk([0, 1], ["a", "b"]), "scores must be numbers.*'a'.*map text"),
        (lambda: ranking_risk(["low", "high"], [1, 2]), "y must be numbers.*'low'"),
        (lambda: auc(["low", "high"], [1, 2]), "y must be numbers"),
        (lambda: auc([0, 1], ["a", "b"]), "scores must be numbers"),
        (lambda: compare([0, 1], ["a", "b"], [1, 2]), "scores_a must be numbers"),
        (lambda: compare([0, 1], [1, 2], ["a", "b"]), "scores_b must be numbers"),
        (lambda: compare(["a", "b"], [1, 2], [1, 2]), "y must be numbers"),
        (lambda: mean_metric(["a"]), "values must be numbers"),
        (lambda: friedman([["a", "b"], ["a", "b"]]), "table must be numbers"),
        (lambda: holm(["a"]), "p_values must be numbers"),
        (lambda: nemenyi(3, 0), "n_rankers=3, n_datasets=0; give at least 2 rankers and 1 data"),
        (lambda: nemenyi(1, 2), "n_rankers=1, n_datasets=2; give at least 2 rankers"),
        (lambda: nemenyi(3, math.nan), "n_datasets=nan"),
        (lambda: ranking_risk([1, 1, 1], [1, 2, 3]), "no two of 3 labels differ"),
        (lambda: ranking_risk([], []), "no two of 0 labels differ"),
        (lambda: ranking_risk([0, 1], [1, 2], qid=[1, 2]), "within any query"),
        (lambda: ranking_risk([0, 1], [1, 2], qid=[1]), "qid has 1 values for 2 rows"),
        (lambda: ranking_risk([0, 1], [1, 2], qid=[1.0, math.nan]), r"qid\[1\] is nan"),
        (lambda: ranking_risk([0, 1], [1, 2], qid=["a", None]), r"qid\[1\] is None"),
        (lambda: compare([0, 1], [1, 2], [2, 1], qid=DATES), r"qid\[1\] is NaT"),
        (lambda: ranking_risk([[0, 1], [1, 0]], [1, 2]), "one dimension"),
        (lambda: ranking_risk([0, 1], [1, 2], ties="right"), "choose one of half, wrong"),
        (lambda: ranking_risk([0, 1], [1, 2], pairs="some"), "choose one of all"),
        (lambda: ranking_risk([0, 1], [1, 2], method="magic"), "choose one of asymptotic"),
        (lambda: auc([0, 1, 2], [1, 2, 3]), "y has 3"),
        (lambda: auc([0, 1], [1, 2], scale="log"), "choose one of logit"),
        (lambda: mean_metric([math.nan]), "not all NaN"),
        (lambda: mean_metric([0.1, math.inf]), "finite"),
        (lambda: compare([0, 1], [1, 2], [2, 1], metric="nothing@5"), "nothing"),
        (
            lambda: compare([0, 1], [1, 2], [2, 1], metric="ndcg@5", method="randomization"),
            "needs method='bootstrap'",
        ),
        (
            lambda: compare([0, 1], [1, 2], [2, 1], [1, 1], metric="ndcg@5", method="bootstrap"),
            "one graded list",
        ),
        (lambda: compare([0, 1], [1, 2], [2, 1], qid=[1, 1]), "independent queries: 1"),
        (lambda: compare([0, 1], [1, 2], [2, 1], method="t"), "choose one of asymptotic"),
        (lambda: compare([0, 1], [1, 2], [2], metric="auc"), "scores_b has 1 values for 2 rows"),
        (lambda: mean_metric([0.1, 0.2]).interval(95), "strictly between"),
        (lambda: compare([0, 1, 0], [1, 2, 3], [2, 1, 3]).interval(0), "strictly between"),
        (lambda: holm([0.1, 1.2]), r"\[0, 1\]"),
        (lambda: friedman([[1, 2]]), r"shape \(1, 2\)"),
        (lambda: friedman([[1, 2], [1, math.nan]]), "without NaN"),
        (lambda: friedman([[1, 1], [2, 2]]), "ties all rankers"),
        (lambda: friedman([[1, 2], [2, 1]], names=["a"]), "1 names for 2 rankers"),
    ],
)
def test_bad_input_is_refused_with_value_and_remedy(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_steps_down(p_values):
    assert np.allclose(holm(p_values), naive.holm(p_values))


@settings(max_examples=50, deadline=None)
@given(
    st.integers(3, 6).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 5), min_size=k, max_size=k), min_size=3, max_size=8
        )
    )
)
def test_friedman_is_scipys_with_ties(table):
    from scipy.stats import friedmanchisquare

    assume(any(len(set(row)) > 1 for row in table))
    expected = friedmanchisquare(*np.asarray(table).T)
    found = friedman(table)
    assert math.isclose(found.statistic, expected.statistic, **CLOSE)
    assert math.isclose(found.p_value, expected.pvalue, rel_tol=1e-8, abs_tol=1e-12)
    assert list(found.average_ranks) == sorted(found.average_ranks)
    turned = friedman(-np.asarray(table), larger_is_better=False)
    assert turned.average_ranks == found.average_ranks


def test_nemenyi_matches_the_published_table():
    published = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 8: 3.031, 10: 3.164}
    for k, quantile in published.items():
        assert abs(nemenyi(k, 10) - quantile * math.sqrt(k * (k + 1) / 60)) < 1e-3


def test_groups_are_maximal_runs_within_the_critical_difference():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(12, 6)) + np.array([0, 0.2, 1.5, 1.7, 4, 4.1])
    found = friedman(table, names=list("abcdef"))
    ranks = dict(zip(found.names, found.average_ranks, strict=True))
    for group in found.groups:
        assert ranks[group[-1]] - ranks[group[0]] <= found.critical_difference
    for a in found.names:
        for b in found.names:
            near = abs(ranks[a] - ranks[b]) <= found.critical_difference
            assert near == (a == b or any(a in g and b in g for g in found.groups))
    assert not any(set(g) < set(h) for g in found.groups for h in found.groups)


def test_groups_of_rankers_with_one_name():
    table = np.array([[1.0, 2.0, 3.0, 9.0]] * 30) + np.random.default_rng(0).normal(size=(30, 4))
    named, plain = friedman(table, names=np.array(["x"] * 4)), friedman(table)
    assert [len(g) for g in named.groups] == [len(g) for g in plain.groups]


def test_results_are_frozen_print_and_serialize():
    rng = np.random.default_rng(0)
    y, a, b = rng.integers(0, 3, 30), rng.normal(size=30), rng.normal(size=30)
    results = [
        ranking_risk(y, a, qid=np.arange(30) // 5),
        ranking_risk(y, a, method="bootstrap"),
        ranking_risk(y, a, method="bernstein"),
        compare(y, a, b),
        compare(y, a, b, method="randomization", random_state=0),
        friedman([[1, 2, 3], [1, 3, 2]]),
    ]
    for result in results:
        assert json.dumps(result.to_dict())
        assert result._repr_html_().startswith("<table>")
        assert str(result)
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.level = 0.5
    assert "<b>" not in friedman([[1, 2], [2, 1]], names=["<b>", "c"])._repr_html_()
    ends = results[0].interval()
    assert results[0].to_dict()["interval"] == {"low": ends.low, "high": ends.high, "level": 0.95}
    assert type(ends) is metrics.Interval is inference.Interval


def test_many_items_are_counted_without_listing_pairs():
    rng = np.random.default_rng(0)
    n = 200_000 if hasattr(inference._add_item_errors, "py_func") else 2000
    y = rng.integers(0, 5, n)
    estimate = ranking_risk(y, y + rng.normal(size=n))
    assert estimate.n_pairs == n * (n - 1) // 2
    assert 0 < estimate.std_error < 0.3 / math.sqrt(n)


def test_kernels_are_plain_python_too(monkeypatch):
    rng = np.random.default_rng(0)
    starts, grade = np.array([0, 4, 9]), np.array([0, 0, 1, 2, 0, 1, 1, 2, 2])
    rank, weight = rng.integers(1, 4, 9), rng.integers(0, 3, 9).astype(float)
    errors = np.zeros((2, 9))
    for out in errors:
        inference._add_item_errors(starts, grade, rank, weight, 0.5, np.zeros(4), out)
        for name in ("_add_item_errors", "add_to_fenwick_tree", "sum_of_fenwick_tree", "fmax"):
            kernel = getattr(inference, name)
            plain = max if name == "fmax" else interpreted(kernel)
            monkeypatch.setattr(inference, name, plain)
    assert np.array_equal(*errors)
    assert errors.any()


# -- one list, any metric ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["precision@20", "partial_auc@0.1", "ndcg@10"])
def test_one_list_is_compared_by_resampled_items(name):
    """Values are those of the metric; the standard error is that of a bootstrap drawn by hand."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [120, 80])
    good, poor = y + rng.normal(size=200), 0.4 * y + rng.normal(size=200)

    def value(rows, scores):
        return metrics.evaluate(y[rows], scores[rows], metrics=name).mean[name]

    result = compare(y, good, poor, metric=name, random_state=0)
    every = np.arange(200)
    assert (result.value_a, result.value_b) == (value(every, good), value(every, poor))
    assert (result.method, result.unit, result.n_units) == ("bootstrap", "item", 200)
    draws, parts = [], [np.flatnonzero(y == 0), np.flatnonzero(y == 1)]
    for _ in range(400):
        rows = np.concatenate([rng.choice(part, part.size) for part in parts])
        draws.append(value(rows, good) - value(rows, poor))
    assert_allclose(result.std_error, np.std(draws), rtol=0.15)
    assert result.p_value == pytest.approx(2 * norm.cdf(-abs(result.difference) / result.std_error))
    assert result.interval().low < result.difference < result.interval().high
    assert compare(y, good, poor, metric=name, random_state=0) == result
    assert "items resampled, 2000 times" in str(result)


def test_one_list_graded_by_numbers_is_resampled_as_a_whole():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 5, 60)
    result = compare(y, y + rng.normal(size=60), rng.normal(size=60), metric="ndcg@5")
    assert result.std_error > 0


def test_equal_rankings_of_one_list_do_not_differ():
    y = np.repeat([0, 1], 20)
    scores = np.random.default_rng(0).normal(size=40)
    result = compare(y, scores, 2 * scores, metric="precision@10")
    assert (result.difference, result.p_value, result.std_error) == (0, 1, None)
    assert "in every resample" in result.reason


def test_comparisons_become_data_frames():
    result = compare([0, 1, 0, 1, 1, 0], [1, 4, 2, 6, 3, 5], [6, 1, 3, 2, 4, 5])
    frame = result.to_frame()
    assert frame.shape[0] == 1
    assert frame.loc[0, "difference"] == result.difference
    assert (frame.loc[0, "low"], frame.loc[0, "high"]) == tuple(result.interval())


# -- Hoeffding's decomposition, and the split sample -----------------------------------------------


def kernel(y, s, other_y, other_s, tie):
    if y == other_y:
        return 0.0
    if s == other_s:
        return tie
    return float((y > other_y) != (s > other_s))


@given(st.data(), st.sampled_from(["half", "wrong"]), st.booleans())
def test_hoeffdings_decomposition_is_that_of_the_population(data, ties, excess):
    """h is degenerate under the population, and the parts add up to the U-statistic."""
    tie, count = {"half": 0.5, "wrong": 1.0}[ties], data.draw(st.integers(1, 5))
    values = st.lists(st.integers(0, 2), min_size=count, max_size=count)
    y, s, star = (data.draw(values) for _ in range(3))
    drawn = data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=5))
    take = lambda column: [column[i] for i in drawn]  # noqa: E731

    def q(i, k):
        own = kernel(y[i], s[i], y[k], s[k], tie)
        return own - excess * kernel(y[i], star[i], y[k], star[k], tie)

    rows = range(count)
    mean = sum(q(i, k) for i in rows for k in rows) / count**2
    h = [sum(q(i, k) for k in rows) / count - mean for i in rows]
    size = len(drawn)
    pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
    value = sum(q(drawn[a], drawn[b]) for a, b in pairs) / len(pairs)
    rest = sum(q(drawn[a], drawn[b]) - mean - h[drawn[a]] - h[drawn[b]] for a, b in pairs)
    best = (take(star), star) if excess else None
    found = hoeffding_decomposition(take(y), take(s), (y, s), best=best, ties=ties)
    assert found.projection == pytest.approx(take(h), abs=1e-12)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.mean == pytest.approx(mean, abs=1e-12)
    assert found.linear == pytest.approx(sum(take(h)) / size, abs=1e-12)
    assert found.degenerate == pytest.approx(rest / len(pairs), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=9))
def test_the_split_sample_takes_disjoint_pairs(rows):
    y, s = zip(*rows, strict=True)
    half = len(y) // 2
    terms = [kernel(y[i], s[i], y[half + i], s[half + i], 0.5) for i in range(half)]
    found = split_sample_risk(y, s)
    assert found.value == pytest.approx(sum(terms) / half)
    assert (found.n_items, found.n_pairs) == (len(y), half)
    if not found.reason:
        assert found.std_error == pytest.approx(np.std(terms, ddof=1) / math.sqrt(half))


def test_the_split_sample_is_less_exact_than_all_pairs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    s = y + rng.normal(size=400)
    assert split_sample_risk(y, s).std_error > 1.3 * ranking_risk(y, s).std_error
