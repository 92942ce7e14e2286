"""Models and features as requests to search engines, one file for the body of each.

Elasticsearch has built-in learning to rank (from 8.12 on): trees are a *trained model*, and each
feature is the score of a query, a *feature extractor*. The plugins of Elasticsearch and OpenSearch
keep features in a *feature set* and models apart. Solr keeps features in a *feature store*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from precede.explain.shapley import Nodes
from precede.exports.parts import Parts, as_single, refuse_categories, refuse_other_missing
from precede.exports.search_engines import ranklib_text, xgboost_dump_text

LARGEST = float(np.finfo(np.float64).max)
SOLR = "org.apache.solr.ltr.feature."
# Names of parameters in a template: {{x}}, {{{x}}}, {{#x}}, {{#toJson}}x{{/toJson}}.
TAG = re.compile(
    r"\{\{#toJson\}\}\s*([\w.]+)\s*\{\{/toJson\}\}|\{\{\{?\s*[#^/&]?\s*([\w.]+)\s*\}?\}\}"
)
LAMBDAS = {"toJson", "join", "url"}


def _queries(features: Any, names: tuple[str, ...], what: str) -> dict[str, Any]:
    """Return the query given for each feature, in the order of the model."""
    if not isinstance(features, Mapping):
        raise ValueError(
            f"give features=, a dict with {what} for each feature of the model: {', '.join(names)}"
        )
    absent = [name for name in names if name not in features]
    if absent:
        raise ValueError(f"features= has no entry for {', '.join(map(repr, absent[:5]))}")
    unknown = [name for name in features if name not in names]
    if unknown:
        raise ValueError(
            f"features= has an entry for {unknown[0]!r}, which is not a feature of the model; it "
            f"has {', '.join(names)}"
        )
    return {name: features[name] for name in names}


def _query(name: str, query: Any) -> dict[str, Any]:
    if not isinstance(query, Mapping) or len(query) != 1:
        raise ValueError(
            f"the query of feature {name!r} is {query!r}; a query is a dict with one entry, for "
            "example {'match': {'title': '{{query}}'}}"
        )
    return dict(query)


# -- Elasticsearch ---------------------------------------------------------------------------


def elasticsearch_text(parts: Parts, *, features: Any = None) -> str:
    """Return the body of ``PUT _ml/trained_models/MODEL``: trees and feature extractors.

    Elasticsearch compares and adds in double precision and rounds the score to float32. A document
    that a feature's query does not match has no value, which is a missing value of the model
    and goes where the model sends it.
    """
    parts.refuse_lines("Elasticsearch")
    queries = _queries(features, parts.names, "a query")
    trees = parts.all_trees()
    for nodes in trees:
        refuse_categories(nodes, "Elasticsearch")
    body = {
        "description": parts.title,
        "model_type": "tree_ensemble",
        "input": {"field_names": list(parts.names)},
        "inference_config": {
            "learning_to_rank": {
                "feature_extractors": [
                    {"query_extractor": {"feature_name": name, "query": _query(name, query)}}
                    for name, query in queries.items()
                ]
            }
        },
        "definition": {
            "trained_model": {
                "ensemble": {
                    "target_type": "regression",
                    "feature_names": list(parts.names),
                    "trained_models": [{"tree": _tree(nodes, parts.names)} for nodes in trees],
                    "aggregate_output": {"weighted_sum": {"weights": [1.0] * len(trees)}},
                }
            }
        },
    }
    return json.dumps(body, allow_nan=False) + "\n"


def _tree(nodes: Nodes, names: tuple[str, ...]) -> dict[str, Any]:
    structure: list[dict[str, Any]] = []
    for node in range(len(nodes.feature)):
        rows = {} if nodes.cover is None else {"number_samples": int(nodes.cover[node])}
        if nodes.feature[node] < 0:
            structure.append({"node_index": node, "leaf_value": float(nodes.value[node]), **rows})
            continue
        structure.append({
            "node_index": node,
            "split_feature": int(nodes.feature[node]),
            "decision_type": "lte",
            # An infinite threshold, which JSON has not, tells missing values from all others.
            "threshold": min(max(float(nodes.threshold[node]), -LARGEST), LARGEST),
            "default_left": bool(nodes.missing_left[node]),
            "left_child": int(nodes.left[node]),
            "right_child": int(nodes.right[node]),
            **rows,
        })  # fmt: skip
    return {"target_type": "regression", "feature_names": list(names), "tree_structure": structure}


# -- the plugins of Elasticsearch and OpenSearch ---------------------------------------------


def ltr_features_text(parts: Parts, *, features: Any = None) -> str:
    """Return the body of ``POST _ltr/_featureset/SET``: the features of the model, in its order."""
    queries = _queries(features, parts.names, "a query")
    listed = [
        {
            "name": name,
            "params": _parameters(query),
            "template_language": "mustache",
            "template": _query(name, query),
        }
        for name, query in queries.items()
    ]
    return json.dumps({"featureset": {"features": listed}}, indent=1) + "\n"


def _parameters(query: Any) -> list[str]:
    """Return the names of the parameters of a template."""
    found = []
    for tags in TAG.findall(json.dumps(query)):
        name = next(filter(None, tags)).split(".")[0]
        if name not in LAMBDAS and name not in found:
            found.append(name)
    return found


def ltr_model_text(
    parts: Parts, *, name: str = "precede", type: str = "xgboost+json", missing: str = "refuse"
) -> str:
    """Return the body of ``POST _ltr/_featureset/SET/_createmodel``.

    The model is ``model/xgboost+json``, which knows features by name, or with ``type="ranklib"``
    ``model/ranklib``, which knows them by their position in the set. Columns alone become a
    ``model/linear``.
    """
    if type not in ("xgboost+json", "ranklib"):
        raise ValueError(f"type={type!r} is unknown; use 'xgboost+json' or 'ranklib'")
    if parts.is_linear():
        type = "linear"
        weights = {parts.names[line.feature]: as_single(w) for line, w in parts.lines}
        definition = json.dumps(weights)
    elif type == "ranklib":
        definition = ranklib_text(parts, missing=missing)
    else:
        definition = json.dumps(json.loads(xgboost_dump_text(parts, missing=missing)))
    model = {"type": f"model/{type}", "definition": definition}
    return json.dumps({"model": {"name": name, "model": model}}, indent=1) + "\n"


# -- Solr ------------------------------------------------------------------------------------


def solr_features_text(
    parts: Parts, *, features: Any = None, store: str = "_DEFAULT_", missing: str = "refuse"
) -> str:
    """Return the body of ``PUT schema/feature-store``: a list of features.

    A feature is given as the text of a query (`SolrFeature`), as ``{"field": name}``
    (`FieldValueFeature`), or in full, with ``"class"`` and ``"params"``. A field that a document
    lacks is a missing value (NaN), with ``missing="zero"`` a 0. A document that a query does not
    match always has 0: unless ``missing="zero"``, models that treat a missing value of such a
    feature in another way are refused.
    """
    given = _queries(features, parts.names, "a query, a field or a feature")
    listed = [
        {"store": store, "name": name, **_solr_feature(name, feature, missing)}
        for name, feature in given.items()
    ]
    if missing == "refuse":
        queries = {each["name"] for each in listed if each["class"] == SOLR + "SolrFeature"}
        refuse_other_missing(parts.trees, parts.names, "a query that does not match", queries)
    return json.dumps(listed, indent=1) + "\n"


def _solr_feature(name: str, feature: Any, missing: str) -> dict[str, Any]:
    if isinstance(feature, str):
        return {"class": SOLR + "SolrFeature", "params": {"q": feature}}
    if isinstance(feature, Mapping) and set(feature) == {"field"}:
        absent = {} if missing == "zero" else {"defaultValue": "NaN"}
        return {"class": SOLR + "FieldValueFeature", "params": {**feature, **absent}}
    if isinstance(feature, Mapping) and {"class"} <= set(feature) <= {"class", "params"}:
        return dict(feature)
    raise ValueError(
        f"feature {name!r} is {feature!r}; give the text of a query, {{'field': name}}, or a dict "
        "with 'class' and 'params'"
    )
