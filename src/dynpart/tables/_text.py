"""Tables as text: .csv and .tsv, with names on top and perhaps labels on the left."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.tables._table import Table, TableError, compact

WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


def read_text(path: Path, *, delimiter: str | None = None, drop: Collection[str] = ()) -> Table:
    """Read a table of text.

    The first line holds names if any of its fields is not a number. A first column of text holds
    the rows' labels. Commas, semicolons and tabs are told apart by the first line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline(2**20)
            if len(first) >= 2**20:
                raise TableError(f"{path} has a first line of more than a million characters")
            delimiter = delimiter or max(",;\t", key=first.count)
            stream.seek(0)
            lines = csv.reader(stream, delimiter=delimiter, strict=True)
            return _table(path, lines, drop, decimal_comma=delimiter == ";")
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text: {error}") from error
    except csv.Error as error:
        raise TableError(f"{path} is not a readable table of text: {error}") from error


def _table(
    path: Path, lines: Iterator[list[str]], drop: Collection[str], *, decimal_comma: bool
) -> Table:
    filled = (line for line in lines if line)
    head = next(filled, None)
    if head is None:
        raise TableError(f"{path} is empty")
    parser = _Parser(decimal_comma)
    has_names = any(parser.number(field) is None for field in head)
    first = next(filled, None) if has_names else head
    if first is None:
        raise TableError(f"{path} has names but no rows")
    names = [name.strip() for name in head] if has_names else []
    if has_names and len(head) == len(first) - 1:
        names = ["", *names]  # R leaves out the name of the labels' column
    kept, label_column = _columns(path, first, names, drop, parser)
    labels: list[str] = []
    numbers = array("d")
    for n_rows, line in enumerate(_chain(first, filled)):
        if len(line) != len(first):
            raise TableError(
                f"{path}: row {n_rows + 1} has {len(line)} fields, the first row has {len(first)}"
            )
        if label_column is not None:
            labels.append(line[label_column])
        try:
            numbers.extend([float(line[column]) for column in kept])
        except ValueError:
            numbers.extend(_with_words(path, line, kept, names, n_rows, parser))
    values = _finite(path, np.frombuffer(numbers, dtype=np.float64), kept, names)
    return Table(
        compact(values),
        tuple(names[column] for column in kept) if has_names else None,
        tuple(labels) if label_column is not None else None,
    )


def _columns(
    path: Path, first: list[str], names: list[str], drop: Collection[str], parser: _Parser
) -> tuple[list[int], int | None]:
    """Which columns hold numbers, and which one labels."""
    if names:
        if len(names) != len(first):
            raise TableError(
                f"{path} has {len(names)} names but {len(first)} fields in its first row"
            )
        _check_names(path, names, drop)
    elif drop:
        raise TableError(f"{path} has no names of columns, so none can be dropped")
    kept = [i for i in range(len(first)) if not names or names[i] not in drop]
    label_column = None
    if kept and kept[0] == 0 and len(kept) > 1:
        nameless = bool(names) and names[0] == ""
        if nameless or (parser.number(first[0]) is None and not parser.is_missing(first[0])):
            label_column = kept.pop(0)
    if not kept:
        raise TableError(f"{path} has no column of numbers")
    return kept, label_column


def _check_names(path: Path, names: list[str], drop: Collection[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TableError(f"{path} has two columns named {name!r}")
        seen.add(name)
    unknown = [name for name in drop if name not in seen]
    if unknown:
        raise TableError(f"{path} has no column named {unknown[0]!r} to drop")


def _with_words(
    path: Path, line: list[str], kept: list[int], names: list[str], n_rows: int, parser: _Parser
) -> Iterator[float]:
    """A row in which some field is not a plain number."""
    for column in kept:
        value = parser.number(line[column])
        if value is None:
            where = f"{path}: row {n_rows + 1}, column {_name(names, column)}"
            if parser.is_missing(line[column]):
                raise TableError(f"{where} is missing; fill it or leave the row out")
            raise TableError(f"{where} is {line[column][:40]!r}, not a number; --drop the column?")
        yield value


def _finite(
    path: Path, numbers: NDArray[np.float64], kept: list[int], names: list[str]
) -> NDArray[Any]:
    values = numbers.reshape(-1, len(kept))
    wrong = ~np.isfinite(values)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        where = f"{path}: row {row + 1}, column {_name(names, kept[column])}"
        raise TableError(f"{where} is {values[row, column]}; fill it or leave the row out")
    return values


def _name(names: list[str], column: int) -> str:
    return repr(names[column]) if names else str(column + 1)


def _chain(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


class _Parser:
    """Reads one field."""

    def __init__(self, decimal_comma: bool) -> None:
        self.decimal_comma = decimal_comma

    def number(self, field: str) -> float | None:
        """The field's number, or None."""
        text = field.strip()
        if text.lower() in WORDS:
            return WORDS[text.lower()]
        if self.decimal_comma:
            text = text.replace(",", ".")
        try:
            return None if "_" in text else float(text)
        except ValueError:
            return None

    def is_missing(self, field: str) -> bool:
        """Does the field stand for a missing value?"""
        return field.strip().lower() in MISSING
