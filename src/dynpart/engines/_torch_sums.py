"""Gradient and responsibility sums on tensors, plainly: one product per slot of the codes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dynpart.engines._contract import Experts


def gradient_sums(x: Any, experts: Experts, order: Tensor) -> Tensor:
    """Sums of g = d log P / d log e_k and g^2 (appendix A), shape (2, n_experts, n_features)."""
    family, eta = experts.family, torch.as_tensor(experts.eta)
    T: Any = family.statistics(x)
    shares, members = _shares(experts, order)
    composed: Any = sum(r * eta[:, k] for r, k in zip(shares, order.T.clamp(min=0), strict=True))
    pull: Any = family.pull(T, composed)
    total = eta.new_zeros((2, *eta.shape[1:]))
    for r, k, member in zip(shares, order.T.clamp(min=0), members, strict=True):
        g = r * (pull * (eta[:, k] - composed)).sum(dim=0)
        total += torch.stack([member.T @ g, member.T @ (g * g)])
    return total


def responsibility_sums(x: Any, experts: Experts, order: Tensor) -> Tensor:
    """Sums of r and r T(x) (eq. 5 and 6), shape (1 + n_statistics, n_experts, n_features)."""
    T: Any = experts.family.statistics(x)
    shares, members = _shares(experts, order)
    total = T.new_zeros((1 + len(T), *experts.log2_expertise.shape))
    for r, member in zip(shares, members, strict=True):
        total += torch.stack([member.T @ r, *(member.T @ (r * statistic) for statistic in T)])
    return total


def _shares(experts: Experts, order: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Responsibilities (n_rows, n_features) of the expert in each slot, and who that is, 0/1."""
    log2_expertise = torch.as_tensor(experts.log2_expertise)
    slots = order.T
    level = [
        torch.where(k[:, None] >= 0, log2_expertise[k.clamp(min=0)], -torch.inf) for k in slots
    ]
    # Only ratios matter: measured from the top active expert, nothing overflows.
    top = torch.stack(level).amax(dim=0)
    weight = [torch.exp2(each - top) for each in level]
    total: Any = sum(weight)
    everyone = torch.arange(experts.n_experts, device=order.device)
    return [each / total for each in weight], [(k[:, None] == everyone).double() for k in slots]
