"""Models and features for search engines: RankLib, Solr, Elasticsearch, OpenSearch.

Most compare in single precision. Thresholds are written so that float32 values fall on
the side on which precede puts them, exactly; leaves are rounded to the nearest float32.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from xml.sax.saxutils import escape

import numpy as np

from precede.decomposition import Nodes
from precede.engine.arrays import Json
from precede.exports.base import ExportedModel, as_single, at_most, refuse_other_missing
from precede.exports.xgboost_model import xgboost_dump_text

# Solr adds this to every threshold as it reads a model.
SOLR_SLACK = np.float32(1e-6)


# -- RankLib ---------------------------------------------------------------------------------


def ranklib_text(model: ExportedModel) -> str:
    """Return the text of a LambdaMART model of RankLib, ``model/ranklib`` of the search plugins.

    ``x <= threshold`` goes left; features are numbered from 1; a feature that is not given
    is 0. RankLib joins the lines without a gap and reads each tree's first child, so nothing
    but tags may stand between tags.
    """
    lines = [
        "## LambdaMART",
        f"## {model.title}",
        f"## No. of trees = {len(model.trees)}",
        *(
            f"## feature {j + 1}: {escape(' '.join(name.split()))}"
            for j, name in enumerate(model.names)
        ),
        "",
        "<ensemble>",
    ]
    for number, nodes in enumerate(model.trees, start=1):
        lines.append(f'<tree id="{number}" weight="1.0">')
        lines += ["<split>", *_ranklib_lines(nodes, 0), "</split>", "</tree>"]
    return "\n".join([*lines, "</ensemble>", ""])


def _ranklib_lines(nodes: Nodes, node: int) -> list[str]:
    if nodes.feature[node] < 0:
        return [f"<output>{as_single(float(nodes.value[node]))!r}</output>"]
    threshold = as_single(float(at_most(float(nodes.threshold[node]))))
    lines = [
        f"<feature>{nodes.feature[node] + 1}</feature>",
        f"<threshold>{threshold!r}</threshold>",
    ]
    for side, child in (("left", nodes.left[node]), ("right", nodes.right[node])):
        lines += [f'<split pos="{side}">', *_ranklib_lines(nodes, int(child)), "</split>"]
    return lines


# -- models and features as bodies of requests -----------------------------------------------
#
# Elasticsearch has built-in learning to rank (from 8.12 on): trees are a *trained model*, and each
# feature is the score of a query, a *feature extractor*. The plugins of Elasticsearch and
# OpenSearch keep features in a *feature set* and models apart. Solr keeps features in a *feature
# store*.


LARGEST_DOUBLE = float(np.finfo(np.float64).max)
SOLR = "org.apache.solr.ltr.feature."
# Names of parameters in a template: {{x}}, {{{x}}}, {{#x}}, {{#toJson}}x{{/toJson}}.
TAG = re.compile(
    r"\{\{#toJson\}\}\s*([\w.]+)\s*\{\{/toJson\}\}|\{\{\{?\s*[#^/&]?\s*([\w.]+)\s*\}?\}\}"
)
LAMBDAS = {"toJson", "join", "url"}


def _queries(features: object, names: tuple[str, ...], what: str) -> dict[str, object]:
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


def _query(name: str, query: object) -> Json:
    if not isinstance(query, Mapping) or len(query) != 1:
        raise ValueError(
            f"the query of feature {name!r} is {query!r}; a query is a dict with one entry, for "
            "example {'match': {'title': '{{query}}'}}"
        )
    return dict(query)


# -- Elasticsearch ---------------------------------------------------------------------------


def elasticsearch_text(model: ExportedModel, *, features: object = None) -> str:
    """Return the body of ``PUT _ml/trained_models/MODEL``: trees and feature extractors.

    Elasticsearch compares and adds in double precision and rounds the score to float32. A document
    that a feature's query does not match has no value, which is a missing value of the model
    and goes where the model sends it.
    """
    queries, trees = _queries(features, model.names, "a query"), model.trees
    body = {
        "description": model.title,
        "model_type": "tree_ensemble",
        "input": {"field_names": list(model.names)},
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
                    "feature_names": list(model.names),
                    "trained_models": [{"tree": _tree(nodes, model.names)} for nodes in trees],
                    "aggregate_output": {"weighted_sum": {"weights": [1.0] * len(trees)}},
                }
            }
        },
    }
    return json.dumps(body, allow_nan=False) + "\n"


def _tree(nodes: Nodes, names: tuple[str, ...]) -> Json:
    structure: list[Json] = []
    for node in range(len(nodes.feature)):
        rows = {} if nodes.cover is None else {"number_samples": int(nodes.cover[node])}
        if nodes.is_leaf(node):
            structure.append({"node_index": node, "leaf_value": float(nodes.value[node]), **rows})
            continue
        structure.append({
            "node_index": node,
            "split_feature": int(nodes.feature[node]),
            "decision_type": "lte",
            # An infinite threshold, which JSON has not, tells missing values from all others.
            "threshold": min(max(float(nodes.threshold[node]), -LARGEST_DOUBLE), LARGEST_DOUBLE),
            "default_left": bool(nodes.missing_left[node]),
            "left_child": int(nodes.left[node]),
            "right_child": int(nodes.right[node]),
            **rows,
        })  # fmt: skip
    return {"target_type": "regression", "feature_names": list(names), "tree_structure": structure}


# -- the plugins of Elasticsearch and OpenSearch ---------------------------------------------


def ltr_features_text(model: ExportedModel, *, features: object = None) -> str:
    """Return the body of ``POST _ltr/_featureset/SET``: the features of the model, in its order."""
    queries = _queries(features, model.names, "a query")
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


def _parameters(query: object) -> list[str]:
    """Return the names of the parameters of a template."""
    found = []
    for tags in TAG.findall(json.dumps(query)):
        name = next(filter(None, tags)).split(".")[0]
        if name not in LAMBDAS and name not in found:
            found.append(name)
    return found


def ltr_model_text(
    model: ExportedModel, *, name: str = "precede", type: str = "xgboost+json"
) -> str:
    """Return the body of ``POST _ltr/_featureset/SET/_createmodel``.

    The model is ``model/xgboost+json``, which knows features by name, or with ``type="ranklib"``
    ``model/ranklib``, which knows them by their position in the set. Columns alone become a
    ``model/linear``.
    """
    if type not in ("xgboost+json", "ranklib"):
        raise ValueError(f"type={type!r} is unknown; use 'xgboost+json' or 'ranklib'")
    if (weights := model.linear_weights) is not None:
        type, definition = "linear", json.dumps(weights)
    elif type == "ranklib":
        definition = ranklib_text(model)
    else:
        definition = json.dumps(json.loads(xgboost_dump_text(model)))
    fields = {"type": f"model/{type}", "definition": definition}
    return json.dumps({"model": {"name": name, "model": fields}}, indent=1) + "\n"


# -- Solr ------------------------------------------------------------------------------------


def solr_text(
    model: ExportedModel,
    *,
    missing: str = "refuse",
    name: str = "precede",
    store: str | None = None,
) -> str:
    """Return a model of Solr's learning-to-rank module.

    Trees become a `MultipleAdditiveTreesModel`, in which ``x <= threshold + 1e-6`` goes left
    (the threshold written is that much smaller) and, from Solr 9.2 on, a missing value goes
    where the node says. With ``missing="zero"`` they are zeros, for any version. A model of
    columns alone becomes a `LinearModel`, which knows no missing values, as columns do not.
    """
    weights, keep = model.linear_weights, missing != "zero"
    names, kind = [*model.names], "MultipleAdditiveTreesModel"
    params: Json = {
        **({"isNullSameAsZero": False} if keep else {}),
        "trees": [
            {"weight": "1", "root": _solr_node(nodes, model.names, keep=keep)}
            for nodes in model.trees
        ],
    }
    if weights is not None:
        names, kind, params = [*weights], "LinearModel", {"weights": weights}
    fields = {
        "class": f"org.apache.solr.ltr.model.{kind}",
        **({} if store is None else {"store": store}),
        "name": name,
        "features": [{"name": each} for each in names],
        "params": params,
    }
    return json.dumps(fields, indent=1) + "\n"


def _solr_node(nodes: Nodes, names: tuple[str, ...], node: int = 0, *, keep: bool) -> Json:
    if nodes.is_leaf(node):
        return {"value": repr(as_single(float(nodes.value[node])))}
    side = {"missing": "left" if nodes.missing_left[node] else "right"} if keep else {}
    return {
        "feature": names[nodes.feature[node]],
        "threshold": repr(as_single(float(_before_slack(at_most(float(nodes.threshold[node])))))),
        **side,
        "left": _solr_node(nodes, names, int(nodes.left[node]), keep=keep),
        "right": _solr_node(nodes, names, int(nodes.right[node]), keep=keep),
    }


def _before_slack(threshold: np.float32) -> np.float32:
    """Return the float32 that becomes the threshold when Solr adds its slack.

    Below 1e-6 in size it may not exist; the nearest is then off by 1e-13 at most.
    """
    first = np.float32(threshold - SOLR_SLACK)
    near = [first]
    with np.errstate(over="ignore"):  # overflows to infinity
        for towards in (np.float32(-np.inf), np.float32(np.inf)):
            step = first
            for _ in range(2):
                step = np.nextafter(step, towards)
                near.append(step)
    return min(near, key=lambda each: abs(float(each + SOLR_SLACK) - float(threshold)))


def solr_features_text(
    model: ExportedModel,
    *,
    features: object = None,
    store: str = "_DEFAULT_",
    missing: str = "refuse",
) -> str:
    """Return the body of ``PUT schema/feature-store``: a list of features.

    A feature is given as the text of a query (`SolrFeature`), as ``{"field": name}``
    (`FieldValueFeature`), or in full, with ``"class"`` and ``"params"``. A field that a document
    lacks is a missing value (NaN), with ``missing="zero"`` a 0. A document that a query does not
    match always has 0: unless ``missing="zero"``, models that treat a missing value of such a
    feature in another way are refused.
    """
    given = _queries(features, model.names, "a query, a field or a feature")
    listed = [
        {"store": store, "name": name, **_solr_feature(name, feature, missing)}
        for name, feature in given.items()
    ]
    if missing == "refuse":
        queries = {each["name"] for each in listed if each["class"] == SOLR + "SolrFeature"}
        refuse_other_missing(model, "a query that does not match", queries)
    return json.dumps(listed, indent=1) + "\n"


def _solr_feature(name: str, feature: object, missing: str) -> Json:
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
