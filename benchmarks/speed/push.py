"""What a push adds to a round of boosting: a million rows in one query.

    python benchmarks/speed/push.py [--rows 1000000] [--rounds 40] [--repeats 5]  # four minutes
    python benchmarks/speed/push.py --quick  # small, to see that it runs; nothing is written

Fits take turns in one process; a round is the median of the rounds of a fit after the first
three, the table shows the median over the repetitions and their spread.
"""

import argparse
import os
import platform
import sys
import warnings
from datetime import date
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import problems
from measure import write_page
from precede import PushRanker, RankBoost


def learners(rounds):
    both = {"n_estimators": rounds}
    return {
        "RankBoost": (RankBoost(**both), None),
        "exponential, p = 1": (PushRanker(price=1, **both), 1.3),
        "exponential, p = 4": (PushRanker(price=4, **both), 1.3),
        "exponential, p = 64": (PushRanker(price=64, **both), 1.3),
        "logistic, p = 1": (PushRanker(price=1, loss="logistic", **both), 3.0),
        "logistic, p = 4": (PushRanker(price=4, loss="logistic", **both), 3.0),
        "logistic, p = 64": (PushRanker(price=64, loss="logistic", **both), 3.0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small; writes nothing")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds, options.repeats = 20_000, 5, 1
    warnings.simplefilter("ignore", UserWarning)
    X, y = problems.one_query(options.rows)
    made = learners(options.rounds)
    seconds = {name: [] for name in made}
    for model, _ in made.values():  # compile before the clock runs
        model.set_params(n_estimators=2).fit(X[:20_000], y[:20_000])
        model.set_params(n_estimators=options.rounds)
    for _ in range(options.repeats):
        for name, (model, _) in made.items():
            model.fit(X, y)
            seconds[name].append(float(np.median(model.history_["seconds"][3:])))
    base = np.median(seconds["RankBoost"])
    lines = [
        "# A round with a push",
        f"\n{date.today()}, python {platform.python_version()}, {os.cpu_count()} cores, "
        f"precede {version('precede')}; {options.rows:,} rows × {X.shape[1]} features, one query, "
        f"{options.repeats} fits of {options.rounds} rounds, in turn. Least and greatest in "
        "brackets.",
        "\n| | ms a round | / RankBoost | wanted |",
        "|---|--:|--:|--:|",
    ]
    for name, (_, wanted) in made.items():
        ms = np.array(seconds[name]) * 1e3
        limit = "" if wanted is None else f"≤ {wanted}"
        lines.append(f"| {name} | {np.median(ms):.1f} ({ms.min():.1f} to {ms.max():.1f}) | "
                     f"{np.median(ms) / base / 1e3:.2f} | {limit} |")  # fmt: skip
    print("\n".join(lines))
    if not options.quick:
        write_page(__file__, "push.md", "\n".join(lines))


if __name__ == "__main__":
    main()
