"""Likelihood matching pursuit on tensors: who decides, apart from who computes the gains.

The decisions are written once. Gains come from a *score*: here the plain one, dense and in double
precision, that runs on any device and stands in for the kernels of ``_triton_pursuit`` where they
cannot run.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from dynpart.engines._contract import MARGIN, Experts, PursuitRule
from dynpart.engines._torch_codes import binary_codes


class Score(Protocol):
    """How well codes explain some rows, and how each expert would change that."""

    shape: tuple[int, int]
    """Numbers of rows and experts."""

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Let exactly the experts in `order` (n_rows, n_slots) be active, but for one slot."""

    def gains(self) -> Tensor:
        """Change of the score by each further expert, shape (n_rows, n_experts), float64."""


def greedy(score: Score, rule: PursuitRule, place: int = 0) -> Tensor:
    """Activate the expert that most improves the score until none earns its cost.

    The first expert is the one in this place of the order of gains.

    Returns
    -------
    order : Tensor of shape (n_rows, max_active), int64
    """
    gains = score.gains()
    n_rows, n_experts = score.shape
    cost = torch.as_tensor(rule.cost, device=gains.device)
    order = torch.full((n_rows, rule.max_active), -1, device=gains.device)
    taken = torch.zeros((n_rows, n_experts + 1), dtype=torch.bool, device=gains.device)
    running = torch.ones(n_rows, dtype=torch.bool, device=gains.device)
    for step in range(rule.max_active):
        if step > 0:
            score.compose(order[:, :step])
            gains = score.gains()
        left = (gains - cost).masked_fill(taken[:, :-1], -torch.inf)
        best, chosen = left.max(dim=1)
        if step == 0:
            chosen = (-left).argsort(dim=1, stable=True)[:, place]
        if step >= rule.min_active:
            running = running & (best > MARGIN)
            if not running.any():
                break
        order[:, step] = torch.where(running, chosen, -1)
        # Rows that have stopped mark a column that does not exist.
        taken.scatter_(1, torch.where(running, chosen, n_experts)[:, None], True)
    return order


def refine(score: Score, order: Tensor, rule: PursuitRule, *, may_replace: bool) -> Tensor:
    """Reconsider each active expert in turn: drop it, replace it or keep it.

    An expert that earns no more than its cost is dropped (if enough others are active); else the
    best other expert takes its place if that is better. `score` is one of the hard rule.
    """
    n_experts = score.shape[1]
    cost = torch.as_tensor(rule.cost, device=order.device)
    order = order.clone()
    for slot in range(order.shape[1]):
        current = order[:, slot].clone()
        others = order.clone()
        others[:, slot] = -1
        n_others = (others >= 0).sum(dim=1)
        asked = (current >= 0) & (may_replace | (n_others > 0))
        if not asked.any():
            continue
        score.compose(order, without=slot)
        gains = score.gains() - cost
        kept = gains.gather(1, current.clamp(min=0)[:, None])[:, 0]
        best, chosen = gains.masked_fill(binary_codes(others, n_experts), -torch.inf).max(dim=1)
        drop = asked & (n_others >= rule.min_active) & ((best if may_replace else kept) <= MARGIN)
        replace = asked & ~drop & may_replace & (best > kept + MARGIN)
        order[:, slot] = torch.where(drop, -1, torch.where(replace, chosen, current))
    gaps_last = (order < 0).to(torch.uint8).argsort(dim=1, stable=True)
    return order.gather(1, gaps_last)


class PlainHard:
    """Log P(x | h) under the hard rule (eq. 2), densely: rows x experts x variables numbers."""

    def __init__(self, x: Tensor, experts: Experts) -> None:
        self.density = log_densities(x, experts)
        self.shape = (len(x), experts.n_experts)
        self.ranks: Any = experts.ranks
        self.compose(torch.full((len(x), 1), -1, device=x.device))

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Find the owner of every variable."""
        n_rows, n_experts, n_features = self.density.shape
        self.owner_rank = self.ranks.new_full((n_rows, n_features), n_experts)
        self.owner_density = self.density.new_zeros((n_rows, n_features))
        for slot in range(order.shape[1]):
            if slot == without:
                continue
            k = order[:, slot].clamp(min=0)
            wins = (order[:, slot, None] >= 0) & (self.ranks[k] < self.owner_rank)
            self.owner_rank = torch.where(wins, self.ranks[k], self.owner_rank)
            own = self.density.gather(1, k[:, None, None].expand(-1, 1, n_features))[:, 0]
            self.owner_density = torch.where(wins, own, self.owner_density)

    def gains(self) -> Tensor:
        """Sum over the variables that each expert would win."""
        wins = self.ranks < self.owner_rank[:, None]
        return torch.where(wins, self.density - self.owner_density[:, None], 0.0).sum(dim=2)

    def log_likelihood(self) -> Tensor:
        """Log P(x | h) of every row."""
        return self.owner_density.sum(dim=1)


class PlainSmoothed:
    """The same for the smoothed rule (eq. 4): a mixture per variable, weighted by expertise."""

    def __init__(self, x: Tensor, experts: Experts) -> None:
        density = log_densities(x, experts)
        # A common factor per variable changes no comparison and keeps densities representable.
        self.density = torch.exp(density - density.amax(dim=1, keepdim=True))
        self.shape = (len(x), experts.n_experts)
        self.expertise = levels(experts)
        self.mixture = self.total = density.new_zeros((len(x), density.shape[2]))
        self.score = density.new_zeros(len(x))

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Mix the active experts' densities."""
        h = binary_codes(order, self.shape[1]).double()
        self.mixture = torch.einsum("nk,kd,nkd->nd", h, self.expertise, self.density)
        self.total = h @ self.expertise
        self.score = self._score(self.mixture, self.total)

    def _score(self, mixture: Tensor, total: Tensor) -> Tensor:
        tiny = torch.finfo(torch.float64).tiny
        return (torch.log(mixture.clamp(min=tiny)) - torch.log(total)).sum(dim=-1)

    def gains(self) -> Tensor:
        """Score of the mixture with each further expert, less the score without."""
        mixture = self.mixture[:, None] + self.expertise * self.density
        total = self.total[:, None] + self.expertise
        return self._score(mixture, total) - self.score[:, None]


def levels(experts: Experts) -> Any:
    """Levels of expertise relative to each variable's highest, shape (n_experts, n_features)."""
    log2_expertise: Any = experts.log2_expertise
    return torch.exp2(log2_expertise - log2_expertise.amax(dim=0))


def log_densities(x: Tensor, experts: Experts) -> Tensor:
    """Log P_k(x(d)) of every row, expert and variable, shape (n_rows, n_experts, n_features)."""
    theta, log_partition = experts.natural
    rows: Any = x
    T: Any = experts.family.statistics(rows)
    density = torch.as_tensor(-log_partition)
    for statistic, parameter in zip(T, theta, strict=True):
        density = density + statistic[:, None] * parameter
    return density
