"""Figures of codes: the pursuit step by step, and reconstructions with the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dynpart.plotting._canvas import (
    as_tiles,
    checked_shape,
    explain_gaps,
    fit_size,
    mosaic,
    near_square,
    new_figure,
    shape_of,
    show_mosaic,
    value_scale,
)
from dynpart.plotting.tables import table_pursuit, table_reconstructions


def plot_pursuit(
    model: Any,
    X: ArrayLike,
    *,
    image_shape: tuple[int, int] | None = None,
    max_steps: int = 10,
    cmap: str | None = None,
) -> Figure:
    """Draw the likelihood matching pursuit, one column per sample, top down.

    Each tile is the composed template after one more activation; a column ends where its
    sample's pursuit ended, or after `max_steps`. The bottom row shows the data. Rows of a table are
    drawn below each other, with names, values and a line per activated expert.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        A few rows, for example twenty.
    image_shape : tuple of int, default=None
        (height, width) if rows are images; by default the model's.
    max_steps : int, default=10
        Maximum number of steps to draw.
    cmap : str, default=None
        Name of a matplotlib colour map; by default black is 1 for binary data, and white is the
        largest value for others.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_pursuit
    >>> X = make_pairs(3)
    >>> model = DynamicPartitionModel(n_experts=6, random_state=0).fit(X)
    >>> figure = plot_pursuit(model, X[:8])
    """
    check_is_fitted(model)
    image_shape = shape_of(model, image_shape)
    if image_shape is None:
        return table_pursuit(model, X, max_steps)
    model, X = model.plainly(X)
    X = np.asarray(X)
    order = model.pursue(X).order
    n_active = np.count_nonzero(order >= 0, axis=1)
    n_steps = min(order.shape[1], max_steps)
    composed = _composed_steps(model, order[:, :n_steps])
    scale = value_scale(model, X, cmap)
    tiles = as_tiles(np.concatenate([composed, X[None]]), image_shape)
    shown = np.ones(tiles.shape[:2], dtype=bool)
    shown[:-1] = order[:, :n_steps].T >= 0
    gaps = np.isnan(tiles)
    picture = mosaic(scale.colours(tiles), shown, gaps)
    figure = new_figure(*_size(picture.grid, tiles.shape[2:], widest=9.0, tile_width=0.62))
    show_mosaic(
        figure.subplots(),
        picture,
        row_labels=[str(step + 1) for step in range(n_steps)] + ["data"],
        column_labels=[f"of {n}" for n in n_active],
    )
    figure.axes[0].set_ylabel("experts activated", fontsize=8)
    explain_gaps(figure, gaps)
    return figure


def _composed_steps(model: Any, order: NDArray[np.integer]) -> NDArray[np.float64]:
    """Composed templates after each step, (n_steps, n_rows, n_features)."""
    active = np.zeros((len(order), len(model.means_)), dtype=np.uint8)
    steps = []
    for chosen in order.T:
        rows = np.flatnonzero(chosen >= 0)
        active[rows, chosen[rows]] = 1
        steps.append(model.inverse_transform(active))
    return np.stack(steps)


def plot_reconstructions(
    model: Any,
    X: ArrayLike,
    *,
    image_shape: tuple[int, int] | None = None,
    n_columns: int | None = None,
    cmap: str | None = None,
) -> Figure:
    """Draw samples in odd rows and their reconstructions below them in even rows.

    Rows of a table are drawn with names and values, and the predictions below them in the colours
    of the experts. A frame marks a value that differs from its prediction.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows to draw, with the columns of the training data.
    image_shape : tuple of int, default=None
        (height, width) if rows are images; by default the model's.
    n_columns : int, default=None
        Number of images per line; by default the figure is about square.
    cmap : str, default=None
        Name of a matplotlib colour map; by default black is 1 for binary data, and white is the
        largest value for others.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_reconstructions
    >>> X = make_pairs(3)
    >>> model = DynamicPartitionModel(n_experts=6, random_state=0).fit(X)
    >>> figure = plot_reconstructions(model, X[:4])
    """
    check_is_fitted(model)
    image_shape = shape_of(model, image_shape)
    if image_shape is None:
        return table_reconstructions(model, X)
    model, X = model.plainly(X)
    X = np.asarray(X)
    H = np.asarray(model.transform(X))
    composed = model.inverse_transform(H, model.amplitudes(X, H))
    data, copies = as_tiles(X, image_shape), as_tiles(composed, image_shape)
    tile = data.shape[1:]
    columns = n_columns or near_square(len(X), (2 * tile[0], tile[1]), aspect=1.2)
    bands = -(-len(X) // columns)
    tiles = np.zeros((2 * bands * columns, *tile))
    shown = np.zeros((2 * bands, columns), dtype=bool)
    grid = tiles.reshape(bands, 2, columns, *tile)
    for n in range(len(X)):
        band, column = divmod(n, columns)
        grid[band, 0, column], grid[band, 1, column] = data[n], copies[n]
        shown[2 * band : 2 * band + 2, column] = True
    colours = value_scale(model, X, cmap).colours(tiles)
    gaps = np.isnan(tiles).reshape(2 * bands, columns, *tile)
    picture = mosaic(colours.reshape(2 * bands, columns, *tile, 3), shown, gaps)
    figure = new_figure(*_size(picture.grid, tile, widest=9.0, tile_width=1.6))
    show_mosaic(figure.subplots(), picture, row_labels=["data", "model"] * bands)
    explain_gaps(figure, gaps)
    return figure


def _size(
    grid: tuple[int, int], tile: tuple[int, ...], *, widest: float, tile_width: float
) -> tuple[float, float]:
    """Figure of a mosaic: tiles of a readable width, the whole not wider than a page."""
    shape = checked_shape(tile[0] * tile[1], (tile[0], tile[1]))
    width, height = fit_size(grid, shape, min(widest, tile_width * grid[1]))
    return width + 0.7, height + 0.35
