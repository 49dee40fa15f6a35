"""Small clusters of Dask for tests: workers are processes of this machine, with one thread each."""

from contextlib import contextmanager

import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster


@contextmanager
def small_cluster(n_workers=2, **options):
    """A client of a cluster of its own."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            **options,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
