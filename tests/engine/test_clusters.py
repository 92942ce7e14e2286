"""Sums of squares over clusters, against loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from precede.engine.clusters import squares_of_clusters


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(0, 2))
def test_squares_are_those_of_loops_in_any_order(seed, weighted, further):
    rng = np.random.default_rng(seed)
    n, m, comparisons = 5, int(rng.integers(1, 40)), 6
    a = rng.integers(0, n, comparisons)
    b = (a + rng.integers(1, n, comparisons)) % n
    table = rng.standard_normal((3 * comparisons, 1 + further)) * 10.0 ** rng.integers(-3, 4)
    number, kind = rng.integers(0, 7, m), rng.integers(0, 3 * comparisons, m)
    weight = rng.uniform(0.1, 5, m) if weighted else None
    sums, rows = np.zeros((7, n + further)), np.arange(3 * comparisons)
    for vote in range(m):
        times = 1.0 if weight is None else weight[vote]
        which = kind[vote]
        sums[number[vote], a[which // 3]] += table[which, 0] * times
        sums[number[vote], b[which // 3]] -= table[which, 0] * times
        sums[number[vote], n:] += table[which, 1:] * times
    found = squares_of_clusters(number, (a[rows // 3], b[rows // 3]), kind, table, n, weight)
    assert_allclose(found, sums.T @ sums, rtol=1e-9, atol=1e-9 * np.abs(table).max() ** 2)
    order = rng.permutation(m)
    again = squares_of_clusters(
        rng.permutation(9)[number[order]], (a[rows // 3], b[rows // 3]), kind[order], table, n,
        None if weight is None else weight[order], n_jobs=2,
    )  # fmt: skip
    assert np.array_equal(found, again)
