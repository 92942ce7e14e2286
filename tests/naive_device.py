"""A GPU in plain NumPy: every kernel of `kernels.cu` as a loop, block by block, same arguments.

With it the suite tests on any machine what Python does around the kernels: tiles, packing, slots of
histograms, batches of nodes, arrays that are here or there.
"""

import math
from types import SimpleNamespace

import numpy as np

from precede.engine import cuda, portable
from precede.rankers.device_forest import BRANCH
from precede.rankers.splits import Node, Rules, SplitSearch
from precede.risks import short_queries


class There(np.ndarray):
    """An array in the memory of the device."""

    def get(self):
        return np.array(self)


class NaiveDevice(cuda.Device):
    """Launches run at once, block by block in random order."""

    name = "naive device"

    def __init__(self, free=10**12, seed=0):
        self.arrays = SimpleNamespace(
            ndarray=There,
            zeros=lambda *given: np.zeros(*given).view(There),
            empty=lambda *given: np.zeros(*given).view(There),
            full=lambda *given: np.full(*given).view(There),
            ascontiguousarray=lambda array, kind: np.ascontiguousarray(array, kind).view(There),
            stack=lambda parts: np.stack(parts).view(There),
            concatenate=lambda parts, axis: np.concatenate(parts, axis).view(There),
            cuda=SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (free, free))),
            get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        )
        self.launched = []
        self._rng = np.random.default_rng(seed)

    def put(self, array):
        return array if self.holds(array) else np.array(array).view(There)

    def launch(self, kernel, grid, block, *arguments, shared=0):
        grid = grid if isinstance(grid, tuple) else (grid,)
        assert all(0 < each < 2**31 for each in grid)
        assert shared <= 227 * 1024
        self.launched.append(kernel)
        order = self._rng.permutation(grid[0])
        with np.errstate(all="ignore"):
            KERNELS[kernel](
                order, *(np.asarray(a) if isinstance(a, There) else a for a in arguments)
            )


def largest(_, n, one, other, found):
    for values, words in zip((one, other), found, strict=False):
        words[0] = np.abs(values).view(np.uint64).max()


def words_of(_, n, absolute, one, other, found):
    for number, (values, words) in enumerate(zip((one, other), found, strict=False)):
        top = float(words[:1].view(np.float64)[0])
        if not 0 < top < math.inf:
            continue
        exponent = math.frexp(top)[1]
        half = exponent // 2
        given = np.abs(values) if absolute and number == 0 else values
        scaled = given * math.ldexp(1.0, -half) * math.ldexp(1.0, half - exponent) * 2147483648.0
        whole = np.floor(scaled)
        low = (scaled - whole) * 2147483648.0
        sums = [whole.astype(np.int64).sum(), low.astype(np.int64).sum()]
        words[1:] = np.array(sums).view(np.uint64)


def functions(_, n, which, values, out):
    out[:] = (portable.exp, portable.log, portable.log1p)[which](values)


def advance(_, n, scores, values, weight):
    scores += weight * values


def divide_by(_, n, mass, one, other):
    one /= mass
    other /= mass


def by_rows(order, n, features, width, columns, rows):
    """Writes 32 bytes of each row, as the tiles of the kernel do."""
    columns = columns.reshape(features, n)
    for row in range(n):
        rows[row * width : row * width + 32] = 0
        rows[row * width : row * width + features] = columns[:, row]


def count_up(_, n, rows):
    rows[:] = np.arange(n)


def pack(_, n, wide, count_bits, pull, weight, one, other, weight_one, weight_other, first, second):
    a = np.rint(pull * one * other).astype(np.int64)
    b = np.rint(weight * weight_one * weight_other).astype(np.int64)
    first[:] = a if wide else (a << 38) + (b << 12) + 1
    if wide:
        second[:] = (b << count_bits) + 1


FIELDS = (
    "low", "middle", "high", "source", "target", "feature", "first", "last", "slot", "parent",
    "wanted",
)  # fmt: skip


def fields(work):
    return SimpleNamespace(
        **dict(zip(FIELDS, work.tolist(), strict=False)), pull=work[11:13], weight=work[13:15]
    )


def node_of(start, block):
    return int(np.flatnonzero(start <= block)[-1])


def words(work):
    """The `Work` of the nodes of a batch."""
    return work.reshape(-1, cuda.WORDS)


def move(
    order, work, start, nodes, tiles, width, codes, sides, lists, n, histograms
):  # fmt: skip
    work, sides = words(work), sides.view(np.uint8).reshape(-1, 256)
    for block in order:
        if block >= tiles:
            part, size = (
                histograms[fields(work[(block - tiles) // 20]).slot].reshape(-1),
                width * 512,
            )
            part[(block - tiles) % 20 * size // 20 : ((block - tiles) % 20 + 1) * size // 20] = 0
            continue
        node = node_of(start, block)
        here = fields(work[node])
        source, target = lists[here.source], lists[here.target]
        begin = here.low + (block - start[node]) * cuda.MOVED
        rows = source[begin : min(begin + cuda.MOVED, here.high)]
        left = sides[node][codes[rows, here.feature]] != 0
        to_left, to_right = here.low + work[node, 15], here.middle + work[node, 16]
        target[to_left : to_left + left.sum()] = rows[left]
        target[to_right : to_right + (~left).sum()] = rows[~left]
        work[node, 15] += left.sum()
        work[node, 16] += (~left).sum()


def unpack(first, second):
    """Pull, weight and count behind sums of ``64 pull + 1`` and ``63 weight + 1``."""
    a, b = first.astype(np.int64) & 63, second.astype(np.int64) % 63
    count = a + 64 * ((b - a) % 63)
    return (first - count) >> 6, (second - count) // 63, count


def fill(
    order, work, start, nodes, size, width, features, wide, count_bits, codes, one_word, other_word,
    lists, n, histograms,
):  # fmt: skip
    work = words(work)
    for block in order:
        node = node_of(start, block)
        here = fields(work[node])
        assert size <= cuda.FILLED
        begin = here.first + (block - start[node]) * size
        rows = lists[here.target][begin : min(begin + size, here.last)]
        numbers, sums = one_word[rows], histograms[here.slot]
        if wide:
            both = numbers, other_word[rows]
        else:
            weight, count = (numbers >> 12) & 0x3FFFFFF, numbers & 4095
            both = numbers >> 38, (weight << count_bits) + count
            if np.abs(both[0]).sum() < (1 << 25) - 64 and weight.sum() < 1 << 26:
                # As the kernel does it, in words of 32 bits.
                first = (both[0] * 64 + 1).astype(np.int32)
                second = (weight * 63 + 1).astype(np.uint32)
                for j in range(features):
                    found = np.zeros(256, np.int32), np.zeros(256, np.uint32)
                    np.add.at(found[0], codes[rows, j], first)
                    np.add.at(found[1], codes[rows, j], second)
                    pull, of_bin, rows_of_bin = unpack(*found)
                    sums[j, :, 0] += pull
                    sums[j, :, 1] += (of_bin << count_bits) + rows_of_bin
                continue
        for j in range(features):
            for k in range(2):
                np.add.at(sums[j, :, k], codes[rows, j], both[k])


def search(
    _, work, width, n_bins, allowed, step, monotone, categorical, bounds, given, histograms, found,
    best,
):  # fmt: skip
    """The search, by the kernel of the CPU."""
    work, bounds = words(work), bounds.view(np.float64).reshape(-1, 2, 2)
    allowed = allowed.view(np.uint8)
    best[:, 1] = -1
    pull_unit, weight_unit, penalty, alpha, smooth, min_weight = (
        given[:48].view(np.float64).tolist()
    )
    count_bits, min_count, plain = given[48:72].view(np.int64).tolist()
    assert plain == (alpha == 0 and not monotone.any())
    rules = Rules(
        pull_unit, weight_unit, count_bits, penalty, alpha, -np.inf, min_count, min_weight, smooth
    )
    start = np.concatenate([[0], np.cumsum(n_bins + 1)])
    of_cpu = SplitSearch(start, n_bins, monotone, categorical != 0)
    for node, each in enumerate(work):
        here = fields(each)
        free = allowed[step * node : step * node + n_bins.size] != 0
        for child in range(2):
            if not here.wanted >> child & 1:
                continue
            sums = histograms[here.slot].copy()
            if child:
                histograms[here.parent] -= sums
                sums = histograms[here.parent]
            layout = np.concatenate([
                np.concatenate([sums[j, : n_bins[j]], sums[j, 255:]]) for j in range(n_bins.size)
            ])  # fmt: skip
            of = (int(here.pull[child]), int(here.weight[child]))
            leaf = Node(0, 0, 0, of, 0, *bounds[node, child].tolist(), free)
            split = of_cpu.best(layout, leaf, rules)
            if split is not None:
                gain = int(np.array([split.gain]).view(np.int64)[0])
                best[2 * node + child] = (
                    gain, split.feature, split.cut, split.way, *split.left_sums
                )  # fmt: skip


def leaves_of(order, leaves, start, lists):
    for block in order:
        leaf = node_of(start, block)
        low, high, number = leaves[leaf].tolist()
        begin = low + (block - start[leaf]) * cuda.OF_LEAF
        rows = lists[number]
        yield leaf, rows[begin : min(begin + cuda.OF_LEAF, high)]


def leaf_sums(
    order, leaves, start, count, lists, n, pull, weight, one, other, weight_one,
    weight_other, sums,
):  # fmt: skip
    for leaf, rows in leaves_of(order, leaves, start, lists):
        sums[leaf, 0] += np.rint(pull[rows] * one * other).astype(np.int64).sum()
        sums[leaf, 1] += np.rint(weight[rows] * weight_one * weight_other).astype(np.int64).sum()


def leaf_values(order, leaves, start, count, lists, n, value, values):
    values[:] = np.nan
    for leaf, rows in leaves_of(order, leaves, start, lists):
        values[rows] = value[leaf]


def walk(_, n, width, codes, feature, sides, child, splits, value, values):
    for row in range(n):
        node = 0
        while node >= 0:
            left = sides[node, codes[row, feature[node]]]
            node = child[0 if left else 1, node]
        values[row] = value[-1 - node]


def score(_, n, width, X, used, features, trees, start, branches, scores):
    branches = branches.view(BRANCH)
    for row in range(n):
        for tree in range(trees):
            here = branches[start[tree] :]
            at = 0
            while here[at]["feature"] >= 0:
                value, split = X[row, features[here[at]["feature"]]], here[at]
                right = split["missing"] if np.isnan(value) else float(value) > split["number"]
                at = split["right"] if right else split["left"]
            scores[row] += here[at]["number"]


def pair_weights(_, count, runs, level_start, weight, outer, totals):
    for run, (bottom, top) in enumerate(runs):
        for level in range(bottom + 1, top):
            losers = outer[level_start[bottom] : level_start[level]].sum()
            totals[run] += losers * weight[level_start[level] : level_start[level + 1]].sum()


def narrow_runs(
    _, runs, level_start, scores, weight, outer, totals, pull, hessian, sums, held, scratch, twos,
    rows,
):  # fmt: skip
    found = np.full((len(runs), 2), np.nan)
    given = runs, level_start, scores.size, scores, weight, outer, pull, hessian, found
    short_queries._narrow_runs(0, len(runs), *given)
    far = np.flatnonzero(found[:, 0] < 0)
    losses = np.empty(far.size)
    given = runs[far], level_start, scores.size, scores, weight, outer, losses
    short_queries._small_losses(0, far.size, *given)
    found[far, 0] = losses
    sums[:] = found.T


def plain_runs(
    _, runs, level_start, logistic, knot, scores, weight, outer, pull, hessian, sums, scratch, rows
):
    left = np.flatnonzero(np.isnan(sums[1]))
    found = np.empty((left.size, 2))
    given = runs[left], level_start, scores.size, bool(logistic), knot, scores, weight, outer
    short_queries._plain_runs(0, left.size, *given, pull, hessian, found)
    sums[:, left] = found.T


KERNELS = {
    kernel.__name__: kernel
    for kernel in (
        largest, words_of, functions, advance, divide_by, by_rows, count_up, pack, move,
        fill, search, leaf_sums, leaf_values, walk, pair_weights, narrow_runs, plain_runs,
    )
}  # fmt: skip
KERNELS |= {"score_singles": score, "score_doubles": score}
