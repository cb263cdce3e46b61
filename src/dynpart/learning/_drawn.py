"""EM with drawn codes: opinions and prior fitted to codes drawn from their posterior.

Learning assigns every row to its one best code. If codes overlap, this makes opinions too certain.
Codes that are drawn from P(h | x) in every iteration give sums that are right on average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_tensor, to_numpy
from dynpart.engines import Codes, Experts, PursuitRule, ResponsibilitySums, make_engine
from dynpart.learning._batch import sharpened
from dynpart.learning._task import Task
from dynpart.neighbourhood import redrawn
from dynpart.prior import MOST_TYPES, ROUGHLY, CodePrior
from dynpart.pursuits import pursue

Array = NDArray[np.float64]

MOST_TERMS = 2e8
"""Maximum number of terms (rows x experts x variables) of a sweep over all rows."""
FEWEST, MOST = 4, 8
"""Iterations in which chains of codes, opinions and prior approach each other, and as many after
them, over which sums are averaged: fewer for large problems."""


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
) -> tuple[Experts, CodePrior]:
    """Opinions and prior after some iterations of EM with drawn codes.

    Each row has a chain of codes, which begins with its best code and makes one sweep of Gibbs
    sampling per iteration. Opinions are averages as at the end of learning; expertise is kept.

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
    experts : Experts
    prior : CodePrior
    """
    rows = task.engine.take(task.rows, np.arange(task.moments.n_rows))
    if codes is None:
        codes = pursue(task.engine, rows, experts, replace(rule, prior=prior))
    active = to_numpy(codes.active(experts.n_experts)) != 0
    weight = None if codes.weight is None else to_numpy(codes.weight)
    engine = make_engine() if is_tensor(rows.values) else task.engine
    rows, population = rows.to_numpy(), to_numpy(task.population)
    here, limits = experts.like(population), (rule.min_active, rule.max_active)
    rng, averaged = np.random.default_rng(seed), np.zeros(())
    n_averaged = int(np.clip(MOST_TERMS // _terms(task), FEWEST, MOST))
    for iteration in range(1 - n_averaged, n_averaged + 1):
        active = redrawn(rows, active, here, prior, limits, rng)
        drawn = Codes(members_of(active), np.zeros(len(active)))
        sums = engine.responsibility_sums(rows, sharpened(here, sharpness), drawn).array
        averaged = averaged + (sums - averaged) / max(1, iteration)
        told = ResponsibilitySums(averaged)
        own = told.weight, told.statistics
        family = here.family.settled(*own)
        eta = family.update(*own, population, epsilon)
        eta, _ = family.shrunk(eta, *own, *own, population, epsilon)
        here = replace(here, family=family, eta=eta)
        prior = prior_of(active, weight, MOST_TYPES if iteration == n_averaged else ROUGHLY)
    return here.like(experts.eta), prior


def members_of(active: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Indices of the active experts of each row, padded with -1."""
    most = int(active.sum(axis=1).max())
    first = np.argsort(~active, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(active, first, axis=1), first, -1)
