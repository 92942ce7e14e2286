"""Everything right of the pull: weak rankers, families of them, and how they are searched."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.rankers.base import Family as Family
    from precede.rankers.base import Found as Found
    from precede.rankers.base import Ranker as Ranker
    from precede.rankers.base import Search as Search
    from precede.rankers.base import Union as Union
    from precede.rankers.base import declared_kinds as declared_kinds
    from precede.rankers.base import exactly_searched as exactly_searched
    from precede.rankers.base import family as family
    from precede.rankers.base import ranker_from_dict as ranker_from_dict
    from precede.rankers.columns import Column as Column
    from precede.rankers.columns import Columns as Columns
    from precede.rankers.columns import Constant as Constant
    from precede.rankers.columns import Constants as Constants
    from precede.rankers.columns import Feature as Feature
    from precede.rankers.columns import Features as Features
    from precede.rankers.growers import Trees as Trees
    from precede.rankers.growers import TreeSearch as TreeSearch
    from precede.rankers.regressors import Fitted as Fitted
    from precede.rankers.regressors import RegressionSearch as RegressionSearch
    from precede.rankers.regressors import Regressors as Regressors
    from precede.rankers.regressors import check_targets as check_targets
    from precede.rankers.stumps import Stump as Stump
    from precede.rankers.stumps import Stumps as Stumps
    from precede.rankers.stumps import StumpSearch as StumpSearch
    from precede.rankers.trees import MOST_FEATURES as MOST_FEATURES
    from precede.rankers.trees import Forest as Forest
    from precede.rankers.trees import Tree as Tree
    from precede.rankers.trees import tree_from_lightgbm as tree_from_lightgbm
    from precede.rankers.trees import tree_from_sklearn as tree_from_sklearn
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": (
                "Family Found Ranker Search Union declared_kinds exactly_searched family "
                "ranker_from_dict"
            ),
            "columns": "Column Columns Constant Constants Feature Features",
            "growers": "TreeSearch Trees",
            "regressors": "Fitted RegressionSearch Regressors check_targets",
            "stumps": "Stump StumpSearch Stumps",
            "trees": "Forest MOST_FEATURES Tree tree_from_lightgbm tree_from_sklearn",
        },
    )
