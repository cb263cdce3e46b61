"""Formulas for NumPy arrays and for torch tensors, whose rows may be on a GPU.

Torch accepts NumPy's names for the functions used here (``axis``, ``clip``, ``amax``), so formulas
are written once, with the namespace of their arrays. This module never imports torch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_VALUES = 1 << 21
"""Default number of values of a block."""
REMOTE_VALUES = 1 << 26
"""The same on a GPU, where a block costs more than its values do."""
STIRLING = (
    -3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12,
)  # fmt: skip
"""Coefficients of Stirling's series for log gamma, those of the highest powers first."""
HALF_LOG_2_PI = 0.5 * float(np.log(2 * np.pi))


def is_tensor(array: Any) -> bool:
    """Whether `array` is a torch tensor; never imports torch.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.arrays import is_tensor
    >>> is_tensor(np.zeros(3))
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_remote(array: Any) -> bool:
    """Whether `array` is a torch tensor in GPU memory."""
    return is_tensor(array) and array.device.type != "cpu"


def is_sparse(array: Any) -> bool:
    """Whether `array` is a sparse matrix or array of SciPy; never imports SciPy.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.arrays import is_sparse
    >>> from scipy.sparse import csr_array
    >>> is_sparse(csr_array((2, 2))), is_sparse(np.zeros((2, 2)))
    (True, False)
    """
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(array))


def namespace(array: Any) -> Any:
    """The module whose functions work on this array: ``numpy`` or ``torch``."""
    return sys.modules["torch"] if is_tensor(array) else np


def like(array: Any, reference: Any) -> Any:
    """The same numbers as the type of array that `reference` is, on its device."""
    if is_tensor(reference):
        return sys.modules["torch"].as_tensor(array, device=reference.device)
    return to_numpy(array)


def to_numpy(array: Any) -> NDArray:
    """The same numbers as a NumPy array."""
    return array.detach().cpu().numpy() if is_tensor(array) else np.asarray(array)


def copied(array: Any) -> Any:
    """A copy that may be written to."""
    return array.clone() if is_tensor(array) else array.copy()


def in_rows(array: Any) -> Any:
    """The same numbers in row-major (C) order."""
    return array.contiguous() if is_tensor(array) else np.ascontiguousarray(array)


def as_float64(array: Any) -> Any:
    """The same numbers in double precision, as the same type of array."""
    return array.double() if is_tensor(array) else np.asarray(array, dtype=np.float64)


def in_order(array: Any) -> Any:
    """The same numbers, sorted in ascending order along the first axis."""
    return array.sort(dim=0).values if is_tensor(array) else np.sort(array, axis=0)


def stable_order(array: Any) -> Any:
    """Indices of a stable ascending sort of numbers, shape (n,)."""
    return array.argsort(stable=True) if is_tensor(array) else np.argsort(array, kind="stable")


def take_along(array: Any, index: Any) -> Any:
    """The numbers at these places of every row of `array`, in the shape of `index`.

    Parameters
    ----------
    array : array of shape (n_rows, n_places)
    index : array of shape (n_rows, n_taken), integers
    """
    return array.gather(1, index) if is_tensor(array) else np.take_along_axis(array, index, axis=1)


def put_along(values: Any, index: Any, n_places: int) -> Any:
    """The values of every row at these places, no two at the same; zeros elsewhere.

    Parameters
    ----------
    values : array of shape (n_rows, n)
    index : array of shape (n_rows, n), integers
    n_places : int

    Returns
    -------
    array of shape (n_rows, n_places)
    """
    if is_tensor(values):
        return values.new_zeros((len(values), n_places)).scatter_(1, index, values)
    found = np.zeros((len(values), n_places))
    np.put_along_axis(found, index, values, axis=1)
    return found


def sums_by_place(values: Any, place: Any) -> Any:
    """Sums of the values of each row that are assigned to each place, in the shape of `values`.

    The order of summation is fixed, on a GPU too.

    Parameters
    ----------
    values : array of shape (n_rows, n)
    place : array of shape (n_rows, n), integers from 0 to n - 1

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.arrays import sums_by_place
    >>> sums_by_place(np.array([[1.0, 2.0, 4.0]]), np.array([[0, 2, 2]]))
    array([[1., 0., 6.]])
    """
    n_rows, n = values.shape
    if is_tensor(values):
        apart = values.new_zeros((n_rows, n, n))
        return apart.scatter_(2, place[:, :, None], values[:, :, None]).sum(dim=1)
    flat = (np.arange(n_rows)[:, None] * n + place).ravel()
    return np.bincount(flat, values.ravel(), values.size).reshape(values.shape)


def log_gamma(array: Any) -> Any:
    """Logarithm of the gamma function of positive numbers; infinite for zero.

    For arrays by Stirling's series, from 8 on; smaller numbers are moved there by the recurrence.
    Importing SciPy's function takes longer than a small fit does without it.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.arrays import log_gamma
    >>> log_gamma(np.array([0.5, 5.0])).round(6)
    array([0.572365, 3.178054])
    """
    if is_tensor(array):
        return namespace(array).lgamma(array)
    x: NDArray[np.float64] = np.asarray(array, dtype=np.float64)
    small = x < len(STIRLING)
    moved, product = np.where(small, x + len(STIRLING), x), np.ones(x.shape)
    for step in range(len(STIRLING)):
        product *= np.where(small, x + step, 1.0)
    inverse, series = 1 / moved, np.zeros(x.shape)
    for coefficient in STIRLING:
        series = series * inverse**2 + coefficient
    with np.errstate(divide="ignore"):
        excess = np.log(product)
    return (moved - 0.5) * np.log(moved) - moved + HALF_LOG_2_PI + series * inverse - excess


def is_observed(array: Any) -> Any:
    """Which values of an array are observed: those that are not NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.arrays import is_observed
    >>> is_observed(np.array([1.0, np.nan]))
    array([ True, False])
    """
    return ~namespace(array).isnan(array)


def first_true(mask: Any) -> tuple[int, int] | None:
    """Row and column of the first True of a table, row by row, or None."""
    if not mask.any():
        return None
    row, column = np.argwhere(to_numpy(mask))[0]
    return int(row), int(column)


def place(row: int, column: int, columns: Any = None) -> str:
    """A place in a table for messages, with the name of the column if it has one.

    Examples
    --------
    >>> from dynpart.arrays import place
    >>> place(3, 1), place(3, 1, ["height", "weight"])
    ('row 3, column 1 (counted from 0)', "row 3 (counted from 0), column 'weight'")
    """
    if columns is None or _is_index(columns[column]):
        column = column if columns is None else columns[column]
        return f"row {row}, column {column} (counted from 0)"
    return f"row {row} (counted from 0), {column_words(column, columns)}"


def column_words(column: int, columns: Any = None) -> str:
    """A column for messages, by name if it has one."""
    if columns is None or _is_index(columns[column]):
        column = column if columns is None else columns[column]
        return f"column {column} (counted from 0)"
    return f"column {str(columns[column])!r}"


def _is_index(name: Any) -> bool:
    """Whether the name of a column is its index in a larger table."""
    return isinstance(name, np.integer)


def block_values(array: Any) -> int:
    """Values of a block, for :func:`row_blocks`, where `array` is: on a GPU or not."""
    return REMOTE_VALUES if is_remote(array) else BLOCK_VALUES


def row_blocks(n_rows: int, row_size: int, *, values: int = BLOCK_VALUES) -> Iterator[slice]:
    """Slices that cut `n_rows` rows into blocks of about `values` numbers each."""
    step = max(1, values // max(1, row_size))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
