"""Curves of the features of answers, boosted with the strengths of the items as offsets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from precede.algorithms.glass_box import GlassBoxRanker
from precede.engine.arrays import Floats, Integers
from precede.explain.shapes import ShapeFunction
from precede.files.votes import TIE
from precede.judgments import Judgments
from precede.votes import Votes

ROUNDS = 100
MIN_LEAF = 0.02  # share of the answers on each side of a step


def boosted_curves(
    votes: Votes, theta: Floats, unit: Integers | None, *, bags: int, random_state: int,
    n_jobs: int | None,
) -> list[ShapeFunction]:  # fmt: skip
    """Return a curve of each feature, with standard errors.

    The two answers of a vote are rows whose scores start at the strengths `theta` of their items,
    and the winner precedes the loser: the logistic risk of these pairs is the likelihood, with a
    tie as half a win for each. The standard errors come from bootstrap samples of the clusters
    that `unit` numbers, or of the votes.
    """
    rows = np.arange(2 * len(votes)).reshape(-1, 2)
    X = np.swapaxes(votes.features, 0, 1).reshape(len(rows) * 2, -1)
    start = theta[np.stack(votes.sides, axis=1)].ravel()
    weight = np.ones(len(votes)) if votes.weight is None else votes.weight
    tied = votes.outcome == TIE
    decided = np.where((votes.outcome == 1)[:, None], rows[:, ::-1], rows)
    judged = Judgments(
        pairs=decided[~tied], pair_weight=weight[~tied], ties=rows[tied], tie_weight=weight[tied],
        n=rows.size, qid=None if unit is None else np.repeat(unit, 2),
    )  # fmt: skip
    ranker = GlassBoxRanker(
        n_estimators=ROUNDS, interactions=0, selection="greedy", bags=bags, max_bins=63,
        min_child_samples=max(2, int(MIN_LEAF * rows.size)), random_state=random_state,
        n_jobs=n_jobs, verbose=0,
    )  # fmt: skip
    ranker.fit(X, judged, init_score=start)
    return [replace(ranker.shape_function(feature), name=name)
            for feature, name in enumerate(votes.feature_names)]  # fmt: skip


def scaled(curve: ShapeFunction, factor: float) -> ShapeFunction:
    """Return a curve times a factor."""
    errors = None if curve.errors is None else curve.errors * abs(factor)
    return replace(curve, values=curve.values * factor, slopes=curve.slopes * factor,
                   missing=curve.missing * factor, errors=errors)  # fmt: skip
