"""Figures of a comparison: error over active units, and the templates of each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dynpart.comparison.contestants import CONTESTANTS, OUR_VARIANTS, OURS
from dynpart.comparison.problems import Problem
from dynpart.comparison.runner import Result

INK, PALE = "#222222", "#bbbbbb"
OUR_COLOUR = "#c0392b"
COLOURS = ("#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#ff7f0e")
MARKERS = "osv^D<>P"
MOST_TEMPLATES = 20


def plot_rate_distortion(problem: Problem, results: Sequence[Result]) -> Figure:
    """Reconstruction error over the mean number of active units, a line per model.

    Parameters
    ----------
    problem : Problem
    results : sequence of Result
        Those without a curve are left out.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = Figure(figsize=(8.5, 5), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    drawn = [r for r in results if r.curve and r.problem == problem.name]
    others = [r for r in drawn if r.contestant not in OUR_VARIANTS]
    for i, result in reversed(list(enumerate(others))):
        style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i // len(COLOURS) % 8]}
        _line(axes, result, "-" if result.binary_codes else ":", lw=1.2, ms=4, **style)
    ours = [r for r in drawn if r.contestant in OUR_VARIANTS]
    for i, result in reversed(list(enumerate(ours))):
        width, size = (2.6, 6) if result.contestant == OURS else (1.2, 4)
        style = {"color": OUR_COLOUR, "marker": MARKERS[i % 8]}
        _line(axes, result, "-", lw=width, ms=size, zorder=9, **style)
    axes.set_xlabel("mean number of active units")
    axes.set_ylabel("wrong pixels" if problem.binary else "root mean squared error")
    axes.set_ylim(bottom=0)
    axes.set_title(
        f"{problem.title}: {problem.n_components} units, {problem.split} rows", loc="left"
    )
    axes.grid(color=PALE, lw=0.4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles[::-1],
        labels[::-1],
        loc="outside right upper",
        fontsize=8,
        frameon=False,
        title="red: ours; dotted: real codes",
    )
    return figure


def _line(axes, result: Result, dashes: str, **style) -> None:  # type: ignore[no-untyped-def]
    active, error = np.array(sorted(map(tuple, result.curve))).T
    axes.plot(active, error, dashes, label=CONTESTANTS[result.contestant].title, **style)


def plot_all_templates(problem: Problem, templates: Mapping[str, NDArray]) -> Figure:
    """Some templates of every model, one row of images (or one table) per model.

    Parameters
    ----------
    problem : Problem
    templates : mapping of str to ndarray of shape (n_units, n_features)
        By title of the model.

    Returns
    -------
    matplotlib.figure.Figure
    """
    shape = problem.image_shape if problem.truth != "pairs" else None
    figure = Figure(dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    if shape is None:
        _tables(figure, templates)
    else:
        _galleries(figure, templates, shape)
    return figure


def _tables(figure: Figure, templates: Mapping[str, NDArray]) -> None:
    n_columns = 4
    n_rows = -(-len(templates) // n_columns)
    figure.set_size_inches(9, 2.3 * n_rows)
    for place, (title, values) in enumerate(templates.items()):
        axes = figure.add_subplot(n_rows, n_columns, place + 1)
        axes.imshow(_shades(values), cmap="gray_r", vmin=0, vmax=1, aspect="auto")
        axes.set_title(title, fontsize=7, color=INK)
        axes.set_xticks([])
        axes.set_yticks([])


def _galleries(figure: Figure, templates: Mapping[str, NDArray], shape: tuple[int, int]) -> None:
    n_shown = min(MOST_TEMPLATES, max(map(len, templates.values())))
    height, width = shape
    figure.set_size_inches(10, len(templates) * (8 / n_shown * height / width + 0.08))
    for place, (title, values) in enumerate(templates.items()):
        axes = figure.add_subplot(len(templates), 1, place + 1)
        strip = np.full((height, n_shown * (width + 1) - 1), np.nan)
        for i, unit in enumerate(values[:n_shown]):
            left = i * (width + 1)
            strip[:, left : left + width] = _shades(unit).reshape(shape)
        axes.imshow(strip, cmap="gray_r", vmin=0, vmax=1)
        axes.set_ylabel(title, rotation=0, ha="right", va="center", fontsize=7, color=INK)
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_visible(False)


def _shades(values: NDArray) -> NDArray:
    """Values in [0, 1]: probabilities as they are, signed weights around a middle gray."""
    if values.min() >= -0.01:  # rounding
        return values / max(1.0, values.max())
    return 0.5 + 0.5 * values / np.abs(values).max()
