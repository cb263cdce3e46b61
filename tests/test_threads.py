"""Threads that share tasks."""

import numba
import pytest
from threadpoolctl import threadpool_limits

from dynpart.threads import Threads, allowed_threads


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
