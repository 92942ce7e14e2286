"""Clusters shared by the tests of this folder."""

import pytest

from clusters import PATIENT


@pytest.fixture(scope="module")
def clients():
    """Clusters of one, two and four workers in this process."""
    dask = pytest.importorskip("dask", reason="Dask is not installed")
    distributed = pytest.importorskip("distributed", reason="Dask's scheduler is not installed")
    made = {}
    with dask.config.set(PATIENT):
        for workers in (1, 2, 4):
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
            )
            made[workers] = distributed.Client(cluster)
        yield made
        for client in made.values():
            client.close()
            client.cluster.close()
