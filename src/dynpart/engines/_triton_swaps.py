"""Kernels that swap the experts of a code, and what they share with the pursuit of binary rows.

Variables that change hands are listed in the scratch memory of a row's program, each with the two
ranks, and read a few at a time with all experts.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import triton
import triton.language as tl

from dynpart.engines._triton_tables import log_density

ENTRY_BITS = 32
"""A variable that changed hands, its value and two ranks must fit into this."""
SWAP_BLOCK = 2
"""Listed variables that a warp looks at together: the lists of a swap are short."""
TERMS = tl.constexpr(128)
"""Terms that are added in float32."""


def can_list(n_names: int, n_experts: int) -> bool:
    """Whether so many variables, or values of variables, can be listed with the ranks."""
    return n_names <= 1 << entry_layout(n_experts)["VARIABLE_BITS"]


def entry_layout(n_experts: int) -> dict[str, int]:
    """Bits of an entry for a rank, that of nobody too, and those left for the variable.

    Ranks of few experts get as many as those of more: there are fewer kinds of kernels then.
    """
    rank_bits = max(8, n_experts.bit_length())
    return {"VARIABLE_BITS": ENTRY_BITS - 2 * rank_bits, "RANK_BITS": rank_bits}


@triton.jit
def noted(
    entries, numbers, size, n_listed, listed, was, now, name, before, after,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Note variables that pass from an owner to a better one; returns how many are listed then."""
    place = n_listed + tl.cumsum(listed.to(tl.int32), axis=0) - 1
    entry = (was << (VARIABLE_BITS + RANK_BITS)) | (now << VARIABLE_BITS) | name.to(tl.uint32)
    tl.store(entries + place, entry, mask=listed)
    tl.store(numbers + place, before, mask=listed)
    tl.store(numbers + size + place, before - after, mask=listed)
    return n_listed + tl.sum(listed.to(tl.int32), axis=0)


@triton.jit
def change_of_gains(
    mine, entries, numbers, size, n_listed, by_variable, ranks_by_variable, n_features,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """What the gains of all experts change by as the variables on the list change hands."""
    lane, some = tl.arange(0, LANES), tl.arange(0, BLOCK)
    plane = n_features * LANES
    total = tl.zeros([LANES], tl.float64)
    tl.debug_barrier()
    for begin in range(0, n_listed, BLOCK * TERMS):
        change = tl.zeros([BLOCK, LANES], tl.float32)
        for start in range(begin, tl.minimum(begin + BLOCK * TERMS, n_listed), BLOCK):
            j = start + some
            listed = j < n_listed
            # Entries beyond the last are zero: nobody wins such a variable.
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
            # Who would win it still loses the new owner's lead; who no longer would, all.
            loss = tl.where(rank < was, before - theirs, 0.0)
            change += tl.where(rank < now, lead, loss)
        total += tl.sum(change, axis=0).to(tl.float64)
    tl.debug_barrier()
    return total


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
    """The row's values: numbers for a formula, or which of two tables to look into."""
    value = tl.load(mine + d, mask=wanted, other=0)
    if FORMULA:
        return value.to(tl.float32)
    else:
        return value.to(tl.int32)


@triton.jit
def name_of(value, d, n_features, FORMULA: tl.constexpr):
    """What a variable is listed as: its number, and the value if a table is to be looked into."""
    if FORMULA:
        return d
    else:
        return value * n_features + d


@triton.jit
def find_holders(
    mine, codes, n_slots, ranks, agreed, holders, n_features, n_experts,
    FORMULA: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The best (owner) and second best (heir) of a code's experts for every variable.

    Nobody is number n_experts; variables on which all experts agree are left to the number after.
    """
    part = tl.arange(0, CHUNK)
    tl.debug_barrier()
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        owner = tl.zeros([CHUNK], tl.int32) + n_experts
        best, second, heir = owner, owner, owner
        for slot in range(n_slots):
            k = tl.load(codes + slot)
            if k >= 0:
                rank = tl.load(ranks + k * n_features + d, mask=inside, other=0).to(tl.int32)
                first, next_best = rank < best, rank < second
                heir = tl.where(first, owner, tl.where(next_best, k, heir))
                second = tl.where(first, best, tl.where(next_best, rank, second))
                owner = tl.where(first, k, owner)
                best = tl.minimum(rank, best)
        if not FORMULA:
            value = tl.load(mine + d, mask=inside, other=0).to(tl.int32)
            same = tl.load(agreed + value * n_features + d, mask=inside, other=0) > 0
            owner = tl.where(same, n_experts + 1, owner)
        tl.store(holders + d, owner | (heir << 16), mask=inside)
    tl.debug_barrier()


@triton.jit
def swap_kernel(
    x, gains, cost, density, ranks, agreed, by_variable, ranks_by_variable, holders, entries,
    numbers, order, log_likelihood,
    n_rows, n_features, n_experts, n_programs, size, n_swaps, min_active, max_active, margin,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr,
    BLOCK: tl.constexpr, SLOTS: tl.constexpr, VARIABLE_BITS: tl.constexpr,
    RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Drop, replace or keep each active expert in turn, a row at a time.

    Without an expert the variables it owns, and no others, fall to their heirs: the gains of all
    experts, which are known over the whole code, change by these alone. Log-densities are looked up
    in tables of both values of a binary variable (`density`, `by_variable`), or computed by the
    FORMULA of the family from parameters in the same place.
    """
    program = tl.program_id(0)
    lane, part, slots = tl.arange(0, LANES), tl.arange(0, CHUNK), tl.arange(0, SLOTS)
    holders += program * size
    entries += program * size
    numbers += program * 2 * size
    plane = n_experts * n_features
    for row in range(program, n_rows, n_programs):
        mine = x + row * n_features
        codes = order + row * max_active
        gain = tl.load(gains + row * LANES + lane)
        code = tl.load(codes + slots, mask=slots < max_active, other=-1)
        n_active = tl.sum((code >= 0).to(tl.int32), axis=0)
        n_slots = n_active
        find_holders(
            mine, codes, n_slots, ranks, agreed, holders, n_features, n_experts, FORMULA, CHUNK
        )
        turn = 0
        n_settled = 0
        while (turn < n_swaps * n_slots) & (n_settled < n_slots):
            at = codes + turn % n_slots
            j = tl.load(at)
            turn += 1
            n_settled += 1
            if j >= 0:
                n_owned = 0
                earned = tl.zeros([CHUNK], tl.float64)
                for start in range(0, n_features, CHUNK):
                    d = start + part
                    inside = d < n_features
                    held = tl.load(holders + d, mask=inside, other=-1)
                    owned = inside & ((held & 0xFFFF) == j)
                    if tl.max(owned.to(tl.int32), axis=0) > 0:
                        heir = held >> 16
                        left = owned & (heir < n_experts)
                        value = value_of(mine, d, owned, FORMULA)
                        now = tl.load(ranks + j * n_features + d, mask=owned, other=0)
                        was = tl.load(ranks + heir * n_features + d, mask=left, other=0)
                        was = tl.where(left, was.to(tl.int32), n_experts).to(tl.uint32)
                        after = opinion(
                            density, value, j, d, owned, n_features, plane, FORMULA, GAUSSIAN
                        )
                        before = opinion(
                            density, value, heir, d, left, n_features, plane, FORMULA, GAUSSIAN
                        )
                        earned += tl.where(owned, after - before, 0.0).to(tl.float64)
                        n_owned = noted(
                            entries, numbers, size, n_owned, owned, was, now.to(tl.uint32),
                            name_of(value, d, n_features, FORMULA), before, after,
                            VARIABLE_BITS, RANK_BITS,
                        )  # fmt: skip
                without = gain - change_of_gains(
                    mine, entries, numbers, size, n_owned, by_variable, ranks_by_variable,
                    n_features, FORMULA, GAUSSIAN, LANES, BLOCK, VARIABLE_BITS, RANK_BITS,
                )  # fmt: skip
                own = tl.sum(earned, axis=0) - tl.load(cost + j)
                without = tl.where(lane == j, own, without)
                best, k = tl.max(without, axis=0, return_indices=True)
                drop = (n_active > min_active) & (best <= margin)
                if drop | (best > own + margin):
                    n_settled = 0
                    gain = without
                    if drop:
                        n_active -= 1
                        tl.store(at, -1)
                    else:
                        n_won = 0
                        for start in range(0, n_features, CHUNK):
                            d = start + part
                            inside = d < n_features
                            held = tl.load(holders + d, mask=inside, other=n_experts + 1)
                            owner = held & 0xFFFF
                            owner = tl.where(owner == j, held >> 16, owner)
                            known = inside & (owner < n_experts)
                            was = tl.load(ranks + owner * n_features + d, mask=known, other=0)
                            was = tl.where(owner == n_experts, n_experts, was.to(tl.int32))
                            was = was.to(tl.uint32)
                            now = tl.load(ranks + k * n_features + d, mask=inside, other=0)
                            now = now.to(tl.uint32)
                            won = now < was
                            value = value_of(mine, d, won, FORMULA)
                            after = opinion(
                                density, value, k, d, won, n_features, plane, FORMULA, GAUSSIAN
                            )
                            before = opinion(
                                density, value, owner, d, won & known, n_features, plane, FORMULA,
                                GAUSSIAN,
                            )  # fmt: skip
                            n_won = noted(
                                entries, numbers, size, n_won, won, was, now,
                                name_of(value, d, n_features, FORMULA), before, after,
                                VARIABLE_BITS, RANK_BITS,
                            )  # fmt: skip
                        gain += change_of_gains(
                            mine, entries, numbers, size, n_won, by_variable, ranks_by_variable,
                            n_features, FORMULA, GAUSSIAN, LANES, BLOCK, VARIABLE_BITS, RANK_BITS,
                        )  # fmt: skip
                        gain = tl.where(lane == k, -float("inf"), gain)
                        tl.store(at, k)
                    find_holders(
                        mine, codes, n_slots, ranks, agreed, holders, n_features, n_experts,
                        FORMULA, CHUNK,
                    )  # fmt: skip
        total = tl.zeros([CHUNK], tl.float64)
        for start in range(0, n_features, CHUNK):
            d = start + part
            inside = d < n_features
            owner = tl.load(holders + d, mask=inside, other=0) & 0xFFFF
            owner = tl.where(owner < n_experts, owner, 0)
            value = value_of(mine, d, inside, FORMULA)
            owned = opinion(density, value, owner, d, inside, n_features, plane, FORMULA, GAUSSIAN)
            total += owned.to(tl.float64)
        tl.store(log_likelihood + row, tl.sum(total, axis=0))
        # Gaps that dropped experts have left go to the end.
        code = tl.load(codes + slots, mask=slots < max_active, other=-1)
        place = tl.cumsum((code >= 0).to(tl.int32), axis=0) - 1
        tl.debug_barrier()
        tl.store(codes + slots, -1, mask=slots < max_active)
        tl.debug_barrier()
        tl.store(codes + place, code, mask=code >= 0)
        tl.debug_barrier()
