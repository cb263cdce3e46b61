"""Sums over rows in plain torch: one product per slot of the codes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dynpart.arrays import is_observed
from dynpart.engines._contract import Experts
from dynpart.rows import Rows


def gradient_sums(rows: Rows, experts: Experts, order: Tensor) -> Tensor:
    """Sums of g = d log P / d log e_k and g^2 (appendix A), shape (2, n_experts, n_features)."""
    family, eta = experts.family, torch.as_tensor(experts.eta)
    T: Any = family.statistics(rows.values)
    observed = is_observed(T[0])
    shares, members = slot_shares(experts, order)
    composed: Any = sum(r * eta[:, k] for r, k in zip(shares, order.T.clamp(min=0), strict=True))
    pull: Any = family.pull(T, composed)
    total = eta.new_zeros((2, *eta.shape[1:]))
    for r, k, member in zip(shares, order.T.clamp(min=0), members, strict=True):
        g = torch.where(observed, r * (pull * (eta[:, k] - composed)).sum(dim=0), 0.0)
        counted = counted_rows(member, rows)
        total += torch.stack([counted.T @ g, counted.T @ (g * g)])
    return total


def responsibility_sums(rows: Rows, experts: Experts, order: Tensor) -> Tensor:
    """Sums of r and r T(x) (eq. 5 and 6), shape (1 + n_statistics, n_experts, n_features)."""
    T: Any = experts.family.statistics(rows.values)
    observed = is_observed(T[0])
    T = torch.where(observed, T, 0.0)
    shares, members = slot_shares(experts, order)
    total = T.new_zeros((1 + len(T), *experts.log2_expertise.shape))
    for share, member in zip(shares, members, strict=True):
        r, counted = torch.where(observed, share, 0.0), counted_rows(member, rows)
        total += torch.stack([counted.T @ r, *(counted.T @ (r * statistic) for statistic in T)])
    return total


def opinion_sums(rows: Rows, experts: Experts, order: Tensor) -> Tensor:
    """Sums of df/dmu_k and of minus its derivative (A.1.2), shape (2, n_experts, n_features)."""
    family, eta = experts.family, torch.as_tensor(experts.eta)
    T: Any = family.statistics(rows.values)
    shares, members = slot_shares(experts, order)
    composed: Any = sum(r * eta[:, k] for r, k in zip(shares, order.T.clamp(min=0), strict=True))
    pull = torch.where(is_observed(T[0]), torch.as_tensor(family.pull(T, composed)[0]), 0.0)
    total = eta.new_zeros((2, *eta.shape[1:]))
    for r, member in zip(shares, members, strict=True):
        by_opinion, counted = r * pull, counted_rows(member, rows)
        total += torch.stack([counted.T @ by_opinion, counted.T @ (by_opinion * by_opinion)])
    return total


def counted_rows(member: Tensor, rows: Rows) -> Tensor:
    """Membership of rows, multiplied by their weights."""
    return member if rows.weight is None else member * rows.weight[:, None]


def slot_shares(experts: Experts, order: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Responsibilities (n_rows, n_features) of the expert in each slot, and its index as 0/1."""
    log2_expertise = torch.as_tensor(experts.log2_expertise)
    slots = order.T
    level = [
        torch.where(k[:, None] >= 0, log2_expertise[k.clamp(min=0)], -torch.inf) for k in slots
    ]
    # Only ratios matter: relative to the highest active level, nothing overflows.
    top = torch.stack(level).amax(dim=0)
    weight = [torch.exp2(each - top) for each in level]
    total: Any = sum(weight)
    everyone = torch.arange(experts.n_experts, device=order.device)
    return [each / total for each in weight], [(k[:, None] == everyone).double() for k in slots]
