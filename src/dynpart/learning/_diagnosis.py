"""Diagnosis: signs that a fit went wrong, with advice."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dynpart.arrays import as_float64
from dynpart.engines import CodeSummary, Experts
from dynpart.learning._learner import IterationRecord
from dynpart.learning._restarts import COUNTED_ROWS
from dynpart.learning._unseen import Unseen

SATURATED = 0.5
"""Share of levels of expertise at their upper bound that causes a warning."""
DEAD = 0.25
"""Share of idle experts that causes a warning."""
CLEARLY = 2.0
"""Standard errors by which independent columns must be better to cause a warning."""


class Remedies(NamedTuple):
    """How users write the parameters that a complaint advises to change: in Python or as options.

    Attributes
    ----------
    fewer_experts, several_fits, more_iterations, parts_in_a_row : str
    """

    fewer_experts: str = "a smaller n_experts"
    several_fits: str = "n_init=5"
    more_iterations: str = "more iterations"
    parts_in_a_row: str = "learning=Annealed(min_active=...)"


def complaints(
    summary: CodeSummary,
    experts: Experts,
    history: tuple[IterationRecord, ...],
    max_active: int,
    unseen: Unseen | None = None,
    *,
    several_trials: bool = False,
    remedies: Remedies | None = None,
) -> list[str]:
    """Signs of a fit that went wrong, each with advice; an empty list if there is none.

    Parameters
    ----------
    summary : CodeSummary
        Of training rows as they are encoded: all of them, or 20,000 if there are more.
    experts : Experts
    history : tuple of IterationRecord
    max_active : int
    unseen : Unseen, default=None
        Estimated scores of unseen rows, if known.
    several_trials : bool, default=False
        Whether searches with several active experts were tried, and this one had the shortest
        description: then rows with one expert each are no failure.
    remedies : Remedies, default=None
        By default those in Python.

    Returns
    -------
    list of str
    """
    found = []
    remedies = remedies or Remedies()
    n_experts = experts.n_experts
    if summary.n_rows >= 2 * n_experts:
        alone = summary.usage.sum() == summary.n_rows
        if alone and max_active > 1 and n_experts > 1 and not several_trials:
            found.append(
                "learning collapsed to a clustering, one active expert in every row: try "
                f"{remedies.several_fits}, {remedies.more_iterations}, or "
                f"{remedies.parts_in_a_row} with the number of parts that you expect in a row"
            )
        dead = int(np.count_nonzero(summary.usage == 0))
        if dead > DEAD * n_experts:
            found.append(
                f"{dead} of {n_experts} experts are never used: try {remedies.fewer_experts}, or "
                f"{remedies.several_fits} for another start"
            )
    if n_experts > summary.n_rows and summary.n_rows < COUNTED_ROWS:
        found.append(
            f"there are more experts ({n_experts}) than rows ({round(summary.n_rows)}), so experts "
            f"memorise single rows: try {remedies.fewer_experts}, or more rows"
        )
    elif unseen is not None and unseen.experts < unseen.columns - CLEARLY * unseen.error:
        found.append(
            "independent columns describe unseen rows better than these experts, by an estimate "
            f"from training rows left out: {_bits(unseen.columns)} bits per row against "
            f"{_bits(unseen.experts)}. Either the columns are nearly independent, or "
            f"there are too many experts for so few rows: try {remedies.fewer_experts} or more "
            "rows, and score on rows held back"
        )
    bound = history[-1].step.log2_bound if history else np.inf
    if np.isfinite(bound) and n_experts > 2:
        on_top = float(as_float64(experts.log2_expertise > 0.99 * bound).mean())
        if on_top > SATURATED:
            found.append(
                f"{on_top:.0%} of the levels of expertise are at their upper bound, so the owners "
                "of variables are arbitrary: try more rows, fewer experts or fewer iterations"
            )
    return found


def _bits(log_likelihood: float) -> str:
    """Minus a log-likelihood in nats, as bits."""
    return f"{-log_likelihood / math.log(2):.1f}"
