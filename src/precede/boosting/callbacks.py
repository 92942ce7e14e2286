"""Support for scikit-learn's callbacks, set by ``model.set_callbacks(...)``.

The fit is a task and each round one of its subtasks. A callback that returns True at the end of a
round stops the fit, as a function in ``callbacks=`` does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from precede.boosting.history import Progress
from precede.boosting.loop import Result
from precede.engine.parameters import find_auto_parameters

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext
    from precede.risks.base import State

__all__ = ["CallbackBridge"]


class CallbackBridge:
    """Forward the rounds of a fit to scikit-learn's callback context."""

    def __init__(self, estimator: BaseRanker, X: Any, y: Any):
        self._estimator = estimator
        self._given = {"X": X, "y": y}
        rounds = (
            None if "n_estimators" in find_auto_parameters(estimator) else estimator.n_estimators
        )
        self._context = estimator._init_callback_context(max_subtasks=rounds)
        self._context.call_on_fit_task_begin(estimator=estimator, **self._given)

    def rounds(self, task: FitContext) -> list[Callable[[Progress], bool]]:
        """Return the functions to call after every round; none without callbacks."""
        if not getattr(self._estimator, "_skl_callbacks", None):
            return []

        def notify(progress: Progress) -> bool:
            round_ = self._context.subcontext(task_name="round")
            round_.call_on_fit_task_begin(estimator=self._estimator, **self._given)
            return round_.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes=lambda: self._fitted(progress, task),
                **self._given,
            )

        return [notify]

    def _fitted(self, progress: Progress, task: FitContext) -> dict[str, Any]:
        """Return the fitted attributes as if the fit had ended with this round."""
        so_far = copy.copy(self._estimator)
        ensemble = progress.ensemble.first(len(progress.ensemble))
        state = cast("State", None)  # unused by estimators that support callbacks
        so_far._set_fitted_attributes(
            Result(ensemble, progress.history[:], state, "under way"), task
        )
        return {name: value for name, value in vars(so_far).items() if name.endswith("_")}

    def end(self) -> None:
        """Report the end of the fit."""
        fitted = {n: v for n, v in vars(self._estimator).items() if n.endswith("_")}
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=lambda: fitted, **self._given
        )
