"""What a new user waits for: installation, import, help and the first call of everything.

    python benchmarks/experiments/first_hour.py                # on a quiet machine
    python benchmarks/experiments/first_hour.py --no-install   # without a package index

Every library is installed into an environment of its own, twice, so that the second time finds
everything in pip's cache; megabytes are what it adds to an empty environment. There it makes its
calls in a process of its own, one after the other on the same rows: first with no compiled code on
disk (cold), then again in a new process (warm). Seconds are those of the clock, with those of the
processor in brackets: on a busy machine the latter are the ones to compare. With `--no-install` the
calls are made in the environment of this script. Libraries that are not there, or cannot be
installed, are said to be absent. Writes `results/first_hour.md`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import ROOT, about, write_page

# What pip is given, and what is imported.
PACKAGES = {
    "precede": (str(ROOT), "precede"),
    "LightGBM": ("lightgbm[scikit-learn]", "lightgbm"),
    "XGBoost": ("xgboost-cpu[scikit-learn]", "xgboost"),
    "CatBoost": ("catboost", "catboost"),
    "interpret": ("interpret-core", "interpret.glassbox"),
}
# The targets of the first minute, in seconds of a processor that has nothing else to do.
TARGETS = {"RankBoost fit": 4.0, "BoostedRanker fit": 3.0, "evaluate": 2.0}
TOGETHER = ("RankBoost fit", "score", "evaluate", "report")
MOST_TOGETHER, MOST_IMPORT = 8.0, 0.7

ROWS = """
import json, time, warnings
warnings.simplefilter("ignore")
found = {}
def step(name, call):
    clock, processor = time.perf_counter(), time.process_time()
    answer = call()
    found[name] = [time.perf_counter() - clock, time.process_time() - processor]
    return answer
"""
DATA = """
import numpy as np
generator = np.random.default_rng(0)
X, qid = generator.normal(size=(2400, 8)), np.repeat(np.arange(60), 40)
y = np.digitize(X[:, 0] + X[:, 1] + generator.normal(size=2400), [0.5, 1.5, 2.5])
sizes = np.full(60, 40)
"""
CALLS = {
    "precede": """
import precede
model = precede.RankBoost(n_estimators=20, learning_rate=0.1)
stumps = step("RankBoost fit", lambda: model.fit(X, y, qid=qid))
step("score", lambda: stumps.score(X, y, qid))
step("evaluate", lambda: precede.evaluate(y, stumps.predict(X), qid))
step("report", lambda: precede.Report(stumps, X, y, qid=qid))
trees = step("BoostedRanker fit", lambda: precede.BoostedRanker(n_estimators=20).fit(X, y, qid=qid))
step("predict", lambda: trees.predict(X))
""",
    "LightGBM": """
import lightgbm
model = lightgbm.LGBMRanker(n_estimators=20, verbose=-1)
step("fit", lambda: model.fit(X, y, group=sizes))
step("predict", lambda: model.predict(X))
""",
    "XGBoost": """
import xgboost
model = xgboost.XGBRanker(n_estimators=20)
step("fit", lambda: model.fit(X, y, qid=qid))
step("predict", lambda: model.predict(X))
""",
    "CatBoost": """
import catboost
model = catboost.CatBoostRanker(n_estimators=20, verbose=False, allow_writing_files=False)
step("fit", lambda: model.fit(X, y, group_id=qid))
step("predict", lambda: model.predict(X))
""",
    "interpret": """
from interpret.glassbox import ExplainableBoostingRegressor
model = ExplainableBoostingRegressor(max_rounds=20)
step("fit (no ranker: a regression)", lambda: model.fit(X, y))
step("predict", lambda: model.predict(X))
""",
}
LOADS = {"precede": "import precede; precede.RankBoost"}
UNDERNEATH = "import sklearn.base, numba"  # what a ranker is made of, whoever wrote it


def seconds_of_calls(name, python, cache):
    """Seconds of the import, then of every call, in a new process."""
    load = LOADS.get(name, f"import {PACKAGES[name][1]}")
    code = f"{ROWS}step('import', lambda: exec({load!r}))\n{DATA}{CALLS[name]}"
    return told(code, python, NUMBA_CACHE_DIR=str(cache), OMP_NUM_THREADS="2")


def told(code, python, **environment):
    """What a new process has found; it may write bytecode, as it does for everybody."""
    done = subprocess.run(
        [python, "-c", f"{code}\nprint(json.dumps(found))"],
        check=False, capture_output=True, text=True,
        env=usual(python) | {"PYTHONDONTWRITEBYTECODE": "", **environment},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def usual(python):
    """The environment variables of a process; in another environment it finds nothing of ours."""
    left_out = () if python == sys.executable else ("PYTHONPATH",)
    return {name: value for name, value in os.environ.items() if name not in left_out}


def underneath(python):
    """How long the packages underneath take to import: of the clock, and of the processor."""
    code = f"{ROWS}step('import', lambda: exec({UNDERNEATH!r}))\nimport sys\n"
    code += "found['loaded'] = [name for name in ('scipy.stats', 'pandas') if name in sys.modules]"
    runs = [told(code, python) for _ in range(3)]
    clock, processor = min((run["import"] for run in runs), key=lambda times: times[1])
    loaded = " and ".join(f"`{name}`" for name in runs[0]["loaded"])
    return (
        f"`{UNDERNEATH}` alone takes {clock:.2f} s ({processor:.2f}): scikit-learn loads {loaded}."
    )


def seconds_of_help(python):
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        done = subprocess.run(
            [python, "-m", "precede.cli", "--help"], check=True, capture_output=True,
            env=usual(python) | {"PYTHONDONTWRITEBYTECODE": ""},
        )  # fmt: skip
        assert done.stdout
        seconds.append(time.perf_counter() - begin)
    return seconds[-1]


def call(name, python):
    """Cold and warm seconds of every call, or None where the library is absent."""
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as cache:
        try:
            cold = seconds_of_calls(name, python, cache)
        except RuntimeError as error:
            if "ModuleNotFoundError" in str(error):
                return None
            raise
        warm = seconds_of_calls(name, python, cache)
    return {step: (cold[step], warm[step]) for step in cold}


@contextmanager
def environment(name):
    """A Python that has the library, and what the second of two installations took.

    Both are None if it cannot be installed.
    """
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        cost = None
        for folder in (first, second):
            venv.create(folder, with_pip=True)
            python, before, begin = f"{folder}/bin/python", megabytes(folder), time.perf_counter()
            done = subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 PACKAGES[name][0]],
                check=False, capture_output=True, env=usual(python),
            )  # fmt: skip
            if done.returncode:
                yield None, None
                return
            cost = time.perf_counter() - begin, megabytes(folder) - before
        yield python, cost


@contextmanager
def here(_):
    """The Python of this script, into which nothing is installed."""
    yield sys.executable, None


def megabytes(folder):
    files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files) / 1e6


def table_of_installations(found):
    lines = ["| library | seconds | MB |", "|---|---|---|"]
    for name, told in found.items():
        row = "absent | |" if told is None else f"{told[0]:.0f} | {told[1]:.0f} |"
        lines.append(f"| {name} | {row}")
    return "\n".join(lines)


def table_of_calls(found):
    lines = ["| library | call | cold | warm |", "|---|---|---|---|"]
    for name, steps in found.items():
        if steps is None:
            lines.append(f"| {name} | absent | | |")
            continue
        for step, times in steps.items():
            told = " | ".join(f"{clock:.2f} ({processor:.2f})" for clock, processor in times)
            lines.append(f"| {name} | {step} | {told} |")
    return "\n".join(lines)


def verdicts(steps):
    """What was wanted of ours, and what was found, in seconds of the processor."""
    cold = {step: times[0][1] for step, times in steps.items()}
    wanted = [(f"first {step}", cold[step], most) for step, most in TARGETS.items()]
    wanted.append((", ".join(TOGETHER) + " together", sum(map(cold.get, TOGETHER)), MOST_TOGETHER))
    wanted.append(("import, warm", steps["import"][1][1], MOST_IMPORT))
    lines = ["| of precede | wanted | processor seconds | |", "|---|---|---|---|"]
    for what, seconds, most in wanted:
        met = "met" if seconds <= most else "**missed**"
        lines.append(f"| {what} | ≤ {most:g} | {seconds:.2f} | {met} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-install", action="store_true")
    arguments = parser.parse_args()
    facts = about(threads=2)
    calls, costs, ours = {}, {}, []
    for name in PACKAGES:
        with (here if arguments.no_install else environment)(name) as (python, costs[name]):
            calls[name] = call(name, python)
            if name == "precede":
                ours = [underneath(python), f"`precede --help`: {seconds_of_help(python):.2f} s."]
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    parts = [
        "# The first hour",
        "Seconds of the clock, with those of the processor in brackets, of the first call of "
        "everything: *cold* with no compiled code on disk, *warm* in a new process that finds it. "
        "2,400 rows, 8 features, 60 queries, 20 rounds. "
        + (
            "All libraries are in one environment."
            if arguments.no_install
            else "Every library is in an environment of its own, with what pip installs for it."
        ),
        table_of_calls(calls),
        verdicts(calls["precede"]),
        *ours,
        "## Installation",
    ]
    if arguments.no_install:
        parts.append("Not measured in this run (`--no-install`).")
    else:
        parts += ["Into an empty environment, from pip's cache.", table_of_installations(costs)]
    write_page(__file__, "first_hour.md", "\n\n".join([*parts, f"*{shown}*"]))


if __name__ == "__main__":
    main()
