"""Latency and throughput of every way to serve a model, beside LightGBM and XGBoost.

    python benchmarks/speed/serving.py            # about ten minutes
    python benchmarks/speed/serving.py --quick    # small, to see that it runs

Two models. Trees: grown by LightGBM, so that LightGBM, XGBoost (which reads our export) and all of
ours score the same trees. Additive: stumps of RankBoost, at most two tables for each feature. All
ways take turns in one process with the same number of threads and are called with one row, with
1,000 and with many rows. Rows are in the form that each way takes, made beforehand: arrays, lists
for Python, a table for SQL. SQLite's statement is prepared once, as Python's
module does; DuckDB plans a statement in every call, also a prepared one, so it is called with its
optimizer as well as without. The scores of each way are compared with those of `predict`.
"""

import argparse
import asyncio
import ctypes
import importlib.util
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import xgboost

from measure import ROOT, about, write_page
from precede import BoostedRanker, RankBoost, export
from precede.model import Ensemble
from precede.weak_rankers.trees import tree_from_lightgbm

FEATURES, TREES, LEAVES, ROUNDS, GROWN_ON = 30, 100, 31, 500, 5000
SIZES = (1, 1000)
LOOP = """
void score_rows(const double *x, long rows, double *scores)
{
    for (long i = 0; i < rows; i++)
        scores[i] = precede_score(x + i * %d);
}
"""


def table(rows):
    """Numbers on several scales, some missing; float32, so that all ways see the same."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, FEATURES)).astype(np.float32).astype(np.float64)
    X[:, ::5] = np.floor(2 * X[:, ::5])
    score = X[:, :9].sum(axis=1) + X[:, 9] * X[:, 10] + rng.standard_normal(rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, (score > np.quantile(score, 0.8)).astype(int)


def models(X, y, threads):
    """The two models, and LightGBM's trees."""
    settings = {
        "objective": "binary",
        "num_leaves": LEAVES,
        "verbosity": -1,
        "num_threads": threads,
    }
    light = lightgbm.train(settings, lightgbm.Dataset(X, y), TREES)
    grown = [tree_from_lightgbm(each["tree_structure"]) for each in light.dump_model()["tree_info"]]
    trees = BoostedRanker(n_estimators=1, n_jobs=threads).fit(X, y)
    trees.ensemble_ = Ensemble([*grown], [1.0] * len(grown), FEATURES)
    stumps = RankBoost(n_estimators=ROUNDS, learning_rate=0.1, n_jobs=threads).fit(X, y)
    return {f"{TREES} trees of {LEAVES} leaves": (trees, light), "additive": (stumps, None)}


class Ways:
    """Every way to score with one model, as a function of some rows, prepared beforehand."""

    def __init__(self, model, light, X, folder, threads):
        self.model, self.light, self.X = model, light, X
        self.folder, self.threads = Path(folder), threads
        for name in ("m.py", "m.c", "m.sql"):
            export(model, self.folder / name, **({"key": "id"} if name == "m.sql" else {}))
        export(model, self.folder / "m.json", "xgboost")
        for dtype in ("float32", "float64"):
            export(model, self.folder / f"{dtype}.onnx", dtype=dtype)

    def at(self, rows):
        """Name of each way, and a call that scores the first rows."""
        X = np.ascontiguousarray(self.X[:rows])
        found = {"predict": lambda: self.model.predict(X)}
        found["exported Python"] = self.python(X)
        found["exported C"] = self.c(X)
        for dtype in ("float32", "float64"):
            found[f"ONNX, {dtype}"] = self.onnx(X, dtype)
        found["SQL in SQLite"] = self.sqlite(X)
        found["SQL in DuckDB"] = self.duckdb(X)
        found["SQL in DuckDB, no optimizer"] = self.duckdb(X, optimizer=False)
        if self.light is not None:
            light = self.light
            found["LightGBM"] = lambda: light.predict(X, raw_score=True, num_threads=self.threads)
        found["XGBoost"] = self.xgboost(X)
        return found

    def python(self, X):
        module = {}
        exec(compile((self.folder / "m.py").read_text(), "m.py", "exec"), module)
        rows = X.tolist()
        return lambda: module["scores"](rows)

    def c(self, X):
        source, made = self.folder / "loop.c", self.folder / "m.so"
        if not made.exists():
            source.write_text((self.folder / "m.c").read_text() + LOOP % FEATURES)
            subprocess.run(
                ["gcc", "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC", source, "-o",
                 made, "-lm"], check=True,
            )  # fmt: skip
        function = ctypes.CDLL(str(made)).score_rows
        pointer = ctypes.POINTER(ctypes.c_double)
        function.argtypes, function.restype = [pointer, ctypes.c_long, pointer], None

        def score():
            scores = np.empty(len(X))
            function(X.ctypes.data_as(pointer), len(X), scores.ctypes.data_as(pointer))
            return scores

        return score

    def onnx(self, X, dtype):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        path = str(self.folder / f"{dtype}.onnx")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        given = X.astype(dtype)
        return lambda: session.run(["score"], {"X": given})[0]

    def sqlite(self, X):
        export(self.model, self.folder / "lite.sql", key="id", materialized=True)
        query = (self.folder / "lite.sql").read_text()
        base = sqlite3.connect(":memory:")
        names = [f"x{j}" for j in range(FEATURES)]
        base.execute(f"CREATE TABLE features (id INTEGER PRIMARY KEY, {', '.join(names)})")
        places = ", ".join("?" * (FEATURES + 1))
        base.executemany(
            f"INSERT INTO features VALUES ({places})",
            [(row, *values) for row, values in enumerate(X.tolist())],
        )
        return lambda: [score for _, score in sorted(base.execute(query))]

    def duckdb(self, X, *, optimizer=True):
        query = (self.folder / "m.sql").read_text()
        base = duckdb.connect(config={"threads": self.threads})
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(FEATURES)])
        frame.insert(0, "id", np.arange(len(X)))
        base.register("frame", frame)
        if not optimizer:
            base.execute("PRAGMA disable_optimizer")
        base.execute("CREATE TABLE features AS SELECT * FROM frame")

        def score():
            found = base.execute(query).fetchnumpy()
            return found["score"][np.argsort(found["id"])]

        return score

    def xgboost(self, X):
        booster = xgboost.Booster({"nthread": self.threads})
        booster.load_model(self.folder / "m.json")
        return lambda: booster.inplace_predict(X, missing=np.nan)


def times_of(call, most, seconds):
    """Milliseconds of calls, until they are enough or the time is up, after a first one."""
    call()
    found, end = [], time.perf_counter() + seconds
    while len(found) < most and (time.perf_counter() < end or len(found) < 3):
        begin = time.perf_counter()
        call()
        found.append(1e3 * (time.perf_counter() - begin))
    return found


def measured(ways, many, repeats, seconds):
    """For each way: times with one row, 1,000 and many, and the largest difference."""
    expected = ways.model.predict(ways.X[: max(SIZES)])
    found = {}
    for size in (*SIZES, many):
        for name, call in ways.at(size).items():
            entry = found.setdefault(name, {"times": {}})
            if size == max(SIZES):
                entry["off"] = float(np.abs(np.asarray(call()) - expected).max())
            entry["times"][size] = times_of(call, repeats, seconds)
    return found


def service(ways, repeats):
    """Milliseconds of requests of 1,000 candidates to the service of the example, one by one."""
    path = ROOT / "examples" / "serve_with_fastapi.py"
    spec = importlib.util.spec_from_file_location("serve_with_fastapi", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    app = example.create_app(ways.folder / "m.py")
    rows = [
        {f"x{j}": None if np.isnan(x) else x for j, x in enumerate(row)}
        for row in ways.X[:1000].tolist()
    ]
    body = json.dumps({"rows": rows})
    headers = {"content-type": "application/json"}

    async def ask():
        transport = example.httpx.ASGITransport(app=app)
        found = []
        async with example.httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            for _ in range(repeats + 3):
                begin = time.perf_counter()
                answer = await client.post("/score", content=body, headers=headers)
                found.append(1e3 * (time.perf_counter() - begin))
        if answer.json()["scores"] != ways.model.predict(ways.X[:1000]).tolist():
            raise RuntimeError("the service gives other scores")
        return found[3:]

    return asyncio.run(ask()), len(body)


def part(title, found, many):
    lines = [
        "", f"## {title}", "",
        "| | 1 row p50 | p99 | 1,000 rows p50 | p99 | "
        f"{many:,} rows, rows per second | largest difference |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for name, entry in found.items():
        cells = []
        for size in SIZES:
            low, high = np.quantile(entry["times"][size], [0.5, 0.99])
            cells += [f"{low:.3f}", f"{high:.3f}"]
        speed = many / np.median(entry["times"][many]) * 1e3
        off = "0" if entry["off"] == 0 else f"{entry['off']:.1e}"
        lines.append(f"| {name} | {' | '.join(cells)} | {speed:,.0f} | {off} |")
    return lines


def verdict(found):
    """Which way is fastest, from the numbers."""
    best = {size: min(found, key=lambda name: np.median(found[name]["times"][size]))
            for size in SIZES}  # fmt: skip
    return f"Fastest with one row: {best[1]}; with 1,000 rows: {best[1000]}."


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0, help="most for one figure")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.repeats, given.seconds, given.rows = 5, 0.2, 2000
    X, y = table(max(given.rows, GROWN_ON))
    lines = [
        "# Serving",
        "",
        ", ".join(f"{name} {value}" for name, value in about(given.threads).items())
        + f", duckdb {duckdb.__version__}, sqlite {sqlite3.sqlite_version}, onnxruntime "
        f"{onnxruntime.__version__}.",
        f"{FEATURES} features, 5 % of the values missing. Latency in milliseconds of a call, "
        f"median and 99th percentile of up to {given.repeats} calls with the same rows, which are "
        "then in the processor's caches. SQLite's statement is "
        "prepared once; DuckDB plans it in every call. The largest difference is from the scores "
        "of `predict`, over 1,000 rows.",
    ]
    for title, (model, light) in models(X[:GROWN_ON], y[:GROWN_ON], given.threads).items():
        with tempfile.TemporaryDirectory() as folder:
            ways = Ways(model, light, X, folder, given.threads)
            found = measured(ways, given.rows, given.repeats, given.seconds)
            lines += [*part(title, found, given.rows), "", verdict(found)]
            asked, size = service(ways, min(given.repeats, 300))
            low, high = np.quantile(asked, [0.5, 0.99])
            lines += [
                "",
                f"The FastAPI example with 1,000 candidates ({size / 1e3:,.0f} kB of JSON) in a "
                f"request, in process and one after the other: p50 {low:.1f} ms, p99 {high:.1f} ms "
                f"({len(asked)} requests).",
            ]
    text = "\n".join(lines)
    print(text)
    if not given.quick:
        write_page(__file__, "serving.md", text)


if __name__ == "__main__":
    main()
