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
    """A number from a model file.

    Parameters
    ----------
    numbers : mapping
        The stored numbers by name.
    name : str
        Name of the number.
    least : float, default=-1e150
        Smallest value that is accepted.
    most : float, default=1e150
        Largest value that is accepted.

    Returns
    -------
    float
        The number, checked.

    Raises
    ------
    ValueError
        If the number is missing or out of bounds.
    """
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
    """An array from a model file, with one number per variable.

    Parameters
    ----------
    arrays : mapping
        The stored arrays by name.
    name : str
        Name of the array.
    n_features : int
        Number of variables.
    least : float, default=-1e150
        Smallest value that is accepted.
    most : float, default=1e150
        Largest value that is accepted.

    Returns
    -------
    ndarray of shape (n_features,)
        The array, checked.

    Raises
    ------
    ValueError
        If the array is missing, has another shape or type, or holds a number out of bounds.
    """
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
