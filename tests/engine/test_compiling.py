"""The announcement of compilation, how much is compiled, and the folder of compiled kernels."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precede.engine import compiling

COUNT = (
    "import numpy as np\n"
    "from precede.engine import compiling\n"
    "from precede.engine.exact import exact_sum\n"
    "compiling.SILENT_SECONDS = {silent}\n"
    "exact_sum(np.ones(3))\n"
    "exact_sum(np.ones(3, np.float32).astype(float))\n"
)
AT_ONCE = COUNT.format(silent=0)
IN_A_POOL = f"""
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(exec, ({AT_ONCE!r},))
"""


def told(arguments, cache, **more):
    """Run a process; return its stderr."""
    hidden = ("PYTEST_CURRENT_TEST", compiling.QUIET)
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment |= {"NUMBA_CACHE_DIR": str(cache), **more}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True
    ).stderr


def test_one_line_says_that_kernels_are_compiled_if_the_cache_is_cold(tmp_path):
    line = told(["-c", AT_ONCE], tmp_path)
    assert line.count("precede compiles its kernels once for this installation") == 1
    assert line.count("\n") == 1
    assert str(next(tmp_path.iterdir())) in line
    assert told(["-c", AT_ONCE], tmp_path) == ""


def test_a_second_of_compilation_is_not_worth_a_line(tmp_path):
    assert told(["-c", COUNT.format(silent=60)], tmp_path) == ""
    assert any(tmp_path.rglob("*.nbc"))
    assert 0.5 <= compiling.SILENT_SECONDS <= 2


def test_the_line_can_be_turned_off(tmp_path):
    assert told(["-c", AT_ONCE], tmp_path, PRECEDE_QUIET="1") == ""


def test_worker_processes_print_nothing(tmp_path):
    script = tmp_path / "work.py"
    script.write_text(IN_A_POOL)
    assert told([str(script)], tmp_path / "cache") == ""
    assert any((tmp_path / "cache").rglob("*.nbc"))


def test_kernels_of_other_packages_are_not_announced(tmp_path):
    theirs = "from precede.engine import compiling, execution\nimport numba\n"
    theirs += "compiling.SILENT_SECONDS = 0\nnumba.njit(lambda x: x + 1)(1)\n"
    assert told(["-c", theirs], tmp_path) == ""


def test_the_folder_of_compiled_code(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling.config, "CACHE_DIR", str(tmp_path))
    assert compiling.cache_folder().parent == tmp_path
    monkeypatch.setattr(compiling.config, "CACHE_DIR", "")
    package = Path(compiling.__file__).parents[1] / "__pycache__"
    assert compiling.cache_folder().parent in (package, Path("~/.cache/numba").expanduser())


# Checks the garbage collector while kernels of this package, of others, and one that fails compile.
COLLECTING = """
import gc, sys
import numpy as np
from numba import njit
from numba.core import event
from precede.engine.exact import exact_sum

class Look(event.Listener):
    def on_start(self, event):
        seen.append(gc.isenabled())
    def on_end(self, event):
        pass

def fails(x):
    return x.nothing

seen, before = [], sys.argv[1] == "True"
if not before:
    gc.disable()
event.register("numba:compile", Look())
exact_sum(np.ones(3))
assert seen and not any(seen), seen
assert gc.isenabled() == before
seen.clear()
njit(lambda x: x + 1)(1)
assert seen == [before]
fails.__module__ = "precede.fails"
try:
    njit(fails)(1)
except Exception:
    assert gc.isenabled() == before
else:
    raise AssertionError
"""


@pytest.mark.parametrize("before", [True, False])
def test_garbage_is_not_collected_while_a_kernel_is_compiled(before, tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", COLLECTING, str(before)], env=environment, check=True)


FIRST_FIT = """
import sys
import numpy as np
from numba.core import event
from precede import BoostedRanker

class Count(event.Listener):
    compiled = 0

    def on_start(self, event):
        self.compiled += 1

    def on_end(self, event):
        pass

count = Count()
event.register("numba:compile", count)
rng = np.random.default_rng(0)
X, y, qid = rng.normal(size=(3000, 4)), rng.integers(0, 4, 3000), np.arange(3000) // 20
{fit}
sys.stdout.write(str(count.compiled))
"""


@pytest.mark.parametrize(
    ("fit", "most"),
    [
        ("BoostedRanker(n_estimators=3).fit(X, y, qid=qid)", 28),
        ("BoostedRanker(n_estimators=3).fit(X, y > 2)", 35),
        ("BoostedRanker(n_estimators=3, rank_weight='ndcg@10').fit(X, y, qid=qid)", 44),
    ],
    ids=["queries", "one list", "ranks"],
)
def test_a_first_fit_compiles_few_functions(fit, most, tmp_path):
    """With their callees; users wait for each of them."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIRST_FIT.format(fit=fit)], env=environment,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert 10 < int(done.stdout) <= most


# Functions that all first calls compile together, and each of them alone after those before it.
MOST_TOGETHER, MOST_OF_A_CALL = 225, 40
# Kernels that are compiled for several types of an argument, and why.
SEVERAL_TYPES = {
    "engine.team._pack": "copies the arguments of all kernels",
    "engine.team._run_tasks": "leads or helps",
    "engine.team.claim_task": "is called with and without a number of a thread",
    "engine.backend._advance": "weak rankers have values of one byte or eight",
    "engine.exact._sum_range": "is called for all values, and for a range of them",
    "engine.histograms._fill": "is called for all rows, and for a range of them",
    "engine.histograms._find_cut": "is called with and without a bound",
}


@pytest.fixture(scope="module")
def first_calls(tmp_path_factory):
    """What `first_calls.py` prints that starts without kernels."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("kernels"))}
    script = Path(__file__).with_name("first_calls.py")
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_first_calls_of_everything_compile_few_functions(first_calls):
    calls = first_calls["calls"]
    assert 100 < sum(calls.values()) <= MOST_TOGETHER, calls
    assert max(calls.values()) <= MOST_OF_A_CALL, calls


def test_kernels_are_compiled_for_one_type_of_each_argument(first_calls):
    """Beside None, which stands for what a kernel does not need. A literal is another type."""
    found = {}
    for name, signatures in first_calls["types"].items():
        for types in zip(*signatures, strict=True) if len(signatures) > 1 else ():
            if len({*types} - {"none"}) > 1:
                found[name.removeprefix("precede.")] = sorted({*types})
    assert set(found) <= set(SEVERAL_TYPES), found
