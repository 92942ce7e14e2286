"""Levels cut into chunks of rows for parallel work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import Array, Integers
from precede.engine.query_layout import QueryLayout

__all__ = ["LevelChunks"]

# Rows of a chunk; small enough for one query of a million rows to keep all threads busy.
MAX_ROWS_PER_CHUNK = 1 << 15


@dataclass(frozen=True)
class LevelChunks:
    """Levels cut into chunks.

    Attributes
    ----------
    start : first row of each chunk, and the end of the last
    level : level of each chunk
    first : first chunk of each level, and the end of the last
    single : whether each level is one chunk
    """

    start: Integers
    level: Integers
    first: Integers
    single: bool

    @property
    def count(self) -> int:
        """Number of chunks."""
        return int(self.level.size)

    @classmethod
    def cut(cls, layout: QueryLayout, size: int | None = None) -> LevelChunks:
        """Cut the levels of a layout into chunks of at most `size` rows."""
        size = size or MAX_ROWS_PER_CHUNK
        sizes = np.diff(layout.level_start)
        per_level = -(-sizes // size)
        first = np.concatenate([[0], np.cumsum(per_level)]).astype(np.int64)
        level = np.repeat(np.arange(sizes.size), per_level)
        within = np.arange(level.size) - first[level]
        start = np.append(layout.level_start[level] + within * size, layout.n_graded)
        single = bool((per_level == 1).all())
        return cls(start.astype(np.int64), level.astype(np.int64), first, single)

    def by_level(self, combine: np.ufunc, by_chunk: Array, empty: float) -> Array:
        """Reduce the rows of an array over the chunks of each level; `empty` if it has none."""
        if self.single:
            return by_chunk
        size = np.diff(self.first)
        result = np.full((size.size, by_chunk.shape[1]), empty, by_chunk.dtype)
        if self.count:
            result[size > 0] = combine.reduceat(by_chunk, self.first[:-1][size > 0], axis=0)
        return result
