"""Threads that share tasks."""

import threading
from contextlib import suppress

import numba
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dynpart.threads import Threads, allowed_threads, one_blas_thread


def test_threads_do_every_task_once_and_raise_the_first_error():
    done = []
    threads = Threads(3)
    threads.map(done.append, range(1, 100), n_terms=1 << 30)
    assert sorted(done) == list(range(1, 100))
    with pytest.raises(ZeroDivisionError):
        threads.map(lambda n: 1 // (n - 50), range(1, 100), n_terms=1 << 30)


def test_no_more_threads_are_asked_for_than_there_are_tasks():
    """A limit of a billion threads starts no more threads than there are tasks."""
    threads, done = Threads(10**9), []
    threads.map(done.append, range(5), n_terms=10**9)
    assert sorted(done) == list(range(5))
    assert len(threads._pool._threads) <= 4


def test_threads_respect_limits():
    before = numba.get_num_threads()
    assert allowed_threads() <= before
    with threadpool_limits(1, user_api="openmp"):
        assert allowed_threads() == 1
    numba.set_num_threads(1)
    try:
        assert allowed_threads() == 1
    finally:
        numba.set_num_threads(before)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_matrix_products_take_one_thread_until_the_last_user_leaves():
    before, inside, leave = blas_threads(), threading.Barrier(2), threading.Event()
    told = []

    def first():
        with one_blas_thread():
            inside.wait()
        told.append(blas_threads())
        leave.set()

    other = threading.Thread(target=first)
    other.start()
    with one_blas_thread():
        inside.wait()
        leave.wait()
        told.append(blas_threads())
    other.join()
    assert told == [[1] * len(before)] * 2
    assert blas_threads() == before


def test_threads_of_matrix_products_are_restored_after_an_error():
    before = blas_threads()
    with suppress(ZeroDivisionError), one_blas_thread():
        assert blas_threads() == [1] * len(before)
        raise ZeroDivisionError
    assert blas_threads() == before
