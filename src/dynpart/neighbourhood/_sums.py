"""The neighbourhood of codes: sums over codes that a few changes lead to.

A change activates an expert, drops one, or exchanges one for another. Other codes usually have a
much lower likelihood, so the sum over neighbours, and over neighbours of the best of them, is most
of the sum over all codes. With few experts, the sum is over all codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.ahead import Kernel
from dynpart.arrays import row_blocks
from dynpart.engines import Experts
from dynpart.engines.reference import expert_log_densities
from dynpart.enumeration import EveryCode, all_codes
from dynpart.prior import CodePrior
from dynpart.rows import Rows

Array = NDArray[np.float64]

MOST_TURNS = 16
"""Maximum number of codes of a row whose neighbours are added up, unless said otherwise."""


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Sums over the codes near those of some rows.

    Attributes
    ----------
    log_density : ndarray of shape (n_rows,)
        Log of the sum of P(x | h) P(h) over codes near that of a row, without b(x): a lower bound
        of log P(x).
    activation : ndarray of shape (n_rows, n_experts)
        Share of that sum in which each expert is active.
    """

    log_density: Array
    activation: Array


def neighbourhood(
    rows: Rows,
    active: NDArray[np.bool_],
    experts: Experts,
    prior: CodePrior,
    most_turns: int = MOST_TURNS,
) -> Neighbourhood:
    """Sum over the neighbourhood of each row's code.

    First the code and its neighbours are added up. Then it is the turn of the best neighbour, whose
    neighbours are added up, and so on, always with the best code that had no turn yet. No code is
    counted twice. It ends early if a turn adds hardly anything.

    Parameters
    ----------
    rows : Rows
    active : ndarray of shape (n_rows, n_experts), bool
        Codes, none of which is empty.
    experts : Experts
        All in NumPy arrays.
    prior : CodePrior
    most_turns : int, default=16
        Maximum number of turns. With 1, the sum is over the codes that differ by one change.
    """
    # Imported here, because reading a model must not import Numba.
    from dynpart.neighbourhood._kernels import sum_neighbours

    found = Neighbourhood(np.empty(len(rows)), np.empty(active.shape))

    def of_part(part: slice, *arguments: Any) -> None:
        sum_neighbours(*arguments, most_turns, found.log_density[part], found.activation[part])

    by_parts(rows, active, experts, prior, of_part)
    return found


def expert_losses(
    rows: Rows, active: NDArray[np.bool_], experts: Experts, prior: CodePrior, fewest: int = 1
) -> Array:
    """Nats of log P(x | h) P(h) that each row loses without each expert, (n_rows, n_experts).

    A row whose code has the expert gets the best code without it that differs by one change.
    Without the expert, its activation has no cost, so the loss is negative in rows that do not use
    it.

    Parameters
    ----------
    rows : Rows
    active : ndarray of shape (n_rows, n_experts), bool
        Codes, none of which is empty.
    experts : Experts
        At least two, all in NumPy arrays.
    prior : CodePrior
    fewest : int, default=1
        Minimum number of active experts.
    """
    from dynpart.neighbourhood._kernels import lose_experts

    losses = np.empty(active.shape)

    def of_part(part: slice, *arguments: Any) -> None:
        lose_experts(*arguments, max(1, fewest), losses[part])

    by_parts(rows, active, experts, prior, of_part)
    return losses


def by_parts(
    rows: Rows,
    active: NDArray[np.bool_],
    experts: Experts,
    prior: CodePrior,
    of_part: Callable[..., None],
) -> None:
    """Call `of_part` with a slice of the rows and the arguments of a kernel for them."""
    from dynpart.neighbourhood._kernels import without_edges
    from dynpart.threads import Threads

    if not active.any(axis=1).all():
        raise ValueError("a code has no active expert: neighbours of empty codes are not defined")
    ranks, tables = np.ascontiguousarray(experts.ranks), (*prior.by_expert, without_edges(prior))
    threads = Threads()
    size = experts.log2_expertise.size
    for block in row_blocks(len(rows), 4 * size):
        density, begin = expert_log_densities(rows[block], experts), block.start

        def of_rows(lo: int, hi: int) -> None:
            part = slice(begin + lo, begin + hi)  # noqa: B023
            of_part(part, density[lo:hi], ranks, active[part], tables)  # noqa: B023

        threads.map_rows(of_rows, len(density), size)


def neighbourhood_kernels() -> list[Kernel]:
    """The kernel that `neighbourhood` calls, for :func:`dynpart.ahead.expecting`."""
    from dynpart.compiled import kernel_for
    from dynpart.neighbourhood._kernels import example

    return [kernel_for(*example(CodePrior.independent([0.5, 0.5])))]


def all_summed(rows: Rows, experts: Experts, prior: CodePrior) -> Neighbourhood:
    """The sum over all codes, which must be few: log P(x) and P(h_k = 1 | x) are exact.

    Parameters
    ----------
    rows : Rows
    experts : Experts
        All in NumPy arrays, without amplitudes.
    prior : CodePrior
    """
    every = EveryCode.of(experts, all_codes(experts.n_experts))
    log_density, activation = np.empty(len(rows)), np.empty((len(rows), experts.n_experts))

    def of_block(block: slice) -> None:
        log_density[block], posterior = every.summed(rows[block], experts, prior)
        activation[block] = posterior @ every.codes

    every.by_blocks(of_block, len(rows))
    return Neighbourhood(log_density, np.clip(activation, 0.0, 1.0))
