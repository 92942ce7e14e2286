"""Distribution of rows: queries are not split, and a single list is not shuffled."""

import pytest

pytest.importorskip("dask", reason="Dask is not installed")
pytest.importorskip("distributed", reason="Dask's scheduler is not installed")

import dask

from clusters import GRADED, TWO, chunked, shuffled
from precede.dask.blocks import block_layout, partitions, scatter
from precede.dask.estimators import DaskRankBoost


def test_one_list_is_not_shuffled_and_queries_are_whole(clients):
    parts = [dask.delayed(lambda a, b: (a, b))(TWO.X[j::5], TWO.y[j::5]) for j in range(5)]
    with scatter(clients[2], partitions(parts, None, None, None), DaskRankBoost()) as scattered:
        blocks = clients[2].gather(scattered.blocks)
    assert [len(block.X) for block in blocks] == [96, 144]  # whole partitions
    assert block_layout(blocks[0], scattered.totals).queries_span_machines

    X, y, qid = chunked(20, *shuffled(GRADED.X, GRADED.y, GRADED.qid))
    with scatter(clients[4], partitions(X, y, qid, None), DaskRankBoost()) as scattered:
        blocks = clients[4].gather(scattered.blocks)
    seen = [set(block.query.tolist()) for block in blocks]
    assert len(blocks) == 4
    assert len(set(scattered.workers)) == 4  # one each
    assert all(not a & b for j, a in enumerate(seen) for b in seen[:j])
    assert max(len(b.X) for b in blocks) < 2 * min(len(b.X) for b in blocks)
