"""Pseudorandom numbers by hashing the keys of rows (splitmix64).

Whether a row is sampled depends only on its key, a seed and the round, and so neither on the order
of the rows nor on the machine that holds them.
"""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Keys

__all__ = ["hash_keys", "hash_seeds", "splitmix64"]


def splitmix64(keys: Keys) -> Keys:
    """Apply the finalizer of splitmix64: a bijection that mixes all bits.

    >>> splitmix64(np.arange(3, dtype=np.uint64)) >> np.uint64(56)
    array([  0,  86, 219], dtype=uint64)
    """
    mixed = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hash_seeds(*numbers: int) -> Keys:
    """Return the increments that `hash_keys` adds to the keys: (number + 1) times 2^64 / phi."""
    return np.array([(number + 1) * 0x9E3779B97F4A7C15 % 2**64 for number in numbers], np.uint64)


def hash_keys(keys: Keys, *numbers: int) -> Keys:
    """Hash keys together with numbers such as a seed and a round. O(n) for each number."""
    for increment in hash_seeds(*numbers):
        keys = splitmix64(keys + increment)
    return keys
