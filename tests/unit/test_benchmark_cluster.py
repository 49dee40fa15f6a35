"""The simulation of a cluster: closed forms where there are some."""

import numpy as np
import pytest

pytest.importorskip("distributed")

from benchmarks.cluster.model import BLOCK, FLOAT, SINGLE, Cluster, Machine, Network, largest


def test_one_worker_sends_computes_and_sends_back():
    network, machine = Network(1e9, 1e-3, 1e-2), Machine()
    one = Cluster(1, threads=1, network=network, machine=machine)
    n = 10_000
    there, back = (network.seconds(size * n * BLOCK) for size in (SINGLE, FLOAT))
    assert one.product(n, 1e-8) == pytest.approx(max(there, 1e-2) + 0.5 * n * n * 1e-8 + back)


@pytest.mark.parametrize(("workers", "levels"), [(2, 1), (3, 2), (4, 2), (1000, 10)])
def test_sums_take_a_level_for_each_doubling(workers, levels):
    cluster = Cluster(workers, network=Network(np.inf, 1.0, 0.0))
    assert cluster.merged(np.zeros(workers), 0.0, 0.0) == levels + 1


def test_few_workers_wait_in_line_and_many_hand_on():
    still = Network(np.inf, 1.0, 0.0)
    assert Cluster(4, network=still).arrivals(0.0).tolist() == [1, 2, 3, 4]
    assert Cluster(64, network=still).arrivals(0.0).max() == 1 + 6


@pytest.mark.parametrize("workers", [1, 10, 1000])
def test_time_grows_with_rows(workers):
    cluster = Cluster(workers)
    times = [cluster.exact(n, 50) for n in (10**4, 10**5, 10**6, 10**7)]
    assert times == sorted(times)
    most = largest(3600.0, lambda n: cluster.exact(n, 50))
    assert cluster.exact(most, 50) <= 3600.0 < cluster.exact(int(1.35 * most), 50)
