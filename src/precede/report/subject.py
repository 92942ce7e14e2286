"""Inputs of a report: the models or scores, and the judged rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from precede.engine.arrays import Array, Floats, Integers, MatrixLike, VectorLike
from precede.engine.frames import row_labels
from precede.estimator import BaseRanker
from precede.judgments import (
    Judgments,
    check_column,
    check_scores,
    feature_names,
    number_queries,
    read_judgments,
    warn_of_lost_queries,
)
from precede.report.wording import Value
from precede.results import plain

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, eq=False)
class Candidate:
    """A ranking: its name, the scores of the rows, and the model that predicted them, if any.

    `given_scores` are −inf for rows that were not returned.
    """

    name: str
    given_scores: Floats
    model: BaseRanker | None = None

    @cached_property
    def scores(self) -> Floats:
        """Finite scores, by which rows are sorted: rows that were not returned are the lowest."""
        absent = np.isneginf(self.given_scores)
        lowest = np.min(self.given_scores, where=~absent, initial=0.0)
        return np.where(absent, np.nextafter(lowest, -np.inf), self.given_scores)


@dataclass(frozen=True)
class ShownRow:
    """A row in a table of rows; `wrong` says whether it is in a pair out of order."""

    rank: int | None
    document: str
    row: int
    grade: Value
    score: float
    wrong: bool | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """The candidates, the rows they are evaluated on, and the judgments of these rows.

    The report is about the first candidate; the others are compared with it. `X` holds the
    features as the first model reads them, None if there are none. `classes` are the two classes
    if the rows are a single list of two classes. `relevant` is the least relevant grade, for
    metrics that depend on it.
    """

    candidates: tuple[Candidate, ...]
    X: MatrixLike
    judgments: Judgments
    classes: Array | None
    names: tuple[str, ...]
    documents: tuple[str, ...] | None
    relevant: float | None = None

    @classmethod
    def of(
        cls,
        models: Mapping[str, BaseRanker],
        scores: Mapping[str, ArrayLike] | ArrayLike | None,
        X: MatrixLike,
        y: VectorLike,
        *,
        documents: VectorLike = None,
        order: Sequence[str] | None = None,
        relevant: float | None = None,
        **target: VectorLike,
    ) -> Self:
        """Validate the arguments of `Report`."""
        given = _given_scores(scores, models)
        if not models and not given:
            raise ValueError("there is nothing to report on; give a fitted model, or scores={...}")
        if y is None and target.get("pairs") is None:
            raise ValueError("a report needs y: grades, two classes or Judgments; or pairs")
        if X is None and models:
            raise ValueError("X is None, and the model needs it to score; scores=... alone do not")
        read = [model._validated(X, reset=False) for model in models.values()]
        features = read[0] if read else _features(X)
        if features is not None:
            rows = features.shape[0]
        else:
            rows = len(next(iter(given.values())) if y is None else y)  # type: ignore[arg-type]
        candidates = [
            Candidate(name, _predicted(model, X, rows), model) for name, model in models.items()
        ]
        candidates += [
            Candidate(name, check_scores(each, f"scores[{name!r}]", rows))
            for name, each in given.items()
        ]
        candidates = _ordered(candidates, order)
        judgments, classes = read_judgments(rows, y, **target)
        for model in models.values():
            warn_of_lost_queries(model, judgments)
        known = [getattr(model, "feature_names_in_", None) for model in models.values()]
        width = 0 if features is None else features.shape[1]
        named = feature_names(known[0] if known else getattr(X, "columns", None), width)
        documents = row_labels(X) if documents is None else documents
        return cls(tuple(candidates), features, judgments, classes, tuple(named),
                   _documents(documents, rows), relevant)  # fmt: skip

    @property
    def first(self) -> Candidate:
        """The candidate that the report is about."""
        return self.candidates[0]

    @property
    def scores(self) -> Floats:
        """Scores of the first candidate."""
        return self.first.scores

    @property
    def model(self) -> BaseRanker | None:
        """The model of the first candidate that has one."""
        return next((each.model for each in self.candidates if each.model is not None), None)

    @cached_property
    def query(self) -> tuple[Integers, list[Value]]:
        """Index of the query of every row, and the identifier of each query."""
        if self.judgments.qid is None:
            return np.zeros(self.scores.size, np.int64), [None]
        number, ids = number_queries(self.judgments.qid)
        return number.astype(np.int64), [plain_value(each) for each in ids.tolist()]

    @property
    def is_one_list(self) -> bool:
        """Whether there are no queries."""
        return self.judgments.qid is None

    @property
    def is_listed(self) -> bool:
        """Whether the judgments are explicit pairs only."""
        return self.judgments.pairs is not None and not self.graded.size

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
        return self.lists_by(self.scores)

    def lists_by(self, scores: Floats) -> list[Integers]:
        """Return the graded rows of each query sorted by some scores, as in `lists`."""
        rows, number = self.graded, self.query[0]
        order = np.lexsort((rows, self.grade[rows], -scores[rows], number[rows]))
        ends = np.searchsorted(number[rows][order], np.arange(1, len(self.query[1])))
        return np.split(rows[order], ends)

    @cached_property
    def is_two_classes(self) -> bool:
        """Whether the rows are one list of two grades."""
        return self.is_one_list and np.unique(self.grade[self.graded]).size == 2

    def column(self, feature: int) -> Floats:
        """Return one feature of every row."""
        return dense(self.X[:, [feature]]).ravel()

    @cached_property
    def _lowest_grade(self) -> float:
        return float(np.nanmin(self.judgments.grade))  # type: ignore[arg-type]

    def document(self, row: int) -> str:
        """Return the name of a row, or its number."""
        return str(row) if self.documents is None else self.documents[row]

    def shown_row(self, row: int, rank: int | None, *, wrong: bool | None = None) -> ShownRow:
        """Return what is shown of a row."""
        grade = self.grade_name(self.grade[row].item())
        return ShownRow(rank, self.document(row), row, grade, float(self.scores[row]), wrong)

    def grade_name(self, grade: float) -> Value:
        """Return a grade as the user wrote it: classes keep their names."""
        if math.isnan(grade):
            return None
        if self.classes is not None:
            name = plain_value(self.classes[int(grade > self._lowest_grade)].item())
            return int(name) if isinstance(name, float) and name == int(name) else name
        return int(grade) if grade == int(grade) else float(grade)


def named_models(models: object) -> dict[str, BaseRanker]:
    """Return models by name; the default name is that of the class."""
    if models is None:
        return {}
    if isinstance(models, Mapping):
        named = {str(name): each for name, each in models.items()}
    else:
        several = list(models) if isinstance(models, list | tuple) else [models]
        named = {}
        for each in several:
            kind = type(each).__name__
            count = sum(name.split(" ")[0] == kind for name in named)
            named[f"{kind} {count + 1}" if count else kind] = each
    for each in named.values():
        if not isinstance(each, BaseRanker):
            raise ValueError(
                f"a report needs fitted rankers of precede, not {type(each).__name__}; give what "
                "others predict as scores={'name': scores}"
            )
        check_is_fitted(each)
    return named


def dense(X: MatrixLike) -> Floats:
    """Return rows as a dense array."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)


def _given_scores(
    scores: Mapping[str, ArrayLike] | ArrayLike | None, models: Mapping[str, BaseRanker]
) -> dict[str, ArrayLike]:
    if scores is None:
        return {}
    if not isinstance(scores, Mapping):
        return {"scores": scores}
    named = {str(name): each for name, each in scores.items()}
    twice = [name for name in named if name in models]
    if twice:
        raise ValueError(f"a model and scores are both called {twice[0]!r}; rename one of them")
    return named


def _ordered(candidates: list[Candidate], order: Sequence[str] | None) -> list[Candidate]:
    """Return the candidates in the order given by name."""
    named = {each.name: each for each in candidates}
    if order is None:
        return candidates
    if isinstance(order, str) or sorted(map(str, order)) != sorted(named):
        raise ValueError(f"order={order!r} must list every name once: {list(named)}")
    return [named[str(name)] for name in order]


def _predicted(model: BaseRanker, X: MatrixLike, rows: int) -> Floats:
    scores = model.predict(X)
    if scores.ndim != 1:
        raise ValueError(
            f"{type(model).__name__} gives a row {scores.shape[1]} scores, one for each label; "
            "a report needs a model that gives one"
        )
    return check_column(scores, "scores", rows)


def _features(X: MatrixLike) -> MatrixLike:
    """Return features that no model has validated as numbers; None if there are none."""
    if X is None or hasattr(X, "tocsc"):
        return X
    try:
        table = np.asarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X holds what is not a number ({error}); leave it out") from error
    if table.ndim != 2:
        raise ValueError(f"X has {table.ndim} dimensions; give rows and columns")
    return table


def _documents(given: ArrayLike | None, rows: int) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = tuple(map(str, np.asarray(given, object).tolist()))
    if len(names) != rows:
        raise ValueError(f"docid has {len(names)} names and X has {rows} rows; give one per row")
    return names


def plain_value(value: object) -> Value:
    """Convert a value for JSON: numbers and texts stay, NaN and infinities become None.

    >>> plain_value(3), plain_value(float("nan")), plain_value((1, 2))
    (3, None, '(1, 2)')
    """
    return str(value) if isinstance(value, list | tuple | dict) else plain(value, spell=False)


def evenly_spaced(size: int, most: int) -> Integers:
    """Return at most `most` evenly spaced indices below `size`, including both ends.

    >>> evenly_spaced(10, 4).tolist(), evenly_spaced(3, 4).tolist()
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if size <= most:
        return np.arange(size)
    return np.unique(np.round(np.linspace(0, size - 1, most)).astype(np.int64))
