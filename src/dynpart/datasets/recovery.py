"""Which known factors of a synthetic data set the experts found. Imports only `synthetic`."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart.datasets.synthetic import bar_templates


def pairs_recovered(
    means: ArrayLike, *, tol: float = 0.1, rest_tol: float = 0.2
) -> NDArray[np.bool_]:
    """Find the factor levels of :func:`make_pairs` that have their own expert.

    A level is found if some expert is within `tol` of it on its pair, and within `rest_tol` of
    1/2 on all other variables.

    Parameters
    ----------
    means : array-like of shape (n_experts, 2 * n_pairs)
        The experts' mean parameters, for example ``model.means_``.
    tol : float, default=0.1
        Largest distance from 0 and 1 on the pair.
    rest_tol : float, default=0.2
        Largest distance from 1/2 elsewhere.

    Returns
    -------
    found : ndarray of shape (n_pairs, 2), dtype bool
        ``found[l, 0]`` for level (0, 1) of pair ``l``, ``found[l, 1]`` for level (1, 0).

    Examples
    --------
    >>> from dynpart.datasets import pairs_recovered
    >>> means = [
    ...     [0.02, 0.97, 0.5, 0.45],  # pair 0, level (0, 1)
    ...     [0.95, 0.05, 0.5, 0.55],  # pair 0, level (1, 0)
    ...     [0.40, 0.60, 1.0, 0.00],  # pair 1, level (1, 0)
    ...     [0.99, 0.01, 0.0, 1.00],
    ... ]  # explains both pairs at once: counts for neither
    >>> pairs_recovered(means)
    array([[ True,  True],
           [False,  True]])
    """
    means = _as_means(means)
    n_variables = means.shape[1]
    if n_variables % 2:
        raise ValueError(f"means must have two columns per pair, got {n_variables} columns")
    n_pairs = n_variables // 2
    paired = means.reshape(len(means), n_pairs, 2)
    undecided = (np.abs(paired - 0.5) <= rest_tol).all(axis=2)
    # All other pairs must be near 1/2: compare the count of such pairs, without this one.
    rest = undecided.sum(axis=1, keepdims=True) - undecided == n_pairs - 1
    levels = np.array([[0.0, 1.0], [1.0, 0.0]])
    close = (np.abs(paired[:, :, None, :] - levels) <= tol).all(axis=3)
    return (close & rest[:, :, None]).any(axis=0)


def bars_recovered(means: ArrayLike, owners: ArrayLike) -> NDArray[np.bool_]:
    """Find the bars of :func:`make_bars` that have their own expert.

    A bar is found if, among the pixels that some expert ever owns, those with a mean above 1/2 are
    exactly the bar. Opinions about pixels that an expert never owns do not affect any composition
    and are ignored.

    Parameters
    ----------
    means : array-like of shape (n_experts, size * size)
        The experts' mean parameters, for example ``model.means_``.
    owners : array-like of int, shape (n_samples, size * size)
        Index of the expert that owns each pixel of each image, for example
        ``model.partition(model.transform(X))``; -1 where there is none.

    Returns
    -------
    found : ndarray of shape (2 * size,), dtype bool
        One entry per bar, in the order of :func:`bar_templates`.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.datasets import bars_recovered
    >>> means = [[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 1]]
    >>> owners = [[0, 0, 1, 1], [2, 2, 0, 2]]
    >>> bars_recovered(means, owners)  # both rows, and a column where the third is the owner
    array([ True,  True, False,  True])
    """
    means = _as_means(means)
    n_experts, n_pixels = means.shape
    size = math.isqrt(n_pixels)
    if size * size != n_pixels or size < 2:
        raise ValueError(f"means must have a square number of columns, got {n_pixels}")
    owned = _ever_owned(owners, n_experts, n_pixels)
    on = (means > 0.5) & owned
    return (on[:, None, :] == bar_templates(size)).all(axis=2).any(axis=0)


def _ever_owned(owners: ArrayLike, n_experts: int, n_pixels: int) -> NDArray[np.bool_]:
    """(n_experts, n_pixels): does the expert own the pixel in any image?"""
    index = np.asarray(owners)
    if index.ndim != 2 or index.shape[1] != n_pixels or index.dtype.kind not in "iu":
        raise ValueError(
            f"owners must be integers of shape (n_samples, {n_pixels}), "
            f"got {index.dtype} of shape {index.shape}"
        )
    if index.size and not -1 <= index.min() <= index.max() < n_experts:
        raise ValueError(f"owners must lie between -1 and {n_experts - 1} (n_experts - 1)")
    owned = np.zeros((n_experts + 1, n_pixels), dtype=bool)
    owned[index, np.arange(n_pixels)] = True  # -1 falls into the extra row
    return owned[:n_experts]


def _as_means(means: ArrayLike) -> NDArray[np.float64]:
    """Mean parameters as a finite matrix."""
    matrix = np.asarray(means, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"means must be a non-empty matrix, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("means must be finite")
    return matrix
