"""Codes drawn from their posterior by Gibbs sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.engines import Experts
from dynpart.neighbourhood._sums import by_parts
from dynpart.prior import CodePrior
from dynpart.rows import Rows


def redrawn(
    rows: Rows,
    active: NDArray[np.bool_],
    experts: Experts,
    prior: CodePrior,
    limits: tuple[int, int],
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """The next codes of the chains of rows: one sweep of Gibbs sampling.

    If codes are draws from P(h | x), so are the next ones. Other codes come closer to it.

    Parameters
    ----------
    rows : Rows
    active : ndarray of shape (n_rows, n_experts), bool
        Codes within the limits, none of which is empty.
    experts : Experts
        All in NumPy arrays.
    prior : CodePrior
    limits : tuple of int
        Fewest and most active experts.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_rows, n_experts), bool
    """
    from dynpart.neighbourhood._gibbs import EXCHANGES, resample

    drawn, (fewest, most) = active.copy(), limits
    uniform = rng.random((len(active), 1 + 2 * EXCHANGES + experts.n_experts))

    def of_part(part: slice, density: Any, ranks: Any, active: Any, tables: tuple) -> None:
        resample(density, ranks, active, tables, max(1, fewest), most, uniform[part])

    by_parts(rows, drawn, experts, prior, of_part)
    return drawn
