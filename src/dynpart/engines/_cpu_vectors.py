"""Inner loops of the compiled kernels as explicit vectors, which the compiler does not generate.

The functions are those of `_cpu_loops`, which documents them. They run over a list of variables
with the running values of a strip of experts in registers; plain loops would load and store them
for every variable. They are written as LLVM vectors, which LLVM splits if a processor has shorter
ones; none of them reorders the arithmetic of one expert.
"""

# mypy: allow-untyped-defs, disable-error-code="call-arg,unreachable,var-annotated"
from __future__ import annotations

import math
from functools import partial

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, types
from numba.extending import intrinsic

from dynpart.compiled import in_place, inlined
from dynpart.engines import _cpu_loops
from dynpart.engines._cpu_loops import LANES, LOG2_E, LOWEST
from dynpart.engines._llvm import (
    DOUBLES,
    F32,
    I8,
    I32,
    I64,
    VECTOR,
    add_to_gains,
    append_places,
    constant,
    data_of,
    doubles_at,
    fetch,
    larger,
    largest,
    length_of,
    load_at,
    log_of,
    reduced,
    running,
    splat,
    strips_of,
    two_to,
    vector_at,
    vector_function,
    width_of,
)

PLACES = np.array(
    [[bit for bit in range(8) if n >> bit & 1] + [0] * (8 - n.bit_count()) for n in range(256)],
    np.uint8,
)
"""Positions of the set bits of each byte, lowest first, padded with zeros."""
GATHER_FLAGS = 0x0102040810204080
"""Factor by which eight flags of one byte each become the bits of the highest byte."""
HAS_AVX512 = bool(get_host_cpu_features().get("avx512f"))
WIDEST = 8 if HAS_AVX512 else 4
"""Vectors of experts whose running values fit into registers, for the loop that takes longest."""
NARROW = 4
"""The same for other loops: fewer numbers of vectors to compile, or two values per expert."""
STRIP = 64
"""Variables whose two best experts are kept in registers."""
EIGHT = 8
"""Gains, in double precision, that are compared at a time."""

_u = np.uintp  # see _cpu_loops


@intrinsic
def add_rows_of_strips(typingctx, gains, where, lo, hi, offsets, table):
    """Add rows `offsets[lo:hi]` of a table, summed in float32, to float64 gains."""
    sig = types.void(gains, types.int64, types.int64, types.int64, offsets, table)

    def codegen(context, builder, signature, args):
        at, begin, end = args[1:4]
        gains_, offsets_, table_ = (
            data_of(context, builder, signature.args[i], args[i]) for i in (0, 4, 5)
        )
        lanes = width_of(context, builder, signature.args[0], args[0])
        for strips in strips_of(lanes, NARROW, builder):
            sums = running(builder, len(strips), 0.0)
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(I64, 1)) as (i, _):
                offset = load_at(builder, offsets_, i)
                for strip, slot in zip(strips, sums, strict=True):
                    term = vector_at(builder, table_, builder.add(offset, strip), F32)
                    builder.store(builder.fadd(builder.load(slot), term), slot)
            one = ir.Constant(ir.DoubleType(), 1.0)
            add_to_gains(builder, gains_, at, strips, sums, one)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def average_rows_of_strips(typingctx, out, weights, rows, n, table):
    """Weighted sum of n rows of a flat table."""
    sig = types.void(out, weights, rows, types.int64, table)

    def codegen(context, builder, signature, args):
        out_, weights_, rows_, table_ = (
            data_of(context, builder, signature.args[i], args[i]) for i in (0, 1, 2, 4)
        )
        lanes = length_of(context, builder, signature.args[0], args[0])
        for strips in strips_of(lanes, NARROW, builder):
            sums = running(builder, len(strips), 0.0)
            fused = vector_function(builder, "fmuladd", 3)
            zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
            with cgutils.for_range_slice(builder, zero, args[3], one) as (q, _):
                row = builder.zext(load_at(builder, rows_, q), I64)
                weight = splat(builder, load_at(builder, weights_, row))
                begin = builder.mul(row, lanes)
                for strip, slot in zip(strips, sums, strict=True):
                    term = vector_at(builder, table_, builder.add(begin, strip), F32)
                    builder.store(builder.call(fused, [weight, term, builder.load(slot)]), slot)
            for strip, slot in zip(strips, sums, strict=True):
                at = builder.bitcast(builder.gep(out_, [strip]), VECTOR.as_pointer())
                builder.store(builder.load(slot), at, align=4)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def logarithms_of_strips(typingctx, values):
    """Replace float32 values by their logarithms."""
    sig = types.void(values)

    def codegen(context, builder, signature, args):
        values_ = data_of(context, builder, signature.args[0], args[0])
        lanes = length_of(context, builder, signature.args[0], args[0])
        zero, step = ir.Constant(I64, 0), ir.Constant(I64, LANES)
        with cgutils.for_range_slice(builder, zero, lanes, step) as (k, _):
            value = vector_at(builder, values_, k, F32)
            at = builder.bitcast(builder.gep(values_, [k]), VECTOR.as_pointer())
            builder.store(log_of(builder, value), at, align=4)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def largest_of_strips(typingctx, values):
    """The largest of some float64 values."""
    sig = types.float64(values)
    lowest = ir.Constant(DOUBLES, [-math.inf] * LANES)

    def codegen(context, builder, signature, args):
        values_ = data_of(context, builder, signature.args[0], args[0])
        n = length_of(context, builder, signature.args[0], args[0])
        top = cgutils.alloca_once(builder, DOUBLES)
        builder.store(lowest, top)
        with cgutils.for_range_slice(builder, ir.Constant(I64, 0), n, ir.Constant(I64, LANES)) as (
            at,
            _,
        ):
            builder.store(larger(builder, doubles_at(builder, values_, at), builder.load(top)), top)
        return reduced(builder.load(top), LANES, partial(larger, builder), builder)

    return sig, codegen


@intrinsic
def exponentials_of_strips(typingctx, nats, most, out):
    """exp(nats - most) in float32, 0 where that is very small."""
    sig = types.void(nats, types.float64, out)

    def codegen(context, builder, signature, args):
        nats_, out_ = (data_of(context, builder, signature.args[i], args[i]) for i in (0, 2))
        n, most = length_of(context, builder, signature.args[0], args[0]), splat(builder, args[1])
        with cgutils.for_range_slice(builder, ir.Constant(I64, 0), n, ir.Constant(I64, LANES)) as (
            at,
            _,
        ):
            below = builder.fsub(doubles_at(builder, nats_, at), most)
            y = builder.fmul(builder.fptrunc(below, VECTOR), constant(LOG2_E))
            some = builder.fcmp_ordered(">", y, constant(LOWEST))
            share = builder.select(some, two_to(builder, y), constant(0.0))
            there = builder.bitcast(builder.gep(out_, [at]), VECTOR.as_pointer())
            builder.store(share, there, align=4)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def add_changes_of_strips(
    typingctx, gains, where, lo, hi, sign, variables, offsets, old_rank, old_log,
    new_rank, new_rank_at, new_log, table, rank,
):  # fmt: skip
    """Move gains from old owners to new and better ones, for variables lo to hi of a list."""
    i8 = types.int64
    sig = types.void(
        gains, i8, i8, i8, types.float64, variables, offsets, old_rank, old_log, new_rank,
        i8, new_log, table, rank,
    )  # fmt: skip
    rank_type = ir.IntType(rank.dtype.bitwidth)

    def codegen(context, builder, signature, args):
        at, begin, end, sign_ = args[1:5]
        new_rank_at_ = args[10]
        arrays = [
            data_of(context, builder, signature.args[i], args[i])
            for i in (0, 5, 6, 7, 8, 9, 11, 12, 13)
        ]
        gains_, variables_, offsets_, old_rank_, old_log_, new_rank_, new_log_ = arrays[:7]
        table_, rank_ = arrays[7:]
        lanes = width_of(context, builder, signature.args[13], args[13])
        for strips in strips_of(lanes, WIDEST, builder):
            sums = running(builder, len(strips), 0.0)
            zero = ir.Constant(VECTOR, [0.0] * LANES)
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(I64, 1)) as (i, _):
                d = builder.zext(load_at(builder, variables_, i), I64)
                offset = load_at(builder, offsets_, d)
                place = builder.mul(d, lanes)
                log_before = load_at(builder, old_log_, d)
                lost = builder.fsub(log_before, load_at(builder, new_log_, d))
                log_before, lost = splat(builder, log_before), splat(builder, lost)
                rank_before = splat(builder, load_at(builder, old_rank_, d))
                rank_after = load_at(builder, new_rank_, builder.add(new_rank_at_, d))
                rank_after = splat(builder, rank_after)
                for strip, slot in zip(strips, sums, strict=True):
                    log = vector_at(builder, table_, builder.add(offset, strip), F32)
                    ranks = vector_at(builder, rank_, builder.add(place, strip), rank_type)
                    beats_old = builder.icmp_unsigned("<", ranks, rank_before)
                    beats_new = builder.icmp_unsigned("<", ranks, rank_after)
                    term = builder.select(beats_old, builder.fsub(log_before, log), zero)
                    term = builder.select(beats_new, lost, term)
                    builder.store(builder.fadd(builder.load(slot), term), slot)
            add_to_gains(builder, gains_, at, strips, sums, sign_)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def multiply_ratios_of_strips(
    typingctx, mantissa, exponent, row, lo, hi, offsets, factors, shares, ahead, levels
):  # fmt: skip
    """Multiply running products by prod (a + b e p) / prod (a' + b' e), variables lo..hi.

    `factors` has a, b, a', b' of these variables alone. Shares are
    prefetched `ahead` elements before use, unless it is zero.
    """
    i8 = types.int64
    sig = types.void(mantissa, exponent, i8, i8, i8, offsets, factors, shares, i8, levels)

    def codegen(context, builder, signature, args):
        row_, begin, end = args[2:5]
        ahead_ = args[8]
        far = builder.icmp_signed(">", ahead_, ir.Constant(I64, 0))
        arrays = [data_of(context, builder, signature.args[i], args[i]) for i in (0, 1, 5, 6, 7, 9)]
        mantissa_, exponent_, offsets_, factors_, shares_, levels_ = arrays
        lanes = width_of(context, builder, signature.args[9], args[9])
        n_features = width_of(context, builder, signature.args[5], args[5])
        for strips in strips_of(lanes, NARROW, builder):
            above = running(builder, len(strips), 1.0)
            below = running(builder, len(strips), 1.0)
            fused = vector_function(builder, "fmuladd", 3)
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(I64, 1)) as (d, _):
                cell = builder.add(builder.mul(row_, n_features), d)
                offset = load_at(builder, offsets_, cell)
                place = builder.mul(d, lanes)
                four = builder.mul(builder.sub(d, begin), ir.Constant(I64, 4))
                at_four = [builder.add(four, ir.Constant(I64, s)) for s in range(4)]
                with builder.if_then(far):
                    later = builder.add(offset, ahead_)
                    for strip in strips:
                        fetch(builder, shares_, builder.add(later, strip))
                a, b, a_below, b_below = (
                    splat(builder, load_at(builder, factors_, at)) for at in at_four
                )
                for strip, top, bottom in zip(strips, above, below, strict=True):
                    share = vector_at(builder, shares_, builder.add(offset, strip), F32)
                    level = vector_at(builder, levels_, builder.add(place, strip), F32)
                    up = builder.call(fused, [share, b, a])
                    down = builder.call(fused, [level, b_below, a_below])
                    builder.store(builder.fmul(builder.load(top), up), top)
                    builder.store(builder.fmul(builder.load(bottom), down), bottom)
            whole = ir.VectorType(I32, LANES)
            for strip, top, bottom in zip(strips, above, below, strict=True):
                cell = builder.add(builder.mul(row_, lanes), strip)
                at = builder.bitcast(builder.gep(mantissa_, [cell]), VECTOR.as_pointer())
                count = builder.bitcast(builder.gep(exponent_, [cell]), whole.as_pointer())
                ratio = builder.fdiv(builder.load(top), builder.load(bottom))
                product = builder.fmul(builder.load(at, align=4), ratio)
                # Move the exponent into its own count: the mantissa stays in [1, 2).
                bits = builder.bitcast(product, whole)
                grown = builder.lshr(bits, ir.Constant(whole, [23] * LANES))
                grown = builder.sub(grown, ir.Constant(whole, [127] * LANES))
                builder.store(builder.add(builder.load(count, align=4), grown), count, align=4)
                bits = builder.and_(bits, ir.Constant(whole, [0x007FFFFF] * LANES))
                bits = builder.or_(bits, ir.Constant(whole, [0x3F800000] * LANES))
                builder.store(builder.bitcast(bits, VECTOR), at, align=4)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def mixture_shares(typingctx, lo, hi, offsets, table, log2_levels, shares):
    """e_k p_k of variables lo to hi of a row, scaled so that p is at most one per variable.

    `table` holds log p and `log2_levels` log2 e; values of a variable begin at its offset in
    `table` and in `shares`.
    """
    sig = types.void(types.int64, types.int64, offsets, table, log2_levels, shares)

    def codegen(context, builder, signature, args):
        offsets_, table_, levels_, shares_ = (
            data_of(context, builder, signature.args[i], args[i]) for i in range(2, 6)
        )
        lanes = width_of(context, builder, signature.args[4], args[4])
        fused = vector_function(builder, "fmuladd", 3)
        zero, one, step = (ir.Constant(I64, value) for value in (0, 1, LANES))
        top = cgutils.alloca_once(builder, VECTOR)
        with cgutils.for_range_slice(builder, args[0], args[1], one) as (d, _):
            offset = load_at(builder, offsets_, d)
            place = builder.mul(d, lanes)
            builder.store(vector_at(builder, table_, offset, F32), top)
            with cgutils.for_range_slice(builder, step, lanes, step) as (k, _):
                log = vector_at(builder, table_, builder.add(offset, k), F32)
                builder.store(larger(builder, builder.load(top), log), top)
            most = largest(builder, builder.load(top))
            with cgutils.for_range_slice(builder, zero, lanes, step) as (k, _):
                at = builder.add(offset, k)
                log = builder.fsub(vector_at(builder, table_, at, F32), most)
                level = vector_at(builder, levels_, builder.add(place, k), F32)
                y = builder.call(fused, [log, constant(LOG2_E), level])
                out = builder.bitcast(builder.gep(shares_, [at]), VECTOR.as_pointer())
                builder.store(two_to(builder, y), out, align=4)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def list_flags(typingctx, flags, n_words, places, found):
    """Write the indices of set `flags` to `found`; returns their number.

    Eight flags (uint8, 0 or 1) at a time, without a branch: the indices of those that are set are
    looked up in `places` and written as eight numbers, and the next eight begin after the last
    valid one. So `found` needs room for seven more.
    """
    sig = types.int64(flags, types.int64, places, found)

    def codegen(context, builder, signature, args):
        flags_, places_, found_ = (
            data_of(context, builder, signature.args[i], args[i]) for i in (0, 2, 3)
        )
        zero, one, eight = (ir.Constant(I64, value) for value in (0, 1, 8))
        octet = ir.VectorType(I32, 8)
        count_bits = ir.FunctionType(I64, [I64])
        count_bits = cgutils.get_or_insert_function(builder.module, count_bits, "llvm.ctpop.i64")
        words = builder.bitcast(flags_, I64.as_pointer())
        count = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range_slice(builder, zero, args[1], one) as (i, _):
            word = load_at(builder, words, i)
            bits = builder.mul(word, ir.Constant(I64, GATHER_FLAGS))
            bits = builder.lshr(bits, ir.Constant(I64, 56))
            where = builder.gep(places_, [builder.mul(bits, eight)])
            where = builder.bitcast(where, ir.VectorType(I8, 8).as_pointer())
            places_set = builder.zext(builder.load(where, align=1), octet)
            first = splat(builder, builder.trunc(builder.mul(i, eight), I32), 8)
            m = builder.load(count)
            out = builder.bitcast(builder.gep(found_, [m]), octet.as_pointer())
            builder.store(builder.add(places_set, first), out, align=4)
            builder.store(builder.add(m, builder.call(count_bits, [word])), count)
        return builder.load(count)

    return sig, codegen


@intrinsic
def compress_flags(typingctx, flags, n_flags, found):
    """Write the indices of set `flags` to `found`; returns their number.

    Sixteen flags (uint8, 0 or 1) at a time, with the processor's instruction that moves selected
    numbers of a vector to its front. The next ones are written after the last valid one, so `found`
    needs room for fifteen more.
    """
    sig = types.int64(flags, types.int64, found)

    def codegen(context, builder, signature, args):
        flags_, found_ = (data_of(context, builder, signature.args[i], args[i]) for i in (0, 2))
        count = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        zero, step = (ir.Constant(I64, value) for value in (0, LANES))
        with cgutils.for_range_slice(builder, zero, args[1], step) as (d, _):
            here = vector_at(builder, flags_, d, I8)
            is_set = builder.icmp_unsigned("!=", here, ir.Constant(here.type, [0] * LANES))
            append_places(builder, is_set, d, count, found_)
        return builder.load(count)

    return sig, codegen


@intrinsic
def compress_equal(typingctx, values, wanted, n_values, found):
    """Write the indices of values equal to the wanted one to `found`, like `compress_flags`.

    Only whole vectors are read: the last values, fewer than sixteen, are left out.
    """
    sig = types.int64(values, values.dtype, types.int64, found)
    element = ir.IntType(values.dtype.bitwidth)

    def codegen(context, builder, signature, args):
        values_, found_ = (data_of(context, builder, signature.args[i], args[i]) for i in (0, 3))
        wanted = splat(builder, args[1])
        count = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        zero, step = (ir.Constant(I64, value) for value in (0, LANES))
        whole = builder.and_(args[2], ir.Constant(I64, -LANES))
        with cgutils.for_range_slice(builder, zero, whole, step) as (d, _):
            here = vector_at(builder, values_, d, element)
            append_places(builder, builder.icmp_unsigned("==", here, wanted), d, count, found_)
        return builder.load(count)

    return sig, codegen


@intrinsic
def sum_of_vectors(typingctx, values, n_values):
    """Sum of float32 values in float64, in whole vectors: the last ones are left out."""
    sig = types.float64(values, types.int64)

    def codegen(context, builder, signature, args):
        values_ = data_of(context, builder, signature.args[0], args[0])
        total = cgutils.alloca_once_value(builder, ir.Constant(DOUBLES, [0.0] * LANES))
        zero, step = (ir.Constant(I64, value) for value in (0, LANES))
        whole = builder.and_(args[1], ir.Constant(I64, -LANES))
        with cgutils.for_range_slice(builder, zero, whole, step) as (at, _):
            term = builder.fpext(vector_at(builder, values_, at, F32), DOUBLES)
            builder.store(builder.fadd(builder.load(total), term), total)
        return reduced(builder.load(total), LANES, builder.fadd, builder)

    return sig, codegen


@intrinsic
def place_of_best(typingctx, gains, where, cost, active, n_experts):
    """The first k with the largest gains[where + k] - cost[k] of those not active, or -1."""
    sig = types.int64(gains, types.int64, cost, active, types.int64)
    number = ir.DoubleType()
    lowest = float("-inf")

    def codegen(context, builder, signature, args):
        gains_, cost_, active_ = (
            data_of(context, builder, signature.args[i], args[i]) for i in (0, 2, 3)
        )
        where, n = args[1], args[4]
        zero, one, step = (ir.Constant(I64, value) for value in (0, 1, EIGHT))
        whole = builder.and_(n, ir.Constant(I64, -EIGHT))
        # The last vector overlaps with the one before, unless there are fewer experts than lanes.
        last = builder.sub(n, step)
        has_rest = builder.icmp_signed(">", n, whole)
        overlaps = builder.and_(has_rest, builder.icmp_signed(">", whole, zero))
        begin = builder.select(builder.icmp_signed(">", whole, zero), n, zero)

        def values(k, width):
            """Gain minus cost of experts from k on, minus infinity if they are active."""
            wide = ir.VectorType(number, width), ir.VectorType(I8, width)
            numbers, flags = wide if width > 1 else (number, I8)
            places = (gains_, builder.add(where, k), numbers), (cost_, k, numbers)
            gain, price, flag = (
                builder.load(
                    builder.bitcast(builder.gep(array, [at]), kind.as_pointer()),
                    align=1 if kind is flags else 8,
                )
                for array, at, kind in (*places, (active_, k, flags))
            )
            none = ir.Constant(flags, [0] * width if width > 1 else 0)
            least = ir.Constant(numbers, [lowest] * width if width > 1 else lowest)
            free = builder.icmp_unsigned("==", flag, none)
            return builder.select(free, builder.fsub(gain, price), least)

        eight = ir.VectorType(number, EIGHT)
        running_most = cgutils.alloca_once_value(builder, ir.Constant(eight, [lowest] * EIGHT))
        most = cgutils.alloca_once_value(builder, ir.Constant(number, lowest))
        with cgutils.for_range_slice(builder, zero, whole, step) as (k, _):
            best = larger(builder, values(k, EIGHT), builder.load(running_most))
            builder.store(best, running_most)
        with builder.if_then(overlaps):
            best = larger(builder, values(last, EIGHT), builder.load(running_most))
            builder.store(best, running_most)
        highest = reduced(builder.load(running_most), EIGHT, partial(larger, builder), builder)
        builder.store(highest, most)
        with cgutils.for_range_slice(builder, begin, n, one) as (k, _):
            builder.store(larger(builder, values(k, 1), builder.load(most)), most)
        # Its index, from all bits of a vector's comparison, from the last vector to the first.
        place = cgutils.alloca_once_value(builder, ir.Constant(I64, -1))
        some = builder.fcmp_ordered(">", builder.load(most), ir.Constant(number, lowest))
        with builder.if_then(some):
            with cgutils.for_range_slice(builder, begin, n, one) as (k, _):
                k = builder.sub(builder.sub(n, one), k)
                here = builder.fcmp_ordered("==", values(k, 1), builder.load(most))
                builder.store(builder.select(here, k, builder.load(place)), place)
            target = splat(builder, builder.load(most), EIGHT)
            trailing = ir.FunctionType(I8, [I8, ir.IntType(1)])
            trailing = cgutils.get_or_insert_function(builder.module, trailing, "llvm.cttz.i8")

            def look_at(k):
                here = builder.fcmp_ordered("==", values(k, EIGHT), target)
                bits = builder.bitcast(here, I8)
                first = builder.call(trailing, [bits, ir.Constant(ir.IntType(1), 0)])
                at = builder.add(k, builder.zext(first, I64))
                found = builder.icmp_unsigned("!=", bits, ir.Constant(I8, 0))
                builder.store(builder.select(found, at, builder.load(place)), place)

            with builder.if_then(overlaps):
                look_at(last)
            with cgutils.for_range_slice(builder, zero, whole, step) as (k, _):
                look_at(builder.sub(builder.sub(whole, step), k))
        return builder.load(place)

    return sig, codegen


@intrinsic
def two_best_of_strip(typingctx, code, n_active, background, keys, lo, owner_key, heir_key):
    """The two lowest keys of the active experts, for STRIP variables from lo on."""
    i8 = types.int64
    sig = types.void(code, i8, i8, keys, i8, owner_key, heir_key)
    key_type = ir.IntType(keys.dtype.bitwidth)
    strip = ir.VectorType(key_type, STRIP)

    def codegen(context, builder, signature, args):
        n_active, background, lo = args[1], args[2], args[4]
        code_, keys_, owner_, heir_ = (
            data_of(context, builder, signature.args[i], args[i]) for i in (0, 3, 5, 6)
        )
        n_features = width_of(context, builder, signature.args[3], args[3])
        highest = ir.Constant(strip, [-1] * STRIP)
        owner, heir = (cgutils.alloca_once_value(builder, highest) for _ in range(2))

        def at(array, index):
            return builder.bitcast(builder.gep(array, [index]), strip.as_pointer())

        def lower(one, other):
            return builder.select(builder.icmp_unsigned("<", one, other), one, other)

        def join(j):
            where = builder.add(builder.mul(j, n_features), lo)
            key = builder.load(at(keys_, where), align=key_type.width // 8)
            best = builder.load(owner)
            is_better = builder.icmp_unsigned("<", key, best)
            worse = builder.select(is_better, best, key)
            builder.store(lower(worse, builder.load(heir)), heir)
            builder.store(builder.select(is_better, key, best), owner)

        zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
        with cgutils.for_range_slice(builder, zero, n_active, one) as (step, _):
            join(load_at(builder, code_, step))
        with builder.if_then(builder.icmp_signed(">=", background, zero)):
            join(background)
        for slot, array in ((owner, owner_), (heir, heir_)):
            builder.store(builder.load(slot), at(array, lo), align=key_type.width // 8)
        return context.get_dummy_value()

    return sig, codegen


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
