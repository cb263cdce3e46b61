"""Checked reading of the numbers and arrays that a family stores in a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e150
"""Largest absolute value of a stored number, so that sums of squares stay finite."""


def stored_number(
    numbers: Mapping[str, Any], name: str, *, least: float = -LARGEST, most: float = LARGEST
) -> float:
    """The number `name`, or ValueError if it is missing or out of bounds."""
    value = numbers.get(name)
    if type(value) not in (int, float) or not least <= value <= most:  # type: ignore[operator]
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}")
    return float(value)  # type: ignore[arg-type]


def stored_column(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    n_features: int,
    *,
    least: float = -LARGEST,
    most: float = LARGEST,
) -> NDArray[np.float64]:
    """The array `name`, or ValueError unless it has one number within bounds per variable."""
    array = arrays.get(name)
    if array is None or array.shape != (n_features,) or array.dtype != np.float64:
        raise ValueError(f"{name} must hold a float64 for each of {n_features} variables")
    if not ((array >= least) & (array <= most)).all():  # NaN neither
        raise ValueError(f"{name} must hold numbers from {least:g} to {most:g}")
    return array


def check_names(stored: Mapping[str, Any], *names: str) -> None:
    """Raise ValueError if names are missing or unexpected."""
    odd = sorted(set(stored) ^ set(names))
    if odd:
        problem = "is not known here" if odd[0] in stored else "is missing"
        raise ValueError(f"{odd[0][:80]!r} {problem}")
