"""Weights by rank that end at rank k: sums over pairs in linear time, without a sort.

Beyond rank k every discount is 0, so that a pair weighs something only if one of its items is
at the top. A list falls into three groups: fewer than k rows *above* the k-th largest score, the
rows *at* it, which share their ranks and hence one discount, and all others, *below* it, without a
discount. The rows above are looked at one by one. For the other two groups sums of every level
suffice: between two levels of two groups all pairs weigh the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import Bytes, Floats, Integer, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.execution import Context, is_small
from precede.engine.kernels import shared_ranks
from precede.engine.query_layout import QueryLayout
from precede.risks.by_level import LevelChunks

# The rows above are enumerated, and inserted into a sorted list: with more ranks than this the
# whole list is sorted instead.
DEEPEST = 64


@dataclass(frozen=True)
class TopWeights:
    """Who is at the top of every query in a round.

    Attributes
    ----------
    discount, tied : mean discount of the ranks a row shares, and what ties add; per row
    group : 0 for rows below the k-th largest score, 1 at it, 2 above it
    above, count : the rows above; those of a query begin at `TopRanks.start`, and there are `count`
    edge : discount and `tied` of the rows at the k-th largest score, per query
    """

    discount: Floats
    tied: Floats
    group: Bytes
    above: Integers
    count: Integers
    edge: Floats


@dataclass(frozen=True)
class TopSums:
    """Sums of ``w_ik winner_i loser_k``.

    Attributes
    ----------
    totals : over the pairs of every query, by the side of the winner
    up, down : for rows below (row 0) and at (row 1) the k-th largest score of every level: by
        what to multiply `winner` and `loser` of a row to get its sum as winner and as loser
    own_up, own_down : sums of the rows above
    """

    totals: Floats
    up: Floats
    down: Floats
    own_up: Floats
    own_down: Floats


class TopRanks:
    """Weights that end at rank k, on the rows of a layout.

    `by_rank` holds the discounts of all ranks, of which `depth` may be above 0.
    """

    def __init__(
        self, layout: QueryLayout, by_rank: Floats, depth: int, gain: Floats, context: Context
    ):
        self.layout, self.context = layout, context
        self.by_rank = by_rank[:depth]
        self.first = layout.level_start[layout.query_start]
        sizes = np.minimum(np.diff(self.first), self.by_rank.size)
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.pieces = LevelChunks.cut(layout)
        self.gain = gain  # of levels
        levels = np.diff(layout.query_start)
        self.level_query = np.repeat(np.arange(levels.size), levels)
        self.most_levels = int(levels.max(initial=0))
        rows = np.diff(layout.level_start)
        self.level = np.repeat(np.arange(rows.size), rows)
        self.small = is_small("exponentials", layout.n_graded)

    def at(self, scores: Floats) -> TopWeights:
        """Who is at the top at these scores: O(n)."""
        graded, queries = self.layout.n_graded, self.first.size - 1
        found = TopWeights(
            np.zeros(graded), np.zeros(graded), np.zeros(graded, np.uint8),
            np.empty(self.start[-1], np.int64), np.empty(queries, np.int64), np.empty((queries, 2)),
        )  # fmt: skip
        self.context.run(
            _tops_of_queries, queries, self.first, scores, self.by_rank, self.start, found.group,
            found.above, found.count, found.edge, found.discount, found.tied, small=self.small,
        )  # fmt: skip
        return found

    def by_piece(self, top: TopWeights, winner: Floats, loser: Floats, sides: Bytes) -> Floats:
        """Sums of `winner` and `loser` over the rows of every piece that are not above.

        Columns: winners and losers below, winners and losers at the edge; then the same
        of the second side.
        """
        sums = np.zeros((self.pieces.count, 8))
        self.context.run(
            _sum_pieces, self.pieces.count, self.pieces.start, top.group, winner, loser, sides,
            sums, small=self.small,
        )  # fmt: skip
        return sums

    def meet(
        self, top: TopWeights, scores: Floats, weights: tuple[Floats, Floats], winner: Floats,
        loser: Floats, *, apart: Bytes | None = None, sums: Floats | None = None,
    ) -> TopSums:  # fmt: skip
        """Sums over pairs; `scores` are those of the ranks, `weights` plain and factor of queries.

        With `apart`, a number 0 or 1 for each row, only pairs of two different numbers count.
        `sums` are those of `by_piece`, if they are known.
        """
        sides = np.zeros(0, np.uint8) if apart is None else apart
        if sums is None:
            sums = self.by_piece(top, winner, loser, sides)
        queries, levels = self.first.size - 1, self.gain.size
        found = TopSums(
            np.zeros((queries, 2)), np.zeros((4, levels)), np.zeros((2, levels)),
            np.zeros(top.above.size), np.zeros(top.above.size),
        )  # fmt: skip
        self.context.run(
            _meet_in_queries, queries, self.most_levels, self.layout.query_start,
            self.pieces.first, self.gain, self.level, self.start, top.above, top.count, top.edge,
            top.discount, top.tied, scores, *weights, winner, loser, sides, sums, found.totals,
            found.up, found.down, found.own_up, found.own_down, small=self.small,
        )  # fmt: skip
        return found

    def spread(
        self, top: TopWeights, sums: TopSums, winner: Floats, loser: Floats, sign: float,
        scale: Floats, out: Floats,
    ) -> None:  # fmt: skip
        """Sum of every row as winner plus `sign` times that as loser, by `scale` of its query."""
        self.context.run(
            _spread_over_pieces, self.pieces.count, self.pieces.start, self.pieces.level,
            self.level_query, top.group, winner, loser, sums.up, sums.down, sign, scale, out,
            small=self.small,
        )  # fmt: skip
        _spread_above(self.start, top.above, top.count, sums.own_up, sums.own_down, sign, scale,
                      out)  # fmt: skip


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _tops_of_queries(
    low: int, high: int, first: Integers, scores: Floats, by_rank: Floats, starts: Integers,
    group: Bytes, above: Integers, counts: Integers, edge: Floats, discount: Floats, tied: Floats,
) -> None:  # fmt: skip
    """Groups of the rows of every query, and the discounts of those at the top."""
    best = np.empty(by_rank.size)
    for query in range(low, high):
        start, end = first[query], first[query + 1]
        depth = min(by_rank.size, end - start)
        _insert_best(scores, start, end, best, depth)
        least = best[depth - 1]
        begin, count, at_edge = starts[query], 0, 0
        first_edge, last_edge = end, end  # where rows at the edge begin and end
        for row in range(start, end):
            if scores[row] > least:
                group[row] = 2
                above[begin + count] = row
                count += 1
            elif scores[row] == least:
                group[row] = 1
                at_edge += 1
                first_edge, last_edge = min(first_edge, row), row + 1
        counts[query] = count
        for j in range(begin, begin + count):
            row = above[j]
            one, other = 0, 0
            for rank in range(count):
                one += best[rank] > scores[row]
                other += best[rank] >= scores[row]
            discount[row], tied[row] = shared_ranks(by_rank, one, other)
        edge[query, 0], edge[query, 1] = shared_ranks(by_rank, count, count + at_edge)
        for row in range(first_edge, last_edge):
            if group[row] == 1:
                discount[row], tied[row] = edge[query, 0], edge[query, 1]


@njit(**INNER)
def _insert_best(scores: Floats, start: Integer, end: Integer, best: Floats, depth: int) -> None:
    """The `depth` largest scores from the largest down; rows of high grades are looked at first."""
    for j in range(depth):
        best[j] = -np.inf
    for row in range(end - 1, start - 1, -1):
        score = scores[row]
        if score > best[depth - 1]:
            j = depth - 1
            while j > 0 and best[j - 1] < score:
                best[j] = best[j - 1]
                j -= 1
            best[j] = score


@njit(cache=True, nogil=True)
def _sum_pieces(
    first: int, last: int, start: Integers, group: Bytes, winner: Floats, loser: Floats,
    sides: Bytes, sums: Floats,
) -> None:  # fmt: skip
    """Sums of winners and losers below, and at the edge; and again for the second side.

    Pieces are the same for any number of threads, and so are the bits of their sums.
    """
    for piece in range(first, last):
        for side in range(2 if sides.size else 1):
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for row in range(start[piece], start[piece + 1]):
                here = 1.0 if not sides.size or sides[row] == side else 0.0
                if group[row] == 0:
                    a += here * winner[row]
                    b += here * loser[row]
                elif group[row] == 1:
                    c += here * winner[row]
                    d += here * loser[row]
            sums[piece, 4 * side] = a
            sums[piece, 4 * side + 1] = b
            sums[piece, 4 * side + 2] = c
            sums[piece, 4 * side + 3] = d


# Rows of `work`, by level: sums below and at the edge; of the rows above the sums of 1, of the
# discount and of what it exceeds that of the edge by. Then what `_walk` leaves for the rows above.
_BELOW, _EDGE, _ABOVE, _DISCOUNTED, _EXCESS, _GAPS_BELOW, _GAPS_EDGE, _PLAIN = range(8)


@njit(cache=True, nogil=True)
def _meet_in_queries(
    low: int, high: int, most: int, query_start: Integers, piece_first: Integers, gains: Floats,
    level: Integers, starts: Integers, above: Integers, counts: Integers, edge: Floats,
    discount: Floats, tied: Floats, scores: Floats, plain: Floats, factor: Floats, winner: Floats,
    loser: Floats, sides: Bytes, sums: Floats, totals: Floats, up: Floats, down: Floats,
    own_up: Floats, own_down: Floats,
) -> None:  # fmt: skip
    """Sums of w_ik·winner_i·loser_k of every query; see `TopSums`.

    Rows 2 and 3 of `up` are for winners of the second side, who meet losers of the first.
    """
    work, many = np.empty((8, most)), 2 if sides.size else 1
    for query in range(low, high):
        bottom, top = query_start[query], query_start[query + 1]
        begin, end = starts[query], starts[query] + counts[query]
        rows, here, own = above[begin:end], edge[query], own_up[begin:end]
        gain, share, by_rank = gains[bottom:top], plain[query], factor[query]
        for side in range(many):
            look = 1 - side if many == 2 else 0
            _gather(sums, piece_first, bottom, top, 4 * look + 1, work)
            _add_above(rows, level, bottom, loser, discount, here[0], sides, look, work)
            _walk(work, gain, 1, here, share, by_rank, up[2 * side : 2 * side + 2, bottom:top])
            _own(rows, level, bottom, winner, discount, here[0], by_rank, sides, side, work, own)
        if many == 1:
            _gather(sums, piece_first, bottom, top, 0, work)
            _add_above(rows, level, bottom, winner, discount, here[0], sides, 0, work)
            _walk(work, gain, -1, here, share, by_rank, down[:, bottom:top])
            _own(rows, level, bottom, loser, discount, here[0], by_rank, sides, 0, work,
                 own_down[begin:end])  # fmt: skip
        _meet_above(rows, level, gains, discount, tied, scores, share, by_rank, winner, loser,
                    sides, own, own_down[begin:end])  # fmt: skip
        for side in range(many):
            totals[query, side] = _total(
                sums, piece_first, bottom, top, 4 * side, up[2 * side : 2 * side + 2]
            )
        for j in range(rows.size):
            totals[query, sides[rows[j]] if many == 2 else 0] += own[j]


@njit(**INNER)
def _total(
    sums: Floats, piece_first: Integers, bottom: Integer, top: Integer, column: Integer, up: Floats
) -> float:
    """Sum over the winners of a query that are not above."""
    total = 0.0
    for here in range(bottom, top):
        for piece in range(piece_first[here], piece_first[here + 1]):
            total += sums[piece, column] * up[0, here] + sums[piece, column + 2] * up[1, here]
    return total


@njit(**INNER)
def _gather(
    sums: Floats, piece_first: Integers, bottom: Integer, top: Integer, column: Integer,
    work: Floats,
) -> None:  # fmt: skip
    """Sums of the levels of a query from those of pieces; nothing of the rows above yet."""
    for here in range(bottom, top):
        below, edge = 0.0, 0.0
        for piece in range(piece_first[here], piece_first[here + 1]):
            below += sums[piece, column]
            edge += sums[piece, column + 2]
        work[_BELOW, here - bottom], work[_EDGE, here - bottom] = below, edge
        work[_ABOVE, here - bottom] = 0.0
        work[_DISCOUNTED, here - bottom] = 0.0
        work[_EXCESS, here - bottom] = 0.0


@njit(**INNER)
def _add_above(
    rows: Integers, level: Integers, bottom: Integer, values: Floats, discount: Floats,
    edge: float, sides: Bytes, side: int, work: Floats,
) -> None:  # fmt: skip
    """Add the rows above, of one side, to the sums of their levels."""
    for row in rows:
        if sides.size and sides[row] != side:
            continue
        here = level[row] - bottom
        work[_ABOVE, here] += values[row]
        work[_DISCOUNTED, here] += discount[row] * values[row]
        work[_EXCESS, here] += (discount[row] - edge) * values[row]


@njit(**INNER)
def _walk(
    work: Floats, gain: Floats, way: int, edge: Floats, plain: float, factor: float, out: Floats
) -> None:  # fmt: skip
    """Sums of the weights of a row with all rows of lower levels (`way` 1) or higher ones (-1).

    ``sum_j |G_l - G_j| x_j`` grows from one level to the next by the step of G times the sum of
    x so far: nothing is subtracted, so no digit is lost.
    """
    below, at_edge, above, discounted, excess = 0.0, 0.0, 0.0, 0.0, 0.0
    gap_below, gap_edge, gap_discounted, gap_excess = 0.0, 0.0, 0.0, 0.0
    here = 0 if way > 0 else gain.size - 1
    while 0 <= here < gain.size:
        before = here - way
        if 0 <= before < gain.size:
            step = way * (gain[here] - gain[before])
            gap_below += step * below
            gap_edge += step * at_edge
            gap_discounted += step * discounted
            gap_excess += step * excess
        share = plain * (below + at_edge)
        at_top = gap_excess + edge[1] * gap_edge
        out[0, here] = share + plain * above + factor * (edge[0] * gap_edge + gap_discounted)
        out[1, here] = share + plain * above + factor * (edge[0] * gap_below + at_top)
        work[_GAPS_BELOW, here], work[_GAPS_EDGE, here] = gap_below, gap_edge
        work[_PLAIN, here] = share
        below += work[_BELOW, here]
        at_edge += work[_EDGE, here]
        above += work[_ABOVE, here]
        discounted += work[_DISCOUNTED, here]
        excess += work[_EXCESS, here]
        here += way


@njit(**INNER)
def _own(
    rows: Integers, level: Integers, bottom: Integer, values: Floats, discount: Floats,
    edge: float, factor: float, sides: Bytes, side: int, work: Floats, own: Floats,
) -> None:  # fmt: skip
    """Sums of the rows above, of one side, with the rows of the other two groups."""
    for j in range(rows.size):
        row = rows[j]
        if sides.size and sides[row] != side:
            continue
        here = level[row] - bottom
        gaps = discount[row] * work[_GAPS_BELOW, here]
        gaps += (discount[row] - edge) * work[_GAPS_EDGE, here]
        own[j] = values[row] * (work[_PLAIN, here] + factor * gaps)


@njit(**INNER)
def _meet_above(
    rows: Integers, level: Integers, gains: Floats, discount: Floats, tied: Floats, scores: Floats,
    plain: float, factor: float, winner: Floats, loser: Floats, sides: Bytes, own_up: Floats,
    own_down: Floats,
) -> None:  # fmt: skip
    """Pairs of two rows above, one by one."""
    for i in range(rows.size):
        one = rows[i]
        for k in range(rows.size):
            other = rows[k]
            if level[other] >= level[one] or (sides.size and sides[one] == sides[other]):
                continue
            apart = abs(discount[one] - discount[other])
            if scores[one] == scores[other]:
                apart += tied[one]
            gap = gains[level[one]] - gains[level[other]]
            met = (plain + factor * gap * apart) * winner[one] * loser[other]
            own_up[i] += met
            own_down[k] += met


@njit(cache=True, nogil=True)
def _spread_over_pieces(
    first: int, last: int, start: Integers, level: Integers, level_query: Integers, group: Bytes,
    winner: Floats, loser: Floats, up: Floats, down: Floats, sign: float, scale: Floats,
    out: Floats,
) -> None:  # fmt: skip
    for piece in range(first, last):
        here = level[piece]
        unit = scale[level_query[here]]
        below, below_down = unit * up[0, here], sign * unit * down[0, here]
        edge, edge_down = unit * up[1, here], sign * unit * down[1, here]
        for row in range(start[piece], start[piece + 1]):
            if group[row] == 0:
                out[row] = winner[row] * below + loser[row] * below_down
            elif group[row] == 1:
                out[row] = winner[row] * edge + loser[row] * edge_down


@njit(cache=True, nogil=True)
def _spread_above(
    starts: Integers, above: Integers, counts: Integers, own_up: Floats, own_down: Floats,
    sign: float, scale: Floats, out: Floats,
) -> None:  # fmt: skip
    for query in range(counts.size):
        for j in range(starts[query], starts[query] + counts[query]):
            out[above[j]] = scale[query] * (own_up[j] + sign * own_down[j])
