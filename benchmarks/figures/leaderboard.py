"""Draw the figures of docs/leaderboard.md, from the crowd's votes of llmfao.

python benchmarks/figures/leaderboard.py
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "experiments"), str(ROOT / "benchmarks")]

from leaderboard import with_features  # noqa: E402
from precede import Leaderboard  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
plt.rcParams["svg.hashsalt"] = "leaderboard"  # the same drawing is the same file


def main():
    votes, _ = with_features()
    plain = Leaderboard(cluster="voter").fit(votes)
    even = Leaderboard(cluster="voter", controls="curves", features=["length"]).fit(votes)
    for name, board, what in (
        ("ranks", plain, "ranks"), ("wins", plain, "wins"), ("length", even, "length"),
    ):  # fmt: skip
        axes = board.plot(what)
        if what == "ranks":
            axes.tick_params(axis="y", labelsize=7)
        axes.figure.savefig(FIGURES / f"leaderboard_{name}.svg", metadata={"Date": None})
        plt.close(axes.figure)


if __name__ == "__main__":
    main()
