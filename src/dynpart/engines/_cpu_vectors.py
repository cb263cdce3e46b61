"""Loops over experts in vector registers, which the compiler does not find on its own.

All tables have the experts of one variable side by side, padded to whole vectors. The functions
here run over a list of variables with the running values of a strip of experts in registers, where
plain loops would load and store them for every variable. They are written as LLVM vectors, so they
run on any processor; none of them reorders the arithmetic of one expert, so results depend on the
list of variables alone.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16
"""Experts per vector: tables are padded to a multiple of it."""

LOG2_E = float(np.float32(1.4426950408889634))
LOWEST = -125.0
"""Powers of two that a float32 still holds."""
POWER_OF_TWO = tuple(
    float(np.float32(c))
    for c in (1.5403530e-4, 1.3333558e-3, 9.6181291e-3, 5.5504109e-2, 2.4022651e-1, 6.9314718e-1, 1)
)
"""Polynomial for 2^x with x between -1/2 and 1/2, highest power first."""

PLACES = np.array(
    [[bit for bit in range(8) if n >> bit & 1] + [0] * (8 - n.bit_count()) for n in range(256)],
    np.uint8,
)
"""The bits that are set in each byte, lowest first, filled up with zeros."""
GATHER_FLAGS = 0x0102040810204080
"""Times this, eight flags of a byte each become the bits of the highest byte."""

_F32 = ir.FloatType()
_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)


def _data(context: Any, builder: Any, kind: types.Array, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data


def _width(context: Any, builder: Any, kind: types.Array, value: Any) -> Any:
    """Number of columns of a two-dimensional array."""
    array = context.make_array(kind)(context, builder, value)
    return cgutils.unpack_tuple(builder, array.shape, 2)[1]


def _at(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.load(builder.gep(pointer, [index]))


def _vector_at(builder: Any, pointer: Any, index: Any, element: Any) -> Any:
    """Load a vector of experts; rows of a table start anywhere, hence no alignment."""
    where = builder.gep(pointer, [index])
    where = builder.bitcast(where, ir.VectorType(element, LANES).as_pointer())
    return builder.load(where, align=element.width // 8 if element is not _F32 else 4)


def _fetch(builder: Any, pointer: Any, index: Any) -> None:
    """Ask for a part of a table before it is needed."""
    byte = _I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    where = builder.bitcast(builder.gep(pointer, [index]), byte)
    to_read, soon, of_data = (ir.Constant(_I32, value) for value in (0, 3, 1))
    builder.call(prefetch, [where, to_read, soon, of_data])


def _splat(builder: Any, value: Any, width: int = LANES) -> Any:
    kind = ir.VectorType(value.type, width)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
    mask = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), mask)


def _vector_function(builder: Any, name: str, n_arguments: int) -> Any:
    """A function of LLVM's that works on vectors element by element."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * n_arguments)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [value] * LANES)


def _larger(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def _largest(builder: Any, vector: Any) -> Any:
    """The largest element, in all places of a vector."""
    width = LANES // 2
    while width:
        turned = [(k + width) % LANES for k in range(LANES)]
        mask = ir.Constant(ir.VectorType(_I32, LANES), turned)
        vector = _larger(builder, vector, builder.shuffle_vector(vector, vector, mask))
        width //= 2
    return vector


def _power_of_two(builder: Any, y: Any) -> Any:
    """2^y by a polynomial, for float32 not much below zero; y less than LOWEST counts as that."""
    whole_type = ir.VectorType(_I32, LANES)
    fused = _vector_function(builder, "fmuladd", 3)
    y = _larger(builder, y, _constant(LOWEST))
    whole = builder.call(_vector_function(builder, "floor", 1), [builder.fadd(y, _constant(0.5))])
    x = builder.fsub(y, whole)
    value = _constant(POWER_OF_TWO[0])
    for coefficient in POWER_OF_TWO[1:]:
        value = builder.call(fused, [value, x, _constant(coefficient)])
    bits = builder.add(builder.fptosi(whole, whole_type), ir.Constant(whole_type, [127] * LANES))
    bits = builder.shl(bits, ir.Constant(whole_type, [23] * LANES))
    return builder.fmul(value, builder.bitcast(bits, _VECTOR))


def _running(builder: Any, count: int, start: float) -> list[Any]:
    """Running vectors that stay in registers over a loop."""
    values = []
    for _ in range(count):
        slot = cgutils.alloca_once(builder, _VECTOR)
        builder.store(ir.Constant(_VECTOR, [start] * LANES), slot)
        values.append(slot)
    return values


def _strips(n_vectors: int, first: Any, builder: Any) -> list[Any]:
    return [builder.add(first, ir.Constant(_I64, LANES * t)) for t in range(n_vectors)]


def _add_to_gains(
    builder: Any, gains: Any, where: Any, strips: Any, values: Any, sign: Any
) -> None:
    """gains[where + k] += sign * values[k] in float64."""
    double = ir.VectorType(ir.DoubleType(), LANES)
    factor = _splat(builder, sign)
    for k, slot in zip(strips, values, strict=True):
        at = builder.bitcast(builder.gep(gains, [builder.add(where, k)]), double.as_pointer())
        change = builder.fmul(factor, builder.fpext(builder.load(slot), double))
        builder.store(builder.fadd(builder.load(at, align=8), change), at, align=8)


def _make_add_rows(n_vectors: int) -> Callable:
    @intrinsic
    def add_rows(typingctx, gains, where, first, lo, hi, offsets, table):
        """Add rows `offsets[lo:hi]` of a table, summed in float32, to float64 gains."""
        sig = types.void(gains, types.int64, types.int64, types.int64, types.int64, offsets, table)

        def codegen(context, builder, signature, args):
            at, k, begin, end = args[1:5]
            gains_, offsets_, table_ = (
                _data(context, builder, signature.args[i], args[i]) for i in (0, 5, 6)
            )
            strips = _strips(n_vectors, k, builder)
            sums = _running(builder, n_vectors, 0.0)
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(_I64, 1)) as (i, _):
                offset = _at(builder, offsets_, i)
                for strip, slot in zip(strips, sums, strict=True):
                    term = _vector_at(builder, table_, builder.add(offset, strip), _F32)
                    builder.store(builder.fadd(builder.load(slot), term), slot)
            one = ir.Constant(ir.DoubleType(), 1.0)
            _add_to_gains(builder, gains_, at, strips, sums, one)
            return context.get_dummy_value()

        return sig, codegen

    return add_rows


def _make_add_changes(n_vectors: int) -> Callable:
    @intrinsic
    def add_changes(
        typingctx, gains, where, first, lo, hi, sign, variables, offsets, old_rank, old_log,
        new_rank, new_rank_at, new_log, table, rank,
    ):  # fmt: skip
        """Move gains from old owners to new and better ones, for variables lo to hi of a list."""
        i8 = types.int64
        sig = types.void(
            gains, i8, i8, i8, i8, types.float64, variables, offsets, old_rank, old_log, new_rank,
            i8, new_log, table, rank,
        )  # fmt: skip
        rank_type = ir.IntType(rank.dtype.bitwidth)

        def codegen(context, builder, signature, args):
            at, k, begin, end, sign_ = args[1:6]
            new_rank_at_ = args[11]
            arrays = [
                _data(context, builder, signature.args[i], args[i])
                for i in (0, 6, 7, 8, 9, 10, 12, 13, 14)
            ]
            gains_, variables_, offsets_, old_rank_, old_log_, new_rank_, new_log_ = arrays[:7]
            table_, rank_ = arrays[7:]
            lanes = _width(context, builder, signature.args[14], args[14])
            strips = _strips(n_vectors, k, builder)
            sums = _running(builder, n_vectors, 0.0)
            zero = ir.Constant(_VECTOR, [0.0] * LANES)
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(_I64, 1)) as (i, _):
                d = _at(builder, variables_, i)
                offset = _at(builder, offsets_, d)
                place = builder.mul(d, lanes)
                log_before = _at(builder, old_log_, d)
                lost = builder.fsub(log_before, _at(builder, new_log_, d))
                log_before, lost = _splat(builder, log_before), _splat(builder, lost)
                rank_before = _splat(builder, _at(builder, old_rank_, d))
                rank_after = _at(builder, new_rank_, builder.add(new_rank_at_, d))
                rank_after = _splat(builder, rank_after)
                for strip, slot in zip(strips, sums, strict=True):
                    log = _vector_at(builder, table_, builder.add(offset, strip), _F32)
                    ranks = _vector_at(builder, rank_, builder.add(place, strip), rank_type)
                    beats_old = builder.icmp_unsigned("<", ranks, rank_before)
                    beats_new = builder.icmp_unsigned("<", ranks, rank_after)
                    term = builder.select(beats_old, builder.fsub(log_before, log), zero)
                    term = builder.select(beats_new, lost, term)
                    builder.store(builder.fadd(builder.load(slot), term), slot)
            _add_to_gains(builder, gains_, at, strips, sums, sign_)
            return context.get_dummy_value()

        return sig, codegen

    return add_changes


def _make_multiply_ratios(n_vectors: int) -> Callable:
    @intrinsic
    def multiply_ratios(
        typingctx, mantissa, exponent, row, first, lo, hi, offsets, factors, shares, ahead, levels
    ):  # fmt: skip
        """Multiply running products by prod (a + b e p) / prod (a' + b' e), variables lo..hi.

        `factors` has a, b, a', b' of these variables alone. Shares so far `ahead` of those in
        use are asked for, if it is not zero.
        """
        i8 = types.int64
        sig = types.void(mantissa, exponent, i8, i8, i8, i8, offsets, factors, shares, i8, levels)

        def codegen(context, builder, signature, args):
            row_, k, begin, end = args[2:6]
            ahead_ = args[9]
            far = builder.icmp_signed(">", ahead_, ir.Constant(_I64, 0))
            arrays = [
                _data(context, builder, signature.args[i], args[i]) for i in (0, 1, 6, 7, 8, 10)
            ]
            mantissa_, exponent_, offsets_, factors_, shares_, levels_ = arrays
            lanes = _width(context, builder, signature.args[10], args[10])
            n_features = _width(context, builder, signature.args[6], args[6])
            strips = _strips(n_vectors, k, builder)
            above = _running(builder, n_vectors, 1.0)
            below = _running(builder, n_vectors, 1.0)
            fused = _vector_function(builder, "fmuladd", 3)
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(_I64, 1)) as (d, _):
                cell = builder.add(builder.mul(row_, n_features), d)
                offset = _at(builder, offsets_, cell)
                place = builder.mul(d, lanes)
                four = builder.mul(builder.sub(d, begin), ir.Constant(_I64, 4))
                at_four = [builder.add(four, ir.Constant(_I64, s)) for s in range(4)]
                with builder.if_then(far):
                    later = builder.add(offset, ahead_)
                    for strip in strips:
                        _fetch(builder, shares_, builder.add(later, strip))
                a, b, a_below, b_below = (
                    _splat(builder, _at(builder, factors_, at)) for at in at_four
                )
                for strip, top, bottom in zip(strips, above, below, strict=True):
                    share = _vector_at(builder, shares_, builder.add(offset, strip), _F32)
                    level = _vector_at(builder, levels_, builder.add(place, strip), _F32)
                    up = builder.call(fused, [share, b, a])
                    down = builder.call(fused, [level, b_below, a_below])
                    builder.store(builder.fmul(builder.load(top), up), top)
                    builder.store(builder.fmul(builder.load(bottom), down), bottom)
            whole = ir.VectorType(_I32, LANES)
            for strip, top, bottom in zip(strips, above, below, strict=True):
                cell = builder.add(builder.mul(row_, lanes), strip)
                at = builder.bitcast(builder.gep(mantissa_, [cell]), _VECTOR.as_pointer())
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
                builder.store(builder.bitcast(bits, _VECTOR), at, align=4)
            return context.get_dummy_value()

        return sig, codegen

    return multiply_ratios


@intrinsic
def mixture_shares(typingctx, lo, hi, offsets, table, log2_levels, shares):
    """e_k p_k of variables lo to hi of a row, scaled so that p is at most one per variable.

    `table` holds log p and `log2_levels` log2 e; values of a variable begin at its offset in
    `table` and in `shares`.
    """
    sig = types.void(types.int64, types.int64, offsets, table, log2_levels, shares)

    def codegen(context, builder, signature, args):
        offsets_, table_, levels_, shares_ = (
            _data(context, builder, signature.args[i], args[i]) for i in range(2, 6)
        )
        lanes = _width(context, builder, signature.args[4], args[4])
        fused = _vector_function(builder, "fmuladd", 3)
        zero, one, step = (ir.Constant(_I64, value) for value in (0, 1, LANES))
        top = cgutils.alloca_once(builder, _VECTOR)
        with cgutils.for_range_slice(builder, args[0], args[1], one) as (d, _):
            offset = _at(builder, offsets_, d)
            place = builder.mul(d, lanes)
            builder.store(_vector_at(builder, table_, offset, _F32), top)
            with cgutils.for_range_slice(builder, step, lanes, step) as (k, _):
                log = _vector_at(builder, table_, builder.add(offset, k), _F32)
                builder.store(_larger(builder, builder.load(top), log), top)
            most = _largest(builder, builder.load(top))
            with cgutils.for_range_slice(builder, zero, lanes, step) as (k, _):
                at = builder.add(offset, k)
                log = builder.fsub(_vector_at(builder, table_, at, _F32), most)
                level = _vector_at(builder, levels_, builder.add(place, k), _F32)
                y = builder.call(fused, [log, _constant(LOG2_E), level])
                out = builder.bitcast(builder.gep(shares_, [at]), _VECTOR.as_pointer())
                builder.store(_power_of_two(builder, y), out, align=4)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def list_flags(typingctx, flags, n_words, places, found):
    """Write where `flags` are set to `found`; returns how many are.

    Eight flags (uint8, 0 or 1) at a time, without a branch: the numbers of all that are set are
    looked up in `places` and written together, the next eight right behind the last that counts.
    So `found` needs room for seven more than there are.
    """
    sig = types.int64(flags, types.int64, places, found)

    def codegen(context, builder, signature, args):
        flags_, places_, found_ = (
            _data(context, builder, signature.args[i], args[i]) for i in (0, 2, 3)
        )
        zero, one, eight = (ir.Constant(_I64, value) for value in (0, 1, 8))
        octet = ir.VectorType(_I64, 8)
        count_bits = ir.FunctionType(_I64, [_I64])
        count_bits = cgutils.get_or_insert_function(builder.module, count_bits, "llvm.ctpop.i64")
        words = builder.bitcast(flags_, _I64.as_pointer())
        count = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range_slice(builder, zero, args[1], one) as (i, _):
            word = _at(builder, words, i)
            bits = builder.mul(word, ir.Constant(_I64, GATHER_FLAGS))
            bits = builder.lshr(bits, ir.Constant(_I64, 56))
            where = builder.gep(places_, [builder.mul(bits, eight)])
            where = builder.bitcast(where, ir.VectorType(_I8, 8).as_pointer())
            places_set = builder.zext(builder.load(where, align=1), octet)
            first = _splat(builder, builder.mul(i, eight), 8)
            m = builder.load(count)
            out = builder.bitcast(builder.gep(found_, [m]), octet.as_pointer())
            builder.store(builder.add(places_set, first), out, align=8)
            builder.store(builder.add(m, builder.call(count_bits, [word])), count)
        return builder.load(count)

    return sig, codegen


@intrinsic
def exponent_of(typingctx, x):
    """Integer n with 2^n <= x < 2^(n + 1), for a normal positive float32."""

    def codegen(context, builder, signature, args):
        bits = builder.lshr(builder.bitcast(args[0], _I32), ir.Constant(_I32, 23))
        return builder.sub(bits, ir.Constant(_I32, 127))

    return types.int32(types.float32), codegen


@intrinsic
def power_of_two(typingctx, n):
    """2^n as a float32, for an integer -126 <= n <= 127."""

    def codegen(context, builder, signature, args):
        bits = builder.shl(builder.add(args[0], ir.Constant(_I32, 127)), ir.Constant(_I32, 23))
        return builder.bitcast(bits, _F32)

    return types.float32(types.int32), codegen


add_rows_4, add_rows_3, add_rows_2, add_rows_1 = (_make_add_rows(t) for t in (4, 3, 2, 1))
add_changes_4, add_changes_3, add_changes_2, add_changes_1 = (
    _make_add_changes(t) for t in (4, 3, 2, 1)
)
multiply_ratios_4, multiply_ratios_3, multiply_ratios_2, multiply_ratios_1 = (
    _make_multiply_ratios(t) for t in (4, 3, 2, 1)
)
