"""Rows to rank, as they are read from files: features, their names, and judgments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import scipy.sparse

from precede.engine.arrays import Array, Floats, Integers, MatrixLike, VectorLike
from precede.engine.parameters import Argument, ParameterError, ParameterWarning, pluralize
from precede.files.streams import FileName
from precede.judgments import Judgments, number_queries

# Names that pandas gives to the index of a data frame in files.
_INDEX = re.compile(r"|__index_level_[0-9]+__|Unnamed: 0(\.[0-9]+)*")
# Names of columns that are, or may be, the query; lower case, letters only.
_QUERY_WORDS = frozenset({"qid", "queryid", "query"})
_POSSIBLE_QUERY_WORDS = frozenset({"group", "groupid", "listid", "searchid", "sessionid", "srchid"})
_FRAMES: tuple[Literal["pandas", "polars", "pyarrow"], ...] = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are not features.

    Parameters
    ----------
    label, qid, docid, weight : names of columns
        None takes the column with one of the usual names (see `USUAL`). Without such a column for
        the query, one called "query", or "qid" or "query_id" in another spelling, is used with a
        warning; one that may be the query ("group", "session_id") stays a feature, with a warning.
    drop : columns to leave out
    features : the only columns to use as features
    labels : columns of 0 and 1, if items have several labels to rank
    keep_index : whether to keep the index of a data frame (``__index_level_0__`` in parquet, a
        first column without a name or ``Unnamed: 0`` in CSV), which is otherwise left out with a
        warning unless another parameter names it
    remembered : pairs of a role and the name of its column when a model was fitted; used if the
        table has that column

    Examples
    --------
    >>> Roles(label="clicks").find(["clicks", "qid", "price"])
    {'label': 'clicks', 'qid': 'qid'}
    >>> Roles().find(["rel", "query", "price"])
    {'label': 'rel', 'qid': 'query'}
    """

    label: str | None = None
    qid: str | None = None
    docid: str | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    keep_index: bool = False
    remembered: tuple[tuple[str, str], ...] = ()

    USUAL = {  # noqa: RUF012  (a constant)
        "label": ("grade", "label", "relevance", "rel", "y"),
        "qid": ("qid", "query_id"),
        "docid": ("docid", "docno", "doc_id"),
        "weight": ("weight", "sample_weight"),
    }

    def find(self, names: Sequence[str], where: str = "the table") -> dict[str, str]:
        """Return the column of every role that the table has."""
        for wanted in (*self.drop, *(self.features or ()), *self.labels):
            if wanted not in names:
                raise ValueError(f"{where} has no column {wanted!r}; it has {quoted(names)}")
        found: dict[str, str] = {}
        kept = [name for name in names if name not in (*self.drop, *self.labels)]
        for role, usual in self.USUAL.items():
            given = getattr(self, role)
            if given is None:
                given = next((n for r, n in self.remembered if r == role and n in kept), None)
            candidates = [name for name in usual if name in kept] if given is None else [given]
            if given is not None and given not in names:
                raise ValueError(
                    f"{where} has no column {given!r} for {role}; it has {quoted(names)}"
                )
            if len(candidates) > 1:
                raise ValueError(
                    f"columns {quoted(candidates)} of {where} could all be the {role}; "
                    f"name one, and drop the others if they are no features"
                )
            if role == "qid" and not candidates and not self.remembered:
                candidates = self._columns_named(names, _QUERY_WORDS)
                candidates = candidates if len(candidates) == 1 else []
            if candidates:
                found[role] = candidates[0]
        if len(set(found.values())) < len(found):
            raise ValueError(f"{where}: one column cannot have two roles ({found})")
        return found

    def query_warning(
        self, path: FileName, names: Sequence[str], found: dict[str, str]
    ) -> ParameterWarning | None:
        """Return a warning if the query was guessed or another column may be it, else None."""
        if self.qid is not None or self.features is not None or self.remembered:
            return None
        taken = found.get("qid")
        if taken is not None and taken not in self.USUAL["qid"]:
            return ParameterWarning(
                f"{path}: column {taken!r} is taken for the query; say so with ",
                Argument("qid", taken),
                ", or rename it if it is a feature",
            )
        alike = [] if taken else self._columns_named(names, _QUERY_WORDS | _POSSIBLE_QUERY_WORDS)
        if not alike:
            return None
        return ParameterWarning(
            f"{path}: column {quoted(alike)} is read as a feature, and all rows as one list; if "
            "it says which rows belong together, use ",
            Argument("qid", alike[0]),
            ", otherwise rename it",
        )

    def _columns_named(self, names: Sequence[str], words: frozenset[str]) -> list[str]:
        """Return the columns without another role whose names are among the words."""
        others = {self.label, self.docid, self.weight, *self.drop, *self.labels}
        return [
            name for name in names
            if name not in others and re.sub("[^a-z]", "", name.lower()) in words
        ]  # fmt: skip

    def feature_columns(
        self, names: Sequence[str], found: dict[str, str], *, unnamed: bool = False
    ) -> tuple[list[str], list[str]]:
        """Return the names of the features and of index columns that are left out.

        `unnamed` says that the first column has no name in the file.
        """
        if self.features is not None:
            return [*self.features, *self.labels], []
        others = {*found.values(), *self.drop}
        features = [name for name in names if name not in others]
        if self.keep_index:
            return features, []
        index = {name for name in features if _INDEX.fullmatch(name)}
        index |= {names[0]} if unnamed else set()
        index -= {*others, *self.labels}
        left_out = [name for name in features if name in index]
        return [name for name in features if name not in index], left_out


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to rank: features, their names, and judgments.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, features); NaN is missing
    y : grades, or None
    qid : query identifiers, whole numbers or text, or None for a single list
    docid : names of the documents, or None
    weight, pairs, pair_weight : as in `Judgments`, or None
    feature_names : one name for each column; for a LETOR file the feature numbers
    labels, label_names : a column of 0 and 1 for each label, if items have several
    zeros : whether an absent feature is 0 (LETOR) or an error (tables)

    Examples
    --------
    >>> import io, sys
    >>> data = Data(np.array([[0.5], [1.5]]), y=np.array([0.0, 1.0]), feature_names=["price"])
    >>> data
    Data(2 rows, 1 feature, 1 pair)
    >>> data.judgments.n_pairs
    1
    """

    X: MatrixLike
    y: Floats | None = None
    qid: Array | None = None
    docid: Array | None = None
    weight: Floats | None = None
    pairs: Integers | None = None
    pair_weight: Floats | None = None
    feature_names: Sequence[str] = field(default_factory=list)
    labels: Floats | None = None
    label_names: Sequence[str] = ()
    zeros: bool = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        parts = [pluralize(len(self), "row"), pluralize(self.X.shape[1], "feature")]
        if self.qid is not None:
            parts.append(pluralize(np.unique(number_queries(self.qid)[0]).size, "query"))
        if self.y is not None or self.pairs is not None:
            parts.append(pluralize(self.judgments.n_pairs, "pair"))
        return f"Data({', '.join(parts)})"

    @property
    def judgments(self) -> Judgments:
        """Judgments of the rows, for `fit` and the metrics."""
        if self.y is None and self.pairs is None:
            raise ParameterError(
                "the data have no grades and no pairs; name the column that holds the grades (",
                Argument("label", in_python="label=..."),
                ") or give a file of pairs",
            )
        return self._judgments()

    def _judgments(self) -> Judgments:
        return Judgments(
            self.y, self.qid, pairs=self.pairs, pair_weight=self.pair_weight,
            weight=self.weight, n=len(self),
        )  # fmt: skip

    def __getitem__(self, rows: VectorLike) -> Data:
        """Return some of the rows; a pair is kept if both its rows are."""
        index = np.arange(len(self))[rows]
        judgments = self._judgments()[index]
        return replace(
            self, X=self.X[index], y=judgments.grade, qid=judgments.qid, weight=judgments.weight,
            pairs=judgments.pairs, pair_weight=judgments.pair_weight,
            docid=None if self.docid is None else self.docid[index],
            labels=None if self.labels is None else self.labels[index],
        )  # fmt: skip

    def with_features(self, names: Sequence[str]) -> Data:
        """Return the columns with these names, in this order.

        An absent column is 0 in data from a LETOR file, which leaves zeros out, and an error in
        data from a table.
        """
        names = [str(name) for name in names]
        if len(names) == len(self.feature_names) and names == list(self.feature_names):
            return self
        column_of = {name: column for column, name in enumerate(self.feature_names)}
        missing = [name for name in names if name not in column_of]
        if missing and not (self.zeros and len(missing) < len(names)):
            raise ValueError(
                f"the data have no column {quoted(missing)}, which the model knows; "
                f"they have {quoted(self.feature_names)}"
            )
        moves = [(column_of[name], new) for new, name in enumerate(names) if name in column_of]
        old, new = (list(each) for each in zip(*moves, strict=True))
        if scipy.sparse.issparse(self.X):
            chosen = scipy.sparse.csr_matrix(
                (np.ones(len(new)), (old, new)), shape=(self.X.shape[1], len(names))
            )
            return replace(self, X=(self.X @ chosen).tocsr(), feature_names=names)
        X = np.zeros((len(self), len(names)))
        X[:, new] = self.X[:, old]
        return replace(self, X=X, feature_names=names)

    def frame(self) -> Any:
        """Return the features as a data frame of pandas, polars or pyarrow, if one is installed."""
        X = self.X.toarray() if scipy.sparse.issparse(self.X) else self.X
        return installed_frame({name: X[:, c] for c, name in enumerate(self.feature_names)})


def installed_frame(columns: Mapping[str, Array]) -> Any:
    """Return columns as a data frame of the first library of frames that is installed."""
    import narwhals as nw  # noqa: PLC0415  (needed for frames only)

    for library in _FRAMES:
        if find_spec(library) is not None:
            return nw.from_dict(dict(columns), backend=library).to_native()
    raise ImportError(f"a data frame needs {', '.join(_FRAMES)}; install one of them")


def quoted(names: Sequence[object]) -> str:
    """Return names in quotation marks, eight at most."""
    shown = ", ".join(repr(str(name)) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
