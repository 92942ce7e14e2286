"""From crowd votes on pairs of answers to a ranking of answers, no grade anywhere.

    python benchmarks/experiments/llmfao.py

Prompts are held out in turn (13 folds). A model sees 24 features of an answer's text and the
votes on the other prompts, with and without the votes that call a draw. It is judged by the share
of the decisive votes on the held-out prompt that its scores put in order. For comparison: the
longer answer wins; and a Bradley-Terry model of the 59 language models, which knows who wrote an
answer and nothing about the text.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import write_page  # noqa: E402
from precede import BoostedRanker, Judgments, QBRank, RankBoost  # noqa: E402
from precede.inference import compare, ranking_risk  # noqa: E402
from problems import SHARED  # noqa: E402

SHAPE = {"n_estimators": 150, "min_child_samples": 10, "num_leaves": 8}
LEARNERS = {
    "QBRank": lambda: QBRank(margin=1.0, **SHAPE),
    "QBRank, targets summed": lambda: QBRank(margin=1.0, targets="sum", **SHAPE),
    "BoostedRanker": lambda: BoostedRanker(balance="pairs", **SHAPE),
    "RankBoost (stumps)": lambda: RankBoost(n_estimators=150, learning_rate=0.1),
}
BY_AUTHOR = "Bradley-Terry by author"


def read():
    """Features of answers, their prompts and authors, and the votes: decisive ones and draws."""
    path = SHARED / "llmfao" / "comparisons_with_surface_features.npz"
    data = np.load(path, allow_pickle=False)
    # outcome: 1 the left answer won, -1 the right one, 0 a tie
    votes = np.stack([data["left"], data["right"]], axis=1).astype(int)
    outcome = data["outcome"]
    pairs = np.where(outcome[:, None] > 0, votes, votes[:, ::-1])
    return data, pairs[outcome != 0], votes[outcome == 0]


def bradley_terry(pairs, ties, n, rounds=200, prior=0.5):
    """Strengths by Zermelo's iteration; a tie is half a win for both.

    Everyone has half a win and half a loss against an average opponent as well.
    """
    wins = np.bincount(pairs[:, 0], minlength=n) + prior
    wins = wins + 0.5 * np.bincount(ties.ravel(), minlength=n)
    one, other = np.concatenate([pairs, ties]).T
    strength = np.ones(n)
    for _ in range(rounds):
        rate = 1 / (strength[one] + strength[other])
        met = np.bincount(one, rate, minlength=n) + np.bincount(other, rate, minlength=n)
        strength = wins / (met + 2 * prior / (strength + 1))
    return np.log(strength)


def held_out_scores(data, pairs, ties):
    """One score per answer by each method, from the votes on the other prompts."""
    X, prompt, author = data["X"][:, :24], data["answer_prompt"], data["answer_model"].astype(int)
    scores = {name: np.zeros(len(X)) for name in [*LEARNERS, BY_AUTHOR]}
    for held in np.unique(prompt[pairs[:, 0]]):  # some answers were never compared
        answers = prompt == held
        inside, tied = pairs[prompt[pairs[:, 0]] != held], ties[prompt[ties[:, 0]] != held]
        seen = Judgments(pairs=inside, ties=tied, n=len(X))
        for name, make in LEARNERS.items():
            scores[name][answers] = make().fit(X, seen).predict(X)[answers]
        strength = bradley_terry(author[inside], author[tied], author.max() + 1)
        scores[BY_AUTHOR][answers] = strength[author[answers]]
    return scores


def main():
    data, pairs, ties = read()
    prompt = data["answer_prompt"]
    length = int(np.flatnonzero(np.char.find(data["feature_names"], "char") >= 0)[0])
    with_ties = held_out_scores(data, pairs, ties)
    without = held_out_scores(data, pairs, ties[:0])
    decisive = Judgments(pairs=pairs, qid=prompt)
    found = ranking_risk(decisive, data["X"][:, length], pairs="pooled")
    longer = f"| the longer answer | {1 - found.value:.3f} ± {found.std_error:.3f} | | |"
    lines = [
        "# Votes on answers of language models", "",
        f"{len(pairs):,} decisive votes and {len(ties):,} ties on {len(prompt):,} answers to "
        f"{found.n_queries} prompts. Share of the decisive votes on a held-out prompt put in "
        "order, with its standard error over prompts, learned from the decisive votes alone and "
        "from ties as well; and the paired difference with its 95 % interval.", "",
        "| | without ties | with ties | difference |", "|---|---|---|---|",
    ]  # fmt: skip
    for name in without:
        cells = []
        for scores in (without[name], with_ties[name]):
            found = ranking_risk(decisive, scores, pairs="pooled")
            cells.append(f"{1 - found.value:.3f} ± {found.std_error:.3f}")
        paired = compare(decisive, without[name], with_ties[name], metric="pooled_pair_error")
        ends = paired.interval()
        cells.append(f"{paired.difference:+.3f} [{ends.low:+.3f}, {ends.high:+.3f}]")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append(longer)
    print("\n".join(lines))
    write_page(__file__, "llmfao.md", "\n".join(lines))


if __name__ == "__main__":
    main()
