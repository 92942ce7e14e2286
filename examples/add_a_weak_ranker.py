"""A family of weak rankers of your own, in one file: windows on one feature."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from precede import Family, RankBoost, SearchResult, WeakRanker
from precede.datasets import search_results
from precede.testing import check_family


@dataclass(frozen=True)
class Window(WeakRanker):
    """1 inside an interval of one feature, 0 outside; missing values are outside."""

    feature: int
    low: float
    high: float

    name: ClassVar[str] = "window"  # the tag in saved models

    def __call__(self, X):
        column = X[:, self.feature]
        return ((column > self.low) & (column <= self.high)).astype(np.uint8)


class Windows(Family):
    """All windows between two cuts of a feature."""

    name: ClassVar[str] = "windows"  # RankBoost(weak_rankers="windows") finds it by this name
    exhaustive = True  # every window is evaluated, as the certificates of some algorithms require

    def search(self, table, pull):
        histogram = table.histogram(pull)  # the only thing that touches the data
        best = None
        for feature, cuts in enumerate(table.bins.cuts):
            ends = np.concatenate([[-np.inf], cuts, [np.inf]])
            upto = np.concatenate([[0.0], np.cumsum(histogram[feature, : ends.size - 1])])
            edge = np.triu(upto[None, :] - upto[:, None])  # of the window (ends[i], ends[j]]
            i, j = np.unravel_index(np.argmax(np.abs(edge)), edge.shape)
            if best is None or abs(edge[i, j]) > abs(best.edge):
                window = Window(feature, float(ends[i]), float(ends[j]))
                best = SearchResult(window, float(edge[i, j]))
        return best


check_family(Windows())

sample = search_results(20, features=4, informative=2, per_query=20, random_state=0)
model = RankBoost(weak_rankers="windows", n_estimators=10, learning_rate=0.1)
model.fit(sample.X, sample.y, qid=sample.qid)
print(model.ensemble_.weak_rankers[0], f"score {model.score(sample.X, sample.y, sample.qid):.3f}")
