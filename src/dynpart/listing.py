"""Listing: rows for readers: their labels, order and selection; does not know models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def row_labels(X: Any, labels: Sequence[str] | None, n_rows: int) -> list[str]:
    """Names of rows: as given, from the index of a data frame, or their numbers if empty."""
    if labels is not None:
        if len(labels) != n_rows:
            raise ValueError(f"labels must have one entry per row ({n_rows}), got {len(labels)}")
        return [str(label).strip() or f"row {n}" for n, label in enumerate(labels)]
    index = getattr(X, "index", None)
    if index is not None and len(index) == n_rows and not callable(index):
        return [str(label).strip() or f"row {n}" for n, label in enumerate(index)]
    return [f"row {n}" for n in range(n_rows)]


def listed_labels(labels: Sequence[str]) -> str:
    """Labels of rows in a line: parted by semicolons if one of them has a comma."""
    return ("; " if any("," in label for label in labels) else ", ").join(labels)


def rows_by_type(codes: NDArray[Any], types: NDArray[np.integer]) -> NDArray[np.intp]:
    """Rows by their type, frequent types first; within one, equal codes together.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_experts)
    types : ndarray of shape (n_rows,)
        A number for each row.
    """
    busiest = np.argsort(-codes.sum(axis=0, dtype=int), kind="stable")
    place = np.argsort(np.argsort(-np.bincount(types), kind="stable"))[types]
    return np.lexsort([*(1 - codes[:, k].astype(int) for k in busiest[::-1]), place])


def taken(X: Any, rows: Any) -> Any:
    """These rows of a data frame or array, or of a list as an array."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]
