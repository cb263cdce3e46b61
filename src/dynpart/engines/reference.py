"""The reference engine: the specification, in NumPy and float64, to be read beside the paper."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from dynpart.composition import compose_smoothed, owners, responsibilities
from dynpart.engines._contract import (
    MARGIN,
    Codes,
    Experts,
    GradientSums,
    NumpyEngine,
    PursuitRule,
    ResponsibilitySums,
    best_of_starts,
)
from dynpart.families._moments import row_blocks

Array = NDArray[np.float64]


class ReferenceEngine(NumpyEngine):
    """Plain NumPy, block by block of rows; every row is worked on its own."""

    name = "reference"

    def take(self, rows: NDArray, indices: NDArray[np.intp]) -> NDArray:
        """The rows with these indices."""
        return rows[indices]

    def pursue(self, rows: NDArray, experts: Experts, rule: PursuitRule) -> Codes:
        """Likelihood matching pursuit (section 2.1) for every row."""

        def pursue_from(experts: Experts, rule: PursuitRule, place: int) -> Codes:
            def of_block(block: slice) -> Codes:
                return pursue_block(experts.family.statistics(rows[block]), experts, rule, place)

            return Codes.joined([of_block(block) for block in _blocks(rows, experts)])

        return best_of_starts(pursue_from, experts, rule)

    def gradient_sums(self, rows: NDArray, experts: Experts, codes: Codes) -> GradientSums:
        """Sums of g = d log P / d log e_k and g^2 in the smoothed composition (appendix A)."""

        def of_block(block: slice) -> GradientSums:
            r, T = _responsibilities_and_statistics(rows, experts, codes, block)
            eta = compose_smoothed(experts.eta, r)
            g = experts.family.expertise_gradient(T[:, :, None], eta[:, :, None], experts.eta, r)
            return GradientSums(np.stack([g.sum(axis=0), (g * g).sum(axis=0)]))

        return reduce(add, map(of_block, _blocks(rows, experts)))

    def responsibility_sums(
        self, rows: NDArray, experts: Experts, codes: Codes
    ) -> ResponsibilitySums:
        """Sums of r and r T(x) for the averages of eq. 5 and 6."""

        def of_block(block: slice) -> ResponsibilitySums:
            r, T = _responsibilities_and_statistics(rows, experts, codes, block)
            weighted = np.einsum("nkd,snd->skd", r, T)
            return ResponsibilitySums(np.stack([r.sum(axis=0), *weighted]))

        return reduce(add, map(of_block, _blocks(rows, experts)))


def _blocks(rows: NDArray, experts: Experts) -> Iterator[slice]:
    return row_blocks(len(rows), experts.log2_expertise.size)


def _responsibilities_and_statistics(
    rows: NDArray, experts: Experts, codes: Codes, block: slice
) -> tuple[Array, Array]:
    h = Codes(codes.order[block], codes.log_likelihood[block]).active(experts.n_experts)
    return (
        responsibilities(experts.log2_expertise, h),
        experts.family.statistics(rows[block]),
    )


def expert_log_densities(T: Array, experts: Experts) -> Array:
    """Log P_k(x(d)) of every row, expert and variable, shape (n_rows, n_experts, n_features)."""
    theta, log_partition = experts.natural
    density = -log_partition[None] + T[0][:, None] * theta[0]
    for s in range(1, len(T)):
        density += T[s][:, None] * theta[s]
    return density


def pursue_block(T: Array, experts: Experts, rule: PursuitRule, place: int = 0) -> Codes:
    """Pursue, then refine, the rows with statistics `T` (n_statistics, n_rows, n_features)."""
    density = expert_log_densities(T, experts)
    score = _SmoothedScore(density, experts) if rule.smoothed else _HardScore(density, experts)
    order = greedy_pursuit(score, rule, place)
    for _ in range(rule.n_swaps):
        _refine(order, density, experts, rule, may_replace=True)
    if rule.prune:
        _refine(order, density, experts, rule, may_replace=False)
    h = Codes(order, np.empty(len(order))).active(experts.n_experts)
    owner = owners(experts.ranks, h)
    return Codes(order, np.take_along_axis(density, owner[:, None], axis=1).sum(axis=(1, 2)))


class _HardScore:
    """Log P(x | h) under the hard rule (eq. 2), and how each further expert would change it."""

    def __init__(self, density: Array, experts: Experts) -> None:
        n_rows, n_experts, n_features = density.shape
        self.density = density
        self.ranks = experts.ranks
        self.owner_rank = np.full((n_rows, n_features), n_experts, dtype=np.int32)
        self.owner_density = np.zeros((n_rows, n_features))

    def gains(self) -> Array:
        """Change of the score by each expert, shape (n_rows, n_experts)."""
        wins = self.ranks < self.owner_rank[:, None]
        return np.where(wins, self.density - self.owner_density[:, None], 0.0).sum(axis=2)

    def activate(self, rows: NDArray[np.intp], chosen: NDArray[np.intp]) -> None:
        """Let expert `chosen[i]` take over the variables it wins in row `rows[i]`."""
        wins = self.ranks[chosen] < self.owner_rank[rows]
        self.owner_rank[rows] = np.where(wins, self.ranks[chosen], self.owner_rank[rows])
        self.owner_density[rows] = np.where(
            wins, self.density[rows, chosen], self.owner_density[rows]
        )


class _SmoothedScore:
    """The same for the smoothed rule (eq. 4): a mixture per variable, weighted by expertise."""

    def __init__(self, density: Array, experts: Experts) -> None:
        n_rows, _, n_features = density.shape
        # A common factor per variable changes no comparison and keeps densities representable.
        self.density = np.exp(density - density.max(axis=1, keepdims=True))
        log2_expertise = experts.log2_expertise
        self.expertise = np.exp2(log2_expertise - log2_expertise.max(axis=0))
        self.mixture = np.zeros((n_rows, n_features))
        self.total = np.zeros((n_rows, n_features))
        self.score = np.zeros(n_rows)

    def _scores(self, mixture: Array, total: Array) -> Array:
        tiny = np.finfo(np.float64).tiny
        return (np.log(np.maximum(mixture, tiny)) - np.log(total)).sum(axis=-1)

    def gains(self) -> Array:
        mixture = self.mixture[:, None] + self.expertise * self.density
        return self._scores(mixture, self.total[:, None] + self.expertise) - self.score[:, None]

    def activate(self, rows: NDArray[np.intp], chosen: NDArray[np.intp]) -> None:
        self.mixture[rows] += self.expertise[chosen] * self.density[rows, chosen]
        self.total[rows] += self.expertise[chosen]
        self.score[rows] = self._scores(self.mixture[rows], self.total[rows])


def greedy_pursuit(
    score: _HardScore | _SmoothedScore, rule: PursuitRule, place: int = 0
) -> NDArray[np.int32]:
    """Activate the expert that most improves the score until none earns its cost.

    The first expert is always activated: the best one, or the one in another `place` of the order.
    Among equal gains the lowest index is taken.

    Returns
    -------
    order : ndarray of shape (n_rows, max_active)
    """
    n_rows, n_experts, _ = score.density.shape
    order = np.full((n_rows, rule.max_active), -1, dtype=np.int32)
    inactive = np.ones((n_rows, n_experts), dtype=bool)
    running = np.arange(n_rows)
    for step in range(rule.max_active):
        gains = np.where(inactive, score.gains() - rule.cost, -np.inf)[running]
        chosen = (-gains).argsort(axis=1, kind="stable")[:, place if step == 0 else 0]
        worth_it = gains[np.arange(len(running)), chosen] > MARGIN
        if step >= rule.min_active:
            running, chosen = running[worth_it], chosen[worth_it]
        if len(running) == 0:
            break
        score.activate(running, chosen)
        order[running, step] = chosen
        inactive[running, chosen] = False
    return order


def _refine(
    order: NDArray[np.int32],
    density: Array,
    experts: Experts,
    rule: PursuitRule,
    *,
    may_replace: bool,
) -> None:
    """Reconsider each active expert in turn, in place: drop it, replace it or keep it.

    An expert that earns no more than its cost is dropped (if enough others are active); else the
    best other expert takes its place if that is better. Scores are of the hard rule (eq. 2).
    """
    for row in range(len(order)):
        for step in range(order.shape[1]):
            current = order[row, step]
            others = order[row, (order[row] >= 0) & (order[row] != current)]
            if current < 0 or (len(others) == 0 and not may_replace):
                continue
            score = _HardScore(density[row : row + 1], experts)
            for k in others:
                score.activate(np.array([0]), np.array([k]))
            gains = score.gains()[0] - rule.cost
            kept = gains[current]
            gains[others] = -np.inf
            best = int(gains.argmax())
            spare = len(others) >= rule.min_active
            if spare and (gains[best] if may_replace else kept) <= MARGIN:
                order[row, step] = -1
            elif may_replace and gains[best] > kept + MARGIN:
                order[row, step] = best
        left = order[row, order[row] >= 0]
        order[row] = -1
        order[row, : len(left)] = left
