"""Distribution of rows to the workers of a cluster, and totals over all of them.

Partitions are checked, queries that span several partitions are brought together, and each worker
gets one block of whole queries, or a chunk of a single list if that may be split. Queries that are
connected by explicit pairs are in the same block. Then the totals over all blocks are computed
exactly, as in a local fit: the total pair weight and the cut points of every feature.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from traceback import clear_frames
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import ArrayLike

from precede.engine.arrays import Array, Flags, Floats, Integers, MatrixLike, VectorLike
from precede.engine.exact import fixed_point_sum, from_fixed_point, sum_parts
from precede.engine.frames import refuse_text_in_blocks
from precede.engine.query_layout import (
    QueryLayout,
    QueryTotals,
    merge_query_totals,
    query_totals,
    why_no_pair,
)
from precede.engine.table import Bins, FeatureBins, integer_weights
from precede.files.disk import dense_block
from precede.judgments import Judgments, number_queries, numeric_grades, sample_weights

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

    from precede.dask.estimators import _DaskRanker

# A single list with more distinct grades is not split: workers exchange one sum per grade.
MAX_GRADES_OF_SPLIT_LIST = 256


# -- partitions, queries and blocks ----------------------------------------------------------


@dataclass(frozen=True)
class RowBlock:
    """Checked rows of a partition or of a worker.

    `column_names` is None if the columns have no names. With explicit pairs, `row_number` has the
    numbers of the rows over all partitions, and `pairs` the pairs of a worker as positions in the
    block.
    """

    X: Array
    grade: Floats
    query: Array | None
    weight: Floats | None
    labels: Array  # distinct
    column_names: tuple[Hashable, ...] | None = None
    row_number: Array | None = None
    pairs: Array | None = None
    pair_weight: Floats | None = None

    def judgments(self) -> Judgments:
        """Return the judgments of the rows."""
        return Judgments(
            self.grade, self.query, pairs=self.pairs, pair_weight=self.pair_weight,
            weight=self.weight,
        )  # fmt: skip


@dataclass(frozen=True)
class ExplicitPairs:
    """Pairs (winner, loser) as row numbers over all partitions, and their weights."""

    pairs: Integers
    weight: Floats | None

    @classmethod
    def read(
        cls, pairs: ArrayLike | None, weight: ArrayLike | None, rows: int
    ) -> ExplicitPairs | None:
        """Check the pairs of a table with this number of rows."""
        judgments = Judgments(n=rows, pairs=pairs, pair_weight=weight)
        if judgments.pairs is None:
            return None
        return cls(judgments.pairs, judgments.pair_weight)

    def take(self, selected: Flags) -> ExplicitPairs:
        """Return the selected pairs."""
        weight = None if self.weight is None else self.weight[selected]
        return ExplicitPairs(self.pairs[selected], weight)


@dataclass(frozen=True)
class GlobalTotals:
    """Totals over all partitions: weight and number of pairs, number and weight of rows.

    `weight_total` is None if all rows have equal weight. `grades` and `level_weight` are the levels
    of a list that is split; None otherwise.
    """

    balance: str
    total: float
    pair_count: float
    rows: int
    weight_total: float | None = None
    has_explicit_pairs: bool = False
    grades: Floats | None = None
    level_weight: Floats | None = None


@dataclass(frozen=True)
class ScatteredRows:
    """Futures of blocks, the worker of each, and totals over all blocks."""

    blocks: list[Future[RowBlock]]
    workers: list[str]
    bins: Bins
    totals: GlobalTotals
    classes: Array | None
    has_queries: bool


class PartitionSummary(NamedTuple):
    """What the client knows of a partition when it assigns rows to workers."""

    rows: int
    features: int
    names: tuple[Hashable, ...] | None
    has_query: bool
    has_weight: bool
    labels: Array
    queries: list[Hashable]
    counts: Integers  # rows of each of the queries
    first: int = 0  # number of the first row over all partitions


class Selection(NamedTuple):
    """The rows of a partition that go to one block: all, or those of the selected queries.

    `numbers` and `selected` have an entry for each query of the partition: its number over all
    partitions, and whether it is selected.
    """

    part: Future[RowBlock]
    first: int
    numbers: Integers | None = None
    selected: Flags | None = None


def partitions(
    X: MatrixLike, y: VectorLike, qid: VectorLike, weight: VectorLike, *, graded: bool = True
) -> list[Delayed]:
    """Return one delayed `RowBlock` per partition; y is optional if not `graded`."""
    import dask  # noqa: PLC0415  (only on clusters)

    if isinstance(X, list | tuple):
        if y is not None or qid is not None or weight is not None:
            raise ValueError(
                "partitions are given as a list, so each gives (X, y), (X, y, qid) or (X, y, qid, "
                "sample_weight); leave y, qid and sample_weight out"
            )
        check_tuple = dask.delayed(_check_tuple, pure=False)
        return [check_tuple(part, number) for number, part in enumerate(X)]
    if not hasattr(type(X), "npartitions"):
        raise ValueError(
            f"X is {type(X).__name__}, which is not on a cluster; give a dask DataFrame or array "
            "or a list of delayed partitions, or use the local estimator"
        )
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
    columns = {"X": X, "y": y, "qid": qid, "sample_weight": weight}
    delayed = {
        name: _delayed_partitions(each, X, name)
        for name, each in columns.items()
        if each is not None
    }
    if graded and "y" not in delayed:
        raise ValueError("y is missing; give the grade of every row as a dask Series or array")
    count = len(delayed["X"])
    check = dask.delayed(_check_partition, pure=False)
    return [
        check(number, **{name: each[number] for name, each in delayed.items()})
        for number in range(count)
    ]


def _delayed_partitions(column: MatrixLike, X: MatrixLike, name: str) -> list[Delayed]:
    """Return the delayed partitions of a collection, which must match those of X."""
    if not hasattr(type(column), "npartitions"):
        raise ValueError(
            f"{name} is {type(column).__name__}; give a dask Series or array with the partitions "
            "of X"
        )
    if name != "X" and hasattr(column, "rechunk") and hasattr(X, "chunks"):
        sizes_known = not np.isnan(column.shape[0]) and not np.isnan(X.shape[0])
        if sizes_known and column.shape[0] == X.shape[0]:
            column = column.rechunk({0: X.chunks[0]})
    parts = np.asarray(column.to_delayed(), object).ravel().tolist()
    expected = X.npartitions
    if len(parts) != expected:
        raise ValueError(f"{name} has {len(parts)} partitions and X has {expected}")
    return parts


def _check_tuple(block: object, number: int) -> RowBlock:
    """Return a partition that is given as a tuple as a `RowBlock`."""
    if not isinstance(block, tuple | list) or not 2 <= len(block) <= 4:
        raise ValueError(
            f"partition {number} must be (X, y), (X, y, qid) or (X, y, qid, sample_weight)"
        )
    names = ("X", "y", "qid", "sample_weight")
    return _check_partition(number, **dict(zip(names, block, strict=False)))


def _check_partition(
    number: int,
    X: MatrixLike,
    y: VectorLike = None,
    qid: VectorLike = None,
    sample_weight: VectorLike = None,
) -> RowBlock:
    """Return a partition as a `RowBlock`; raise ValueError for input that a local fit refuses."""
    refuse_text_in_blocks(X)
    values = dense_block(X)
    if np.isinf(values).any():
        raise ValueError(f"X of partition {number} holds infinities; use NaN for missing values")
    if y is None:  # only explicit pairs
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
    return RowBlock(values, grade, judgments.qid, weight, np.unique(label), names)


@contextmanager
def scatter(
    client: Client,
    delayed: list[Delayed],
    model: _DaskRanker,
    pairs: ArrayLike | None = None,
    pair_weight: ArrayLike | None = None,
) -> Iterator[ScatteredRows]:
    """Distribute the rows to the workers and compute the totals over all blocks.

    On exit all futures created here, and all that depend on them, are released.
    """
    if not delayed:
        raise ValueError("X has no partitions")
    parts = client.compute(delayed)
    try:
        scattered = _scatter_rows(client, parts, model, (pairs, pair_weight))
    except BaseException as error:
        # Release instead of cancel: other tasks may still be running, and the scheduler loses
        # a client that cancels the dependencies of running tasks.
        for part in parts:
            part.release()
        clear_frames(error.__traceback__)  # the frames hold further futures
        raise
    del parts  # the blocks replace them
    try:
        yield scattered
    finally:
        _cancel(client, scattered.blocks)


def _cancel(client: Client, futures: list[Future[RowBlock]]) -> None:
    """Cancel futures and all that depend on them, even if they are still referenced.

    The keys are unique to one fit. Without this, an exception whose traceback refers to the futures
    would keep the rows on the workers.
    """
    if client.status != "running":
        return
    with suppress(Exception):
        client.cancel(futures, force=True)


def _scatter_rows(
    client: Client,
    parts: list[Future[RowBlock]],
    model: _DaskRanker,
    given: tuple[ArrayLike | None, ArrayLike | None],
) -> ScatteredRows:
    parts, summaries = _summaries(client, parts)
    rows = sum(each.rows for each in summaries)
    explicit = ExplicitPairs.read(*given, rows)
    model.take_features(summaries[0].features, _feature_names(summaries[0].names))
    labels = np.unique(np.concatenate([each.labels for each in summaries]))
    graded_list = not summaries[0].has_query and explicit is None
    one_list = not summaries[0].has_query or getattr(model, "scope", "query") == "global"
    is_split = model.can_split_list() and one_list and explicit is None
    is_split = is_split and labels.size <= MAX_GRADES_OF_SPLIT_LIST
    workers = list(client.nthreads())
    if not workers:
        raise ValueError("the cluster has no workers; start some")
    pairs: list[ExplicitPairs | None] = [explicit]  # of each block
    if one_list:
        whole = [Selection(part, each.first) for part, each in zip(parts, summaries, strict=True)]
        groups = [list(range(len(parts)))]
        if is_split:
            groups = _balanced_groups([each.rows for each in summaries], len(workers))
            pairs = [None] * len(groups)
        selections = [[whole[j] for j in group] for group in groups]
    else:
        selections, pairs = _assign_queries(client, parts, summaries, len(workers), explicit)
    blocks, worker_of_key = [], {}
    for selection, block_pairs, worker in zip(selections, pairs, workers, strict=False):
        chunks = [client.submit(_select_rows, *each, pure=False) for each in selection]
        block = client.submit(
            _concatenate, chunks, block_pairs, pure=False, workers=[worker],
            allow_other_workers=True,  # if this one is lost
        )  # fmt: skip
        blocks.append(block)
        worker_of_key[block.key] = worker
    if is_split:
        kept, totals = _totals_of_split_list(client, blocks, rows)
    else:
        kept, totals = _global_totals(client, blocks, model.balance, rows)
        totals = replace(totals, has_explicit_pairs=explicit is not None)
    bins = _global_bins(client, kept, totals, model.max_bins, model.categorical_columns())
    classes = labels if graded_list and labels.size == 2 else None
    workers = [worker_of_key[block.key] for block in kept]
    return ScatteredRows(kept, workers, bins, totals, classes, has_queries=not one_list)


_DIFFERENCES = {
    "features": "the number of features",
    "names": "the names of the columns or in their order",
    "has_query": "having a qid or none",
    "has_weight": "having weights or none",
}


def _feature_names(columns: tuple[Hashable, ...] | None) -> list[str] | None:
    """Return the feature names by scikit-learn's rules: strings; None if there is no string."""
    if columns is None or not any(isinstance(name, str) for name in columns):
        return None
    names = [name for name in columns if isinstance(name, str)]
    if len(names) < len(columns):
        other = next(name for name in columns if not isinstance(name, str))
        raise TypeError(
            f"some columns of X are named by text and some are not, such as {other!r}; name all "
            "of them by text, for example with X.columns = X.columns.astype(str)"
        )
    return names


def _summarize(part: RowBlock) -> PartitionSummary:
    queries: list[Hashable] = []
    counts = np.zeros(0, np.int64)
    if part.query is not None:
        number, identifiers = number_queries(part.query)
        queries, counts = identifiers.tolist(), np.bincount(number, minlength=len(identifiers))
    rows, features = part.X.shape
    has_query, has_weight = part.query is not None, part.weight is not None
    return PartitionSummary(
        rows, features, part.column_names, has_query, has_weight, part.labels, queries, counts
    )


def _summaries(
    client: Client, parts: list[Future[RowBlock]]
) -> tuple[list[Future[RowBlock]], list[PartitionSummary]]:
    """Return the partitions that are not empty, and their summaries; check that they are alike."""
    found: list[PartitionSummary] = client.gather(client.map(_summarize, parts, pure=False))
    first = np.cumsum([0, *(each.rows for each in found)])
    kept = [j for j, each in enumerate(found) if each.rows]
    if not kept:
        raise ValueError("there are no rows: the partitions are empty")
    summaries = [found[j]._replace(first=int(first[j])) for j in kept]
    for name, difference in _DIFFERENCES.items():
        if len({getattr(each, name) for each in summaries}) > 1:
            raise ValueError(f"the partitions differ in {difference}")
    return [parts[j] for j in kept], summaries


def _balanced_groups(sizes: list[int], count: int) -> list[list[int]]:
    """Divide items into at most `count` contiguous groups of about equal total size."""
    middle = np.cumsum(sizes) - np.array(sizes) / 2
    number = np.minimum((middle * count / sum(sizes)).astype(int), count - 1)
    return [np.flatnonzero(number == group).tolist() for group in range(count) if group in number]


def _assign_queries(
    client: Client,
    parts: list[Future[RowBlock]],
    summaries: list[PartitionSummary],
    workers: int,
    explicit: ExplicitPairs | None,
) -> tuple[list[list[Selection]], list[ExplicitPairs | None]]:
    """Return the rows of each block, and its explicit pairs.

    Queries are assigned to blocks in order of first occurrence, so that most rows stay in few
    partitions; queries connected by explicit pairs stay together. The numbers of queries, unlike
    their indices by first occurrence, are those of a local fit.
    """
    index_of_query: dict[Hashable, int] = {}  # by first occurrence
    for each in summaries:
        for name in each.queries:
            index_of_query.setdefault(name, len(index_of_query))
    indices = [
        np.array([index_of_query[name] for name in each.queries], np.int64) for each in summaries
    ]
    count = len(index_of_query)
    sizes = np.zeros(count, np.int64)
    for queries, each in zip(indices, summaries, strict=True):
        np.add.at(sizes, queries, each.counts)
    component = np.arange(count)
    pair_queries = np.zeros((0, 2), np.int64)
    if explicit is not None:
        pair_queries = _queries_of_rows(client, parts, summaries, indices, explicit.pairs)
        graph = scipy.sparse.coo_array((np.ones(len(pair_queries)), pair_queries.T), (count, count))
        component = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    groups = _balanced_groups(np.bincount(component, sizes).tolist(), workers)
    block_of_component = np.empty(int(component.max()) + 1, np.int64)
    for block, group in enumerate(groups):
        block_of_component[group] = block
    block_of = block_of_component[component]
    query_number = number_queries(list(index_of_query))[0]
    selections = [
        [
            Selection(part, each.first, query_number[queries], block_of[queries] == block)
            for part, each, queries in zip(parts, summaries, indices, strict=True)
            if (block_of[queries] == block).any()
        ]
        for block in range(len(groups))
    ]
    if explicit is None:
        return selections, [None] * len(groups)
    block_of_pair = block_of[pair_queries[:, 0]]
    return selections, [explicit.take(block_of_pair == block) for block in range(len(groups))]


def _queries_of_rows(
    client: Client,
    parts: list[Future[RowBlock]],
    summaries: list[PartitionSummary],
    indices: list[Integers],
    rows: Integers,
) -> Integers:
    """Return the indices of the queries of rows, which are numbered over all partitions."""
    inside = [(rows >= each.first) & (rows < each.first + each.rows) for each in summaries]
    wanted = [rows[mask] - each.first for mask, each in zip(inside, summaries, strict=True)]
    local = client.gather(client.map(_local_queries, parts, wanted, pure=False))
    found = np.empty(rows.shape, np.int64)
    for mask, queries, numbers in zip(inside, indices, local, strict=True):
        found[mask] = queries[numbers]
    return found


def _local_queries(part: RowBlock, rows: Integers) -> Integers:
    """Return the queries of some rows of a partition, as indices into those of its summary."""
    return number_queries(part.query)[0][rows]


def _select_rows(
    part: RowBlock, first: int, numbers: Integers | None, selected: Flags | None
) -> RowBlock:
    """Return the rows of a `Selection`."""
    row_number = first + np.arange(len(part.X))
    if numbers is None or selected is None:
        return replace(part, query=None, row_number=row_number)
    local = number_queries(part.query)[0]
    rows = np.flatnonzero(selected[local])
    weight = None if part.weight is None else part.weight[rows]
    query = numbers[local[rows]]
    return RowBlock(
        part.X[rows], part.grade[rows], query, weight, part.labels, row_number=row_number[rows]
    )


def _concatenate(chunks: list[RowBlock], explicit: ExplicitPairs | None) -> RowBlock:
    """Concatenate chunks, which are in the order of all rows, to a block with explicit pairs."""

    def column(name: str) -> VectorLike:
        arrays = [getattr(chunk, name) for chunk in chunks]
        return None if arrays[0] is None else np.concatenate(arrays)

    names = ("X", "grade", "query", "weight", "labels")
    block = RowBlock(**{name: column(name) for name in names})
    if explicit is None or not len(explicit.pairs):
        return block
    pairs = np.searchsorted(column("row_number"), explicit.pairs)
    return replace(block, pairs=pairs, pair_weight=explicit.weight)


# -- totals over all blocks ------------------------------------------------------------------


class BlockTotals(NamedTuple):
    """Totals of the queries of a block, its grades and the range of its weights."""

    totals: QueryTotals
    grades: Floats
    weights: tuple[float, float]


def _global_totals(
    client: Client, blocks: list[Future[RowBlock]], balance: str, rows: int
) -> tuple[list[Future[RowBlock]], GlobalTotals]:
    """Return the blocks that have a pair, and the totals over them."""
    found: list[BlockTotals] = client.gather(client.map(_totals_of_block, blocks, pure=False))
    kept = [j for j, each in enumerate(found) if each.totals.pairs.any()]
    if not kept:
        grades = np.unique(np.concatenate([each.grades for each in found]))
        raise ValueError(why_no_pair(Judgments(grades, np.arange(grades.size))))
    total, pair_count = merge_query_totals([found[j].totals for j in kept], balance)
    blocks = [blocks[j] for j in kept]
    totals = GlobalTotals(balance, total, pair_count, rows)
    weight_total = _weight_total(client, blocks, totals, [found[j].weights for j in kept])
    return blocks, replace(totals, weight_total=weight_total)


def _totals_of_block(block: RowBlock) -> BlockTotals:
    judgments = block.judgments()
    weight = judgments.to_layout().weight
    extent = float(weight.min(initial=np.inf)), float(weight.max(initial=0.0))
    return BlockTotals(query_totals(judgments), np.unique(block.grade), extent)


def _totals_of_split_list(
    client: Client, blocks: list[Future[RowBlock]], rows: int
) -> tuple[list[Future[RowBlock]], GlobalTotals]:
    """Return the non-empty blocks of a split list, and its totals, computed on one worker."""
    columns = client.map(_grades_and_weights, blocks, pure=False)
    totals, sizes, weight_range = client.submit(_totals_of_list, columns, rows, pure=False).result()
    kept = [block for block, size in zip(blocks, sizes, strict=True) if size]
    weight_total = _weight_total(client, kept, totals, [weight_range])
    return kept, replace(totals, weight_total=weight_total)


def _grades_and_weights(block: RowBlock) -> tuple[Floats, Floats | None]:
    return block.grade, block.weight


def _totals_of_list(
    columns: list[tuple[Floats, Floats | None]], rows: int
) -> tuple[GlobalTotals, list[int], tuple[float, float]]:
    """Return the totals of a list, the number of used rows per block, and the weight range."""
    weight = None
    if columns[0][1] is not None:
        weight = np.concatenate([each[1] for each in columns if each[1] is not None])
    judgments = Judgments(np.concatenate([each[0] for each in columns]), weight=weight)
    layout = judgments.to_layout()
    if layout.total <= 0:
        raise ValueError(why_no_pair(judgments))
    totals = GlobalTotals(
        "pairs", layout.total, layout.pair_count, rows,
        grades=layout.grade[layout.level_start[:-1]], level_weight=layout.weights_of_levels(),
    )  # fmt: skip
    sizes = [int((np.ones(each[0].size) if each[1] is None else each[1] > 0).sum())
             for each in columns]  # fmt: skip
    return totals, sizes, (float(layout.weight.min()), float(layout.weight.max()))


def _weight_total(
    client: Client,
    blocks: list[Future[RowBlock]],
    totals: GlobalTotals,
    ranges: Sequence[tuple[float, float]],
) -> float | None:
    """Return the sum of the weights of all rows, exactly; None if all weights are equal."""
    smallest, largest = min(each[0] for each in ranges), max(each[1] for each in ranges)
    if smallest == largest:
        return None
    exponent = int(np.frexp(largest)[1])
    words = client.gather(
        client.map(_words_of_weights, blocks, totals=totals, exponent=exponent, pure=False)
    )
    return float(from_fixed_point(sum_parts(words), exponent))


def _words_of_weights(block: RowBlock, totals: GlobalTotals, exponent: int) -> Integers:
    """Return the sum of the weights of a block as integer words; see `precede.engine.exact`."""
    return np.array(fixed_point_sum(block_layout(block, totals).weight, exponent), np.int64)


def block_layout(block: RowBlock, totals: GlobalTotals) -> QueryLayout:
    """Return the layout of the rows of a block, with the totals over all blocks."""
    if totals.grades is None:
        layout = block.judgments().to_layout(totals.balance)
    else:
        layout = _layout_of_split_list(block, totals.grades)
    return replace(
        layout,
        total=totals.total,
        pair_count=totals.pair_count,
        n_rows=totals.rows,
        level_weight=totals.level_weight,
        has_remote_explicit_pairs=totals.has_explicit_pairs,
    )


def _layout_of_split_list(block: RowBlock, grades: Floats) -> QueryLayout:
    """Return the layout of a chunk of a list, with all levels of the list; some may be empty."""
    weight = np.ones(block.grade.size) if block.weight is None else block.weight
    rows = np.flatnonzero(weight > 0)
    rows = rows[np.argsort(block.grade[rows], kind="stable")]
    start = np.searchsorted(block.grade[rows], grades).tolist()
    empty = np.zeros(0, np.int64)
    return QueryLayout(
        order=rows,
        level_start=np.array([*start, rows.size], np.int64),
        query_start=np.array([0, grades.size], np.int64),
        grade=block.grade[rows],
        weight=weight[rows],
        loser_weight=weight[rows],
        winner=empty,
        loser=empty,
        pair_weight=np.zeros(0),
        total=0.0,
        pair_count=0.0,
        n_rows=block.grade.size,
    )


def _global_bins(
    client: Client,
    blocks: list[Future[RowBlock]],
    totals: GlobalTotals,
    max_bins: int,
    categorical: list[int],
) -> Bins:
    """Return the bins of every feature, from the distinct values of all blocks, merged exactly.

    A few features at a time are sent from all blocks to one worker, which needs memory for their
    distinct values.
    """
    features = client.submit(_count_features, blocks[0], pure=False).result()
    width = max(1, -(-features // (4 * max(1, len(client.nthreads())))))
    width = min(width, 16)
    bins = []
    for first in range(0, features, width):
        span = (first, min(first + width, features))
        distinct = client.map(_distinct_values, blocks, totals=totals, span=span, pure=False)
        arguments = distinct, first, max_bins, categorical
        bins.append(client.submit(_bins_of_features, *arguments, pure=False))
    return Bins.of([each for group in client.gather(bins) for each in group])


def _count_features(block: RowBlock) -> int:
    return int(block.X.shape[1])


def _distinct_values(
    block: RowBlock, totals: GlobalTotals, span: tuple[int, int]
) -> list[tuple[Floats, Integers, bool]]:
    """Return the distinct values of some features, their integer weights, and if some are NaN."""
    layout = block_layout(block, totals)
    weight = None
    if totals.weight_total is not None:
        weight = integer_weights(layout.weight, totals.weight_total)
    found = []
    for feature in range(*span):
        column = block.X[layout.order, feature].astype(np.float64)
        present = ~np.isnan(column)
        values, index = np.unique(column[present], return_inverse=True)
        value_weight = np.zeros(values.size, np.int64)
        np.add.at(value_weight, index, 1 if weight is None else weight[present])
        found.append((values, value_weight, not bool(present.all())))
    return found


def _bins_of_features(
    distinct: list[list[tuple[Floats, Integers, bool]]],
    first: int,
    max_bins: int,
    categorical: list[int],
) -> list[FeatureBins]:
    """Return the bins of the features `first`, `first` + 1, ..., equal to `Table.build`."""
    found = []
    for feature, parts in enumerate(zip(*distinct, strict=True), first):
        values = np.concatenate([part[0] for part in parts])
        value_weight = np.concatenate([part[1] for part in parts])
        bins = FeatureBins.choose(
            values, value_weight, max_bins, feature=feature, categorical=feature in categorical
        )
        missing = bins.has_missing or any(part[2] for part in parts)
        found.append(replace(bins, has_missing=missing))
    return found
