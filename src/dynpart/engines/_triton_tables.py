"""Inputs of kernels: tables of the experts, costs of the lanes."""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from dynpart.engines._contract import Experts, PursuitRule

WIDTH = 4
"""Variables of a program that builds tables of binary variables."""
LANES = 128
"""Experts that a program works on, if there are as many."""
TILE = 1024
"""Values (experts x variables) of a program that builds tables of any family."""
LOG2_E = tl.constexpr(math.log2(math.e))
SQRT_LOG2_E = tl.constexpr(math.sqrt(math.log2(math.e)))
TWO_PI = tl.constexpr(2 * math.pi)


def n_blocks(n: int, size: int) -> int:
    """Number of blocks of this size for n; Triton's own function takes as long as a launch."""
    return -(-n // size)


def power_of_two(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << (n - 1).bit_length()


def rank_type(n_experts: int) -> torch.dtype:
    """The smallest integer type for ranks of this many experts."""
    return torch.uint8 if n_experts < 256 else torch.int16


@dataclass(frozen=True, eq=False)
class BinaryTables:
    """Experts as the kernels read them, by expert and by variable.

    Attributes
    ----------
    density : Tensor of shape (2, n_experts, n_features), float32
        Log-densities of the values 0 and 1; probabilities for the smoothed rule.
    ranks : Tensor of shape (n_experts, n_features), uint8 or int16
    agreed : Tensor of shape (2, n_features), uint8
        Whether all experts give a value the same probability, for the hard rule.
    by_variable : Tensor of shape (2, n_features, n_lanes), float32
        Log-densities, or probabilities times the level of expertise.
    ranks_by_variable : Tensor of shape (n_features, n_lanes)
    level, level_by_variable : Tensor, float32
        Levels of expertise relative to each variable's highest, for the smoothed rule.
    """

    density: Tensor
    ranks: Tensor
    agreed: Tensor
    by_variable: Tensor
    ranks_by_variable: Tensor
    level: Tensor
    level_by_variable: Tensor

    @classmethod
    def of(cls, experts: Experts, *, smoothed: bool) -> BinaryTables:
        """Build the tables from experts held as tensors."""
        eta, log2_expertise = torch.as_tensor(experts.eta), torch.as_tensor(experts.log2_expertise)
        n_experts, n_features = log2_expertise.shape
        n_lanes = max(16, power_of_two(n_experts))
        device = eta.device
        small = rank_type(n_experts)
        density = torch.empty((2, n_experts, n_features), device=device)
        by_variable = torch.empty((2, n_features, n_lanes), device=device)
        ranks = torch.empty((n_experts, n_features), dtype=small, device=device)
        agreed = torch.empty((2, n_features), dtype=torch.uint8, device=device)
        ranks_by_variable = torch.empty((n_features, n_lanes), dtype=small, device=device)
        level, level_by_variable = density, by_variable
        if smoothed:
            level = torch.empty((n_experts, n_features), device=device)
            level_by_variable = torch.empty((n_features, n_lanes), device=device)
        binary_tables_kernel[(n_blocks(n_features, WIDTH),)](
            eta.contiguous(), log2_expertise.contiguous(), density, ranks, agreed, by_variable,
            ranks_by_variable, level, level_by_variable, n_features, n_experts,
            SMOOTHED=smoothed, LANES=n_lanes, WIDTH=WIDTH,
        )  # fmt: skip
        return cls(density, ranks, agreed, by_variable, ranks_by_variable, level, level_by_variable)

    @property
    def n_lanes(self) -> int:
        return self.ranks_by_variable.shape[1]


@triton.jit
def log_density(x, first, second, third, GAUSSIAN: tl.constexpr):
    """Log P of values under experts; arguments broadcast."""
    if GAUSSIAN:
        away = x * second - first
        return third - away * away
    else:
        return first + x * second


@triton.jit
def placed(
    mine, log2_expertise, k, d, n_features, n_experts, LANES: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Ranks of experts k with levels `mine` on variables d, and the highest level of each."""
    rank = tl.zeros([LANES, WIDTH], tl.int32)
    highest = tl.zeros([1, WIDTH], tl.float64) - float("inf")
    for j in range(n_experts):
        other = tl.load(log2_expertise + j * n_features + d, mask=d < n_features, other=0.0)
        highest = tl.maximum(highest, other)
        rank += ((other > mine) | ((other == mine) & (k > j))).to(tl.int32)
    return rank, highest


@triton.jit
def one_opinion(opinions, counts):
    """Whether all opinions that count are the same, along the first axis."""
    least = tl.min(tl.where(counts, opinions, float("inf")), axis=0)
    return (least == tl.max(tl.where(counts, opinions, -float("inf")), axis=0)).to(tl.uint8)


@triton.jit
def binary_tables_kernel(
    mu, log2_expertise, density, ranks, agreed, by_variable, ranks_by_variable, level,
    level_by_variable, n_features, n_experts,
    SMOOTHED: tl.constexpr, LANES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Tables of the experts, for WIDTH variables."""
    k = tl.arange(0, LANES)[:, None]
    d = (tl.program_id(0) * WIDTH + tl.arange(0, WIDTH))[None, :]
    inside = d < n_features
    known = (k < n_experts) & inside
    here, there = k * n_features + d, d * LANES + k
    mine = tl.load(log2_expertise + here, mask=known, other=0.0)
    rank, highest = placed(mine, log2_expertise, k, d, n_features, n_experts, LANES, WIDTH)
    small = ranks.dtype.element_ty
    tl.store(ranks + here, rank.to(small), mask=known)
    tl.store(ranks_by_variable + there, tl.where(k < n_experts, rank, 0).to(small), mask=inside)
    on = tl.load(mu + here, mask=known, other=0.5)
    plane, plane_by_variable = n_experts * n_features, n_features * LANES
    if SMOOTHED:
        e = tl.where(k < n_experts, tl.exp2(mine - highest), 1.0)
        tl.store(level + here, e.to(tl.float32), mask=known)
        tl.store(level_by_variable + there, e.to(tl.float32), mask=inside)
        off = 1.0 - on
        by_off, by_on = e * off, e * on
    else:
        off, on = tl.log(1.0 - on), tl.log(on)
        by_off, by_on = off, on
        variable = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
        for_off = one_opinion(off.to(tl.float32), k < n_experts)
        for_on = one_opinion(on.to(tl.float32), k < n_experts)
        tl.store(agreed + variable, for_off, mask=variable < n_features)
        tl.store(agreed + n_features + variable, for_on, mask=variable < n_features)
    tl.store(density + here, off.to(tl.float32), mask=known)
    tl.store(density + plane + here, on.to(tl.float32), mask=known)
    tl.store(by_variable + there, by_off.to(tl.float32), mask=inside)
    tl.store(by_variable + plane_by_variable + there, by_on.to(tl.float32), mask=inside)


@dataclass(frozen=True, eq=False)
class Tables:
    """Experts of any family as the kernels read them, by expert and by variable.

    Attributes
    ----------
    parameters : Tensor of shape (3, n_experts, n_features), float32
        Parameters of log-densities: log P(0) and log P(1) - log P(0) for binary variables. For
        Gaussian ones, whose log-density is c - (s x - s m)^2: s m, s and c.
    ranks : Tensor of shape (n_experts, n_features), uint8 or int16
    levels : Tensor of shape (n_experts, n_features), float32
        Levels of expertise relative to each variable's highest.
    parameters_by_variable : Tensor of shape (3, n_features, n_lanes), float32
    ranks_by_variable : Tensor of shape (n_features, n_lanes), float32
    weighted : Tensor of shape (4, n_features, n_lanes), float32
        Parameters of the log2 of level times density, and the level, for the smoothed rule.
    gaussian : bool
    log2_range : float
        Octaves within which the levels are known to lie.
    """

    parameters: Tensor
    ranks: Tensor
    levels: Tensor
    parameters_by_variable: Tensor
    ranks_by_variable: Tensor
    weighted: Tensor
    gaussian: bool
    log2_range: float

    @classmethod
    def of(cls, experts: Experts, *, smoothed: bool) -> Tables:
        """Build the tables from experts held as tensors."""
        eta, log2_expertise = torch.as_tensor(experts.eta), torch.as_tensor(experts.log2_expertise)
        n_experts, n_features = log2_expertise.shape
        lanes = min(LANES, max(16, power_of_two(n_experts)))
        n_lanes = lanes * n_blocks(n_experts, lanes)
        gaussian = experts.family.is_normal
        small = rank_type(n_experts)
        new = partial(torch.empty, dtype=torch.float32, device=eta.device)
        tables = cls(
            parameters=new((3, n_experts, n_features)),
            ranks=new((n_experts, n_features), dtype=small),
            levels=new((n_experts, n_features)),
            parameters_by_variable=new((3, n_features, n_lanes)),
            ranks_by_variable=new((n_features, n_lanes)),
            weighted=new((4, n_features, n_lanes) if smoothed else (0,)),
            gaussian=gaussian,
            log2_range=2 * experts.log2_bound,
        )
        width = TILE // lanes
        tables_kernel[(n_blocks(n_features, width), n_lanes // lanes)](
            eta.contiguous(), log2_expertise.contiguous(), tables.parameters, tables.ranks,
            tables.levels, tables.parameters_by_variable, tables.ranks_by_variable,
            tables.weighted, n_features, n_experts, n_lanes,
            GAUSSIAN=gaussian, SMOOTHED=smoothed, LANES=lanes, WIDTH=width,
        )  # fmt: skip
        return tables

    @property
    def n_experts(self) -> int:
        return self.ranks.shape[0]

    @property
    def n_lanes(self) -> int:
        """Number of experts with the padding of the last program."""
        return self.ranks_by_variable.shape[1]


@triton.jit
def tables_kernel(
    eta, log2_expertise, parameters, ranks, levels, parameters_by_variable, ranks_by_variable,
    weighted, n_features, n_experts, n_lanes,
    GAUSSIAN: tl.constexpr, SMOOTHED: tl.constexpr, LANES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Tables of LANES experts and WIDTH variables."""
    k = (tl.program_id(1) * LANES + tl.arange(0, LANES))[:, None]
    d = (tl.program_id(0) * WIDTH + tl.arange(0, WIDTH))[None, :]
    inside = d < n_features
    known = (k < n_experts) & inside
    here, there = k * n_features + d, d * n_lanes + k
    mine = tl.load(log2_expertise + here, mask=known, other=0.0)
    rank, highest = placed(mine, log2_expertise, k, d, n_features, n_experts, LANES, WIDTH)
    mean = tl.load(eta + here, mask=known, other=0.5)
    plane, plane_by_variable = n_experts * n_features, n_features * n_lanes
    if GAUSSIAN:
        variance = tl.load(eta + plane + here, mask=known, other=1.25) - mean * mean
        second = tl.sqrt(0.5 / variance)
        first, third = mean * second, -0.5 * tl.log(variance * TWO_PI)
    else:
        first = tl.log(1.0 - mean)
        second = tl.log(mean) - first
        third = first
    log2_level = mine - highest
    level = tl.exp2(log2_level).to(tl.float32)
    tl.store(ranks + here, rank.to(ranks.dtype.element_ty), mask=known)
    tl.store(levels + here, level, mask=known)
    tl.store(parameters + here, first.to(tl.float32), mask=known)
    tl.store(parameters + plane + here, second.to(tl.float32), mask=known)
    tl.store(parameters + 2 * plane + here, third.to(tl.float32), mask=known)
    # Lanes of the padding stay within range, and are never chosen.
    out = parameters_by_variable + there
    tl.store(ranks_by_variable + there, rank.to(tl.float32), mask=inside)
    tl.store(out, first.to(tl.float32), mask=inside)
    tl.store(out + plane_by_variable, second.to(tl.float32), mask=inside)
    tl.store(out + 2 * plane_by_variable, third.to(tl.float32), mask=inside)
    if SMOOTHED:
        out = weighted + there
        if GAUSSIAN:
            first, second = first * SQRT_LOG2_E, second * SQRT_LOG2_E
            third = third * LOG2_E + log2_level
        else:
            first, second = first * LOG2_E + log2_level, second * LOG2_E
        tl.store(out, first.to(tl.float32), mask=inside)
        tl.store(out + plane_by_variable, second.to(tl.float32), mask=inside)
        tl.store(out + 2 * plane_by_variable, third.to(tl.float32), mask=inside)
        tl.store(out + 3 * plane_by_variable, level, mask=inside)


def lane_cost(rule: PursuitRule, n_lanes: int, device: Any) -> Tensor:
    """Costs of all lanes, infinite for the padding and the background expert."""
    cost = torch.full((n_lanes,), torch.inf, dtype=torch.float64, device=device)
    payable = rule.cost
    if rule.one_cost:  # may be recorded, and a recording allows no transfers
        cost[: len(payable)] = float(payable[0])
    else:
        cost[: len(payable)] = torch.as_tensor(payable)
    return cost


def lane_charges(rule: PursuitRule, n_lanes: int, device: Any) -> tuple[Tensor, ...]:
    """Charges of codes, as `refine_kernel` reads them: by type and lane.

    Types are padded to a power of two; padded types have probability 0.

    Returns
    -------
    constant : Tensor of shape (n_types,)
    cost, parent, bond : Tensor of shape (n_types, n_lanes)
    """
    n_experts = len(rule.cost)
    if rule.prior is None:  # may be recorded, and a recording allows no transfers
        lanes = lane_cost(rule, n_lanes, device).expand(2, -1).contiguous()
        no_parent = torch.full((2, n_lanes), n_experts, dtype=torch.int32, device=device)
        first = torch.zeros(2, dtype=torch.float64, device=device)
        first[1] = -torch.inf
        return first, lanes, no_parent, torch.zeros_like(lanes)
    charges = rule.charges
    n_types = max(2, power_of_two(charges.n_types))
    known = slice(charges.n_types), slice(n_experts)
    constant = np.full(n_types, -np.inf)
    cost, bond = np.full((n_types, n_lanes), np.inf), np.zeros((n_types, n_lanes))
    parent = np.full((n_types, n_lanes), n_experts, dtype=np.int32)
    cost[:, :n_experts] = 0.0  # of padded types too, lest infinities be subtracted
    constant[known[0]], cost[known] = charges.constant, charges.cost[:, :-1]
    parent[known], bond[known] = charges.parent[:, :-1], charges.bond[:, :-1]
    parts = (constant, cost, parent, bond)
    return tuple(torch.as_tensor(part, device=device) for part in parts)
