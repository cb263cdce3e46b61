"""What every reader returns: rows of numbers with what is known of their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_VALUES = 2**31
"""Most numbers in a table that is read whole."""

GRAY_THRESHOLD = 127


class TableError(ValueError):
    """A file cannot be read as a table; the message says where and why."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        uint8 where every value is 0 or 1, otherwise a float type.
    names : tuple of str or None
        Names of the variables, where the file has names.
    labels : tuple of str or None
        Names of the rows, where the file has them.
    image_shape : tuple of int or None
        (height, width) where rows are images.
    remark : str
        What the reader decided on its own and the user may want to know.
    """

    values: NDArray[Any]
    names: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    remark: str = ""


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """Binary numbers as bytes; bytes and floats as they are, other numbers as float64."""
    if values.dtype == bool:
        return values.astype(np.uint8)
    if values.dtype.kind not in "iuf":
        raise TableError(f"values must be numbers, got the type {values.dtype}")
    if values.dtype == np.uint8 or isinstance(values, np.memmap):
        return values
    if _is_binary(values):
        return values.astype(np.uint8)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def images_as_rows(images: NDArray[np.uint8], binary: bool | None) -> tuple[NDArray[Any], str]:
    """Gray images 0..255, (n, height, width), as rows, with a remark on the treatment.

    Parameters
    ----------
    images : ndarray of shape (n, height, width)
    binary : bool or None
        True for black and white, False for gray, None to decide by the look of the images.
    """
    rows = images.reshape(len(images), -1)
    if rows.size and rows.max() <= 1:
        return rows, ""
    remark = ""
    if binary is None:
        binary = bool(np.count_nonzero((rows < 32) | (rows >= 224)) >= 0.9 * rows.size)
        remark = (
            f"read as black and white (above {GRAY_THRESHOLD} is 1); --gray keeps gray values"
            if binary
            else "read as gray values from 0 to 1; --binary makes them black and white"
        )
    if binary:
        return (rows > GRAY_THRESHOLD).astype(np.uint8), remark
    return rows.astype(np.float32) / np.float32(255), remark


def _is_binary(values: NDArray[Any]) -> bool:
    step = max(1, 2**20 // max(1, values.shape[1]))
    blocks = (values[i : i + step] for i in range(0, len(values), step))
    return all(bool(np.all((block == 0) | (block == 1))) for block in blocks)
