from .estimators import DaskBoostedRanker as DaskBoostedRanker
from .estimators import DaskConvexRiskRanker as DaskConvexRiskRanker
from .estimators import DaskGlassBoxRanker as DaskGlassBoxRanker
from .estimators import DaskPushRanker as DaskPushRanker
from .estimators import DaskQBRank as DaskQBRank
from .estimators import DaskRankBoost as DaskRankBoost
from .estimators import DaskSmoothMarginRanker as DaskSmoothMarginRanker
from .estimators import PairObjective as PairObjective
