"""Bounds with every term shown, and the sample size from which they would not be vacuous."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.bounds.base import Bound as Bound
    from precede.bounds.margins import covering_bound as covering_bound
    from precede.bounds.margins import margin_bound as margin_bound
    from precede.bounds.margins import sloppy_covering as sloppy_covering
    from precede.bounds.push import PushRisk as PushRisk
    from precede.bounds.push import negatives_needed as negatives_needed
    from precede.bounds.push import push_bound as push_bound
    from precede.bounds.push import push_risk as push_risk
    from precede.bounds.rademacher import rademacher_bound as rademacher_bound
    from precede.bounds.rademacher import stump_supremum as stump_supremum
    from precede.bounds.ranking_risk import bernstein_bound as bernstein_bound
    from precede.bounds.ranking_risk import consistent_radius as consistent_radius
    from precede.bounds.ranking_risk import fast_rate_bound as fast_rate_bound
    from precede.bounds.ranking_risk import noise_constant as noise_constant
    from precede.bounds.ranking_risk import projection_variance_bound as projection_variance_bound
    from precede.bounds.ranking_risk import psi_inverse as psi_inverse
    from precede.bounds.ranking_risk import psi_transform as psi_transform
    from precede.bounds.ranking_risk import vc_bound as vc_bound
    from precede.bounds.training import convergence_bound as convergence_bound
    from precede.bounds.training import small_step_bound as small_step_bound
    from precede.bounds.training import training_bound as training_bound
    from precede.margin import MarginDistribution as MarginDistribution
    from precede.margin import margin_distribution as margin_distribution
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": "Bound",
            "margins": (
                "MarginDistribution covering_bound margin_bound margin_distribution sloppy_covering"
            ),
            "push": "PushRisk negatives_needed push_bound push_risk",
            "rademacher": "rademacher_bound stump_supremum",
            "ranking_risk": (
                "bernstein_bound consistent_radius fast_rate_bound noise_constant "
                "projection_variance_bound psi_inverse psi_transform vc_bound"
            ),
            "training": "convergence_bound small_step_bound training_bound",
        },
    )
