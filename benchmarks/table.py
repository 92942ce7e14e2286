"""The page and the drawings of the last benchmark run.

    python benchmarks/table.py

Reads the last line of `results/benchmarks.jsonl`; writes `results/benchmarks.md` and
`docs/figures/growth.svg`.
"""

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from measure import RESULTS, last, middle, spread, write_page

plt.rcParams["svg.hashsalt"] = "growth"  # the same drawing is the same file
FIGURES = RESULTS.parents[1] / "docs" / "figures"
PROBLEMS = {
    "web10k small": "synthetic, shaped like MSLR-WEB10K, 300 queries",
    "web10k medium": "the same, 2,000 queries",
    "web10k": "the same, 10,000 queries",
    "MQ2008": "LETOR 4.0, fold 1",
    "fraud": "GiveMeSomeCredit, half of it, two classes, one list",
    "one query": "synthetic, two classes, one list",
}


def rounds(found):
    lines = ["## One round", "",
             "Learning rate 0.1, 255 bins; trees of 31 leaves unless two are named. Ratios are to "
             "the first LightGBM line of as many leaves: below 1 is faster.", ""]  # fmt: skip
    for name, each in found.items():
        rows, features = each["shape"]
        lines += [f"### {name}: {PROBLEMS[name]}, {rows:,} × {features}", "",
                  "| learner | ms a round | ratio | set-up s |", "|---|--:|--:|--:|"]  # fmt: skip
        learners = each["learners"]
        for label, row in learners.items():
            base = middle(learners[_rival(label, learners)]["round_ms"])
            lines.append(f"| {label} | {spread(row['round_ms'], 1)} "
                         f"| {middle(row['round_ms']) / base:.2f} "
                         f"| {spread(row['setup_s'], 2)} |")  # fmt: skip
        if each["left out"]:
            lines += ["", f"Left out: {', '.join(each['left out'])} (not there, or more than four "
                      "seconds a round by what they took on the problem before)."]  # fmt: skip
        lines.append("")
    return lines


def _rival(label, learners):
    few = {"precede RankBoost", "precede PushRanker, logistic", "RankLib RankBoost",
           "rankboostplus RBD"}  # fmt: skip
    two = label.endswith("2 leaves") or label in few
    return next(name for name in learners
                if name.startswith("LightGBM") and name.endswith("2 leaves") == two)  # fmt: skip


def quality(found):
    lines = [f"## Seconds to a quality: {found['problem']}", "",
             f"Until the NDCG@10 of 300 held-out queries first reaches {found['target']:.4f}, 98 % "
             "of the best that LightGBM's lambdarank reaches; set-up counts, judging does not.", "",
             "| learner | seconds | rounds | best NDCG@10 |", "|---|--:|--:|--:|"]  # fmt: skip
    for label, each in found["curves"].items():
        reached = each["reached_s"]
        cells = ("not reached", "") if reached is None else (f"{reached:.2f}", each["round"])
        lines.append(f"| {label} | {cells[0]} | {cells[1]} | {max(each['values']):.4f} |")
    if found.get("left out"):
        lines += ["", f"Left out, because it takes minutes: {', '.join(found['left out'])}."]
    return [*lines, ""]


def scoring(found):
    lines = [f"## Scoring {found['rows']:,} rows × 136", "",
             f"{found['trees']} trees of 31 leaves, or {10 * found['trees']} stumps.", "",
             "| learner | ms |", "|---|--:|"]  # fmt: skip
    lines += [f"| {label} | {spread(each)} |" for label, each in found.items()
              if isinstance(each, list)]  # fmt: skip
    return [*lines, ""]


def metrics(found):
    lines = [f"## Metrics of {found['queries']:,} queries of 120", "",
             f"{', '.join(found['metrics'])}; both sides prepared, values equal to 1e-12.", "",
             "| | ms |", "|---|--:|"]  # fmt: skip
    lines += [f"| {label} | {spread(each)} |" for label, each in found["ms"].items()]
    return [*lines, ""]


def memory(found):
    lines = [f"## Greatest memory of a fit beyond its input ({found['problem']}, "
             f"{found['input_MB']:.0f} MB)", "", "| learner | MB |", "|---|--:|"]  # fmt: skip
    lines += [f"| {label} | {size:.0f} |" for label, size in found["learners"].items()]
    return [*lines, ""]


def cold_start(found):
    lines = ["## Cold start", "",
             "Import of the library and a first fit of 50 rounds on wdbc, in a fresh process. "
             "Ours compiles once for a machine (empty cache).", "",
             "| learner | seconds |", "|---|--:|"]  # fmt: skip
    lines += [f"| {label} | {spread(each, 2)} |" for label, each in found.items()]
    return [*lines, ""]


def growth(found):
    lines = ["## Growth", "",
             "![Seconds of a whole fit](../../docs/figures/growth.svg)", "",
             "Log-log slopes of the seconds of a whole fit, set-up included; 1 is linear.", "",
             "| learner | rows | features | rounds | queries |",
             "|---|--:|--:|--:|--:|"]  # fmt: skip
    axes = ("rows", "features", "rounds", "queries")
    learners = [name for name in found["rows"] if name != "points"]
    for label in learners:
        slopes = [_slope(found[axis]["points"], found[axis][label]) for axis in axes]
        lines.append(f"| {label} | " + " | ".join(f"{slope:.2f}" for slope in slopes) + " |")
    lines += ["", "Threads: seconds of the same fit.", "", "| learner | 1 | 2 | times |",
              "|---|--:|--:|--:|"]  # fmt: skip
    for label in learners:
        one, two = found["threads"][label]
        lines.append(f"| {label} | {one:.2f} | {two:.2f} | {one / two:.2f} |")
    local, *others = found["workers"]["precede RankBoost"]
    same = "equal to the bit" if found["workers"]["equal bits"] else "DIFFERENT"
    lines += ["", f"Workers of Dask on this machine, one thread each: {local:.2f} s without, "
              + ", ".join(f"{s:.2f} s on {n}" for s, n in
                          zip(others, found["workers"]["points"][1:], strict=True))
              + f"; models {same}.", ""]  # fmt: skip
    return lines


def _slope(points, seconds):
    kept = [(x, y) for x, y in zip(points, seconds, strict=True) if y is not None]
    x, y = np.log(np.array(kept)).T
    return float(np.polyfit(x, y, 1)[0])


def draw_growth(found):
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), sharey=True, layout="constrained")
    for ax, axis in zip(axes, ("rows", "features", "rounds", "queries"), strict=True):
        for label, seconds in found[axis].items():
            if label != "points":
                dashes = "-" if label.startswith("precede") else "--"
                height = [np.nan if s is None else s for s in seconds]
                ax.loglog(found[axis]["points"], height, "o" + dashes, label=label, markersize=4)
        ax.set_xlabel(axis)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("seconds of a whole fit")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    figure.savefig(FIGURES / "growth.svg", metadata={"Date": None})


def kernels(found):
    speed = found["bandwidth_GB_s"]
    lines = ["## Kernels and the memory's limit", "",
             f"{found['rows']:,} rows, 30 features; a copy moves {speed:.1f} GB a second. The "
             "limit is the time to move once what must be read and written. Medians of five.", "",
             "| kernel | ms | limit ms | times the limit |", "|---|--:|--:|--:|"]  # fmt: skip
    for name, each in found["kernels"].items():
        limit = each["MB"] / speed
        lines.append(f"| {name} | {spread(each['ms'], 1)} | {limit:.2f} "
                     f"| {middle(each['ms']) / limit:.0f} |")  # fmt: skip
    return [*lines, ""]


def main():
    found = last("benchmarks.jsonl")
    about = ", ".join(f"{name} {value}" for name, value in found["about"].items())
    anew = "".join(f" Rounds of {name} were measured anew." for name in found.get("again", ()))
    lines = ["# Benchmarks", "", about + f". The run took {found['minutes']} minutes.{anew}", "",
             "Medians, least and greatest in brackets. Where a peer wins, the table says so; "
             "`make bench` measures all of it anew.", ""]  # fmt: skip
    parts = {"rounds": rounds, "to quality": quality, "scoring": scoring, "metrics": metrics,
             "memory": memory, "cold start": cold_start, "growth": growth,
             "kernels": kernels}  # fmt: skip
    for name, part in parts.items():
        lines += part(found[name])
    draw_growth(found["growth"])
    write_page(__file__, "benchmarks.md", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
