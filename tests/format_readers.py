"""Tiny readers of the formats that models are exported to, written from their descriptions.

Each takes the text of a file and rows, and computes as the server does: in single precision,
node by node.
"""

import json
import xml.etree.ElementTree as ET
from functools import reduce

import numpy as np

F = np.float32


def added(values):
    """Sum in single precision, from left to right."""
    return reduce(lambda total, value: F(total + value), values, F(0))


def ranklib(text, rows):
    """RankLib: lines are trimmed and joined, comments skipped; x <= threshold goes left."""
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "## LambdaMART"
    root = ET.fromstring("".join(line for line in lines if not line.startswith("##")))
    assert root.tag == "ensemble"

    def walk(split, x):
        tags = [child.tag for child in split]
        assert split.text is None
        if tags == ["output"]:
            return F(split[0].text)
        assert tags == ["feature", "threshold", "split", "split"]
        assert [child.get("pos") for child in split[2:]] == ["left", "right"]
        value = x[int(split[0].text) - 1]
        value = F(0) if np.isnan(value) else value
        return walk(split[2] if value <= F(split[1].text) else split[3], x)

    return np.array(
        [added(F(tree.get("weight")) * walk(tree[0], x) for tree in root) for x in np.float32(rows)]
    )


def xgboost_dump(text, rows, names, *, missing):
    """A dump of XGBoost; with `missing` as its own reader, without it as the search plugins."""
    trees = json.loads(text)

    def walk(node, x):
        if "leaf" in node:
            return F(node["leaf"])
        yes, no = node["children"]
        assert (yes["nodeid"], no["nodeid"]) == (node["yes"], node["no"])
        value = x[names.index(node["split"])]
        if np.isnan(value) and missing:
            return walk(yes if node["missing"] == node["yes"] else no, x)
        value = F(0) if np.isnan(value) else value
        return walk(yes if F(node["split_condition"]) > value else no, x)

    return np.array([added(walk(tree, x) for tree in trees) for x in np.float32(rows)])


def solr(text, rows):
    """Solr's models: thresholds have 1e-6 added in single precision as they are read."""
    model = json.loads(text)
    names = [feature["name"] for feature in model["features"]]
    params = model["params"]
    if model["class"].endswith("LinearModel"):
        weights = np.array([F(params["weights"][name]) for name in names])
        return np.array([added(weights * x) for x in np.float32(rows)])
    assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    null_is_zero = params.get("isNullSameAsZero", True)

    def walk(node, x):
        if "value" in node:
            return F(node["value"])
        value = x[names.index(node["feature"])]
        if np.isnan(value) and not null_is_zero:
            return walk(node[node["missing"]], x)
        value = F(0) if np.isnan(value) else value
        threshold = F(F(node["threshold"]) + F(1e-6))
        return walk(node["left"] if value <= threshold else node["right"], x)

    return np.array(
        [
            added(F(t["weight"]) * walk(t["root"], x) for t in params["trees"])
            for x in np.float32(rows)
        ]
    )


def elasticsearch(text, documents):
    """Elasticsearch: features are a map, doubles are compared and added, a float comes out.

    A value that is not there, NaN or infinite goes where `default_left` says.
    """
    body = json.loads(text)
    (extractors,) = body["inference_config"].values()
    assert [*body["inference_config"]] == ["learning_to_rank"]
    names = [each["query_extractor"]["feature_name"] for each in extractors["feature_extractors"]]
    ensemble = body["definition"]["trained_model"]["ensemble"]
    assert set(ensemble["feature_names"]) <= set(names)
    assert ensemble["target_type"] == "regression"
    weights = ensemble["aggregate_output"]["weighted_sum"]["weights"]

    def walk(tree, fields):
        nodes = tree["tree_structure"]
        assert [node["node_index"] for node in nodes] == list(range(len(nodes)))
        node = nodes[0]
        while "leaf_value" not in node:
            value = fields.get(tree["feature_names"][node["split_feature"]])
            if value is None or not np.isfinite(value):
                left = node["default_left"]
            else:
                assert node["decision_type"] == "lte"
                left = float(value) <= node["threshold"]
            node = nodes[node["left_child" if left else "right_child"]]
        return float(node["leaf_value"])

    trees = [each["tree"] for each in ensemble["trained_models"]]
    assert len(trees) == len(weights)
    return np.array(
        [F(sum(w * walk(t, d) for t, w in zip(trees, weights, strict=True))) for d in documents]
    )
