"""What a family may keep in a model file, and how it reads that again: nothing is believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e150
"""Numbers are at most this far from zero: their squares, and sums of these, stay finite."""


def stored_number(
    numbers: Mapping[str, Any], name: str, *, least: float = -LARGEST, most: float = LARGEST
) -> float:
    """The number called `name`, if it is one within bounds; else ValueError."""
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
    """The array called `name`, if it has a number within bounds per variable; else ValueError."""
    array = arrays.get(name)
    if array is None or array.shape != (n_features,) or array.dtype != np.float64:
        raise ValueError(f"{name} must hold a float64 for each of {n_features} variables")
    if not ((array >= least) & (array <= most)).all():  # NaN neither
        raise ValueError(f"{name} must hold numbers from {least:g} to {most:g}")
    return array


def check_names(stored: Mapping[str, Any], *names: str) -> None:
    """Raise ValueError if something else is there than these."""
    odd = sorted(set(stored) ^ set(names))
    if odd:
        problem = "is not known here" if odd[0] in stored else "is missing"
        raise ValueError(f"{odd[0][:80]!r} {problem}")
