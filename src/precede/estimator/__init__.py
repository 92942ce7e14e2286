"""The scikit-learn interface: parameters, validation, fit, predict, score, save."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.estimator.base import BaseRanker as BaseRanker
    from precede.estimator.base import FitContext as FitContext
    from precede.estimator.base import restore_on_failure as restore_on_failure
    from precede.estimator.saving import described_parameters as described_parameters
    from precede.estimator.saving import load as load
    from precede.estimator.saving import saved_parameters as saved_parameters
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": "BaseRanker FitContext restore_on_failure",
            "saving": "described_parameters load saved_parameters",
        },
    )
