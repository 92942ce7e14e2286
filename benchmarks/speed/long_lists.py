"""Value, gradient and Hessian of the logistic pair risk: one long list, and queries of any length.

    python benchmarks/speed/long_lists.py [--repeats 9] [--threads 1 2]

Prints the best and the median time of `state` and `curvature` together, which is what a round of
boosted trees asks of the risk; then, for queries of several lengths, the same by
enumeration of all pairs, by cells alone, and as the library chooses.
"""

import argparse
import time

import numpy as np

from precede import Judgments, PairRisk
from precede.engine.execution import Context
from precede.risks import by_cell

ROWS_OF_QUERIES = 60_000
# Prices of a node by which every query is enumerated, or none.
EXTREMES = {"enumerated": np.inf, "by cells": 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    print("| one list | grades | threads | best ms | median ms |\n|--:|--:|--:|--:|--:|")
    for rows in (20_000, 75_000, 1_000_000):
        for levels in (2, 5):
            for threads in options.threads:
                ms = milliseconds(rows, rows, levels, threads, options.repeats)
                print(f"| {rows:,} | {levels} | {threads} | {ms.min():.2f} | {np.median(ms):.2f} |")
    print(f"\n{ROWS_OF_QUERIES:,} rows in queries, best ms:\n")
    print("| rows of a query | grades | threads | enumerated | by cells | as chosen |")
    print("|--:|--:|--:|--:|--:|--:|")
    for size in (100, 300, 1000, 3000, ROWS_OF_QUERIES):
        for levels in (2, 5):
            for threads in options.threads:
                found = compare(size, levels, threads, options.repeats)
                cells = " | ".join(f"{ms:.1f}" for ms in found)
                print(f"| {size:,} | {levels} | {threads} | {cells} |")


def compare(size, levels, threads, repeats):
    """Best milliseconds by enumeration, by cells, and as chosen."""
    chosen = by_cell.PAIRS_PER_ROW, by_cell.PAIRS_PER_SIDE
    found = []
    for price in [*EXTREMES.values(), None]:
        pair = chosen if price is None else (price, price)
        by_cell.PAIRS_PER_ROW, by_cell.PAIRS_PER_SIDE = pair
        few = 1 if price == np.inf and size > 10_000 else repeats
        found.append(milliseconds(ROWS_OF_QUERIES, size, levels, threads, few).min())
    by_cell.PAIRS_PER_ROW, by_cell.PAIRS_PER_SIDE = chosen
    return found


def milliseconds(rows, size, levels, threads, repeats):
    """Times of state and curvature for lists of one size, scores as after some rounds."""
    rng = np.random.default_rng(0)
    scores = 1.5 * rng.standard_normal(rows)
    noisy = scores + 3 * rng.standard_normal(rows)
    share = np.array([0.9]) if levels == 2 else np.array([0.5, 0.75, 0.9, 0.97])
    grade = np.searchsorted(np.quantile(noisy, share), noisy).astype(float)
    layout = Judgments(grade, np.arange(rows) // size).to_layout()
    at = scores[layout.order]
    seconds = []
    with Context(threads) as context:
        bound = PairRisk("logistic").bind(layout, context)
        bound.state(at)  # compiles
        for _ in range(repeats):
            begin = time.perf_counter()
            bound.curvature(bound.state(at))
            seconds.append(time.perf_counter() - begin)
    return 1e3 * np.array(seconds)


if __name__ == "__main__":
    main()
