"""Connectivity: evidence, and partly opinions, are diffused over a graph of variables."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import copied, is_tensor, like, namespace
from dynpart.engines import GradientSums, ResponsibilitySums

if TYPE_CHECKING:
    from scipy import sparse

Array = NDArray[np.float64]

ACCURACY = 1e-6
"""Terms of the expansion with smaller weights are left out."""
HEARSAY = 20.0
"""Weight, in rows, of the average opinion of neighbouring variables in an expert's own."""


class Neighbours:
    """How variables share evidence and opinions with their neighbours.

    Evidence for expertise is diffused over `radius` edges. Opinions remain those of each variable,
    but the average opinion within two thirds of the radius is added with the weight of a few rows.
    It matters where an expert has few rows. Without edges nothing changes.

    Parameters
    ----------
    graph : csr_array of shape (n_features, n_features)
    radius : float

    Attributes
    ----------
    n_rows : float
        Weight, in rows, of the average opinion of neighbouring variables.
    """

    n_rows = HEARSAY

    def __init__(self, graph: sparse.csr_array, radius: float) -> None:
        self._diffuse = diffusion(graph, radius)
        self._diffuse_opinions = diffusion(graph, radius / 1.5)

    def evidence(self, sums: GradientSums) -> GradientSums:
        """Evidence, diffused over the graph."""
        diffused = [self._diffuse(sums.first), self._diffuse(sums.second)]
        return GradientSums(namespace(sums.array).stack(diffused))

    def opinions(
        self, sums: ResponsibilitySums, population: Array, epsilon: float
    ) -> ResponsibilitySums:
        """Sums with further rows that have the average opinion of neighbouring variables."""
        diffuse = self._diffuse_opinions
        weight, more = sums.weight, copied(sums.array)
        nearby = diffuse(weight) + epsilon
        more[0] += self.n_rows
        for own, average in zip(more[1:], population, strict=True):
            own += self.n_rows * (average + diffuse(own - weight * average) / nearby)
        return ResponsibilitySums(more)


def neighbourly(connectivity: Any, n_features: int) -> Neighbours | None:
    """Neighbours within a radius that grows with the number of variables.

    It is 1/45 of the side of a square grid; None without a graph, or without an edge in it.
    """
    if connectivity is None:
        return None
    graph = check_connectivity(connectivity, n_features)
    if graph.nnz == 0:
        return None
    return Neighbours(graph, radius=float(np.sqrt(n_features)) / 45)


def check_connectivity(connectivity: Any, n_features: int) -> sparse.csr_array:
    """The graph as a symmetric matrix of edge weights without loops.

    Parameters
    ----------
    connectivity : sparse matrix or array of shape (n_features, n_features)
        Scikit-learn's convention (:func:`~sklearn.feature_extraction.image.grid_to_graph`):
        nonzero where two variables are neighbours; the diagonal is ignored.
    n_features : int

    Returns
    -------
    csr_array of shape (n_features, n_features)
    """
    from scipy import sparse

    graph = sparse.csr_array(connectivity, dtype=np.float64)
    if graph.shape != (n_features, n_features):
        raise ValueError(
            f"connectivity must have shape ({n_features}, {n_features}), one row and column per "
            f"variable, got {graph.shape}"
        )
    if not np.isfinite(graph.data).all() or (graph.data < 0).any():
        raise ValueError("connectivity must hold finite weights of at least 0")
    graph = (graph + graph.T) / 2
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def diffusion(graph: sparse.csr_array, radius: float) -> Callable[[Array], Array]:
    """The function that diffuses values over a graph.

    On a grid the result is a Gaussian blur with standard deviation `radius`, in edges. The heat
    kernel exp(-t L), with L the graph's Laplacian, is expanded in Chebyshev polynomials: about
    5 * radius sparse products on any graph, without a matrix inverse.

    Parameters
    ----------
    graph : csr_array of shape (n_features, n_features)
    radius : float
        Typical distance, in edges, over which values are diffused.

    Returns
    -------
    diffuse : callable
        Takes and returns an array of shape (n_experts, n_features). Sums over connected variables
        are kept; without edges nothing changes.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import laplacian
    from scipy.special import ive

    from dynpart.learning._expansion import expand

    L = sparse.csr_array(laplacian(graph))
    top = 2 * float(graph.sum(axis=1).max(initial=0.0))  # no eigenvalue of L is larger
    if top == 0 or radius == 0:
        return lambda values: values
    time = radius**2 / 2
    order = np.arange(2 + int(4 * np.sqrt(time * top) + time * top))
    weight = 2 * (-1.0) ** order * ive(order, time * top / 2)
    weight[0] /= 2
    n_terms = max(2, 1 + int(np.flatnonzero(np.abs(weight) > ACCURACY)[-1]))
    weight = weight[:n_terms]
    matrix = sparse.csr_array(L * (2 / top) - sparse.eye_array(L.shape[0]))

    on_device: dict[Any, Any] = {}

    def diffuse(values: Any) -> Any:
        if not is_tensor(values):
            return expand(matrix.indptr, matrix.indices, matrix.data, weight, values)
        if values.device not in on_device:
            on_device[values.device] = _sparse_tensor(matrix, values)
        shifted = on_device[values.device]
        last, current = values.T, shifted @ values.T
        total = weight[0] * last + weight[1] * current
        for w in weight[2:]:
            last, current = current, 2 * (shifted @ current) - last
            total += w * current
        return total.T + 0.0

    return diffuse


def _sparse_tensor(matrix: sparse.csr_array, values: Any) -> Any:
    """The matrix as a tensor on the device of `values`."""
    parts = (like(part, values) for part in (matrix.indptr, matrix.indices, matrix.data))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # torch warns of a beta
        return namespace(values).sparse_csr_tensor(*parts, size=matrix.shape)
