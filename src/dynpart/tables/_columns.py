"""Columns: their names in messages, allowed names, and columns that only count rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynpart.kinds import tells_rows_apart
from dynpart.tables._table import LabelColumn, Table, TableError, row_blocks

EXACT_INTEGERS = 2**53
"""Largest integer up to which floating-point numbers represent all integers."""

LARGEST_INTEGER = 2**64

_FEWEST_ROWS = 4
_GAP_CODES = (-9, -99, -999, -9999, -99999)
_ID = re.compile(
    r"(?i:(.*[\W_])?(id(s|entifier)?|idx|index|nr|no|num|number|key|row|rowid))|.*[a-z]I[Dd]"
)


def place(
    path: Path | str, row: int, column: int, names: Sequence[str] | None, *, line: int | None = None
) -> str:
    """A place in a table for messages: rows count from 0, as in ``--row``; columns have names."""
    in_file = "" if line is None else f" (line {line})"
    return f"{path}: row {row}{in_file}, {called(column, names)}"


def called(column: int, names: Sequence[str] | None) -> str:
    """A column by its name, or by its place if it has none."""
    return f"column {names[column]!r}" if names else f"column {column} (counted from 0)"


class Choice(NamedTuple):
    """The selected columns: names, or indices if there are no names, separated by commas.

    Attributes
    ----------
    keep : collection of str
        The columns to keep; empty for all.
    drop : collection of str
    """

    keep: Collection[str] = ()
    drop: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.keep or self.drop)

    def columns(self, path: Path, n_columns: int, names: Sequence[str] | None) -> list[int]:
        """Indices of the remaining columns, ascending.

        Parameters
        ----------
        path : Path
        n_columns : int
        names : sequence of str or None
            A name per column, empty for a column without one; None or empty without names.
        """
        kept = set(places(path, self.keep, "keep", n_columns, names))
        dropped = set(places(path, self.drop, "drop", n_columns, names))
        return sorted((kept if self.keep else set(range(n_columns))) - dropped)

    def may_hold_labels(self, path: Path, n_columns: int, names: Sequence[str] | None) -> list[int]:
        """Remaining columns; the first may hold labels unless it is kept as a variable."""
        if 0 in places(path, self.keep, "keep", n_columns, names):
            return []
        return Choice(drop=self.drop).columns(path, n_columns, names)


def places(
    path: Path, choices: Collection[str], verb: str, n_columns: int, names: Sequence[str] | None
) -> Iterator[int]:
    """Indices of columns; commas separate names, unless a name contains the comma."""
    known = {name: place for place, name in enumerate(names or ()) if name}
    for choice in choices:
        for name in [choice] if choice in known else map(str.strip, choice.split(",")):
            if name in known:
                yield known[name]
            elif names:
                raise TableError(f"{path} has no column named {name!r} to {verb}")
            elif re.fullmatch("[0-9]{1,9}", name) and int(name) < n_columns:
                yield int(name)
            else:
                raise TableError(
                    f"{path} has no column names, so --{verb} takes column numbers from 0 to "
                    f"{n_columns - 1}, got {name!r}; --header reads the first line of a text as "
                    "names"
                )


def checked_names(path: Path, names: Sequence[str], label_column: LabelColumn = None) -> None:
    """Reject duplicate names, and a missing column of labels."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"{path} has two columns named {twice[0]!r}")
    if isinstance(label_column, str) and label_column not in names:
        raise TableError(f"{path} has no column named {label_column!r} to take labels from")


def columns_before(name: str, kept: Collection[str], names: Sequence[str]) -> int:
    """Number of the kept columns that stand before a column."""
    return len(set(kept).intersection(names[: names.index(name)]))


def check_not_infinite(
    path: Path | str, values: NDArray[Any], names: Sequence[str] | None = None
) -> None:
    """Reject infinite values with the place of the first one; NaN is a gap."""
    if values.dtype.kind != "f":
        return
    for begin, block in row_blocks(values):
        wrong = np.isinf(block)
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise TableError(infinite(place(path, begin + row, column, names), block[row, column]))


def infinite(where: str, value: float) -> str:
    """The message about an infinite value."""
    return (
        f"{where} is {float(value)}; give a finite number, or nothing if it was not observed "
        "(an empty cell, in arrays NaN)"
    )


def advice(table: Table) -> list[str]:
    """Sentences about columns that are probably not variables.

    Parameters
    ----------
    table : Table

    Returns
    -------
    list of str
        About columns that number the rows (different integers with a constant step), that have the
        name of an identifier and mostly different integers, that hold -9, -99 or the like as their
        only negative number, or that hold integers too large for exact arithmetic.
    """
    if table.image_shape is not None:
        return []
    lines = []
    for column in _candidates(table):
        if table.words_of(column) is not None:
            continue  # indices of texts may ascend
        values = np.asarray(table.values[:, column], dtype=np.float64)
        values = values[~np.isnan(values)]
        name = "" if table.names is None else table.names[column]
        if _counts_rows(values, name):
            remedy = "; --label-column {0!r} makes it labels, --drop {0!r} leaves it out"
            lines.append(
                f"{called(column, table.names)} looks like a number of the row, yet is a variable"
                + (remedy.format(name) if name else "")
            )
    for code, columns in _codes_of_gaps(table).items():
        which = called(columns[0], table.names)
        more = f" and {len(columns) - 1:,} more" if len(columns) > 1 else ""
        lines.append(
            f"{which}{more}: {code:g} is the only negative number; if it stands for a missing "
            "value, leave these cells empty"
        )
    for column in _beyond_exact(table.values):
        lines.append(
            f"{called(column, table.names)} holds integers beyond 2^53, of which floating-point "
            "numbers keep about 16 digits"
        )
    return lines


def _candidates(table: Table) -> list[int]:
    """Columns that number the first rows, or have the name of an identifier."""
    if len(table.values) < _FEWEST_ROWS:
        return []
    head = np.asarray(table.values[:_FEWEST_ROWS], dtype=np.float64)
    steps = np.diff(head, axis=0)
    found = (steps[0] > 0) & (steps == steps[0]).all(axis=0)
    called = [_ID.fullmatch(name) is not None for name in table.names or ()]
    return [int(i) for i in np.flatnonzero(found | called if called else found)]


def _counts_rows(values: NDArray[np.float64], name: str) -> bool:
    if len(values) < _FEWEST_ROWS or (values != np.round(values)).any():
        return False
    steps = np.diff(values)
    if steps[0] > 0 and (steps == steps[0]).all():
        return True
    different = len(np.unique(values))
    apart = different == len(values) or tells_rows_apart(different, len(values))
    return apart and _ID.fullmatch(name) is not None


def _codes_of_gaps(table: Table) -> dict[float, list[int]]:
    """For -9, -99 and the like, the columns in which it is the only negative number, repeated."""
    found: dict[float, list[int]] = {}
    if table.values.dtype.kind not in "if":
        return found
    lowest = np.full(table.values.shape[1], np.inf)
    for _, block in row_blocks(table.values):
        lowest = np.fmin(lowest, np.fmin.reduce(block, axis=0))
    for column in np.flatnonzero(np.isin(lowest, _GAP_CODES)).tolist():
        values, code = table.values[:, column], float(lowest[column])
        if (values < 0).sum() == (values == code).sum() > 1:
            found.setdefault(code, []).append(column)
    return found


def _beyond_exact(values: NDArray[Any]) -> list[int]:
    """Columns with integers that floating-point numbers cannot represent exactly."""
    if values.dtype not in (np.float64, np.int64, np.uint64):
        return []
    found = np.zeros(values.shape[1], dtype=bool)
    for _, block in row_blocks(values):
        size = np.abs(np.asarray(block, dtype=np.float64))
        found |= ((size >= EXACT_INTEGERS) & (size <= LARGEST_INTEGER)).any(axis=0)
    return [int(column) for column in np.flatnonzero(found)]
