"""The kernel that refines codes: experts are exchanged, dropped and added while this improves.

A program refines one row after the other, each as soon as it is free. The state of a row is in
scratch memory, in registers only what concerns all experts.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import MARGIN, NEARLY, PursuitRule
from dynpart.engines._triton_charges import (
    ALL_TYPES,
    change_odds,
    costs_in_type,
    costs_without,
    find_values,
    first_odds,
    judged,
    mark_active,
    mixed_costs,
)
from dynpart.engines._triton_holders import (
    change_holders,
    earnings,
    enter_all,
    enter_owned,
    enter_won,
    explained,
    find_holders,
    list_owned,
    put_weakest_first,
)
from dynpart.engines._triton_lists import (
    best_expert,
    change_gains,
    entry_layout,
    n_lanes_read,
)
from dynpart.engines._triton_tables import LaneCharges, n_blocks, power_of_two

READ_AT_ONCE = 2
"""Listed variables that a warp reads at a time: most lists are short."""
SPANS = tl.constexpr(4)
"""Chunks of variables among which those of an expert are looked for at a time."""
CHECK = tl.constexpr(0)
ADD = tl.constexpr(1)
BACKGROUND_JOINS = tl.constexpr(2)
BACKGROUND_LEAVES = tl.constexpr(3)
STOP = tl.constexpr(4)
"""Next step of the refinement of a row."""
SETTLES = tl.constexpr(0)
AS_ANOTHER_TYPE = tl.constexpr(1)
FREELY_AGAIN = tl.constexpr(2)
"""Current search of a row; the last two occur only if rows have types."""
NEARLY_AS_GOOD = tl.constexpr(NEARLY)


@dataclass(frozen=True, eq=False)
class Scratch:
    """Memory of the programs that refine codes, one row per program at a time.

    Attributes
    ----------
    owners, heirs : Tensor of shape (n_programs, size), int32
        Keys of the owners and heirs of variables.
    listed : Tensor of shape (n_programs, size), int32
        Some variables.
    entries : Tensor of shape (n_programs, size), uint32
    numbers : Tensor of shape (n_programs, 2, size), float32
        A list of variables, with two numbers per entry.
    vectors : Tensor of shape (n_programs, 4, n_lanes), float64
        Gains of all experts over the code, and without one of its experts; costs, likewise.
    values : Tensor of shape (n_programs, n_types padded), float64
        The objective of the code without log P(x | h), by type.
    kept : Tensor of shape (n_programs, n_slots), int32
        A code.
    flags : Tensor of shape (n_programs, n_lanes), int8
        Flags of active experts.
    odds : Tensor of shape (n_programs, n_types, n_lanes), float32
        Odds of all experts in every type, given the active ones.
    near : Tensor of shape (n_programs, n_types padded), int32
    shares : Tensor of shape (n_programs, n_types padded), float32
        Types that count, and their shares.
    """

    owners: Tensor
    heirs: Tensor
    listed: Tensor
    entries: Tensor
    numbers: Tensor
    vectors: Tensor
    values: Tensor
    kept: Tensor
    flags: Tensor
    log_odds: Tensor
    near: Tensor
    shares: Tensor

    @classmethod
    def of(cls, n_programs: int, n_features: int, n_slots: int, charges: LaneCharges) -> Scratch:
        """Scratch for this many programs, variables and slots of codes."""
        (n_types, n_lanes), device = charges.log_odds.shape, charges.log_odds.device
        size = 8 * n_blocks(n_features, 8)

        def new(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.empty((n_programs, *shape), dtype=dtype, device=device)

        return cls(
            new(size, dtype=torch.int32),
            new(size, dtype=torch.int32),
            new(size, dtype=torch.int32),
            new(size, dtype=torch.uint32),
            new(2, size, dtype=torch.float32),
            new(4, n_lanes, dtype=torch.float64),
            new(len(charges.constant), dtype=torch.float64),
            new(power_of_two(n_slots), dtype=torch.int32),
            new(n_lanes, dtype=torch.int8),
            new(n_types, n_lanes, dtype=torch.float32),
            new(len(charges.constant), dtype=torch.int32),
            new(len(charges.constant), dtype=torch.float32),
        )

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """As `refine_kernel` takes them."""
        return (
            self.owners, self.heirs, self.listed, self.entries, self.numbers, self.vectors,
            self.values, self.kept, self.flags, self.log_odds, self.near, self.shares,
        )  # fmt: skip


def refine(
    x: Tensor,
    gains: Tensor,
    charges: LaneCharges,
    tables: tuple[Tensor, ...],
    tops: Tensor,
    memory: Scratch,
    order: Tensor,
    log_likelihood: Tensor,
    rule: PursuitRule,
    *,
    formula: bool,
    gaussian: bool,
    chunk: int,
    n_warps: int,
    n_registers: int | None = None,
    alone: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Replace greedy codes and their log-likelihoods by refined ones.

    Codes that are refined already are begun again with a single expert, if it is worth more.

    Parameters
    ----------
    x : Tensor of shape (n_rows, n_features)
    gains : Tensor of shape (n_rows, n_lanes)
        Gains of all experts over the codes, minus infinity for active ones.
    charges : LaneCharges
    tables : tuple of Tensor
        Log-densities, or parameters of the `formula`, by expert; ranks; flags of values on which
        all experts agree; the first two by variable.
    tops : Tensor
        The largest log-densities of the values of a variable under any expert.
    memory : Scratch
    order : Tensor of shape (n_rows, max_active), int32
    log_likelihood : Tensor of shape (n_rows,)
    rule : PursuitRule
    formula, gaussian : bool
        Whether log-densities are computed by a formula, and by that of normal distributions.
    chunk, n_warps : int
        Variables that a program processes together, and its warps.
    n_registers : int, default=None
        Maximum number of registers per thread.
    alone : tuple of Tensor, optional
        The objective of the best single expert of each row, float64, and its index, int32. If
        given, codes are refined already, and `gains` is not read.
    """
    (n_rows, n_features), n_lanes = x.shape, gains.shape[1]
    n_experts, n_programs = len(tables[1]), min(n_rows, len(memory.owners))
    next_row = torch.zeros(1, dtype=torch.int32, device=x.device)
    singles = (log_likelihood, order) if alone is None else alone
    refine_kernel[(n_programs,)](
        x, gains, *charges[:-1], *tables, tops, *memory.parts, order, log_likelihood, *singles,
        next_row, int(alone is not None), memory.log_odds.shape[1], n_rows, n_features, n_experts,
        n_lanes_read(n_experts), memory.owners.shape[1], int(rule.n_swaps), int(rule.min_active),
        int(rule.max_active), MARGIN,
        FORMULA=formula, GAUSSIAN=gaussian, CHUNK=chunk, LANES=n_lanes,
        BLOCK=READ_AT_ONCE * n_warps, SLOTS=memory.kept.shape[1],
        JOINT=rule.prior is not None, TYPES=memory.near.shape[1], num_warps=n_warps,
        maxnreg=n_registers, **entry_layout(n_experts),
    )  # fmt: skip


def best_alone(gains: Tensor, charges: LaneCharges) -> tuple[Tensor, Tensor]:
    """The objective of the best single expert of each row, and its index, for `refine`.

    `gains` are the log-likelihoods of all experts alone.
    """
    worth, expert = (gains + charges.alone).max(dim=1)
    return worth, expert.int()


@triton.jit(do_not_specialize=["again"])
def refine_kernel(
    x, gains, constant, cost, parent, bond, cost_by_expert, parent_by_expert, bond_by_expert,
    reference, odds_alone, starts, neighbours, bonds, density, ranks, agreed, by_variable,
    ranks_by_variable, tops, owners, heirs, listed, entries, numbers, vectors, values, kept, flags,
    log_odds, near, shares, order, log_likelihood, worth_alone, expert_alone, next_row, again,
    n_types, n_rows, n_features, n_experts, n_read, size, n_swaps, min_active, max_active, margin,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr,
    BLOCK: tl.constexpr, SLOTS: tl.constexpr, JOINT: tl.constexpr, TYPES: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Exchange, drop and add experts of a code while this improves it, a row at a time.

    The last expert is the background expert. It is added to a greedy code while the third of its
    experts that add least is examined, then removed; if the code that settles after that is worse
    than the greedy code, the greedy code settles instead.

    If an expert is removed, only the variables it owns pass to their heirs: the gains of all
    experts, known for the whole code, change by these alone. Log-densities are read from tables of
    both values of a binary variable (`density`, `by_variable`), or computed by the FORMULA of the
    family from parameters in the same place. `tops` are the largest log-densities of the values of
    a variable under any expert, by value, or by row and variable with a FORMULA. `gains` holds the
    gains over the codes; see `LaneCharges` and `Scratch` for the rest.

    An expert stays if no expert can replace it. Without it, a variable adds to a gain at most its
    top minus the heir's log-density; variables for which this is small are counted with the bound.

    Charges of a code (`constant` and so on) are a sum over types of rows. While the background
    expert is active, they are those of the most probable type of the greedy code. A code that has
    settled settles again under the second most probable type, and then under all types, if that
    type is nearly as probable as the best.

    A code that is refined `again` has settled; a single expert that is worth more settles instead,
    unless the code that this leads to is not better.
    """
    program = tl.program_id(0)
    lane, slots = tl.arange(0, LANES), tl.arange(0, SLOTS)
    owners += program * size
    heirs += program * size
    listed += program * size
    entries += program * size
    numbers += program.to(tl.int64) * 2 * size
    gain = vectors + program * 4 * LANES
    without, costs, alone = gain + LANES, gain + 2 * LANES, gain + 3 * LANES
    values += program * TYPES
    kept += program * SLOTS
    flags += program * LANES
    log_odds += program.to(tl.int64) * n_types * LANES
    near += program * TYPES
    shares += program * TYPES
    background = n_experts - 1
    row = tl.atomic_add(next_row, 1)
    while row < n_rows:
        nobody = 0 * row - 1
        mine = x + row * n_features
        codes = order + row * max_active
        code = tl.load(codes + slots, mask=slots < max_active, other=-1)
        tl.store(kept + slots, code)
        n_greedy = tl.sum((code >= 0).to(tl.int32), axis=0)
        n_active = n_greedy
        tl.store(gain + lane, tl.load(gains + row * LANES + lane))
        mark_active(codes, n_active, flags, SLOTS, LANES)
        find_values(
            codes, n_active, flags, values, constant, cost_by_expert, parent_by_expert,
            bond_by_expert, JOINT, TYPES,
        )  # fmt: skip
        if again == 0:
            find_holders(
                mine, codes, n_active, nobody, ranks, agreed, owners, heirs, n_features, n_experts,
                FORMULA, CHUNK,
            )  # fmt: skip
        total = tl.load(log_likelihood + row)
        plus = 0 * total + 1
        charged, kind, second, gap = judged(values, TYPES)
        greedy_worth = total + charged
        settled_worth = greedy_worth
        settled_total = total
        most = 0 * total
        guide = -1
        action = 0 + BACKGROUND_JOINS
        search = 0 + SETTLES
        falls_back = again
        replaced = 0
        begins = 1
        seat = 0
        n_unchanged = 0
        n_left = (n_active + 2) // 3
        if again > 0:
            action = 0 + STOP
            if tl.load(worth_alone + row) > settled_worth + margin:
                tl.debug_barrier()
                tl.store(codes + slots, slots * 0 - 1, mask=slots < max_active)
                tl.debug_barrier()
                tl.store(codes, tl.load(expert_alone + row))
                n_active = 0 * n_active + 1
                n_left = 0 * n_left + n_swaps - 1
                replaced = 1
                kind = 0 * kind + ALL_TYPES
                action = 0 + CHECK
                search = 0 + FREELY_AGAIN
        while action != STOP:
            if replaced > 0:
                tl.debug_barrier()
                mark_active(codes, n_active, flags, SLOTS, LANES)
                find_values(
                    codes, n_active, flags, values, constant, cost_by_expert, parent_by_expert,
                    bond_by_expert, JOINT, TYPES,
                )  # fmt: skip
                find_holders(
                    mine, codes, n_active, nobody, ranks, agreed, owners, heirs, n_features,
                    n_experts, FORMULA, CHUNK,
                )  # fmt: skip
                active = tl.load(flags + lane) > 0
                tl.store(gain + lane, tl.where(active, -float("inf"), 0.0).to(tl.float64))
                n_listed = enter_all(
                    mine, owners, entries, numbers, size, density, n_features, n_experts, FORMULA,
                    GAUSSIAN, CHUNK, VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                change_gains(
                    gain, gain, -plus, mine, entries, numbers, size, n_listed, by_variable,
                    ranks_by_variable, n_features, n_read, FORMULA, GAUSSIAN, LANES, BLOCK,
                    VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                replaced = 0
            if begins > 0:
                if kind >= 0:
                    costs_in_type(
                        codes, n_active, flags, kind, costs, cost, parent, bond, JOINT, LANES
                    )
                elif JOINT:
                    first_odds(
                        codes, n_active, log_odds, odds_alone, bonds, starts, neighbours, n_types,
                        LANES,
                    )  # fmt: skip
                    mixed_costs(
                        nobody, values, costs, reference, log_odds, near, shares, bonds, starts,
                        neighbours, n_types, TYPES, LANES,
                    )  # fmt: skip
                most, k = best_expert(gain, costs, nobody, 0 * total, LANES)
                begins = 0
            out = -1
            joins = -1
            changed = 0
            if action == CHECK:
                out = tl.load(codes + seat)
            elif action == BACKGROUND_LEAVES:
                out = background
                guide = -1
                changed = 1
            elif action == BACKGROUND_JOINS:
                joins = background
                guide = background
                changed = 1
            else:
                best, joins = best_expert(gain, costs, nobody, 0 * total, LANES)
                tl.debug_barrier()
                tl.store(codes + n_active, joins)
                n_active += 1
                n_unchanged = 0
                changed = 1
            if out >= 0:
                n_owned = list_owned(out, owners, listed, n_features, SPANS * CHUNK)
                earns = earnings(
                    mine, out, n_owned, listed, heirs, density, n_features, n_experts, FORMULA,
                    GAUSSIAN, CHUNK,
                )  # fmt: skip
                own = earns
                enough = 0 * earns - float("inf")
                if action == CHECK:
                    if kind >= 0:
                        costs_without(out, kind, costs, alone, parent, bond, JOINT, LANES)
                    elif JOINT:
                        mixed_costs(
                            out, values, alone, reference, log_odds, near, shares, bonds, starts,
                            neighbours, n_types, TYPES, LANES,
                        )  # fmt: skip
                    own = earns - tl.load(alone + out)
                    has_heirs = (n_active > 1) | (guide >= 0)
                    if has_heirs & (n_owned > 0) & (own > most) & (own > margin):
                        enough = (own - most) / n_owned
                n_large, rest = enter_owned(
                    mine, row, out, n_owned, enough.to(tl.float32), listed, heirs, entries, numbers,
                    size, density, ranks, tops, n_features, n_experts, FORMULA, GAUSSIAN, CHUNK,
                    VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                change_gains(
                    gain, without, -plus, mine, entries, numbers, size, n_large, by_variable,
                    ranks_by_variable, n_features, n_read, FORMULA, GAUSSIAN, LANES, BLOCK,
                    VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                stays = 0
                if enough > 0:
                    at_most, k = best_expert(without, alone, nobody, 0 * total, LANES)
                    if at_most + rest <= own + margin:
                        stays = 1
                if (stays == 0) & (n_large < n_owned):
                    change_gains(
                        without, without, -plus, mine, entries + n_large, numbers + n_large, size,
                        n_owned - n_large, by_variable, ranks_by_variable, n_features, n_read,
                        FORMULA, GAUSSIAN, LANES, BLOCK, VARIABLE_BITS, RANK_BITS,
                    )  # fmt: skip
                if stays > 0:
                    n_unchanged += 1
                    seat += 1
                elif action == CHECK:
                    best, k = best_expert(without, alone, out, earns, LANES)
                    if (n_active > min_active) & (best <= margin):
                        # The last expert moves to the free seat, and is examined next.
                        n_active -= 1
                        last = tl.load(codes + n_active)
                        tl.debug_barrier()
                        tl.store(codes + n_active, -1)
                        if seat < n_active:
                            tl.store(codes + seat, last)
                        n_unchanged = 0
                        changed = 1
                    elif best > own + margin:
                        joins = k
                        tl.store(codes + seat, k)
                        n_unchanged = 1
                        seat += 1
                        changed = 1
                    else:
                        n_unchanged += 1
                        seat += 1
                if changed > 0:
                    now = tl.load(without + lane)
                    tl.store(gain + lane, tl.where(lane == out, earns, now))
                    tl.debug_barrier()
            if joins >= 0:
                n_won = enter_won(
                    mine, out, joins, owners, heirs, entries, numbers, size, density, ranks,
                    n_features, n_experts, FORMULA, GAUSSIAN, CHUNK, VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                change_gains(
                    gain, gain, plus, mine, entries, numbers, size, n_won, by_variable,
                    ranks_by_variable, n_features, n_read, FORMULA, GAUSSIAN, LANES, BLOCK,
                    VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                tl.store(gain + joins, 0 * total - float("inf"))
                tl.debug_barrier()
            if changed > 0:
                change_holders(
                    codes, n_active, guide, out, joins, ranks, owners, heirs, listed, n_features,
                    n_experts, CHUNK,
                )  # fmt: skip
                if JOINT:
                    of_code = (action == CHECK) | (action == ADD)
                    if of_code:
                        mark_active(codes, n_active, flags, SLOTS, LANES)
                        find_values(
                            codes, n_active, flags, values, constant, cost_by_expert,
                            parent_by_expert, bond_by_expert, JOINT, TYPES,
                        )  # fmt: skip
                        if kind >= 0:
                            costs_in_type(
                                codes, n_active, flags, kind, costs, cost, parent, bond, JOINT,
                                LANES,
                            )  # fmt: skip
                        else:
                            if out >= 0:
                                change_odds(out, -1.0, log_odds, bonds, starts, neighbours)
                            if joins >= 0:
                                change_odds(joins, 1.0, log_odds, bonds, starts, neighbours)
                # In all types costs are those without an expert: accurate enough for this use.
                if (kind < 0) & (action == CHECK):
                    most, k = best_expert(gain, alone, nobody, 0 * total, LANES)
                else:
                    most, k = best_expert(gain, costs, nobody, 0 * total, LANES)
            if action == BACKGROUND_JOINS:
                put_weakest_first(
                    mine, codes, costs, density, n_active, n_left, margin, owners, heirs,
                    n_features, n_experts, max_active, FORMULA, GAUSSIAN, CHUNK, SLOTS,
                )  # fmt: skip
            elif action == BACKGROUND_LEAVES:
                n_left = n_swaps * n_active
                n_unchanged = 0
                seat = 0
                begins = 1
                if JOINT:
                    kind = 0 * kind + ALL_TYPES
            looks = ((n_unchanged < n_active) & (n_left > 0)).to(tl.int32)
            best = 0 * total - float("inf")
            if (looks == 0) & (n_active < max_active):
                if JOINT:
                    free = kind < 0
                    if free:
                        mixed_costs(
                            nobody, values, costs, reference, log_odds, near, shares, bonds,
                            starts, neighbours, n_types, TYPES, LANES,
                        )  # fmt: skip
                best, k = best_expert(gain, costs, nobody, 0 * total, LANES)
            if looks > 0:
                seat = tl.where(seat < n_active, seat, 0)
                action = 0 + CHECK
                n_left -= 1
            elif best > margin:
                action = 0 + ADD
            elif guide >= 0:
                action = 0 + BACKGROUND_LEAVES
            else:
                total = explained(
                    mine, owners, density, n_features, n_experts, FORMULA, GAUSSIAN, CHUNK
                )
                if not JOINT:
                    find_values(
                        codes, n_active, flags, values, constant, cost_by_expert, parent_by_expert,
                        bond_by_expert, JOINT, TYPES,
                    )  # fmt: skip
                charged, _first, second, gap = judged(values, TYPES)
                found = total + charged
                if (falls_back == 0) & (found < greedy_worth - margin):
                    falls_back = 1
                    begins = 1
                    replaced = 1
                    tl.debug_barrier()
                    tl.store(codes + slots, tl.load(kept + slots), mask=slots < max_active)
                    n_active = n_greedy
                elif search == FREELY_AGAIN:
                    if found <= settled_worth + margin:
                        tl.store(codes + slots, tl.load(kept + slots), mask=slots < max_active)
                        total = settled_total
                elif search == AS_ANOTHER_TYPE:
                    code = tl.load(codes + slots, mask=slots < max_active, other=-1)
                    if tl.sum((code != tl.load(kept + slots)).to(tl.int32), axis=0) > 0:
                        search = 0 + FREELY_AGAIN
                        kind = 0 * kind + ALL_TYPES
                        begins = 1
                elif gap <= NEARLY_AS_GOOD:
                    tl.debug_barrier()
                    code = tl.load(codes + slots, mask=slots < max_active, other=-1)
                    tl.store(kept + slots, code)
                    settled_worth = found
                    settled_total = total
                    search = 0 + AS_ANOTHER_TYPE
                    kind = second
                    falls_back = 1
                    begins = 1
                action = 0 + STOP
                if begins > 0:
                    tl.debug_barrier()
                    seat = 0
                    n_unchanged = 0
                    n_left = n_swaps * n_active - 1
                    action = 0 + CHECK
        tl.store(log_likelihood + row, total)
        tl.debug_barrier()
        row = tl.atomic_add(next_row, 1)
