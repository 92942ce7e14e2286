"""Named problems: synthetic ones of any size, and real data where they are found."""

from dataclasses import dataclass
from typing import Any

from problems.real import (
    FOLDS,
    SHARED,
    credit,
    credit_parts,
    lightgbm_rank,
    movielens,
    mq2008,
    mq2008_parts,
    ohsumed,
)
from problems.synthetic import one_query, one_query_parts, web10k, web10k_parts

__all__ = [
    "FOLDS", "SHARED", "Problem", "credit", "lightgbm_rank", "movielens", "mq2008", "named",
    "ohsumed", "one_query", "web10k",
]  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """Rows to learn from and rows to judge on: (X, y, qid) each, qid None for one list."""

    name: str
    train: Any
    test: Any

    def __str__(self):
        rows, features = self.train[0].shape
        return f"{self.name} ({rows:,} × {features})"


def named(name):
    """The problem of that name; None where its data are absent."""
    parts = NAMED[name]()
    return None if parts is None else Problem(name, *parts)


NAMED = {
    "web10k small": lambda: web10k_parts(300),
    "web10k medium": lambda: web10k_parts(2_000),
    "web10k": lambda: web10k_parts(10_000),
    "MQ2008": mq2008_parts,
    "fraud": credit_parts,
    "one query": lambda: one_query_parts(1_000_000),
}
