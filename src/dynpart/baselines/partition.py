"""Partitions fixed in advance: a mixture, or k-means, for each cell of variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array, Baseline
from dynpart.baselines.mixture import KMeansCodes, Mixture


def grid_cells(image_shape: tuple[int, int], n_cells: int) -> NDArray[np.intp]:
    """Cut an image into `n_cells` rectangles, as square as their number allows.

    Parameters
    ----------
    image_shape : tuple of int
        (height, width).
    n_cells : int
        Number of rectangles.

    Returns
    -------
    cells : ndarray of shape (height * width,)
        Cell of every pixel, in row-major order.

    Examples
    --------
    >>> from dynpart.baselines import grid_cells
    >>> grid_cells((2, 4), 2)
    array([0, 0, 1, 1, 0, 0, 1, 1])
    """
    height, width = image_shape
    splits = [(rows, n_cells // rows) for rows in range(1, n_cells + 1) if n_cells % rows == 0]
    fitting = [(r, c) for r, c in splits if r <= height and c <= width]
    if not fitting:
        raise ValueError(f"n_cells={n_cells} does not divide an image of shape {image_shape}")
    rows, columns = min(fitting, key=lambda s: abs(np.log((height / s[0]) / (width / s[1]))))
    down = np.arange(height) * rows // height
    across = np.arange(width) * columns // width
    return (down[:, None] * columns + across).ravel()


def block_cells(n_features: int, n_cells: int) -> NDArray[np.intp]:
    """Cut a row of variables into runs of neighbours.

    Parameters
    ----------
    n_features : int
        Number of variables.
    n_cells : int
        Number of runs.

    Returns
    -------
    cells : ndarray of shape (n_features,)
        Cell of every variable.
    """
    return np.arange(n_features) * n_cells // n_features


class FixedPartition(Baseline):
    """Partition model with a given partition (Hartigan, 1990): one active unit per cell.

    Parameters
    ----------
    n_components : int, default=10
        Number of units over all cells; cells share them as evenly as can be.
    n_active : int, default=2
        Number of cells, which is also the number of active units.
    cell_model : {"mixture", "k-means"}, default="mixture"
        Model of each cell; "k-means" is product quantisation.
    image_shape : tuple of int, default=None
        Cells are rectangles of an image of this shape; by default runs of neighbouring
        variables.
    cells : array-like of shape (n_features,), default=None
        The partition itself, in place of `n_active` and `image_shape`.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    cells_ : ndarray of shape (n_features,)
        Cell of every variable.
    groups_ : ndarray of shape (n_components,)
        Cell of every unit.

    Examples
    --------
    >>> from dynpart.baselines import FixedPartition
    >>> from dynpart.datasets import make_pairs
    >>> X = make_pairs(3)
    >>> model = FixedPartition(6, n_active=3, random_state=0).fit(X)
    >>> bool(((model.decode(model.encode(X)) > 0.5) == X).all())
    True
    """

    refit_for_rate = True

    def __init__(
        self,
        n_components: int = 10,
        *,
        n_active: int = 2,
        cell_model: str = "mixture",
        image_shape: tuple[int, int] | None = None,
        cells: ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_active = n_active
        self.cell_model = cell_model
        self.image_shape = image_shape
        self.cells = cells
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """Each unit's template in its cell, the data's average elsewhere."""
        return self._templates

    def _fit(self, X: NDArray) -> None:
        if self.cell_model not in ("mixture", "k-means"):
            raise ValueError(f"cell_model must be 'mixture' or 'k-means', got {self.cell_model!r}")
        rng = check_random_state(self.random_state)
        self.cells_ = self._partition(X.shape[1])
        n_cells = int(self.cells_.max()) + 1
        if n_cells > self.n_components:
            raise ValueError(f"n_components={self.n_components} leaves cells of {n_cells} empty")
        self.groups_ = np.arange(self.n_components) * n_cells // self.n_components
        self._templates = np.tile(X.mean(axis=0, dtype=np.float64), (self.n_components, 1))
        self._models: list[Baseline] = []
        for cell in range(n_cells):
            units, columns = self._of_cell(cell)
            model: Baseline
            if self.cell_model == "mixture":
                model = Mixture(len(units), random_state=rng)
            else:
                model = KMeansCodes(len(units), random_state=rng)
            model.fit(X[:, columns])
            self._templates[np.ix_(units, columns)] = model.templates
            self._models.append(model)

    def _partition(self, n_features: int) -> NDArray[np.intp]:
        if self.cells is not None:
            cells = np.unique(np.asarray(self.cells), return_inverse=True)[1].ravel()
            if len(cells) != n_features:
                raise ValueError(f"cells must have {n_features} entries, found {len(cells)}")
            return cells
        if self.image_shape is not None:
            return grid_cells(self.image_shape, self.n_active)
        return block_cells(n_features, self.n_active)

    def _of_cell(self, cell: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.flatnonzero(self.groups_ == cell), np.flatnonzero(self.cells_ == cell)

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        codes = np.zeros((len(X), self.n_components), dtype=np.uint8)
        for cell, model in enumerate(self._models):
            units, columns = self._of_cell(cell)
            codes[:, units] = model.encode(X[:, columns])
        return codes

    def _decode(self, H: Array) -> Array:
        out = np.empty((len(H), len(self.cells_)))
        for cell in range(len(self._models)):
            units, columns = self._of_cell(cell)
            out[:, columns] = H[:, units] @ self._templates[np.ix_(units, columns)]
        return out
