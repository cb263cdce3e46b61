"""Densities of rows under experts and the prior over their codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import to_numpy
from dynpart.engines import Engine, Experts, PursuitRule, row_log_base
from dynpart.neighbourhood import neighbourhood
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue

Array = NDArray[np.float64]


def log_densities(
    engine: Engine, experts: Experts, prior: CodePrior, rows: Any, rule: PursuitRule
) -> Array:
    """Log P(x) of rows in memory, summed over the neighbours of their codes, shape (n_rows,)."""
    active = to_numpy(pursue(engine, rows, experts, rule).active(experts.n_experts))
    rows, here = rows.to_numpy(), experts.like(np.empty(0))
    return neighbourhood(rows, active, here, prior).log_density + row_log_base(rows, here.family)
