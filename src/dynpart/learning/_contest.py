"""Contests: if an estimate is too close, held-back rows decide between two models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dynpart.engines import PursuitRule
from dynpart.learning._densities import log_densities
from dynpart.learning._drawn import are_drawable, fitted_to_draws
from dynpart.learning._learner import prior_of
from dynpart.learning._mixture import fit_mixture
from dynpart.learning._plans import Plan
from dynpart.learning._splits import splits_of
from dynpart.learning._task import Task
from dynpart.learning._unseen import WORTH_IT
from dynpart.prior import MOST_TYPES, ROUGHLY, fit_prior
from dynpart.pursuits import pursue

if TYPE_CHECKING:
    from dynpart.learning._restarts import Fit

FEWEST_ROWS = 2000
"""Minimum number of rows for such a decision."""


def contest(
    task: Task,
    plan: Plan,
    rule: PursuitRule,
    seed: int,
    learn: Callable[[Task], Fit],
) -> Fit | None:
    """Decide by held-back rows between a mixture and several experts per row.

    Leaving rows out of opinions does not remove their effect on expertise, so the estimate favours
    several experts per row. Here both models are learnt from 80% of the rows, and the experts are
    refitted to drawn codes as at the end of a fit.

    Parameters
    ----------
    task : Task
        All rows; of many, some are drawn.
    plan : Plan
    rule : PursuitRule
        How rows will be encoded.
    seed : int
    learn : callable
        Task -> Fit, several experts per row.

    Returns
    -------
    Fit or None
        Several experts per row, learnt from 80% of the rows; None if a mixture describes the others
        in clearly fewer bits.
    """
    split = splits_of(task, np.random.default_rng(seed))[0]
    engine, fit = split.task.engine, learn(split.task)
    prior = prior_of(fit.codes, task.n_experts, ROUGHLY)
    codes = pursue(engine, fit.rows, fit.experts, replace(rule, prior=prior))
    prior, experts = prior_of(codes, task.n_experts, MOST_TYPES), fit.experts
    if are_drawable(split.task, experts):
        last = fit.history[-1].step
        found = fitted_to_draws(
            split.task, plan.epsilon, experts, prior, rule, last.sharpness, fit_prior, seed
        )
        experts, prior = (experts, prior) if found is None else found
    several = log_densities(engine, experts, prior, split.held, replace(rule, prior=prior))
    alone = fit_mixture(split.task, plan, seed).log_densities(split.held)
    gap = float(np.average(alone - several, weights=split.weight))
    return None if task.n_rows * gap > WORTH_IT else fit
