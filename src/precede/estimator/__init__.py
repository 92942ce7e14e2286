"""The scikit-learn interface: parameters, validation, fit, predict, score, save."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.estimator.base import BaseRanker as BaseRanker
    from precede.estimator.base import Task as Task
    from precede.estimator.base import whole_or_not_at_all as whole_or_not_at_all
    from precede.estimator.saving import described_parameters as described_parameters
    from precede.estimator.saving import load as load
    from precede.estimator.saving import parameters_of as parameters_of
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": "BaseRanker Task whole_or_not_at_all",
            "saving": "described_parameters load parameters_of",
        },
    )
