"""Figures of a fitted model, on anyone's data. Each function returns a matplotlib Figure.

This room reads fitted models and rows; it learns nothing, and never touches pyplot's global
state, so figures can be drawn in threads, servers and tests alike. Save one with
``figure.savefig("experts.png")``; a notebook shows it when it is the last value of a cell.

Where rows are images, give ``image_shape=(height, width)``. Without it, rows are a table: variables
are drawn side by side with their names, experts with theirs, each in the same colour everywhere.
What was not observed (NaN) is marked, and a legend says so.
"""

from dynpart.plotting.choices import plot_selection, plot_stability
from dynpart.plotting.codes import plot_pursuit, plot_reconstructions
from dynpart.plotting.experts import plot_experts, plot_templates, plot_training
from dynpart.plotting.history import plot_history
from dynpart.plotting.parts import plot_decomposition, plot_partition, plot_supports
from dynpart.plotting.tables import plot_codes, plot_experts_by, table_partition

__all__ = [
    "plot_codes",
    "plot_decomposition",
    "plot_experts",
    "plot_experts_by",
    "plot_history",
    "plot_partition",
    "plot_pursuit",
    "plot_reconstructions",
    "plot_selection",
    "plot_stability",
    "plot_supports",
    "plot_templates",
    "plot_training",
    "table_partition",
]
