"""The progress bar: on stderr, and only if asked for."""

import pytest

from precede import RankBoost
from samples import two_classes

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


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
