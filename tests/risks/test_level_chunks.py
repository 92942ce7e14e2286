"""Levels cut into chunks."""

import numpy as np

from precede import Judgments
from precede.risks.exponential import LevelChunks


def test_chunks_cover_every_level_in_order(monkeypatch):
    monkeypatch.setattr("precede.risks.exponential.MAX_ROWS_PER_CHUNK", 3)
    layout = Judgments([0] * 7 + [1] * 2 + [2] * 3).to_layout()
    chunks = LevelChunks.cut(layout)
    assert chunks.start.tolist() == [0, 3, 6, 7, 9, 12]
    assert chunks.level.tolist() == [0, 0, 0, 1, 2]
    assert chunks.first.tolist() == [0, 3, 4, 5]
    assert (chunks.count, chunks.single) == (5, False)
    sums = np.add.reduceat(np.arange(12), chunks.start[:-1])[:, None]
    assert chunks.by_level(np.add, sums, 0).ravel().tolist() == [21, 15, 30]


def test_short_levels_are_one_chunk_each():
    chunks = LevelChunks.cut(Judgments([0, 1, 1, 2]).to_layout())
    assert chunks.single
    by_chunk = np.arange(3)[:, None]
    assert chunks.by_level(np.add, by_chunk, 0) is by_chunk
