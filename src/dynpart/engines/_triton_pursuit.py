"""Kernels of the pursuit: compare, select and accumulate over rows x experts x variables.

Rows and their state lie variable by variable, (n_features, n_rows), tables of experts twice: by
variable for gains, which need all experts of a variable, and by expert for the owners. Every number
is the sum of its terms in an order that row and experts determine, so a row gets the same code in
any batch. Terms are float32; at most 128 of them are added before the sum enters float64.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import math
import os

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import MARGIN, PursuitRule
from dynpart.engines._triton_codes import CHUNK as LISTED
from dynpart.engines._triton_codes import list_kernel
from dynpart.engines._triton_lists import can_list
from dynpart.engines._triton_refine import Scratch, best_alone, refine
from dynpart.engines._triton_tables import (
    LANES,
    Tables,
    lane_charges,
    lane_cost,
    log_density,
    n_blocks,
    power_of_two,
)

SPLIT = 128
"""Variables whose terms are added in float32."""
TILE = 4096
"""Values (rows x experts) a program of the gains works on."""
SMOOTHED_TILE = 1024
"""The same under the smoothed rule, which needs more registers for each."""
TOGETHER = 4
"""Variables that share a logarithm under the smoothed rule."""
PATIENCE = 3
"""Steps after which stopped rows are left out and the GPU reports whether any rows continue."""
REFINE_WARPS = 16
"""Warps that refine the code of one row."""
REFINE_CHUNK = 2048
"""Variables that they process together."""
REFINE_BYTES = 1 << 29
"""Scratch memory of all programs that refine codes."""
NARROW = 30
"""Octaves of expertise within which a product of that many factors can be represented."""
LOG2_E = tl.constexpr(math.log2(math.e))
LOWEST = tl.constexpr(-1e30)
"""Stands for the logarithm of 0."""
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
"""Whether Triton interprets kernels, and supports no GPU instructions."""


@triton.jit
def joined(mixture, other):
    """log2(2^mixture + 2^other)."""
    return tl.maximum(mixture, other) + tl.log2(1.0 + tl.exp2(-tl.abs(other - mixture)))


@triton.jit
def exp2(x):
    """2^x by the GPU's instruction; results below the normal range are 0."""
    if INTERPRETED:
        return tl.exp2(x)
    else:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def log2(x):
    """log2(x) by the GPU's instruction: exact to 2^-22, for normal numbers."""
    if INTERPRETED:
        return tl.log2(x)
    else:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def packed(high, low):
    """Two float32 numbers in 64 bits, which are read together."""
    high, low = high.to(tl.int32, bitcast=True), low.to(tl.int32, bitcast=True)
    return (high.to(tl.int64) << 32) | (low.to(tl.int64) & 0xFFFFFFFF)


@triton.jit
def unpacked(pair):
    """The two numbers of `packed`."""
    high, low = (pair >> 32).to(tl.int32), pair.to(tl.int32)
    return high.to(tl.float32, bitcast=True), low.to(tl.float32, bitcast=True)


@triton.jit
def owners_kernel(
    x, order, parameters, ranks, levels, members, count, state,
    n_rows, n_features, n_experts, stride, first_slot, n_slots, without,
    GAUSSIAN: tl.constexpr, SMOOTHED: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """State of each row and variable: rank and log-density of the owner, or E and the log2 mixture.

    Experts from `first_slot` on are added to those already in the state.
    """
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n_members = tl.load(count)
    if tl.program_id(0) * ROWS >= n_members:
        return
    row = tl.load(members + i, mask=i < n_members, other=0)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    live = (i < n_members)[:, None] & (d < n_features)[None, :]
    here = d[None, :] * n_rows + row[:, None]
    value = tl.load(x + here, mask=live, other=0).to(tl.float32)
    plane = n_experts * n_features
    if first_slot > 0:
        total, mixture = unpacked(tl.load(state + here, mask=live, other=0))
    elif SMOOTHED:
        total = tl.zeros([ROWS, WIDTH], tl.float32)
        mixture = tl.zeros([ROWS, WIDTH], tl.float32) + LOWEST
    else:
        total = tl.zeros([ROWS, WIDTH], tl.float32) + n_experts
        mixture = tl.zeros([ROWS, WIDTH], tl.float32)
    for slot in range(first_slot, n_slots):
        k = tl.load(order + row * stride + slot, mask=i < n_members, other=-1)
        k = tl.where(slot == without, -1, k)
        there = k[:, None] * n_features + d[None, :]
        active = live & (k >= 0)[:, None]
        if SMOOTHED:
            joins = active
            level = tl.load(levels + there, mask=active, other=1.0)
        else:
            rank = tl.load(ranks + there, mask=active, other=0).to(tl.float32)
            joins = active & (rank < total)
        first = tl.load(parameters + there, mask=joins, other=0.0)
        second = tl.load(parameters + plane + there, mask=joins, other=0.0)
        third = tl.load(parameters + 2 * plane + there, mask=joins, other=0.0)
        density = log_density(value, first, second, third, GAUSSIAN)
        if SMOOTHED:
            together = joined(mixture, tl.log2(level) + density * LOG2_E)
            mixture = tl.where(joins, together, mixture)
            total += tl.where(joins, level, 0.0)
        else:
            total = tl.where(joins, rank, total)
            mixture = tl.where(joins, density, mixture)
    tl.store(state + here, packed(total, mixture), mask=live)


@triton.jit
def lift(
    d, x, weighted, state, row, lane, n_rows, n_features, n_lanes, GAUSSIAN: tl.constexpr
):  # fmt: skip
    """Terms of one variable in the gains under the smoothed rule: a summand and three factors.

    With a the log2 of the term of an expert of level e in the mixture M of total expertise E, the
    summand is max(a - log2 M, 0), and the factors form the log2 of
    (1 + 2^-|a - log2 M|) E / (E + e).
    """
    here = d * n_rows + row
    there = d * n_lanes + lane
    plane = n_features * n_lanes
    value = tl.load(x + here).to(tl.float32)[:, None]
    total, mixture = unpacked(tl.load(state + here))
    first = tl.load(weighted + there)[None, :]
    second = tl.load(weighted + plane + there)[None, :]
    third = first
    if GAUSSIAN:
        third = tl.load(weighted + 2 * plane + there)[None, :]
    level = tl.load(weighted + 3 * plane + there)[None, :]
    gap = log_density(value, first, second, third, GAUSSIAN) - mixture[:, None]
    return tl.maximum(gap, 0.0), 1.0 + exp2(-tl.abs(gap)), total, total[:, None] + level


@triton.jit
def gains_kernel(
    x, parameters, ranks, members, count, state, zeros, partial,
    n_rows, n_features, n_lanes,
    GAUSSIAN: tl.constexpr, SMOOTHED: tl.constexpr, EMPTY: tl.constexpr, TOGETHER: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Part of every expert's gain from SPLIT variables.

    The gain of an expert alone is its log-density. For the smoothed rule see `lift`: TOGETHER
    variables share a logarithm.
    """
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    split = tl.program_id(2)
    n_members = tl.load(count)
    if tl.program_id(0) * ROWS >= n_members:
        return
    # Those beyond the last repeat the last one, and are not stored.
    row = tl.load(members + tl.minimum(i, n_members - 1))
    tile = tl.arange(0, ROWS)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    # Loading zeros makes the compiler assign neighbouring experts to a thread, which then
    # loads four of them at once.
    gain = tl.load(zeros + tile)
    begin = split * SPLIT
    end = tl.minimum(begin + SPLIT, n_features)
    if SMOOTHED and not EMPTY:
        whole = begin + (end - begin) // TOGETHER * TOGETHER
        for start in range(begin, whole, TOGETHER):
            more, above, totals, below = lift(
                start, x, parameters, state, row, lane, n_rows, n_features, n_lanes, GAUSSIAN
            )
            gain += more
            for u in tl.static_range(1, TOGETHER):
                more, factor, total, divisor = lift(
                    start + u, x, parameters, state, row, lane, n_rows, n_features, n_lanes,
                    GAUSSIAN,
                )  # fmt: skip
                gain += more
                above *= factor
                totals *= total
                below *= divisor
            gain += log2(above * totals[:, None] / below)
        for d in range(whole, end):
            more, above, total, below = lift(
                d, x, parameters, state, row, lane, n_rows, n_features, n_lanes, GAUSSIAN
            )
            gain += more + log2(above * total[:, None] / below)
    else:
        plane = n_features * n_lanes
        for d in range(begin, end):
            here = d * n_rows + row
            there = d * n_lanes + lane
            value = tl.load(x + here).to(tl.float32)[:, None]
            first = tl.load(parameters + there)[None, :]
            second = tl.load(parameters + plane + there)[None, :]
            third = first
            if GAUSSIAN:
                third = tl.load(parameters + 2 * plane + there)[None, :]
            density = log_density(value, first, second, third, GAUSSIAN)
            if EMPTY:
                gain += density
            else:
                best, owned = unpacked(tl.load(state + here))
                rank = tl.load(ranks + there)[None, :]
                gain += tl.where(rank < best[:, None], density - owned[:, None], 0.0)
    here = (split * n_rows + row[:, None]).to(tl.int64) * n_lanes + lane[None, :]
    tl.store(partial + here, gain, mask=(i < n_members)[:, None])


@triton.jit
def total_kernel(
    partial, members, count, gains, cost, order, running, unit, n_rows, n_lanes, n_splits, stride,
    step, place, min_active, margin,
    CHOOSE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Add the parts of a row's gains, in order and in float64; store them, or choose by them.

    The expert with the largest gain, or in another place of that order, is activated if the gain
    exceeds its cost or too few are active; `running` marks rows in which one was.
    """
    if tl.program_id(0) >= tl.load(count):
        return
    row = tl.load(members + tl.program_id(0))
    lane = tl.arange(0, LANES)
    inside = lane < n_lanes
    total = tl.zeros([LANES], tl.float64)
    for split in range(n_splits):
        here = (row + 0 * lane + split * n_rows).to(tl.int64) * n_lanes + lane
        total += tl.load(partial + here, mask=inside, other=0.0).to(tl.float64)
    total *= unit
    if CHOOSE:
        total -= tl.load(cost + lane, mask=inside, other=float("inf"))
        for slot in range(step):
            total = tl.where(lane == tl.load(order + row * stride + slot), -float("inf"), total)
        best, k = tl.max(total, axis=0, return_indices=True)
        for _ in range(place):
            total = tl.where(lane == k, -float("inf"), total)
            best, k = tl.max(total, axis=0, return_indices=True)
        goes_on = tl.load(running + row) > 0
        joins = goes_on & ((step < min_active) | (best > margin))
        tl.store(running + row, joins.to(tl.int8))
        tl.store(order + row * stride + step, tl.where(joins, k, -1))
    else:
        tl.store(gains + row * n_lanes + lane, total, mask=inside)


@triton.jit
def tops_kernel(
    x, parameters, tops, n_rows, n_features, n_experts,
    GAUSSIAN: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The largest log-density of each value under any expert but the last one."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = d < n_features
    live = (row < n_rows)[:, None] & inside[None, :]
    here = row[:, None] * n_features + d[None, :]
    value = tl.load(x + here, mask=live, other=0).to(tl.float32)
    plane = n_experts * n_features
    most = tl.zeros([ROWS, WIDTH], tl.float32) - float("inf")
    for k in range(n_experts - 1):
        there = k * n_features + d
        first = tl.load(parameters + there, mask=inside, other=0.0)[None, :]
        second = tl.load(parameters + plane + there, mask=inside, other=0.0)[None, :]
        third = tl.load(parameters + 2 * plane + there, mask=inside, other=0.0)[None, :]
        most = tl.maximum(most, log_density(value, first, second, third, GAUSSIAN))
    tl.store(tops + here, most, mask=live)


class KernelScore:
    """The score of rows under the hard or the smoothed rule, by kernels.

    Parameters
    ----------
    x : Tensor of shape (n_features, n_rows)
        Values, variable by variable: uint8 for binary ones, else float32 relative to the centre.
    tables : Tables
    smoothed : bool
    """

    def __init__(self, x: Tensor, tables: Tables, *, smoothed: bool) -> None:
        self.x, self.tables, self.smoothed = x, tables, smoothed
        self.n_features, n_rows = x.shape
        self.shape = (n_rows, tables.n_experts)
        self._every = torch.arange(n_rows, dtype=torch.int32, device=x.device)
        self._all = torch.full((1,), n_rows, dtype=torch.int32, device=x.device)
        self._members, self._count = self._every, self._all
        lanes = min(LANES, tables.n_lanes)
        tile = SMOOTHED_TILE if smoothed else TILE
        self._zeros = torch.zeros((tile // lanes, lanes), device=x.device)
        self._state = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        self._n_known = 0

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Find the owner, or the mixture, of every variable; the last slot alone may be new."""
        tables, n_slots = self.tables, order.shape[1]
        if without >= 0 or n_slots != self._n_known + 1:
            self._n_known = 0
        rows, width = 8, 64
        grid = (n_blocks(self.shape[0], rows), n_blocks(self.n_features, width))
        owners_kernel[grid](
            self.x, order, tables.parameters, tables.ranks, tables.levels, self._members,
            self._count, self._state,
            self.shape[0], self.n_features, tables.n_experts, order.stride(0), self._n_known,
            n_slots, without,
            GAUSSIAN=tables.gaussian, SMOOTHED=self.smoothed, ROWS=rows, WIDTH=width,
        )  # fmt: skip
        self._n_known = n_slots if without < 0 else -1

    def _partial(self) -> Tensor:
        """Gains from each stretch of variables, shape (n_splits, n_rows, n_lanes)."""
        n_rows, n_lanes = self.shape[0], self.tables.n_lanes
        rows, lanes = self._zeros.shape
        n_splits = n_blocks(self.n_features, SPLIT)
        empty = self._n_known == 0
        tables, weighted = self.tables, self.smoothed and not empty
        shape = (n_splits, n_rows, n_lanes)
        partial = torch.empty(shape, dtype=torch.float32, device=self.x.device)
        gains_kernel[(n_blocks(n_rows, rows), n_lanes // lanes, n_splits)](
            self.x, tables.weighted if weighted else tables.parameters_by_variable,
            tables.ranks_by_variable, self._members, self._count, self._state, self._zeros, partial,
            n_rows, self.n_features, n_lanes,
            GAUSSIAN=tables.gaussian, SMOOTHED=self.smoothed, EMPTY=empty,
            TOGETHER=TOGETHER if tables.log2_range < NARROW else 1, ROWS=rows, LANES=lanes,
            SPLIT=SPLIT, num_warps=4,
        )  # fmt: skip
        return partial

    def _total(
        self,
        gains: Tensor,
        cost: Tensor,
        order: Tensor,
        running: Tensor,
        step: int,
        place: int,
        rule: PursuitRule | None,
    ) -> None:
        partial = self._partial()
        n_splits, n_rows, n_lanes = partial.shape
        unit = math.log(2.0) if self.smoothed and self._n_known else 1.0
        total_kernel[(n_rows,)](
            partial, self._members, self._count, gains, cost, order, running, unit, n_rows, n_lanes,
            n_splits, order.stride(0), step, place, rule.min_active if rule else 0, MARGIN,
            CHOOSE=rule is not None, LANES=power_of_two(n_lanes),
        )  # fmt: skip

    def gains(self) -> Tensor:
        """Change of the score by each further expert, shape (n_rows, n_experts)."""
        return self._gains_of_lanes()[:, : self.shape[1]]

    def _gains_of_lanes(self) -> Tensor:
        shape = (self.shape[0], self.tables.n_lanes)
        gains = torch.empty(shape, dtype=torch.float64, device=self.x.device)
        self._total(gains, gains, gains, gains, 0, 0, None)
        return gains

    def greedy(self, rule: PursuitRule, place: int = 0) -> Tensor:
        """Activate the expert that most improves the score while the gain exceeds the cost.

        The first expert is the one in this place of the order of gains.

        Returns
        -------
        order : Tensor of shape (n_rows, n_steps), int32
        """
        device, n_rows = self.x.device, self.shape[0]
        cost = lane_cost(rule, self.tables.n_lanes, device)
        order = torch.full((n_rows, rule.max_active), -1, dtype=torch.int32, device=device)
        running = torch.ones(n_rows, dtype=torch.int8, device=device)
        # Rows that have stopped are skipped from here on.
        self._members, self._count = self._every.clone(), self._all.clone()
        # During a recording no result can be read: then all steps are executed.
        asks = device.type != "cuda" or not torch.cuda.is_current_stream_capturing()
        for step in range(rule.max_active):
            if step > 0:
                self.compose(order[:, :step])
            else:
                self._n_known = 0
            self._total(cost, cost, order, running, step, place if step == 0 else 0, rule)
            if (step + 1) % PATIENCE == 0:
                list_kernel[(1,)](running, self._members, self._count, n_rows, CHUNK=LISTED)
                if asks and step >= rule.min_active and not self._count.any():
                    break
        self._members, self._count = self._every, self._all
        return order[:, : step + 1].contiguous()

    def can_refine(self) -> bool:
        """Whether `refined` supports such experts."""
        n_lanes = self.tables.n_lanes
        listable = can_list(self.n_features, self.shape[1])
        return listable and n_lanes == power_of_two(n_lanes)

    def refined(
        self,
        x: Tensor,
        order: Tensor,
        log_likelihood: Tensor,
        rule: PursuitRule,
        *,
        again: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Codes that no single change improves, begun with greedy ones.

        Parameters
        ----------
        x : Tensor of shape (n_rows, n_features)
            The same values, row by row.
        order : Tensor of shape (n_rows, n_slots), int32
        log_likelihood : Tensor of shape (n_rows,)
        rule : PursuitRule
        again : bool
            Whether the codes are refined already, and are begun again with the best single expert
            if it is worth more.

        Returns
        -------
        order : Tensor of shape (n_rows, max_active), int32
        log_likelihood : Tensor of shape (n_rows,)
        """
        tables, device = self.tables, x.device
        (n_rows, n_experts), n_features, n_lanes = self.shape, self.n_features, tables.n_lanes
        charges = lane_charges(rule, n_lanes, device)
        alone = None
        if again:
            self._n_known = 0
            gains = self._gains_of_lanes()
            alone = best_alone(gains, charges)
        else:
            self.compose(order)
            gains = self._gains_of_lanes()
            active = torch.where(order < 0, order[:, :1], order).long()
            gains.scatter_(1, active, -torch.inf)
        pad = (0, rule.max_active - order.shape[1])
        order = torch.nn.functional.pad(order, pad, value=-1).contiguous()
        log_likelihood = log_likelihood.clone()
        row_bytes = 24 * n_features + 4 * charges.log_odds.numel()
        n_programs = max(1, min(n_rows, REFINE_BYTES // row_bytes))
        memory = Scratch.of(n_programs, n_features, rule.max_active, charges)
        tops = torch.empty(x.shape, dtype=torch.float32, device=device)
        rows, width = 4, 256
        tops_kernel[(n_blocks(n_rows, rows), n_blocks(n_features, width))](
            x, tables.parameters, tops, n_rows, n_features, n_experts,
            GAUSSIAN=tables.gaussian, ROWS=rows, WIDTH=width,
        )  # fmt: skip
        # Agreement is read only with tables; the ranks are a placeholder for it here.
        model = (
            tables.parameters, tables.ranks, tables.ranks, tables.parameters_by_variable,
            tables.ranks_by_variable,
        )  # fmt: skip
        refine(
            x, gains, charges, model, tops, memory, order, log_likelihood, rule,
            formula=True, gaussian=tables.gaussian, chunk=REFINE_CHUNK, n_warps=REFINE_WARPS,
            alone=alone,
        )  # fmt: skip
        return order, log_likelihood

    def log_likelihood(self) -> Tensor:
        """Log P(x | h) of every row under the hard rule."""
        share = self._state.view(torch.float32).view(*self._state.shape, 2)[..., 0]
        return share.sum(dim=0, dtype=torch.float64)
