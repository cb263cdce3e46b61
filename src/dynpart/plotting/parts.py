"""Figures of owners: partitions, decompositions into opinions, and dynamic supports."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import label
from sklearn.utils.validation import check_is_fitted

from dynpart.plotting._canvas import (
    Array,
    Mosaic,
    Scale,
    as_tiles,
    explain_gaps,
    fit_size,
    mosaic,
    near_square,
    new_figure,
    shape_of,
    show_mosaic,
    value_scale,
)
from dynpart.plotting.tables import table_decomposition, table_partition, table_supports

ROWS_LOOKED_AT = 2000  # maximum number of rows searched for different codes of an expert
REDS = LinearSegmentedColormap.from_list("cast", ["#fff4f2", "#d3141a"])
PART_COLOURS = colormaps["tab10"].colors + colormaps["Set2"].colors  # type: ignore[attr-defined]


def plot_decomposition(
    model: Any,
    X: ArrayLike,
    *,
    image_shape: tuple[int, int] | None = None,
    n_blocks: int | None = None,
    max_parts: int = 12,
    cmap: str | None = None,
) -> Figure:
    """Draw decomposed rows: data, reconstruction, then each active expert's opinion.

    An opinion is drawn on the variables that its expert owns; all others are grey. Rows of a table
    are drawn with names and values. A frame marks a value that differs from its prediction.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows to draw, with the columns of the training data.
    image_shape : tuple of int, default=None
        (height, width) if rows are images; by default the model's.
    n_blocks : int, default=None
        Number of blocks of rows drawn side by side.
    max_parts : int, default=12
        Maximum number of experts per row, in the order of activation.
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
    >>> from dynpart.plotting import plot_decomposition
    >>> X = make_pairs(3)
    >>> model = DynamicPartitionModel(n_experts=6, random_state=0).fit(X)
    >>> figure = plot_decomposition(model, X[:4])
    """
    check_is_fitted(model)
    image_shape = shape_of(model, image_shape)
    if image_shape is None:
        return table_decomposition(model, X, max_parts)
    model, X = model.plainly(X)
    X = np.asarray(X)
    order = model.pursue(X).order[:, :max_parts]
    H = np.asarray(model.transform(X))
    owner, composed = model.partition(H), model.inverse_transform(H, model.amplitudes(X, H))
    owned = owner[:, None, :] == order[:, :, None]
    parts = np.where(owned, composed[:, None, :], np.nan)
    values = np.concatenate([X[:, None, :], composed[:, None, :], parts], axis=1)
    tiles = as_tiles(values, image_shape)
    shown = np.ones(tiles.shape[:2], dtype=bool)
    shown[:, 2:] = order >= 0
    gaps = np.isnan(tiles)
    gaps[:, 1:] = False  # tiles of opinions have no missing values

    if n_blocks is None:
        n_blocks = min(max(1, round(len(X) / 8)), max(1, 24 // tiles.shape[1]))
    depth = -(-len(X) // n_blocks)
    n_blocks = -(-len(X) // depth)
    tile = tiles.shape[2:]
    width, height = fit_size(
        (depth, n_blocks * tiles.shape[1]), tile, 10.0 if n_blocks < 3 else 13.0
    )
    figure = new_figure(width + 0.25 * n_blocks, height + 0.35)
    scale = value_scale(model, X, cmap)
    labels = ["data", "model", *(str(step + 1) for step in range(order.shape[1]))]
    for block, axes in enumerate(figure.subplots(1, n_blocks, squeeze=False)[0]):
        rows = slice(block * depth, (block + 1) * depth)
        colours = np.ones((depth, *tiles.shape[1:], 3))
        some = np.zeros((depth, tiles.shape[1]), dtype=bool)
        unseen = np.zeros(colours.shape[:-1], dtype=bool)
        n = len(X[rows])
        colours[:n], some[:n], unseen[:n] = scale.colours(tiles[rows]), shown[rows], gaps[rows]
        show_mosaic(axes, mosaic(colours, some, unseen), column_labels=labels)
    explain_gaps(figure, gaps)
    return figure


def plot_supports(
    model: Any,
    X: ArrayLike,
    *,
    experts: ArrayLike | None = None,
    n_experts: int = 5,
    n_codes: int = 10,
    image_shape: tuple[int, int] | None = None,
    cmap: str | None = None,
) -> Figure:
    """Draw how an expert's support changes with the other active experts.

    The left column shows the expert's template. Each other column is the composed template of a
    row of `X` in which the expert is active, with the expert's share in shades of red. On a table,
    the line of an expert has all its opinions, and each line below it those on the variables it
    owns in one code.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows whose codes are used; of many rows the first 2,000.
    experts : array-like of int, default=None
        Indices of experts; by default those in use whose supports change most.
    n_experts : int, default=5
        Number of experts if none are given.
    n_codes : int, default=10
        Codes per expert, chosen to differ in the expert's support.
    image_shape : tuple of int, default=None
        (height, width) if rows are images; by default the model's.
    cmap : str, default=None
        Name of a matplotlib colour map for the opinions of the other experts; by default black is 1
        for binary data, and white is the largest value for others.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_supports
    >>> X = make_pairs(3)
    >>> model = DynamicPartitionModel(n_experts=6, random_state=0).fit(X)
    >>> figure = plot_supports(model, X, n_experts=3, n_codes=4)
    """
    check_is_fitted(model)
    image_shape = shape_of(model, image_shape)
    fitted, given = model, X
    model, X = model.plainly(X)
    X = np.asarray(X)[:ROWS_LOOKED_AT]
    H = np.unique(np.asarray(model.transform(X)), axis=0)
    owner = model.partition(H)
    if experts is None:
        chosen = _most_changing(model.means_, H, owner, n_experts)
    else:
        chosen = np.asarray(experts, dtype=np.intp)
    picked = {
        int(k): rows[_different(owner[rows] == k, n_codes)]
        for k in chosen
        for rows in [np.flatnonzero(H[:, k])]
    }
    if image_shape is None:
        return table_supports(fitted, given, {k: H[rows] for k, rows in picked.items()})
    composed = model.inverse_transform(H)
    scale = value_scale(model, X, cmap)
    values = np.full((len(chosen), 1 + n_codes, X.shape[1], 3), 1.0)
    shown = np.zeros(values.shape[:2], dtype=bool)
    for i, k in enumerate(chosen):
        values[i, 0], shown[i, 0] = scale.colours(model.means_[k]), True
        for j, n in enumerate(picked[int(k)], start=1):
            values[i, j] = _cast(scale, composed[n], owner[n] == k)
            shown[i, j] = True
    tiles = np.stack([as_tiles(values[..., c], image_shape) for c in range(3)], axis=-1)
    picture = mosaic(tiles, shown)
    width, height = fit_size(picture.grid, tiles.shape[2:4], min(9.0, 0.85 * picture.grid[1]))
    figure = new_figure(width + 0.8, height + 0.35)
    show_mosaic(
        figure.subplots(),
        picture,
        row_labels=[f"expert {k}" for k in chosen],
        column_labels=["opinion", *(f"code {j + 1}" for j in range(n_codes))],
    )
    return figure


def _cast(scale: Scale, composed: Array, own: NDArray[np.bool_]) -> Array:
    """Colours of a composed template with one expert's share in shades of red, (n_features, 3)."""
    reds = REDS if scale.cmap.endswith("_r") else REDS.reversed()
    return np.where(own[:, None], scale.colours(composed, reds), scale.colours(composed))


def _most_changing(
    means: Array, H: NDArray[np.integer], owner: NDArray[np.integer], n: int
) -> NDArray[np.intp]:
    """Experts whose support varies most on variables with an unusual opinion."""
    telling = np.abs(means - means.mean(axis=0))
    change = np.zeros(len(means))
    for k in range(len(means)):
        rows = np.flatnonzero(H[:, k])
        if len(rows) > 1:
            share = (owner[rows] == k).mean(axis=0)
            change[k] = (share * (1 - share) * telling[k]).sum()
    used = np.flatnonzero(H.any(axis=0))
    return used[np.argsort(-change[used], kind="stable")[:n]]


def _different(own: NDArray[np.bool_], n: int) -> list[int]:
    """Indices of supports that differ from each other: each next one farthest from those before."""
    if not len(own):
        return []
    distance = np.full(len(own), np.inf)
    picked = [int(own.sum(axis=1).argmax())]
    while len(picked) < min(n, len(own)):
        distance = np.minimum(distance, (own != own[picked[-1]]).sum(axis=1))
        distance[picked] = -1
        picked.append(int(distance.argmax()))
    return picked


def plot_partition(
    model: Any,
    X: ArrayLike,
    *,
    image_shape: tuple[int, int] | None = None,
    n_columns: int | None = None,
    cmap: str | None = None,
) -> Figure:
    """Draw the owner of every variable, each expert in its colour, next to the data.

    For images colours follow the order of activation within a sample; a deeper shade is a higher
    mean, and the number in a part is its expert's. On a table every expert has its own colour,
    names and values are written, and a frame marks values that differ from their predictions.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows to draw, with the columns of the training data.
    image_shape : tuple of int, default=None
        (height, width) if rows are images; by default the model's.
    n_columns : int, default=None
        Number of images per line; by default the figure is about square. Not used for tables.
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
    >>> from dynpart.plotting import plot_partition
    >>> X = make_pairs(3)
    >>> model = DynamicPartitionModel(n_experts=6, random_state=0).fit(X)
    >>> figure = plot_partition(model, X[:4])
    """
    check_is_fitted(model)
    image_shape = shape_of(model, image_shape)
    if image_shape is None:
        return table_partition(model, X)
    model, X = model.plainly(X)
    X = np.asarray(X)
    order = model.pursue(X).order
    H = np.asarray(model.transform(X))
    owner, composed = model.partition(H), model.inverse_transform(H, model.amplitudes(X, H))
    scale = value_scale(model, X, cmap)
    colours = np.stack([scale.colours(X), _in_part_colours(order, owner, composed, scale)])
    tiles = np.stack([as_tiles(colours[..., c], image_shape) for c in range(3)], axis=-1)
    owners = as_tiles(owner, image_shape).astype(int)

    tile = tiles.shape[2:4]
    columns = n_columns or near_square(len(X), (2 * tile[0], tile[1]), aspect=1.6)
    bands = -(-len(X) // columns)
    grid = np.ones((2 * bands, columns, *tiles.shape[2:]))
    shown = np.zeros((2 * bands, columns), dtype=bool)
    gaps = np.zeros(grid.shape[:-1], dtype=bool)
    for n in range(len(X)):
        band, column = divmod(n, columns)
        grid[2 * band : 2 * band + 2, column] = tiles[:, n]
        shown[2 * band : 2 * band + 2, column] = True
        gaps[2 * band, column] = np.isnan(as_tiles(X[n], image_shape))
    picture = mosaic(grid, shown, gaps)
    width, height = fit_size(picture.grid, tile, min(9.0, 1.5 * columns))
    figure = new_figure(width + 0.6, height + 0.3)
    axes = figure.subplots()
    show_mosaic(axes, picture, row_labels=["data", "owners"] * bands)
    if width / columns > 0.8:
        for n in range(len(X)):
            band, column = divmod(n, columns)
            _number_parts(axes, picture, owners[n], 2 * band + 1, column)
    explain_gaps(figure, gaps)
    return figure


def _in_part_colours(
    order: NDArray[np.integer], owner: NDArray[np.integer], composed: Array, scale: Scale
) -> Array:
    """RGB (n_rows, n_features, 3): hue by the owner's place in the pursuit, depth by the mean."""
    place = (owner[:, None, :] == order[:, :, None]).argmax(axis=1)
    hue = np.asarray(PART_COLOURS)[place % len(PART_COLOURS)]
    depth = scale.unit(composed)
    if not scale.cmap.endswith("_r"):
        depth = 1 - depth
    strength = (0.18 + 0.82 * depth)[..., None]
    return 1 - strength * (1 - hue)


def _number_parts(
    axes: Axes, picture: Mosaic, owner: NDArray[np.integer], row: int, column: int
) -> None:
    """Write each owner's number into its largest connected piece, if that is large enough."""
    for k in np.unique(owner):
        pieces, n_pieces = label(owner == k)
        sizes = np.bincount(pieces.ravel(), minlength=n_pieces + 1)[1:]
        if sizes.max() < 0.06 * owner.size:
            continue
        y, x = np.nonzero(pieces == 1 + sizes.argmax())
        nearest = np.hypot(y - y.mean(), x - x.mean()).argmin()
        axes.text(
            float(picture.place(1, column, x[nearest])),
            float(picture.place(0, row, y[nearest])),
            str(k),
            ha="center",
            va="center",
            fontsize=6,
            color="#111111",
            bbox={"boxstyle": "round,pad=0.12", "fc": (1, 1, 1, 0.7), "ec": "none"},
        )
