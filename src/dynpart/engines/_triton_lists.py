"""Lists of variables that change their owner, and what they change in the gains of all experts.

A program of a row keeps its list in scratch memory, each variable with two ranks, and reads a few
variables at a time with all experts.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import triton
import triton.language as tl

from dynpart.engines._triton_tables import log_density

ENTRY_BITS = 32
"""Bits for a listed variable, its value and two ranks."""
TERMS = tl.constexpr(128)
"""Terms that are added in float32."""


def can_list(n_names: int, n_experts: int) -> bool:
    """Whether entries can hold this many variables, or values of variables, and the ranks."""
    return n_names <= 1 << entry_layout(n_experts)["VARIABLE_BITS"]


def entry_layout(n_experts: int) -> dict[str, int]:
    """Bits of an entry for a rank, including that of no expert, and for the variable.

    Ranks have a minimum number of bits, which reduces the number of kernel variants.
    """
    rank_bits = max(8, n_experts.bit_length())
    return {"VARIABLE_BITS": ENTRY_BITS - 2 * rank_bits, "RANK_BITS": rank_bits}


def n_lanes_read(n_experts: int) -> int:
    """Number of lanes that are read: those of the experts, up to a whole sector of a cache."""
    return -(-n_experts // 16) * 16


@triton.jit
def entered(
    entries, numbers, size, place, listed, was, now, name, before, after,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Enter variables that pass from an owner to a better one in these places of a list."""
    was, now = was.to(tl.uint32), now.to(tl.uint32)
    entry = (was << (VARIABLE_BITS + RANK_BITS)) | (now << VARIABLE_BITS) | name.to(tl.uint32)
    tl.store(entries + place, entry, mask=listed)
    tl.store(numbers + place, before, mask=listed)
    tl.store(numbers + size + place, before - after, mask=listed)


@triton.jit
def noted(
    entries, numbers, size, n_listed, listed, was, now, name, before, after,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """The same at the end of a list; returns its new length."""
    place = n_listed + tl.cumsum(listed.to(tl.int32), axis=0) - 1
    entered(
        entries, numbers, size, place, listed, was, now, name, before, after, VARIABLE_BITS,
        RANK_BITS,
    )  # fmt: skip
    return n_listed + tl.sum(listed.to(tl.int32), axis=0)


@triton.jit
def change_of_gains(
    mine, entries, numbers, size, n_listed, by_variable, ranks_by_variable, n_features, n_read,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Change of the gains of all experts as the listed variables change their owners.

    Lanes from `n_read` on are the padding, whose gains have no meaning.
    """
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
            read = listed[:, None] & (lane < n_read)[None, :]
            if FORMULA:
                value = tl.load(mine + variable).to(tl.float32)[:, None]
                first = tl.load(by_variable + here, mask=read, other=0.0)
                second = tl.load(by_variable + plane + here, mask=read, other=0.0)
                third = first
                if GAUSSIAN:
                    third = tl.load(by_variable + 2 * plane + here, mask=read, other=0.0)
                theirs = log_density(value, first, second, third, GAUSSIAN)
            else:
                at = by_variable + (name * LANES)[:, None] + lane[None, :]
                theirs = tl.load(at, mask=read, other=0.0)
            rank = tl.load(ranks_by_variable + here, mask=read, other=0).to(tl.int32)
            # Experts above the new owner lose its lead; those in between, their whole gain.
            loss = tl.where(rank < was, before - theirs, 0.0)
            change += tl.where(rank < now, lead, loss)
        total += tl.sum(change, axis=0).to(tl.float64)
    tl.debug_barrier()
    return total


@triton.jit(noinline=True)
def change_gains(
    gains, changed, sign, mine, entries, numbers, size, n_listed, by_variable, ranks_by_variable,
    n_features, n_read,
    FORMULA: tl.constexpr, GAUSSIAN: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    VARIABLE_BITS: tl.constexpr, RANK_BITS: tl.constexpr,
):  # fmt: skip
    """Store gains in `changed` that are changed, or changed back, by the listed variables."""
    lane = tl.arange(0, LANES)
    change = change_of_gains(
        mine, entries, numbers, size, n_listed, by_variable, ranks_by_variable, n_features, n_read,
        FORMULA, GAUSSIAN, LANES, BLOCK, VARIABLE_BITS, RANK_BITS,
    )  # fmt: skip
    tl.store(changed + lane, tl.load(gains + lane) + sign * change)
    tl.debug_barrier()


@triton.jit(noinline=True)
def best_expert(gains, costs, out, earns, LANES: tl.constexpr):
    """The largest gain minus cost, and the expert; the gain of `out` (-1: none) is `earns`."""
    lane = tl.arange(0, LANES)
    gain = tl.where(lane == out, earns, tl.load(gains + lane))
    return tl.max(gain - tl.load(costs + lane), axis=0, return_indices=True)
