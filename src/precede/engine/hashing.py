"""Numbers that look random and follow from keys of rows (splitmix64): draws without a generator.

A row is drawn or not by its key, a seed and the number of a round, so the draw depends neither on
the order of the rows nor on which machine holds them.
"""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Keys

__all__ = ["hash_keys", "hash_seeds", "splitmix64"]


def splitmix64(keys: Keys) -> Keys:
    """Keys whose bits are scattered: close ones become unlike.

    >>> splitmix64(np.arange(3, dtype=np.uint64)) >> np.uint64(56)
    array([  0,  86, 219], dtype=uint64)
    """
    mixed = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hash_seeds(*more: int) -> Keys:
    """What is added to keys for some numbers, before they are scattered."""
    return np.array([(number + 1) * 0x9E3779B97F4A7C15 % 2**64 for number in more], np.uint64)


def hash_keys(keys: Keys, *more: int) -> Keys:
    """Keys mixed with some numbers, such as a seed and a round: O(n)."""
    for number in hash_seeds(*more):
        keys = splitmix64(keys + number)
    return keys
