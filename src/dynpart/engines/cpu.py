"""The CPU engine: the reference engine's three operations as compiled kernels on all cores.

Rows are split into chunks, chunks into tasks, and tasks run in threads that hold no lock. No result
depends on the split; the modules of the kernels explain why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.ahead import Kernel
from dynpart.amplitudes import Amplitude, Terms
from dynpart.arrays import is_observed, row_blocks
from dynpart.autoregression import AutoregressionSums
from dynpart.compiled import kernel_for
from dynpart.composition import owners_of
from dynpart.engines import (
    _cpu_amplitudes,
    _cpu_dense,
    _cpu_levels,
    _cpu_offsets,
    _cpu_smoothed,
    _cpu_sums,
)
from dynpart.engines._contract import (
    MARGIN,
    Codes,
    Experts,
    GradientSums,
    NumpyEngine,
    OpinionSums,
    PursuitRule,
    ResponsibilitySums,
    check_hard,
    check_newton,
    check_plain,
)
from dynpart.engines._cpu_charges import KernelCharges, kernel_charges, new_account
from dynpart.engines._cpu_refine import new_refinement
from dynpart.engines._cpu_smoothed import grouped_offsets, new_block_work
from dynpart.engines._cpu_sums import TILE
from dynpart.engines._cpu_tables import (
    SmoothedTables,
    by_variable,
    level_statistics,
    level_tables,
    level_type,
    order_tables,
    relative_levels,
    tiles,
    working_precision,
)
from dynpart.engines._mixture import MixtureSums, mixture_sums
from dynpart.engines._offsets import autoregression_sums, check_offsets, without_shift
from dynpart.rows import Rows
from dynpart.threads import Threads, allowed_threads, one_blas_thread

CHUNK_VALUES = 1 << 26
"""Values of uint8 rows processed at a time."""
CHUNK_WIDENED = 1 << 21
"""Values processed at a time if rows are converted first."""
PREPARED_VALUES = 1 << 15
"""Values converted at a time, so that they stay in the cache."""
FEWEST_ROWS = 32
"""Rows per task at least, because those with the same first expert share tables."""
TABLE_BYTES = 1 << 25
"""Memory per thread for log-densities, in bytes, unless one row needs more."""
IMPOSSIBLE = 1e30
"""Log-partition of the padding of vectors, whose densities are then never the largest."""
MOST_LEVEL_TERMS = 1 << 26
"""Maximum number of terms (levels x experts x variables) of a table for all rows."""
MIXTURE_VALUES = 1 << 17
"""Values per block of a mixture's sums, which stay in the cache."""
SUM_ROWS = 1 << 13
"""Rows per block of sums; the blocks' sums are added in order."""
PULLED_ROWS = 256
"""Rows per call of the family's `pull`; their composition is in memory."""
SUM_BYTES = 1 << 26
"""Memory for the sums of blocks, in bytes, unless one block needs more."""

Run = Callable[..., None]
"""Calls kernels: (threads, rows, orders, log-likelihoods), with the last two filled in."""


def _call(kernel: Callable, *arguments: Any) -> None:
    kernel(*arguments)


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
        return CpuEngine, (self.n_threads,)  # threads are not pickled

    def pursue(
        self, rows: Rows, experts: Experts, rule: PursuitRule, background: Experts | None = None
    ) -> Codes:
        """Likelihood matching pursuit (section 2.1) for every row."""
        experts.check_shapes(rows, cost=rule.cost)
        rule.check_background(background)
        rows, experts = without_shift(rows, experts)
        dtype = _order_type(experts)
        if background is not None:
            experts = experts.beside(background)
        if experts.autoregression is not None:
            run = _offset_pursuit(experts, rule)
        elif experts.amplitude is not None:
            run = _amplitude_pursuit(experts, rule, guided=background is not None)
        else:
            run = _plain_pursuit(experts, rule, complete=rows.complete)

        def of_chunk(chunk: slice) -> Codes:
            x, n_rows = _prepared(rows[chunk], experts, self._threads), chunk.stop - chunk.start
            if experts.family.has_tails:  # one more statistic, for the pursuit only
                least = experts.family.least_log_density(rows[chunk].values)
                x = np.concatenate([x, least[None]])
            order = np.full((n_rows, rule.max_active), -1, dtype=dtype)
            log_likelihood = np.empty(n_rows)
            run(self._threads, x, order, log_likelihood)
            return Codes(order, log_likelihood).of_rows(rows[chunk], experts.family)

        return Codes.joined([of_chunk(chunk) for chunk in _chunks(rows, experts)])

    def expected_kernels(
        self, rows: Rows, experts: Experts, rules: Sequence[PursuitRule]
    ) -> list[Kernel]:
        """The kernels of these pursuits, for :func:`dynpart.ahead.expecting`; nothing is run."""
        if self.n_threads == 1:
            return []  # only one processor may be used
        rows, experts = without_shift(rows[:1], experts)
        x, dtype = _prepared(rows, experts, self._threads), _order_type(experts)
        found: list[Kernel] = []

        def note(kernel: Callable, *arguments: Any) -> None:
            found.append(kernel_for(kernel, *arguments))

        for rule in rules:
            run = _plain_pursuit(experts, rule, complete=rows.complete)
            order: NDArray[Any] = np.full((1, rule.max_active), -1, dtype=dtype)
            run(self._threads, x, order, np.empty(1), note)
        return found

    def gradient_sums(self, rows: Rows, experts: Experts, codes: Codes) -> GradientSums:
        """Sums of g = d log P / d log e_k and g^2 in the smoothed composition (appendix A)."""
        check_plain(experts)
        if experts.amplitude is not None:
            return GradientSums(self._amplitude_sums(rows, experts, codes, gradients=True))
        kernel: Callable
        family, said = experts.family, [*experts.eta]
        if _is_discrete(experts):
            chances = family.level_probabilities(experts.eta)
            two = len(chances) == 2
            kernel = _cpu_sums.binary_gradients if two else _cpu_sums.level_gradients
            said = [chances[1]] if two else [*chances]
            fill = [0.5] * len(said)
        elif family.is_normal:
            kernel, fill = _cpu_sums.normal_gradients, [0.0, 1.0]
        else:
            kernel, fill = _general_gradients(experts), [0.0] * len(said)
        tile = _expertise_tiles(experts, said, fill)
        return GradientSums(self._sums(kernel, rows, experts, codes, tile, 2))

    def responsibility_sums(self, rows: Rows, experts: Experts, codes: Codes) -> ResponsibilitySums:
        """Sums of r and r T(x) for the averages of eq. 5 and 6."""
        check_plain(experts)
        if experts.amplitude is not None:
            return ResponsibilitySums(self._amplitude_sums(rows, experts, codes, gradients=False))
        tile = _expertise_tiles(experts, [], [])
        family, kernel = experts.family, _cpu_sums.responsibility_sums
        if family.is_binary or not _is_discrete(experts):
            n_sums = 1 + family.n_statistics
            return ResponsibilitySums(self._sums(kernel, rows, experts, codes, tile, n_sums))
        if family.n_levels == 2:
            weight, ones = self._sums(kernel, rows, experts, codes, tile, 2)
            by_level = np.stack([weight - ones, ones])
        else:
            kernel, n_levels = _cpu_sums.level_sums, family.n_levels or 0
            by_level = self._sums(kernel, rows, experts, codes, tile, n_levels)
            weight = by_level.sum(axis=0)
        T = level_statistics(family, rows.shape[1])
        return ResponsibilitySums(np.stack([weight, *np.einsum("svd,vkd->skd", T, by_level)]))

    def opinion_sums(self, rows: Rows, experts: Experts, codes: Codes) -> OpinionSums:
        """Sums of df/dmu_k and of minus its derivative, in the smoothed composition (A.1.2)."""
        check_newton(experts)
        tile = _expertise_tiles(experts, [*experts.eta], [0.5])
        return OpinionSums(self._sums(_opinion_derivatives(experts), rows, experts, codes, tile, 2))

    def autoregression_sums(self, rows: Rows, experts: Experts, codes: Codes) -> AutoregressionSums:
        """Sums of the derivatives by weights of earlier values and by opinions."""
        experts.check_shapes(rows, members=codes.members)
        total: Any = None
        for chunk in row_blocks(*rows.shape):
            owner = owners_of(experts.ranks, codes.members[chunk])
            part = autoregression_sums(rows[chunk], experts, owner, np.float32)
            total = part if total is None else total + part
        return total

    def mixture_sums(
        self, rows: Rows, experts: Experts, log_weight: NDArray, sharpness: float = 1.0
    ) -> MixtureSums:
        """Sums for EM of a mixture whose components are the experts."""
        blocks = list(row_blocks(*rows.shape, values=MIXTURE_VALUES))
        parts: list[Any] = [None] * len(blocks)

        def run(b: int) -> None:
            parts[b] = mixture_sums(rows[blocks[b]], experts, log_weight, sharpness)

        with one_blas_thread():
            n_terms = len(rows) * experts.log2_expertise.size
            self._threads.map(run, range(len(blocks)), n_terms)
        return reduce(add, parts)

    def _amplitude_sums(
        self, rows: Rows, experts: Experts, codes: Codes, *, gradients: bool
    ) -> NDArray[np.float64]:
        """Sums of experts with gains and offsets, which are computed first, row by row."""
        experts.check_shapes(rows, members=codes.members)
        amplitude, prior, model = _amplitude_tables(experts)
        n_features = rows.shape[1]
        rank = np.ascontiguousarray(experts.ranks)
        level = np.exp2(relative_levels(experts.log2_expertise))
        shift = np.ascontiguousarray(amplitude.shift(experts.family))
        opinions = (model[0], 1 / model[1]) if gradients else ()
        kernel = _cpu_amplitudes.gradients if gradients else _cpu_amplitudes.responsibilities
        out = np.zeros((2 if gradients else 3, *level.shape))

        def add_chunk(X: NDArray, weight: NDArray | None, order: NDArray) -> None:
            gain, offset = np.zeros((2, *order.shape))

            def find(lo: int, hi: int) -> None:
                _cpu_amplitudes.row_amplitudes(X, lo, hi, model, rank, prior, order, gain, offset)

            def add(lo: int, hi: int) -> None:
                told = order, gain, offset, level, *opinions
                kernel(X, weight, lo, hi, *told, shift, out)

            self._threads.map_rows(find, len(X), n_features * order.shape[1])
            self._threads.map_rows(add, n_features, len(X) * order.shape[1], TILE)

        for chunk in _chunks(rows, experts):
            part = rows[chunk]
            measured = np.ascontiguousarray(experts.family.statistics(part.values)[0])
            add_chunk(measured, part.weight, codes.members[chunk])
        return out

    def _sums(
        self,
        kernel: Callable,
        rows: Rows,
        experts: Experts,
        codes: Codes,
        tile: NDArray,
        n_sums: int,
    ) -> NDArray[np.float64]:
        """Compute `n_sums` sums per expert and variable, shape (n_sums, n_experts, n_features)."""
        experts.check_shapes(rows, members=codes.members)
        n_experts, n_features = experts.log2_expertise.shape
        if codes.members.max(initial=-1) >= n_experts:
            raise ValueError(f"codes refer to expert {codes.members.max()}, there are {n_experts}")
        n_tiles = len(tile)
        total = np.zeros((n_tiles, n_sums, n_experts, TILE))
        most_blocks = max(1, SUM_BYTES // total.nbytes)
        for chunk in _chunks(rows, experts):
            x, order = _prepared(rows[chunk], experts, self._threads), codes.members[chunk]
            missing = None if rows.complete else _missing(experts)
            weight = rows[chunk].weight
            weight = None if weight is None else _writeable(weight)
            if kernel is _cpu_sums.responsibility_sums and x.ndim == 2:
                x = x[None]
            size = max(SUM_ROWS, -(-len(order) // most_blocks))
            starts = range(0, len(order), size)
            parts = np.zeros((len(starts), *total.shape))

            def run(task: tuple[int, int]) -> None:
                b, t = task
                lo, hi = b * size, min((b + 1) * size, len(order))  # noqa: B023
                width = min(TILE, n_features - t * TILE)
                kernel(
                    x, missing, weight, lo, hi, t * TILE, width, order, tile[t], parts[b, t]  # noqa: B023
                )  # fmt: skip

            tasks = [(b, t) for t in range(n_tiles) for b in range(len(starts))]
            self._threads.map(run, tasks, order.size * n_features)
            for part in parts:
                total += part
        wide = total.transpose(1, 2, 0, 3).reshape(n_sums, n_experts, n_tiles * TILE)
        return np.ascontiguousarray(wide[:, :, :n_features])


class ThreadTables(threading.local):
    """Tables that a thread reuses: allocation would cost as much time as the computation."""

    def __init__(self, n_tables: int, size: int) -> None:
        self.tables = np.empty((n_tables, size), dtype=np.float32)


def _order_type(experts: Experts) -> type:
    """The integer type of codes."""
    return np.int16 if experts.n_experts < np.iinfo(np.int16).max else np.int32


def _is_discrete(experts: Experts) -> bool:
    """Whether values are levels whose densities fit into a table for all rows."""
    n_levels = experts.family.n_levels
    return n_levels is not None and n_levels * experts.log2_expertise.size <= MOST_LEVEL_TERMS


def _missing(experts: Experts) -> Any:
    """The lowest value, as kernels read it, that means missing."""
    n_levels = experts.family.n_levels or 0
    return level_type(experts.family)(n_levels) if _is_discrete(experts) else np.inf


def _chunks(rows: Rows, experts: Experts) -> Iterator[slice]:
    """Slices that bound the memory beyond the input, whatever the number of rows."""
    return row_blocks(*rows.shape, values=CHUNK_VALUES if _is_discrete(experts) else CHUNK_WIDENED)


def _prepared(rows: Rows, experts: Experts, threads: Threads) -> NDArray:
    """Rows as kernels read them: levels of discrete rows, statistics T(x) of all others."""
    values, statistics = rows.values, experts.family.statistics
    if _is_discrete(experts):
        return _writeable(np.ascontiguousarray(values))
    size = max(1, PREPARED_VALUES // max(1, values.shape[1]))
    first = statistics(values[:size])
    if len(values) <= size:
        return _writeable(np.ascontiguousarray(first))
    T = np.empty((len(first), *values.shape), dtype=first.dtype)
    T[:, :size] = first

    def prepare(lo: int) -> None:
        T[:, lo : lo + size] = statistics(values[lo : lo + size])

    threads.map(prepare, range(size, len(values), size), values.size)
    return T


def _writeable(array: NDArray) -> NDArray:
    """The array, or a copy if it is read-only: Numba would compile all kernels again for that."""
    return array if array.flags.writeable else array.copy()


def _expertise_tiles(experts: Experts, others: list[NDArray], fill: list[float]) -> NDArray:
    """Levels of expertise and `others` as the sums read them, tile by tile of variables."""
    log2_levels = relative_levels(experts.log2_expertise)
    # The composed variance is a difference of moments: float32 would cancel.
    dtype = working_precision(log2_levels) if _is_discrete(experts) else np.float64
    return tiles([np.exp2(log2_levels), *others], [1.0, *fill], dtype)


def _general_gradients(experts: Experts) -> Callable:
    """Gradients for a family without a kernel of its own, by the family's `pull`."""
    eta = experts.eta
    n_statistics, _, n_features = eta.shape
    families = [experts.family]
    if n_features > TILE:
        families = [
            experts.family.of_columns(np.arange(start, min(start + TILE, n_features)))
            for start in range(0, n_features, TILE)
        ]

    def kernel(
        T: NDArray, missing: Any, weight: Any, lo: int, hi: int, start: int, width: int,
        order: NDArray, tile: NDArray, out: NDArray,
    ) -> None:  # fmt: skip
        family = families[start // TILE]
        n_own = family.n_statistics
        for begin in range(lo, hi, PULLED_ROWS):
            end = min(begin + PULLED_ROWS, hi)
            offset = np.empty((n_statistics, end - begin, TILE))
            total = np.empty((end - begin, TILE))
            _cpu_sums.compose(begin, end, width, order, tile, n_statistics, offset, total)
            here = slice(start, start + width)
            first = eta[:n_own, order[begin:end, 0], here]
            values = T[:n_own, begin:end, here]
            pull = np.zeros((n_statistics, end - begin, TILE))
            with np.errstate(invalid="ignore", divide="ignore"):
                said = first + offset[:n_own, :, :width]
                found = family.pull(values, said) / total[:, :width]
            pull[:n_own, :, :width] = np.where(is_observed(values[0]), found, 0.0)
            _cpu_sums.general_gradients(pull, offset, weight, begin, end, width, order, tile, out)

    return kernel


def _amplitude_tables(experts: Experts) -> tuple[Amplitude, tuple, tuple]:
    """The amplitude, its priors and the experts as kernels read them."""
    amplitude: Any = experts.amplitude
    prior = float(amplitude.gain), amplitude.gain_variance, amplitude.offset_variance
    terms = Terms.of(experts.family, experts.eta, amplitude)
    _, log_partition = experts.natural
    constant = 0.5 * terms.weight * terms.mean**2 - log_partition
    tables = terms.mean, terms.weight, terms.measured, constant
    return amplitude, prior, tuple(map(np.ascontiguousarray, tables))


def _amplitude_pursuit(experts: Experts, rule: PursuitRule, *, guided: bool) -> Run:
    check_hard(rule)
    _, prior, model = _amplitude_tables(experts)
    rank, n_payable = np.ascontiguousarray(experts.ranks), len(rule.cost)
    cost = np.append(rule.cost, [np.inf] * (experts.n_experts - n_payable))
    limits = int(rule.min_active), int(rule.max_active), MARGIN, int(rule.n_swaps)
    starts = bool(rule.prune), min(int(rule.n_starts), n_payable), bool(rule.tries_experts_alone)
    rule_, guide = (*limits, *starts), experts.n_experts - 1 if guided else -1
    charges = kernel_charges(rule.charges, background=guided)

    def run(threads: Threads, x: NDArray, order: NDArray, log_likelihood: NDArray) -> None:
        def pursue(lo: int, hi: int) -> None:
            _cpu_amplitudes.pursue_rows(
                x[0], lo, hi, model, rank, cost, prior, charges, new_account(charges), rule_, guide,
                order, log_likelihood,
            )  # fmt: skip

        threads.map_rows(pursue, len(order), 4 * rank.size * rule.max_active)

    return run


def _offset_pursuit(experts: Experts, rule: PursuitRule) -> Run:
    check_offsets(rule)
    given, by = experts.autoregression, order_tables(experts)
    assert given is not None
    odds = np.exp(experts.natural[0][0])
    against = by_variable(np.stack([odds, 1 / odds]), 1.0, np.float32)
    rule_, memory = _kernel_rule(rule, experts.n_experts), ThreadTables(1, by.rank.size)

    def run(threads: Threads, x: NDArray, order: NDArray, log_likelihood: NDArray) -> None:
        def pursue(lo: int, hi: int) -> None:
            offset = given.offsets(x[lo:hi].astype(np.float64))
            _cpu_offsets.pursue(
                x[lo:hi], offset, 0, hi - lo, against, by.rank, by.rank_by_expert, rule_,
                new_refinement(by.rank, by.keys, rule_), memory.tables[0], order[lo:hi],
                log_likelihood[lo:hi],
            )  # fmt: skip

        threads.map_rows(pursue, len(x), 4 * by.rank.size)

    return run


def _opinion_derivatives(experts: Experts) -> Callable:
    """Both derivatives with respect to an opinion, with the family's own `pull`."""
    family, eta = experts.family, experts.eta

    def kernel(
        X: NDArray, missing: Any, weight: Any, lo: int, hi: int, start: int, width: int,
        order: NDArray, tile: NDArray, out: NDArray,
    ) -> None:  # fmt: skip
        for begin in range(lo, hi, PULLED_ROWS):
            end = min(begin + PULLED_ROWS, hi)
            offset = np.empty((1, end - begin, TILE))
            total = np.empty((end - begin, TILE))
            _cpu_sums.compose(begin, end, width, order, tile, 1, offset, total)
            here = slice(start, start + width)
            values = X[begin:end, here]
            composed = eta[:, order[begin:end, 0], here] + offset[..., :width]
            pull = family.pull(family.statistics(values), composed)[0] / total[:, :width]
            if missing is not None:
                pull = np.where(values < missing, pull, 0.0)
            _cpu_sums.opinion_derivatives(pull, weight, begin, end, width, order, tile, out)

    return kernel


KernelRule = tuple[int, int, float, NDArray[np.float64], int, bool, int, KernelCharges]


def _kernel_rule(rule: PursuitRule, n_experts: int) -> KernelRule:
    """The rule as kernels read it, for experts that may include a background expert."""
    n_payable = len(rule.cost)
    cost = np.full(n_experts, np.inf)
    cost[:n_payable] = rule.cost
    fewest, most = int(rule.min_active), int(rule.max_active)
    charges = kernel_charges(rule.charges, background=n_experts > n_payable)
    n_starts = min(int(rule.n_starts), n_payable)
    return fewest, most, MARGIN, cost, int(rule.n_swaps), bool(rule.prune), n_starts, charges


def _plain_pursuit(experts: Experts, rule: PursuitRule, *, complete: bool) -> Run:
    if _is_discrete(experts):
        return _discrete_pursuit(experts, rule, complete=complete)
    return _pursuit(experts, rule)


def _discrete_pursuit(experts: Experts, rule: PursuitRule, *, complete: bool) -> Run:
    by, model = order_tables(experts), level_tables(experts, complete=complete)
    rank, rank_by_expert, keys = by.rank, by.rank_by_expert, by.keys
    n_features, n_lanes = rank.shape
    n_terms = n_features * n_lanes
    rule_ = _kernel_rule(rule, experts.n_experts)
    if rule.smoothed:
        levels = SmoothedTables.of(experts)
        shares, shares_by_expert = levels.shares(model)

    def run(
        threads: Threads, x: NDArray, order: NDArray, log_likelihood: NDArray, call: Any = _call
    ) -> None:
        n_rows = len(x)
        first, score = np.empty(n_rows, np.int64), np.empty(n_rows)

        def begin(lo: int, hi: int) -> None:
            call(
                _cpu_levels.first_pass, x, lo, hi, model.usual, model.surprise, model.constant,
                rule_[3], first, score,
            )  # fmt: skip

        def smoothed(lo: int, hi: int) -> None:
            block = min(_cpu_smoothed.BLOCK, hi - lo)
            call(
                _cpu_smoothed.pursue_levels, x, lo, hi, first, model.table, shares,
                shares_by_expert, levels.levels, levels.levels_by_expert, levels.log2_expertise,
                rule_,
                np.empty((block, n_features), np.int64),
                new_block_work(block, experts.n_experts, n_features, n_lanes),
                new_refinement(rank, keys, rule_), order, log_likelihood,
            )  # fmt: skip

        def hard(rows: NDArray[np.intp]) -> None:
            call(
                _cpu_levels.pursue_groups, rows, first, score, x, model.usual, model.agreed,
                model.largest, model.table, rank, rank_by_expert, rule_,
                new_refinement(rank, keys, rule_), order, log_likelihood,
            )  # fmt: skip

        threads.map_rows(begin, n_rows, n_terms // 8)
        if rule.smoothed:
            # Rows of a task share the reads of the experts.
            fewest = _cpu_smoothed.BLOCK
            threads.map_rows(smoothed, n_rows, n_terms * rule.max_active, fewest)
            return
        rows = np.argsort(first, kind="stable")
        threads.map_rows(lambda lo, hi: hard(rows[lo:hi]), n_rows, n_terms, FEWEST_ROWS)

    return run


def _pursuit(experts: Experts, rule: PursuitRule) -> Run:
    by = order_tables(experts)
    theta, log_partition = experts.natural
    theta = by_variable(theta, 0.0, np.float64)
    log_partition = by_variable(log_partition, IMPOSSIBLE, np.float64)
    relative = not experts.family.is_normal
    n_terms = by.rank.size
    block = max(1, min(8, TABLE_BYTES // (4 * n_terms)))
    rule_ = _kernel_rule(rule, experts.n_experts)
    n_features, n_lanes = by.rank.shape
    whole_groups = -(-n_features // _cpu_smoothed.GROUP) * _cpu_smoothed.GROUP
    memory = ThreadTables(1 + rule.smoothed, block * whole_groups * n_lanes)
    if rule.smoothed:
        levels = SmoothedTables.of(experts)
        offsets = grouped_offsets(block, n_features, n_lanes)

    def run(
        threads: Threads, T: NDArray, order: NDArray, log_likelihood: NDArray, call: Any = _call
    ) -> None:
        def smoothed(lo: int, hi: int) -> None:
            call(
                _cpu_smoothed.pursue_dense, T, lo, hi, theta, log_partition, relative,
                levels.levels, levels.levels_by_expert, levels.log2_levels, levels.log2_expertise,
                rule_, tuple(memory.tables), offsets,
                new_block_work(block, experts.n_experts, n_features, n_lanes),
                new_refinement(by.rank, by.keys, rule_), order, log_likelihood,
            )  # fmt: skip

        def hard(lo: int, hi: int) -> None:
            call(
                _cpu_dense.pursue, T, lo, hi, block, theta, log_partition, relative, by.rank,
                by.rank_by_expert, rule_, new_refinement(by.rank, by.keys, rule_),
                memory.tables[0], order, log_likelihood,
            )  # fmt: skip

        threads.map_rows(smoothed if rule.smoothed else hard, T.shape[1], n_terms, block)

    return run
