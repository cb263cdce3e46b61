"""Owners and heirs of the variables of a row: the best and second best of the active experts.

Each is kept as a key, rank and index of the expert in one integer, so that the smaller key belongs
to the better expert. The keys of a row are in the scratch memory of its program.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import triton
import triton.language as tl

from dynpart.engines._triton_charges import SLOTS_AT_ONCE
from dynpart.engines._triton_lists import entered, noted
from dynpart.engines._triton_tables import log_density

INDEX = tl.constexpr(0xFFFF)
"""Bits of a key that hold the index of the expert; the rank is above them."""


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
    """Keys of the owner and of the heir of some variables; index n_experts means no expert.

    The background expert is included, unless it is -1.
    """
    owner = tl.zeros([CHUNK], tl.int32) + (n_experts << 16 | n_experts)
    heir = owner
    n_slots = n_active + tl.where(background >= 0, 1, 0)
    for start in range(0, n_slots, SLOTS_AT_ONCE):
        slot = start + tl.arange(0, SLOTS_AT_ONCE)
        k = tl.load(codes + slot, mask=slot < n_active, other=0)
        k = tl.where(slot < n_active, k, background)[:, None]
        known = (slot < n_slots)[:, None] & inside[None, :]
        rank = tl.load(ranks + k * n_features + d[None, :], mask=known, other=0).to(tl.int32)
        key = tl.where(known, rank << 16 | k, n_experts << 16 | n_experts)
        best = tl.min(key, axis=0)
        second = tl.min(tl.where(key == best[None, :], n_experts << 16 | n_experts, key), axis=0)
        heir = tl.minimum(tl.maximum(owner, best), tl.minimum(heir, second))
        owner = tl.minimum(owner, best)
    return owner, heir


@triton.jit(noinline=True)
def find_holders(
    mine, codes, n_active, background, ranks, agreed, owners, heirs, n_features, n_experts,
    FORMULA: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Owner and heir of every variable.

    Variables on which all experts agree have an owner of index n_experts + 1 and rank -1, whom
    nobody can displace.
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
            owner = tl.where(same, n_experts + 1 - (1 << 16), owner)
        tl.store(owners + d, owner, mask=inside)
        tl.store(heirs + d, heir, mask=inside)
    tl.debug_barrier()


@triton.jit(noinline=True)
def change_holders(
    codes, n_active, background, out, joins, ranks, owners, heirs, listed, n_features, n_experts,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Update owners and heirs after `out` was removed or `joins` was added, -1 for none.

    Only variables of which `out` was owner or heir need a search over all active experts.
    """
    part = tl.arange(0, CHUNK)
    n_lost = 0
    tl.debug_barrier()
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        owner = tl.load(owners + d, mask=inside, other=-1)
        heir = tl.load(heirs + d, mask=inside, other=-1)
        shared = inside & (owner >= 0)
        if joins >= 0:
            rank = tl.load(ranks + joins * n_features + d, mask=shared, other=0).to(tl.int32)
            key = rank << 16 | joins
            tl.store(heirs + d, tl.minimum(tl.maximum(owner, key), heir), mask=shared)
            tl.store(owners + d, tl.minimum(owner, key), mask=shared)
        if out >= 0:
            lost = shared & (((owner & INDEX) == out) | ((heir & INDEX) == out))
            place = n_lost + tl.cumsum(lost.to(tl.int32), axis=0) - 1
            tl.store(listed + place, d, mask=lost)
            n_lost += tl.sum(lost.to(tl.int32), axis=0)
    tl.debug_barrier()
    for start in range(0, n_lost, CHUNK):
        lost = start + part < n_lost
        d = tl.load(listed + start + part, mask=lost, other=0)
        owner, heir = two_best(
            codes, n_active, background, ranks, d, lost, n_features, n_experts, CHUNK
        )
        tl.store(owners + d, owner, mask=lost)
        tl.store(heirs + d, heir, mask=lost)
    tl.debug_barrier()


@triton.jit(noinline=True)
def list_owned(k, owners, listed, n_features, SPAN: tl.constexpr):
    """List the variables of expert k; returns their number."""
    part = tl.arange(0, SPAN)
    n_owned = 0
    tl.debug_barrier()
    for start in range(0, n_features, SPAN):
        d = start + part
        owned = (tl.load(owners + d, mask=d < n_features, other=-1) & INDEX) == k
        place = n_owned + tl.cumsum(owned.to(tl.int32), axis=0) - 1
        tl.store(listed + place, d, mask=owned)
        n_owned += tl.sum(owned.to(tl.int32), axis=0)
    tl.debug_barrier()
    return n_owned


@triton.jit
def read_owned(
    mine, k, start, n_owned, listed, heirs, density, n_features, n_experts,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Some of the listed variables of expert k, their values, heirs, and both log-densities."""
    j = start + tl.arange(0, CHUNK)
    inside = j < n_owned
    plane = n_experts * n_features
    d = tl.load(listed + j, mask=inside, other=0)
    heir = tl.load(heirs + d, mask=inside, other=0)
    value = value_of(mine, d, inside, FORMULA)
    after = opinion(density, value, k, d, inside, n_features, plane, FORMULA, GAUSSIAN)
    left = inside & ((heir & INDEX) < n_experts)
    before = opinion(
        density, value, heir & INDEX, d, left, n_features, plane, FORMULA, GAUSSIAN
    )  # fmt: skip
    return inside, d, value, heir, after, before


@triton.jit(noinline=True)
def earnings(
    mine, k, n_owned, listed, heirs, density, n_features, n_experts,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Log-likelihood of the listed variables under expert k minus that under their heirs."""
    earned = tl.zeros([CHUNK], tl.float64)
    for start in range(0, n_owned, CHUNK):
        _, _, _, _, after, before = read_owned(
            mine, k, start, n_owned, listed, heirs, density, n_features, n_experts, FORMULA,
            GAUSSIAN, CHUNK,
        )  # fmt: skip
        earned += (after - before).to(tl.float64)
    return tl.sum(earned, axis=0)


@triton.jit(noinline=True)
def enter_owned(
    mine, row, k, n_owned, enough, listed, heirs, entries, numbers, size, density, ranks, tops,
    n_features, n_experts,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Enter the listed variables of expert k in a list, those with large bounds first.

    The bound of a variable is the largest log-density of its value under any expert minus the
    heir's. Variables with a bound of at most `enough` fill the list from the back.

    Returns the number of variables with large bounds, and the sum of the bounds of the others.
    """
    n_large = 0
    n_small = 0
    small = tl.zeros([CHUNK], tl.float64)
    for start in range(0, n_owned, CHUNK):
        inside, d, value, heir, after, before = read_owned(
            mine, k, start, n_owned, listed, heirs, density, n_features, n_experts, FORMULA,
            GAUSSIAN, CHUNK,
        )  # fmt: skip
        now = tl.load(ranks + k * n_features + d, mask=inside, other=0)
        of_tops = row if FORMULA else value
        bound = tl.load(tops + of_tops * n_features + d, mask=inside, other=0.0) - before
        large, rest = inside & (bound > enough), inside & (bound <= enough)
        front = n_large + tl.cumsum(large.to(tl.int32), axis=0) - 1
        back = n_small + tl.cumsum(rest.to(tl.int32), axis=0)
        entered(
            entries, numbers, size, tl.where(large, front, n_owned - back), inside, heir >> 16, now,
            name_of(value, d, n_features, FORMULA), before, after, VARIABLE_BITS, RANK_BITS,
        )  # fmt: skip
        small += tl.where(rest, tl.maximum(bound, 0.0), 0.0).to(tl.float64)
        n_large += tl.sum(large.to(tl.int32), axis=0)
        n_small += tl.sum(rest.to(tl.int32), axis=0)
    return n_large, tl.sum(small, axis=0)


@triton.jit(noinline=True)
def enter_won(
    mine, out, joins, owners, heirs, entries, numbers, size, density, ranks, n_features, n_experts,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Enter the variables in a list that `joins` takes over once `out` (-1: none) has left.

    Returns their number.
    """
    part, plane = tl.arange(0, CHUNK), n_experts * n_features
    n_won = 0
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        owner = tl.load(owners + d, mask=inside, other=-1)
        left = inside & (owner >= 0) & ((owner & INDEX) == out)
        owner = tl.where(left, tl.load(heirs + d, mask=left, other=0), owner)
        now = tl.load(ranks + joins * n_features + d, mask=inside, other=0).to(tl.int32)
        won = inside & (now < (owner >> 16))
        known = won & ((owner & INDEX) < n_experts)
        value = value_of(mine, d, won, FORMULA)
        after = opinion(density, value, joins, d, won, n_features, plane, FORMULA, GAUSSIAN)
        before = opinion(
            density, value, owner & INDEX, d, known, n_features, plane, FORMULA, GAUSSIAN
        )
        n_won = noted(
            entries, numbers, size, n_won, won, owner >> 16, now,
            name_of(value, d, n_features, FORMULA), before, after, VARIABLE_BITS, RANK_BITS,
        )  # fmt: skip
    return n_won


@triton.jit(noinline=True)
def enter_all(
    mine, owners, entries, numbers, size, density, n_features, n_experts,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Enter all variables, as if each passed from its owner to an expert of the best rank.

    That expert has the owner's opinion. Returns the number of variables.
    """
    part, plane = tl.arange(0, CHUNK), n_experts * n_features
    n_listed = 0
    for start in range(0, n_features, CHUNK):
        d = start + part
        owner = tl.load(owners + d, mask=d < n_features, other=-1)
        known = (owner >= 0) & ((owner & INDEX) < n_experts)
        value = value_of(mine, d, known, FORMULA)
        its = opinion(density, value, owner & INDEX, d, known, n_features, plane, FORMULA, GAUSSIAN)
        n_listed = noted(
            entries, numbers, size, n_listed, known, owner >> 16, 0 * owner,
            name_of(value, d, n_features, FORMULA), its, its, VARIABLE_BITS, RANK_BITS,
        )  # fmt: skip
    return n_listed


@triton.jit(noinline=True)
def explained(
    mine, owners, density, n_features, n_experts,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Log-likelihood of the row under the owners of its variables."""
    part, plane = tl.arange(0, CHUNK), n_experts * n_features
    sums = tl.zeros([CHUNK], tl.float64)
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        owner = tl.load(owners + d, mask=inside, other=0) & INDEX
        owner = tl.where(owner < n_experts, owner, 0)
        value = value_of(mine, d, inside, FORMULA)
        owned = opinion(density, value, owner, d, inside, n_features, plane, FORMULA, GAUSSIAN)
        sums += owned.to(tl.float64)
    return tl.sum(sums, axis=0)


@triton.jit(noinline=True)
def put_weakest_first(
    mine, codes, costs, density, n_active, n_wanted, margin, owners, heirs, n_features, n_experts,
    max_active,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, CHUNK: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Move the experts that add least to the front, in order."""
    part, slots = tl.arange(0, CHUNK), tl.arange(0, SLOTS)
    code = tl.load(codes + slots, mask=slots < max_active, other=-1)
    plane = n_experts * n_features
    earned = tl.zeros([SLOTS], tl.float64)
    for start in range(0, n_features, CHUNK):
        d = start + part
        inside = d < n_features
        owner = tl.load(owners + d, mask=inside, other=-1) & INDEX
        heir = tl.load(heirs + d, mask=inside, other=-1) & INDEX
        owned = inside & (owner < n_experts)
        left = owned & (heir < n_experts)
        value = value_of(mine, d, owned, FORMULA)
        more = opinion(density, value, owner, d, owned, n_features, plane, FORMULA, GAUSSIAN)
        more -= opinion(density, value, heir, d, left, n_features, plane, FORMULA, GAUSSIAN)
        for slot in range(n_active):
            k = tl.sum(tl.where(slots == slot, code, 0), axis=0)
            its = tl.sum(tl.where(owned & (owner == k), more, 0.0).to(tl.float64), axis=0)
            earned += tl.where(slots == slot, its, 0.0)
    earned -= tl.load(costs + code, mask=code >= 0, other=0.0)
    earned = tl.where(code >= 0, earned, float("inf"))
    front = slots * 0 - 1
    for seat in range(n_wanted):
        least = tl.min(earned, axis=0)
        # Ties go to the first one.
        weakest = tl.min(tl.where(earned <= least + margin, slots, SLOTS), axis=0)
        front = tl.where(slots == weakest, seat, front)
        earned = tl.where(slots == weakest, float("inf"), earned)
    behind = n_wanted + tl.cumsum((front < 0).to(tl.int32), axis=0) - 1
    tl.debug_barrier()
    tl.store(codes + tl.where(front < 0, behind, front), code, mask=code >= 0)
    tl.debug_barrier()
