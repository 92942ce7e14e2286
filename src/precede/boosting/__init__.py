"""The loop over rounds, its steps, and what is recorded while it runs."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.boosting.checkpoint import Checkpoint
    from precede.boosting.history import (
        History,
        Monitor,
        NoProgress,
        Progress,
        Rounds,
        Stop,
        Worsening,
    )
    from precede.boosting.loop import Plan, Result, advance, run
    from precede.boosting.monitors import (
        check_metric_names,
        defined_metrics,
        monitored_metrics,
        pairs_in_order,
    )
    from precede.boosting.progress import ProgressBar
    from precede.boosting.steps import (
        BoundStep,
        ExactStep,
        LineSearch,
        NormalizedStep,
        QuadraticStep,
        SecantStep,
        SmoothedStepWarning,
        Step,
        StepRule,
    )

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "BoundStep": "steps",
        "Checkpoint": "checkpoint",
        "ExactStep": "steps",
        "History": "history",
        "LineSearch": "steps",
        "Monitor": "history",
        "NoProgress": "history",
        "NormalizedStep": "steps",
        "Plan": "loop",
        "Progress": "history",
        "ProgressBar": "progress",
        "QuadraticStep": "steps",
        "Result": "loop",
        "Rounds": "history",
        "SecantStep": "steps",
        "SmoothedStepWarning": "steps",
        "Step": "steps",
        "StepRule": "steps",
        "Stop": "history",
        "Worsening": "history",
        "advance": "loop",
        "check_metric_names": "monitors",
        "defined_metrics": "monitors",
        "monitored_metrics": "monitors",
        "pairs_in_order": "monitors",
        "run": "loop",
    },
)
