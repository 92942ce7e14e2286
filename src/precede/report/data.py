"""Facts about the data, the fit, and the overlap of the data with the training rows."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

import numpy as np
import scipy.sparse
from markupsafe import Markup

from precede.engine.arrays import Array, Flags, Integers, MatrixLike
from precede.estimator import BaseRanker
from precede.judgments import Judgments
from precede.report.document import (
    Block,
    Bullets,
    Group,
    Heading,
    Paragraph,
    Section,
    Table,
    side_by_side,
)
from precede.report.quality import Training, quality_of, query_metrics
from precede.report.subject import Subject, dense, named_models, plain_value
from precede.report.wording import Value, Words, number, plural, share

Parameter = Value | list["Parameter"]

_MAX_NAMES = 10  # examples shown of each warning, and columns with missing values
_MAX_GRADES = 12
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class QuerySizes:
    """The number of queries, and quantiles of their numbers of rows."""

    count: int
    least_rows: int
    median_rows: float
    most_rows: int


@dataclass(frozen=True)
class GradeCount:
    """The number and share of the rows of a grade."""

    grade: Value
    rows: int
    share: float


@dataclass(frozen=True)
class Grades:
    """The rows of each grade, or quantiles if there are many grades."""

    distinct: int
    counts: list[GradeCount] | None
    least: float | None = None
    median: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Missing:
    """The number and share of the missing values of a column."""

    name: str
    rows: int
    share: float


@dataclass(frozen=True)
class Warned:
    """A warning about the data, with a count and some examples."""

    text: str
    count: int
    names: list[str]

    def shown(self) -> str:
        """Return the warning and the examples."""
        count = f"{self.count:,} " if self.count else ""
        names = f": {', '.join(self.names)}" if self.names else ""
        more = ", …" if self.names and self.count > len(self.names) else ""
        return Markup("<strong>{}</strong>{}").format(f"{count}{self.text}", names + more)


@dataclass(frozen=True)
class Data:
    """Counts of rows, features, queries, grades, pairs and missing values, with warnings."""

    rows: int
    features: int
    queries: QuerySizes | None
    classes: list[Value] | None
    grades: Grades | None
    pairs: int
    listed_pairs: int
    weighted: bool
    missing_cells: int
    missing_share: float
    missing: list[Missing]
    features_with_missing: int
    warnings: list[Warned]

    def section(self, words: Words) -> Section:
        """Return the warnings, the counts, and the grades and columns with missing values."""
        warnings: Block = Bullets([each.shown() for each in self.warnings], "warnings")
        if not self.warnings:
            warnings = Paragraph(f"Nothing looks wrong: every {words.query} has a pair, no column "
                                 "is constant or empty.")  # fmt: skip
        others: list[Block] = []
        if self.grades is not None:
            others.append(self._grades(self.grades, words))
        if self.missing:
            rows = [[each.name, each.rows, share(each.share)] for each in self.missing]
            others.append(Table(["most missing", words.items, "share"], rows))
        both = side_by_side([self._counts(words)], others)
        return Section("data", "Data", "The data", [warnings, both])

    def _counts(self, words: Words) -> Table:
        rows: list[list[object]] = [
            [words.items, self.rows],
            ["features", self.features],
            ["pairs whose order is known", self.pairs],
        ]
        if self.queries is not None:
            rows += [
                [words.queries, self.queries.count],
                [f"{words.items} in a {words.query}: least", self.queries.least_rows],
                ["median", self.queries.median_rows],
                ["most", self.queries.most_rows],
            ]
        if self.listed_pairs:
            rows.append(["pairs listed one by one", self.listed_pairs])
        if self.missing_cells:
            rows.append(["missing cells", self.missing_cells])
            rows.append(["features with missing cells", self.features_with_missing])
        rows.append(["weighted", "yes" if self.weighted else "no"])
        return Table(["what", "how many"], rows)

    def _grades(self, grades: Grades, words: Words) -> Block:
        if grades.counts is None:
            least, median, most = map(number, (grades.least, grades.median, grades.most))
            return Paragraph(f"{grades.distinct:,} different grades from {least} to {most}, the "
                             f"median being {median}.")  # fmt: skip
        rows = [
            [words.class_name(each.grade), each.rows, share(each.share)] for each in grades.counts
        ]
        return Table([words.grade, words.items, "share"], rows)


def data_of(subject: Subject, words: Words) -> Data:
    """Count rows, features, queries, grades and pairs, and warn of what looks wrong."""
    judgments = subject.judgments
    X = np.zeros((subject.scores.size, 0)) if subject.X is None else subject.X
    missing, constant = _missing_and_constant(X)
    rows, features = X.shape
    cells, classes = rows * features, subject.classes
    return Data(
        rows=rows,
        features=features,
        queries=_queries(subject),
        classes=None if classes is None else [plain_value(each) for each in classes.tolist()],
        grades=_grades(subject),
        pairs=judgments.n_pairs,
        listed_pairs=0 if judgments.pairs is None else len(judgments.pairs),
        weighted=judgments.weight is not None or judgments.pair_weight is not None,
        missing_cells=int(missing.sum()),
        missing_share=float(missing.sum() / cells) if cells else 0.0,
        missing=[
            Missing(subject.names[j], int(missing[j]), float(missing[j] / rows))
            for j in np.argsort(-missing, kind="stable")[:_MAX_NAMES].tolist()
            if missing[j]
        ],
        features_with_missing=int(np.count_nonzero(missing)),
        warnings=_warnings(subject, missing, constant, words),
    )


def _missing_and_constant(X: MatrixLike) -> tuple[Integers, Flags]:
    """Return the number of missing values of each column, and whether it is constant."""
    rows, features = X.shape
    if not scipy.sparse.issparse(X):
        missing = np.isnan(X).sum(axis=0)
        same = np.fmin.reduce(X, axis=0) == np.fmax.reduce(X, axis=0)
        return missing, same & (missing == 0)
    X = X.tocsc()
    missing, constant = np.zeros(features, np.int64), np.zeros(features, bool)
    for j in range(features):
        held = X.data[X.indptr[j] : X.indptr[j + 1]]
        values = held if held.size == rows else np.append(held, 0.0)
        missing[j] = np.isnan(held).sum()
        constant[j] = not missing[j] and values.min() == values.max()
    return missing, constant


def _queries(subject: Subject) -> QuerySizes | None:
    if subject.is_one_list:
        return None
    sizes = np.bincount(subject.query[0])
    return QuerySizes(sizes.size, int(sizes.min()), float(np.median(sizes)), int(sizes.max()))


def _grades(subject: Subject) -> Grades | None:
    grade = subject.judgments.grade
    if grade is None:
        return None
    known = grade[~np.isnan(grade)]
    values, counts = np.unique(known, return_counts=True)
    if values.size > _MAX_GRADES:
        least, median, most = np.quantile(known, [0.0, 0.5, 1.0]).tolist()
        return Grades(values.size, None, least, median, most)
    shares = (counts / known.size).tolist()
    return Grades(values.size, [
        GradeCount(subject.grade_name(value), count, part)
        for value, count, part in zip(values.tolist(), counts.tolist(), shares, strict=True)
    ])  # fmt: skip


def _warnings(subject: Subject, missing: Integers, constant: Flags, words: Words) -> list[Warned]:
    judgments, rows = subject.judgments, subject.scores.size
    names = np.array(subject.names, object)
    found: list[tuple[str, str, Sequence[object]]] = [
        ("without a pair to compare", words.query, _without_pair(subject)),
        ("with one value throughout", "column", names[constant].tolist()),
        ("without any value", "column", names[missing == rows].tolist()),
    ]
    if judgments.grade is not None:
        ungraded = np.flatnonzero(np.isnan(judgments.grade))
        for listed in (judgments.pairs, judgments.ties):
            ungraded = ungraded if listed is None else np.setdiff1d(ungraded, listed)
        found.append(("without a grade, left out", words.item, _names_of_rows(subject, ungraded)))
    if judgments.weight is not None:
        absent = np.flatnonzero(judgments.weight == 0)
        found.append(("of weight 0, left out", words.item, _names_of_rows(subject, absent)))
    warnings = [
        Warned(f"{noun if len(which) == 1 else plural(noun)} {text}", len(which),
               [str(each) for each in which[:_MAX_NAMES]])
        for text, noun, which in found
        if which
    ]  # fmt: skip
    if judgments.n_pairs == 0:
        text = f"no pair at all: no two {words.items} that may be compared differ in grade"
        warnings.insert(0, Warned(text, 0, []))
    return warnings


def _names_of_rows(subject: Subject, rows: Array) -> list[str]:
    return [subject.document(row) for row in rows.tolist()]


def _without_pair(subject: Subject) -> list[Value]:
    if subject.is_one_list:
        return []
    number, ids = subject.query
    paired = np.zeros(len(ids), bool)
    for query, rows in enumerate(subject.lists):
        paired[query] = rows.size > 0 and bool(np.ptp(subject.grade[rows]) > 0)
    listed = subject.judgments.pairs
    if listed is not None:
        paired[number[listed.ravel()]] = True
    return [ids[query] for query in np.flatnonzero(~paired)]


# -- how the models were made --------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Return the versions of the libraries that made the report."""
    import precede  # noqa: PLC0415  (the version, once the package is complete)

    own = {"precede": precede.__version__, "python": platform.python_version()}
    return own | {name: metadata.version(name) for name in _PACKAGES}


@dataclass(frozen=True)
class Edit:
    """A manual edit of a term, with the scores before and after it."""

    term: str
    what: str
    before: Value
    after: Value


@dataclass(frozen=True)
class Making:
    """How a model was made: parameters, seed and rounds of its fit, and why it stopped."""

    estimator: str
    parameters: dict[str, Parameter]
    seed: Parameter
    rounds: int
    best_iteration: int
    best_score: Value
    stop_reason: str
    features_used: int
    features_known: int
    intercept: Value
    link: Value
    edits: list[Edit]

    @classmethod
    def of(cls, model: BaseRanker) -> Making:
        """Read the parameters and the course of a fit."""
        parameters = {
            name: _parameter(value) for name, value in model.get_params(deep=False).items()
        }
        return cls(
            estimator=type(model).__name__,
            parameters=parameters,
            seed=parameters.get("random_state"),
            rounds=int(model.n_estimators_),
            best_iteration=int(model.best_iteration_),
            best_score=plain_value(model.best_score_),
            stop_reason=str(model.stop_reason_),
            features_used=int(np.count_nonzero(model.feature_importances_)),
            features_known=int(model.n_features_in_),
            intercept=plain_value(model.intercept_),
            link=plain_value(model.link_),
            edits=[_read_edit(each) for each in getattr(model, "edits_", [])],
        )

    def blocks(self) -> list[Block]:
        """Return the edits, the course of the fit and the parameters."""
        course: list[list[object]] = [
            ["algorithm", self.estimator],
            ["rounds", self.rounds],
            ["features used", f"{self.features_used} of {self.features_known}"],
            ["best round", self.best_iteration],
            ["best score on validation", self.best_score],
            ["stopped", self.stop_reason],
            ["seed", number(self.seed)],
            ["intercept", self.intercept],
            ["log-odds for a unit of the score", self.link],
        ]
        parameters = [[name, str(value)] for name, value in self.parameters.items()]
        both = side_by_side(
            [Table(["what", "value"], course, "name name")],
            Group([Table(["parameter", "value"], parameters, "name name")], "flow"),
        )
        if not self.edits:
            return [both]
        edits = [[each.term, each.what, each.before, each.after] for each in self.edits]
        head = ["term", "edit", "pairs in order before", "after"]
        return [
            Paragraph("The model was edited by hand:"),
            Table(head, edits, "name name n n"),
            both,
        ]


def making_section(made: Mapping[str, Making], libraries: Mapping[str, str]) -> Section | None:
    """Return how each model was made, and the versions of the libraries."""
    if not made:
        return None
    blocks: list[Block] = []
    for name, each in made.items():
        blocks += [*([Heading(name)] if len(made) > 1 else []), *each.blocks()]
    text = ", ".join(f"{name} {version}" for name, version in libraries.items())
    blocks.append(Paragraph(text, "note"))
    return Section("making", "How made", "How it was made", blocks)


def _read_edit(edit: Mapping[str, object]) -> Edit:
    known = ("term", "edit", "rows", "score_before", "score_after")
    rest = [f"{name} {_parameter(value)}" for name, value in edit.items() if name not in known]
    before, after = plain_value(edit.get("score_before")), plain_value(edit.get("score_after"))
    return Edit(str(edit.get("term")), ", ".join([str(edit.get("edit")), *rest]), before, after)


def _parameter(value: object) -> Parameter:
    """Return a parameter for JSON, without memory addresses in its repr."""
    if isinstance(value, Judgments):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return plain_value(value)
    if isinstance(value, list | tuple):
        return [_parameter(each) for each in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


# -- training rows compared with held-out rows ---------------------------------------------------


def training_subject(
    train: object, models: object, relevant: float | None = None
) -> Subject | None:
    """Read ``train``: (X, y), (X, y, qid), or (X, Judgments)."""
    if train is None:
        return None
    if not isinstance(train, list | tuple) or len(train) not in (2, 3):
        raise ValueError("train must be (X, y) or (X, y, qid), the rows the model was fitted on")
    named = named_models(models)
    if not named:
        raise ValueError("train needs a model to score the training rows; leave train out")
    X, y, *qid = train
    return Subject.of(named, None, X, y, qid=qid[0] if qid else None, relevant=relevant)


def training_of(
    held_out: Subject, train: Subject | None, metrics: Sequence[str] | None, level: float
) -> Training | None:
    """Return metrics on the training rows, and the queries and rows shared with the report."""
    if train is None:
        return None
    models = [
        quality_of(train, each, query_metrics(train, each.scores, metrics), metrics, level)
        for each in train.candidates
    ]
    return Training(
        rows=train.scores.size,
        queries=None if train.is_one_list else len(train.query[1]),
        models=models,
        shared_queries=_shared_queries(held_out, train),
        shared_rows=_shared_rows(held_out.X, train.X),
    )


def _shared_queries(one: Subject, other: Subject) -> int:
    if one.is_one_list or other.is_one_list:
        return 0
    return len(set(map(str, one.query[1])) & set(map(str, other.query[1])))


def _shared_rows(one: MatrixLike, other: MatrixLike) -> int:
    """Count the rows of one table whose features equal those of a row of the other."""
    tables = [np.ascontiguousarray(dense(X)) + 0.0 for X in (one, other)]  # -0.0 is 0.0
    known = {row.tobytes() for row in tables[1]}
    return sum(row.tobytes() in known for row in tables[0])
