"""Selection of the number of rounds and leaves on held-out rows.

Implements ``n_estimators="auto"`` and ``num_leaves="auto"``: every tree size is boosted on four
fifths of the queries while the metric is evaluated on the last fifth. With few queries every fifth
is held out once, and the learning curves are averaged. The smallest size, and then the fewest
rounds, within one standard error of the best are chosen; differences are paired by query.

Small trees need the most rounds and so the most time. The largest trees are boosted first, and a
smaller size is pruned once it cannot catch up with the best so far (the incumbent): its gains per
doubling of the rounds are extrapolated as a geometric series, and the size is pruned if it would
still be more than two standard errors behind at the maximum number of rounds.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.boosting.callbacks import ProgressBar
from precede.boosting.holdout import (
    CurveRecorder,
    LearningCurve,
    Resampler,
    TooFewError,
    fewest_rounds,
    one_error_rule,
    split_judgments,
    weighted_mean,
)
from precede.boosting.loop import History, Round, Rounds, Trainer, run_rounds
from precede.boosting.monitors import Monitor, monitored_metrics
from precede.engine.arrays import Flags, Floats, Keys
from precede.engine.frames import pandas_frame
from precede.engine.parameters import find_auto_parameters, pluralize
from precede.engine.query_layout import TrainingData
from precede.engine.table import Table
from precede.judgments import Judgments

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext


# Numbers of leaves to choose from.
LEAF_COUNTS = (2, 4, 8, 16, 31)
# One of N_FOLDS folds is held out at a time, until this many queries or rows have been held out.
N_FOLDS = 5
MIN_HELD_OUT_QUERIES, MIN_HELD_OUT_ROWS = 1000, 5000
MAX_ROUNDS = 2000
# The metric is evaluated every ``rounds // SPACING_DIVISOR`` rounds.
SPACING_DIVISOR = 50


@dataclass(frozen=True)
class Size:
    """Held-out result of one tree size.

    Attributes
    ----------
    num_leaves : number of leaves; None for weak rankers without leaves
    best_rounds : number of rounds at which the mean of the metric was best
    value : mean of the metric at `best_rounds`
    difference, std_error : difference to the best size, negative if worse, and its standard error,
        paired by query
    rounds : fewest rounds within one standard error of this size's best
    chosen : whether this size was chosen
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
    """The choice of ``"auto"``, and the table of sizes that it was made from.

    `metric` was evaluated on `n_held_out` units ("queries", or "parts" of a single list).

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
        """The chosen size."""
        return next(size for size in self.sizes if size.chosen)

    @property
    def parameters(self) -> dict[str, int]:
        """Chosen values of the estimator's parameters."""
        leaves, rounds = self.chosen.num_leaves, self.chosen.rounds
        return {**({} if leaves is None else {"num_leaves": leaves}), "n_estimators": rounds}

    def summary(self) -> str:
        """Return one or two lines about the choice and its reason."""
        best = max(self.sizes, key=lambda size: (size.difference, -(size.num_leaves or 0)))
        named = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        facts = f"auto: {named} ({self.metric} on {self.n_held_out} held-out {self.unit})"
        if best is self.chosen:
            if best.rounds == best.best_rounds:
                return facts
            why = f"best after {best.best_rounds} rounds"
        else:
            rounds = pluralize(best.best_rounds, "round")
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
        """Return a JSON-compatible dictionary; see `from_dict`."""
        sizes = [dict(vars(size)) for size in self.sizes]
        return {"metric": self.metric, "n_held_out": self.n_held_out, "unit": self.unit,
                "sizes": sizes}  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Any) -> Selection:
        """Rebuild a selection from the dictionary of a model file, which is validated."""
        size_types: dict[str, tuple[type, ...]] = {
            "num_leaves": (int, type(None)), "best_rounds": (int,), "value": (int, float),
            "difference": (int, float), "std_error": (int, float), "rounds": (int,),
            "chosen": (bool,),
        }  # fmt: skip
        field_types = {"metric": (str,), "n_held_out": (int,), "unit": (str,), "sizes": (list,)}
        if not _has_types(fields, field_types) or not fields["sizes"]:
            raise ValueError("the model holds no usable record of what was chosen by 'auto'")
        sizes = fields["sizes"]
        if not all(_has_types(size, size_types) for size in sizes) or (
            sum(size["chosen"] for size in sizes) != 1
            or len({size["num_leaves"] is None for size in sizes}) != 1
        ):
            raise ValueError("'selection' must mark exactly one size as chosen")
        made = tuple(Size(**{name: size[name] for name in size_types}) for size in sizes)
        return cls(fields["metric"], fields["n_held_out"], fields["unit"], made)


def _has_types(fields: Any, types: Mapping[str, tuple[type, ...]]) -> bool:
    """Whether `fields` is a dictionary with values of these types."""
    return isinstance(fields, dict) and all(
        name in fields
        and isinstance(fields[name], allowed)
        and (bool in allowed or not isinstance(fields[name], bool))
        for name, allowed in types.items()
    )


class HeldOutMetric:
    """Metric of each held-out unit, from which means and standard errors are computed.

    The units are queries; for a single list, explicit pairs and user-defined functions they are
    `n_chunks` chunks of the rows. `keys` are the hashes of the rows.
    """

    def __init__(self, eval_metric: Any, judgments: Judgments, keys: Keys, n_chunks: int):
        metric = eval_metric[0] if isinstance(eval_metric, list | tuple) else eval_metric
        named = not callable(metric) or hasattr(metric, "greater_is_better")
        queries = 0 if judgments.qid is None else int(judgments._query().max(initial=-1)) + 1
        plain = judgments.pairs is None and judgments.grade is not None
        self.by_query = bool(named and plain and queries > 1)
        if self.by_query:
            self._prepare_queries(metric, judgments)
        else:
            self._prepare_chunks(metric, judgments, keys, n_chunks)

    def _prepare_queries(self, metric: Any, judgments: Judgments) -> None:
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
        # The share of all pairs is the mean over queries weighted by their numbers of pairs.
        self.weight = evaluator._scale[:, 0] if pairs else evaluator._weights
        self._values = lambda scores: evaluator.evaluate(scores[rows]).per_query[str(parsed)]

    def _prepare_chunks(self, metric: Any, judgments: Judgments, keys: Keys, n_chunks: int) -> None:
        monitored: list[tuple[Any, Callable[[Floats], float]]] = []
        for rows, made in split_judgments(judgments, keys, n_chunks):
            try:
                functions, better = monitored_metrics(metric, made)
                name, function = next(iter(functions.items()))
                function(np.zeros(rows.size))
            except ValueError as error:
                if "eval_metric" in str(error):
                    raise
                continue  # no pair to compare in this chunk
            monitored.append((rows, function))
            self.metric, self.greater_is_better = name, better[name]
        if not monitored:
            raise TooFewError(
                "no metric can be computed on the rows that 'auto' holds out; give more data"
            )
        self.weight = np.ones(len(monitored))
        self._values = lambda scores: np.array([f(scores[rows]) for rows, f in monitored])

    def values(self, scores: Floats) -> Floats:
        """Return the values of the units, greater is better; NaN where undefined."""
        found = self._values(scores)
        return found if self.greater_is_better else -found


@dataclass(frozen=True)
class HeldOutSplit:
    """Training rows, and held-out rows with judgments, hashes and initial scores."""

    training: TrainingData
    table: Table
    judgments: Judgments
    keys: Keys
    init_score: Floats | None


def held_out_splits(resampler: Resampler) -> list[HeldOutSplit]:
    """Return as many splits as needed to hold out enough queries or rows."""
    count = min(N_FOLDS, resampler.n_units)
    if count < 2:
        raise TooFewError(
            f"'auto' holds out a share of the queries, and there are {resampler.n_units}; give more"
        )
    min_held_out = MIN_HELD_OUT_QUERIES if resampler.kind == "groups" else MIN_HELD_OUT_ROWS
    n_splits = min(count, max(1, -(-min_held_out * count // resampler.n_units)))
    found = [
        HeldOutSplit(
            train.training, held.training.table, held.judgments, held.keys, held.training.init_score
        )
        for train, held in resampler.fold_splits(count, n_splits)
    ]
    if len(found) < n_splits:
        raise TooFewError(
            "too few rows can be compared to leave some of them out (to choose by 'auto'); give "
            "more data"
        )
    return found


def is_evaluated(done: int) -> bool:
    """Whether the metric is evaluated after this many rounds.

    >>> [done for done in range(140, 160) if is_evaluated(done)]
    [140, 142, 144, 146, 148, 150, 153, 156, 159]
    """
    return done % max(1, done // SPACING_DIVISOR) == 0


class HeldOutTrainer(Trainer):
    """Trainer that boosts several cross-validation splits in lockstep.

    `splits` are triples: a trainer, the monitor with the scores of the held-out rows, and their
    metric. With `early_stopping` it stops once the learning curve stops improving or is pruned
    against the `incumbent`; otherwise the metric is evaluated after the last round only.
    """

    def __init__(
        self,
        splits: Sequence[tuple[Trainer, Monitor, HeldOutMetric]],
        max_rounds: int,
        *,
        early_stopping: bool,
        incumbent: LearningCurve | None = None,
    ):
        self._splits, self._max_rounds = splits, max_rounds
        self._early_stopping, self._incumbent = early_stopping, incumbent
        self.stop, self.context = Rounds(max_rounds), splits[0][0].context
        self.state, self.ensemble = splits[0][0].state, splits[0][0].ensemble
        self._active, self._done = {*range(len(splits))}, 0
        self._weight = np.concatenate([metric.weight for _, _, metric in splits])
        self._has_value: Flags = np.zeros(0, bool)
        self._recorder: CurveRecorder | None = None

    def boost_round(self) -> Round:
        """Boost every split that can be improved, and evaluate the held-out rows."""
        for number in sorted(self._active):
            made = self._splits[number][0].boost_round()
            if made is None or made.stop_reason:
                self._active.discard(number)
        self._done += 1
        last = self._done == self._max_rounds or not self._active
        if last or (self._early_stopping and is_evaluated(self._done)):
            over = self._evaluate()
            last = last or (self._early_stopping and over)
        return Round({}, stop_reason="the held-out curve has ended" if last else "")

    def _evaluate(self) -> bool:
        """Evaluate the held-out metric; return whether to stop."""
        column = np.concatenate(
            [metric.values(monitor.scores) for _, monitor, metric in self._splits]
        )
        if self._recorder is None:
            self._has_value = ~np.isnan(column) & (self._weight > 0)
            if not self._has_value.any():
                raise TooFewError(
                    "no metric can be computed on the rows that 'auto' holds out; give more data"
                )
            self._recorder = CurveRecorder(
                self._weight[self._has_value], self._max_rounds, self._incumbent
            )
        self._recorder.add(self._done, column[self._has_value])
        return self._recorder.is_over()

    def curve(self) -> LearningCurve:
        """Return the learning curve of the held-out units."""
        assert self._recorder is not None
        return self._recorder.curve()


def held_out_curve(
    splits: Sequence[tuple[Trainer, Monitor, HeldOutMetric]],
    max_rounds: int,
    *,
    early_stopping: bool,
    incumbent: LearningCurve | None = None,
) -> LearningCurve:
    """Boost all splits and return their learning curve; see `HeldOutTrainer`."""
    trainer = HeldOutTrainer(splits, max_rounds, early_stopping=early_stopping, incumbent=incumbent)
    run_rounds(trainer, interruptible=False)
    return trainer.curve()


def choose_size(
    leaf_counts: Sequence[int | None], curves: Sequence[LearningCurve], *, fixed_rounds: bool
) -> list[Size]:
    """Choose the smallest size, then the fewest rounds, within one standard error of the best.

    `leaf_counts` increase. With ``fixed_rounds=True`` the sizes are compared at their last round.
    """
    weight = curves[0].weight
    found = [
        (len(curve.rounds) - 1,) * 2 if fixed_rounds else fewest_rounds(curve) for curve in curves
    ]
    at_best = [curve.values[best] for curve, (best, _) in zip(curves, found, strict=True)]
    rule = one_error_rule(at_best, weight)
    sizes = []
    for number, (leaves, curve, rows) in enumerate(zip(leaf_counts, curves, found, strict=True)):
        best_rounds, fewest = (int(curve.rounds[row]) for row in rows)
        value, difference = weighted_mean(at_best[number], weight), rule.differences[number]
        sizes.append(Size(leaves, best_rounds, value, *difference, fewest, number == rule.chosen))
    return sizes


def select(estimator: BaseRanker, task: FitContext, seed: int) -> Selection:
    """Choose the parameters of an estimator that are "auto"."""
    auto_parameters = find_auto_parameters(estimator)
    try:
        selection = _select(estimator, task, seed, auto_parameters)
    except TooFewError as error:
        raise TooFewError(f"{error}, or {' and '.join(auto_parameters)} as a number") from error
    if estimator.verbose > 0:
        print(selection.summary(), file=sys.stderr)
    return selection


def _select(
    estimator: BaseRanker, task: FitContext, seed: int, auto_parameters: Sequence[str]
) -> Selection:
    splits = _splits(estimator, task, seed)
    n_chunks = max(1, N_FOLDS // len(splits))
    held_out_metrics = [
        HeldOutMetric(estimator.eval_metric, split.judgments, split.keys, n_chunks)
        for split in splits
    ]
    leaf_counts: Sequence[int | None] = LEAF_COUNTS if "num_leaves" in auto_parameters else (None,)
    max_rounds = MAX_ROUNDS if "n_estimators" in auto_parameters else estimator.n_estimators
    curves: list[LearningCurve] = []  # largest size first
    incumbent: LearningCurve | None = None
    with ProgressBar("auto", rounds=len(leaf_counts), verbose=estimator.verbose) as bar:
        for leaves in reversed(leaf_counts):
            trainers = []
            for split, metric in zip(splits, held_out_metrics, strict=True):
                monitor = Monitor("held", split.table, {}, split.init_score)
                split_task = replace(
                    task, training=split.training, monitors=[(monitor, {})], checkpoint=None
                )
                candidate = _with_size(estimator, leaves, max_rounds)
                trainer = candidate._trainer(split_task, Rounds(max_rounds), None, History())
                trainers.append((trainer, monitor, metric))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                curve = held_out_curve(
                    trainers,
                    max_rounds,
                    early_stopping="n_estimators" in auto_parameters,
                    incumbent=incumbent,
                )
            curves.append(curve)
            incumbent = max(curves, key=lambda curve: curve.best[1])
            bar.advance()
    sizes = choose_size(
        leaf_counts, curves[::-1], fixed_rounds="n_estimators" not in auto_parameters
    )
    sign = 1.0 if held_out_metrics[0].greater_is_better else -1.0
    unit = "queries" if held_out_metrics[0].by_query else "parts"
    shown = tuple(replace(size, value=sign * size.value) for size in sizes)
    return Selection(held_out_metrics[0].metric, curves[0].weight.size, unit, shown)


def _splits(estimator: BaseRanker, task: FitContext, seed: int) -> list[HeldOutSplit]:
    """Return the splits: the first evaluation set, or folds of the training rows."""
    if task.monitors:
        monitored = task.monitors[0][0]
        assert monitored.judgments is not None
        keys = monitored.table.keys(np.ones(monitored.table.n_used_rows), task.training.context)
        return [
            HeldOutSplit(
                task.training, monitored.table, monitored.judgments, keys, monitored.init_score
            )
        ]
    return held_out_splits(Resampler.of_fit(estimator, task, seed=seed))


def _with_size(estimator: BaseRanker, leaves: int | None, rounds: int) -> BaseRanker:
    """Return a copy of the estimator with these numbers of leaves and rounds, and one bag."""
    candidate = copy.copy(estimator)
    candidate.random_state = copy.deepcopy(estimator.random_state)
    candidate.n_estimators, candidate._n_bags = rounds, 1
    if leaves is not None:
        candidate.set_params(num_leaves=leaves)
    return candidate
