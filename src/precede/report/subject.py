"""What a report is about: a fitted model and rows whose order is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.frames import row_labels
from precede.estimator import BaseRanker
from precede.judgments import (
    Judgments,
    check_column,
    feature_names,
    number_queries,
    warn_of_lost_queries,
)
from precede.model import plain

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Subject", "plain_value", "thinned"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model, the rows it is judged on, and its scores of them.

    `X` are the features as the model reads them. `classes` are the two classes, if the rows are
    a single list of two.
    """

    model: BaseRanker
    X: Any
    judgments: Judgments
    classes: Array | None
    scores: Floats
    names: tuple[str, ...]
    documents: tuple[str, ...] | None

    @classmethod
    def of(cls, model: BaseRanker, X: Any, y: Any, *, documents: Any = None, **target: Any) -> Self:
        """Check everything once."""
        if not isinstance(model, BaseRanker):
            raise ValueError(
                f"a report needs a fitted ranker of precede, not {type(model).__name__}; "
                "use precede.metrics.evaluate for scores from elsewhere"
            )
        check_is_fitted(model)
        read = model._validated(X, reset=False)
        scores = model.predict(X)
        if scores.ndim != 1:
            raise ValueError(
                f"{type(model).__name__} gives a row {scores.shape[1]} scores, one for each label; "
                "a report needs a model that gives one"
            )
        judgments, classes = model._target(read.shape[0], y, **target)
        warn_of_lost_queries(model, judgments)
        scores = check_column(scores, "scores", read.shape[0])
        names = feature_names(getattr(model, "feature_names_in_", None), read.shape[1])
        documents = row_labels(X) if documents is None else documents
        return cls(model, read, judgments, classes, scores, tuple(names),
                   _documents(documents, scores.size))  # fmt: skip

    @cached_property
    def query(self) -> tuple[Integers, list[Any]]:
        """Number of the query of every row, and the identifier of every number."""
        if self.judgments.qid is None:
            return np.zeros(self.scores.size, np.int64), [None]
        number, ids = number_queries(self.judgments.qid)
        return number.astype(np.int64), [plain_value(each) for each in ids.tolist()]

    @property
    def is_one_list(self) -> bool:
        """Whether there are no queries."""
        return self.judgments.qid is None

    @cached_property
    def grade(self) -> Floats:
        """Grade of every row, NaN where there is none or the row does not count."""
        grade = self.judgments.grade
        known = np.full(self.scores.size, np.nan) if grade is None else grade.copy()
        if self.judgments.weight is not None:
            known[self.judgments.weight == 0] = np.nan
        return known

    @cached_property
    def graded(self) -> Integers:
        """Rows with a grade that counts."""
        return np.flatnonzero(~np.isnan(self.grade))

    @cached_property
    def lists(self) -> list[Integers]:
        """Graded rows of each query from the top; of equal scores the worse grade is first."""
        rows, number = self.graded, self.query[0]
        order = np.lexsort((rows, self.grade[rows], -self.scores[rows], number[rows]))
        ends = np.searchsorted(number[rows][order], np.arange(1, len(self.query[1])))
        return np.split(rows[order], ends)

    @cached_property
    def _lowest(self) -> float:
        return float(np.nanmin(self.judgments.grade))  # type: ignore[arg-type]

    def document(self, row: int) -> str:
        """Name of a row, or its number."""
        return str(row) if self.documents is None else self.documents[row]

    def grade_name(self, grade: float) -> Any:
        """A grade as the user wrote it: classes keep their names."""
        if math.isnan(grade):
            return None
        if self.classes is not None:
            name = plain_value(self.classes[int(grade > self._lowest)].item())
            return int(name) if isinstance(name, float) and name == int(name) else name
        return int(grade) if grade == int(grade) else float(grade)


def _documents(given: ArrayLike | None, rows: int) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = tuple(map(str, np.asarray(given, object).tolist()))
    if len(names) != rows:
        raise ValueError(f"docid has {len(names)} names and X has {rows} rows; give one per row")
    return names


def plain_value(value: Any) -> Any:
    """A number or a text, for JSON: whatever else becomes text, NaN and infinities None.

    >>> plain_value(3), plain_value(float("nan")), plain_value((1, 2))
    (3, None, '(1, 2)')
    """
    return str(value) if isinstance(value, list | tuple | dict) else plain(value, spell=False)


def thinned(size: int, most: int) -> Integers:
    """Indices of at most `most` of `size` points, evenly spaced, both ends among them.

    >>> thinned(10, 4).tolist(), thinned(3, 4).tolist()
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if size <= most:
        return np.arange(size)
    return np.unique(np.round(np.linspace(0, size - 1, most)).astype(np.int64))
