"""Vectors of numbers and flags: lists of those selected, totals, and the largest or lowest."""

# mypy: allow-untyped-defs, disable-error-code="call-arg,unreachable,var-annotated"
from __future__ import annotations

import math
from functools import partial

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dynpart.engines._cpu_loops import LANES
from dynpart.engines._llvm import (
    DOUBLES,
    F32,
    I8,
    I32,
    I64,
    append_places,
    data_of,
    doubles_at,
    larger,
    length_of,
    load_at,
    reduced,
    splat,
    vector_at,
    width_of,
)

GATHER_FLAGS = 0x0102040810204080
"""Factor by which eight flags of one byte each become the bits of the highest byte."""
STRIP = 64
"""Variables whose two best experts are kept in registers."""
EIGHT = 8
"""Gains, in double precision, that are compared at a time."""


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
