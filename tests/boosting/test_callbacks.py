"""Callbacks of scikit-learn's kind, which may end the fit, and the progress bar."""

import contextlib
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.tree import DecisionTreeRegressor

from precede import (
    AdaBoostRanker,
    BoostedRanker,
    Checkpoint,
    ConvexRiskRanker,
    Features,
    MultilabelRanker,
    PushRanker,
    RankBoost,
    RankBoostPlus,
    SmoothMarginRanker,
    Stumps,
    write_table,
)
from precede.datasets import search_results
from precede.engine.compatibility import has_callbacks
from precede.weak_rankers.regressors import Regressors
from precede.weak_rankers.stumps import SignedStumps
from samples import two_classes

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")
needs_callbacks = pytest.mark.skipif(
    not has_callbacks, reason="callbacks came with scikit-learn 1.9"
)


@pytest.fixture(scope="module")
def sample():
    return search_results(30, features=4, informative=3, per_query=12, random_state=0)


class Ear:
    """A callback of scikit-learn's kind that keeps what it hears."""

    def __init__(self, stop_after=None):
        self.heard, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.heard.append((context.task_name, fitted_estimator.predict(X), len(y)))
        return context.task_name == "round" and context.task_id + 1 == self.stop_after


HEARD = [
    RankBoost(n_estimators=3), BoostedRanker(n_estimators=3), RankBoostPlus(n_estimators=3),
    ConvexRiskRanker(n_estimators=3, tol=1e-9),
]  # fmt: skip


@needs_callbacks
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", HEARD, ids=lambda model: type(model).__name__)
def test_callbacks_of_scikit_learn_hear_every_round(sample, model):
    frame = pd.DataFrame(sample.X, columns=["a", "b", "c", "d"])
    ear = Ear()
    fitted = clone(model).set_callbacks(ear).fit(frame, sample.y, qid=sample.qid)
    begun = [told for told in ear.heard if isinstance(told, str)]
    assert begun == ["setup", "begin fit", *["begin round"] * 3, "teardown"]
    ended = [told for told in ear.heard if isinstance(told, tuple)]
    assert [name for name, _, _ in ended] == ["round"] * 3 + ["fit"]
    assert_array_equal(ended[-1][1], fitted.predict(frame))
    same = clone(model).fit(frame, sample.y, qid=sample.qid)
    assert_array_equal(fitted.predict(frame), same.predict(frame))
    if isinstance(model, RankBoost):
        for (_, scores, _), expected in zip(ended, same.staged_predict(frame), strict=False):
            assert_allclose(scores, expected, atol=1e-12)


@needs_callbacks
@pytest.mark.parametrize("method", ["MR", "MH"])
def test_callbacks_of_scikit_learn_hear_every_round_of_multilabel_boosting(method):
    X, Y = make_multilabel_classification(60, n_features=4, n_classes=3, random_state=0)
    ear, seen = Ear(), []
    ear.on_fit_task_end = lambda estimator, context, *, X, y, fitted_estimator: seen.append(
        (context.task_name, fitted_estimator.predict(X), fitted_estimator.classify(X))
    )
    model = MultilabelRanker(method=method, n_estimators=3)
    fitted = clone(model).set_callbacks(ear).fit(X, Y)
    assert ear.heard == ["setup", "begin fit", *["begin round"] * 3, "teardown"]
    assert [name for name, _, _ in seen] == ["round"] * 3 + ["fit"]
    for rounds, (_, scores, labels) in enumerate(seen[:3], 1):
        same = clone(model).set_params(n_estimators=rounds).fit(X, Y)
        assert_allclose(scores, same.predict(X), atol=1e-12)
        assert_array_equal(labels, same.classify(X))
    assert_array_equal(seen[-1][1], fitted.predict(X))
    ended = clone(model).set_callbacks(Ear(stop_after=2)).fit(X, Y)
    assert ended.n_estimators_ == 2


@needs_callbacks
def test_a_callback_of_scikit_learn_may_end_the_fit(sample):
    ear = Ear(stop_after=2)
    model = RankBoost(n_estimators=9).set_callbacks(ear).fit(sample.X, sample.y, qid=sample.qid)
    assert model.n_estimators_ == 2
    assert ear.heard[-1] == "teardown"


@needs_callbacks
def test_a_fit_that_fails_is_torn_down(sample):
    ear = Ear()
    model = RankBoost(n_estimators=2, callbacks=[lambda _: 1 / 0]).set_callbacks(ear)
    with pytest.raises(ZeroDivisionError):
        model.fit(sample.X, sample.y, qid=sample.qid)
    assert ear.heard[-1] == "teardown"


@needs_callbacks
def test_scikit_learns_scoring_monitor(sample):
    """The score of the estimator, on the training data, after every round."""
    from sklearn.callback import ScoringMonitor

    y = (sample.y > 0).astype(int)
    monitor = ScoringMonitor(scoring={"auc": lambda model, X, y: model.score(X, y)})
    model = RankBoost(n_estimators=4, learning_rate=1.0).set_callbacks(monitor).fit(sample.X, y)
    whole, *rounds = monitor.get_logs().data  # the fit comes first, though it ends last
    assert [each["task_name"] for each in (whole, *rounds)] == ["fit", *["round"] * 4]
    assert whole["auc"] == rounds[-1]["auc"] == model.score(sample.X, y)
    assert rounds[0]["auc"] < whole["auc"]


# -- the progress bar -------------------------------------------------------------------------


def test_progress_is_drawn_on_stderr_and_never_on_stdout(capfd):
    X, y = two_classes()
    RankBoost(n_estimators=5, verbose=1).fit(X, y, eval_set=(X, y))
    out, err = capfd.readouterr()
    assert out == ""
    assert "RankBoost" in err
    assert "5/5" in err


def test_silence_is_the_default(capfd):
    X, y = two_classes()
    RankBoost(n_estimators=3).fit(X, y)
    assert capfd.readouterr() == ("", "")


# -- checkpoints ------------------------------------------------------------------------------


SAMPLE = search_results(30, features=8, informative=3, random_state=0)
DATA = {"X": SAMPLE.X, "y": SAMPLE.y, "qid": SAMPLE.qid}
COLUMNS = ("risk", "log_risk", "edge", "step")


def same(one, other):
    for name in COLUMNS:
        assert np.array_equal(one.history_[name], other.history_[name]), name
    assert one.ensemble_.weak_rankers == other.ensemble_.weak_rankers
    assert one.ensemble_.weights == other.ensemble_.weights


def stop_after(rounds):
    return lambda progress: progress.round == rounds


@pytest.mark.parametrize("rounds", [1, 7, 19])
@pytest.mark.parametrize("settings", [{}, {"max_features": 0.4, "random_state": 3}])
def test_a_fit_stopped_anywhere_goes_on_to_an_equal_model(tmp_path, rounds, settings):
    settings = {"n_estimators": 20, "eval_metric": "ndcg@5", **settings}
    monitored = {"eval_set": (SAMPLE.X[:99], SAMPLE.y[:99]), "eval_qid": SAMPLE.qid[:99]}
    whole = RankBoost(**settings).fit(**DATA, **monitored)
    path = tmp_path / "fit.json"
    part = RankBoost(**settings, callbacks=[stop_after(rounds)])
    part.fit(**DATA, **monitored, checkpoint=path)
    assert len(part.history_) == rounds
    resumed = RankBoost(**settings).fit(**DATA, **monitored, checkpoint=path)
    same(whole, resumed)
    assert whole.evals_result_ == resumed.evals_result_
    assert whole.stop_reason_ == resumed.stop_reason_


def test_early_stopping_remembers_the_rounds_before(tmp_path):
    settings = {"n_estimators": 400, "early_stopping_rounds": 5}
    monitored = {"eval_set": (SAMPLE.X[:60], SAMPLE.y[:60] * 0 + SAMPLE.y[:60][::-1])}
    monitored["eval_qid"] = SAMPLE.qid[:60]
    whole = RankBoost(**settings).fit(**DATA, **monitored)
    path = tmp_path / "fit.json"
    few = {**settings, "n_estimators": len(whole.history_) - 2}
    RankBoost(**few).fit(**DATA, **monitored, checkpoint=path)
    resumed = RankBoost(**settings).fit(**DATA, **monitored, checkpoint=path)
    same(whole, resumed)
    assert (whole.best_iteration_, whole.stop_reason_) == (
        resumed.best_iteration_,
        resumed.stop_reason_,
    )


def test_an_evaluation_set_that_comes_when_all_rounds_are_done(tmp_path):
    """No round of the checkpoint has seen it, and there is none to come."""
    first = RankBoost(n_estimators=3).fit(**DATA, checkpoint=tmp_path / "c")
    monitored = {"eval_set": (SAMPLE.X, SAMPLE.y), "eval_qid": SAMPLE.qid}
    again = RankBoost(n_estimators=3).fit(**DATA, **monitored, checkpoint=tmp_path / "c")
    warm = RankBoost(n_estimators=3, warm_start=True).fit(**DATA).fit(**DATA, **monitored)
    for model in (again, warm):
        assert model.ensemble_.weights == first.ensemble_.weights
        assert (model.best_iteration_, model.best_score_) == (3, None)


def test_other_algorithms_resume(tmp_path):
    path = tmp_path / "fit.json"
    PushRanker(n_estimators=5).fit(**DATA, checkpoint=path)
    resumed = PushRanker(n_estimators=11).fit(**DATA, checkpoint=path)
    same(PushRanker(n_estimators=11).fit(**DATA), resumed)


@pytest.mark.parametrize("rounds", [1, 7, 8, 13, 21])
@pytest.mark.parametrize("weak_rankers", ["stumps", "features"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_certificate_is_resumed_with_its_average_of_pulls(tmp_path, rounds, weak_rankers):
    """Of the rounds since the last power of two; the interval is the same to the bit."""
    X = np.random.default_rng(0).normal(size=(40, 4))
    data = {"X": X, "y": (X[:, :3].sum(axis=1) > 0).astype(int)}
    settings = {"tol": 1e-9, "weak_rankers": weak_rankers}
    whole = SmoothMarginRanker(n_estimators=22, **settings).fit(**data)
    path = tmp_path / "fit.json"
    SmoothMarginRanker(n_estimators=rounds, **settings).fit(**data, checkpoint=path)
    resumed = SmoothMarginRanker(n_estimators=22, **settings).fit(**data, checkpoint=path)
    same(whole, resumed)
    for name in ("margin", "smooth_margin", "best_edge", "lower", "upper"):
        assert np.array_equal(whole.history_[name], resumed.history_[name]), name
    assert whole.margin_interval_ == resumed.margin_interval_
    assert len(whole.history_) == 22


def test_how_often_it_is_written(tmp_path):
    path, seen = tmp_path / "fit.json", []

    def rounds_on_disk(progress):
        seen.append(len(json.loads(path.read_text())["history"]) if path.exists() else 0)

    model = RankBoost(n_estimators=7, callbacks=[rounds_on_disk])
    model.fit(**DATA, checkpoint=Checkpoint(path, every=3, seconds=1e9))
    assert seen == [0, 0, 0, 3, 3, 3, 6]
    assert len(json.loads(path.read_text())["history"]) == 7  # the last round, at the end
    path.unlink()
    seen.clear()
    model.fit(**DATA, checkpoint=Checkpoint(path, seconds=0.0))
    assert seen == [0, 1, 2, 3, 4, 5, 6]


def test_fewer_rounds_than_the_checkpoint_has(tmp_path):
    path = tmp_path / "fit.json"
    RankBoost(n_estimators=9).fit(**DATA, checkpoint=path)
    same(
        RankBoost(n_estimators=4).fit(**DATA, checkpoint=path),
        RankBoost(n_estimators=4).fit(**DATA),
    )


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    path = tmp_path / "fit.json"
    RankBoost(n_estimators=4).fit(**DATA, checkpoint=path)
    with pytest.raises(ValueError, match="made with step='exact', not 'bound'"):
        RankBoost(step="bound").fit(**DATA, checkpoint=path)
    other = {**DATA, "y": SAMPLE.y[::-1]}
    with pytest.raises(ValueError, match="made from other data"):
        RankBoost(n_estimators=6).fit(**other, checkpoint=path)
    with pytest.raises(ValueError, match="not a checkpoint of this fit"):
        RankBoost(n_estimators=6).fit(SAMPLE.X[:, :3], SAMPLE.y, checkpoint=path)
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "estimator": "Other"}))
    with pytest.raises(ValueError, match="a checkpoint of 'Other'"):
        RankBoost(n_estimators=6).fit(**DATA, checkpoint=path)
    RankBoost(n_estimators=2).fit(**DATA).save(path)
    with pytest.raises(ValueError, match="is not a checkpoint"):
        RankBoost(n_estimators=6).fit(**DATA, checkpoint=path)
    path.write_text("{")
    with pytest.raises(ValueError, match="not a precede model"):
        RankBoost(n_estimators=6).fit(**DATA, checkpoint=path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator", [RankBoost, RankBoostPlus, SmoothMarginRanker, AdaBoostRanker]
)
@pytest.mark.parametrize("rounds", ["same", "more"])
def test_a_changed_checkpoint_is_refused(tmp_path, estimator, rounds):
    """Whatever column of the last round is gone or no number: never a KeyError."""
    path, data = tmp_path / "fit.json", {"X": SAMPLE.X, "y": SAMPLE.y > 1}
    estimator(n_estimators=3).fit(**data, checkpoint=path)
    fields = json.loads(path.read_text())
    last = fields["history"][-1]
    most = 3 if rounds == "same" else 4
    for name in last:
        for change in ("gone", None, "inf"):
            history = [dict(each) for each in fields["history"]]
            history[-1][name] = change
            if change == "gone":
                del history[-1][name]
            path.write_text(json.dumps({**fields, "history": history}))
            needed = name in estimator.resumes_from
            if needed and change != "inf":
                with pytest.raises(ValueError, match=rf"round 3 has no number '{name}'"):
                    estimator(n_estimators=most).fit(**data, checkpoint=path)
            else:  # of no use to going on, or a number after all
                with contextlib.suppress(ValueError):
                    estimator(n_estimators=most).fit(**data, checkpoint=path)


def test_parts_that_do_not_count_the_rounds_are_refused(tmp_path):
    path = tmp_path / "fit.json"
    RankBoostPlus(n_estimators=3).fit(**DATA, checkpoint=path)
    fields = json.loads(path.read_text())
    fields["history"][1]["parts"] = 1
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="'parts' does not count the rounds"):
        RankBoostPlus(n_estimators=5).fit(**DATA, checkpoint=path)


def test_what_cannot_be_resumed_is_refused(tmp_path):
    path = tmp_path / "fit.json"
    with pytest.raises(ValueError, match="ConvexRiskRanker cannot be resumed"):
        ConvexRiskRanker().fit(**DATA, checkpoint=path)
    with pytest.raises(ValueError, match="use one of them"):
        RankBoost(warm_start=True).fit(**DATA, checkpoint=path)
    with pytest.raises(ValueError, match="only a number"):
        RankBoost(max_features=0.5).fit(**DATA, checkpoint=path)
    with pytest.raises(ValueError, match="every=0"):
        Checkpoint(path, every=0)
    with pytest.raises(ValueError, match="seconds=nan"):
        Checkpoint(path, seconds=float("nan"))
    assert not path.exists()


def test_control_c_writes_the_rounds_done(tmp_path):
    path = tmp_path / "fit.json"

    def interrupt(progress):
        if progress.round == 5:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        RankBoost(n_estimators=12, callbacks=[interrupt]).fit(**DATA, checkpoint=path)
    same(
        RankBoost(n_estimators=12).fit(**DATA, checkpoint=path),
        RankBoost(n_estimators=12).fit(**DATA),
    )


FIT = """
import sys
from precede import Checkpoint, DiskTable, RankBoost

def tell(progress):
    print(progress.round, flush=True)
    if sys.argv[3] == "wait" and progress.round == 6:
        sys.stdin.read()

checkpoint = Checkpoint(sys.argv[2], every=2, seconds=1e9)
model = RankBoost(n_estimators=30, callbacks=[tell])
model.fit(DiskTable(sys.argv[1]), checkpoint=checkpoint)
model.save(sys.argv[4])
"""


def test_a_killed_process_goes_on_from_disk(tmp_path):
    """A fit from a table on disk is killed without warning; another goes on to its model."""
    table, path, model = (tmp_path / name for name in ("t", "fit.json", "model.json"))
    write_table(table, [(SAMPLE.X, SAMPLE.y, SAMPLE.qid)])
    command = [sys.executable, "-c", FIT, str(table), str(path)]
    with subprocess.Popen(
        [*command, "wait", str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        rounds = [int(process.stdout.readline()) for _ in range(6)]
        process.kill()  # in the middle of the fit, where it waits
    assert rounds == [1, 2, 3, 4, 5, 6]
    assert not model.exists()
    assert len(json.loads(path.read_text())["history"]) == 4  # round six had not ended
    done = subprocess.run([*command, "go on", str(model)], check=True, capture_output=True)
    assert [int(line) for line in done.stdout.split()] == list(range(5, 31))
    whole = RankBoost(n_estimators=30).fit(**DATA)
    fields = json.loads(model.read_text())
    assert fields["model"]["weights"] == whole.ensemble_.weights
    assert [each["log_risk"] for each in fields["history"]] == list(whole.history_["log_risk"])


OTHERS = [
    ("weak_rankers", Stumps() | Features(), Stumps() | Features(), Stumps() | SignedStumps()),
    ("weak_rankers", DecisionTreeRegressor(max_depth=2, random_state=0),
     DecisionTreeRegressor(max_depth=2, random_state=0),
     DecisionTreeRegressor(max_depth=3, random_state=0)),
    ("weak_rankers", Regressors(DecisionTreeRegressor(random_state=0)),
     Regressors(DecisionTreeRegressor(random_state=0)),
     Regressors(DecisionTreeRegressor(random_state=0), hessian="bound")),
    ("eval_metric", np.ptp, np.ptp, np.max),
]  # fmt: skip


@pytest.mark.parametrize(("name", "first", "equal", "other"), OTHERS)
def test_parameters_that_json_cannot_hold_are_compared(tmp_path, name, first, equal, other):
    path = tmp_path / "fit.json"

    def fit(rounds, value):
        return BoostedRanker(n_estimators=rounds, **{name: value}).fit(**DATA, checkpoint=path)

    fit(2, first)
    with pytest.raises(ValueError, match=f"was made with {name}="):
        fit(4, other)
    resumed = fit(4, equal)
    path.unlink()
    same(fit(4, first), resumed)
