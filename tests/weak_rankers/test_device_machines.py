"""Trees grown by several workers, each on an emulated device.

Fits on a cluster are in tests/dask/test_devices.py.
"""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import Trees
from precede.dask.driver import ClusterContext, InProcessSession, SpmdDriver, WorkerSession
from precede.engine.table import Table

pytestmark = needs_compiler


class Lost:
    """A session that fails once, at one of its steps."""

    left = 0

    def __init__(self, here):
        self.here = here

    def start(self, answers=()):
        return self.here.start(answers)

    def resume(self, answer):
        Lost.left -= 1
        if Lost.left == 0:
            raise OSError("gone")
        return self.here.resume(answer)

    def close(self):
        return self.here.close()


@pytest.mark.parametrize("subsample", [1.0, 0.5])
@pytest.mark.parametrize("lost", [0, 5, 12, 15])
@pytest.mark.parametrize("ends", [[100, 101], [0, 0], [1, 2], [150]])
def test_workers_with_few_or_no_rows_and_lost_workers(ends, lost, subsample):
    device, rng = EmulatedDevice(), np.random.default_rng(1)
    rows = rng.normal(size=(150, 35))  # more features than one block of threads takes
    rows[::4, 2] = np.nan
    rows[:, 30] = 1.0
    pull = rng.normal(size=150)
    table = Table.build(rows)
    trees = Trees(num_leaves=9, min_child_samples=2, subsample=subsample, random_state=3)
    alone = trees.search(table, pull)

    def work(block, spec, context):
        context.tree_backend = device
        return trees.start(table.block(block), context).best(pull[block])

    blocks = np.split(np.arange(150), ends)

    def launch(rank):
        return Lost(
            InProcessSession(WorkerSession(work, blocks[rank], None, ClusterContext(rank, 1)))
        )

    Lost.left = lost
    conversation = SpmdDriver(launch, len(blocks), {})
    found = conversation.run()
    assert {"move", "fill"} <= {*device.launched}
    assert conversation.lost == (lost > 0)
    assert found.weak_ranker == alone.weak_ranker
    assert found.edge == alone.edge
    assert found.values.tolist() == alone.values[blocks[0]].tolist()
