"""One list of two classes: ROC and precision-recall curves, gains and lift, KS, calibration, top.

Positives are the rows of the class that should rank first. All curves follow from two counts, the
positives and the negatives above each threshold; rows of equal score pass a threshold together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers
from precede.plots import CalibrationInfo, calibration_info
from precede.plots.drawing import Band, Chart, Layer, Line
from precede.plots.figures import calibration_chart
from precede.report.document import Block, Figure, Heading, Paragraph, Section, Table, side_by_side
from precede.report.quality import Quality, is_auc
from precede.report.queries import row_table
from precede.report.subject import Candidate, ShownRow, Subject, evenly_spaced
from precede.report.wording import Value, Words, interval, measure_name, number, percent, rounded
from precede.report.wording import share as share_of
from precede.risks.links import probability
from precede.top import strip, strip_chart, top_of_list

_GRID_POINTS = 60  # of the intervals
_MAX_POINTS = 300  # of a curve
_MAX_RESAMPLED_ROWS = 20_000_000  # of all bootstrap samples together
_DEPTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_LONG_LIST = 100_000  # fewer bootstrap samples are drawn of longer lists


# -- counts at thresholds ------------------------------------------------------------------------


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
        """Count positives and negatives above the distinct scores: O(n log n)."""
        order = np.argsort(-scores, kind="stable")
        return cls.counted(positive[order], _last_of_ties(scores[order]), np.ones(scores.size))

    @classmethod
    def counted(cls, positive: Flags, ends: Integers, times: Floats) -> Thresholds:
        """Return the counts at the last row of each tie; each row occurs `times` times."""
        above = [np.cumsum(np.where(which, times, 0.0))[ends] for which in (positive, ~positive)]
        return cls(*(np.concatenate([[0.0], counts]) for counts in above))

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
        """Share of positives among the rows above; at depth 0, that of the first threshold."""
        above = self.positives + self.negatives
        shares = self.positives / np.maximum(above, 1e-300)
        shares[above == 0] = shares[np.argmax(above > 0)]
        return shares

    def roc(self, at: Floats) -> Floats:
        """Return the recall at some fall-outs, interpolated linearly across ties."""
        return np.interp(at, self.fall_out, self.recall)

    def precision_at(self, recall: Floats) -> Floats:
        """Return the precision at the first threshold that reaches each recall."""
        index = np.searchsorted(self.recall, recall - 1e-12, side="left")
        return self.precision[np.minimum(index, self.precision.size - 1)]

    def gain(self, depth: Floats) -> Floats:
        """Return the recall at some depths; equal scores are in random order."""
        return np.interp(depth, self.depth, self.recall)

    def reverse(self) -> Thresholds:
        """Return the counts of the reversed list, with the negatives as positives."""
        return Thresholds(
            self.negatives[-1] - self.negatives[::-1], self.positives[-1] - self.positives[::-1]
        )

    def separation(self) -> float:
        """Return the Kolmogorov-Smirnov statistic, max |recall − fall-out|."""
        return float(np.max(np.abs(self.recall - self.fall_out)))


def _last_of_ties(scores: Floats) -> Integers:
    """Return the last position of each tie of sorted scores."""
    return np.append(np.flatnonzero(np.diff(scores)), scores.size - 1)


# -- facts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """The curve of each candidate, and pointwise intervals for that of the first."""

    curves: dict[str, dict[str, list[float]]]
    grid: list[float]
    low: list[float]
    high: list[float]

    def layers(self, *references: Line) -> list[Layer]:
        """Return the band, reference lines and the curves."""
        band, curves = Band(self.grid, self.low, self.high), self.curves.items()
        lines = [Line(each["x"], each["y"], name, k) for k, (name, each) in enumerate(curves)]
        return [band, *references, *lines]


@dataclass(frozen=True)
class Depth:
    """Gain and lift of a part of the list, for the first candidate and gains for the others."""

    depth: float
    rows: int
    gain: float
    low: float
    high: float
    lift: float
    best: float
    share: float
    others: list[float]


@dataclass(frozen=True)
class Separation:
    """Kolmogorov-Smirnov statistics, with the interval of the first."""

    values: dict[str, float]
    low: float
    high: float


@dataclass(frozen=True)
class TopMeasure:
    """A measure of the top of the list with its interval."""

    measure: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Strip:
    """Ranks of the positives among the first `ranks` rows."""

    ranks: int
    positives: list[int]


@dataclass(frozen=True)
class OneList:
    """Curves and measures of every candidate, with bootstrap intervals for the first.

    Where most rows are positive, gains are counted from the end of the list, to find the
    negatives (`below`).
    """

    positives: int
    rows: int
    share: float
    below: bool
    good: Value
    draws: int
    weights_ignored: bool
    roc: Curves
    precision_recall: Curves
    gains: Curves
    depths: list[Depth]
    separation: Separation
    top: list[TopMeasure]
    strip: Strip
    calibration: dict[str, CalibrationInfo]

    def rare(self, words: Words) -> str:
        """Return the word for the class whose share in parts of the list is shown."""
        return f"not {words.good_class}" if self.below else words.good_class

    def gains_chart(self, words: Words) -> Chart:
        """Draw the share of the rarer class found in the first, or the last, part of the list."""
        rare, name = 1 - self.share if self.below else self.share, self.rare(words)
        end = "bottom" if self.below else "top"
        layers = self.gains.layers(Line([0, 1], [0, 1], "random order", -1),
                                   Line([0, rare, 1], [0, 1, 1], "best possible", -2))  # fmt: skip
        title = f"share of the {words.items} that are {name} found from the {end}"
        labels = (f"share of the {words.items}, from the {end}",
                  f"share of all {name} among them")  # fmt: skip
        return Chart(title, labels, layers, (0, 1), (0, 1), percent=(True, True))

    def first_figure(self, words: Words, level: float) -> Figure:
        """Return the chart of the first screen."""
        if self.below:
            what = (f"How many of all {self.rare(words)} stand in the last part of the list: what "
                    "is found by turning that part away.")  # fmt: skip
        else:
            what = (f"How many of all {words.good_class} {words.items} stand in the first part of "
                    "the list.")  # fmt: skip
        caption = f"{what} The band is a {percent(level)} interval."
        return Figure(self.gains_chart(words), caption)

    def section(self, models: Sequence[Quality], rows: Sequence[ShownRow], words: Words) -> Section:
        """Return curves, gains and lift, other measures and the top of the list."""
        level, bottom = percent(models[0].level), " from the bottom" if self.below else ""
        weights = " Weights play no part here." if self.weights_ignored else ""
        roc = Figure(self._roc_chart(words), title="ROC curve")
        precision = Figure(self._precision_chart(words), title="Precision and recall")
        measures: list[Block] = [
            Heading("Other measures"), self._measures(models, words),
            Paragraph("KS is the most that the two axes of the ROC curve differ.", "note"),
        ]  # fmt: skip
        caption = f"The first {self.strip.ranks:,} of the list; marked are the {words.good_class}."
        shown = [] if self.below else [Figure(self._strip_chart(), caption)]
        return Section("list", "The list", "The list", [
            side_by_side([roc], [precision]),
            Paragraph(f"Bands are {level} intervals at each point for {models[0].name}, from "
                      f"{self.draws:,} samples of either class with replacement.{weights}", "note"),
            Heading(f"Gains and lift{bottom}"),
            self._depth_table(models, words),
            side_by_side(measures, self._calibration(words)),
            Heading(f"The first {words.items}"),
            side_by_side([row_table(rows, words)], shown),
        ])  # fmt: skip

    def _roc_chart(self, words: Words) -> Chart:
        layers = self.roc.layers(Line([0, 1], [0, 1], "random order", -1))
        labels = ("share of the others above", f"share of the {words.good_class} above")
        return Chart("ROC curve", labels, layers, (0, 1), (0, 1), percent=(True, True))

    def _precision_chart(self, words: Words) -> Chart:
        curves = self.precision_recall
        layers = curves.layers(Line([0, 1], [self.share] * 2, "random order", -1))
        good = words.good_class
        labels = (f"recall: share of the {good} above",
                  f"precision: share {good} of those above")  # fmt: skip
        low = min(self.share, *curves.low, *(min(each["y"]) for each in curves.curves.values()))
        limits = (0.0 if low < 0.6 else math.floor(20 * low) / 20, 1.0)
        title = "precision-recall curve"
        return Chart(title, labels, layers, (0, 1), limits, percent=(True, True))

    def _strip_chart(self) -> Chart:
        """Draw the top of the list from left to right, with a mark for each positive."""
        strips = {"": np.array(self.strip.positives)} if self.strip.positives else {}
        title = "ranks of the positives at the top of the list"
        return strip_chart(strips, title, self.strip.ranks)

    def _depth_table(self, models: Sequence[Quality], words: Words) -> Table:
        part, rare = "last" if self.below else "first", self.rare(words)
        head = [f"{part} part", words.items, f"gain: of all {rare}",
                f"{percent(models[0].level)} interval", "best possible", "lift",
                f"{rare} up to here", *(f"gain of {each.name}" for each in models[1:])]  # fmt: skip
        rows = [
            [percent(each.depth), each.rows, share_of(each.gain),
             interval(each.low, each.high, share_of), share_of(each.best), f"{each.lift:.2f}",
             share_of(each.share), *map(share_of, each.others)]
            for each in self.depths
        ]  # fmt: skip
        return Table(head, rows, " ".join(["n n n span", *["n"] * (len(head) - 4)]))

    def _measures(self, models: Sequence[Quality], words: Words) -> Table:
        of_first = " of the first" if len(models) > 1 else ""
        ends = f"{percent(models[0].level)} interval{of_first}"
        head = ["measure", *(each.name for each in models), ends]
        separation, main = self.separation, [each.main for each in models]
        rows: list[list[object]] = [
            ["KS", *map(rounded, separation.values.values()),
             interval(separation.low, separation.high)]
        ]  # fmt: skip
        gini = [_gini(each.value) for each in main if each is not None and is_auc(each.metric)]
        if main[0] is not None and gini:
            between = interval(_gini(main[0].low), _gini(main[0].high))
            rows.append(["Gini = 2 AUC − 1", *map(rounded, gini), between])
        rows += [
            [measure_name(each.measure, words.good_class), number(each.value),
             *[""] * (len(models) - 1), interval(each.low, each.high, number)]
            for each in self.top
        ]  # fmt: skip
        return Table(head, rows, " ".join(["head", *["n"] * len(models), "span"]))

    def _calibration(self, words: Words) -> list[Block]:
        if not self.calibration:
            return []
        errors = "".join(
            f"{name}: mean difference {rounded(info.error)}, Brier score {rounded(info.brier)}. "
            for name, info in self.calibration.items()
        )
        text = "Bands are 95 % intervals of the share in groups of about equal size."
        chart = calibration_chart(self.calibration, f"share {words.good_class}")
        return [Figure(chart, errors + text, heading="Calibration")]


def _gini(auc: float | None) -> float | None:
    return None if auc is None else 2 * auc - 1


def one_list(subject: Subject, level: float) -> OneList | None:
    """Compute the curves and measures of one list of two classes; None for other data."""
    rows = subject.graded
    if not subject.is_two_classes or subject.judgments.pairs is not None:
        return None
    positive = subject.grade[rows] == subject.grade[rows].max()
    found = {each.name: Thresholds.of(positive, each.scores[rows]) for each in subject.candidates}
    draws = int(np.clip(_MAX_RESAMPLED_ROWS // rows.size, 50, 500))
    samples = _resampled(positive, subject.scores[rows], draws)
    share = float(positive.mean())
    below = share > 0.5
    rare, rare_samples = found, samples
    if below:
        rare = {name: each.reverse() for name, each in found.items()}
        rare_samples = [each.reverse() for each in samples]
    depths = _by_depth(rare, rare_samples, level, 1 - share if below else share, rows.size)
    known = set() if below else {f"precision@{each.rows}" for each in depths}
    return OneList(
        positives=int(positive.sum()),
        rows=rows.size,
        share=share,
        below=below,
        good=subject.grade_name(float(subject.grade[rows].max())),
        draws=draws,
        weights_ignored=subject.judgments.weight is not None,
        roc=_curves(found, samples, level, lambda t: (t.fall_out, t.recall), Thresholds.roc),
        precision_recall=_curves(
            found, samples, level, lambda t: (t.recall, t.precision), Thresholds.precision_at
        ),
        gains=_curves(rare, rare_samples, level, lambda t: (t.depth, t.recall), Thresholds.gain),
        depths=depths,
        separation=_separation(found, samples, level),
        top=[each for each in _top_measures(subject, positive, level) if each.measure not in known],
        strip=_strip_of(positive, subject.scores[rows]),
        calibration=_calibrations(subject, positive),
    )


def _resampled(positive: Flags, scores: Floats, draws: int) -> list[Thresholds]:
    """Return bootstrap samples, stratified by class, with a fixed seed."""
    order = np.argsort(-scores, kind="stable")
    positive, ends = positive[order], _last_of_ties(scores[order])
    generator, classes = np.random.default_rng(0), [positive, ~positive]
    samples = []
    for _ in range(draws):
        times = np.empty(positive.size)
        for which in classes:
            size = int(which.sum())
            times[which] = np.bincount(generator.integers(size, size=size), minlength=size)
        samples.append(Thresholds.counted(positive, ends, times))
    return samples


def _curves(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float,
    points: Callable[[Thresholds], tuple[Floats, Floats]],
    at: Callable[[Thresholds, Floats], Floats],
) -> Curves:  # fmt: skip
    """Return curves through `points`, and intervals for what `at` interpolates on a grid."""
    grid = np.linspace(0, 1, _GRID_POINTS + 1)
    if at is Thresholds.precision_at:
        grid = grid[1:]  # no row is above recall 0
    low, high = _percentile_ends([at(each, grid) for each in samples], level)
    curves = {}
    for name, each in found.items():
        x, y = points(each)
        which = evenly_spaced(x.size, _MAX_POINTS)
        curves[name] = {"x": _rounded(x[which]), "y": _rounded(y[which])}
    return Curves(curves, _rounded(grid), _rounded(low), _rounded(high))


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def _percentile_ends(values: Sequence[Floats] | Sequence[float], level: float) -> Floats:
    """Return both ends of percentile intervals."""
    tail = (1 - level) / 2
    return np.quantile(np.asarray(values), [tail, 1 - tail], axis=0)


def _by_depth(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float, share: float, rows: int
) -> list[Depth]:
    """Return gain and lift at some depths of the list."""
    depths = np.array([d for d in _DEPTHS if d * rows >= 5] or [1.0])
    low, high = _percentile_ends([each.gain(depths) for each in samples], level).tolist()
    first, *others = (each.gain(depths) for each in found.values())
    best = np.minimum(depths / share, 1.0).tolist()
    return [
        Depth(
            depth, round(depth * rows), gain, low[k], high[k], lift=gain / depth, best=best[k],
            share=gain * share / depth, others=[float(each[k]) for each in others],
        )
        for k, (depth, gain) in enumerate(zip(depths.tolist(), first.tolist(), strict=True))
    ]  # fmt: skip


def _separation(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float
) -> Separation:
    low, high = _percentile_ends([each.separation() for each in samples], level).tolist()
    return Separation({name: each.separation() for name, each in found.items()}, low, high)


def _top_measures(subject: Subject, positive: Flags, level: float) -> list[TopMeasure]:
    """Return measures of the top of the list, with bootstrap intervals."""
    rows = subject.graded
    draws = 1000 if rows.size <= _LONG_LIST else 100
    counts = [k for k in (10, 100) if k < rows.size]
    top = top_of_list(positive, subject.scores[rows], count=counts, level=level, draws=draws,
                      random_state=0)  # fmt: skip
    return [
        TopMeasure(name, value, *(top.interval[name] or (None, None)))
        for name, value in top.value.items()
        if not _is_shown_elsewhere(name)
    ]


def _is_shown_elsewhere(name: str) -> bool:
    """Return whether a measure is the AUC or a gain, both of which are shown elsewhere."""
    return name == "auc" or name.startswith("recall") or name.endswith("%")


def _strip_of(positive: Flags, scores: Floats) -> Strip:
    """Return the ranks of the positives among the first 50 to 400 rows."""
    where = strip(positive, scores)
    shown = int(min(positive.size, max(50, 2 * where.size), 400))
    return Strip(shown, where[where <= shown].tolist())


def _calibrations(subject: Subject, positive: Flags) -> dict[str, CalibrationInfo]:
    """Return the calibration of candidates that predict probabilities."""
    chances = {each.name: _probabilities(each) for each in subject.candidates}
    return {name: calibration_info(positive.astype(float), each[subject.graded])
            for name, each in chances.items() if each is not None}  # fmt: skip


def _probabilities(candidate: Candidate) -> Floats | None:
    """Return predicted probabilities; scores without a model are used if all are in [0, 1]."""
    scores, model = candidate.scores, candidate.model
    if model is None:
        fits = scores.min() >= 0 and scores.max() <= 1 and np.unique(scores).size > 2
        return scores if fits else None
    if getattr(model, "classes_", None) is None or not hasattr(model, "predict_proba"):
        return None
    # As in predict_proba, without predicting again.
    return probability(scores + float(model.intercept_ or 0.0), float(model.link_ or 0.0))
