"""Judgments about the order of items: grades, queries, pairs, weights, labels.

A `Judgments` is a target that scikit-learn can slice. `Judgments.to_layout` turns it into a
`QueryLayout`: rows sorted by query and grade, so that every relevance level is a slice and sums
over pairs become sums over levels. The pairs of graded labels are never enumerated.

Only this module checks y, qid, group, pairs, weights, scores and feature names; every error names
the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from reprlib import repr as shown

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precede.engine.arrays import Array, Floats, Integers, MatrixLike, VectorLike
from precede.engine.execution import warn_caller
from precede.engine.frames import is_missing
from precede.engine.parameters import Argument, ParameterWarning, pluralize
from precede.engine.query_layout import (
    QueryLayout,
    check_balance,
    layouts,
)

__all__ = ["Judgments"]


# Attributes with one number for each explicit pair or tie.
_DETAILS = {"pairs": ("pair_weight", "pair_margin"), "ties": ("tie_weight",)}


class Judgments:
    """Judgments about the order of n items, which can be sliced by row.

    Item i should rank above item k (a *crucial pair*) when both belong to the same query
    and ``grade[i] > grade[k]``, or when ``(i, k)`` is listed in `pairs`. Both kinds may be
    given together; their weights add up.

    Parameters
    ----------
    grade : array of n numbers, optional
        Graded relevance; only the order inside a query matters, so negative and real values
        are allowed. NaN means that the row has no grade. An ordered categorical of pandas and an
        Enum of polars count 0, 1, ... in the order of their categories.
    qid : array of n query identifiers of any type, optional
        In any order. Absent means one query that holds every row.
    pairs : array of shape (m, 2), optional
        Rows (winner, loser). A pair may join two queries.
    pair_weight : array of m non-negative numbers, optional
    pair_margin : array of m non-negative numbers, optional
        By how much the score of the winner should exceed that of the loser: the degree of each
        preference. Used by the losses with ``margin="gap"``: `QBRank`, and `BoostedRanker` and
        `PushRanker` with ``loss=Hinge("gap")`` or ``SquaredHinge("gap")``; refused elsewhere.
    ties : array of shape (t, 2), optional
        Rows judged equally good. A tie counts as half a pair in each direction: it draws the
        two scores together in training. Metrics leave ties out.
    tie_weight : array of t non-negative numbers, optional
    weight : array of n non-negative numbers, optional
        An item weight multiplies every pair of the item: 2 counts it twice, 0 leaves it out.
    label : array of n numbers, optional
        Absolute targets, for algorithms that learn from values as well as from order. NaN
        means that the row has none.
    n : int, optional
        Number of rows, needed only when nothing but `pairs` and `ties` is given.
    grade_order : sequence, optional
        The values of `grade` from the lowest to the highest, where they are text: grades are
        then 0, 1, ... Text without an order is refused.

    Notes
    -----
    Slicing costs O(rows + pairs) and keeps a pair or tie when both its rows are kept. The pairs
    of a row that is taken twice, as in a bootstrap sample, occur twice, as with weight 2.

    Examples
    --------
    >>> from precede import Judgments
    >>> judgments = Judgments.graded([2, 0, 1, 1], qid=["a", "a", "a", "b"])
    >>> judgments
    Judgments(4 rows, 2 queries, 3 pairs)
    >>> judgments[[0, 1, 3]]
    Judgments(3 rows, 2 queries, 1 pair)
    >>> Judgments(pairs=[(0, 1), (0, 2)], ties=[(1, 2)], n=3)
    Judgments(3 rows, no query, 2 pairs, 1 tie)
    >>> Judgments(["high", "low", "high"], grade_order=["low", "high"]).grade
    array([1., 0., 1.])
    """

    def __init__(
        self,
        grade: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        ties: ArrayLike | None = None,
        tie_weight: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        label: ArrayLike | None = None,
        n: int | None = None,
        grade_order: Sequence[Hashable] | None = None,
    ):
        self.grade = _graded(grade, grade_order)
        self.label = _given(label, "label")
        self.weight = None if weight is None else np.array(check_weights(weight, "weight"))
        self.qid = None if qid is None else _identifiers(qid)
        self._n = self._common_length(n)
        self.pairs = _check_pairs(pairs, self._n)
        self.pair_weight = _check_pair_details(pair_weight, "pair_weight", self.pairs)
        self.pair_margin = _check_pair_details(pair_margin, "pair_margin", self.pairs)
        self.ties = _check_pairs(ties, self._n, "ties")
        self.tie_weight = _check_pair_details(tie_weight, "tie_weight", self.ties, "ties")

    # -- alternative constructors ------------------------------------------------------------

    @classmethod
    def graded(cls, y: ArrayLike, qid: ArrayLike | None = None, **others: VectorLike) -> Judgments:
        """Create judgments from graded labels inside queries, the usual case in search.

        >>> Judgments.graded([1, 0, 2], qid=[7, 7, 7]).n_pairs
        3
        """
        return cls(grade=y, qid=qid, **others)

    @classmethod
    def bipartite(cls, y: ArrayLike, **others: VectorLike) -> Judgments:
        """Create judgments from two classes: every positive should rank above every negative.

        >>> Judgments.bipartite([True, False, False]).n_pairs
        2
        """
        grade = _graded(y, others.pop("grade_order", None), "y")
        distinct = np.unique(check_column(grade, "y", empty=True))
        if distinct.size > 2:
            raise ValueError(
                f"a two-class target has two values, this one has {distinct.size} "
                f"({', '.join(f'{v:g}' for v in distinct[:4])}, ...); "
                "use Judgments.graded for more than two grades"
            )
        return cls(grade=grade, **others)

    @classmethod
    def preferences(
        cls,
        better: ArrayLike,
        worse: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        item_weight: ArrayLike | None = None,
        n: int | None = None,
        **others: VectorLike,
    ) -> Judgments:
        """Create judgments from comparisons: ``better[j]`` should rank above ``worse[j]``.

        `weight` has one number per comparison, `item_weight` one per row; `n` is the number of
        rows of X, by default the largest row number plus one.

        >>> Judgments.preferences([0, 0], [1, 2], weight=[1.0, 2.0], n=4).n_pairs
        2
        """
        better, worse = np.atleast_1d(np.asarray(better)), np.atleast_1d(np.asarray(worse))
        if better.shape != worse.shape:
            raise ValueError(
                f"better has {better.size} rows and worse {worse.size}; give one of each per pair"
            )
        pairs = _check_pairs(np.stack([better, worse], axis=1), None)
        is_sized = any(others.get(name) is not None for name in ("grade", "qid", "label"))
        if n is None and item_weight is None and not is_sized:
            ties = _check_pairs(others.get("ties"), None, "ties")
            n = 1 + max(int(rows.max(initial=-1)) for rows in (pairs, ties) if rows is not None)
        return cls(pairs=pairs, pair_weight=weight, weight=item_weight, n=n, **others)

    @classmethod
    def read(
        cls,
        frame: MatrixLike,
        *,
        grade: str | None = None,
        qid: str | None = None,
        weight: str | None = None,
        label: str | None = None,
        **others: VectorLike,
    ) -> Judgments:
        """Create judgments from columns of a data frame (pandas, polars, arrow), by name.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"rel": [1, 0], "query": ["a", "a"]})
        >>> Judgments.read(frame, grade="rel", qid="query").n_pairs
        1
        """
        import narwhals as nw  # noqa: PLC0415  (only needed for data frames)

        table = nw.from_native(frame, eager_only=True)
        named = {"grade": grade, "qid": qid, "weight": weight, "label": label}
        for role, column in named.items():
            if column is not None and column not in table.columns:
                raise ValueError(
                    f"{role}={column!r} is not a column of the frame; it has {table.columns}"
                )
        fields = {role: table[c].to_numpy() for role, c in named.items() if c is not None}
        if grade is not None and _ordered_codes(table[grade].to_native()) is not None:
            fields["grade"] = table[grade].to_native()
        return cls(**fields, n=len(table), **others)

    # -- a sequence of rows ----------------------------------------------------------------

    def __len__(self) -> int:
        return self._n

    @property
    def shape(self) -> tuple[int]:
        """One target per row: ``(n,)``."""
        return (self._n,)

    def __array__(self, *_: object, **__: object) -> Array:
        raise ValueError(
            f"{self!r} is given where numbers are expected; pass one of its arrays, such as "
            "its grade, qid or pairs"
        )

    def __getitem__(self, rows: VectorLike) -> Judgments:
        index = np.atleast_1d(np.arange(self._n)[rows])
        kept = {name: self._take(name, index) for name in ("grade", "qid", "weight", "label")}
        for name, details in _DETAILS.items():
            listed = getattr(self, name)
            if listed is not None:
                kept[name], old = self._sliced_pairs(listed, index)
                kept |= {each: self._take(each, old) for each in details}
        return Judgments(n=index.size, **kept)  # type: ignore[arg-type]

    def _take(self, name: str, rows: Integers) -> Array | None:
        values: Array | None = getattr(self, name)
        return None if values is None else values[rows]

    def as_one_query(self) -> Judgments:
        """Return the same grades without queries: every row is compared with every other.

        >>> Judgments([1, 0, 1, 0], qid=["a", "a", "b", "b"]).as_one_query().n_pairs
        4
        """
        return self._with(qid=None)

    def _with(self, **changes: ArrayLike | None) -> Judgments:
        """Return a copy with some of the fields changed."""
        fields = {name: each for name, each in vars(self).items() if name != "_n"}
        return Judgments(**fields | changes, n=self._n)

    def _without_ties(self) -> Judgments:
        return self if self.ties is None else self._with(ties=None, tie_weight=None)

    def _sliced_pairs(self, listed: Integers, index: Integers) -> tuple[Integers, Integers]:
        """Return the pairs of which both rows are kept, renumbered, and their old numbers."""
        copies = np.bincount(index, minlength=self._n)
        kept = np.flatnonzero((copies[listed] > 0).all(axis=1))
        # New rows grouped by their old row: the copies of row r are
        # by_row[first[r] : first[r] + copies[r]].
        by_row = np.argsort(index, kind="stable")
        first = np.cumsum(copies) - copies
        winner, loser = listed[kept].T
        times = copies[winner] * copies[loser]
        source = np.repeat(np.arange(kept.size), times)
        within = np.arange(source.size) - np.repeat(np.cumsum(times) - times, times)
        copy = np.divmod(within, copies[loser][source])
        sliced = [
            by_row[first[rows[source]] + c] for rows, c in zip((winner, loser), copy, strict=True)
        ]
        return np.stack(sliced, axis=1), kept[source]

    def __repr__(self) -> str:
        queries = 0 if self.qid is None else np.unique(self._query()).size
        parts = [_count(self._n, "row"), _count(queries, "query"), _count(self.n_pairs, "pair")]
        parts += [] if self.ties is None else [_count(len(self.ties), "tie")]
        return f"Judgments({', '.join(parts)})"

    # -- pairs -------------------------------------------------------------------------------

    @property
    def n_pairs(self) -> int:
        """Number of crucial pairs, of any weight and without ties, in O(n log n)."""
        listed = 0 if self.pairs is None else len(self.pairs)
        if self.grade is None:
            return listed
        unweighted = Judgments(self.grade, self.qid)
        return listed + unweighted.to_layout().count_graded_pairs()

    def pairs_of(self, query: Hashable = None) -> Iterator[tuple[int, int]]:
        """Enumerate the crucial pairs of one query: O(n²)."""
        inside = np.ones(self._n, bool) if self.qid is None else self.qid == query
        rows = np.flatnonzero(inside)
        if self.grade is not None:
            for i in rows:
                yield from ((int(i), int(k)) for k in rows if self.grade[i] > self.grade[k])
        if self.pairs is not None:
            yield from ((int(i), int(k)) for i, k in self.pairs if inside[k])

    def to_layout(self, balance: str = "pairs", *, labeled: bool = False) -> QueryLayout:
        """Sort the rows that take part in a comparison by query and grade.

        Parameters
        ----------
        balance : {"pairs", "queries", "items"}
            Every pair weighs the same; or the weights of the pairs of a query add up to 1; or to
            the number of its items that occur in a pair, which is between the two. An explicit
            pair, and each half of a tie, belongs to the query of its loser.
        labeled : bool
            Whether to include rows that have a label but no pair.

        Notes
        -----
        O(n log n) time and O(n) memory.
        """
        return layouts(self, (check_balance(balance),), labeled)[0]

    # -- helpers ---------------------------------------------------------------------------

    def _query(self) -> Integers:
        """Number the queries 0, 1, ... in the order of their identifiers."""
        if self.qid is None:
            return np.zeros(self._n, np.int64)
        return number_queries(self.qid)[0]

    def _common_length(self, n: int | None) -> int:
        lengths = {
            name: len(values)
            for name in ("grade", "qid", "weight", "label")
            if (values := getattr(self, name)) is not None
        }
        if n is not None:
            if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0:
                raise ValueError(f"n={n!r} is not a number of rows; use a whole number from 0")
            lengths["n"] = int(n)
        if not lengths:
            raise ValueError(
                "nothing says how many rows there are; give grade, qid, label or n as well"
            )
        if len(set(lengths.values())) > 1:
            parts = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise ValueError(f"lengths differ ({parts}); give one value per row of X")
        return next(iter(lengths.values()))


def _given(values: ArrayLike | None, name: str) -> Floats | None:
    """Return a copy of grades or labels, with NaN for missing ones."""
    if values is None:
        return None
    return np.array(check_column(values, name, missing=True, empty=True))


def _graded(
    values: VectorLike, grade_order: Sequence[Hashable] | None = None, name: str = "grade"
) -> Floats | None:
    """Return grades as numbers; ordered categories, or values with an order, count from 0."""
    ordered = _ordered_codes(values)
    if grade_order is not None:
        return _in_order(values, grade_order, name)
    if ordered is not None:
        return ordered[0]
    if values is not None and (kinds := _kinds_of_text(values)).size:
        raise ValueError(f"{name} must be numbers, but {_no_order(kinds)}")
    return _given(values, name)


def _in_order(values: VectorLike, grade_order: Sequence[Hashable], name: str) -> Floats:
    """Return the position of every value in the order; NaN for a missing value."""
    if values is None:
        raise ValueError("grade_order is given without grade; give the grades as well")
    if isinstance(grade_order, str) or not isinstance(grade_order, Iterable):
        raise ValueError(f"grade_order={grade_order!r}: list the grades, the lowest first")
    listed = list(grade_order)
    grade_of = {value: number for number, value in enumerate(listed)}
    if len(grade_of) < len(listed):
        raise ValueError(f"grade_order={listed!r} names a grade twice")
    column = _flat(_as_array(values, name), name).tolist()
    grade = np.full(len(column), np.nan)
    for row, value in enumerate(column):
        if value in grade_of:
            grade[row] = grade_of[value]
        elif not is_missing(value):
            raise ValueError(f"{name}[{row}] is {value!r}, which is not in grade_order={listed!r}")
    return grade


def _ordered_codes(values: VectorLike) -> tuple[Floats, Array] | None:
    """Return codes (NaN is missing) and categories of an ordered categorical or polars Enum."""
    if not hasattr(values, "dtype"):
        return None
    kind = values.dtype
    if getattr(kind, "ordered", False):
        column = values.cat if hasattr(values, "cat") else values
        codes = np.asarray(column.codes, np.float64)
        return np.where(codes < 0, np.nan, codes), np.array(list(kind.categories))
    if type(kind).__name__ == "Enum":
        codes = values.to_physical().cast(float).to_numpy()
        return np.array(codes, np.float64), np.array(list(kind.categories))
    return None


def _kinds_of_text(values: VectorLike) -> NDArray[np.str_]:
    """Return the distinct texts if some of the values are not numbers."""
    none = np.zeros(0, np.str_)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths, or Judgments: refused elsewhere
        return none
    texts = array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(value, str) for value in array.flat)
    )
    names = np.unique(array.astype(np.str_)) if texts else none
    return none if _are_numbers(names) else names


def _no_order(names: NDArray[np.str_]) -> str:
    """Say that text has no order, and how to give one."""
    shown = ", ".join(repr(str(name)) for name in names[:3]) + (", ..." if names.size > 3 else "")
    return (
        f"it holds text of {names.size} kinds ({shown}), whose order is not known; map text to "
        "numbers, or say which is the lowest grade and which the highest: "
        "Judgments(y, grade_order=[lowest, ..., highest]), or an ordered categorical"
    )


# -- the checks that every public function uses ------------------------------------------------


def to_numbers(values: VectorLike, name: str) -> Floats:
    """Convert to a float64 array of any shape; raise ValueError for values that are not numbers.

    >>> to_numbers([[1, True]], "X")
    array([[1., 1.]])
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise ValueError("some are complex")
        # Nullable columns of pandas become arrays of objects, but convert to numbers themselves.
        return np.asarray(values if array.dtype.kind == "O" else array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be numbers, but {error}; map text to numbers first"
        ) from error


def check_column(
    values: VectorLike,
    name: str,
    rows: int | None = None,
    *,
    missing: bool = False,
    infinite: bool = False,
    empty: bool = False,
) -> Floats:
    """Return one number per row; raise ValueError for a value that is not allowed.

    `missing` allows NaN, `infinite` infinities, `empty` no rows at all. A column vector of shape
    (n, 1) is flattened.

    >>> check_column([1, 2], "scores", rows=2)
    array([1., 2.])
    """
    column = _flat(to_numbers(values, name), name)
    if rows is not None and column.size != rows:
        raise ValueError(f"{name} has {column.size} values for {rows} rows; give one per row")
    if not column.size and not empty:
        raise ValueError(f"{name} has shape {column.shape}; give at least one row")
    bad = (np.isnan(column) & (not missing)) | (np.isinf(column) & (not infinite))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name}[{row}] is {column[row]}; drop the row or give a finite number")
    return column


def check_scores(values: VectorLike, name: str, rows: int | None = None) -> Floats:
    """Return one score per row: a finite number, or −inf for a row that was not returned.

    >>> check_scores([1, -np.inf], "scores")
    array([  1., -inf])
    """
    column = check_column(values, name, rows, infinite=True)
    check_column(np.where(np.isneginf(column), 0.0, column), name)
    return column


def check_weights(values: VectorLike, name: str, rows: int | None = None) -> Floats:
    """Return one weight per row: 0, or a number whose products and sums stay finite."""
    array = check_column(values, name, rows, empty=True)
    if (array < 0).any():
        row = int(np.flatnonzero(array < 0)[0])
        raise ValueError(f"{name}[{row}] is {array[row]:g}; weights cannot be negative")
    # Products of two weights and sums of very many of them must stay finite and above 0.
    extreme = (array > 0) & ((array < 1e-100) | (array > 1e100))
    if extreme.any():
        row = int(np.flatnonzero(extreme)[0])
        raise ValueError(
            f"{name}[{row}] is {array[row]:g}; rescale the weights to between 1e-100 and 1e100, "
            "or use 0 for rows that should not count"
        )
    return array


def sample_weights(
    sample_weight: VectorLike, rows: int, name: str = "sample_weight"
) -> Floats | None:
    """Return the weights of the rows; a single number stands for all of them."""
    if sample_weight is None:
        return None
    if np.ndim(to_numbers(sample_weight, name)) == 0:
        sample_weight = np.full(rows, float(sample_weight))
    return check_weights(sample_weight, name, rows)


def _flat(array: Array, name: str) -> Array:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must have one dimension")
    return array


def _as_array(values: ArrayLike, name: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths, or Judgments
        raise ValueError(f"{name} is not an array: {error}") from error


def check_labels(values: VectorLike, name: str, rows: int | None = None) -> Array:
    """Return one label per row, of any type (numbers, text, dates); missing ones are refused.

    >>> check_labels(["good", "bad"], "y", rows=2).tolist()
    ['good', 'bad']
    """
    array = _flat(_as_array(values, name), name)
    _refuse_missing(array, name, "label")
    if rows is not None and array.size != rows:
        raise ValueError(f"{name} has {array.size} labels for {rows} rows; give one per row")
    return array


def number_queries(
    qid: VectorLike, rows: int | None = None, name: str = "qid"
) -> tuple[Integers, Array]:
    """Number query identifiers of any type 0, 1, ...; equal identifiers get equal numbers.

    Return the number of every row, and the identifier of every number: sorted, or in order of
    first occurrence if they are objects other than text. Missing identifiers (None, NaN, NaT) are
    refused. If `qid` is None, all `rows` are one query. O(n log n).

    >>> number_queries(["b", "a", "b"])
    (array([1, 0, 1]), array(['a', 'b'], dtype='<U1'))
    """
    array = np.zeros(rows or 0, np.int64) if qid is None else _identifiers(qid, name)
    if rows is not None and array.size != rows:
        raise ValueError(f"{name} has {array.size} values for {rows} rows; give one per row")
    if array.dtype.kind != "O" or {type(value) for value in array} <= {str}:
        names, number = np.unique(array, return_inverse=True)
        return number.astype(np.int64), names
    seen: dict[Hashable, int] = {}
    number = np.array([seen.setdefault(value, len(seen)) for value in array], np.int64)
    names = np.empty(len(seen), object)
    names[:] = list(seen)
    return number, names


def _identifiers(values: ArrayLike, name: str = "qid") -> Array:
    if isinstance(values, list | tuple) and len({type(value) for value in values}) > 1:
        array = np.empty(len(values), object)  # asarray would turn [1, "1"] into equal texts
        array[:] = values
    else:
        array = _flat(_as_array(values, name), name)
    _refuse_missing(array, name, "query identifier")
    return array


def _refuse_missing(array: Array, name: str, what: str) -> None:
    missing = np.zeros(array.size, bool)
    if array.dtype.kind in "fcmM":
        missing = np.isnat(array) if array.dtype.kind in "mM" else np.isnan(array)
    elif array.dtype.kind == "O":
        missing = np.array([is_missing(value) for value in array], bool)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"{name}[{row}] is {array[row]}; every row needs a {what}")


def _count(number: int, noun: str) -> str:
    """Return a count and its noun, such as "1 pair", "3 queries", "no query"."""
    return pluralize(number, noun) if number else f"no {noun}"


def _check_pairs(pairs: ArrayLike | None, n: int | None, name: str = "pairs") -> Integers | None:
    """Return pairs as integers; `n` is the number of rows, None if not known yet."""
    if pairs is None:
        return None
    array = _as_array(pairs, name)
    if array.dtype.kind == "O":  # whole numbers of pandas' nullable kinds
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be row numbers, but {error}") from error
    if array.size == 0:
        return np.zeros((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        sides = "(winner, loser)" if name == "pairs" else "(one, other)"
        raise ValueError(f"{name} has shape {array.shape}; give {sides} rows, shape (m, 2)")
    if array.dtype.kind not in "iu":
        if array.dtype.kind != "f" or not np.array_equal(array, np.floor(array)):
            raise ValueError(f"{name} must be row numbers, not {array.dtype}")
        array = array.astype(np.int64)
    bad = (array < 0) | (array >= (np.inf if n is None else n))
    if bad.any():
        j, side = np.argwhere(bad)[0]
        raise ValueError(
            f"{name}[{j}, {side}] is {array[j, side]}, but there are {n or 'some'} rows; "
            f"use row numbers from 0{'' if n is None else f' to {n - 1}'}"
        )
    same = np.flatnonzero(array[:, 0] == array[:, 1])
    if same.size:
        cannot = "precede itself" if name == "pairs" else "be compared with itself"
        raise ValueError(
            f"{name}[{same[0]}] is ({array[same[0], 0]}, {array[same[0], 1]}): "
            f"an item cannot {cannot}; remove the pair"
        )
    return array.astype(np.int64)


def _check_pair_details(
    given: ArrayLike | None, name: str, pairs: Integers | None, of: str = "pairs"
) -> Floats | None:
    """Return one number for each explicit pair or tie: a weight or a margin."""
    if given is None:
        return None
    if pairs is None:
        raise ValueError(f"{name} is given without {of}; give the {of} as well")
    if name.endswith("weight"):
        array = check_weights(given, name)
    else:
        array = check_column(given, name, empty=True)
        if (array < 0).any():
            j = int(np.flatnonzero(array < 0)[0])
            raise ValueError(f"{name}[{j}] is {array[j]:g}; use 0 or more, or swap the pair")
    if array.size != len(pairs):
        raise ValueError(
            f"{name} has {array.size} values for {len(pairs)} {of}; give one per {of[:-1]}"
        )
    return array


# -- arguments of fit and of metrics --------------------------------------------------------


def grades_of(y: VectorLike) -> tuple[Floats, Array]:
    """Return grades as numbers, and as they were given.

    An ordered categorical counts from 0 in its order; other text is refused.
    """
    from sklearn.utils import column_or_1d  # noqa: PLC0415  (slow to import)
    from sklearn.utils.validation import assert_all_finite  # noqa: PLC0415

    ordered = _ordered_codes(y)
    if ordered is not None:
        grade, categories = ordered
        if np.isnan(grade).any():
            raise ValueError("y has missing values; remove those rows")
        return grade, categories[grade.astype(np.int64)]
    try:
        y = np.asarray(y) if isinstance(y, list | tuple) else y
    except ValueError as error:
        raise ValueError(f"y must hold one grade for each row of X, but {error}") from error
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "O" and any(map(is_missing, y)):
        raise ValueError("Input y contains NaN or None; remove those rows, or use Judgments")
    kinds = _kinds_of_text(y)
    if kinds.size:
        raise ValueError(f"y must be numbers, but {_no_order(kinds)}")
    grade = to_numbers(y, "y")
    try:
        assert_all_finite(grade, input_name="y")
    except ValueError as error:
        at = int(np.flatnonzero(~np.isfinite(grade))[0])
        raise ValueError(f"{error} y[{at}] is {grade[at]}; remove those rows") from error
    return grade, y


def _are_numbers(names: Array) -> bool:
    try:
        names.astype(np.float64)
    except ValueError:
        return False
    return True


def numeric_grades(y: VectorLike, block: int | str) -> tuple[Floats, Array]:
    """Return the grades of a block of rows; text and categories are refused."""
    if y is None:
        raise ValueError(f"block {block} has no y; give the grade of every row")
    if isinstance(y, Judgments):
        raise ValueError(
            f"y of block {block} is a Judgments; give its parts as (X, grade, qid, weight), and "
            "pairs of all blocks as write_table(..., pairs=)"
        )
    if _ordered_codes(y) is not None:
        raise ValueError(
            f"y of block {block} is an ordered categorical, and other blocks may have other "
            "categories; map grades to numbers"
        )
    kind = np.asarray(y).dtype.kind
    if kind not in "biuf":
        raise ValueError(f"y of block {block} is not made of numbers; map grades to numbers")
    return grades_of(y)


def two_grades(judgments: Judgments, labels: Array | None) -> Array | None:
    """Return the two classes of a single list, the lower first; None for other targets.

    `labels` are numbers, of every row or of some rows of each class.
    """
    listed = judgments.pairs is not None or judgments.ties is not None
    if labels is None or judgments.qid is not None or listed:
        return None
    classes = np.unique(labels)
    return classes if classes.size == 2 else None


def one_graded_list(judgments: Judgments) -> bool:
    """Return whether the grades of all rows are compared, as there are no queries."""
    return judgments.grade is not None and judgments.qid is None


def warn_of_lost_queries(model: object, judgments: Judgments) -> None:
    """Warn if a model fitted with queries is evaluated on graded rows without queries.

    The warning is issued once for each line of the user's code, so that a grid search warns once.
    """
    steps = getattr(model, "steps", None)  # of a pipeline, whose last step is the ranker
    model = steps[-1][1] if steps else model
    if getattr(model, "has_queries_", False) and one_graded_list(judgments):
        in_python = (
            "qid, or y=Judgments(y, qid), which a Pipeline passes on and cross-validation slices"
        )
        warning = ParameterWarning(
            "the model was fitted with queries and is scored without: rows of different queries "
            "are compared with each other; pass ",
            Argument("qid", in_python=in_python),
        )
        warn_caller(warning, once=True)


def read_judgments(
    rows: int,
    y: VectorLike,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    pair_weight: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[Judgments, Array | None]:
    """Return the `Judgments` of any kind of target, and its two classes if it is a list of two."""
    _refuse_weights_of_queries(
        sample_weight, rows, y.qid if isinstance(y, Judgments) else qid, group
    )
    weight = sample_weights(sample_weight, rows)
    if isinstance(y, Judgments):
        given = {"qid": qid, "group": group, "pairs": pairs, "pair_weight": pair_weight}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise ValueError(
                f"{', '.join(extra)} given with Judgments; put everything into the Judgments"
            )
        if len(y) != rows:
            raise ValueError(f"the Judgments have {len(y)} rows and X has {rows}")
        if weight is not None:
            y = y._with(weight=weight if y.weight is None else weight * y.weight)
        return y, two_grades(y, y.grade)
    if group is not None:
        qid = _qid_of_group(group, qid, rows)
    grade, labels = (None, None) if y is None else grades_of(y)
    if grade is not None and grade.size != rows:
        raise ValueError(f"y has {grade.size} values and X has {rows} rows; give one per row")
    judgments = Judgments(grade, qid, pairs=pairs, pair_weight=pair_weight, weight=weight, n=rows)
    two = two_grades(judgments, grade)
    if two is None or grade is None or labels is None:
        return judgments, None
    return judgments, labels[[int(np.argmax(grade == each)) for each in two]]


def _refuse_weights_of_queries(
    weight: VectorLike, rows: int, qid: VectorLike, group: VectorLike
) -> None:
    """Refuse one weight for each query, and say how to give it to the rows."""
    if weight is None or (qid is None and group is None):
        return
    given = np.asarray(weight)
    count = given.size
    if given.ndim != 1 or count == rows:
        return
    if group is not None and np.size(group) == count:
        remedy = "np.repeat(sample_weight, group)"
    elif qid is not None and number_queries(qid)[1].size == count:
        remedy = "sample_weight[np.unique(qid, return_inverse=True)[1]] if they are in order of qid"
    else:
        return
    raise ValueError(
        f"sample_weight has {count} values, as many as there are queries, for {rows} rows; a "
        f"weight belongs to a row, so give every row that of its query: {remedy}"
    )


def qid_or_group(y: VectorLike, qid: VectorLike, group: ArrayLike | None) -> VectorLike:
    """Return `qid`, or query numbers from the sizes in `group`, for the rows of y.

    >>> qid_or_group([0, 1, 1], None, group=[1, 2]).tolist()
    [0, 1, 1]
    """
    if group is None:
        return qid
    if isinstance(y, Judgments):
        raise ValueError("group is given with a Judgments: put its queries inside, as qid")
    return _qid_of_group(group, qid, len(y))


def _qid_of_group(group: ArrayLike, qid: ArrayLike | None, n: int) -> Array:
    """Return query numbers from the sizes of consecutive queries (LightGBM's `group`)."""
    if qid is not None:
        raise ValueError("both qid and group are given; give one of them")
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise ValueError(
            f"group={shown(group)} must be the sizes of the queries, non-negative whole numbers; "
            "one identifier per row is qid"
        )
    if sizes.sum() != n:
        raise ValueError(
            f"the sizes in group add up to {sizes.sum()}, but X has {n} rows; "
            "qid (one identifier per row) is harder to get wrong"
        )
    return np.repeat(np.arange(sizes.size), sizes)


def read_grades(
    y: VectorLike, qid: VectorLike, weight: VectorLike = None, *, listed: bool = False
) -> tuple[VectorLike, VectorLike, VectorLike]:
    """Return grades, query ids and item weights, also of a `Judgments`.

    Explicit pairs and ties are refused unless `listed`; a `Judgments` of pairs only then has
    grades of 0.
    """
    if y is None:
        raise ValueError("y is None; give grades, or Judgments(pairs=..., n=...) of listed pairs")
    if not isinstance(y, Judgments):
        return y, qid, weight
    for name, given in {"qid": qid, "sample_weight": weight}.items():
        if given is not None:
            raise ValueError(f"{name} is given with a Judgments: put it inside, or pass y.grade")
    for name, rows in {"pairs": y.pairs, "ties": y.ties}.items():
        if not listed and rows is not None and len(rows):
            given = f"y lists {len(rows)} {name}, which would be ignored"
            raise ValueError(f"{given}: use precede.pairs_in_order, or leave them out of y")
    if y.grade is None and listed and y.pairs is not None and len(y.pairs):
        return np.zeros(len(y)), y.qid, y.weight
    if y.grade is None:
        raise ValueError("y is a Judgments without grades: give it some, Judgments(grade)")
    return y.grade, y.qid, y.weight


def check_within_queries(y: Judgments, pairs: Integers, name: str) -> None:
    """Refuse pairs that join two queries, which then are not independent units."""
    query = y._query()
    crossing = np.flatnonzero(query[pairs[:, 0]] != query[pairs[:, 1]])
    if crossing.size and y.qid is not None:
        one, other = y.qid[pairs[crossing[0]]].tolist()
        given = f"{name}[{crossing[0]}] joins the queries {one!r} and {other!r}"
        raise ValueError(f"{given}: leave qid out of y, or use precede.pairs_in_order")


def read_sample(
    y: VectorLike, qid: VectorLike = None, *, one_list: str = ""
) -> tuple[VectorLike, VectorLike]:
    """Return labels and queries, also from a `Judgments`; refuse weights and explicit pairs.

    `one_list` is the name of a function without queries, for the error message.
    """
    labels, queries, weight = read_grades(y, qid)
    refuse_weights(weight)
    if one_list and queries is not None:
        raise ValueError(f"y has queries, but {one_list} takes one list; pass y.grade to pool them")
    return labels, queries


def refuse_weights(weight: Floats | None) -> None:
    """Refuse item weights where every item counts alike."""
    if weight is not None and (weight != 1).any():
        why = "y has item weights, but here items are independent draws that count alike"
        raise ValueError(f"{why}; make the Judgments without them, or use precede.metrics")


# -- features -------------------------------------------------------------------------------


def feature_names(given: VectorLike, count: int) -> list[str]:
    """Return the names of the features as text, by default x0, x1, ...

    >>> feature_names(None, 2), feature_names(("size", 7), 2)
    (['x0', 'x1'], ['size', '7'])
    """
    if given is None:
        return [f"x{feature}" for feature in range(count)]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"feature_names={given!r}: give one name for each feature")
    names = [str(name) for name in given]
    if len(names) != count:
        raise ValueError(f"{len(names)} feature names for {count} features; give one for each")
    return names


def column_numbers(given: VectorLike, names: VectorLike, n_features: int) -> list[int]:
    """Return the numbers of the columns in `categorical_features`, sorted and unique.

    >>> column_numbers(["color", 0], ["size", "color"], 2)
    [0, 1]
    """
    return sorted(set(columns_in_order(given, names, n_features, "categorical_features")))


def columns_in_order(
    given: VectorLike, names: VectorLike, n_features: int, parameter: str
) -> list[int]:
    """Return the numbers of columns given by number or name, in the order given.

    `parameter` is the name of the argument, for error messages.

    >>> columns_in_order(["color", 0], ["size", "color"], 2, "monotone_constraints")
    [1, 0]
    """
    found = []
    for each in _listed_columns(given, parameter):
        if isinstance(each, str):
            if names is None:
                raise ValueError(
                    f"{parameter} names column {each!r}, but X has no column names; give "
                    "the number of the column, or a data frame"
                )
            known = [str(name) for name in names]
            if each not in known:
                raise ValueError(
                    f"{parameter} names column {each!r}; the columns are "
                    f"{', '.join(map(repr, known[:5]))}{', ...' if len(known) > 5 else ''}"
                )
            found.append(known.index(each))
        elif not 0 <= each < n_features:
            raise ValueError(f"{parameter} names column {each}, but there are {n_features}")
        else:
            found.append(int(each))
    return found


def _listed_columns(given: VectorLike, parameter: str) -> list[int | str]:
    listed = given.tolist() if isinstance(given, np.ndarray) else given
    if listed is None:
        return []
    if not isinstance(listed, list | tuple | set | range) or not all(
        isinstance(each, str | int | np.integer) and not isinstance(each, bool) for each in listed
    ):
        raise ValueError(f"{parameter}={given!r}: give a list of column numbers or names")
    return list(listed)
