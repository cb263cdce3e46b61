"""Inputs of kernels: tables of the experts, costs of the lanes."""

# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="unreachable"

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from dynpart.engines._contract import Experts, PursuitRule
from dynpart.prior import CodePrior

WIDTH = 4
"""Variables of a program that builds tables of binary variables."""
LANES = 128
"""Experts that a program works on, if there are as many."""
TILE = 1024
"""Values (experts x variables) of a program that builds tables of any family."""
FEW_TYPES = 32
"""Minimum number of types in blocks of kernels, because compiling a variant takes seconds."""
ALIGNED = 256
"""Bytes at whose multiples arrays begin that are moved together."""
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


class LaneCharges(NamedTuple):
    """Charges of codes as `refine_kernel` reads them, by type and lane.

    Types are padded, with probability 0, where they are an axis of a block of a kernel.

    Attributes
    ----------
    constant : Tensor of shape (n_padded,)
    cost, parent, bond : Tensor of shape (n_types, n_lanes)
        See `Charges`. The cost of the background expert and of the padding is infinite.
    cost_by_expert, parent_by_expert, bond_by_expert : Tensor of shape (n_lanes, n_padded)
    reference : Tensor of shape (n_lanes,)
        The cost at which odds are one.
    log_odds : Tensor of shape (n_types, n_lanes), float32
        reference - cost.
    starts : Tensor of shape (n_lanes + 1,), int32
        Where the neighbours of an expert begin in the lists below.
    neighbours : Tensor of shape (n_neighbours,), int32
        Their places among the odds.
    bonds : Tensor of shape (n_neighbours,), float32
        Nats by which their log odds grow as the expert enters.
    alone : Tensor of shape (n_lanes,)
        The objective of every expert alone without log P(x | h), which refinement does not need.
    """

    constant: Tensor
    cost: Tensor
    parent: Tensor
    bond: Tensor
    cost_by_expert: Tensor
    parent_by_expert: Tensor
    bond_by_expert: Tensor
    reference: Tensor
    log_odds: Tensor
    starts: Tensor
    neighbours: Tensor
    bonds: Tensor
    alone: Tensor


_KNOWN_CHARGES: WeakKeyDictionary[CodePrior, dict[tuple, LaneCharges]] = WeakKeyDictionary()
"""Charges under priors: a model encodes many tables under the same one."""


def lane_charges(rule: PursuitRule, n_lanes: int, device: Any) -> LaneCharges:
    """Charges of the codes that a rule chooses; without a prior all rows have one type."""
    if rule.prior is None:  # may be recorded, and a recording allows no transfers
        lanes = lane_cost(rule, n_lanes, device)
        constant = torch.zeros(2, dtype=torch.float64, device=device)
        constant[1] = -torch.inf
        by_expert = lanes[:, None].expand(-1, 2).contiguous()
        unread = torch.zeros((1, n_lanes), dtype=torch.int32, device=device)
        numbers = unread.float()
        return LaneCharges(
            constant, lanes[None], unread, lanes[None], by_expert, unread, by_expert, lanes,
            numbers, unread, unread, numbers, -lanes,
        )  # fmt: skip
    known = _KNOWN_CHARGES.setdefault(rule.prior, {})
    key = rule.cost.tobytes(), n_lanes, torch.device(device)
    if key not in known:
        known[key] = _charges_under_prior(rule, n_lanes, device)
    return known[key]


def _charges_under_prior(rule: PursuitRule, n_lanes: int, device: Any) -> LaneCharges:
    """The same under the prior of the rule, computed on the host."""
    charges, n_experts = rule.charges, len(rule.cost)
    n_types = charges.n_types
    n_padded = max(FEW_TYPES, power_of_two(n_types))
    constant, cost = np.full(n_padded, -np.inf), np.full((n_types, n_lanes), np.inf)
    bond = np.zeros((n_types, n_lanes))
    parent = np.full((n_types, n_lanes), n_experts, dtype=np.int32)
    constant[:n_types], cost[:, :n_experts] = charges.constant, charges.cost[:, :-1]
    parent[:, :n_experts], bond[:, :n_experts] = charges.parent[:, :-1], charges.bond[:, :-1]
    alone, reference = np.full(n_lanes, -np.inf), np.full(n_lanes, np.inf)
    alone[:n_experts], reference[:n_experts] = charges.of_experts_alone(), charges.reference_costs
    log_odds = np.zeros((n_types, n_lanes), dtype=np.float32)
    log_odds[:, :n_experts] = reference[:n_experts] - cost[:, :n_experts]
    types, children = np.nonzero(bond)
    parents, its_bond = parent[types, children], bond[types, children]
    expert, neighbour = np.concatenate([children, parents]), np.concatenate([parents, children])
    order = np.argsort(expert, kind="stable")
    n_neighbours = np.bincount(expert, minlength=n_lanes)
    together = np.tile(its_bond, 2)[order]
    parts = _moved(
        [
            constant, cost, parent, bond, reference, log_odds,
            np.append(0, np.cumsum(n_neighbours)).astype(np.int32),
            (np.tile(types, 2) * n_lanes + neighbour)[order].astype(np.int32),
            together.astype(np.float32), alone,
        ],
        device,
    )  # fmt: skip
    pad = (0, n_padded - n_types)
    by_expert = [torch.nn.functional.pad(part.T, pad).contiguous() for part in parts[1:4]]
    return LaneCharges._make([*parts[:4], *by_expert, *parts[4:]])


def _moved(arrays: list[NDArray], device: Any) -> list[Tensor]:
    """Arrays on a device, moved together: one transfer takes less time than several."""
    sizes = [ALIGNED * n_blocks(max(array.nbytes, 1), ALIGNED) for array in arrays]
    ends = np.cumsum(sizes).tolist()
    together = np.zeros(ends[-1], dtype=np.uint8)
    for array, size, end in zip(arrays, sizes, ends, strict=True):
        together[end - size : end][: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).flat
    moved = torch.as_tensor(together, device=device)
    return [
        moved[end - size : end].view(torch.from_numpy(array[:0].copy()).dtype)[: array.size]
        .view(array.shape)
        for array, size, end in zip(arrays, sizes, ends, strict=True)
    ]  # fmt: skip
