"""Tables as arrays: .npy, .npz, .mat and .parquet."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.datasets._formats import read_mat, read_npz
from dynpart.tables._table import MOST_VALUES, Table, TableError, compact, images_as_rows

NUMERIC = {"double", "single", "logical"} | {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32)}


def read_npy(path: Path, binary: bool | None) -> Table:
    """Read an array; it stays on the disk and is read where it is looked at."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy evaluates the header as a Python literal
        raise TableError(f"{path} is not a readable .npy file: {error}") from error
    return as_table(path, array, binary)


def read_npz_table(path: Path, name: str | None, binary: bool | None) -> Table:
    """Read one array of an archive: the one called `name`, or the only one with rows."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise TableError(f"{path} is not a readable .npz file: {error}") from error
    names = None
    if name is None and {"values", "names"} <= set(members):
        name = "values"  # as write_table makes them
        names = _npz_array(path, "names")
    table = as_table(path, _npz_array(path, _chosen(path, name, members)), binary)
    if names is None:
        return table
    return Table(table.values, _checked_names(path, names, table.values.shape[1]))


def _npz_array(path: Path, name: str) -> NDArray[Any]:
    try:
        return read_npz(path, [name])[name]
    except Exception as error:  # zipfile and numpy raise errors of many kinds
        raise TableError(str(error)) from error


def _checked_names(path: Path, names: NDArray[Any], n_features: int) -> tuple[str, ...]:
    if names.dtype.kind != "U" or names.shape != (n_features,):
        raise TableError(f"{path} must hold {n_features} names of text")
    if len(set(names.tolist())) < n_features:
        raise TableError(f"{path} has two columns of the same name")
    return tuple(names.tolist())


def read_mat_table(path: Path, name: str | None, binary: bool | None) -> Table:
    """Read one array of a MATLAB file (up to version 7.2)."""
    from scipy.io import whosmat

    try:
        content = whosmat(str(path), appendmat=False)
    except NotImplementedError as error:
        raise TableError(f"{path} is a MATLAB file of version 7.3; save it with -v7") from error
    except Exception as error:  # a damaged file makes scipy raise errors of many kinds
        raise TableError(f"{path} is not a readable MATLAB file: {error}") from error
    shapes = {key: shape for key, shape, _ in content}
    numeric = [key for key, _, kind in content if kind in NUMERIC]
    chosen = _chosen(path, name, numeric)
    try:
        return as_table(path, read_mat(path, {chosen: shapes[chosen]})[chosen], binary)
    except TableError:
        raise
    except Exception as error:
        raise TableError(f"{path}: {error}") from error


def read_parquet(path: Path, drop: Collection[str]) -> Table:
    """Read the numeric columns of a Parquet file; a first column of text holds labels."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError(
            f"reading {path} needs pyarrow: pip install 'dynpart[tables]', or save it as .csv"
        ) from error
    try:
        shape = pq.read_metadata(path)
        if shape.num_rows * shape.num_columns > MOST_VALUES:
            raise TableError(f"{path} declares {shape.num_rows} rows of {shape.num_columns}")
        content = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise TableError(f"{path} is not a readable Parquet file: {error}") from error
    names = [str(name) for name in content.column_names]
    unknown = [name for name in drop if name not in names]
    if unknown:
        raise TableError(f"{path} has no column named {unknown[0]!r} to drop")
    kept = [i for i, name in enumerate(names) if name not in drop]
    labels = None
    if len(kept) > 1 and pa.types.is_large_unicode(_plain_type(content.schema.types[kept[0]], pa)):
        labels = tuple(str(label) for label in content.column(kept.pop(0)).to_pylist())
    columns = [_column(path, content.column(i), names[i], pa) for i in kept]
    if not columns or not len(columns[0]):
        raise TableError(f"{path} has no column of numbers")
    chosen = tuple(names[i] for i in kept)
    if len(set(chosen)) < len(chosen):
        raise TableError(f"{path} has two columns of the same name")
    values = np.column_stack(columns)
    if not np.isfinite(values).all():
        raise TableError(f"{path} holds values that are not finite; fill or leave out their rows")
    return Table(compact(values), chosen, labels)


def _plain_type(kind: Any, pa: Any) -> Any:
    """One type for all sorts of text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if pa.types.is_string(kind) else kind


def _column(path: Path, column: Any, name: str, pa: Any) -> NDArray[np.float64]:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise TableError(f"{path}: column {name!r} holds {kind}, not numbers; --drop it?")
    if column.null_count:
        raise TableError(f"{path}: column {name!r} has missing values; fill or leave out the rows")
    return np.asarray(column.to_numpy(), dtype=np.float64)


def as_table(path: Path, array: NDArray[Any], binary: bool | None) -> Table:
    """Rows from an array of two dimensions, or images from one of three."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TableError(f"{path} must hold numbers, got the type {array.dtype}")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise TableError(
            f"{path} must hold an array (rows, variables) or (images, height, width), got the "
            f"shape {array.shape}"
        )
    if math.prod(array.shape) > MOST_VALUES:
        raise TableError(f"{path} holds an array of shape {array.shape}: too large")
    if array.ndim == 2:
        return Table(compact(array))
    height, width = array.shape[1:]
    if array.dtype == np.uint8:
        rows, remark = images_as_rows(array, binary)
        return Table(rows, image_shape=(height, width), remark=remark)
    return Table(compact(array.reshape(len(array), -1)), image_shape=(height, width))


def _chosen(path: Path, name: str | None, members: list[str]) -> str:
    """The array to read, which must be named if there are several."""
    listed = ", ".join(members[:8])
    if name is not None:
        if name not in members:
            raise TableError(f"{path} has no array {name!r}; it holds: {listed}")
        return name
    if len(members) != 1:
        raise TableError(f"{path} holds {len(members)} arrays ({listed}); choose with --array NAME")
    return members[0]
