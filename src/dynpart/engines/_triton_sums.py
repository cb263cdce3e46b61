"""Kernels of the sums: first the composed opinions, then the sums of every expert.

A row's composition is computed once and stored temporarily. Then one program per expert, range of
variables and part of its rows adds in float64, in an order determined by the codes. There are no
atomics, so sums are the same from run to run.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import Experts
from dynpart.engines._torch_codes import TorchCodes
from dynpart.engines._triton_tables import n_blocks

ROWS = 4
"""Rows a program composes at a time."""
WIDTH = 128
"""Variables of a program."""
TOGETHER = 8
"""Rows an adding program reads at a time."""
ROWS_PER_PART = 4096
"""Number of rows for which an expert has another program."""
MOST_PARTS = 16
"""Maximum number of programs that share the rows of one expert."""


@triton.jit
def compose_kernel(
    x, order, level, mean, variance, pulls, places,
    n_rows, n_features, n_slots,
    GAUSSIAN: tl.constexpr, GRADIENT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Of each row and variable: 1 / E, or the composed opinion and the pull on it over E."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    live = (row < n_rows)[:, None] & (d < n_features)[None, :]
    here = row[:, None] * n_features + d[None, :]
    plane = n_rows * n_features
    # Opinions are relative to the first active expert's: if alone, it has no rounding error.
    leader = tl.load(order + row * n_slots, mask=row < n_rows, other=0)[:, None]
    its = leader * n_features + d[None, :]
    base = tl.load(mean + its, mask=live, other=0.0).to(tl.float64)
    total = tl.zeros([ROWS, WIDTH], tl.float64)
    m = tl.zeros([ROWS, WIDTH], tl.float64)
    # Codes have no gaps, so the loop over slots ends when those of all these rows have ended.
    slot = 0
    while slot < n_slots:
        k = tl.load(order + row * n_slots + slot, mask=row < n_rows, other=-1)
        active = live & (k >= 0)[:, None]
        there = k[:, None] * n_features + d[None, :]
        e = tl.load(level + there, mask=active, other=0.0)
        total += e
        if GRADIENT:
            m += e * (tl.load(mean + there, mask=active, other=0.0) - base)
        slot = tl.where(tl.max(k, axis=0) >= 0, slot + 1, n_slots)
    inverse = 1.0 / tl.where(live, total, 1.0)
    if not GRADIENT:
        tl.store(pulls + here, inverse, mask=live)
        return
    m = base + m * inverse
    value = tl.load(x + here, mask=live, other=0).to(tl.float64)
    if GAUSSIAN:
        base = tl.load(variance + its, mask=live, other=1.0).to(tl.float64)
        v = tl.zeros([ROWS, WIDTH], tl.float64)
        slot = 0
        while slot < n_slots:
            k = tl.load(order + row * n_slots + slot, mask=row < n_rows, other=-1)
            active = live & (k >= 0)[:, None]
            there = k[:, None] * n_features + d[None, :]
            e = tl.load(level + there, mask=active, other=0.0)
            away = tl.load(mean + there, mask=active, other=0.0) - m
            v += e * (tl.load(variance + there, mask=active, other=0.0) - base + away * away)
            slot = tl.where(tl.max(k, axis=0) >= 0, slot + 1, n_slots)
        v = base + v * inverse
        by_mean = (value - m) / v
        by_variance = (by_mean * by_mean - 1.0 / v) * 0.5
        tl.store(pulls + plane + here, by_variance * inverse, mask=live)
        tl.store(places + plane + here, v, mask=live)
    else:
        by_mean = (value - m) / tl.where(live, m * (1.0 - m), 1.0)
    tl.store(pulls + here, by_mean * inverse, mask=live)
    tl.store(places + here, m, mask=live)


@triton.jit
def add_kernel(
    x, weights, pulls, places, members, counts, level, mean, variance, parts,
    n_rows, n_features, n_experts, n_parts,
    GAUSSIAN: tl.constexpr, GRADIENT: tl.constexpr, WEIGHTED: tl.constexpr,
    TOGETHER: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Add up over part of the rows in which an expert is active."""
    expert, part = tl.program_id(1), tl.program_id(2)
    d = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = d < n_features
    plane = n_rows * n_features
    count = tl.load(counts + expert)
    length = (count + n_parts - 1) // n_parts
    low = part * length
    high = tl.minimum(low + length, count)
    mine = members + expert.to(tl.int64) * n_rows
    first = tl.zeros([TOGETHER, WIDTH], tl.float64)
    second = tl.zeros([TOGETHER, WIDTH], tl.float64)
    third = tl.zeros([TOGETHER, WIDTH], tl.float64)
    its = expert * n_features + d
    own_mean = tl.load(mean + its, mask=inside, other=0.0).to(tl.float64)[None, :]
    own_variance = tl.load(variance + its, mask=inside, other=0.0).to(tl.float64)[None, :]
    for j in range(low, high, TOGETHER):
        i = j + tl.arange(0, TOGETHER)
        row = tl.load(mine + i, mask=i < high, other=0)
        live = (i < high)[:, None] & inside[None, :]
        here = row[:, None] * n_features + d[None, :]
        if GRADIENT:
            pull = tl.load(pulls + here, mask=live, other=0.0)
            away = own_mean - tl.load(places + here, mask=live, other=0.0)
            g = pull * away
            if GAUSSIAN:
                by_variance = tl.load(pulls + plane + here, mask=live, other=0.0)
                v = tl.load(places + plane + here, mask=live, other=0.0)
                g += by_variance * (own_variance - v + away * away)
            counted = g
            if WEIGHTED:
                counted = g * tl.load(weights + row, mask=i < high, other=0.0)[:, None]
            first += counted
            second += counted * g
        else:
            weight = tl.load(pulls + here, mask=live, other=0.0).to(tl.float64)
            if WEIGHTED:
                weight = weight * tl.load(weights + row, mask=i < high, other=0.0)[:, None]
            value = tl.load(x + here, mask=live, other=0).to(tl.float64)
            first += weight
            second += weight * value
            if GAUSSIAN:
                third += weight * value * value
    out = parts + (part * n_experts + expert) * n_features + d
    size = n_parts * n_experts * n_features
    e = tl.load(level + its, mask=inside, other=0.0)
    square = e * e if GRADIENT else e
    tl.store(out, tl.sum(first, axis=0) * e, mask=inside)
    tl.store(out + size, tl.sum(second, axis=0) * square, mask=inside)
    if GAUSSIAN and not GRADIENT:
        tl.store(out + 2 * size, tl.sum(third, axis=0) * e, mask=inside)


def gradient_sums(
    x: Tensor, weight: Tensor | None, experts: Experts, level: Tensor, codes: TorchCodes
) -> Tensor:
    """Sums of g = d log P / d log e_k and g^2 (appendix A), shape (2, n_experts, n_features).

    Parameters
    ----------
    x : Tensor of shape (n_rows, n_features)
        uint8 for binary values, else relative to the centre.
    weight : Tensor of shape (n_rows,) or None
        Weights of rows.
    experts : Experts
    level : Tensor of shape (n_experts, n_features)
        Levels of expertise relative to each variable's highest.
    codes : TorchCodes
    """
    return _sums(x, weight, experts, level, codes, gradient=True)


def responsibility_sums(
    x: Tensor, weight: Tensor | None, experts: Experts, level: Tensor, codes: TorchCodes
) -> Tensor:
    """Sums of r and r T(x) (eq. 5 and 6), shape (1 + n_statistics, n_experts, n_features)."""
    return _sums(x, weight, experts, level, codes, gradient=False)


def _sums(
    x: Tensor,
    weight: Tensor | None,
    experts: Experts,
    level: Tensor,
    codes: TorchCodes,
    *,
    gradient: bool,
) -> Tensor:
    gaussian = experts.family.is_normal
    eta: Any = experts.eta
    mean = variance = level
    if gradient:
        # Only differences of opinions matter, and all are rounded in the same way.
        mean = eta[0].float()
        variance = (eta[1] - eta[0] * eta[0]).float() if gaussian else mean
    n_rows, n_features = x.shape
    n_experts, order = experts.n_experts, codes.members
    n_composed = 2 if gaussian and gradient else 1
    shape = (n_composed, n_rows, n_features)
    pulls = torch.empty(shape, dtype=torch.float32, device=x.device)
    places = level.new_empty(shape) if gradient else pulls
    n_widths = n_blocks(n_features, WIDTH)
    kind: dict[str, Any] = {"GAUSSIAN": gaussian, "GRADIENT": gradient, "WIDTH": WIDTH}
    compose_kernel[(n_blocks(n_rows, ROWS), n_widths)](
        x, order, level, mean, variance, pulls, places, n_rows, n_features, order.shape[1],
        ROWS=ROWS, **kind,
    )  # fmt: skip
    members, counts = codes.rows_by_expert
    n_parts = max(1, min(MOST_PARTS, n_rows // ROWS_PER_PART))
    n_sums = 2 if gradient or not gaussian else 3
    parts = level.new_empty((n_sums, n_parts, n_experts, n_features))
    weighted = weight is not None
    add_kernel[(n_widths, n_experts, n_parts)](
        x, weight if weighted else level, pulls, places, members, counts, level, mean, variance,
        parts, n_rows, n_features, n_experts, n_parts, WEIGHTED=weighted, TOGETHER=TOGETHER, **kind,
    )  # fmt: skip
    return parts[:, 0] if n_parts == 1 else parts.sum(dim=1)
