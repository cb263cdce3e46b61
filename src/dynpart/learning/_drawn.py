"""EM with drawn codes: opinions and prior fitted to codes drawn from their posterior.

Learning assigns every row to its one best code. If codes overlap, this makes opinions too certain.
Codes that are drawn from P(h | x) in every iteration give sums that are right on average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_tensor, to_numpy
from dynpart.engines import Codes, Engine, Experts, PursuitRule, make_engine
from dynpart.learning._batch import sharpened
from dynpart.learning._densities import log_densities
from dynpart.learning._task import Task
from dynpart.neighbourhood import redrawn
from dynpart.prior import MOST_TYPES, ROUGHLY, CodePrior
from dynpart.pursuits import pursue
from dynpart.rows import Rows

Array = NDArray[np.float64]

MOST_TERMS = 2e8
"""Maximum number of terms (rows x experts x variables) of a sweep over all rows."""
FEWEST_COMPARED = 5000
"""Drawn codes are compared with best ones on all rows, or on at least this many of them."""
TERMS_COMPARED = 2.5e7
"""Terms of the rows on which they are compared, if these are more rows."""
HELD_BACK = 5
"""One of so many of these rows is held back."""
FEWEST_AVERAGED, MOST_AVERAGED = 4, 8
"""Iterations over which sums are averaged, fewer for large problems. As many come before, in which
chains of codes, opinions and prior approach each other."""


def are_drawable(task: Task, experts: Experts) -> bool:
    """Whether drawn codes are affordable and of use.

    There must be at least two rows per expert, and opinions that describe rows as densities.
    """
    family = experts.family
    is_density = family.as_density(task.moments) is family
    return is_density and 2 <= task.n_experts <= task.n_rows / 2 and _terms(task) <= MOST_TERMS


def _terms(task: Task) -> int:
    return task.moments.n_rows * task.n_experts * task.n_features


def fitted_to_draws(
    task: Task,
    epsilon: float,
    experts: Experts,
    prior: CodePrior,
    rule: PursuitRule,
    sharpness: float,
    prior_of: Callable[[Any, Any, int], CodePrior],
    seed: int,
    codes: Any = None,
) -> tuple[Experts, CodePrior] | None:
    """Opinions and prior after some iterations of EM with drawn codes, if they are better.

    Each row has a chain of codes, which begins with its best code and makes one sweep of Gibbs
    sampling per iteration. Opinions are averages as at the end of learning; expertise is kept.

    Opinions from drawn codes are less sharp, so rows reconstructed from their best codes are, too.
    So held-back rows decide: with drawn codes of the others, their density must be higher than with
    best codes of the others.

    Parameters
    ----------
    task : Task
    epsilon : float
        Weight of the data's average in opinions (eq. 5).
    experts : Experts
    prior : CodePrior
    rule : PursuitRule
        How rows are encoded.
    sharpness : float
        Power of the expertise in responsibilities, as in the last iteration of learning.
    prior_of : callable
        (codes, weights, maximum number of types) -> CodePrior.
    seed : int
    codes : Codes, default=None
        The best codes of all rows, if they are known.

    Returns
    -------
    (Experts, CodePrior) or None
    """
    rows = task.engine.take(task.rows, np.arange(task.moments.n_rows))
    if codes is None:
        codes = pursue(task.engine, rows, experts, replace(rule, prior=prior))
    active = to_numpy(codes.active(experts.n_experts)) != 0
    engine = make_engine() if is_tensor(rows.values) else task.engine
    update = _Update(engine, to_numpy(task.population), epsilon, sharpness, rule, prior_of)
    rows, here = rows.to_numpy(), experts.like(update.population)
    if not _is_better(update, rows, active, here, prior, np.random.default_rng((seed, 1))):
        return None
    rng = np.random.default_rng(seed)
    n_averaged = int(np.clip(MOST_TERMS // _terms(task), FEWEST_AVERAGED, MOST_AVERAGED))
    found, prior = update.by_draws(rows, active, here, prior, n_averaged, rng)
    return found.like(experts.eta), prior


def _is_better(
    update: _Update,
    rows: Rows,
    active: NDArray[np.bool_],
    experts: Experts,
    prior: CodePrior,
    rng: np.random.Generator,
) -> bool:
    """Whether held-back rows have a higher density with drawn codes of the others.

    The mean difference must exceed its standard error.
    """
    n_compared = max(FEWEST_COMPARED, int(TERMS_COMPARED / experts.log2_expertise.size))
    shuffled = rng.permutation(len(rows))[:n_compared]
    held, others = np.sort(shuffled[::HELD_BACK]), np.sort(np.delete(shuffled, np.s_[::HELD_BACK]))
    some, left_out = rows[others], rows[held]
    weight, theirs = (np.ones(len(r)) if r.weight is None else r.weight for r in (left_out, some))
    if min(weight.sum(), theirs.sum()) <= 1:
        return False
    best = update.opinions(some, active[others], experts), update.prior(some, active[others])
    drawn = update.by_draws(some, active[others], experts, prior, FEWEST_AVERAGED, rng)
    gained = update.log_densities(left_out, *drawn) - update.log_densities(left_out, *best)
    mean = float(np.average(gained, weights=weight))
    variance = float(np.average((gained - mean) ** 2, weights=weight))
    return mean > np.sqrt(variance / (weight.sum() - 1))


@dataclass(frozen=True, eq=False)
class _Update:
    """How opinions and prior follow from codes; everything is in NumPy arrays."""

    engine: Engine
    population: Array
    epsilon: float
    sharpness: float
    rule: PursuitRule
    prior_of: Callable[[Any, Any, int], CodePrior]

    def by_draws(
        self,
        rows: Rows,
        active: NDArray[np.bool_],
        experts: Experts,
        prior: CodePrior,
        n_averaged: int,
        rng: np.random.Generator,
    ) -> tuple[Experts, CodePrior]:
        """EM with drawn codes; sums are averaged over the second half of the iterations."""
        limits, averaged = (self.rule.min_active, self.rule.max_active), np.zeros(())
        for iteration in range(1 - n_averaged, n_averaged + 1):
            active = redrawn(rows, active, experts, prior, limits, rng)
            sums = self.sums(rows, active, experts)
            averaged = averaged + (sums - averaged) / max(1, iteration)
            experts = self.told(experts, averaged)
            last = iteration == n_averaged
            prior = self.prior(rows, active, MOST_TYPES if last else ROUGHLY)
        return experts, prior

    def opinions(self, rows: Rows, active: NDArray[np.bool_], experts: Experts) -> Experts:
        """The experts with opinions that follow from these codes."""
        return self.told(experts, self.sums(rows, active, experts))

    def sums(self, rows: Rows, active: NDArray[np.bool_], experts: Experts) -> Array:
        codes = Codes(members_of(active), np.zeros(len(active)))
        sharp = sharpened(experts, self.sharpness)
        return self.engine.responsibility_sums(rows, sharp, codes).array

    def told(self, experts: Experts, sums: Array) -> Experts:
        """The experts with averages as opinions, shrunk as at the end of learning."""
        own = sums[0], sums[1:]
        family = experts.family.settled(*own)
        eta = family.update(*own, self.population, self.epsilon)
        eta, _ = family.shrunk(eta, *own, *own, self.population, self.epsilon)
        return replace(experts, family=family, eta=eta)

    def prior(
        self, rows: Rows, active: NDArray[np.bool_], most_types: int = MOST_TYPES
    ) -> CodePrior:
        return self.prior_of(active, rows.weight, most_types)

    def log_densities(self, rows: Rows, experts: Experts, prior: CodePrior) -> Array:
        rule = replace(self.rule, prior=prior)
        return log_densities(self.engine, experts, prior, rows, rule)


def members_of(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Indices of the active experts of each row, padded with -1."""
    most = int(active.sum(axis=1).max())
    first = np.argsort(~active, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(active, first, axis=1), first, -1)
