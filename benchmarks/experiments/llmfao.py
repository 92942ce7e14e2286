"""From crowd votes on pairs of answers to a ranking of answers, no grade anywhere.

    python benchmarks/experiments/llmfao.py

Prompts are held out in turn (13 folds). A model sees 24 features of an answer's text and the
votes on the other prompts; it is judged by the share of the decisive votes on the held-out
prompt that its scores put in order. For comparison: the longer answer wins; and a Bradley-Terry
model of the 59 language models, which knows who wrote an answer and nothing about the text.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import write_page  # noqa: E402
from precede import BoostedRanker, Judgments, QBRank, RankBoost  # noqa: E402
from problems import SHARED  # noqa: E402


def read():
    path = SHARED / "llmfao" / "comparisons_with_surface_features.npz"
    data = np.load(path, allow_pickle=False)
    # outcome: 1 the left answer won, -1 the right one, 0 a tie
    decisive = data["outcome"] != 0
    left, right, outcome = (
        data[name][decisive].astype(int) for name in ("left", "right", "outcome")
    )
    winner, loser = np.where(outcome > 0, left, right), np.where(outcome > 0, right, left)
    return data, winner, loser


def bradley_terry(winner, loser, n, rounds=200, prior=0.5):
    """Strengths by Zermelo's iteration, with half a win and half a loss against an average."""
    wins = np.bincount(winner, minlength=n) + prior
    strength = np.ones(n)
    for _ in range(rounds):
        rate = 1 / (strength[winner] + strength[loser])
        met = np.bincount(winner, rate, minlength=n) + np.bincount(loser, rate, minlength=n)
        strength = wins / (met + 2 * prior / (strength + 1))
    return np.log(strength)


def main():
    data, winner, loser = read()
    X, prompt, author = data["X"][:, :24], data["answer_prompt"], data["answer_model"].astype(int)
    shape = {"n_estimators": 150, "min_child_samples": 10}
    learners = {
        "QBRank": lambda: QBRank(margin=1.0, num_leaves=8, **shape),
        "QBRank, targets summed": lambda: QBRank(margin=1.0, targets="sum", num_leaves=8, **shape),
        "BoostedRanker": lambda: BoostedRanker(balance="pairs", num_leaves=8, **shape),
        "RankBoost (stumps)": lambda: RankBoost(n_estimators=150, learning_rate=0.1),
    }
    names = [*learners, "the longer answer", "Bradley-Terry by author"]
    right = {name: np.zeros(winner.size) for name in names}
    length = int(np.flatnonzero(np.char.find(data["feature_names"], "char") >= 0)[0])
    held_out = np.unique(prompt[winner])  # some answers were never compared
    for held in held_out:
        test = prompt[winner] == held
        seen = Judgments(pairs=np.stack([winner[~test], loser[~test]], 1), n=len(X))
        scores = {name: make().fit(X, seen).predict(X) for name, make in learners.items()}
        scores["the longer answer"] = X[:, length]
        strength = bradley_terry(author[winner[~test]], author[loser[~test]], author.max() + 1)
        scores["Bradley-Terry by author"] = strength[author]
        for name, score in scores.items():
            gap = score[winner[test]] - score[loser[test]]
            right[name][test] = (gap > 0) + 0.5 * (gap == 0)
    lines = [
        "# Votes on answers of language models", "",
        f"{winner.size:,} decisive votes on {len(X):,} answers to {held_out.size} prompts; share "
        "of the votes on a held-out prompt put in order, with the standard error over prompts.", "",
        "| | votes in order | standard error |", "|---|---|---|",
    ]  # fmt: skip
    for name, found in right.items():
        by_prompt = np.array([found[prompt[winner] == held].mean() for held in held_out])
        error = by_prompt.std(ddof=1) / np.sqrt(by_prompt.size)
        lines.append(f"| {name} | {found.mean():.3f} | {error:.3f} |")
    print("\n".join(lines))
    write_page(__file__, "llmfao.md", "\n".join(lines))


if __name__ == "__main__":
    main()
