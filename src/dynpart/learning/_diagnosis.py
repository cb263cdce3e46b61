"""Diagnosis: what can be seen to have gone wrong in a fit, with advice."""

from __future__ import annotations

import numpy as np

from dynpart.arrays import as_float64
from dynpart.engines import CodeSummary, Experts
from dynpart.learning._learner import IterationRecord

SATURATED = 0.5
"""Share of levels of expertise at their upper bound that is too much."""
DEAD = 0.1
"""Share of experts without use that is worth a word."""


def complaints(
    summary: CodeSummary, experts: Experts, history: tuple[IterationRecord, ...], max_active: int
) -> list[str]:
    """Signs of a collapsed fit, each with advice; an empty list if there is none.

    Parameters
    ----------
    summary : CodeSummary
        Of all training rows, as they are encoded.
    experts : Experts
    history : tuple of IterationRecord
    max_active : int

    Returns
    -------
    list of str
    """
    found = []
    n_experts = experts.n_experts
    if summary.n_rows >= 2 * n_experts:
        if max_active > 1 and n_experts > 1 and summary.usage.sum() == summary.n_rows:
            found.append(
                "learning collapsed to a clustering, one active expert in every row: try n_init=5, "
                "more iterations, or learning=Annealed(floor=...) with the number of parts you "
                "expect in a row"
            )
        dead = int(np.count_nonzero(summary.usage == 0))
        if dead > DEAD * n_experts:
            found.append(
                f"{dead} of {n_experts} experts are never used: try a smaller n_experts, or "
                "n_init=5 for another start"
            )
    bound = history[-1].step.log2_bound if history else np.inf
    if np.isfinite(bound) and n_experts > 2:
        on_top = float(as_float64(experts.log2_expertise > 0.99 * bound).mean())
        if on_top > SATURATED:
            found.append(
                f"{on_top:.0%} of the levels of expertise sit at their upper bound, so who owns a "
                "variable is chance: try more rows, fewer experts or fewer iterations"
            )
    return found
