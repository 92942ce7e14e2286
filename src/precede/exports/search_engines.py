"""Trees as search engines read them: RankLib's text, XGBoost's dump, Solr's JSON.

All three compare in single precision. Thresholds are written so that float32 values fall on
the side on which precede puts them, exactly; leaves are rounded to the nearest float32.
"""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from precede.explain.shapley import Nodes
from precede.exports.parts import (
    Parts,
    above,
    as_single,
    at_most,
    refuse_categories,
    refuse_other_missing,
    side_by_side,
)

# Solr adds this to every threshold as it reads a model.
SOLR_SLACK = np.float32(1e-6)


def _trees_for(parts: Parts, format_: str, missing: str, reader: str) -> list[Nodes]:
    parts.refuse_lines(format_)
    trees = parts.all_trees()
    for nodes in trees:
        refuse_categories(nodes, format_)
    if missing == "refuse":
        refuse_other_missing(trees, parts.names, reader)
    return trees


# -- RankLib ---------------------------------------------------------------------------------


def ranklib_text(parts: Parts, *, missing: str = "refuse") -> str:
    """Return the text of a LambdaMART model of RankLib, ``model/ranklib`` of the search plugins.

    ``x <= threshold`` goes left; features are numbered from 1; a feature that is not given
    is 0. RankLib joins the lines without a gap and reads each tree's first child, so nothing
    but tags may stand between tags.
    """
    trees = _trees_for(parts, "RankLib", missing, "RankLib")
    lines = [
        "## LambdaMART",
        f"## {parts.title}",
        f"## No. of trees = {len(trees)}",
        *(
            f"## feature {j + 1}: {escape(' '.join(name.split()))}"
            for j, name in enumerate(parts.names)
        ),
        "",
        "<ensemble>",
    ]
    for number, nodes in enumerate(trees, start=1):
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


# -- XGBoost's dump --------------------------------------------------------------------------


def xgboost_dump_text(parts: Parts, *, missing: str = "refuse") -> str:
    """Return a list of trees in the format of ``Booster.get_dump(dump_format="json")``.

    This is ``model/xgboost+json`` of the search plugins, and what Vespa imports.
    ``x < split_condition`` goes to `yes`. The node for missing values is written, but many
    versions of the plugins ignore it: for them an absent feature is 0.
    """
    trees = _trees_for(parts, "the dump of XGBoost", missing, "the plugin")
    return (
        json.dumps([_dump_of(side_by_side(nodes), parts.names) for nodes in trees], indent=1) + "\n"
    )


def _dump_of(nodes: Nodes, names: tuple[str, ...], node: int = 0, depth: int = 0) -> dict[str, Any]:
    feature = int(nodes.feature[node])
    if feature < 0:
        return {"nodeid": node, "leaf": as_single(float(nodes.value[node]))}
    left, right = int(nodes.left[node]), int(nodes.right[node])
    return {
        "nodeid": node,
        "depth": depth,
        "split": names[feature],
        "split_condition": as_single(float(above(float(nodes.threshold[node])))),
        "yes": left,
        "no": right,
        "missing": left if nodes.missing_left[node] else right,
        "children": [_dump_of(nodes, names, child, depth + 1) for child in (left, right)],
    }


# -- Solr ------------------------------------------------------------------------------------


def solr_text(
    parts: Parts, *, missing: str = "refuse", name: str = "precede", store: str | None = None
) -> str:
    """Return a model of Solr's learning-to-rank module.

    Trees become a `MultipleAdditiveTreesModel`, in which ``x <= threshold + 1e-6`` goes left
    (the threshold written is that much smaller) and, from Solr 9.2 on, a missing value goes
    where the node says. With ``missing="zero"`` they are zeros, for any version. A model of
    columns alone becomes a `LinearModel`, which knows no missing values, as columns do not.
    """
    if parts.is_linear():
        return _solr_linear(parts, name, store)
    trees = _trees_for(parts, "Solr", "held", "Solr")
    params: dict[str, Any] = {
        "trees": [
            {"weight": "1", "root": _solr_node(nodes, parts.names, keep=missing != "zero")}
            for nodes in trees
        ]
    }
    if missing != "zero":
        params = {"isNullSameAsZero": False, **params}
    model = {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        **({} if store is None else {"store": store}),
        "name": name,
        "features": [{"name": each} for each in parts.names],
        "params": params,
    }
    return json.dumps(model, indent=1) + "\n"


def _solr_linear(parts: Parts, name: str, store: str | None) -> str:
    weights = {parts.names[line.feature]: as_single(w) for line, w in parts.lines}
    model = {
        "class": "org.apache.solr.ltr.model.LinearModel",
        **({} if store is None else {"store": store}),
        "name": name,
        "features": [{"name": each} for each in weights],
        "params": {"weights": weights},
    }
    return json.dumps(model, indent=1) + "\n"


def _solr_node(
    nodes: Nodes, names: tuple[str, ...], node: int = 0, *, keep: bool
) -> dict[str, Any]:
    feature = int(nodes.feature[node])
    if feature < 0:
        return {"value": repr(as_single(float(nodes.value[node])))}
    side = {"missing": "left" if nodes.missing_left[node] else "right"} if keep else {}
    return {
        "feature": names[feature],
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
