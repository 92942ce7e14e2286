"""Rows on a cluster scattered to its workers, with cuts and totals as one machine finds them.

Partitions are checked, queries whose rows lie in several are brought together, and each worker
gets one block of whole queries, or of a single list where that may be split. Queries that listed
pairs join are in one block. Then what nobody
knows alone is found: the total weight of the pairs and the cut points of every feature, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from traceback import clear_frames
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.exact import added, from_words, words_of
from precede.engine.frames import refuse_text_in_blocks
from precede.engine.query_layout import QueryLayout, joined_totals, totals_of_queries
from precede.engine.table import Bins, FeatureBins, integer_weights
from precede.engine.training_data import why_no_pair
from precede.estimator import BaseRanker
from precede.files.disk import dense_block
from precede.judgments import Judgments, number_queries, numeric_grades, sample_weights

__all__ = ["GlobalTotals", "Listed", "Rows", "Scattered", "arranged", "partitions", "scatter"]


# A single list is split between workers if it has no more grades than this: their sums travel.
MOST_GRADES = 256


# -- partitions, queries and blocks ----------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Some rows, checked: raw values, grades, numbers of queries, weights, distinct labels.

    `names` are those of the columns, where they had names. Where pairs are listed, `number` are the
    numbers of the rows among all, and `pairs` and `pair_weight` the pairs of a block, by its rows.
    """

    X: Array
    grade: Floats
    query: Array | None
    weight: Floats | None
    labels: Array
    names: tuple[Any, ...] | None = None
    number: Array | None = None
    pairs: Array | None = None
    pair_weight: Floats | None = None

    def judgments(self) -> Judgments:
        """What is known about their order."""
        return Judgments(
            self.grade, self.query, pairs=self.pairs, pair_weight=self.pair_weight,
            weight=self.weight,
        )  # fmt: skip


@dataclass(frozen=True)
class Listed:
    """Listed pairs as (winner, loser) rows, counted over all partitions, and their weights."""

    pairs: Any
    weight: Any


@dataclass(frozen=True)
class GlobalTotals:
    """What nobody knows alone: totals, and the levels of a list that is split.

    `grades` and `level_weight` are None where queries are whole. `weight_total` is None where
    all weights are equal.
    """

    balance: str
    total: float
    pair_count: float
    rows: int
    weight_total: float | None = None
    listed: bool = False
    grades: Floats | None = None
    level_weight: Floats | None = None


@dataclass(frozen=True)
class Scattered:
    """Blocks, the workers that hold them, and what is known about all of them."""

    blocks: list[Any]
    homes: list[str]
    bins: Bins
    facts: GlobalTotals
    classes: Array | None
    names: list[str] | None
    has_queries: bool


def partitions(X: Any, y: Any, qid: Any, weight: Any, *, graded: bool = True) -> list[Any]:
    """Delayed `Rows`, one for each partition; without `graded` there may be no y."""
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
    if graded and "y" not in delayed:
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


def _checked(
    number: int, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None
) -> Rows:
    """One partition as arrays; everything a local fit would refuse is refused."""
    refuse_text_in_blocks(X)
    values = dense_block(X)
    if np.isinf(values).any():
        raise ValueError(f"X of partition {number} holds infinities; use NaN for missing values")
    if y is None:  # the order is that of listed pairs alone
        grade, label = np.full(len(values), np.nan), np.zeros(0)
    elif len(values):
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
def scatter(
    client: Any, delayed: list[Any], model: BaseRanker, listed: Listed | None = None
) -> Iterator[Scattered]:
    """Bring queries together, deal the rows out, and find what all blocks have in common.

    When the context ends, however it ends, the workers are rid of everything made here and of
    everything made from it.
    """
    if not delayed:
        raise ValueError("X has no partitions")
    parts = client.compute(delayed)
    try:
        scattered = _scattered(client, parts, model, listed)
    except BaseException as error:
        # Not cancelled: tasks beside the one that failed may still be under way, and the
        # scheduler loses a client that cancels what they wait for.
        for part in parts:
            part.release()
        clear_frames(error.__traceback__)  # which hold the futures made on the way
        raise
    del parts  # from now on the blocks stand for them
    try:
        yield scattered
    finally:
        _forget(client, scattered.blocks)


def _forget(client: Any, futures: list[Any]) -> None:
    """Have futures and all that depends on them forgotten, whoever still holds them.

    The keys are of one fit and of nobody else. An exception that is being shown to the user
    would otherwise keep the rows on the workers.
    """
    if client.status != "running":  # if the cluster is gone, so are they
        return
    with suppress(Exception):
        client.cancel(futures, force=True)


def _scattered(
    client: Any, parts: list[Any], model: BaseRanker, listed: Listed | None
) -> Scattered:
    seen = client.gather(client.map(_look_at, parts, pure=False))
    parts, seen = _not_empty(parts, seen)
    rows = sum(each["rows"] for each in seen)
    if listed is not None:  # refuses rows that are not there
        whole = Judgments(n=rows, pairs=listed.pairs, pair_weight=listed.weight)
        assert whole.pairs is not None
        listed = Listed(whole.pairs, whole.pair_weight)
    for name in ("features", "names", "has_query", "has_weight"):
        if len({each[name] for each in seen}) > 1:
            raise ValueError(f"the partitions differ in {_DIFFERENCES[name]}")
    names = _feature_names(seen[0]["names"])
    labels = np.unique(np.concatenate([each["labels"] for each in seen]))
    one_list = not seen[0]["has_query"] or getattr(model, "scope", "query") == "global"
    two = labels.size == 2 and not seen[0]["has_query"] and listed is None
    classes = labels if two else None
    shared = one_list and model._splits_a_list() and labels.size <= MOST_GRADES
    shared = shared and listed is None
    workers = list(client.nthreads())
    if not workers:
        raise ValueError("the cluster has no workers; start some")
    pairs: list[Any] = []  # of each block, where some are listed
    if shared:
        groups = _evenly([each["rows"] for each in seen], len(workers))
        chosen = [[_whole(parts[j], seen[j]) for j in group] for group in groups]
    elif one_list:
        chosen = [[_whole(part, each) for part, each in zip(parts, seen, strict=True)]]
        pairs = [listed]
    else:
        chosen, pairs = _by_query(client, parts, seen, len(workers), listed)
    blocks = []
    for number, (pieces, worker) in enumerate(zip(chosen, workers, strict=False)):
        held = [client.submit(_piece, *each, pure=False) for each in pieces]
        # Another worker will do if this one is lost.
        there = {"workers": [worker], "allow_other_workers": True}
        of_block = pairs[number] if pairs else None
        blocks.append((client.submit(_join, held, of_block, pure=False, **there), worker))
    if shared:
        kept, known = _shared_facts(client, [block for block, _ in blocks], rows)
    else:
        kept, known = _facts(client, [block for block, _ in blocks], model.balance, rows)
        known = replace(known, listed=listed is not None)
    model._take_features(seen[0]["features"], names)
    bins = _bins(client, kept, known, model.max_bins, model.categorical_columns())
    home = {block.key: worker for block, worker in blocks}
    homes = [home[block.key] for block in kept]
    return Scattered(kept, homes, bins, known, classes, names, has_queries=not one_list)


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
    first = np.cumsum([0, *(each["rows"] for each in seen)])
    kept = [j for j, each in enumerate(seen) if each["rows"]]
    if not kept:
        raise ValueError("there are no rows: the partitions are empty")
    return [parts[j] for j in kept], [{**seen[j], "first": int(first[j])} for j in kept]


def _evenly(rows: list[int], groups: int) -> list[list[int]]:
    """Neighbors in groups of about equal size."""
    middle = np.cumsum(rows) - np.array(rows) / 2
    number = np.minimum((middle * groups / sum(rows)).astype(int), groups - 1)
    return [np.flatnonzero(number == group).tolist() for group in range(groups) if group in number]


def _whole(part: Any, seen: dict[str, Any]) -> tuple[Any, ...]:
    """A whole partition as a piece of one list."""
    return part, seen["first"], None, None


def _by_query(
    client: Any, parts: list[Any], seen: list[dict[str, Any]], workers: int, listed: Listed | None
) -> tuple[list[list[tuple[Any, ...]]], list[Listed | None]]:
    """For each block its pieces, and the listed pairs between their rows.

    A piece is a partition, the number of its first row, the number of each query, and which of
    them to take. Queries that listed pairs join, directly or by way of others, stay together.
    They go to blocks in the order in which they are met, so that those that lie together stay
    together; they are numbered as one machine numbers them.
    """
    met: dict[Any, int] = {}
    for each in seen:
        for name in each["queries"]:
            met.setdefault(name, len(met))
    numbers = [np.array([met[name] for name in each["queries"]], np.int64) for each in seen]
    sizes = np.zeros(len(met), np.int64)
    for here, each in zip(numbers, seen, strict=True):
        np.add.at(sizes, here, each["counts"])
    joined = np.arange(len(met))
    ends = np.zeros((0, 2), np.int64)
    if listed is not None:
        ends = _queries_of(client, parts, seen, numbers, listed.pairs)
        graph = scipy.sparse.coo_array((np.ones(len(ends)), ends.T), (len(met), len(met)))
        joined = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    groups = _evenly(np.bincount(joined, sizes).tolist(), workers)
    block_of_joined = np.empty(int(joined.max()) + 1, np.int64)
    for block, group in enumerate(groups):
        block_of_joined[group] = block
    block_of = block_of_joined[joined]
    name_of = number_queries(list(met))[0]
    pieces = [
        [
            (part, each["first"], name_of[here], block_of[here] == block)
            for part, each, here in zip(parts, seen, numbers, strict=True)
            if (block_of[here] == block).any()
        ]
        for block in range(len(groups))
    ]
    if listed is None:
        return pieces, []
    inside = [block_of[ends[:, 0]] == block for block in range(len(groups))]
    weight = listed.weight
    return pieces, [
        Listed(listed.pairs[each], None if weight is None else weight[each]) for each in inside
    ]


def _queries_of(
    client: Any,
    parts: list[Any],
    seen: list[dict[str, Any]],
    numbers: list[Array],
    rows: Array,
) -> Array:
    """Numbers of the queries of some rows, which are counted over all partitions."""
    found = np.empty(rows.shape, np.int64)
    asked = []
    for part, each in zip(parts, seen, strict=True):
        inside = (rows >= each["first"]) & (rows < each["first"] + each["rows"])
        there = client.submit(_local_queries, part, rows[inside] - each["first"], pure=False)
        asked.append((inside, there))
    answers = client.gather([there for _, there in asked])
    for (inside, _), here, local in zip(asked, numbers, answers, strict=True):
        found[inside] = here[local]
    return found


def _local_queries(part: Rows, rows: Array) -> Array:
    """Which queries of a partition, as `_look_at` lists them, some of its rows belong to."""
    return number_queries(part.query)[0][rows]


def _piece(part: Rows, first: int, numbers: Array | None, taken: Array | None) -> Rows:
    """The rows of a partition that belong to a block, their queries numbered for all."""
    number = first + np.arange(len(part.X))
    if numbers is None or taken is None:
        return replace(part, query=None, number=number)
    local = number_queries(part.query)[0]
    rows = np.flatnonzero(taken[local])
    weight = None if part.weight is None else part.weight[rows]
    query = numbers[local[rows]]
    return Rows(part.X[rows], part.grade[rows], query, weight, part.labels, number=number[rows])


def _join(pieces: list[Rows], listed: Listed | None) -> Rows:
    """One block of its pieces, whose rows stand in the order of all rows."""

    def joined(name: str) -> Any:
        arrays = [getattr(piece, name) for piece in pieces]
        return None if arrays[0] is None else np.concatenate(arrays)

    names = ("X", "grade", "query", "weight", "labels")
    block = Rows(**{name: joined(name) for name in names})
    if listed is None or not len(listed.pairs):
        return block
    pairs = np.searchsorted(joined("number"), listed.pairs)
    return replace(block, pairs=pairs, pair_weight=listed.weight)


# -- what all blocks have in common ----------------------------------------------------------


def _facts(
    client: Any, blocks: list[Any], balance: str, rows: int
) -> tuple[list[Any], GlobalTotals]:
    """Totals over whole queries; blocks without a pair are left out."""
    found = client.gather(client.map(_facts_of, blocks, pure=False))
    kept = [j for j, each in enumerate(found) if each["totals"].pairs.any()]
    if not kept:
        grades = np.unique(np.concatenate([each["grades"] for each in found]))
        raise ValueError(_why_none(grades, one_list=False))
    total, pair_count = joined_totals([found[j]["totals"] for j in kept], balance)
    blocks = [blocks[j] for j in kept]
    known = GlobalTotals(balance, total, pair_count, rows)
    ends = [(found[j]["lightest"], found[j]["heaviest"]) for j in kept]
    return blocks, replace(known, weight_total=_weight_total(client, blocks, known, ends))


def _facts_of(block: Rows) -> dict[str, Any]:
    judgments = block.judgments()
    weight = judgments.to_layout().weight
    return {
        "totals": totals_of_queries(judgments),
        "grades": np.unique(block.grade),
        "lightest": weight.min(initial=np.inf),
        "heaviest": weight.max(initial=0.0),
    }


def _shared_facts(client: Any, blocks: list[Any], rows: int) -> tuple[list[Any], GlobalTotals]:
    """Levels of one list that is split; its grades and weights meet on one worker, once."""
    columns = client.map(_grades_and_weights, blocks, pure=False)
    known, sizes, ends = client.submit(_facts_of_list, columns, rows, pure=False).result()
    kept = [block for block, size in zip(blocks, sizes, strict=True) if size]
    return kept, replace(known, weight_total=_weight_total(client, kept, known, [ends]))


def _grades_and_weights(block: Rows) -> tuple[Floats, Floats | None]:
    return block.grade, block.weight


def _facts_of_list(
    columns: list[tuple[Floats, Floats | None]], rows: int
) -> tuple[GlobalTotals, list[int], tuple[float, float]]:
    weight = None
    if columns[0][1] is not None:
        weight = np.concatenate([each[1] for each in columns if each[1] is not None])
    judgments = Judgments(np.concatenate([each[0] for each in columns]), weight=weight)
    whole = judgments.to_layout()
    if whole.total <= 0:
        raise ValueError(why_no_pair(judgments))
    facts = GlobalTotals(
        "pairs", whole.total, whole.pair_count, rows,
        grades=whole.grade[whole.level_start[:-1]], level_weight=whole.weights_of_levels(),
    )  # fmt: skip
    sizes = [int((np.ones(each[0].size) if each[1] is None else each[1] > 0).sum())
             for each in columns]  # fmt: skip
    return facts, sizes, (float(whole.weight.min()), float(whole.weight.max()))


def _why_none(grades: Floats, *, one_list: bool) -> str:
    return why_no_pair(Judgments(grades, None if one_list else np.arange(grades.size)))


def _weight_total(
    client: Any, blocks: list[Any], facts: GlobalTotals, ends: list[tuple[float, float]]
) -> float | None:
    """Sum of the weights of all rows, as `exact_sum` takes it; None if they are equal."""
    lightest, heaviest = min(each[0] for each in ends), max(each[1] for each in ends)
    if lightest == heaviest:
        return None
    exponent = int(np.frexp(heaviest)[1])
    words = client.gather(
        client.map(_words_of_weights, blocks, facts=facts, exponent=exponent, pure=False)
    )
    return float(from_words(added(words), exponent))


def _words_of_weights(block: Rows, facts: GlobalTotals, exponent: int) -> Integers:
    return np.array(words_of(arranged(block, facts).weight, exponent), np.int64)


def arranged(block: Rows, facts: GlobalTotals) -> QueryLayout:
    """The rows of a block, with the totals of all."""
    if facts.grades is None:
        layout = block.judgments().to_layout(facts.balance)
    else:
        layout = _levels_of_list(block, facts.grades)
    return replace(
        layout,
        total=facts.total,
        pair_count=facts.pair_count,
        n_rows=facts.rows,
        level_weight=facts.level_weight,
        listed_elsewhere=facts.listed,
    )


def _levels_of_list(block: Rows, grades: Floats) -> QueryLayout:
    """Some rows of one list, in the levels of the whole list; some may be empty."""
    weight = np.ones(block.grade.size) if block.weight is None else block.weight
    rows = np.flatnonzero(weight > 0)
    rows = rows[np.argsort(block.grade[rows], kind="stable")]
    start = np.searchsorted(block.grade[rows], grades).tolist()
    none = np.zeros(0, np.int64)
    return QueryLayout(
        order=rows,
        level_start=np.array([*start, rows.size], np.int64),
        query_start=np.array([0, grades.size], np.int64),
        grade=block.grade[rows],
        weight=weight[rows],
        loser_weight=weight[rows],
        winner=none,
        loser=none,
        pair_weight=np.zeros(0),
        total=0.0,
        pair_count=0.0,
        n_rows=block.grade.size,
    )


def _bins(
    client: Any, blocks: list[Any], facts: GlobalTotals, max_bins: int, categorical: list[int]
) -> Bins:
    """Bins of every feature from the distinct values of all blocks, merged exactly.

    A few features at a time travel from all blocks to one worker, which needs memory for the
    distinct values of these.
    """
    features = client.submit(_count_features, blocks[0], pure=False).result()
    width = max(1, -(-features // (4 * max(1, len(client.nthreads())))))
    width = min(width, 16)
    chosen = []
    for first in range(0, features, width):
        span = (first, min(first + width, features))
        summaries = client.map(_distinct, blocks, facts=facts, span=span, pure=False)
        given = summaries, first, max_bins, categorical
        chosen.append(client.submit(_bins_of_some, *given, pure=False))
    return Bins.of([each for group in client.gather(chosen) for each in group])


def _count_features(block: Rows) -> int:
    return int(block.X.shape[1])


def _distinct(
    block: Rows, facts: GlobalTotals, span: tuple[int, int]
) -> list[tuple[Floats, Integers, bool]]:
    """Distinct values of some features, their weights as integers, and whether some miss."""
    layout = arranged(block, facts)
    weight = None
    if facts.weight_total is not None:
        weight = integer_weights(layout.weight, facts.weight_total)
    found = []
    for feature in range(*span):
        column = block.X[layout.order, feature].astype(np.float64)
        present = ~np.isnan(column)
        values, where = np.unique(column[present], return_inverse=True)
        heavy = np.zeros(values.size, np.int64)
        np.add.at(heavy, where, 1 if weight is None else weight[present])
        found.append((values, heavy, not bool(present.all())))
    return found


def _bins_of_some(
    summaries: list[list[tuple[Floats, Integers, bool]]],
    first: int,
    max_bins: int,
    categorical: list[int],
) -> list[FeatureBins]:
    """Bins of the features `first`, `first` + 1, ..., as `Table.build` chooses them."""
    found = []
    for feature, parts in enumerate(zip(*summaries, strict=True), first):
        values = np.concatenate([part[0] for part in parts])
        heavy = np.concatenate([part[1] for part in parts])
        bins = FeatureBins.choose(
            values, heavy, max_bins, feature=feature, named=feature in categorical
        )
        missing = bins.has_missing or any(part[2] for part in parts)
        found.append(replace(bins, has_missing=missing))
    return found
