"""Conventions, and those of other libraries next to the libraries themselves."""

import math
import shutil

import numpy as np
import pytest

from precede.metrics import (
    evaluate,
)


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
