"""precede: learning to rank by boosting, exact and without listing a pair.

Names are loaded when they are first used, so that ``import precede`` and the command line's
help are quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "AdaBoostRanker": "algorithms.adaboost",
    "Checkpoint": "checkpoint",
    "BoostedRanker": "algorithms.boosted",
    "Columns": "rankers",
    "Constants": "rankers",
    "ConvexRisk": "algorithms.ball",
    "DiskTable": "disk",
    "Exp": "losses",
    "Exponential": "losses",
    "Family": "rankers",
    "Features": "rankers",
    "Found": "rankers",
    "Hinge": "losses",
    "Judgments": "judgments",
    "Linear": "losses",
    "Logistic": "losses",
    "MultilabelBoost": "algorithms.multilabel",
    "PairLoss": "losses",
    "PairRisk": "risk",
    "PointRisk": "point_risk",
    "Power": "losses",
    "Price": "losses",
    "PushRanker": "algorithms.push",
    "QBRank": "algorithms.qbrank",
    "RankBoost": "algorithms.rankboost",
    "RankBoostPlus": "algorithms.rankboost_plus",
    "Ranker": "rankers",
    "Report": "report.page",
    "ScoreRisk": "quadratic",
    "SmoothMargin": "algorithms.smooth_margin",
    "SquaredHinge": "losses",
    "Stump": "stumps",
    "Stumps": "stumps",
    "Tree": "trees",
    "Trees": "learners",
    "best_margin": "margin",
    "e2_loss": "e2",
    "export": "exports.write",
    "load": "estimator",
    "margins": "margin",
    "minimise_ranking_risk": "erm",
    "pairs_in_order": "watch",
    "staged_e2_loss": "e2",
    "write_table": "disk",
}

__all__ = sorted(_HOME)  # noqa: PLE0605  (one list, kept in one place)

if TYPE_CHECKING:
    from precede.algorithms.adaboost import AdaBoostRanker
    from precede.algorithms.ball import ConvexRisk
    from precede.algorithms.boosted import BoostedRanker
    from precede.algorithms.multilabel import MultilabelBoost
    from precede.algorithms.push import PushRanker
    from precede.algorithms.qbrank import QBRank
    from precede.algorithms.rankboost import RankBoost
    from precede.algorithms.rankboost_plus import RankBoostPlus
    from precede.algorithms.smooth_margin import SmoothMargin
    from precede.checkpoint import Checkpoint
    from precede.disk import DiskTable, write_table
    from precede.e2 import e2_loss, staged_e2_loss
    from precede.erm import minimise_ranking_risk
    from precede.estimator import load
    from precede.exports.write import export
    from precede.judgments import Judgments
    from precede.learners import Trees
    from precede.losses import (
        Exp,
        Exponential,
        Hinge,
        Linear,
        Logistic,
        PairLoss,
        Power,
        Price,
        SquaredHinge,
    )
    from precede.margin import best_margin, margins
    from precede.point_risk import PointRisk
    from precede.quadratic import ScoreRisk
    from precede.rankers import Columns, Constants, Family, Features, Found, Ranker
    from precede.report.page import Report
    from precede.risk import PairRisk
    from precede.stumps import Stump, Stumps
    from precede.trees import Tree
    from precede.watch import pairs_in_order


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"precede.{_HOME[name]}"), name)
    raise AttributeError(f"module 'precede' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
