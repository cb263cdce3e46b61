"""Ranges of numbers in a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.storage._container import ModelFileError

MOST = 2**31
"""Upper bound of counts of objects in memory, such as experts or iterations."""
MOST_ROWS = 2**53
"""Upper bound of counts of rows: larger ones are not exact as floats."""
LARGEST = 1e150
"""Maximum absolute value of numbers, so that sums of their squares are finite."""
LARGEST_SQUARE = 1e300


def is_count(value: Any, least: int = 0, most: int = MOST) -> bool:
    """Whether this is an integer, not a boolean, from `least` to below `most`."""
    return type(value) is int and least <= value < most


def is_real(value: Any, least: float = -LARGEST, most: float = LARGEST) -> bool:
    """Whether this is a finite number, not a boolean, within the bounds."""
    return type(value) in (int, float) and least <= value <= most


def check_array(
    path: Any,
    name: str,
    array: NDArray[Any] | None,
    shape: Iterable[int],
    *,
    least: float = -LARGEST,
    most: float = LARGEST,
    inside: bool = False,
) -> NDArray[np.float64]:
    """The array, if it has floats, this shape and values within bounds; else ModelFileError.

    With `inside`, the bounds themselves are excluded.
    """
    shape = tuple(shape)
    if array is None:
        raise ModelFileError(f"{path} lacks the array {name!r}")
    if array.shape != shape or array.dtype != np.float64:
        found = f"{array.dtype} of shape {array.shape}"
        raise ModelFileError(
            f"{path}: array {name!r} must be float64 of shape {shape}, got {found}"
        )
    good = (array > least) & (array < most) if inside else (array >= least) & (array <= most)
    if not good.all():
        value = float(array[~good].flat[0])
        raise ModelFileError(f"{path}: array {name!r} holds {value}, which is out of its range")
    return array
