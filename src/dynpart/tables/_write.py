"""Writing: the file's extension sets the format; files are overwritten only on request."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from dynpart.atomic import atomic_write
from dynpart.tables._columns import EXACT_INTEGERS
from dynpart.tables._rules import with_guard
from dynpart.tables._table import TableError
from dynpart.terminal import printable

ENDINGS = (".csv", ".tsv", ".npy", ".npz", ".parquet")


def check_output(target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise the errors of `write_table` before its content is computed."""
    if str(target) == "-":
        if sys.stdout is None:
            raise TableError("standard output is closed; name a file to write to")
        return
    path = Path(target)
    if path.suffix.lower() not in ENDINGS:
        raise TableError(f"{path} must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    if path.suffix.lower() == ".parquet":
        _arrow()
    if path.exists() and not overwrite:
        raise FileExistsError(17, "exists already", str(path))


def write_table(
    target: str | os.PathLike[str],
    values: NDArray[Any],
    names: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    label_name: str | None = None,
    label_place: int = 0,
    words: Sequence[Sequence[str] | None] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a table to a file, atomically.

    Parameters
    ----------
    target : path-like or "-"
        Ends in .csv, .tsv, .npy, .npz or .parquet; "-" writes .csv to standard output.
    values : ndarray of shape (n_rows, n_columns)
        NaN becomes an empty cell of text, or null in .parquet.
    names : sequence of str
        Names of the columns; .npy cannot store them.
    labels : sequence of str, default=None
        Names of the rows, which become a column of their own; .npy cannot store them. In text,
        names and labels that a spreadsheet would evaluate as formulas get an apostrophe in front.
    label_name : str, default=None
        Name of the column of labels, which may be empty; None for "row".
    label_place : int, default=0
        Number of columns before that of labels.
    words : sequence of (sequence of str or None), default=None
        The texts of each column of text, whose values are indices of texts. In .parquet, false and
        true become booleans.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    TableError
        If the extension is not known.
    FileExistsError
        If the file exists and must not be replaced.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.tables import write_table
    >>> write_table("-", np.eye(2, dtype=int), ["a", "b"])
    a,b
    1,0
    0,1
    """
    check_output(target, overwrite=overwrite)
    texts = any(words or ())
    left = None
    if labels is not None:
        left = _Labels(labels, "row" if label_name is None else label_name, label_place)
    if str(target) == "-":
        _write_text(sys.stdout, _cells(values, words), names, left, ",")
        sys.stdout.flush()
        return
    kind = Path(target).suffix.lower()
    if texts and kind in (".npy", ".npz"):
        raise TableError(f"{target} can hold only numbers, but there are texts: write .csv")
    with atomic_write(target, overwrite=overwrite) as file:
        if kind in (".csv", ".tsv"):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            rows = _cells(values, words)
            _write_text(text, rows, names, left, "\t" if kind == ".tsv" else ",")
            text.detach()
        elif kind == ".npy":
            np.lib.format.write_array(file, values, allow_pickle=False)
        elif kind == ".npz":
            arrays: dict[str, Any] = {"values": values, "names": np.array(names, dtype=str)}
            if labels is not None:
                arrays["labels"] = np.array(labels, dtype=str)
            np.savez_compressed(file, **arrays)
        else:
            _write_parquet(file, values, names, left, words)


class _Labels(NamedTuple):
    """The column of labels: its texts, its name, and the number of columns before it."""

    texts: Sequence[str]
    name: str
    place: int


def _cells(
    values: NDArray[Any], words: Sequence[Sequence[str] | None] | None
) -> Iterator[list[Any]]:
    """Rows of cells: texts for indices of words, empty for NaN, integers without a point."""
    if not any(words or ()):
        for row in values:
            cells = row.tolist()
            yield list(map(_number, cells)) if values.dtype.kind == "f" else cells
        return
    assert words is not None
    columns: list[list[Any]] = []
    for d, texts in enumerate(words):
        column = np.asarray(values[:, d], dtype=np.float64)
        if texts is not None:
            columns.append(["" if i != i else with_guard(texts[int(i)]) for i in column.tolist()])
        else:
            columns.append([_number(number) for number in column.tolist()])
    yield from map(list, zip(*columns, strict=True))


def _number(value: float) -> Any:
    if value != value:
        return ""
    return int(value) if value.is_integer() and abs(value) < EXACT_INTEGERS else value


def _write_text(
    stream: TextIO,
    rows: Iterator[list[Any]],
    names: Sequence[str],
    labels: _Labels | None,
    delimiter: str,
) -> None:
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    # Control characters are escaped on a terminal; in a file they are content.
    shown = printable if stream.isatty() else str
    head = [with_guard(shown(name)) for name in names]
    if labels is not None:
        head.insert(labels.place, with_guard(shown(labels.name)))
    writer.writerow(head)
    for row, cells in enumerate(rows):
        texts = [shown(cell) if isinstance(cell, str) else cell for cell in cells]
        if labels is not None:
            texts.insert(labels.place, with_guard(shown(labels.texts[row])))
        writer.writerow(texts)


def _write_parquet(
    file: BinaryIO,
    values: NDArray[Any],
    names: Sequence[str],
    labels: _Labels | None,
    words: Sequence[Sequence[str] | None] | None,
) -> None:
    pa, pq = _arrow()
    columns, head = [], list(names)
    for d, column in enumerate(values.T):
        texts = None if words is None else words[d]
        if texts is None:
            columns.append(pa.array(column, from_pandas=True))
            continue
        if len(texts) == 2 and [text.lower() for text in texts] == ["false", "true"]:
            columns.append(pa.array([None if i != i else bool(i) for i in column.tolist()]))
            continue
        cells = [None if i != i else texts[int(i)] for i in column.tolist()]
        columns.append(pa.array(cells, pa.string()).dictionary_encode())
    if labels is not None:
        columns.insert(labels.place, pa.array(labels.texts, pa.string()))
        head.insert(labels.place, labels.name)
    pq.write_table(pa.Table.from_arrays(columns, names=head), file)


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError(
            "writing .parquet needs pyarrow: pip install 'dynpart[tables]', or write .csv"
        ) from error
    return pa, pq
