"""The conventions that the value of a metric depends on, and those of other libraries."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from precede.judgments import (
    check_column,
)
from precede.metrics.registry import check_grade

__all__ = ["PRESETS", "Policy", "resolve"]

TIES, MAP_OVER = ("worst", "average", "order"), ("relevant", "reachable")
NO_RELEVANT = {"skip": math.nan, "zero": 0.0, "one": 1.0}


@dataclass(frozen=True)
class Policy:
    """The conventions a number depends on, kept with the number.

    gains : "exp", "linear", "clipped" or array
        Gain of a grade g in dcg and ndcg: 2^g − 1, g itself, max(g, 0), or ``gains[g]`` for whole
        g ≥ 0.
    ties : "worst", "average" or "order"
        How items with equal scores are ranked: worst grade first; every order equally likely
        (the exact expected value of the metric); or as the rows come.
    no_relevant : "skip", "zero" or "one"
        What a query with nothing relevant is worth to ndcg, map, mrr, err, precision, recall.
    relevant, max_grade : float
        The least relevant grade, of metrics that do not say it themselves. In err, grade g
        satisfies with chance (2^g − 1) / 2^max_grade, by default the largest of y.
    map_over : "relevant" or "reachable"
        Whether map@k divides by the number R of relevant items or by min(R, k).

    >>> print(PRESETS["sklearn"])
    gains=linear ties=average no_relevant=zero relevant=1 max_grade=None map_over=relevant
    """

    gains: Any = "exp"
    ties: str = "worst"
    no_relevant: str = "skip"
    relevant: float = 1.0
    max_grade: float | None = None
    map_over: str = "relevant"

    def __post_init__(self) -> None:
        choices = {"ties": TIES, "no_relevant": tuple(NO_RELEVANT), "map_over": MAP_OVER}
        if isinstance(self.gains, str):
            choices["gains"] = ("exp", "linear", "clipped")
        else:
            table = check_column(self.gains, "gains")
            falls = np.flatnonzero(np.diff(table) < 0)
            if falls.size:
                raise ValueError(f"gains[{falls[0] + 1}] is below gains[{falls[0]}]: sort them")
            object.__setattr__(self, "gains", tuple(table.tolist()))
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {allowed}")
        for name, given in (("relevant", self.relevant), ("max_grade", self.max_grade or 0)):
            check_grade(name, given)

    def __str__(self) -> str:
        values = asdict(self).items()
        return " ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in values)


PRESETS = {
    "lightgbm": Policy(gains="exp", ties="order", no_relevant="one", map_over="reachable"),
    "sklearn": Policy(gains="linear", ties="average", no_relevant="zero"),
    "trec": Policy(gains="clipped", ties="order", no_relevant="zero"),
}


def resolve(preset: str | None, options: dict[str, Any], largest: float) -> Policy:
    """Return the policy asked for, with the maximum grade filled in."""
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}: use one of {', '.join(PRESETS)}")
    known = [each.name for each in fields(Policy)]
    for name in options.keys() - known:
        every = ", ".join(["metrics", "preset", "sample_weight", *known])
        raise ValueError(f"unknown option {name}={options[name]!r}: use one of {every}")
    policy = replace(PRESETS[preset] if preset else Policy(), **options)
    if policy.max_grade is not None and policy.max_grade < largest:
        raise ValueError(f"max_grade={policy.max_grade:g} is below a grade of y, {largest:g}")
    return replace(policy, max_grade=largest if policy.max_grade is None else policy.max_grade)
