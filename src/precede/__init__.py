"""precede: learning to rank by boosting, exact and without listing a pair.

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

__version__ = "0.1.0"

_HOME = {
    "AdaBoostRanker": "algorithms.adaboost",
    "BaseRanker": "estimator",
    "Checkpoint": "boosting.checkpoint",
    "BoostedRanker": "algorithms.boosted",
    "Columns": "rankers.columns",
    "ConvexRisk": "algorithms.ball",
    "DiskTable": "files.disk",
    "Exp": "losses",
    "Exponential": "losses",
    "Family": "rankers.base",
    "Features": "rankers.columns",
    "Hinge": "losses",
    "Judgments": "judgments",
    "Linear": "losses",
    "Logistic": "losses",
    "MultilabelBoost": "algorithms.multilabel",
    "PairLoss": "losses",
    "PairRisk": "risks.pair_risk",
    "PointRisk": "risks.pointwise",
    "Power": "losses",
    "Price": "losses",
    "PushRanker": "algorithms.push",
    "QBRank": "algorithms.qbrank",
    "RankBoost": "algorithms.rankboost",
    "RankBoostPlus": "algorithms.rankboost_plus",
    "Ranker": "rankers.base",
    "Report": "report.page",
    "ScoreRisk": "risks.score_risk",
    "SmoothMargin": "algorithms.smooth_margin",
    "SquaredHinge": "losses",
    "Stump": "rankers.stumps",
    "Stumps": "rankers.stumps",
    "Tree": "rankers.trees",
    "Trees": "rankers.growers",
    "best_margin": "margin",
    "compare": "inference",
    "e2_loss": "algorithms.e2",
    "evaluate": "metrics",
    "export": "exports.write",
    "load": "estimator",
    "margins": "margin",
    "minimise_ranking_risk": "algorithms.empirical_risk",
    "pairs_in_order": "boosting.monitors",
    "staged_e2_loss": "algorithms.e2",
    "write_table": "files.disk",
}

# Parts of other interfaces, importable from here but not shown.
_ALSO = {"Constants": "rankers.columns", "Found": "rankers.base"}

__all__ = sorted(_HOME)  # noqa: PLE0605  (one list, kept in one place)

if TYPE_CHECKING:
    from precede.algorithms.adaboost import AdaBoostRanker
    from precede.algorithms.ball import ConvexRisk
    from precede.algorithms.boosted import BoostedRanker
    from precede.algorithms.e2 import e2_loss, staged_e2_loss
    from precede.algorithms.empirical_risk import minimise_ranking_risk
    from precede.algorithms.multilabel import MultilabelBoost
    from precede.algorithms.push import PushRanker
    from precede.algorithms.qbrank import QBRank
    from precede.algorithms.rankboost import RankBoost
    from precede.algorithms.rankboost_plus import RankBoostPlus
    from precede.algorithms.smooth_margin import SmoothMargin
    from precede.boosting.checkpoint import Checkpoint
    from precede.boosting.monitors import pairs_in_order
    from precede.estimator import BaseRanker, load
    from precede.exports.write import export
    from precede.files.disk import DiskTable, write_table
    from precede.inference import compare
    from precede.judgments import Judgments
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
    from precede.metrics import evaluate
    from precede.rankers.base import Family, Found, Ranker
    from precede.rankers.columns import Columns, Constants, Features
    from precede.rankers.growers import Trees
    from precede.rankers.stumps import Stump, Stumps
    from precede.rankers.trees import Tree
    from precede.report.page import Report
    from precede.risks.pair_risk import PairRisk
    from precede.risks.pointwise import PointRisk
    from precede.risks.score_risk import ScoreRisk


_SUBMODULES = frozenset((
    "algorithms", "boosting", "bounds", "cli", "dask", "datasets", "estimator", "explain", "files",
    "inference", "judgments", "losses", "margin", "metrics", "model", "plots", "rankers", "report",
    "risks", "testing", "top",
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


def __getattr__(name: str) -> Any:
    home = _HOME.get(name) or _ALSO.get(name)
    if home is not None:
        return getattr(import_module(f"precede.{home}"), name)
    if name in _SUBMODULES or name in _MOVED:
        return import_module(f"precede.{name}")
    raise AttributeError(f"module 'precede' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES, "__version__"])
