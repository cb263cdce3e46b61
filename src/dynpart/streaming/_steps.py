"""The steps of learning: sums of rows, merging, an update; and a stream built on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dynpart.engines import Engine, Experts, PursuitRule, make_engine
from dynpart.engines.blocks import tree_sum
from dynpart.families import ColumnMoments
from dynpart.learning import (
    Annealed,
    IterationRecord,
    LearnerState,
    Plan,
    Step,
    Task,
    candidates,
    learn_once,
    penalised_objective,
    update_expertise,
    update_opinions,
)
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from dynpart.streaming._state import Averages, Candidate, Stream, Sums
from dynpart.validation import check_fitted_number, checked_weights

DECAY = 0.7
"""Exponent of the decay of steps: above 1/2, so that noise averages out, and at most 1, so that any
distance from the start can be covered."""


def accumulate(
    rows: Any,
    experts: Experts,
    rule: PursuitRule,
    *,
    sample_weight: Any = None,
    engine: Engine | None = None,
) -> Sums:
    """Encode some rows and compute their sums for an update.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Numbers, NaN for missing values; or rows in the form of `engine`.
    experts : Experts
        The experts to encode with, or to continue from.
    rule : PursuitRule
        How rows are encoded: limits on active experts, costs, refinement.
    sample_weight : ndarray of shape (n_rows,), default=None
        Weights of the rows; 3 is equivalent to three equal rows.
    engine : Engine, default=None
        What processes the rows; by default the best one of this machine.

    Returns
    -------
    Sums
        Its size does not depend on the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.engines import PursuitRule
    >>> from dynpart.families import column_moments, make_family
    >>> from dynpart.learning import Annealed
    >>> from dynpart.streaming import accumulate, merge, update
    >>> X = make_pairs(3)
    >>> moments = column_moments(X)
    >>> family = make_family("auto", moments)
    >>> experts = Annealed().start(family, moments, 6, np.random.default_rng(0))
    >>> rule = PursuitRule(min_active=3, max_active=6, cost=np.zeros(6))
    >>> for _ in range(10):
    ...     sums = merge(accumulate(block, experts, rule) for block in (X[:4], X[4:]))
    ...     experts = update(experts, sums, moments)
    >>> sums.codes.n_rows
    8.0
    """
    engine = make_engine() if engine is None else engine
    if isinstance(rows, np.ndarray):
        rows = Rows.of(rows, experts.family, checked_weights(sample_weight, len(rows)))
    codes = pursue(engine, rows, experts, rule)
    return Sums(
        codes.summary(experts.n_experts),
        engine.gradient_sums(rows, experts, codes),
        engine.responsibility_sums(rows, experts, codes),
    )


def merge(parts: Iterable[Sums]) -> Sums:
    """Sums of all rows from the sums of parts of them, for the same experts.

    The grouping of additions depends only on the number of parts: the same parts in the same order
    give bitwise the same result.

    Parameters
    ----------
    parts : iterable of Sums
        Sums of disjoint rows.

    Returns
    -------
    Sums
        The sums of all rows.
    """
    return tree_sum(parts)


def update(
    experts: Experts,
    sums: Sums,
    moments: ColumnMoments,
    *,
    plan: Plan | None = None,
    log2_bound: float | None = None,
    step: float = 1.0,
) -> Experts:
    """Update experts from sums: expertise first, then opinions.

    The learner of ``fit`` and ``partial_fit`` computes responsibilities after expertise has
    changed; here both come from one pass over the rows.

    Parameters
    ----------
    experts : Experts
        The experts with which the sums were computed.
    sums : Sums
        Sums over all rows, from :func:`accumulate` and :func:`merge`.
    moments : ColumnMoments
        Column moments of all rows, towards which opinions are shrunk.
    plan : Plan, default=None
        Rule for the change of expertise, and epsilon; the default plan if None.
    log2_bound : float, default=None
        Levels of expertise stay within plus and minus this; by default within log2 of 8 times the
        number of experts.
    step : float, default=1.0
        Step size of expertise.

    Returns
    -------
    Experts
        The experts after the update.
    """
    follow = cast(Plan, Annealed()) if plan is None else plan
    bound = np.log2(8 * experts.n_experts) if log2_bound is None else log2_bound
    move = Step(log2_bound=bound, size=step)
    experts = update_expertise(experts, sums.gradient, follow, move, sums.codes.n_rows)
    population = experts.family.population(moments)
    return update_opinions(experts, sums.responsibility, follow, population)


def step_of_batch(steps: list[Step], t: int) -> Step:
    """The step of batch t of a stream: the plan's step t, or its last, adapted to streams.

    All differences between a stream and a fit are decided here. A batch is read once and as a
    whole, so no rows are drawn from it. No batch is the last, so opinions are not shrunk. The step
    size is the stream's own: 1 in the search, then (1 + t - t0)^-0.7; so is the memory of earlier
    batches. Everything else follows the plan.

    Parameters
    ----------
    steps : list of Step
        Steps of the plan.
    t : int
        Batches before this one.

    Returns
    -------
    Step
        The step of this batch.
    """
    n_search = sum(step.search for step in steps)
    size = (1 + max(0, t - n_search)) ** -DECAY
    return replace(
        steps[min(t, len(steps) - 1)],
        n_rows=None,
        n_batches=1,
        size=size,
        memory=1 - size,
        shrink=False,
        search=t < n_search,
    )


def begin(task: Task, plan: Plan, seed: int) -> Stream:
    """A stream before its first batch.

    Parameters
    ----------
    task : Task
        Its rows are the first batch.
    plan : Plan
        How experts start, and which minimum numbers of active experts are tried.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    Stream
        The state before the first batch, for :func:`advance`.
    """
    start = plan.start(task.family, task.moments, task.n_experts, np.random.default_rng(seed))
    nothing = Averages.none(start)
    return Stream(tuple(Candidate(start, least, nothing) for least in candidates(plan, task)))


def resume(task: Task, experts: Experts, moments: ColumnMoments) -> Stream:
    """A stream that continues from experts learnt from rows with these column moments.

    Parameters
    ----------
    task : Task
        Its rows are the next batch, which initialises the averages.
    experts : Experts
        The experts to encode with, or to continue from.
    moments : ColumnMoments
        Column moments of the rows that they were learnt from.

    Returns
    -------
    Stream
        The state before the next batch, for :func:`advance`.
    """
    sums = accumulate(task.rows, experts, task.rule(), engine=task.engine)
    averages = Averages.behind(experts, sums.responsibility, sums.codes, moments.weight)
    return Stream((Candidate(experts, task.min_active, averages),), moments, n_batches=task.n_iter)


def advance(task: Task, plan: Plan, stream: Stream) -> Stream:
    """Learn from one batch of a stream.

    Parameters
    ----------
    task : Task
        Task with the rows of the batch and their moments.
    plan : Plan
        Batch t follows its step t, or its last step, adapted by :func:`step_of_batch`.
    stream : Stream
        State after the previous batch.

    Returns
    -------
    Stream
        The state after this batch.
    """
    n_known, n_features = stream.leader.experts.log2_expertise.shape
    check_fitted_number(task.n_experts, n_known)
    if task.n_features != n_features:
        raise ValueError(f"X has {task.n_features} features, the stream has {n_features} features")
    n_rows, t = task.moments.weight, stream.n_batches
    if stream.moments is not None:
        task = replace(task, moments=stream.moments + task.moments)
    tried = stream.candidates
    if not step_of_batch(plan.steps(task, tried[0].min_active), t).search:
        tried = (_best(task, plan, tried),)
    runs = [_advance(task, plan, candidate, stream, n_rows) for candidate in tried]
    # The candidate that explains this batch best becomes the leader.
    runs.sort(key=lambda run: run[1][-1].penalised, reverse=True)
    return Stream(tuple(candidate for candidate, _ in runs), task.moments, runs[0][1], t + 1)


def _advance(
    task: Task, plan: Plan, candidate: Candidate, stream: Stream, n_rows: float
) -> tuple[Candidate, tuple[IterationRecord, ...]]:
    """One candidate after a batch, and the history up to this batch."""
    step = step_of_batch(plan.steps(task, candidate.min_active), stream.n_batches)
    memory = candidate.averages.memory(n_rows, step.size)
    before, known = LearnerState(candidate.experts, stream.history), candidate.averages.sums
    state, sums, codes = learn_once(task, plan, before, step, [task.rows], n_rows, memory, known)
    averages = candidate.averages.moved(sums, codes, memory)
    return Candidate(state.experts, candidate.min_active, averages), state.records()


def _best(task: Task, plan: Plan, tried: tuple[Candidate, ...]) -> Candidate:
    """The candidate that best explains rows it has not learnt from."""
    if len(tried) == 1:
        return tried[0]

    def score(candidate: Candidate) -> float:
        experts = candidate.experts
        summary = pursue(task.engine, task.rows, experts, task.rule()).summary(task.n_experts)
        return float(
            penalised_objective(summary, experts, task.population, plan.epsilon, task.n_rows)
        )

    return max(tried, key=score)
