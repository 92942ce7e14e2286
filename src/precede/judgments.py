"""What is known about the order of items: grades, queries, pairs, weights, labels.

A `Judgments` is a target that scikit-learn can slice. `Judgments.arrange` turns it into an
`Arrangement`: rows sorted by query and grade, so that every run of equal grade is a slice and
the sums over pairs become sums over runs. Nothing here ever lists the pairs of graded labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precede.engine.arrangement import (
    Arrangement,
    Integers,
    _arrange,
    check_balance,
)

__all__ = ["Judgments", "number_queries"]


Floats = NDArray[np.float64]

# What a `Judgments` is made of.
_FIELDS = (
    "grade", "qid", "pairs", "pair_weight", "pair_margin", "ties", "tie_weight", "weight", "label",
)  # fmt: skip


class Judgments:
    """What is known about the order of n items, sliceable row by row.

    Item i should stand above item k (a *crucial pair*) when both belong to the same query
    and ``grade[i] > grade[k]``, or when ``(i, k)`` is listed in `pairs`. Both kinds may be
    given together; their weights add up.

    Parameters
    ----------
    grade : array of n numbers, optional
        Graded relevance; only the order inside a query matters, so negative and real values
        are fine. NaN means that the row has no grade.
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
        An item weight multiplies every pair of the item: 2 is the item twice, 0 its absence.
    label : array of n numbers, optional
        Absolute targets, for algorithms that learn from values as well as from order. NaN
        means that the row has none.
    n : int, optional
        Number of rows, needed only when nothing but `pairs` and `ties` is given.

    Notes
    -----
    Slicing costs O(rows + pairs) and keeps a pair or tie when both its rows are kept. A row
    taken twice (a bootstrap sample) brings each of its pairs twice, as weight 2 would.

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
    ):
        self.grade = None if grade is None else _numbers(grade, "grade", allow_nan=True)
        self.label = None if label is None else _numbers(label, "label", allow_nan=True)
        self.weight = None if weight is None else _weights(weight, "weight")
        self.qid = None if qid is None else _identifiers(qid)
        self._n = self._common_length(n)
        self.pairs = _check_pairs(pairs, self._n)
        self.pair_weight = _check_of_pairs(pair_weight, "pair_weight", self.pairs)
        self.pair_margin = _check_of_pairs(pair_margin, "pair_margin", self.pairs)
        self.ties = _check_pairs(ties, self._n, "ties")
        self.tie_weight = _check_of_pairs(tie_weight, "tie_weight", self.ties, "ties")

    # -- other ways to make one ------------------------------------------------------------

    @classmethod
    def graded(cls, y: ArrayLike, qid: ArrayLike | None = None, **others: Any) -> Judgments:
        """Graded labels inside queries: the everyday case of search.

        >>> Judgments.graded([1, 0, 2], qid=[7, 7, 7]).n_pairs
        3
        """
        return cls(grade=y, qid=qid, **others)

    @classmethod
    def bipartite(cls, y: ArrayLike, **others: Any) -> Judgments:
        """Two classes and no query: every positive should precede every negative.

        >>> Judgments.bipartite([True, False, False]).n_pairs
        2
        """
        grade = _numbers(y, "y", allow_nan=False)
        distinct = np.unique(grade)
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
        **others: Any,
    ) -> Judgments:
        """Explicit comparisons: row ``better[j]`` should precede row ``worse[j]``.

        `weight` is one number per comparison, `item_weight` one per row; `n` is the number
        of rows of X and defaults to the largest row named plus one.

        >>> Judgments.preferences([0, 0], [1, 2], weight=[1.0, 2.0], n=4).n_pairs
        2
        """
        better, worse = np.atleast_1d(np.asarray(better)), np.atleast_1d(np.asarray(worse))
        if better.shape != worse.shape:
            raise ValueError(
                f"better has {better.size} rows and worse {worse.size}; give one of each per pair"
            )
        pairs = _check_pairs(np.stack([better, worse], axis=1), None)
        said = any(others.get(name) is not None for name in ("grade", "qid", "label"))
        if n is None and item_weight is None and not said:
            ties = _check_pairs(others.get("ties"), None, "ties")
            n = 1 + max(int(rows.max(initial=-1)) for rows in (pairs, ties) if rows is not None)
        return cls(pairs=pairs, pair_weight=weight, weight=item_weight, n=n, **others)

    @classmethod
    def read(
        cls,
        frame: Any,
        *,
        grade: str | None = None,
        qid: str | None = None,
        weight: str | None = None,
        label: str | None = None,
        **others: Any,
    ) -> Judgments:
        """Take the columns of a data frame (pandas, polars, arrow) by name.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"rel": [1, 0], "query": ["a", "a"]})
        >>> Judgments.read(frame, grade="rel", qid="query").n_pairs
        1
        """
        import narwhals as nw  # noqa: PLC0415  (only needed by those who have frames)

        table = nw.from_native(frame, eager_only=True)
        named = {"grade": grade, "qid": qid, "weight": weight, "label": label}
        for role, column in named.items():
            if column is not None and column not in table.columns:
                raise ValueError(
                    f"{role}={column!r} is not a column of the frame; it has {table.columns}"
                )
        fields = {role: table[c].to_numpy() for role, c in named.items() if c is not None}
        return cls(**fields, n=len(table), **others)

    # -- a sequence of rows ----------------------------------------------------------------

    def __len__(self) -> int:
        return self._n

    @property
    def shape(self) -> tuple[int]:
        """One target per row: ``(n,)``."""
        return (self._n,)

    def __array__(self, *_: Any, **__: Any) -> NDArray:
        raise ValueError(
            f"{self!r} is given where numbers are expected; pass one of its arrays, such as "
            "its grade, qid or pairs"
        )

    def __getitem__(self, rows: Any) -> Judgments:
        index = np.atleast_1d(np.arange(self._n)[rows])
        pairs, pair_weight, pair_margin = self._sliced_pairs(
            self.pairs, (self.pair_weight, self.pair_margin), index
        )
        ties, tie_weight = self._sliced_pairs(self.ties, (self.tie_weight,), index)

        def take(values: NDArray | None) -> NDArray | None:
            return None if values is None else values[index]

        return Judgments(
            take(self.grade),
            take(self.qid),
            pairs=pairs,
            pair_weight=pair_weight,
            pair_margin=pair_margin,
            ties=ties,
            tie_weight=tie_weight,
            weight=take(self.weight),
            label=take(self.label),
            n=index.size,
        )

    def as_one_query(self) -> Judgments:
        """Give the same grades without queries: every row is compared with every other.

        >>> Judgments([1, 0, 1, 0], qid=["a", "a", "b", "b"]).as_one_query().n_pairs
        4
        """
        return self._with(qid=None)

    def _with(self, **changes: Any) -> Judgments:
        """Copy with some of the fields changed."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        return Judgments(**fields | changes, n=self._n)

    def _without_ties(self) -> Judgments:
        return self if self.ties is None else self._with(ties=None, tie_weight=None)

    def _sliced_pairs(
        self, listed: Integers | None, of_pairs: tuple[Floats | None, ...], index: Integers
    ) -> tuple[Any, ...]:
        """Pairs of which both rows are kept, renumbered, and their numbers (weights, margins)."""
        if listed is None:
            return (None,) * (1 + len(of_pairs))
        copies = np.bincount(index, minlength=self._n)
        kept = (copies[listed[:, 0]] > 0) & (copies[listed[:, 1]] > 0)
        pairs = listed[kept]
        # Rows grouped by what they are copies of: the copies of row r stand at
        # by_row[first[r] : first[r] + copies[r]].
        by_row = np.argsort(index, kind="stable")
        first = np.concatenate([[0], np.cumsum(copies)[:-1]])
        of_winner, of_loser = copies[pairs[:, 0]], copies[pairs[:, 1]]
        times = of_winner * of_loser
        source = np.repeat(np.arange(len(pairs)), times)
        within = np.arange(source.size) - np.repeat(np.cumsum(times) - times, times)
        winner_copy, loser_copy = np.divmod(within, of_loser[source])
        sliced = np.stack(
            [
                by_row[first[pairs[source, 0]] + winner_copy],
                by_row[first[pairs[source, 1]] + loser_copy],
            ],
            axis=1,
        )
        return sliced, *(None if each is None else each[kept][source] for each in of_pairs)

    def __repr__(self) -> str:
        queries = 0 if self.qid is None else np.unique(self._query()).size
        told = [_count(self._n, "row"), _count(queries, "query"), _count(self.n_pairs, "pair")]
        told += [] if self.ties is None else [_count(len(self.ties), "tie")]
        return f"Judgments({', '.join(told)})"

    # -- pairs, counted and never listed ---------------------------------------------------

    @property
    def n_pairs(self) -> int:
        """Number of crucial pairs, in O(n log n); weights do not matter, ties are not counted."""
        listed = 0 if self.pairs is None else len(self.pairs)
        if self.grade is None:
            return listed
        unweighted = Judgments(self.grade, self.qid)
        return listed + unweighted.arrange().count_graded_pairs()

    def pairs_of(self, query: Any = None) -> Iterator[tuple[int, int]]:
        """List the crucial pairs of one query, for tests and for the curious: O(n²)."""
        inside = np.ones(self._n, bool) if self.qid is None else self.qid == query
        rows = np.flatnonzero(inside)
        if self.grade is not None:
            for i in rows:
                yield from ((int(i), int(k)) for k in rows if self.grade[i] > self.grade[k])
        if self.pairs is not None:
            yield from ((int(i), int(k)) for i, k in self.pairs if inside[k])

    def arrange(self, balance: str = "pairs", *, labelled: bool = False) -> Arrangement:
        """Sort the rows that take part in a comparison by query and grade.

        Parameters
        ----------
        balance : {"pairs", "queries", "items"}
            Whether every pair weighs the same, or every query does (its pairs share a total of
            1), or every item (they share the number of items of the query that take part in
            a pair, which is between the two); a listed pair belongs to the query of its loser,
            and so does each half of a tie.
        labelled : bool
            Whether rows that have a label but no pair get a place too.

        Notes
        -----
        O(n log n) time and O(n) memory.
        """
        return _arrange(self, check_balance(balance), labelled)

    # -- helpers ---------------------------------------------------------------------------

    def _query(self) -> Integers:
        """Give queries the numbers 0, 1, ... in the order of their identifiers."""
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
                raise ValueError(f"n={n!r} is no number of rows; use a whole number from 0")
            lengths["n"] = int(n)
        if not lengths:
            raise ValueError(
                "nothing says how many rows there are; give grade, qid, label or n as well"
            )
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise ValueError(f"lengths differ ({told}); give one value per row of X")
        return next(iter(lengths.values()))


def _numbers(values: ArrayLike, name: str, *, allow_nan: bool) -> Floats:
    array = _one_dimension(values, name)
    try:
        if array.dtype.kind == "c":
            raise ValueError("some are complex")
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be numbers, but {error}; map text to numbers first"
        ) from error
    bad = np.isinf(array) if allow_nan else ~np.isfinite(array)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name}[{row}] is {array[row]}; use finite numbers")
    return array


def _weights(values: ArrayLike, name: str) -> Floats:
    array = _numbers(values, name, allow_nan=False)
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


def _one_dimension(values: ArrayLike, name: str) -> NDArray:
    array = _as_array(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must have one dimension")
    return array


def _as_array(values: ArrayLike, name: str) -> NDArray:
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths, or Judgments
        raise ValueError(f"{name} is no array: {error}") from error


def number_queries(qid: ArrayLike) -> tuple[Integers, NDArray]:
    """Number query identifiers of any type 0, 1, ...; equal identifiers get equal numbers.

    Gives the number of every row, and the identifier of every number: sorted, or in the order
    of their first row where they are objects other than text. Missing identifiers
    (None, NaN, NaT) are refused. O(n log n).

    >>> number_queries(["b", "a", "b"])
    (array([1, 0, 1]), array(['a', 'b'], dtype='<U1'))
    """
    array = _identifiers(qid)
    if array.dtype.kind != "O" or {type(value) for value in array} <= {str}:
        names, number = np.unique(array, return_inverse=True)
        return number.astype(np.int64), names
    seen: dict[Any, int] = {}
    number = np.array([seen.setdefault(value, len(seen)) for value in array], np.int64)
    names = np.empty(len(seen), object)
    names[:] = list(seen)
    return number, names


def _identifiers(values: ArrayLike) -> NDArray:
    if isinstance(values, list | tuple) and len({type(value) for value in values}) > 1:
        array = np.empty(len(values), object)  # asarray would turn [1, "1"] into equal texts
        array[:] = values
    else:
        array = _one_dimension(values, "qid")
    missing = np.zeros(array.size, bool)
    if array.dtype.kind in "fcmM":
        missing = np.isnat(array) if array.dtype.kind in "mM" else np.isnan(array)
    elif array.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in array], bool)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"qid[{row}] is {array[row]}; every row needs a query identifier")
    return array


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  (only missing values differ from themselves)
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return True


def _count(number: int, noun: str) -> str:
    """Such as "1 pair", "3 queries", "no query"."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number or 'no'} {plural if number > 1 else noun}"


def _check_pairs(pairs: ArrayLike | None, n: int | None, name: str = "pairs") -> Integers | None:
    """Pairs as row numbers; `n` rows, or None if that is not known yet."""
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


def _check_of_pairs(
    given: ArrayLike | None, name: str, pairs: Integers | None, of: str = "pairs"
) -> Floats | None:
    """One number for each listed pair or tie: a weight, or a margin."""
    if given is None:
        return None
    if pairs is None:
        raise ValueError(f"{name} is given without {of}; give the {of} as well")
    if name.endswith("weight"):
        array = _weights(given, name)
    else:
        array = _numbers(given, name, allow_nan=False)
        if (array < 0).any():
            j = int(np.flatnonzero(array < 0)[0])
            raise ValueError(f"{name}[{j}] is {array[j]:g}; use 0 or more, or swap the pair")
    if array.size != len(pairs):
        raise ValueError(
            f"{name} has {array.size} values for {len(pairs)} {of}; give one per {of[:-1]}"
        )
    return array


# -- kernels ---------------------------------------------------------------------------------
