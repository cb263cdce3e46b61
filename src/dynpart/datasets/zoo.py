"""The zoo: a small table of animals and their traits, included in the package."""

import csv
import os
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.atomic import atomic_write


@dataclass(frozen=True, eq=False, repr=False)
class TableDataset:
    """A table with names.

    Attributes
    ----------
    name : str
        Name of the data set.
    data : ndarray of shape (n_rows, n_features)
        Values, one row per observation.
    feature_names : tuple of str
        Names of the columns.
    row_names : tuple of str
        Names of the rows.
    kinds : dict of str to str
        Kinds of columns that cannot be detected from their values: ``columns=`` of the model.
    classes : tuple of str
        The class of each row, which is not a variable.

    Examples
    --------
    >>> from dynpart.datasets import load_zoo
    >>> load_zoo()
    TableDataset('zoo', 101 rows, 16 variables)
    """

    name: str
    data: NDArray[Any]
    feature_names: tuple[str, ...]
    row_names: tuple[str, ...]
    kinds: dict[str, str]
    classes: tuple[str, ...]

    @property
    def frame(self) -> Any:
        """The table as a pandas data frame: names of rows in the index, 0/1 columns as bool."""
        import pandas as pd

        frame = pd.DataFrame(self.data, columns=list(self.feature_names), index=self.row_names)
        binary = [name for name in frame if frame[name].isin((0, 1)).all()]
        return frame.astype(dict.fromkeys(binary, bool))

    def table(self, rows: Any = slice(None)) -> NDArray[np.void]:
        """The table as a structured array of NumPy, with names of columns.

        Parameters
        ----------
        rows : slice or array of int, default=slice(None)
            Rows to return; by default all.

        Returns
        -------
        structured array of shape (n_rows,)
            One field per column.
        """
        types = [(name, np.uint8) for name in self.feature_names]
        return np.array([tuple(row) for row in self.data[rows]], dtype=types)

    def __repr__(self) -> str:
        n_rows, n_features = self.data.shape
        return f"TableDataset({self.name!r}, {n_rows} rows, {n_features} variables)"


def load_zoo() -> TableDataset:
    """Load the zoo: 101 animals, 15 traits that they have or not, and their number of legs.

    Returns
    -------
    TableDataset
        `data` is uint8, of shape (101, 16); `classes` are mammal, bird, fish and so on. The number
        of legs is categorical, because it is not a measurement on a scale.

    Notes
    -----
    Source: R. Forsyth, "Zoo" (1990), UCI Machine Learning Repository, terms CC BY 4.0; as
    distributed with Orange, with its names of animals. It comes with the package: no file and no
    connection are needed.

    Examples
    --------
    >>> from dynpart.datasets import load_zoo
    >>> zoo = load_zoo()
    >>> zoo.row_names[63], zoo.classes[63]
    ('platypus', 'mammal')
    """
    text = _text()
    header, *rows = csv.reader(text.splitlines())
    return TableDataset(
        "zoo",
        np.array([row[1:-1] for row in rows]).astype(np.uint8),
        tuple(header[1:-1]),
        tuple(row[0] for row in rows),
        {"legs": "categorical"},
        tuple(row[-1] for row in rows),
    )


def write_zoo(path: str | os.PathLike[str]) -> None:
    """Write the zoo as a .csv file, for the commands; an existing file is replaced.

    Parameters
    ----------
    path : path-like
        File to write, a `.csv`.
    """
    with atomic_write(path, overwrite=True) as file:
        file.write(_text().encode())


def _text() -> str:
    return (files("dynpart.datasets") / "data" / "zoo.csv").read_text(encoding="utf-8")
