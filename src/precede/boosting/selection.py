"""The number of rounds and the size of a ranker, chosen on rows that are held out.

``n_estimators="auto"`` and ``num_leaves="auto"`` of an estimator: every size of the ladder is
boosted on four fifths of the queries while the metric is monitored on the last fifth. With few
queries each fifth is held out once, and the curves are averaged. The smallest size, and then the
fewest rounds, within one standard error of the best are taken; differences are paired by query.

Small trees take the most rounds and so the most time. The largest are boosted first, and a smaller
size is given up once it cannot catch up with them: what a doubling of its rounds gains is taken to
change by the same factor as before, but not to grow, and after all doublings that are left it would
still be more than two standard errors behind.
"""

from __future__ import annotations

import copy
import warnings
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.boosting.history import History, Monitor, Rounds
from precede.boosting.loop import drive
from precede.boosting.monitors import monitored_metrics
from precede.boosting.progress import ProgressBar
from precede.boosting.resampling import Sample, TooFewError, pieces_of
from precede.boosting.trainer import Round, Trainer
from precede.engine.arrays import Flags, Floats, Keys
from precede.engine.exact import exact_sum
from precede.engine.frames import pandas_frame
from precede.engine.parameters import asked, counted
from precede.engine.table import Table
from precede.engine.training_data import TrainingData
from precede.judgments import Judgments

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext

__all__ = ["LADDER", "Selection", "Size", "select"]

# Numbers of leaves that are tried.
LADDER = (2, 4, 8, 16, 31)
# A fifth is held out at a time, as often as it takes to hold out so many queries or rows in all.
PARTS = 5
ENOUGH_QUERIES, ENOUGH_ROWS = 1000, 5000
# Rounds end after this many, or when the last third, and at least so many, brought nothing.
MOST_ROUNDS = 2000
PATIENCE = 50
# After so many rounds the metric is looked at after every 2 % more of them.
STEPS = 50


@dataclass(frozen=True)
class Size:
    """What one size reached on the rows held out.

    Attributes
    ----------
    num_leaves : number of leaves; None for rankers that have none
    best_rounds : number of rounds at which the metric was best
    value : its mean there
    difference, std_error : value less that of the best size, in the direction of the metric
        (negative is worse), and the standard error of the difference, paired by query
    rounds : fewest rounds within one standard error of this size's best
    chosen : whether this is the size that was taken
    """

    num_leaves: int | None
    best_rounds: int
    value: float
    difference: float
    std_error: float
    rounds: int
    chosen: bool


@dataclass(frozen=True)
class Selection:
    """What ``"auto"`` chose, and the table that it was chosen from.

    `metric` is what was monitored, on `n_held_out` units ("queries", or "parts" of a single list).

    >>> size = Size(4, 120, 0.71, 0.0, 0.0, 80, True)
    >>> print(Selection("ndcg@10", 300, "queries", (size,)))
    auto: num_leaves=4, n_estimators=80 (ndcg@10 on 300 held-out queries)
    best after 120 rounds; the smaller model is within one standard error
     num_leaves  best_rounds  ndcg@10  difference  std_error  rounds  chosen
              4          120   0.7100      0.0000     0.0000      80       *
    """

    metric: str
    n_held_out: int
    unit: str
    sizes: tuple[Size, ...]

    @property
    def chosen(self) -> Size:
        """The size that was taken."""
        return next(size for size in self.sizes if size.chosen)

    @property
    def parameters(self) -> dict[str, int]:
        """Values for the parameters of the estimator."""
        leaves, rounds = self.chosen.num_leaves, self.chosen.rounds
        return {**({} if leaves is None else {"num_leaves": leaves}), "n_estimators": rounds}

    def summary(self) -> str:
        """Say in a line or two what was chosen and why."""
        best = max(self.sizes, key=lambda size: (size.difference, -(size.num_leaves or 0)))
        named = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        facts = f"auto: {named} ({self.metric} on {self.n_held_out} held-out {self.unit})"
        if best is self.chosen:
            if best.rounds == best.best_rounds:
                return facts
            why = f"best after {best.best_rounds} rounds"
        else:
            rounds = counted(best.best_rounds, "round")
            why = f"best with {best.num_leaves} leaves and {rounds}"
        return f"{facts}\n{why}; the smaller model is within one standard error"

    def _rows(self) -> list[list[str]]:
        head = ["best_rounds", self.metric, "difference", "std_error", "rounds", "chosen"]
        leaves = self.sizes[0].num_leaves is not None
        rows = [["num_leaves", *head] if leaves else head]
        for size in self.sizes:
            cells = [f"{size.best_rounds}", f"{size.value:.4f}", f"{size.difference:.4f}",
                     f"{size.std_error:.4f}", f"{size.rounds}", "*" * size.chosen]  # fmt: skip
            rows.append([f"{size.num_leaves}", *cells] if leaves else cells)
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join([self.summary(), *(f" {line}" for line in lines)])

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in self._rows())
        return f"<table><caption>{escape(self.summary())}</caption>{body}</table>"

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each size."""
        return pandas_frame([vars(size) for size in self.sizes])

    def to_dict(self) -> dict[str, Any]:
        """Return words and numbers only, from which `from_dict` makes an equal selection."""
        sizes = [dict(vars(size)) for size in self.sizes]
        return {"metric": self.metric, "n_held_out": self.n_held_out, "unit": self.unit,
                "sizes": sizes}  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Any) -> Selection:
        """Check and rebuild what a model file holds."""
        kinds: dict[str, tuple[type, ...]] = {
            "num_leaves": (int, type(None)), "best_rounds": (int,), "value": (int, float),
            "difference": (int, float), "std_error": (int, float), "rounds": (int,),
            "chosen": (bool,),
        }  # fmt: skip
        whole = {"metric": (str,), "n_held_out": (int,), "unit": (str,), "sizes": (list,)}
        if not _made_of(fields, whole) or not fields["sizes"]:
            raise ValueError("the model holds no usable record of what was chosen by 'auto'")
        sizes = fields["sizes"]
        if not all(_made_of(size, kinds) for size in sizes) or (
            sum(size["chosen"] for size in sizes) != 1
            or len({size["num_leaves"] is None for size in sizes}) != 1
        ):
            raise ValueError("the sizes that 'auto' chose from are no table with one choice")
        made = tuple(Size(**{name: size[name] for name in kinds}) for size in sizes)
        return cls(fields["metric"], fields["n_held_out"], fields["unit"], made)


def _made_of(fields: Any, kinds: Mapping[str, tuple[type, ...]]) -> bool:
    """Whether this is a dictionary with values of these types."""
    return isinstance(fields, dict) and all(
        name in fields
        and isinstance(fields[name], types)
        and (bool in types or not isinstance(fields[name], bool))
        for name, types in kinds.items()
    )


class Held:
    """A metric on rows held out, for each of the units that standard errors are taken over.

    The units are queries; for a single list, listed pairs and functions of the user they are
    `pieces` of the rows.
    """

    def __init__(self, eval_metric: Any, judgments: Judgments, keys: Keys, pieces: int):
        metric = eval_metric[0] if isinstance(eval_metric, list | tuple) else eval_metric
        named = not callable(metric) or hasattr(metric, "greater_is_better")
        queries = 0 if judgments.qid is None else int(judgments._query().max(initial=-1)) + 1
        plain = judgments.pairs is None and judgments.grade is not None
        self.by_query = bool(named and plain and queries > 1)
        if self.by_query:
            self._monitor_queries(metric, judgments)
        else:
            self._monitor_pieces(metric, judgments, keys, pieces)

    def _monitor_queries(self, metric: Any, judgments: Judgments) -> None:
        from precede import metrics  # noqa: PLC0415  (compiled only if asked for)

        pairs = metric is None or metric == "pairs_in_order"
        rows = ~np.isnan(judgments.grade)  # type: ignore[arg-type]
        kept = judgments[np.flatnonzero(rows)]
        options = {"ties": "average"} if pairs else {}
        evaluator = metrics.Evaluator(
            kept, metrics="pairwise_accuracy" if pairs else metric, **options
        )
        parsed = evaluator.metrics[0]
        self.metric = "pairs_in_order" if pairs else str(parsed)
        self.greater_is_better = pairs or parsed.greater_is_better
        # The share of all pairs is the mean over queries by their numbers of pairs.
        self.weight = evaluator._scale[:, 0] if pairs else evaluator._weights
        self._values = lambda scores: evaluator.evaluate(scores[rows]).per_query[str(parsed)]

    def _monitor_pieces(self, metric: Any, judgments: Judgments, keys: Keys, pieces: int) -> None:
        monitored: list[tuple[Any, Callable[[Floats], float]]] = []
        for rows, made in pieces_of(judgments, keys, pieces):
            try:
                functions, better = monitored_metrics(metric, made)
                name, function = next(iter(functions.items()))
                function(np.zeros(rows.size))
            except ValueError as error:
                if "eval_metric" in str(error):
                    raise
                continue  # nothing in this piece can be compared
            monitored.append((rows, function))
            self.metric, self.greater_is_better = name, better[name]
        if not monitored:
            raise TooFewError(
                "no metric can be computed on the rows that 'auto' holds out; give more data"
            )
        self.weight = np.ones(len(monitored))
        self._values = lambda scores: np.array([f(scores[rows]) for rows, f in monitored])

    def values(self, scores: Floats) -> Floats:
        """Values of the units, greater being better; NaN where there is none."""
        found = self._values(scores)
        return found if self.greater_is_better else -found


@dataclass(frozen=True)
class Part:
    """Rows to learn from, and rows held out with their judgments and scores to start from."""

    training: TrainingData
    table: Table
    judgments: Judgments
    keys: Keys
    init_score: Floats | None


def parts_of(sample: Sample) -> list[Part]:
    """Parts of a sample, each to be held out once."""
    count = min(PARTS, sample.n_units)
    if count < 2:
        raise TooFewError(
            f"'auto' holds out a share of the queries, and there are {sample.n_units}; give more"
        )
    enough = ENOUGH_QUERIES if sample.kind == "groups" else ENOUGH_ROWS
    most = min(count, max(1, -(-enough * count // sample.n_units)))
    found = [
        Part(one.training, held.training.table, held.judgments, held.keys, held.training.init_score)
        for one, held in sample.parts(count, most)
    ]
    if len(found) < most:
        raise TooFewError(
            "too few rows can be compared to leave some of them out (to choose by 'auto'); give "
            "more data"
        )
    return found


@dataclass(frozen=True)
class Curve:
    """Values of the units held out, a row for each time they were looked at.

    `rounds` are the numbers of rounds that had been done, `weight` are the weights of the units.
    """

    rounds: Sequence[int]
    values: Floats
    weight: Floats

    @cached_property
    def best(self) -> tuple[int, float]:
        """The row with the best mean, the first of equals, and that mean."""
        means = [weighted_mean(row, self.weight) for row in self.values]
        row = int(np.argmax(means))
        return row, means[row]


class Growing:
    """The curve of one size while it grows, and when it ends.

    `most` is the number of rounds at which all sizes end, `rival` the best of the larger sizes.
    """

    def __init__(self, weight: Floats, most: int, rival: Curve | None = None):
        self._weight, self._most, self._rival = weight, most, rival
        self._rounds: list[int] = []
        self._values: list[Floats] = []
        self._highest: list[float] = []  # best mean so far, at every look
        self._best = 0  # where it was first seen

    def add(self, done: int, values: Floats) -> None:
        """Look after `done` rounds."""
        mean = weighted_mean(values, self._weight)
        if not self._highest or mean > self._highest[-1]:
            self._best = len(self._highest)
        self._highest.append(max([mean, *self._highest[-1:]]))
        self._rounds.append(done)
        self._values.append(values)

    def is_over(self) -> bool:
        """Whether nothing better is to be expected, or nothing that could be chosen."""
        done = self._rounds[-1]
        if done - self._rounds[self._best] >= max(PATIENCE, done // 3):
            return True
        return self._rival is not None and self._is_hopeless(done, self._rival)

    def _is_hopeless(self, done: int, rival: Curve) -> bool:
        """Whether the rival would stay out of reach if gains went on as in the last doublings."""
        best = rival.best[0]
        if done < max(4 * PATIENCE, rival.rounds[best]):
            return False
        last, before = self._gain(done), self._gain(done // 2)
        factor = min(last / before, 1.0) if before > 0 else 1.0
        reach = 0.0
        while done < self._most:
            last *= factor
            reach, done = reach + last, 2 * done
        behind, error = paired_error(rival.values[best], self._values[self._best], self._weight)
        return not is_within(behind - reach, 2.0 * error)

    def _gain(self, done: int) -> float:
        """By how much the best mean rose in the later half of so many rounds."""
        first, last = (bisect_right(self._rounds, each) - 1 for each in (done // 2, done))
        return self._highest[last] - self._highest[first]

    def curve(self) -> Curve:
        """What was seen."""
        return Curve(self._rounds, np.array(self._values), self._weight)


def is_looked_at(done: int) -> bool:
    """Whether the metric is computed after this many rounds.

    >>> [done for done in range(140, 160) if is_looked_at(done)]
    [140, 142, 144, 146, 148, 150, 153, 156, 159]
    """
    return done % max(1, done // STEPS) == 0


class HeldOut(Trainer):
    """The same fit on several parts of the rows, one round of each at a time.

    `parts` are methods, each with the monitor among its own that has the scores of the rows held
    out, and their metric. Ends after `most` rounds, or if `until_worse` once nothing better than
    before, or than the `rival`, is to be expected. Otherwise the metric is computed after the last
    round only.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Trainer, Monitor, Held]],
        most: int,
        *,
        until_worse: bool,
        rival: Curve | None = None,
    ):
        self._parts, self._most, self._until_worse, self._rival = parts, most, until_worse, rival
        self.stop, self.context = Rounds(most), parts[0][0].context
        self.state, self.ensemble = parts[0][0].state, parts[0][0].ensemble
        self._going, self._done = {*range(len(parts))}, 0
        self._weight = np.concatenate([held.weight for _, _, held in parts])
        self._counts: Flags = np.zeros(0, bool)
        self._growing: Growing | None = None

    def advance(self) -> Round:
        """Do a round of every part that has one left, and look at the rows held out."""
        for number in sorted(self._going):
            made = self._parts[number][0].advance()
            if made is None or made.last:
                self._going.discard(number)
        self._done += 1
        last = self._done == self._most or not self._going
        if last or (self._until_worse and is_looked_at(self._done)):
            over = self._look()
            last = last or (self._until_worse and over)
        return Round({}, last="nothing better is to be expected" if last else "")

    def _look(self) -> bool:
        """Compute the metric; gives whether nothing better is to be expected."""
        column = np.concatenate([held.values(at.scores) for _, at, held in self._parts])
        if self._growing is None:
            self._counts = ~np.isnan(column) & (self._weight > 0)
            if not self._counts.any():
                raise TooFewError(
                    "no metric can be computed on the rows that 'auto' holds out; give more data"
                )
            self._growing = Growing(self._weight[self._counts], self._most, self._rival)
        self._growing.add(self._done, column[self._counts])
        return self._growing.is_over()

    def curve(self) -> Curve:
        """What was seen of the units held out."""
        assert self._growing is not None
        return self._growing.curve()


def held_out_curve(
    parts: Sequence[tuple[Trainer, Monitor, Held]],
    most: int,
    *,
    until_worse: bool,
    rival: Curve | None = None,
) -> Curve:
    """Boost all parts in step and monitor the units that are held out; see `HeldOut`."""
    method = HeldOut(parts, most, until_worse=until_worse, rival=rival)
    drive(method, interruptible=False)
    return method.curve()


def weighted_mean(values: Floats, weight: Floats) -> float:
    """Mean that does not depend on the order of the units.

    >>> weighted_mean(np.array([1.0, 4.0]), np.array([2.0, 1.0]))
    2.0
    """
    return exact_sum(weight * values) / exact_sum(weight)


def paired_error(values: Floats, others: Floats, weight: Floats) -> tuple[float, float]:
    """Weighted mean of the differences, and its standard error.

    >>> paired_error(np.array([1.0, 3.0]), np.array([0.0, 0.0]), np.ones(2))
    (2.0, 1.0)
    """
    apart = values - others
    mean = weighted_mean(apart, weight)
    if apart.size < 2:
        return mean, 0.0
    squares = exact_sum((weight * (apart - mean)) ** 2) / (apart.size - 1)
    return mean, float(np.sqrt(squares * apart.size)) / exact_sum(weight)


def is_within(behind: float, error: float) -> bool:
    """Whether a difference is at most one standard error.

    Where a single unit differs both are the same number, and rounding must not decide.

    >>> is_within(0.1 + 0.2, 0.3)
    True
    """
    return behind <= error * (1.0 + 1e-9)


def fewest_rounds(curve: Curve) -> tuple[int, int]:
    """Rows at which the mean is best, and the first from which on it is within an error of it."""
    best = fewest = curve.best[0]
    while fewest > 0:
        behind, error = paired_error(curve.values[best], curve.values[fewest - 1], curve.weight)
        if not is_within(behind, error):
            break
        fewest -= 1
    return best, fewest


def choose(ladder: Sequence[int | None], curves: Sequence[Curve], *, whole: bool) -> list[Size]:
    """Choose the smallest size, then the fewest rounds, within one standard error of the best.

    `ladder` rises. With ``whole=True`` the number of rounds is given and the last ones compared.
    """
    weight = curves[0].weight
    found = [(len(curve.rounds) - 1,) * 2 if whole else fewest_rounds(curve) for curve in curves]
    at_best = [curve.values[best] for curve, (best, _) in zip(curves, found, strict=True)]
    means = [weighted_mean(values, weight) for values in at_best]
    best = int(np.argmax(means))
    paired = [paired_error(values, at_best[best], weight) for values in at_best]
    chosen = next(number for number, (mean, error) in enumerate(paired) if is_within(-mean, error))
    sizes = []
    for number, (leaves, curve, rows) in enumerate(zip(ladder, curves, found, strict=True)):
        at, fewest = (int(curve.rounds[row]) for row in rows)
        sizes.append(Size(leaves, at, means[number], *paired[number], fewest, number == chosen))
    return sizes


def select(estimator: BaseRanker, task: FitContext, seed: int) -> Selection:
    """Choose what is "auto" among the parameters of an estimator for a fit."""
    wanted = asked(estimator)
    try:
        return _select(estimator, task, seed, wanted)
    except TooFewError as error:
        raise TooFewError(f"{error}, or {' and '.join(wanted)} as a number") from error


def _select(estimator: BaseRanker, task: FitContext, seed: int, wanted: Sequence[str]) -> Selection:
    parts = _parts(estimator, task, seed)
    pieces = max(1, PARTS // len(parts))
    helds = [Held(estimator.eval_metric, p.judgments, p.keys, pieces) for p in parts]
    ladder: Sequence[int | None] = LADDER if "num_leaves" in wanted else (None,)
    most = MOST_ROUNDS if "n_estimators" in wanted else estimator.n_estimators
    curves: list[Curve] = []  # of the largest size first
    rival: Curve | None = None
    with ProgressBar("auto", rounds=len(ladder), verbose=estimator.verbose) as bar:
        for leaves in reversed(ladder):
            methods = []
            for part, held in zip(parts, helds, strict=True):
                at = Monitor("held", part.table, {}, part.init_score)
                begun = replace(task, training=part.training, monitors=[(at, {})], checkpoint=None)
                tried = _tried(estimator, leaves, most)
                method = tried._trainer(begun, Rounds(most), None, History())
                methods.append((method, at, held))
            with warnings.catch_warnings():  # of steps that are tried only
                warnings.simplefilter("ignore")
                curve = held_out_curve(
                    methods, most, until_worse="n_estimators" in wanted, rival=rival
                )
            curves.append(curve)
            rival = max(curves, key=lambda curve: curve.best[1])
            bar.advance()
    sizes = choose(ladder, curves[::-1], whole="n_estimators" not in wanted)
    sign = 1.0 if helds[0].greater_is_better else -1.0
    unit = "queries" if helds[0].by_query else "parts"
    shown = tuple(replace(size, value=sign * size.value) for size in sizes)
    return Selection(helds[0].metric, curves[0].weight.size, unit, shown)


def _parts(estimator: BaseRanker, task: FitContext, seed: int) -> list[Part]:
    """What to learn from and what to monitor: the first evaluation set, or parts of the rows."""
    if task.monitors:
        monitored = task.monitors[0][0]
        assert monitored.judgments is not None
        keys = monitored.table.keys(np.ones(monitored.table.n_used_rows), task.training.context)
        return [
            Part(task.training, monitored.table, monitored.judgments, keys, monitored.init_score)
        ]
    judgments = estimator.judgments_to_learn(task.judgments)
    labeled = estimator.learns_labels
    balance = estimator.balance
    sample = Sample.of(task.training, judgments, balance=balance, labeled=labeled, seed=seed)
    return parts_of(sample)


def _tried(estimator: BaseRanker, leaves: int | None, rounds: int) -> BaseRanker:
    """A copy with numbers for what is to be chosen."""
    tried = copy.copy(estimator)
    tried.random_state = copy.deepcopy(estimator.random_state)
    tried.n_estimators, tried._averaged = rounds, 1
    if leaves is not None:
        tried.num_leaves = leaves
    return tried
