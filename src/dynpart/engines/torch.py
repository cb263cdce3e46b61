"""The torch engine: the same three operations on tensors, on a GPU by Triton kernels.

Rows on the device are processed there; NumPy rows are streamed to it in chunks. Results
stay on the device, and learning continues there.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynpart.ahead import Kernel
from dynpart.arrays import is_tensor, row_blocks
from dynpart.autoregression import AutoregressionSums
from dynpart.composition import owners
from dynpart.engines import _torch_amplitudes, _torch_sums
from dynpart.engines._contract import (
    Experts,
    Fold,
    GradientSums,
    OpinionSums,
    PursuitRule,
    ResponsibilitySums,
    check_hard,
    check_newton,
    check_plain,
    row_log_base,
)
from dynpart.engines._mixture import MixtureSums, mixture_sums
from dynpart.engines._offsets import autoregression_sums, check_offsets, without_shift
from dynpart.engines._torch_amplitudes import AmplitudeHard
from dynpart.engines._torch_codes import TorchCodes, best_start, binary_codes
from dynpart.engines._torch_pursuit import (
    HardScore,
    PlainHard,
    PlainSmoothed,
    begun_alone,
    greedy,
    levels,
    order_of_nobody,
    pruned,
    refined,
)
from dynpart.engines._torch_recording import Recording
from dynpart.families import ColumnMoments
from dynpart.rows import Rows

WORK_SHARE = 1 / 16
"""Share of a GPU's memory that a chunk of rows and its intermediate arrays may use."""
CPU_BYTES = 1 << 28
"""The same for a CPU, in bytes."""
HELD_SHARE = 0.5
"""NumPy rows that take up less than this share of the GPU's free memory are moved as a whole."""
MOST_VALUES = (1 << 31) - 1
"""Maximum number of values, which kernels count in 32 bits."""
WIDEST_TABLE = 4096
"""Bound on the number of experts in the arrays of kernels, per row."""
RANGE = 100
"""Octaves of expertise that kernels can represent."""
MOST_STEPS = 24
"""Maximum number of steps of a recorded pursuit: a recording executes all of them."""
MANY_SLOTS = 1 << 24
"""Minimum number of slots of codes at which unused ones are removed."""


class TorchEngine:
    """Tensors on one device: Triton kernels on a GPU, plain torch elsewhere.

    Parameters
    ----------
    device : str or torch.device, default=None
        None takes the GPU where there is one, else the CPU.
    kernels : bool, default=None
        Whether to use the Triton kernels; None uses them where they can run.

    Examples
    --------
    >>> from dynpart.engines import make_engine
    >>> make_engine("torch", device="cpu").name
    'torch'
    """

    name = "torch"

    def __init__(self, device: Any = None, *, kernels: bool | None = None) -> None:
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.empty(0, device=device).device
        self.kernels = _can_run_kernels(self.device) if kernels is None else kernels
        self._n_bytes = CPU_BYTES
        if self.device.type == "cuda":
            total = torch.cuda.get_device_properties(self.device).total_memory
            self._n_bytes = int(WORK_SHARE * total)
        self._levels: tuple[Tensor, Tensor] | None = None

    def place(self, moments: ColumnMoments) -> ColumnMoments:
        """The moments on the device, where sums are."""
        return moments.like(torch.empty(0, device=self.device))

    def expected_kernels(
        self, rows: Any, experts: Experts, rules: Sequence[PursuitRule]
    ) -> list[Kernel]:
        """No kernels: those of this engine are not compiled by Numba."""
        return []

    def hold(self, rows: Rows) -> Rows:
        """Move rows to the device if they fit; else they stay, and are streamed when needed."""
        if not is_tensor(rows.values) and self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            if rows.nbytes > HELD_SHARE * free:
                return rows
        return self._moved(rows)

    def repeated(self, fold: Fold, n_rows: int, experts: Experts, rule: PursuitRule) -> Fold:
        """The function, on a GPU recorded and replayed if kernels make all its decisions."""
        known_to_suit = 2 * experts.log2_bound < RANGE and self._use_kernels(experts)
        if self.device.type != "cuda" or not known_to_suit:
            return fold
        from dynpart.engines import _triton_binary

        binary = _triton_binary.can_hold(experts, rule)
        short = binary or rule.max_active <= MOST_STEPS
        refined = rule.n_swaps and (not binary or rule.prior is not None)
        asks = rule.n_starts > 1 or refined or rule.prune or not rule.one_cost
        if asks or not short or n_rows * rule.max_active >= MANY_SLOTS:
            return fold
        return Recording(fold)

    def take(self, rows: Rows, indices: NDArray[np.intp]) -> Rows:
        """The rows with these indices, on the device."""
        if is_tensor(rows.values):
            return rows[moved_ahead(torch.from_numpy(indices), rows.values.device)]
        return self._moved(rows[indices])

    def _moved(self, rows: Rows) -> Rows:
        weight = None if rows.weight is None else torch.as_tensor(rows.weight, device=self.device)
        values = torch.as_tensor(rows.values, device=self.device)
        return replace(rows, values=values, weight=weight)

    def pursue(
        self, rows: Rows, experts: Experts, rule: PursuitRule, background: Experts | None = None
    ) -> Any:
        """Likelihood matching pursuit (section 2.1) for every row."""
        experts.check_shapes(rows, cost=rule.cost)
        rule.check_background(background)
        if experts.autoregression is not None:
            check_offsets(rule)
        with self._current():
            here = None if background is None else self._here(background)
            return self._pursue(rows, self._here(experts), rule, here)

    def _pursue(
        self, rows: Rows, here: Experts, rule: PursuitRule, background: Experts | None
    ) -> TorchCodes:
        told = here
        if here.family.is_normal:  # offsets are subtracted from each part of the rows
            here = replace(here, autoregression=None)
        kernels, n_experts = self._use_kernels(here, rows), here.n_experts
        kernels = kernels and (rule.prior is None or rule.charges.are_ordinary)
        if background is not None:
            here = here.beside(background)
        n_features = here.log2_expertise.shape[1]
        if kernels:
            pursue = _kernel_pursuit(here, rule)
            row_bytes = 20 * n_features + (n_features // 16 + 32) * here.n_experts
        else:
            pursue = _plain_pursuit(here, rule)
            row_bytes = (40 if here.amplitude is None else 200) * here.n_experts * n_features

        def of_chunk(part: Rows) -> TorchCodes:
            order, log_likelihood = pursue(without_shift(part, told)[0].values)
            base = row_log_base(part, here.family)
            codes = TorchCodes(
                order.int(), log_likelihood + base, n_experts, kernels,
                log_base=base, weight=part.weight,
            )  # fmt: skip
            return codes if order.numel() < MANY_SLOTS else codes.trimmed()

        chunks = self._chunks(rows, row_bytes + 16 * rule.max_active)
        return TorchCodes.joined([of_chunk(part) for _, part in chunks])

    def gradient_sums(self, rows: Rows, experts: Experts, codes: Any) -> GradientSums:
        """Sums of g = d log P / d log e_k and g^2 in the smoothed composition (appendix A)."""
        check_plain(experts)
        with self._current():
            return GradientSums(self._sums("gradient_sums", rows, experts, codes))

    def responsibility_sums(self, rows: Rows, experts: Experts, codes: Any) -> ResponsibilitySums:
        """Sums of r and r T(x) for the averages of eq. 5 and 6."""
        check_plain(experts)
        with self._current():
            return ResponsibilitySums(self._sums("responsibility_sums", rows, experts, codes))

    def opinion_sums(self, rows: Rows, experts: Experts, codes: Any) -> OpinionSums:
        """Sums of df/dmu_k and of minus its derivative, in the smoothed composition (A.1.2)."""
        check_newton(experts)
        with self._current():
            return OpinionSums(self._sums("opinion_sums", rows, experts, codes))

    def autoregression_sums(self, rows: Rows, experts: Experts, codes: Any) -> AutoregressionSums:
        """Sums of the derivatives by weights of earlier values and by opinions."""
        experts.check_shapes(rows, members=codes.members)
        here = self._here(experts)
        n_experts, n_features = here.log2_expertise.shape

        def of_chunk(block: slice, part: Rows) -> AutoregressionSums:
            active: Any = binary_codes(codes.members[block], n_experts)
            owner = owners(here.ranks, active)
            return autoregression_sums(part, here, owner)

        with self._current():
            chunks = self._chunks(rows, 64 * n_features)
            return reduce(add, (of_chunk(*chunk) for chunk in chunks))

    def mixture_sums(
        self, rows: Rows, experts: Experts, log_weight: Any, sharpness: float = 1.0
    ) -> MixtureSums:
        """Sums for EM of a mixture whose components are the experts."""
        here = self._here(experts)
        weights: Any = torch.as_tensor(log_weight, device=self.device)
        row_bytes = 16 * (here.eta.shape[0] * rows.shape[1] + here.n_experts)
        chunks = self._chunks(rows, row_bytes)
        with self._current():
            return reduce(add, (mixture_sums(part, here, weights, sharpness) for _, part in chunks))

    def _sums(self, what: str, rows: Rows, experts: Experts, codes: TorchCodes) -> Any:
        experts.check_shapes(rows, members=codes.members)
        here = self._here(experts)
        n_slots, n_features = codes.members.shape[1], here.log2_expertise.shape[1]
        if what != "opinion_sums" and self._use_kernels(here, rows):
            from dynpart.engines import _triton_sums

            of_rows, level = getattr(_triton_sums, what), self._level(here)
            row_bytes = 48 * n_features + 8 * here.n_experts

            def of_chunk(block: slice, part: Rows) -> Tensor:
                x = _prepared(part.values, here)
                return of_rows(x, part.weight, here, level, codes[block])
        else:
            plain = getattr(_torch_sums if here.amplitude is None else _torch_amplitudes, what)
            row_bytes = 8 * (3 * n_slots + 8) * n_features

            def of_chunk(block: slice, part: Rows) -> Tensor:
                return plain(part, here, codes.members[block].long())

        return reduce(add, (of_chunk(*chunk) for chunk in self._chunks(rows, row_bytes)))

    def _current(self) -> Any:
        """Makes the device the current one, where kernels are launched."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def _here(self, experts: Experts) -> Experts:
        if is_tensor(experts.eta) and torch.as_tensor(experts.eta).device == self.device:
            return experts
        return experts.like(torch.empty(0, device=self.device))

    def _use_kernels(self, experts: Experts, rows: Rows | None = None) -> bool:
        """Whether kernels support such experts, and missing values if the rows have any."""
        family = experts.family
        known = family.is_binary or (family.is_normal and not family.has_tails)
        if not self.kernels or not known or experts.amplitude is not None:
            return False
        if experts.autoregression is not None:
            return False
        if not isinstance(family.unit, float) or family.unit != 1:
            return False
        if rows is not None and not rows.complete:
            return False
        if 2 * experts.log2_bound < RANGE:
            return True
        log2_expertise = torch.as_tensor(experts.log2_expertise)
        return bool((log2_expertise.amax(dim=0) - log2_expertise.amin(dim=0) < RANGE).all())

    def _level(self, experts: Experts) -> Tensor:
        """Relative levels of expertise; the last ones are cached, because updates alternate."""
        log2_expertise = torch.as_tensor(experts.log2_expertise)
        if self._levels is None or self._levels[0] is not log2_expertise:
            self._levels = (log2_expertise, levels(experts))
        return self._levels[1]

    def _chunks(self, rows: Rows, row_bytes: int) -> Iterator[tuple[slice, Rows]]:
        """Rows on the device, in parts that leave memory for intermediate arrays."""
        n_rows, n_features = rows.shape
        most = max(1, MOST_VALUES // max(n_features, WIDEST_TABLE))
        size = max(1, min(self._n_bytes // max(1, row_bytes), most))
        blocks = row_blocks(n_rows, 1, values=size)
        if is_tensor(rows.values):
            for block in blocks:
                yield block, self._moved(rows[block])
            return
        for block, x in streamed(rows.values, blocks, self.device):
            weight = None if rows.weight is None else rows.weight[block]
            yield block, self._moved(Rows(x, weight, rows.complete))


def moved_ahead(array: Tensor, device: torch.device) -> Tensor:
    """A tensor on the CPU moved to a device, without waiting for what the device still has to do.

    A GPU reads only pinned memory by itself.
    """
    if device.type == "cuda":
        array = array.pin_memory()
    return array.to(device, non_blocking=True)


def streamed(
    rows: NDArray, blocks: Iterator[slice], device: torch.device
) -> Iterator[tuple[slice, Tensor]]:
    """Copy blocks of NumPy rows to a device, each while the one before it is processed.

    Blocks pass through two buffers that the GPU reads by itself (pinned memory).

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
    blocks : iterator of slice
        No block is longer than the first.
    device : torch.device

    Yields
    ------
    block : slice
    x : Tensor
        The rows of the block.
    """
    if device.type != "cuda":
        for block in blocks:
            yield block, torch.as_tensor(np.ascontiguousarray(rows[block]), device=device)
        return
    stream = torch.cuda.Stream(device)
    buffers: list[Tensor] = []
    copied: list[torch.cuda.Event] = []
    for i, block in enumerate(blocks):
        source = np.asarray(rows[block])
        if i < 2:
            empty = torch.empty(source.shape, dtype=torch.from_numpy(source[:0].copy()).dtype)
            buffers.append(empty.pin_memory())
            copied.append(torch.cuda.Event())
        copied[i % 2].synchronize()
        buffer = buffers[i % 2][: len(source)]
        buffer.numpy()[...] = source
        with torch.cuda.stream(stream):
            x = buffer.to(device, non_blocking=True)
            copied[i % 2].record(stream)
        current = torch.cuda.current_stream(device)
        current.wait_stream(stream)
        x.record_stream(current)
        yield block, x


def _can_run_kernels(device: torch.device) -> bool:
    """Whether Triton is installed, and can compile for the device or interpret kernels."""
    if importlib.util.find_spec("triton") is None:
        return False
    return device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"


def _prepared(x: Any, experts: Experts) -> Any:
    """Rows as kernels read them: levels, or float32 relative to the centre."""
    family: Any = experts.family
    if not family.is_normal:
        return x.contiguous()
    return torch.sub(x, family.centre, out=torch.empty(x.shape, device=x.device))


Pursue = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From rows to orders of activation and log-likelihoods."""


def _plain_pursuit(experts: Experts, rule: PursuitRule) -> Pursue:
    if experts.amplitude is not None:
        check_hard(rule)

    def pursue(x: Tensor) -> tuple[Tensor, Tensor]:
        hard: HardScore = (
            PlainHard(x, experts) if experts.amplitude is None else AmplitudeHard(x, experts)
        )
        if rule.smoothed:
            order = greedy(PlainSmoothed(x, experts), rule)
            hard.compose(order)
            return order, hard.log_likelihood()

        def pursue_from(place: int) -> tuple[Tensor, Tensor]:
            hard.compose(order_of_nobody(x))
            order = greedy(hard, rule, place)
            if rule.n_swaps:
                order = refined(hard, order, rule)
            hard.compose(order)
            return order, hard.log_likelihood()

        order, log_likelihood = best_start(pursue_from, rule)
        if rule.tries_experts_alone:
            order, log_likelihood = begun_alone(hard, order, log_likelihood, rule)
        return _pruned(order, log_likelihood, hard, rule)

    return pursue


def _kernel_pursuit(experts: Experts, rule: PursuitRule) -> Pursue:
    from dynpart.engines import _triton_binary
    from dynpart.engines._triton_pursuit import KernelScore
    from dynpart.engines._triton_tables import BinaryTables, Tables

    binary = _triton_binary.can_hold(experts, rule)
    if binary:
        binary_tables = BinaryTables.of(experts, smoothed=rule.smoothed)

    @cache
    def tables() -> Tables:
        return Tables.of(experts, smoothed=rule.smoothed)

    def of_binary(x: Tensor) -> tuple[Tensor, Tensor]:
        x = _prepared(x, experts)
        if rule.smoothed:
            return _triton_binary.pursue_smoothed(x, binary_tables, rule)
        order, log_likelihood = _triton_binary.pursue_hard(x, binary_tables, rule)
        if not rule.prune:
            return order, log_likelihood
        hard = KernelScore(x.T.contiguous(), tables(), smoothed=False)
        return _pruned(order, log_likelihood, hard, rule)

    def of_any(x: Tensor) -> tuple[Tensor, Tensor]:
        x = _prepared(x, experts)
        by_variable = x.T.contiguous()
        hard = KernelScore(by_variable, tables(), smoothed=False)
        if rule.smoothed:
            order = KernelScore(by_variable, tables(), smoothed=True).greedy(rule)
            hard.compose(order)
            return order, hard.log_likelihood()

        def pursue_from(place: int) -> tuple[Tensor, Tensor]:
            order = hard.greedy(rule, place)
            hard.compose(order)
            log_likelihood = hard.log_likelihood()
            if not rule.n_swaps:
                return order, log_likelihood
            if hard.can_refine():
                return hard.refined(x, order, log_likelihood, rule)
            order = refined(hard, order.long(), rule)
            hard.compose(order)
            return order, hard.log_likelihood()

        order, log_likelihood = best_start(pursue_from, rule)
        if rule.tries_experts_alone and hard.can_refine():
            order, log_likelihood = hard.refined(x, order, log_likelihood, rule, again=True)
        elif rule.tries_experts_alone:
            order, log_likelihood = begun_alone(hard, order, log_likelihood, rule)
        return _pruned(order, log_likelihood, hard, rule)

    return of_binary if binary else of_any


def _pruned(
    order: Tensor, log_likelihood: Tensor, hard: HardScore, rule: PursuitRule
) -> tuple[Tensor, Tensor]:
    """Drop experts that add no more than their cost, if the rule prunes."""
    if not rule.prune:
        return order, log_likelihood
    order = pruned(hard, order.long(), rule)
    hard.compose(order)
    return order, hard.log_likelihood()
