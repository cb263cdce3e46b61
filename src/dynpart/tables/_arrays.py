"""Tables as arrays: .npy and .npz."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.formats import MOST_BYTES, read_npz
from dynpart.tables._columns import check_not_infinite, checked_names
from dynpart.tables._table import Table, TableError, compact, images_as_rows
from dynpart.tables.limits import MOST_VALUES, check_room


def read_npy(path: Path, binary: bool | None) -> Table:
    """Read an array as a memory map."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy evaluates the header as a Python literal
        raise TableError(f"{path} is not a readable .npy file: {error}") from error
    return as_table(path, array, binary)


def read_npz_table(path: Path, name: str | None, binary: bool | None) -> Table:
    """Read one array of an archive: the one called `name`, or the only one with rows."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {i.filename.removesuffix(".npy"): i.file_size for i in archive.infolist()}
            members = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise TableError(f"{path} is not a readable .npz file: {error}") from error
    names = None
    if name is None and {"values", "names"} <= set(members):
        name = "values"  # as written by write_table
        names = _npz_array(path, "names")
    name = chosen_array(path, name, members)
    check_room(2 * min(sizes[name], MOST_BYTES), f"reading array {name!r} of {path}")
    return as_table(path, _npz_array(path, name), binary, names)


def _npz_array(path: Path, name: str) -> NDArray[Any]:
    try:
        return read_npz(path, [name])[name]
    except Exception as error:  # zipfile and numpy raise errors of many kinds
        raise TableError(str(error)) from error


def as_table(
    path: Path, array: NDArray[Any], binary: bool | None, names: NDArray[Any] | None = None
) -> Table:
    """Rows from an array of two dimensions, or images from one of three."""
    check_shape(path, array.shape)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TableError(f"{path} must hold numbers, got the type {array.dtype}")
    rows = array.reshape(len(array), -1)
    called = None if names is None else _column_names(path, names, rows.shape[1])
    check_not_infinite(path, rows, called)
    if array.ndim == 2:
        return Table(compact(array), called)
    shape = (array.shape[1], array.shape[2])
    if array.dtype == np.uint8 and array.max() > 1:
        rows, remarks = images_as_rows(array, binary)
        return Table(rows, called, image_shape=shape, remarks=remarks)
    return Table(compact(rows), called, image_shape=shape)


def check_shape(path: Path, shape: tuple[int, ...]) -> None:
    """Reject a shape that is neither a table nor a set of images, or too large."""
    if len(shape) not in (2, 3) or 0 in shape:
        raise TableError(
            f"{path} must hold an array (rows, variables) or (images, height, width), got the "
            f"shape {shape}"
        )
    if math.prod(shape) > MOST_VALUES:
        raise TableError(f"{path} holds an array of shape {shape}: too large")


def _column_names(path: Path, names: NDArray[Any], n_features: int) -> tuple[str, ...]:
    if names.dtype.kind != "U" or names.shape != (n_features,):
        raise TableError(f"{path} must hold {n_features} names of text")
    checked_names(path, names.tolist())
    return tuple(names.tolist())


def chosen_array(path: Path, name: str | None, members: list[str]) -> str:
    """The array to read, which must be named if there are several."""
    listed = ", ".join(members[:8])
    if name is not None:
        if name not in members:
            raise TableError(f"{path} has no array {name!r}; it holds: {listed}")
        return name
    if len(members) != 1:
        raise TableError(f"{path} holds {len(members)} arrays ({listed}); choose with --array NAME")
    return members[0]
