"""Tables for imputation, and which of their cells are hidden. Knows `problems` and `datasets`."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynpart.comparison.problems import load_problem
from dynpart.datasets import load_digits

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SHARES = (0.1, 0.4)
HELD_BACK = 0.05
"""Share of the remaining cells that are also hidden, to calibrate the certainty of a method."""
MOST_CATEGORIES = 6
"""Columns of numbers with at most this many different values are categories."""
ROWS_SEED = 0


@dataclass(frozen=True, eq=False)
class GapTable:
    """A table whose cells can be hidden.

    Attributes
    ----------
    name, title : str
    values : ndarray of shape (n_rows, n_features)
        Float64; NaN where the table itself has gaps. Real columns are standardised.
    binary : ndarray of shape (n_features,)
        Which columns hold only 0 and 1.
    cells : ndarray of shape (n_features,)
        Columns with the same number come from one column of the original table (a category), and
        are hidden together.
    n_experts : int
        Experts of our model, and components of the mixture.
    """

    name: str
    title: str
    values: Array
    binary: Mask
    cells: NDArray[np.intp]
    n_experts: int


@dataclass(frozen=True, eq=False)
class Hidden:
    """A table with hidden cells, and the masks for scoring.

    Attributes
    ----------
    given : ndarray of shape (n_rows, n_features)
        The table with NaN in all gaps.
    scored, held_back : ndarray of shape (n_rows, n_features)
        Hidden cells that are scored, and hidden cells for calibration.
    """

    given: Array
    scored: Mask
    held_back: Mask


def hide(table: GapTable, share: float, seed: int) -> Hidden:
    """Hide cells completely at random.

    Parameters
    ----------
    table : GapTable
    share : float
        Share of the cells that are hidden and scored.
    seed : int

    Returns
    -------
    Hidden
    """
    rng = np.random.RandomState(seed)
    shape = len(table.values), table.cells.max() + 1
    scored = (rng.uniform(size=shape) < share)[:, table.cells]
    held_back = (rng.uniform(size=shape) < HELD_BACK)[:, table.cells] & ~scored
    known = ~np.isnan(table.values)
    given = np.where(scored | held_back, np.nan, table.values)
    return Hidden(given, scored & known, held_back & known)


def load_gap_table(name: str) -> GapTable:
    """Load a table by name.

    Parameters
    ----------
    name : str
        A key of `GAP_TABLES`.

    Returns
    -------
    GapTable

    Raises
    ------
    FileNotFoundError
        If its file is not in the folder named by DYNPART_DATA and cannot be downloaded.

    Examples
    --------
    >>> load_gap_table("digits").values.shape
    (1797, 64)
    """
    if name not in GAP_TABLES:
        raise ValueError(f"table must be one of {', '.join(GAP_TABLES)}, got {name!r}")
    return GAP_TABLES[name](name)


def _binary_table(name: str, title: str, rows: NDArray, n_experts: int) -> GapTable:
    n_features = rows.shape[1]
    everywhere = np.ones(n_features, dtype=bool)
    return GapTable(
        name, title, rows.astype(np.float64), everywhere, np.arange(n_features), n_experts
    )


def _digits(name: str) -> GapTable:
    return _binary_table(name, "digits", load_digits().data, 30)


def _some_rows(problem_name: str, n_rows: int) -> Callable[[str], GapTable]:
    """Rows of a problem of the comparison, drawn so that every method can finish."""

    def load(name: str) -> GapTable:
        problem = load_problem(problem_name)
        rows = np.concatenate([problem.train, problem.score])
        chosen = np.random.RandomState(ROWS_SEED).permutation(len(rows))[:n_rows]
        return _binary_table(name, problem.title, rows[chosen], problem.n_components)

    return load


def _survey(name: str) -> GapTable:
    with np.load(in_folder(Path("debd") / "nltcs.npz"), allow_pickle=False) as stored:
        rows = stored["train"]
    chosen = np.random.RandomState(ROWS_SEED).permutation(len(rows))[:3000]
    return _binary_table(name, "NLTCS survey", rows[chosen], 10)


def _csv(title: str, n_experts: int, *, leave_out: str | None = None) -> Callable[[str], GapTable]:
    """A file of the folder `tables`, names in its first line, gaps empty."""

    def load(name: str) -> GapTable:
        return table_of_texts(name, title, read_columns(name, leave_out), n_experts)

    return load


def read_columns(name: str, leave_out: str | None = None) -> dict[str, list[str]]:
    """Columns of tables/NAME.csv in the folder named by DYNPART_DATA, as texts; gaps are empty."""
    with in_folder(Path("tables") / f"{name}.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    return {key: [line[key] for line in lines] for key in lines[0] if key != leave_out}


def in_folder(file: Path) -> Path:
    """A file in the folder named by DYNPART_DATA, or an error that names the missing file."""
    path = Path(os.environ.get("DYNPART_DATA", ".")) / file
    if not path.is_file():
        raise FileNotFoundError(f"put {file.as_posix()} into the folder named by DYNPART_DATA")
    return path


def table_of_texts(
    name: str, title: str, columns: Mapping[str, list[str]], n_experts: int
) -> GapTable:
    """Columns of text as numbers: two values as 0 and 1, categories one column per value.

    Parameters
    ----------
    name, title : str
    columns : mapping of str to list of str
        Empty texts are gaps. Numbers with more than MOST_CATEGORIES different values are real and
        are standardised.
    n_experts : int

    Returns
    -------
    GapTable

    Examples
    --------
    >>> columns = {"sex": ["f", "m", ""], "class": ["1", "2", "3"]}
    >>> table_of_texts("toy", "toy", columns, 2).values
    array([[ 0.,  1.,  0.,  0.],
           [ 1.,  0.,  1.,  0.],
           [nan,  0.,  0.,  1.]])
    """
    parts, binary, cells = [], [], []
    for cell, texts in enumerate(columns.values()):
        known = np.array([text != "" for text in texts])
        values = sorted({text for text in texts if text})
        if are_real(values):
            column = np.array([float(text) if text else np.nan for text in texts])[:, None]
            part = (column - np.nanmean(column)) / np.nanstd(column)
        else:
            shown = values[1:] if len(values) == 2 else values
            part = np.array([[text == value for value in shown] for text in texts], dtype=float)
            part[~known] = np.nan
        parts.append(part)
        binary += [not are_real(values)] * part.shape[1]
        cells += [cell] * part.shape[1]
    return GapTable(
        name, title, np.concatenate(parts, axis=1), np.array(binary), np.array(cells), n_experts
    )


def are_real(texts: list[str]) -> bool:
    """Whether different texts are numbers, and too many of them to be categories."""
    if len(texts) <= MOST_CATEGORIES:
        return False
    try:
        [float(text) for text in texts]
    except ValueError:
        return False
    return True


GAP_TABLES: Mapping[str, Callable[[str], GapTable]] = {
    "zoo": _csv("zoo", 8, leave_out="name"),
    "titanic": _csv("Titanic", 6),
    "heart_disease": _csv("heart disease", 10),
    "nltcs": _survey,
    "digits": _digits,
    "news": _some_rows("news", 3000),
    "silhouettes": _some_rows("silhouettes", 1000),
}
