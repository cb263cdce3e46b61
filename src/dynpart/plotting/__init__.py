"""Figures of a fitted model. Each function returns a matplotlib Figure.

The functions read fitted models and rows. They do not use pyplot's global state, so they work in
threads, servers and tests. Save a figure with ``figure.savefig("experts.png")``; a notebook shows
it if it is the last value of a cell.

If rows are images, pass ``image_shape=(height, width)``. Without it, rows are drawn as a table,
with the names of variables and experts; an expert has the same colour in all figures. Missing
values (NaN) are marked, and a legend explains the mark.
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
