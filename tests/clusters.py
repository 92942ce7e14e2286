"""Data of the tests on clusters, cut into chunks; sessions in this process; how long tests wait."""

from concurrent.futures import Future

import numpy as np

from precede.datasets import search_results, two_normals

GRADED = search_results(25, features=7, informative=3, per_query=9, random_state=1)
TWO = two_normals(240, random_state=0)
PATIENCE = 120.0  # seconds for what takes one or two on a machine with nothing else to do
# Dask gives up, or warns, after times that a busy machine may exceed.
PATIENT = {
    "distributed.admin.tick.limit": "1h",
    "distributed.comm.timeouts.connect": f"{PATIENCE} s",
    "distributed.comm.timeouts.tcp": f"{PATIENCE} s",
}


def shuffled(*arrays, seed=0):
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    return [array[order] for array in arrays]


def chunked(cut, *arrays):
    """Dask arrays with the same chunks: a number, or sizes."""
    import dask.array as da

    return [da.from_array(a, chunks=(cut, a.shape[1]) if a.ndim == 2 else (cut,)) for a in arrays]


def completed(value):
    future = Future()
    future.set_result(value)
    return future


class InProcessSession:
    """A session in this process, with the interface of a Dask actor: methods return futures."""

    def __init__(self, session):
        self.session = session

    def start(self, results=()):
        return completed(self.session.start(results))

    def resume(self, result):
        return completed(self.session.resume(result))

    def close(self):
        return completed(self.session.close())
