"""State of a stream: sums of a batch, running averages, candidates. Knows arrays, no rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, like, namespace
from dynpart.deprecated import renamed
from dynpart.engines import CodeSummary, Experts, GradientSums, ResponsibilitySums
from dynpart.families import ColumnMoments
from dynpart.learning import IterationRecord, Memory, break_ties


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of some rows that an update needs; parts combine with ``+``.

    Attributes
    ----------
    codes : CodeSummary
        Number of rows, use of experts, log-likelihood.
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


@dataclass(frozen=True, eq=False)
class Averages:
    """Running averages per row of activations and responsibilities over recent batches.

    Attributes
    ----------
    n_rows : float
        Effective number of rows of the averages.
    usage : ndarray of shape (n_experts,)
        Share of rows in which each expert is active.
    sums : ResponsibilitySums
        Each divided by the number of rows.
    """

    n_rows: float
    usage: NDArray[np.float64]
    sums: ResponsibilitySums

    def memory(self, n_rows: float, size: float) -> Memory:
        """A step of a `size` from these averages towards those of a batch of `n_rows` rows."""
        worth = (1 - size) * self.n_rows + n_rows
        return Memory(kept=1 - size, own=size / n_rows, worth=worth)

    def moved(self, sums: ResponsibilitySums, codes: CodeSummary, memory: Memory) -> Averages:
        """The averages after a batch with `codes` and responsibility `sums`, by a step `memory`."""
        usage = memory.kept * self.usage + memory.own * as_float64(codes.usage)
        return Averages(memory.worth, usage, sums)

    def like(self, reference: Any) -> Averages:
        """The same averages as the type of arrays that `reference` is."""
        sums = ResponsibilitySums(like(self.sums.array, reference))
        return Averages(self.n_rows, like(self.usage, reference), sums)

    @classmethod
    def none(cls, experts: Experts) -> Averages:
        """The averages of `experts` before the first batch: zeros."""
        nothing = namespace(experts.eta).zeros_like(experts.log2_expertise)
        stacked = namespace(nothing).stack([nothing] * (1 + len(experts.eta)))
        return cls(0.0, nothing[:, 0], ResponsibilitySums(stacked))

    @classmethod
    def behind(
        cls, experts: Experts, sums: ResponsibilitySums, codes: CodeSummary, n_rows: float
    ) -> Averages:
        """Averages consistent with `experts`: `n_rows` rows like those of `sums` and `codes`.

        Half of the weight is spread evenly, so that experts that the batch does not use are kept.
        """
        weight = 0.5 * sums.weight / codes.n_rows + 0.5 / experts.n_experts
        stacked = namespace(weight).stack([weight, *(weight * experts.eta)])
        return cls(n_rows, codes.usage / codes.n_rows, ResponsibilitySums(stacked))


@renamed(floor="min_active")
@dataclass(frozen=True, eq=False)
class Candidate:
    """Experts learnt with one of the plan's minimum numbers of active experts.

    Attributes
    ----------
    experts : Experts
        Its experts so far.
    min_active : int
        The minimum with which it searches.
    averages : Averages
        Running averages over the batches so far.
    """

    experts: Experts
    min_active: int
    averages: Averages

    def like(self, reference: Any) -> Candidate:
        """The same candidate as the type of arrays that `reference` is."""
        return Candidate(
            self.experts.like(reference), self.min_active, self.averages.like(reference)
        )


@renamed(runners="candidates")
@dataclass(frozen=True, eq=False)
class Stream:
    """State of learning from a stream of batches.

    Attributes
    ----------
    candidates : tuple of Candidate
        The candidates, the leader first; after the search only the best one.
    moments : ColumnMoments or None
        Column moments of all rows so far; None before the first batch.
    history : tuple of IterationRecord
        One record per batch, about the leader.
    n_batches : int
        Number of batches so far.
    """

    candidates: tuple[Candidate, ...]
    moments: ColumnMoments | None = None
    history: tuple[IterationRecord, ...] = ()
    n_batches: int = 0

    def like(self, reference: Any) -> Stream:
        """The same stream as the type of arrays that `reference` is, on its device."""
        moments = None if self.moments is None else self.moments.like(reference)
        candidates = tuple(each.like(reference) for each in self.candidates)
        return replace(self, candidates=candidates, moments=moments)

    @property
    def leader(self) -> Candidate:
        """The best candidate; during the search the one that explained the last batch best."""
        return self.candidates[0]

    @property
    def experts(self) -> Experts:
        """The leader's experts, ready to encode rows."""
        return break_ties(self.leader.experts)

    @property
    def activation_probabilities(self) -> NDArray[np.float64]:
        """Recent activation frequencies of the leader's experts, kept off 0 and 1 by half a row."""
        averages = self.leader.averages
        return (averages.n_rows * averages.usage + 0.5) / (averages.n_rows + 1)
