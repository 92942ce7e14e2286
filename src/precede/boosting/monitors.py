"""Evaluation sets and the metrics that are monitored on them during boosting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Floats
from precede.engine.exact import exact_sum
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table
from precede.judgments import Judgments, check_column
from precede.weak_rankers.base import WeakRanker

if TYPE_CHECKING:
    from typing import TypeGuard


class Scoring(Protocol):
    """Model that scores the rows of a table."""

    def on(self, table: Table) -> Floats:
        """Return the score of each row."""
        ...


class MonitoredMetric(NamedTuple):
    """Metric of an evaluation set, as a function of the scores of its rows."""

    value: Callable[[Floats], float]
    greater_is_better: bool


@dataclass
class Monitor:
    """Evaluation set whose metrics are computed after every round.

    `judgments` allow callers to compute other metrics.
    """

    name: str
    table: Table
    metrics: Mapping[str, MonitoredMetric]
    init_score: Floats | None = None
    judgments: Judgments | None = None
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        given = self.init_score
        self.scores = np.zeros(self.table.n_used_rows) if given is None else given.copy()

    def advance(self, weak_ranker: WeakRanker, weight: float) -> None:
        """Add one weak ranker to the scores."""
        self.scores += weight * weak_ranker.on(self.table)

    def shrink(self, factor: float) -> None:
        """Multiply the scores by `factor`."""
        self.scores *= factor

    def restart(self, model: Scoring) -> None:
        """Reset the scores to those of a model plus `init_score`."""
        self.scores = model.on(self.table)
        if self.init_score is not None:
            self.scores += self.init_score

    def compute_metrics(self) -> dict[str, float]:
        """Return the values of the metrics, keyed by "<name> <metric>"."""
        return {
            f"{self.name} {name}": float(metric.value(self.scores))
            for name, metric in self.metrics.items()
        }


def pairs_in_order(judgments: Judgments, scores: ArrayLike) -> float:
    """Return the weighted share of pairs that the scores order correctly; ties count half.

    With two classes and no queries this is the area under the ROC curve. Pairs judged as ties are
    left out. O(n log n).

    >>> from precede import Judgments
    >>> pairs_in_order(Judgments.bipartite([1, 1, 0]), [0.9, 0.1, 0.1])
    0.75
    """
    if not isinstance(judgments, Judgments):
        raise ValueError(
            f"judgments is a {type(judgments).__name__}; give Judgments(y, qid) for grades y"
        )
    scores = check_column(scores, "scores", len(judgments))
    layout = judgments._without_ties().to_layout()
    if layout.total <= 0:
        raise ValueError("there is no pair to put in order: every query has a single grade")
    return share_in_order(layout, scores[layout.order])


def share_in_order(layout: QueryLayout, scores: Floats, context: Context | None = None) -> float:
    """Return `pairs_in_order` for rows in the order of a layout, with its query weights.

    With `context` it is the share over the rows of all workers, each of which has whole queries.

    >>> import numpy as np
    >>> from precede import Judgments
    >>> share_in_order(Judgments([0, 1, 0]).to_layout(), np.array([0.1, 0.5, 0.5]))
    0.75
    """
    from precede.metrics import weigh_pairs  # noqa: PLC0415  (not needed to fit)

    starts = layout.level_start[layout.query_start]
    level = np.repeat(np.arange(layout.level_start.size - 1), np.diff(layout.level_start))
    first = np.repeat(layout.query_start[:-1], np.diff(starts))
    graded = slice(0, layout.n_graded)
    sums = weigh_pairs(scores[graded], starts, level - first, layout.weight[graded])
    of_query = layout.loser_weight[starts[:-1]] / layout.weight[starts[:-1]]
    winner, loser = layout.winner, layout.loser
    weight = layout.pair_weight * layout.weight[winner] * layout.loser_weight[loser]
    margin = scores[winner] - scores[loser]
    in_order, reversed_ = (
        exact_sum(np.append(each * of_query, weight[listed]), context)
        for each, listed in zip(sums, (margin > 0, margin < 0), strict=True)
    )
    share = 0.5 + 0.5 * (in_order - reversed_) / layout.total
    return float(min(max(share, 0.0), 1.0))  # rounding


def monitored_metrics(eval_metric: object, judgments: Judgments) -> dict[str, MonitoredMetric]:
    """Return the metrics of an evaluation set with these judgments, by name."""
    return dict(_monitored_metric(metric, judgments) for metric in _listed(eval_metric))


def check_metric_names(eval_metric: object) -> None:
    """Raise ValueError for an unknown metric name, even without an evaluation set."""
    for name in _listed(eval_metric):
        if isinstance(name, str) and name != "pairs_in_order":
            from precede import metrics  # noqa: PLC0415  (only if needed)

            metrics.metric(name)


def is_function_of_scores(metric: object) -> TypeGuard[Callable[..., tuple[str, float, bool]]]:
    """Whether a metric is a user-defined function ``metric(y, scores, qid)``."""
    return callable(metric) and not hasattr(metric, "greater_is_better")


def _listed(eval_metric: object) -> Sequence[object]:
    return eval_metric if isinstance(eval_metric, list | tuple) else [eval_metric]


def _monitored_metric(metric: object, judgments: Judgments) -> tuple[str, MonitoredMetric]:
    """Return the name of a metric, and the metric as a function of the scores."""
    if metric is None or metric == "pairs_in_order":
        value = partial(pairs_in_order, judgments)
        return "pairs_in_order", MonitoredMetric(value, True)
    if is_function_of_scores(metric):
        return _custom_metric(metric, judgments)
    return _named_metric(metric, judgments)


def _custom_metric(
    metric: Callable[..., tuple[str, float, bool]], judgments: Judgments
) -> tuple[str, MonitoredMetric]:
    """Wrap a function ``metric(y, scores, qid) -> (name, value, greater_is_better)``."""
    trial = metric(judgments.grade, np.zeros(len(judgments)), judgments.qid)
    if not isinstance(trial, tuple) or len(trial) != 3:
        raise ValueError(
            "an eval_metric function takes (y, scores, qid) and returns "
            f"(name, value, greater_is_better); this one returned {trial!r}"
        )
    name, _, greater = trial
    return str(name), MonitoredMetric(
        lambda scores: float(metric(judgments.grade, scores, judgments.qid)[1]), bool(greater)
    )


def _named_metric(metric: object, judgments: Judgments) -> tuple[str, MonitoredMetric]:
    """Prepare a metric of `precede.metrics`."""
    from precede import metrics  # noqa: PLC0415  (only if needed)

    parsed = metrics.metric(cast("str | metrics.Metric", metric))
    listed = judgments.pairs is not None and len(judgments.pairs) > 0
    if listed and parsed.definition.of_listed_pairs:
        evaluator = metrics.Evaluator(judgments, metrics=parsed)
    elif judgments.grade is None:
        raise ValueError(
            f"eval_metric={str(parsed)!r} needs grades, but the evaluation set has only pairs; "
            f"use eval_metric='pairs_in_order', {' or '.join(map(repr, metrics.listed_metrics()))}"
        )
    else:
        evaluator = metrics.Evaluator(
            judgments.grade, judgments.qid, metrics=(parsed,), sample_weight=judgments.weight
        )
    return str(parsed), MonitoredMetric(evaluator.value, parsed.greater_is_better)
