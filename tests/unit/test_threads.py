"""Threads: hands are dealt the same way each time, stop together, and the BLAS limit is taken off again."""

import _thread
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mercer
from mercer.engine import threads
from mercer.engine.threads import (
    n_blas_threads,
    parallel_map,
    single_threaded_blas,
)
from mercer.kernels import RBF


def test_every_task_is_played_once_in_an_order_that_does_not_depend_on_timing():
    for n_threads in (1, 2, 3, 7):
        hands = parallel_map(list, range(10), n_threads=n_threads)
        assert sorted(task for hand in hands for task in hand) == list(range(10))
        assert hands == parallel_map(list, range(10), n_threads=n_threads)


def test_hands_within_hands_need_no_thread_that_is_taken():
    """More hands than there are threads, each of which deals again."""

    def outer(tasks):
        return [sum(parallel_map(sum, range(task), n_threads=4)) for task in tasks]

    for found in (parallel_map(outer, range(200), n_threads=100) for _ in range(2)):
        sums = sorted(each for hand in found for each in hand)
        assert sums == sorted(task * (task - 1) // 2 for task in range(200))


def test_work_that_waits_for_threads_of_its_own_ends():
    """All threads are taken by hands, each of which waits for a thread that deals hands itself."""

    def outer(tasks):
        found = []
        for task in tasks:
            inner = threading.Thread(
                target=lambda n=task: found.append(sum(parallel_map(sum, range(n), n_threads=3)))
            )
            inner.start()
            inner.join(60)
        return found

    n = 2 * threads._pool()._max_workers
    found = parallel_map(outer, range(n), n_threads=n)
    sums = sorted(each for hand in found for each in hand)
    assert sums == [task * (task - 1) // 2 for task in range(n)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_that_is_forked_in_the_middle_holds_nothing():
    before = n_blas_threads()
    with single_threaded_blas():
        child = os.fork()
        if child == 0:  # another thread's hold would never end here
            os._exit(0 if threads._HOLD.usual is None and n_blas_threads() == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert n_blas_threads() == before


def test_an_error_in_a_hand_comes_out():
    def fail(tasks):
        raise ZeroDivisionError(str(tasks))

    with pytest.raises(ZeroDivisionError):
        parallel_map(fail, range(4), n_threads=2)
    with single_threaded_blas():
        assert {each.num_threads for each in threads._blas_libraries()} == {1}


def test_when_one_hand_fails_the_others_stop_at_their_next_task():
    before, failed, played = n_blas_threads(), threading.Event(), []

    def work(tasks):
        for task in tasks:
            if task == 0:
                failed.set()
                raise ZeroDivisionError
            assert failed.wait(300)  # the first hand has failed, or is just about to
            time.sleep(0.001)
            played.append(task)

    with pytest.raises(ZeroDivisionError):
        parallel_map(work, range(30_000), n_threads=3)
    assert len(played) < 15_000  # of 20 000: what fitted in before the error was known
    assert n_blas_threads() == before


@pytest.mark.parametrize("first", [0, 1])
def test_the_error_that_comes_out_is_that_of_the_hand_that_failed(first):
    failed = threading.Event()

    def work(tasks):
        for task in tasks:
            if task % 2 == first:
                failed.set()
                raise KeyError(task)
            assert failed.wait(300)
        return np.concatenate([])  # what a hand cut short might stumble over

    with pytest.raises(KeyError, match=str(first)):
        parallel_map(work, range(1_000_000), n_threads=2)


def test_ctrl_c_stops_all_hands_and_takes_the_blas_limit_off():
    before, all_play, played = n_blas_threads(), threading.Barrier(3), []
    interrupted = threading.Event()

    def work(tasks):
        for task in tasks:
            if task < 3:
                all_play.wait(300)
            if task == 300:
                _thread.interrupt_main()  # as the terminal does
                interrupted.set()
            assert task < 300 or interrupted.wait(300)
            time.sleep(0.001)
            played.append(task)

    with pytest.raises(KeyboardInterrupt):
        parallel_map(work, range(30_000), n_threads=3)
    assert len(played) < 25_000
    assert n_blas_threads() == before


def test_a_real_ctrl_c_comes_out_in_the_middle_of_a_pass():
    script = """
import os, signal, time
from mercer.engine.threads import n_blas_threads, parallel_map

before, played = n_blas_threads(), []

def work(tasks):
    for task in tasks:
        if task == 100:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)
        played.append(task)

try:
    parallel_map(work, range(20_000), n_threads=2)
except KeyboardInterrupt:
    print("interrupted", len(played) < 15_000, n_blas_threads() == before)
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True
    )
    assert found.stdout.split() == ["interrupted", "True", "True"]


def test_overlapping_holds_restore_the_limit():
    before = n_blas_threads()
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # the first to come leaves first
    assert {each.num_threads for each in threads._blas_libraries()} == {1}
    assert n_blas_threads() == before  # that tiles may use
    second.__exit__(None, None, None)
    assert n_blas_threads() == before


def test_a_hold_is_that_of_the_process_whatever_threads_begin_and_end_it():
    """Also while a thread that was the first to set a limit is alive, with a limit of its own or without."""
    script = """
import threading, numpy, scipy.linalg
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import threadpool_limits
from mercer.engine.threads import _blas_libraries, single_threaded_blas
counts = lambda: {each.num_threads for each in _blas_libraries()}
one, two, three = (ThreadPoolExecutor(1) for _ in range(3))
on = lambda pool, act: pool.submit(act).result(60)
for first, last in ((one, two), (two, three), (three, one)):
    hold = single_threaded_blas()
    on(first, hold.__enter__)
    held = counts()
    on(last, hold.__exit__)
    print(held == {1}, counts() == {2})
wider = on(one, lambda: threadpool_limits(limits=2).__enter__())  # the user's own, and it lasts
with single_threaded_blas():
    print(counts() == {1})
print(counts() == {2})
on(two, lambda: threadpool_limits(limits=1).__enter__())
print(counts() == {1})
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
    )
    assert found.stdout.split() == ["True"] * 9


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
