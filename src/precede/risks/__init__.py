"""Risks: the objectives of all algorithms, with value, gradient and curvature."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.risks.base import BoundLossRisk as BoundLossRisk
    from precede.risks.base import BoundRisk as BoundRisk
    from precede.risks.base import EdgeWeights as EdgeWeights
    from precede.risks.base import Risk as Risk
    from precede.risks.base import State as State
    from precede.risks.device_exponential import DeviceSeparableRisk as DeviceSeparableRisk
    from precede.risks.device_mixture import DeviceMixtureRisk as DeviceMixtureRisk
    from precede.risks.device_pairs import DeviceHingeRisk as DeviceHingeRisk
    from precede.risks.device_pairs import DeviceLogisticRisk as DeviceLogisticRisk
    from precede.risks.device_ranked_exponential import (
        DeviceRankedExponentialRisk as DeviceRankedExponentialRisk,
    )
    from precede.risks.device_ranked_exponential import (
        DeviceTopExponentialRisk as DeviceTopExponentialRisk,
    )
    from precede.risks.device_ranks import DeviceRankedPairsRisk as DeviceRankedPairsRisk
    from precede.risks.exponential import SeparableRisk as SeparableRisk
    from precede.risks.hinge_sweeps import HingeRisk as HingeRisk
    from precede.risks.links import Link as Link
    from precede.risks.logistic_cells import LogisticRisk as LogisticRisk
    from precede.risks.pair_risk import PairRisk as PairRisk
    from precede.risks.pair_sums import GeneralRisk as GeneralRisk
    from precede.risks.pointwise import PointRisk as PointRisk
    from precede.risks.rank_weights import RankedExponentialRisk as RankedExponentialRisk
    from precede.risks.rank_weights import RankWeight as RankWeight
    from precede.risks.rank_weights import RankWeights as RankWeights
    from precede.risks.rank_weights import rank_weight as rank_weight
    from precede.risks.ranked_pairs import RankedPairsRisk as RankedPairsRisk
    from precede.risks.score_risk import ScoreRisk as ScoreRisk
    from precede.risks.top_exponential import TopExponentialRisk as TopExponentialRisk
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": "BoundLossRisk BoundRisk EdgeWeights Risk State",
            "device_exponential": "DeviceSeparableRisk",
            "device_mixture": "DeviceMixtureRisk",
            "device_pairs": "DeviceHingeRisk DeviceLogisticRisk",
            "device_ranked_exponential": "DeviceRankedExponentialRisk DeviceTopExponentialRisk",
            "device_ranks": "DeviceRankedPairsRisk",
            "exponential": "SeparableRisk",
            "hinge_sweeps": "HingeRisk",
            "links": "Link",
            "logistic_cells": "LogisticRisk",
            "pair_risk": "PairRisk",
            "pair_sums": "GeneralRisk",
            "pointwise": "PointRisk",
            "rank_weights": "RankWeight RankWeights RankedExponentialRisk rank_weight",
            "ranked_pairs": "RankedPairsRisk",
            "score_risk": "ScoreRisk",
            "top_exponential": "TopExponentialRisk",
        },
    )
