"""Figure of learning: the objective and the number of active experts over iterations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.utils.validation import check_is_fitted

from dynpart.plotting._canvas import INK, SMALL, heading, new_figure

LINE = "#2f5d9b"
SECOND = "#b5483a"


def plot_history(model: Any) -> Figure:
    """Draw the objective and the mean number of active experts over the iterations.

    The objective is the mean number of bits of a row, -log2 P(x | h) - log2 P(h): fewer is better.
    The penalised objective, which chooses among restarts and leaves out the codes, is drawn, too,
    if the model has it.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_history
    >>> model = DynamicPartitionModel(n_experts=4, random_state=0).fit(make_pairs(2))
    >>> len(plot_history(model).axes)
    2
    """
    check_is_fitted(model)
    records = getattr(model, "history_", ())
    iterations = np.arange(1, len(model.objective_history_) + 1)
    figure = new_figure(8.0 if len(records) else 4.2, 2.7)
    grid = figure.subplots(1, 2 if len(records) else 1, squeeze=False)[0]
    left = grid[0]
    heading(left, "Bits per row: fewer is better")
    bits = -np.asarray(model.objective_history_) / math.log(2)
    left.plot(iterations, bits, color=LINE, label="values and code")
    if len(records):
        penalised = [-record.penalised / math.log(2) for record in records]
        left.plot(iterations, penalised, color=SECOND, label="values, penalised")
        heading(grid[1], "Active experts per row")
        active = [record.mean_active for record in records]
        grid[1].plot(iterations, active, color=LINE)
        grid[1].set_ylim(0, 1.05 * max(active))
    left.legend(frameon=False, fontsize=SMALL, loc="upper right")
    for axes in grid:
        _curve_axes(axes)
    return figure


def _curve_axes(axes: Axes) -> None:
    axes.set_xlabel("iteration", fontsize=SMALL + 0.5, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=SMALL, colors=INK)
    axes.grid(color="0.92", linewidth=0.7)
    axes.set_axisbelow(True)
    for name, side in axes.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color("0.6")
