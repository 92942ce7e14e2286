"""Seconds from names to strengths and to standard errors, beside evalica, choix and arena-rank.

    python benchmarks/speed/leaderboard.py [--peers PYTHON] [--small]

PYTHON is an interpreter that has the peers, by default this one; what it lacks is left out. Every
library reads the votes from a parquet file and is timed from the data frame on, after a warm-up on
a few thousand votes, in a process of its own. The result is a line of
`benchmarks/results/leaderboard.jsonl`; `python benchmarks/experiments/leaderboard.py page` writes
the page.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import about, append  # noqa: E402

LIMIT = 150  # seconds of a process
COMMON = """
import sys, time, json
import numpy as np, pandas as pd
votes = pd.read_parquet(sys.argv[1])
few = votes.iloc[:5000]
def timed(run):
    run(few)
    seconds = []
    while len(seconds) < 3 and sum(seconds) < 10:
        start = time.perf_counter()
        run(votes)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(min(seconds)))
"""
CODE = {
    "precede, strengths": """
from precede import Leaderboard
timed(lambda votes: Leaderboard(cluster=None).fit(votes))
""",
    "precede, errors": """
from precede import Leaderboard
timed(lambda votes: Leaderboard().fit(votes))
""",
    "the same, names as categories": """
from precede import Leaderboard
kinds = {name: "category" for name in ("model_a", "model_b", "winner")}
votes = votes.astype(kinds)
few = votes.iloc[:5000]
timed(lambda votes: Leaderboard().fit(votes))
""",
    "evalica, strengths": """
import evalica
kind = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
def run(votes):
    evalica.bradley_terry(votes["model_a"], votes["model_b"], votes["winner"].map(kind))
timed(run)
""",
    "choix, strengths": """
import choix
def run(votes):
    both, names = pd.factorize(pd.concat([votes["model_a"], votes["model_b"]]))
    a, b = both[: len(votes)], both[len(votes) :]
    won = votes["winner"].to_numpy()
    decided = won != "tie"
    pairs = np.where((won == "model_a")[:, None], np.stack([a, b], 1), np.stack([b, a], 1))
    choix.ilsr_pairwise(len(names), pairs[decided].tolist())
timed(run)
""",
    "arena-rank, errors": """
import jax
jax.config.update("jax_enable_x64", True)
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset
def run(votes):
    data = PairDataset.from_pandas(votes)
    BradleyTerry(n_competitors=len(data.competitors)).compute_ratings_and_cis(
        data, significance_level=0.05)
timed(run)
""",
}


def votes(count, items, path):
    """Votes by Davidson's model, with a voter for every ten."""
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(items)
    a = rng.integers(0, items, count)
    b = (a + rng.integers(1, items, count)) % items
    d = theta[a] - theta[b]
    weight = np.stack([np.exp(d / 2), np.exp(-d / 2), np.full(count, 0.6)], axis=1)
    chance = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)
    outcome = np.minimum((rng.random(count)[:, None] > chance).sum(axis=1), 2)
    names = np.array([f"language-model-{item:04d}" for item in range(items)])
    pd.DataFrame({
        "model_a": names[a], "model_b": names[b],
        "winner": np.array(["model_a", "model_b", "tie"])[outcome],
        "judge": rng.integers(0, max(count // 10, 1), count),
    }).to_parquet(path)  # fmt: skip


def seconds(name, code, path, peers):
    python = sys.executable if name.startswith(("precede", "the same")) else peers
    try:
        done = subprocess.run([python, "-c", COMMON + code, str(path)], check=False,
                              capture_output=True, text=True, timeout=LIMIT)  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(name, done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    return float(json.loads(done.stdout.splitlines()[-1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--small", action="store_true", help="100,000 votes; nothing is written")
    asked = parser.parse_args()
    sizes = [(count, items) for count in (1_000_000, 10_000_000) for items in (130, 1000)]
    rows, start = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for count, items in [(100_000, 130)] if asked.small else sizes:
            path = Path(folder) / "votes.parquet"
            votes(count, items, path)
            took = [seconds(name, code, path, asked.peers) for name, code in CODE.items()]
            rows.append({"votes": count, "items": items, "seconds": took})
            print(rows[-1], flush=True)
            if not asked.small:  # each line has all sizes so far
                keep(rows, time.perf_counter() - start)


def keep(rows, spent):
    here = about(None)
    machine = f"{here['processor']}, {here['cores']} cores, load average {here['load']}"
    notes = ["arena-rank runs on the same processor (JAX, 64 bits)."]
    append("leaderboard.jsonl", {
        "part": "speed", "date": here["date"], "seconds": spent,
        "found": {"machine": machine, "columns": [*CODE], "rows": rows, "notes": notes},
    })  # fmt: skip


if __name__ == "__main__":
    main()
