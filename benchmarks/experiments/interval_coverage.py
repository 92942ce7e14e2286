"""Measure the coverage of every interval and write results/coverage.md.

Run from the root of the repository, five to ten minutes on one core:

    python benchmarks/experiments/interval_coverage.py [--repeats 3000]
    python benchmarks/experiments/interval_coverage.py --quick  # small; nothing is written
"""

import argparse
import math
import platform
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import test_coverage as simulations  # noqa: E402 - the scenarios are the tests' own
from measure import write_page  # noqa: E402


def rows(table, repeats):
    for name, (estimate, sizes, truth) in table.items():
        known = truth
        if known is None:
            # Large samples need no interval: the asymptotic twin gives the same value.
            source = simulations.ASYMPTOTIC.get(name, (estimate,))[0]
            known = simulations.truth_of(source, np.random.default_rng(99))
        for size in sizes:
            covered, absent = simulations.simulate(estimate, size, known, repeats=repeats, seed=1)
            print(f"{name:32} {size:5} {100 * covered:6.1f}", flush=True)
            yield f"| {name} | {size} | {known:.4f} | {100 * covered:.1f} | {100 * absent:.1f} |"


def section(title, table, repeats):
    head = (
        "| interval | items or queries | truth | coverage, % | absent, % |\n|---|--:|--:|--:|--:|"
    )
    body = "\n".join(rows(table, repeats))
    return f"## {title}\n\n{repeats} samples each.\n\n{head}\n{body}\n"


def null_section(repeats):
    head = "| test | unit | p ≤ 0.05, % | p ≤ 0.5, % |\n|---|---|--:|--:|"
    lines = []
    for method in ("asymptotic", "randomization"):
        for queried in (False, True):
            found = simulations.null_p_values(method, queried, repeats=repeats)
            shares = [f"{100 * np.mean(found <= level):.1f}" for level in (0.05, 0.5)]
            unit = "12 queries" if queried else "40 items"
            print(method, unit, *shares, flush=True)
            lines.append(f"| {method} | {unit} | {shares[0]} | {shares[1]} |")
    body = "\n".join(lines)
    return f"## Tests of two equal rankers\n\n{repeats} samples each.\n\n{head}\n{body}\n"


def error(repeats):
    """Standard error in points of a share of 95 %."""
    return 100 * math.sqrt(0.95 * 0.05 / repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3000)
    parser.add_argument("--quick", action="store_true", help="40 samples each; writes nothing")
    asked = parser.parse_args()
    repeats = 40 if asked.quick else asked.repeats
    start = time.perf_counter()
    parts = [
        section("Asymptotic, nominal 95 %", simulations.ASYMPTOTIC, repeats),
        section("Means over queries of `evaluate`, nominal 95 %", simulations.EVALUATIONS, repeats),
        section("Bernstein, at least 95 %", simulations.BERNSTEIN, repeats // 4),
        section("Bootstrap percentiles, nominal 95 %", simulations.BOOTSTRAP, repeats // 4),
        null_section(repeats // 4),
    ]
    seconds = time.perf_counter() - start
    text = (
        "# Coverage of the intervals\n\n"
        "Share of intervals that hold the true value, by simulation "
        "(`benchmarks/experiments/interval_coverage.py`, scenarios in `tests/test_coverage.py`). "
        "The standard error of a share "
        f"near 95 % is {error(repeats):.1f} points over {repeats} samples and "
        f"{error(repeats // 4):.1f} over {repeats // 4}. "
        "*Absent* are samples on which the library refuses an interval. Truths that have no "
        "formula come from one sample of 200,000 items or queries.\n\n"
        f"Python {platform.python_version()}, NumPy {np.__version__}, {seconds:.0f} s.\n\n"
    )
    if not asked.quick:
        write_page(__file__, "coverage.md", text + "\n".join(parts))


if __name__ == "__main__":
    main()
