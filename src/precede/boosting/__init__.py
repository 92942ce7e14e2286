"""The boosting loop: trainers, step rules, stopping rules, history and monitors."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.boosting.checkpoint import Checkpoint as Checkpoint
    from precede.boosting.coordinate_descent import CoordinateDescent as CoordinateDescent
    from precede.boosting.coordinate_descent import Plan as Plan
    from precede.boosting.coordinate_descent import add_to_scores as add_to_scores
    from precede.boosting.history import EarlyStopping as EarlyStopping
    from precede.boosting.history import History as History
    from precede.boosting.history import Monitor as Monitor
    from precede.boosting.history import NoProgress as NoProgress
    from precede.boosting.history import Progress as Progress
    from precede.boosting.history import Rounds as Rounds
    from precede.boosting.history import Stop as Stop
    from precede.boosting.loop import Result as Result
    from precede.boosting.loop import run as run
    from precede.boosting.loop import run_rounds as run_rounds
    from precede.boosting.monitors import check_metric_names as check_metric_names
    from precede.boosting.monitors import monitored_metrics as monitored_metrics
    from precede.boosting.monitors import pairs_in_order as pairs_in_order
    from precede.boosting.progress import ProgressBar as ProgressBar
    from precede.boosting.steps import BoundStep as BoundStep
    from precede.boosting.steps import ExactStep as ExactStep
    from precede.boosting.steps import LineSearch as LineSearch
    from precede.boosting.steps import NormalizedStep as NormalizedStep
    from precede.boosting.steps import QuadraticStep as QuadraticStep
    from precede.boosting.steps import SecantStep as SecantStep
    from precede.boosting.steps import SmoothedStepWarning as SmoothedStepWarning
    from precede.boosting.steps import Step as Step
    from precede.boosting.steps import StepRule as StepRule
    from precede.boosting.trainer import Round as Round
    from precede.boosting.trainer import Trainer as Trainer
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "checkpoint": "Checkpoint",
            "coordinate_descent": "CoordinateDescent Plan add_to_scores",
            "history": "History Monitor NoProgress Progress Rounds Stop EarlyStopping",
            "loop": "Result drive run",
            "trainer": "Trainer Round",
            "monitors": "check_metric_names monitored_metrics pairs_in_order",
            "progress": "ProgressBar",
            "steps": (
                "BoundStep ExactStep LineSearch NormalizedStep QuadraticStep SecantStep "
                "SmoothedStepWarning Step StepRule"
            ),
        },
    )
