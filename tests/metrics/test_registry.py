"""Metrics print and parse as themselves, and one of your own is known everywhere."""

import json
import math
import shutil
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from naive_evaluation import NAMES, example
from precede import RankBoost, Report
from precede.cli import app
from precede.inference import compare
from precede.metrics import (
    REGISTRY,
    Metric,
    default_metrics,
    evaluate,
    list_metrics,
    listed_metrics,
    metric,
    register_metric,
)


@pytest.mark.parametrize(
    "text", ["map(relevant=4)", "precision@5(relevant=2)", "auc(relevant=0.5)"]
)
def test_metrics_with_a_least_relevant_grade_print_and_parse_as_themselves(text):
    assert str(metric(text)) == text
    assert metric(str(metric(text))) == metric(text)
    assert metric(text.upper().replace("=", " = ")) == metric(text)
    assert metric("map(relevant=4.0)") == Metric("map", relevant=4)


@pytest.mark.parametrize(("text", "told"), [
    ("map(relevant=many)", r"write it like map@10\(relevant=4\)"),
    ("map(relevant=4", "write it like"),
    ("map(4)", "write it like"),
    ("map(k=4)", "write it like"),
    ("map(relevant=inf)", "relevant=inf must be a finite number"),
    ("ndcg(relevant=4)", "ndcg does not ask which grades are relevant"),
    ("pair_error(relevant=4)", "pair_error does not ask which grades are relevant"),
])  # fmt: skip
def test_least_relevant_grades_that_are_refused(text, told):
    with pytest.raises(ValueError, match=told):
        metric(text)


@pytest.mark.parametrize("name", NAMES)
def test_print_and_parse(name):
    assert str(metric(name)) == name
    assert metric(name) == metric(name.upper())
    assert hash(metric(name)) == hash(metric(f" {name} "))
    assert metric(Metric("map", 3)) == metric("map@3")
    assert metric(name).greater_is_better == (name != "pair_error")


@given(
    k=st.one_of(st.integers(1, 10**6), st.floats(1e-6, 100)),
    name=st.sampled_from(["map", "recall"]),
)
def test_percent_round_trip(k, name):
    if k <= 100:
        assert metric(str(Metric(name, k, percent=True))) == Metric(name, k, percent=True)
    if isinstance(k, int):
        assert metric(str(Metric(name, k))) == Metric(name, float(k)) == Metric(name, k)


def test_fields_of_a_metric():
    parsed = metric("precision@1%")
    assert (parsed.name, parsed.k, parsed.percent) == ("precision", 1, True)
    assert metric("ndcg").k is None
    assert metric("partial_auc@0.1").k == 0.1
    with pytest.raises(FrozenInstanceError):
        parsed.k = 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@10", r"unknown metric 'ndgc': did you mean ndcg.*use one of auc, dcg, err"),
        ("qqq", r"unknown metric 'qqq': use one of auc"),
        ("precision", r"precision is not well formed: write precision@10 or precision@5%"),
        ("ndcg@0", r"ndcg@0 is not well formed"),
        ("ndcg@-1", r"ndcg@-1 is not well formed"),
        ("ndcg@2.5", r"ndcg@2.5 is not well formed"),
        ("ndcg@101%", r"ndcg@101% is not well formed"),
        ("ndcg@inf", r"ndcg@inf is not well formed"),
        ("ndcg@nan", r"ndcg@nan is not well formed"),
        ("ndcg@ten", r"'ndcg@ten' has no number after the @"),
        ("ndcg@", r"'ndcg@' has no number after the @"),
        ("auc@5", r"auc@5 is not well formed: write auc"),
        ("partial_auc", r"write partial_auc@0.1"),
        ("partial_auc@5", r"write partial_auc@0.1"),
        ("partial_auc@10%", r"write partial_auc@0.1"),
        ("precision_at_percent@101", r"a percentage of at most 100"),
    ],
)
def test_bad_metrics(text, message):
    with pytest.raises(ValueError, match=message):
        metric(text)


def mean_of_top(grades, depth):
    return float(np.mean(grades[:depth]))


@pytest.fixture
def toy():
    """A metric registered for one test, of which less is better."""
    yield register_metric(
        "shame", lambda grades, depth: -mean_of_top(grades, depth), needs="pair",
        greater_is_better=False, meaning="minus the mean grade at the top", default="shame@3",
        uses=("evaluate", "by_query", "compare", "list"),
    )  # fmt: skip
    del REGISTRY["shame"]


@pytest.mark.parametrize("bounds", [(1, 0), (0,), None, "ab", (0.0, math.nan), ("a", "b")])
def test_bounds_are_two_numbers(bounds):
    with pytest.raises(ValueError, match=r"bounds=.*give the least"):
        register_metric("bad", mean_of_top, bounds=bounds)
    assert "bad" not in REGISTRY


def test_intervals_of_a_registered_metric_end_at_its_bounds():
    name = "top_grade"
    try:
        for bounds, low in (((0, 2), 0.0), ((-math.inf, math.inf), None)):
            register_metric(name, lambda grades, depth: grades[0], bounds=bounds)
            found = evaluate([0, 1, 2, 0], [1, 0, 3, 1], [0, 0, 1, 1], metrics=name).interval(name)
            assert found.low < 0 if low is None else found.low == low
            del REGISTRY[name]
    finally:
        REGISTRY.pop(name, None)


def test_a_registered_metric_is_known_everywhere(toy):
    y, scores, qid = example()
    found = evaluate(y, scores, qid)
    for number, query in enumerate(found.queries):
        mine = y[qid == query][np.argsort(-scores[qid == query])]
        expected = -mean_of_top(mine, 3) if np.ptp(mine) else math.nan
        assert found.per_query["shame@3"][number] == pytest.approx(expected, nan_ok=True)
    half = evaluate(y, scores, qid, metrics="shame@50%")
    assert half.mean["shame@50%"] == found.mean["shame@3"]
    paired = compare(y, scores, -scores, qid, metric="shame@3")
    assert paired.difference == pytest.approx(
        found.mean["shame@3"] - evaluate(y, -scores, qid).mean["shame@3"]
    )
    X = np.column_stack([scores, y + scores])
    model = RankBoost(n_estimators=6, eval_metric="shame@3", early_stopping_rounds=2)
    model.fit(X, y, qid=qid, eval_set=(X, y), eval_qid=qid)
    monitored = model.evals_result_["valid_0"]["shame@3"]
    assert model.best_score_ == min(monitored)
    facts = Report(model, X, y, qid=qid).facts
    assert "shame@3" in [row["metric"] for row in facts["quality"]["metrics"]]
    assert "shame@3" in facts["queries"]["columns"]
    alone = Report(RankBoost(n_estimators=2).fit(X, y), X, y).facts
    assert "shame@3" in [row["metric"] for row in alone["quality"]["metrics"]]
    told = CliRunner().invoke(app, ["metrics", "--json"]).stdout.splitlines()
    row = next(row for row in map(json.loads, told) if row["metric"] == "shame")
    assert (row["better"], row["default"]) == ("less", "shame@3")
    assert row["written"] == "shame, shame@10 or shame@5%"


def test_every_list_of_metrics_comes_from_the_registry():
    assert default_metrics() == (
        "ndcg@10", "map", "mrr", "err@10", "precision@5", "auc", "pair_error",
        "precision_at_percent@10",
    )  # fmt: skip
    assert default_metrics("by_query") == ("ndcg@10", "map", "mrr", "pair_error")
    assert default_metrics("compare") == ("ndcg@10", "pair_error")
    assert listed_metrics() == ("pairwise_accuracy", "pair_error")
    assert (list_metrics(2), list_metrics(5)) == (("auc", "pair_error"), ("pair_error",))
    for name, defined in REGISTRY.items():
        assert defined.name == name
        assert defined.meaning
        assert defined.default is None or metric(defined.default).name == name
    worse = [name for name, defined in REGISTRY.items() if not defined.greater_is_better]
    assert worse == ["pair_error"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "NDCG"}, "name='NDCG'; give a word in lower case"),
        ({"name": "ndcg"}, "ndcg is a metric already"),
        ({"function": 3}, "function=3; give a function"),
        ({"needs": "luck"}, "needs='luck'; choose one of relevant, pair, nothing"),
        ({"default": "ndcg@10"}, "default='ndcg@10' is another metric than 'mine'"),
    ],
)
def test_what_is_no_metric_is_not_registered(change, told):
    before = dict(REGISTRY)
    with pytest.raises(ValueError, match=told):
        register_metric(**{"name": "mine", "function": mean_of_top} | change)
    assert before == REGISTRY


def test_a_registered_metric_has_no_closed_form_of_ties(toy):
    with pytest.raises(ValueError, match=r"shame@3 has no mean over the orders.*ties='worst'"):
        evaluate([0, 1], [1, 1], metrics="shame@3", ties="average")


# -- conventions ------------------------------------------------------------------------------


def graded_queries(seed, *, tied):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, 50)
    qid = np.repeat(np.arange(50), sizes)
    y = rng.integers(0, 5, qid.size) * (rng.random(qid.size) < 0.4)
    scores = rng.normal(size=qid.size)
    # Single precision, because trec_eval keeps scores so.
    scores = np.round(scores, 1) if tied else scores.astype(np.float32).astype(float)
    return y, scores, qid, sizes


def lightgbm_values(y, scores, sizes, weights=None):
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(
        np.zeros((y.size, 1)), label=y, group=sizes, init_score=scores, weight=weights
    )
    parameters = {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": [1, 3, 10, 50]}
    booster = lightgbm.Booster(parameters | {"verbose": -1, "num_threads": 1}, data)
    return {name: value for _, name, value, _ in booster.eval_train()}


@pytest.mark.parametrize("tied", [False, True])
def test_lightgbm_preset(tied):
    y, scores, qid, sizes = graded_queries(1, tied=tied)
    expected = lightgbm_values(y, scores, sizes)
    assert len(expected) == 8
    got = evaluate(y, scores, qid, metrics=expected, preset="lightgbm").mean
    assert got == pytest.approx(expected, rel=1e-14)


def test_lightgbm_preset_with_weights():
    y, scores, qid, sizes = graded_queries(2, tied=True)
    y[np.append(0, np.cumsum(sizes)[:-1])] = 1  # LightGBM does not weigh an empty query's 1
    weights = np.random.default_rng(2).integers(1, 5, y.size).astype(float)
    expected = lightgbm_values(y, scores, sizes, weights)
    got = evaluate(y, scores, qid, metrics=expected, preset="lightgbm", sample_weight=weights).mean
    # LightGBM keeps weights in single precision.
    assert got == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("tied", [False, True])
def test_sklearn_preset(tied):
    from sklearn.metrics import dcg_score, ndcg_score, roc_auc_score

    y, scores, qid, _ = graded_queries(3, tied=tied)
    names = ["ndcg", "ndcg@5", "dcg", "dcg@5", "auc"]
    result = evaluate(y, scores, qid, metrics=names, preset="sklearn")
    checked = 0
    for index, query in enumerate(result.queries):
        rows = qid == query
        if rows.sum() == 1:
            continue  # scikit-learn refuses a single document
        one = [y[rows]], [scores[rows]]
        expected = {
            "ndcg": ndcg_score(*one),
            "ndcg@5": ndcg_score(*one, k=5),
            "dcg": dcg_score(*one),
            "dcg@5": dcg_score(*one, k=5),
        }
        if 0 < (y[rows] >= 1).sum() < rows.sum():
            expected["auc"] = roc_auc_score(y[rows] >= 1, scores[rows])
        for name, value in expected.items():
            assert result.per_query[name][index] == pytest.approx(value, rel=1e-13), name
            checked += 1
    assert checked > 200


def test_sklearn_without_ties():
    from scipy.stats import kendalltau
    from sklearn.metrics import average_precision_score, roc_auc_score

    rng = np.random.default_rng(4)
    y, scores = rng.integers(0, 3, 200), rng.normal(size=200)
    result = evaluate(y, scores, metrics=["map", "partial_auc@0.1", "kendall_tau"]).mean
    assert result["map"] == pytest.approx(average_precision_score(y >= 1, scores))
    # scikit-learn rescales the partial area so that chance is 1/2 (McClish).
    area, limit = result["partial_auc@0.1"] * 0.1, 0.1
    rescaled = 0.5 * (1 + (area - limit**2 / 2) / (limit - limit**2 / 2))
    assert rescaled == pytest.approx(roc_auc_score(y >= 1, scores, max_fpr=0.1))
    assert result["kendall_tau"] == pytest.approx(kendalltau(y, scores).statistic)


TREC = {
    "nDCG": "ndcg",
    "nDCG@5": "ndcg@5",
    "AP": "map",
    "AP@5": "map@5",
    "RR": "mrr",
    "P@5": "precision@5",
    "P@30": "precision@30",
    "R@5": "recall@5",
}


def trec_values(names, y, scores, qid):
    ir_measures = pytest.importorskip("ir_measures")
    # trec_eval breaks ties by document name, the greatest first: name rows downwards.
    names_of_rows = [f"d{y.size - i:06d}" for i in range(y.size)]
    judged = zip(qid, names_of_rows, y.tolist(), strict=True)
    qrels = [ir_measures.Qrel(str(q), d, g) for q, d, g in judged]
    ranked = zip(qid, names_of_rows, scores.tolist(), strict=True)
    run = [ir_measures.ScoredDoc(str(q), d, s) for q, d, s in ranked]
    measures = [ir_measures.parse_measure(name) for name in names]
    return {str(k): v for k, v in ir_measures.calc_aggregate(measures, qrels, run).items()}


@pytest.mark.parametrize("tied", [False, True])
def test_trec_preset(tied):
    y, scores, qid, _ = graded_queries(5, tied=tied)
    expected = trec_values(TREC, y, scores, qid)
    got = evaluate(y, scores, qid, metrics=TREC.values(), preset="trec").mean
    for theirs, ours in TREC.items():
        assert got[ours] == pytest.approx(expected[theirs], rel=1e-12), ours


def test_trec_relevance_level_and_cut_reciprocal_rank():
    y, scores, qid, _ = graded_queries(6, tied=False)
    expected = trec_values(["AP(rel=3)", "RR@2"], y, scores, qid)
    got = evaluate(y, scores, qid, metrics="map", preset="trec", relevant=3).mean["map"]
    assert got == pytest.approx(expected["AP(rel=3)"], rel=1e-12)
    got = evaluate(y, scores, qid, metrics="mrr@2", preset="trec").mean["mrr@2"]
    assert got == pytest.approx(expected["RR@2"], rel=1e-12)


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a Perl script")
def test_err_equals_gdeval():
    y, scores, qid, _ = graded_queries(7, tied=False)
    expected = trec_values(["ERR@10"], y, scores, qid)["ERR@10"]
    got = evaluate(y, scores, qid, metrics="err@10", preset="trec", max_grade=4).mean["err@10"]
    assert got == pytest.approx(expected, abs=1e-5)  # gdeval prints five decimals


def test_no_relevant_policies():
    y, scores, qid = [1, 0, 0, 0], [1, 2, 1, 2], ["a", "a", "b", "b"]
    names = ["ndcg", "map", "mrr", "err", "precision@1", "recall@1"]
    for policy, expected in [("skip", math.nan), ("zero", 0.0), ("one", 1.0)]:
        result = evaluate(y, scores, qid, metrics=[*names, "dcg", "auc"], no_relevant=policy)
        for name in names:
            np.testing.assert_equal(result.per_query[name][1], expected)
            assert result.skipped[name] == (policy == "skip")
        assert result.per_query["dcg"][1] == 0.0
        assert result.skipped["dcg"] == 0
        assert result.skipped["auc"] == 1
