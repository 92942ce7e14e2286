"""Export a model as a file that XGBoost loads, or as XGBoost dumps its trees."""

from __future__ import annotations

import json

import numpy as np

from precede.decomposition import Nodes
from precede.engine.arrays import Json
from precede.exports.base import ExportedModel, above, as_single

NO_PARENT = 2147483647


def xgboost_text(model: ExportedModel) -> str:
    """Return XGBoost's JSON, with the objective ``rank:pairwise``, which leaves scores alone.

    ``x < split_condition`` goes left and a missing value where `default_left` says, so the
    rule for missing values is kept. Numbers are float32: thresholds are written so that
    float32 values fall on the right side, and scores are sums of rounded leaves.
    """
    trees = [_breadth_first(nodes) for nodes in model.trees]
    n_features = len(model.names)
    fields = {
        "version": [2, 1, 0],
        "learner": {
            "attributes": {"made_by": model.title},
            "feature_names": list(model.names),
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
    return json.dumps(fields) + "\n"


def _tree(number: int, nodes: Nodes, n_features: int) -> Json:
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


def xgboost_dump_text(model: ExportedModel) -> str:
    """Return a list of trees in the format of ``Booster.get_dump(dump_format="json")``.

    This is ``model/xgboost+json`` of the search plugins, and what Vespa imports.
    ``x < split_condition`` goes to `yes`. The node for missing values is written, but many
    versions of the plugins ignore it: for them an absent feature is 0.
    """
    trees = [_dump_of(_breadth_first(nodes), model.names) for nodes in model.trees]
    return json.dumps(trees, indent=1) + "\n"


def _dump_of(nodes: Nodes, names: tuple[str, ...], node: int = 0, depth: int = 0) -> Json:
    if nodes.is_leaf(node):
        return {"nodeid": node, "leaf": as_single(float(nodes.value[node]))}
    left, right = int(nodes.left[node]), int(nodes.right[node])
    return {
        "nodeid": node,
        "depth": depth,
        "split": names[nodes.feature[node]],
        "split_condition": as_single(float(above(float(nodes.threshold[node])))),
        "yes": left,
        "no": right,
        "missing": left if nodes.missing_left[node] else right,
        "children": [_dump_of(nodes, names, child, depth + 1) for child in (left, right)],
    }


def _breadth_first(nodes: Nodes) -> Nodes:
    """Return the tree with its nodes in breadth-first order, so that siblings are adjacent.

    XGBoost takes the node after the left child for the right one, whatever the file says.
    """
    order = [0]
    for node in order:  # grows while it is read
        if not nodes.is_leaf(node):
            order += [int(nodes.left[node]), int(nodes.right[node])]
    index = np.empty(len(order), np.int64)
    index[order] = np.arange(len(order))
    leaf = nodes.feature[order] < 0
    return Nodes(
        nodes.feature[order],
        nodes.threshold[order],
        np.where(leaf, -1, index[nodes.left[order]]),
        np.where(leaf, -1, index[nodes.right[order]]),
        nodes.missing_left[order],
        nodes.value[order],
        None if nodes.cover is None else nodes.cover[order],
    )
