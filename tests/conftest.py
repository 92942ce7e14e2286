"""Settings of the suite: a Hypothesis profile that never depends on the clock or on chance."""

import os
import signal

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=500)
# For trying the suite on code broken on purpose: a failure need not be made small.
settings.register_profile(
    "mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A suite that was started in the background is born deaf to Ctrl-C; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MODULES = (
    "rankers.candidates", "model", "risks.pair_weights", "rankers.base", "rankers.columns",
    "risks.exponential", "rankers.stumps", "risks.sweeps", "engine.table",
)  # fmt: skip


@pytest.fixture
def tiny_thresholds(monkeypatch):
    """Use threads and pieces however small the work is."""
    from importlib import import_module

    for name in MODULES:
        module = import_module(f"precede.{name}")
        for constant, value in {"SMALL": 1, "PIECE": 16}.items():
            if hasattr(module, constant):
                monkeypatch.setattr(module, constant, value)
