"""Plans: what each iteration of learning does, and how evidence moves expertise.

A plan knows numbers of rows and experts, never a row. The learner asks it for a start, for the
steps of the run and for each change of expertise; replacing the plan replaces the schedule whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dynpart.engines import Experts, GradientSums
from dynpart.families import ColumnMoments, Family

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """What one iteration does.

    Attributes
    ----------
    n_rows : int or None
        Rows drawn afresh, with replacement, for this iteration; None for all rows once.
    min_active : int
        Floor on the number of active experts.
    smoothed : bool
        Whether the pursuit scores codes by the smoothed composition (eq. 4).
    log2_bound : float
        Levels of expertise are kept within plus and minus this.
    n_updates : int
        How often expertise and experts are updated with the same codes.
    """

    n_rows: int | None
    min_active: int
    smoothed: bool
    log2_bound: float
    n_updates: int


class Plan(Protocol):
    """How a model is learnt: pass an instance as ``learning=`` to replace the schedule."""

    epsilon: float

    def start(
        self, family: Family, moments: ColumnMoments, n_experts: int, rng: np.random.Generator
    ) -> Experts:
        """Experts to begin with."""

    def steps(self, n_iter: int, n_rows: int, n_experts: int, max_active: int) -> list[Step]:
        """What each of `n_iter` iterations does."""

    def expertise_change(self, evidence: GradientSums, n_rows: int) -> Array:
        """Change of log2 expertise, shape (n_experts, n_features)."""


def random_start(
    family: Family,
    moments: ColumnMoments,
    n_experts: int,
    rng: np.random.Generator,
    *,
    spread: float,
) -> Experts:
    """Opinions scattered around the data's average, expertise random within a factor of two."""
    shape = (n_experts, len(moments.mean))
    deviation = np.sqrt(moments.variance) * rng.uniform(-1, 1, shape)
    mean = moments.mean + spread * deviation
    eta = family.from_moments(mean, np.broadcast_to(moments.variance, shape))
    return Experts(family, eta, rng.uniform(-1, 1, shape))


@dataclass(frozen=True)
class Paper:
    """The paper's text, literally (section 2.2).

    Left open by the paper and settled here: templates start at the data's average plus up to one
    standard deviation of noise; expertise starts random within a factor of two of one, since
    equal levels would leave every comparison to the tie rule for ever; a gradient whose mean over
    rows is below `still` counts as "very close to 0".
    """

    factor: float = 2.0
    epsilon: float = 1.0
    still: float = 1e-6
    name: ClassVar[str] = "paper"

    def start(
        self, family: Family, moments: ColumnMoments, n_experts: int, rng: np.random.Generator
    ) -> Experts:
        return random_start(family, moments, n_experts, rng, spread=1.0)

    def steps(self, n_iter: int, n_rows: int, n_experts: int, max_active: int) -> list[Step]:
        return [Step(None, 1, False, math.inf, 1)] * n_iter

    def expertise_change(self, evidence: GradientSums, n_rows: int) -> Array:
        moves = np.abs(evidence.first) > self.still * n_rows
        return np.where(moves, np.sign(evidence.first), 0.0) * math.log2(self.factor)


@dataclass(frozen=True)
class Annealed:
    """The default: start coarse, crowded and noisy; end sharp, sparse and on all rows.

    Parameters
    ----------
    factor : float, default=2.0
        Largest change of expertise in one update, the paper's C.
    certainty : float, default=2.0
        Evidence, in standard errors of the gradient, that earns the whole factor.
    epsilon : float, default=0.5
        Weight of the data's average in the expert update (eq. 5).
    """

    factor: float = 2.0
    certainty: float = 2.0
    epsilon: float = 0.5
    floor_share: float = 0.7
    name: ClassVar[str] = "annealed"

    def start(
        self, family: Family, moments: ColumnMoments, n_experts: int, rng: np.random.Generator
    ) -> Experts:
        return random_start(family, moments, n_experts, rng, spread=0.5)

    def steps(self, n_iter: int, n_rows: int, n_experts: int, max_active: int) -> list[Step]:
        first_floor = min(math.ceil(self.floor_share * n_experts), 12, max_active)
        batch = min(n_rows, max(1000, 30 * n_experts))

        def step(t: int) -> Step:
            progress = t / max(1, n_iter - 1)
            early = t < 0.7 * n_iter
            floor = 1 + (first_floor - 1) * max(0.0, 1 - progress / 0.9)
            return Step(
                n_rows=batch if early else None,
                min_active=round(floor),
                smoothed=early,
                log2_bound=1 + progress * math.log2(4 * n_experts),
                n_updates=2,
            )

        return [step(t) for t in range(n_iter)]

    def expertise_change(self, evidence: GradientSums, n_rows: int) -> Array:
        # Evidence in units of its own standard error: noise moves little, whatever its scale.
        spread = np.sqrt(evidence.second)
        z = np.divide(evidence.first, spread, out=np.zeros_like(spread), where=spread > 0)
        return np.clip(z / self.certainty, -1, 1) * math.log2(self.factor)
