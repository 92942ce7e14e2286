"""precede: learning to rank by boosting, exact and without enumerating pairs.

Names are loaded when they are first used, so that ``import precede`` and the command line's
help are quick.
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any

from precede.engine.kernel_cache import provide_cache as _provide_cache

__version__ = "0.1.0"

_HOME = {
    "AdaBoostRanker": "algorithms.adaboost",
    "BaseRanker": "estimator.base",
    "Checkpoint": "boosting.checkpoint",
    "BoostedRanker": "algorithms.boosted",
    "Columns": "weak_rankers.columns",
    "ConvexRiskRanker": "algorithms.convex_risk",
    "DiskTable": "files.disk",
    "Exp": "losses",
    "Exponential": "losses",
    "Family": "weak_rankers.base",
    "Features": "weak_rankers.columns",
    "GlassBoxRanker": "algorithms.glass_box",
    "Hinge": "losses",
    "Judgments": "judgments",
    "Linear": "losses",
    "Logistic": "losses",
    "MultilabelRanker": "algorithms.multilabel",
    "PairLoss": "losses",
    "PairRisk": "risks.pair_risk",
    "PointRisk": "risks.pointwise",
    "Power": "losses",
    "Price": "losses",
    "PushRanker": "algorithms.push",
    "QBRank": "algorithms.qbrank",
    "RankBoost": "algorithms.rankboost",
    "RankBoostPlus": "algorithms.rankboost_plus",
    "RankWeight": "risks.rank_weights",
    "WeakRanker": "weak_rankers.base",
    "Report": "report.page",
    "ScoreRisk": "risks.score_risk",
    "SmoothMarginRanker": "algorithms.smooth_margin",
    "SquaredHinge": "losses",
    "Stump": "weak_rankers.stumps",
    "Stumps": "weak_rankers.stumps",
    "Tree": "weak_rankers.trees",
    "Trees": "weak_rankers.tree_family",
    "best_margin": "margin",
    "compare": "inference",
    "e2_loss": "algorithms.e2",
    "evaluate": "metrics.evaluator",
    "export": "exports.write",
    "load": "estimator.saving",
    "margins": "margin",
    "minimize_ranking_risk": "algorithms.empirical_risk",
    "pairs_in_order": "boosting.monitors",
    "staged_e2_loss": "algorithms.e2",
    "tune": "algorithms.tuning",
    "write_table": "files.disk",
}

# Parts of other interfaces, importable from here but not shown.
_ALSO = {"Constants": "weak_rankers.columns", "SearchResult": "weak_rankers.base"}

__all__ = sorted(_HOME)  # noqa: PLE0605  (one list, kept in one place)

if TYPE_CHECKING:  # `as`, because a checker takes only such names for public
    from precede import algorithms as algorithms
    from precede import boosting as boosting
    from precede import bounds as bounds
    from precede import cli as cli
    from precede import dask as dask
    from precede import datasets as datasets
    from precede import estimator as estimator
    from precede import explain as explain
    from precede import files as files
    from precede import inference as inference
    from precede import judgments as judgments
    from precede import losses as losses
    from precede import margin as margin
    from precede import metrics as metrics
    from precede import model as model
    from precede import plots as plots
    from precede import report as report
    from precede import risks as risks
    from precede import scorecard as scorecard
    from precede import testing as testing
    from precede import top as top
    from precede import weak_rankers as weak_rankers
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
    from precede.boosting.checkpoint import Checkpoint as Checkpoint
    from precede.boosting.monitors import pairs_in_order as pairs_in_order
    from precede.estimator.base import BaseRanker as BaseRanker
    from precede.estimator.saving import load as load
    from precede.exports.write import export as export
    from precede.files.disk import DiskTable as DiskTable
    from precede.files.disk import write_table as write_table
    from precede.inference import compare as compare
    from precede.judgments import Judgments as Judgments
    from precede.losses import Exp as Exp
    from precede.losses import Exponential as Exponential
    from precede.losses import Hinge as Hinge
    from precede.losses import Linear as Linear
    from precede.losses import Logistic as Logistic
    from precede.losses import PairLoss as PairLoss
    from precede.losses import Power as Power
    from precede.losses import Price as Price
    from precede.losses import SquaredHinge as SquaredHinge
    from precede.margin import best_margin as best_margin
    from precede.margin import margins as margins
    from precede.metrics.evaluator import evaluate as evaluate
    from precede.report.page import Report as Report
    from precede.risks.pair_risk import PairRisk as PairRisk
    from precede.risks.pointwise import PointRisk as PointRisk
    from precede.risks.rank_weights import RankWeight as RankWeight
    from precede.risks.score_risk import ScoreRisk as ScoreRisk
    from precede.weak_rankers.base import Family as Family
    from precede.weak_rankers.base import SearchResult as SearchResult
    from precede.weak_rankers.base import WeakRanker as WeakRanker
    from precede.weak_rankers.columns import Columns as Columns
    from precede.weak_rankers.columns import Constants as Constants
    from precede.weak_rankers.columns import Features as Features
    from precede.weak_rankers.stumps import Stump as Stump
    from precede.weak_rankers.stumps import Stumps as Stumps
    from precede.weak_rankers.tree_family import Trees as Trees
    from precede.weak_rankers.trees import Tree as Tree


_SUBMODULES = frozenset((
    "algorithms", "boosting", "bounds", "cli", "dask", "datasets", "estimator", "explain", "files",
    "inference", "judgments", "losses", "margin", "metrics", "model", "plots", "report", "risks",
    "scorecard", "testing", "top", "weak_rankers",
))  # fmt: skip
# Where modules that have moved are now; the old paths go on working.
_MOVED = {"boost": "boosting", "shapley": "explain.shapley", "trec": "files.trec"}


class _Moved(MetaPathFinder, Loader):
    """Import the module that has taken the place of another."""

    def find_spec(
        self,
        fullname: str,
        path: object = None,  # noqa: ARG002
        target: object = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        return spec_from_loader(fullname, self) if package == __name__ and name in _MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"{__name__}.{_MOVED[spec.name.rpartition('.')[2]]}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it has been executed under its new name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_Moved())
_provide_cache()  # before any module declares a kernel


if not TYPE_CHECKING:  # to a checker this would say that every name is there

    def __getattr__(name: str) -> Any:
        home = _HOME.get(name) or _ALSO.get(name)
        if home is not None:
            return getattr(import_module(f"precede.{home}"), name)
        if name in _SUBMODULES or name in _MOVED:
            return import_module(f"precede.{name}")
        raise AttributeError(f"module 'precede' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES, "__version__"])
