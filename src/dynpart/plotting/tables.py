"""Figures of tables: rows by variables with names and values, each expert in its own colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dynpart.listing import row_labels, rows_by_type
from dynpart.naming import mean_in_words, value_in_words
from dynpart.plotting._canvas import (
    INK,
    NOT_OBSERVED,
    SMALL,
    Array,
    expert_colour,
    explain_gaps,
    heading,
    new_figure,
    plain_axes,
)

MOST_TEXTS = 40
"""Largest number of variables for which values are written into cells."""
MOST_NAMES = 80
"""Largest number of names that are written along an axis."""
EMPTY = (0.955, 0.96, 0.97)
WRONG = "#c2571a"
LONGEST = 42


class Grid:
    """Cells with a colour, a text and a mark each, line by line, with a name for each line."""

    def __init__(self, model: Any, X: Any, labels: Sequence[str] | None) -> None:
        check_is_fitted(model)
        self.labels = row_labels(X, labels, len(X))
        self.model, self.schema, self.X = model, model.schema_, X
        self.codes = np.asarray(model.transform(X)).astype(bool)
        self.order = np.asarray(model.pursue(X).order)
        self.owner = np.asarray(model.partition(self.codes))
        self.names = model.expert_names_
        self.opinions = model._opinions()
        self.values = self._numbers(X)
        self.lines: list[str] = []
        self.colours: list[Array] = []
        self.texts: list[list[str]] = []
        self.marks: list[NDArray[np.bool_]] = []
        self.gaps: list[NDArray[np.bool_]] = []

    def _numbers(self, X: ArrayLike) -> Array:
        rows = self.model._checked_rows(X, self.model._engine(X)).to_numpy()
        return self.model.family_.decode(rows.values)

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return len(self.schema)

    def expected(self, n: int) -> NDArray[np.bool_]:
        """Which values of a row equal the predictions of their owners; gaps count as equal."""
        columns = np.arange(self.n_features)
        said = self.opinions.value[self.owner[n], columns]
        levels = ~np.isnan(self.opinions.chance[self.owner[n], columns])
        experts = self.model._experts().like(np.empty(0))
        spread = np.sqrt(experts.family.variance(experts.eta))[self.owner[n], columns]
        x = self.values[n]
        near = np.where(levels, x == said, np.abs(x - said) <= 2 * spread)
        return near | np.isnan(x)

    def add_data(self, n: int, line: str, *, owned: bool = False) -> None:
        """A line with the values of a row; coloured by owner if `owned`."""
        x = self.values[n]
        gaps = np.isnan(x)
        colours = np.tile(EMPTY, (self.n_features, 1))
        if owned:
            colours = np.array([expert_colour(int(k)) for k in self.owner[n]])
            depth = 0.35 + 0.5 * self._heights(x)
            colours = 1 - depth[:, None] * (1 - colours)
        colours[gaps] = NOT_OBSERVED[0]
        texts = [
            "" if gap else value_in_words(self.schema, d, value)
            for d, (value, gap) in enumerate(zip(x, gaps, strict=True))
        ]
        self._add(line, colours, texts, ~self.expected(n), gaps)

    def composed(self) -> Array | None:
        """Predictions of owners with the gains and offsets of the rows; None without amplitudes."""
        if self.model.amplitude is None:
            return None
        model, X = self.model.plainly(self.X)
        codes = self.codes.astype(np.uint8)
        return np.asarray(model.inverse_transform(codes, model.amplitudes(X, codes)))

    def add_opinions(
        self, owner: NDArray[np.integer], shown: NDArray, line: str, said: Array | None = None
    ) -> None:
        """A line with the predictions of owners where `shown`, or with the values `said`."""
        colours = np.array([expert_colour(int(k)) for k in owner])
        chance = self.opinions.chance[owner, np.arange(len(owner))]
        depth = np.where(np.isnan(chance), 0.6, 0.2 + 0.55 * np.nan_to_num(chance))
        colours = np.where(shown[:, None], 1 - depth[:, None] * (1 - colours), EMPTY)
        values = self.opinions.value[owner, np.arange(len(owner))] if said is None else said
        texts = [self._told(d, value) if shown[d] else "" for d, value in enumerate(values)]
        nothing = np.zeros(len(owner), dtype=bool)
        self._add(line, colours, texts, nothing, nothing)

    def _told(self, d: int, value: float) -> str:
        """A prediction in words: a level, or a mean."""
        spread = float(self.opinions.spread[d])
        if np.isnan(spread):
            return value_in_words(self.schema, d, value)
        return mean_in_words(value, spread)

    def add_space(self) -> None:
        """An empty line between two rows."""
        blank = np.ones((self.n_features, 3))
        nothing = np.zeros(self.n_features, dtype=bool)
        self._add("", blank, [""] * self.n_features, nothing, nothing)

    def _add(self, line: str, colours: Array, texts: list[str], marks: Any, gaps: Any) -> None:
        self.lines.append(line)
        self.colours.append(colours)
        self.texts.append(texts)
        self.marks.append(marks)
        self.gaps.append(gaps)

    def _heights(self, x: Array) -> Array:
        """Values between the lowest and the highest of the figure, column by column."""
        seen = ~np.isnan(self.values)
        low = np.where(seen, self.values, np.inf).min(axis=0)
        high = np.where(seen, self.values, -np.inf).max(axis=0)
        low, high = np.where(seen.any(axis=0), (low, high), 0.0)
        levels = ~np.isnan(self.opinions.chance[0])
        low, high = np.where(levels, 0, low), np.where(levels, np.maximum(1, high), high)
        span = np.where(high > low, high - low, 1.0)
        return np.nan_to_num(np.clip((x - low) / span, 0, 1))

    def draw(self, *, title: str = "") -> Figure:
        """The figure: names of variables above, names of lines at the left."""
        n_lines, n_features = len(self.lines), self.n_features
        cell = float(np.clip(11.0 / n_features, 0.12, 0.52))
        width = 2.9 + cell * n_features
        longest = max(len(self.schema.label(d)) for d in range(n_features))
        above = 0.5 + 0.062 * min(longest, 30) if n_features <= MOST_NAMES else 0.5
        figure = new_figure(width, above + 0.23 * n_lines)
        axes = figure.subplots()
        axes.imshow(np.array(self.colours), aspect="auto", interpolation="nearest")
        plain_axes(axes)
        if n_features <= MOST_NAMES:
            names = [shortened(self.schema.label(d), 30) for d in range(n_features)]
            axes.set_xticks(range(n_features), names, rotation=90)
            axes.tick_params(labeltop=True, labelbottom=False)
        axes.set_yticks(range(n_lines), [shortened(line) for line in self.lines])
        self._write(axes)
        if title:
            heading(axes, title)
        explain_gaps(figure, np.array(self.gaps))
        return figure

    def _write(self, axes: Axes) -> None:
        for y, (texts, marks) in enumerate(zip(self.texts, self.marks, strict=True)):
            for x, (text, mark) in enumerate(zip(texts, marks, strict=True)):
                if mark:
                    box = (x - 0.46, y - 0.44)
                    axes.add_patch(Rectangle(box, 0.92, 0.88, fill=False, ec=WRONG, lw=1.4))
                if self.n_features <= MOST_TEXTS and text:
                    axes.text(x, y, shortened(text, 7), ha="center", va="center", fontsize=6)


def table_partition(model: Any, X: ArrayLike, labels: Sequence[str] | None = None) -> Figure:
    """Draw rows of a table, each value in the colour of the expert that explains it.

    A frame marks a value that differs from the expert's prediction.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows to draw, with the columns of the training data.
    labels : sequence of str, default=None
        Names of the rows; by default the index of a data frame.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import table_partition
    >>> X = make_pairs(3)
    >>> model = DynamicPartitionModel(n_experts=6, random_state=0).fit(X)
    >>> figure = table_partition(model, X[:2], labels=["none", "last"])
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['none', 'last']
    """
    grid = Grid(model, X, labels)
    for n, label in enumerate(grid.labels):
        grid.add_data(n, label, owned=True)
    figure = grid.draw()
    used = np.flatnonzero(grid.codes.any(axis=0))
    _expert_legend(figure.axes[0], [int(k) for k in used], grid.names)
    return figure


def table_decomposition(
    model: Any, X: ArrayLike, max_parts: int, labels: Sequence[str] | None = None
) -> Figure:
    """Decomposed rows of a table: the row, then each active expert's opinions on its variables."""
    grid = Grid(model, X, labels)
    for n, label in enumerate(grid.labels):
        if n:
            grid.add_space()
        grid.add_data(n, label)
        for k in grid.order[n][:max_parts]:
            if k >= 0:
                grid.add_opinions(
                    np.full(grid.n_features, k), grid.owner[n] == k, grid.names[int(k)]
                )
    return grid.draw()


def table_pursuit(
    model: Any, X: ArrayLike, max_steps: int, labels: Sequence[str] | None = None
) -> Figure:
    """Rows of a table with the composed predictions after each activation."""
    grid = Grid(model, X, labels)
    for n, label in enumerate(grid.labels):
        if n:
            grid.add_space()
        active = np.zeros((1, len(grid.names)), dtype=np.uint8)
        everywhere = np.ones(grid.n_features, dtype=bool)
        for step, k in enumerate(grid.order[n][:max_steps]):
            if k >= 0:
                active[0, k] = 1
                owner = np.asarray(model.partition(active))[0]
                sign = "+ " if step else ""
                grid.add_opinions(owner, everywhere, f"{sign}{grid.names[int(k)]}")
        grid.add_data(n, label)
    return grid.draw()


def table_reconstructions(model: Any, X: ArrayLike, labels: Sequence[str] | None = None) -> Figure:
    """Rows of a table, each with the predictions of its owners below it."""
    grid = Grid(model, X, labels)
    composed, everywhere = grid.composed(), np.ones(grid.n_features, dtype=bool)
    for n, label in enumerate(grid.labels):
        if n:
            grid.add_space()
        grid.add_data(n, label)
        said = None if composed is None else composed[n]
        grid.add_opinions(grid.owner[n], everywhere, "as the experts say", said)
    figure = grid.draw()
    used = np.flatnonzero(grid.codes.any(axis=0))
    _expert_legend(figure.axes[0], [int(k) for k in used], grid.names)
    return figure


def table_supports(model: Any, X: Any, codes: Mapping[int, NDArray[np.integer]]) -> Figure:
    """Opinions of experts of a table, and below each those on the variables it owns in codes.

    Parameters
    ----------
    model : DynamicPartitionModel
    X : array-like of shape (n_rows, n_features)
    codes : dict
        Codes to draw by expert, each of shape (n_codes, n_experts).

    Returns
    -------
    matplotlib.figure.Figure
    """
    grid = Grid(model, X[:1], None)  # no row is drawn
    everywhere = np.ones(grid.n_features, dtype=bool)
    for place, (k, drawn) in enumerate(codes.items()):
        if place:
            grid.add_space()
        own = np.full(grid.n_features, k)
        grid.add_opinions(own, everywhere, grid.names[k])
        owners = np.asarray(model.partition(drawn)) if len(drawn) else drawn
        for code, owner in zip(drawn, owners, strict=True):
            others = [grid.names[j] for j in np.flatnonzero(code) if j != k]
            line = f"   with {' + '.join(others)}" if others else "   alone"
            grid.add_opinions(own, owner == k, line)
    return grid.draw()


def plot_codes(
    model: Any, X: Any, *, labels: Sequence[str] | None = None, max_rows: int = 120
) -> Figure:
    """Draw which experts are active in which rows, rows ordered by type.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows to draw, with the columns of the training data.
    labels : sequence of str, default=None
        Names of the rows; by default the index of a data frame.
    max_rows : int, default=120
        Maximum number of rows; of more rows, evenly spaced ones are drawn.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_codes
    >>> X = make_pairs(3)
    >>> figure = plot_codes(DynamicPartitionModel(n_experts=6, random_state=0).fit(X), X)
    """
    check_is_fitted(model)
    called = row_labels(X, labels, len(X))
    codes = np.asarray(model.transform(X)).astype(bool)
    order = rows_by_type(codes, np.asarray(model.prior_.types(codes)))
    if len(order) > max_rows:
        order = order[np.linspace(0, len(order) - 1, max_rows).round().astype(int)]
    names = model.expert_names_
    colours = np.tile(EMPTY, (*codes[order].shape, 1))
    for k in range(codes.shape[1]):
        colours[codes[order][:, k], k] = expert_colour(k)
    n_rows, n_experts = codes[order].shape
    figure = new_figure(2.6 + max(2.0, 0.34 * n_experts), 1.9 + 0.13 * n_rows)
    axes = figure.subplots()
    axes.imshow(colours, aspect="auto", interpolation="nearest")
    plain_axes(axes)
    axes.set_xticks(range(n_experts), [shortened(name) for name in names], rotation=90)
    axes.tick_params(labeltop=True, labelbottom=False)
    axes.set_yticks(range(n_rows), [shortened(called[n], 24) for n in order], fontsize=6)
    return figure


def plot_experts_by(model: Any, X: ArrayLike, by: Sequence[Any], *, name: str = "") -> Figure:
    """Draw experts against another column, which is not a variable of the model.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows with the columns of the training data.
    by : sequence of length n_rows
        Numbers are drawn as box plots over the rows in which an expert is active. Other values are
        classes, drawn as bars: the share of an expert's rows, with a line at the share of all rows.
    name : str, default=""
        Name of that column, for the title.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.plotting import plot_experts_by
    >>> X = make_pairs(3)
    >>> model = DynamicPartitionModel(n_experts=6, random_state=0).fit(X)
    >>> figure = plot_experts_by(model, X, ["even", "odd"] * 4, name="parity")
    """
    check_is_fitted(model)
    codes = np.asarray(model.transform(X)).astype(bool)
    values = np.asarray(by)
    if len(values) != len(codes):
        raise ValueError(f"by must have one value per row ({len(codes)}), got {len(values)}")
    names, n_experts = model.expert_names_, codes.shape[1]
    if values.dtype.kind in "iuf":
        figure = new_figure(7.0, 0.8 + 0.3 * (n_experts + 1))
        axes = figure.subplots()
        groups = [values[mine & ~np.isnan(values)] for mine in codes.T]
        groups.append(values[~np.isnan(values)])
        boxes = axes.boxplot(groups, orientation="horizontal", patch_artist=True, widths=0.6)
        for k, box in enumerate(boxes["boxes"]):
            box.set_facecolor(expert_colour(k) if k < n_experts else EMPTY)
        for middle in boxes["medians"]:
            middle.set_color(INK)
        lines = [shortened(text) for text in (*names, "all rows")]
        axes.set_yticks(range(1, n_experts + 2), lines, fontsize=SMALL)
        axes.tick_params(labelsize=SMALL, colors=INK)
        axes.invert_yaxis()
        axes.set_xlabel(name, fontsize=8)
        return figure
    classes, counts = np.unique(values.astype(str), return_counts=True)
    usual = counts / counts.sum()
    columns = min(3, n_experts)
    bands = -(-n_experts // columns)
    figure = new_figure(3.6 * columns, (0.5 + 0.2 * len(classes)) * bands + 0.2)
    grid = figure.subplots(bands, columns, squeeze=False, sharex=True).ravel()
    for k, axes in enumerate(grid):
        if k >= n_experts:
            axes.set_visible(False)
            continue
        mine = values[codes[:, k]].astype(str)
        share = np.array([(mine == c).mean() if len(mine) else 0.0 for c in classes])
        axes.barh(range(len(classes)), share, color=expert_colour(k), height=0.7)
        axes.vlines(usual, np.arange(len(classes)) - 0.42, np.arange(len(classes)) + 0.42, INK)
        axes.set_yticks(range(len(classes)), [shortened(c, 20) for c in classes], fontsize=SMALL)
        axes.tick_params(labelsize=SMALL, colors=INK)
        axes.set_xlim(0, 1)
        axes.invert_yaxis()
        axes.set_title(shortened(names[k]), loc="left", fontsize=8, color=INK)
    if name:
        figure.supxlabel(f"share of rows by {name}; the line is that of all rows", fontsize=8)
    return figure


def shortened(text: str, most: int = LONGEST) -> str:
    """A text that is not too long for its place."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _expert_legend(axes: Axes, experts: Sequence[int], names: Sequence[str]) -> None:
    patches = [Patch(color=expert_colour(k), label=shortened(names[k])) for k in experts]
    axes.legend(
        handles=patches,
        loc="upper left",
        bbox_to_anchor=(0, -0.02),
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        ncols=2,
    )
