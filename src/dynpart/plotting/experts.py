"""Figures of experts: templates, levels of expertise, training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dynpart.plotting._canvas import (
    Array,
    Scale,
    checked_shape,
    fit_size,
    heading,
    mosaic,
    near_square,
    new_figure,
    plain_axes,
    shape_of,
    show_mosaic,
    value_scale,
    variable_names,
)

FAR = 2.0  # standard deviations from the usual at which colours end
MOST_NAMES = 60  # more names beside a table than this would overlap


def plot_experts(
    model: Any,
    *,
    image_shape: tuple[int, int] | None = None,
    experts: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    cmap: str | None = None,
) -> Figure:
    """Draw templates and levels of expertise side by side.

    Templates are white at 0 and black at 1 for binary data. Opinions on columns with different
    units or levels are drawn as distances from the mean of all rows, in standard deviations; for a
    level, the distance of its probability from its frequency. Expertise is drawn as its logarithm.
    Both are blue where they are low and red where they are high.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    image_shape : tuple of int, default=None
        (height, width) if rows are images; by default the model's. Otherwise a table of
        experts by variables is drawn.
    experts : array-like of int, default=None
        Indices of the experts to draw, in this order; by default all.
    feature_names : sequence of str, default=None
        Names of the variables of a table; by default those the model was fitted with.
    cmap : str, default=None
        Name of a matplotlib colour map for the templates; by default black is 1 for binary data,
        white is the largest value for images of numbers, and blue to red are distances from the
        mean.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_experts
    >>> model = DynamicPartitionModel(n_experts=4, random_state=0).fit(make_pairs(2))
    >>> figure = plot_experts(model)
    >>> [axes.get_title(loc="left") for axes in figure.axes[:2]]
    ['Opinions', 'Levels of expertise']
    """
    check_is_fitted(model)
    image_shape = shape_of(model, image_shape)
    chosen = _chosen(experts, len(model.means_))
    level = np.log2(model.expertise_[chosen])
    reach = max(float(np.percentile(np.abs(level), 99)), 1e-9)
    if image_shape is None and not _has_one_scale(model):
        opinions = _departures(model)[chosen], Scale(-FAR, FAR, cmap or "coolwarm")
        unit = "standard deviations from usual"
    else:
        opinions, unit = (model.means_[chosen], value_scale(model, cmap=cmap)), "mean"
    panels = {
        "Opinions": opinions,
        "Levels of expertise": (level, Scale(-reach, reach, "coolwarm")),
    }
    bar = {
        "Opinions": unit,
        "Levels of expertise": "log₂ expertise",
    }
    names = variable_names(model, feature_names, model.means_.shape[1])
    called = None
    if image_shape is None:
        own = model.expert_names_
        called = [f"{own[k]}  {k}" for k in chosen]
    return _panels(panels, image_shape, labels=chosen, names=names, bar_labels=bar, called=called)


def _has_one_scale(model: Any) -> bool:
    """Whether values of all variables can be compared."""
    kinds = set(model.schema_.kinds)
    own = np.ndim(getattr(model.family_, "floor", 0.0)) > 0
    return len(kinds) == 1 and kinds != {"categorical"} and not own


def _departures(model: Any) -> Array:
    """Opinions in standard deviations from the usual ones, (n_experts, n_features).

    For a variable with levels, the difference of the probability of the expert's likeliest level
    and its frequency; negative for the first level of two.
    """
    opinions = model._opinions()
    levels = ~np.isnan(opinions.chance)
    usual = opinions.usual
    said = np.where(levels, opinions.chance, opinions.value)
    spread = np.where(levels, np.sqrt(np.clip(usual * (1 - usual), 0, None)), opinions.spread)
    varies = spread > 0
    far = np.where(varies, (said - usual) / np.where(varies, spread, 1.0), 0.0)
    is_first = (np.array(model.schema_.kinds) == "binary") & (opinions.value == 0)
    return np.where(is_first, -far, far)


def plot_templates(
    templates: ArrayLike | Mapping[str, ArrayLike],
    *,
    title: str = "Templates",
    image_shape: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    limits: tuple[float, float] | None = (0.0, 1.0),
    cmap: str = "gray_r",
) -> Figure:
    """Draw templates of any model: one row of pixels, or of a table, per unit.

    Parameters
    ----------
    templates : array-like of shape (n_units, n_features) or mapping of str to such
        A mapping draws one panel per entry, titled by its key.
    title : str, default="Templates"
        Title of the panel if `templates` is a single array.
    image_shape : tuple of int, default=None
        (height, width) if rows are images.
    feature_names : sequence of str, default=None
        Names of the variables of a table.
    limits : tuple of float or None, default=(0, 1)
        Values drawn white and black; None uses the range of each panel.
    cmap : str, default="gray_r"
        Name of a matplotlib colour map.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.plotting import plot_templates
    >>> figure = plot_templates({"first": np.eye(4), "second": 1 - np.eye(4)})
    >>> len(figure.axes)
    2
    """
    entries = templates if isinstance(templates, Mapping) else {title: templates}
    panels = {}
    for name, values in entries.items():
        matrix = np.asarray(values, dtype=np.float64)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(
                f"templates must be (n_units, n_features), got shape {matrix.shape} for {name!r}"
            )
        low, high = limits or (float(np.nanmin(matrix)), float(np.nanmax(matrix)))
        panels[name] = matrix, Scale(low, high, cmap)
    if not panels:
        raise ValueError("templates must hold at least one array")
    n_features = next(iter(panels.values()))[0].shape[1]
    names = variable_names(None, feature_names, n_features)
    return _panels(panels, image_shape, labels=None, names=names, bar_labels={})


def plot_training(
    snapshots: Mapping[int, ArrayLike],
    *,
    image_shape: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    limits: tuple[float, float] | None = (0.0, 1.0),
    cmap: str = "gray_r",
) -> Figure:
    """Draw templates during training, one panel for each number of iterations.

    Parameters
    ----------
    snapshots : mapping of int to array-like of shape (n_experts, n_features)
        Templates by number of iterations; 0 is the start.
    image_shape : tuple of int, default=None
        (height, width) if rows are images.
    feature_names : sequence of str, default=None
        Names of the variables of a table.
    limits : tuple of float or None, default=(0, 1)
        Values drawn white and black; None uses the range of each panel.
    cmap : str, default="gray_r"
        Name of a matplotlib colour map.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.plotting import plot_training
    >>> figure = plot_training({0: np.full((2, 4), 0.5), 15: np.eye(2, 4)})
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['Start', 'After 15 iterations']
    """
    titled = {_moment(t): values for t, values in sorted(snapshots.items())}
    return plot_templates(
        titled, image_shape=image_shape, feature_names=feature_names, limits=limits, cmap=cmap
    )


def _moment(iteration: int) -> str:
    if iteration == 0:
        return "Start"
    return f"After {iteration} iteration{'' if iteration == 1 else 's'}"


def _chosen(experts: ArrayLike | None, n_experts: int) -> NDArray[np.intp]:
    chosen = np.arange(n_experts) if experts is None else np.asarray(experts, dtype=np.intp)
    if chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= n_experts:
        raise ValueError(f"experts must be a list of indices below {n_experts}, got {experts!r}")
    return chosen


def _panels(
    panels: Mapping[str, tuple[Array, Scale]],
    image_shape: tuple[int, int] | None,
    *,
    labels: NDArray[np.intp] | None,
    names: Sequence[str],
    bar_labels: Mapping[str, str],
    called: Sequence[str] | None = None,
) -> Figure:
    """Several (n_units, n_features) arrays side by side, as galleries or as tables."""
    shapes = [values.shape for values, _ in panels.values()]
    n_units = max(shape[0] for shape in shapes)
    if image_shape is None:
        n_features = shapes[0][1]
        narrowest = 0.1 if n_features <= MOST_NAMES else 0.0
        width = np.clip(np.clip(4.0 / n_features, narrowest, 0.28) * n_features, 1.6, 7.0)
        # Cells are square, but lines and columns have room for their labels.
        line = min(max(0.14, min(0.28, width / n_features)), 9.0 / n_units)
        size = width + 0.4, np.clip(line * n_units, 0.8, 9.0)
    else:
        tile = checked_shape(shapes[0][1], image_shape)
        columns = near_square(n_units, tile)
        width = 5.2 if len(panels) <= 2 else 3.4
        size = fit_size((-(-n_units // columns), columns), tile, width)
    beside = 0.045 * max(map(len, called)) if called and n_units <= MOST_NAMES else 0.0
    width = len(panels) * size[0] + 0.5 + beside
    figure = new_figure(width, size[1] + (0.85 if bar_labels else 0.45))
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, (values, scale)) in zip(grid, panels.items(), strict=True):
        heading(axes, title)
        if image_shape is None:
            # Names of experts stand once, at the left.
            _table(axes, values, scale, labels, names, called if axes is grid[0] else None)
        else:
            _gallery(axes, values, scale, labels, checked_shape(values.shape[1], image_shape))
        if title in bar_labels:
            bar = figure.colorbar(
                ScalarMappable(scale.norm, scale.cmap),
                ax=axes,
                location="bottom",
                aspect=45,
                fraction=0.03,
                pad=0.02,
            )
            bar.ax.tick_params(length=2, labelsize=6.5, pad=1)
            bar.outline.set_visible(False)
            bar.set_label(bar_labels[title], fontsize=7.5)
    return figure


def _table(
    axes: Axes,
    values: Array,
    scale: Scale,
    labels: NDArray[np.intp] | None,
    names: Sequence[str],
    called: Sequence[str] | None = None,
) -> None:
    axes.imshow(
        values,
        cmap=scale.cmap,
        norm=scale.norm,
        aspect="auto",
        interpolation="nearest",
    )
    plain_axes(axes)
    for side in axes.spines.values():
        side.set(visible=True, color="0.7", linewidth=0.6)
    n_units, n_features = values.shape
    if n_features <= MOST_NAMES:
        # Beyond 24 variables a column is too narrow for two digits side by side.
        turned = max(map(len, names)) > (2 if n_features <= 24 else 1)
        axes.set_xticks(range(n_features), names, rotation=90 if turned else 0, fontsize=6.5)
    if n_units <= MOST_NAMES:
        numbers = range(n_units) if labels is None else labels
        lines = [str(k) for k in numbers] if called is None else called
        axes.set_yticks(range(n_units), lines, fontsize=6.5)


def _gallery(
    axes: Axes,
    values: Array,
    scale: Scale,
    labels: NDArray[np.intp] | None,
    tile: tuple[int, int],
) -> None:
    n_units = len(values)
    columns = near_square(n_units, tile)
    rows = -(-n_units // columns)
    tiles = np.ones((rows * columns, *tile, 3))
    tiles[:n_units] = scale.colours(values.reshape(n_units, *tile))
    shown = (np.arange(rows * columns) < n_units).reshape(rows, columns)
    picture = mosaic(tiles.reshape(rows, columns, *tile, 3), shown)
    in_order = labels is None or np.array_equal(labels, np.arange(n_units))
    # Row and column labels add up to the index of the expert, if experts are in order.
    show_mosaic(
        axes,
        picture,
        row_labels=[str(i * columns) for i in range(rows)] if in_order and rows > 1 else [],
        column_labels=[f"+{j}" if rows > 1 else str(j) for j in range(columns)] if in_order else [],
    )
