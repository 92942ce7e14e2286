"""The data as an algorithm sees it: a table of codes and an arrangement of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.engine.arrangement import Arrangement
from precede.engine.arrays import Floats
from precede.engine.table import Table
from precede.engine.workers import Workers

if TYPE_CHECKING:
    from precede.judgments import Judgments

__all__ = ["Training", "why_no_pair"]


@dataclass(frozen=True)
class Training:
    """A table and an arrangement of the same rows: the data as the loop sees it."""

    table: Table
    arrangement: Arrangement
    workers: Workers
    init_score: Floats | None = None  # the score that each row starts from; None is 0
    by_value: bool = False  # whether rankers read values of features, which codes do not tell

    @classmethod
    def prepare(
        cls,
        X: Any,
        judgments: Judgments,
        *,
        balance: str,
        max_bins: int,
        workers: Workers,
        categorical: Sequence[int] = (),
        labelled: bool = False,
        init_score: Floats | None = None,
        by_value: bool = False,
    ) -> Training:
        """Sort, bin, and put the rows of each level in an order of their own.

        Rows that take part in no comparison, and have no label where labels are learnt, are
        left out altogether: they change nothing.
        """
        arrangement = judgments.arrange(balance, labelled=labelled)
        if arrangement.total <= 0 and not (labelled and arrangement.n_arranged):
            raise ValueError(why_no_pair(judgments))
        order, weight = arrangement.order, arrangement.weight
        kind: type[Table] = Table
        if workers.device is not None:
            from precede.engine.device_table import DeviceTable  # noqa: PLC0415  (only on a GPU)

            kind = DeviceTable if DeviceTable.takes(X, order, workers.device) else Table
        if workers.device is not None and kind is Table:
            X = workers.device.get(X)
        table = kind.build(
            X, order=order, weight=weight, max_bins=max_bins, categorical=categorical,
            workers=workers,
        )  # fmt: skip
        start = None if init_score is None else init_score[arrangement.order]
        return cls.ordered(table, arrangement, workers, start, by_value=by_value)

    @classmethod
    def ordered(
        cls,
        table: Table,
        arrangement: Arrangement,
        workers: Workers,
        init_score: Floats | None = None,
        *,
        by_value: bool = False,
    ) -> Training:
        """Put the rows of each level in an order that does not depend on how they were given."""
        keys = table.keys(arrangement.weight, workers)
        if by_value:
            keys = table.keys_by_value(keys)
        if arrangement.label is not None:  # rows that differ in their labels alone have an order
            keys ^= np.nan_to_num(arrangement.label, nan=0.5).view(np.uint64) * np.uint64(3)
        if init_score is not None:  # and so have rows that differ in where they start
            keys ^= (init_score + 0.0).view(np.uint64) * np.uint64(5)
        arrangement, old = arrangement.reorder(keys, workers.device)
        start = None if init_score is None else init_score[old]
        return cls(table.reorder(old), arrangement, workers, start, by_value)


def why_no_pair(judgments: Judgments) -> str:
    """Say what is the matter with judgments that hold no pair."""
    if judgments.weight is not None and not judgments.weight.any():
        return "there is no pair to learn from: every sample weight is zero"
    if judgments.grade is None:
        return "there is no pair to learn from: no pair has a positive weight"
    distinct = np.unique(judgments.grade[~np.isnan(judgments.grade)])
    if distinct.size == 1:
        return (
            f"there is no pair to learn from: y has only one class, {distinct[0]:g}; "
            "ranking needs at least two grades"
        )
    return (
        "there is no pair to learn from: no query holds two rows of different grades and "
        "positive weight; check that qid groups the rows you mean to compare"
    )
