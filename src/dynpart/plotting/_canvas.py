"""Tiles, colours and figures, shared by the plotting functions. Uses only arrays of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

PAPER_WHITE = (1.0, 1.0, 1.0)
FRAME = (0.72, 0.75, 0.80)
"""Colour of the lines between tiles."""
NOT_RESPONSIBLE = (0.68, 0.68, 0.68)
"""Grey of variables that an expert does not own."""
NOT_OBSERVED = ((0.87, 0.93, 0.97), (0.55, 0.73, 0.84))
"""Background and stripes of missing values."""
STRIPE = 3
"""Width of a stripe in pixels of the picture, if tiles are enlarged."""
INK = "#22262e"
SMALL = 7.5
DPI = 150


HUES = (250, 30, 145, 85, 310, 195, 0, 115, 275, 55, 170, 335)
"""Hues of experts, in degrees; those of the explorer."""


def expert_colour(k: int) -> tuple[float, float, float]:
    """The colour of an expert in all figures of tables, the same as in the explorer's light theme.

    Hues of equal lightness and strength, in the perceptual space OKLCH.
    """
    turn = k // len(HUES)
    lightness = 0.62 + (0.0, -0.12, 0.1)[turn % 3]
    angle = np.deg2rad(HUES[k % len(HUES)] + 13 * turn)
    a, b = 0.155 * np.cos(angle), 0.155 * np.sin(angle)
    to_cone = [[0.3963377774, 0.2158037573], [-0.1055613458, -0.0638541728]]
    to_cone.append([-0.0894841775, -1.291485548])
    cone = (lightness + np.array(to_cone) @ [a, b]) ** 3
    to_light = [[4.0767416621, -3.3077115913, 0.2309699292]]
    to_light.append([-1.2684380046, 2.6097574011, -0.3413193965])
    to_light.append([-0.0041960863, -0.7034186147, 1.707614701])
    light = np.array(to_light) @ cone
    dim = light <= 0.0031308
    rgb = np.where(dim, 12.92 * light, 1.055 * np.clip(light, 0, None) ** (1 / 2.4) - 0.055)
    red, green, blue = (float(c) for c in np.clip(rgb, 0, 1))
    return red, green, blue


@dataclass(frozen=True)
class Scale:
    """Mapping from values to colours.

    Attributes
    ----------
    low, high : float
        Values drawn in the first and the last colour; others are clipped.
    cmap : str
        A matplotlib colour map.
    """

    low: float
    high: float
    cmap: str

    def unit(self, values: ArrayLike) -> Array:
        """Values of any shape moved into [0, 1]."""
        span = self.high - self.low or 1.0
        return np.clip((np.asarray(values, dtype=np.float64) - self.low) / span, 0, 1)

    def colours(self, values: ArrayLike, cmap: Colormap | None = None) -> Array:
        """RGB of values of any shape, (..., 3); NaN becomes grey."""
        rgb = (cmap or colormaps[self.cmap])(self.unit(values))[..., :3]
        rgb[np.isnan(np.asarray(values, dtype=np.float64))] = NOT_RESPONSIBLE
        return rgb

    @property
    def norm(self) -> Normalize:
        return Normalize(self.low, self.high)


def value_scale(model: Any, X: ArrayLike | None = None, cmap: str | None = None) -> Scale:
    """White to black over all levels; dark to light over the range of numbers."""
    if model.family_.n_levels is not None:
        return Scale(0.0, model.family_.n_levels - 1.0, cmap or "gray_r")
    values = np.asarray(model.means_ if X is None else X, dtype=np.float64)
    observed = values[~np.isnan(values)]
    low, high = np.percentile(observed if observed.size else model.means_, [0.5, 99.5])
    return Scale(float(low), float(high), cmap or "gray")


def checked_shape(n_features: int, image_shape: tuple[int, int] | None) -> tuple[int, int]:
    """Tile of one row: the image, or a strip with one cell per variable."""
    if image_shape is None:
        return 1, n_features
    if len(image_shape) != 2 or int(np.prod(image_shape)) != n_features:
        raise ValueError(
            f"image_shape must be (height, width) with height * width == {n_features}, "
            f"got {image_shape!r}"
        )
    return int(image_shape[0]), int(image_shape[1])


def shape_of(model: Any, image_shape: tuple[int, int] | None) -> tuple[int, int] | None:
    """The shape of images: the argument, or the model's."""
    return model.schema_.image_shape if image_shape is None else image_shape


def as_tiles(values: ArrayLike, image_shape: tuple[int, int] | None) -> Array:
    """Rows (..., n_features) as pictures (..., height, width); rows of a table become strips."""
    values = np.asarray(values, dtype=np.float64)
    n_features = values.shape[-1]
    height, width = checked_shape(n_features, image_shape)
    tiles = values.reshape(*values.shape[:-1], height, width)
    if image_shape is None:
        tiles = np.repeat(tiles, max(3, n_features // 4), axis=-2)
    return tiles


def variable_names(model: Any, feature_names: Sequence[str] | None, n_features: int) -> list[str]:
    """Names to write beside variables: given, learnt from the data, or numbers."""
    if feature_names is None and model is not None:
        feature_names = model.schema_.names
    if feature_names is None:
        return [str(d) for d in range(n_features)]
    if len(feature_names) != n_features:
        raise ValueError(f"feature_names must have {n_features} names, got {len(feature_names)}")
    return [str(name) for name in feature_names]


@dataclass(frozen=True)
class Mosaic:
    """A grid of tiles in one picture.

    Attributes
    ----------
    picture : ndarray of shape (height, width, 3)
    grid : tuple of int
        Rows and columns of tiles.
    tile : tuple of int
        Height and width of a tile before it was enlarged.
    zoom : int
        How often each pixel of a tile was repeated, so that lines between small tiles stay thin.
    gap : int
        Width of the lines.
    """

    picture: Array
    grid: tuple[int, int]
    tile: tuple[int, int]
    zoom: int
    gap: int

    def place(self, axis: int, index: ArrayLike, pixel: ArrayLike) -> Array:
        """Coordinate in the picture of a pixel of the tile with this row or column."""
        pitch = self.tile[axis] * self.zoom + self.gap
        within = (np.asarray(pixel) + 0.5) * self.zoom - 0.5
        return self.gap + np.asarray(index) * pitch + within

    def centres(self, axis: int) -> Array:
        """Coordinates of the tiles' centres along an axis."""
        return self.place(axis, np.arange(self.grid[axis]), (self.tile[axis] - 1) / 2)


def mosaic(
    tiles: Array,
    shown: NDArray[np.bool_] | None = None,
    gaps: NDArray[np.bool_] | None = None,
) -> Mosaic:
    """Lay out tiles of shape (n_rows, n_columns, height, width, 3) with lines between them.

    Tiles that are not `shown`, shape (n_rows, n_columns), stay empty. Pixels that are `gaps`, shape
    (n_rows, n_columns, height, width), are missing values and are striped.
    """
    n_rows, n_columns, height, width, _ = tiles.shape
    zoom = max(1, round(48 / max(height, width)))
    tall, wide = zoom * height, zoom * width
    gap = max(1, round(0.025 * (tall + wide)))
    picture = np.empty((n_rows * (tall + gap) + gap, n_columns * (wide + gap) + gap, 3))
    picture[:] = PAPER_WHITE
    everywhere = np.ones((n_rows, n_columns), dtype=bool)
    places = np.argwhere(everywhere if shown is None else shown)
    for i, j in places:
        top, left = i * (tall + gap), j * (wide + gap)
        picture[top : top + tall + 2 * gap, left : left + wide + 2 * gap] = FRAME
    for i, j in places:
        top, left = i * (tall + gap) + gap, j * (wide + gap) + gap
        enlarged = _enlarged(tiles[i, j], zoom)
        if gaps is not None and gaps[i, j].any():
            where = _enlarged(gaps[i, j], zoom)
            enlarged[where] = _stripes(tall, wide, zoom)[where]
        picture[top : top + tall, left : left + wide] = enlarged
    return Mosaic(picture, (n_rows, n_columns), (height, width), zoom, gap)


def _enlarged(tile: NDArray, zoom: int) -> NDArray:
    return tile.repeat(zoom, axis=0).repeat(zoom, axis=1)


def _stripes(height: int, width: int, zoom: int) -> Array:
    """Diagonal stripes, wide enough to be visible in tiles that are not enlarged."""
    y, x = np.indices((height, width))
    step = STRIPE if zoom > 1 else max(2, min(height, width) // 24)
    return np.asarray(NOT_OBSERVED)[(y + x) // step % 2]


def explain_gaps(figure: Figure, gaps: NDArray[np.bool_]) -> None:
    """A legend for missing values, if there are any."""
    if not gaps.any():
        return
    ground, stripes = NOT_OBSERVED
    patch = Patch(facecolor=ground, edgecolor=stripes, hatch="/////", label="not observed")
    figure.legend(
        handles=[patch],
        loc="outside lower right",
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        borderpad=0,
    )


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, with its own canvas and no window."""
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, compress=True)
    figure = Figure(figsize=(width, height), dpi=DPI, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def show_mosaic(
    axes: Axes,
    tiles: Mosaic,
    *,
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    columns_above: bool = True,
) -> None:
    """Draw a mosaic with a label per row and column of tiles."""
    axes.imshow(
        tiles.picture,
        interpolation="antialiased",
    )
    plain_axes(axes)
    if len(row_labels):
        axes.set_yticks(tiles.centres(0), row_labels)
    if len(column_labels):
        axes.set_xticks(tiles.centres(1), column_labels)
        axes.tick_params(
            top=False, bottom=False, labeltop=columns_above, labelbottom=not columns_above
        )


def plain_axes(axes: Axes) -> None:
    """No frame, no tick marks, small labels."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.tick_params(length=0, labelsize=SMALL, colors=INK, pad=2)
    for side in axes.spines.values():
        side.set_visible(False)


def heading(axes: Axes, text: str) -> None:
    """Title of a panel, at its left."""
    axes.set_title(text, loc="left", fontsize=9.5, color=INK, fontweight="bold", pad=6)


def near_square(n: int, tile: tuple[int, int], aspect: float = 1.0) -> int:
    """Columns for `n` tiles so that the whole is about `aspect` times as wide as high."""
    if n >= 50 and n % 10 == 0 and aspect == 1.0 and tile[0] == tile[1]:
        return 10
    return int(np.clip(round(np.sqrt(aspect * n * tile[0] / tile[1])), 1, n))


def fit_size(
    grid: tuple[int, int], tile: tuple[int, int], width: float, tallest: float = 11.0
) -> tuple[float, float]:
    """Width and height in inches of a mosaic at most `width` wide and `tallest` high."""
    height = width * (grid[0] * tile[0]) / (grid[1] * tile[1])
    return (width, height) if height <= tallest else (width * tallest / height, tallest)
