"""Compiled: diffusion over a graph of variables, as a sum of polynomials of a sparse matrix."""

from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled


@compiled
def expand(indptr, indices, data, weight, values):  # type: ignore[no-untyped-def]
    """Weighted sum of Chebyshev polynomials T_i of a sparse matrix M, times values.

    T_0 = 1, T_1 = M and T_(i+1) = 2 M T_i - T_(i-1). Every step is one pass over the values.

    Parameters
    ----------
    indptr, indices, data : ndarray
        The matrix in compressed rows, of shape (n_features, n_features).
    weight : ndarray of shape (n_terms,)
        At least two.
    values : ndarray of shape (n_experts, n_features)

    Returns
    -------
    ndarray of shape (n_experts, n_features)
    """
    n_experts, n_features = values.shape
    last = values.T.copy()
    total = weight[0] * last
    current = last
    product = np.empty(n_experts)
    for term in range(1, weight.size):
        # From the second term on, the array of the last term is reused for the next.
        further = np.empty_like(current) if term == 1 else last
        for i in range(n_features):
            product[:] = 0.0
            for at in range(indptr[i], indptr[i + 1]):
                factor, j = data[at], indices[at]
                for k in range(n_experts):
                    product[k] += factor * current[j, k]
            for k in range(n_experts):
                new = product[k] if term == 1 else 2.0 * product[k] - last[i, k]
                further[i, k] = new
                total[i, k] += weight[term] * new
        last, current = current, further
    return total.T.copy() + 0.0
