"""Enumeration of all codes of few experts.

Such a model is a mixture with one component per code, so log P(x) and posteriors are exact.
Components share experts: a matrix of zeros and ones has the owner of each variable in each
component, and sums over codes are products with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_observed, row_blocks
from dynpart.composition import owners
from dynpart.engines import Experts
from dynpart.engines.reference import expert_log_densities
from dynpart.prior import CodePrior
from dynpart.rows import Rows

Array = NDArray[np.float64]

MOST_CODES = 1023
"""Maximum number of codes to enumerate: those of ten experts."""
MOST_ENTRIES = 1 << 22
"""Maximum number of entries (codes x experts x variables) of the matrix of owners."""


def n_codes(n_experts: int, fewest: int = 1, most: int | None = None) -> int:
    """Number of codes with `fewest` to `most` active experts.

    Examples
    --------
    >>> from dynpart.enumeration import n_codes
    >>> n_codes(10), n_codes(10, most=1)
    (1023, 10)
    """
    most = n_experts if most is None else most
    return sum(math.comb(n_experts, size) for size in range(max(1, fewest), most + 1))


def are_few(shape: tuple[int, int], fewest: int = 1, most: int | None = None) -> bool:
    """Whether all codes within these limits can be enumerated.

    Parameters
    ----------
    shape : tuple of int
        Numbers of experts and of variables.
    fewest, most : int
        Limits on active experts.
    """
    if shape[0] > MOST_CODES:  # there are at least as many codes as experts
        return False
    count = n_codes(shape[0], fewest, most)
    return count <= MOST_CODES and count * math.prod(shape) <= MOST_ENTRIES


def all_codes(n_experts: int, fewest: int = 1, most: int | None = None) -> NDArray[np.bool_]:
    """All codes with `fewest` to `most` active experts, shape (n_codes, n_experts); none is empty.

    Examples
    --------
    >>> from dynpart.enumeration import all_codes
    >>> all_codes(2).astype(int)
    array([[1, 0],
           [0, 1],
           [1, 1]])
    """
    most = n_experts if most is None else most
    codes = np.zeros((1, n_experts), dtype=bool)
    found = []
    for size in range(1, most + 1):
        # Each code is built once, because experts are added in the order of their indices.
        last = np.where(codes.any(axis=1), n_experts - 1 - codes[:, ::-1].argmax(axis=1), -1)
        row, added = np.nonzero(np.arange(n_experts) > last[:, None])
        codes = codes[row]
        codes[np.arange(len(row)), added] = True
        if size >= fewest:
            found.append(codes)
    return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class EveryCode:
    """All codes of the experts, with the owners of the variables under each.

    Attributes
    ----------
    codes : ndarray of shape (n_codes, n_experts), bool
    owned : ndarray of shape (n_experts * n_features, n_codes)
        1 where the expert owns the variable, 0 elsewhere.
    """

    codes: NDArray[np.bool_]
    owned: Array

    @classmethod
    def of(cls, experts: Experts, codes: NDArray[np.bool_]) -> EveryCode:
        """These codes of experts in NumPy arrays."""
        owner = owners(experts.ranks, codes)
        is_owner = owner.T[None] == np.arange(experts.n_experts)[:, None, None]
        return cls(codes, is_owner.reshape(-1, len(codes)).astype(np.float64))

    @property
    def row_size(self) -> int:
        """Number of values per row in memory."""
        return sum(self.owned.shape)

    def by_blocks(self, task: Callable[[slice], None], n_rows: int) -> None:
        """Call a task that uses the methods below with slices of the rows, on several threads."""
        from dynpart.threads import Threads, one_blas_thread  # needs Numba, which `info` does not

        blocks = list(row_blocks(n_rows, self.row_size))
        with one_blas_thread():
            Threads().map(task, blocks, n_rows * self.owned.size)

    def summed(self, rows: Rows, experts: Experts, prior: CodePrior) -> tuple[Array, Array]:
        """Log P(x) without b(x), shape (n_rows,), and P(h | x), shape (n_rows, n_codes)."""
        density = expert_log_densities(rows, experts)
        joint = density.reshape(len(rows), -1) @ self.owned + prior.log_prob(self.codes)
        most = joint.max(axis=1, keepdims=True)
        share = np.exp(joint - most)
        total = share.sum(axis=1, keepdims=True)
        return (most + np.log(total))[:, 0], share / total

    def sums(self, rows: Rows, experts: Experts, posterior: Array) -> tuple[Array, Array]:
        """Expected responsibility sums of rows under the posterior of their codes.

        Parameters
        ----------
        rows : Rows
        experts : Experts
        posterior : ndarray of shape (n_rows, n_codes)
            Multiplied by the weights of the rows.

        Returns
        -------
        weight : ndarray of shape (n_experts, n_features)
            Sum of responsibilities.
        statistics : ndarray of shape (n_statistics, n_experts, n_features)
            Sum of responsibility times T(x).
        """
        shape = (len(rows), *experts.log2_expertise.shape)
        share = (posterior @ self.owned.T).reshape(shape)
        T = experts.family.statistics(rows.values)
        observed = is_observed(T[0])
        weight = np.einsum("nkd,nd->kd", share, observed.astype(np.float64))
        return weight, np.einsum("nkd,snd->skd", share, np.where(observed, T, 0.0))
