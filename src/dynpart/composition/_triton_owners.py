"""Owners of variables by a kernel, for codes on a GPU."""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, WIDTH = 16, 128
"""Rows and variables whose owners a program finds."""


@triton.jit
def owners_kernel(
    active, ranks, owner, n_rows, n_features, n_experts, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """The active expert of the best rank, for some rows and variables."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    best = tl.zeros([ROWS, WIDTH], tl.int32) + n_experts
    found = tl.zeros([ROWS, WIDTH], tl.int32)
    for k in range(n_experts):
        is_active = tl.load(active + row * n_experts + k, mask=row < n_rows, other=0) > 0
        rank = tl.load(ranks + k * n_features + d, mask=d < n_features, other=0)[None, :]
        wins = is_active[:, None] & (rank < best)
        best = tl.where(wins, rank, best)
        found = tl.where(wins, k, found)
    inside = (row < n_rows)[:, None] & (d < n_features)[None, :]
    tl.store(owner + row[:, None] * n_features + d[None, :], found, mask=inside)


def owners_on_device(ranks: Tensor, active: Tensor) -> Tensor:
    """The owner of every variable of rows with these codes; see :func:`dynpart.composition.owners`.

    Parameters
    ----------
    ranks : Tensor of shape (n_experts, n_features), int32
    active : Tensor of shape (n_rows, n_experts), bool

    Returns
    -------
    owner : Tensor of shape (n_rows, n_features), int32
    """
    n_rows, (n_experts, n_features) = len(active), ranks.shape
    owner = torch.empty((n_rows, n_features), dtype=torch.int32, device=ranks.device)
    blocks = triton.cdiv(n_rows, ROWS), triton.cdiv(n_features, WIDTH)
    if n_rows:
        with torch.cuda.device_of(ranks):
            owners_kernel[blocks](
                active.contiguous().view(torch.uint8), ranks.contiguous(), owner, n_rows,
                n_features, n_experts, ROWS=ROWS, WIDTH=WIDTH,
            )  # fmt: skip
    return owner
