"""The oldest supported versions of other packages."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from oldest import pins
from precede.engine import compatibility


def test_scikit_learn_without_callbacks_suffices(monkeypatch):
    """As before scikit-learn 1.9: events are ignored, and set_callbacks names the remedy."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    found = runpy.run_path(compatibility.__file__)
    assert not found["has_callbacks"]
    assert found["with_callbacks"](len) is len
    mixin = found["CallbackSupportMixin"]()
    with pytest.raises(NotImplementedError, match="use the parameter callbacks"):
        mixin.set_callbacks(print)
    context = mixin._init_callback_context(max_subtasks=3)
    context.call_on_fit_task_begin(estimator=mixin, X=None, y=None)
    round_ = context.subcontext(task_name="round")
    assert round_.call_on_fit_task_end(estimator=mixin, X=None, y=None) is False


SMOKE = """
import numba, numpy, sklearn
print(numpy.__version__, sklearn.__version__, numba.__version__)
import precede
from precede.datasets import search_results
for name in [*precede.__all__, "bounds", "cli", "margin", "plots", "testing", "top"]:
    getattr(precede, name)
sample = search_results(20, features=3, informative=2, per_query=10, random_state=0)
model = precede.RankBoost(n_estimators=5).fit(sample.X, sample.y, qid=sample.qid)
scores = model.predict(sample.X)
assert precede.evaluate(sample.y, scores, sample.qid, metrics="ndcg@10").mean["ndcg@10"] > 0.5
model.save("model.json")
assert (precede.load("model.json").predict(sample.X) == scores).all()
precede.export(model, "ranker.py")
print("done")
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="NumPy 1.26 has no wheels for this Python")
def test_the_oldest_versions_suffice(tmp_path):
    """A few calls; `make oldest` runs the whole suite."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "oldest"], check=True)
    python = tmp_path / "oldest" / "bin" / "python"
    options = ["--only-binary=:all:", "--no-compile"]
    installed = subprocess.run(
        [python, "-m", "pip", "install", *options, *pins(required=True)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if re.search(r"from versions: none|connection|timed out", installed.stderr, re.I):
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    source = {"PYTHONPATH": str(Path(compatibility.__file__).parents[2])}
    done = subprocess.run(
        [python, "-c", SMOKE], check=False, capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | source | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    versions, last = (done.stdout.splitlines() or [""])[:1], done.stdout.splitlines()[-1:]
    assert last == ["done"], done.stderr
    assert versions == ["1.26.0 1.6.0 0.60.0"]
