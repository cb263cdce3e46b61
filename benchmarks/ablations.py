"""The default plan with one thing changed at a time: rows for benchmarks/quality.py --ablations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynpart.arrays import namespace
from dynpart.engines import GradientSums
from dynpart.learning import Annealed, Plan, Sizes, Step
from dynpart.pursuits import FULL_CODE


@dataclass(frozen=True)
class EveryStep(Annealed):
    """The default plan with the same attributes changed in every step."""

    changed: Mapping[str, Any] = field(default_factory=dict)

    def steps(self, task: Sizes, min_active: int) -> list[Step]:
        return [replace(step, **self.changed) for step in super().steps(task, min_active)]


@dataclass(frozen=True)
class SignOnly(Annealed):
    """The paper's sign of the gradient instead of its standard score."""

    def expertise_change(self, evidence: GradientSums, n_rows: int) -> np.ndarray:
        return namespace(evidence.first).sign(evidence.first) * math.log2(self.factor)


@dataclass(frozen=True)
class OneSearch(Annealed):
    """No trials: at least a third of the experts are active, at most twelve."""

    def candidates(self, task: Sizes) -> list[int]:
        return Annealed(min_active=min(FULL_CODE, math.ceil(task.n_experts / 3))).candidates(task)


ABLATIONS: dict[str, Plan] = {
    "no trials": OneSearch(),
    "no minimum": Annealed(min_active=1),
    "no smoothed phase": EveryStep(changed={"smoothed": False}),
    "no bound": EveryStep(changed={"log2_bound": math.inf}),
    "all rows in the search": EveryStep(changed={"n_rows": None, "n_batches": 1}),
    "steps do not shrink": EveryStep(changed={"size": 1.0}),
    "no memory": EveryStep(changed={"memory": 0.0}),
    "greedy refinement": Annealed(n_swaps=0),
    "soft averages": EveryStep(changed={"sharpness": 1.0}),
    "no shrinkage": EveryStep(changed={"shrink": False}),
    "sign instead of score": SignOnly(),
    "epsilon 0.5": Annealed(epsilon=0.5),
}
