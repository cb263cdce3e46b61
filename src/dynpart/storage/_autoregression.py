"""Weights of earlier values in a model file: nonzero weights with their indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, to_numpy
from dynpart.storage._container import ModelFileError

if TYPE_CHECKING:
    from dynpart.autoregression import Autoregression
    from dynpart.families import Family

AUTOREGRESSION = (
    "autoregression.row",
    "autoregression.column",
    "autoregression.weight",
    "autoregression.centre",
)
LARGEST = 1e15
"""Maximum absolute value of weights and centres in a file."""


def pack_autoregression(given: Autoregression | None) -> dict[str, NDArray[Any]]:
    """Arrays of the weights; none without autoregression."""
    if given is None:
        return {}
    weights = as_float64(to_numpy(given.weights))
    row, column = (index.astype(np.int64) for index in np.nonzero(weights))
    parts = row, column, weights[row, column], as_float64(to_numpy(given.centre))
    return dict(zip(AUTOREGRESSION, parts, strict=True))


def unpack_autoregression(
    path: Any, arrays: Mapping[str, Any], family: Family, n_features: int
) -> Autoregression | None:
    """The weights of a file, or None if it has none."""
    from dynpart.autoregression import Autoregression

    if not any(name in arrays for name in AUTOREGRESSION):
        return None
    row, column, weight, centre = (arrays.get(name, np.empty(0)) for name in AUTOREGRESSION)
    sound = (
        (family.is_binary or family.is_normal)
        and row.dtype == column.dtype == np.int64
        and weight.dtype == centre.dtype == np.float64
        and row.ndim == 1
        and row.shape == column.shape == weight.shape
        and centre.shape == (n_features,)
        and ((column >= 0) & (column < row) & (row < n_features)).all()
        and (np.diff(row * n_features + column) > 0).all()
        and all((np.abs(part) <= LARGEST).all() for part in (weight, centre))
    )
    if not sound:
        raise ModelFileError(f"{path} holds weights of earlier values that cannot be")
    weights = np.zeros((n_features, n_features))
    weights[row, column] = weight
    return Autoregression(weights, centre)
