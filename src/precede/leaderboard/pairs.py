"""Votes by pair of items: who is connected to whom, and what can be said without a strength."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components
from scipy.special import ndtri_exp

from precede.engine.arrays import Array, Flags, Floats, Integers
from precede.engine.exact import sums_at
from precede.engine.parameters import pluralize
from precede.votes import Counts, PairTable


def without_strength(
    counts: Counts, items: Sequence[str], *, davidson: bool
) -> tuple[Integers, dict[int, tuple[str, float]]]:
    """Return the items that have a strength, and why the others have none.

    Strengths are finite relative to each other among items of which each has beaten or tied
    another in every division of them into two sets (Ford, 1957): a strongly connected component of
    the graph in which losses are edges. The component of the most votes is ranked. Each other item
    comes with the reason and with its strength: infinite if wins or losses alone connect it to
    those that are ranked, else NaN.
    """
    n = len(items)
    table = PairTable.of(counts.a, counts.b, counts.weight, n)
    a_won = table.weight[:, 0] + table.weight[:, 2] > 0
    b_won = table.weight[:, 1] + table.weight[:, 2] > 0
    loser = np.concatenate([table.b[a_won], table.a[b_won]])
    winner = np.concatenate([table.a[a_won], table.b[b_won]])
    edges = scipy.sparse.csr_matrix((np.ones(loser.size), (loser, winner)), shape=(n, n))
    component = connected_components(edges, directed=True, connection="strong")[1]
    inside = component[table.a] == component[table.b]
    votes = sums_at(component[table.a[inside]].astype(np.int64),
                    table.weight[inside].sum(axis=1), n)  # fmt: skip
    size = np.bincount(component, minlength=n)
    ranked = component == np.lexsort((size, votes))[-1]
    if ranked.sum() == 1 or (davidson and _ties_explain_all(table, ranked)):
        ranked[:] = False  # no two items can be compared on a scale
    if ranked.all():
        return np.arange(n), {}
    above, below = _reached(edges, ranked), _reached(edges.T.tocsr(), ranked)
    wins, losses, ties = table.totals(n)
    apart = {}
    for item in np.flatnonzero(~ranked).tolist():
        total = int(wins[item] + losses[item] + ties[item])
        end = np.inf if above[item] else -np.inf if below[item] else np.nan
        if not total:
            why = "it has no votes"
        elif wins[item] == total:
            why = f"it won all of its {pluralize(total, 'vote')}: no upper bound of its strength"
        elif losses[item] == total:
            why = f"it lost all of its {pluralize(total, 'vote')}: no lower bound of its strength"
        elif np.isnan(end):
            why = "its wins and losses do not connect it to ranked items in both directions"
        else:
            side, verb = ("upper", "lost to") if above[item] else ("lower", "beat")
            also = "" if size[component[item]] == 1 else ", nor did those tied to it,"
            why = f"it never {verb} a ranked item{also}: no {side} bound of its strength"
        apart[item] = (why, float(end))
    return np.flatnonzero(ranked), apart


def _ties_explain_all(table: PairTable, ranked: Flags) -> bool:
    """Return whether the likelihood of Davidson's model grows as ν and all gaps do.

    It does if there are strengths with a gap of at least 1 for every win and at most 1 for every
    tie, that is, if no cycle of the comparisons has more wins than ties.
    """
    inside = ranked[table.a] & ranked[table.b]
    a, b, won = table.a[inside], table.b[inside], table.weight[inside] > 0
    if not won[:, 2].any() or (won[:, 0] & won[:, 1]).any():
        return False
    one = np.concatenate([a[won[:, 0]], b[won[:, 1]], a[won[:, 2]], b[won[:, 2]]])
    other = np.concatenate([b[won[:, 0]], a[won[:, 1]], b[won[:, 2]], a[won[:, 2]]])
    wins = int(won[:, :2].sum())
    # Of a win and a tie of the same pair, the win binds one way: the path keeps the smaller length.
    length = np.append(np.full(wins, -1.0), np.ones(one.size - wins))
    key, where = np.unique(one * ranked.size + other, return_inverse=True)
    least = np.full(key.size, np.inf)
    np.minimum.at(least, where, length)
    shape = (ranked.size, ranked.size)
    try:
        bellman_ford(scipy.sparse.csr_matrix((least, np.divmod(key, ranked.size)), shape=shape),
                     indices=int(a[0]))  # fmt: skip
    except NegativeCycleError:
        return False
    return True


def _reached(edges: Array, start: Flags) -> Flags:
    """Return the items that paths along the edges reach from the start."""
    reached = start
    while True:
        grown = reached | (edges.T @ reached.astype(np.float64) > 0)
        if (grown == reached).all():
            return reached
        reached = grown


def bounds_of_ratios(theta: Floats, table: PairTable, inflation: float) -> Floats:
    """Return ratios of pairs in which an item has no strength; 0 where nothing can be said.

    An item that won all its m votes against ranked items would do so with probability
    p = Π P(win) if it were no stronger than item j; then the ratio is the normal quantile of
    1 − p, as large as that of a difference that is as surprising. The strengths of the ranked
    items count as known, and `inflation` votes as one.
    """
    n = theta.size
    ratios = np.zeros((n, n))
    known = np.flatnonzero(np.isfinite(theta))
    for item in np.flatnonzero(np.isinf(theta)):
        sign = np.sign(theta[item])
        log_p = np.zeros(known.size)
        for side, other, column in ((table.a, table.b, 0), (table.b, table.a, 1)):
            mine = (side == item) & np.isfinite(theta[other])
            gap = sign * (theta[known][:, None] - theta[other[mine]][None, :])
            decided = table.weight[mine, column if sign > 0 else 1 - column]
            log_p -= np.logaddexp(0.0, -gap) @ decided / max(inflation, 1.0)
        found = np.maximum(-ndtri_exp(np.minimum(log_p, 0.0)), 0.0)
        if sign > 0:
            ratios[item, known] = found
        else:
            ratios[known, item] = found
    return ratios
