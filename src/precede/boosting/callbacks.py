"""scikit-learn's own callbacks, told of every round of a fit.

Set by ``model.set_callbacks(...)``, they are told of the fit as a task and of each round as one
of its subtasks. One that returns True at the end of a round ends the fit, as a function in
``callbacks=`` does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from precede.boosting.history import Progress
from precede.boosting.loop import Result
from precede.engine.parameters import asked

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext
    from precede.risks.base import State

__all__ = ["CallbackBridge"]


class CallbackBridge:
    """The bridge between the loop and the context that scikit-learn keeps during a fit."""

    def __init__(self, estimator: BaseRanker, X: Any, y: Any):
        self._estimator = estimator
        self._given = {"X": X, "y": y}
        rounds = None if "n_estimators" in asked(estimator) else estimator.n_estimators
        self._context = estimator._init_callback_context(max_subtasks=rounds)
        self._context.call_on_fit_task_begin(estimator=estimator, **self._given)

    def rounds(self, task: FitContext) -> list[Callable[[Progress], bool]]:
        """Functions to call after every round: none, if nobody listens."""
        if not getattr(self._estimator, "_skl_callbacks", None):
            return []

        def tell(progress: Progress) -> bool:
            round_ = self._context.subcontext(task_name="round")
            round_.call_on_fit_task_begin(estimator=self._estimator, **self._given)
            return round_.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes=lambda: self._fitted(progress, task),
                **self._given,
            )

        return [tell]

    def _fitted(self, progress: Progress, task: FitContext) -> dict[str, Any]:
        """Fitted attributes as if the fit had ended with this round."""
        so_far = copy.copy(self._estimator)
        ensemble = progress.ensemble.first(len(progress.ensemble))  # the loop goes on with its own
        state = cast("State", None)  # estimators that call back keep nothing of it
        so_far._keep(Result(ensemble, progress.history[:], state, "under way"), task)
        return {name: value for name, value in vars(so_far).items() if name.endswith("_")}

    def end(self) -> None:
        """Tell that the fit is over."""
        fitted = {n: v for n, v in vars(self._estimator).items() if n.endswith("_")}
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=lambda: fitted, **self._given
        )
