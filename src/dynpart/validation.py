"""Checks of arguments, with errors that name the argument and the accepted values.

Rows and columns are counted from 0, and messages say so.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart.arrays import (
    column_words,
    first_true,
    is_remote,
    is_tensor,
    like,
    namespace,
    place,
    row_blocks,
    to_numpy,
)
from dynpart.families import ColumnMoments, column_moments
from dynpart.rows import Rows

Names = Sequence[Any] | NDArray | None
"""Names of columns, if the input has names."""

LARGEST = 2**53
"""Largest integer up to which double precision represents all integers."""
LARGEST_VARIANCE, SMALLEST_VARIANCE = 1e300, 1e-280
"""Maximum variance of a column, and minimum of the largest variance unless all are constant."""
DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


# ------------------------------------------------------------------------------- parameters


def check_limits(n_experts: int | str, *, n_active: int | None, max_active: int | None) -> None:
    """Raise ValueError if the limit exceeds the number of experts, or if both limits are set.

    With ``n_experts="auto"``, the chosen number is at least the limit.
    """
    if n_active is not None and max_active is not None:
        raise ValueError(
            "n_active and max_active exclude each other, got "
            f"n_active={n_active} and max_active={max_active}"
        )
    for name, value in (("n_active", n_active), ("max_active", max_active)):
        if value is not None and not isinstance(n_experts, str) and value > n_experts:
            raise ValueError(f"{name} must be at most n_experts={n_experts}, got {name}={value}")


def check_count(name: str, value: Any) -> None:
    """Raise ValueError unless the argument is an integer of at least one."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def check_fitted_number(n_experts: int | str, n_fitted: int) -> None:
    """Raise ValueError if the number of experts was changed after the fit."""
    if n_experts not in (n_fitted, "auto"):
        raise ValueError(
            f"n_experts={n_experts} was set after {n_fitted} experts were learnt: fit the model "
            f"again, or set n_experts={n_fitted} again"
        )


def check_fitted(model: Any) -> None:
    """Raise scikit-learn's NotFittedError unless the model was fitted or loaded."""
    if not hasattr(model, "means_"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model, "means_")


def random_generator(random_state: Any) -> np.random.RandomState:
    """The result of :func:`sklearn.utils.check_random_state`, without importing scikit-learn."""
    if random_state is None:
        return np.random.mtrand._rand  # NumPy's global generator, which np.random.seed sets
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if isinstance(random_state, Integral):
        return np.random.RandomState(int(random_state))
    from sklearn.utils import check_random_state

    return check_random_state(random_state)


# ----------------------------------------------------------------------------------- arrays

DTYPES = (np.float64, np.float32, np.uint8, np.bool_)
"""Number types that engines read unchanged; all others become float64."""


def checked_array(
    X: Any,
    *,
    dtype: Any = "numeric",
    order: Any = None,
    ensure_all_finite: bool = True,
    **checks: Any,
) -> NDArray:
    """The result, or error, of :func:`sklearn.utils.check_array`.

    scikit-learn is imported only for input that needs conversion or raises an error, because the
    import takes longer than encoding a small table.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
    dtype : tuple of types, "numeric" or None
        Accepted number types; others are converted to the first. None accepts all.
    order : {"C", "F"}, default=None
        Memory order of the result; by default that of the input.
    ensure_all_finite : bool
    **checks
        Other arguments of that function.

    Returns
    -------
    ndarray of shape (n_rows, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.validation import checked_array
    >>> X = np.eye(2)
    >>> checked_array(X) is X
    True
    """
    is_array = type(X) in (np.ndarray, np.memmap) and X.ndim == 2 and X.size
    is_plain = is_array and X.dtype.kind in "buif" and X.itemsize <= 8
    if is_plain and (not ensure_all_finite or X.dtype.kind != "f" or np.isfinite(X).all()):
        other = isinstance(dtype, tuple) and X.dtype not in dtype
        return np.asarray(X, dtype=dtype[0] if other else None, order=order)
    from sklearn.utils import check_array

    return check_array(X, dtype=dtype, order=order, ensure_all_finite=ensure_all_finite, **checks)


# ------------------------------------------------------------------------------------ codes


def check_with_autoregressive(amplitude: str | None, criterion: str) -> None:
    """Raise ValueError for parameters that cannot be combined with `autoregressive`."""
    if amplitude is not None:
        raise ValueError(
            f"amplitude={amplitude!r} and autoregressive cannot be combined: use amplitude=None or "
            "autoregressive=None"
        )
    if criterion != "likelihood":
        raise ValueError(
            f"criterion={criterion!r} and autoregressive cannot be combined: codes given earlier "
            "values are chosen by their likelihood; use criterion='likelihood'"
        )


def check_amplitudes(amplitudes: Any, n_rows: int, n_experts: int) -> NDArray[np.float64]:
    """Gains and offsets as numbers, or ValueError."""
    found = np.asarray(to_numpy(amplitudes))
    wanted = (n_rows, n_experts, 2)
    if found.dtype.kind not in "fiu" or found.shape != wanted:
        raise ValueError(
            f"amplitudes must be numbers of shape {wanted}, a gain and an offset for every row and "
            f"expert, got {found.dtype} of shape {found.shape}"
        )
    if not np.isfinite(found).all():
        raise ValueError("amplitudes must be finite, found NaN or infinity")
    return found.astype(np.float64)


def check_codes(H: ArrayLike, n_experts: int) -> NDArray[np.bool_]:
    """Binary codes as booleans, shape (n_rows, n_experts), with an active expert in every row."""
    codes = checked_array(to_numpy(H), dtype=None, input_name="H")
    if codes.shape[1] != n_experts:
        raise ValueError(f"H must have one column per expert ({n_experts}), found {codes.shape[1]}")
    wrong = first_true(~np.isin(codes, (0, 1)))
    if wrong is not None:
        value = codes[wrong]
        raise ValueError(f"H must hold only 0 and 1, found {plain(value)} in {place(*wrong)}")
    active = codes.astype(bool)
    empty = np.flatnonzero(~active.any(axis=1))
    if len(empty):
        raise ValueError(
            "H must have an active expert in every row, found none in row "
            f"{empty[0]} (counted from 0)"
        )
    return active


def codes_in_place(H: Any, n_experts: int) -> Any:
    """The same as the type of array that `H` is; codes on a GPU are checked there."""
    if is_remote(H) and H.ndim == 2 and H.shape[1] == n_experts:
        active = H != 0
        if bool((active == H).all() & active.any(dim=1).all()):
            return active
    return like(check_codes(H, n_experts), H)


# ------------------------------------------------------------------------------------- rows


def plain(value: Any) -> str:
    """A number as text, without the name of its type."""
    return repr(value.item() if hasattr(value, "item") else value)


def check_exact(X: Any, name: str = "X") -> None:
    """Raise ValueError if `X` holds dates, or integers that double precision would round.

    A lazy frame, which holds no values yet, is an error, too.

    Parameters
    ----------
    X : array-like or DataFrame
        The input before conversion to floats; masked values are ignored.
    name : str
        Its name in errors.
    """
    if type(X).__name__ == "LazyFrame":
        raise ValueError(
            f"{name} must be a table that is in memory, got a LazyFrame: read it first, with "
            f"{name}.collect()"
        )
    for column, values in _parts(X):
        if values.dtype.kind in "mM":
            raise ValueError(no_dates(name, column, values.dtype))
        if values.dtype.kind == "O":
            suspects = _suspects(values)
        elif values.dtype.kind in "iu" and values.size and _exceeds(values):
            suspects = zip(*np.nonzero(_beyond(values)), strict=True)
        else:
            continue
        for at in suspects:
            value = values[at]
            if isinstance(value, DATES):
                label = at[1] if column is None else column
                raise ValueError(no_dates(name, label, type(value).__name__))
            if not _is_exact(int(value)):
                where = place(*at) if column is None else place(at[0], 0, [column])
                raise ValueError(_rounded(name, value, where))


def _parts(X: Any) -> Iterator[tuple[Any, NDArray]]:
    """Arrays of a table: columns of a data frame with their names, or the whole table.

    Nulls are replaced by 0, because libraries convert integers with nulls to floats.
    """
    if hasattr(X, "get_columns"):
        for column in X.get_columns():
            whole = column.dtype.is_integer()
            yield column.name, (column.fill_null(0) if whole else column).to_numpy()
    elif is_pandas(X):
        for i, name in enumerate(X.columns):
            column = X.iloc[:, i]
            whole = column.dtype.kind in "iu"
            yield name, (column.fillna(0) if whole else column).to_numpy()
    elif isinstance(X, np.ma.MaskedArray):
        if X.ndim == 2:
            yield None, np.where(np.ma.getmaskarray(X), np.zeros((), X.dtype), X.data)
    elif is_tensor(X):
        if X.dtype == namespace(X).int64:
            yield None, to_numpy(X)
    elif hasattr(X, "__array__") or isinstance(X, list | tuple):
        try:
            # In a list with floats, NumPy would round integers before they can be checked.
            table = np.asarray(X, dtype=object if isinstance(X, list | tuple) else None)
        except (TypeError, ValueError):
            return  # not a table; scikit-learn raises the error
        if table.ndim == 2:
            yield None, table


def _suspects(values: NDArray) -> Iterator[tuple[int, ...]]:
    """Places of dates and of large integers among objects."""
    for i, value in enumerate(values.ravel().tolist()):
        large = isinstance(value, int | np.integer) and not -LARGEST <= value <= LARGEST
        if large or isinstance(value, DATES):
            yield tuple(int(index) for index in np.unravel_index(i, values.shape))


def _exceeds(values: NDArray) -> bool:
    return bool(int(values.max()) > LARGEST or int(values.min()) < -LARGEST)


def _beyond(values: NDArray) -> NDArray[np.bool_]:
    above = values > LARGEST
    return above if values.dtype.kind == "u" else above | (values < -LARGEST)


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _rounded(name: str, value: Any, where: str) -> str:
    return (
        f"{name} holds the integer {plain(value)} in {where}, which double precision would round: "
        "leave the column out if it only tells rows apart, or subtract a number from it"
    )


def no_dates(name: str, column: Any, kind: Any) -> str:
    """The message about dates."""
    words = "" if column is None else f" in column {column!r}"
    return (
        f"{name} holds dates or times{words} ({kind}), which are no measurements: turn them into "
        "numbers first, such as days since the first of them, or leave them out"
    )


def rows_have(n_rows: int) -> str:
    """A number of rows as the beginning of a sentence.

    Examples
    --------
    >>> from dynpart.validation import rows_have
    >>> rows_have(1), rows_have(3)
    ('1 row has', '3 rows have')
    """
    return "1 row has" if n_rows == 1 else f"{n_rows:,} rows have"


def check_finite(rows: Any, name: str = "X", columns: Names = None) -> None:
    """Raise ValueError if a value is infinite; NaN is a missing value."""
    xp = namespace(rows)
    if rows.dtype not in (xp.float64, xp.float32):
        return
    for block in row_blocks(*rows.shape):
        at = first_true(xp.isinf(rows[block]))
        if at is not None:
            where = place(block.start + at[0], at[1], columns)
            raise ValueError(_infinite(name, where))


def _infinite(name: str, where: str) -> str:
    return f"{name} contains infinity in {where}; a value that was not observed is NaN"


def check_stored(matrix: Any, columns: Names = None) -> None:
    """Raise ValueError if a CSR matrix stores infinity, or integers that would be rounded."""
    values = matrix.data

    def where(at: int) -> str:
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        return place(row, int(matrix.indices[at]), columns)

    if values.dtype.kind == "f":
        for at in np.flatnonzero(np.isinf(values))[:1].tolist():
            raise ValueError(_infinite("X", where(at)))
    elif values.dtype.kind in "iu" and values.size and _exceeds(values):
        for at in np.flatnonzero(_beyond(values)).tolist():
            if not _is_exact(int(values[at])):
                raise ValueError(_rounded("X", values[at], where(at)))


def without_masks(X: Any) -> Any:
    """The table with NaN for masked values and nulls of data frames, and dense columns.

    Parameters
    ----------
    X : array-like or DataFrame

    Returns
    -------
    `X` itself if it has no such values, else a table of the same type.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.validation import without_masks
    >>> without_masks(np.ma.masked_equal([[1, 2]], 2))
    array([[ 1., nan]])
    """
    if isinstance(X, np.ma.MaskedArray):
        if not np.ma.is_masked(X):
            return X.data
        kind = object if X.dtype.kind == "O" else np.float64
        X = np.ma.filled(X.astype(kind), np.nan)
    if hasattr(X, "get_columns"):
        return _polars_without_nulls(X)
    if is_pandas(X):
        return _pandas_without_nulls(X)
    if isinstance(X, np.ndarray):
        # pandas.NA among objects cannot be converted to a number.
        hidden = _nulls(X) if X.dtype.kind == "O" else np.False_
        return np.where(hidden, np.nan, X) if hidden.any() else X
    if not hasattr(X, "__array__") and isinstance(X, list | tuple) and _has_nulls(X):
        return [[np.nan if is_null(value) else value for value in row] for row in X]
    return X


def is_pandas(X: Any) -> bool:
    """Whether `X` is a data frame of pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _pandas_without_nulls(X: Any) -> Any:
    """Nullable columns of numbers become floats; columns of objects get NaN for nulls.

    Sparse columns become dense, because scikit-learn refuses tables of them.
    """
    filled = {}
    for i, dtype in enumerate(X.dtypes):
        if type(dtype).__name__ == "SparseDtype":
            filled[i] = X.iloc[:, i].to_numpy()
            continue
        knows_nulls = dtype.kind == "O" or not isinstance(dtype, np.dtype)
        if knows_nulls and (nulls := X.iloc[:, i].isna()).any():
            column = X.iloc[:, i]
            if dtype.kind in "biuf":
                filled[i] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                filled[i] = column.astype(object).where(~nulls, np.nan)
    if filled:
        X = X.copy(deep=False)
        for i, column in filled.items():
            X.isetitem(i, column)  # by index, because names may repeat
    return X


def _polars_without_nulls(X: Any) -> Any:
    with_nulls = [column.name for column in X.get_columns() if column.null_count()]
    if not with_nulls:
        return X
    numeric = [name for name in with_nulls if X[name].dtype.is_numeric() or X[name].dtype == bool]
    flags = [name for name in numeric if not X[name].dtype.is_numeric()]
    X = X.with_columns([X[name].cast(int) for name in flags])
    return X.with_columns([X[name].cast(float).fill_null(float("nan")) for name in numeric])


def is_null(value: Any) -> bool:
    """Whether a value is a null: None, pandas.NA, masked."""
    return value is None or type(value).__name__ in ("NAType", "MaskedConstant")


def _nulls(values: NDArray) -> NDArray[np.bool_]:
    """Mask of the nulls of an array of objects."""
    found = [is_null(value) for value in values.ravel()]
    return np.array(found, dtype=bool).reshape(values.shape)


def _has_nulls(X: Any) -> bool:
    return any(isinstance(row, list | tuple) and any(map(is_null, row)) for row in X)


def checked_weights(
    sample_weight: Any, n_rows: int, name: str = "sample_weight", *, part: bool = False
) -> Any:
    """Weights of rows as float64, shape (n_rows,), or ValueError.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,) or None
    n_rows : int
    name : str
    part : bool, default=False
        Whether these are a part of all rows, whose total weight may be 0.

    Returns
    -------
    ndarray or None
    """
    if sample_weight is None:
        return None
    try:
        given = to_numpy(without_masks(sample_weight))
        if given.dtype.kind == "c":
            raise TypeError
        weight = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers, one per row") from None
    if weight.shape != (n_rows,):
        raise ValueError(f"{name} must have shape ({n_rows},), one per row, got {weight.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        raise ValueError(
            f"{name} must be finite and at least 0, found {plain(weight[wrong[0]])} in row "
            f"{wrong[0]} (counted from 0)"
        )
    with np.errstate(over="ignore"):
        total = weight.sum()
    if total > LARGEST:
        raise ValueError(
            f"{name} must sum to at most 2^53, found {total:.3g}: divide all of them by the "
            "same number"
        )
    if n_rows and not part and not weight.any():
        raise ValueError(f"{name} must not be zero in every row")
    return weight


def checked_tensor(X: Any) -> Any:
    """A torch tensor in a type that the engine supports, or ValueError."""
    torch = namespace(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns, got a tensor of {X.ndim} axes")
    if 0 in X.shape:
        raise ValueError(f"X must have at least one row and one column, got {tuple(X.shape)}")
    if X.is_complex() or X.is_sparse:
        raise ValueError("X must be a dense tensor of real numbers")
    X = X.detach()
    if X.dtype not in (torch.float64, torch.float32, torch.uint8, torch.bool):
        check_exact(X)
        X = X.to(torch.float32 if X.is_floating_point() else torch.float64)
    check_finite(X)
    return X.contiguous()


def check_width(X: Any, n_features: int) -> None:
    """Raise ValueError unless `X` has `n_features` columns; a lazy `X` is not computed."""
    if X.shape[-1] != n_features:
        raise ValueError(f"X has {X.shape[-1]} features, but the model expects {n_features}")


def checked_moments(
    rows: Rows, columns: Names = None, *, unseen_columns: bool = False
) -> ColumnMoments:
    """Column moments of rows of numbers, or ValueError if squares of the values overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        moments = column_moments(rows.values, rows.weight)
        return check_moments(moments, columns, unseen_columns=unseen_columns)


def check_moments(
    moments: ColumnMoments, columns: Names = None, *, unseen_columns: bool = False
) -> ColumnMoments:
    """The moments themselves, or ValueError.

    A column must have an observed value, unless that is allowed, and squares must stay within
    float64's range.
    """
    unseen = np.flatnonzero(to_numpy(moments.observed) == 0)
    if len(unseen) and not unseen_columns:
        raise ValueError(
            f"X has no observed value in {column_words(unseen[0], columns)}: leave the column out"
        )
    variance = to_numpy(moments.variance)
    overflow = np.flatnonzero(~(variance < LARGEST_VARIANCE))
    if len(overflow):
        raise ValueError(
            f"X holds values too large to square ({column_words(overflow[0], columns)}); rescale it"
        )
    widest = int(variance.argmax())
    if 0 < variance[widest] < SMALLEST_VARIANCE:
        raise ValueError(
            f"X holds differences too small to square ({column_words(widest, columns)} varies "
            f"most, its standard deviation is about {float(np.sqrt(variance[widest])):.1g} at "
            "most); rescale it"
        )
    return moments
