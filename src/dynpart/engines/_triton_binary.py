"""Kernels for binary rows that one program can hold: a whole pursuit in a launch or three.

A binary variable has two possible log-densities, so the first gains are a product of the rows with
a table, exact on tensor cores once the table is split into three half-precision parts; the second
gains are the same among rows with the same first expert. From then on every row goes its own way,
and only the variables that change hands are looked at again.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import MARGIN, Experts, PursuitRule
from dynpart.engines._torch_pursuit import levels

WIDEST = 4096
"""Variables up to which one program can hold a whole row."""
MOST = 1024
"""Experts up to which one program can hold the gains of a row."""
ROWS = 64
"""Rows of a product."""
LANES = 128
"""Experts of a product."""
WIDTH = 64
"""Variables whose terms are added in float32 in a product."""
TILE = 512
"""Values (variables x experts) a program of a single row looks at together."""
SMOOTHED_TILE = 1024
"""The same under the smoothed rule."""
PROGRAMS_PER_CORE = 16
"""Programs of single rows per multiprocessor, each with scratch memory of its own."""


def can_hold(experts: Experts, rule: PursuitRule) -> bool:
    """Whether these kernels are for such experts; single ones are not worth a compilation."""
    n_experts, n_features = experts.log2_expertise.shape
    fits = 1 < n_experts <= MOST and 1 < n_features <= WIDEST
    return experts.family.name == "bernoulli" and fits and rule.max_active > 1


@dataclass(frozen=True, eq=False)
class BinaryTables:
    """Experts as the kernels read them, by expert and by variable.

    Attributes
    ----------
    density : Tensor of shape (2, n_experts, n_features), float32
        Log-densities of the values 0 and 1.
    ranks : Tensor of shape (n_experts, n_features), uint8 or int16
    density_by_variable : Tensor of shape (2, n_features, n_lanes), float32
    ranks_by_variable : Tensor of shape (n_features, n_lanes)
    level : Tensor of shape (n_experts, n_features), float64
        Levels of expertise relative to each variable's highest.
    """

    density: Tensor
    ranks: Tensor
    density_by_variable: Tensor
    ranks_by_variable: Tensor
    level: Tensor

    @classmethod
    def of(cls, experts: Experts) -> BinaryTables:
        """Build the tables from experts held as tensors."""
        mu, n_experts = torch.as_tensor(experts.eta)[0], experts.n_experts
        density = torch.stack([torch.log1p(-mu), torch.log(mu)]).float()
        ranks = torch.as_tensor(experts.ranks).to(torch.uint8 if n_experts < 256 else torch.int16)
        n_lanes = max(16, triton.next_power_of_2(n_experts))
        return cls(
            density, ranks, _by_variable(density, n_lanes), _by_variable(ranks, n_lanes),
            levels(experts),
        )  # fmt: skip

    @property
    def n_lanes(self) -> int:
        return self.ranks_by_variable.shape[1]


def _by_variable(table: Tensor, n_lanes: int, fill: float = 0) -> Tensor:
    missing = n_lanes - table.shape[-2]
    return torch.nn.functional.pad(table.mT, (0, missing), value=fill).contiguous()


@triton.jit
def gains_kernel(
    x, members, starts, density, ranks, density_by_variable, ranks_by_variable, gains,
    n_rows, n_features, n_experts, n_lanes,
    ALONE: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Gains of all experts for rows without an expert, or for rows with the same single one."""
    block, owner = tl.program_id(0), tl.program_id(2)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    if ALONE:
        i = tl.load(starts + owner) + block * ROWS
        end = tl.load(starts + owner + 1)
        if i >= end:
            return
        i += tl.arange(0, ROWS)
        live = i < end
        row = tl.load(members + i, mask=live, other=0)
    else:
        row = block * ROWS + tl.arange(0, ROWS)
        live = row < n_rows
    total = tl.zeros([ROWS, LANES], tl.float64)
    base = tl.zeros([LANES], tl.float64)
    plane = n_features * n_lanes
    for start in range(0, n_features, WIDTH):
        d = start + tl.arange(0, WIDTH)
        inside = d < n_features
        tile = d[:, None] * n_lanes + lane[None, :]
        off = tl.load(density_by_variable + tile, mask=inside[:, None], other=0.0)
        on = tl.load(density_by_variable + plane + tile, mask=inside[:, None], other=0.0)
        if ALONE:
            its = owner * n_features + d
            owned_off = tl.load(density + its, mask=inside, other=0.0)
            owned_on = tl.load(density + n_experts * n_features + its, mask=inside, other=0.0)
            limit = tl.load(ranks + its, mask=inside, other=0).to(tl.int32)
            rank = tl.load(ranks_by_variable + tile, mask=inside[:, None], other=0).to(tl.int32)
            wins = rank < limit[:, None]
            off = tl.where(wins, off - owned_off[:, None], 0.0)
            on = tl.where(wins, on - owned_on[:, None], 0.0)
        base += tl.sum(off, axis=0).to(tl.float64)
        slope = on - off
        high = slope.to(tl.float16)
        rest = slope - high.to(tl.float32)
        middle = rest.to(tl.float16)
        low = (rest - middle.to(tl.float32)).to(tl.float16)
        ok = live[:, None] & inside[None, :]
        value = tl.load(x + row[:, None] * n_features + d[None, :], mask=ok, other=0)
        value = value.to(tl.float16)
        part = tl.dot(value, low)
        part = tl.dot(value, middle, part)
        part = tl.dot(value, high, part)
        total += part.to(tl.float64)
    here = row[:, None] * n_lanes + lane[None, :]
    tl.store(gains + here, total + base[None, :], mask=live[:, None])


@triton.jit
def hard_kernel(
    x, rows, gains, cost, density, ranks, density_by_variable, ranks_by_variable, lists,
    scratch, order, log_likelihood,
    n_rows, n_features, n_experts, n_programs, min_active, max_active, margin,
    WIDTH: tl.constexpr, SIZE: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Steps two and on of the pursuit under the hard rule, a row at a time.

    An expert that joins takes over some variables; only these change the gains of the others. They
    are listed in the program's own scratch memory, then read BLOCK by BLOCK with all experts.
    Neighbouring rows, alike in their first two experts, are worked on at the same time.
    """
    program = tl.program_id(0)
    d = tl.arange(0, WIDTH)
    inside = d < n_features
    lane = tl.arange(0, LANES)
    filler = tl.arange(0, BLOCK)
    listed = lists + program * 3 * SIZE
    numbers = scratch + program * 2 * SIZE
    plane = n_experts * n_features
    for i in range(program, n_rows, n_programs):
        row = tl.load(rows + i)
        value = tl.load(x + row * n_features + d, mask=inside, other=0).to(tl.int32)
        leader = tl.load(order + row * max_active)
        gain = tl.load(gains + row * LANES + lane) - tl.load(cost + lane)
        gain = tl.where(lane == leader, -float("inf"), gain)
        rank = tl.load(ranks + leader * n_features + d, mask=inside, other=0).to(tl.int32)
        owned = tl.load(density + value * plane + leader * n_features + d, mask=inside, other=0.0)
        step = 1
        while step < max_active:
            best = tl.max(gain, axis=0)
            k = tl.argmax(gain, axis=0)
            if (step >= min_active) & (best <= margin):
                step = max_active
            else:
                tl.store(order + row * max_active + step, k)
                its = k * n_features + d
                new_rank = tl.load(ranks + its, mask=inside, other=0).to(tl.int32)
                won = inside & (new_rank < rank)
                new = tl.load(density + value * plane + its, mask=won, other=0.0)
                place = tl.cumsum(won.to(tl.int32), axis=0) - 1
                n_won = tl.sum(won.to(tl.int32), axis=0)
                tl.store(listed + place, value * n_features + d, mask=won)
                tl.store(listed + SIZE + place, rank, mask=won)
                tl.store(listed + 2 * SIZE + place, new_rank, mask=won)
                tl.store(numbers + place, owned, mask=won)
                tl.store(numbers + SIZE + place, owned - new, mask=won)
                # Variables that fill up the last block are won by nobody.
                tl.store(listed + n_won + filler, 0 * filler)
                tl.store(listed + SIZE + n_won + filler, 0 * filler)
                tl.store(listed + 2 * SIZE + n_won + filler, 0 * filler)
                tl.debug_barrier()
                change = tl.zeros([BLOCK, LANES], tl.float32)
                for start in range(0, n_won, BLOCK):
                    j = start + filler
                    name = tl.load(listed + j)
                    was = tl.load(listed + SIZE + j)[:, None]
                    now = tl.load(listed + 2 * SIZE + j)[:, None]
                    before = tl.load(numbers + j)[:, None]
                    lead = tl.load(numbers + SIZE + j)[:, None]
                    theirs = tl.load(density_by_variable + name[:, None] * LANES + lane[None, :])
                    variable = tl.where(name >= n_features, name - n_features, name)
                    their_rank = tl.load(
                        ranks_by_variable + variable[:, None] * LANES + lane[None, :]
                    ).to(tl.int32)
                    # Who would win it still loses the new owner's lead; who no longer would, all.
                    loss = tl.where(their_rank < was, before - theirs, 0.0)
                    change += tl.where(their_rank < now, lead, loss)
                tl.debug_barrier()
                gain += tl.sum(change, axis=0).to(tl.float64)
                gain = tl.where(lane == k, -float("inf"), gain)
                rank = tl.where(won, new_rank, rank)
                owned = tl.where(won, new, owned)
                step += 1
        tl.store(log_likelihood + row, tl.sum(owned.to(tl.float64), axis=0))


@triton.jit
def smoothed_kernel(
    x, cost, level, chance, level_by_variable, chance_by_variable, scratch, order,
    n_rows, n_features, n_experts, n_programs, min_active, max_active, margin,
    WIDTH: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The whole pursuit under the smoothed rule, a row at a time.

    Every step goes over all variables with all experts: gains are sums of logarithms, of which no
    part can be kept.
    """
    program = tl.program_id(0)
    lane = tl.arange(0, LANES)
    all_d = tl.arange(0, WIDTH)
    mixture_of = scratch + program * 2 * WIDTH
    total_of = mixture_of + WIDTH
    charge = tl.load(cost + lane)
    for row in range(program, n_rows, n_programs):
        inside = all_d < n_features
        value = tl.load(x + row * n_features + all_d, mask=inside, other=0).to(tl.int32)
        mixture = tl.zeros([WIDTH], tl.float32)
        total = tl.zeros([WIDTH], tl.float32)
        taken = tl.zeros([LANES], tl.float64)
        step = 0
        while step < max_active:
            tl.store(mixture_of + all_d, mixture)
            tl.store(total_of + all_d, total)
            tl.debug_barrier()
            gain = tl.zeros([BLOCK, LANES], tl.float32)
            for start in range(0, n_features, BLOCK):
                d = start + tl.arange(0, BLOCK)
                ok = (d < n_features)[:, None]
                v = tl.load(x + row * n_features + d, mask=d < n_features, other=0).to(tl.int32)
                so_far = tl.load(mixture_of + d)[:, None]
                weight = tl.load(total_of + d)[:, None]
                theirs = tl.load(
                    level_by_variable + d[:, None] * LANES + lane[None, :], mask=ok, other=1.0
                )
                name = (v * n_features + d)[:, None]
                likely = tl.load(
                    chance_by_variable + name * LANES + lane[None, :], mask=ok, other=1.0
                )
                ratio = (so_far + theirs * likely) / (weight + theirs)
                gain += tl.where(ok, tl.log2(ratio), 0.0)
            tl.debug_barrier()
            score = tl.sum(
                tl.where(total > 0, tl.log2(mixture / total), 0.0).to(tl.float64), axis=0
            )
            gains = (tl.sum(gain.to(tl.float64), axis=0) - score) * 0.6931471805599453
            gains = gains - charge - taken
            best = tl.max(gains, axis=0)
            k = tl.argmax(gains, axis=0)
            if (step >= min_active) & (best <= margin):
                step = max_active
            else:
                tl.store(order + row * max_active + step, k)
                its = k * n_features + all_d
                joins = tl.load(level + its, mask=inside, other=0.0)
                likely_k = tl.load(
                    chance + value * n_experts * n_features + its, mask=inside, other=0.0
                )
                mixture += joins * likely_k
                total += joins
                taken = tl.where(lane == k, float("inf"), taken)
                step += 1


def pursue_hard(x: Tensor, tables: BinaryTables, rule: PursuitRule) -> tuple[Tensor, Tensor]:
    """Greedy pursuit of binary rows under the hard rule.

    Parameters
    ----------
    x : Tensor of shape (n_rows, n_features), uint8
    tables : BinaryTables
    rule : PursuitRule

    Returns
    -------
    order : Tensor of shape (n_rows, max_active), int32
    log_likelihood : Tensor of shape (n_rows,), float64
    """
    n_rows, n_features = x.shape
    n_experts, n_lanes = len(tables.ranks), tables.n_lanes
    cost = _lane_cost(rule, n_lanes, x.device)
    gains = torch.empty((n_rows, n_lanes), dtype=torch.float64, device=x.device)
    lanes, blocks = min(LANES, n_lanes), triton.cdiv(n_rows, ROWS)

    def fill_gains(members: Tensor, starts: Tensor, n_owners: int, *, alone: bool) -> None:
        gains_kernel[(blocks, n_lanes // lanes, n_owners)](
            x, members, starts, tables.density, tables.ranks, tables.density_by_variable,
            tables.ranks_by_variable, gains, n_rows, n_features, n_experts, n_lanes,
            ALONE=alone, ROWS=ROWS, LANES=lanes, WIDTH=WIDTH, num_warps=8,
        )  # fmt: skip

    fill_gains(x, x, 1, alone=False)
    first = (gains - cost).argmax(dim=1)
    owner, members = first.int().sort(stable=True)
    experts = torch.arange(n_experts + 1, dtype=torch.int32, device=x.device)
    starts = torch.searchsorted(owner, experts, out_int32=True)
    fill_gains(members, starts, n_experts, alone=True)
    # Rows that begin alike look at the same variables: side by side they share what is read.
    alike = (first * n_lanes + (gains - cost).argmax(dim=1)).int().argsort()
    order = torch.full((n_rows, rule.max_active), -1, dtype=torch.int32, device=x.device)
    order[:, 0] = first
    log_likelihood = torch.empty(n_rows, dtype=torch.float64, device=x.device)
    width = max(64, triton.next_power_of_2(n_features))
    n_programs = min(n_rows, _programs(x.device))
    block = max(1, TILE // n_lanes)
    size = width + block
    lists = torch.empty((n_programs, 3, size), dtype=torch.int32, device=x.device)
    scratch = torch.zeros((n_programs, 2, size), dtype=torch.float32, device=x.device)
    hard_kernel[(n_programs,)](
        x, alike, gains, cost, tables.density, tables.ranks, tables.density_by_variable,
        tables.ranks_by_variable, lists, scratch, order, log_likelihood, n_rows, n_features,
        n_experts, n_programs, int(rule.min_active), int(rule.max_active), MARGIN,
        WIDTH=width, SIZE=size, LANES=n_lanes, BLOCK=block, num_warps=_warps(width),
    )  # fmt: skip
    return order, log_likelihood


def pursue_smoothed(x: Tensor, tables: BinaryTables, rule: PursuitRule) -> Tensor:
    """Greedy pursuit of binary rows under the smoothed rule.

    Returns
    -------
    order : Tensor of shape (n_rows, max_active), int32
    """
    n_rows, n_features = x.shape
    n_experts, n_lanes = len(tables.ranks), tables.n_lanes
    level, chance = tables.level.float(), tables.density.exp()
    order = torch.full((n_rows, rule.max_active), -1, dtype=torch.int32, device=x.device)
    width = max(64, triton.next_power_of_2(n_features))
    n_programs = min(n_rows, _programs(x.device))
    scratch = torch.empty((n_programs, 2, width), dtype=torch.float32, device=x.device)
    smoothed_kernel[(n_programs,)](
        x, _lane_cost(rule, n_lanes, x.device), level, chance, _by_variable(level, n_lanes, 1.0),
        _by_variable(chance, n_lanes, 1.0), scratch, order, n_rows, n_features, n_experts,
        n_programs, int(rule.min_active), int(rule.max_active), MARGIN,
        WIDTH=width, LANES=n_lanes, BLOCK=max(1, SMOOTHED_TILE // n_lanes),
        num_warps=_warps(width),
    )  # fmt: skip
    return order


def _lane_cost(rule: PursuitRule, n_lanes: int, device: Any) -> Tensor:
    """Costs of all lanes; those that only fill up can never be paid."""
    cost = torch.full((n_lanes,), torch.inf, dtype=torch.float64)
    cost[: len(rule.cost)] = torch.as_tensor(rule.cost)
    return cost.to(device)


def _programs(device: Any) -> int:
    """How many programs of single rows to start."""
    if device.type != "cuda":
        return 4
    return PROGRAMS_PER_CORE * torch.cuda.get_device_properties(device).multi_processor_count


def _warps(width: int) -> int:
    """Warps of a program that holds a row."""
    return 4 if width <= 2048 else 8
