"""Pursuits: how the search for a row's code begins, how often, and who guides its refinement.

Engines have the operations; what they are asked to do is decided here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dynpart.arrays import in_order
from dynpart.engines import Engine, Experts, PursuitRule

LEFT_TO_BACKGROUND = 0.1
"""Share of the variables that a background expert owns beside a random full code."""
FULL_CODE = 12
"""Experts that make a code full, if no other limit is set: these, or a third of all if less."""
UNTIL_SETTLED = 100
"""Rounds of exchanges that are more than any code needs before it settles."""
STARTS_TERMS = 1 << 15
"""Terms (starts x experts x variables) up to which a row is pursued from several experts."""


def affordable_starts(n_experts: int, n_features: int) -> int:
    """Pursuits of a row that together cost no more than one of a row of many variables.

    Small tables are where a greedy search is misled most often, and where trying every expert as
    the first one costs nothing that anybody would notice.
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
    """Codes of rows in an engine's hands, refined with the help of a background expert.

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
