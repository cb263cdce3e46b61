"""The result of every reader: rows of numbers and texts, with names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dynpart.coding import Coded, level_name

GRAY_THRESHOLD = 127

LabelColumn = str | Literal[False] | None
"""Name of the column of labels; False for none, None to detect it."""


class TableError(ValueError):
    """A file cannot be read as a table; the message says where and why."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers, and of texts by their indices.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        uint8 if every value is 0 or 1, otherwise a float type; NaN for missing values.
    names : tuple of str or None
        Names of the variables, if the file has names.
    labels : tuple of str or None
        Names of the rows, if the file has them.
    image_shape : tuple of int or None
        (height, width) if rows are images.
    words : tuple of (tuple of str or None), or None
        The texts of each column of text, in their order; a value is the index of its text. None for
        columns of numbers, and for a table without texts.
    remarks : tuple of str
        Decisions of the reader that the user may want to know, one sentence each.
    label_name : str or None
        Name of the column of labels, empty if it has none; None if no named column holds them.
    label_place : int
        Number of columns before that of labels.
    """

    values: NDArray[Any]
    names: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    remarks: tuple[str, ...] = ()
    words: tuple[tuple[str, ...] | None, ...] | None = None
    label_name: str | None = None
    label_place: int = 0

    def words_of(self, column: int) -> tuple[str, ...] | None:
        """The texts of a column; None if it holds numbers.

        Parameters
        ----------
        column : int
            Index of the column.
        """
        return None if self.words is None else self.words[column]

    def coded(self) -> Coded:
        """The table as input of a model."""
        n_features = self.values.shape[1]
        words = self.words or (None,) * n_features
        dtypes = tuple("text" if texts else "float" for texts in words)
        return Coded(self.values, words, dtypes, self.names)

    def taken(self, columns: Sequence[int]) -> Table:
        """The table with only these columns, in this order.

        Parameters
        ----------
        columns : sequence of int
            Indices of the columns.
        """
        names, words = self.names, self.words
        return replace(
            self,
            values=self.values[:, columns],
            names=None if names is None else tuple(names[i] for i in columns),
            words=None if words is None else tuple(words[i] for i in columns),
        )

    def without_first(self) -> Table:
        """The table without its first column."""
        rest = self.taken(list(range(1, self.values.shape[1])))
        words = rest.words if any(rest.words or ()) else None
        return replace(rest, values=compact(rest.values), words=words)

    def texts(self, column: int) -> tuple[str, ...]:
        """Values of a column as texts; empty for missing values.

        Parameters
        ----------
        column : int
            Index of the column.
        """
        words, values = self.words_of(column), self.values[:, column].tolist()
        if words is None:
            return tuple("" if value != value else level_name(value) for value in values)
        return tuple("" if value != value else words[int(value)] for value in values)


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """Binary numbers as bytes; bytes and floats as they are, other numbers as float64."""
    if values.dtype == bool:
        return values.astype(np.uint8)
    if values.dtype.kind not in "iuf":
        raise TableError(f"values must be numbers, got the type {values.dtype}")
    if values.dtype == np.uint8 or isinstance(values, np.memmap):
        return values
    if is_binary(values):
        return values.astype(np.uint8)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def images_as_rows(
    images: NDArray[Any], binary: bool | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Gray images as rows, with remarks on the treatment.

    Parameters
    ----------
    images : ndarray of shape (n, height, width)
        Gray values 0..255, integers or fractions.
    binary : bool or None
        True for black and white, False for gray, None to detect it.

    Returns
    -------
    ndarray of shape (n, height * width)
        0 and 1, or gray values from 0 to 1.
    tuple of str
    """
    rows = images.reshape(len(images), -1)
    remarks: tuple[str, ...] = ()
    if binary is None:
        binary = bool(np.count_nonzero((rows < 32) | (rows >= 224)) >= 0.9 * rows.size)
        remarks = (
            f"read as black and white (above {GRAY_THRESHOLD} is 1); --gray keeps gray values"
            if binary
            else "read as gray values from 0 to 1; --binary makes them black and white",
        )
        if rows.size and rows.max() <= 1:
            remarks += ("no pixel is brighter than 1 of 255: the pictures are black",)
    if binary:
        return (rows > GRAY_THRESHOLD).astype(np.uint8), remarks
    return rows.astype(np.float32) / np.float32(255), remarks


def is_binary(values: NDArray[Any], *, gaps: bool = False) -> bool:
    """Whether every value is 0 or 1; with `gaps`, or NaN."""
    for _, block in row_blocks(values):
        right = (block == 0) | (block == 1)
        if gaps and block.dtype.kind == "f":
            right |= np.isnan(block)
        if not right.all():
            return False
    return True


def row_blocks(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Blocks of rows of about a million numbers, each with the index of its first row."""
    step = max(1, 2**20 // max(1, values.shape[1]))
    for begin in range(0, len(values), step):
        yield begin, values[begin : begin + step]
