"""Commands warmup and demo: compile kernels ahead of time; run a short demonstration."""

from __future__ import annotations

import io
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np

import precede
from precede.engine.arrays import Array, Floats, Integers
from precede.engine.compiling import announce_compiling
from precede.engine.tree_rows import MIN_CELLS_ROW_PARALLEL
from precede.files.letor import read_letor
from precede.metrics.registry import REGISTRY, TIES

# Rows of a long list, above the sizes at which parallel and long-list kernels are used.
LONG_LIST_ROWS = 1 << 18
# Rows of a list whose pairs are enumerated, just enough for several threads.
ENUMERATED_ROWS = 5000
# Rows of all others, in queries of 20.
ROWS = 2000

# Rounds are few, except where some kernels are only used later.
ROUNDS = {
    "ConvexRiskRanker": {"n_estimators": 40},
    "GlassBoxRanker": {"n_estimators": 5, "pair_estimators": 5},
    "RankBoostPlus": {"n_estimators": 25},
}
# Algorithms and risks that may enumerate pairs.
PAIR_ENUMERATING = ("RankBoostPlus", "SmoothMarginRanker", "ConvexRiskRanker")
PAIRWISE: list[dict[str, Any]] = [{"price": 2, "loss": "logistic"}, {"price": 2, "loss": "hinge"}]
RANKED: list[dict[str, Any]] = [
    {"rank_weight": rule} for rule in ("ndcg", "ndcg@10", "gap", "precision@5")
]

# Variants fitted besides the defaults: each loss, weak ranker, search and step rule with separate
# kernels. All others differ in numbers only.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "RankBoost": [
        {"select": "decrease"}, {"step": "bound"}, {"weak_rankers": "features"},
        {"weak_rankers": "columns"},
        {"weak_rankers": "trees"}, {"nonnegative": True}, {"monotone_constraints": [1, -1, 0, 0]},
        {"balance": "queries"}, {"max_features": 0.5}, *RANKED,
    ],
    "PushRanker": [
        {"price": "exp"}, {"price": 1, "loss": "logistic"}, {"price": 1, "loss": "hinge"},
        {"price": 1, "loss": "squared_hinge"}, {"scope": "global"}, {"weak_rankers": "trees"},
        {"weak_rankers": "features"}, *PAIRWISE,
    ],
    "BoostedRanker": [
        {"loss": "exponential"}, {"loss": "hinge"}, {"loss": "squared_hinge"},
        {"loss": "softmax"}, {"loss": "xendcg"}, {"loss": "query_rmse"},
        {"loss": "query_cross_entropy"}, {"hessian": "bound"}, {"targets": "average"},
        {"line_search": True}, {"reg_alpha": 0.1}, {"subsample": 0.5}, {"max_features": 0.5},
        {"max_features_by_split": 0.5}, {"max_depth": 2}, {"bags": 2},
        {"categorical_features": [3]}, {"monotone_constraints": [1, -1, 0, 0]},
        {"interaction_constraints": [[0, 1], [2, 3]]},
        {"num_leaves": 100, "min_child_samples": 1},
        {"num_leaves": 100, "min_child_samples": 1, "categorical_features": [3]},
        *RANKED, *PAIRWISE,
    ],
    "QBRank": [{"targets": "sum"}, *RANKED],
    "GlassBoxRanker": [{"categorical_features": [3]}, {"loss": "exponential"}],
    "SmoothMarginRanker": [{"weak_rankers": "features"}, {"nonnegative": True}],
    "ConvexRiskRanker": [{"loss": "logistic"}, {"loss": "hinge"}, {"weak_rankers": "features"}],
    "RankBoostPlus": [{"search": "optimal"}],
    "AdaBoostRanker": [{"weak_rankers": "features"}],
}  # fmt: skip


class _WarmupSteps:
    """Calls on rows with every kind of judgments, and on one long list."""

    def __init__(self) -> None:
        self.models: dict[str, precede.BaseRanker] = {}
        self.X, self.y, self.qid = _rows(ROWS)

    @cached_property
    def kinds(self) -> list[tuple[Array, dict[str, Any]]]:
        """Rows and the arguments of `fit`, for every kind of judgments."""
        missing = self.X.copy()
        missing[::7, 1] = np.nan
        pairs = np.arange(ROWS).reshape(-1, 2)
        weight = np.linspace(0.5, 1.5, ROWS)
        return [
            (missing, {"y": self.y, "qid": self.qid}),
            (self.X, {"y": self.y > 1}),
            (self.X, {"y": self.y}),
            (self.X.astype(np.float32), {"y": self.y, "qid": self.qid, "sample_weight": weight}),
            (self.X, {"y": self.X[:, 0], "qid": self.qid}),  # as many grades as rows
            (self.X, {"pairs": pairs}),
            (self.X, {"y": self.y, "qid": self.qid, "pairs": pairs}),
        ]

    def fit(self, name: str) -> None:
        """Fit an algorithm and its variants to every kind of judgments, and with two threads."""
        for number, given in enumerate([{}, *VARIANTS[name]]):
            for X, judged in self.kinds:
                model = _fitted(name, X, judged, n_jobs=1, **given)
                if model is not None:
                    self.models.setdefault(f"{name} {number}", model)
            slow = name in PAIR_ENUMERATING or given in RANKED or given in PAIRWISE
            X, y, _ = _rows(ENUMERATED_ROWS if slow else LONG_LIST_ROWS)
            _fitted(name, X, {"y": y > 1}, n_jobs=2, **given)

    def fit_large(self) -> None:
        """Grow trees on enough cells for two threads to share the rows of a node."""
        X, y, qid = _rows(LONG_LIST_ROWS)
        wide = np.tile(X, (1, 1 + MIN_CELLS_ROW_PARALLEL // X.size))
        for given in ({}, {"categorical_features": [3]}):
            _fitted("BoostedRanker", wide, {"y": y, "qid": qid}, n_jobs=2, **given)

    def fit_labels(self) -> None:
        """Fit several labels for each row."""
        labels = np.stack([self.y > 1, self.y > 2, self.X[:, 0] > 0.5], axis=1).astype(int)
        for method in ("MR", "MH"):
            model = precede.MultilabelRanker(method=method, n_estimators=3).fit(self.X, labels)
            model.score(self.X, labels)

    def far_apart(self) -> None:
        """Evaluate risks at large differences of scores, which occur after many rounds."""
        judgments = precede.Judgments(self.y, self.qid)
        for loss in ("exponential", "logistic", "hinge"):
            for rule in (None, "ndcg", "ndcg@10"):
                risk = precede.PairRisk(loss, rank_weight=rule)
                for factor in (20, 1000, -1000):
                    scores = float(factor) * self.y
                    risk.value(judgments, scores)
                    risk.pull(judgments, scores)
                    risk.edge_weights(judgments, scores, self.X[:, 0] > 0.5)

    def predict(self) -> None:
        """Score rows of both precisions and orders in memory."""
        for model in self.models.values():
            for X in (self.X, self.X.astype(np.float32), np.asfortranarray(self.X)):
                model.predict(X)

    def evaluate(self) -> None:
        """Compute every metric, margins, and the share of pairs in order."""
        for model in self.models.values():
            model.score(self.X, self.y, self.qid)
        model = self.models["RankBoost 0"]
        scores, (X, y, _) = model.predict(self.X), _rows(LONG_LIST_ROWS)
        for rows in ((self.y, scores, self.qid), (self.y > 1, scores), (y > 1, model.predict(X))):
            precede.evaluate(*rows)
            for name, end, ties in itertools.product(REGISTRY, ("", "@10", "@100%"), TIES):
                metrics = [f"{name}{end}"]
                _unless_refused(partial(precede.evaluate, *rows, metrics=metrics, ties=ties))
        precede.margins(model, self.X, self.y, qid=self.qid)

    def compare(self) -> None:
        """Compare two models over queries."""
        scores = self._scores("RankBoost 0"), self._scores("BoostedRanker 0")
        for metric in ("ndcg@10", "pair_error"):
            precede.compare(self.y, *scores, qid=self.qid, metric=metric)

    def report(self) -> None:
        """Make reports on queries and on one list."""
        for name, model in self.models.items():
            if name.endswith(" 0"):
                precede.Report(model, self.X, self.y, qid=self.qid)
                precede.Report(model, self.X, self.y > 1)

    def explain(self) -> None:
        """Explain scores and a pair."""
        for model in self.models.values():
            model.explain(self.X)
            model.explain(self.X[:50], background=self.X[:20])
            model.explain_pair(self.X, 0, 1)

    def read(self) -> None:
        """Read lines of LETOR."""
        lines = b"2 qid:7 1:0.5 2:1e1 3:0.12345678901234567890123 # a\n1 qid:7 1:0.5 # b\n" * ROWS
        for n_jobs in (1, 2):
            read_letor(io.BufferedReader(io.BytesIO(lines)), n_jobs=n_jobs)

    def _scores(self, name: str) -> Floats:
        found: Array = self.models[name].predict(self.X)
        return found


def _rows(size: int) -> tuple[Array, Integers, Integers]:
    """Return numbers in [0, 1] and a category in four columns, grades, and queries of 20 rows."""
    generator = np.random.default_rng(0)
    X = generator.random((size, 4))
    y = np.digitize(X[:, 0] + X[:, 1] + generator.random(size), [1.0, 1.5, 2.0])
    X[:, 2], X[:, 3] = np.round(X[:, 2], 1), generator.integers(0, 6, size)
    return X, y, np.arange(size) // 20


def _fitted(name: str, X: Array, judged: dict[str, Any], **parameters: Any) -> Any:
    rounds = ROUNDS.get(name, {"n_estimators": 5})
    return _unless_refused(partial(getattr(precede, name)(**rounds, **parameters).fit, X, **judged))


def _unless_refused(call: Callable[[], Any]) -> Any:
    """Return the result of a call; None if it does not support such judgments."""
    try:
        return call()
    except ValueError:
        return None


STEPS: dict[str, Callable[[_WarmupSteps], None]] = {
    **{f"fit {name}": partial(_WarmupSteps.fit, name=name) for name in VARIANTS},
    "fit large trees": _WarmupSteps.fit_large,
    "fit MultilabelRanker": _WarmupSteps.fit_labels,
    "scores far apart": _WarmupSteps.far_apart,
    "predict": _WarmupSteps.predict,
    "evaluate": _WarmupSteps.evaluate,
    "compare": _WarmupSteps.compare,
    "report": _WarmupSteps.report,
    "explain": _WarmupSteps.explain,
    "read": _WarmupSteps.read,
}


def warm_up() -> Iterator[tuple[str, float]]:
    """Run each step once; yield its name and the seconds taken."""
    announce_compiling(False)
    calls = _WarmupSteps()
    for name, step in STEPS.items():
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such short fits warn of too few rounds
            step(calls)
        yield name, time.perf_counter() - begin
