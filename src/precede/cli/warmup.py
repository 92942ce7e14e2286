"""Compile what the usual calls need, for container images and continuous integration."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import precede
from precede.engine.arrays import Array, Floats
from precede.engine.compiling import announce_compiling
from precede.rankers.growers import WIDE_CELLS

__all__ = ["STEPS", "warm_up"]


class _Calls:
    """The usual calls, on some hundred rows: with queries and without, of both precisions."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.X = generator.normal(size=(300, 4))
        self.y = (self.X[:, 0] + generator.normal(size=300) > 0).astype(int) + (self.X[:, 1] > 1)
        self.qid = np.repeat(np.arange(15), 20)
        self.models: dict[str, precede.BaseRanker] = {}

    def fit(self, name: str, **parameters: Any) -> None:
        """Fit an algorithm to queries, to one list of two classes, and to single precision."""
        make = getattr(precede, name)
        for X in (self.X, self.X.astype(np.float32)):
            self.models[name] = make(n_estimators=3, **parameters).fit(X, self.y, qid=self.qid)
        missing = np.where(self.X > 2, np.nan, self.X)
        make(n_estimators=3, **parameters).fit(missing, (self.y > 0).astype(int))

    def fit_trees(self) -> None:
        """Fit trees to few cells, and to so many that other kernels sum them up."""
        self.fit("BoostedRanker")
        times = 1 + WIDE_CELLS // self.X.size
        X, qid = np.tile(self.X, (times, 1)), np.repeat(np.arange(15 * times), 20)
        precede.BoostedRanker(n_estimators=3).fit(X, np.tile(self.y, times), qid=qid)

    def predict(self) -> None:
        """Score rows of both precisions and orders in memory."""
        for model in self.models.values():
            for X in (self.X, self.X.astype(np.float32), np.asfortranarray(self.X)):
                model.predict(X)

    def score(self) -> None:
        """Count the pairs in order."""
        for model in self.models.values():
            model.score(self.X, self.y, self.qid)

    def evaluate(self) -> None:
        """Compute the default metrics."""
        precede.evaluate(self.y, self._scores("RankBoost"), self.qid)

    def compare(self) -> None:
        """Compare two models over queries."""
        scores = self._scores("RankBoost"), self._scores("BoostedRanker")
        for metric in ("ndcg@10", "pair_error"):
            precede.compare(self.y, *scores, qid=self.qid, metric=metric)

    def report(self) -> None:
        """Make a report."""
        for model in self.models.values():
            precede.Report(model, self.X, self.y, qid=self.qid)

    def explain(self) -> None:
        """Explain scores and a pair."""
        for model in self.models.values():
            model.explain(self.X)
            model.explain_pair(self.X, 0, 1)

    def _scores(self, name: str) -> Floats:
        found: Array = self.models[name].predict(self.X)
        return found


def _steps() -> dict[str, Callable[[_Calls], None]]:
    return {
        "fit RankBoost": lambda calls: calls.fit("RankBoost"),
        "fit BoostedRanker": _Calls.fit_trees,
        "fit PushRanker": lambda calls: calls.fit("PushRanker"),
        "predict": _Calls.predict,
        "score": _Calls.score,
        "evaluate": _Calls.evaluate,
        "compare": _Calls.compare,
        "report": _Calls.report,
        "explain": _Calls.explain,
    }


STEPS = _steps()


def warm_up() -> Iterator[tuple[str, float]]:
    """Make each of the usual calls once; yields its name and the seconds that it took."""
    announce_compiling(False)
    calls = _Calls()
    for name, step in STEPS.items():
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # three rounds are no model
            step(calls)
        yield name, time.perf_counter() - begin
