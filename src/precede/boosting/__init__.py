"""The loop over rounds, its steps, and what is recorded while it runs."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.boosting.checkpoint import Checkpoint
    from precede.boosting.coordinate_descent import CoordinateDescent, Plan, advance
    from precede.boosting.history import (
        History,
        Monitor,
        NoProgress,
        Progress,
        Rounds,
        Stop,
        Worsening,
    )
    from precede.boosting.loop import Result, drive, run
    from precede.boosting.method import Method, Round
    from precede.boosting.monitors import (
        check_metric_names,
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
        "CoordinateDescent": "coordinate_descent",
        "ExactStep": "steps",
        "History": "history",
        "LineSearch": "steps",
        "Method": "method",
        "Monitor": "history",
        "NoProgress": "history",
        "NormalizedStep": "steps",
        "Plan": "coordinate_descent",
        "Progress": "history",
        "ProgressBar": "progress",
        "QuadraticStep": "steps",
        "Result": "loop",
        "Round": "method",
        "Rounds": "history",
        "SecantStep": "steps",
        "SmoothedStepWarning": "steps",
        "Step": "steps",
        "StepRule": "steps",
        "Stop": "history",
        "Worsening": "history",
        "advance": "coordinate_descent",
        "check_metric_names": "monitors",
        "defined_metrics": "monitors",
        "drive": "loop",
        "monitored_metrics": "monitors",
        "pairs_in_order": "monitors",
        "run": "loop",
    },
)
