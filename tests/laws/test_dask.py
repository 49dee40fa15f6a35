"""The laws of engines on a cluster of two workers, and what only a cluster can get wrong."""

import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster

from laws.test_engines import (  # noqa: F401
    kernel_of_parts,
    placed,
    test_a_step_may_travel,
    test_fold_merges_in_the_order_of_the_rows,
    test_gram_times_is_symmetric,
    test_gram_times_is_the_dense_product,
    test_kept_tiles_change_no_bit,
    test_map_keeps_the_order_of_the_rows,
    test_passes_over_loaded_rows,
    test_rough_products_are_off_by_their_rounding_alone,
    test_rows_may_be_anywhere,
    test_times_is_the_dense_product,
    x,
)
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer.engine.dask import DaskEngine

KERNELS = {name: (VALID | HISTOGRAM | INDEFINITE)[name] for name in ("rbf", "poly2")}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def engine(client):
    return DaskEngine(client, least=0)


@pytest.fixture(params=sorted(KERNELS))
def kernel(request):
    return KERNELS[request.param]
