"""Everything right of the pull: weak rankers, families of them, and how they are searched."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.rankers.base import (
        Family,
        Found,
        Ranker,
        Search,
        Union,
        declared_kinds,
        exactly_searched,
        family,
        ranker_from_dict,
    )
    from precede.rankers.columns import Column, Columns, Constant, Constants, Feature, Features
    from precede.rankers.growers import Trees, TreeSearch
    from precede.rankers.regressors import Fitted, RegressionSearch, Regressors, check_targets
    from precede.rankers.stumps import Stump, Stumps, StumpSearch
    from precede.rankers.trees import (
        MOST_CATEGORIES,
        MOST_FEATURES,
        Forest,
        Tree,
        tree_from_lightgbm,
        tree_from_sklearn,
    )

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "Column": "columns",
        "Columns": "columns",
        "Constant": "columns",
        "Constants": "columns",
        "Family": "base",
        "Feature": "columns",
        "Features": "columns",
        "Fitted": "regressors",
        "Forest": "trees",
        "Found": "base",
        "MOST_CATEGORIES": "trees",
        "MOST_FEATURES": "trees",
        "Ranker": "base",
        "RegressionSearch": "regressors",
        "Regressors": "regressors",
        "Search": "base",
        "Stump": "stumps",
        "StumpSearch": "stumps",
        "Stumps": "stumps",
        "Tree": "trees",
        "TreeSearch": "growers",
        "Trees": "growers",
        "Union": "base",
        "check_targets": "regressors",
        "declared_kinds": "base",
        "exactly_searched": "base",
        "family": "base",
        "ranker_from_dict": "base",
        "tree_from_lightgbm": "trees",
        "tree_from_sklearn": "trees",
    },
)
