r"""Streaming: learning in steps that anyone can run anywhere, and from rows that pass by only once.

Three steps are all that an iteration of learning is::

    sums = accumulate(rows, experts, rule)  # wherever the rows are
    sums = merge([sums_here, sums_there])  # in any place, in this order
    experts = update(experts, sums, moments)  # in one place; a few kilobytes

:func:`advance` strings them together for a stream: stepwise EM. Batch t moves the running averages
of the sums by a step that decays,

.. math:: \bar s_t = (1 - \gamma_t)\,\bar s_{t-1} + \gamma_t\, s_t, \qquad
          \gamma_t = (1 + t - t_0)^{-0.7},

and expertise by as much of what the batch asks for. Until :math:`t_0`, while the plan would
draw fresh rows in each iteration anyway, the step is one, and the plan's contenders race: each
learns from every batch, and the one that best explains the next batch, not seen before, goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import namespace
from dynpart.engines import (
    CodeSummary,
    Engine,
    Experts,
    GradientSums,
    PursuitRule,
    ResponsibilitySums,
    make_engine,
)
from dynpart.engines.blocks import tree_sum
from dynpart.families import ColumnMoments, Family
from dynpart.learning import Annealed, IterationRecord, Plan, Problem, Step
from dynpart.learning._connectivity import Neighbours
from dynpart.learning._learner import break_ties, update_expertise
from dynpart.learning._objective import joint_objective, penalised_objective

DECAY = 0.7
"""Power of the number of batches by which steps shrink: above 1/2, so that noise averages out, and
at most 1, so that no start is ever stuck."""


@dataclass(frozen=True, eq=False)
class Sums:
    """All that some rows have to say about the next experts; parts combine with ``+``.

    Attributes
    ----------
    codes : CodeSummary
        How many rows, which experts they use, how likely they are.
    gradient : GradientSums
        Evidence for more or less expertise (appendix A).
    responsibility : ResponsibilitySums
        Sums for the experts' opinions (eq. 5 and 6).
    """

    codes: CodeSummary
    gradient: GradientSums
    responsibility: ResponsibilitySums

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.codes + other.codes,
            self.gradient + other.gradient,
            self.responsibility + other.responsibility,
        )


def accumulate(
    rows: Any, experts: Experts, rule: PursuitRule, *, engine: Engine | None = None
) -> Sums:
    """Explain some rows by the experts and sum up what follows for them.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Or whatever `engine` works on.
    experts : Experts
    rule : PursuitRule
    engine : Engine, optional

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
    8
    """
    engine = make_engine() if engine is None else engine
    codes = engine.pursue(rows, experts, rule)
    return Sums(
        codes.summary(experts.n_experts),
        engine.gradient_sums(rows, experts, codes),
        engine.responsibility_sums(rows, experts, codes),
    )


def merge(parts: Iterable[Sums]) -> Sums:
    """Sums of all rows from the sums of parts of them, for the same experts.

    Additions are grouped in a way that depends on the number of parts alone: the same parts in the
    same order give the same bits.

    Parameters
    ----------
    parts : iterable of Sums

    Returns
    -------
    Sums
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
    """The experts that follow from the sums: expertise first, then opinions.

    The learner inside ``fit`` asks for responsibilities again once expertise has moved; here both
    come from one look at the rows.

    Parameters
    ----------
    experts : Experts
        Those the sums were made with.
    sums : Sums
    moments : ColumnMoments
        Of the data as a whole, towards which opinions are shrunk.
    plan : Plan, optional
        How evidence moves expertise, and epsilon; the default plan if None.
    log2_bound : float, optional
        Levels of expertise stay within plus and minus this; by default within log2 of 8 times the
        number of experts.
    step : float, default=1.0
        Share of the change of expertise that is made.

    Returns
    -------
    Experts
    """
    follow = cast(Plan, Annealed()) if plan is None else plan
    bound = np.log2(8 * experts.n_experts) if log2_bound is None else log2_bound
    move = Step(log2_bound=bound, size=step)
    experts = update_expertise(experts, sums.gradient, follow, move, sums.codes.n_rows)
    eta = experts.family.update(
        sums.responsibility.weight,
        sums.responsibility.statistics,
        experts.family.population(moments),
        follow.epsilon,
    )
    return replace(experts, eta=eta)


@dataclass(frozen=True, eq=False)
class Averages:
    """Per row: how active and how responsible experts are, averaged over recent batches.

    Attributes
    ----------
    n_rows : float
        Rows the averages are worth.
    usage : ndarray of shape (n_experts,)
    weight : ndarray of shape (n_experts, n_features)
    statistics : ndarray of shape (n_statistics, n_experts, n_features)
    """

    n_rows: float
    usage: NDArray[np.float64]
    weight: NDArray[np.float64]
    statistics: NDArray[np.float64]

    def moved(self, sums: Sums, step: float) -> Averages:
        """A step from these averages towards those of a batch."""
        n_rows = sums.codes.n_rows

        def towards(old: NDArray[np.float64], total: NDArray) -> NDArray[np.float64]:
            return (1 - step) * old + step * (total / n_rows)

        return Averages(
            (1 - step) * self.n_rows + n_rows,
            towards(self.usage, sums.codes.usage),
            towards(self.weight, sums.responsibility.weight),
            towards(self.statistics, sums.responsibility.statistics),
        )

    @classmethod
    def before(cls, sums: Sums, experts: Experts, n_rows: float) -> Averages:
        """What could have led to these experts: `n_rows` rows, explained much as the batch is.

        Half of the weight is shared out evenly, lest experts the batch does not need be forgotten.
        """
        weight = 0.5 * sums.responsibility.weight / sums.codes.n_rows + 0.5 / experts.n_experts
        return cls(n_rows, sums.codes.usage / sums.codes.n_rows, weight, weight * experts.eta)

    def as_sums(self) -> ResponsibilitySums:
        """Sums over as many rows as the averages are worth."""
        stacked = namespace(self.weight).stack([self.weight, *self.statistics])
        return ResponsibilitySums(self.n_rows * stacked)


@dataclass(frozen=True, eq=False)
class Runner:
    """One contender: experts that began with a floor on the number of active ones.

    Attributes
    ----------
    experts : Experts
    floor : int
    averages : Averages or None
        Of what batches said so far; None before the first.
    """

    experts: Experts
    floor: int
    averages: Averages | None = None


@dataclass(frozen=True, eq=False)
class Stream:
    """Where learning from a stream of batches stands.

    Attributes
    ----------
    runners : tuple of Runner
        Contenders of the race, and its winner alone once it is over.
    moments : ColumnMoments or None
        Of all rows so far; None before the first batch.
    history : tuple of IterationRecord
        One record per batch, about the leader.
    n_batches : int
        Batches that count as learnt from.
    """

    runners: tuple[Runner, ...]
    moments: ColumnMoments | None = None
    history: tuple[IterationRecord, ...] = ()
    n_batches: int = 0

    @property
    def leader(self) -> Runner:
        """The winner; during the race whoever explained the last batch best."""
        return self.runners[0]

    @property
    def experts(self) -> Experts:
        """The leader's experts, ready to encode rows."""
        return break_ties(self.leader.experts)

    @property
    def activation_probabilities(self) -> NDArray[np.float64]:
        """How often the leader's experts were active lately, kept off 0 and 1 by half a row."""
        averages = self.leader.averages
        if averages is None:
            raise ValueError("no batch has been learnt from yet")
        return (averages.n_rows * averages.usage + 0.5) / (averages.n_rows + 1)


@dataclass(frozen=True, eq=False)
class Course:
    """How a stream is learnt from.

    Attributes
    ----------
    engine : Engine
    plan : Plan
        Batch t follows the plan's step t, and the last step once there are no more.
    n_experts : int
    n_settle : int
        Steps of the plan.
    min_active, max_active : int
        Limits on active experts per row, on top of the plan's own floor.
    neighbours : Neighbours or None
        Lets evidence and opinions flow between neighbouring variables.
    """

    engine: Engine
    plan: Plan
    n_experts: int
    n_settle: int
    min_active: int
    max_active: int
    neighbours: Neighbours | None = None

    def problem(self, moments: ColumnMoments) -> Problem:
        """What the plan may know."""
        return Problem(
            moments.n_rows,
            len(moments.mean),
            self.n_experts,
            self.n_settle,
            self.min_active,
            self.max_active,
        )

    def rule(self, floor: int = 1, *, smoothed: bool = False) -> PursuitRule:
        """Activate what pays, within the limits."""
        fewest = min(self.max_active, max(self.min_active, floor))
        return PursuitRule(fewest, self.max_active, np.zeros(self.n_experts), smoothed=smoothed)


def begin(course: Course, family: Family, moments: ColumnMoments, seed: int) -> Stream:
    """A stream before its first batch, whose column moments are `moments`."""
    floors = course.plan.contenders(course.problem(moments))
    start = course.plan.start(family, moments, course.n_experts, np.random.default_rng(seed))
    return Stream(tuple(Runner(start, floor) for floor in floors))


def resume(course: Course, experts: Experts, moments: ColumnMoments) -> Stream:
    """A stream that goes on from experts learnt from rows with these column moments."""
    return Stream((Runner(experts, course.min_active),), moments, n_batches=course.n_settle)


def advance(course: Course, stream: Stream, rows: NDArray, moments: ColumnMoments) -> Stream:
    """Learn from one batch of a stream.

    Parameters
    ----------
    course : Course
    stream : Stream
    rows : ndarray of shape (n_rows, n_features)
    moments : ColumnMoments
        Of these rows.

    Returns
    -------
    stream : Stream
    """
    t = stream.n_batches
    seen = moments if stream.moments is None else stream.moments + moments
    runners = stream.runners
    if t >= _n_search(course.plan.steps(course.problem(seen), runners[0].floor)):
        runners = (_winner(course, runners, rows, seen),)
    runs = [_advance(course, runner, rows, seen, t) for runner in runners]
    # Whoever explains this batch best leads for now.
    runs.sort(key=lambda run: run[1].penalised, reverse=True)
    record = replace(runs[0][1], iteration=len(stream.history))
    return Stream(tuple(runner for runner, _ in runs), seen, (*stream.history, record), t + 1)


def _n_search(steps: list[Step]) -> int:
    """Steps that draw fresh rows, each as good as any other."""
    return sum(step.n_rows is not None for step in steps)


def _winner(
    course: Course, runners: tuple[Runner, ...], rows: NDArray, moments: ColumnMoments
) -> Runner:
    """The runner that best explains rows it has not learnt from."""
    if len(runners) == 1:
        return runners[0]

    def score(runner: Runner) -> float:
        codes = course.engine.pursue(rows, runner.experts, course.rule())
        return _penalised(course, runner.experts, codes.summary(course.n_experts), moments)

    return max(runners, key=score)


def _penalised(
    course: Course, experts: Experts, summary: CodeSummary, moments: ColumnMoments
) -> float:
    population = experts.family.population(moments)
    epsilon = course.plan.epsilon
    return float(penalised_objective(summary, experts, population, epsilon, moments.n_rows))


def _changes(before: Experts, after: Experts, moments: ColumnMoments) -> dict[str, float]:
    opinions = abs(after.family.mean(after.eta) - before.family.mean(before.eta)).mean()
    scale = float(moments.variance.mean()) ** 0.5 or 1.0
    expertise = abs(after.log2_expertise - before.log2_expertise).mean()
    return {"opinion_change": float(opinions / scale), "expertise_change": float(expertise)}


def _advance(
    course: Course, runner: Runner, rows: NDArray, moments: ColumnMoments, t: int
) -> tuple[Runner, IterationRecord]:
    steps = course.plan.steps(course.problem(moments), runner.floor)
    step = steps[min(t, len(steps) - 1)]
    gamma = (1 + max(0, t - _n_search(steps))) ** -DECAY
    experts = runner.experts
    rule = course.rule(step.min_active, smoothed=step.smoothed)
    sums = accumulate(rows, experts, rule, engine=course.engine)
    n_before = moments.n_rows - sums.codes.n_rows
    before = runner.averages or Averages.before(sums, experts, n_before)
    averages = before.moved(sums, gamma)
    evidence, responsibility = sums.gradient, averages.as_sums()
    if course.neighbours is not None:
        evidence = course.neighbours.evidence(evidence)
        population = experts.family.population(moments)
        responsibility = course.neighbours.opinions(responsibility, population, course.plan.epsilon)
    blended = replace(sums, gradient=evidence, responsibility=responsibility)
    after = update(
        experts, blended, moments, plan=course.plan, log2_bound=step.log2_bound, step=gamma
    )
    record = IterationRecord(
        iteration=t,
        n_rows=sums.codes.n_rows,
        joint=float(joint_objective(sums.codes)),
        penalised=_penalised(course, experts, sums.codes, moments),
        mean_active=float(sums.codes.usage.sum() / sums.codes.n_rows),
        **_changes(experts, after, moments),
        step=step,
    )
    return Runner(after, runner.floor, averages), record
