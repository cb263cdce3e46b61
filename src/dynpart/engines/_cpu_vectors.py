"""Inner loops of the compiled kernels as explicit vectors, which the compiler does not generate.

The functions are those of `_cpu_loops`, which documents them. They run over a list of variables
with the running values of a strip of experts in registers; plain loops would load and store them
for every variable. They are written as LLVM vectors, which LLVM splits if a processor has shorter
ones.
"""

# mypy: allow-untyped-defs, disable-error-code="call-arg,unreachable,var-annotated"
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from dynpart.compiled import in_place, inlined
from dynpart.engines import _cpu_loops
from dynpart.engines._cpu_loops import LANES
from dynpart.engines._llvm import F32, HAS_AVX512, I32
from dynpart.engines._llvm_choices import (
    STRIP,
    compress_equal,
    compress_flags,
    largest_of_strips,
    list_flags,
    place_of_best,
    sum_of_vectors,
    two_best_of_strip,
)
from dynpart.engines._llvm_strips import (
    add_changes_of_strips,
    add_rows_of_strips,
    average_rows_of_strips,
    exponentials_of_strips,
    logarithms_of_strips,
    mixture_shares_of_strips,
    multiply_ratios_of_strips,
)

PLACES = np.array(
    [[bit for bit in range(8) if n >> bit & 1] + [0] * (8 - n.bit_count()) for n in range(256)],
    np.uint8,
)
"""Positions of the set bits of each byte, lowest first, padded with zeros."""

_u = np.uintp  # see _cpu_loops


@intrinsic
def exponent_of(typingctx, x):
    """Integer n with 2^n <= x < 2^(n + 1), for a normal positive float32."""

    def codegen(context, builder, signature, args):
        bits = builder.lshr(builder.bitcast(args[0], I32), ir.Constant(I32, 23))
        return builder.sub(bits, ir.Constant(I32, 127))

    return types.int32(types.float32), codegen


@intrinsic
def power_of_two(typingctx, n):
    """2^n as a float32, for an integer -126 <= n <= 127."""

    def codegen(context, builder, signature, args):
        bits = builder.shl(builder.add(args[0], ir.Constant(I32, 127)), ir.Constant(I32, 23))
        return builder.bitcast(bits, F32)

    return types.float32(types.int32), codegen


@in_place
def add_rows(gains, i, lo, hi, offsets, table):
    """See `_cpu_loops`, as of all functions below."""
    add_rows_of_strips(gains, i * gains.shape[1], lo, hi, offsets, table)


@in_place
def average_rows(out, weights, rows, n, table):
    """Weighted sum of n rows of a flat table."""
    average_rows_of_strips(out, weights, rows, n, table)


@in_place
def logarithms(values):
    """Replace values by their logarithms."""
    logarithms_of_strips(values)


@inlined
def largest_of(values):
    """The largest value."""
    return largest_of_strips(values)


@in_place
def relative_exponentials(nats, out):
    """Exponentials divided by the largest of them; returns the largest of `nats`."""
    most = largest_of_strips(nats)
    exponentials_of_strips(nats, most, out)
    return most


@in_place
def add_changes(
    gains, i, lo, hi, sign, variables, offsets, old_rank, old_log, new_rank, new_rank_at, new_log,
    table, rank,
):  # fmt: skip
    """Move gains[i] from old owners to new and better ones."""
    add_changes_of_strips(
        gains, i * gains.shape[1], lo, hi, sign, variables, offsets, old_rank, old_log, new_rank,
        new_rank_at, new_log, table, rank,
    )  # fmt: skip


@in_place
def multiply_ratios(mantissa, exponent, i, lo, hi, offsets, factors, shares, ahead, levels):
    """Multiply the ratios of some variables into running products."""
    multiply_ratios_of_strips(
        mantissa, exponent, i, lo, hi, offsets, factors, shares, ahead, levels
    )


@in_place
def mixture_shares(lo, hi, offsets, table, log2_levels, shares):
    """Levels of expertise times densities, scaled so that a density is at most one."""
    mixture_shares_of_strips(lo, hi, offsets, table, log2_levels, shares)


@inlined
def positions_by_table(flags, n, found):
    """List where flags are set."""
    n_words = (n + 7) // 8
    for d in range(n, 8 * n_words):
        flags[_u(d)] = 0
    return list_flags(flags, n_words, PLACES, found)


@inlined
def positions_by_compression(flags, n, found):
    """The same on processors that have the instruction for it."""
    for d in range(n, (n + LANES - 1) // LANES * LANES):
        flags[_u(d)] = 0
    return compress_flags(flags, n, found)


positions = positions_by_compression if HAS_AVX512 else positions_by_table


@inlined
def owned_by_table(j, owner, flags, owned):
    """Variables of expert j."""
    for d in range(owner.size):
        flags[d] = owner[d] == j
    return positions_by_table(flags, owner.size, owned)


@inlined
def owned_by_compression(j, owner, flags, owned):
    """The same on processors that have the instruction for it."""
    m = compress_equal(owner, j, owner.size, owned)
    for d in range(owner.size // LANES * LANES, owner.size):
        owned[_u(m)] = d
        m += owner[_u(d)] == j
    return m


owned_by = owned_by_compression if HAS_AVX512 else owned_by_table


@inlined
def sum_of(values, n):
    """Sum of the first n values in float64."""
    total = sum_of_vectors(values, n)
    for at in range(n // LANES * LANES, n):
        total += values[_u(at)]
    return total


@inlined
def best_expert(gains, i, cost, active):
    """The inactive expert with the largest gain minus cost."""
    best = place_of_best(gains, i * gains.shape[1], cost, active, cost.size)
    return best, gains[i, best] - cost[best] if best >= 0 else -np.inf


@in_place
def two_best(code, n_active, background, keys, lo, owner_key, heir_key):
    """The two lowest keys of the active experts."""
    n_features = owner_key.size
    while lo + STRIP <= n_features:
        two_best_of_strip(code, n_active, background, keys, lo, owner_key, heir_key)
        lo += STRIP
    if lo < n_features and n_features >= STRIP:
        # The last strip overlaps with the one before.
        two_best_of_strip(code, n_active, background, keys, n_features - STRIP, owner_key, heir_key)
    elif lo < n_features:
        _cpu_loops.two_best(code, n_active, background, keys, lo, owner_key, heir_key)
