"""The one door for writing: the file's ending says how, and nothing is overwritten unasked."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from dynpart.persistence import atomic_write
from dynpart.tables._table import TableError

ENDINGS = (".csv", ".tsv", ".npy", ".npz", ".parquet")


def check_output(target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise what `write_table` would raise, before work is spent on its content."""
    if str(target) == "-":
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
    overwrite: bool = False,
) -> None:
    """Write a table to a file, whole or not at all.

    Parameters
    ----------
    target : path-like or "-"
        Ends in .csv, .tsv, .npy, .npz or .parquet; "-" writes .csv to standard output.
    values : ndarray of shape (n_rows, n_columns)
    names : sequence of str
        Names of the columns; .npy has no room for them.
    labels : sequence of str, default=None
        Names of the rows, which become a first column "row"; .npy has no room for them.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    TableError
        If the ending is not known.
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
    if str(target) == "-":
        _write_text(sys.stdout, values, names, labels, ",")
        sys.stdout.flush()
        return
    kind = Path(target).suffix.lower()
    with atomic_write(target, overwrite=overwrite) as file:
        if kind in (".csv", ".tsv"):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            _write_text(text, values, names, labels, "\t" if kind == ".tsv" else ",")
            text.detach()
        elif kind == ".npy":
            np.lib.format.write_array(file, values, allow_pickle=False)
        elif kind == ".npz":
            arrays: dict[str, Any] = {"values": values, "names": np.array(names, dtype=str)}
            if labels is not None:
                arrays["labels"] = np.array(labels, dtype=str)
            np.savez_compressed(file, **arrays)
        else:
            _write_parquet(file, values, names, labels)


def _write_text(
    stream: TextIO,
    values: NDArray[Any],
    names: Sequence[str],
    labels: Sequence[str] | None,
    delimiter: str,
) -> None:
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    left: list[str] = [] if labels is None else ["row"]
    writer.writerow([*left, *names])
    for place, row in enumerate(values):
        writer.writerow([*([] if labels is None else [labels[place]]), *row.tolist()])


def _write_parquet(
    file: BinaryIO, values: NDArray[Any], names: Sequence[str], labels: Sequence[str] | None
) -> None:
    pa, pq = _arrow()
    columns = [] if labels is None else [pa.array(labels, pa.string())]
    columns += [pa.array(column) for column in values.T]
    head = list(names) if labels is None else ["row", *names]
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
