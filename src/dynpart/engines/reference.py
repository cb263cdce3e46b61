"""The reference engine: the specification, in NumPy and float64, to be read beside the paper."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_observed, row_blocks
from dynpart.autoregression import AutoregressionSums
from dynpart.composition import compose_smoothed, owners, responsibilities
from dynpart.engines._charges import Charges
from dynpart.engines._contract import (
    MARGIN,
    NEARLY,
    Codes,
    Experts,
    GradientSums,
    NumpyEngine,
    OpinionSums,
    PursuitRule,
    ResponsibilitySums,
    check_newton,
    check_plain,
    n_weakest,
)
from dynpart.engines._offsets import (
    autoregression_sums,
    check_offsets,
    log_densities_given,
    without_shift,
)
from dynpart.rows import Rows

Array = NDArray[np.float64]


class ReferenceEngine(NumpyEngine):
    """Plain NumPy, block by block of rows; every row is processed separately."""

    name = "reference"

    def pursue(
        self, rows: Rows, experts: Experts, rule: PursuitRule, background: Experts | None = None
    ) -> Codes:
        """Likelihood matching pursuit (section 2.1) for every row."""
        experts.check_shapes(rows, cost=rule.cost)
        rule.check_background(background)
        if experts.autoregression is not None:
            check_offsets(rule)
        blocks = (rows[block] for block in _blocks(rows, experts))
        if experts.amplitude is not None:
            return Codes.joined(
                [_amplitudes().pursue_block(block, experts, rule, background) for block in blocks]
            )
        return Codes.joined([pursue_block(block, experts, rule, background) for block in blocks])

    def gradient_sums(self, rows: Rows, experts: Experts, codes: Codes) -> GradientSums:
        """Sums of g = d log P / d log e_k and g^2 in the smoothed composition (appendix A)."""
        check_plain(experts)

        def of_block(block: slice) -> GradientSums:
            if experts.amplitude is not None:
                part = rows[block], experts, codes[block]
                return GradientSums(_amplitudes().gradient_terms(*part))
            r, T, observed = _shared_out(rows[block], experts, codes[block])
            eta = compose_smoothed(experts.eta, r)
            g = experts.family.expertise_gradient(T[:, :, None], eta[:, :, None], experts.eta, r)
            g = np.where(observed[:, None], g, 0.0)
            weight = weights_of(rows[block])
            return GradientSums(np.stack([weighted_sum(weight, g), weighted_sum(weight, g * g)]))

        return reduce(add, map(of_block, _blocks(rows, experts)))

    def responsibility_sums(self, rows: Rows, experts: Experts, codes: Codes) -> ResponsibilitySums:
        """Sums of r and r T(x) for the averages of eq. 5 and 6."""
        check_plain(experts)

        def of_block(block: slice) -> ResponsibilitySums:
            if experts.amplitude is not None:
                part = rows[block], experts, codes[block]
                return ResponsibilitySums(_amplitudes().responsibility_terms(*part))
            r, T, observed = _shared_out(rows[block], experts, codes[block])
            r = np.where(observed[:, None], r, 0.0) * weights_of(rows[block])[:, None, None]
            shares = np.einsum("nkd,snd->skd", r, T)
            return ResponsibilitySums(np.stack([r.sum(axis=0), *shares]))

        return reduce(add, map(of_block, _blocks(rows, experts)))

    def opinion_sums(self, rows: Rows, experts: Experts, codes: Codes) -> OpinionSums:
        """Sums of df/dmu_k and of minus its derivative, in the smoothed composition (A.1.2)."""
        check_newton(experts)

        def of_block(block: slice) -> OpinionSums:
            r, T, observed = _shared_out(rows[block], experts, codes[block])
            pull = experts.family.pull(T, compose_smoothed(experts.eta, r))[0]
            by_opinion = r * np.where(observed, pull, 0.0)[:, None]
            weight = weights_of(rows[block])
            second = weighted_sum(weight, by_opinion * by_opinion)
            return OpinionSums(np.stack([weighted_sum(weight, by_opinion), second]))

        return reduce(add, map(of_block, _blocks(rows, experts)))

    def autoregression_sums(self, rows: Rows, experts: Experts, codes: Codes) -> AutoregressionSums:
        """Sums of the derivatives by weights of earlier values and by opinions."""

        def of_block(block: slice) -> AutoregressionSums:
            owner = owners(experts.ranks, codes[block].active(experts.n_experts))
            return autoregression_sums(rows[block], experts, owner)

        return reduce(add, map(of_block, _blocks(rows, experts)))


def _amplitudes() -> Any:
    """The module for experts with gains and offsets, which imports this one."""
    from dynpart.engines import reference_amplitudes

    return reference_amplitudes


def _blocks(rows: Rows, experts: Experts) -> Iterator[slice]:
    return row_blocks(len(rows), experts.log2_expertise.size)


def weights_of(rows: Rows) -> Array:
    """Weights of rows."""
    return np.ones(len(rows)) if rows.weight is None else rows.weight


def weighted_sum(weight: Array, terms: Array) -> Array:
    """Weighted sum over rows."""
    return np.tensordot(weight, terms, axes=1)


def _shared_out(
    rows: Rows, experts: Experts, codes: Codes
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Responsibilities, T(x) with 0 for missing values, and flags of observed values."""
    T = experts.family.statistics(rows.values)
    observed = is_observed(T[0])
    r = responsibilities(experts.log2_expertise, codes.active(experts.n_experts))
    return r, np.where(observed, T, 0.0), observed


def expert_log_densities(rows: Rows, experts: Experts) -> Array:
    """Log P_k(x(d)) of every row, expert and variable, shape (n_rows, n_experts, n_features).

    Without b(x), which is the same for all experts; zero for missing values.
    """
    rows, experts = without_shift(rows, experts)
    if experts.autoregression is not None:
        return log_densities_given(rows.values, experts)
    T = experts.family.statistics(rows.values)
    theta, log_partition = experts.natural
    density = -log_partition[None] + T[0][:, None] * theta[0]
    for s in range(1, len(T)):
        density += T[s][:, None] * theta[s]
    density = np.where(is_observed(T[0])[:, None], density, 0.0)
    if experts.family.has_tails:
        density = np.maximum(density, experts.family.least_log_density(rows.values)[:, None])
    return density


def pursue_block(
    rows: Rows, experts: Experts, rule: PursuitRule, background: Experts | None
) -> Codes:
    """Pursue, then refine, some rows."""
    density = expert_log_densities(rows, experts)

    def codes_of(order: NDArray[np.integer]) -> Codes:
        h = Codes(order, np.empty(len(order))).active(experts.n_experts)
        owner = owners(experts.ranks, h)
        return Codes(order, np.take_along_axis(density, owner[:, None], axis=1).sum(axis=(1, 2)))

    charges = rule.charges
    if background is not None:
        guided = experts.beside(background)
        guided_density = expert_log_densities(rows, guided)

    def pursued_from(place: int) -> Codes:
        score = _SmoothedScore(density, experts) if rule.smoothed else HardScore(density, experts)
        order: NDArray[np.integer] = greedy_pursuit(score, rule, place)
        if rule.n_swaps:
            order = refined(order, guided_density, guided, rule)
        return codes_of(order)

    places = range(min(rule.n_starts, experts.n_experts))
    codes = reduce(lambda best, other: best.or_better(other, charges), map(pursued_from, places))
    order = codes.members
    if rule.tries_experts_alone:
        _begin_alone(order, guided_density, guided, rule)
    if rule.prune:
        _prune(order, density, experts, rule)
    return codes_of(order).of_rows(rows, experts.family)


class HardScore:
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
        """Assign to expert `chosen[i]` the variables on which it ranks best in row `rows[i]`."""
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
    score: HardScore | _SmoothedScore, rule: PursuitRule, place: int = 0
) -> NDArray[np.int32]:
    """Activate the expert that most improves the score while the gain exceeds the cost.

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


def refined(
    order: NDArray[np.integer], density: Array, guided: Experts, rule: PursuitRule
) -> NDArray[np.integer]:
    """Codes that no single addition, removal or exchange of an expert improves.

    The first expert of a greedy code is chosen for the whole row and is often wrong, and often no
    single change corrects it. So a background expert without a cost is added: it owns the variables
    for which the code's experts have little expertise, and the third of the experts with the
    smallest contribution are replaced by better ones, under the most probable type of the greedy
    code. Then the background expert is removed, and the code settles. If the result is worse than
    the greedy code, the greedy code settles instead.

    Parameters
    ----------
    order : ndarray of shape (n_rows, max_active)
        Greedy codes.
    density : ndarray of shape (n_rows, n_experts + 1, n_features)
        Log-densities under the experts and, last, the background expert.
    guided : Experts
        The same experts.
    rule : PursuitRule

    Returns
    -------
    order : ndarray of shape (n_rows, max_active)
    """
    out = np.full_like(order, -1)
    for row in range(len(order)):
        score = RowScore(density[row], guided, rule.charges)
        greedy = [int(k) for k in order[row] if k >= 0]
        type_, n_looks = score.best_type(greedy), n_weakest(len(greedy))
        code = weakest_first(greedy, type_, score)
        code = settled(code, score, rule, n_looks=n_looks, with_background=True, type_=type_)
        code = settled(code, score, rule, n_looks=rule.n_swaps * len(code))
        if score.worth(code) < score.worth(greedy) - MARGIN:
            code = settled(greedy, score, rule, n_looks=rule.n_swaps * len(greedy))
        code = tried_as_another_type(code, score, rule)
        out[row, : len(code)] = code
    return out


def tried_as_another_type(code: list[int], score: RowScore, rule: PursuitRule) -> list[int]:
    """The code, or a better one found by assuming another type of row.

    No single change leads from the codes of one type to those of another. So if the second best
    type is nearly as probable as the best, the code settles under that type, and then under all
    types; the better code is kept.
    """
    values, best = score.charges.of_types(np.array([code]))[0], score.best_type(code)
    nearly, values[best] = values[best] - NEARLY, -np.inf
    second = int(values.argmax())
    if values[second] < nearly:
        return code
    found = settled(code, score, rule, n_looks=rule.n_swaps * len(code), type_=second)
    if found == code:
        return code
    found = settled(found, score, rule, n_looks=rule.n_swaps * len(found))
    return found if score.worth(found) > score.worth(code) + MARGIN else code


def _begin_alone(
    order: NDArray[np.integer], density: Array, guided: Experts, rule: PursuitRule
) -> None:
    """Replace codes, in place, that are worse than the best single expert of the row.

    A type of row may favour other experts than the likelihood of a whole code. Such a row is
    searched again from the best single expert. Parameters are those of `refined`.
    """
    alone = density[:, :-1].sum(axis=2) + rule.charges.of_experts_alone()
    for row, begin in enumerate(alone.argmax(axis=1)):
        score = RowScore(density[row], guided, rule.charges)
        code = [int(k) for k in order[row] if k >= 0]
        worth = score.worth(code)
        if alone[row, begin] > worth + MARGIN:
            found = settled([int(begin)], score, rule, n_looks=rule.n_swaps)
            if score.worth(found) > worth + MARGIN:
                order[row] = -1
                order[row, : len(found)] = found


class RowScore:
    """Values of codes of one row, and gains of further experts."""

    def __init__(self, density: Array, guided: Experts, charges: Charges) -> None:
        self.density, self.ranks = density, guided.ranks
        self.background = len(density) - 1
        self.charges = charges
        self.everything = np.arange(density.shape[1])

    def gains(self, code: list[int], type_: int | None = None) -> Array:
        """Gain minus cost of each expert, if these are active, in all types of row or this one."""
        rank, owned = len(self.density), np.zeros(len(self.everything))
        if code:
            owner = np.array(code)[self.ranks[code].argmin(axis=0)]
            rank = self.ranks[owner, self.everything]
            owned = self.density[owner, self.everything]
        gains = np.where(self.ranks < rank, self.density - owned, 0.0).sum(axis=1)
        return gains - self.costs(code, type_)

    def costs(self, code: list[int], type_: int | None) -> Array:
        """Costs of the experts given these, infinite for a background expert."""
        order = np.array([code], dtype=np.int64)
        by_type = type_ is not None
        costs = self.charges.costs_in(order, [type_]) if by_type else self.charges.costs(order)
        return np.pad(costs[0], (0, len(self.density) - costs.shape[1]), constant_values=np.inf)

    def best_type(self, code: list[int]) -> int:
        """The most probable type of row of a code."""
        return int(self.charges.of_types(np.array([code]))[0].argmax())

    def worth(self, code: list[int]) -> float:
        """Log-likelihood of a code minus its charges."""
        return self.explained(code) + float(self.charges.of_codes(np.array([code]))[0])

    def explained(self, code: list[int]) -> float:
        """Log-likelihood of a code."""
        owner = np.array(code)[self.ranks[code].argmin(axis=0)]
        return float(self.density[owner, self.everything].sum())


def weakest_first(code: list[int], type_: int, score: RowScore) -> list[int]:
    """The experts of a code, those first that add least, given the background expert.

    Only the third that is re-examined is sorted.
    """
    guide = [score.background]
    earned = [
        score.gains(code[:seat] + code[seat + 1 :] + guide, type_)[expert]
        for seat, expert in enumerate(code)
    ]
    left = list(range(len(code)))
    weakest = []
    for _ in range(n_weakest(len(code))):
        least = min(earned[seat] for seat in left)
        seat = next(seat for seat in left if earned[seat] <= least + MARGIN)
        left.remove(seat)
        weakest.append(seat)
    return [code[seat] for seat in weakest + left]


def settled(
    code: list[int],
    score: RowScore,
    rule: PursuitRule,
    *,
    n_looks: int,
    with_background: bool = False,
    type_: int | None = None,
) -> list[int]:
    """Exchange, drop and add experts of one row until nothing improves, or no look is left.

    Experts are examined in turn, one per look. One that adds no more than its cost is dropped (if
    enough others are active); else the best other expert replaces it if that is better. When all of
    them stay, the best further expert is added, if its gain exceeds its cost and a place is free;
    then all are examined again. Costs are those of rows of all types, or of one.
    """
    code = list(code)
    guide = [score.background] if with_background else []
    seat = n_unchanged = 0
    while True:
        if n_unchanged >= len(code) or n_looks == 0:
            gains = score.gains(code + guide, type_)
            gains[code] = -np.inf
            best = int(gains.argmax())
            if len(code) == rule.max_active or gains[best] <= MARGIN:
                return code
            code.append(best)
            n_unchanged = 0
            continue
        n_looks -= 1
        seat %= len(code)
        others = code[:seat] + code[seat + 1 :]
        gains = score.gains(others + guide, type_)
        kept = gains[code[seat]]
        gains[others] = -np.inf
        best = int(gains.argmax())
        if len(code) > rule.min_active and gains[best] <= MARGIN:
            # The last expert moves to the free seat, and is examined next.
            code[seat] = code[-1]
            code.pop()
            n_unchanged = 0
        elif gains[best] > kept + MARGIN:
            code[seat] = best
            n_unchanged = 1  # no expert is better in this seat
            seat += 1
        else:
            n_unchanged += 1
            seat += 1


def _prune(order: NDArray[np.integer], density: Array, experts: Experts, rule: PursuitRule) -> None:
    """Drop each expert that adds no more than its cost, in turn and in place."""
    charges = rule.charges
    for row in range(len(order)):
        for step in range(order.shape[1]):
            current = order[row, step]
            others = order[row, (order[row] >= 0) & (order[row] != current)]
            if current < 0 or len(others) < rule.min_active:
                continue
            score = HardScore(density[row : row + 1], experts)
            for k in others:
                score.activate(np.array([0]), np.array([k]))
            cost = charges.costs(order[row : row + 1])[0]
            if (score.gains()[0] - cost)[current] <= MARGIN:
                order[row, step] = -1
        left = order[row, order[row] >= 0]
        order[row] = -1
        order[row, : len(left)] = left
