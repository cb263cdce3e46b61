"""Selects the inner loops of the kernels: explicit vectors on processors that suit them."""

from __future__ import annotations

from dynpart.compiled import explicit_vectors
from dynpart.engines import _cpu_loops, _cpu_vectors

_loops = _cpu_vectors if explicit_vectors() else _cpu_loops

add_changes = _loops.add_changes
add_rows = _loops.add_rows
average_rows = _loops.average_rows
best_expert = _loops.best_expert
exponent_of = _loops.exponent_of
largest_of = _loops.largest_of
logarithms = _loops.logarithms
mixture_shares = _loops.mixture_shares
multiply_ratios = _loops.multiply_ratios
owned_by = _loops.owned_by
positions = _loops.positions
power_of_two = _loops.power_of_two
relative_exponentials = _loops.relative_exponentials
sum_of = _loops.sum_of
two_best = _loops.two_best
