"""Numerators of metrics, computed from ranked lists.

Each query is sorted once, and every metric has a function that computes its sums over the sorted
queries, mostly by a kernel. Equal scores form *blocks*. Under ``ties="average"`` a block is read by
the closed form of its expectation over all orders; under the other policies ties are broken first
and a block is one item.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.portable import fmax, fmin

# Rows of the table of items; further rows flag the items that are relevant to some metric.
RANK, GAIN, CHANCE, RELEVANT, WEIGHT = range(5)
N_ITEM_ROWS = 5
_LEAST_GAP = 5e-324  # the least gap between two different scores
MAX_COUNTED_ITEMS = 200  # up to this size, counting the items above is faster than sorting
MIN_KERNEL_ITEMS = 1 << 13  # below, NumPy sorts faster than a kernel is compiled or loaded


@dataclass(frozen=True)
class Reading:
    """The cut-off and relevance of a metric, and sums that depend on the grades only.

    `k` is the cut-off of the metric, a number of positions or, if `percent`, a percentage of the
    items; `relevant` the row of the table of items that flags the relevant ones; `discounts` are
    1/log₂(1 + position); `pairs` counts the pairs of different grades of every query, and `totals`
    are the denominators of the metric (empty until they are computed).
    """

    k: float
    percent: bool
    relevant: int
    discounts: Floats
    pairs: Integers
    totals: Floats = field(default_factory=lambda: np.empty(0))

    def depth(self, sizes: Integers) -> Integers:
        """Return the cut-off in positions of queries of these sizes."""
        return share_of(self.k, sizes) if self.percent else np.full(sizes.size, int(self.k))


class Ranked:
    """The items of all queries, each query from its highest score down.

    `blocks` holds the start of every block, then the number of items, and `block_start` the
    first block of every query, then the number of blocks:
        scores 9 7 7 7 4:  blocks 0 1 4 5 under ties="average", 0 1 2 3 4 5 otherwise.
    Sorted rows of the table of items and sums shared by several metrics are computed on demand.
    Items of score −inf were not returned: lists end before them, and in pairs they are tied at the
    end.
    """

    def __init__(self, scores: Floats, starts: Integers, items: Floats, ties: str) -> None:
        order = _descending(scores, starts)
        self.starts, self.sizes, self.ties = starts, np.diff(starts), ties
        self.scores = scores[order]
        self.blocks, self.block_start = np.arange(scores.size + 1), starts
        if ties == "average":
            fresh = np.append(True, self.scores[1:] != self.scores[:-1])
            fresh[starts[:-1]] = True
            self.blocks = np.append(np.flatnonzero(fresh), scores.size)
            self.block_start = np.searchsorted(self.blocks, starts)
        self.absent = self.scores == -np.inf
        if self.absent.any():  # an order of finite numbers: −inf has no difference from itself
            self.scores = np.unique(self.scores, return_inverse=True)[1].astype(np.float64)
        self._order, self._items = order, items
        self._rows: dict[int, Floats] = {}
        self._pairs: dict[int, tuple[Floats, Floats]] = {}

    def row(self, row: int) -> Floats:
        """Return a row of the table of items, sorted by query and score."""
        if row not in self._rows:
            self._rows[row] = self._items[row][self._order]
        return self._rows[row]

    def read(
        self, kernel: Callable[..., None], row: int, reading: Reading, *more: Floats
    ) -> Floats:
        """Apply a kernel to a row of the table of items, down to the cut-off of each query."""
        depth = np.minimum(reading.depth(self.sizes), self.sizes)
        items, values = self.row(row), np.zeros(self.sizes.size)
        if self.absent.any():
            items = np.where(self.absent, 0.0, items)
        kernel(items, self.blocks, self.block_start, self.starts, depth, *more, values)
        return values

    def positives_above(self, row: int, negatives: Floats) -> Floats:
        """Return the positives above each of the first negatives, summed, by query."""
        values = np.zeros(self.sizes.size)
        _positives_above(
            self.row(row), self.blocks, self.block_start, self.starts, negatives, values
        )
        return values

    def split_pairs(self, row: int) -> tuple[Floats, Floats]:
        """Return the weights of the pairs in the right and in the wrong order, by query."""
        if row not in self._pairs:
            right, wrong = np.empty(self.sizes.size), np.empty(self.sizes.size)
            tree, mass = np.empty((2, int(self.sizes.max(initial=0)) + 1))
            _split_pairs(
                self.scores, self.row(row).astype(np.intp), self.row(WEIGHT), self.starts,
                np.full(self.sizes.size, _LEAST_GAP if self.ties == "average" else 0.0), tree, mass,
                right, wrong,
            )  # fmt: skip
            self._pairs[row] = right, wrong
        return self._pairs[row]


def weigh_pairs(
    scores: Floats, starts: Integers, ranks: Integers, weights: Floats
) -> tuple[Floats, Floats]:
    """Return the weights of the pairs in order and out of order in every query; ties are neither.

    Ranks of a query are 0, 1, 2, ...; a pair weighs the product of the weights. O(n log n).

    >>> scores, starts = np.array([3.0, 1.0, 2.0]), np.array([0, 3])
    >>> right, wrong = weigh_pairs(scores, starts, np.arange(3), np.ones(3))
    >>> float(right[0]), float(wrong[0])
    (1.0, 2.0)
    """
    items = np.zeros((N_ITEM_ROWS, scores.size))
    items[RANK], items[WEIGHT] = ranks, weights
    return Ranked(scores, starts, items, "average").split_pairs(RANK)


@overload
def share_of(percent: float, count: int) -> np.int64: ...
@overload
def share_of(percent: float, count: Integers) -> Integers: ...
def share_of(percent: float, count: int | Integers) -> np.int64 | Integers:
    """Return percent of counts, rounded up and at least 1."""
    # The factor keeps 16.1 % of 1000, which is 161.00000000000003, from becoming 162.
    return np.maximum(1, np.ceil(percent * count / 100.0 * (1.0 - 1e-12)).astype(np.int64))


def _descending(scores: Floats, starts: Integers) -> Integers:
    """Return the stable order of falling scores within queries."""
    if scores.size < MIN_KERNEL_ITEMS:
        return np.lexsort((-scores, np.repeat(np.arange(starts.size - 1), np.diff(starts))))
    order = np.empty(scores.size, np.intp)
    _order_short(scores, starts, order)
    for query in np.flatnonzero(np.diff(starts) > MAX_COUNTED_ITEMS):
        first, last = starts[query], starts[query + 1]
        order[first:last] = first + np.argsort(-scores[first:last], kind="stable")
    return order


def right_shares(
    scores: Floats, ranks: Integers, starts: Integers, pairs: Integers, percent: float, ties: str,
    pooled: bool = False,
) -> Floats:  # fmt: skip
    """Return the share in the right order among the widest percent of the pairs.

    Per query, with `pairs` pairs of different ranks each, or over all of them together.
    """
    groups = np.array([0, starts.size - 1]) if pooled else np.arange(starts.size)
    high, low = scores[starts[:-1]], scores[starts[1:] - 1]
    halve = np.logical_or.reduceat(0.5 * high - 0.5 * low > 8e307, groups[:-1])
    if halve.any():  # or the widest gap would be infinite
        factor = np.repeat(np.where(halve, 0.5, 1.0), np.diff(groups))
        scores = scores * np.repeat(factor, np.diff(starts))
        high, low = high * factor, low * factor
    pairs = np.add.reduceat(pairs, groups[:-1])
    wanted = share_of(percent, pairs)
    known = scores, ranks, starts, groups
    gaps, (most, least) = _cut_gaps(
        known, np.maximum.reduceat(high - low, groups[:-1]), pairs, wanted
    )
    right = _count_right(known, gaps[0])
    if ties == "average" and (gaps[0] == 0).any():
        apart = np.zeros(pairs.size, np.int64)
        _apart_in_groups(*known, _LEAST_GAP, np.empty(ranks.size, np.intp), apart)
        right += np.where(gaps[0] == 0, 0.5 * (pairs - apart), 0.0)
    part = most > wanted
    if part.any():
        # Pairs at the cut have one gap: an even share is taken, or the wrong ones first.
        sure, between = _count_right(known, gaps[1]), np.maximum(most - least, 1)
        if ties == "worst":
            cut = sure + np.maximum(0.0, wanted - least - (most - least - (right - sure)))
        else:
            cut = sure + (wanted - least) * (right - sure) / between
        right = np.where(part, cut, right)
    return right / wanted


def _cut_gaps(
    known: tuple[Floats, Integers, Integers, Integers], widest: Floats, pairs: Integers,
    wanted: Integers,
) -> tuple[Floats, Integers]:  # fmt: skip
    """Return two gaps for each group that bracket the cut-off, and the pairs at least as wide."""
    ends, counts = np.zeros(3), np.empty(known[1].size, np.intp)
    gaps, found = np.zeros((2, pairs.size)), np.zeros((2, pairs.size), np.int64)
    gaps[1], found[0] = widest, pairs
    _bracket_groups(*known, wanted, counts, ends, ends.view(np.int64), gaps, found)
    return gaps, found


def _count_right(known: tuple[Floats, Integers, Integers, Integers], gaps: Floats) -> Floats:
    """Count the pairs of every group in the right order whose scores differ by at least a gap."""
    scores, ranks, starts, groups = known
    right, wrong = np.empty((2, starts.size - 1))
    tree, mass = np.empty((2, ranks.size + 1))
    _split_pairs(
        scores, ranks, np.ones(ranks.size), starts, np.repeat(gaps, np.diff(groups)), tree, mass,
        right, wrong,
    )  # fmt: skip
    return np.add.reduceat(right, groups[:-1])


# -- numerators of the metrics -----------------------------------------------------------------
#
# Each of these functions returns one number per query.

Numerator = Callable[[Ranked, Reading], Floats]


def discounted_gain(ranked: Ranked, reading: Reading) -> Floats:
    """Sum the gains, each divided by the logarithm of its position."""
    return ranked.read(_discounted, GAIN, reading, reading.discounts)


def hits(ranked: Ranked, reading: Reading) -> Floats:
    """Count the relevant items."""
    return ranked.read(_discounted, reading.relevant, reading, np.ones(reading.discounts.size))


def precision(ranked: Ranked, reading: Reading) -> Floats:
    """Return the share of relevant items, of as many as the cut-off says."""
    return hits(ranked, reading) / reading.depth(ranked.sizes)


def average_precision(ranked: Ranked, reading: Reading) -> Floats:
    """Sum the precisions at the relevant items."""
    return ranked.read(_precisions, reading.relevant, reading)


def reciprocal_rank(ranked: Ranked, reading: Reading) -> Floats:
    """Return 1 / position of the first relevant item."""
    return ranked.read(_first_hit, reading.relevant, reading)


def expected_reciprocal_rank(ranked: Ranked, reading: Reading) -> Floats:
    """Return the expectation of 1 / position at which a reader is satisfied."""
    return ranked.read(_cascade, CHANCE, reading, np.empty(int(ranked.sizes.max(initial=0)) + 1))


def relevant_in_order(ranked: Ranked, reading: Reading) -> Floats:
    """Weigh the pairs of a relevant and another item that are in order."""
    right, wrong = ranked.split_pairs(reading.relevant)
    return right + _tied_half(ranked, reading, right, wrong)


def pairs_in_order(ranked: Ranked, reading: Reading) -> Floats:
    """Weigh the pairs of different grades that are in order."""
    right, wrong = ranked.split_pairs(RANK)
    return right + _tied_half(ranked, reading, right, wrong)


def pairs_out_of_order(ranked: Ranked, reading: Reading) -> Floats:
    """Weigh the pairs of different grades that are out of order."""
    right, wrong = ranked.split_pairs(RANK)
    return wrong + _tied_half(ranked, reading, right, wrong)


def net_pairs_in_order(ranked: Ranked, reading: Reading) -> Floats:  # noqa: ARG001
    """Weigh the pairs in order less those out of order."""
    right, wrong = ranked.split_pairs(RANK)
    return right - wrong


def partial_area(ranked: Ranked, reading: Reading) -> Floats:
    """Count the relevant items above each of the first share k of the others."""
    relevant = np.add.reduceat(ranked.row(reading.relevant), ranked.starts[:-1])
    return ranked.positives_above(reading.relevant, reading.k * (ranked.sizes - relevant))


def above_first_negative(ranked: Ranked, reading: Reading) -> Floats:
    """Count the relevant items above the first that is not."""
    return ranked.positives_above(reading.relevant, np.ones(ranked.sizes.size))


def widest_pairs_in_order(ranked: Ranked, reading: Reading) -> Floats:
    """Return the share in order among the k percent of the pairs furthest apart."""
    ranks = ranked.row(RANK).astype(np.intp)
    return right_shares(ranked.scores, ranks, ranked.starts, reading.pairs, reading.k, ranked.ties)


def rank_correlation(ranked: Ranked, reading: Reading) -> Floats:  # noqa: ARG001
    """Return the correlation of mean ranks of scores and of grades."""
    values = np.zeros(ranked.sizes.size)
    ranks = ranked.row(RANK).astype(np.intp)
    _rank_correlations(ranked.scores, ranks, ranked.starts, values)
    return values


def _tied_half(ranked: Ranked, reading: Reading, right: Floats, wrong: Floats) -> Floats | float:
    """Return half of the weight of tied pairs, if ties are averaged."""
    if ranked.ties != "average":
        return 0.0
    return 0.5 * np.maximum(0.0, reading.totals - right - wrong)


# -- kernels ---------------------------------------------------------------------------------
#
# They divide as NumPy does: positions and numbers of items are above 0.


@njit(cache=True, nogil=True)
def _order_short(scores: Floats, starts: Integers, order: Integers) -> None:
    """Write the stable order of falling scores of queries of up to 200 items.

    It counts the items above each item, a loop that vectorizes with unsigned integers.
    """
    for query in range(starts.size - 1):
        first, size = starts[query], np.uint64(starts[query + 1] - starts[query])
        if size > np.uint64(200):
            continue
        query_scores = scores[first : starts[query + 1]]
        for i in range(size):
            rank = np.intp(0)
            for j in range(i):
                rank += np.intp(query_scores[j] >= query_scores[i])
            for j in range(i + np.uint64(1), size):
                rank += np.intp(query_scores[j] > query_scores[i])
            order[first + rank] = first + np.intp(i)


@njit(cache=True, nogil=True, error_model="numpy")
def _discounted(
    gains: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    discounts: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write Σ gain·discount of every query; a tied item gains the mean of its block."""
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total = 0.0
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end:
                break
            gain = 0.0
            for i in range(first, last):
                gain += gains[i]
            gain /= last - first
            for i in range(first, fmin(last, end)):
                total += gain * discounts[i - begin]
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _precisions(
    relevant: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    values: Floats,
) -> None:  # fmt: skip
    """Write Σ over relevant positions of (relevant items so far) / position, of every query.

    In a block of m, r of them relevant, offset j is relevant with chance r/m, and if it is, the
    j items of the block before it hold j·(r−1)/(m−1) more on average.
    """
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total, above = 0.0, 0.0
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end:
                break
            inside = 0.0
            for i in range(first, last):
                inside += relevant[i]
            if inside == 0:
                continue
            more = (inside - 1.0) / fmax(last - first - 1, 1)
            for i in range(first, fmin(last, end)):
                chance = inside / (last - first)
                total += chance * (above + 1.0 + (i - first) * more) / (i - begin + 1)
            above += inside
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _first_hit(
    relevant: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    values: Floats,
) -> None:  # fmt: skip
    """Write the (expected) reciprocal rank of the first relevant item, 0 beyond depth."""
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total, missed = 0.0, 1.0  # missed: the chance that no hit came yet
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end or missed == 0.0:
                break
            inside = 0.0
            for i in range(first, last):
                inside += relevant[i]
            for i in range(first, fmin(last, end)):
                hit = fmin(1.0, inside / (last - i))
                total += missed * hit / (i - begin + 1)
                missed *= 1.0 - hit
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _cascade(
    chances: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    passing: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write Σ 1/position · chance that the reader, unsatisfied so far, stops there.

    The chance P_j of passing j random items of a block is the mean over j-subsets of Π(1 − chance):
    item by item, P_j ← (n−j)/n · P_j + j/n · (1 − chance_n) · P_{j−1}, convex and hence stable.
    """
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total, alive = 0.0, 1.0
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end:
                break
            if last - first == 1:
                total += alive * chances[first] / (first - begin + 1)
                alive *= 1.0 - chances[first]
                continue
            reach = fmin(last, end) - first
            passing[0] = 1.0
            for j in range(1, reach + 1):
                passing[j] = 0.0
            for n in range(1, last - first + 1):
                stay = 1.0 - chances[first + n - 1]
                for j in range(fmin(n, reach), 0, -1):
                    passing[j] = ((n - j) * passing[j] + j * stay * passing[j - 1]) / n
            for j in range(1, reach + 1):
                total += alive * (passing[j - 1] - passing[j]) / (first - begin + j)
            alive *= passing[reach]
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _positives_above(
    relevant: Floats, blocks: Integers, block_start: Integers, starts: Integers, negatives: Floats,
    values: Floats,
) -> None:  # fmt: skip
    """Write Σ of positives above each of the first `negatives` negatives, the last fractionally."""
    for query in range(starts.size - 1):
        total, above, left = 0.0, 0.0, negatives[query]
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            positive = 0.0
            for i in range(first, last):
                positive += relevant[i]
            negative = int(last - first - positive)
            for i in range(1, negative + 1):
                # Of p positives tied with q negatives, p·i/(q+1) rank above the i-th on average.
                total += min(max(left, 0.0), 1.0) * (above + positive * i / (negative + 1))
                left -= 1.0
            above += positive
        values[query] = total


@njit(cache=True, nogil=True)
def _rank_correlations(scores: Floats, ranks: Integers, starts: Integers, values: Floats) -> None:
    """Write the correlation of mean ranks of scores and of grades; 0 without a spread."""
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query + 1]
        size, middle = end - begin, 0.5 * (end - begin - 1)
        below = np.zeros(size + 1)  # ranks of a query: 0, 1, 2, ...
        for i in range(begin, end):
            below[ranks[i] + 1] += 1.0
        for rank in range(1, size + 1):
            below[rank] += below[rank - 1]
        product, of_scores, of_grades = 0.0, 0.0, 0.0
        first = begin
        while first < end:
            last = first + 1
            while last < end and scores[last] == scores[first]:
                last += 1
            up = middle - 0.5 * (first + last - 1 - 2 * begin)
            for i in range(first, last):
                grade = 0.5 * (below[ranks[i]] + below[ranks[i] + 1] - 1.0) - middle
                product += up * grade
                of_scores += up * up
                of_grades += grade * grade
            first = last
        spread = of_scores * of_grades
        values[query] = product / np.sqrt(spread) if spread > 0 else 0.0


@njit(cache=True, nogil=True)
def _split_pairs(
    scores: Floats, ranks: Integers, weights: Floats, starts: Integers, gaps: Floats, tree: Floats,
    mass: Floats, rights: Floats, wrongs: Floats,
) -> None:  # fmt: skip
    """Write Σ w_i·w_k over pairs, i above k by at least a gap: rank_i > rank_k, and the reverse.

    `tree` and `mass` are workspaces indexed by the ranks of a query: 0, 1, 2, ...
    The set of items far enough above k only grows; a Fenwick tree holds their weights by rank.
    """
    for query in range(starts.size - 1):
        begin, end, gap = starts[query], starts[query + 1], gaps[query]
        highest = np.int64(0)
        for k in range(begin, end):
            highest = fmax(highest, ranks[k])
        for rank in range(highest + 1):
            tree[rank + 1] = 0.0
            mass[rank] = 0.0
        above, right, wrong = 0.0, 0.0, 0.0
        i = begin
        for k in range(begin, end):
            while i < k and scores[i] - scores[k] >= gap:
                above += weights[i]
                mass[ranks[i]] += weights[i]
                node = ranks[i] + 1
                while node <= highest + 1:
                    tree[node] += weights[i]
                    node += node & -node
                i += 1
            lower, node = 0.0, ranks[k]
            while node > 0:
                lower += tree[node]
                node -= node & -node
            wrong += weights[k] * lower
            right += weights[k] * (above - lower - mass[ranks[k]])
        rights[query], wrongs[query] = right, wrong


@njit(**INNER)
def _count_apart(
    scores: Floats, ranks: Integers, starts: Integers, group: Integers, gap: float,
    above_by_rank: Integers,
) -> int:  # fmt: skip
    """Count the pairs of different rank whose scores differ by at least gap, in O(n)."""
    total = 0
    for query in range(group[0], group[1]):
        for k in range(starts[query], starts[query + 1]):
            above_by_rank[ranks[k]] = 0
        above = starts[query]
        for k in range(starts[query], starts[query + 1]):
            while above < k and scores[above] - scores[k] >= gap:
                above_by_rank[ranks[above]] += 1
                above += 1
            total += above - starts[query] - above_by_rank[ranks[k]]
    return total


@njit(cache=True, nogil=True)
def _apart_in_groups(
    scores: Floats, ranks: Integers, starts: Integers, groups: Integers, gap: float,
    counts: Integers, apart: Integers,
) -> None:  # fmt: skip
    """Count the pairs of `_count_apart` of every group."""
    for g in range(groups.size - 1):
        apart[g] = _count_apart(scores, ranks, starts, groups[g : g + 2], gap, counts)


@njit(cache=True, nogil=True, error_model="numpy")
def _bracket_groups(
    scores: Floats, ranks: Integers, starts: Integers, groups: Integers, all_wanted: Integers,
    counts: Integers, ends: Floats, bits: Integers, gaps: Floats, found: Integers,
) -> None:  # fmt: skip
    """Bracket the gap that cuts off the wanted pairs of each group: low < high.

    count(low) ≥ wanted > count(high), with equality or no number between. It is exact: rounding
    is monotone, and non-negative floats are ordered like their `bits`. On entry `gaps[1]` holds the
    widest gaps and `found[0]` the numbers of all pairs.
    """
    for g in range(groups.size - 1):
        group = groups[g : g + 2]
        most, wanted, least, turn = found[0, g], all_wanted[g], 0, 0
        ends[0], ends[1] = 0.0, gaps[1, g]  # low, high, middle
        bits[1] += 1
        while most > wanted and bits[1] - bits[0] > 1:
            if turn % 3 == 0:  # secant step
                ends[2] = ends[0] + (ends[1] - ends[0]) * ((most - wanted + 0.5) / (most - least))
            elif turn % 3 == 1:
                ends[2] = ends[0] + (ends[1] - ends[0]) * 0.5
            else:  # bisection over floats: at most 64 steps
                bits[2] = bits[0] + ((bits[1] - bits[0]) >> 1)
            bits[2] = fmin(fmax(bits[2], bits[0] + 1), bits[1] - 1)
            count = _count_apart(scores, ranks, starts, group, ends[2], counts)
            if count >= wanted:
                ends[0], most = ends[2], count
            else:
                ends[1], least = ends[2], count
            turn += 1
        gaps[0, g], gaps[1, g] = ends[0], ends[1]
        found[0, g], found[1, g] = most, least
