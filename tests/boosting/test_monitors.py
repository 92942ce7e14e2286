"""Metrics of evaluation sets, by name, by function and in lists."""

import numpy as np
import pytest

from precede import Judgments, RankBoost, evaluate, pairs_in_order
from precede.boosting.monitors import share_in_order
from samples import halves

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@pytest.mark.parametrize(
    ("metric", "names"),
    [
        (None, ["pairs_in_order"]),
        ("ndcg@10", ["ndcg@10"]),
        ("pair_error", ["pair_error"]),
        (["map", "ndcg@5", None], ["map", "ndcg@5", "pairs_in_order"]),
        (lambda y, scores, qid: ("spread", float(np.ptp(scores)), False), ["spread"]),
    ],
    ids=["default", "ndcg", "lower is better", "list", "function"],
)
def test_metrics_by_name_by_function_and_in_lists(metric, names):
    (X, y, qid), (X2, y2, qid2) = halves()
    model = RankBoost(n_estimators=8, eval_metric=metric)
    model.fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    seen = model.evals_result_["valid_0"]
    assert list(seen) == names
    first = np.array(seen[names[0]])
    lower = names[0] in ("pair_error", "spread")
    assert model.best_iteration_ == int(np.argmin(first) if lower else np.argmax(first)) + 1


def test_named_metrics_are_those_of_the_metrics_module():
    from precede.metrics import evaluate

    (X, y, qid), (X2, y2, qid2) = halves()
    model = RankBoost(n_estimators=6, eval_metric="ndcg@10")
    model.fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    for scores, seen in zip(
        model.staged_predict(X2), model.evals_result_["valid_0"]["ndcg@10"], strict=True
    ):
        assert seen == pytest.approx(evaluate(y2, scores, qid2, metrics="ndcg@10").mean["ndcg@10"])


def test_a_least_relevant_grade_is_part_of_the_name():
    X, y = np.arange(12.0).reshape(6, 2), [1, 2, 5, 3, 4, 1]
    name = "map(relevant=4)"
    model = RankBoost(n_estimators=3, step="bound", eval_metric=name, early_stopping_rounds=2)
    model.fit(X, y, eval_set=(X, y))
    found = evaluate(y, model.predict(X), metrics="map", relevant=4).mean["map"]
    assert model.evals_result_["valid_0"][name][model.best_iteration_ - 1] == found < 1


def test_several_evaluation_sets_have_names():
    (X, y, qid), (X2, y2, qid2) = halves()
    model = RankBoost(n_estimators=3).fit(
        X, y, qid=qid, eval_set=[(X, y), (X2, y2)], eval_qid=[qid, qid2]
    )
    assert list(model.evals_result_) == ["valid_0", "valid_1"]
    last = model.evals_result_["valid_0"]["pairs_in_order"][-1]
    assert last == pytest.approx(model.score(X, y, qid=qid))


def test_the_share_in_order_weighs_queries_as_the_arrangement_does():
    generator = np.random.default_rng(0)
    qid = np.repeat([0, 1, 2], [4, 12, 30])
    y, weight = np.arange(qid.size) % 3, generator.integers(1, 4, qid.size).astype(float)
    scores = generator.integers(0, 5, qid.size).astype(float)
    judgments = Judgments(y, qid, weight=weight)
    shares = [pairs_in_order(judgments[rows], scores[rows])
              for rows in (np.flatnonzero(qid == each) for each in range(3))]  # fmt: skip
    items = np.bincount(qid, weight)
    for balance, expected in {
        "pairs": pairs_in_order(judgments, scores),
        "queries": np.mean(shares),
        "items": np.average(shares, weights=items),
    }.items():
        layout = judgments.to_layout(balance)
        found = share_in_order(layout, scores[layout.order])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
