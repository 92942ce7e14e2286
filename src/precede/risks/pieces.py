"""Levels cut into pieces, which threads share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import Array, Integers
from precede.engine.query_layout import QueryLayout

__all__ = ["Pieces"]

# A run of equal grade is cut into pieces of at most this many rows, so that one query of
# a million rows keeps every thread busy.
PIECE = 1 << 15


@dataclass(frozen=True)
class Pieces:
    """Levels cut into short runs: ``first[l]`` is the first piece of level l."""

    start: Integers
    level: Integers
    first: Integers
    single: bool  # whether every level is one piece

    @property
    def count(self) -> int:
        """Number of pieces."""
        return int(self.level.size)

    @classmethod
    def cut(cls, layout: QueryLayout, size: int | None = None) -> Pieces:
        """Cut the levels of a layout into pieces of at most `size` rows."""
        size = size or PIECE
        sizes = np.diff(layout.level_start)
        per_level = -(-sizes // size)
        first = np.concatenate([[0], np.cumsum(per_level)]).astype(np.int64)
        level = np.repeat(np.arange(sizes.size), per_level)
        within = np.arange(level.size) - first[level]
        start = np.append(layout.level_start[level] + within * size, layout.n_graded)
        single = bool((per_level == 1).all())
        return cls(start.astype(np.int64), level.astype(np.int64), first, single)

    def by_level(self, combine: np.ufunc, by_piece: Array, nothing: float) -> Array:
        """Rows of an array combined over the pieces of every level; `nothing` for no piece."""
        if self.single:  # the usual case
            return by_piece
        size = np.diff(self.first)
        result = np.full((size.size, by_piece.shape[1]), nothing, by_piece.dtype)
        if self.count:
            result[size > 0] = combine.reduceat(by_piece, self.first[:-1][size > 0], axis=0)
        return result
