"""One list of two classes: ROC and precision-recall curves, gains and lift, KS, calibration.

Positives are the rows of the class that should rank first. All curves follow from two counts, the
positives and the negatives above each threshold; rows of equal score pass a threshold together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers
from precede.plots import calibration_info
from precede.report.subject import Candidate, Subject, thinned
from precede.risks.links import probability
from precede.top import strip, top_of_list

__all__ = ["Thresholds", "list_facts"]

_GRID = 60  # points of the curves of resampled lists
_MOST_POINTS = 300
_MOST_ROWS = 20_000_000  # resampled in all
_DEPTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_LONG_LIST = 100_000  # rows from which fewer samples are drawn


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Positives and negatives above each threshold, from nothing to the whole list.

    >>> found = Thresholds.of(np.array([True, False, True]), np.array([3.0, 2.0, 2.0]))
    >>> found.positives.tolist(), found.negatives.tolist()
    ([0.0, 1.0, 2.0], [0.0, 0.0, 1.0])
    """

    positives: Floats
    negatives: Floats

    @classmethod
    def of(cls, positive: Flags, scores: Floats) -> Thresholds:
        """Counts above the distinct scores: O(n log n)."""
        order = np.argsort(-scores, kind="stable")
        return cls.counted(positive[order], _ends(scores[order]), None)

    @classmethod
    def counted(cls, positive: Flags, ends: Integers, times: Floats | None) -> Thresholds:
        """Counts at the last rows of equal scores, each row counting so many times."""
        ones = np.ones(positive.size) if times is None else times
        up, down = (np.cumsum(np.where(which, ones, 0.0))[ends] for which in (positive, ~positive))
        return cls(np.concatenate([[0.0], up]), np.concatenate([[0.0], down]))

    @property
    def recall(self) -> Floats:
        """Share of the positives that are above: the true positive rate."""
        return self.positives / self.positives[-1]

    @property
    def fall_out(self) -> Floats:
        """Share of the negatives that are above: the false positive rate."""
        return self.negatives / self.negatives[-1]

    @property
    def depth(self) -> Floats:
        """Share of the list that is above."""
        return (self.positives + self.negatives) / (self.positives[-1] + self.negatives[-1])

    @property
    def precision(self) -> Floats:
        """Share of positives among what is above; at the very top, that of the first threshold."""
        above = self.positives + self.negatives
        shares = self.positives / np.maximum(above, 1e-300)
        shares[above == 0] = shares[np.argmax(above > 0)]
        return shares

    def roc(self, at: Floats) -> Floats:
        """Recall at some fall-outs; equal scores are joined by a line."""
        return np.interp(at, self.fall_out, self.recall)

    def precision_at(self, recall: Floats) -> Floats:
        """Precision at the first threshold that reaches each recall."""
        index = np.searchsorted(self.recall, recall - 1e-12, side="left")
        return self.precision[np.minimum(index, self.precision.size - 1)]

    def gain(self, depth: Floats) -> Floats:
        """Recall at some depths; equal scores are in random order."""
        return np.interp(depth, self.depth, self.recall)

    def turned(self) -> Thresholds:
        """The same list from below, with the negatives as positives."""
        return Thresholds(
            self.negatives[-1] - self.negatives[::-1], self.positives[-1] - self.positives[::-1]
        )

    def separation(self) -> float:
        """The statistic of Kolmogorov and Smirnov: the most that recall exceeds fall-out."""
        return float(np.max(np.abs(self.recall - self.fall_out)))


def _ends(scores: Floats) -> Integers:
    """Last rows of the runs of equal scores, of sorted scores."""
    return np.append(np.flatnonzero(np.diff(scores)), scores.size - 1)


def list_facts(subject: Subject, level: float) -> dict[str, Any] | None:
    """Curves and measures of every candidate; intervals of the first, by resampling its rows."""
    rows = subject.graded
    if not subject.is_two_classes or subject.judgments.pairs is not None:
        return None
    positive = subject.grade[rows] == subject.grade[rows].max()
    found = {each.name: Thresholds.of(positive, each.scores[rows]) for each in subject.candidates}
    draws = int(np.clip(_MOST_ROWS // rows.size, 50, 500))
    samples = _resampled(positive, subject.scores[rows], draws)
    share = float(positive.mean())
    top = _top(subject, positive, level)
    # Where most are positive, what matters is at the other end: the negatives found from below.
    below = share > 0.5
    rare, turned = (found, samples) if not below else (
        {name: each.turned() for name, each in found.items()}, [s.turned() for s in samples]
    )  # fmt: skip
    depths = _by_depth(rare, turned, level, 1 - share if below else share, rows.size)
    known = set() if below else {f"precision@{each['rows']}" for each in depths}
    return {
        "positives": int(positive.sum()),
        "rows": int(rows.size),
        "share": share,
        "below": below,
        "good": subject.grade_name(float(subject.grade[rows].max())),
        "draws": draws,
        "weights_ignored": subject.judgments.weight is not None,
        "roc": _curves(found, samples, level, _roc_points, Thresholds.roc),
        "precision_recall": _curves(found, samples, level, _pr_points, Thresholds.precision_at),
        "gains": _curves(rare, turned, level, _gain_points, Thresholds.gain),
        "depths": depths,
        "separation": _separation(found, samples, level),
        "top": [each for each in top if each["measure"] not in known],
        "strip": _strip(positive, subject.scores[rows]),
        "calibration": _calibrations(subject, positive),
    }


def _resampled(positive: Flags, scores: Floats, draws: int) -> list[Thresholds]:
    """Lists whose rows were drawn with replacement within each class, with a fixed seed."""
    order = np.argsort(-scores, kind="stable")
    positive, ends = positive[order], _ends(scores[order])
    generator, classes = np.random.default_rng(0), [positive, ~positive]
    samples = []
    for _ in range(draws):
        times = np.empty(positive.size)
        for which in classes:
            size = int(which.sum())
            times[which] = np.bincount(generator.integers(size, size=size), minlength=size)
        samples.append(Thresholds.counted(positive, ends, times))
    return samples


Points = tuple[Floats, Floats]


def _roc_points(found: Thresholds) -> Points:
    return found.fall_out, found.recall


def _pr_points(found: Thresholds) -> Points:
    return found.recall, found.precision


def _gain_points(found: Thresholds) -> Points:
    return found.depth, found.recall


def _curves(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float,
    points: Callable[[Thresholds], Points], at: Callable[[Thresholds, Floats], Floats],
) -> dict[str, Any]:  # fmt: skip
    """The curve of each candidate, and an interval at every point of a grid for the first."""
    grid = np.linspace(0, 1, _GRID + 1)
    if at is Thresholds.precision_at:
        grid = grid[1:]  # no row is above recall 0
    low, high = _ends_of([at(each, grid) for each in samples], level)
    curves = {}
    for name, each in found.items():
        x, y = points(each)
        which = thinned(x.size, _MOST_POINTS)
        curves[name] = {"x": _short(x[which]), "y": _short(y[which])}
    return {"curves": curves, "grid": _short(grid), "low": _short(low), "high": _short(high)}


def _short(values: Floats) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def _ends_of(values: list[Any], level: float) -> tuple[Any, Any]:
    tail = (1 - level) / 2
    low, high = np.quantile(np.asarray(values), [tail, 1 - tail], axis=0)
    return low, high


def _by_depth(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float, share: float, rows: int
) -> list[dict[str, Any]]:
    """Gain and lift of the first share of the list."""
    depths = np.array([d for d in _DEPTHS if d * rows >= 5] or [1.0])
    low, high = _ends_of([each.gain(depths) for each in samples], level)
    first, *others = (each.gain(depths) for each in found.values())
    best = np.minimum(depths / share, 1.0)
    return [
        {"depth": float(depth), "rows": round(float(depth) * rows),
         "gain": float(first[k]), "low": float(low[k]), "high": float(high[k]),
         "lift": float(first[k] / depth), "best": float(best[k]),
         "share": float(first[k] * share / depth), "others": [float(gain[k]) for gain in others]}
        for k, depth in enumerate(depths.tolist())
    ]  # fmt: skip


def _separation(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float
) -> dict[str, Any]:
    low, high = _ends_of([each.separation() for each in samples], level)
    return {"values": {name: each.separation() for name, each in found.items()},
            "low": float(low), "high": float(high)}  # fmt: skip


def _top(subject: Subject, positive: Flags, level: float) -> list[dict[str, Any]]:
    """Measures of the very top, with intervals over samples of either class."""
    rows = subject.graded
    draws = 1000 if rows.size <= _LONG_LIST else 100
    counts = [k for k in (10, 100) if k < rows.size]
    seen = top_of_list(positive, subject.scores[rows], count=counts, level=level, draws=draws,
                       random_state=0)  # fmt: skip
    return [
        {"measure": name, "value": value, "low": None if ends is None else ends[0],
         "high": None if ends is None else ends[1]}
        for name, value in seen.value.items() for ends in [seen.interval[name]]
        if not _is_shown_elsewhere(name)
    ]  # fmt: skip


def _is_shown_elsewhere(name: str) -> bool:
    """The AUC, and what is a gain under another name."""
    return name == "auc" or name.startswith("recall") or name.endswith("%")


def _strip(positive: Flags, scores: Floats) -> dict[str, Any]:
    """Ranks of the positives among the first rows: as many rows as show the change."""
    where = strip(positive, scores)
    shown = int(min(positive.size, max(50, 2 * where.size), 400))
    return {"ranks": shown, "positives": where[where <= shown].tolist()}


def _calibrations(subject: Subject, positive: Flags) -> dict[str, Any]:
    """Predicted probabilities against what happened, for candidates that give some."""
    facts = {}
    for each in subject.candidates:
        chances = _probabilities(each)
        if chances is not None:
            info = calibration_info(positive.astype(float), chances[subject.graded])
            facts[each.name] = info.to_dict()
    return facts


def _probabilities(candidate: Candidate) -> Floats | None:
    """What `predict_proba` gives; scores from elsewhere are taken as they are if all in [0, 1]."""
    scores, model = candidate.scores, candidate.model
    if model is None:
        fits = scores.min() >= 0 and scores.max() <= 1 and np.unique(scores).size > 2
        return scores if fits else None
    if getattr(model, "classes_", None) is None or not hasattr(model, "predict_proba"):
        return None
    # As in predict_proba, without predicting again.
    return probability(scores + float(model.intercept_ or 0.0), float(model.link_ or 0.0))
