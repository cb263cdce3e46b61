"""Kernels of EM over codes: without edges a single launch, with edges five per iteration.

A code is the list of its active experts, as in compiled code on the host, and types are processed
in parallel. Rows in which both experts of a pair are active are counted in integers, in units of a
small fraction of a row. Integer sums do not depend on the order, so runs are bitwise reproducible.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.backends.nvidia.compiler import CUDAOptions

from dynpart.prior._code_prior import ROOT, CodePrior
from dynpart.prior._counted import EDGE_PRICE, LEAST_SHARE, NEGLIGIBLE, SHRINKAGE, TINY, n_pairs
from dynpart.prior._dense import DenseCodes

SHARES = tl.constexpr(0)
LOG_PROBABILITIES = tl.constexpr(1)
LIKELIEST = tl.constexpr(2)
"""Modes: what is computed from the scores of codes in types."""
TILE = 256
"""Number of scores (codes x types) per program."""
SLOTS = 32
"""Number of experts of a code whose pairs with another expert are counted together."""
EM_TILE = 4096
"""The same if a program iterates by itself, and sums (types x experts) that it adds at a time."""
FEWEST_TYPES = 16
"""Minimum number of types with their padding, which reduces the number of kernel variants."""
FEWEST_CODES = 16
"""Minimum number of codes of such a program."""
TOGETHER = tl.constexpr(4)
"""Codes that it reads at a time to add them up."""
PARTS = tl.constexpr(8)
"""Sums of programs that are read at a time."""
INTEGER_BITS = 61
"""The total of all rows is less than two to this power in the integers that count pairs."""
LEAST = tl.constexpr(LEAST_SHARE)
LITTLE = tl.constexpr(NEGLIGIBLE)
SHRUNK = tl.constexpr(SHRINKAGE)
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether Triton interprets kernels, one program after the other."""
CAN_WAIT = INTERPRETED or "launch_cooperative_grid" in CUDAOptions.__dataclass_fields__
"""Whether programs can wait for each other: Triton 3.3 and later start them at the same time."""
SMALLEST = tl.constexpr(TINY)


@triton.jit
def list_kernel(codes, members, sizes, n_experts, LANES: tl.constexpr):
    """List the active experts of a code, ascending."""
    i, k = tl.program_id(0), tl.arange(0, LANES)
    active = tl.load(codes + i * (n_experts + 1) + k, mask=k < n_experts, other=0).to(tl.int32)
    place = tl.cumsum(active, axis=0) - 1
    tl.store(members + i * n_experts + place, k.to(tl.int16), mask=active > 0)
    tl.store(sizes + i, tl.sum(active, axis=0))


@triton.jit
def scores_of(
    members, sizes, codes, constant, single, parent, pair, i, live, n_types, n_experts,
    LINKED: tl.constexpr, CODES: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """Log w_c + log P_c(h) of codes i in all types, -inf for the padding of types."""
    c = tl.arange(0, TYPES)
    known = c < n_types
    score = tl.load(constant + c, mask=known, other=-float("inf"))[None, :]
    score += tl.zeros([CODES, TYPES], tl.float64)
    size = tl.load(sizes + i, mask=live, other=0)
    for slot in range(tl.max(size, axis=0)):
        inside = (slot < size)[:, None] & known[None, :]
        k = tl.load(members + i * n_experts + slot, mask=slot < size, other=0).to(tl.int32)
        here = k[:, None] * n_types + c[None, :]
        score += tl.load(single + here, mask=inside, other=0.0)
        if LINKED:
            # The parent of a root is n_experts, an index that no code contains.
            above = tl.load(parent + here, mask=inside, other=0)
            both = tl.load(codes + i[:, None] * (n_experts + 1) + above, mask=inside, other=0) > 0
            score += tl.load(pair + here, mask=both, other=0.0)
    return score


@triton.jit
def store_shares(score, counts, share, i, live, n_types, TYPES: tl.constexpr):
    """Rows of codes i that belong to each type, from their scores."""
    c = tl.arange(0, TYPES)
    below = score - tl.max(score, axis=1)[:, None]
    its = tl.where(below > LEAST, tl.exp(below), 0.0)
    its *= (tl.load(counts + i, mask=live, other=0.0) / tl.sum(its, axis=1))[:, None]
    place = i[:, None] * n_types + c[None, :]
    tl.store(share + place, its, mask=live[:, None] & (c < n_types)[None, :])


@triton.jit
def score_kernel(
    members, sizes, codes, counts, constant, single, parent, pair, told, which,
    n_codes, n_types, n_experts,
    LINKED: tl.constexpr, MODE: tl.constexpr, CODES: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """Scores of codes in all types, and the result of the mode."""
    i = tl.program_id(0) * CODES + tl.arange(0, CODES)
    live = i < n_codes
    score = scores_of(
        members, sizes, codes, constant, single, parent, pair, i, live, n_types, n_experts,
        LINKED, CODES, TYPES,
    )  # fmt: skip
    if MODE == SHARES:
        store_shares(score, counts, told, i, live, n_types, TYPES)
    else:
        most = tl.max(score, axis=1)
        if MODE == LIKELIEST:
            tl.store(which + i, tl.argmax(score, axis=1).to(tl.int64), mask=live)
            tl.store(told + i, most, mask=live)
        else:
            total = tl.sum(tl.exp(score - most[:, None]), axis=1)
            tl.store(told + i, most + tl.log(total), mask=live)


@triton.jit
def pairs_kernel(
    members, sizes, counts, share, pairs, n_types, n_experts, n_pairs, scale,
    TYPES: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Count the pairs of active experts of a code in each of its types."""
    i, c, some = tl.program_id(0), tl.arange(0, TYPES), tl.arange(0, SLOTS)
    members += i * n_experts
    size = tl.load(sizes + i)
    rows = tl.load(share + i * n_types + c, mask=c < n_types, other=0.0)
    left = (rows > LITTLE * tl.load(counts + i)).to(tl.int32)
    amount = (rows * scale + 0.5).to(tl.int64)
    for _ in range(tl.sum(left, axis=0)):
        kind = tl.argmax(left, axis=0)
        own = tl.sum(tl.where(c == kind, amount, 0), axis=0)
        left = tl.where(c == kind, 0, left)
        for place in range(size):
            k = tl.load(members + place).to(tl.int32)
            begin = kind * n_pairs + k * (k + 1) // 2
            for start in range(0, place + 1, SLOTS):
                inside = start + some <= place
                other = tl.load(members + start + some, mask=inside, other=0).to(tl.int32)
                added = tl.zeros([SLOTS], tl.int64) + own
                tl.atomic_add(pairs + begin + other, added, mask=inside, sem="relaxed")


@triton.jit
def unless_less_than_one(rows):
    """Rows of types, 0 if less than one."""
    return tl.where(rows >= tl.minimum(tl.max(rows, axis=0), 1.0), rows, 0.0)


@triton.jit
def rows_of_types(sums, n_types, n_experts, TYPES: tl.constexpr):
    """Rows of all types, 0 if less than one; they are in the last column of the sums."""
    c = tl.arange(0, TYPES)
    rows = tl.load(sums + c * (n_experts + 1) + n_experts, mask=c < n_types, other=0.0)
    return unless_less_than_one(rows)


@triton.jit
def frequencies(active, overall, rows, n_experts, LANES: tl.constexpr):
    """Frequency of each expert in a type with this many `rows`, and in all rows."""
    k = tl.arange(0, LANES)
    usual = tl.load(overall + k, mask=k < n_experts, other=0.5)
    return (tl.where(rows > 0, active, 0.0) + SHRUNK * usual) / (rows + SHRUNK), usual


@triton.jit
def probabilities(sums, overall, c, rows, n_experts, LANES: tl.constexpr):
    """The same from the sums of all types."""
    k = tl.arange(0, LANES)
    active = tl.load(sums + c * (n_experts + 1) + k, mask=k < n_experts, other=0.0)
    return frequencies(active, overall, rows, n_experts, LANES)


@triton.jit
def store_type(
    c, share, p, log_weight, constant, single, table, n_types, n_experts, LANES: tl.constexpr
):  # fmt: skip
    """A type with this share of rows, whose experts are active independently of each other."""
    k = tl.arange(0, LANES)
    inside = k < n_experts
    idle, busy = tl.log(1.0 - p), tl.log(p)
    weight = tl.log(tl.maximum(share, SMALLEST))
    tl.store(log_weight + c, weight)
    tl.store(constant + c, weight + tl.sum(tl.where(inside, idle, 0.0), axis=0))
    tl.store(single + k * n_types + c, busy - idle, mask=inside)
    entry = table + (c * n_experts + k) * 4
    for above in tl.static_range(2):
        tl.store(entry + 2 * above, idle, mask=inside)
        tl.store(entry + 2 * above + 1, busy, mask=inside)


@triton.jit
def mixture_kernel(
    sums, overall, log_weight, constant, single, table, n_types, n_experts,
    LANES: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """A type whose experts are active independently of each other, from its sums."""
    c = tl.program_id(0)
    all_rows = rows_of_types(sums, n_types, n_experts, TYPES)
    rows = tl.sum(tl.where(tl.arange(0, TYPES) == c, all_rows, 0.0), axis=0)
    p, _ = probabilities(sums, overall, c, rows, n_experts, LANES)
    store_type(
        c, rows / tl.sum(all_rows, axis=0), p, log_weight, constant, single, table, n_types,
        n_experts, LANES,
    )  # fmt: skip


@triton.jit
def begin_kernel(
    codes, own, drawn, old_log_weight, old_table, log_weight, constant, single, table,
    n_old, n_types, n_experts,
    LANES: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """A type of a prior, or a new one halfway between the type of a drawn code and the code."""
    c, k, kinds = tl.program_id(0), tl.arange(0, LANES), tl.arange(0, TYPES)
    # The type from which each one is made.
    code = tl.load(drawn + kinds - n_old, mask=(kinds >= n_old) & (kinds < n_types), other=0)
    of_code = tl.load(own + code).to(tl.int32)
    source = tl.where(kinds < n_old, kinds, of_code)
    weights = tl.exp(tl.load(old_log_weight + source, mask=kinds < n_types, other=-float("inf")))
    mine = tl.sum(tl.where(kinds == c, source, 0), axis=0)
    weight = tl.sum(tl.where(kinds == c, weights, 0.0), axis=0)
    p = tl.exp(tl.load(old_table + (mine * n_experts + k) * 4 + 1, mask=k < n_experts, other=-1.0))
    if c >= n_old:
        i = tl.sum(tl.where(kinds == c, code, 0), axis=0)
        active = tl.load(codes + i * (n_experts + 1) + k, mask=k < n_experts, other=0)
        p = 0.5 * p + 0.5 * (0.05 + 0.9 * active.to(tl.float64))
    store_type(
        c, weight / tl.sum(weights, axis=0), p, log_weight, constant, single, table, n_types,
        n_experts, LANES,
    )  # fmt: skip


@triton.jit
def wait_for_all(arrived, n_expected):
    """Wait until the programs have arrived this often in total; they must all be running."""
    tl.debug_barrier()
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < n_expected:
        pass
    tl.debug_barrier()


@triton.jit
def mixture_em_kernel(
    members, sizes, codes, counts, overall, log_weight, constant, single, table, share, parts,
    parts_of_rows, arrived,
    n_codes, n_each, n_types, n_experts, n_iter, n_programs,
    CODES: tl.constexpr, TYPES: tl.constexpr, SOME: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Iterations of EM for types without edges.

    A program divides the rows of its `n_each` codes among types and adds them up, SOME experts at a
    time, into its place in `parts` and `parts_of_rows`. Once all have done so, each adds up the
    parts of some types, in order, and stores these types.
    """
    program = tl.program_id(0)
    first = program * n_each
    last = tl.minimum(first + n_each, n_codes)
    c, some, k = tl.arange(0, TYPES), tl.arange(0, CODES), tl.arange(0, LANES)
    at_once = tl.arange(0, PARTS)
    known = c < n_types
    for iteration in range(n_iter):
        rows = tl.zeros([TYPES], tl.float64)
        for start in range(first, last, CODES):
            live = start + some < last
            score = scores_of(
                members, sizes, codes, constant, single, single, single, start + some, live,
                n_types, n_experts, False, CODES, TYPES,
            )  # fmt: skip
            store_shares(score, counts, share, start + some, live, n_types, TYPES)
        tl.debug_barrier()
        for start in range(first, last, CODES):
            live = (start + some < last)[:, None] & known[None, :]
            place = (start + some)[:, None] * n_types + c[None, :]
            rows += tl.sum(tl.load(share + place, mask=live, other=0.0), axis=0)
        tl.store(parts_of_rows + program * n_types + c, rows, mask=known)
        for begin in range(0, n_experts, SOME):
            lane = begin + tl.arange(0, SOME)
            total = tl.zeros([TYPES, SOME], tl.float64)
            for start in range(first, last, TOGETHER):
                for u in tl.static_range(TOGETHER):
                    i = start + u
                    live = known & (i + 0 * c < last)
                    its = tl.load(share + i * n_types + c, mask=live, other=0.0)
                    live = (lane < n_experts) & (i + 0 * lane < last)
                    active = tl.load(codes + i * (n_experts + 1) + lane, mask=live, other=0)
                    total += its[:, None] * active.to(tl.float64)[None, :]
            here = (program * n_types + c)[:, None] * n_experts + lane[None, :]
            tl.store(parts + here, total, mask=known[:, None] & (lane < n_experts)[None, :])
        wait_for_all(arrived, (2 * iteration + 1) * n_programs)
        all_rows = tl.zeros([TYPES], tl.float64)
        for start in range(0, n_programs, PARTS):
            part = (start + at_once)[:, None]
            here = part * n_types + c[None, :]
            live = (part < n_programs) & known[None, :]
            all_rows += tl.sum(tl.load(parts_of_rows + here, mask=live, other=0.0), axis=0)
        all_rows = unless_less_than_one(all_rows)
        for kind in range(program, n_types, n_programs):
            active = tl.zeros([LANES], tl.float64)
            for start in range(0, n_programs, PARTS):
                part = (start + at_once)[:, None]
                here = (part * n_types + kind) * n_experts + k[None, :]
                live = (part < n_programs) & (k < n_experts)[None, :]
                active += tl.sum(tl.load(parts + here, mask=live, other=0.0), axis=0)
            its_rows = tl.sum(tl.where(c == kind, all_rows, 0.0), axis=0)
            p, _ = frequencies(active, overall, its_rows, n_experts, LANES)
            store_type(
                kind, its_rows / tl.sum(all_rows, axis=0), p, log_weight, constant, single, table,
                n_types, n_experts, LANES,
            )  # fmt: skip
        wait_for_all(arrived, (2 * iteration + 2) * n_programs)


@triton.jit
def x_log_x(x):
    return tl.maximum(x, 0.0) * tl.log(tl.maximum(x, SMALLEST))


@triton.jit
def place_of(one, other):
    """Index of a pair of experts; see `place_of_pair`."""
    high, low = tl.maximum(one, other), tl.minimum(one, other)
    return high * (high + 1) // 2 + low


@triton.jit
def forest_kernel(
    pairs, sums, overall, price, log_weight, constant, single, parent, pair, tree, table, lifts,
    n_types, n_experts, n_pairs, unit,
    LANES: tl.constexpr, TYPES: tl.constexpr,
):  # fmt: skip
    """A type in which the strongest dependences form trees (Prim), and its coefficients.

    `parent` has shape (expert, type), `tree` has shape (type, expert).
    """
    c, k = tl.program_id(0), tl.arange(0, LANES)
    inside = k < n_experts
    all_rows = rows_of_types(sums, n_types, n_experts, TYPES)
    rows = tl.sum(tl.where(tl.arange(0, TYPES) == c, all_rows, 0.0), axis=0)
    p, usual = probabilities(sums, overall, c, rows, n_experts, LANES)
    pairs += c * n_pairs
    counts = inside.to(tl.float64) * rows > 0
    active = tl.load(pairs + place_of(k, k), mask=counts, other=0).to(tl.float64) * unit
    total = rows + SHRUNK
    alone = active + SHRUNK * usual
    known = x_log_x(alone) + x_log_x(total - alone)
    beyond = x_log_x(total)
    least = tl.load(price)
    best = tl.where(inside, 0.0, -float("inf"))
    best += tl.zeros([LANES], tl.float64)
    link = tl.zeros([LANES], tl.int32) - 1
    above = link
    for _ in range(n_experts):
        j = tl.argmax(best, axis=0)
        mine = k == j
        above = tl.where(mine, link, above)
        best = tl.where(mine, -float("inf"), best)
        both = tl.load(pairs + place_of(k, j), mask=counts, other=0).to(tl.float64) * unit
        its_alone = tl.sum(tl.where(mine, alone, 0.0), axis=0)
        its_known = tl.sum(tl.where(mine, known, 0.0), axis=0)
        both += SHRUNK * usual * tl.sum(tl.where(mine, usual, 0.0), axis=0)
        # In a fixed order, whichever of the two was reached first.
        later = k > j
        high, low = tl.where(later, alone, its_alone), tl.where(later, its_alone, alone)
        gain = x_log_x(both) + x_log_x(high - both) + x_log_x(total - high - low + both)
        gain += x_log_x(low - both)
        gain -= tl.where(later, known, its_known)
        gain -= tl.where(later, its_known, known)
        gain += beyond - least
        better = (gain > best) & (best >= 0)
        best, link = tl.where(better, gain, best), tl.where(better, j, link)
    child = above >= 0
    over = tl.where(child, above, 0)
    both = tl.load(pairs + place_of(k, over), mask=counts, other=0).to(tl.float64) * unit
    theirs = tl.load(pairs + place_of(over, over), mask=counts, other=0).to(tl.float64) * unit
    only, only_above = active - both, theirs - both
    neither = rows - both - only - only_above
    idle, busy = SHRUNK * (1.0 - p), SHRUNK * p
    nobody, alone = tl.maximum(neither, 0.0) + idle, tl.maximum(only, 0.0) + busy
    absent, joined = tl.maximum(only_above, 0.0) + idle, tl.maximum(both, 0.0) + busy
    first_idle = tl.log(tl.where(child, nobody / (nobody + alone), 1.0 - p))
    first_busy = tl.log(tl.where(child, alone / (nobody + alone), p))
    then_idle = tl.log(tl.where(child, absent / (absent + joined), 1.0 - p))
    then_busy = tl.log(tl.where(child, joined / (absent + joined), p))
    weight = tl.log(tl.maximum(rows / tl.sum(all_rows, axis=0), SMALLEST))
    tl.store(log_weight + c, weight)
    tl.store(constant + c, weight + tl.sum(tl.where(inside, first_idle, 0.0), axis=0))
    entry = table + (c * n_experts + k) * 4
    tl.store(entry, first_idle, mask=inside)
    tl.store(entry + 1, first_busy, mask=inside)
    tl.store(entry + 2, then_idle, mask=inside)
    tl.store(entry + 3, then_busy, mask=inside)
    added = first_busy - first_idle
    tl.store(pair + k * n_types + c, then_busy - then_idle - added, mask=inside & child)
    tl.store(pair + k * n_types + c, 0.0 * added, mask=inside & (above < 0))
    tl.store(parent + k * n_types + c, tl.where(child, above, n_experts), mask=inside)
    tree += c * n_experts
    lifts += c * n_experts
    tl.store(tree + k, above.to(tl.int64), mask=inside)
    tl.store(lifts + k, tl.where(child, then_idle - first_idle, 0.0), mask=inside)
    tl.debug_barrier()
    for j in range(n_experts):
        added += tl.where(k == tl.load(tree + j), tl.load(lifts + j), 0.0)
    tl.store(single + k * n_types + c, added, mask=inside)


@dataclass(frozen=True, eq=False)
class KernelCodes(DenseCodes):
    """The same codes, with EM by kernels."""

    @cached_property
    def _bytes(self) -> Tensor:
        """Codes in bytes, and a column of zeros, the parent of roots; (n_codes, n_experts + 1)."""
        return torch.nn.functional.pad(self.codes.to(torch.uint8), (0, 1))

    @cached_property
    def _with_ones(self) -> Tensor:
        """The codes and a column of ones, which counts rows."""
        return torch.nn.functional.pad(self.codes, (0, 1), value=1.0)

    @cached_property
    def _lists(self) -> tuple[Tensor, Tensor]:
        """The active experts of each code, ascending, and their number."""
        n_codes, n_experts = self.codes.shape
        members = self.codes.new_empty((n_codes, n_experts), dtype=torch.int16)
        sizes = self.codes.new_empty(n_codes, dtype=torch.int32)
        lanes = power_of_two(n_experts)
        list_kernel[(n_codes,)](self._bytes, members, sizes, n_experts, LANES=lanes, num_warps=1)
        return members, sizes

    @cached_property
    def _no_edge(self) -> tuple[Tensor, Tensor]:
        """Parent and coefficient of a root."""
        return torch.full((1, 1), ROOT, device=self.counts.device), 0 * self.counts[:1, None]

    @cached_property
    def _scale(self) -> float:
        """Factor by which rows are multiplied for integer counts: a power of two."""
        return 2.0 ** min(100, INTEGER_BITS - math.ceil(math.log2(self.n_rows)))

    def _score(
        self, mode: Any, told: Tensor, which: Tensor, tables: tuple, *, linked: bool
    ) -> None:
        n_types = len(tables[0])
        (n_codes, n_experts), types = self.codes.shape, power_of_two(n_types)
        n_together = max(1, TILE // types)
        score_kernel[(-(-n_codes // n_together),)](
            *self._lists, self._bytes, self.counts, *tables, told, which, n_codes, n_types,
            n_experts, LINKED=linked, MODE=mode.value, CODES=n_together, TYPES=types,
        )  # fmt: skip

    def log_prob(self, prior: CodePrior, *, linked: bool) -> Any:
        """Sum of log P(h) over rows."""
        found = torch.empty_like(self.counts)
        tables = tables_of(prior, linked=linked)
        self._score(LOG_PROBABILITIES, found, found, tables, linked=linked)
        return self.counts @ found

    def likeliest(self, prior: CodePrior) -> tuple[Any, Any]:
        """The likeliest type of each code and log P(h, type) of it, under a prior without edges."""
        most = torch.empty_like(self.counts)
        own = torch.empty_like(self.counts, dtype=torch.int64)
        self._score(LIKELIEST, most, own, tables_of(prior, linked=False), linked=False)
        return own, most

    def begun(self, prior: CodePrior, own: Any, drawn: Any) -> CodePrior:
        """The prior and new types, each initialised at a drawn code."""
        n_types, n_experts = prior.n_types + len(drawn), prior.n_experts
        new, parts = self._new_types(n_types)
        begin_kernel[(n_types,)](
            self._bytes, own, drawn, prior.log_weight, prior.log_table, *parts,
            prior.n_types, n_types, n_experts, LANES=power_of_two(n_experts),
            TYPES=power_of_two(n_types), num_warps=n_warps(n_experts),
        )  # fmt: skip
        return new

    def _new_types(self, n_types: int) -> tuple[CodePrior, tuple[Tensor, ...]]:
        """A prior without edges whose numbers are still to be stored, and where.

        They are log weights, coefficients of no and of single experts, and tables.
        """
        new, n_experts = self.counts.new_empty, self.codes.shape[1]
        log_weight, constant, table = new(n_types), new(n_types), new((n_types, n_experts, 2, 2))
        single = new((n_experts, n_types))
        root, nothing = (part.expand(n_types, n_experts) for part in self._no_edge)
        numbers: Any = log_weight, root, table
        prior = CodePrior(*numbers).knowing(constant, single.T, nothing)
        return prior, (log_weight, constant, single, table)

    def _mixture_em(self, prior: CodePrior, n_iter: int) -> CodePrior:
        """EM without edges, in a single launch of programs that run at the same time."""
        found, parts = self._new_types(prior.n_types)
        for part, known in zip(parts[1:3], tables_of(prior, linked=False)[:2], strict=True):
            part.copy_(known)
        (n_codes, n_experts), n_types, new = self.codes.shape, prior.n_types, self.counts.new_empty
        n_programs = min(n_programs_at_once(self.counts.device), -(-n_codes // FEWEST_CODES))
        n_each = -(-n_codes // n_programs)
        types, lanes = max(FEWEST_TYPES, power_of_two(n_types)), power_of_two(n_experts)
        at_once = {} if INTERPRETED else {"launch_cooperative_grid": True}
        mixture_em_kernel[(n_programs,)](
            *self._lists, self._bytes, self.counts, self.frequencies, *parts,
            new((n_codes, n_types)), new((n_programs, n_types, n_experts)),
            new((n_programs, n_types)), new(1, dtype=torch.int32).zero_(),
            n_codes, n_each, n_types, n_experts, n_iter, n_programs,
            CODES=min(power_of_two(n_each), max(1, EM_TILE // types)), TYPES=types,
            SOME=min(lanes, max(1, EM_TILE // types)), LANES=lanes, num_warps=16, **at_once,
        )  # fmt: skip
        return self.without_empty(found)

    def em(
        self,
        prior: CodePrior,
        n_iter: int,
        *,
        linked: bool,
        edges: bool,
        price: float = EDGE_PRICE,
    ) -> CodePrior:
        """Run `n_iter` iterations of EM; types without rows are removed."""
        if not linked and not edges and CAN_WAIT:
            return self._mixture_em(prior, n_iter)
        tables = tables_of(prior, linked=linked)
        (n_codes, n_experts), n_types = self.codes.shape, prior.n_types
        new = self.counts.new_empty
        share, sums = new((n_codes, n_types)), new((n_types, n_experts + 1))
        log_weight, constant, table = new(n_types), new(n_types), new((n_types, n_experts, 2, 2))
        single, pair = new((n_experts, n_types)), new((n_experts, n_types))
        parent = new((n_experts, n_types), dtype=torch.int32)
        tree: Any = torch.full((n_types, n_experts), ROOT, device=share.device)
        lanes = power_of_two(n_experts)
        sizes = {"LANES": lanes, "TYPES": power_of_two(n_types)}
        width = n_pairs(n_experts)
        if edges:
            pairs = new((n_types, width), dtype=torch.int64)
            lifts, its_price = new((n_types, n_experts)), torch.full_like(self.counts[:1], price)
        for _ in range(n_iter):
            self._score(SHARES, share, share, tables, linked=linked)
            torch.mm(share.T, self._with_ones, out=sums)
            if edges:
                pairs.zero_()
                pairs_kernel[(n_codes,)](
                    *self._lists, self.counts, share, pairs, n_types, n_experts, width,
                    self._scale, TYPES=sizes["TYPES"], SLOTS=SLOTS, num_warps=1,
                )  # fmt: skip
                forest_kernel[(n_types,)](
                    pairs, sums, self.frequencies, its_price, log_weight, constant, single, parent,
                    pair, tree, table, lifts, n_types, n_experts, width, 1 / self._scale,
                    num_warps=n_warps(n_experts, 8), **sizes,
                )  # fmt: skip
            else:
                mixture_kernel[(n_types,)](
                    sums, self.frequencies, log_weight, constant, single, table, n_types,
                    n_experts, num_warps=n_warps(n_experts), **sizes,
                )  # fmt: skip
            tables, linked = (constant, single, parent, pair), edges
        found = CodePrior(log_weight, tree, table)
        bonds = pair.T if edges else torch.zeros_like(single.T)
        return self.without_empty(found.knowing(constant, single.T, bonds))


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n; Triton's function takes as long as a launch."""
    return 1 << (n - 1).bit_length()


def n_warps(n_experts: int, most: int = 4) -> int:
    """Number of warps of a program with all experts of a type."""
    return max(1, min(most, power_of_two(n_experts) // 32))


@lru_cache(maxsize=16)
def n_programs_at_once(device: torch.device) -> int:
    """Number of programs that certainly run at the same time; the interpreter runs one."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def tables_of(prior: CodePrior, *, linked: bool) -> tuple[Tensor, ...]:
    """Coefficients of a prior, by expert and type; parents and pairs only if it is `linked`."""
    if not linked and "coefficients" not in vars(prior):
        idle, busy = prior.log_table[:, :, 0, 0], prior.log_table[:, :, 0, 1]
        single = torch.as_tensor(busy - idle).T.contiguous()
        return torch.as_tensor(prior.log_weight + idle.sum(axis=1)), single, single, single
    constant, single, pair = (torch.as_tensor(part) for part in prior.coefficients)
    single = single.T.contiguous()
    if not linked:
        return constant, single, single, single
    parent = torch.as_tensor(prior.parent)
    parent = torch.where(parent == ROOT, prior.n_experts, parent).int()
    return constant, single, parent.T.contiguous(), pair.T.contiguous()
