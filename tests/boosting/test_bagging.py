"""The mean of fits to bootstrap samples."""

import numpy as np
import pytest
from sklearn.base import clone

from precede import BoostedRanker, Judgments, QBRank, load, write_table
from precede.boosting.coordinate_descent import CoordinateDescent
from precede.boosting.holdout import Resampler
from precede.boosting.loop import Rounds, run_rounds
from precede.datasets import search_results
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData

data = search_results(30, features=5, informative=3, per_query=10, random_state=1)
few = {"n_estimators": 6, "num_leaves": 4, "learning_rate": 0.3, "min_child_samples": 5}


def fitted(**options):
    return BoostedRanker(**few, bags=3, random_state=4, **options).fit(data.X, data.y, qid=data.qid)


def test_the_model_is_the_mean_of_fits_to_bootstrap_samples():
    """The twin: the same samples, fitted one after the other by the plain loop."""
    model = fitted()
    judgments = Judgments(data.y, data.qid)
    training = TrainingData.prepare(
        data.X, judgments, balance="items", max_bins=255, context=Context(1)
    )
    sample = Resampler(training, judgments, balance="items")
    draws = np.random.RandomState(model.draw_seed()).randint(2**31 - 1, size=(3, 2))
    scores = []
    for draw, seed in draws.tolist():
        one = BoostedRanker(**few, random_state=seed).fit(data.X, data.y, qid=data.qid)
        method = CoordinateDescent(one.plan(Rounds(6)), sample.bootstrap(draw)[0].training)
        scores.append(run_rounds(method).ensemble.predict(data.X))
    np.testing.assert_allclose(model.predict(data.X), np.mean(scores, axis=0), atol=1e-12)
    assert np.ptp(scores, axis=0).max() > 0.01
    assert len(model.ensemble_) == 18
    assert model.n_estimators_ == len(model.history_) == model.best_iteration_ == 6


def test_rounds_are_rounds_of_all_bags(tmp_path):
    model = fitted()
    stages = list(model.staged_predict(data.X))
    assert len(stages) == 6
    np.testing.assert_allclose(stages[-1], model.predict(data.X), atol=1e-12)
    np.testing.assert_allclose(stages[1], model.predict(data.X, num_iteration=2), atol=1e-12)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert (again.bags, again.n_estimators_) == (3, 6)
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    assert clone(model).bags == 3


def test_row_order_and_threads_leave_no_trace():
    rows = np.random.RandomState(2).permutation(data.y.size)
    other = BoostedRanker(**few, bags=3, random_state=4, n_jobs=2)
    other.fit(data.X[rows], data.y[rows], qid=data.qid[rows])
    assert other.ensemble_.to_dict() == fitted(n_jobs=1).ensemble_.to_dict()
    seeded = BoostedRanker(**few, bags=3, random_state=5).fit(data.X, data.y, qid=data.qid)
    assert seeded.ensemble_.weights != other.ensemble_.weights or (
        seeded.ensemble_.to_dict() != other.ensemble_.to_dict()
    )


def test_evaluation_sets_see_the_mean_and_stop_early():
    train = data.qid < 20
    model = BoostedRanker(
        **{**few, "n_estimators": 40}, bags=2, early_stopping_rounds=3, eval_metric="ndcg@5"
    )
    model.fit(
        data.X[train], data.y[train], qid=data.qid[train],
        eval_set=(data.X[~train], data.y[~train]), eval_qid=data.qid[~train],
    )  # fmt: skip
    assert model.n_estimators_ == model.best_iteration_ < 40
    assert len(model.ensemble_) == 2 * model.best_iteration_
    from precede.metrics import evaluate

    found = evaluate(
        data.y[~train], model.predict(data.X[~train]), data.qid[~train], metrics="ndcg@5"
    )
    assert found.mean["ndcg@5"] == pytest.approx(model.best_score_)


def test_one_list_labels_and_a_chosen_number_of_rounds():
    model = BoostedRanker(**few, bags=2).fit(data.X, data.y > 1)
    assert model.classes_ is not None
    both = Judgments(data.y, data.qid, label=data.y.astype(float))
    assert len(QBRank(**few, bags=2).fit(data.X, both).ensemble_) == 12
    model = BoostedRanker(**{**few, "n_estimators": "auto"}, bags=2)
    model.fit(data.X, data.y, qid=data.qid)
    assert model.n_estimators_ == model.selection_.chosen.rounds
    assert len(model.ensemble_) == 2 * model.n_estimators_


def test_an_interrupted_round_is_left_out():
    def press(progress):
        if progress.round == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        model = fitted(callbacks=[press])
    assert model.n_estimators_ == len(model.history_) == 3
    assert len(model.ensemble_) == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [({"bags": 0}, "bags=0"), ({"bags": 2, "warm_start": True}, "warm_start=False")],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BoostedRanker(**options).fit(data.X, data.y)


def test_disks_and_checkpoints_are_refused(tmp_path):
    model = BoostedRanker(**few, bags=2)
    assert not model.can_resume
    with pytest.raises(ValueError, match="cannot be resumed"):
        model.fit(data.X, data.y, checkpoint=tmp_path / "rounds.json")
    table = write_table(tmp_path / "table", [(data.X, data.y, data.qid)])
    with pytest.raises(ValueError, match="DiskTable"):
        model.fit(table)


def test_a_fitted_model_keeps_its_bags_whatever_the_parameter_becomes():
    sample = search_results(20, features=3, informative=2, random_state=0)
    model = BoostedRanker(bags=3, n_estimators=4, min_child_samples=5)
    model.fit(sample.X, sample.y, qid=sample.qid).set_params(bags=1)
    assert len([*model.staged_predict(sample.X)]) == 4
    model.set_params(warm_start=True, n_estimators=6)
    with pytest.raises(ValueError, match="bags=3"):
        model.fit(sample.X, sample.y, qid=sample.qid)
