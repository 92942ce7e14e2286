"""Ranking metrics: per query first, mean second, every convention stated.

A `Metric` is a value that prints and parses as itself, a `Policy` holds the conventions, an
`Evaluation` carries both with the numbers. The formulas are in ``docs/metrics.md``.
"""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.metrics.evaluator import Evaluation as Evaluation
    from precede.metrics.evaluator import Evaluator as Evaluator
    from precede.metrics.evaluator import Interval as Interval
    from precede.metrics.evaluator import defined_metrics as defined_metrics
    from precede.metrics.evaluator import evaluate as evaluate
    from precede.metrics.evaluator import precision_at_percent as precision_at_percent
    from precede.metrics.policy import PRESETS as PRESETS
    from precede.metrics.policy import Policy as Policy
    from precede.metrics.ranked import weigh_pairs as weigh_pairs
    from precede.metrics.registry import REGISTRY as REGISTRY
    from precede.metrics.registry import Definition as Definition
    from precede.metrics.registry import Metric as Metric
    from precede.metrics.registry import default_metrics as default_metrics
    from precede.metrics.registry import list_metrics as list_metrics
    from precede.metrics.registry import listed_metrics as listed_metrics
    from precede.metrics.registry import metric as metric
    from precede.metrics.registry import register_metric as register_metric
    from precede.metrics.scorer import Scorer as Scorer
    from precede.metrics.scorer import make_scorer as make_scorer
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "evaluator": (
                "Evaluation Evaluator Interval defined_metrics evaluate precision_at_percent"
            ),
            "policy": "PRESETS Policy",
            "ranked": "weigh_pairs",
            "registry": (
                "Definition Metric REGISTRY default_metrics list_metrics listed_metrics metric "
                "register_metric"
            ),
            "scorer": "Scorer make_scorer",
        },
    )
