"""Votes on pairs of items: a data frame, checked and counted.

Votes repeat each other: all that the probability of a vote depends on is its *comparison*, which is
the two items, the one shown first and the features of the two answers. Votes are counted by
comparison and outcome once, and a fit takes time in the number of comparisons.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from precede.engine.arrays import Array, Flags, Floats, Integers, Signs, VectorLike
from precede.engine.exact import sums_at
from precede.engine.frames import frame_of, is_missing
from precede.engine.parameters import check_choice
from precede.files.votes import (
    BOTH_BAD,
    ONE_HOT,
    TIE,
    feature_columns,
    implied_outcomes,
    outcome_codes,
    vote_columns,
)
from precede.judgments import check_column, check_weights, number_queries

UNITS = ("voter", "prompt")  # roles whose votes depend on each other


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes on pairs (a, b) of items, which are numbered in the order of their names.

    `outcome` is 0 for a, 1 for b and 2 for a tie, `shown` 1 if a was shown first, −1 if b was and 0
    if that is unknown. `clusters` has the number of the voter and of the prompt of every vote,
    `features` the features of the answers of a and of b, of shape (2, votes, features).
    """

    items: list[str]
    a: Integers
    b: Integers
    outcome: Signs
    shown: Signs | None
    weight: Floats | None
    clusters: dict[str, Integers]
    features: Floats
    feature_names: list[str]

    @classmethod
    def of(
        cls, votes: Any, *, items: Iterable[Hashable] | None = None,
        columns: Mapping[str, str] | None = None, features: Sequence[str] | None = (),
        both_bad: str = "tie",
    ) -> Votes:  # fmt: skip
        """Read a data frame; `features` are those to read, None is all of numbers."""
        frame = frame_of(votes)
        if frame is None:
            raise ValueError(
                f"votes is a {type(votes).__name__}, not a data frame; give one with the columns "
                "a, b and outcome, such as pandas.DataFrame({'a': ..., 'b': ..., 'outcome': ...})"
            )
        check_choice("both_bad", both_bad, ("tie", "drop"))
        names = [str(name) for name in frame.columns]
        roles = vote_columns(names, columns)
        coded = {role: _codes(frame[name], name) for role, name in roles.items()
                 if role in ("a", "b", "order")}  # fmt: skip
        known, sides = _numbered_items(coded["a"], coded["b"], items)
        outcome = _outcomes(frame, names, roles)
        weight = None
        if "weight" in roles:
            weight = check_weights(frame[roles["weight"]].to_numpy(), "weight", len(frame))
        found = cls(
            known, *sides, np.where(outcome == BOTH_BAD, TIE, outcome).astype(np.int8),
            _orders(*coded["order"], roles["order"]) if "order" in roles else None, weight,
            {role: _factorized(frame[roles[role]], roles[role])[0]
             for role in UNITS if role in roles},
            *_features(frame, names, roles, features),
        )  # fmt: skip
        kept = outcome != BOTH_BAD if both_bad == "drop" else np.ones(len(frame), bool)
        if weight is not None:
            kept &= weight > 0
        return found if kept.all() else found.taken(kept)

    def __len__(self) -> int:
        return self.a.size

    def taken(self, rows: Array) -> Votes:
        """Return some of the votes, on the same items."""
        return replace(
            self, a=self.a[rows], b=self.b[rows], outcome=self.outcome[rows],
            shown=None if self.shown is None else self.shown[rows],
            weight=None if self.weight is None else self.weight[rows],
            clusters={name: number[rows] for name, number in self.clusters.items()},
            features=self.features[:, rows],
        )  # fmt: skip

    def among(self, items: Integers) -> Votes:
        """Return the votes that compare two of some items, on these items only."""
        if len(items) == len(self.items):
            return self
        number = np.full(len(self.items), -1)
        number[items] = np.arange(len(items))
        found = self.taken((number[self.a] >= 0) & (number[self.b] >= 0))
        names = [self.items[item] for item in items]
        return replace(found, items=names, a=number[found.a], b=number[found.b])


@dataclass(frozen=True, eq=False)
class Counts:
    """The distinct comparisons of items a < b, and how often (weight) each outcome occurred.

    `design` has a row for each comparison: 1 if a was shown first and −1 if b was, then the
    differences of the controls. `cell` and `outcome` are the comparison and the outcome of each
    vote, seen from the side of a.
    """

    a: Integers
    b: Integers
    design: Floats
    weight: Floats  # (comparisons, 3): a won, b won, a tie
    cell: Integers
    outcome: Signs

    def with_weight(self, weight: Floats) -> Counts:
        """Return the same comparisons with other weights of the votes."""
        totals = sums_at(3 * self.cell + self.outcome, weight, self.weight.size)
        return replace(self, weight=totals.reshape(-1, 3))


def count(votes: Votes, *, shown_first: bool = False, controls: Floats | None = None) -> Counts:
    """Count the votes by comparison; `controls` are differences of features, a − b."""
    n, turned = len(votes.items), votes.a > votes.b
    rows, group = _design(votes, turned, shown_first, controls)
    pair = np.minimum(votes.a, votes.b) * n + np.maximum(votes.a, votes.b)
    key = pair if group is None else pair * len(rows) + group
    distinct, cell = _distinct(key, n**2 * len(rows))
    pair, group = np.divmod(distinct, len(rows))
    outcome = votes.outcome ^ (turned & (votes.outcome < TIE))
    which = 3 * cell + outcome
    if votes.weight is None:
        total = np.bincount(which, minlength=3 * distinct.size).astype(np.float64)
    else:
        total = sums_at(which, votes.weight, 3 * distinct.size)
    return Counts(*np.divmod(pair, n), rows[group], total.reshape(-1, 3), cell, outcome)


def _design(
    votes: Votes, turned: Flags, shown_first: bool, controls: Floats | None
) -> tuple[Floats, Integers | None]:
    """Return the distinct rows of the design, and that of each vote (None if all are alike)."""
    if shown_first and votes.shown is None:
        raise ValueError(
            "shown_first=True needs a column 'order' that says which answer was shown first: a or b"
        )
    sign = np.where(turned, -1, 1)
    shown = votes.shown * sign if shown_first and votes.shown is not None else None
    if controls is None and shown is None:
        return np.zeros((1, 0)), None
    if controls is None:
        return np.array([[-1.0], [0.0], [1.0]]), shown + 1
    columns = controls * sign[:, None]
    columns = columns if shown is None else np.column_stack([shown, columns])
    rows, group = np.unique(columns, axis=0, return_inverse=True)
    return rows, group.ravel()


def _distinct(key: Integers, width: int) -> tuple[Integers, Integers]:
    """Return the distinct keys below `width`, sorted, and the index of each key among them."""
    if width > 4 * key.size + (1 << 22):
        return np.unique(key, return_inverse=True)
    occurs = np.zeros(width, bool)
    occurs[key] = True
    distinct = np.flatnonzero(occurs)
    index = np.zeros(width, np.int64)
    index[distinct] = np.arange(distinct.size)
    return distinct, index[key]


# -- columns ------------------------------------------------------------------------------------


def _codes(series: Any, column: str) -> tuple[Integers, list[str]]:
    """Return the number of each value among the distinct values of a column, as text, sorted."""
    codes, values = _factorized(series, column)
    texts = [str(value) for value in values]
    listed = sorted({*texts})
    number = {text: index for index, text in enumerate(listed)}
    renumbered = np.array([number[text] for text in texts], np.int64)
    return renumbered[codes] if texts else codes, listed


def _factorized(series: Any, column: str) -> tuple[Integers, list[Any]]:
    """Return the number of each value among the distinct values of a column."""
    native = series.to_native()
    if hasattr(native, "factorize"):
        codes, values = native.factorize()
        values = list(values)
    elif find_spec("pyarrow") is not None:
        coded = series.to_arrow()
        coded = coded.combine_chunks() if hasattr(coded, "combine_chunks") else coded
        coded = coded if hasattr(coded, "dictionary") else coded.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        values = coded.dictionary.to_pylist()
    else:
        codes, values = number_queries(series.to_numpy(), name=column)
        values = values.tolist()
    codes = np.asarray(codes, np.int64)
    if codes.size and (codes.min() < 0 or any(map(is_missing, values))):
        row = next(row for row, value in enumerate(series.to_list()) if is_missing(value))
        raise ValueError(f"{column}[{row}] is missing; name it, or drop the vote")
    return codes, values


def _numbered_items(
    a: tuple[Integers, list[str]], b: tuple[Integers, list[str]], items: Iterable[Hashable] | None
) -> tuple[list[str], list[Integers]]:
    """Return the names of all items, sorted, and the two sides of the votes as numbers."""
    known = [] if items is None else [str(name) for name in items]
    listed = sorted({*a[1], *b[1], *known})
    number = {name: index for index, name in enumerate(listed)}
    sides = [
        np.array([number[name] for name in names], np.int64)[codes] if names else codes
        for codes, names in (a, b)
    ]
    same = np.flatnonzero(sides[0] == sides[1])
    if same.size:
        name = listed[sides[0][same[0]]]
        raise ValueError(f"vote {same[0]} compares {name!r} with itself; drop such votes")
    return listed, sides


def _outcomes(frame: Any, names: Sequence[str], roles: Mapping[str, str]) -> Signs:
    if "outcome" in roles:
        codes, words = _codes(frame[roles["outcome"]], roles["outcome"])
        return outcome_codes(words, roles["outcome"])[codes] if words else codes.astype(np.int8)
    columns = {name: frame[name].to_numpy() for name in names if name in ONE_HOT}
    words, codes = np.unique(
        implied_outcomes(columns, {"a": frame[roles["a"]].to_numpy()}), return_inverse=True
    )
    return outcome_codes(words.tolist(), "winner")[codes]


def _orders(codes: Integers, words: list[str], column: str) -> Signs:
    """Return 1 where a was shown first, −1 where b was, 0 where that is unknown."""
    meaning = {"a": 1, "left": 1, "model_a": 1, "1": 1, "1.0": 1, "true": 1,
               "b": -1, "right": -1, "model_b": -1, "-1": -1, "-1.0": -1, "false": -1,
               "": 0, "0": 0, "0.0": 0, "unknown": 0}  # fmt: skip
    unknown = [word for word in words if word.strip().lower() not in meaning]
    if unknown:
        raise ValueError(
            f"{column} holds {unknown[0]!r}; say which answer was shown first: a, b or unknown"
        )
    return np.array([meaning[word.strip().lower()] for word in words], np.int8)[codes]


def _features(
    frame: Any, names: Sequence[str], roles: Mapping[str, str], wanted: Sequence[str] | None
) -> tuple[Floats, list[str]]:
    """Return the features of both answers and their names."""
    sides = feature_columns(names, roles, wanted)
    if wanted is None:
        sides = {name: both for name, both in sides.items()
                 if all(frame.schema[column].is_numeric() for column in both)}  # fmt: skip
    values = np.empty((2, len(frame), len(sides)))
    for index, columns in enumerate(sides.values()):
        for side, column in enumerate(columns):
            values[side, :, index] = _numbers(frame[column].to_numpy(), column, len(frame))
    return values, list(sides)


def _numbers(values: VectorLike, column: str, rows: int) -> Floats:
    return check_column(values, column, rows, empty=True)
