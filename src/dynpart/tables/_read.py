"""The one door for reading: chooses a reader by the file's ending, or by its first bytes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynpart.tables._arrays import read_mat_table, read_npy, read_npz_table, read_parquet
from dynpart.tables._images import read_folder, read_idx_table
from dynpart.tables._table import Table, TableError
from dynpart.tables._text import read_text

_STARTS = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"PAR1": ".parquet",
    b"MATLAB": ".mat",
    b"\x1f\x8b": ".gz",
    b"\0\0\x08\x03": ".idx",
}


def read_table(
    source: str | os.PathLike[str],
    *,
    array: str | None = None,
    drop: Collection[str] = (),
    size: tuple[int, int] | None = None,
    binary: bool | None = None,
) -> Table:
    r"""Read a table or images.

    Parameters
    ----------
    source : path-like or "-"
        A .csv, .tsv, .npy, .npz, .parquet or .mat file, an idx file (perhaps .gz), a folder of
        pictures, or "-" for standard input (any of these but a folder).
    array : str, default=None
        Name of the array in a .npz or .mat file that holds several.
    drop : collection of str, default=()
        Names of columns to leave out.
    size : tuple of int, default=None
        (height, width) to which pictures of a folder are resized.
    binary : bool, default=None
        Whether gray images become black and white; None decides by their look.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        If the content cannot be read as a table of finite numbers.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dynpart.tables import read_table
    >>> path = Path(tempfile.mkdtemp()) / "sites.csv"
    >>> _ = path.write_text("site,robin,wren\nwood,1,0\nmoor,0,1\n")
    >>> table = read_table(path)
    >>> table.names, table.labels, table.values.dtype
    (('robin', 'wren'), ('wood', 'moor'), dtype('uint8'))
    """
    if str(source) == "-":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "standard-input"
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            try:
                table = _read(path, array, drop, size, binary, kind=_kind_by_start(path))
            except TableError as error:
                raise TableError(str(error).replace(str(path), "standard input")) from error
            return replace(table, values=np.array(table.values))  # the file goes, the rows stay
    path = Path(source)
    if path.is_dir():
        return _by_columns(read_folder(path, size, binary), drop)
    path.stat()  # a missing file is reported as such
    return _read(path, array, drop, size, binary, kind=_kind_by_name(path))


def _read(
    path: Path,
    array: str | None,
    drop: Collection[str],
    size: tuple[int, int] | None,
    binary: bool | None,
    *,
    kind: str,
) -> Table:
    if kind in (".csv", ".txt", ".tsv"):
        return read_text(path, delimiter="\t" if kind == ".tsv" else None, drop=drop)
    if kind == ".parquet":
        return read_parquet(path, drop)
    if kind == ".npy":
        table = read_npy(path, binary)
    elif kind == ".npz":
        table = read_npz_table(path, array, binary)
    elif kind == ".mat":
        table = read_mat_table(path, array, binary)
    else:
        table = read_idx_table(path, binary)
    return _by_columns(table, drop)


def _by_columns(table: Table, drop: Collection[str]) -> Table:
    """Only columns with names can be dropped."""
    if not drop:
        return table
    if table.names is None:
        raise TableError("only a table whose columns have names can --drop some")
    unknown = [name for name in drop if name not in table.names]
    if unknown:
        raise TableError(f"there is no column named {unknown[0]!r} to drop")
    kept = [i for i, name in enumerate(table.names) if name not in drop]
    if not kept:
        raise TableError("no column is left")
    return Table(table.values[:, kept], tuple(table.names[i] for i in kept), table.labels)


def _kind_by_name(path: Path) -> str:
    kind = path.suffix.lower()
    if kind in (".csv", ".txt", ".tsv", ".parquet", ".npy", ".npz", ".mat", ".idx"):
        return kind
    if kind == ".gz" or path.name.endswith("-ubyte"):
        return ".idx"
    raise TableError(
        f"{path} has an ending that is not known; expected .csv, .tsv, .npy, .npz, .parquet, "
        ".mat, an idx file (.gz) or a folder of pictures"
    )


def _kind_by_start(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(8)
    return next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), ".csv")
