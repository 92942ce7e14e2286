"""The loop: steps, history, stopping rules, callbacks, interruption."""

import json
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from precede import ConvexRiskRanker, Judgments, PairRisk, RankBoost, RankBoostPlus, Stump, Stumps
from precede.algorithms import convex_risk, rankboost_plus
from precede.boosting.coordinate_descent import Plan, run
from precede.boosting.loop import (
    EarlyStopping,
    History,
    NoProgress,
    Round,
    Rounds,
    Stop,
    Trainer,
    run_rounds,
)
from precede.boosting.steps import BoundStep, ExactStep, SmoothedStepWarning, StepRule
from precede.datasets import search_results, two_normals
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.model import Ensemble
from precede.weak_rankers.base import SearchResult


def prepare(X, made, balance="pairs"):
    X = np.asarray(X, float)
    return TrainingData.prepare(X, made, balance=balance, max_bins=255, context=Context(1))


def plan(rounds=5, **options):
    defaults = {
        "risk": PairRisk("exponential"),
        "weak_rankers": Stumps(),
        "step": ExactStep(),
        "stop": Rounds(rounds),
    }
    return Plan(**(defaults | options))


NOISY = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
GRADES = Judgments([0, 1, 0, 1, 0, 1])


# -- steps -----------------------------------------------------------------------------------


def step_of(rule, made, values, loss="exponential", price=1):
    bound = PairRisk(loss, price).bind(made)
    state = bound.state(np.zeros(bound.layout.n_used_rows))
    placed = np.asarray(values)[bound.layout.order]
    return rule.step(bound, state, SearchResult(Stump(0, 0.5), bound.edge(state, placed)), placed)


def test_the_exact_step_is_half_the_log_ratio_of_the_masses():
    """Three pairs in order, one reversed."""
    made = Judgments.preferences([0, 0, 0, 4], [1, 2, 3, 0])
    step = step_of(ExactStep(), made, np.array([1, 0, 0, 0, 0], np.uint8))
    assert step.size == pytest.approx(0.5 * math.log(3))
    assert not step.smoothed
    assert not step.perfect


def test_the_exact_step_of_a_ranker_without_mistakes_is_smoothed_by_half_a_pair():
    """Of four pairs two are in order and two tied: d+ = 1/2, d- = 0, half a pair is 1/8."""
    made = Judgments.preferences([0, 0, 2, 3], [1, 2, 3, 1])
    values = np.array([1, 0, 0, 0], np.uint8)
    step = step_of(ExactStep(), made, values)
    assert step.size == pytest.approx(0.5 * math.log((1 / 2 + 1 / 8) / (1 / 8)))
    assert step.smoothed
    assert not step.perfect
    opposite = step_of(ExactStep(), made, 1 - values)
    assert opposite.size == pytest.approx(-step.size)


def test_a_ranker_that_orders_every_pair_is_perfect():
    step = step_of(ExactStep(), Judgments([1, 0, 0]), np.array([1, 0, 0], np.uint8))
    assert step.perfect
    assert not step.smoothed
    assert step.size == pytest.approx(0.5 * math.log((1 + 1 / 4) / (1 / 4)))


def test_the_bound_step_comes_from_the_edge_alone():
    """Three in order, one reversed, four tied: r = 2/8."""
    made = Judgments.preferences([0, 0, 0, 4, 1, 2, 3, 4], [1, 2, 3, 0, 2, 3, 4, 1])
    step = step_of(BoundStep(), made, np.array([1, 0, 0, 0, 0], np.uint8))
    assert step.size == pytest.approx(0.5 * math.log((1 + 0.25) / (1 - 0.25)))


def test_the_bound_step_refuses_rankers_outside_the_unit_interval():
    with pytest.raises(ValueError, match=r"values in \[0, 1\].*-1 to 3.*step='exact'"):
        step_of(BoundStep(), Judgments([1, 0]), np.array([3.0, -1.0]))


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("price", [1, 4])
def test_a_line_search_finds_the_least_risk_along_the_ranker(loss, price):
    made, values = Judgments([1, 0, 1, 0, 2]), np.array([0.3, 0.9, 0.8, 0.1, 0.5])
    step = step_of(ExactStep(), made, values, loss, price)
    risk = PairRisk(loss, price)
    at = [risk.value(made, s * values) for s in (step.size - 1e-3, step.size, step.size + 1e-3)]
    assert at[1] < min(at[0], at[2])
    assert not step.smoothed


def test_exact_steps_of_other_losses_are_line_searches():
    made, values = Judgments([1, 0, 1, 0, 2]), np.array([1, 0, 1, 1, 0], np.uint8)
    exact = step_of(ExactStep(), made, values, "logistic")
    assert exact == step_of(ExactStep(), made, values, "logistic")


# -- the loop --------------------------------------------------------------------------------


def test_a_perfect_ranker_ends_the_loop():
    result = run(plan(), prepare([[0], [1], [2]], Judgments([0, 0, 1])))
    assert len(result.ensemble) == 1
    assert result.reason == "one ranker puts every pair in order"


def test_rounds_end_the_loop():
    with pytest.warns(SmoothedStepWarning):
        result = run(plan(3), prepare(NOISY, GRADES))
    assert result.reason == "3 rounds"
    assert len(result.history) == len(result.ensemble) == 3


def test_the_loop_ends_where_no_ranker_improves_the_risk():
    result = run(plan(), prepare([[7.0], [7.0]], Judgments([1, 0])))
    assert result.reason == "no weak ranker improves the risk"
    assert len(result.ensemble) == 0


def test_a_smoothed_step_is_warned_of_once_and_recorded():
    remedy = r"half a pair.*learning_rate below 0.5.*warned once"
    with pytest.warns(SmoothedStepWarning, match=remedy) as caught:
        model = RankBoost(n_estimators=6, learning_rate=1.0).fit(NOISY, [0, 1, 0, 1, 0, 1])
    assert len(caught) == 1
    assert model.history_["smoothed"][0]
    assert caught[0].filename == __file__


def test_a_shrunk_smoothed_step_is_recorded_without_a_warning():
    """Warnings are errors in this suite."""
    model = RankBoost(n_estimators=6, learning_rate=0.1).fit(NOISY, [0, 1, 0, 1, 0, 1])
    assert model.history_["smoothed"].any()


# -- callbacks -------------------------------------------------------------------------------


def test_callbacks_see_every_round_and_may_stop():
    seen = []

    def watch(progress):
        seen.append((progress.round, len(progress.history), len(progress.ensemble)))
        return progress.round == 3

    X, y = np.arange(12.0)[:, None] % 5, np.arange(12) % 2
    model = RankBoost(n_estimators=10, callbacks=[watch], learning_rate=1.0).fit(X, y)
    assert seen == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    assert model.stop_reason_ == "stopped by a callback"
    assert len(model.ensemble_) == 3


def test_a_callback_that_returns_something_else_does_not_stop():
    X, y = np.arange(12.0)[:, None] % 5, np.arange(12) % 2
    model = RankBoost(n_estimators=5, callbacks=[lambda progress: "fine"], learning_rate=1.0).fit(
        X, y
    )
    assert len(model.ensemble_) == 5


def test_a_comparison_of_numbers_of_numpy_stops():
    X, y = np.arange(12.0)[:, None] % 5, np.arange(12) % 2
    model = RankBoost(n_estimators=5, callbacks=[lambda p: p.history["risk"][-1] < 1]).fit(X, y)
    assert len(model.ensemble_) == 1


def test_the_last_round_is_shown_to_the_callbacks_too():
    seen = []
    X, y = np.arange(12.0)[:, None] % 5, np.arange(12) % 2
    RankBoost(n_estimators=4, callbacks=[lambda p: seen.append(p.round)], learning_rate=1.0).fit(
        X, y
    )
    assert seen == [1, 2, 3, 4]


def test_ctrl_c_keeps_the_rounds_done_so_far():
    def interrupt(progress):
        if progress.round == 4:
            raise KeyboardInterrupt

    X, y = np.arange(12.0)[:, None] % 5, np.arange(12) % 2
    with pytest.warns(UserWarning, match="interrupted: the model has the 4 rounds"):
        model = RankBoost(n_estimators=10, callbacks=[interrupt], learning_rate=1.0).fit(X, y)
    shorter = RankBoost(n_estimators=4, learning_rate=1.0).fit(X, y)
    assert model.stop_reason_ == "interrupted"
    assert model.ensemble_.weak_rankers == shorter.ensemble_.weak_rankers
    assert model.ensemble_.weights == shorter.ensemble_.weights
    assert_array_equal(model.predict(X), shorter.predict(X))


def test_ctrl_c_in_the_middle_of_a_round_keeps_whole_rounds(monkeypatch):
    """The interrupt comes while the pull is computed, after the ranker was added."""
    from precede.risks.by_level import SeparableRisk

    X, y = np.arange(12.0)[:, None] % 5, np.arange(12) % 2
    whole, calls = SeparableRisk.state, []

    def state(self, scores):
        calls.append(1)
        if len(calls) == 4:  # the state before round 1, and those after rounds 1, 2
            raise KeyboardInterrupt
        return whole(self, scores)

    monkeypatch.setattr(SeparableRisk, "state", state)
    with pytest.warns(UserWarning, match="interrupted"):
        model = RankBoost(n_estimators=10, learning_rate=1.0).fit(X, y)
    assert len(model.ensemble_) == len(model.history_) == 2


# -- history and stopping rules -----------------------------------------------------------------


def test_history_is_read_by_round_and_by_column():
    history = History([{"risk": 1.0, "edge": 0.5}, {"risk": 0.25, "edge": 0.1}])
    assert_array_equal(history["risk"], [1.0, 0.25])
    assert history[-1] == {"risk": 0.25, "edge": 0.1}
    assert len(history[:1]) == 1
    assert history.columns == ["risk", "edge"]
    with pytest.raises(KeyError, match=r"no column 'loss'; there are \['risk', 'edge'\]"):
        history["loss"]


def test_history_of_a_fit_is_plain_json():
    """Numbers and truth values that the standard library can write."""
    with pytest.warns(SmoothedStepWarning):
        model = RankBoost(n_estimators=4, learning_rate=1.0).fit(NOISY, [0, 1, 0, 1, 0, 1])
    rounds = [json.loads(line) for line in model.history_.to_lines().splitlines()]
    assert len(rounds) == 4
    assert set(rounds[0]) >= {"risk", "log_risk", "edge", "step", "smoothed", "seconds"}
    lines = History([{"log_risk": -np.inf, "edge": np.float64(0.5)}]).to_lines()
    assert lines == '{"log_risk": "-inf", "edge": 0.5}\n'


def told(*risks, name="log_risk"):
    return History([{name: risk} for risk in risks])


def test_rounds_are_counted():
    assert Rounds(2).reason(told(1.0)) is None
    assert Rounds(2).reason(told(1.0, 1.0)) == "2 rounds"


def test_no_progress_compares_the_last_two_rounds():
    rule = NoProgress(0.1)
    assert rule.reason(told(0.0)) is None
    assert rule.reason(told(0.0, -0.2)) is None
    assert rule.reason(told(0.0, -0.05)) == "no more progress"
    assert NoProgress().reason(told(0.0, 0.0)) is None


@pytest.mark.parametrize(
    ("values", "greater", "best", "stops"),
    [
        ([0.1, 0.5, 0.4, 0.3], True, 2, True),
        ([0.1, 0.5, 0.4], True, 2, False),
        ([0.5, 0.5, 0.5], True, 1, True),  # the first of equals
        ([0.3, 0.2, 0.4, 0.5], False, 2, True),
        ([0.3, 0.2, 0.1], False, 3, False),
    ],
)
def test_worsening_waits_for_its_patience(values, greater, best, stops):
    rule, history = EarlyStopping("m", 2, greater), told(*values, name="m")
    assert rule.best_round(history) == best
    assert (rule.reason(history) is not None) == stops


def test_rules_are_joined_by_or():
    either = Rounds(5) | NoProgress(0.1)
    assert either.reason(told(0.0, -0.01)) == "no more progress"
    assert either.reason(told(*[0.0, -1.0, -2.0, -3.0, -4.0])) == "5 rounds"


def test_what_a_rule_has_to_write_is_said():
    with pytest.raises(NotImplementedError, match=r"Stop must define reason\(history\)"):
        Stop().reason(told(1.0))
    with pytest.raises(NotImplementedError, match=r"StepRule must define step\(\.\.\.\)"):
        StepRule().step(None, None, None, None)


def test_a_history_is_a_data_frame():
    from precede import RankBoost

    model = RankBoost(n_estimators=3, learning_rate=0.1)
    model.fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    frame = model.history_.to_frame()
    assert frame.index.tolist() == [1, 2, 3]
    assert frame.index.name == "round"
    assert frame["risk"].tolist() == model.history_["risk"].tolist()


# -- trainers ---------------------------------------------------------------------------------


SAMPLE = search_results(12, features=5, informative=3, per_query=10, random_state=0)


def training():
    judgments = Judgments(SAMPLE.y, SAMPLE.qid)
    return TrainingData.prepare(
        SAMPLE.X, judgments, balance="pairs", max_bins=255, context=Context(1)
    )


def plan_of(step, rounds=9):
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
        one = run(plan_of(Interrupted()), training())
    other = run(plan_of(ExactStep(), rounds=3), training())
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
