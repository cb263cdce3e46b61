"""Figures of the chosen number of experts and of their stability."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from sklearn.utils.validation import check_is_fitted

from dynpart.plotting._canvas import INK, SMALL, heading, new_figure
from dynpart.plotting.history import LINE, SECOND
from dynpart.stability import LEGEND, SHAKY, STEADY

MARKS = {"steady": "#2f5d9b", "shaky": "#8fb0d9", "by chance": "#c9c9c9"}
"""Colours of the marks of stability."""
LONGEST = 42


def plot_selection(model: Any) -> Figure:
    """Draw the choice of the number of experts: bits of held-back rows over the number.

    Lower is better. Bars are one standard error of the difference from the best number. Lines are
    the baselines: independent columns, and a mixture with as many components as the chosen number.

    Parameters
    ----------
    model : DynamicPartitionModel
        Fitted with ``n_experts="auto"``.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_selection
    >>> X = make_pairs(2, 300, random_state=0)
    >>> model = DynamicPartitionModel("auto", max_iter=10, random_state=0).fit(X)
    >>> len(plot_selection(model).axes)
    1
    """
    check_is_fitted(model)
    chosen = getattr(model, "selection_", None)
    if chosen is None:
        raise ValueError(
            "plot_selection needs a model that chose its number of experts: fit with "
            "n_experts='auto'"
        )
    sizes = [one.n_experts for one in chosen.tried]
    bits = [_bits(one.nats) for one in chosen.tried]
    errors = [one.error / math.log(2) for one in chosen.tried]
    figure = new_figure(5.6, 3.2)
    axes = figure.subplots()
    heading(axes, "Bits per held-back row; fewer are better")
    label = "experts, one a row" if chosen.is_mixture else "experts"
    axes.errorbar(sizes, bits, errors, color=LINE, marker="o", markersize=4, capsize=2, label=label)
    best = (chosen.n_experts, _bits(chosen.chosen.nats))
    is_below = chosen.mixture is not None and _bits(chosen.mixture) < best[1]
    axes.plot(*best, "o", markersize=10, markerfacecolor="none", color=LINE)
    axes.annotate(
        f"{chosen.n_experts} chosen, {best[1]:.1f} bits",
        best,
        xytext=(0, 10 if is_below else -17),
        textcoords="offset points",
        ha="right" if chosen.n_experts == sizes[-1] else "center",
        fontsize=SMALL,
        color=INK,
    )
    _level(axes, _bits(chosen.columns), "independent columns", "0.45", "--")
    if chosen.mixture is not None and not chosen.is_mixture:
        words = f"mixture of {chosen.n_experts} components"
        _level(axes, _bits(chosen.mixture), words, SECOND, ":")
    axes.set_xlabel("experts", fontsize=SMALL + 0.5, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.18)
    axes.legend(frameon=False, fontsize=SMALL)
    _plain(axes)
    return figure


def plot_stability(model: Any) -> Figure:
    """Draw how often each expert is found again in bootstrap samples, the steadiest first.

    Parameters
    ----------
    model : DynamicPartitionModel
        Fitted, with ``stability_`` of its method :meth:`~dynpart.DynamicPartitionModel.stability`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_stability
    >>> X = make_pairs(2, 100, random_state=0)
    >>> model = DynamicPartitionModel(4, max_iter=10, random_state=0).fit(X)
    >>> found = model.stability(X, 2, random_state=0)
    >>> len(plot_stability(model).axes[0].patches)
    4
    """
    check_is_fitted(model)
    stability = getattr(model, "stability_", None)
    if stability is None:
        raise ValueError(
            "plot_stability needs a model with a stability estimate: call stability(X) first"
        )
    share, names = stability.share, model.expert_names_
    order = np.argsort(-share, kind="stable")
    figure = new_figure(7.2, max(1.6, 0.24 * len(order) + 1.2))
    axes = figure.subplots()
    heading(axes, f"Found again in {stability.n_bootstraps} bootstrap samples")
    marks = [stability.mark(int(k)) for k in order]
    axes.barh(
        np.arange(len(order)), share[order], color=[MARKS[mark] for mark in marks], height=0.7
    )
    labels = [_label(stability, int(k), names[k]) for k in order]
    axes.set_yticks(np.arange(len(order)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for bound in (SHAKY, STEADY):
        axes.axvline(bound, color="0.6", linewidth=0.8, linestyle=":")
    handles = [
        Patch(color=MARKS[mark], label=f"{mark}: {words.split(':')[0]}")
        for mark, words in LEGEND.items()
    ]
    figure.legend(handles=handles, loc="outside lower left", frameon=False, fontsize=SMALL, ncols=1)
    _plain(axes)
    return figure


def _bits(nats: float) -> float:
    return -nats / math.log(2)


def _level(axes: Axes, bits: float, words: str, colour: str, style: str) -> None:
    axes.axhline(bits, color=colour, linestyle=style, linewidth=1.2, label=f"{words}, {bits:.1f}")


def _label(stability: Any, k: int, name: str) -> str:
    """The name of an expert with its marks."""
    short = name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."
    signs = ["always on"] if k in stability.always_on else []
    signs += [f"as {sum(pair) - k}" for pair in stability.duplicates if k in pair]
    return f"{short} ({', '.join([str(k), *signs])})"


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALL, colors=INK)
    axes.grid(color="0.92", linewidth=0.7)
    axes.set_axisbelow(True)
    for name, side in axes.spines.items():
        side.set_visible(name in ("left", "bottom"))
        side.set_color("0.6")
