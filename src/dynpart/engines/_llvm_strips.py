"""Vectors of experts: sums and products over lists of variables, and functions of each element.

The running values of a strip of experts stay in registers. Nothing reorders the arithmetic of one
expert.
"""

# mypy: allow-untyped-defs, disable-error-code="call-arg,unreachable,var-annotated"
from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dynpart.engines._cpu_loops import LANES, LOG2_E, LOWEST
from dynpart.engines._llvm import (
    F32,
    HAS_AVX512,
    I32,
    I64,
    VECTOR,
    add_to_gains,
    constant,
    data_of,
    doubles_at,
    fetch,
    larger,
    largest,
    length_of,
    load_at,
    log_of,
    running,
    splat,
    strips_of,
    two_to,
    vector_at,
    vector_function,
    width_of,
)

WIDEST = 8 if HAS_AVX512 else 4
"""Vectors of experts whose running values fit into registers, for the loop that takes longest."""
NARROW = 4
"""The same for other loops: fewer numbers of vectors to compile, or two values per expert."""


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
def mixture_shares_of_strips(typingctx, lo, hi, offsets, table, log2_levels, shares):
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
