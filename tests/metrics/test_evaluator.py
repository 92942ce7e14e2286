"""Evaluations against naive twins, by hand, and with every kind of input."""

import json
import math
from dataclasses import FrozenInstanceError, replace

import numba
import numpy as np
import pytest
import sklearn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

import naive_evaluation as naive
from naive_evaluation import NAMES, example
from precede import Judgments, RankBoost
from precede.inference import mean_metric
from precede.metrics import (
    PRESETS,
    REGISTRY,
    Evaluator,
    Interval,
    Metric,
    Policy,
    evaluate,
    make_scorer,
    metric,
    precision_at_percent,
)
from samples import data

TIES = ("worst", "average", "order")
quick = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
# Six items at most: ties="average" lists up to 720 orders in the naive twin.
grade_kinds = st.sampled_from(["graded", "binary", "continuous", "negative", "constant"])
score_kinds = st.sampled_from(["continuous", "tied", "constant", "close"])
score_kinds_of_runs = score_kinds | st.just("not all returned")


@st.composite
def queries(draw, n_queries=1, kinds=score_kinds):
    """Draw grades, scores and query ids, rows of different queries mixed."""
    grades, scores, qid = [], [], []
    for query in range(n_queries):
        n = draw(st.integers(1, 6))
        grade = {
            "graded": st.integers(0, 4),
            "binary": st.integers(0, 1),
            "continuous": st.integers(0, 3000).map(lambda thousandths: thousandths / 1000),
            "negative": st.integers(-2, 2),
            "constant": st.just(draw(st.integers(0, 1))),
        }[draw(grade_kinds)]
        score = {
            "continuous": st.floats(-10, 10),
            "tied": st.integers(0, 2),
            "constant": st.just(0.5),
            "close": st.sampled_from([0.1, 0.2, 0.3, 0.1 + 0.2, -0.0, 0.0]),
            "not all returned": st.sampled_from([2.0, 1.0, -math.inf]),
        }[draw(kinds)]
        grades += draw(st.lists(grade, min_size=n, max_size=n))
        scores += draw(st.lists(score, min_size=n, max_size=n))
        qid += [query] * n
    order = draw(st.permutations(range(len(qid))))
    return [[column[i] for i in order] for column in (grades, scores, qid)]


policies = st.fixed_dictionaries(
    {
        "gains": st.sampled_from(["exp", "linear", "clipped"]),
        "ties": st.sampled_from(TIES),
        "no_relevant": st.sampled_from(["skip", "zero", "one"]),
        "relevant": st.sampled_from([1, 2, 0.5]),
        "map_over": st.sampled_from(["relevant", "reachable"]),
    }
)


def same(value, expected):
    if expected is None or value is None or math.isnan(value):
        return (expected is None) == (value is None or math.isnan(value))
    return math.isclose(value, expected, rel_tol=1e-12, abs_tol=1e-12)


def result_or_none(name, *columns, **options):
    try:
        return evaluate(*columns, metrics=name, **options)
    except ValueError as error:
        if "is undefined" not in str(error):
            raise
        return None


def value_or_none(name, y, scores, **options):
    result = result_or_none(name, y, scores, **options)
    return None if result is None else result.mean[name]


@pytest.mark.filterwarnings("ignore:every item is relevant")
@quick
@given(data=queries(), policy=policies)
def test_every_metric_equals_its_naive_twin(data, policy):
    y, scores, _ = data
    for name in NAMES:
        expected = naive.value(name, y, scores, **policy)
        assert same(value_or_none(name, y, scores, **policy), expected), (name, expected)


@pytest.mark.filterwarnings("ignore:every item is relevant")
@quick
@given(data=queries(n_queries=3, kinds=score_kinds_of_runs), policy=policies)
def test_items_that_were_not_returned_are_never_found(data, policy):
    """They count in the ideal order and in the number of relevant items, as the twin says."""
    y, scores, qid = (np.array(column) for column in data)
    for name in NAMES:
        if metric(name).definition.needs_all_scores:
            continue
        found = result_or_none(name, y, scores, qid, **policy, max_grade=4)
        for query in range(3):
            here = qid == query
            expected = naive.value(
                name, y[here].tolist(), scores[here].tolist(), **policy, max_grade=4
            )
            value = None if found is None else found.per_query[name][query]
            if not (found is None and expected is None):
                assert same(value, expected), (name, query)


def test_metrics_that_need_all_scores_say_so():
    y, scores = [1, 0, 1], [1.0, 2.0, -math.inf]
    with pytest.raises(ValueError, match=r"needs the scores of all rows, and scores\[2\] is -inf"):
        evaluate(y, scores, metrics="precision_at_percent@10")
    with pytest.raises(ValueError, match=r"scores\[1\] is inf; drop"):
        evaluate(y, [1.0, math.inf, -math.inf], metrics="ndcg")
    assert evaluate(y, scores, metrics="ndcg", gains="linear").mean["ndcg"] == pytest.approx(
        (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    )


@pytest.mark.filterwarnings("ignore:every item is relevant")
@quick
@given(data=queries(n_queries=3), policy=policies, one=st.integers(-1, 4), other=st.integers(-1, 4))
def test_a_metric_may_bring_its_own_least_relevant_grade(data, policy, one, other):
    """Several of them are evaluated together as they are alone under that policy."""
    y, scores, qid = data
    for name in NAMES:
        if not metric(name).definition.reads_relevance:
            continue
        expected = {}
        for least in dict.fromkeys((one, other)):
            found = result_or_none(name, y, scores, qid, **policy | {"relevant": least})
            if found is not None:
                expected[f"{name}(relevant={least})"] = found.mean[name]
        plain = result_or_none(name, y, scores, qid, **policy)
        if plain is not None:
            expected[name] = plain.mean[name]
        if expected:
            together = evaluate(y, scores, qid, metrics=list(expected), **policy)
            assert together.mean == expected


def ratings(queries=40, seed=0):
    """Stars from 1 to 5, all of them relevant by default."""
    rng = np.random.default_rng(seed)
    return (
        rng.integers(1, 6, 8 * queries),
        rng.normal(size=8 * queries),
        np.repeat(np.arange(queries), 8),
    )


def test_ratings_that_are_all_relevant_bring_a_warning():
    y, scores, qid = ratings()
    told = (
        r"relevant in 100 % .*map, mrr cannot.*from 1 to 5.*'map\(relevant=5\)', or by relevant=5"
    )
    with pytest.warns(UserWarning, match=told) as caught:
        result = evaluate(y, scores, qid, metrics=["map", "mrr", "ndcg@5", "map(relevant=4)"])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result.mean["map"] == result.mean["mrr"] == 1.0
    assert result.mean["map(relevant=4)"] < 0.9
    with pytest.warns(UserWarning, match="relevant in 100 %"):
        evaluate(y[:8], scores[:8], metrics="precision@5")  # a single list
    y = np.where(qid < 3, 0, y)  # three queries of nothing but irrelevant items
    with pytest.warns(UserWarning, match="relevant in 100 %"):
        evaluate(y, scores, qid, metrics="map")


def test_nothing_is_said_where_relevance_tells_items_apart():
    y, scores, qid = ratings()
    evaluate(y, scores, qid, metrics=["ndcg@10", "pair_error", "err"])
    evaluate(y, scores, qid, metrics=["map", "mrr"], relevant=4)
    evaluate(y - 1, scores, qid, metrics=["map", "mrr", "auc"])
    evaluate([1, 1, 1, 1, 0], [1, 2, 3, 4, 5], [0, 0, 1, 1, 1], metrics="map")
    evaluate([2, 2, 2], [1, 2, 3], metrics="map")  # one grade: no order is wrong


@quick
@given(
    data=queries(),
    ties=st.sampled_from(TIES),
    weights=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=6, max_size=6),
)
def test_item_weights_multiply_on_pairs(data, ties, weights):
    y, scores, _ = data
    weights = weights[: len(y)]
    if sum(weights) == 0:
        return
    for name in ("auc", "pair_error", "pairwise_accuracy", "kendall_tau"):
        expected = naive.value(name, y, scores, ties=ties, weights=weights)
        assert same(value_or_none(name, y, scores, ties=ties, sample_weight=weights), expected)


@pytest.mark.filterwarnings("ignore:every item is relevant")
@quick
@given(data=queries(n_queries=4), policy=policies)
def test_many_queries_are_read_one_by_one(data, policy):
    y, scores, qid = data
    for name in NAMES:
        expected = []
        for query in range(4):
            rows = [i for i, each in enumerate(qid) if each == query]
            part = [y[i] for i in rows], [scores[i] for i in rows]
            expected.append(naive.value(name, *part, max_grade=5, **policy))
        kept = [value for value in expected if value is not None]
        result = result_or_none(name, *data, max_grade=5, **policy)
        assert (result is None) == (not kept)
        if result is not None:
            assert result.queries.tolist() == [0, 1, 2, 3]
            assert all(map(same, result.per_query[name], expected))
            assert same(result.mean[name], math.fsum(kept) / len(kept))
            assert result.skipped[name] == 4 - len(kept)


@pytest.mark.filterwarnings("ignore:every item is relevant")
@quick
@given(
    data=queries(n_queries=3), ties=st.sampled_from(["worst", "average"]), seed=st.integers(0, 9)
)
def test_order_of_rows_does_not_change_a_bit(data, ties, seed):
    columns = [np.array(column, dtype=float) for column in data]
    weights = np.random.default_rng(seed).random(len(data[0]))
    order = np.random.default_rng(seed).permutation(len(data[0]))
    options = {"no_relevant": "zero", "ties": ties}
    for name in NAMES:
        one = result_or_none(name, *columns, sample_weight=weights, **options)
        if one is None:
            continue
        moved = [column[order] for column in columns]
        two = evaluate(*moved, metrics=name, sample_weight=weights[order], **options)
        assert one.mean == two.mean
        np.testing.assert_array_equal(one.per_query[name], two.per_query[name])


def test_order_of_rows_in_long_lists_with_ties():
    # Longer than the run of any insertion sort, so that merging is exercised.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    scores = rng.integers(0, 20, 500) / 3
    names = [name for name in NAMES if metric(name).name != "err"]
    results = {}
    for ties in TIES:
        order = rng.permutation(500)
        one = evaluate(y, scores, metrics=names, ties=ties)
        two = evaluate(y[order], scores[order], metrics=names, ties=ties)
        results[ties] = one.mean
        assert (one.mean == two.mean) == (ties != "order")
        if ties != "average":
            for name in names:
                expected = naive.value(name, y.tolist(), scores.tolist(), ties=ties)
                assert same(one.mean[name], expected), name
    for name in names:
        lower, middle = results["worst"][name], results["average"][name]
        assert (lower <= middle) == metric(name).greater_is_better or lower == middle


def test_average_is_the_mean_of_sampled_orders():
    # Blocks too long to list; the mean of many random orders lies within 5 standard errors.
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 40).astype(float)
    scores = np.repeat([3.0, 2.0, 1.0], [5, 25, 10])
    names = [name for name in NAMES if metric(name).name != "precision_at_percent"]
    exact = evaluate(y, scores, metrics=names, ties="average").mean
    # One query per random order, ties broken by the shuffled rows.
    n_orders = 400 if numba.config.DISABLE_JIT else 4000
    order = np.concatenate([rng.permutation(40) for _ in range(n_orders)])
    qid = np.repeat(np.arange(n_orders), 40)
    sampled = evaluate(y[order], scores[order], qid, metrics=names, ties="order")
    for name in names:
        error = sampled.per_query[name].std() / math.sqrt(n_orders)
        assert abs(exact[name] - sampled.mean[name]) <= 5 * error + 1e-12, name


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("kind", ["continuous", "rounded", "huge", "tiny"])
def test_precision_at_percent_of_larger_queries(ties, kind):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 4, 90) if kind != "continuous" else rng.normal(size=90)
    scores = y + rng.normal(size=90)
    scores = {
        "continuous": scores,
        "rounded": np.round(scores),
        "huge": (scores - scores.mean())
        / np.ptp(scores)
        * 1.25e308
        * 2,  # the widest gaps overflow
        "tiny": np.round(scores) * 5e-324,
    }[kind]
    for percent in (0.01, 1, 10, 33.3, 50, 90, 100):
        name = f"precision_at_percent@{percent}"
        # The naive twin subtracts scores; halves of huge ones do not overflow.
        divisor = 2.0 if kind == "huge" else 1.0
        expected = naive.value(name, y.tolist(), (scores / divisor).tolist(), ties=ties)
        assert same(evaluate(y, scores, metrics=name, ties=ties).mean[name], expected), percent


@quick
@given(data=queries(n_queries=4), ties=st.sampled_from(TIES),
       percent=st.sampled_from([0.01, 10, 33.3, 50, 99, 100]))  # fmt: skip
def test_pooled_precision_at_percent_sorts_the_pairs_of_all_queries(data, ties, percent):
    y, scores, qid = data
    name = f"precision_at_percent@{percent}"
    result = result_or_none(name, *data, ties=ties)
    if result is None:
        return
    expected = naive.precision_at_percent(y, scores, percent, ties, qid)
    assert same(result.pooled[name], expected)
    for pooled, value in ((True, expected), (False, result.mean[name])):
        found = precision_at_percent(y, scores, qid, percent=percent, pooled=pooled, ties=ties)
        assert same(found, value)


def test_pooled_precision_at_percent_leaves_out_queries_of_weight_zero():
    y, scores, qid = [1, 0, 1, 0], [9.0, 1.0, 0.0, 8.5], [0, 0, 1, 1]
    name = "precision_at_percent@100"
    assert evaluate(y, scores, qid, metrics=name).pooled[name] == 0.5
    weighted = evaluate(y, scores, qid, metrics=name, sample_weight=[1, 1, 0, 0])
    assert weighted.pooled[name] == 1.0


def test_precision_at_percent_by_hand():
    # Pairs by gap: (2,0) 9 right, (2,1) 8 right, (1,0) 1 wrong.
    y, scores = [2, 0, 1], [9.0, 1.0, 0.0]
    assert naive.value("precision_at_percent@100", y, scores) == pytest.approx(2 / 3)
    for percent, expected in [(1, 1), (34, 1), (66, 1), (67, 2 / 3), (100, 2 / 3)]:
        name = f"precision_at_percent@{percent}"
        assert evaluate(y, scores, metrics=name).mean[name] == pytest.approx(expected)


def test_values_by_hand():
    # Ranking of grades 3, 0, 1 with the gains 7, 0, 1.
    y, scores = [3, 0, 1], [0.9, 0.5, 0.1]
    result = evaluate(y, scores, metrics=["dcg", "ndcg", "map", "mrr", "err", "precision@2"]).mean
    assert result["dcg"] == 7 + 0.5
    assert result["ndcg"] == pytest.approx(7.5 / (7 + 1 / math.log2(3)))
    assert result["map"] == pytest.approx((1 + 2 / 3) / 2)
    assert result["mrr"] == 1
    assert result["err"] == pytest.approx(7 / 8 + 1 / 8 * 1 / 8 / 3)
    assert result["precision@2"] == 0.5
    assert evaluate(y, scores, metrics="dcg", gains=[0, 2, 5, 11]).mean["dcg"] == 11 + 2 / 2


def test_perfect_ranking_is_exactly_perfect():
    rng = np.random.default_rng(7)
    y = rng.integers(0, 5, 300)
    qid = rng.integers(0, 12, 300)
    names = ["ndcg", "ndcg@7", "pairwise_accuracy", "precision_at_percent@30"]
    for ties in ("worst", "average"):
        mean = evaluate(y, y, qid, metrics=[*names, "pair_error"], ties=ties).mean
        assert mean == dict.fromkeys(names, 1.0) | {"pair_error": 0.0}


def test_pooled_counts_a_query_by_its_pairs():
    y = [1, 0, 1, 0, 0, 0]
    scores = [1.0, 2.0, 3.0, 2.0, 1.0, 0.0]
    result = evaluate(y, scores, [0, 0, 1, 1, 1, 1], metrics=["pair_error", "auc", "mrr"])
    assert result.mean["pair_error"] == 0.5
    assert result.pooled == {"pair_error": 0.25, "auc": 0.75}
    weighted = evaluate(
        y, scores, [0, 0, 1, 1, 1, 1], metrics="pair_error", sample_weight=[3, 1, 1, 1, 1, 1]
    )
    assert weighted.pooled["pair_error"] == 0.5
    assert weighted.mean["pair_error"] == pytest.approx(2 / 3)  # query weights 2 and 1


def test_weight_two_is_the_item_twice_and_weight_zero_its_absence():
    rng = np.random.default_rng(8)
    y, scores = rng.integers(0, 3, 30), rng.integers(0, 9, 30)
    weights = rng.integers(0, 3, 30)
    twice = np.repeat(np.arange(30), weights)
    for ties in ("worst", "average"):
        names = ["auc", "pair_error"]
        one = evaluate(y, scores, metrics=names, ties=ties, sample_weight=weights).mean
        two = evaluate(y[twice], scores[twice], metrics=names, ties=ties).mean
        assert one == pytest.approx(two, rel=1e-13)


def test_queries_of_weight_zero_do_not_count():
    y, scores, qid = [1, 0, 1, 0, 1, 0], [2, 1, 1, 2, 1, 2], [0, 0, 1, 1, 2, 2]
    result = evaluate(y, scores, qid, metrics="mrr", sample_weight=[1, 1, 1, 1, 0, 0])
    assert result.mean["mrr"] == 0.75
    assert result.interval("mrr") == evaluate(y[:4], scores[:4], qid[:4]).interval("mrr")


def test_percent_cutoffs_round_up_without_rounding_error():
    y = np.zeros(1000)
    y[:500] = 1
    scores = np.arange(1000.0)[::-1]
    # 16.1 % of 1000 is 161, though 16.1 * 1000 / 100 is more; 0.01 % still reads one item.
    for text, depth in [("16.1%", 161), ("7%", 70), ("0.01%", 1), ("0.11%", 2), ("100%", 1000)]:
        got = evaluate(y, scores, metrics=f"recall@{text}").mean[f"recall@{text}"]
        assert got == min(depth, 500) / 500, text


GOOD = {"y": [0, 1, 2], "scores": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0, math.nan, 2.0]}, r"scores\[1\] is nan"),
        ({"scores": [1.0, 2.0, math.inf]}, r"scores\[2\] is inf"),
        ({"scores": [1.0, 2.0]}, r"scores has 2 values for 3 rows"),
        ({"scores": ["a", "b", "c"]}, r"scores must be numbers.*'a'.*map text"),
        ({"y": ["low", "high", "low"]}, r"y must be numbers.*'low'"),
        ({"sample_weight": ["a", "b", "c"]}, r"sample_weight must be numbers"),
        ({"gains": ["a"]}, r"gains must be numbers"),
        ({"scores": [[1.0, 2.0]] * 3}, r"scores has shape \(3, 2\)"),
        ({"y": [0, math.nan, 1]}, r"y\[1\] is nan"),
        ({"y": []}, r"y has shape \(0,\)"),
        ({"qid": [1, 2]}, r"qid has 2 values for 3 rows"),
        ({"qid": [1.0, math.nan, 1.0]}, r"qid\[1\] is nan"),
        ({"qid": ["a", None, "a"]}, r"qid\[1\] is None"),
        ({"qid": np.array(["2020-01-01", "NaT", "NaT"], "M8[D]")}, r"qid\[1\] is NaT"),
        ({"qid": [[1, 2], [1, 2], [1, 3]]}, r"qid has shape \(3, 2\)"),
        ({"sample_weight": [1, -1, 1]}, r"sample_weight\[1\] is -1"),
        ({"sample_weight": [1, 1]}, r"sample_weight has 2 values for 3 rows"),
        (
            {"sample_weight": [0, 0, 0]},
            r"sample_weight is 0 in every row",
        ),
        ({"sample_weight": [0, 0, 1]}, r"no query of positive weight"),
        ({"metrics": []}, r"metrics is empty"),
        ({"ties": "best"}, r"ties='best' is not one of"),
        ({"gains": "log"}, r"gains='log' is not one of"),
        ({"gains": [0, 1]}, r"grade 2 has no entry in the 2 gains"),
        ({"gains": [0, 2, 1]}, r"gains\[2\] is below gains\[1\]"),
        ({"gains": [0, math.nan, 1]}, r"gains\[1\] is nan"),
        ({"y": [0, 0.5, 1], "gains": [0, 1]}, r"grade 0.5 has no entry"),
        ({"y": [0, -1, 1], "gains": [0, 1]}, r"grade -1 has no entry"),
        ({"y": [0, 1, 2000]}, r"overflows for grade 2000: pass gains='linear'"),
        ({"no_relevant": "drop"}, r"no_relevant='drop' is not one of"),
        ({"map_over": "all"}, r"map_over='all' is not one of"),
        ({"relevant": math.nan}, r"relevant=nan must be a finite number"),
        ({"relevant": "a"}, r"relevant='a' must be a finite number"),
        ({"relevant": None}, r"relevant=None must be a finite number"),
        ({"max_grade": "a"}, r"max_grade='a' must be a finite number"),
        (
            {"foo": 1},
            r"unknown option foo=1: use one of metrics, preset, .* gains, ties, .*map_over",
        ),
        ({"tie": "worst"}, r"unknown option tie='worst'"),
        ({"max_grade": 1}, r"max_grade=1 is below a grade of y, 2"),
        ({"preset": "ranx"}, r"unknown preset 'ranx': use one of lightgbm, sklearn, trec"),
        ({"relevant": 9}, r"map is undefined: .* relevant item"),
        ({"y": [1, 1, 1], "metrics": "pair_error"}, r"pair_error is undefined: .* pair"),
        ({"qid": [1, 2, 3], "metrics": "auc"}, r"auc is undefined: .* check qid"),
    ],
)
def test_bad_input(change, message):
    arguments = GOOD | change
    y, scores = arguments.pop("y"), arguments.pop("scores")
    with pytest.raises(ValueError, match=message):
        evaluate(y, scores, **arguments)


def test_huge_grades_are_fine_where_no_gain_is_asked_for():
    result = evaluate([0, 1, 2000], [1, 2, 3], metrics=["err", "pair_error"])
    assert result.mean == {"err": 1.0, "pair_error": 0.0}
    assert evaluate([-5000, -2, -1], [1, 2, 3], metrics="dcg").mean["dcg"] < 0


def test_huge_cutoffs():
    result = evaluate([0, 1, 2], [1, 2, 3], metrics=["ndcg@1e30", "recall@1e30"])
    assert list(result.mean.values()) == [1.0, 1.0]


@pytest.mark.parametrize(
    "qid",
    [
        [2, 1, 2, 1, 3, 3],
        ["b", "a", "b", "a", "c", "c"],
        np.array(["b", "a", "b", "a", "c", "c"], dtype=object),
        np.array([2, "a", 2, "a", (1, 2), (1, 2)], dtype=object),
        [2, "2", 2, "2", 2.5, 2.5],
        [2.5, 1.5, 2.5, 1.5, 3.5, 3.5],
        np.array(["2020-01-02", "2020-01-01"] * 2 + ["2021-01-01"] * 2, dtype="datetime64[D]"),
    ],
    ids=["int", "str", "object", "mixed", "list", "float", "date"],
)
def test_query_ids_of_any_type_in_any_order(qid):
    y, scores = [1, 0, 0, 1, 1, 0], [5.0, 1.0, 3.0, 0.0, 1.0, 2.0]
    result = evaluate(y, scores, qid, metrics="mrr")
    expected = {qid[0]: 1.0, qid[1]: 0.5, qid[4]: 0.5}
    got = dict(zip(result.queries.tolist(), result.per_query["mrr"].tolist(), strict=True))
    assert got == {getattr(k, "tolist", lambda k=k: k)(): v for k, v in expected.items()}


def test_pandas_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": [1, 0, 0, 1], "s": [4.0, 3, 2, 1], "q": ["b", "b", "a", "a"]})
    result = evaluate(frame["y"], frame["s"], frame["q"], metrics="mrr")
    found = dict(zip(result.queries, result.per_query["mrr"], strict=True))
    assert found == {"a": 0.5, "b": 1.0}
    for missing in (pandas.NA, pandas.NaT, None):
        with pytest.raises(ValueError, match=r"qid\[2\] is"):
            evaluate(frame["y"], frame["s"], pandas.Series(["b", "b", missing, "a"], dtype=object))
    dates = pandas.to_datetime(frame["q"].map({"a": "2020-01-01", "b": "2021-01-01"}))
    assert evaluate(frame["y"], frame["s"], dates).mean == evaluate(*frame.to_numpy().T).mean


def test_judgments_bring_grades_queries_and_weights():
    y, scores, qid = example()
    weights = np.random.default_rng(1).random(60)
    names = ["ndcg@3", "auc", "pair_error"]
    same = [
        (evaluate(y, scores, metrics=names), Judgments(y)),
        (evaluate(y, scores, qid, metrics=names), Judgments(y, qid)),
        (
            evaluate(y, scores, qid, metrics=names, sample_weight=weights),
            Judgments(y, qid, weight=weights, pairs=np.empty((0, 2), int), label=np.zeros(60)),
        ),
    ]
    for expected, judgments in same:
        for found in (
            evaluate(judgments, scores, metrics=names),
            Evaluator(judgments, metrics=names).evaluate(scores),
        ):
            assert found.to_dict() == expected.to_dict()


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (Judgments([0, 1, 2], pairs=[[0, 1]]), {"metrics": "mrr"}, r"mrr reads grades.*1 listed"),
        (Judgments(qid=[1, 1, 1]), {}, r"without grades: .*Judgments\(grade\)"),
        (Judgments([0, 1, 2]), {"qid": [1, 1, 1]}, r"qid is given with a Judgments"),
        (Judgments([0, 1, 2]), {"sample_weight": [1, 1, 1]}, r"sample_weight is given with"),
        (Judgments([0, math.nan, 2]), {}, r"y\[1\] is nan; drop the row"),
        (Judgments([0, 1, 2], weight=[0, 0, 0]), {}, r"more than 0 to some row"),
    ],
)
def test_judgments_that_say_more_or_less_than_grades_are_refused(y, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(y, [1.0, 2.0, 3.0], **options)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_interval_is_that_of_the_mean_metric(level):
    result = evaluate(*example(), metrics=["ndcg@3", "auc", "mrr"])
    doubled = evaluate(*example(), metrics=["ndcg@3", "auc"], sample_weight=np.full(60, 2.0))
    for name in ("ndcg@3", "auc"):
        expected = mean_metric(result.per_query[name]).interval(level)
        for found in (result.interval(name, level), doubled.interval(metric(name), level=level)):
            assert list(found) == pytest.approx([expected.low, expected.high], rel=1e-12)
            assert found.level == level
            assert type(found) is Interval is type(expected)
    assert result.interval("auc").level == 0.95


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.sampled_from([0.8, 0.95, 0.999]))
def test_intervals_end_where_the_metric_does(seed, queries, level):
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 3, 5 * queries), rng.integers(0, 4, 5 * queries)
    qid = np.repeat(np.arange(queries), 5)
    y[::5], y[1::5] = 1, 0  # every query has a pair and something relevant
    names = [str(metric(each.default or each.written.format(name).split()[0].rstrip(",")))
             for name, each in REGISTRY.items()]  # fmt: skip
    result = evaluate(y, scores, qid, metrics=names)
    for name, mean in result.mean.items():
        least, most = metric(name).definition.bounds
        assert least <= np.nanmin(result.per_query[name])
        assert np.nanmax(result.per_query[name]) <= most + 1e-12
        try:
            low, high = result.interval(name, level)
        except ValueError:
            continue
        assert least <= low <= mean <= high <= most + 1e-12
        plain = mean_metric(result.per_query[name]).interval(level)
        assert low == pytest.approx(max(plain.low, least))
        assert high == pytest.approx(min(plain.high, most))


def test_negative_gains_do_not_push_the_mean_out_of_its_interval():
    y, qid = [-2, 1, -1, 2, -2, -2], [0, 0, 1, 1, 2, 2]
    result = evaluate(y, [2, 1, 1, 2, 3, 4], qid, metrics="dcg", gains="linear")
    assert result.mean["dcg"] < 0
    assert result.mean["dcg"] in result.interval("dcg")


def test_interval_of_weighted_queries_is_the_jackknife():
    from scipy.stats import t

    rng = np.random.default_rng(2)
    weights = rng.lognormal(size=12).repeat(5)
    result = evaluate(*example(), metrics="ndcg@3", sample_weight=weights)
    values, w = result.per_query["ndcg@3"], result.weights
    values, w = values[~np.isnan(values)], w[~np.isnan(values)]
    without = [
        np.average(np.delete(values, q), weights=np.delete(w, q)) for q in range(values.size)
    ]
    error = math.sqrt((values.size - 1) * np.var(without))
    degrees = (w**2).sum() ** 2 / (w**4).sum() - 1
    low, high = result.interval("ndcg@3", level=0.8)
    mean = np.average(values, weights=w)
    assert [low, high] == pytest.approx(
        [mean - t.ppf(0.9, degrees) * error, mean + t.ppf(0.9, degrees) * error], rel=1e-9
    )


def test_interval_prints_and_holds_numbers():
    interval = Interval(0.25, 0.5, 0.9)
    assert str(interval) == "0.2500 to 0.5000 (90 %)"
    assert [number in interval for number in (0.2, 0.25, 0.5, 0.6)] == [False, True, True, False]
    with pytest.raises(FrozenInstanceError):
        interval.low = 0.0


def test_interval_refuses_what_it_cannot_do():
    result = evaluate([0, 1], [1, 2], metrics="auc")
    with pytest.raises(ValueError, match="auc has 1 effective queries: give two or more"):
        result.interval("auc")
    with pytest.raises(ValueError, match="ndcg was not evaluated; the metrics are auc"):
        result.interval("ndcg")
    y, scores, qid = [0, 1, 1, 0], [1, 2, 1, 2], [0, 0, 1, 1]
    with pytest.raises(ValueError, match="level=95; give a number strictly between 0 and 1"):
        evaluate(y, scores, qid, metrics="auc").interval("auc", level=95)
    uneven = evaluate(y, scores, qid, metrics="auc", sample_weight=[1e6, 1e6, 1, 1])
    with pytest.raises(ValueError, match="auc has 1 effective queries"):
        uneven.interval("auc")
    with pytest.raises(ValueError, match="auc is 1 in every query, its error would be 0"):
        evaluate(y, y, qid, metrics="auc").interval("auc")


def test_result_prints_and_serializes():
    result = evaluate(*example(), metrics=["ndcg@3", "auc"], gains=[0, 1, 3])
    lines = str(result).splitlines()
    assert "ties=worst" in lines[0]
    assert "max_grade=2 map_over=relevant; 95 % intervals" in lines[0]
    assert lines[1].split() == ["metric", "mean", "low", "high", "queries", "skipped"]
    assert lines[2].startswith("  ndcg@3")
    assert len({len(line) for line in lines[1:]}) == 1
    page = result._repr_html_()
    assert page.count("<tr>") == 3
    assert "ndcg@3" in page
    assert str(evaluate([0, 1], [1, 2], metrics="auc")).split()[-4:] == ["-", "-", "1", "0"]
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["mean"] == result.mean
    assert plain["policy"]["gains"] == [0, 1, 3]
    assert plain["per_query"]["auc"].count(None) == result.skipped["auc"]
    assert plain["queries"] == list(range(12))
    with pytest.raises(FrozenInstanceError):
        result.mean = {}
    for array in (result.per_query["auc"], result.queries, result.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_evaluator_is_reusable_and_value_is_the_first_mean():
    y, scores, qid = example()
    judge = Evaluator(y, qid, metrics=["map", "auc", "map"], ties="average")
    assert [str(each) for each in judge.metrics] == ["map", "auc"]
    first = judge.evaluate(scores)
    judge.evaluate(-scores)
    assert judge.evaluate(scores).mean == first.mean == evaluate(
        y, scores, qid, metrics=["map", "auc"], ties="average"
    ).mean  # fmt: skip
    assert judge.value(scores) == first.mean["map"]


def test_inputs_are_left_alone():
    y, scores, qid = (np.array(column, dtype=float) for column in example())
    before = [column.copy() for column in (y, scores, qid)]
    evaluate(y, scores, qid, gains="linear")
    for column, copy in zip((y, scores, qid), before, strict=True):
        np.testing.assert_array_equal(column, copy)


def test_policy_is_part_of_the_result():
    result = evaluate(*example(), preset="lightgbm", ties="average")
    assert result.policy == replace(PRESETS["lightgbm"], ties="average", max_grade=2)
    assert hash(Policy(gains=[0, 1])) == hash(Policy(gains=(0.0, 1.0)))


def test_queries_may_be_given_by_their_sizes():
    y, scores = [0, 1, 2, 0, 1], [0.1, 0.2, 0.3, 0.9, 0.1]
    by_size = evaluate(y, scores, group=[2, 3], metrics="ndcg@2")
    assert by_size.mean == evaluate(y, scores, [0, 0, 1, 1, 1], metrics="ndcg@2").mean
    with pytest.raises(ValueError, match="both qid and group"):
        evaluate(y, scores, [0, 0, 1, 1, 1], group=[2, 3])
    with pytest.raises(ValueError, match="add up to 4"):
        evaluate(y, scores, group=[2, 2])
    with pytest.raises(ValueError, match="group is given with a Judgments: put its queries inside"):
        evaluate(Judgments(y), scores, group=[2, 3])
    with pytest.raises(ValueError, match=r"group=\[2.0, 3.0\] must be the sizes .*per row is qid"):
        evaluate(y, scores, group=[2.0, 3.0])


def test_evaluations_become_data_frames():
    y, scores, qid = [1, 0, 0, 2, 0, 0], [3, 2, 1, 0, 0, 1], [7, 7, 8, 8, 9, 9]
    result = evaluate(y, scores, qid, metrics=["mrr"])
    frame = result.to_frame()
    assert frame.loc["mrr", "mean"] == result.mean["mrr"]
    assert (frame.loc["mrr", "low"], frame.loc["mrr", "high"]) == tuple(result.interval("mrr"))
    assert frame.loc["mrr", ["queries", "skipped"]].tolist() == [2, 1]
    queries = result.to_frame(by_query=True)
    assert queries.index.tolist() == [7, 8, 9]
    assert np.array_equal(queries["mrr"].to_numpy(), result.per_query["mrr"], equal_nan=True)


# -- scorers of scikit-learn ------------------------------------------------------------------


def test_scorers_get_the_queries_by_metadata_routing():
    X, y, qid = data()
    scorer = make_scorer("ndcg@5")
    with sklearn.config_context(enable_metadata_routing=True):
        model = RankBoost(n_estimators=5).set_fit_request(qid=True)
        search = GridSearchCV(model, {"n_estimators": [1, 10]}, cv=GroupKFold(4), scoring=scorer)
        search.fit(X, y, qid=qid, groups=qid)
        several = {"ndcg": scorer, "errors": make_scorer("pair_error")}
        found = cross_validate(
            model, X, y, cv=GroupKFold(4), scoring=several, params={"qid": qid, "groups": qid}
        )
    train, test = next(GroupKFold(4).split(X, y, qid))
    scores = RankBoost(n_estimators=10).fit(X[train], y[train], qid=qid[train]).predict(X[test])
    expected = evaluate(y[test], scores, qid[test], metrics="ndcg@5").mean["ndcg@5"]
    assert search.cv_results_["split0_test_score"][1] == expected
    scores = RankBoost(n_estimators=5).fit(X[train], y[train], qid=qid[train]).predict(X[test])
    expected = evaluate(y[test], scores, qid[test], metrics="pair_error").mean["pair_error"]
    assert found["test_errors"][0] == -expected
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = make_scorer("auc").set_score_request(qid="query", sample_weight=True)
        asked = weighted.get_metadata_routing().score.requests
    assert asked == {"qid": "query", "sample_weight": True}


def test_scorers_take_judgments_metrics_and_functions():
    X, y, qid = data()
    model, made = RankBoost(n_estimators=5).fit(X, y, qid=qid), Judgments(y, qid)
    scores, weight = model.predict(X), np.linspace(0.5, 2, len(y))

    def spread(y, scores, qid):
        return "spread", float(np.ptp(scores)) + y[0] + qid[0], False

    expected = evaluate(y, scores, qid, metrics="map@3", relevant=2, sample_weight=weight)
    scorer = make_scorer(Metric("map", 3), relevant=2)
    assert repr(scorer) == "make_scorer('map@3', relevant=2)"
    assert scorer(model, X, y, qid, weight) == expected.mean["map@3"]
    assert scorer(model, X, made, sample_weight=weight) == expected.mean["map@3"]
    assert make_scorer(spread)(model, X, made) == -spread(y, scores, qid)[1]
    search = GridSearchCV(
        RankBoost(), {"n_estimators": [1, 8]}, cv=GroupKFold(3), scoring=make_scorer("ndcg")
    )
    assert clone(search).fit(X, made, groups=qid).best_params_ == {"n_estimators": 8}
    assert make_scorer("auc")(model, X, Judgments(y, qid)) > 0.5
    for wrong, told in (
        (lambda: make_scorer("ndgc"), "did you mean ndcg"),
        (lambda: make_scorer(3), "metric=3: give a name"),
        (lambda: make_scorer("map", relevent=2), "unknown option relevent"),
        (lambda: make_scorer(spread, relevant=2), "relevant given with a function"),
    ):
        with pytest.raises(ValueError, match=told):
            wrong()
    with pytest.raises(TypeError, match=r"not group; .* give qid"):
        make_scorer("map").set_score_request(group=True)
