"""The CPU engine: the reference engine's three operations as compiled kernels on all cores.

Rows are cut into chunks, chunks into tasks, and tasks run in threads that hold no lock. No result
depends on the cut: see the kernels beside this module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from dynpart.engines import _cpu_binary, _cpu_dense, _cpu_smoothed, _cpu_sums
from dynpart.engines._contract import (
    LAYMAN,
    MARGIN,
    Codes,
    Experts,
    GradientSums,
    NumpyEngine,
    PursuitRule,
    ResponsibilitySums,
    best_of_starts,
)
from dynpart.engines._cpu_sums import TILE
from dynpart.engines._cpu_tables import (
    SmoothedTables,
    binary_tables,
    by_variable,
    order_tables,
    relative_levels,
    tiles,
    working_precision,
)
from dynpart.engines.reference import ReferenceEngine
from dynpart.families._moments import row_blocks

CHUNK_VALUES = 1 << 26
"""Values of uint8 rows worked on at a time."""
CHUNK_WIDENED = 1 << 21
"""Values worked on at a time where rows are converted first."""
TASK_TERMS = 1 << 23
"""Terms (rows x experts x variables) of a task: a few milliseconds."""
SHARED_TERMS = 1 << 20
"""Work with fewer terms is not worth a second thread."""
GROUP_TERMS = 1 << 25
"""The same for rows that share a first expert, and one table of gains over it."""
TABLE_BYTES = 1 << 25
"""Memory a thread may fill with log-densities, if one row does not need more."""
IMPOSSIBLE = 1e30
"""Log-partition of the experts that fill up a vector: their densities are never the largest."""
SUM_ROWS = 1 << 13
"""Rows per block of sums; the blocks' sums are added in order."""
SUM_BYTES = 1 << 26
"""Memory for the sums of blocks, if one block does not need more."""

Run = Callable[["Threads", NDArray, int, NDArray, NDArray], None]
"""Threads, rows, place of the first expert; orders and log-likelihoods to be filled in."""


class CpuEngine(NumpyEngine):
    """Compiled kernels (Numba): float32 terms, float64 sums, every row on its own.

    Parameters
    ----------
    n_threads : int, default=None
        None takes what Numba and threadpoolctl allow.

    Examples
    --------
    >>> from dynpart.engines.cpu import CpuEngine
    >>> CpuEngine(n_threads=1).name
    'cpu'
    """

    name = "cpu"

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = allowed_threads() if n_threads is None else n_threads
        self._threads = Threads(self.n_threads)

    def __reduce__(self) -> tuple:
        return CpuEngine, (self.n_threads,)  # threads stay where they are

    def take(self, rows: NDArray, indices: NDArray[np.intp]) -> NDArray:
        """The rows with these indices."""
        return rows[indices]

    def pursue(self, rows: NDArray, experts: Experts, rule: PursuitRule) -> Codes:
        """Likelihood matching pursuit (section 2.1) for every row."""
        small = experts.n_experts < np.iinfo(np.int16).max

        def pursue_from(experts: Experts, rule: PursuitRule, place: int) -> Codes:
            run = _binary_pursuit(experts, rule) if _is_binary(experts) else _pursuit(experts, rule)

            def of_chunk(chunk: slice) -> Codes:
                x, n_rows = _prepared(rows[chunk], experts), chunk.stop - chunk.start
                shape = n_rows, rule.max_active
                order = np.full(shape, -1, dtype=np.int16 if small else np.int32)
                log_likelihood = np.empty(n_rows)
                run(self._threads, x, place, order, log_likelihood)
                return Codes(order, log_likelihood)

            return Codes.joined([of_chunk(chunk) for chunk in _chunks(rows, experts)])

        return best_of_starts(pursue_from, experts, rule)

    def gradient_sums(self, rows: NDArray, experts: Experts, codes: Codes) -> GradientSums:
        """Sums of g = d log P / d log e_k and g^2 in the smoothed composition (appendix A)."""
        if experts.family.name == "bernoulli":
            kernel, fill = _cpu_sums.bernoulli_gradients, [0.5]
        elif experts.family.name == "gaussian":
            kernel, fill = _cpu_sums.gaussian_gradients, [0.0, 1.0]
        else:
            return ReferenceEngine().gradient_sums(rows, experts, codes)
        tile = _expertise_tiles(experts, [*experts.eta], fill)
        return GradientSums(self._sums(kernel, rows, experts, codes, tile, 2))

    def responsibility_sums(
        self, rows: NDArray, experts: Experts, codes: Codes
    ) -> ResponsibilitySums:
        """Sums of r and r T(x) for the averages of eq. 5 and 6."""
        tile = _expertise_tiles(experts, [], [])
        n_sums = 1 + experts.family.n_statistics
        kernel = _cpu_sums.responsibility_sums
        return ResponsibilitySums(self._sums(kernel, rows, experts, codes, tile, n_sums))

    def _sums(
        self,
        kernel: Callable,
        rows: NDArray,
        experts: Experts,
        codes: Codes,
        tile: NDArray,
        n_sums: int,
    ) -> NDArray[np.float64]:
        """Add up `n_sums` sums per expert and variable, shape (n_sums, n_experts, n_features)."""
        n_experts, n_features = experts.log2_expertise.shape
        n_tiles = len(tile)
        total = np.zeros((n_tiles, n_sums, n_experts, TILE))
        most_blocks = max(1, SUM_BYTES // total.nbytes)
        for chunk in _chunks(rows, experts):
            x, order = _prepared(rows[chunk], experts), codes.order[chunk]
            if kernel is _cpu_sums.responsibility_sums and x.ndim == 2:
                x = x[None]
            size = max(SUM_ROWS, -(-len(order) // most_blocks))
            starts = range(0, len(order), size)
            parts = np.zeros((len(starts), *total.shape))

            def run(task: tuple[int, int]) -> None:
                b, t = task
                lo, hi = b * size, min((b + 1) * size, len(order))  # noqa: B023
                width = min(TILE, n_features - t * TILE)
                kernel(x, lo, hi, t * TILE, width, order, tile[t], parts[b, t])  # noqa: B023

            tasks = [(b, t) for t in range(n_tiles) for b in range(len(starts))]
            self._threads.map(run, tasks, order.size * n_features)
            for part in parts:
                total += part
        wide = total.transpose(1, 2, 0, 3).reshape(n_sums, n_experts, n_tiles * TILE)
        return np.ascontiguousarray(wide[:, :, :n_features])


class Threads:
    """A pool that runs tasks in any order on `n_threads` threads, made when there is work for it.

    Work too small to share is done by the caller: for small tables, waking a thread takes longer
    than the task.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool: ThreadPoolExecutor | None = None

    def map(self, task: Callable[[Any], None], arguments: Sequence[Any], n_terms: int) -> None:
        """Call `task` with every argument, `n_terms` terms in all; the first error is raised."""
        if self.n_threads == 1 or len(arguments) == 1 or n_terms < SHARED_TERMS:
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

        # Everyone takes what comes next, the caller too: nobody waits to be handed a task.
        helpers = [self._pool.submit(work) for _ in range(self.n_threads - 1)]
        try:
            work()
        finally:
            errors = [helper.exception() for helper in helpers]
        for error in filter(None, errors):
            raise error

    def map_rows(
        self, task: Callable[[int, int], None], n_rows: int, n_terms: int, fewest: int = 1
    ) -> None:
        """Call `task(lo, hi)` for stretches of at least `fewest` rows of `n_terms` terms each."""
        size = max(fewest, TASK_TERMS // max(1, n_terms))
        starts = range(0, n_rows, size)
        self.map(lambda lo: task(lo, min(lo + size, n_rows)), starts, n_rows * n_terms)


class ThreadTables(threading.local):
    """Tables a thread fills again and again: fresh memory costs as much as what is done with it."""

    def __init__(self, n_tables: int, size: int) -> None:
        self.tables = np.empty((n_tables, size), dtype=np.float32)


def allowed_threads() -> int:
    """Threads that both Numba and, through OpenMP, threadpoolctl allow."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    return int(min([numba.get_num_threads(), *pools]))


def _is_binary(experts: Experts) -> bool:
    return experts.family.name == "bernoulli"


def _chunks(rows: NDArray, experts: Experts) -> Iterator[slice]:
    """Slices that bound the memory beyond the input, whatever the number of rows."""
    as_is = _is_binary(experts) and rows.dtype in (np.uint8, np.bool_)
    return row_blocks(*rows.shape, values=CHUNK_VALUES if as_is else CHUNK_WIDENED)


def _prepared(rows: NDArray, experts: Experts) -> NDArray:
    """Rows as kernels read them: uint8 for binary rows, statistics T(x) for all others."""
    if not _is_binary(experts):
        return np.ascontiguousarray(experts.family.statistics(rows))
    rows = np.ascontiguousarray(rows)
    return rows.view(np.uint8) if rows.dtype == np.bool_ else rows.astype(np.uint8, copy=False)


def _expertise_tiles(experts: Experts, others: list[NDArray], fill: list[float]) -> NDArray:
    """Levels of expertise and `others` as the sums read them, tile by tile of variables."""
    log2_levels = relative_levels(experts.log2_expertise)
    # The composed variance is a difference of moments: float32 would lose it.
    dtype = working_precision(log2_levels) if _is_binary(experts) else np.float64
    return tiles([np.exp2(log2_levels), *others], [1.0, *fill], dtype)


KernelRule = tuple[int, int, float, NDArray[np.float64], int, bool]


def _kernel_rule(rule: PursuitRule) -> KernelRule:
    cost = np.ascontiguousarray(rule.cost, dtype=np.float64)
    fewest, most = int(rule.min_active), int(rule.max_active)
    return fewest, most, MARGIN, cost, int(rule.n_swaps), bool(rule.prune)


def _binary_pursuit(experts: Experts, rule: PursuitRule) -> Run:
    by, model = order_tables(experts), binary_tables(experts)
    rank, rank_by_expert = by.rank, by.rank_by_expert
    n_features, n_lanes = rank.shape
    n_terms = n_features * n_lanes
    rule_ = _kernel_rule(rule)
    if rule.smoothed:
        levels = SmoothedTables.of(experts)
        shares, shares_by_expert = levels.binary_shares(model)

    def run(
        threads: Threads, x: NDArray, place: int, order: NDArray, log_likelihood: NDArray
    ) -> None:
        n_rows = len(x)
        # If nobody else begins, the layman does, who is the last expert.
        first, score = np.full(n_rows, experts.n_experts - 1), np.zeros(n_rows)

        def begin(lo: int, hi: int) -> None:
            _cpu_binary.first_pass(
                x, lo, hi, model.usual, model.surprise, model.constant, rule_[3], place, first,
                score,
            )  # fmt: skip

        def smoothed(lo: int, hi: int) -> None:
            _cpu_smoothed.pursue_binary(
                x, lo, hi, first, model.table, shares, shares_by_expert, levels.levels,
                levels.levels_by_expert, levels.log2_expertise, rank, rank_by_expert, rule_,
                order, log_likelihood,
            )  # fmt: skip

        def hard(rows: NDArray[np.intp]) -> None:
            _cpu_binary.pursue_group(
                rows, first, score, x, model.usual, model.agreed, model.table, rank,
                rank_by_expert, rule_, order, log_likelihood,
            )  # fmt: skip

        if place != LAYMAN:
            threads.map_rows(begin, n_rows, n_terms // 8)
        if rule.smoothed:
            # Rows of a task read the experts together.
            fewest = _cpu_smoothed.BLOCK
            threads.map_rows(smoothed, n_rows, n_terms * rule.max_active, fewest)
            return
        threads.map(hard, _groups(first, max(32, GROUP_TERMS // n_terms)), n_rows * n_terms)

    return run


def _groups(first: NDArray[np.int64], size: int) -> list[NDArray[np.intp]]:
    """Rows with the same first expert, at most `size` at a time."""
    rows = np.argsort(first, kind="stable")
    cuts = np.flatnonzero(np.diff(first[rows])) + 1
    return [
        group[lo : lo + size] for group in np.split(rows, cuts) for lo in range(0, len(group), size)
    ]


def _pursuit(experts: Experts, rule: PursuitRule) -> Run:
    by = order_tables(experts)
    theta, log_partition = experts.natural
    theta = by_variable(theta, 0.0, np.float64)
    log_partition = by_variable(log_partition, IMPOSSIBLE, np.float64)
    n_terms = by.rank.size
    block = max(1, min(8, TABLE_BYTES // (4 * n_terms)))
    rule_ = _kernel_rule(rule)
    n_features, n_lanes = by.rank.shape
    whole_groups = -(-n_features // _cpu_smoothed.GROUP) * _cpu_smoothed.GROUP
    memory = ThreadTables(1 + rule.smoothed, block * whole_groups * n_lanes)
    if rule.smoothed:
        levels = SmoothedTables.of(experts)

    def run(
        threads: Threads, T: NDArray, place: int, order: NDArray, log_likelihood: NDArray
    ) -> None:
        def smoothed(lo: int, hi: int) -> None:
            _cpu_smoothed.pursue_dense(
                T, lo, hi, block, theta, log_partition, levels.levels, levels.levels_by_expert,
                levels.log2_levels, levels.log2_expertise, by.rank, by.rank_by_expert, rule_,
                tuple(memory.tables), order, log_likelihood,
            )  # fmt: skip

        def hard(lo: int, hi: int) -> None:
            _cpu_dense.pursue(
                T, lo, hi, block, theta, log_partition, by.rank, by.rank_by_expert, rule_, place,
                memory.tables[0], order, log_likelihood,
            )  # fmt: skip

        threads.map_rows(smoothed if rule.smoothed else hard, T.shape[1], n_terms, block)

    return run
