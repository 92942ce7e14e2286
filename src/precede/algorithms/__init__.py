"""One file for each line of papers, each an estimator."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.algorithms.adaboost import AdaBoostRanker as AdaBoostRanker
    from precede.algorithms.boosted import BoostedRanker as BoostedRanker
    from precede.algorithms.convex_risk import ConvexRiskRanker as ConvexRiskRanker
    from precede.algorithms.e2 import e2_loss as e2_loss
    from precede.algorithms.e2 import staged_e2_loss as staged_e2_loss
    from precede.algorithms.empirical_risk import minimize_ranking_risk as minimize_ranking_risk
    from precede.algorithms.glass_box import GlassBoxRanker as GlassBoxRanker
    from precede.algorithms.multilabel import MultilabelRanker as MultilabelRanker
    from precede.algorithms.push import PushRanker as PushRanker
    from precede.algorithms.qbrank import QBRank as QBRank
    from precede.algorithms.rankboost import RankBoost as RankBoost
    from precede.algorithms.rankboost_plus import RankBoostPlus as RankBoostPlus
    from precede.algorithms.smooth_margin import SmoothMarginRanker as SmoothMarginRanker
    from precede.algorithms.tuning import tune as tune
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "adaboost": "AdaBoostRanker",
            "convex_risk": "ConvexRiskRanker",
            "boosted": "BoostedRanker",
            "e2": "e2_loss staged_e2_loss",
            "empirical_risk": "minimize_ranking_risk",
            "glass_box": "GlassBoxRanker",
            "multilabel": "MultilabelRanker",
            "push": "PushRanker",
            "qbrank": "QBRank",
            "rankboost": "RankBoost",
            "rankboost_plus": "RankBoostPlus",
            "smooth_margin": "SmoothMarginRanker",
            "tuning": "tune",
        },
    )
