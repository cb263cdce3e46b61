"""The log of learning: a record per iteration, and the state of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dynpart.arrays import is_tensor, namespace, to_numpy
from dynpart.deprecated import renamed
from dynpart.engines import CodeSummary, Experts
from dynpart.families import ColumnMoments
from dynpart.learning._objective import joint_objective, penalised_objective
from dynpart.learning._plans import Step

N_MEASURES = 5
"""Numbers of a record that are computed from arrays."""


@renamed(doubt="shrinkage")
@dataclass(frozen=True)
class IterationRecord:
    """Record of one iteration of learning.

    Attributes
    ----------
    iteration : int
        Number of the iteration, from 0.
    n_rows : int
        Rows used in this iteration.
    joint, penalised : float
        Mean log P(x, h), and mean log P(x | h) with the epsilon prior, of the codes found under
        the experts before the iteration, in nats per row.
    mean_active : float
        Mean number of active experts per row.
    opinion_change, expertise_change : float
        Mean absolute change of the experts' means, in standard deviations of the data, and of
        log2 expertise.
    step : Step
        The step of the plan.
    shrinkage : float
        Extra shrinkage of the opinions, beyond that of every last step; see `Family.shrunk`.
    """

    iteration: int
    n_rows: int
    joint: float
    penalised: float
    mean_active: float
    opinion_change: float
    expertise_change: float
    step: Step
    shrinkage: float = 0.0


@dataclass(frozen=True, eq=False)
class UnreadRecord:
    """A record whose numbers are not yet computed, because the GPU is still at work.

    Attributes
    ----------
    iteration : int
    step : Step
    before, after : Experts
    codes : CodeSummary
        Of all batches.
    moments : ColumnMoments
    epsilon, shrinkage : float
    """

    iteration: int
    step: Step
    before: Experts
    after: Experts
    codes: CodeSummary
    moments: ColumnMoments
    epsilon: float
    shrinkage: float

    def measures(self) -> list[Any]:
        """Numbers of the record, from `joint` to `expertise_change`, on the experts' device."""
        before, after, codes, moments = self.before, self.after, self.codes, self.moments
        family = before.family
        population = family.population(moments)
        return [
            joint_objective(codes),
            penalised_objective(codes, before, population, self.epsilon, moments.weight),
            codes.usage.sum() / codes.n_rows,
            family.change(before.eta, after.eta, moments),
            abs(after.log2_expertise - before.log2_expertise).mean(),
        ]

    def record(self, measures: list[float]) -> IterationRecord:
        """The record with these numbers."""
        joint, penalised, mean_active, opinion_change, expertise_change = measures
        return IterationRecord(
            self.iteration,
            max(1, round(self.codes.n_rows)),
            joint,
            penalised,
            mean_active,
            opinion_change,
            expertise_change,
            self.step,
            self.shrinkage,
        )


@dataclass(frozen=True, eq=False)
class LearnerState:
    """State of a run of the learner, from which it can continue bitwise.

    Attributes
    ----------
    experts : Experts
    history : tuple of IterationRecord or UnreadRecord
        One record per finished iteration.
    """

    experts: Experts
    history: tuple[IterationRecord | UnreadRecord, ...] = ()

    def records(self) -> tuple[IterationRecord, ...]:
        """The history with all its numbers, which are copied from a GPU at once."""
        unread = [record for record in self.history if isinstance(record, UnreadRecord)]
        measures = [number for record in unread for number in record.measures()]
        if measures and is_tensor(measures[0]):
            measures = to_numpy(namespace(measures[0]).stack(measures)).tolist()
        numbers = iter(measures)
        return tuple(
            record
            if isinstance(record, IterationRecord)
            else record.record([float(next(numbers)) for _ in range(N_MEASURES)])
            for record in self.history
        )

    def read(self) -> LearnerState:
        """The same state, with all records read."""
        return replace(self, history=self.records())
