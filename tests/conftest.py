"""Settings of the suite: a Hypothesis profile that never depends on the clock or on chance."""

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# For a first look while writing code: HYPOTHESIS_PROFILE=quick.
settings.register_profile("quick", settings.get_profile("ci"), max_examples=6)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=500)
# For looking further than the same examples again: other ones in every run.
settings.register_profile(
    "search", settings.get_profile("ci"), derandomize=False, max_examples=300, database=None
)
# For trying the suite on code broken on purpose: a failure need not be made small.
settings.register_profile(
    "mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate)
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)

# Hypothesis also tries the constants of the modules imported so far. Which these are depends on
# the tests that a process ran before, so equal seeds would not give equal examples.
if PROFILE != "search" and hasattr(providers, "is_local_module_file"):
    providers.is_local_module_file = lambda path: False

# A suite that was started in the background is born deaf to Ctrl-C; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Let fits to the degenerate problems of Hypothesis and scikit-learn end without rounds."""
    for item in items:
        drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if drawn or "check" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore:the model has no rounds"))


def pytest_runtest_setup():
    """Let every test see warnings that are given once in a process."""
    if context := sys.modules.get("precede.engine.execution"):
        context.WARNED.clear()


@pytest.fixture
def tiny_thresholds(monkeypatch):
    """Use threads and chunks however small the work is."""
    from precede.engine import execution
    from precede.engine.execution import MIN_PARALLEL_WORK
    from precede.risks import by_level, pair_weights

    monkeypatch.setattr(execution, "MIN_ROWS_TO_SHARE", 0)
    for kind in MIN_PARALLEL_WORK:
        monkeypatch.setitem(MIN_PARALLEL_WORK, kind, 1)
    monkeypatch.setattr(by_level, "MAX_ROWS_PER_CHUNK", 16)
    monkeypatch.setattr(pair_weights, "MAX_PAIRS_PER_CHUNK", 16)


@pytest.fixture
def device(monkeypatch):
    """An emulated GPU, which is opened as "cuda"."""
    from emulated_device import COMPILER, EmulatedDevice
    from precede.engine.backend import BACKENDS

    if COMPILER is None:
        pytest.skip("kernels are compiled with g++, and there is none")
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    return device
