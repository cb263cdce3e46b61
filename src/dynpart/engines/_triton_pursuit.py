"""Kernels of the pursuit: compare, select and accumulate over rows x experts x variables.

Rows and their state lie variable by variable, (n_features, n_rows), tables of experts twice: by
variable for gains, which need all experts of a variable, and by expert for the owners. Every number
is the sum of its terms in an order that row and experts fix, so a row gets the same code in any
batch. Terms are float32; no more than 256 of them are added before float64 takes over.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import Experts
from dynpart.engines._torch_pursuit import levels

SPLIT = 256
"""Variables whose terms are added in float32."""
LANES = 128
"""Experts a program of the gains works on."""
TILE = 2048
"""Values (rows x experts) a program of the gains works on."""


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
    n_rows, n_features, n_experts, n_slots, first_slot, without,
    GAUSSIAN: tl.constexpr, SMOOTHED: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """State of each row and variable: rank and log-density of the owner, or the mixture.

    Experts from `first_slot` on join those that the state knows of already.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    live = (row < n_rows)[:, None] & (d < n_features)[None, :]
    here = d[None, :] * n_rows + row[:, None]
    value = tl.load(x + here, mask=live, other=0).to(tl.float32)
    plane = n_experts * n_features
    if SMOOTHED:
        highest = tl.load(peak + here, mask=live, other=0.0)
    total = tl.load(top + here, mask=live, other=0.0)
    mixture = tl.load(share + here, mask=live, other=0.0)
    for slot in range(first_slot, n_slots):
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
    for d in range(split * SPLIT, (split + 1) * SPLIT):
        ok = live & (row * 0 + d < n_features)
        here = d * n_rows + row
        there = d * n_lanes + lane
        known = lane * 0 + d < n_features
        value = tl.load(x + here, mask=ok, other=0).to(tl.float32)[:, None]
        # Variables beyond the last count for nothing: nobody wins them, or all are one.
        total = tl.load(top + here, mask=ok, other=1.0 if SMOOTHED else 0.0)[:, None]
        mixture = tl.load(share + here, mask=ok, other=1.0)[:, None]
        first = tl.load(parameters + there, mask=known, other=0.0)[None, :]
        second = tl.load(parameters + plane + there, mask=known, other=0.0)[None, :]
        third = 0.0
        if GAUSSIAN:
            third = tl.load(parameters + 2 * plane + there, mask=known, other=0.0)[None, :]
        density = log_density(value, first, second, third, GAUSSIAN)
        if SMOOTHED:
            highest = tl.load(peak + here, mask=ok, other=0.0)[:, None]
            level = tl.load(levels + there, mask=known, other=1.0)[None, :]
            joined = mixture + level * tl.exp(density - highest)
            gain += tl.log2(tl.maximum(joined, 1e-37) / (total + level))
            if not EMPTY:
                gain -= tl.log2(tl.maximum(mixture, 1e-37) / total)
        else:
            rank = tl.load(ranks + there, mask=known, other=0).to(tl.float32)[None, :]
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
        self._levels = tables.by_variable(tables.levels, 1.0) if smoothed else self._ranks
        state = torch.empty((3, *x.shape), dtype=torch.float32, device=x.device)
        self._peak, self._top, self._share = state
        self._tile = {"ROWS": 4 if x.shape[1] < 4096 else 16, "WIDTH": 64}
        self._clear()
        if smoothed:
            peak_kernel[self._grid()](
                x, tables.parameters, self._peak, n_rows, self.n_features, tables.n_experts,
                GAUSSIAN=tables.gaussian, **self._tile,
            )  # fmt: skip

    def _grid(self) -> tuple[int, int]:
        cdiv = triton.cdiv
        return cdiv(self.shape[0], self._tile["ROWS"]), cdiv(self.n_features, self._tile["WIDTH"])

    def _clear(self) -> None:
        self._top.fill_(0.0 if self.smoothed else self.tables.n_experts)
        self._share.zero_()
        self._n_known = 0

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Find the owner, or the mixture, of every variable; the last slot alone may be new."""
        tables, order = self.tables, order.contiguous()
        n_slots = order.shape[1]
        if without >= 0 or n_slots != self._n_known + 1:
            self._clear()
        owners_kernel[self._grid()](
            self.x, order, tables.parameters, tables.ranks, tables.levels, self._peak, self._top,
            self._share, self.shape[0], self.n_features, tables.n_experts, n_slots,
            self._n_known, without,
            GAUSSIAN=tables.gaussian, SMOOTHED=self.smoothed, **self._tile,
        )  # fmt: skip
        self._n_known = n_slots if without < 0 else -1

    def lane_gains(self) -> Tensor:
        """Gains of all lanes, those that only fill up included, shape (n_rows, n_lanes)."""
        n_rows, n_lanes = self.shape[0], self.tables.n_lanes
        lanes = min(LANES, n_lanes)
        rows = TILE // lanes
        n_splits = triton.cdiv(self.n_features, SPLIT)
        device = self.x.device
        partial = torch.empty((n_splits, n_rows, n_lanes), dtype=torch.float32, device=device)
        grid = (triton.cdiv(n_rows, rows), n_lanes // lanes, n_splits)
        gains_kernel[grid](
            self.x, self._parameters, self._ranks, self._levels, self._peak, self._top,
            self._share, partial, n_rows, self.n_features, n_lanes,
            GAUSSIAN=self.tables.gaussian, SMOOTHED=self.smoothed, EMPTY=self._n_known == 0,
            ROWS=rows, LANES=lanes, SPLIT=SPLIT,
        )  # fmt: skip
        gains = torch.empty((n_rows, n_lanes), dtype=torch.float64, device=device)
        unit = math.log(2.0) if self.smoothed else 1.0
        total_kernel[grid[:2]](
            partial, gains, unit, n_rows, n_lanes, n_splits, ROWS=rows, LANES=lanes
        )
        return gains

    def gains(self) -> Tensor:
        """Change of the score by each further expert, shape (n_rows, n_experts)."""
        return self.lane_gains()[:, : self.shape[1]]

    def log_likelihood(self) -> Tensor:
        """Log P(x | h) of every row under the hard rule."""
        return self._share.sum(dim=0, dtype=torch.float64)
