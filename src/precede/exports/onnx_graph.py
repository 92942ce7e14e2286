"""Export a model as an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from precede.decomposition import Nodes
from precede.engine.arrays import Json
from precede.exports.base import ExportedModel, at_most
from precede.weak_rankers.columns import LinearWeakRanker

LESS_OR_EQUAL = 0  # of the modes of a node of TreeEnsemble


def onnx_bytes(model: ExportedModel, *, dtype: str = "float32") -> bytes:
    """Return a graph with an input ``X`` of shape (rows, features) and an output ``score`` (rows,).

    NaN in X is a missing value and goes where the model sends it. With ``dtype="float32"``
    trees are a `TreeEnsembleRegressor`, which every runtime knows: thresholds are rounded
    down to float32, so that float32 values fall on the side on which precede puts them, and
    scores are sums of rounded leaves. With ``dtype="float64"`` they are a `TreeEnsemble` of
    ai.onnx.ml 5, in which nothing is rounded. Straight lines are computed in float64.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} is unknown; use 'float32' or 'float64'")
    try:
        import onnx  # noqa: PLC0415  (only for those who export to it)
    except ImportError as error:
        raise ImportError(
            "exports to ONNX need the package onnx: pip install precede[onnx]"
        ) from error
    graph, parts = _Graph(onnx, np.dtype(dtype)), model.parts
    constant = parts.constant
    sums = []
    if parts.stumps or parts.trees or parts.terms or not parts.lines:
        sums, constant = [graph.trees(model.trees)], 0.0
    if parts.lines:
        sums.append(graph.lines(parts.lines, constant))
    total = sums[0]
    if len(sums) == 2:
        total = graph.add("Add", [graph.cast(each, "float64") for each in sums])
    graph.add("Reshape", [graph.cast(total, dtype), graph.constant([-1])], "score")
    return graph.serialized(model)


class _Graph:
    """Builder of a graph."""

    def __init__(self, onnx: Any, dtype: np.dtype):
        self._onnx, self._dtype = onnx, dtype
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._types: dict[str, str] = {"X": dtype.name}

    def add(
        self, kind: str, inputs: list[str], output: str = "", *, dtype: str = "", **attributes: Any
    ) -> str:
        """Add a node; return its output, of type `dtype` or else of the type of the first input."""
        output = output or f"{kind.lower()}_{len(self._nodes)}"
        self._types[output] = dtype or self._types.get(inputs[0], "float64")
        make = self._onnx.helper.make_node
        self._nodes.append(make(kind, inputs, [output], **attributes))
        return output

    def constant(self, values: ArrayLike, dtype: DTypeLike | None = None) -> str:
        name = f"constant_{len(self._constants)}"
        array = np.asarray(values, dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        self._types[name] = array.dtype.name
        return name

    def cast(self, name: str, dtype: str) -> str:
        if self._types[name] == dtype:
            return name
        to = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", [name], to=to, dtype=dtype)

    def trees(self, trees: list[Nodes]) -> str:
        """Add the sum of trees, as a column."""
        if self._dtype == np.float32:
            kind, fields = "TreeEnsembleRegressor", _regressor_fields(trees)
        else:
            tensor = self._onnx.numpy_helper.from_array
            kind, fields = "TreeEnsemble", _ensemble_fields(trees, tensor)
        return self.add(kind, ["X"], domain="ai.onnx.ml", dtype=self._dtype.name, **fields)

    def lines(self, lines: list[tuple[LinearWeakRanker, float]], constant: float) -> str:
        """Add the weighted sum of features and columns, as a column."""
        X = self.cast("X", "float64")
        total = self.constant([[constant]], np.float64)
        scaled = [(line, w) for line, w in lines if line.ends is not None]
        plain = [(line, w) for line, w in lines if line.ends is None]
        for chosen in filter(None, (scaled, plain)):
            which = self.constant([line.feature for line, _ in chosen], np.int64)
            x = self.add("Gather", [X, which], axis=1)
            if chosen is scaled:
                x = self._scaled(x, [line.ends for line, _ in chosen if line.ends is not None])
            weight = self.constant([[w] for _, w in chosen], np.float64)
            total = self.add("Add", [self.add("MatMul", [x, weight]), total])
        return total

    def _scaled(self, x: str, ends: list[tuple[float, float]]) -> str:
        """Add features scaled to [0, 1], 0 if missing; halved first, to avoid overflow."""
        low, high = np.array(ends).T / 2
        width = high - low
        half = self.add("Mul", [x, self.constant(0.5, np.float64)])
        from_low = self.add("Sub", [half, self.constant(low)])
        scaled = self.add("Div", [from_low, self.constant(width)])
        zero, one = self.constant(0.0, np.float64), self.constant(1.0, np.float64)
        clipped = self.add("Clip", [scaled, zero, one])
        absent = self.add("IsNaN", [x], dtype="bool")
        return self.add("Where", [absent, zero, clipped], dtype="float64")

    def serialized(self, exported: ExportedModel) -> bytes:
        helper = self._onnx.helper
        kind = helper.np_dtype_to_tensor_dtype(self._dtype)
        graph = helper.make_graph(
            self._nodes,
            "precede",
            [helper.make_tensor_value_info("X", kind, ["rows", len(exported.names)])],
            [helper.make_tensor_value_info("score", kind, ["rows"])],
            self._constants,
        )
        ml_version = 3 if self._dtype == np.float32 else 5
        model = helper.make_model(
            graph,
            producer_name="precede",
            doc_string=exported.title + exported.probability,
            opset_imports=[
                helper.make_opsetid("", 17),
                helper.make_opsetid("ai.onnx.ml", ml_version),
            ],
            ir_version=8 if self._dtype == np.float32 else 9,
        )
        helper.set_model_props(model, {"features": "\n".join(exported.names)})
        self._onnx.checker.check_model(model)
        return model.SerializeToString()


def _regressor_fields(trees: list[Nodes]) -> Json:
    """Return the attributes of TreeEnsembleRegressor, node by node."""
    fields: dict[str, list[float | str]] = {name: [] for name in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values",
        "nodes_truenodeids", "nodes_falsenodeids", "nodes_missing_value_tracks_true",
        "target_treeids", "target_nodeids", "target_ids", "target_weights",
    )}  # fmt: skip
    for number, nodes in enumerate(trees):
        for node in range(len(nodes.feature)):
            leaf = bool(nodes.feature[node] < 0)
            row = {
                "nodes_treeids": number,
                "nodes_nodeids": node,
                "nodes_featureids": 0 if leaf else int(nodes.feature[node]),
                "nodes_modes": "LEAF" if leaf else "BRANCH_LEQ",
                "nodes_values": 0.0 if leaf else float(at_most(float(nodes.threshold[node]))),
                "nodes_truenodeids": 0 if leaf else int(nodes.left[node]),
                "nodes_falsenodeids": 0 if leaf else int(nodes.right[node]),
                "nodes_missing_value_tracks_true": int(not leaf and bool(nodes.missing_left[node])),
            }
            if leaf:
                row |= {"target_treeids": number, "target_nodeids": node, "target_ids": 0,
                        "target_weights": float(nodes.value[node])}  # fmt: skip
            for name, value in row.items():
                fields[name].append(value)
    return {**fields, "n_targets": 1, "aggregate_function": "SUM", "post_transform": "NONE"}


def _ensemble_fields(trees: list[Nodes], tensor: Any) -> dict[str, Any]:
    """Return the attributes of TreeEnsemble, with splits and leaves numbered separately."""
    roots: list[int] = []
    splits: list[tuple[Any, ...]] = []
    leaves: list[float] = []
    for nodes in trees:
        is_split = nodes.feature >= 0
        split = len(splits) + np.cumsum(is_split) - 1
        leaf = len(leaves) + np.cumsum(~is_split) - 1
        roots.append(len(splits))
        if not is_split[0]:  # every tree starts with a split: both ways lead to the leaf
            splits.append((0, 0.0, leaf[0], 1, leaf[0], 1, 0))
        for node in np.flatnonzero(is_split):
            ways = []
            for child in (nodes.left[node], nodes.right[node]):
                ways += [split[child], 0] if is_split[child] else [leaf[child], 1]
            threshold = max(float(nodes.threshold[node]), -np.finfo(np.float64).max)
            splits.append((nodes.feature[node], threshold, *ways, int(nodes.missing_left[node])))
        leaves += nodes.value[~is_split].tolist()
    columns = [list(column) for column in zip(*splits, strict=True)]
    whole = [list(map(int, columns[j])) for j in (0, 2, 3, 4, 5, 6)]
    return {
        "tree_roots": roots,
        "nodes_featureids": whole[0],
        "nodes_splits": tensor(np.array(columns[1], np.float64), "nodes_splits"),
        "nodes_modes": tensor(np.full(len(splits), LESS_OR_EQUAL, np.uint8), "nodes_modes"),
        "nodes_truenodeids": whole[1],
        "nodes_trueleafs": whole[2],
        "nodes_falsenodeids": whole[3],
        "nodes_falseleafs": whole[4],
        "nodes_missing_value_tracks_true": whole[5],
        "leaf_targetids": [0] * len(leaves),
        "leaf_weights": tensor(np.array(leaves, np.float64), "leaf_weights"),
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
    }
