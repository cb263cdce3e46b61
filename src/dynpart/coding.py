"""Coding: users' tables as numbers and words, column by column, before kinds are assigned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import column_words, place
from dynpart.cells import Fields, is_missing
from dynpart.schema import SPECIAL
from dynpart.validation import DATES, is_null, is_pandas, no_dates


@dataclass(frozen=True, eq=False)
class Coded:
    """A table of numbers, in which some columns are indices of words.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        Numbers; the index of a word in columns of words; NaN for missing values.
    words : tuple of (tuple of str or None)
        The words of each column in their order; None for a column of numbers.
    dtypes : tuple of str
        How values were stored, one of :data:`dynpart.schema.DTYPES` per column.
    names : tuple of str or None
    container : str or None
        One of :data:`dynpart.schema.CONTAINERS`; None for an array or a file.
    special : tuple of str
        Types of columns of pandas, as in :class:`dynpart.schema.Schema`; empty for other tables.
    """

    values: NDArray[Any]
    words: tuple[tuple[str, ...] | None, ...]
    dtypes: tuple[str, ...]
    names: tuple[str, ...] | None = None
    container: str | None = None
    special: tuple[str, ...] = ()

    @classmethod
    def of_numbers(cls, values: NDArray[Any]) -> Coded:
        """A table of numbers alone."""
        n_features = values.shape[1]
        dtype = {"b": "bool", "i": "int", "u": "int"}.get(values.dtype.kind, "float")
        return cls(values, (None,) * n_features, (dtype,) * n_features)

    def without(self, gone: NDArray[np.bool_] | None) -> Coded:
        """The table with gaps in the rows that are `gone`; other rows keep their places."""
        if gone is None or not gone.any():
            return self
        kind = np.float32 if self.values.dtype.kind in "bu" else self.values.dtype
        return replace(self, values=np.where(gone[:, None], np.array(np.nan, kind), self.values))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.values.shape


class Column(NamedTuple):
    """A column: numbers or indices of words, the words, and the stored type of the values."""

    values: NDArray[Any]
    words: tuple[str, ...] | None
    dtype: str


def coded(X: Any) -> Coded | None:
    """A table whose columns have their own kinds; None for plain arrays of numbers.

    Parameters
    ----------
    X : object
        A data frame of pandas or polars that has names or columns that are not numbers, a
        structured array, an array or a list of rows with text in it, or a `Coded` itself.

    Returns
    -------
    Coded or None
        None for everything else, including objects that are not tables.

    Raises
    ------
    ValueError
        If a value is neither number nor text; it names row and column.

    Examples
    --------
    >>> from dynpart.coding import coded
    >>> table = coded([["cat", 4.5], ["dog", None]])
    >>> table.values
    array([[0. , 4.5],
           [1. , nan]])
    >>> table.words
    (('cat', 'dog'), None)
    """
    if isinstance(X, Coded):
        return X
    if hasattr(X, "get_columns"):
        columns = [_polars_column(column) for column in X.get_columns()]
        return _joined(columns, list(X.columns), "polars")
    if is_pandas(X):
        if not _is_named(X) and all(dtype.kind in "biuf" for dtype in X.dtypes):
            return None
        columns = [_pandas_column(X.iloc[:, i], i, name) for i, name in enumerate(X.columns)]
        table = _joined(columns, list(X.columns), "pandas")
        special = tuple(name if name in SPECIAL else "" for name in map(str, X.dtypes))
        return table if table is None else replace(table, special=special)
    names = getattr(getattr(X, "dtype", None), "names", None)
    if names is not None and getattr(X, "ndim", 0) == 1:
        columns = [_array_column(X[name], i, name) for i, name in enumerate(names)]
        return _joined(columns, list(names), "structured")
    cells = _cells(X)
    return None if cells is None else _joined(_columns_of(cells), None, "objects")


def _is_named(X: Any) -> bool:
    """Whether a data frame of pandas has names of text, which scikit-learn keeps."""
    return all(isinstance(name, str) for name in X.columns)


def _joined(columns: list[Column], names: list[Any] | None, container: str) -> Coded | None:
    if not columns:
        return None
    kinds = {column.values.dtype for column in columns}
    narrow = kinds <= {np.dtype(bool), np.dtype(np.uint8)}
    dtype = np.uint8 if narrow else np.float32 if kinds == {np.dtype(np.float32)} else np.float64
    values = np.empty((len(columns[0].values), len(columns)), dtype)
    for d, column in enumerate(columns):
        values[:, d] = column.values
    texts = names is not None and all(isinstance(name, str) for name in names)
    return Coded(
        values,
        tuple(column.words for column in columns),
        tuple(column.dtype for column in columns),
        tuple(map(str, names)) if texts and names is not None else None,
        container,
    )


# ------------------------------------------------------------------------------- data frames


def _pandas_column(column: Any, d: int, name: Any) -> Column:
    dtype = column.dtype
    if hasattr(dtype, "categories") and hasattr(column, "cat"):
        categories = list(column.cat.categories)
        codes = column.cat.codes.to_numpy().astype(np.float64)
        return _categories(codes, categories, ordered=bool(dtype.ordered), d=d, name=name)
    if dtype.kind in "biuf":
        if isinstance(dtype, np.dtype):
            return _numbers(column.to_numpy())
        if not column.isna().any():
            return _numbers(np.asarray(column.to_numpy(), dtype=_plain(dtype.kind)))
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return Column(values, None, _stored(dtype.kind))
    if dtype.kind in "mM" or hasattr(dtype, "freq") or hasattr(dtype, "tz"):
        raise ValueError(no_dates("X", name, dtype))
    try:
        codes, found = column.factorize()
    except TypeError:  # lists and other objects without a hash
        return _objects(column.tolist(), d, name)
    return _factorised(codes, list(found), d, name, column.tolist)


def _polars_column(column: Any) -> Column:
    dtype, name = column.dtype, column.name
    word = str(dtype)
    if dtype.is_temporal():
        raise ValueError(no_dates("X", name, dtype))
    if word == "Boolean" or dtype.is_numeric():
        flags = word == "Boolean"
        kind = "b" if flags else "i" if dtype.is_integer() else "f"
        if not column.null_count():
            return _numbers(np.asarray(column.to_numpy(), dtype=_plain(kind)))
        numbers = (column.cast(int) if flags else column).cast(float)
        return Column(numbers.fill_null(float("nan")).to_numpy(), None, _stored(kind))
    if word.startswith("Enum"):
        categories = dtype.categories.to_list()
        codes = column.to_physical().cast(float).fill_null(-1.0).to_numpy()
        return _categories(codes, categories, ordered=True, d=0, name=name)
    if word.startswith("Categorical"):
        categories = sorted(column.drop_nulls().unique().cast(str).to_list())
        index = {category: i for i, category in enumerate(categories)}
        codes = np.array([index.get(value, -1) for value in column.to_list()], dtype=np.float64)
        return _categories(codes, categories, ordered=False, d=0, name=name)
    return _objects(column.to_list(), 0, name)


def _categories(
    codes: NDArray[Any], categories: list[Any], *, ordered: bool, d: int, name: Any
) -> Column:
    """A column of categories; their order and number are kept."""
    for category in categories:
        if isinstance(category, DATES):
            raise ValueError(no_dates("X", name, type(category).__name__))
    names = [level_name(category) for category in categories]
    words = tuple(dict.fromkeys(names))
    merge = np.array([words.index(each) for each in names] or [0], dtype=np.float64)
    there = codes >= 0
    values = np.where(there, merge[np.where(there, codes, 0).astype(np.intp)], np.nan)
    base = _base([type(category) for category in categories])
    return Column(values, words, f"{'ordered' if ordered else 'category'}:{base}")


# ------------------------------------------------------------------------------- other tables


def _array_column(values: NDArray[Any], d: int, name: Any) -> Column:
    """A field of a structured array."""
    if values.ndim != 1:
        raise ValueError(f"X holds several values in each row of {_called(d, name)}")
    if values.dtype.kind in "biuf":
        return _numbers(values)
    if values.dtype.kind in "mM":
        raise ValueError(no_dates("X", name, values.dtype))
    return _objects(values.tolist(), d, name)


def _cells(X: Any) -> NDArray[Any] | None:
    """A table of objects that include text; None if there is no text or it is not a table."""
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "OUS":
            return None
        hidden = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
        cells = np.array(X, dtype=object)
        if hidden is not None:
            cells[hidden] = None
    elif isinstance(X, list | tuple) and X and all(isinstance(row, list | tuple) for row in X):
        if not any(isinstance(value, str) for row in X for value in row):
            return None
        widths = {len(row) for row in X}
        if len(widths) != 1:
            return None  # not a table; scikit-learn raises the error
        cells = np.empty((len(X), widths.pop()), dtype=object)
        for i, row in enumerate(X):
            cells[i] = row
    else:
        return None
    flat = cells.ravel()
    texts = sum(isinstance(value, str | bytes) for value in flat)
    others = [value for value in flat if not isinstance(value, str | bytes | Real | Decimal)]
    known = all(is_gap(value) or isinstance(value, DATES) for value in others)
    return cells if texts and known else None


def _columns_of(cells: NDArray[Any]) -> list[Column]:
    """Columns of a table of objects; if all cells are text, they are parsed as in a file."""
    for at, value in np.ndenumerate(cells):
        if isinstance(value, bytes):
            cells[at] = level_name(value)
    untyped = all(isinstance(value, str) or is_gap(value) for value in cells.ravel())
    read = _read_texts if untyped else _objects
    return [read(cells[:, d].tolist(), d, None) for d in range(cells.shape[1])]


def _read_texts(texts: list[Any], d: int, name: Any) -> Column:
    """A column of text, parsed as in a file: numbers if all cells are numbers or gaps."""
    fields = Fields(decimal_comma=False)
    numbers = [np.nan if is_gap(text) else fields.plain_value(text) for text in texts]
    if all(number is not None for number in numbers):
        return Column(np.array(numbers, dtype=np.float64), None, "float")
    gaps = (is_gap(text) or is_missing(text) for text in texts)
    return _objects([None if gap else t for gap, t in zip(gaps, texts, strict=True)], d, name)


def _objects(values: list[Any], d: int, name: Any) -> Column:
    """A column of Python objects."""
    places: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.intp)
    for row, value in enumerate(values):
        try:
            codes[row] = -1 if is_gap(value) else places.setdefault(value, len(places))
        except TypeError:
            raise ValueError(_no_value(value, row, d, name)) from None
    return _factorised(codes, list(places), d, name, lambda: values)


def _factorised(codes: NDArray[Any], found: list[Any], d: int, name: Any, values: Any) -> Column:
    """A column given by the distinct objects in it and their codes (-1 for a gap)."""
    for code, value in enumerate(found):
        if isinstance(value, DATES):
            raise ValueError(no_dates("X", d if name is None else name, type(value).__name__))
        if not isinstance(value, str | bytes | Real | Decimal | np.bool_):
            row = int(np.flatnonzero(codes == code)[0])
            raise ValueError(_no_value(value, row, d, name))
    there = codes >= 0
    at = np.where(there, codes, 0)
    if not any(isinstance(value, str | bytes) for value in found):
        numbers = np.array([float(value) for value in found] or [np.nan])
        base = _base([type(value) for value in _kept_types(found, values)]) if found else "float"
        return Column(np.where(there, numbers[at], np.nan), None, base)
    names = [level_name(value) for value in found]
    words = tuple(sorted(set(names), key=in_order(names)))
    index = {word: i for i, word in enumerate(words)}
    numbers = np.array([index[each] for each in names], dtype=np.float64)
    return Column(np.where(there, numbers[at], np.nan), words, "text")


def _kept_types(found: list[Any], values: Any) -> Iterable[Any]:
    """One value of each type; equal values of different types, such as True and 1, both count."""
    if set(map(type, found)) <= {bool, np.bool_}:
        return [value for value in values() if not is_gap(value)]
    return found


def is_gap(value: Any) -> bool:
    """Whether a value was not observed: None, NaN, NaT, pandas.NA."""
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, Decimal):
        return value.is_nan()
    return is_null(value) or type(value).__name__ == "NaTType"


def level_name(value: Any) -> str:
    """The name of a level: the text itself, or a number without a trailing ``.0``.

    Examples
    --------
    >>> from dynpart.coding import level_name
    >>> level_name("red"), level_name(2.0), level_name(2.5), level_name(True)
    ('red', '2', '2.5', 'True')
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Real | Decimal):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(value)


def in_order(words: Sequence[str]) -> Any:
    """The sort key of words: numeric if all of them are numbers, else text."""
    fields = Fields(decimal_comma=False)
    if all(fields.plain_number(word) is not None for word in words):
        return lambda word: (fields.plain_number(word), word)
    return lambda word: (word.casefold(), word)


def _base(types: Iterable[type]) -> str:
    """The common type of values: "bool", "int", "float" or "text"."""
    kinds = set(types)
    if kinds and all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return "bool"
    if kinds and all(issubclass(kind, int | np.integer) for kind in kinds):
        return "int"
    return "float" if all(issubclass(kind, Real | Decimal) for kind in kinds) else "text"


def _numbers(values: NDArray[Any]) -> Column:
    kind = values.dtype.kind
    if kind in "iu" and values.dtype != np.uint8:
        values = values.astype(np.float64)
    return Column(values, None, _stored(kind))


def _stored(kind: str) -> str:
    return {"b": "bool", "f": "float"}.get(kind, "int")


def _plain(kind: str) -> Any:
    return {"b": np.bool_, "f": np.float64}.get(kind, np.int64)


def _called(d: int, name: Any) -> str:
    return column_words(d, None) if name is None else f"column {name!r}"


def _no_value(value: Any, row: int, d: int, name: Any) -> str:
    where = place(row, d, None) if name is None else place(row, 0, [name])
    return (
        f"X holds a {type(value).__name__} in {where}, which is neither a number nor a text: "
        "leave the column out, or turn it into numbers or texts"
    )
