"""What a new user waits for: installation, import, help and the first call of everything.

    python benchmarks/experiments/first_hour.py                # on a quiet machine
    python benchmarks/experiments/first_hour.py --no-install   # without a package index

Each first call of precede is made in a process of its own: with no compiled code on disk (cold),
then again in a new process (warm). So is a first hour: a fit and what is done with the model, one
call after the other. Every other library makes its calls in one process. All use the same rows.
Seconds are those of the clock, with those of the processor in brackets: on a busy machine the
latter are the ones to compare.

Every library is installed into an environment of its own, twice, so that the second time finds
everything in pip's cache; megabytes are what it adds to an empty environment. With `--no-install`
the calls are made in the environment of this script. Libraries that are not there, or cannot be
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

import numpy as np

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
# Wanted, in seconds of a processor that has nothing else to do.
MOST_OF_A_CALL, MOST_OF_AN_HOUR = 4.0, 10.0

STEPS = """
import json, time, warnings
warnings.simplefilter("ignore")
found, compiled = {}, [0]
def step(name, call):
    clock, processor, before = time.perf_counter(), time.process_time(), compiled[0]
    answer = call()
    seconds = time.perf_counter() - clock, time.process_time() - processor
    found[name] = [*seconds, compiled[0] - before]
    return answer
"""
DATA = """
import numpy as np
generator = np.random.default_rng(0)
X, qid = generator.normal(size=(2400, 8)), np.repeat(np.arange(60), 40)
y = np.digitize(X[:, 0] + X[:, 1] + generator.normal(size=2400), [0.5, 1.5, 2.5])
X[:, 7] = generator.integers(0, 5, 2400)
good, sizes = (y > 0).astype(int), np.full(60, 40)
"""
OURS = f"""
{STEPS}
import precede
from numba.core import event
class Count(event.Listener):
    def on_start(self, event):
        compiled[0] += 1
    def on_end(self, event):
        pass
event.register("numba:compile", Count())
{DATA}
pairs = generator.permutation(2400).reshape(-1, 2)
labels = np.stack([y > 0, y > 1, X[:, 0] > 0.5], axis=1).astype(int)
long = generator.normal(size=(100_000, 8))
"""
# Estimator, the other arguments, and what it is fitted to.
QUERIES, ONE_LIST = ("queries", "X, y, qid=qid"), ("one list of two classes", "X, good")
FITS = [
    ("RankBoost", "", *QUERIES),
    ("RankBoost", "", *ONE_LIST),
    ("BoostedRanker", "", *QUERIES),
    ("BoostedRanker", "", *ONE_LIST),
    ("BoostedRanker", "", "listed pairs", "X, pairs=pairs"),
    ("BoostedRanker", "", "one list of 100,000 rows", "long, long[:, 0] > 0.5"),
    ("BoostedRanker", "categorical_features=[7]", *QUERIES),
    ("BoostedRanker", "monotone_constraints=[1] + [0] * 7", *QUERIES),
    ("BoostedRanker", "rank_weight='ndcg@10'", *QUERIES),
    ("BoostedRanker", "loss='hinge'", *QUERIES),
    ("BoostedRanker", "loss='softmax'", *QUERIES),
    ("BoostedRanker", "", "queries, watched", "X, y, qid=qid, eval_set=[(X, y)], eval_qid=[qid]"),
    ("GlassBoxRanker", "pair_estimators=20", *QUERIES),
    ("GlassBoxRanker", "pair_estimators=20", *ONE_LIST),
    ("PushRanker", "", *ONE_LIST),
    ("QBRank", "", *QUERIES),
    ("AdaBoostRanker", "", *ONE_LIST),
    ("RankBoostPlus", "", *QUERIES),
    ("SmoothMarginRanker", "", *ONE_LIST),
    ("ConvexRiskRanker", "", *ONE_LIST),
    ("MultilabelRanker", "", "three labels", "X, labels"),
]
METRICS = [
    "ndcg@10", "map", "mrr", "err", "precision@10", "recall@10", "auc", "pair_error", "spearman",
    "kendall_tau", "partial_auc@0.1", "positives_above_first_negative",
]  # fmt: skip
HOURS = {"RankBoost": QUERIES, "BoostedRanker": QUERIES, "GlassBoxRanker": ONE_LIST}
HOUR = """
import os, tempfile
estimator = precede.{name}
model = step("fit", lambda: estimator(n_estimators=20).fit({data}))
scores = step("predict", lambda: model.predict(X))
step("evaluate", lambda: (precede.evaluate({judged}), model.score(X, {judged_rows})))
step("explain", lambda: (model.explain(X[:10]), model.explain_pair(X, 0, 1)))
step("report", lambda: precede.Report(model, {data}))
path = os.path.join(tempfile.mkdtemp(), "model.json")
step("save", lambda: model.save(path))
step("load", lambda: precede.load(path).predict(X))
"""
CALLS = {
    "LightGBM": """
import lightgbm
model = lightgbm.LGBMRanker(n_estimators=20, verbose=-1)
step("fit, queries", lambda: model.fit(X, y, group=sizes))
step("predict", lambda: model.predict(X))
model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1)
step("fit, two classes", lambda: model.fit(X, good))
""",
    "XGBoost": """
import xgboost
model = xgboost.XGBRanker(n_estimators=20)
step("fit, queries", lambda: model.fit(X, y, qid=qid))
step("predict", lambda: model.predict(X))
""",
    "CatBoost": """
import catboost
model = catboost.CatBoostRanker(n_estimators=20, verbose=False, allow_writing_files=False)
step("fit, queries", lambda: model.fit(X, y, group_id=qid))
step("predict", lambda: model.predict(X))
""",
    "interpret": """
from interpret.glassbox import ExplainableBoostingRegressor
model = ExplainableBoostingRegressor(max_rounds=20)
step("fit (no ranker: a regression)", lambda: model.fit(X, y))
step("predict", lambda: model.predict(X))
""",
}
IMPORT = "import precede; precede.RankBoost"
UNDERNEATH = "import sklearn.base, numba"  # what a ranker is made of, whoever wrote it


def codes_of_ours():
    """The code of every process of precede, by a name and the data."""
    codes = {("import", ""): f"{STEPS}step('call', lambda: exec({IMPORT!r}))"}
    for name, given, kind, data in FITS:
        fit = f"estimator(n_estimators=20, {given}).fit({data})"
        shown = name + (f"({given})" if given else "")
        codes[shown, kind] = f"{OURS}estimator = precede.{name}\nstep('call', lambda: {fit})"
    evaluate = f"precede.evaluate(y > 1, X[:, 0], qid, metrics={METRICS})"
    codes["evaluate, every metric", "queries"] = f"{OURS}step('call', lambda: {evaluate})"
    return codes


def code_of_an_hour(name):
    data = HOURS[name][1]
    queries = "qid" in data
    judged_rows = "y, qid" if queries else "good"
    judged = "y, scores, qid" if queries else "good, scores"
    return OURS + HOUR.format(name=name, data=data, judged=judged, judged_rows=judged_rows)


def cold_and_warm(code, python):
    """What a process finds without compiled code on disk, and what the next one finds."""
    with tempfile.TemporaryDirectory() as cache:
        given = {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "2", "PRECEDE_QUIET": "1"}
        return told(code, python, **given), told(code, python, **given)


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
    code = f"{STEPS}step('import', lambda: exec({UNDERNEATH!r}))\nimport sys\n"
    code += "found['loaded'] = [name for name in ('scipy.stats', 'pandas') if name in sys.modules]"
    runs = [told(code, python) for _ in range(3)]
    clock, processor, _ = min((run["import"] for run in runs), key=lambda times: times[1])
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
    """Cold and warm seconds of every call of another library, or None where it is absent."""
    if python is None:
        return None
    load = f"step('import', lambda: exec({f'import {PACKAGES[name][1]}'!r}))"
    try:
        cold, warm = cold_and_warm(f"{STEPS}{load}\n{DATA}{CALLS[name]}", python)
    except RuntimeError as error:
        if "ModuleNotFoundError" in str(error):
            return None
        raise
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
            lines.append(f"| {name} | {step} | {' | '.join(map(shown, times))} |")
    return "\n".join(lines)


def shown(times):
    clock, processor, _ = times
    return f"{clock:.2f} ({processor:.2f})"


def table_of_first_calls(python):
    """The table, and the longest call, in seconds of the processor."""
    lines = ["| first call | data | cold | functions compiled | warm |", "|---|---|---|---|---|"]
    longest = 0.0
    for (name, kind), code in codes_of_ours().items():
        cold, warm = (run["call"] for run in cold_and_warm(code, python))
        lines.append(f"| {name} | {kind} | {shown(cold)} | {cold[2]} | {shown(warm)} |")
        longest = max(longest, cold[1])
    return "\n".join(lines), longest


def table_of_hours(python):
    """The table, and the longest hour, in seconds of the processor."""
    found = {name: cold_and_warm(code_of_an_hour(name), python) for name in HOURS}
    head = " | ".join(f"{name}, {HOURS[name][0]} | warm" for name in found)
    lines = [f"| call | {head} |", "|---" * (1 + 2 * len(found)) + "|"]
    totals = {name: [np.sum([*run.values()], axis=0) for run in runs]
              for name, runs in found.items()}  # fmt: skip
    for step in [*next(iter(found.values()))[0], "together"]:
        cells = [
            shown(totals[name][k] if step == "together" else found[name][k][step])
            for name in found for k in range(2)
        ]  # fmt: skip
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines), max(total[0][1] for total in totals.values())


def verdicts(longest_call, longest_hour):
    """What was wanted of ours, and what was found, in seconds of the processor."""
    lines = ["| of precede, cold | wanted | processor seconds | |", "|---|---|---|---|"]
    for what, seconds, most in (
        ("longest first call", longest_call, MOST_OF_A_CALL),
        ("longest first hour", longest_hour, MOST_OF_AN_HOUR),
    ):
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
            if name == "precede":
                first_calls, longest_call = table_of_first_calls(python)
                hours, longest_hour = table_of_hours(python)
                ours = [underneath(python), f"`precede --help`: {seconds_of_help(python):.2f} s."]
            else:
                calls[name] = call(name, python)
    shown_facts = ", ".join(f"{name} {value}" for name, value in facts.items())
    parts = [
        "# The first hour",
        "Seconds of the clock, with those of the processor in brackets: *cold* with no compiled "
        "code on disk, *warm* in a new process that finds it. 2,400 rows, 8 features, 60 queries, "
        "20 rounds, without the import. "
        + (
            "All libraries are in one environment."
            if arguments.no_install
            else "Every library is in an environment of its own, with what pip installs for it."
        ),
        "## First calls\n\nEach in a process of its own.",
        first_calls,
        "## A first hour\n\nOne call after the other, in one process.",
        hours,
        verdicts(longest_call, longest_hour),
        *ours,
        "## Other libraries\n\nOne call after the other, in one process for each library.",
        table_of_calls(calls),
        "## Installation",
    ]
    if arguments.no_install:
        parts.append("Not measured in this run (`--no-install`).")
    else:
        parts += ["Into an empty environment, from pip's cache.", table_of_installations(costs)]
    write_page(__file__, "first_hour.md", "\n\n".join([*parts, f"*{shown_facts}*"]))


if __name__ == "__main__":
    main()
