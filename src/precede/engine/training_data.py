"""The data as an algorithm sees it: a table of codes and a layout of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table

if TYPE_CHECKING:
    from precede.judgments import Judgments

__all__ = ["TrainingData", "why_no_pair"]


@dataclass(frozen=True)
class TrainingData:
    """A table and a layout of the same rows: the data as the loop sees it."""

    table: Table
    layout: QueryLayout
    context: Context
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
        context: Context,
        categorical: Sequence[int] = (),
        labeled: bool = False,
        init_score: Floats | None = None,
        by_value: bool = False,
    ) -> TrainingData:
        """Sort, bin, and put the rows of each level in an order of their own.

        Rows that take part in no comparison, and have no label where labels are learned, are
        left out altogether: they change nothing.
        """
        layout = judgments.to_layout(balance, labeled=labeled)
        if layout.total <= 0 and not (labeled and layout.n_used_rows):
            raise ValueError(why_no_pair(judgments))
        order, weight = layout.order, layout.weight
        kind: type[Table] = Table
        if context.device is not None:
            from precede.engine.device_table import DeviceTable  # noqa: PLC0415  (only on a GPU)

            kind = DeviceTable if DeviceTable.takes(X, order, context.device) else Table
        if context.device is not None and kind is Table:
            X = context.device.get(X)
        table = kind.build(
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
        """Put the rows of each level in an order that does not depend on how they were given."""
        keys = table.keys(layout.weight, context)
        if by_value:
            keys = table.keys_by_value(keys)
        if layout.label is not None:  # rows that differ in their labels alone have an order
            keys ^= np.nan_to_num(layout.label, nan=0.5).view(np.uint64) * np.uint64(3)
        if init_score is not None:  # and so have rows that differ in where they start
            keys ^= (init_score + 0.0).view(np.uint64) * np.uint64(5)
        layout, old = layout.reorder(keys, context.device)
        start = None if init_score is None else init_score[old]
        return cls(table.reorder(old), layout, context, start, by_value)


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
