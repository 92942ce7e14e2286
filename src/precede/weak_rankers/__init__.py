"""Weak rankers, families of weak rankers, and the search for the best weak ranker of a family."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.weak_rankers.base import Family as Family
    from precede.weak_rankers.base import Search as Search
    from precede.weak_rankers.base import SearchResult as SearchResult
    from precede.weak_rankers.base import Union as Union
    from precede.weak_rankers.base import WeakRanker as WeakRanker
    from precede.weak_rankers.base import declared_field_types as declared_field_types
    from precede.weak_rankers.base import family as family
    from precede.weak_rankers.base import require_exhaustive as require_exhaustive
    from precede.weak_rankers.base import weak_ranker_from_dict as weak_ranker_from_dict
    from precede.weak_rankers.columns import Column as Column
    from precede.weak_rankers.columns import Columns as Columns
    from precede.weak_rankers.columns import Constant as Constant
    from precede.weak_rankers.columns import Constants as Constants
    from precede.weak_rankers.columns import Feature as Feature
    from precede.weak_rankers.columns import Features as Features
    from precede.weak_rankers.regressors import FittedRegressor as FittedRegressor
    from precede.weak_rankers.regressors import RegressionSearch as RegressionSearch
    from precede.weak_rankers.regressors import Regressors as Regressors
    from precede.weak_rankers.regressors import check_targets as check_targets
    from precede.weak_rankers.stumps import Stump as Stump
    from precede.weak_rankers.stumps import Stumps as Stumps
    from precede.weak_rankers.stumps import StumpSearch as StumpSearch
    from precede.weak_rankers.tree_family import Trees as Trees
    from precede.weak_rankers.tree_family import TreeSearch as TreeSearch
    from precede.weak_rankers.trees import MAX_FEATURES as MAX_FEATURES
    from precede.weak_rankers.trees import Forest as Forest
    from precede.weak_rankers.trees import Tree as Tree
    from precede.weak_rankers.trees import tree_from_lightgbm as tree_from_lightgbm
    from precede.weak_rankers.trees import tree_from_sklearn as tree_from_sklearn
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": (
                "Family SearchResult WeakRanker Search Union declared_field_types "
                "family require_exhaustive weak_ranker_from_dict"
            ),
            "columns": "Column Columns Constant Constants Feature Features",
            "tree_family": "TreeSearch Trees",
            "regressors": "FittedRegressor RegressionSearch Regressors check_targets",
            "stumps": "Stump StumpSearch Stumps",
            "trees": "Forest MAX_FEATURES Tree tree_from_lightgbm tree_from_sklearn",
        },
    )
