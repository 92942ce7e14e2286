"""What is recorded of a fit, and the rules that end it."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from boosting.test_loop import NOISY
from precede import RankBoost
from precede.boosting.loop import EarlyStopping, History, NoProgress, Rounds, Stop
from precede.boosting.steps import SmoothedStepWarning, StepRule


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
