"""Leaderboards: exactness, coverage, votes saved, and the crowd of llmfao.

    python benchmarks/experiments/leaderboard.py [exact] [coverage] [asking] [llmfao]

Each part is a line of `benchmarks/results/leaderboard.jsonl`; the page `leaderboard.md` is made of
the last line of each, and of that of the speed part, which `benchmarks/speed/leaderboard.py`
writes. `exact` needs choix and evalica, which precede does not depend on. Coverage takes about ten
minutes of one core, asking five, llmfao five.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import RESULTS, append, write_page  # noqa: E402
from precede import BoostedRanker, Judgments, Leaderboard  # noqa: E402
from precede.files import read_votes  # noqa: E402
from problems import SHARED  # noqa: E402

FILE = "leaderboard.jsonl"
BOARDS = 400
OUTCOMES = np.array(["a", "b", "tie"])


# -- simulated votes -----------------------------------------------------------------------------


def draw(theta, a, b, extra, nu, rng):
    """Outcomes by Davidson's model, as text."""
    d = theta[a] - theta[b] + extra
    weight = np.stack([np.exp(d / 2), np.exp(-d / 2), np.full(d.size, nu)], axis=1)
    chance = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)
    return OUTCOMES[np.minimum((rng.random(d.size)[:, None] > chance).sum(axis=1), 2)]


def simulated(theta, voters, per_voter, taste, rng, nu=0.5):
    """Votes of voters whose strengths of the items differ from theta by N(0, taste²)."""
    n = theta.size
    sizes = np.maximum(1, np.round(per_voter * rng.lognormal(-0.18, 0.6, voters))).astype(int)
    voter = np.repeat(np.arange(voters), sizes)
    a = rng.integers(0, n, voter.size)
    b = (a + rng.integers(1, n, voter.size)) % n
    own = taste * rng.standard_normal((voters, n))
    outcome = draw(theta, a, b, own[voter, a] - own[voter, b], nu, rng)
    names = np.array([f"item {i:02d}" for i in range(n)])
    return pd.DataFrame({"a": names[a], "b": names[b], "outcome": outcome, "voter": voter})


# -- coverage ------------------------------------------------------------------------------------


ITEMS, VOTERS, PER_VOTER = 15, 100, 60
METHODS = (
    "clusters", "without clusters", "plain bootstrap of votes", "overlap of intervals, no clusters",
)  # fmt: skip


def coverage():
    found = {}
    for taste, name in ((0.0, "independent votes"), (1.0, "votes clustered by voter")):
        theta = 0.3 * np.sort(np.random.default_rng(1).standard_normal(ITEMS))[::-1]
        # What a board of endless votes shows: tastes move the strengths of the average voter.
        many = simulated(theta, 30_000, PER_VOTER, taste, np.random.default_rng(2))
        truth = Leaderboard(cluster=None).fit(many)
        known = dict(zip(truth.items_, truth.strengths_, strict=True))
        rank = {item: place for place, item in enumerate(truth.items_, 1)}
        covered = {method: [] for method in METHODS}
        for number in range(BOARDS):
            votes = simulated(theta, VOTERS, PER_VOTER, taste, np.random.default_rng(100 + number))
            for method, (strength, ranks) in one_board(votes, known, rank, number).items():
                covered[method].append((strength, ranks))
            if number % 50 == 49:
                print(name, number + 1, {m: np.mean(c, axis=0).round(3) for m, c in covered.items()},
                      flush=True)  # fmt: skip
        found[name] = {m: np.mean(c, axis=0).tolist() for m, c in covered.items()}
    return found


def one_board(votes, known, rank, seed):
    """Share of the strengths covered, and whether all ranks are, by method."""
    boards = {"clusters": Leaderboard(random_state=seed).fit(votes)}
    boards["without clusters"] = alone = Leaderboard(cluster=None, random_state=seed).fit(votes)
    frames = {name: board.to_frame() for name, board in boards.items()}
    plain = Leaderboard(cluster=None, intervals="bootstrap", resamples=100, random_state=seed)
    frames["plain bootstrap of votes"] = plain.fit(votes).to_frame()
    overlap = alone.to_frame()
    low, high = overlap["low"].to_numpy(), overlap["high"].to_numpy()
    overlap["rank_low"] = [1 + int((low > each).sum()) for each in high]
    overlap["rank_high"] = [len(low) - int((high < each).sum()) for each in low]
    frames["overlap of intervals, no clusters"] = overlap
    found = {}
    for name, frame in frames.items():
        truth = frame["item"].map(known)
        places = frame["item"].map(rank)
        inside = (frame["low"] <= truth) & (truth <= frame["high"])
        ranked = (frame["rank_low"] <= places) & (places <= frame["rank_high"])
        found[name] = (float(inside.mean()), float(ranked.all()))
    return found
