"""Results, speed, first fits and sizes of an earlier commit and of this one.

    python benchmarks/experiments/structure.py                          # about ten minutes
    python benchmarks/experiments/structure.py --only digests           # one section
    python benchmarks/experiments/structure.py --size small             # a busy machine
    python benchmarks/experiments/structure.py --after COMMIT           # not the working tree
    python benchmarks/experiments/structure.py --print                  # leave the page as it is

The earlier commit is FROZEN. Digests and counts of it are recorded in `results/structure.json`
(`--freeze` records them anew), times are always measured, in turn. Sections that are not asked for
stay on the page as they were. The working tree is measured as it is, a commit in a folder of its
own. Writes `results/structure.md`.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from structure_names import call
from structure_speed import FEATURES, SIZES, TASKS, THREADS
from trace_files import Tracer, boosted, rankboost
from trace_files import report as to_html

from measure import RESULTS, ROOT, about, middle, spread, tree_at, write_page

FROZEN = "6d92829"
RECORD = RESULTS / "structure.json"
MOST = 1.03  # a task may take at most this share of its time before
FIRST_FITS = ("RankBoost", "BoostedRanker")


# -- processes of one version --------------------------------------------------------------------


def python(tree, *words, **environment):
    """What a fresh Python prints last when it imports the package of a tree."""
    paths = os.pathsep.join(str(tree / each) for each in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, *map(str, words)], check=False, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment}, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed; its message is above")
    return json.loads(done.stdout.splitlines()[-1])


class Version:
    """A process that imports the package of a tree and answers with times."""

    def __init__(self, tree, size):
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("structure_speed.py"), size],
            env={**os.environ, "PYTHONPATH": str(tree / "src")},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, task):
        self.process.stdin.write(task + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{task} failed; its message is above")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def in_turn(number, sides):
    """The sides, in the other order every second time."""
    return list(sides) if number % 2 else list(sides)[::-1]


# -- sections: what they measure -----------------------------------------------------------------


def digests_of(tree):
    models = (each / "tests" / "models" for each in (tree, tree_at(FROZEN)))
    return python(tree, Path(__file__).with_name("structure_digests.py"), *models)


def compared(before, after):
    """How many digests are equal, by the first word of their names, and the names of others."""
    old, new = before["digests"], after["digests"]
    names = sorted(old | new)
    same = {name: old.get(name) == new.get(name) for name in names}
    groups = {}
    for name in names:
        group = groups.setdefault(name.split(",")[0], Counter())
        group.update(
            ["total", *["equal"] * same[name], *["refused"] * (new.get(name) == "refused")]
        )
    return {
        "total": len(names), "equal": sum(same.values()), "groups": groups,
        "different": [name for name in names if not same[name]],
        "saved": after["saved models"], "frozen": after["frozen models"],
        "kernels": [before["kernels launched"], after["kernels launched"]],
    }  # fmt: skip


def speed(trees, size, repeats):
    """Milliseconds of every task and side."""
    versions = {side: Version(tree, size) for side, tree in trees.items()}
    found = {}
    for task in TASKS:
        found[task] = {side: [] for side in versions}
        for number in range(repeats):
            for side in in_turn(number, versions):
                found[task][side].append(versions[side].ask(task))
        print(task, found[task], file=sys.stderr)
    for version in versions.values():
        version.close()
    return {"size": size, "repeats": repeats, "tasks": found}


FIRST = """
import time
now = lambda: (time.perf_counter(), time.process_time())
begin = now()
import precede
bare = now()
from precede import {name}
imported = now()
import numpy as np
X = np.random.default_rng(0).standard_normal((400, 5))
y, qid = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0), np.arange(400) // 20
ready = now()
{name}(n_estimators=5).fit(X, y, qid=qid)
print([np.subtract(*each).tolist() for each in ((bare, begin), (imported, begin), (now(), ready))])
"""


def first_fit(trees, repeats):
    """Seconds of imports and of a first fit, in a process that compiles, and in the next one."""
    found = {}
    for number in range(repeats):
        for name in FIRST_FITS:
            for side in in_turn(number, trees):
                with tempfile.TemporaryDirectory() as cache:
                    for kernels in ("to compile", "compiled"):
                        bare, imported, fitted = python(
                            trees[side], "-c", FIRST.format(name=name), NUMBA_CACHE_DIR=cache
                        )
                        times = {f"first fit of `{name}`, kernels {kernels}": fitted}
                        if name == "RankBoost" and kernels == "compiled":
                            times["`import precede`"] = bare
                            times["`from precede import RankBoost`"] = imported
                        for task, seconds in times.items():
                            found.setdefault(task, {each: [] for each in trees})[side].append(
                                seconds
                            )
    return {"repeats": repeats, "tasks": dict(sorted(found.items()))}


def lines_of(tree, *patterns):
    paths = [path for each in patterns for path in tree.glob(each)]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def interface_of(tree, name):
    """Public methods and attributes in the body of a class."""
    for path in (tree / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name == name:
                members = [getattr(each, "name", None)
                           or getattr(getattr(each, "target", None), "id", None)
                           for each in node.body]  # fmt: skip
                return sum(bool(each) and not each.startswith("_") for each in members)
    return 0


def predicting(folder):
    model = rankboost(folder)()
    X = call("search_results", 30, features=6, informative=3, per_query=20, random_state=0,
             module="precede.datasets").X  # fmt: skip
    return lambda: model.predict(X)


TRACED = {
    "`RankBoost().fit`": rankboost,
    "`BoostedRanker().fit`": boosted,
    "`predict`": predicting,
    "`Report(...).to_html`": to_html,
}


def trace(task):
    """Print the files that a task enters when it is done a second time."""
    warnings.simplefilter("ignore")
    tracer, run = Tracer(), TRACED[task](None)
    run()
    tracer.on = True
    run()
    tracer.on = False
    print("\n" + json.dumps(list(tracer.files)))


def counts_of(tree):
    source = [path.read_text(encoding="utf-8") for path in (tree / "src").rglob("*.py")]
    entered = {task: python(tree, __file__, "--trace", task) for task in TRACED}
    return {
        "lines of Python in src": lines_of(tree, "src/**/*.py"),
        "modules": len(source),
        "lines of CUDA": lines_of(tree, "src/**/*.cu", "src/**/*.cuh"),
        "lines of tests": lines_of(tree, "tests/**/*.py"),
        "lines of `tests/test_conventions.py`": lines_of(tree, "tests/test_conventions.py"),
        "the word `Any` in src": sum(len(re.findall(r"\bAny\b", text)) for text in source),
        "public methods and flags of `BoundRisk`": interface_of(tree, "BoundRisk"),
        **{f"files entered by {task}": len(files) for task, files in entered.items()},
    }


# -- the page ------------------------------------------------------------------------------------


def digests_text(found):
    yield (
        "Scores on the training rows, with probabilities where there are any, and the risk after "
        "every round: small fits with one thread and two, on the emulated device, from a table on "
        'disk and on two Dask workers. "Refused" are those that a fit in this way does not allow. '
        'The last row, "other": metrics, intervals, explanations, a report and exported models. '
        "Other processors and versions of numba may round differently."
    )
    yield from ("", "| | digests | equal | refused |", "|---|--:|--:|--:|")
    for name, group in found["groups"].items():
        counted = (group.get(each, 0) for each in ("total", "equal", "refused"))
        yield f"| {name} | {' | '.join(map(str, counted))} |"
    counted = [*found["saved"], *found["frozen"], FROZEN, *found["kernels"]]
    yield ""
    yield (
        "Saved models: {} of {} files of the later commit open and score as stored, {} of {} of "
        "commit {}. Kernels of the device that were launched: {} before, {} after."
    ).format(*counted)
    if found["different"]:
        yield from ("", "Different:", "", *(f"- {name}" for name in found["different"]))


def times_of(found, digits):
    """A table of times by the clock, and their ratios by the clock and of the processors."""
    yield "| | before | after | after / before | of the processors |"
    yield "|---|--:|--:|--:|--:|"
    slower = {"By the clock": [], "Of the processors": []}
    for task, sides in found["tasks"].items():
        before, after = (list(zip(*sides[side], strict=True)) for side in ("before", "after"))
        ratios = [middle(new) / middle(old) for old, new in zip(before, after, strict=True)]
        for tasks, ratio in zip(slower.values(), ratios, strict=True):
            tasks.extend([task] * (ratio > MOST))
        times = (spread(each[0], digits) for each in (before, after))
        yield f"| {' | '.join([task, *times, *(f'{ratio:.3f}' for ratio in ratios)])} |"
    for what, tasks in slower.items():
        yield from ("", f"{what} above {MOST}: {', '.join(tasks) or 'none'}.")


def speed_text(found):
    size = SIZES[found["size"]]
    queries, long, rows, few = (f"{size[key]:,}" for key in ("queries", "long", "rows", "few"))
    yield (
        f"Milliseconds, {THREADS} threads, pulls with one: medians of {found['repeats']} turns, "
        f"least and greatest in brackets; beside their ratio that of the time of the processors, "
        f"which depends less on what else runs. Wanted: at most {MOST}. Stumps and "
        f"trees: {queries} queries of about 120 rows, {FEATURES} features; weights by rank and the "
        f"logistic `PushRanker`: as many queries, 10 features; `PushRanker()`: {long} rows of two "
        f"classes; pulls: {queries} queries of 100, or one list of {long} rows; `QBRank`, "
        f"`GlassBoxRanker` and `RankBoostPlus`: {few} queries; predict: {2 * size['rows']:,} rows; "
        f"others: {rows} rows."
    )
    yield ""
    yield from times_of(found, 1)


def first_fit_text(found):
    yield (f"Seconds in fresh processes, medians of {found['repeats']} each in turn, least and "
           "greatest in brackets: 400 rows, 5 rounds.")  # fmt: skip
    yield ""
    yield from times_of(found, 2)


def counts_text(found):
    yield from ("| | before | after |", "|---|--:|--:|")
    for what, before in found["before"].items():
        yield f"| {what} | {before:,} | {found['after'].get(what, 0):,} |"


SECTIONS = {
    "digests": ("Digests", digests_text),
    "speed": ("Speed", speed_text),
    "first_fit": ("First fit", first_fit_text),
    "counts": ("Counts", counts_text),
}


def page(record):
    found = record["sections"]
    lines = ["# An earlier commit and a later one"]
    if "digests" in found:
        lines += ["", "{equal} of {total} digests equal.".format(**found["digests"]["found"])]
    for name, (title, text) in SECTIONS.items():
        if name in found:
            lines += ["", f"## {title}", "", found[name]["about"], "", *text(found[name]["found"])]
    return "\n".join(lines)


def described(before, after):
    machine = about(THREADS)
    after = after or machine["commit"]
    words = f"Before: commit {before}. After: commit {after}. " + ", ".join(
        f"{key} {machine[key]}"
        for key in ("date", "python", "processor", "cores", "load", "numpy", "numba")
    )
    return words + "."


def measured(name, options, record):
    """What a section finds; digests and counts of the frozen commit are read where recorded."""
    trees = {"before": tree_at(options.before),
             "after": tree_at(options.after) if options.after else ROOT}  # fmt: skip
    if name == "speed":
        return speed(trees, options.size, options.repeats)
    if name == "first_fit":
        return first_fit(trees, min(options.repeats, 3))
    run = {"digests": digests_of, "counts": counts_of}[name]
    frozen = record.setdefault("frozen", {"commit": FROZEN})
    before = frozen.get(name) if options.before == frozen["commit"] and not options.freeze else None
    if before is None:
        before = run(trees["before"])
        if options.before == FROZEN:
            frozen[name] = before
    after = run(trees["after"])
    return compared(before, after) if name == "digests" else {"before": before, "after": after}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default=FROZEN, metavar="COMMIT")
    parser.add_argument("--after", metavar="COMMIT", help="instead of the working tree")
    parser.add_argument("--only", choices=SECTIONS, action="append")
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--freeze", action="store_true", help="record the earlier commit anew")
    parser.add_argument("--print", action="store_true", help="write neither page nor record")
    parser.add_argument("--trace", choices=TRACED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trace:
        trace(options.trace)
        return
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"sections": {}}
    for name in options.only or SECTIONS:
        found = measured(name, options, record)
        said = described(options.before, options.after)
        record["sections"][name] = {"about": said, "found": found}
        if not options.print:
            RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    text = page(record)
    print(text)
    if not options.print:
        write_page(__file__, "structure.md", text)


if __name__ == "__main__":
    main()
