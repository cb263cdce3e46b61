"""Kernels that list the rows of each expert."""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._triton_tables import n_blocks

ROWS = 128
"""Rows whose codes a program marks."""
CHUNK = 1024
"""Rows that a program searches at a time."""


@triton.jit
def spread_kernel(order, active, n_rows, n_slots, stride, ROWS: tl.constexpr):
    """Mark the active experts of some rows, expert by expert."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    live = row < n_rows
    slot = 0
    while slot < n_slots:
        k = tl.load(order + row * stride + slot, mask=live, other=-1).to(tl.int64)
        tl.store(active + k * n_rows + row, (k >= 0).to(tl.int8), mask=k >= 0)
        # Codes have no gaps: when all have ended, the loop ends.
        slot = tl.where(tl.max(k, axis=0) >= 0, slot + 1, n_slots)


@triton.jit
def list_kernel(active, members, counts, n_rows, CHUNK: tl.constexpr):
    """List the rows in which an expert is active, ascending."""
    begin = tl.program_id(0).to(tl.int64) * n_rows
    count = 0
    for start in range(0, n_rows, CHUNK):
        row = start + tl.arange(0, CHUNK)
        found = tl.load(active + begin + row, mask=row < n_rows, other=0).to(tl.int32)
        place = count + tl.cumsum(found, axis=0) - 1
        tl.store(members + begin + place, row, mask=found > 0)
        count += tl.sum(found, axis=0)
    tl.store(counts + tl.program_id(0), count)


def rows_by_expert(order: Tensor, n_experts: int) -> tuple[Tensor, Tensor]:
    """The rows of each expert.

    Parameters
    ----------
    order : Tensor of shape (n_rows, n_slots), int32
        Experts of each row, padded with -1 at the end; rows may lie apart in memory.
    n_experts : int

    Returns
    -------
    members : Tensor of shape (n_experts, n_rows), int32
        Rows of each expert, ascending; only the first `counts` of them are set.
    counts : Tensor of shape (n_experts,), int32
    """
    n_rows, n_slots = order.shape
    active = torch.zeros((n_experts, n_rows), dtype=torch.int8, device=order.device)
    spread_kernel[(n_blocks(n_rows, ROWS),)](
        order, active, n_rows, n_slots, order.stride(0), ROWS=ROWS
    )
    members = torch.empty((n_experts, n_rows), dtype=torch.int32, device=order.device)
    counts = torch.empty(n_experts, dtype=torch.int32, device=order.device)
    list_kernel[(n_experts,)](active, members, counts, n_rows, CHUNK=CHUNK)
    return members, counts
