"""The default plan with one thing changed at a time: rows for benchmarks/quality.py --ablations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dynpart.arrays import namespace
from dynpart.engines import GradientSums
from dynpart.learning import Annealed, Plan, Problem, Step


@dataclass(frozen=True)
class HardFromTheStart(Annealed):
    """No smoothed phase."""

    def steps(self, problem: Problem, floor: int) -> list[Step]:
        return [replace(step, smoothed=False) for step in super().steps(problem, floor)]


@dataclass(frozen=True)
class Unbounded(Annealed):
    """No bound on expertise."""

    def steps(self, problem: Problem, floor: int) -> list[Step]:
        return [replace(step, log2_bound=math.inf) for step in super().steps(problem, floor)]


@dataclass(frozen=True)
class AllRowsInSearch(Annealed):
    """The search looks at all rows in every iteration."""

    def steps(self, problem: Problem, floor: int) -> list[Step]:
        steps = super().steps(problem, floor)
        return [replace(step, n_rows=None, n_batches=1) for step in steps]


@dataclass(frozen=True)
class FullSteps(Annealed):
    """Steps of expertise do not shrink in the polish."""

    def steps(self, problem: Problem, floor: int) -> list[Step]:
        return [replace(step, size=1.0) for step in super().steps(problem, floor)]


@dataclass(frozen=True)
class Forgetful(Annealed):
    """Batches of an iteration know nothing of each other."""

    def steps(self, problem: Problem, floor: int) -> list[Step]:
        return [replace(step, memory=0.0) for step in super().steps(problem, floor)]


@dataclass(frozen=True)
class Sure(Annealed):
    """Opinions stay as sure as the last iteration leaves them."""

    def steps(self, problem: Problem, floor: int) -> list[Step]:
        return [replace(step, doubt=False) for step in super().steps(problem, floor)]


@dataclass(frozen=True)
class Soft(Annealed):
    """The last averages share out rows like all others."""

    def steps(self, problem: Problem, floor: int) -> list[Step]:
        return [replace(step, sharpness=1.0) for step in super().steps(problem, floor)]


@dataclass(frozen=True)
class SignOnly(Annealed):
    """The paper's sign of the gradient instead of its standard score."""

    def expertise_change(self, evidence: GradientSums, n_rows: int) -> np.ndarray:
        return namespace(evidence.first).sign(evidence.first) * math.log2(self.factor)


@dataclass(frozen=True)
class OneSearch(Annealed):
    """No race: the floor is a third of the experts, at most twelve."""

    def contenders(self, problem: Problem) -> list[int]:
        return Annealed(floor=min(12, math.ceil(problem.n_experts / 3))).contenders(problem)


ABLATIONS: dict[str, Plan] = {
    "no race": OneSearch(),
    "no floor": Annealed(floor=1),
    "no smoothed phase": HardFromTheStart(),
    "no bound": Unbounded(),
    "all rows in the search": AllRowsInSearch(),
    "steps do not shrink": FullSteps(),
    "no memory": Forgetful(),
    "greedy polish": Annealed(n_swaps=0),
    "soft averages": Soft(),
    "no doubt": Sure(),
    "sign instead of score": SignOnly(),
    "epsilon 0.5": Annealed(epsilon=0.5),
}
