"""A round with weights by rank beside one without, on the same rows.

    python benchmarks/speed/rank_weights.py           # some 3 minutes on two quiet cores
    python benchmarks/speed/rank_weights.py --quick   # small, to see that it runs; nothing is kept

The fits with "ndcg@10" and without take turns, so that both meet the same noise; the one with
"ndcg", which has no target and goes through all pairs of queries, comes last and once. The first
round, in which all scores are tied and hence no rank is left out, is told apart. The page is
`results/rank_weights.md`.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from measure import about, middle, write_page
from precede import BoostedRanker, RankBoost
from problems.synthetic import one_query, web10k

THREADS = 2
RULES = (None, "ndcg@10", "ndcg")


def in_turns(fits, repeats):
    """Milliseconds of all rounds of every fit: the first ones, and the others."""
    found = {name: ([], []) for name in fits}
    for _ in range(repeats):
        for name, fit in fits.items():
            ms = 1000 * fit().history_["seconds"]
            found[name][0].append(ms[0])
            found[name][1].extend(ms[1:])
    return found


def row(name, make, data, most, repeats):
    """Line of the table, and the verdict; `most` is what "ndcg@10" may cost."""
    X, y, qid = data
    fits = {
        rule: lambda rule=rule: make(rank_weight=rule, n_jobs=THREADS).fit(X, y, qid=qid)
        for rule in RULES
    }
    for rule in RULES[:2]:
        fits[rule]()  # compiles, and wakes the memory
    ms = in_turns({rule: fits[rule] for rule in RULES[:2]}, repeats)
    if qid is not None:  # one list has too many pairs
        ms |= in_turns({rule: fits[rule] for rule in RULES[2:]}, 1)
    plain_first, plain = (middle(each) for each in ms[None])
    cells = [f"{plain:.1f}"]
    for rule in RULES[1:]:
        if rule not in ms:
            cells += ["-", "-", "-"]
            continue
        first, others = (middle(each) for each in ms[rule])
        cells.append(f"{others:.1f}")
        cells.append(f"{others / plain:.2f}")
        cells.append(f"{first / plain_first:.2f}")
    ratio = middle(ms["ndcg@10"][1]) / plain
    met = "met" if ratio <= most else "**missed**"
    return f"| {name} | {' | '.join(cells)} | ≤ {most:g}: {met} |"


def graded(rows, features):
    """One list of five grades."""
    X, _ = one_query(rows, features)
    noise = np.random.default_rng(1).standard_normal(rows)
    score = np.tanh(X[:, :4]).sum(axis=1) + noise
    return X, np.digitize(score, [0.0, 1.0, 2.0, 3.0]), None


def problems(quick):
    """Name, estimator, rows and target of every comparison."""
    queries, rows, rounds = (60, 5_000, 3) if quick else (2_000, 1_000_000, 10)

    def trees(**more):
        return BoostedRanker(n_estimators=rounds, **more)

    def exponential(**more):
        return BoostedRanker(n_estimators=rounds, loss="exponential", **more)

    def stumps(**more):
        return RankBoost(n_estimators=rounds, learning_rate=0.1, **more)

    short = {width: web10k(queries, width) for width in (136, 20)}
    two, five = (*one_query(rows), None), graded(rows, 30)
    return [
        *(
            (f"{each.y.size:,} x {width}, queries, trees, logistic", trees,
             (each.X, each.y, each.qid), 1.25)
            for width, each in short.items()
        ),
        (f"one list of {rows:,} x 30, stumps, two grades", stumps, two, 3.0),
        (f"one list of {rows:,} x 30, stumps, five grades", stumps, five, 3.0),
        (f"one list of {rows:,} x 30, trees, exponential, five grades", exponential, five, 3.0),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    facts = about(threads=THREADS)
    lines = [row(*problem, 1 if quick else 3) for problem in problems(quick)]
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    text = "\n".join([
        "# Weights by rank",
        "",
        "Milliseconds of a round without weights by rank, with \"ndcg@10\" and with \"ndcg\" "
        "(medians from the second round on), and how many times a round without them that is; "
        "*first* is the first round, in which all scores are equal and every pair weighs "
        "something. The target is for \"ndcg@10\".",
        "",
        "| rows | plain ms | ndcg@10 ms | times | first | ndcg ms | times | first | target |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
        *lines,
        "",
        f"*{shown}*",
    ])  # fmt: skip
    print(text)
    if not quick:
        write_page(__file__, "rank_weights.md", text)


if __name__ == "__main__":
    main()
