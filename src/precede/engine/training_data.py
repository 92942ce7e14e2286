"""Training data: a binned table and a query layout of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from precede.engine.arrays import Floats, MatrixLike
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table

if TYPE_CHECKING:
    from precede.judgments import Judgments


@dataclass(frozen=True)
class TrainingData:
    """A binned table and a query layout of the same rows, in the same order."""

    table: Table
    layout: QueryLayout
    context: Context
    init_score: Floats | None = None  # initial score of each row; None means 0
    by_value: bool = False  # whether weak rankers read raw feature values, not only bin codes

    @classmethod
    def prepare(
        cls,
        X: MatrixLike,
        judgments: Judgments,
        *,
        balance: str,
        max_bins: int,
        context: Context,
        categorical: Sequence[int] = (),
        labeled: bool = False,
        init_score: Floats | None = None,
        by_value: bool = False,
    ) -> TrainingData:
        """Lay out and bin the rows, then sort each level by the content of its rows.

        Rows without a pair (and, if `labeled`, without a label) are left out. For the other
        parameters see `Table.build` and `QueryLayout`.
        """
        layout = judgments.to_layout(balance, labeled=labeled)
        if layout.total <= 0 and not (labeled and layout.n_used_rows):
            raise ValueError(why_no_pair(judgments))
        order, weight = layout.order, layout.weight
        table = Table.build(
            X, order=order, weight=weight, max_bins=max_bins, categorical=categorical,
            context=context,
        )  # fmt: skip
        start = None if init_score is None else init_score[layout.order]
        return cls.ordered(table, layout, context, start, by_value=by_value)

    @classmethod
    def ordered(
        cls,
        table: Table,
        layout: QueryLayout,
        context: Context,
        init_score: Floats | None = None,
        *,
        by_value: bool = False,
    ) -> TrainingData:
        """Sort the rows of each level by content, so that the user's order does not matter."""
        keys = table.keys(layout.weight, context)
        if by_value:
            keys = table.keys_by_value(keys)
        # Rows that differ only in their label or initial score need different keys too.
        if layout.label is not None:
            keys ^= np.nan_to_num(layout.label, nan=0.5).view(np.uint64) * np.uint64(3)
        if init_score is not None:
            keys ^= (init_score + 0.0).view(np.uint64) * np.uint64(5)
        layout, old = layout.reorder(keys, context.backend)
        start = None if init_score is None else init_score[old]
        return cls(table.reorder(old), layout, context, start, by_value)


def why_no_pair(judgments: Judgments) -> str:
    """Return the error message for judgments without a pair."""
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
