"""Are models chosen by "auto", and averages over bags, better than the defaults on small data?

    python benchmarks/experiments/auto.py

`BoostedRanker` is fitted to the training part and judged on the validation part; the test parts
are not looked at. On MQ2008 every query is in one validation part, and the five are pooled.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import write_page
from precede import BoostedRanker
from precede.metrics import evaluate
from problems import lightgbm_rank, mq2008

BAGS = 5
METRICS = ("ndcg@10", "pair_error")
SETS = {
    "MQ2008": [lambda fold=fold: mq2008(fold) for fold in range(1, 6)],
    "LightGBM sample": [lightgbm_rank],
}
KINDS = ("defaults", "bags", "auto", "auto, bags")


def fits(train, seed):
    """Models of every kind, and the seconds of the processor that each took."""
    X, y, qid = train
    plain = {"n_jobs": 1, "random_state": seed}
    sizes = {}
    for kind in KINDS:
        began = time.process_time()
        if kind == "auto":
            options = {"n_estimators": "auto", "num_leaves": "auto", "eval_metric": "ndcg@10"}
        else:
            options = sizes if kind.startswith("auto") else {}
        bags = BAGS if kind.endswith("bags") else 1
        model = BoostedRanker(**plain, **options, bags=bags).fit(X, y, qid=qid)
        if kind == "auto":
            sizes = model.selection_.parameters
        yield kind, model, time.process_time() - began


def measured(parts, seeds):
    """Values by query of every kind, averaged over the seeds; seconds; what was chosen."""
    values = {kind: {metric: [] for metric in METRICS} for kind in KINDS}
    seconds, chosen = {kind: [] for kind in KINDS}, []
    for part in parts:
        train, (X, y, qid), _ = part()
        found = {kind: [] for kind in KINDS}
        for seed in range(seeds):
            for kind, model, took in fits(train, seed):
                seconds[kind].append(took)
                found[kind].append(evaluate(y, model.predict(X), qid, metrics=METRICS).per_query)
                if kind == "auto":
                    chosen.append(tuple(model.selection_.parameters.values()))
        for kind, runs in found.items():
            for metric in METRICS:
                values[kind][metric].append(np.mean([run[metric] for run in runs], axis=0))
    pooled = {
        kind: {metric: np.concatenate(each) for metric, each in by_metric.items()}
        for kind, by_metric in values.items()
    }
    return pooled, seconds, chosen


def rows(pooled, seconds):
    lines = [
        f"| model | {' | '.join(f'{m} | less the defaults' for m in METRICS)} | CPU seconds |",
        "|---" * (2 + 2 * len(METRICS)) + "|",
    ]
    for kind, by_metric in pooled.items():
        cells = []
        for metric, values in by_metric.items():
            apart = values - pooled["defaults"][metric]
            known = ~np.isnan(apart)
            error = apart[known].std(ddof=1) / np.sqrt(known.sum())
            told = f"{apart[known].mean():+.4f} ± {error:.4f}" if kind != "defaults" else ""
            cells += [f"{np.nanmean(values):.4f}", told]
        lines.append(f"| {kind} | {' | '.join(cells)} | {np.median(seconds[kind]):.1f} |")
    return lines


def verdict(pooled):
    """What the table says of each kind, from its numbers."""
    told = []
    for kind in KINDS[1:]:
        apart = pooled[kind]["ndcg@10"] - pooled["defaults"]["ndcg@10"]
        apart = apart[~np.isnan(apart)]
        ratio = apart.mean() / (apart.std(ddof=1) / np.sqrt(apart.size))
        side = "ahead of" if ratio > 0 else "behind"
        sure = "" if abs(ratio) > 2 else ", which may be chance"
        told.append(f"{kind}: {side} the defaults by {abs(ratio):.1f} standard errors{sure}")
    return "In NDCG@10, " + "; ".join(told) + "."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    lines = [
        '# "auto" and bags on small data', "",
        "`BoostedRanker` on the validation parts (fitted to the training parts; test parts are not "
        f'used), {seeds} seeds. "auto" is `n_estimators="auto", num_leaves="auto"`, chosen by '
        f"NDCG@10; bags are {BAGS}. ± is one standard error of the difference, paired by query. "
        'Seconds of "auto" include the choice, those of "auto, bags" do not.',
    ]  # fmt: skip
    for name, parts in SETS.items():
        pooled, seconds, chosen = measured(parts, seeds)
        listed = ", ".join(f"{leaves} × {rounds}" for leaves, rounds in chosen)
        lines += ["", f"## {name}", "", *rows(pooled, seconds), "", verdict(pooled), ""]
        lines += [f"Leaves × rounds that were chosen, by part and seed: {listed}."]
    text = "\n".join(lines)
    print(text)
    write_page(__file__, "auto.md", text)


if __name__ == "__main__":
    main()
