"""The specification of amplitudes: pursuit and sums of experts with gains and offsets, in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dynpart.amplitudes import Terms, row_amplitudes
from dynpart.arrays import is_observed
from dynpart.composition import owners, responsibilities
from dynpart.engines._charges import Charges
from dynpart.engines._contract import (
    MARGIN,
    Array,
    Codes,
    Experts,
    PursuitRule,
    check_hard,
    n_weakest,
)
from dynpart.engines.reference import (
    RowScore,
    expert_log_densities,
    settled,
    tried_as_another_type,
    weakest_first,
    weighted_sum,
    weights_of,
)
from dynpart.rows import Rows


class AmplitudeScore(RowScore):
    """Values of codes of one row if every active expert has its own gain and offset.

    A new expert takes variables from others, whose gains and offsets then change too.
    """

    def __init__(self, density: Array, experts: Experts, charges: Charges, x: Array) -> None:
        assert experts.amplitude is not None
        super().__init__(density, experts, charges)
        self.amplitude = experts.amplitude
        self.terms = Terms.of(experts.family, experts.eta, experts.amplitude)
        self.observed = is_observed(x)
        self.x = np.where(self.observed, x, 0.0)

    def explained(self, code: list[int]) -> float:
        """Log-likelihood of a code, without costs."""
        if not code:
            return 0.0
        owner = np.array(code)[self.ranks[code].argmin(axis=0)]
        total = self.density[owner, self.everything].sum()
        for k in code:
            sums = self.terms.sums(self.x, self.observed, owner == k, k)
            total += self.amplitude.evidence(sums)
        return float(total)

    def gains(self, code: list[int], type_: int | None = None) -> Array:
        """Gain minus cost of each expert, if these are active, in all types of row or this one."""
        before = self.explained(code)
        found = [
            0.0 if k in code else self.explained([*code, k]) - before
            for k in range(len(self.density))
        ]
        return np.array(found) - self.costs(code, type_)


def greedy_code(score: AmplitudeScore, rule: PursuitRule, place: int = 0) -> list[int]:
    """Activate the expert that most improves the score while the gain exceeds the cost."""
    code: list[int] = []
    everybody = range(len(rule.cost))
    while len(code) < rule.max_active:
        before = score.explained(code)
        gains = np.array(
            [-np.inf if k in code else score.explained([*code, k]) - before for k in everybody]
        )
        gains -= rule.cost
        chosen = int((-gains).argsort(kind="stable")[place if not code else 0])
        if len(code) >= rule.min_active and gains[chosen] <= MARGIN:
            break
        code.append(chosen)
    return code


def refined_code(code: list[int], score: AmplitudeScore, rule: PursuitRule) -> list[int]:
    """The same steps as those of the reference engine's `refined`."""
    type_, n_looks = score.best_type(code), n_weakest(len(code))
    found = weakest_first(code, type_, score)
    found = settled(found, score, rule, n_looks=n_looks, with_background=True, type_=type_)
    found = settled(found, score, rule, n_looks=rule.n_swaps * len(found))
    if score.worth(found) < score.worth(code) - MARGIN:
        found = settled(code, score, rule, n_looks=rule.n_swaps * len(code))
    return tried_as_another_type(found, score, rule)


def begun_alone(code: list[int], score: AmplitudeScore, rule: PursuitRule) -> list[int]:
    """The code, or a better one found by starting from the best single expert."""
    charged = rule.charges.of_experts_alone()
    alone = np.array([score.explained([k]) for k in range(len(charged))]) + charged
    worth = score.worth(code)
    if alone.max() <= worth + MARGIN:
        return code
    found = settled([int(alone.argmax())], score, rule, n_looks=rule.n_swaps)
    return found if score.worth(found) > worth + MARGIN else code


def pruned_code(code: list[int], score: AmplitudeScore, rule: PursuitRule) -> list[int]:
    """Drop each expert that adds no more than its cost, in turn, if enough others are active."""
    for k in list(code):
        others = [other for other in code if other != k]
        gains = score.gains(others) if others else None
        if gains is not None and len(others) >= rule.min_active and gains[k] <= MARGIN:
            code = others
    return code


def pursue_block(
    rows: Rows, experts: Experts, rule: PursuitRule, background: Experts | None
) -> Codes:
    """Pursue, then refine, some rows."""
    check_hard(rule)
    guided = experts if background is None else experts.beside(background)
    order = np.full((len(rows), rule.max_active), -1, dtype=np.int32)
    log_likelihood = np.empty(len(rows))
    for row, score in enumerate(row_scores(rows, guided, rule.charges)):
        best: list[int] = []
        for place in range(min(rule.n_starts, experts.n_experts)):
            code = greedy_code(score, rule, place)
            if rule.n_swaps:
                code = refined_code(code, score, rule)
            if not best or score.worth(code) > score.worth(best) + MARGIN:
                best = code
        if rule.tries_experts_alone:
            best = begun_alone(best, score, rule)
        if rule.prune:
            best = pruned_code(best, score, rule)
        order[row, : len(best)] = best
        log_likelihood[row] = score.explained(best)
    return Codes(order, log_likelihood).of_rows(rows, experts.family)


def row_scores(rows: Rows, experts: Experts, charges: Charges) -> Iterator[AmplitudeScore]:
    """The score of every row."""
    density = expert_log_densities(rows, experts)
    x = experts.family.statistics(rows.values)[0]
    for row in range(len(rows)):
        yield AmplitudeScore(density[row], experts, charges, x[row])


def shared_out(
    rows: Rows, experts: Experts, codes: Codes
) -> tuple[Array, Array, NDArray[np.bool_], Array, Array]:
    """Responsibilities, T(x), flags of observed values, gains minus 1 and offsets."""
    assert experts.amplitude is not None
    T = experts.family.statistics(rows.values)
    observed = is_observed(T[0])
    T = np.where(observed, T, 0.0)
    active = codes.active(experts.n_experts)
    gain, offset, _ = row_amplitudes(
        T, observed, owners(experts.ranks, active), active, experts.family, experts.eta,
        experts.amplitude,
    )  # fmt: skip
    return responsibilities(experts.log2_expertise, active), T, observed, gain, offset


def gradient_terms(rows: Rows, experts: Experts, codes: Codes) -> Array:
    """Sums of g and g^2, with opinions transformed by gains and offsets of the row."""
    assert experts.amplitude is not None
    r, T, observed, gain, offset = shared_out(rows, experts, codes)
    mean, second = experts.eta
    shift = experts.amplitude.shift(experts.family)
    said = mean + gain[:, :, None] * (mean + shift) + offset[:, :, None]
    eta = np.stack([said, second - mean * mean + said * said])
    composed = np.einsum("nkd,snkd->snd", r, eta)
    g = experts.family.expertise_gradient(T[:, :, None], composed[:, :, None], eta, r)
    g = np.where(observed[:, None], g, 0.0)
    weight = weights_of(rows)
    return np.stack([weighted_sum(weight, g), weighted_sum(weight, g * g)])


def responsibility_terms(rows: Rows, experts: Experts, codes: Codes) -> Array:
    """Sums of r and r T(x) of rows transformed to each expert's scale.

    A value x = a m + c, with gain a, is transformed to (x - c) / a. As a measurement of m it has
    weight a^2, because its noise is divided by a.
    """
    assert experts.amplitude is not None
    r, T, observed, gain, offset = shared_out(rows, experts, codes)
    r = np.where(observed[:, None], r, 0.0) * weights_of(rows)[:, None, None]
    shift = experts.amplitude.shift(experts.family)
    a = 1 + gain[:, :, None]
    heard = T[0][:, None] - gain[:, :, None] * shift - offset[:, :, None]
    parts = (r * a * a, r * a * heard, r * heard * heard)
    return np.stack([part.sum(axis=0) for part in parts])
