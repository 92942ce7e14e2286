"""Rows on a cluster dealt out to its workers, with cuts and totals as one machine finds them.

Partitions are checked, queries whose rows lie in several are brought together, and each worker
gets one block of whole queries, or of a single list where that may be split. Then what nobody
knows alone is found: the total weight of the pairs and the cut points of every feature, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from traceback import clear_frames
from typing import Any

import numpy as np

from precede.engine.arrangement import Arrangement
from precede.engine.arrays import Array, Floats, Integers
from precede.engine.exact import added, from_words, words_of
from precede.engine.frames import refuse_text
from precede.engine.table import Bins, choose_cuts, integer_weights
from precede.engine.training import why_no_pair
from precede.estimator import BaseRanker
from precede.files.disk import dense_block
from precede.judgments import Judgments, number_queries, numeric_grades, sample_weights

__all__ = ["Dealt", "Facts", "Rows", "arranged", "deal", "partitions"]


# A single list is split between workers if it has no more grades than this: their sums travel.
MOST_GRADES = 256


# -- partitions, queries and blocks ----------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Some rows, checked: raw values, grades, numbers of queries, weights, distinct labels.

    `names` are those of the columns, where they had names.
    """

    X: Array
    grade: Floats
    query: Array | None
    weight: Floats | None
    labels: Array
    names: tuple[Any, ...] | None = None

    def judgments(self) -> Judgments:
        """What is known about their order."""
        return Judgments(self.grade, self.query, weight=self.weight)


@dataclass(frozen=True)
class Facts:
    """What nobody knows alone: totals, and the levels of a list that is split.

    `grades` and `level_weight` are None where queries are whole. `weight_total` is None where
    all weights are equal.
    """

    balance: str
    total: float
    pair_count: float
    rows: int
    weight_total: float | None = None
    grades: Floats | None = None
    level_weight: Floats | None = None


@dataclass(frozen=True)
class Dealt:
    """Blocks, the workers that hold them, and what is known about all of them."""

    blocks: list[Any]
    homes: list[str]
    bins: Bins
    facts: Facts
    classes: Array | None
    names: list[str] | None
    has_queries: bool


def partitions(X: Any, y: Any, qid: Any, weight: Any) -> list[Any]:
    """Delayed `Rows`, one for each partition."""
    import dask  # noqa: PLC0415  (only on clusters)

    if isinstance(X, list | tuple):
        if y is not None or qid is not None or weight is not None:
            raise ValueError(
                "partitions are given as a list, so each gives (X, y), (X, y, qid) or (X, y, qid, "
                "sample_weight); leave y, qid and sample_weight out"
            )
        each = dask.delayed(_checked_block, pure=False)
        return [each(part, number) for number, part in enumerate(X)]
    if not hasattr(type(X), "npartitions"):
        raise ValueError(
            f"X is {type(X).__name__}, which is not on a cluster; give a dask DataFrame or array "
            "or a list of delayed partitions, or use the local estimator"
        )
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
    columns = {"X": X, "y": y, "qid": qid, "sample_weight": weight}
    delayed = {name: _delayed(each, X, name) for name, each in columns.items() if each is not None}
    if "y" not in delayed:
        raise ValueError("y is missing; give the grade of every row as a dask Series or array")
    count = len(delayed["X"])
    check = dask.delayed(_checked, pure=False)
    return [
        check(number, **{name: each[number] for name, each in delayed.items()})
        for number in range(count)
    ]


def _delayed(column: Any, X: Any, name: str) -> list[Any]:
    """The partitions of one collection, which must be those of X."""
    if not hasattr(type(column), "npartitions"):
        raise ValueError(
            f"{name} is {type(column).__name__}; give a dask Series or array with the partitions "
            "of X"
        )
    if name != "X" and hasattr(column, "rechunk") and hasattr(X, "chunks"):
        known = not np.isnan(column.shape[0]) and not np.isnan(X.shape[0])
        if known and column.shape[0] == X.shape[0]:
            column = column.rechunk({0: X.chunks[0]})
    parts = np.asarray(column.to_delayed(), object).ravel().tolist()
    wanted = X.npartitions
    if len(parts) != wanted:
        raise ValueError(f"{name} has {len(parts)} partitions and X has {wanted}")
    return parts


def _checked_block(block: Any, number: int) -> Rows:
    if not isinstance(block, tuple | list) or not 2 <= len(block) <= 4:
        raise ValueError(
            f"partition {number} must be (X, y), (X, y, qid) or (X, y, qid, sample_weight)"
        )
    names = ("X", "y", "qid", "sample_weight")
    return _checked(number, **dict(zip(names, block, strict=False)))


def _checked(number: int, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Rows:
    """One partition as arrays; everything a local fit would refuse is refused."""
    refuse_text(X)
    values = dense_block(X)
    if np.isinf(values).any():
        raise ValueError(f"X of partition {number} holds infinities; use NaN for missing values")
    if len(values):
        grade, label = numeric_grades(y, number)
    else:
        grade = label = np.zeros(0)
    weight = sample_weights(sample_weight, len(values))
    judgments = Judgments(grade, qid, weight=weight)  # checks lengths, weights, identifiers
    if len(judgments) != len(values):
        raise ValueError(
            f"y of partition {number} has {len(judgments)} values for {len(values)} rows"
        )
    names = tuple(X.columns) if hasattr(X, "columns") else None
    return Rows(values, grade, judgments.qid, weight, np.unique(label), names)


@contextmanager
def deal(client: Any, delayed: list[Any], model: BaseRanker) -> Iterator[Dealt]:
    """Bring queries together, deal the rows out, and find what all blocks have in common.

    When the context ends, however it ends, the workers are rid of everything made here and of
    everything made from it.
    """
    if not delayed:
        raise ValueError("X has no partitions")
    parts = client.compute(delayed)
    try:
        dealt = _dealt(client, parts, model)
    except BaseException as error:
        # Not cancelled: tasks beside the one that failed may still be under way, and the
        # scheduler loses a client that cancels what they wait for.
        for part in parts:
            part.release()
        clear_frames(error.__traceback__)  # which hold the futures made on the way
        raise
    del parts  # from now on the blocks stand for them
    try:
        yield dealt
    finally:
        _forget(client, dealt.blocks)


def _forget(client: Any, futures: list[Any]) -> None:
    """Have futures and all that depends on them forgotten, whoever still holds them.

    The keys are of one fit and of nobody else. An exception that is being shown to the user
    would otherwise keep the rows on the workers.
    """
    with suppress(Exception):  # if the cluster is gone, so are they
        client.cancel(futures, force=True)


def _dealt(client: Any, parts: list[Any], model: BaseRanker) -> Dealt:
    seen = client.gather(client.map(_look_at, parts, pure=False))
    parts, seen = _not_empty(parts, seen)
    for name in ("features", "names", "has_query", "has_weight"):
        if len({each[name] for each in seen}) > 1:
            raise ValueError(f"the partitions differ in {_DIFFERENCES[name]}")
    names = _feature_names(seen[0]["names"])
    labels = np.unique(np.concatenate([each["labels"] for each in seen]))
    one_list = not seen[0]["has_query"] or getattr(model, "scope", "query") == "global"
    classes = labels if labels.size == 2 and not seen[0]["has_query"] else None
    shared = one_list and model._splits_a_list() and labels.size <= MOST_GRADES
    workers = list(client.nthreads())
    if not workers:
        raise ValueError("the cluster has no workers; start some")
    if shared:
        groups = _evenly([each["rows"] for each in seen], len(workers))
        chosen = [[(part, None, None) for part in (parts[j] for j in group)] for group in groups]
    else:
        chosen = _by_query(parts, seen, len(workers), one_list)
    blocks = []
    for pieces, worker in zip(chosen, workers, strict=False):
        held = [client.submit(_piece, *each, pure=False) for each in pieces]
        # Another worker will do if this one is lost.
        there = {"workers": [worker], "allow_other_workers": True}
        blocks.append((client.submit(_join, held, pure=False, **there), worker))
    rows = sum(each["rows"] for each in seen)
    if shared:
        kept, known = _shared_facts(client, [block for block, _ in blocks], rows)
    else:
        kept, known = _facts(client, [block for block, _ in blocks], model.balance, rows)
    bins = _bins(client, kept, known, model.max_bins)
    home = {block.key: worker for block, worker in blocks}
    homes = [home[block.key] for block in kept]
    return Dealt(kept, homes, bins, known, classes, names, has_queries=not one_list)


_DIFFERENCES = {
    "features": "the number of features",
    "names": "the names of the columns or in their order",
    "has_query": "having a qid or none",
    "has_weight": "having weights or none",
}


def _feature_names(columns: tuple[Any, ...] | None) -> list[str] | None:
    """Names of features as scikit-learn takes them: text; numbers are no names."""
    if columns is None or not any(isinstance(name, str) for name in columns):
        return None
    other = [name for name in columns if not isinstance(name, str)]
    if other:
        raise TypeError(
            f"some columns of X are named by text and some are not, such as {other[0]!r}; name all "
            "of them by text, for example with X.columns = X.columns.astype(str)"
        )
    return list(columns)


def _look_at(part: Rows) -> dict[str, Any]:
    """What the client needs to know of a partition to deal its rows out."""
    names: list[Any] = []
    counts = np.zeros(0, np.int64)
    if part.query is not None:
        number, identifiers = number_queries(part.query)
        names, counts = identifiers.tolist(), np.bincount(number, minlength=len(identifiers))
    return {
        "rows": len(part.X),
        "features": part.X.shape[1],
        "names": part.names,
        "has_query": part.query is not None,
        "has_weight": part.weight is not None,
        "labels": part.labels,
        "queries": names,
        "counts": counts,
    }


def _not_empty(
    parts: list[Any], seen: list[dict[str, Any]]
) -> tuple[list[Any], list[dict[str, Any]]]:
    kept = [j for j, each in enumerate(seen) if each["rows"]]
    if not kept:
        raise ValueError("there are no rows: the partitions are empty")
    return [parts[j] for j in kept], [seen[j] for j in kept]


def _evenly(rows: list[int], groups: int) -> list[list[int]]:
    """Neighbours in groups of about equal size."""
    middle = np.cumsum(rows) - np.array(rows) / 2
    number = np.minimum((middle * groups / sum(rows)).astype(int), groups - 1)
    return [np.flatnonzero(number == group).tolist() for group in range(groups) if group in number]


def _by_query(
    parts: list[Any], seen: list[dict[str, Any]], workers: int, one_list: bool
) -> list[list[tuple[Any, Any, Any]]]:
    """For each block its pieces: a partition, the number of each query, which of them to take.

    Queries go to blocks in the order in which they are met, so that those that lie together
    stay together.
    """
    if one_list:
        return [[(part, None, None) for part in parts]]
    number: dict[Any, int] = {}
    sizes: list[int] = []
    numbers = []
    for each in seen:
        here = []
        for name, count in zip(each["queries"], each["counts"], strict=True):
            known = number.setdefault(name, len(number))
            if known == len(sizes):
                sizes.append(0)
            sizes[known] += int(count)
            here.append(known)
        numbers.append(np.array(here, np.int64))
    groups = _evenly(sizes, workers)
    block_of = np.empty(len(sizes), np.int64)
    for block, group in enumerate(groups):
        block_of[group] = block
    return [
        [
            (part, here, block_of[here] == block)
            for part, here in zip(parts, numbers, strict=True)
            if (block_of[here] == block).any()
        ]
        for block in range(len(groups))
    ]


def _piece(part: Rows, numbers: Array | None, taken: Array | None) -> Rows:
    """The rows of a partition that belong to a block, their queries numbered for all."""
    if numbers is None or taken is None:
        return replace(part, query=None)
    local = number_queries(part.query)[0]
    rows = np.flatnonzero(taken[local])
    weight = None if part.weight is None else part.weight[rows]
    return Rows(part.X[rows], part.grade[rows], numbers[local[rows]], weight, part.labels)


def _join(pieces: list[Rows]) -> Rows:
    def joined(name: str) -> Any:
        arrays = [getattr(piece, name) for piece in pieces]
        return None if arrays[0] is None else np.concatenate(arrays)

    names = ("X", "grade", "query", "weight", "labels")
    return Rows(**{name: joined(name) for name in names})


# -- what all blocks have in common ----------------------------------------------------------


def _facts(client: Any, blocks: list[Any], balance: str, rows: int) -> tuple[list[Any], Facts]:
    """Totals over whole queries; blocks without a pair are left out."""
    found = client.gather(client.map(_facts_of, blocks, balance=balance, pure=False))
    kept = [j for j, each in enumerate(found) if each["totals"].size]
    if not kept:
        grades = np.unique(np.concatenate([each["grades"] for each in found]))
        raise ValueError(_why_none(grades, one_list=False))
    totals = np.concatenate([found[j]["totals"] for j in kept])
    balanced = totals if balance == "pairs" else totals * (1.0 / totals)
    if balance == "items":
        balanced = np.concatenate([found[j]["items"] for j in kept])
    pairs = float(sum(found[j]["pairs"] for j in kept))
    blocks = [blocks[j] for j in kept]
    known = Facts(balance, math.fsum(balanced), max(math.fsum(totals), pairs), rows)
    ends = [(found[j]["lightest"], found[j]["heaviest"]) for j in kept]
    return blocks, replace(known, weight_total=_weight_total(client, blocks, known, ends))


def _facts_of(block: Rows, balance: str) -> dict[str, Any]:
    arrangement = block.judgments().arrange(balance)
    weight = arrangement.weight
    return {
        "totals": arrangement.query_totals() if weight.size else np.zeros(0),
        "items": arrangement.query_items(),
        "pairs": arrangement.count_graded_pairs(),
        "grades": np.unique(block.grade),
        "lightest": weight.min(initial=np.inf),
        "heaviest": weight.max(initial=0.0),
    }


def _shared_facts(client: Any, blocks: list[Any], rows: int) -> tuple[list[Any], Facts]:
    """Levels of one list that is split; its grades and weights meet on one worker, once."""
    columns = client.map(_grades_and_weights, blocks, pure=False)
    known, sizes, ends = client.submit(_facts_of_list, columns, rows, pure=False).result()
    kept = [block for block, size in zip(blocks, sizes, strict=True) if size]
    return kept, replace(known, weight_total=_weight_total(client, kept, known, [ends]))


def _grades_and_weights(block: Rows) -> tuple[Floats, Floats | None]:
    return block.grade, block.weight


def _facts_of_list(
    columns: list[tuple[Floats, Floats | None]], rows: int
) -> tuple[Facts, list[int], tuple[float, float]]:
    weight = None
    if columns[0][1] is not None:
        weight = np.concatenate([each[1] for each in columns if each[1] is not None])
    judgments = Judgments(np.concatenate([each[0] for each in columns]), weight=weight)
    whole = judgments.arrange()
    if whole.total <= 0:
        raise ValueError(why_no_pair(judgments))
    facts = Facts(
        "pairs", whole.total, whole.pair_count, rows,
        grades=whole.grade[whole.level_start[:-1]], level_weight=whole.weights_of_levels(),
    )  # fmt: skip
    sizes = [int((np.ones(each[0].size) if each[1] is None else each[1] > 0).sum())
             for each in columns]  # fmt: skip
    return facts, sizes, (float(whole.weight.min()), float(whole.weight.max()))


def _why_none(grades: Floats, *, one_list: bool) -> str:
    return why_no_pair(Judgments(grades, None if one_list else np.arange(grades.size)))


def _weight_total(
    client: Any, blocks: list[Any], facts: Facts, ends: list[tuple[float, float]]
) -> float | None:
    """Sum of the weights of all places, as `exact_sum` takes it; None if they are equal."""
    lightest, heaviest = min(each[0] for each in ends), max(each[1] for each in ends)
    if lightest == heaviest:
        return None
    exponent = int(np.frexp(heaviest)[1])
    words = client.gather(
        client.map(_words_of_weights, blocks, facts=facts, exponent=exponent, pure=False)
    )
    return float(from_words(added(words), exponent))


def _words_of_weights(block: Rows, facts: Facts, exponent: int) -> Integers:
    return np.array(words_of(arranged(block, facts).weight, exponent), np.int64)


def arranged(block: Rows, facts: Facts) -> Arrangement:
    """The places of a block, with the totals of all."""
    if facts.grades is None:
        arrangement = block.judgments().arrange(facts.balance)
    else:
        arrangement = _levels_of_list(block, facts.grades)
    return replace(
        arrangement,
        total=facts.total,
        pair_count=facts.pair_count,
        n_rows=facts.rows,
        level_weight=facts.level_weight,
    )


def _levels_of_list(block: Rows, grades: Floats) -> Arrangement:
    """Places of some rows of one list, in the levels of the whole list; some may be empty."""
    weight = np.ones(block.grade.size) if block.weight is None else block.weight
    rows = np.flatnonzero(weight > 0)
    rows = rows[np.argsort(block.grade[rows], kind="stable")]
    start = np.searchsorted(block.grade[rows], grades).tolist()
    none = np.zeros(0, np.int64)
    return Arrangement(
        order=rows,
        level_start=np.array([*start, rows.size], np.int64),
        query_start=np.array([0, grades.size], np.int64),
        grade=block.grade[rows],
        weight=weight[rows],
        outer=weight[rows],
        winner=none,
        loser=none,
        pair_weight=np.zeros(0),
        total=0.0,
        pair_count=0.0,
        n_rows=block.grade.size,
    )


def _bins(client: Any, blocks: list[Any], facts: Facts, max_bins: int) -> Bins:
    """Cut points of every feature from the distinct values of all blocks, merged exactly.

    A few features at a time travel from all blocks to one worker, which needs memory for the
    distinct values of these.
    """
    features = client.submit(_count_features, blocks[0], pure=False).result()
    width = max(1, -(-features // (4 * max(1, len(client.nthreads())))))
    width = min(width, 16)
    cuts = []
    for first in range(0, features, width):
        span = (first, min(first + width, features))
        summaries = client.map(_distinct, blocks, facts=facts, span=span, pure=False)
        cuts.append(client.submit(_cuts, summaries, max_bins, pure=False))
    found = [each for group in client.gather(cuts) for each in group]
    low, high, missing = (np.array(each) for each in zip(*(end for _, end in found), strict=True))
    return Bins(tuple(cut for cut, _ in found), low, high, missing.astype(bool))


def _count_features(block: Rows) -> int:
    return int(block.X.shape[1])


def _distinct(
    block: Rows, facts: Facts, span: tuple[int, int]
) -> list[tuple[Floats, Integers, bool]]:
    """Distinct values of some features, their weights as integers, and whether some miss."""
    arrangement = arranged(block, facts)
    weight = None
    if facts.weight_total is not None:
        weight = integer_weights(arrangement.weight, facts.weight_total)
    found = []
    for feature in range(*span):
        column = block.X[arrangement.order, feature].astype(np.float64)
        present = ~np.isnan(column)
        values, where = np.unique(column[present], return_inverse=True)
        heavy = np.zeros(values.size, np.int64)
        np.add.at(heavy, where, 1 if weight is None else weight[present])
        found.append((values, heavy, not bool(present.all())))
    return found


def _cuts(
    summaries: list[list[tuple[Floats, Integers, bool]]], max_bins: int
) -> list[tuple[Floats, tuple[float, float, bool]]]:
    """Cut points and ends of some features, as `Table.build` chooses them."""
    found = []
    for parts in zip(*summaries, strict=True):
        values = np.concatenate([part[0] for part in parts])
        heavy = np.concatenate([part[1] for part in parts])
        cut, (low, high, _) = choose_cuts(values, heavy, max_bins)
        found.append((cut, (low, high, any(part[2] for part in parts))))
    return found
