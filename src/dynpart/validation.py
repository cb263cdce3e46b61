"""Checks of what users hand in, with errors that name the argument and what is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from dynpart.arrays import namespace, to_numpy
from dynpart.families import ColumnMoments, column_moments


def check_limits(n_experts: int, *, n_active: int | None, max_active: int | None) -> None:
    """Raise ValueError if more experts are asked active than exist, or in two ways at once."""
    if n_active is not None and max_active is not None:
        raise ValueError(
            "n_active and max_active exclude each other, got "
            f"n_active={n_active} and max_active={max_active}"
        )
    for name, value in (("n_active", n_active), ("max_active", max_active)):
        if value is not None and value > n_experts:
            raise ValueError(f"{name} must be at most n_experts={n_experts}, got {name}={value}")


def check_codes(H: ArrayLike, n_experts: int) -> NDArray[np.bool_]:
    """Binary codes as booleans, shape (n_rows, n_experts), with someone active in every row."""
    codes: NDArray = check_array(to_numpy(H), dtype=None, input_name="H")
    if codes.shape[1] != n_experts:
        raise ValueError(f"H must have one column per expert ({n_experts}), found {codes.shape[1]}")
    wrong = ~np.isin(codes, (0, 1))
    if wrong.any():
        raise ValueError(f"H must hold only 0 and 1, found {codes[wrong][0]!r}")
    active = codes.astype(bool)
    empty = np.flatnonzero(~active.any(axis=1))
    if len(empty):
        raise ValueError(f"H must have an active expert in every row, found none in row {empty[0]}")
    return active


def checked_tensor(X: Any) -> Any:
    """A torch tensor as the engine works on it, in one of the types it knows, or ValueError."""
    torch = namespace(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns, got a tensor of {X.ndim} axes")
    if 0 in X.shape:
        raise ValueError(f"X must have at least one row and one column, got {tuple(X.shape)}")
    if X.is_complex() or X.is_sparse:
        raise ValueError("X must be a dense tensor of real numbers")
    X = X.detach()
    if X.dtype not in (torch.float64, torch.float32, torch.uint8, torch.bool):
        X = X.to(torch.float32 if X.is_floating_point() else torch.float64)
    if X.is_floating_point() and not torch.isfinite(X).all():
        raise ValueError("X contains NaN or infinity")
    return X.contiguous()


def check_width(X: Any, n_features: int) -> None:
    """Raise ValueError unless `X`, which need not be computed for that, has so many columns."""
    if X.shape[-1] != n_features:
        raise ValueError(f"X has {X.shape[-1]} features, but the model expects {n_features}")


def checked_moments(X: NDArray) -> ColumnMoments:
    """Column moments, or ValueError where squares of the values overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        return check_moments(column_moments(X))


def check_moments(moments: ColumnMoments) -> ColumnMoments:
    """The moments themselves, or ValueError where squares of the values overflow."""
    overflow = np.flatnonzero(~np.isfinite(to_numpy(moments.variance)))
    if len(overflow):
        raise ValueError(f"X holds values too large to square (column {overflow[0]}); rescale it")
    return moments
