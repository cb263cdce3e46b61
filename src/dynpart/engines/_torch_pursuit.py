"""Likelihood matching pursuit on tensors: decisions, separate from the computation of gains.

The decisions are implemented once. Gains come from a *score*: here the plain one, dense and in
double precision, which runs on any device and replaces the kernels of ``_triton_pursuit`` where
they cannot run.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from dynpart.arrays import is_observed
from dynpart.engines._charges import Charges
from dynpart.engines._contract import MARGIN, NEARLY, Experts, PursuitRule, n_weakest
from dynpart.engines._offsets import log_densities_given
from dynpart.engines._torch_codes import binary_codes


class Score(Protocol):
    """Scores of codes of some rows, and their changes by further experts."""

    shape: tuple[int, int]
    """Numbers of rows and experts."""

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Activate exactly the experts in `order` (n_rows, n_slots), except for one slot."""

    def gains(self) -> Tensor:
        """Change of the score by each further expert, shape (n_rows, n_experts), float64."""


class HardScore(Score, Protocol):
    """A score of the hard rule, which is a log-likelihood."""

    def log_likelihood(self) -> Tensor:
        """Log P(x | h) of every row with the experts that are active."""


def greedy(score: Score, rule: PursuitRule, place: int = 0) -> Tensor:
    """Activate the expert that most improves the score while the gain exceeds the cost.

    The first expert is the one in this place of the order of gains.

    Returns
    -------
    order : Tensor of shape (n_rows, max_active), int64
    """
    gains = score.gains()
    n_rows, n_experts = score.shape
    cost = torch.as_tensor(rule.cost, device=gains.device)[None]
    order = torch.full((n_rows, rule.max_active), -1, device=gains.device)
    taken = torch.zeros((n_rows, n_experts + 1), dtype=torch.bool, device=gains.device)
    running = torch.ones(n_rows, dtype=torch.bool, device=gains.device)
    for step in range(rule.max_active):
        if step > 0:
            score.compose(order[:, :step])
            gains = score.gains()
        left = beyond(gains, cost).masked_fill(taken[:, :-1], -torch.inf)
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


def beyond(gains: Tensor, costs: Tensor) -> Tensor:
    """Gains of experts minus their costs; a background expert is never chosen."""
    n_more = gains.shape[1] - costs.shape[1]
    return gains - torch.nn.functional.pad(costs, (0, n_more), value=torch.inf)


def refined(score: HardScore, order: Tensor, rule: PursuitRule) -> Tensor:
    """Codes that no single addition, removal or exchange of an expert improves.

    `score` is one of the hard rule whose last expert is the background expert; see the reference
    engine for the reasons.
    """
    background, charges = score.shape[1] - 1, rule.charges.like(order)
    types, n_looks = charges.of_types(order).argmax(dim=1), n_weakest(count_active(order))
    first = weakest_first(score, order, charges.costs_in(order, types), background)
    found = settled(score, first, rule, charges, n_looks, background=background, types=types)
    found = settled(score, found, rule, charges, rule.n_swaps * count_active(found))
    worse = worth(score, found, charges) < worth(score, order, charges) - MARGIN
    if worse.any():
        n_looks = rule.n_swaps * count_active(order)
        plain = settled(score, order, rule, charges, n_looks, rows=worse)
        found = torch.where(worse[:, None], plain, found)
    return tried_as_another_type(score, found, rule, charges)


def tried_as_another_type(
    score: HardScore, order: Tensor, rule: PursuitRule, charges: Charges
) -> Tensor:
    """The codes, or better ones found by assuming another type of row."""
    values = charges.of_types(order)
    best, first = values.max(dim=1, keepdim=True)
    most, second = values.scatter(1, first, -torch.inf).max(dim=1)
    tried = most >= best[:, 0] - NEARLY
    if not tried.any():
        return order
    n_looks = rule.n_swaps * count_active(order)
    found = settled(score, order, rule, charges, n_looks, rows=tried, types=second)
    changed = (found != order).any(dim=1)
    n_looks = rule.n_swaps * count_active(found)
    found = settled(score, found, rule, charges, n_looks, rows=changed)
    better = changed & (worth(score, found, charges) > worth(score, order, charges) + MARGIN)
    return torch.where(better[:, None], found, order)


def begun_alone(
    score: HardScore, order: Tensor, log_likelihood: Tensor, rule: PursuitRule
) -> tuple[Tensor, Tensor]:
    """The codes, or better ones found by starting from the best single expert."""
    charges = rule.charges.like(order)
    score.compose(torch.full_like(order[:, :1], -1))
    most, begin = worth_alone(score.gains(), rule)
    before = worth_of_codes(order, log_likelihood, rule)
    tried = most > before + MARGIN
    if not tried.any():
        return order, log_likelihood
    alone = begin[:, None]
    n_looks = rule.n_swaps * count_active(alone)
    found = settled(score, alone, rule, charges, n_looks, rows=tried)
    better = tried & (worth(score, found, charges) > before + MARGIN)
    wide = torch.nn.functional.pad(order, (0, found.shape[1] - order.shape[1]), value=-1)
    chosen = torch.where(better[:, None], found.to(order.dtype), wide)
    return chosen, torch.where(better, score.log_likelihood(), log_likelihood)


def worth_alone(scores: Tensor, rule: PursuitRule) -> tuple[Tensor, Tensor]:
    """Value and index of the best single expert, given log-likelihoods of experts alone."""
    single = torch.as_tensor(rule.charges.of_experts_alone(), device=scores.device)
    most, begin = (scores[:, : len(single)] + single).max(dim=1)
    return most, begin


def worth_of_codes(order: Tensor, log_likelihood: Tensor, rule: PursuitRule) -> Tensor:
    """Log-likelihoods of codes minus their charges."""
    return log_likelihood + rule.charges.like(order).of_codes(order.long())


def worth(score: HardScore, order: Tensor, charges: Charges) -> Tensor:
    """The same, with the log-likelihood of the score."""
    score.compose(order)
    return score.log_likelihood() + charges.of_codes(order)


def weakest_first(score: Score, order: Tensor, costs: Tensor, background: int) -> Tensor:
    """Codes with the experts first that add least, given the background expert."""
    device, n_active = order.device, count_active(order)
    guide = torch.full((len(order), 1), background, device=device)
    earned = torch.full(order.shape, torch.inf, dtype=torch.float64, device=device)
    for slot in range(order.shape[1]):
        score.compose(torch.cat([order, guide], dim=1), without=slot)
        current = order[:, slot].clamp(min=0)[:, None]
        gain = beyond(score.gains(), costs).gather(1, current)[:, 0]
        earned[:, slot] = torch.where(order[:, slot] >= 0, gain, torch.inf)
    place = order.shape[1] + torch.arange(order.shape[1], device=device).repeat(len(order), 1)
    for front in range(n_weakest(order.shape[1])):
        least = earned.min(dim=1, keepdim=True).values
        # Ties go to the first one.
        weakest = (earned <= least + MARGIN).to(torch.uint8).argmax(dim=1, keepdim=True)
        wanted = (n_weakest(n_active) > front)[:, None]
        place.scatter_(1, weakest, torch.where(wanted, front, place.gather(1, weakest)))
        earned.scatter_(1, weakest, torch.inf)
    return order.gather(1, place.argsort(dim=1))


def count_active(order: Tensor) -> Any:
    """Number of active experts of each row."""
    return (order >= 0).sum(dim=1)


def settled(
    score: Score,
    order: Tensor,
    rule: PursuitRule,
    charges: Charges,
    n_looks: Any,
    *,
    background: int = -1,
    rows: Tensor | None = None,
    types: Tensor | None = None,
) -> Tensor:
    """Exchange, drop and add experts until nothing improves, or no look is left.

    All rows go through the same loop, each with its own current seat. `rows` are those to be
    processed; None means all. Costs are those in rows of these types, or of all types.
    """
    n_rows, n_experts = score.shape
    device = order.device
    order = torch.nn.functional.pad(order, (0, rule.max_active - order.shape[1]), value=-1)
    guide = torch.full((n_rows, 1), background, device=device)
    every = torch.arange(n_rows, device=device)
    running = torch.ones(n_rows, dtype=torch.bool, device=device) if rows is None else rows.clone()
    n_active = count_active(order)
    seat, n_unchanged = 0 * n_active, 0 * n_active
    while running.any():
        adds = (n_unchanged >= n_active) | (n_looks == 0)
        n_looks = n_looks - (~adds).long()
        seat = torch.where(~adds & (seat >= n_active), 0, seat)
        at = seat.clamp(max=rule.max_active - 1)
        current = torch.where(adds, -1, order[every, at])
        others = order.clone()
        others[every, at] = torch.where(adds, order[every, at], -1)
        score.compose(torch.cat([others, guide], dim=1))
        costs = charges.costs(others) if types is None else charges.costs_in(others, types)
        gains = beyond(score.gains(), costs)
        kept = gains.gather(1, current.clamp(min=0)[:, None])[:, 0]
        best, chosen = gains.masked_fill(binary_codes(others, n_experts), -torch.inf).max(dim=1)
        checks = running & ~adds
        joins = running & adds & (n_active < rule.max_active) & (best > MARGIN)
        drops = checks & (n_active > rule.min_active) & (best <= MARGIN)
        swaps = checks & ~drops & (best > kept + MARGIN)
        running = running & (~adds | joins)
        # The last expert moves to a seat that has become free.
        last = order[every, (n_active - 1).clamp(min=0)]
        place = torch.where(joins, n_active.clamp(max=rule.max_active - 1), at)
        occupant = torch.where(joins | swaps, chosen, torch.where(drops, last, order[every, place]))
        order[every, place] = occupant
        end = (n_active - 1).clamp(min=0)
        order[every, end] = torch.where(drops, -1, order[every, end])
        n_active = n_active + joins.long() - drops.long()
        unchanged = torch.where(swaps, 1, n_unchanged + 1)
        n_unchanged = torch.where(joins | drops, 0, torch.where(checks, unchanged, n_unchanged))
        seat = seat + (checks & ~drops).long()
    return order


def pruned(score: HardScore, order: Tensor, rule: PursuitRule) -> Tensor:
    """Drop each expert that adds no more than its cost, in turn, if enough others are active."""
    charges = rule.charges.like(order)
    order = order.clone()
    for slot in range(order.shape[1]):
        current = order[:, slot].clone()
        n_others = (order >= 0).sum(dim=1) - 1
        score.compose(order, without=slot)
        gains = beyond(score.gains(), charges.costs(order))
        kept = gains.gather(1, current.clamp(min=0)[:, None])[:, 0]
        drop = (current >= 0) & (n_others >= rule.min_active) & (kept <= MARGIN)
        order[:, slot] = torch.where(drop, -1, current)
    gaps_last = (order < 0).to(torch.uint8).argsort(dim=1, stable=True)
    return order.gather(1, gaps_last)


class PlainHard:
    """Log P(x | h) under the hard rule (eq. 2), as a dense array of rows x experts x variables."""

    def __init__(self, x: Tensor, experts: Experts) -> None:
        self.density = log_densities(x, experts)
        self.shape = (len(x), experts.n_experts)
        self.ranks: Any = experts.ranks
        self.compose(order_of_nobody(x))

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
        """Sum over the variables that each expert would own."""
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
        """Score of the mixture with each further expert minus the score without."""
        mixture = self.mixture[:, None] + self.expertise * self.density
        total = self.total[:, None] + self.expertise
        return self._score(mixture, total) - self.score[:, None]


def order_of_nobody(x: Tensor) -> Tensor:
    """Codes of rows without any active expert."""
    return torch.full((len(x), 1), -1, device=x.device)


def levels(experts: Experts) -> Any:
    """Levels of expertise relative to each variable's highest, shape (n_experts, n_features)."""
    log2_expertise: Any = experts.log2_expertise
    return torch.exp2(log2_expertise - log2_expertise.amax(dim=0))


def log_densities(x: Tensor, experts: Experts) -> Tensor:
    """Log P_k(x(d)) of every row, expert and variable, shape (n_rows, n_experts, n_features).

    Without b(x), which is the same for all experts; zero for missing values.
    """
    if experts.autoregression is not None:
        return torch.as_tensor(log_densities_given(x, experts))
    theta, log_partition = experts.natural
    rows: Any = x
    T: Any = experts.family.statistics(rows)
    density = torch.as_tensor(-log_partition)
    for statistic, parameter in zip(T, theta, strict=True):
        density = density + statistic[:, None] * parameter
    density = torch.where(is_observed(T[0])[:, None], density, 0.0)
    if experts.family.has_tails:
        density = torch.maximum(density, experts.family.least_log_density(rows)[:, None])
    return density
