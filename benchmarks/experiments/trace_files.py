"""Files of the package that a fit enters, lines of code and import time, before and after.

    python benchmarks/experiments/trace_files.py [--before 2ebfdb6]     # about two minutes

Every task runs in a process of its own, once to import and compile and once traced
(`sys.setprofile`, in all threads): a file is entered when one of its Python functions is
called. Compiled kernels are not seen by the tracer, but the functions that call them are.
Writes `results/trace_files.md`, which docs/architecture.md includes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import ROOT, about, middle, source_at, write_page

FLAT = "2ebfdb6"  # the last commit with one flat folder of modules
REPEATS = 5


# -- tasks: each returns a function to trace ------------------------------------------------------


def _sample():
    from precede.datasets import search_results

    return search_results(30, features=6, informative=3, per_query=20, random_state=0)


def rankboost(_):
    from precede import RankBoost

    sample = _sample()
    return lambda: RankBoost(n_estimators=5).fit(sample.X, sample.y, qid=sample.qid)


def boosted(_):
    from precede import BoostedRanker

    sample = _sample()
    return lambda: BoostedRanker(n_estimators=5).fit(sample.X, sample.y, qid=sample.qid)


def on_dask(folder):
    import dask
    import dask.array as da
    from dask.distributed import Client

    from precede.dask import DaskRankBoost

    dask.config.set({"temporary-directory": str(folder), "distributed.admin.tick.limit": "60s"})
    client = Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    sample = _sample()
    X = da.from_array(sample.X, chunks=(150, 6))
    y, qid = (da.from_array(each, chunks=150) for each in (sample.y, sample.qid))
    return lambda: DaskRankBoost(n_estimators=5).fit(X, y, qid=qid, client=client)


def out_of_core(folder):
    from typer.testing import CliRunner

    from precede.cli import app

    sample = _sample()
    data, number = folder / "data.letor", iter(range(10))
    data.write_text("".join(
        f"{grade} qid:{query} " + " ".join(f"{j}:{x:.6g}" for j, x in enumerate(row, 1)) + "\n"
        for grade, query, row in zip(sample.y, sample.qid, sample.X, strict=True)
    ))  # fmt: skip

    def run():
        words = ["fit", str(data), "-o", str(folder / f"model{next(number)}.json"),
                 "--out-of-core", "--set", "n_estimators=5"]  # fmt: skip
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output

    return run


def report(_):
    from precede import RankBoost, Report

    sample = _sample()
    model = RankBoost(n_estimators=5).fit(sample.X, sample.y, qid=sample.qid)
    return lambda: Report(model, sample.X, sample.y, qid=sample.qid).to_html()


TASKS = {
    "`RankBoost().fit`": rankboost,
    "`BoostedRanker().fit`": boosted,
    "`DaskRankBoost().fit`": on_dask,
    "`fit --out-of-core`": out_of_core,
    "`Report(...).to_html`": report,
}


# -- tracing, in a process of its own -------------------------------------------------------------


class Tracer:
    """Files of the package whose functions are called while it is on, in order of entry."""

    def __init__(self):
        self.files, self.on = {}, False
        sys.setprofile(self.see)
        threading.setprofile(self.see)  # threads that start from now on

    def see(self, frame, event, _):
        if self.on and event == "call":
            name = frame.f_code.co_filename
            if f"{os.sep}precede{os.sep}" in name and frame.f_code.co_name != "<module>":
                self.files[name.rpartition(f"{os.sep}precede{os.sep}")[2]] = None


def trace(task):
    warnings.simplefilter("ignore")
    tracer = Tracer()
    with tempfile.TemporaryDirectory() as folder:
        run = TASKS[task](Path(folder))
        run()
        tracer.on = True
        run()
        tracer.on = False
    print("\n" + json.dumps(list(tracer.files)))
    sys.stdout.flush()
    os._exit(0)  # a cluster need not be taken down


def _python(source, *words):
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, "PYTHONPATH": str(source)},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


IMPORT = """
import sys, time
begin = time.perf_counter()
from precede import RankBoost
seconds = time.perf_counter() - begin
print([seconds, sum(name.split(".")[0] == "precede" for name in sys.modules)])
"""


# -- the page -------------------------------------------------------------------------------------


def size(source):
    files = sorted((source / "precede").rglob("*.py"))
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    top = [p for p in (source / "precede").iterdir() if p.suffix == ".py" or p.is_dir()]
    return len(files), sum(lines), sum(p.name != "__pycache__" for p in top)


def page(sources, commit):
    traced = {
        task: {side: _python(source, __file__, "--trace", task)
               for side, source in sources.items()}
        for task in TASKS
    }  # fmt: skip
    imports = {side: [] for side in sources}
    for _ in range(REPEATS + 1):  # the first writes bytecode
        for side, source in sources.items():
            imports[side].append(_python(source, "-c", IMPORT))
    counts = {side: size(source) for side, source in sources.items()}
    seconds = {side: middle([s for s, _ in runs[1:]]) for side, runs in imports.items()}
    modules = {side: runs[-1][1] for side, runs in imports.items()}
    machine = about(1)
    lines = [
        "# Files, lines and imports before and after the folders",
        "",
        f"{machine['date']}, Python {machine['python']}, load {machine['load']} on "
        f"{machine['cores']} cores. Before: commit {commit}, the last with one flat folder of "
        f"modules. After: commit {machine['commit']}.",
        "",
        "| | before | after |",
        "|---|--:|--:|",
        *(f"| {what} | {counts['before'][k]:,} | {counts['after'][k]:,} |"
          for k, what in enumerate(("Python files", "lines", "entries at the top level"))),
        f"| `from precede import RankBoost`, ms, median of {REPEATS} fresh processes in turn "
        f"| {1e3 * seconds['before']:.0f} | {1e3 * seconds['after']:.0f} |",
        f"| modules of the package it loads | {modules['before']} | {modules['after']} |",
        *(f"| files entered by {task} | {len(each['before'])} | {len(each['after'])} |"
          for task, each in traced.items()),
        "",
        "A file is entered when one of its Python functions is called. Files in order of entry:",
        "",
        "| | before | after |",
        "|---|---|---|",
        *(f"| {task} | {_listed(each['before'])} | {_listed(each['after'])} |"
          for task, each in traced.items()),
    ]  # fmt: skip
    return "\n".join(lines)


def _listed(files):
    return ", ".join(f"{name.removesuffix('.py')}" for name in files)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default=FLAT)
    parser.add_argument("--trace", help="trace one task in this process")
    options = parser.parse_args()
    if options.trace:
        trace(options.trace)
    with source_at(options.before) as before:
        text = page({"before": before, "after": ROOT / "src"}, options.before)
    print(text)
    write_page(__file__, "trace_files.md", text)


if __name__ == "__main__":
    main()
