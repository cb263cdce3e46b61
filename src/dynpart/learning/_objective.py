"""The objective the paper left unstated: how well, and at what cost, codes describe the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, namespace
from dynpart.engines import CodeSummary, Experts

Array = NDArray[np.float64]


def activation_probabilities(summary: CodeSummary) -> Array:
    """How often each expert is active, kept off 0 and 1 by half a row, shape (n_experts,)."""
    return (as_float64(summary.usage) + 0.5) / (summary.n_rows + 1)


def log_prior(active: NDArray, probabilities: Array) -> Array:
    """Log P(h) of independent bits, for codes of shape (n_rows, n_experts)."""
    xp = namespace(probabilities)
    log_off = xp.log1p(-probabilities)
    return as_float64(active) @ (xp.log(probabilities) - log_off) + log_off.sum()


def joint_objective(summary: CodeSummary) -> float:
    """J / n: mean of log P(x | h) + log P(h) over rows, the prior learnt from the same codes."""
    p = activation_probabilities(summary)
    xp = namespace(p)
    idle = summary.n_rows - summary.usage
    bits = (summary.usage * xp.log(p) + idle * xp.log1p(-p)).sum()
    return (summary.log_likelihood + bits) / summary.n_rows


def penalised_objective(
    summary: CodeSummary, experts: Experts, population: Array, epsilon: float, n_rows: int
) -> float:
    """Mean log P(x | h) plus the log prior whose mode eq. 5 finds, spread over `n_rows` rows.

    The guide among restarts: the joint objective, with its independent bits, prefers coarse
    explanations even where fine ones are true.
    """
    prior = experts.family.population_log_density(experts.eta, population).sum()
    return summary.log_likelihood / summary.n_rows + epsilon * prior / n_rows
