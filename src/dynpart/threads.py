"""Threads that share tasks, as many as the user allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import numba
from threadpoolctl import ThreadpoolController, threadpool_info

TASK_TERMS = 1 << 23
"""Number of terms (rows x experts x variables) of a task, which takes a few milliseconds."""
SHARED_TERMS = 1 << 20
"""Minimum number of terms for a second thread."""


def allowed_threads() -> int:
    """Threads that both Numba and, through OpenMP, threadpoolctl allow."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    return int(min([numba.get_num_threads(), *pools]))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products take one thread: small ones are slower with more, and tasks have their own.

    Several threads may be inside at the same time; the last one to leave restores the number.
    """
    with _blas.lock:
        if _blas.n_users == 0:
            _blas.limit = _pools().limit(limits=1, user_api="blas")
        _blas.n_users += 1
    try:
        yield
    finally:
        with _blas.lock:
            _blas.n_users -= 1
            if _blas.n_users == 0:
                _blas.limit.restore_original_limits()


class _Blas:
    """How many threads are inside :func:`one_blas_thread`, and how to leave it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_users = 0
        self.limit: Any = None


_blas = _Blas()


@cache
def _pools() -> ThreadpoolController:
    """The pools of the libraries loaded so far, NumPy's among them; finding them takes long."""
    return ThreadpoolController()


class Threads:
    """A pool that runs tasks in any order on `n_threads` threads, created on first use.

    Small work is done by the caller, because waking a thread takes longer than the task. By default
    the number of threads is the number allowed at the time of the call.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self._wanted = n_threads
        self._pool: ThreadPoolExecutor | None = None

    @cached_property
    def n_threads(self) -> int:
        """Number of threads, including the caller's."""
        return allowed_threads() if self._wanted is None else self._wanted

    def map(self, task: Callable[[Any], None], arguments: Sequence[Any], n_terms: int) -> None:
        """Call `task` with every argument, `n_terms` terms in total; raises the first error."""
        if len(arguments) == 1 or n_terms < SHARED_TERMS or self.n_threads == 1:
            for argument in arguments:
                task(argument)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads - 1)
        waiting, lock = iter(arguments), threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    argument = next(waiting, None)
                if argument is None:
                    return
                task(argument)

        # Each thread, the caller included, takes the next task when it is free.
        n_helpers = min(self.n_threads, len(arguments)) - 1
        helpers = [self._pool.submit(work) for _ in range(n_helpers)]
        try:
            work()
        finally:
            errors = [helper.exception() for helper in helpers]
        for error in filter(None, errors):
            raise error

    def map_rows(
        self, task: Callable[[int, int], None], n_rows: int, n_terms: int, fewest: int = 1
    ) -> None:
        """Call `task(lo, hi)` for ranges of at least `fewest` rows of `n_terms` terms each."""
        size = max(fewest, TASK_TERMS // max(1, n_terms))
        starts = range(0, n_rows, size)
        self.map(lambda lo: task(lo, min(lo + size, n_rows)), starts, n_rows * n_terms)
