"""Restarts: several runs of the learner; the shortest description is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynpart.engines import Codes, Experts, PursuitRule
from dynpart.learning._batch import break_ties
from dynpart.learning._contest import FEWEST_ROWS, contest
from dynpart.learning._learner import LearnerState, RunLog, relearn, run
from dynpart.learning._mixture import Mixture, allows_mixture, learn_mixture
from dynpart.learning._objective import Description, shortest
from dynpart.learning._plans import Plan
from dynpart.learning._records import IterationRecord
from dynpart.learning._reinitialisation import reinitialise
from dynpart.learning._task import Task
from dynpart.learning._trials import Adaptation, run_trials
from dynpart.learning._unseen import Unseen, describe_unseen
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue

COUNTED_ROWS = 20_000
"""Rows on which activations are counted: a frequency of 1% then has an error of about 10%."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished run of the learner.

    Attributes
    ----------
    experts : Experts
    rows : object
        Rows held by the engine: all of them, or enough to count activations.
    n_rows : int
        Number of these rows.
    codes : Codes
        Of these rows, as they will be encoded.
    history : tuple of IterationRecord
    adaptation : Adaptation
    description : Description
        Used to compare restarts.
    unseen : Unseen or None
        Estimated scores of unseen rows, if they can be computed.
    prior : CodePrior or None
        The prior over codes, if it was learnt with the experts.
    several : Fit or None
        The fit with several experts per row that a mixture was preferred to.
    """

    experts: Experts
    rows: Any
    n_rows: int
    codes: Codes
    history: tuple[IterationRecord, ...]
    adaptation: Adaptation
    description: Description
    unseen: Unseen | None = None
    prior: CodePrior | None = None
    several: Fit | None = None


def fit_experts(
    task: Task,
    plan: Plan,
    *,
    n_init: int,
    seed: int,
    rule: PursuitRule,
    report: Callable[[IterationRecord], None] | None = None,
    journal: RunLog | None = None,
) -> Fit:
    """Learn `n_init` times from different starts and keep the shortest description.

    The plan may allow a mixture, one expert per row, as an alternative. It is kept if it describes
    left-out rows in fewer nats; if that is close, both are learnt without some rows.

    Parameters
    ----------
    task : Task
    plan : Plan
    n_init, seed : int
    rule : PursuitRule
        How rows will be encoded; restarts are compared on such codes.
    report : callable, default=None
        Called with the record of each finished iteration.
    journal : RunLog, default=None
        Stores the state of each run.

    Returns
    -------
    Fit
    """
    fits = [
        _single_fit(task, plan, int(restart_seed), rule, report, journal)
        for restart_seed in np.random.SeedSequence(seed).generate_state(n_init)
    ]
    best = fits[shortest([fit.description for fit in fits])]
    last = best.history[-1] if best.history else None
    mixture = _mixture(task, plan, best, seed) if task.joint else None
    unseen = describe_unseen(
        task, plan, best.experts, best.rows, best.n_rows, best.codes, rule, last, seed, mixture
    )
    if mixture is None or unseen is None:
        return replace(best, unseen=unseen)
    if unseen.is_close() and task.n_rows >= FEWEST_ROWS:

        def learn(some: Task) -> Fit:
            return _single_fit(some, plan, seed, rule, None, None)

        winner = contest(task, plan, rule, seed, learn)
        if winner is not None:
            # The contest was won by these experts, so they are a further start.
            again = _continued(task, plan, winner, seed, rule)
            best = max(best, again, key=lambda fit: fit.description.joint)
            return replace(best, unseen=unseen)
        return _of_mixture(task, mixture, best, unseen, rule)
    if unseen.prefers_mixture(task.n_rows):
        return _of_mixture(task, mixture, best, unseen, rule)
    return replace(best, unseen=unseen)


def _mixture(task: Task, plan: Plan, fit: Fit, seed: int) -> Mixture | None:
    """The mixture of as many components, unless these experts are clearly better.

    None if there are too few rows to leave some out, or if more active experts were requested.
    """
    if not allows_mixture(task, plan):
        return None
    summary = fit.codes.summary(task.n_experts)
    told = float(summary.log_likelihood / summary.n_rows)
    n_rows = min(fit.n_rows, task.n_compared)
    rows = task.engine.take(fit.rows, np.arange(n_rows))
    return learn_mixture(task, plan, rows, told + fit.description.log_prior, seed)


def _of_mixture(task: Task, mixture: Mixture, fit: Fit, unseen: Unseen, rule: PursuitRule) -> Fit:
    """The fit with the mixture in the place of its experts."""
    prior = mixture.prior()
    codes = pursue(task.engine, fit.rows, mixture.experts, replace(rule, prior=prior))
    return replace(
        fit,
        experts=mixture.experts,
        codes=codes,
        prior=prior,
        unseen=unseen.by_mixture(),
        adaptation=replace(fit.adaptation, mixture=True),
        several=replace(fit, unseen=unseen),
    )


def _single_fit(
    task: Task,
    plan: Plan,
    seed: int,
    rule: PursuitRule,
    report: Callable[[IterationRecord], None] | None,
    journal: RunLog | None,
) -> Fit:
    n_rows = task.n_compared
    rows = task.draw(np.random.default_rng(seed), n_rows, replace=False)
    state, steps, adaptation = run_trials(
        task, plan, rows, n_rows, seed=seed, journal=journal, report=report
    )
    if 0 < len(state.history) < len(steps):
        state = reinitialise(task, plan, state, steps[len(state.history)], rows, n_rows, seed)
    state = run(task, plan, state, steps, seed=seed, journal=journal, report=report)
    return _finished(task, plan, state, adaptation, seed, rule)


def _continued(task: Task, plan: Plan, begun: Fit, seed: int, rule: PursuitRule) -> Fit:
    """A fit to some of the rows, continued with all of them: its last iterations, done again."""
    floor = begun.adaptation.min_active
    state = relearn(task, plan, begun.experts, floor, seed=seed)
    fit = _finished(task, plan, state, begun.adaptation, seed, rule)
    before = begun.history[: -len(fit.history)]
    again = (replace(one, iteration=t) for t, one in enumerate(fit.history, len(before)))
    return replace(fit, history=(*before, *again))


def _finished(
    task: Task,
    plan: Plan,
    state: LearnerState,
    adaptation: Adaptation,
    seed: int,
    rule: PursuitRule,
) -> Fit:
    """The result of a run, with the codes of rows on which activations are counted."""
    experts = replace(break_ties(state.experts), amplitude=task.amplitude)
    counted = task.draw(np.random.default_rng(seed), COUNTED_ROWS, replace=False)
    codes = pursue(task.engine, counted, experts, rule)
    score = Description.of(codes, experts, task, plan.epsilon, task.n_rows)
    n_counted = task.count(counted)
    return Fit(experts, counted, n_counted, codes, state.records(), adaptation, score)
