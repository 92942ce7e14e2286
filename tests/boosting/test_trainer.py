"""The loop over rounds: what it does for every method, and what a method must do for it."""

import warnings

import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from precede import ConvexRiskRanker, Judgments, PairRisk, RankBoostPlus, Stumps
from precede.algorithms import convex_risk, rankboost_plus
from precede.boosting.coordinate_descent import Plan, run
from precede.boosting.loop import History, Round, Rounds, Trainer, run_rounds
from precede.boosting.steps import ExactStep
from precede.datasets import search_results, two_normals
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.model import Ensemble

SAMPLE = search_results(12, features=5, informative=3, per_query=10, random_state=0)


def training():
    judgments = Judgments(SAMPLE.y, SAMPLE.qid)
    return TrainingData.prepare(
        SAMPLE.X, judgments, balance="pairs", max_bins=255, context=Context(1)
    )


def plan(step, rounds=9):
    return Plan(PairRisk("exponential"), Stumps(), step, Rounds(rounds))


class Counting(Trainer):
    """Counts to a number, and does nothing else."""

    def __init__(self, most, last=0, stop=100):
        self.stop, self.context, self.state = Rounds(stop), Context(1), None
        self.ensemble, self.count = Ensemble([], [], 1), 0
        self.most, self.last = most, last

    def boost_round(self):
        if self.count == self.most:
            return "counted"
        self.count += 1
        last = "the last" if self.count == self.last else ""
        return Round({"count": self.count}, {"after": 0}, last)

    def interrupt(self, history):
        return f"{len(history)} counted"


@pytest.mark.parametrize(
    ("method", "rounds", "reason"),
    [
        (Counting(3), 3, "counted"),
        (Counting(3, last=2), 2, "the last"),
        (Counting(9, stop=4), 4, "4 rounds"),
    ],
)
def test_why_it_ends(method, rounds, reason):
    result = run_rounds(method)
    assert (len(result.history), result.reason) == (rounds, reason)
    assert result.history.columns == ["count", "seconds", "after"]


def test_a_callback_is_heard_before_the_method_ends():
    seen = []

    def first(progress):
        return progress.round == 2

    result = run_rounds(
        Counting(9, last=2), callbacks=[first, lambda each: seen.append(each.round)]
    )
    assert result.reason == "stopped by a callback"
    assert seen == [1, 2]  # all callbacks are shown the round


def test_rounds_before_are_counted_and_their_history_is_not_changed():
    before = History([{"count": 1}, {"count": 2}])
    result = run_rounds(Counting(9, stop=4), before)
    assert (len(before), len(result.history), result.reason) == (2, 4, "4 rounds")
    perfect = run_rounds(Counting(9), [{"perfect": True}])
    assert (len(perfect.history), perfect.reason) == (1, "one ranker puts every pair in order")


def test_a_method_says_what_an_interrupt_leaves():
    def interrupt(progress):
        if progress.round == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted: 2 counted") as told:
        assert run_rounds(Counting(5), callbacks=[interrupt]).reason == "interrupted"
    assert told[0].filename == __file__
    with pytest.raises(KeyboardInterrupt):
        run_rounds(Counting(5), callbacks=[interrupt], interruptible=False)


class Interrupted(ExactStep):
    """Ctrl-C at the end of a round, before it is recorded."""

    rounds = 0

    def record(self, risk, state):
        self.rounds += 1
        if self.rounds == 4:
            raise KeyboardInterrupt
        return {}


def test_an_interrupt_leaves_the_state_of_the_last_whole_round():
    with pytest.warns(UserWarning, match="the 3 rounds done so far"):
        one = run(plan(Interrupted()), training())
    other = run(plan(ExactStep(), rounds=3), training())
    assert one.ensemble.weights == other.ensemble.weights
    assert_array_equal(one.state.scores, other.state.scores)
    assert_array_equal(one.state.pull, other.state.pull)


def test_an_interrupt_in_the_middle_of_a_step_leaves_the_weights_of_the_round_before(monkeypatch):
    sample = two_normals(200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = ConvexRiskRanker(n_estimators=6, tol=1e-9).fit(sample.X, sample.y)
    add, calls = convex_risk._ConditionalGradient._add_weight, []

    def interrupted(self, part, weight):
        rounds = len(whole.history_) - 1
        if len(calls) == rounds:
            raise KeyboardInterrupt
        add(self, part, weight)

    def move(self, found, original=convex_risk._ConditionalGradient._take_step):
        moved = original(self, found)
        calls.append(moved)
        return moved

    monkeypatch.setattr(convex_risk._ConditionalGradient, "_add_weight", interrupted)
    monkeypatch.setattr(convex_risk._ConditionalGradient, "_take_step", move)
    with pytest.warns(UserWarning, match="certified to a gap"):
        cut = ConvexRiskRanker(n_estimators=6, tol=1e-9).fit(sample.X, sample.y)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        shorter = ConvexRiskRanker(n_estimators=5, tol=1e-9).fit(sample.X, sample.y)
    assert cut.ensemble_.weak_rankers == shorter.ensemble_.weak_rankers
    assert cut.ensemble_.weights == shorter.ensemble_.weights
    assert cut.gap_ == pytest.approx(shorter.gap_, rel=1e-9)


def test_an_interrupt_on_the_way_to_the_radius_is_certified_for_the_last_one(monkeypatch):
    sample = two_normals(120, random_state=0)
    settings = {"radius": "cv", "radii": [0.5, 1.0, 2.0], "cv": 2, "tol": 1e-3}
    errors = [{"radius": r, "error": -r, "standard_error": 0.0} for r in settings["radii"]]
    monkeypatch.setattr(ConvexRiskRanker, "_cross_validated", lambda *_: errors)
    calls = []

    def move(self, found, original=convex_risk._ConditionalGradient._take_step):
        calls.append(self._radius)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, found)

    monkeypatch.setattr(convex_risk._ConditionalGradient, "_take_step", move)
    with pytest.warns(UserWarning, match="certified to a gap") as told:
        model = ConvexRiskRanker(**settings).fit(sample.X, sample.y)
    assert len(told) == 1
    assert calls == [0.5, 0.5]  # and no round in a larger ball
    assert (model.stop_reason_, model.radius_, len(model.history_)) == ("interrupted", 2.0, 1)


def test_an_interrupt_during_cross_validation_is_raised(monkeypatch):
    def move(self, found):
        raise KeyboardInterrupt

    monkeypatch.setattr(convex_risk._ConditionalGradient, "_take_step", move)
    sample = two_normals(60, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        ConvexRiskRanker(radius="cv", radii=[1.0, 2.0], cv=2).fit(sample.X, sample.y)


@pytest.mark.parametrize("search", ["efficient", "optimal"])
def test_an_interrupt_in_the_middle_of_a_round_of_rankboost_plus(search, monkeypatch):
    taken = []

    def take(self, move, original=rankboost_plus._E2Trainer._step_along):
        done = original(self, move)
        taken.append(1)
        if len(taken) == 4:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(rankboost_plus._E2Trainer, "_step_along", take)
    data = SAMPLE.X, SAMPLE.y
    with pytest.warns(UserWarning, match="the 3 rounds done so far"):
        cut = RankBoostPlus(n_estimators=9, search=search).fit(*data, qid=SAMPLE.qid)
    monkeypatch.undo()
    shorter = RankBoostPlus(n_estimators=3, search=search).fit(*data, qid=SAMPLE.qid)
    assert cut.ensemble_.weights == shorter.ensemble_.weights


def test_a_method_without_rounds_says_so():
    with pytest.raises(NotImplementedError, match="must define boost_round"):
        Trainer().boost_round()
