"""Containers: numbers returned as the user's type of table, with level names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_sparse, is_tensor, like
from dynpart.coding import level_name
from dynpart.schema import Ranges, Schema

# ------------------------------------------------------------------------------- new tables


FLAGS = {"False": False, "True": True, "0": False, "1": True}
"""Booleans by the names of their levels; numbers if the column has gaps."""
REDRAWN = 10
"""Maximum number of times that numbers out of range are drawn again."""


def built(table: NDArray[Any], schema: Schema, *, means: bool = False) -> Any:
    """Rows of numbers as a table of the type that the model was fitted to.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_features)
        Indices of levels where a variable has levels.
    schema : Schema
        Its container is the type of table; None means an array, of numbers if levels are numbers.
    means : bool, default=False
        Whether numbers are expectations, which need not be integers. A binary variable with levels
        gets the likelier level then.

    Returns
    -------
    DataFrame of pandas or polars, structured array, array of objects, or `table` itself

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.containers import built
    >>> from dynpart.schema import Schema
    >>> schema = Schema(("categorical", "real"), levels=(("a", "b"), None), container="objects")
    >>> built(np.array([[1.0, 2.5]]), schema)
    array([['b', 2.5]], dtype=object)
    """
    if schema.container is None and not _has_text(schema):
        return _as_numbers(table, schema)
    columns = [_column(table[:, d], schema, d, means) for d in range(len(schema))]
    names = schema.labels()
    if schema.container == "pandas":
        return _built_pandas(columns, names, schema)
    if schema.container == "polars":
        return _built_polars(columns, names, schema)
    if schema.container == "structured":
        columns = [c.astype(str) if c.dtype.kind == "O" else c for c in columns]
        out = np.empty(
            len(table), [(name, c.dtype) for name, c in zip(names, columns, strict=True)]
        )
        for name, column in zip(names, columns, strict=True):
            out[name] = column
        return out
    if schema.levels is None:
        return table
    rows = np.empty(table.shape, dtype=object)
    for d, column in enumerate(columns):
        rows[:, d] = column.tolist()
    return rows


def within(
    ranges: Ranges, table: NDArray[Any], again: Callable[[], NDArray[Any]] | None = None
) -> NDArray[Any]:
    """Numbers within the observed range of each variable, rounded if it held integers only.

    Parameters
    ----------
    ranges : tuple of (Range or None)
        None for variables that may have any value.
    table : ndarray of shape (n_rows, n_features)
    again : callable, default=None
        Draws another such table, which replaces values out of range, up to a few times. Remaining
        values are moved to the limit.

    Returns
    -------
    ndarray of shape (n_rows, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.containers import within
    >>> from dynpart.schema import Range
    >>> within((Range(0.0, 5.0, True), None), np.array([[-0.2, 7.1], [3.4, -2.0]]))
    array([[ 0. ,  7.1],
           [ 3. , -2. ]])
    """
    low = np.array([-np.inf if one is None else one.low for one in ranges])
    high = np.array([np.inf if one is None else one.high for one in ranges])
    whole = np.array([one is not None and one.whole for one in ranges])
    table = np.where(whole, np.round(table), table)
    for _ in range(REDRAWN if again is not None else 0):
        outside = (table < low) | (table > high)
        if again is None or not outside.any():
            break
        new = again()
        table = np.where(outside, np.where(whole, np.round(new), new), table)
    # Adding 0 turns minus zero into zero.
    return np.clip(table, low, high) + 0.0


def _has_text(schema: Schema) -> bool:
    """Whether levels of some variable are texts."""
    dtypes = schema.dtypes or ("text",) * len(schema)
    return any(schema.levels_of(d) and dtypes[d] == "text" for d in range(len(schema)))


def _column(numbers: NDArray[Any], schema: Schema, d: int, means: bool) -> NDArray[Any]:
    """Values of a variable as they were stored."""
    levels, dtype = schema.levels_of(d), schema.dtypes[d] if schema.dtypes else "float"
    if levels is not None:
        values = _level_values(levels, dtype)
        return values[np.clip(np.round(numbers), 0, len(levels) - 1).astype(np.intp)]
    numbers = np.asarray(numbers, dtype=np.float64)
    if means or dtype == "float" or not _is_whole(numbers):
        return numbers
    return numbers.astype(np.bool_ if dtype == "bool" else np.int64)


def _level_values(levels: tuple[str, ...], dtype: str) -> NDArray[Any]:
    """Levels as values of the type that they had."""
    base = dtype.rpartition(":")[2]
    try:
        if base == "bool":
            return np.array([FLAGS[level] for level in levels])
        if base in ("int", "float"):
            return np.array([float(level) for level in levels]).astype(
                np.int64 if base == "int" else np.float64
            )
    except (KeyError, ValueError):
        pass  # levels with names set by the user
    return np.array(levels, dtype=object)  # NumPy's str type drops trailing zero bytes


def _built_pandas(columns: list[NDArray[Any]], names: list[str], schema: Schema) -> Any:
    import pandas as pd

    series: dict[str, Any] = {}
    for d, (name, column) in enumerate(zip(names, columns, strict=True)):
        dtype, levels = schema.dtypes[d] if schema.dtypes else "", schema.levels_of(d)
        series[name] = column
        if levels is not None and ":" in dtype:
            kept = _level_values(levels, dtype)
            series[name] = pd.Categorical(column, kept, ordered=dtype.startswith("ordered"))
        elif schema.special and _fits(column, schema.special[d]):
            series[name] = pd.Series(column).astype(schema.special[d])
    return pd.DataFrame(series, columns=names)


def _fits(column: NDArray[Any], special: str) -> bool:
    """Whether a column of pandas of this special type can hold these values."""
    name, kind = special.lower(), column.dtype.kind
    if "int" in name:
        limits = np.iinfo(name)
        return kind in "iu" and bool(((column >= limits.min) & (column <= limits.max)).all())
    wanted = {"boolean": "b", "string": "O"}.get(name, "f")
    return bool(special) and kind == wanted


def _built_polars(columns: list[NDArray[Any]], names: list[str], schema: Schema) -> Any:
    import polars as pl

    out = []
    for d, (name, column) in enumerate(zip(names, columns, strict=True)):
        dtype, levels = schema.dtypes[d] if schema.dtypes else "", schema.levels_of(d)
        series = pl.Series(name, column.tolist() if column.dtype.kind == "O" else column)
        if levels is not None and dtype == "ordered:text":
            series = series.cast(pl.Enum(list(levels)))
        elif levels is not None and dtype == "category:text":
            series = series.cast(pl.Categorical)
        out.append(series)
    return pl.DataFrame(out)


# ----------------------------------------------------------------------------- filled tables


def filled(
    X: Any, values: NDArray[np.float64], gaps: NDArray[np.bool_], schema: Schema | None = None
) -> Any:
    """A copy of a table in which gaps have these values; other values do not change.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
        Of pandas, polars, NumPy, SciPy or torch; a masked or structured array; a list of lists
        becomes an array.
    values : ndarray of shape (n_rows, n_features)
        Indices of levels where a variable has levels.
    gaps : ndarray of shape (n_rows, n_features)
        Which values were not observed.
    schema : Schema, default=None
        Names the levels.

    Returns
    -------
    Table of the same type. Integer columns keep their type if all new values are integers.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.containers import filled
    >>> filled(np.array([[1.0, np.nan]]), np.array([[9.0, 2.0]]), np.array([[False, True]]))
    array([[1., 2.]])
    """
    if is_sparse(X):
        return _filled_sparse(X, values, gaps)
    if hasattr(X, "get_columns"):
        return _filled_polars(X, values, gaps, schema)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return _filled_pandas(X, values, gaps, schema)
    if is_tensor(X):
        out = X.clone()
        new = values if schema is None else _as_numbers(values, schema)
        out[like(gaps, X)] = like(new[gaps], X).to(X.dtype)
        return out
    if getattr(getattr(X, "dtype", None), "names", None) is not None:
        return _filled_structured(X, values, gaps, schema)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind != "O":
        new = values if schema is None else _as_numbers(values, schema)
        return np.ma.MaskedArray(_mixed(np.ma.getdata(X), new, gaps))
    known = np.asarray(X) if hasattr(X, "dtype") else _array(X)
    if known.dtype.kind in "OUS":
        return _filled_objects(known, values, gaps, schema)
    return _mixed(known, values if schema is None else _as_numbers(values, schema), gaps)


def _array(rows: Any) -> NDArray[Any]:
    """Rows of a list as an array: of numbers if possible, else of objects."""
    try:
        return np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array(rows, dtype=object)


def _as_numbers(values: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
    """Values in which indices of numeric levels are replaced by the levels."""
    out = values
    for d in range(len(schema)):
        levels = schema.levels_of(d)
        if levels is not None and schema.dtypes and schema.dtypes[d] in ("int", "float", "bool"):
            out = values.copy() if out is values else out
            out[:, d] = _column(values[:, d], schema, d, False)
    return out


def _fillings(values: NDArray[np.float64], gap: Any, schema: Schema, d: int) -> list[str]:
    """Names of the levels that are filled in."""
    levels = schema.levels_of(d) or ()
    return [levels[int(i)] for i in np.clip(np.round(values[gap, d]), 0, len(levels) - 1)]


def _mixed(known: NDArray, values: NDArray[np.float64], gaps: NDArray[np.bool_]) -> NDArray:
    """Known values, with new values in gaps, in the known type if it can represent all of them."""
    fits = known.dtype.kind == "f" or not gaps.any() or _is_whole(values[gaps])
    kind = known.dtype if fits and known.dtype.kind in "fiub" else np.dtype(np.float64)
    return np.where(gaps, values, np.where(gaps, 0, known).astype(kind)).astype(kind)


def _is_whole(values: NDArray[np.float64]) -> bool:
    return bool((values == np.round(values)).all())


def _filled_objects(
    known: NDArray[Any], values: NDArray[np.float64], gaps: NDArray[np.bool_], schema: Schema | None
) -> NDArray[Any]:
    """An array of objects or text: levels by name, Python numbers."""
    out = np.array(known, dtype=object)
    for d in np.flatnonzero(gaps.any(axis=0)):
        gap = gaps[:, d]
        levels = None if schema is None else schema.levels_of(int(d))
        if levels is not None and schema is not None:
            new: Any = _column(values[gap, d], schema, int(d), False).tolist()
        else:
            new = [
                int(v) if _holds_integers(out[~gap, d]) and v == int(v) else float(v)
                for v in values[gap, d]
            ]
        out[gap, d] = new
    if known.dtype.kind == "U":
        return out.astype(str)
    return (
        out if known.dtype.kind == "S" or (schema is not None and schema.levels) else _floats(out)
    )


def _floats(out: NDArray[Any]) -> NDArray[Any]:
    """Objects that are all numbers as floats."""
    try:
        return out.astype(np.float64)
    except (TypeError, ValueError):
        return out


def _holds_integers(column: NDArray[Any]) -> bool:
    return len(column) > 0 and all(isinstance(value, int | np.integer) for value in column)


def _filled_structured(
    X: Any, values: NDArray[np.float64], gaps: NDArray[np.bool_], schema: Schema | None
) -> Any:
    out = X.copy()
    for d, name in enumerate(X.dtype.names):
        gap = gaps[:, d]
        if gap.any():
            if schema is not None and schema.levels_of(d) is not None:
                out[name][gap] = _fillings(values, gap, schema, d)
            else:
                out[name][gap] = values[gap, d]
    return out


def _filled_sparse(X: Any, values: NDArray[np.float64], gaps: NDArray[np.bool_]) -> Any:
    """A stored NaN becomes a stored value; the format stays."""
    out = X.tocoo(copy=True)
    out.sum_duplicates()
    row, column = out.coords if hasattr(out, "coords") else (out.row, out.col)
    gap = gaps[row, column]
    out.data[gap] = values[row[gap], column[gap]]
    return out.asformat(X.format)


def _filled_pandas(
    X: Any, values: NDArray[np.float64], gaps: NDArray[np.bool_], schema: Schema | None
) -> Any:
    out = X.copy()
    for place in np.flatnonzero(gaps.any(axis=0)).tolist():
        column, gap = X.iloc[:, place], gaps[:, place]
        kind = column.dtype
        if schema is not None and schema.levels_of(place) is not None:
            out.isetitem(place, _filled_levels(column, values, gap, schema, place))
            continue
        known = column.to_numpy(dtype=np.float64, na_value=np.nan)
        new = np.where(gap, values[:, place], known)
        keep = kind.kind == "f" or (kind.kind in "iub" and _is_whole(new))
        series = column.__class__(new, index=column.index, name=column.name)
        out.isetitem(place, series.astype(kind) if keep else series)
    return out


def _filled_levels(
    column: Any, values: NDArray[np.float64], gap: NDArray[np.bool_], schema: Schema, d: int
) -> Any:
    """A column of pandas with levels in its gaps; categorical columns stay categorical."""
    new = column.copy()
    if hasattr(column, "cat"):
        categories = {level_name(category): category for category in column.cat.categories}
        named = _fillings(values, gap, schema, d)
        found = [categories.get(name, name) for name in named]
        more = [each for each in dict.fromkeys(found) if each not in set(categories.values())]
        new = new.cat.add_categories(more) if more else new
    else:
        found = _column(values[gap, d], schema, d, False).tolist()
        numeric = column.dtype.kind in "biuf"
        new = new if not numeric or column.dtype.kind == "f" else new.astype(object)
    new[gap] = found
    return new


def _filled_polars(
    X: Any, values: NDArray[np.float64], gaps: NDArray[np.bool_], schema: Schema | None
) -> Any:
    columns = X.get_columns()
    for place in np.flatnonzero(gaps.any(axis=0)).tolist():
        column, gap = columns[place], gaps[:, place]
        if schema is not None and schema.levels_of(place) is not None:
            columns[place] = _filled_polars_levels(column, values, gap, schema, place)
            continue
        flags = not column.dtype.is_numeric()
        numbers = (column.cast(int) if flags else column).cast(float).to_numpy()
        new = np.where(gap, values[:, place], numbers)
        series = column.__class__(column.name, new)
        if column.dtype.is_float() or _is_whole(new):
            series = series.cast(int).cast(column.dtype) if flags else series.cast(column.dtype)
        columns[place] = series
    return X.__class__(columns)


def _filled_polars_levels(
    column: Any, values: NDArray[np.float64], gap: NDArray[np.bool_], schema: Schema, d: int
) -> Any:
    import polars as pl

    kind = column.dtype
    text = kind == pl.String or str(kind).startswith(("Enum", "Categorical"))
    found = iter(
        _fillings(values, gap, schema, d)
        if text
        else _column(values[gap, d], schema, d, False).tolist()
    )
    cells = column.to_list()
    new = pl.Series(
        column.name,
        [next(found) if hole else cell for cell, hole in zip(cells, gap.tolist(), strict=True)],
    )
    if str(kind).startswith("Enum"):
        more = [level for level in new.unique().to_list() if level not in kind.categories]
        kind = pl.Enum([*kind.categories, *more])
    return new.cast(kind)
