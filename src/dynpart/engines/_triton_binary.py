"""Kernels for binary rows that one program can hold: a whole pursuit in a few launches.

A binary variable has two possible log-densities, so the first gains are a product of the rows with
a table, exact on tensor cores once the table is split into three half-precision parts; the second
gains are the same among rows with the same first expert. After that every row is processed
separately, and only variables that change their owner are read again.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import MARGIN, Experts, PursuitRule
from dynpart.engines._torch_codes import best_start
from dynpart.engines._triton_codes import rows_by_expert
from dynpart.engines._triton_lists import (
    can_list,
    change_of_gains,
    entry_layout,
    n_lanes_read,
    noted,
)
from dynpart.engines._triton_refine import Scratch, best_alone, refine
from dynpart.engines._triton_tables import (
    BinaryTables,
    lane_charges,
    lane_cost,
    n_blocks,
    power_of_two,
)

WIDEST = 4096
"""Variables up to which one program can hold a whole row."""
MOST = 1024
"""Experts up to which one program can hold the gains of a row."""
RAREST = 1e-8
"""Probability below which a product of four may leave the range of float32."""
ROWS = 64
"""Rows of a product."""
LANES = 128
"""Experts of a product, and of a warp in a program of a single row."""
WIDTH = 64
"""Variables whose terms are added in float32 in a product."""
BLOCK = 4
"""Changed variables that a program of a single row reads at a time."""
SMOOTHED_TILE = 1024
"""Values (variables x experts) that are processed together under the smoothed rule."""
TOGETHER = 4
"""Factors whose logarithm is taken together."""
REGISTERS = 64
"""Registers per thread under the smoothed rule: with more, too few rows run concurrently."""
PROGRAMS_PER_CORE = 64
"""Warps of single rows per multiprocessor, each with scratch memory of its own."""
REFINERS_PER_CORE = 32
"""The same if they refine codes, which takes more registers."""
REFINE_LANES, REFINE_CHUNK = 64, 32
"""Experts and variables of a warp if it refines codes."""
REFINE_REGISTERS = 96
"""Registers per thread that refines codes: with more, too few rows run at the same time."""
HARD_REGISTERS = 96
"""The same of a thread that finds greedy codes."""


def can_hold(experts: Experts, rule: PursuitRule) -> bool:
    """Whether these kernels support such experts; a single one is not worth a compilation."""
    if not experts.family.is_binary:
        return False
    n_features = experts.log2_expertise.shape[1]
    # The background expert counts if codes are refined, whether it has been added or not.
    n_experts = len(rule.cost) + bool(rule.n_swaps)
    fits = 1 < n_experts <= MOST and 1 < n_features <= WIDEST
    return (
        fits
        and can_list(2 * n_features, n_experts)
        and experts.family.clip >= RAREST
        and rule.max_active > 1
    )


@triton.jit
def gains_kernel(
    x, members, counts, density, ranks, by_variable, ranks_by_variable, gains,
    n_rows, n_features, n_experts, n_lanes,
    ALONE: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Gains of all experts for rows without an expert, or for groups with the same single one."""
    block, owner = tl.program_id(0), tl.program_id(2)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    i = block * ROWS + tl.arange(0, ROWS)
    if ALONE:
        count = tl.load(counts + owner)
        if block * ROWS >= count:
            return
        live = i < count
        row = tl.load(members + owner * n_rows + i, mask=live, other=0)
    else:
        row = i
        live = row < n_rows
    total = tl.zeros([ROWS, LANES], tl.float64)
    base = tl.zeros([LANES], tl.float64)
    plane = n_features * n_lanes
    for start in range(0, n_features, WIDTH):
        d = start + tl.arange(0, WIDTH)
        inside = d < n_features
        tile = d[:, None] * n_lanes + lane[None, :]
        off = tl.load(by_variable + tile, mask=inside[:, None], other=0.0)
        on = tl.load(by_variable + plane + tile, mask=inside[:, None], other=0.0)
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
def first_kernel(
    gains, cost, order, n_rows, max_active, place, ROWS: tl.constexpr, LANES: tl.constexpr
):
    """The best single expert of each row, or the one in another place of that order."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)
    live = row < n_rows
    gain = tl.load(gains + row[:, None] * LANES + lane[None, :], mask=live[:, None], other=0.0)
    gain -= tl.load(cost + lane)[None, :]
    best = tl.argmax(gain, axis=1)
    for _ in range(place):
        gain = tl.where(lane[None, :] == best[:, None], -float("inf"), gain)
        best = tl.argmax(gain, axis=1)
    tl.store(order + row * max_active, best, mask=live)


@triton.jit
def hard_kernel(
    x, gains, cost, density, ranks, agreed, by_variable, ranks_by_variable, held_ranks, held,
    entries, numbers, order, log_likelihood,
    n_rows, n_features, n_experts, n_read, n_programs, size, min_active, max_active, margin,
    KEEP: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Steps two and on of the pursuit under the hard rule, a row at a time.

    A new expert takes over some variables; only these change the gains of the others. They are
    listed in the program's own scratch memory, with the owner's ranks and log-densities, then read
    BLOCK by BLOCK with all experts. Few values are in registers, so many rows run concurrently.
    Variables on which all experts agree have rank 0, so they are never listed. KEEP: gains over the
    code are stored.
    """
    program = tl.program_id(0)
    lane, part = tl.arange(0, LANES), tl.arange(0, CHUNK)
    held_ranks += program * size
    held += program * size
    entries += program * size
    numbers += program * 2 * size
    plane = n_experts * n_features
    for row in range(program, n_rows, n_programs):
        mine = x + row * n_features
        leader = tl.load(order + row * max_active)
        gain = tl.load(gains + row * LANES + lane) - tl.load(cost + lane)
        gain = tl.where(lane == leader, -float("inf"), gain)
        for start in range(0, n_features, CHUNK):
            d = start + part
            inside = d < n_features
            its = leader * n_features + d
            value = tl.load(mine + d, mask=inside, other=0).to(tl.int32)
            same = tl.load(agreed + value * n_features + d, mask=inside, other=0) > 0
            rank = tl.load(ranks + its, mask=inside & (same == 0), other=0)
            tl.store(held_ranks + d, rank, mask=inside)
            owned = tl.load(density + value * plane + its, mask=inside, other=0.0)
            tl.store(held + d, owned, mask=inside)
        step = 1
        while step < max_active:
            best, k = tl.max(gain, axis=0, return_indices=True)
            if (step >= min_active) & (best <= margin):
                step = max_active
            else:
                tl.store(order + row * max_active + step, k)
                n_won = 0
                for start in range(0, n_features, CHUNK):
                    d = start + part
                    inside = d < n_features
                    its = k * n_features + d
                    was = tl.load(held_ranks + d, mask=inside, other=0).to(tl.uint32)
                    now = tl.load(ranks + its, mask=inside, other=0).to(tl.uint32)
                    won = now < was
                    value = tl.load(mine + d, mask=won, other=0).to(tl.int32)
                    before = tl.load(held + d, mask=won, other=0.0)
                    after = tl.load(density + value * plane + its, mask=won, other=0.0)
                    n_won = noted(
                        entries, numbers, size, n_won, won, was, now, value * n_features + d,
                        before, after, VARIABLE_BITS, RANK_BITS,
                    )  # fmt: skip
                    tl.store(held_ranks + d, now.to(held_ranks.dtype.element_ty), mask=won)
                    tl.store(held + d, after, mask=won)
                step += 1
                if KEEP or step < max_active:
                    gain += change_of_gains(
                        mine, entries, numbers, size, n_won, by_variable, ranks_by_variable,
                        n_features, n_read, False, False, LANES, BLOCK, VARIABLE_BITS, RANK_BITS,
                    )  # fmt: skip
                    gain = tl.where(lane == k, -float("inf"), gain)
        if KEEP:
            tl.store(gains + row * LANES + lane, gain)
        tl.debug_barrier()
        total = tl.zeros([CHUNK], tl.float64)
        for start in range(0, n_features, CHUNK):
            d = start + part
            total += tl.load(held + d, mask=d < n_features, other=0.0).to(tl.float64)
        tl.store(log_likelihood + row, tl.sum(total, axis=0))
        tl.debug_barrier()


@triton.jit
def smoothed_kernel(
    x, cost, level, chance, ranks, level_by_variable, weighted_by_variable, scratch, order,
    log_likelihood,
    n_rows, n_features, n_experts, n_programs, min_active, max_active, margin,
    WIDTH: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """The whole pursuit under the smoothed rule, a row at a time.

    Every step goes over all variables with all experts: gains are sums of logarithms, which
    cannot be updated in parts. The owners under the hard rule are stored too, for the
    log-likelihood.
    """
    program = tl.program_id(0)
    lane = tl.arange(0, LANES)
    all_d = tl.arange(0, WIDTH)
    inside = all_d < n_features
    mixture_of = scratch + program * 2 * WIDTH
    total_of = mixture_of + WIDTH
    charge = tl.load(cost + lane)
    plane = n_experts * n_features
    for row in range(program, n_rows, n_programs):
        value = tl.load(x + row * n_features + all_d, mask=inside, other=0).to(tl.int32)
        mixture = tl.zeros([WIDTH], tl.float32)
        total = tl.zeros([WIDTH], tl.float32)
        best_rank = tl.zeros([WIDTH], tl.int32) + n_experts
        owned = tl.zeros([WIDTH], tl.float32) + 1.0
        taken = tl.zeros([LANES], tl.float64)
        step = 0
        while step < max_active:
            tl.store(mixture_of + all_d, mixture)
            tl.store(total_of + all_d, total)
            tl.debug_barrier()
            gain = tl.zeros([BLOCK, LANES], tl.float32)
            for start in range(0, n_features, TOGETHER * BLOCK):
                product = tl.zeros([BLOCK, LANES], tl.float32) + 1.0
                for u in tl.static_range(TOGETHER):
                    # Variables beyond the last have probability 1 under all experts.
                    d = start + u * BLOCK + tl.arange(0, BLOCK)
                    ok = d < n_features
                    v = tl.load(x + row * n_features + d, mask=ok, other=0).to(tl.int32)
                    so_far = tl.load(mixture_of + d, mask=ok, other=0.0)[:, None]
                    weight = tl.load(total_of + d, mask=ok, other=0.0)[:, None]
                    theirs = tl.load(
                        level_by_variable + (d * LANES)[:, None] + lane[None, :],
                        mask=ok[:, None], other=1.0,
                    )  # fmt: skip
                    name = (v * n_features + d) * LANES
                    weighted = tl.load(
                        weighted_by_variable + name[:, None] + lane[None, :],
                        mask=ok[:, None], other=1.0,
                    )  # fmt: skip
                    product *= (so_far + weighted) / (weight + theirs)
                gain += tl.log2(product)
            tl.debug_barrier()
            empty = total == 0
            so_far = tl.where(empty, 1.0, mixture) / tl.where(empty, 1.0, total)
            score = tl.sum(tl.log2(so_far).to(tl.float64), axis=0)
            gains = (tl.sum(gain.to(tl.float64), axis=0) - score) * 0.6931471805599453
            gains = gains - charge - taken
            best, k = tl.max(gains, axis=0, return_indices=True)
            if (step >= min_active) & (best <= margin):
                step = max_active
            else:
                tl.store(order + row * max_active + step, k)
                its = k * n_features + all_d
                joins = tl.load(level + its, mask=inside, other=0.0)
                likely = tl.load(chance + value * plane + its, mask=inside, other=1.0)
                rank = tl.load(ranks + its, mask=inside, other=0).to(tl.int32)
                mixture += joins * likely
                total += joins
                owned = tl.where(rank < best_rank, likely, owned)
                best_rank = tl.minimum(rank, best_rank)
                taken = tl.where(lane == k, float("inf"), taken)
                step += 1
        tl.store(log_likelihood + row, tl.sum(tl.log(owned.to(tl.float64)), axis=0))


def pursue_hard(x: Tensor, tables: BinaryTables, rule: PursuitRule) -> tuple[Tensor, Tensor]:
    """Pursuit of binary rows under the hard rule: greedy, then refined, from each start.

    If rows have types, refined codes are compared with the best single expert, too.

    Parameters
    ----------
    x : Tensor of shape (n_rows, n_features), uint8
    tables : BinaryTables
        If the rule refines codes, the last expert is the background expert.
    rule : PursuitRule

    Returns
    -------
    order : Tensor of shape (n_rows, max_active), int32
    log_likelihood : Tensor of shape (n_rows,), float64
    """
    n_rows, n_features = x.shape
    n_experts, n_lanes, device = len(tables.ranks), tables.n_lanes, x.device
    cost = lane_cost(rule, n_lanes, device)
    gains = torch.empty((n_rows, n_lanes), dtype=torch.float64, device=device)
    warps = max(1, n_lanes // LANES)
    n_programs = min(n_rows, max(1, _warps_at_once(device) // warps))
    size = 8 * n_blocks(n_features, 8)
    scratch = torch.empty((4, n_programs, size), device=device)
    held_ranks = torch.empty((n_programs, size), dtype=tables.ranks.dtype, device=device)
    model = (
        tables.density, tables.ranks, tables.agreed, tables.by_variable, tables.ranks_by_variable,
    )  # fmt: skip
    lists = scratch[1].view(torch.uint32), scratch[2:]
    kind: dict[str, Any] = {
        "CHUNK": 128 * warps,
        "LANES": n_lanes,
        "BLOCK": BLOCK,
        "num_warps": warps,
        "maxnreg": HARD_REGISTERS,
        **entry_layout(n_experts),
    }
    limits = int(rule.min_active), int(rule.max_active), MARGIN
    if rule.n_swaps:
        charges = lane_charges(rule, n_lanes, device)
        tops = tables.density[:, :-1].amax(dim=1)
        refine_warps = max(1, n_lanes // REFINE_LANES)
        n_refiners = _warps_at_once(device) * REFINERS_PER_CORE // PROGRAMS_PER_CORE // refine_warps
        n_refiners = min(n_rows, max(1, n_refiners))
        memory = Scratch.of(n_refiners, n_features, rule.max_active, charges)
    alone: tuple[Tensor, Tensor] | None = None

    def refine_codes(order: Tensor, log_likelihood: Tensor, **begun: Any) -> None:
        refine(
            x, gains, charges, model, tops, memory, order, log_likelihood, rule,
            formula=False, gaussian=False, chunk=REFINE_CHUNK * refine_warps,
            n_warps=refine_warps, n_registers=REFINE_REGISTERS, **begun,
        )  # fmt: skip

    def pursue_from(place: int) -> tuple[Tensor, Tensor]:
        nonlocal alone
        order, log_likelihood = _empty_codes(n_rows, rule, device)
        _fill_gains(gains, x, tables, x, x, 0)
        if rule.tries_experts_alone and alone is None:
            alone = best_alone(gains, charges)
        rows = max(1, 2048 // n_lanes)
        first_kernel[(n_blocks(n_rows, rows),)](
            gains, cost, order, n_rows, rule.max_active, place, ROWS=rows, LANES=n_lanes
        )
        _fill_gains(gains, x, tables, *rows_by_expert(order[:, :1], n_experts), n_experts)
        hard_kernel[(n_programs,)](
            x, gains, cost, *model, held_ranks, scratch[0], *lists, order, log_likelihood,
            n_rows, n_features, n_experts, n_lanes_read(n_experts), n_programs, size, *limits,
            KEEP=rule.n_swaps > 0, **kind,
        )  # fmt: skip
        if rule.n_swaps:
            gains.copy_(torch.where(cost < torch.inf, gains + cost, -torch.inf))
            refine_codes(order, log_likelihood)
        return order, log_likelihood

    order, log_likelihood = best_start(pursue_from, rule)
    if alone is not None:
        refine_codes(order, log_likelihood, alone=alone)
    return order, log_likelihood


def _fill_gains(
    gains: Tensor, x: Tensor, tables: BinaryTables, members: Tensor, counts: Tensor, n_owners: int
) -> None:
    """Gains of all experts over the first one, listed by owner; over no expert if there is none."""
    (n_rows, n_features), n_lanes, n_experts = x.shape, tables.n_lanes, len(tables.ranks)
    lanes, blocks = min(LANES, n_lanes), n_blocks(n_rows, ROWS)
    gains_kernel[(blocks, n_lanes // lanes, max(1, n_owners))](
        x, members, counts, tables.density, tables.ranks, tables.by_variable,
        tables.ranks_by_variable, gains, n_rows, n_features, n_experts, n_lanes,
        ALONE=n_owners > 0, ROWS=ROWS, LANES=lanes, WIDTH=WIDTH, num_warps=8,
    )  # fmt: skip


def pursue_smoothed(x: Tensor, tables: BinaryTables, rule: PursuitRule) -> tuple[Tensor, Tensor]:
    """Greedy pursuit of binary rows under the smoothed rule.

    Parameters and results are those of :func:`pursue_hard`, but it begins with the best expert;
    the log-likelihood is that of the hard rule.
    """
    n_rows, n_features = x.shape
    n_experts, n_lanes, device = len(tables.ranks), tables.n_lanes, x.device
    order, log_likelihood = _empty_codes(n_rows, rule, device)
    width = max(64, power_of_two(n_features))
    n_programs = min(n_rows, _warps_at_once(device))
    scratch = torch.empty((n_programs, 2, width), device=device)
    smoothed_kernel[(n_programs,)](
        x, lane_cost(rule, n_lanes, device), tables.level, tables.density, tables.ranks,
        tables.level_by_variable, tables.by_variable, scratch, order, log_likelihood, n_rows,
        n_features, n_experts, n_programs, int(rule.min_active), int(rule.max_active), MARGIN,
        WIDTH=width, LANES=n_lanes, BLOCK=max(1, SMOOTHED_TILE // n_lanes), TOGETHER=TOGETHER,
        num_warps=8, maxnreg=REGISTERS,
    )  # fmt: skip
    return order, log_likelihood


def _empty_codes(n_rows: int, rule: PursuitRule, device: Any) -> tuple[Tensor, Tensor]:
    order = torch.full((n_rows, rule.max_active), -1, dtype=torch.int32, device=device)
    return order, torch.empty(n_rows, dtype=torch.float64, device=device)


@lru_cache(maxsize=16)
def _warps_at_once(device: Any) -> int:
    """Number of programs of a single warp to start."""
    if device.type != "cuda":
        return 4
    return PROGRAMS_PER_CORE * torch.cuda.get_device_properties(device).multi_processor_count
