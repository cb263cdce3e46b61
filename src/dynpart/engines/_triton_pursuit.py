"""Kernels of the pursuit: compare, select and accumulate over rows x experts x variables.

Rows and their state lie variable by variable, (n_features, n_rows), tables of experts twice: by
variable for gains, which need all experts of a variable, and by expert for the owners. Every number
is the sum of its terms in an order that row and experts fix, so a row gets the same code in any
batch. Terms are float32; no more than 128 of them are added before float64 takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import MARGIN, Experts, PursuitRule
from dynpart.engines._torch_pursuit import levels

SPLIT = 128
"""Variables whose terms are added in float32."""
ROWS = 16
"""Rows a program of the gains works on."""
LANES = 128
"""Experts a program of the gains works on."""
WIDEST = 4096
"""Variables up to which one program can hold a whole row."""
MOST = 1024
"""Experts up to which one program can hold the gains of a row."""
PROGRAMS_PER_CORE = 8
"""Programs of :func:`pursue_row_kernel` per multiprocessor, each with scratch memory of its own."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Experts as kernels read them.

    Attributes
    ----------
    parameters : Tensor of shape (3, n_experts, n_features), float32
        What a log-density is made of: log P(0) and log P(1) - log P(0) for binary variables; mean,
        half inverse variance and constant for Gaussian ones.
    ranks : Tensor of shape (n_experts, n_features), uint8 or int16
    levels : Tensor of shape (n_experts, n_features), float32
    gaussian : bool
    """

    parameters: Tensor
    ranks: Tensor
    levels: Tensor
    gaussian: bool

    @classmethod
    def of(cls, experts: Experts) -> Tables:
        """Build the tables from experts held as tensors."""
        eta, ranks = torch.as_tensor(experts.eta), torch.as_tensor(experts.ranks)
        gaussian = experts.family.name == "gaussian"
        if gaussian:
            v = eta[1] - eta[0] * eta[0]
            parts = [eta[0], 0.5 / v, -0.5 * torch.log(2 * math.pi * v)]
        else:
            off = torch.log1p(-eta[0])
            parts = [off, torch.log(eta[0]) - off, off]
        small = torch.uint8 if experts.n_experts < 256 else torch.int16
        return cls(torch.stack(parts).float(), ranks.to(small), levels(experts).float(), gaussian)

    @property
    def n_experts(self) -> int:
        return self.ranks.shape[0]

    @property
    def n_lanes(self) -> int:
        """Experts with those that fill up the last program."""
        if self.n_experts <= LANES:
            return max(16, triton.next_power_of_2(self.n_experts))
        return LANES * triton.cdiv(self.n_experts, LANES)

    def by_variable(self, table: Tensor, fill: float) -> Tensor:
        """A table as (..., n_features, n_lanes): all experts of a variable side by side."""
        missing = self.n_lanes - self.n_experts
        padded = torch.nn.functional.pad(table.mT, (0, missing), value=fill)
        return padded.contiguous()


@triton.jit
def log_density(x, first, second, third, GAUSSIAN: tl.constexpr):
    """Log P of values under experts; arguments broadcast."""
    if GAUSSIAN:
        away = x - first
        return third - second * away * away
    else:
        return first + x * second


@triton.jit
def owners_kernel(
    x, order, parameters, ranks, levels, peak, top, share,
    n_rows, n_features, n_experts, n_slots, without,
    GAUSSIAN: tl.constexpr, SMOOTHED: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """State of each row and variable: rank and log-density of the owner, or the mixture."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    live = (row < n_rows)[:, None] & (d < n_features)[None, :]
    here = d[None, :] * n_rows + row[:, None]
    value = tl.load(x + here, mask=live, other=0).to(tl.float32)
    plane = n_experts * n_features
    if SMOOTHED:
        highest = tl.load(peak + here, mask=live, other=0.0)
        total = tl.zeros([ROWS, WIDTH], tl.float32)
        mixture = tl.zeros([ROWS, WIDTH], tl.float32)
    else:
        total = tl.zeros([ROWS, WIDTH], tl.float32) + n_experts
        mixture = tl.zeros([ROWS, WIDTH], tl.float32)
    for slot in range(n_slots):
        k = tl.load(order + row * n_slots + slot, mask=row < n_rows, other=-1)
        k = tl.where(slot == without, -1, k)
        there = k[:, None] * n_features + d[None, :]
        active = live & (k >= 0)[:, None]
        if SMOOTHED:
            joins = active
            level = tl.load(levels + there, mask=active, other=0.0)
        else:
            rank = tl.load(ranks + there, mask=active, other=0).to(tl.float32)
            joins = active & (rank < total)
        first = tl.load(parameters + there, mask=joins, other=0.0)
        second = tl.load(parameters + plane + there, mask=joins, other=0.0)
        third = tl.load(parameters + 2 * plane + there, mask=joins, other=0.0)
        density = log_density(value, first, second, third, GAUSSIAN)
        if SMOOTHED:
            total += level
            mixture += level * tl.exp(density - highest)
        else:
            total = tl.where(joins, rank, total)
            mixture = tl.where(joins, density, mixture)
    tl.store(top + here, total, mask=live)
    tl.store(share + here, mixture, mask=live)


@triton.jit
def peak_kernel(
    x, parameters, peak, n_rows, n_features, n_experts,
    GAUSSIAN: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Highest log-density of any expert: a factor that keeps densities representable."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    live = (row < n_rows)[:, None] & (d < n_features)[None, :]
    here = d[None, :] * n_rows + row[:, None]
    value = tl.load(x + here, mask=live, other=0).to(tl.float32)
    plane = n_experts * n_features
    highest = tl.zeros([ROWS, WIDTH], tl.float32) - float("inf")
    for k in range(n_experts):
        there = k * n_features + d
        first = tl.load(parameters + there, mask=d < n_features, other=0.0)[None, :]
        second = tl.load(parameters + plane + there, mask=d < n_features, other=0.0)[None, :]
        third = tl.load(parameters + 2 * plane + there, mask=d < n_features, other=0.0)[None, :]
        highest = tl.maximum(highest, log_density(value, first, second, third, GAUSSIAN))
    tl.store(peak + here, highest, mask=live)


@triton.jit
def gains_kernel(
    x, parameters, ranks, levels, peak, top, share, partial,
    n_rows, n_features, n_lanes,
    GAUSSIAN: tl.constexpr, SMOOTHED: tl.constexpr, EMPTY: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Part of every expert's gain that comes from SPLIT variables."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    split = tl.program_id(2)
    live = row < n_rows
    plane = n_features * n_lanes
    gain = tl.zeros([ROWS, LANES], tl.float32)
    for d in range(split * SPLIT, tl.minimum((split + 1) * SPLIT, n_features)):
        there = d * n_lanes + lane
        value = tl.load(x + d * n_rows + row, mask=live, other=0).to(tl.float32)[:, None]
        total = tl.load(top + d * n_rows + row, mask=live, other=1.0)[:, None]
        mixture = tl.load(share + d * n_rows + row, mask=live, other=1.0)[:, None]
        first = tl.load(parameters + there)[None, :]
        second = tl.load(parameters + plane + there)[None, :]
        third = tl.load(parameters + 2 * plane + there)[None, :]
        density = log_density(value, first, second, third, GAUSSIAN)
        if SMOOTHED:
            highest = tl.load(peak + d * n_rows + row, mask=live, other=0.0)[:, None]
            level = tl.load(levels + there)[None, :]
            joined = mixture + level * tl.exp(density - highest)
            gain += tl.log2(tl.maximum(joined, 1e-38) / (total + level))
            if not EMPTY:
                gain -= tl.log2(tl.maximum(mixture, 1e-38) / total)
        else:
            rank = tl.load(ranks + there).to(tl.float32)[None, :]
            gain += tl.where(rank < total, density - mixture, 0.0)
    here = (split * n_rows + row[:, None]).to(tl.int64) * n_lanes + lane[None, :]
    tl.store(partial + here, gain, mask=live[:, None])


@triton.jit
def total_kernel(
    partial, gains, unit, n_rows, n_lanes, n_splits, ROWS: tl.constexpr, LANES: tl.constexpr
):
    """Add up the parts of the gains, in order and in float64."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    live = (row < n_rows)[:, None]
    total = tl.zeros([ROWS, LANES], tl.float64)
    for split in range(n_splits):
        here = (split * n_rows + row[:, None]).to(tl.int64) * n_lanes + lane[None, :]
        total += tl.load(partial + here, mask=live, other=0.0).to(tl.float64)
    tl.store(gains + row[:, None] * n_lanes + lane[None, :], total * unit, mask=live)


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
        self._parameters = tables.by_variable(tables.parameters, 0.0)
        self._ranks = tables.by_variable(tables.ranks, torch.iinfo(tables.ranks.dtype).max)
        self._levels = tables.by_variable(tables.levels, 0.0) if smoothed else self._ranks
        state = torch.empty((3, *x.shape), dtype=torch.float32, device=x.device)
        self._peak, self._top, self._share = state
        self._tile = {"ROWS": 4 if x.shape[1] < 4096 else 16, "WIDTH": 64}
        self._top.fill_(0.0 if smoothed else tables.n_experts)
        self._share.zero_()
        self._empty = True
        if smoothed:
            peak_kernel[self._grid()](
                x, tables.parameters, self._peak, n_rows, self.n_features, tables.n_experts,
                GAUSSIAN=tables.gaussian, **self._tile,
            )  # fmt: skip

    def _grid(self) -> tuple[int, int]:
        cdiv = triton.cdiv
        return cdiv(self.shape[0], self._tile["ROWS"]), cdiv(self.n_features, self._tile["WIDTH"])

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Find the owner, or the mixture, of every variable."""
        tables, order = self.tables, order.contiguous()
        owners_kernel[self._grid()](
            self.x, order, tables.parameters, tables.ranks, tables.levels, self._peak, self._top,
            self._share, self.shape[0], self.n_features, tables.n_experts, order.shape[1], without,
            GAUSSIAN=tables.gaussian, SMOOTHED=self.smoothed, **self._tile,
        )  # fmt: skip
        self._empty = False

    def lane_gains(self) -> Tensor:
        """Gains of all lanes, those that only fill up included, shape (n_rows, n_lanes)."""
        n_rows, n_lanes = self.shape[0], self.tables.n_lanes
        lanes = min(LANES, n_lanes)
        n_splits = triton.cdiv(self.n_features, SPLIT)
        device = self.x.device
        partial = torch.empty((n_splits, n_rows, n_lanes), dtype=torch.float32, device=device)
        grid = (triton.cdiv(n_rows, ROWS), n_lanes // lanes, n_splits)
        gains_kernel[grid](
            self.x, self._parameters, self._ranks, self._levels, self._peak, self._top,
            self._share, partial, n_rows, self.n_features, n_lanes,
            GAUSSIAN=self.tables.gaussian, SMOOTHED=self.smoothed, EMPTY=self._empty,
            ROWS=ROWS, LANES=lanes, SPLIT=SPLIT,
        )  # fmt: skip
        gains = torch.empty((n_rows, n_lanes), dtype=torch.float64, device=device)
        unit = math.log(2.0) if self.smoothed else 1.0
        total_kernel[grid[:2]](
            partial, gains, unit, n_rows, n_lanes, n_splits, ROWS=ROWS, LANES=lanes
        )
        return gains

    def gains(self) -> Tensor:
        """Change of the score by each further expert, shape (n_rows, n_experts)."""
        return self.lane_gains()[:, : self.shape[1]]

    def log_likelihood(self) -> Tensor:
        """Log P(x | h) of every row under the hard rule."""
        return self._share.sum(dim=0, dtype=torch.float64)


@triton.jit
def pursue_row_kernel(
    x, gains, cost, ranks, off, slope, ranks_by_variable, off_by_variable, slope_by_variable,
    scratch, order, log_likelihood,
    n_rows, n_features, n_experts, n_programs, min_active, max_active, margin,
    WIDTH: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr, PAIR: tl.constexpr,
):  # fmt: skip
    """Steps two and on of the pursuit of binary rows, a row at a time, gains incrementally.

    An expert that joins takes over some variables; only these change the gains of the others. They
    are listed in the program's own scratch memory, then read BLOCK by BLOCK with all experts.
    """
    d = tl.arange(0, WIDTH)
    inside = d < n_features
    lane = tl.arange(0, LANES)
    listed = scratch + tl.program_id(0) * 4 * WIDTH
    for row in range(tl.program_id(0), n_rows, n_programs):
        value = tl.load(x + row * n_features + d, mask=inside, other=0)
        value = value.to(tl.float32)
        leader = tl.load(order + row * max_active)
        gain = tl.load(gains + row * LANES + lane)
        gain -= tl.load(cost + lane)
        gain = tl.where(lane == leader, -float("inf"), gain)
        its = leader * n_features + d
        rank = tl.load(ranks + its, mask=inside, other=0).to(tl.float32)
        owned = tl.load(off + its, mask=inside, other=0.0)
        owned += value * tl.load(slope + its, mask=inside, other=0.0)
        step = 1
        while step < max_active:
            best = tl.max(gain, axis=0)
            k = tl.argmax(gain, axis=0)
            if (step >= min_active) & (best <= margin):
                step = max_active
            else:
                tl.store(order + row * max_active + step, k)
                there = k * n_features + d
                new_rank = tl.load(ranks + there, mask=inside, other=255).to(tl.float32)
                won = inside & (new_rank < rank)
                new = tl.load(off + there, mask=won, other=0.0)
                new += value * tl.load(slope + there, mask=won, other=0.0)
                place = tl.cumsum(won.to(tl.int32), axis=0) - 1
                n_won = tl.sum(won.to(tl.int32), axis=0)
                # The value of a variable is told by the sign of the number that names it.
                name = tl.where(value > 0, d, -1 - d)
                tl.store(listed + place, name.to(tl.float32), mask=won)
                tl.store(listed + WIDTH + place, rank * PAIR + new_rank, mask=won)
                tl.store(listed + 2 * WIDTH + place, owned, mask=won)
                tl.store(listed + 3 * WIDTH + place, new, mask=won)
                tl.debug_barrier()
                change = tl.zeros([BLOCK, LANES], tl.float32)
                for start in range(0, n_won, BLOCK):
                    i = start + tl.arange(0, BLOCK)
                    ok = i < n_won
                    named = tl.load(listed + i, mask=ok, other=0.0).to(tl.int32)
                    both = tl.load(listed + WIDTH + i, mask=ok, other=0.0)
                    before = tl.load(listed + 2 * WIDTH + i, mask=ok, other=0.0)
                    after = tl.load(listed + 3 * WIDTH + i, mask=ok, other=0.0)
                    was = tl.floor(both / PAIR)
                    now = both - was * PAIR
                    on = named >= 0
                    v = tl.where(on, named, -1 - named)
                    tile = v[:, None] * LANES + lane[None, :]
                    theirs = tl.load(off_by_variable + tile)
                    theirs += tl.where(on, 1.0, 0.0)[:, None] * tl.load(slope_by_variable + tile)
                    their_rank = tl.load(ranks_by_variable + tile).to(tl.float32)
                    loss = tl.where(their_rank < was[:, None], before[:, None] - theirs, 0.0)
                    gained = tl.where(their_rank < now[:, None], theirs - after[:, None], 0.0)
                    change += tl.where(ok[:, None], loss + gained, 0.0)
                tl.debug_barrier()
                gain += tl.sum(change, axis=0).to(tl.float64)
                gain = tl.where(lane == k, -float("inf"), gain)
                rank = tl.where(won, new_rank, rank)
                owned = tl.where(won, new, owned)
                step += 1
        tl.store(log_likelihood + row, tl.sum(owned.to(tl.float64), axis=0))


def fits_one_program(tables: Tables, n_features: int) -> bool:
    """Whether :func:`pursue_rows` can be used: binary rows that a program can hold."""
    return not tables.gaussian and tables.n_experts <= MOST and n_features <= WIDEST


def pursue_rows(x: Tensor, score: KernelScore, rule: PursuitRule) -> tuple[Tensor, Tensor]:
    """Greedy pursuit of binary rows under the hard rule: two dense passes, then row by row.

    Parameters
    ----------
    x : Tensor of shape (n_rows, n_features), uint8
    score : KernelScore
        Of the same rows.
    rule : PursuitRule

    Returns
    -------
    order : Tensor of shape (n_rows, max_active), int64
    log_likelihood : Tensor of shape (n_rows,)
    """
    tables, device = score.tables, x.device
    n_rows, n_features = x.shape
    lanes = max(16, triton.next_power_of_2(tables.n_lanes))
    cost = torch.full((lanes,), torch.inf, dtype=torch.float64, device=device)
    cost[: tables.n_experts] = torch.as_tensor(rule.cost, device=device)
    first = (score.gains() - cost[: tables.n_experts]).max(dim=1).indices
    order = torch.full((n_rows, rule.max_active), -1, device=device)
    order[:, 0] = first
    score.compose(first[:, None])
    gains = score.lane_gains()
    if gains.shape[1] < lanes:
        gains = torch.nn.functional.pad(gains, (0, lanes - gains.shape[1]))
    width = max(64, triton.next_power_of_2(n_features))
    n_programs = min(n_rows, _programs(device))
    scratch = torch.empty((n_programs, 4, width), dtype=torch.float32, device=device)
    by_variable = [score._ranks, score._parameters[0], score._parameters[1]]
    missing = lanes - tables.n_lanes
    if missing:
        by_variable = [torch.nn.functional.pad(table, (0, missing)) for table in by_variable]
    log_likelihood = torch.empty(n_rows, dtype=torch.float64, device=device)
    pursue_row_kernel[(n_programs,)](
        x, gains.contiguous(), cost, tables.ranks, tables.parameters[0], tables.parameters[1],
        *by_variable, scratch, order, log_likelihood,
        n_rows, n_features, tables.n_experts, n_programs, int(rule.min_active),
        int(rule.max_active), MARGIN,
        WIDTH=width, LANES=lanes, BLOCK=max(1, 2048 // lanes), PAIR=2.0 * MOST,
        num_warps=4 if width <= 2048 else 8,
    )  # fmt: skip
    return order, log_likelihood


def _programs(device: Any) -> int:
    if device.type != "cuda":
        return 4
    return PROGRAMS_PER_CORE * torch.cuda.get_device_properties(device).multi_processor_count
