"""The ladder of sizes: a model with many experts, then fewer and fewer of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import to_numpy
from dynpart.encoding import Encoding
from dynpart.engines import Experts, row_log_base
from dynpart.learning import (
    WORTH_IT,
    Mixture,
    Plan,
    Split,
    Task,
    allows_mixture,
    break_ties,
    fit_experts,
    fit_mixture,
    relearn,
)
from dynpart.neighbourhood import MOST_TURNS, expert_losses, neighbourhood
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from dynpart.selection._choice import TIE, Curve, HeldBackScores, chosen, compared, standard_error

Array = NDArray[np.float64]

FIRST = 12
"""Experts of the first fit."""
JUDGED_ROWS = 1000
"""Number of training rows on which losses of experts are computed."""
RATIO = 0.88
"""Each size that is tried has about this share of the experts of the one before."""
AT_ONCE = 0.13
"""Largest share of experts that is dropped before losses are computed again."""
SECOND = 0.8
"""Share of the best size that is learnt from the start, to test whether it is better."""
NEARLY = 0.7
"""Share of the largest size above which the best one may be larger still: the curve is uneven."""
CLEARLY = 3.0
"""Standard errors by which a size is clearly worse."""
GIVE_UP = 2
"""Number of successive sizes that are clearly worse, after which sizes are halved."""
GROWTH = 1.4
"""Ratio of the components of each mixture that is tried to those of the one before."""
IDLE = 0.1
"""Maximum share of a mixture's components that are the likeliest of no row."""
EARNED = 10.0
"""Nats, over all rows, that each further component must save to be worth interpreting."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Some number of experts, the prior over their codes, and their scores of held-back rows."""

    experts: Experts
    prior: CodePrior
    scores: HeldBackScores

    @property
    def n_experts(self) -> int:
        return self.experts.n_experts


class Judge:
    """Learns models of several sizes from some rows and compares them on the held-back rows."""

    def __init__(self, split: Split, plan: Plan, encoding: Encoding, seed: int) -> None:
        self.split, self.plan, self.encoding, self.seed = split, plan, encoding, seed
        # A prior learnt along the way would change the path of sizes, so it is fitted at the end.
        self.task = replace(split.task, joint=False)
        self.n_largest = 0
        self.leader: Candidate | None = None
        self._led: tuple[Candidate, HeldBackScores] | None = None
        rng = np.random.default_rng(seed)
        self.sample = self.task.draw(rng, JUDGED_ROWS, replace=False)

    def search(
        self, least: int, most: int, mixtures: Curve, report: Callable[[str], None] | None = None
    ) -> Curve:
        """Search for the best size, from `least` to `most`: scores of held-back rows by size.

        While the best model is nearly the largest, and no expert of the largest is idle, another
        with twice as many experts is learnt, unless mixtures of no more components are clearly
        better. Then a model smaller than the best is learnt from the start, because the remaining
        experts of a large model may be a bad start for a small one. It counts if it is clearly
        better. It is not learnt if the large model, reduced to this size, is clearly worse. One
        expert stands for independent columns.
        """
        found: Curve = {1: HeldBackScores.alone(self.columns)} if least == 1 else {}
        least = max(least, min(2, most))
        n_experts, tried = min(most, max(FIRST, least)), 0
        while True:
            found = self._better(found, self.ladder(n_experts, least, tried, report))
            if self._lacks_parts(mixtures):
                return found
            best = self._best(found)
            some_idle = max(found) < n_experts
            if best < NEARLY * n_experts or some_idle or n_experts >= most:
                break
            tried, n_experts = n_experts, min(2 * n_experts, most)
        while (smaller := max(least, round(SECOND * best))) < best:
            known = min(size for size in found if size >= smaller)
            if self._is_worse(found, found[known]):
                break
            again = self.ladder(smaller, least, 0, report)
            if not self._is_worse(again, self._highest(found), TIE):
                break
            found = self._better(found, again)
            best = self._best(found)
        return found

    def ladder(
        self, n_experts: int, least: int, above: int, report: Callable[[str], None] | None = None
    ) -> Curve:
        """Scores of held-back rows by size, from `n_experts` down.

        Experts are dropped and the others are learnt further, while sizes are larger than `above`.
        If sizes are clearly worse, steps are large, since only the shape of the curve matters
        there.
        """
        candidate, floor = self.fitted(n_experts, least)
        found: Curve = {}
        n_worse = 0
        while True:
            size = candidate.n_experts
            found[size] = candidate.scores
            self._report(candidate, report)
            n_worse = n_worse + 1 if self._is_worse(found, candidate.scores) else 0
            ratio = RATIO if n_worse < GIVE_UP else 0.5
            size = max(least, min(size - 1, round(ratio * size)))
            if size >= candidate.n_experts or size <= above:
                return found
            candidate = self.relearnt(self.dropped(candidate, size), floor)

    def follow(self, sizes: list[int]) -> Curve:
        """Scores of held-back rows for these sizes, the largest first.

        A model in which some experts are never active also counts for the larger sizes.
        """
        candidate, floor = self.fitted(sizes[0], min(sizes))
        found: Curve = {}
        for size in sizes:
            if size == 1:
                found[size] = HeldBackScores.alone(self.columns)
                break
            if size < candidate.n_experts:
                candidate = self.relearnt(self.dropped(candidate, size), floor)
            found[size] = candidate.scores
        return found

    def fitted(self, n_experts: int, least: int) -> tuple[Candidate, int]:
        """A model learnt from the start, without idle experts, and its minimum of active ones."""
        self.n_largest = max(self.n_largest, n_experts)
        task = self._sized(n_experts)
        shape = (n_experts, task.n_features)
        fit = fit_experts(task, self.plan, n_init=1, seed=self.seed, rule=self.encoding.rule(shape))
        codes, _ = self.encoding.counted(task.engine, self.sample, fit.experts, rounds=1)
        usage = to_numpy(codes.summary(n_experts).usage)
        n_used = max(least, int((usage > 0).sum()))
        keep = np.sort(np.argsort(-usage, kind="stable")[:n_used])
        return self._judged(subset(fit.experts, keep)), fit.adaptation.min_active

    def relearnt(self, experts: Experts, floor: int) -> Candidate:
        """Experts after the last part of the plan, which uses all rows."""
        task = self._sized(experts.n_experts)
        end = relearn(task, self.plan, experts, floor, seed=self.seed)
        return self._judged(replace(break_ties(end.experts), amplitude=task.amplitude))

    def dropped(self, candidate: Candidate, size: int) -> Experts:
        """The experts without those with the smallest losses."""
        experts, prior = candidate.experts, candidate.prior
        while True:
            losses, usage = self.losses(experts, prior)
            too_many = len(losses) - size
            at_once = max(1, int((usage == 0).sum()), int(AT_ONCE * len(losses)), too_many // 2)
            n_gone = min(too_many, at_once)
            experts = subset(experts, np.sort(np.argsort(losses, kind="stable")[n_gone:]))
            if experts.n_experts == size:
                return experts
            _, prior = self.encoding.counted(self.task.engine, self.sample, experts, rounds=1)

    def losses(self, experts: Experts, prior: CodePrior) -> tuple[Array, Array]:
        """Nats that a sample of rows loses without each expert, and how often each is active.

        In a row with the expert, it is dropped or exchanged for another. Both arrays have shape
        (n_experts,).
        """
        rows, n_experts = self.sample, experts.n_experts
        weight = np.ones(len(rows)) if rows.weight is None else to_numpy(rows.weight)
        rule = self.encoding.rule(experts.log2_expertise.shape, prior)
        encoders = self.encoding.encoders(experts)
        active = to_numpy(pursue(self.task.engine, rows, encoders, rule).active(n_experts))
        here = encoders.like(np.empty(0))
        losses = expert_losses(rows.to_numpy(), active, here, prior, rule.min_active)
        return weight @ losses, weight @ active

    @cached_property
    def columns(self) -> Array:
        """Log-likelihoods of held-back rows under independent columns."""
        return self.mixture(1)

    def mixture(self, n_experts: int) -> Array:
        """Log P(x) of held-back rows under a mixture; one component is independent columns."""
        return self._mixture(n_experts).log_densities(self.split.held)

    def _mixture(self, n_experts: int) -> Mixture:
        return fit_mixture(replace(self.task, n_experts=n_experts), self.plan, self.seed)

    def _share_idle(self, mixture: Mixture) -> float:
        """Share of the components that are the likeliest of no row."""
        task, experts = self.task, mixture.experts
        alone = replace(self.encoding, max_active=1)
        rule = alone.rule(experts.log2_expertise.shape, mixture.prior())
        usage = pursue(task.engine, task.rows, experts, rule).summary(experts.n_experts).usage
        return float((to_numpy(usage) == 0).mean())

    def mixtures(self, most: int, report: Callable[[str], None] | None = None) -> Curve:
        """Log P(x) of held-back rows under mixtures, from two components on.

        The search ends if two successive sizes save too little, or if components are idle. The
        result is empty if a fit would not try one expert per row.
        """
        found: Curve = {}
        if not (self.split.task.joint and allows_mixture(self._sized(2), self.plan)):
            return found
        n_experts, best, n_vain = 2, -np.inf, 0
        while n_experts <= most and n_vain < 2:
            enough = best + EARNED * (n_experts - max(found, default=0)) / self.task.n_rows
            mixture = self._mixture(n_experts)
            if self._share_idle(mixture) > IDLE:
                break
            scores = HeldBackScores.alone(mixture.log_densities(self.split.held))
            nats = self._mean(scores.density)
            if report is not None:
                report(f"mixture of {n_experts}: held-back rows have {nats:.3f} nats")
            if nats > enough:
                found[n_experts], best, n_vain = scores, nats, 0
            else:
                n_vain += 1
            n_experts = max(n_experts + 1, round(GROWTH * n_experts))
        return found

    def follow_mixtures(self, sizes: list[int]) -> Curve:
        """The same for these sizes."""
        return {size: HeldBackScores.alone(self.mixture(size)) for size in sizes}

    def prefers(self, mixtures: Curve) -> bool:
        """Whether one expert per row has clearly shorter descriptions, as a fit would decide."""
        if not mixtures or self.leader is None:
            return False
        gap = self._mean(self._highest(mixtures).density) - self._mean(self._leading.density)
        return self.task.n_rows * gap > WORTH_IT

    def _lacks_parts(self, mixtures: Curve) -> bool:
        """Whether a mixture with no more experts is clearly better than several experts per row."""
        assert self.leader is not None
        few = {size: scores for size, scores in mixtures.items() if size <= self.leader.n_experts}
        if not few:
            return False
        best = self._highest(few)
        if self._mean(best.density) <= self._mean(self.leader.scores.density):
            return False
        return self.prefers(few) and self._is_worse(
            few, HeldBackScores.alone(self._leading.density)
        )

    @property
    def _leading(self) -> HeldBackScores:
        """Scores of held-back rows under the best experts and the prior of all other rows."""
        assert self.leader is not None
        if self._led is None or self._led[0] is not self.leader:
            experts = self.leader.experts
            _, prior = self.encoding.counted(self.task.engine, self.task.rows, experts)
            self._led = self.leader, self._scored(experts, prior, MOST_TURNS)
        return self._led[1]

    def _sized(self, n_experts: int) -> Task:
        least, most = self.encoding.limits(n_experts)
        return replace(
            self.task,
            n_experts=n_experts,
            min_active=min(least, n_experts),
            max_active=min(most, n_experts),
        )

    def _judged(self, experts: Experts) -> Candidate:
        """Experts, the prior of a sample of training rows, and scores of held-back rows."""
        _, prior = self.encoding.counted(self.task.engine, self.sample, experts, rounds=1)
        found = Candidate(experts, prior, self._scored(experts, prior))
        best = -np.inf if self.leader is None else self._mean(self.leader.scores.density)
        if self._mean(found.scores.density) > best:
            self.leader = found
        return found

    def _scored(self, experts: Experts, prior: CodePrior, most_turns: int = 1) -> HeldBackScores:
        """Scores of the held-back rows; sizes are compared by direct neighbours, to save time."""
        rule, held = self.encoding.rule(experts.log2_expertise.shape, prior), self.split.held
        encoders = self.encoding.encoders(experts)
        codes = pursue(self.task.engine, held, encoders, rule)
        active = to_numpy(codes.active(experts.n_experts))
        joint = to_numpy(codes.log_likelihood).astype(np.float64) + prior.log_prob(active)
        rows, here = held.to_numpy(), encoders.like(np.empty(0))
        density = neighbourhood(rows, active, here, prior, most_turns).log_density
        density = np.maximum(joint, density + row_log_base(rows, here.family))
        n_active = float(np.average(active.sum(axis=1), weights=self.split.weight))
        return HeldBackScores(joint, density, n_active)

    def _mean(self, scores: Array) -> float:
        return float(np.average(scores, weights=self.split.weight))

    def _best(self, found: Curve) -> int:
        return chosen(compared(found, self.split.weight, 1), self.task.log_scales)

    def _better(self, one: Curve, other: Curve) -> Curve:
        """Of each size the scores that are higher on average."""
        return {
            size: self._highest({k: of[size] for k, of in enumerate((one, other)) if size in of})
            for size in one | other
        }

    def _highest(self, found: Curve) -> HeldBackScores:
        return max(found.values(), key=lambda scores: self._mean(scores.joint))

    def _is_worse(self, found: Curve, scores: HeldBackScores, errors: float = CLEARLY) -> bool:
        """Whether scores are this many standard errors worse than the best ones found."""
        difference = self._highest(found).joint - scores.joint
        return self._mean(difference) > errors * standard_error(difference, self.split.weight)

    def _report(self, candidate: Candidate, report: Callable[[str], None] | None) -> None:
        if report is not None:
            scores = candidate.scores
            report(
                f"{candidate.n_experts} experts: held-back rows have "
                f"{self._mean(scores.joint):.3f} nats by their codes, "
                f"{self._mean(scores.density):.3f} by all near them, {scores.n_active:.1f} active"
            )


def subset(experts: Experts, keep: NDArray[np.intp]) -> Experts:
    """Some of the experts."""
    return replace(experts, eta=experts.eta[:, keep], log2_expertise=experts.log2_expertise[keep])
