"""What kernels want to know before they start: tables of the experts, costs of the lanes."""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import Experts, PursuitRule

WIDTH = 4
"""Variables of a program that builds tables."""


@dataclass(frozen=True, eq=False)
class BinaryTables:
    """Experts as the kernels read them, by expert and by variable.

    Attributes
    ----------
    density : Tensor of shape (2, n_experts, n_features), float32
        Log-densities of the values 0 and 1; probabilities for the smoothed rule.
    ranks : Tensor of shape (n_experts, n_features), uint8 or int16
    by_variable : Tensor of shape (2, n_features, n_lanes), float32
        Log-densities, or probabilities times the level of expertise.
    ranks_by_variable : Tensor of shape (n_features, n_lanes)
    level, level_by_variable : Tensor, float32
        Levels of expertise relative to each variable's highest, for the smoothed rule.
    """

    density: Tensor
    ranks: Tensor
    by_variable: Tensor
    ranks_by_variable: Tensor
    level: Tensor
    level_by_variable: Tensor

    @classmethod
    def of(cls, experts: Experts, *, smoothed: bool) -> BinaryTables:
        """Build the tables from experts held as tensors."""
        eta, log2_expertise = torch.as_tensor(experts.eta), torch.as_tensor(experts.log2_expertise)
        n_experts, n_features = log2_expertise.shape
        n_lanes = max(16, triton.next_power_of_2(n_experts))
        device = eta.device
        small = torch.uint8 if n_experts < 256 else torch.int16
        density = torch.empty((2, n_experts, n_features), device=device)
        by_variable = torch.empty((2, n_features, n_lanes), device=device)
        ranks = torch.empty((n_experts, n_features), dtype=small, device=device)
        ranks_by_variable = torch.empty((n_features, n_lanes), dtype=small, device=device)
        level, level_by_variable = density, by_variable
        if smoothed:
            level = torch.empty((n_experts, n_features), device=device)
            level_by_variable = torch.empty((n_features, n_lanes), device=device)
        tables_kernel[(triton.cdiv(n_features, WIDTH),)](
            eta.contiguous(), log2_expertise.contiguous(), density, ranks, by_variable,
            ranks_by_variable, level, level_by_variable, n_features, n_experts,
            SMOOTHED=smoothed, LANES=n_lanes, WIDTH=WIDTH,
        )  # fmt: skip
        return cls(density, ranks, by_variable, ranks_by_variable, level, level_by_variable)

    @property
    def n_lanes(self) -> int:
        return self.ranks_by_variable.shape[1]


@triton.jit
def tables_kernel(
    mu, log2_expertise, density, ranks, by_variable, ranks_by_variable, level, level_by_variable,
    n_features, n_experts,
    SMOOTHED: tl.constexpr, LANES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """All that the kernels want to know of the experts, for WIDTH variables."""
    k = tl.arange(0, LANES)[:, None]
    d = (tl.program_id(0) * WIDTH + tl.arange(0, WIDTH))[None, :]
    inside = d < n_features
    known = (k < n_experts) & inside
    here, there = k * n_features + d, d * LANES + k
    mine = tl.load(log2_expertise + here, mask=known, other=0.0)
    rank = tl.zeros([LANES, WIDTH], tl.int32)
    for j in range(n_experts):
        other = tl.load(log2_expertise + j * n_features + d, mask=inside, other=0.0)
        ahead = (other > mine) | ((other == mine) & (k > j))
        rank += ahead.to(tl.int32)
    small = ranks.dtype.element_ty
    tl.store(ranks + here, rank.to(small), mask=known)
    tl.store(ranks_by_variable + there, tl.where(k < n_experts, rank, 0).to(small), mask=inside)
    on = tl.load(mu + here, mask=known, other=0.5)
    plane, plane_by_variable = n_experts * n_features, n_features * LANES
    if SMOOTHED:
        highest = tl.max(tl.where(k < n_experts, mine, -float("inf")), axis=0)[None, :]
        e = tl.where(k < n_experts, tl.exp2(mine - highest), 1.0)
        tl.store(level + here, e.to(tl.float32), mask=known)
        tl.store(level_by_variable + there, e.to(tl.float32), mask=inside)
        off = 1.0 - on
        by_off, by_on = e * off, e * on
    else:
        off, on = tl.log(1.0 - on), tl.log(on)
        by_off, by_on = off, on
    tl.store(density + here, off.to(tl.float32), mask=known)
    tl.store(density + plane + here, on.to(tl.float32), mask=known)
    tl.store(by_variable + there, by_off.to(tl.float32), mask=inside)
    tl.store(by_variable + plane_by_variable + there, by_on.to(tl.float32), mask=inside)


def lane_cost(rule: PursuitRule, n_lanes: int, device: Any) -> Tensor:
    """Costs of all lanes; those that only fill up can never be paid."""
    cost = torch.full((n_lanes,), torch.inf, dtype=torch.float64, device=device)
    cost[: len(rule.cost)] = torch.as_tensor(rule.cost) if rule.cost.any() else 0.0
    return cost
