"""The objective, which the paper does not state: the description length of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, namespace
from dynpart.engines import CodeSummary, Experts
from dynpart.learning._task import Task
from dynpart.prior import ALWAYS, mean_log_prior

Array = NDArray[np.float64]

AS_SHORT = 0.01
"""Relative difference up to which descriptions count as equally short."""


def activation_probabilities(summary: CodeSummary) -> Array:
    """How often each expert is active, kept off 0 and 1 by half a row, shape (n_experts,).

    A single expert is active in every row, so its activation costs nothing.
    """
    if len(summary.usage) == 1:
        return ALWAYS + 0 * as_float64(summary.usage)
    return (as_float64(summary.usage) + 0.5) / (summary.n_rows + 1)


def joint_objective(summary: CodeSummary) -> float:
    """J / n: mean of log P(x | h) + log P(h) over rows, the prior learnt from the same codes."""
    p = activation_probabilities(summary)
    xp = namespace(p)
    idle = summary.n_rows - summary.usage
    bits = (summary.usage * xp.log(p) + idle * xp.log1p(-p)).sum()
    return (summary.log_likelihood + bits) / summary.n_rows


def penalised_objective(
    summary: CodeSummary, experts: Experts, population: Array, epsilon: float, n_rows: float
) -> float:
    """Mean log P(x | h) plus the log prior whose mode eq. 5 finds, spread over `n_rows` rows.

    The joint objective, with its independent bits, prefers coarse explanations even if fine
    ones are true.
    """
    prior = experts.family.population_log_density(experts.eta, population).sum()
    return summary.log_likelihood / summary.n_rows + epsilon * prior / n_rows


@dataclass(frozen=True)
class Description:
    """Description length of rows, by which searches and fits are compared.

    Attributes
    ----------
    joint : float
        Mean of the penalised conditional likelihood and of log P(h) of codes that are held back
        from the prior, in nats per row. A prior with dependences between experts can represent
        the truth, so the shortest description is the true one.
    penalised : float
        The first part of `joint`.
    log_scales : float
        Added to `joint`, they make it that of standardised columns, which has no unit.
    """

    joint: float
    penalised: float
    log_scales: float = 0.0

    @property
    def log_prior(self) -> float:
        """Mean log P(h), in nats per row."""
        return self.joint - self.penalised

    @classmethod
    def of(
        cls, codes: Any, experts: Experts, task: Task, epsilon: float, n_rows: float
    ) -> Description:
        """Description of some rows by these codes; the cost of experts is spread over `n_rows`."""
        n_experts = experts.n_experts
        prior = mean_log_prior(codes.active(n_experts), codes.weight)
        summary = codes.summary(n_experts)
        penalised = float(penalised_objective(summary, experts, task.population, epsilon, n_rows))
        of_experts = epsilon * n_experts * float(task.log_scale.sum()) / n_rows
        return cls(penalised + prior, penalised, task.log_scales + of_experts)


def shortest(descriptions: Sequence[Description]) -> int:
    """The shortest description; among equally short ones, that with the highest likelihood.

    A factor with two levels takes as many bits with two experts as with one expert and its absence.
    """
    best = max(descriptions, key=lambda one: one.joint)
    least = best.joint - AS_SHORT * abs(best.joint + best.log_scales)
    good = [i for i, one in enumerate(descriptions) if one.joint >= least]
    return max(good, key=lambda i: descriptions[i].penalised)
