"""Figures of a fitted model, on anyone's data. Each function returns a matplotlib Figure.

This room reads fitted models and rows; it learns nothing, and never touches pyplot's global
state, so figures can be drawn in threads, servers and tests alike. Save one with
``figure.savefig("experts.png")``; a notebook shows it when it is the last value of a cell.

Where rows are images, give ``image_shape=(height, width)``. Without it, rows are a table and
variables are drawn side by side, with the names the model was fitted with.
"""

from dynpart.plotting.codes import plot_pursuit, plot_reconstructions
from dynpart.plotting.experts import plot_experts, plot_templates, plot_training
from dynpart.plotting.history import plot_history
from dynpart.plotting.parts import plot_decomposition, plot_partition, plot_supports

__all__ = [
    "plot_decomposition",
    "plot_experts",
    "plot_history",
    "plot_partition",
    "plot_pursuit",
    "plot_reconstructions",
    "plot_supports",
    "plot_templates",
    "plot_training",
]
