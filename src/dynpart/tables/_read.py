"""Reading: chooses a reader by the file's extension, or by its first bytes."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynpart.cells import NONE, Fields
from dynpart.coding import level_name
from dynpart.levels import boolean_words
from dynpart.schema import Schema
from dynpart.tables._arrays import read_npy, read_npz_table
from dynpart.tables._columns import Choice, checked_names
from dynpart.tables._images import read_folder, read_idx_table
from dynpart.tables._lines import read_jsonl
from dynpart.tables._mat import read_mat_table
from dynpart.tables._parquet import read_parquet
from dynpart.tables._rules import Roles
from dynpart.tables._sheets import is_workbook, read_xlsx
from dynpart.tables._table import LabelColumn, Table, TableError
from dynpart.tables._text import read_text
from dynpart.tables.limits import MOST_PIXELS

_STARTS = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"PAR1": ".parquet",
    b"MATLAB": ".mat",
    b"\0\0\x08\x03": ".idx",
    b"{": ".jsonl",
}
_TEXTS = (".csv", ".txt", ".tsv", ".jsonl")
"""Kinds of files that may be gzipped."""


def read_table(
    source: str | os.PathLike[str],
    *,
    array: str | None = None,
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    size: tuple[int, int] | None = None,
    binary: bool | None = None,
    header: bool | None = None,
    label_column: LabelColumn = None,
    levels: Collection[str] = (),
    like: Schema | None = None,
) -> Table:
    r"""Read a table or images.

    Parameters
    ----------
    source : path-like or "-"
        A .csv, .tsv or .jsonl file (perhaps .gz), a .xlsx, .npy, .npz, .parquet or .mat file, an
        idx file (perhaps .gz), a folder of pictures, or "-" for standard input (any of these but a
        folder).
    array : str, default=None
        Name of the array in a .npz or .mat file that holds several.
    keep, drop : collection of str, default=()
        Names of the columns to read, or to leave out; indices from 0 for a table without names. A
        text may hold several, separated by commas.
    size : tuple of int, default=None
        (height, width) to which pictures of a folder are resized.
    binary : bool, default=None
        Whether gray images become black and white; None detects it.
    header : bool, default=None
        Whether the first line of a table of text holds names; None detects it.
    label_column : str or False, default=None
        Name of the column with the rows' labels, False if no column has them; None takes a first
        column of texts that distinguish rows. For .csv, .tsv, .jsonl, .xlsx and .parquet.
    levels : collection of str, default=()
        Names of columns whose texts are levels, even if they look like numbers or dates.
    like : Schema, default=None
        Schema of the model that the rows are for: none of its columns holds labels, and texts of
        other columns are not checked.

    Returns
    -------
    Table
        Missing values are NaN: in text an empty cell or a word such as NA; in other files NaN or
        null.

    Raises
    ------
    TableError
        If the content cannot be read as a table of finite numbers, texts and gaps.
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
    if size is not None and not 0 < size[0] * size[1] <= MOST_PIXELS:
        raise TableError(f"size must have 1 to {MOST_PIXELS:,} pixels, got {size[0]} x {size[1]}")
    roles = Roles(label_column, levels, nones=levels)
    if like is not None:
        names = like.labels()
        texts = {name: like.levels_of(d) for d, name in enumerate(names)}
        known = [name for name, words in texts.items() if _are_texts(words or ())]
        nones = [name for name in known if NONE in map(str.lower, texts[name] or ())]
        roles = Roles(label_column, {*levels, *known}, set(names), judge=False, nones=nones)
    options = _Options(array, Choice(keep, drop), binary, header, roles)
    if str(source) == "-":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "standard-input"
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            try:
                table = _read(path, _kind_by_start(path), options)
            except TableError as error:
                raise TableError(str(error).replace(str(path), "standard input")) from error
            return replace(table, values=np.array(table.values))  # the temporary file is deleted
    path = Path(source)
    if path.is_dir():
        return _by_columns(read_folder(path, size, binary), options)
    path.stat()  # a missing file is reported as such
    return _read(path, _kind_by_name(path), options)


def _are_texts(levels: Sequence[str]) -> bool:
    """Whether a column with these levels is read as text; not if its values may also be 0 and 1."""
    return boolean_words(levels) is None and not all(map(_names_number, levels))


def _names_number(level: str) -> bool:
    """Whether a level is the name of a number, so that 2.0 in a text is the level 2."""
    number = Fields(decimal_comma=False).plain_number(level)
    return number is not None and level_name(number) == level


class _Options(NamedTuple):
    """The caller's options about the content."""

    array: str | None
    choice: Choice
    binary: bool | None
    header: bool | None
    roles: Roles


def _read(path: Path, kind: str, options: _Options) -> Table:
    if kind in (".csv", ".txt", ".tsv"):
        return read_text(
            path,
            delimiter="\t" if kind == ".tsv" else None,
            blanks=kind == ".txt",
            choice=options.choice,
            header=options.header,
            roles=options.roles,
        )
    if kind == ".xlsx":
        return read_xlsx(
            path,
            choice=options.choice,
            header=options.header,
            roles=options.roles,
        )
    if kind == ".jsonl":
        return read_jsonl(path, choice=options.choice, roles=options.roles)
    if kind == ".parquet":
        return read_parquet(path, choice=options.choice, roles=options.roles)
    if kind == ".npy":
        table = read_npy(path, options.binary)
    elif kind == ".npz":
        table = read_npz_table(path, options.array, options.binary)
    elif kind == ".mat":
        table = read_mat_table(path, options.array, options.binary)
    else:
        table = read_idx_table(path, options.binary)
    return _by_columns(table, options)


def _by_columns(table: Table, options: _Options) -> Table:
    """Arrays have no column of text; pixels of a picture cannot be chosen."""
    if isinstance(options.roles.label_column, str):
        raise TableError("arrays and pictures have no column of labels, only tables have one")
    if not options.choice:
        return table
    if table.image_shape is not None:
        raise TableError("only columns of a table can be chosen with --keep and --drop, no pixels")
    source, names = Path("the table"), table.names
    if names is not None:
        checked_names(source, names)
    kept = options.choice.columns(source, table.values.shape[1], names)
    if not kept:
        raise TableError("no column is left")
    called = None if names is None else tuple(names[i] for i in kept)
    return Table(table.values[:, kept], called, table.labels, remarks=table.remarks)


def _kind_by_name(path: Path) -> str:
    kind = path.suffix.lower()
    if kind in (*_TEXTS, ".xlsx", ".parquet", ".npy", ".npz", ".mat", ".idx"):
        return kind
    if path.name.endswith("-ubyte"):
        return ".idx"
    if kind == ".gz":
        inner = Path(path.stem).suffix.lower()
        return inner if inner in _TEXTS else ".idx"
    raise TableError(
        f"{path} has an unknown extension; expected .csv, .tsv or .jsonl (.gz), .xlsx, "
        ".npy, .npz, .parquet, .mat, an idx file (.gz) or a folder of pictures"
    )


def _kind_by_start(path: Path) -> str:
    """The kind of standard input; the beginning of gzipped content is unpacked."""
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(path, "rb") as unpacked:
                start = unpacked.read(8)
        except (OSError, EOFError, zlib.error) as error:
            raise TableError(f"{path} is truncated or damaged: {error}") from error
    kind = next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), ".csv")
    return ".xlsx" if kind == ".npz" and is_workbook(path) else kind
