"""Threads: hands are dealt the same way each time, and the BLAS limit is always taken off again."""

import threading

import numpy as np
import pytest

import mercer
from mercer.engine.threads import n_blas_threads, share_out, single_threaded_blas
from mercer.kernels import RBF


def test_every_task_is_played_once_in_an_order_that_does_not_depend_on_timing():
    for n_threads in (1, 2, 3, 7):
        hands = share_out(list, range(10), n_threads=n_threads)
        assert sorted(task for hand in hands for task in hand) == list(range(10))
        assert hands == share_out(list, range(10), n_threads=n_threads)


def test_an_error_in_a_hand_comes_out():
    def fail(tasks):
        raise ZeroDivisionError(str(tasks))

    with pytest.raises(ZeroDivisionError):
        share_out(fail, range(4), n_threads=2)
    with single_threaded_blas():
        assert n_blas_threads() == 1


def test_overlapping_holds_restore_the_limit():
    before = n_blas_threads()
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # the first to come leaves first
    assert n_blas_threads() == 1
    second.__exit__(None, None, None)
    assert n_blas_threads() == before


def test_fits_on_many_threads_give_the_same_and_leave_blas_alone(rng):
    before = n_blas_threads()
    x = rng.standard_normal((700, 3))
    expected = mercer.KernelPCA(2, kernel=RBF(0.5)).fit(x).eigenvalues_
    found = []

    def work():
        found.append(mercer.KernelPCA(2, kernel=RBF(0.5)).fit(x).eigenvalues_)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for values in found:
        np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert n_blas_threads() == before
