"""Successive halving over folds of queries."""

import json
import math

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from precede import BoostedRanker, Judgments, QBRank, RankBoost, tune
from precede.algorithms import tuning
from precede.boosting.holdout import folds
from precede.datasets import search_results
from precede.metrics import evaluate

data = search_results(24, features=5, informative=3, per_query=10, random_state=1)
sample = {"X": data.X, "y": data.y, "qid": data.qid}
base = BoostedRanker(n_estimators=12, min_child_samples=3)
space = {"num_leaves": [2, 4, 8], "learning_rate": [0.05, 0.3], "reg_lambda": [0.0, 20.0]}
quick = {"space": space, "trials": 6, "cv": 4, "metric": "ndcg@5"}


def test_the_best_third_is_tried_on_more_folds_and_the_values_are_those_of_fits():
    """The twin: the winner fitted fold by fold, its curve averaged."""
    found = tune(base, **sample, **quick, random_state=3)
    assert [each.n_folds for each in found.trials] == [4, 2, 1, 1, 1, 1]
    assert found.trials[0].parameters in [each.parameters for each in found.trials]
    own = {name: getattr(base, name) for name in space}
    assert own in [each.parameters for each in found.trials]
    generator = np.random.RandomState(3)
    parts = folds(Judgments(data.y, data.qid), 4, random_state=generator.randint(2**31 - 1))
    best = found.trials[0]
    curves = []
    for learn, held in parts:
        model = found.best_estimator.set_params(n_estimators=12)
        model.fit(data.X[learn], data.y[learn], qid=data.qid[learn])
        stages = model.staged_predict(data.X[held])
        judged = [
            evaluate(data.y[held], scores, data.qid[held], metrics="ndcg@5").mean["ndcg@5"]
            for scores in stages
        ]
        curves.append(judged)
    mean = np.mean(curves, axis=0)
    assert best.rounds == np.argmax(mean) + 1
    assert best.value == pytest.approx(mean.max())
    assert best.difference == 0
    assert found.best_estimator.get_params()["n_estimators"] == best.rounds
    assert not hasattr(found.best_estimator, "ensemble_")


def test_a_search_goes_on_from_its_log(tmp_path, monkeypatch):
    log = tmp_path / "search.jsonl"
    whole = tune(base, **sample, **quick, log=log)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 6 + 2 + 2  # 6 candidates, 2 on two folds, 1 on all four
    log.write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    fitted = []
    fit = BoostedRanker.fit
    monkeypatch.setattr(
        BoostedRanker, "fit", lambda *given, **named: fitted.append(1) or fit(*given, **named)
    )
    again = tune(base, **sample, **quick, log=log)
    assert len(fitted) == 7
    assert again.rows() == whole.rows()
    tune(base, **sample, **quick, log=log)
    assert len(fitted) == 7
    for changed in ({"random_state": 1}, {"metric": "map"}):
        with pytest.raises(ValueError, match="with other data"):
            tune(base, **sample, **{**quick, **changed}, log=log)
    log.write_text("no log\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is not the log of a search"):
        tune(base, **sample, **quick, log=log)


def test_the_seed_decides():
    one, same, other = (tune(base, **sample, **quick, random_state=seed) for seed in (0, 0, 1))
    assert one.rows() == same.rows() != other.rows()


def test_what_cannot_be_fitted_is_listed_and_does_not_win():
    tried = {"rank_weight": [None, "nonsense"], "num_leaves": [4]}
    found = tune(base, **sample, space=tried, cv=2, trials=2)
    assert found.trials[0].refused == ""
    assert "nonsense" in found.trials[-1].refused
    assert math.isnan(found.trials[-1].value)
    with pytest.raises(ValueError, match="no candidate can be fitted"):
        tune(clone(base).set_params(loss="nonsense"), **sample, space={"loss": ["no"]}, cv=2)


def test_a_metric_of_which_less_is_better():
    found = tune(base, **sample, space=space, trials=3, cv=2, metric="pair_error")
    first, *others = [each for each in found.trials if each.n_folds == 2]
    assert all(first.value <= each.value for each in others)
    assert all(each.difference <= 0 for each in others)


def test_given_rounds_are_compared_at_their_end():
    found = tune(base, **sample, space={"n_estimators": [1, 10]}, cv=2)
    assert {each.rounds for each in found.trials} == {None}
    assert "n_estimators" in found.best_parameters


def test_the_table_the_command_and_the_defaults():
    found = tune(base, **sample, cv=2, trials=3)
    assert {*tuning.SPACE} >= {*found.trials[1].parameters} > {"loss", "rank_weight"}
    assert len(found.to_frame()) == 3
    assert len({tuple(row) for row in found.rows()}) == 1  # columns stand in one order
    assert "<table>" in found._repr_html_()
    assert str(found).startswith("ndcg@10 0.")
    trial = tuning.Trial({"rank_weight": {"k": 10}, "loss": "logistic"}, 2, 7, 0.0, 0.0, 0.0)
    assert tuning.Tuning(base, "map", (trial,)).command("a b.txt") == (
        "precede fit 'a b.txt' -a BoostedRanker -o model.json -s min_child_samples=3 "
        "-s n_estimators=7 -s 'rank_weight={\"k\": 10}'"
    )


def test_one_list_and_a_data_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data.X, columns=list("abcde"))
    model = RankBoost(n_estimators=5, learning_rate=0.1)
    found = tune(model, frame, data.y > 1, space={"learning_rate": [0.1, 0.2]}, cv=2, trials=2)
    assert found.metric == "pairwise_accuracy"
    found.best_estimator.fit(frame, data.y > 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": {"leaves": [1]}}, "no parameter 'leaves'"),
        ({"space": {"loss": "logistic"}}, "give a list of values"),
        (
            {"space": {"loss": ["xendcg"], "rank_weight": ["ndcg@10"]}, "trials": None},
            "no combination to try: a listwise loss",
        ),
        ({"trials": 0}, "trials=0"),
        ({"cv": 1}, "cv=1"),
        ({"metric": "nonsense"}, "nonsense"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tune(base, **sample, **options)


def test_records_are_json(tmp_path):
    tune(base, **sample, **quick, log=tmp_path / "log")
    head, *records = map(json.loads, (tmp_path / "log").read_text(encoding="utf-8").splitlines())
    assert head["metric"] == "ndcg@5"
    assert all(len(each["curve"]) == 12 for each in records)


def test_the_estimator_itself_is_a_candidate_of_a_small_space():
    found = tune(base, **sample, space={"learning_rate": [0.123, 0.456]}, trials=5, cv=2)
    rates = {trial.parameters["learning_rate"] for trial in found.trials}
    assert rates == {base.learning_rate, 0.123, 0.456}


def test_sparse_rows_with_the_same_values_elsewhere_are_other_data():
    one, other = (scipy.sparse.csr_matrix(np.eye(3)[order]) for order in ([0, 1, 2], [1, 0, 2]))
    judged = Judgments([1, 0, 0])
    assert tuning._digest(one, judged, []) == tuning._digest(one.copy(), judged, [])
    assert tuning._digest(one, judged, []) != tuning._digest(other, judged, [])


def half_labeled(label):
    """Grades for every other query, labels for the rest."""
    graded = data.qid % 2 == 0
    return Judgments(
        np.where(graded, data.y, np.nan), data.qid, label=np.where(graded, np.nan, label)
    )


def test_weight_and_shrinkage_of_qbrank_are_chosen_by_cross_validation():
    """Section 3 of Zheng et al.; the value is that of fits, judged by the grades held out."""
    space = {"weight": [0.05, 0.95], "learning_rate": [0.05, 0.3]}
    ranker = QBRank(n_estimators=15, min_child_samples=3)
    options = {"space": space, "trials": 4, "cv": 3, "metric": "ndcg@5", "random_state": 3}
    judgments = half_labeled(-10.0 * data.y)
    found = tune(ranker, data.X, judgments, **options)
    assert not any(each.refused for each in found.trials)
    assert found.best_parameters["weight"] == 0.95  # the labels mislead
    drawn = np.random.RandomState(3).randint(2**31 - 1)
    curves = []
    for learn, held in folds(judgments, 3, random_state=drawn):
        model = found.best_estimator.set_params(n_estimators=15)
        model.fit(data.X[learn], judgments[learn])
        rows = held[data.qid[held] % 2 == 0]
        curves.append([
            evaluate(data.y[rows], scores, data.qid[rows], metrics="ndcg@5").mean["ndcg@5"]
            for scores in model.staged_predict(data.X[rows])
        ])  # fmt: skip
    assert found.trials[0].value == pytest.approx(np.mean(curves, axis=0).max())


def test_the_log_of_a_search_with_other_labels_is_refused(tmp_path):
    ranker, options = QBRank(n_estimators=2), {"space": {"weight": [0.5]}, "trials": 1, "cv": 2}
    log = tmp_path / "search.jsonl"
    tune(ranker, data.X, half_labeled(data.y), **options, log=log)
    with pytest.raises(ValueError, match="log of a search with other data"):
        tune(ranker, data.X, half_labeled(-data.y), **options, log=log)
