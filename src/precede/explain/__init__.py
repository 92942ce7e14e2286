"""Why a row has its score, and why one row ranks above another."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.explain.contributions import Explanation as Explanation
    from precede.explain.contributions import PairExplanation as PairExplanation
    from precede.explain.contributions import ShapeFunction as ShapeFunction
    from precede.explain.contributions import explain as explain
    from precede.explain.contributions import explain_pair as explain_pair
    from precede.explain.contributions import feature_index as feature_index
    from precede.explain.contributions import nodes_of as nodes_of
    from precede.explain.contributions import shape_function as shape_function
    from precede.explain.shapley import Nodes as Nodes
    from precede.explain.shapley import Paths as Paths
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "contributions": (
                "Explanation PairExplanation ShapeFunction explain explain_pair feature_index "
                "nodes_of shape_function"
            ),
            "shapley": "Nodes Paths",
        },
    )
