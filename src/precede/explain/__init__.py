"""Why a row has its score, and why one row stands above another."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.explain.contributions import (
        Explanation,
        PairExplanation,
        ShapeFunction,
        explain,
        explain_pair,
        feature_index,
        nodes_of,
        shape_function,
    )
    from precede.explain.shapley import Nodes, Paths

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "Explanation": "contributions",
        "Nodes": "shapley",
        "PairExplanation": "contributions",
        "Paths": "shapley",
        "ShapeFunction": "contributions",
        "explain": "contributions",
        "explain_pair": "contributions",
        "feature_index": "contributions",
        "nodes_of": "contributions",
        "shape_function": "contributions",
    },
)
