"""Selection of the number of rounds, the number of leaves and the loss on held-out rows.

Implements ``n_estimators="auto"``, ``num_leaves="auto"`` and ``loss="auto"``: every candidate, a
tree size with a loss, is boosted on four
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
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from precede.boosting.callbacks import ProgressBar
from precede.boosting.holdout import (
    CurveRecorder,
    LearningCurve,
    Resampler,
    TooFewError,
    Units,
    fewest_rounds,
    one_error_rule,
    weighted_mean,
)
from precede.boosting.loop import INTERRUPTED, History, Rounds, Trainer
from precede.boosting.monitors import (
    Monitor,
    MonitoredMetric,
    is_function_of_scores,
    monitored_metrics,
)
from precede.engine.arrays import Floats, Integers, Json
from precede.engine.parameters import find_auto_parameters, pluralize
from precede.engine.query_layout import TrainingData
from precede.engine.table import Table
from precede.judgments import Judgments
from precede.results import Result

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext


# Numbers of leaves to choose from.
LEAF_COUNTS = (2, 4, 8, 16, 31)
# One of N_FOLDS folds is held out at a time, until this many queries or rows have been held out.
N_FOLDS = 5
MIN_HELD_OUT_QUERIES, MIN_HELD_OUT_ROWS = 1000, 5000
MAX_ROUNDS = 2000
OUT_OF_TIME = "time_limit reached"
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
    loss : the loss; None if it is not chosen
    """

    num_leaves: int | None
    best_rounds: int
    value: float
    difference: float
    std_error: float
    rounds: int
    chosen: bool
    loss: str | None = None


@dataclass(frozen=True)
class Selection(Result):
    """The choice of ``"auto"``, and the table of sizes that it was made from.

    `metric` was evaluated on `n_held_out` units ("queries", or "parts" of a single list).

    >>> size = Size(4, 120, 0.71, 0.0, 0.0, 80, True)
    >>> print(Selection("ndcg@10", 300, "queries", (size,)))
    auto: num_leaves=4, n_estimators=80 (ndcg@10 on 300 held-out queries)
    best after 120 rounds; the smaller model is within one standard error
      num_leaves  best_rounds  ndcg@10  difference  std_error  rounds  chosen
      4                   120     0.71           0          0      80    True
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
    def parameters(self) -> Json:
        """Chosen values of the estimator's parameters."""
        given = {name: getattr(self.chosen, name) for name in ("loss", "num_leaves")}
        found = {name: value for name, value in given.items() if value is not None}
        return {**found, "n_estimators": self.chosen.rounds}

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
            loss = f"loss={best.loss!r}, " if best.loss is not None else ""
            why = f"best with {loss}{best.num_leaves} leaves and {rounds}"
        return f"{facts}\n{why}; the smaller model is within one standard error"

    def rows(self) -> list[Json]:
        """Return the table, one dictionary for each size."""
        rows = [{self.metric if k == "value" else k: v for k, v in vars(size).items()}
                for size in self.sizes]  # fmt: skip
        unused = {name for name in ("num_leaves", "loss") if rows[0][name] is None}
        return [{k: v for k, v in row.items() if k not in unused} for row in rows]

    def to_dict(self) -> Json:
        """Return a JSON-compatible dictionary; see `from_dict`."""
        return {**vars(self), "sizes": [dict(vars(size)) for size in self.sizes]}

    @classmethod
    def from_dict(cls, fields: Json) -> Selection:
        """Rebuild a selection from the dictionary of a model file, which is validated."""
        size_types: dict[str, tuple[type, ...]] = {
            "num_leaves": (int, type(None)), "best_rounds": (int,), "value": (int, float),
            "difference": (int, float), "std_error": (int, float), "rounds": (int,),
            "chosen": (bool,), "loss": (str, type(None)),
        }  # fmt: skip
        field_types = {"metric": (str,), "n_held_out": (int,), "unit": (str,), "sizes": (list,)}
        if not _has_types(fields, field_types) or not fields["sizes"]:
            raise ValueError("the model holds no usable record of what was chosen by 'auto'")
        sizes = fields["sizes"]
        if not all(_has_types(size, size_types) for size in sizes) or (
            sum(size["chosen"] for size in sizes) != 1
            or len({(size["num_leaves"] is None, size["loss"] is None) for size in sizes}) != 1
        ):
            raise ValueError("'selection' must mark exactly one size as chosen")
        made = tuple(Size(**{name: size[name] for name in size_types}) for size in sizes)
        return cls(fields["metric"], fields["n_held_out"], fields["unit"], made)


def _has_types(fields: Json, types: Mapping[str, tuple[type, ...]]) -> bool:
    """Whether `fields` is a dictionary with values of these types."""
    return isinstance(fields, dict) and all(
        name in fields and type(fields[name]) in allowed for name, allowed in types.items()
    )


class HeldOutMetric:
    """Metric of each held-out unit, from which means and standard errors are computed.

    These units are queries; for a single list, explicit pairs and user-defined functions they are
    `n_chunks` chunks of the given `units`.
    """

    def __init__(self, eval_metric: object, units: Units, n_chunks: int):
        metric = eval_metric[0] if isinstance(eval_metric, list | tuple) else eval_metric
        judgments = units.judgments
        queries = 0 if judgments.qid is None else int(judgments._query().max(initial=-1)) + 1
        plain = judgments.pairs is None and judgments.grade is not None
        self.by_query = plain and queries > 1 and not is_function_of_scores(metric)
        if self.by_query:
            self._prepare_queries(metric, judgments)
        else:
            self._prepare_chunks(metric, units, n_chunks)

    def _prepare_queries(self, metric: object, judgments: Judgments) -> None:
        from precede import metrics  # noqa: PLC0415  (only if needed)

        pairs = metric is None or metric == "pairs_in_order"
        rows = ~np.isnan(judgments.grade)  # type: ignore[arg-type]
        kept = judgments[np.flatnonzero(rows)]
        options = {"ties": "average"} if pairs else {}
        evaluator = metrics.Evaluator(
            kept, metrics="pairwise_accuracy" if pairs else cast(str, metric), **options
        )
        parsed = evaluator.metrics[0]
        self.metric = "pairs_in_order" if pairs else str(parsed)
        self.greater_is_better = pairs or parsed.greater_is_better
        # The share of all pairs is the mean over queries weighted by their numbers of pairs.
        self.weight = evaluator._scale[:, 0] if pairs else evaluator._weights
        self._values = lambda scores: evaluator.evaluate(scores[rows]).per_query[str(parsed)]

    def _prepare_chunks(self, metric: object, units: Units, n_chunks: int) -> None:
        monitored: list[tuple[Integers, MonitoredMetric]] = []
        fold = units.folds(n_chunks)
        for number in range(n_chunks):
            rows, made = units.repeat(fold == number)
            try:
                name, function = next(iter(monitored_metrics(metric, made).items()))
                function.value(np.zeros(rows.size))
            except ValueError as error:
                if "eval_metric" in str(error):
                    raise
                continue  # no pair to compare in this chunk
            monitored.append((rows, function))
            self.metric, self.greater_is_better = name, function.greater_is_better
        if not monitored:
            raise TooFewError(
                "no metric can be computed on the rows that 'auto' holds out; give more data"
            )
        self.weight = np.ones(len(monitored))
        self._values = lambda scores: np.array([f.value(scores[rows]) for rows, f in monitored])

    def values(self, scores: Floats) -> Floats:
        """Return the values of the units, greater is better; NaN where undefined."""
        found = self._values(scores)
        return found if self.greater_is_better else -found


@dataclass(frozen=True)
class HeldOutSplit:
    """Training rows, and held-out rows with their units and initial scores."""

    training: TrainingData
    table: Table
    units: Units
    init_score: Floats | None


def held_out_splits(resampler: Resampler) -> list[HeldOutSplit]:
    """Return as many splits as it takes to hold out enough queries or rows."""
    count = min(N_FOLDS, resampler.n_units)
    if count < 2:
        raise TooFewError(
            f"'auto' holds out a share of the queries, and there are {resampler.n_units}; give more"
        )
    by_query = resampler.units.kind == "groups"
    min_held_out = MIN_HELD_OUT_QUERIES if by_query else MIN_HELD_OUT_ROWS
    n_splits = min(count, max(1, -(-min_held_out * count // resampler.n_units)))
    found = [
        HeldOutSplit(train.training, held.training.table, held.units, held.training.init_score)
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


def held_out_curve(
    splits: Sequence[tuple[Trainer, Monitor, HeldOutMetric]],
    max_rounds: int,
    *,
    early_stopping: bool,
    incumbent: LearningCurve | None = None,
    deadline: float = math.inf,
    show: Callable[[int, float], None] | None = None,
) -> LearningCurve:
    """Boost all splits in lockstep and return their learning curve on the held-out units.

    `splits` are triples: a trainer, the monitor with the scores of the held-out rows, and their
    metric. With `early_stopping` boosting ends once the learning curve stops improving or is pruned
    against the `incumbent`; otherwise the metric is evaluated after the last round only. After the
    `deadline` (of `time.monotonic`), or by Ctrl-C, boosting ends with the curve so far; without a
    value Ctrl-C is raised. `show` is called with the rounds and the best mean at every evaluation.
    """
    weight = np.concatenate([metric.weight for _, _, metric in splits])
    active = [trainer for trainer, _, _ in splits]
    recorder: CurveRecorder | None = None
    ended = ""
    try:
        for done in range(1, max_rounds + 1):
            active = [trainer for trainer in active if _improves(trainer)]
            last = done == max_rounds or not active
            if not (last or (early_stopping and is_evaluated(done))):
                continue
            column = np.concatenate([metric.values(held.scores) for _, held, metric in splits])
            if recorder is None:
                has_value = ~np.isnan(column) & (weight > 0)
                if not has_value.any():
                    raise TooFewError(
                        "no metric can be computed on the rows that 'auto' holds out; give more "
                        "data"
                    )
                recorder = CurveRecorder(weight[has_value], max_rounds, incumbent)
            recorder.add(done, column[has_value])
            if show is not None:
                show(done, recorder.best_mean)
            if last or recorder.is_over():
                break
            if time.monotonic() > deadline:
                ended = OUT_OF_TIME
                break
    except KeyboardInterrupt:
        if recorder is None:
            raise
        ended = INTERRUPTED
    assert recorder is not None
    return replace(recorder.curve(), ended=ended)


def _improves(trainer: Trainer) -> bool:
    """Boost one round; return whether another may follow."""
    done = trainer.boost_round()
    return not isinstance(done, str) and not done.stop_reason


class Candidate(NamedTuple):
    """A size of the trees and a loss; None for those that are given."""

    num_leaves: int | None
    loss: str | None = None

    def of(self, estimator: BaseRanker, rounds: int) -> BaseRanker:
        """Return a copy of the estimator with this size and loss, these rounds, and one bag."""
        copied = copy.copy(estimator)
        copied.random_state = copy.deepcopy(estimator.random_state)
        copied.n_estimators = rounds
        given = {name: value for name, value in self._asdict().items() if value is not None}
        copied.set_params(**given)
        if copied._n_bags > 1:
            copied.set_params(bags=1)
        return copied

    def __str__(self) -> str:
        leaves = None if self.num_leaves is None else f"{self.num_leaves} leaves"
        return ", ".join(each for each in (self.loss, leaves) if each) or "rounds"


def _candidates(
    estimator: BaseRanker, task: FitContext, auto_parameters: Sequence[str]
) -> list[Candidate]:
    """Return the candidates, largest trees first."""
    leaf_counts: Sequence[int | None] = LEAF_COUNTS if "num_leaves" in auto_parameters else (None,)
    losses: Sequence[str | None] = (None,)
    if "loss" in auto_parameters:
        losses = estimator.auto_losses(task.training.layout)
    return [Candidate(leaves, loss) for leaves in reversed(leaf_counts) for loss in losses]


def choose_size(
    candidates: Sequence[Candidate], curves: Sequence[LearningCurve], *, fixed_rounds: bool
) -> list[Size]:
    """Choose the smallest size, then the fewest rounds, within one standard error of the best.

    Candidates are sorted by size. With ``fixed_rounds=True`` they are compared at their last round.
    """
    weight = curves[0].weight
    found = [
        (len(curve.rounds) - 1,) * 2 if fixed_rounds else fewest_rounds(curve) for curve in curves
    ]
    at_best = [curve.values[best] for curve, (best, _) in zip(curves, found, strict=True)]
    rule = one_error_rule(at_best, weight)
    sizes = []
    for number, (each, curve, rows) in enumerate(zip(candidates, curves, found, strict=True)):
        best_rounds, fewest = (int(curve.rounds[row]) for row in rows)
        value, difference = weighted_mean(at_best[number], weight), rule.differences[number]
        sizes.append(Size(each.num_leaves, best_rounds, value, *difference, fewest,
                          number == rule.chosen, each.loss))  # fmt: skip
    return sizes


def select(estimator: BaseRanker, task: FitContext) -> Selection:
    """Choose the parameters of an estimator that are "auto"."""
    auto_parameters = find_auto_parameters(estimator)
    try:
        selection = _select(estimator, task, auto_parameters)
    except TooFewError as error:
        raise TooFewError(f"{error}, or {' and '.join(auto_parameters)} as a number") from error
    if estimator.verbose > 0:
        print(selection.summary(), file=sys.stderr)
    return selection


def _select(estimator: BaseRanker, task: FitContext, auto_parameters: Sequence[str]) -> Selection:
    splits = _splits(estimator, task)
    n_chunks = max(1, N_FOLDS // len(splits))
    metrics = [HeldOutMetric(estimator.eval_metric, split.units, n_chunks) for split in splits]
    fixed_rounds = "n_estimators" not in auto_parameters
    max_rounds = estimator._max_rounds if fixed_rounds else MAX_ROUNDS
    candidates = _candidates(estimator, task, auto_parameters)
    sign = 1.0 if metrics[0].greater_is_better else -1.0

    def curve(candidate: Candidate, **options: Any) -> LearningCurve:
        trained = [_trainer(candidate.of(estimator, max_rounds), split, task) for split in splits]
        return held_out_curve(
            [(*pair, metric) for pair, metric in zip(trained, metrics, strict=True)],
            max_rounds, early_stopping=not fixed_rounds, **options,
        )  # fmt: skip

    def shown(mean: float) -> str:
        return f"best {metrics[0].metric} {sign * mean:.4f}"

    limit = getattr(estimator, "time_limit", None)
    curves, ended = _curves(candidates, curve, max_rounds, shown, limit, estimator.verbose)
    if ended:
        task.training.context.warn(
            f"{ended}: 'auto' chose among {len(curves)} of {len(candidates)} candidates"
        )
    tried = candidates[: len(curves)][::-1]  # smallest first
    sizes = choose_size(tried, curves[::-1], fixed_rounds=fixed_rounds)
    unit = "queries" if metrics[0].by_query else "parts"
    table = tuple(replace(size, value=sign * size.value) for size in sizes)
    return Selection(metrics[0].metric, curves[0].weight.size, unit, table)


def _curves(
    candidates: Sequence[Candidate], curve: Callable[..., LearningCurve], max_rounds: int,
    shown: Callable[[float], str], time_limit: float | None, verbose: int,
) -> tuple[list[LearningCurve], str]:  # fmt: skip
    """Return the learning curves of the candidates, and why some are missing or cut short.

    Ctrl-C and the time limit end the search, but not before there is a curve to choose from.
    """
    curves: list[LearningCurve] = []
    deadline = math.inf if time_limit is None else time.monotonic() + time_limit
    with ProgressBar("auto", rounds=len(candidates) * max_rounds, verbose=verbose) as bar:
        for number, candidate in enumerate(candidates):
            if curves and time.monotonic() > deadline:
                return curves, OUT_OF_TIME
            show = partial(_show, bar, number * max_rounds, str(candidate), shown)
            incumbent = max(curves, key=lambda each: each.best[1], default=None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = curve(candidate, incumbent=incumbent, deadline=deadline, show=show)
                except KeyboardInterrupt:
                    if not curves:
                        raise
                    return curves, INTERRUPTED
            curves.append(found)
            if found.ended:
                return curves, found.ended
    return curves, ""


def _show(
    bar: ProgressBar, before: int, label: str, shown: Callable[[float], str], done: int,
    mean: float,
) -> None:  # fmt: skip
    bar.show(before + done, f"{label}: {shown(mean)}")


def _splits(estimator: BaseRanker, task: FitContext) -> list[HeldOutSplit]:
    """Return the splits: the first evaluation set, or folds of the training rows."""
    seed = estimator.draw_seed()
    if not task.monitors:
        return held_out_splits(Resampler.of_fit(estimator, task, seed=seed))
    held = task.monitors[0]
    assert held.judgments is not None
    keys = held.table.keys(np.ones(held.table.n_used_rows), task.training.context)
    units = Units.of(held.judgments, lambda kind: keys)  # noqa: ARG005
    return [HeldOutSplit(task.training, held.table, units, held.init_score)]


def _trainer(
    candidate: BaseRanker, split: HeldOutSplit, task: FitContext
) -> tuple[Trainer, Monitor]:
    """Return the trainer of a candidate on a split, and the monitor of the held-out rows."""
    monitor = Monitor("held", split.table, {}, split.init_score)
    task = replace(task, training=split.training, monitors=[monitor], checkpoint=None)
    stop = Rounds(candidate._max_rounds)
    return candidate.trainer(task, stop, None, History()), monitor
