"""Device functions for the charges of a code, in one type of row or in all types.

The arrays are those of `lane_charges`: constants by type; costs, parents and bonds by type and
lane. `flags` marks active experts.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

ALL_TYPES = tl.constexpr(-1)
"""Stands for all types, if the type of a row is not fixed."""
FAR = tl.constexpr(45.0)
"""Nats below the most probable type at which a type is ignored in a cost."""


@triton.jit
def number(values, place, places):
    """values[place], of a block of values in registers."""
    return tl.sum(tl.where(places == place, values, 0.0), axis=0)


@triton.jit
def saved_by(k, kind, parent, bond, LANES: tl.constexpr):
    """Nats that each expert costs less in rows of this type while expert k is active."""
    lane = tl.arange(0, LANES)
    here = kind * LANES
    theirs = tl.load(bond + here + lane)
    saved = tl.where(tl.load(parent + here + lane) == k, theirs, 0.0)
    return saved + tl.where(lane == tl.load(parent + here + k), tl.load(bond + here + k), 0.0)


@triton.jit
def mark_active(codes, n_active, flags, SLOTS: tl.constexpr, LANES: tl.constexpr):
    """Flags of the active experts, by number."""
    slots, lane = tl.arange(0, SLOTS), tl.arange(0, LANES)
    tl.debug_barrier()
    tl.store(flags + lane, (0 * lane).to(tl.int8))
    tl.debug_barrier()
    k = tl.load(codes + slots, mask=slots < n_active, other=0)
    tl.store(flags + k, (0 * k + 1).to(tl.int8), mask=slots < n_active)
    tl.debug_barrier()


@triton.jit
def costs_of(
    codes, n_active, flags, kind, cost, parent, bond, JOINT: tl.constexpr, LANES: tl.constexpr
):
    """Cost of each expert to enter a code, or to stay in it, in rows of this type."""
    lane, here = tl.arange(0, LANES), kind * LANES
    costs = tl.load(cost + here + lane)
    if JOINT:
        above = tl.load(parent + here + lane)
        costs -= tl.where(tl.load(flags + above) > 0, tl.load(bond + here + lane), 0.0)
        for slot in range(n_active):
            k = tl.load(codes + slot)
            its = tl.load(bond + here + k)
            costs -= tl.where(lane == tl.load(parent + here + k), its, 0.0)
    return costs


@triton.jit
def values_of(
    codes, n_active, flags, constant, cost, parent, bond,
    JOINT: tl.constexpr, TYPES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The objective of a code without log P(x | h), by type."""
    kinds = tl.arange(0, TYPES)
    value = tl.load(constant + kinds)
    for slot in range(n_active):
        here = kinds * LANES + tl.load(codes + slot)
        value -= tl.load(cost + here)
        if JOINT:
            above = tl.load(parent + here)
            value += tl.where(tl.load(flags + above) > 0, tl.load(bond + here), 0.0)
    return value


@triton.jit
def log_sum(values):
    """Log of the sum of exponentials; some may be minus infinity."""
    top = tl.max(values, axis=0)
    return top + tl.log(tl.sum(tl.exp(values - top), axis=0))


@triton.jit
def mixed_costs(
    codes, n_active, flags, out, values, cost, parent, bond,
    TYPES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Cost of each expert to enter a code without `out` (-1: none), in rows of all types.

    `values` are those of the whole code. The cost of `out` itself is that of staying.
    """
    lane, kinds = tl.arange(0, LANES), tl.arange(0, TYPES)
    top = tl.max(values, axis=0)
    total = 0.0 * top
    mean = tl.zeros([LANES], tl.float64)
    for c in range(TYPES):
        value = tl.sum(tl.where(kinds == c, tl.where(values > top - FAR, values - top, 1.0), 0.0))
        if value <= 0:
            costs = costs_of(codes, n_active, flags, c, cost, parent, bond, True, LANES)
            if out >= 0:
                value += number(costs, out, lane)
                costs += saved_by(out, c, parent, bond, LANES)
            weight = tl.exp(value)
            total += weight
            mean += weight * tl.exp(-costs)
    return tl.log(total) - tl.log(mean)


@triton.jit
def current_costs(
    codes, n_active, flags, kind, values, cost, parent, bond,
    JOINT: tl.constexpr, TYPES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Costs given all experts of a code, in rows of this type or of all types."""
    costs = tl.zeros([LANES], tl.float64)
    if kind >= 0:
        costs += costs_of(codes, n_active, flags, kind, cost, parent, bond, JOINT, LANES)
    else:
        costs += mixed_costs(codes, n_active, flags, -1, values, cost, parent, bond, TYPES, LANES)
    return costs
