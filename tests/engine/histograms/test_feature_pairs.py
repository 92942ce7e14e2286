"""Histograms of pairs of features, the cover of pairs by triples, and independence of threads."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from precede.engine.execution import Context
from precede.engine.histograms import pair_sums, pair_words, triple_cover, triple_sums


@pytest.mark.parametrize("count", range(2, 40))
def test_each_pair_is_in_exactly_one_triple(count):
    found = [
        (a, b)
        for triple in triple_cover(count).tolist()
        for a, b in ((triple[0], triple[1]), (triple[0], triple[2]), (triple[1], triple[2]))
        if b < count
    ]
    assert sorted(found) == [(a, b) for a in range(count) for b in range(a + 1, count)]


def test_triple_sums_equal_pair_sums_and_naive_sums():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 16, (5, 500)).astype(np.uint8)
    words = generator.integers(-(2**50), 2**50, 500)
    triples = triple_cover(5)
    with Context(3) as context:
        sums = triple_sums(codes, triples, words, context)
        for t, (a, b, c) in enumerate(triples.tolist()):
            pairs = np.array([[a, b], [a, c], [b, c]] if c < 5 else [[a, b]])
            expected = pair_sums(codes, pairs, 16, words, Context(1))
            assert_array_equal(sums[t, : len(pairs)], expected)
            slow = np.zeros((16, 16), np.int64)
            for row in range(500):
                slow[codes[a, row], codes[b, row]] += words[row]
            assert_array_equal(sums[t, 0], slow)


def test_words_hold_pull_and_weight_of_any_magnitude():
    generator = np.random.default_rng(0)
    for scale in (1e-300, 1.0, 1e300):
        pull, weight = scale * generator.normal(size=1000), scale * generator.random(1000)
        rows = pair_words(pull, weight, Context(1))
        total = rows.words.sum()
        assert abs(rows.pulls(total) - pull.sum()) < 1e-6 * np.abs(pull).sum()
        assert abs(rows.weights(total) - weight.sum()) < 1e-6 * weight.sum()
    assert pair_words(np.zeros(3), np.ones(3), Context(1)) is None
    assert pair_words(np.ones(3), np.zeros(3), Context(1)) is None


def test_sums_do_not_depend_on_threads_or_on_the_order_of_rows():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 16, (6, 300_000)).astype(np.uint8)
    words = generator.integers(-(2**40), 2**40, 300_000)
    order = generator.permutation(300_000)
    one = triple_sums(codes, triple_cover(6), words, Context(1))
    with Context(4) as context:
        other = triple_sums(codes[:, order].copy(), triple_cover(6), words[order], context)
    assert_array_equal(one, other)
