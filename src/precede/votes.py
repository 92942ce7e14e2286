"""Votes on pairs of items: a data frame, checked and counted.

Votes repeat each other: all that the probability of a vote depends on is its *comparison*, which is
the two items, the one shown first and the features of the two answers. Votes are counted by
comparison and outcome once, and a fit takes time in the number of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from precede.engine.arrays import Array, Floats, Integers, Signs, VectorLike
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

Coded = tuple[Integers, list[Any]]  # the number of each value among distinct ones
UNITS = ("voter", "prompt")  # roles whose votes depend on each other


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes on pairs (a, b) of items, which are numbered in the order of their names.

    `kind` is the number of the kind of every vote: its two items and its outcome (`A`, `B` or `TIE`
    of `precede.files.votes`), which `kinds` lists. `shown` is 1 if a was shown first, −1 if b was
    and 0 if that is unknown. `clusters` number the voter and the prompt of every vote, `features`
    are those of the answers of a and of b, of shape (2, votes, features).
    """

    items: list[str]
    kind: Integers
    kinds: tuple[Integers, Integers, Signs]
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
        read = [role for role in ("a", "b", "outcome", "order", *UNITS) if role in roles]
        with ThreadPoolExecutor(len(read)) as pool:  # arrow and NumPy release the lock
            found = pool.map(lambda role: _factorized(frame[roles[role]], roles[role]), read)
            coded = dict(zip(read, found, strict=True))
        if "outcome" not in coded:
            coded["outcome"] = _implied(frame, names, roles)
        known, kind, kinds = _numbered(coded, roles, items)
        weight = None
        if "weight" in roles:
            weight = check_weights(frame[roles["weight"]].to_numpy(), "weight", len(frame))
        all_votes = cls(
            known, kind, (*kinds[:2], np.minimum(kinds[2], TIE)),
            _orders(*coded["order"], roles["order"]) if "order" in roles else None, weight,
            {role: coded[role][0] for role in UNITS if role in roles},
            *_features(frame, names, roles, features),
        )  # fmt: skip
        kept = np.ones(len(frame), bool)
        if both_bad == "drop":
            kept = kinds[2][kind] != BOTH_BAD
        if weight is not None:
            kept &= weight > 0
        return all_votes if kept.all() else all_votes._taken(kept)

    def __len__(self) -> int:
        return self.kind.size

    @property
    def sides(self) -> tuple[Integers, Integers]:
        """The items a and b of every vote."""
        return self.kinds[0][self.kind], self.kinds[1][self.kind]

    @property
    def outcome(self) -> Signs:
        """The outcome of every vote."""
        return self.kinds[2][self.kind]

    def _taken(self, rows: Array) -> Votes:
        """Return some of the votes, on the same items."""
        return replace(
            self, kind=self.kind[rows],
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
        a, b = number[self.kinds[0]], number[self.kinds[1]]
        found = self._taken(((a >= 0) & (b >= 0))[self.kind])
        return replace(
            found, items=[self.items[item] for item in items], kinds=(a, b, self.kinds[2])
        )

    def units(self, cluster: str | None) -> dict[str, Integers]:
        """Return the clusters of votes that depend on each other, as `Leaderboard` names them."""
        if cluster is None:
            return {}
        several = {name: each for name, each in self.clusters.items() if each.size and np.ptp(each)}
        if cluster == "auto":
            return several
        wanted = UNITS if cluster == "both" else (cluster,)
        absent = [name for name in wanted if name not in several]
        if absent:
            raise ValueError(
                f"cluster={cluster!r} needs votes of at least two {absent[0]}s, named in a column; "
                "use cluster=None for votes that do not depend on each other"
            )
        return {name: several[name] for name in wanted}


@dataclass(frozen=True, eq=False)
class Counts:
    """The distinct comparisons of items a < b, and how often (weight) each outcome occurred.

    `design` has a row for each comparison: 1 if a was shown first and −1 if b was, then the
    differences of the controls. `row` is 3 · comparison + outcome, seen from the side of a, of each
    kind of votes, and `kind` that of every vote.
    """

    a: Integers
    b: Integers
    design: Floats
    weight: Floats  # (comparisons, 3): a won, b won, a tie
    kind: Integers
    row: Integers

    def with_weight(self, weight: Floats) -> Counts:
        """Return the same comparisons with other weights of the votes."""
        kinds = sums_at(self.kind, weight, self.row.size)
        return replace(self, weight=sums_at(self.row, kinds, self.weight.size).reshape(-1, 3))


def count(votes: Votes, *, shown_first: bool = False, controls: Floats | None = None) -> Counts:
    """Count the votes by comparison; `controls` are differences of features, a − b."""
    n, (a, b, outcome), kind = len(votes.items), votes.kinds, votes.kind
    design, group = np.zeros((1, 0)), None
    if shown_first or controls is not None:
        design, group = _design(votes, shown_first, controls)
        distinct, kind = _distinct(kind * len(design) + group, len(a) * len(design))
        which, group = np.divmod(distinct, len(design))
        a, b, outcome, design = a[which], b[which], outcome[which], design[group]
    turned = a > b
    low, high = np.where(turned, b, a), np.where(turned, a, b)
    outcome = outcome ^ (turned & (outcome < TIE))
    key = low * n + high
    if group is not None:
        design = design * np.where(turned, -1, 1)[:, None]
        rows, group = np.unique(design, axis=0, return_inverse=True)
        key, design = key * len(rows) + group.ravel(), rows
    times = np.bincount(kind, minlength=len(a)).astype(np.float64)
    if votes.weight is not None:
        times = sums_at(kind, votes.weight, len(a))
    seen = times > 0
    distinct, cell = np.unique(key[seen], return_inverse=True)
    row = np.zeros(len(a), np.int64)
    row[seen] = 3 * cell + outcome[seen]
    weight = sums_at(row[seen], times[seen], 3 * distinct.size).reshape(-1, 3)
    pair, group = np.divmod(distinct, len(design))
    return Counts(*np.divmod(pair, n), design[group], weight, kind, row)


def _design(votes: Votes, shown_first: bool, controls: Floats | None) -> tuple[Floats, Integers]:
    """Return the distinct rows of the design, and that of each vote, seen from a to b."""
    columns = [] if controls is None else [controls]
    if shown_first:
        if votes.shown is None:
            raise ValueError(
                "shown_first=True needs a column 'order' that says which answer was shown first: "
                "a or b"
            )
        if controls is None:
            return np.array([[-1.0], [0.0], [1.0]]), votes.shown.astype(np.int64) + 1
        columns.insert(0, votes.shown[:, None].astype(np.float64))
    rows, group = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
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


@dataclass(frozen=True, eq=False)
class PairTable:
    """The weights of the outcomes of each pair of items a < b: a won, b won, a tie."""

    a: Integers
    b: Integers
    weight: Floats

    @classmethod
    def of(cls, a: Integers, b: Integers, weight: Floats, n: int) -> PairTable:
        """Add up the outcomes of comparisons of the same two items."""
        turned = a > b
        seen = np.where(turned[:, None], weight[:, [1, 0, 2]], weight)
        key, where = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_inverse=True)
        total = [sums_at(where, column, key.size) for column in np.ascontiguousarray(seen.T)]
        return cls(*np.divmod(key, n), np.stack(total, axis=1))

    def shares(self) -> Floats:
        """Return the share of wins of a, a tie counting half."""
        return (self.weight[:, 0] + self.weight[:, 2] / 2) / self.weight.sum(axis=1)

    def totals(self, n: int) -> list[Floats]:
        """Return the wins, losses and ties of each item."""
        sides = np.append(self.a, self.b)
        columns = [(0, 1), (1, 0), (2, 2)]
        return [sums_at(sides, np.append(self.weight[:, one], self.weight[:, other]), n)
                for one, other in columns]  # fmt: skip


# -- columns ------------------------------------------------------------------------------------


def _factorized(series: Any, column: str) -> Coded:
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


def _numbered(
    coded: Mapping[str, Coded], roles: Mapping[str, str], items: Iterable[Hashable] | None
) -> tuple[list[str], Integers, tuple[Integers, Integers, Signs]]:
    """Return the names of all items, sorted, the kind of every vote, and the kinds."""
    named = {side: [str(name) for name in coded[side][1]] for side in ("a", "b")}
    known = [] if items is None else [str(name) for name in items]
    listed = sorted({*named["a"], *named["b"], *known})
    number = {name: index for index, name in enumerate(listed)}
    tables = [np.array([number[name] for name in named[side]], np.int64) for side in ("a", "b")]
    outcome = outcome_codes(coded["outcome"][1], roles.get("outcome", "winner"))
    sizes = (len(tables[0]), len(tables[1]), len(outcome))
    key = (coded["a"][0] * sizes[1] + coded["b"][0]) * sizes[2] + coded["outcome"][0]
    distinct, kind = _distinct(key, math.prod(sizes))
    one, other, told = np.unravel_index(distinct, [max(size, 1) for size in sizes])
    kinds = (tables[0][one], tables[1][other], outcome[told])
    same = np.flatnonzero(kinds[0] == kinds[1])
    if same.size:
        vote, name = int((kind == same[0]).argmax()), listed[kinds[0][same[0]]]
        raise ValueError(f"vote {vote} compares {name!r} with itself; drop such votes")
    return listed, kind, kinds


def _implied(frame: Any, names: Sequence[str], roles: Mapping[str, str]) -> Coded:
    """Return the outcomes that other columns imply."""
    columns = {name: frame[name].to_numpy() for name in names if name in ONE_HOT}
    texts = implied_outcomes(columns, {"a": frame[roles["a"]].to_numpy()})
    words, codes = np.unique(texts, return_inverse=True)
    return codes, words.tolist()


def _orders(codes: Integers, values: list[Any], column: str) -> Signs:
    """Return 1 where a was shown first, −1 where b was, 0 where that is unknown."""
    meaning = {"a": 1, "left": 1, "model_a": 1, "1": 1, "1.0": 1, "true": 1,
               "b": -1, "right": -1, "model_b": -1, "-1": -1, "-1.0": -1, "false": -1,
               "": 0, "0": 0, "0.0": 0, "unknown": 0}  # fmt: skip
    words = [str(value).strip().lower() for value in values]
    unknown = [word for word in words if word not in meaning]
    if unknown:
        raise ValueError(
            f"{column} holds {unknown[0]!r}; say which answer was shown first: a, b or unknown"
        )
    return np.array([meaning[word] for word in words], np.int8)[codes]


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
