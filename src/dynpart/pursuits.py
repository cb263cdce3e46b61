"""Pursuits: starts and number of searches for a row's code, and the background expert.

Engines implement the operations; this module decides which ones to run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dynpart.arrays import in_order
from dynpart.engines import Engine, Experts, PursuitRule

LEFT_TO_BACKGROUND = 0.1
"""Share of the variables that a background expert owns against a random full code."""
FULL_CODE = 12
"""Number of experts of a full code without another limit: this, or a third of all if less."""
UNTIL_SETTLED = 100
"""Upper bound on the rounds of exchanges that a code needs to settle."""
STARTS_TERMS = 1 << 15
"""Largest number of terms (starts x experts x variables) for several starts per row."""


def affordable_starts(n_experts: int, n_features: int) -> int:
    """Number of starts that together cost no more than one on a row of many variables.

    On small tables a greedy search fails most often, and trying every expert as the first one costs
    little.
    """
    return max(1, min(n_experts, STARTS_TERMS // (n_experts * n_features)))


def background_expert(experts: Experts, max_active: int) -> Experts:
    """The expert that guides the refinement of codes of at most `max_active` experts.

    It holds the average opinion of all experts. Its expertise for a variable is that of the expert
    in a fixed place of the order, set so that beside a random full code it owns about
    `LEFT_TO_BACKGROUND` of the variables. It is never part of a code.
    """
    family, n_experts = experts.family, experts.n_experts
    full = max(1, min(max_active, FULL_CODE, n_experts / 3))
    n_above = max(1, round(n_experts * (1 - LEFT_TO_BACKGROUND ** (1 / full))))
    opinion = family.average(experts.eta)
    # Ties go to the lowest index, so it comes right behind the expert whose level this is.
    level = in_order(experts.log2_expertise)[n_experts - n_above][None]
    return replace(experts, eta=opinion[:, None], log2_expertise=level)


def pursue(engine: Engine, rows: Any, experts: Experts, rule: PursuitRule) -> Any:
    """Codes of rows held by an engine, refined with the help of a background expert.

    Parameters
    ----------
    engine : Engine
    rows : Rows, or blocks of them
    experts : Experts
    rule : PursuitRule

    Returns
    -------
    Codes
        As the engine makes them.
    """
    background = background_expert(experts, rule.max_active) if rule.n_swaps else None
    return engine.pursue(rows, experts, rule, background)
