"""The kernel that refines codes, and what it shares with the pursuit of binary rows.

Variables that change their owner are listed in the scratch memory of a row's program, each with the
two ranks, and read a few at a time with all experts.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import NEARLY
from dynpart.engines._triton_charges import (
    ALL_TYPES,
    costs_of,
    current_costs,
    log_sum,
    mark_active,
    mixed_costs,
    number,
    saved_by,
    values_of,
)
from dynpart.engines._triton_tables import log_density, n_blocks, power_of_two

ENTRY_BITS = 32
"""Bits for a listed variable, its value and two ranks."""
REFINE_BLOCK = 2
"""Listed variables that a warp reads at a time: the lists of an exchange are short."""
TERMS = tl.constexpr(128)
"""Terms that are added in float32."""
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


def can_list(n_names: int, n_experts: int) -> bool:
    """Whether entries can hold this many variables, or values of variables, and the ranks."""
    return n_names <= 1 << entry_layout(n_experts)["VARIABLE_BITS"]


def entry_layout(n_experts: int) -> dict[str, int]:
    """Bits of an entry for a rank, including that of no expert, and for the variable.

    Ranks have a minimum number of bits, which reduces the number of kernel variants.
    """
    rank_bits = max(8, n_experts.bit_length())
    return {"VARIABLE_BITS": ENTRY_BITS - 2 * rank_bits, "RANK_BITS": rank_bits}


@dataclass(frozen=True, eq=False)
class Scratch:
    """Memory of the programs that refine codes, one row per program at a time.

    Attributes
    ----------
    holders : Tensor of shape (n_programs, size), int32
        Owners and heirs of variables.
    entries : Tensor of shape (n_programs, 2, size), uint32
    numbers : Tensor of shape (n_programs, 5, size), float32
        Two lists of variables, with three and two numbers per entry.
    kept : Tensor of shape (n_programs, n_slots), int32
        A code.
    flags : Tensor of shape (n_programs, n_lanes), int8
        Flags of active experts.
    """

    holders: Tensor
    entries: Tensor
    numbers: Tensor
    kept: Tensor
    flags: Tensor

    @classmethod
    def of(
        cls, n_programs: int, n_features: int, n_slots: int, n_lanes: int, device: Any
    ) -> Scratch:
        """Scratch for this many programs and slots of codes."""
        size = 8 * n_blocks(n_features, 8)

        def new(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.empty((n_programs, *shape), dtype=dtype, device=device)

        return cls(
            new(size, dtype=torch.int32),
            new(2, size, dtype=torch.uint32),
            new(5, size, dtype=torch.float32),
            new(power_of_two(n_slots), dtype=torch.int32),
            new(n_lanes, dtype=torch.int8),
        )

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """As `refine_kernel` takes them."""
        return self.holders, self.entries, self.numbers, self.kept, self.flags


@triton.jit
def noted(
    entries, numbers, size, n_listed, listed, was, now, name, before, after, most,
    BOUNDED: tl.constexpr, VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """List variables that pass from an owner to a better one; returns the new length of the list.

    BOUNDED: `most`, the largest log-density under any expert, minus the first owner's, is stored
    too.
    """
    place = n_listed + tl.cumsum(listed.to(tl.int32), axis=0) - 1
    entry = (was << (VARIABLE_BITS + RANK_BITS)) | (now << VARIABLE_BITS) | name.to(tl.uint32)
    tl.store(entries + place, entry, mask=listed)
    tl.store(numbers + place, before, mask=listed)
    tl.store(numbers + size + place, before - after, mask=listed)
    if BOUNDED:
        tl.store(numbers + 2 * size + place, most - before, mask=listed)
    return n_listed + tl.sum(listed.to(tl.int32), axis=0)


@triton.jit
def change_of_gains(
    mine, entries, numbers, size, n_listed, by_variable, ranks_by_variable, n_features,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Change of the gains of all experts as the listed variables change their owners."""
    lane, some = tl.arange(0, LANES), tl.arange(0, BLOCK)
    plane = n_features * LANES
    total = tl.zeros([LANES], tl.float64)
    tl.debug_barrier()
    for begin in range(0, n_listed, BLOCK * TERMS):
        change = tl.zeros([BLOCK, LANES], tl.float32)
        for start in range(begin, tl.minimum(begin + BLOCK * TERMS, n_listed), BLOCK):
            j = start + some
            listed = j < n_listed
            # Entries beyond the last are zero: no expert ranks above rank 0.
            entry = tl.load(entries + j, mask=listed, other=0)
            before = tl.load(numbers + j, mask=listed, other=0.0)[:, None]
            lead = tl.load(numbers + size + j, mask=listed, other=0.0)[:, None]
            name = (entry & ((1 << VARIABLE_BITS) - 1)).to(tl.int32)
            now = ((entry >> VARIABLE_BITS) & ((1 << RANK_BITS) - 1)).to(tl.int32)[:, None]
            was = (entry >> (VARIABLE_BITS + RANK_BITS)).to(tl.int32)[:, None]
            variable = tl.where(name >= n_features, name - n_features, name)
            here = (variable * LANES)[:, None] + lane[None, :]
            if FORMULA:
                value = tl.load(mine + variable).to(tl.float32)[:, None]
                first, second = tl.load(by_variable + here), tl.load(by_variable + plane + here)
                third = first
                if GAUSSIAN:
                    third = tl.load(by_variable + 2 * plane + here)
                theirs = log_density(value, first, second, third, GAUSSIAN)
            else:
                theirs = tl.load(by_variable + (name * LANES)[:, None] + lane[None, :])
            rank = tl.load(ranks_by_variable + here).to(tl.int32)
            # Experts above the new owner lose its lead; those in between, their whole gain.
            loss = tl.where(rank < was, before - theirs, 0.0)
            change += tl.where(rank < now, lead, loss)
        total += tl.sum(change, axis=0).to(tl.float64)
    tl.debug_barrier()
    return total


@triton.jit
def sort_out(entries, numbers, chosen, amounts, size, n_listed, enough, CHUNK: tl.constexpr):
    """Copy a list with bounds: first variables with a bound of more than `enough`, then the others.

    Returns the number of the former, and the sum of the bounds of the others.
    """
    part = tl.arange(0, CHUNK)
    n_large = 0
    rest = tl.zeros([CHUNK], tl.float64)
    tl.debug_barrier()
    for start in range(0, n_listed, CHUNK):
        inside = start + part < n_listed
        bound = tl.load(numbers + 2 * size + start + part, mask=inside, other=0.0)
        large = inside & (bound > enough)
        n_large += tl.sum(large.to(tl.int32), axis=0)
        rest += tl.where(inside & (bound <= enough), tl.maximum(bound, 0.0), 0.0).to(tl.float64)
    n_first = 0
    n_last = n_large
    for start in range(0, n_listed, CHUNK):
        j = start + part
        inside = j < n_listed
        bound = tl.load(numbers + 2 * size + j, mask=inside, other=0.0)
        large, small = inside & (bound > enough), inside & (bound <= enough)
        first = n_first + tl.cumsum(large.to(tl.int32), axis=0) - 1
        place = tl.where(large, first, n_last + tl.cumsum(small.to(tl.int32), axis=0) - 1)
        tl.store(chosen + place, tl.load(entries + j, mask=inside, other=0), mask=inside)
        tl.store(amounts + place, tl.load(numbers + j, mask=inside, other=0.0), mask=inside)
        lead = tl.load(numbers + size + j, mask=inside, other=0.0)
        tl.store(amounts + size + place, lead, mask=inside)
        n_first += tl.sum(large.to(tl.int32), axis=0)
        n_last += tl.sum(small.to(tl.int32), axis=0)
    return n_large, tl.sum(rest, axis=0)


@triton.jit
def opinion(
    planes, value, k, d, wanted, n_features, plane, FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr
):
    """Log-densities of variables d under experts k where they are wanted, else zero."""
    here = k * n_features + d
    if FORMULA:
        first = tl.load(planes + here, mask=wanted, other=0.0)
        second = tl.load(planes + plane + here, mask=wanted, other=0.0)
        third = tl.load(planes + 2 * plane + here, mask=wanted, other=0.0)
        return tl.where(wanted, log_density(value, first, second, third, GAUSSIAN), 0.0)
    else:
        return tl.load(planes + value * plane + here, mask=wanted, other=0.0)


@triton.jit
def value_of(mine, d, wanted, FORMULA: tl.constexpr):
    """The row's values: numbers for a formula, or indices of one of two tables."""
    value = tl.load(mine + d, mask=wanted, other=0)
    if FORMULA:
        return value.to(tl.float32)
    else:
        return value.to(tl.int32)


@triton.jit
def name_of(value, d, n_features, FORMULA: tl.constexpr):
    """Name of a variable in lists: its index, combined with the value if tables are used."""
    if FORMULA:
        return d
    else:
        return value * n_features + d


@triton.jit
def two_best(
    codes, n_active, background, ranks, d, inside, n_features, n_experts, CHUNK: tl.constexpr
):
    """The best (owner) and second best (heir) of the active experts for some variables."""
    owner = tl.zeros([CHUNK], tl.int32) + n_experts
    best, second, heir = owner, owner, owner
    for slot in range(n_active + 1):
        k = background
        if slot < n_active:
            k = tl.load(codes + slot)
        if k >= 0:
            rank = tl.load(ranks + k * n_features + d, mask=inside, other=0).to(tl.int32)
            first, next_best = rank < best, rank < second
            heir = tl.where(first, owner, tl.where(next_best, k, heir))
            second = tl.where(first, best, tl.where(next_best, rank, second))
            owner = tl.where(first, k, owner)
            best = tl.minimum(rank, best)
    return owner, heir


@triton.jit
def find_holders(
    mine, codes, n_active, background, ranks, agreed, holders, n_features, n_experts,
    FORMULA: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Owner and heir of every variable.

    The background expert is included, unless it is -1. Index n_experts means no expert; variables
    on which all experts agree have index n_experts + 1.
    """
    part = tl.arange(0, CHUNK)
    tl.debug_barrier()
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        owner, heir = two_best(
            codes, n_active, background, ranks, d, inside, n_features, n_experts, CHUNK
        )
        if not FORMULA:
            value = tl.load(mine + d, mask=inside, other=0).to(tl.int32)
            same = tl.load(agreed + value * n_features + d, mask=inside, other=0) > 0
            owner = tl.where(same, n_experts + 1, owner)
        tl.store(holders + d, owner | (heir << 16), mask=inside)
    tl.debug_barrier()


@triton.jit
def change_holders(
    codes, n_active, background, out, joins, ranks, holders, n_features, n_experts,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Update owners and heirs after `out` was removed or `joins` was added, -1 for none.

    Only variables of which `out` was owner or heir need a search over all active experts.
    """
    part = tl.arange(0, CHUNK)
    tl.debug_barrier()
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        held = tl.load(holders + d, mask=inside, other=n_experts + 1)
        owner, heir = held & 0xFFFF, held >> 16
        shared = inside & (owner <= n_experts)
        lost = shared & ((owner == out) | (heir == out))
        if tl.max(lost.to(tl.int32), axis=0) > 0:
            owner, heir = two_best(
                codes, n_active, background, ranks, d, inside, n_features, n_experts, CHUNK
            )
            tl.store(holders + d, owner | (heir << 16), mask=shared)
        elif joins >= 0:
            rank = tl.load(ranks + joins * n_features + d, mask=shared, other=0).to(tl.int32)
            led, followed = shared & (owner < n_experts), shared & (heir < n_experts)
            best = tl.load(ranks + owner * n_features + d, mask=led, other=0).to(tl.int32)
            second = tl.load(ranks + heir * n_features + d, mask=followed, other=0).to(tl.int32)
            first = rank < tl.where(led, best, n_experts)
            next_best = rank < tl.where(followed, second, n_experts)
            heir = tl.where(first, owner, tl.where(next_best, joins, heir))
            owner = tl.where(first, joins, owner)
            tl.store(holders + d, owner | (heir << 16), mask=shared)
    tl.debug_barrier()


@triton.jit
def put_weakest_first(
    mine, codes, costs, density, n_active, n_wanted, margin, holders, n_features, n_experts,
    max_active,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr, SLOTS: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """Move the experts that add least to the front, in order; `holders` are known."""
    part, slots, lane = tl.arange(0, CHUNK), tl.arange(0, SLOTS), tl.arange(0, LANES)
    code = tl.load(codes + slots, mask=slots < max_active, other=-1)
    plane = n_experts * n_features
    earned = tl.zeros([SLOTS], tl.float64)
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        held = tl.load(holders + d, mask=inside, other=n_experts + 1)
        owner, heir = held & 0xFFFF, held >> 16
        owned = inside & (owner < n_experts)
        left = owned & (heir < n_experts)
        value = value_of(mine, d, owned, FORMULA)
        more = opinion(density, value, owner, d, owned, n_features, plane, FORMULA, GAUSSIAN)
        more -= opinion(density, value, heir, d, left, n_features, plane, FORMULA, GAUSSIAN)
        for slot in range(n_active):
            k = tl.sum(tl.where(slots == slot, code, 0), axis=0)
            its = tl.sum(tl.where(owned & (owner == k), more, 0.0).to(tl.float64), axis=0)
            earned += tl.where(slots == slot, its, 0.0)
    for slot in range(n_active):
        k = tl.sum(tl.where(slots == slot, code, 0), axis=0)
        earned -= tl.where(slots == slot, number(costs, k, lane), 0.0)
    earned = tl.where(code >= 0, earned, float("inf"))
    place = SLOTS + slots
    for front in range(n_wanted):
        least = tl.min(earned, axis=0)
        # Ties go to the first one.
        weakest = tl.min(tl.where(earned <= least + margin, slots, SLOTS), axis=0)
        place = tl.where(slots == weakest, front, place)
        earned = tl.where(slots == weakest, float("inf"), earned)
    position = tl.sum((place[None, :] < place[:, None]).to(tl.int32), axis=1)
    tl.debug_barrier()
    tl.store(codes + position, code, mask=code >= 0)
    tl.debug_barrier()


@triton.jit
def refine_kernel(
    x, gains, constant, cost, parent, bond, density, ranks, agreed, by_variable,
    ranks_by_variable, tops, holders, entries, numbers, kept, flags, order, log_likelihood,
    n_rows, n_features, n_experts, n_programs, size, n_swaps, min_active, max_active, margin,
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
    gains over the codes; see `Scratch` for the rest.

    An expert stays if no expert can replace it. Without it, a variable adds to a gain at most its
    top minus the heir's log-density; variables for which this is small are counted with the bound.

    Charges of a code (`constant` and so on, see `Charges`) are a sum over types of rows. While the
    background expert is active, they are those of the most probable type of the greedy code. A code
    that has settled settles again under the second most probable type, and then under all types, if
    that type is nearly as probable as the best.
    """
    program = tl.program_id(0)
    lane, part, slots = tl.arange(0, LANES), tl.arange(0, CHUNK), tl.arange(0, SLOTS)
    kinds = tl.arange(0, TYPES)
    holders += program * size
    entries += program * 2 * size
    numbers += program.to(tl.int64) * 5 * size
    chosen, amounts = entries + size, numbers + 3 * size
    kept += program * SLOTS
    flags += program * LANES
    plane = n_experts * n_features
    background = n_experts - 1
    for row in range(program, n_rows, n_programs):
        mine = x + row * n_features
        codes = order + row * max_active
        greedy = tl.load(codes + slots, mask=slots < max_active, other=-1)
        tl.store(kept + slots, greedy)
        n_greedy = tl.sum((greedy >= 0).to(tl.int32), axis=0)
        n_active = n_greedy
        if JOINT:
            mark_active(codes, n_active, flags, SLOTS, LANES)
        suits = values_of(codes, n_active, flags, constant, cost, parent, bond, JOINT, TYPES, LANES)
        kind = tl.argmax(suits, axis=0)
        costs = costs_of(codes, n_active, flags, kind, cost, parent, bond, JOINT, LANES)
        greedy_worth = tl.load(log_likelihood + row) + log_sum(suits)
        gain = tl.load(gains + row * LANES + lane)
        fresh = 1
        guide = -1
        find_holders(
            mine, codes, n_active, guide, ranks, agreed, holders, n_features, n_experts, FORMULA,
            CHUNK,
        )  # fmt: skip
        action = 0 + BACKGROUND_JOINS
        falls_back = 0
        search = 0 + SETTLES
        settled_worth = greedy_worth
        settled_total = tl.load(log_likelihood + row)
        seat = 0
        n_unchanged = 0
        n_left = (n_active + 2) // 3
        total = tl.load(log_likelihood + row)
        while action != STOP:
            if fresh == 0:
                n_listed = 0
                for start in range(0, n_features, CHUNK):
                    d = start + part
                    held = tl.load(holders + d, mask=d < n_features, other=n_experts + 1)
                    owner = held & 0xFFFF
                    known = owner < n_experts
                    was = tl.load(ranks + owner * n_features + d, mask=known, other=0)
                    value = value_of(mine, d, known, FORMULA)
                    its = opinion(
                        density, value, owner, d, known, n_features, plane, FORMULA, GAUSSIAN
                    )
                    n_listed = noted(
                        entries, numbers, size, n_listed, known, was.to(tl.uint32),
                        (0 * was).to(tl.uint32), name_of(value, d, n_features, FORMULA), its, its,
                        its, False, VARIABLE_BITS, RANK_BITS,
                    )  # fmt: skip
                gain = -change_of_gains(
                    mine, entries, numbers, size, n_listed, by_variable, ranks_by_variable,
                    n_features, FORMULA, GAUSSIAN, LANES, BLOCK, VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                for slot in range(n_active):
                    gain = tl.where(lane == tl.load(codes + slot), -float("inf"), gain)
                fresh += 1
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
                joins = tl.argmax(gain - costs, axis=0)
                tl.debug_barrier()
                tl.store(codes + n_active, joins)
                n_active += 1
                n_unchanged = 0
                changed = 1
            if out >= 0:
                n_owned = 0
                earned = tl.zeros([CHUNK], tl.float64)
                for start in range(0, n_features, CHUNK):
                    d = start + part
                    inside = d < n_features
                    held = tl.load(holders + d, mask=inside, other=-1)
                    owned = inside & ((held & 0xFFFF) == out)
                    if tl.max(owned.to(tl.int32), axis=0) > 0:
                        heir = held >> 16
                        left = owned & (heir < n_experts)
                        value = value_of(mine, d, owned, FORMULA)
                        now = tl.load(ranks + out * n_features + d, mask=owned, other=0)
                        was = tl.load(ranks + heir * n_features + d, mask=left, other=0)
                        was = tl.where(left, was.to(tl.int32), n_experts).to(tl.uint32)
                        after = opinion(
                            density, value, out, d, owned, n_features, plane, FORMULA, GAUSSIAN
                        )
                        before = opinion(
                            density, value, heir, d, left, n_features, plane, FORMULA, GAUSSIAN
                        )
                        earned += tl.where(owned, after - before, 0.0).to(tl.float64)
                        plane_of_tops = row if FORMULA else value
                        top = tl.load(tops + plane_of_tops * n_features + d, mask=owned, other=0.0)
                        n_owned = noted(
                            entries, numbers, size, n_owned, owned, was, now.to(tl.uint32),
                            name_of(value, d, n_features, FORMULA), before, after, top,
                            True, VARIABLE_BITS, RANK_BITS,
                        )  # fmt: skip
                earns = tl.sum(earned, axis=0)
                alone = costs
                if JOINT:
                    if kind >= 0:
                        alone = costs + saved_by(out, kind, parent, bond, LANES)
                    elif action == CHECK:
                        alone = mixed_costs(
                            codes, n_active, flags, out, suits, cost, parent, bond, TYPES, LANES
                        )
                own = earns - number(alone, out, lane)
                ahead = own - tl.max(gain - costs, axis=0)
                has_heirs = (n_active > 1) | (guide >= 0)
                bounded = has_heirs & (action == CHECK) & (n_owned > 0)
                bounded = bounded & (ahead > 0) & (own > margin)
                enough = tl.where(bounded, ahead / tl.maximum(n_owned, 1), -float("inf"))
                n_large, rest = sort_out(
                    entries, numbers, chosen, amounts, size, n_owned, enough.to(tl.float32), CHUNK
                )
                without = gain
                stays = 0
                part_of_list = 0
                while part_of_list < 2:
                    begin = tl.where(part_of_list == 0, 0, n_large)
                    end = tl.where(part_of_list == 0, n_large, n_owned)
                    without -= change_of_gains(
                        mine, chosen + begin, amounts + begin, size, end - begin, by_variable,
                        ranks_by_variable, n_features, FORMULA, GAUSSIAN, LANES, BLOCK,
                        VARIABLE_BITS, RANK_BITS,
                    )  # fmt: skip
                    part_of_list += 1
                    most = tl.max(without - alone, axis=0) + rest
                    if bounded & (part_of_list == 1) & (most <= own + margin):
                        stays += 1
                    if (stays > 0) | (end == n_owned):
                        part_of_list = 2
                if stays > 0:
                    n_unchanged += 1
                    seat += 1
                elif action == CHECK:
                    without = tl.where(lane == out, earns, without)
                    best, k = tl.max(without - alone, axis=0, return_indices=True)
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
                    gain = without
            if joins >= 0:
                n_won = 0
                for start in range(0, n_features, CHUNK):
                    d = start + part
                    inside = d < n_features
                    held = tl.load(holders + d, mask=inside, other=n_experts + 1)
                    owner = held & 0xFFFF
                    owner = tl.where(owner == out, held >> 16, owner)
                    known = inside & (owner < n_experts)
                    was = tl.load(ranks + owner * n_features + d, mask=known, other=0)
                    was = tl.where(owner == n_experts, n_experts, was.to(tl.int32))
                    was = was.to(tl.uint32)
                    now = tl.load(ranks + joins * n_features + d, mask=inside, other=0)
                    now = now.to(tl.uint32)
                    won = now < was
                    value = value_of(mine, d, won, FORMULA)
                    after = opinion(
                        density, value, joins, d, won, n_features, plane, FORMULA, GAUSSIAN
                    )
                    before = opinion(
                        density, value, owner, d, won & known, n_features, plane, FORMULA,
                        GAUSSIAN,
                    )  # fmt: skip
                    n_won = noted(
                        entries, numbers, size, n_won, won, was, now,
                        name_of(value, d, n_features, FORMULA), before, after, after,
                        False, VARIABLE_BITS, RANK_BITS,
                    )  # fmt: skip
                gain += change_of_gains(
                    mine, entries, numbers, size, n_won, by_variable, ranks_by_variable,
                    n_features, FORMULA, GAUSSIAN, LANES, BLOCK, VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                gain = tl.where(lane == joins, -float("inf"), gain)
            if JOINT:
                if action == BACKGROUND_LEAVES:
                    kind = 0 * kind + ALL_TYPES
                if (changed > 0) & (joins != background):
                    mark_active(codes, n_active, flags, SLOTS, LANES)
                    suits = values_of(
                        codes, n_active, flags, constant, cost, parent, bond, JOINT, TYPES, LANES
                    )
                    costs = current_costs(
                        codes, n_active, flags, kind, suits, cost, parent, bond, JOINT, TYPES, LANES
                    )
            if changed > 0:
                change_holders(
                    codes, n_active, guide, out, joins, ranks, holders, n_features, n_experts, CHUNK
                )
            if action == BACKGROUND_JOINS:
                put_weakest_first(
                    mine, codes, costs, density, n_active, n_left, margin, holders, n_features,
                    n_experts, max_active, FORMULA, GAUSSIAN, CHUNK, SLOTS, LANES,
                )  # fmt: skip
            elif action == BACKGROUND_LEAVES:
                n_left = n_swaps * n_active
                n_unchanged = 0
                seat = 0
            if (n_unchanged < n_active) & (n_left > 0):
                seat = tl.where(seat < n_active, seat, 0)
                action = 0 + CHECK
                n_left -= 1
            elif (n_active < max_active) & (tl.max(gain - costs, axis=0) > margin):
                action = 0 + ADD
            elif guide >= 0:
                action = 0 + BACKGROUND_LEAVES
            else:
                sums = tl.zeros([CHUNK], tl.float64)
                for start in range(0, n_features, CHUNK):
                    d = start + part
                    inside = d < n_features
                    owner = tl.load(holders + d, mask=inside, other=0) & 0xFFFF
                    owner = tl.where(owner < n_experts, owner, 0)
                    value = value_of(mine, d, inside, FORMULA)
                    owned = opinion(
                        density, value, owner, d, inside, n_features, plane, FORMULA, GAUSSIAN
                    )
                    sums += owned.to(tl.float64)
                total = tl.sum(sums, axis=0)
                if not JOINT:
                    suits = values_of(
                        codes, n_active, flags, constant, cost, parent, bond, JOINT, TYPES, LANES
                    )
                found = total + log_sum(suits)
                again = 0
                if (falls_back == 0) & (found < greedy_worth - margin):
                    falls_back += 1
                    tl.debug_barrier()
                    tl.store(codes + slots, tl.load(kept + slots), mask=slots < max_active)
                    n_active = n_greedy
                    find_holders(
                        mine, codes, n_active, guide, ranks, agreed, holders, n_features,
                        n_experts, FORMULA, CHUNK,
                    )  # fmt: skip
                    fresh = 0
                    if JOINT:
                        mark_active(codes, n_active, flags, SLOTS, LANES)
                    suits = values_of(
                        codes, n_active, flags, constant, cost, parent, bond, JOINT, TYPES, LANES
                    )
                    again = 1
                elif search == FREELY_AGAIN:
                    if found <= settled_worth + margin:
                        tl.store(codes + slots, tl.load(kept + slots), mask=slots < max_active)
                        total = settled_total
                elif search == AS_ANOTHER_TYPE:
                    now = tl.load(codes + slots, mask=slots < max_active, other=-1)
                    if tl.sum((now != tl.load(kept + slots)).to(tl.int32), axis=0) > 0:
                        search = 0 + FREELY_AGAIN
                        kind = 0 * kind + ALL_TYPES
                        again = 1
                else:
                    first, suited = tl.max(suits, axis=0, return_indices=True)
                    second, other = tl.max(
                        tl.where(kinds == suited, -float("inf"), suits), axis=0, return_indices=True
                    )
                    if second >= first - NEARLY_AS_GOOD:
                        tl.debug_barrier()
                        now = tl.load(codes + slots, mask=slots < max_active, other=-1)
                        tl.store(kept + slots, now)
                        settled_worth = found
                        settled_total = total
                        search = 0 + AS_ANOTHER_TYPE
                        kind = other
                        falls_back = 1
                        again = 1
                action = 0 + STOP
                if again > 0:
                    tl.debug_barrier()
                    costs = current_costs(
                        codes, n_active, flags, kind, suits, cost, parent, bond, JOINT, TYPES, LANES
                    )
                    seat = 0
                    n_unchanged = 0
                    n_left = n_swaps * n_active - 1
                    action = 0 + CHECK
        tl.store(log_likelihood + row, total)
        tl.debug_barrier()
