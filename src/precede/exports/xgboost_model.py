"""Export a model as a file that XGBoost loads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from precede.explain.shapley import Nodes
from precede.exports.parts import Parts, above, as_single, refuse_categories, side_by_side

NO_PARENT = 2147483647


def xgboost_text(parts: Parts) -> str:
    """Return XGBoost's JSON, with the objective ``rank:pairwise``, which leaves scores alone.

    ``x < split_condition`` goes left and a missing value where `default_left` says, so the
    rule for missing values is kept. Numbers are float32: thresholds are written so that
    float32 values fall on the right side, and scores are sums of rounded leaves.
    """
    parts.refuse_lines("XGBoost")
    trees = [side_by_side(nodes) for nodes in parts.all_trees()]
    for nodes in trees:
        refuse_categories(nodes, "XGBoost's JSON")
    n_features = len(parts.names)
    model = {
        "version": [2, 1, 0],
        "learner": {
            "attributes": {"made_by": parts.title},
            "feature_names": list(parts.names),
            "feature_types": ["float"] * n_features,
            "learner_model_param": {
                "base_score": "0E0",
                "boost_from_average": "1",
                "num_class": "0",
                "num_feature": str(n_features),
                "num_target": "1",
            },
            "objective": {
                "name": "rank:pairwise",
                "lambdarank_param": {},
            },
            "gradient_booster": {
                "name": "gbtree",
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                    "iteration_indptr": list(range(len(trees) + 1)),
                    "tree_info": [0] * len(trees),
                    "trees": [
                        _tree(number, nodes, n_features) for number, nodes in enumerate(trees)
                    ],
                },
            },
        },
    }
    return json.dumps(model) + "\n"


def _tree(number: int, nodes: Nodes, n_features: int) -> dict[str, Any]:
    size = len(nodes.feature)
    leaf = nodes.feature < 0
    value = [as_single(v) for v in nodes.value.tolist()]
    condition = [as_single(float(above(t))) for t in nodes.threshold.tolist()]
    parents = np.full(size, NO_PARENT)
    for node in np.flatnonzero(~leaf):
        parents[[nodes.left[node], nodes.right[node]]] = node
    cover = np.zeros(size) if nodes.cover is None else nodes.cover
    return {
        "id": number,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(size),
            "size_leaf_vector": "1",
        },
        "left_children": nodes.left.tolist(),
        "right_children": nodes.right.tolist(),
        "parents": parents.tolist(),
        "split_indices": np.where(leaf, 0, nodes.feature).tolist(),
        # A leaf keeps its value where a split keeps its threshold.
        "split_conditions": [
            v if end else t for v, t, end in zip(value, condition, leaf, strict=True)
        ],
        "default_left": (nodes.missing_left & ~leaf).astype(int).tolist(),
        "base_weights": [v if end else 0.0 for v, end in zip(value, leaf, strict=True)],
        "loss_changes": [0.0] * size,
        "sum_hessian": [float(count) for count in cover],
        "split_type": [0] * size,
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
    }
