"""Estimators on a Dask cluster; models are equal to those of the local estimators, bit for bit."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.dask.estimators import DaskBoostedRanker as DaskBoostedRanker
    from precede.dask.estimators import DaskConvexRiskRanker as DaskConvexRiskRanker
    from precede.dask.estimators import DaskGlassBoxRanker as DaskGlassBoxRanker
    from precede.dask.estimators import DaskPushRanker as DaskPushRanker
    from precede.dask.estimators import DaskQBRank as DaskQBRank
    from precede.dask.estimators import DaskRankBoost as DaskRankBoost
    from precede.dask.estimators import DaskSmoothMarginRanker as DaskSmoothMarginRanker
    from precede.dask.estimators import PairObjective as PairObjective
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "estimators": (
                "DaskBoostedRanker DaskConvexRiskRanker DaskGlassBoxRanker DaskPushRanker "
                "DaskQBRank DaskRankBoost DaskSmoothMarginRanker PairObjective"
            ),
        },
    )
