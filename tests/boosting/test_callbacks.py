"""Callbacks of scikit-learn's kind, which may end the fit, and the progress bar."""

import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification

from precede import BoostedRanker, ConvexRiskRanker, MultilabelRanker, RankBoost, RankBoostPlus
from precede.datasets import search_results
from precede.engine.compatibility import has_callbacks
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
