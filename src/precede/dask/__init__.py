"""The estimators on a Dask cluster: the model of the local ones, bit for bit."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.dask.estimators import (
        DaskBoostedRanker,
        DaskConvexRisk,
        DaskPushRanker,
        DaskQBRank,
        DaskRankBoost,
        DaskSmoothMargin,
        PairObjective,
    )

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "DaskBoostedRanker": "estimators",
        "DaskConvexRisk": "estimators",
        "DaskPushRanker": "estimators",
        "DaskQBRank": "estimators",
        "DaskRankBoost": "estimators",
        "DaskSmoothMargin": "estimators",
        "PairObjective": "estimators",
    },
)
