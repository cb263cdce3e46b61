"""Building blocks of LLVM vector code: loads, sums in registers, powers of two.

All tables have the experts of one variable side by side, padded to whole vectors.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, types

from dynpart.engines._cpu_loops import LANES, LOWEST, POWER_OF_TWO

F32 = ir.FloatType()
I8 = ir.IntType(8)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
VECTOR = ir.VectorType(F32, LANES)
DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
HAS_AVX512 = bool(get_host_cpu_features().get("avx512f"))


def data_of(context: Any, builder: Any, kind: types.Array, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data


def width_of(context: Any, builder: Any, kind: types.Array, value: Any) -> Any:
    """Number of columns of a two-dimensional array."""
    array = context.make_array(kind)(context, builder, value)
    return cgutils.unpack_tuple(builder, array.shape, 2)[1]


def length_of(context: Any, builder: Any, kind: types.Array, value: Any) -> Any:
    """Number of elements of a one-dimensional array."""
    array = context.make_array(kind)(context, builder, value)
    return cgutils.unpack_tuple(builder, array.shape, 1)[0]


def load_at(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.load(builder.gep(pointer, [index]))


def vector_at(builder: Any, pointer: Any, index: Any, element: Any) -> Any:
    """Load a vector of experts, unaligned, because rows of a table start anywhere."""
    where = builder.gep(pointer, [index])
    where = builder.bitcast(where, ir.VectorType(element, LANES).as_pointer())
    return builder.load(where, align=element.width // 8 if element is not F32 else 4)


def doubles_at(builder: Any, pointer: Any, index: Any) -> Any:
    """Load as many float64 values."""
    where = builder.bitcast(builder.gep(pointer, [index]), DOUBLES.as_pointer())
    return builder.load(where, align=8)


def fetch(builder: Any, pointer: Any, index: Any) -> None:
    """Prefetch a part of a table."""
    byte = I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    where = builder.bitcast(builder.gep(pointer, [index]), byte)
    to_read, soon, of_data = (ir.Constant(I32, value) for value in (0, 3, 1))
    builder.call(prefetch, [where, to_read, soon, of_data])


def splat(builder: Any, value: Any, width: int = LANES) -> Any:
    kind = ir.VectorType(value.type, width)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    mask = ir.Constant(ir.VectorType(I32, width), [0] * width)
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), mask)


def vector_function(builder: Any, name: str, n_arguments: int) -> Any:
    """A function of LLVM's that works on vectors element by element."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * n_arguments)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")


def constant(value: float) -> Any:
    return ir.Constant(VECTOR, [value] * LANES)


def larger(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def largest(builder: Any, vector: Any) -> Any:
    """The largest element, in all places of a vector."""
    width = LANES // 2
    while width:
        turned = [(k + width) % LANES for k in range(LANES)]
        mask = ir.Constant(ir.VectorType(I32, LANES), turned)
        vector = larger(builder, vector, builder.shuffle_vector(vector, vector, mask))
        width //= 2
    return vector


def two_to(builder: Any, y: Any) -> Any:
    """2^y by a polynomial, for float32 not much below zero; y less than LOWEST counts as that."""
    whole_type = ir.VectorType(I32, LANES)
    fused = vector_function(builder, "fmuladd", 3)
    y = larger(builder, y, constant(LOWEST))
    whole = builder.call(vector_function(builder, "floor", 1), [builder.fadd(y, constant(0.5))])
    x = builder.fsub(y, whole)
    value = constant(POWER_OF_TWO[0])
    for coefficient in POWER_OF_TWO[1:]:
        value = builder.call(fused, [value, x, constant(coefficient)])
    bits = builder.add(builder.fptosi(whole, whole_type), ir.Constant(whole_type, [127] * LANES))
    bits = builder.shl(bits, ir.Constant(whole_type, [23] * LANES))
    return builder.fmul(value, builder.bitcast(bits, VECTOR))


def log_of(builder: Any, x: Any) -> Any:
    """Natural logarithm of a vector, minus infinity of zero.

    With x = 2^n m and m between sqrt(1/2) and sqrt(2), log m is a series in (m - 1) / (m + 1).
    """
    whole_type = ir.VectorType(I32, LANES)

    def whole(value: int) -> Any:
        return ir.Constant(whole_type, [value] * LANES)

    fused = vector_function(builder, "fmuladd", 3)
    bits = builder.bitcast(x, whole_type)
    n = builder.sub(builder.lshr(bits, whole(23)), whole(127))
    m = builder.or_(builder.and_(bits, whole((1 << 23) - 1)), whole(127 << 23))
    m = builder.bitcast(m, VECTOR)
    large = builder.fcmp_ordered(">", m, constant(math.sqrt(2)))
    m = builder.select(large, builder.fmul(m, constant(0.5)), m)
    n = builder.sitofp(builder.add(n, builder.zext(large, whole_type)), VECTOR)
    s = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
    square, series = builder.fmul(s, s), constant(2 / 9)
    for power in (7, 5, 3, 1):
        series = builder.call(fused, [series, square, constant(2 / power)])
    log = builder.call(fused, [n, constant(math.log(2)), builder.fmul(s, series)])
    return builder.select(builder.fcmp_ordered(">", x, constant(0.0)), log, constant(-math.inf))


def append_places(builder: Any, selected: Any, begin: Any, count: Any, found: Any) -> None:
    """Write the places of the selected lanes, counted from `begin`, behind `count` others.

    With the instruction of AVX-512 that moves selected numbers of a vector to its front.
    """
    whole, mask = ir.VectorType(I32, LANES), ir.VectorType(ir.IntType(1), LANES)
    short = ir.IntType(16)
    kind = ir.FunctionType(whole, [whole, whole, mask])
    name = "llvm.x86.avx512.mask.compress.v16i32"
    compress = cgutils.get_or_insert_function(builder.module, kind, name)
    count_bits = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(short, [short]), "llvm.ctpop.i16"
    )
    places = ir.Constant(whole, list(range(LANES)))
    at = builder.add(places, splat(builder, builder.trunc(begin, I32)))
    n_before = builder.load(count)
    out = builder.bitcast(builder.gep(found, [n_before]), whole.as_pointer())
    builder.store(builder.call(compress, [at, at, selected]), out, align=4)
    n_more = builder.call(count_bits, [builder.bitcast(selected, short)])
    builder.store(builder.add(n_before, builder.zext(n_more, I64)), count)


def reduced(vector: Any, width: int, join: Callable[[Any, Any], Any], builder: Any) -> Any:
    """All elements of a vector joined into one, in pairs of halves."""
    while width > 1:
        width //= 2
        kind = ir.VectorType(I32, width)
        low, high = (
            builder.shuffle_vector(vector, vector, ir.Constant(kind, list(range(at, at + width))))
            for at in (0, width)
        )
        vector = join(low, high)
    return builder.extract_element(vector, ir.Constant(I32, 0))


def running(builder: Any, count: int, start: float) -> list[Any]:
    """Running vectors that stay in registers over a loop."""
    values = []
    for _ in range(count):
        slot = cgutils.alloca_once(builder, VECTOR)
        builder.store(ir.Constant(VECTOR, [start] * LANES), slot)
        values.append(slot)
    return values


def strips_of(lanes: Any, widest: int, builder: Any) -> Iterator[list[Any]]:
    """Where the vectors of each strip of experts begin; a strip has at most `widest` vectors.

    Code is emitted in a loop over strips, once for each number of vectors a strip can have.
    """
    zero, whole = (ir.Constant(I64, value) for value in (0, LANES * widest))
    with cgutils.for_range_slice(builder, zero, lanes, whole) as (first, _):
        left = builder.sub(lanes, first)
        for n_vectors in range(1, widest + 1):
            test = "==" if n_vectors < widest else ">="
            fits = builder.icmp_signed(test, left, ir.Constant(I64, LANES * n_vectors))
            with builder.if_then(fits):
                yield [builder.add(first, ir.Constant(I64, LANES * t)) for t in range(n_vectors)]


def add_to_gains(builder: Any, gains: Any, where: Any, strips: Any, values: Any, sign: Any) -> None:
    """gains[where + k] += sign * values[k] in float64."""
    factor = splat(builder, sign)
    for k, slot in zip(strips, values, strict=True):
        at = builder.bitcast(builder.gep(gains, [builder.add(where, k)]), DOUBLES.as_pointer())
        change = builder.fmul(factor, builder.fpext(builder.load(slot), DOUBLES))
        builder.store(builder.fadd(builder.load(at, align=8), change), at, align=8)
