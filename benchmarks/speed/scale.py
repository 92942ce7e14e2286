"""The same fit from memory, from disk and on Dask workers: seconds, memory, equality.

    python benchmarks/speed/scale.py            # some eight minutes on two quiet cores
    python benchmarks/speed/scale.py --blocks 8 96  # in blocks of 25,000 rows; 8 32 by default
    python benchmarks/speed/scale.py --quick    # small, to see that it runs

Stumps (`RankBoost`) and trees (`BoostedRanker`).

Every line is a process of its own. Memory is the greatest resident set of that process
(``VmHWM``) less what it was after the imports and a tiny fit that compiles everything. Blocks of
rows are made on the spot from their number, so that whoever reads them one by one never holds
all. All models must be equal to the bit, or nothing is written.
"""

import argparse
import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import write_page

BLOCK = 25_000
FEATURES = 50
ROUNDS = 30


def block(number, features=FEATURES, rows=BLOCK):
    """Rows of queries of 25, made from the number of the block."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    score = X[:, :5].sum(axis=1) + 2 * rng.normal(size=rows)
    qid = number * (rows // 25) + np.arange(rows) // 25
    return X, np.digitize(score, [0.0, 2.0, 4.0]), qid


def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) * 1024


def fingerprint(model):
    parts = [model.ensemble_.weights, [repr(ranker) for ranker in model.ensemble_.weak_rankers]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def timed(function):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def estimator(weak_rankers, *, on_dask=False, **settings):
    """The algorithm that is measured with stumps, or with trees."""
    import precede
    import precede.dask

    name = {"stumps": "RankBoost", "trees": "BoostedRanker"}[weak_rankers]
    made = getattr(precede.dask, f"Dask{name}") if on_dask else getattr(precede, name)
    rate = {} if weak_rankers == "trees" else {"learning_rate": 0.1}
    return made(**{"n_estimators": ROUNDS, **rate, **settings})


def from_memory(weak_rankers, blocks, jobs):
    compile_all(weak_rankers, jobs)
    before = peak()
    X, y, qid = (np.concatenate(parts) for parts in zip(*map(block, range(blocks)), strict=True))
    model, seconds = timed(lambda: estimator(weak_rankers, n_jobs=jobs).fit(X, y, qid=qid))
    return {"fit": seconds, "memory": peak() - before, "model": fingerprint(model)}


def compile_all(weak_rankers, jobs):
    """A tiny fit, also of numbers that are packed as those of many rows are."""
    from precede.weak_rankers import tree_grower

    wide = tree_grower.MAX_WIDE_CELLS
    for cells in (wide, 0):
        tree_grower.MAX_WIDE_CELLS = cells
        X, y, qid = block(0, 3, 100)
        estimator(weak_rankers, n_estimators=2, n_jobs=jobs).fit(X, y, qid=qid)
    tree_grower.MAX_WIDE_CELLS = wide


def to_disk(weak_rankers, path, blocks, jobs):  # noqa: ARG001  (the table is the same)
    from precede import write_table

    write_table(path, [block(0, 3, 100)], n_jobs=jobs)
    before = peak()
    _, seconds = timed(lambda: write_table(path, map(block, range(blocks)), n_jobs=jobs))
    return {
        "write": seconds,
        "write_memory": peak() - before,
        "disk": sum(member.stat().st_size for member in Path(path).iterdir()),
    }


def from_disk(weak_rankers, path, jobs):
    from precede import DiskTable, write_table

    compile_all(weak_rankers, jobs)
    with tempfile.TemporaryDirectory() as folder:
        small = write_table(Path(folder, "table"), [block(0, 3, 100)], n_jobs=jobs)
        estimator(weak_rankers, n_estimators=2, n_jobs=jobs).fit(small)
    before = peak()
    table = DiskTable(path)
    model, seconds = timed(lambda: estimator(weak_rankers, n_jobs=jobs).fit(table))
    return {"fit": seconds, "memory": peak() - before, "model": fingerprint(model)}


def on_dask(weak_rankers, blocks, workers):
    import dask
    from dask.distributed import Client

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with Client(processes=True, **options) as client:
        make = dask.delayed(block)
        small = [make(number, 3, 100) for number in range(2 * workers)]
        estimator(weak_rankers, on_dask=True, n_estimators=2).fit(small, client=client)
        parts = client.persist([make(number) for number in range(blocks)])
        ticks = []
        model = estimator(
            weak_rankers, on_dask=True, callbacks=[lambda _: ticks.append(time.perf_counter())]
        )
        _, seconds = timed(lambda: model.fit(parts, client=client))
        return {
            "fit": seconds,
            "round": float(np.median(np.diff(ticks))),
            "model": fingerprint(model),
        }


HOW = {"memory": from_memory, "write": to_disk, "disk": from_disk, "dask": on_dask}


def in_process(how, *given):
    done = subprocess.run(
        [sys.executable, __file__, "--one", how, *map(str, given)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def measure(sizes):
    lines = []
    for weak_rankers, blocks in itertools.product(("stumps", "trees"), sizes):
        for how, count in (("memory", 1), ("memory", 2), ("disk", 1), ("disk", 2), ("dask", 1),
                           ("dask", 2)):  # fmt: skip
            if how == "disk":
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder, "table")
                    found = in_process("write", weak_rankers, path, blocks, count)
                    found |= in_process("disk", weak_rankers, path, count)
            else:
                found = in_process(how, weak_rankers, blocks, count)
            size = {"weak_rankers": weak_rankers, "rows": blocks * BLOCK}
            lines.append({**size, "how": how, "count": count, **found})
            print(json.dumps(lines[-1]), flush=True)
        models = {line["model"] for line in lines[-6:]}
        assert len(models) == 1, "the models differ"
    return lines


def table(lines):
    names = {
        "memory": "from memory, threads",
        "disk": "from disk, threads",
        "dask": "Dask, workers",
    }
    text = [
        "# The same fit from memory, from disk and on Dask workers",
        "",
        f"`python benchmarks/speed/scale.py`, {date.today()}: {FEATURES} features as float32, "
        f"queries of 25 rows, {ROUNDS} rounds of `RankBoost(learning_rate=0.1)` "
        "(stumps) or `BoostedRanker()` (trees). All models of one kind and size are equal to the "
        "bit.",
        'Memory is the greatest resident set of the process less that after the imports; "a row" '
        "is that by the number of rows. On Dask it is that of the workers and not shown.",
        "",
        "| | rows | how | | write s | fit s | memory MB | a row, bytes | while writing MB | a row, "
        "bytes | file MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        rows = line["rows"]

        def number(name, unit=1.0, digits=1, line=line):
            return f"{line[name] / unit:.{digits}f}" if name in line else ""

        text.append(
            f"| {line['weak_rankers']} | {rows:,} | {names[line['how']]} | {line['count']} | "
            f"{number('write')} | {number('fit')} | {number('memory', 1e6, 0)} | "
            f"{number('memory', rows, 0)} | "
            f"{number('write_memory', 1e6, 0)} | {number('write_memory', rows, 0)} | "
            f"{number('disk', 1e6, 0)} |"
        )
    rounds = [line for line in lines if "round" in line]
    told = "; ".join(
        f"{line['weak_rankers']}, {line['rows']:,} rows, {line['count']} workers: "
        f"{1e3 * line['round']:.0f} ms"
        for line in rounds
    )
    return "\n".join([*text, "", f"A round on Dask (median): {told}.", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--blocks", nargs="+", type=int, default=[8, 32])
    parser.add_argument("--one", nargs="+", help="how, and what it takes: one line, as JSON")
    given = parser.parse_args()
    if given.one:
        how, *words = given.one
        print(json.dumps(HOW[how](*(int(w) if w.isdigit() else w for w in words))))
        return
    lines = measure([2] if given.quick else given.blocks)
    text = table(lines)
    print(text)
    if not given.quick:
        write_page(__file__, "scale.md", text)


if __name__ == "__main__":
    main()
