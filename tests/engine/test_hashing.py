"""Hashes of keys: equal to splitmix64, and uniform."""

import numpy as np

from precede.engine.exact import hash_keys, hash_seeds, splitmix64

MASK = 2**64 - 1


def splitmix(key):
    """Apply the finalizer of splitmix64 with Python integers."""
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    key = (key ^ (key >> 27)) * 0x94D049BB133111EB & MASK
    return key ^ (key >> 31)


def test_the_first_number_of_splitmix64():
    """For the state 0, as printed by the reference implementation."""
    assert int(hash_keys(np.zeros(1, np.uint64), 0)[0]) == 0xE220A8397B1DCDAF


def test_keys_equal_those_of_a_loop_in_python():
    keys = np.random.default_rng(0).integers(0, 2**64, 50, np.uint64)
    assert splitmix64(keys).tolist() == [splitmix(int(key)) for key in keys]
    numbers = 7, 0, 2**40
    wanted = []
    for key in keys.tolist():
        mixed = key
        for number in numbers:
            mixed = splitmix((mixed + (number + 1) * 0x9E3779B97F4A7C15) & MASK)
        wanted.append(mixed)
    before = keys.copy()
    assert hash_keys(keys, *numbers).tolist() == wanted
    np.testing.assert_array_equal(keys, before)
    assert hash_seeds(0, 1).tolist() == [0x9E3779B97F4A7C15, 2 * 0x9E3779B97F4A7C15 & MASK]


def test_hashes_of_consecutive_keys_are_uniform():
    """Hashes of the keys 0, 1, 2, ... are uniform (Kolmogorov-Smirnov)."""
    chance = (hash_keys(np.arange(100_000, dtype=np.uint64), 3, 1) >> np.uint64(11)) / 2.0**53
    ends = np.sort(chance)
    gap = np.abs(ends - (np.arange(ends.size) + 0.5) / ends.size).max()
    assert gap < 1.95 / np.sqrt(ends.size)  # p = 0.001
    other = (hash_keys(np.arange(100_000, dtype=np.uint64), 3, 2) >> np.uint64(11)) / 2.0**53
    assert abs(np.corrcoef(chance, other)[0, 1]) < 0.01
