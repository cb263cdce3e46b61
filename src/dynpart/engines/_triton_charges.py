"""Device functions for the charges of a code, in one type of row or in all types.

The arrays are those of `LaneCharges` and `Scratch`. Results are in scratch memory, not in
registers, and functions are compiled once instead of at every call: a row needs fewer registers,
so more rows run at the same time, and the program fits into the cache of instructions.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

ALL_TYPES = tl.constexpr(-1)
"""Stands for all types, if the type of a row is not fixed."""
LARGEST = tl.constexpr(85.0)
"""Largest absolute logarithm of odds, so that single precision represents them."""
NEGLIGIBLE = tl.constexpr(1e-35)
"""Share of a type, among all types, below which it is ignored in a cost: of the smallest odds of an
expert whose range is ordinary (see `Charges`), beside the largest."""
SLOTS_AT_ONCE = tl.constexpr(4)
"""Active experts whose charges are read at the same time."""
TYPES_AT_ONCE = tl.constexpr(8)
"""Types whose odds are read at the same time."""
NEIGHBOURS_AT_ONCE = tl.constexpr(128)
"""Neighbours of an expert whose odds are changed at the same time."""


@triton.jit(noinline=True)
def mark_active(codes, n_active, flags, SLOTS: tl.constexpr, LANES: tl.constexpr):
    """Flags of the active experts, by number."""
    slots, lane = tl.arange(0, SLOTS), tl.arange(0, LANES)
    tl.debug_barrier()
    tl.store(flags + lane, (0 * lane).to(tl.int8))
    tl.debug_barrier()
    k = tl.load(codes + slots, mask=slots < n_active, other=0)
    tl.store(flags + k, (0 * k + 1).to(tl.int8), mask=slots < n_active)
    tl.debug_barrier()


@triton.jit(noinline=True)
def find_values(
    codes, n_active, flags, values, constant, cost_by_expert, parent_by_expert, bond_by_expert,
    JOINT: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """The objective of a code without log P(x | h), by type."""
    kinds = tl.arange(0, TYPES)
    value = tl.load(constant + kinds)
    for start in range(0, n_active, SLOTS_AT_ONCE):
        slot = start + tl.arange(0, SLOTS_AT_ONCE)
        known = (slot < n_active)[:, None]
        k = tl.load(codes + slot, mask=slot < n_active, other=0)
        here = k[:, None] * TYPES + kinds[None, :]
        saved = -tl.load(cost_by_expert + here, mask=known, other=0.0)
        if JOINT:
            above = tl.load(parent_by_expert + here)
            both = known & (tl.load(flags + above) > 0)
            saved += tl.load(bond_by_expert + here, mask=both, other=0.0)
        value += tl.sum(saved, axis=0)
    tl.debug_barrier()
    tl.store(values + kinds, value)
    tl.debug_barrier()


@triton.jit(noinline=True)
def judged(values, TYPES: tl.constexpr):
    """Log of the sum of exponentials of the values of types; the best types, and their distance."""
    kinds = tl.arange(0, TYPES)
    value = tl.load(values + kinds)
    top, first = tl.max(value, axis=0, return_indices=True)
    others = tl.where(kinds == first, -float("inf"), value)
    next_best, second = tl.max(others, axis=0, return_indices=True)
    return top + tl.log(tl.sum(tl.exp(value - top), axis=0)), first, second, top - next_best


@triton.jit(noinline=True)
def costs_in_type(
    codes, n_active, flags, kind, costs, cost, parent, bond, JOINT: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """Cost of each expert to enter a code, or to stay in it, in rows of this type."""
    lane, here = tl.arange(0, LANES), kind * LANES
    its_cost = tl.load(cost + here + lane)
    if JOINT:
        above = tl.load(parent + here + lane)
        its_cost -= tl.where(tl.load(flags + above) > 0, tl.load(bond + here + lane), 0.0)
        for start in range(0, n_active, SLOTS_AT_ONCE):
            slot = start + tl.arange(0, SLOTS_AT_ONCE)
            k = tl.load(codes + slot, mask=slot < n_active, other=0)
            its_parent = tl.load(parent + here + k)[:, None]
            its_bond = tl.load(bond + here + k, mask=slot < n_active, other=0.0)[:, None]
            its_cost -= tl.sum(tl.where(lane[None, :] == its_parent, its_bond, 0.0), axis=0)
    tl.store(costs + lane, its_cost)
    tl.debug_barrier()


@triton.jit(noinline=True)
def costs_without(
    out, kind, costs, alone, parent, bond, JOINT: tl.constexpr, LANES: tl.constexpr
):  # fmt: skip
    """The same without the expert `out`, from the costs with it."""
    lane, here = tl.arange(0, LANES), kind * LANES
    its_cost = tl.load(costs + lane)
    if JOINT:
        its_bond = tl.load(bond + here + lane)
        its_cost += tl.where(tl.load(parent + here + lane) == out, its_bond, 0.0)
        above, its_bond = tl.load(parent + here + out), tl.load(bond + here + out)
        its_cost += tl.where(lane == above, its_bond, 0.0)
    tl.store(alone + lane, its_cost)
    tl.debug_barrier()


@triton.jit(noinline=True)
def change_odds(k, sign, log_odds, bonds, starts, neighbours):
    """Update odds as expert k enters (sign 1) or leaves (-1)."""
    some = tl.arange(0, NEIGHBOURS_AT_ONCE)
    end = tl.load(starts + k + 1)
    tl.debug_barrier()
    for start in range(tl.load(starts + k), end, NEIGHBOURS_AT_ONCE):
        inside = start + some < end
        # An expert has at most one bond with another in a type: no place occurs twice.
        place = log_odds + tl.load(neighbours + start + some, mask=inside, other=0)
        its = tl.load(place, mask=inside, other=0.0)
        its += sign * tl.load(bonds + start + some, mask=inside, other=0.0)
        tl.store(place, its, mask=inside)
    tl.debug_barrier()


@triton.jit(noinline=True)
def first_odds(
    codes, n_active, log_odds, odds_alone, bonds, starts, neighbours, n_types, LANES: tl.constexpr
):  # fmt: skip
    """Set the log odds of all experts in every type, given the experts of a code."""
    lane, some = tl.arange(0, LANES), tl.arange(0, TYPES_AT_ONCE)
    tl.debug_barrier()
    for start in range(0, n_types, TYPES_AT_ONCE):
        here = (start + some)[:, None] * LANES + lane[None, :]
        known = (start + some < n_types)[:, None]
        tl.store(log_odds + here, tl.load(odds_alone + here, mask=known, other=0.0), mask=known)
    for slot in range(n_active):
        change_odds(tl.load(codes + slot), 1.0, log_odds, bonds, starts, neighbours)


@triton.jit(noinline=True)
def mixed_costs(
    out, values, costs, reference, log_odds, near, shares, bonds, starts, neighbours, n_types,
    TYPES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Cost of each expert to enter a code without `out` (-1: none), in rows of all types.

    `values` and `log_odds` are those of the whole code. The cost of `out` is that of staying. Types
    that count, and their shares, are listed in scratch memory.
    """
    lane, kinds, some = tl.arange(0, LANES), tl.arange(0, TYPES), tl.arange(0, TYPES_AT_ONCE)
    value = tl.load(values + kinds)
    if out >= 0:
        value -= tl.load(log_odds + kinds * LANES + out, mask=kinds < n_types, other=0.0)
    weight = tl.exp((value - tl.max(value, axis=0)).to(tl.float32))
    share = weight / tl.sum(weight, axis=0)
    counts = share > NEGLIGIBLE
    place = tl.cumsum(counts.to(tl.int32), axis=0) - 1
    n_near = tl.sum(counts.to(tl.int32), axis=0)
    tl.debug_barrier()
    tl.store(near + place, kinds, mask=counts)
    tl.store(shares + place, share, mask=counts)
    if out >= 0:
        change_odds(out, -1.0, log_odds, bonds, starts, neighbours)
    tl.debug_barrier()
    mean = tl.zeros([TYPES_AT_ONCE, LANES], tl.float32)
    for start in range(0, n_near, TYPES_AT_ONCE):
        inside = start + some < n_near
        c = tl.load(near + start + some, mask=inside, other=0)[:, None]
        its = tl.load(shares + start + some, mask=inside, other=0.0)[:, None]
        odds = tl.load(log_odds + c * LANES + lane[None, :])
        mean += its * tl.exp(tl.minimum(tl.maximum(odds, -LARGEST), LARGEST))
    its_cost = tl.load(reference + lane) - tl.log(tl.sum(mean, axis=0)).to(tl.float64)
    tl.store(costs + lane, its_cost)
    if out >= 0:
        change_odds(out, 1.0, log_odds, bonds, starts, neighbours)
    tl.debug_barrier()
