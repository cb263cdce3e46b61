"""Tables as text: .csv and .tsv, plain or gzipped, with optional names and labels."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from dynpart.cells import Fields, Kind
from dynpart.levels import boolean_words
from dynpart.tables._columns import Choice, checked_names, infinite, place
from dynpart.tables._rules import (
    Decision,
    Roles,
    holds_names,
    label_remark,
    nameless_labels,
    without_guard,
)
from dynpart.tables._table import Table, TableError, compact
from dynpart.tables._texts import LateText, TextColumn, Words, none_remarks, not_a_number
from dynpart.tables.gaps import mostly_missing
from dynpart.tables.limits import MOST_UNPACKED, MOST_VALUES, check_room, in_words

MOST_FIRST_LINE = 2**20
MOST_LINE = 2**24
NUMBERS_AT_ONCE = 2**24
"""Number of values read between two checks of the memory."""
ROWS_LOOKED_AT = 1000
"""Number of first rows that are searched for columns of text."""
READINGS = 3
"""Maximum number of readings of a file; in the last one every column may hold text."""
UNICODE, WINDOWS = "utf-8-sig", "cp1252"
"""Encodings that are tried, in this order."""
_GZIP_MAGIC = b"\x1f\x8b"
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS = frozenset(map(chr, range(32))) - set("\t\r\n\f")


def read_text(
    path: Path,
    *,
    delimiter: str | None = None,
    blanks: bool = False,
    choice: Choice,
    header: bool | None = None,
    roles: Roles,
) -> Table:
    """Read a table of text; names and labels are detected unless the user has set them.

    The separator (comma, semicolon or tab) follows from the first line. With `blanks`, it is a
    blank if the first two lines have blanks and none of these. Text that is not Unicode is read as
    Windows-1252.
    """

    def read(encoding: str) -> Table:
        def once(texts: set[int] | None) -> Table:
            with _opened(path, encoding) as stream:
                lines = _Lines(path, stream, only_text=encoding != UNICODE)
                reader, divider = _divided(lines, delimiter, blanks=blanks)
                layout = Reading(path, Fields(decimal_comma=divider == ";"), roles, texts)
                return layout.table(_records(reader, lines), choice, header)

        try:
            return read_again(once)
        except csv.Error as error:
            raise TableError(f"{path} is not a readable table of text: {error}") from error

    try:
        return read(UNICODE)
    except UnicodeDecodeError as error:
        try:
            table = read(WINDOWS)
        except UnicodeError:
            raise _not_unicode(path, error) from error
        remark = "its text is not UTF-8 and is read as Windows-1252"
        return replace(table, remarks=(remark, *table.remarks))


def _divided(lines: _Lines, delimiter: str | None, *, blanks: bool) -> tuple[Any, str]:
    """A reader of fields, and what separates them."""
    begin = lines.up_to_content()
    divider = delimiter or max(",;\t", key=begin[-1].count if begin else "".count)
    if blanks and begin and divider not in begin[-1]:
        begin += lines.up_to_content()
        if all(_has_blanks(line) for line in begin if line.strip()):
            plain = (line.rstrip(" \r\n") + "\n" for line in chain(begin, lines))
            return csv.reader(plain, delimiter=" ", skipinitialspace=True, strict=True), " "
    return csv.reader(chain(begin, lines), delimiter=divider, strict=True), divider


def _has_blanks(line: str) -> bool:
    """Whether fields of the line can only be separated by blanks."""
    return " " in line.strip() and not set(line.strip()) & set(",;\t")


def _not_unicode(path: Path, error: UnicodeDecodeError) -> TableError:
    return TableError(f"{path} is not UTF-8 text: {error}")


def read_again(once: Callable[[set[int] | None], Table]) -> Table:
    """Read a file, and again if a column that began with numbers holds a text.

    Parameters
    ----------
    once : callable
        Reads the file; called with the indices of columns of text, or None if any may hold text.
    """
    texts: set[int] | None = set()
    for _ in range(READINGS - 1):
        try:
            return once(texts)
        except LateText as late:
            texts = (texts or set()) | late.columns
    return once(None)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text file, plain or gzipped, with their numbers from 1; long lines are errors."""
    try:
        with _opened(path) as stream:
            yield from enumerate(_Lines(path, stream), start=1)
    except UnicodeDecodeError as error:
        raise _not_unicode(path, error) from error


@contextmanager
def _opened(path: Path, encoding: str = UNICODE) -> Iterator[TextIO]:
    """The file as text, unpacked if it is gzipped; UTF-16 if its first bytes are a mark of it."""
    with path.open("rb") as file:
        start = file.read(2)
    try:
        if start != _GZIP_MAGIC:
            encoding = "utf-16" if start in _UTF_16_MARKS else encoding
            with path.open(encoding=encoding, newline="") as stream:
                yield stream
            return
        with gzip.open(path, "rb") as packed:
            capped = io.BufferedReader(_Capped(path, packed))
            yield io.TextIOWrapper(capped, encoding=encoding, newline="")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"{path} is truncated or damaged: {error}") from error


class _Capped(io.RawIOBase):
    """Unpacked bytes, with an error if there are too many."""

    def __init__(self, path: Path, packed: gzip.GzipFile) -> None:
        self.path, self.packed, self.n_bytes = path, packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.packed.read1(len(buffer))
        self.n_bytes += len(content)
        if self.n_bytes > MOST_UNPACKED:
            raise TableError(f"{self.path} unpacks to more than {in_words(MOST_UNPACKED)}")
        buffer[: len(content)] = content
        return len(content)


class _Lines:
    """Lines of a file; records whether a line needs the slower parser. Long lines are errors.

    With `only_text`, control characters are a UnicodeError, since every byte has a character in
    some encodings.
    """

    def __init__(self, path: Path, stream: TextIO, *, only_text: bool = False) -> None:
        self.path, self.stream, self.only_text = path, stream, only_text
        self.odd = True

    def up_to_content(self) -> list[str]:
        """The first line that is not blank, with the blank lines before it."""
        found = []
        while line := self.stream.readline(MOST_FIRST_LINE):
            if len(line) >= MOST_FIRST_LINE:
                raise TableError(f"{self.path} has a first line of more than a million characters")
            self._check(line)
            found.append(line)
            if line.strip():
                break
        return found

    def _check(self, line: str) -> None:
        if self.only_text and not _CONTROLS.isdisjoint(line):
            raise UnicodeError("control characters")

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self.stream.readline(MOST_LINE)
        if not line:
            raise StopIteration
        if len(line) >= MOST_LINE:
            raise TableError(f"{self.path} has a line of more than {MOST_LINE:,} characters")
        self._check(line)
        # Python reads 1_0 and digits of other scripts as numbers: check each field of such lines.
        self.odd = self.odd or "_" in line or not line.isascii()
        return line


class Record(NamedTuple):
    """Fields of one row, its first line, and the number of blank lines just before it."""

    fields: list[str]
    line: int
    n_blank: int
    odd: bool


def _records(reader: Any, lines: _Lines) -> Iterator[Record]:
    """Rows with content; a quoted gap is content if rows have one field."""
    n_blank, begun, width = 0, 1, 0
    for fields in reader:
        quoted = width == 1 and fields == [""]
        if not any(field.strip() for field in fields) and len(fields) < 2 and not quoted:
            n_blank += 1
        else:
            width = width or len(fields)
            yield Record(fields, begun, n_blank, lines.odd)
            n_blank, lines.odd = 0, False
        begun = reader.line_num + 1


class Reading:
    """The state of reading a file.

    Parameters
    ----------
    path : Path
    fields : Fields
    roles : Roles
    texts : set of int or None
        Indices of columns that hold text; None if any column may.
    """

    def __init__(self, path: Path, fields: Fields, roles: Roles, texts: set[int] | None) -> None:
        self.path, self.fields, self.roles, self.texts = path, fields, roles, texts
        self.names: list[str] = []
        self.remarks: list[str] = []
        self.guessed = False

    def table(
        self,
        records: Iterator[Record],
        choice: Choice,
        header: bool | None,
    ) -> Table:
        """Detect names and labels, then read the rows."""
        head = next(records, None)
        if head is None:
            raise TableError(f"{self.path} is empty")
        second = next(records, None)
        if header is None:
            header = bool(
                self._decided(holds_names(head.fields, second and second.fields, self.fields))
            )
            self.guessed = True
        first = second if header else head
        if first is None:
            raise TableError(f"{self.path} has names but no rows; --no-header reads them as a row")
        rows = [row for row in ((second,) if header else (head, second)) if row is not None]
        if header:
            self.names = self._names(head.fields, first.fields)
        rows += list(islice(records, ROWS_LOOKED_AT))
        kept, labelled = self._columns(len(first.fields), choice)
        may_label = labelled is None and 0 in choice.may_hold_labels(
            self.path, len(first.fields), self.names
        )
        extra = may_label and 0 not in kept
        kept = [0, *kept] if extra else kept
        values, found, labels = self._rows(rows, records, kept, labelled)
        values, kept, found = self._named(values, kept, found)
        if self.guessed and not header and np.isnan(values[0]).any():
            remark = "its first line has a gap and is taken for a row; --header reads it as names"
            self.remarks.append(remark)
        if self.guessed and header:
            self._remark_repeated_names(found)
        if header and self.roles.judge:
            self.remarks += none_remarks({self.names[c]: words for c, words in found.items()})
        words = tuple(found[column].words if column in found else None for column in kept)
        table = Table(
            compact(values),
            tuple(self.names[column] for column in kept) if header else None,
            None if labelled is None else tuple(labels),
            remarks=tuple(self.remarks),
            words=words if any(words) else None,
            label_name=None if labelled is None or not header else self.names[labelled],
            label_place=sum(column < labelled for column in kept) if labelled is not None else 0,
        )
        if may_label and kept[0] == 0:
            table = labels_from_first(table, found.get(0), self.roles, kept=not extra)
        for column in kept[len(kept) - table.values.shape[1] :]:
            if column in found:
                self._check_words(column, found[column])
        return table

    def _remark_repeated_names(self, found: dict[int, Words]) -> None:
        """Add a remark if a name also occurs as a value of its column."""
        for column, content in found.items():
            if self.names[column] in (content.words or ()):
                self.remarks.append(
                    f"its first line is taken for names, though {self.names[column]!r} stands in "
                    "that column again; --no-header reads it as a row"
                )
                return

    def _check_words(self, column: int, content: Words) -> None:
        """Reject dates and numbers stored as text, with the place of the first one."""
        problem = content.problem
        if (
            problem is None
            or problem.reason == "names"
            or self.roles.takes_text(self._name(column))
        ):
            return
        where = self._place(content.row, self.lines[content.row], column)
        name = self.names[column] if self.names else ""
        raise TableError(f"{where} is {problem.example[:40]!r}, {not_a_number(problem, name)}")

    def _name(self, column: int) -> str:
        return (self.names[column] if self.names else "") or f"x{column}"

    def _decided(self, decision: Decision) -> Any:
        if decision.remark:
            self.remarks.append(decision.remark)
        return decision.value

    def _names(self, head: list[str], first: list[str]) -> list[str]:
        """Names of all columns; R writes no name for the column of labels."""
        names = [without_guard(name.strip()) for name in head]
        n_names, n_fields = len(names), len(first)
        text_below = self.fields.kind(first[0]) is Kind.TEXT
        if n_names == n_fields - 1 and (text_below or n_names > 1):
            return ["", *names]
        if n_names != n_fields:
            raise TableError(
                f"{self.path} has {n_names} name{'s' * (n_names > 1)} but {n_fields} fields in its "
                "first row; give every column a name"
            )
        return names

    def _columns(self, n_columns: int, choice: Choice) -> tuple[list[int], int | None]:
        """Columns of variables, and the column of labels if it is known."""
        names, label_column = self.names, self.roles.label_column
        if names:
            checked_names(self.path, [name for name in names if name], label_column)
        elif isinstance(label_column, str):
            raise TableError(
                f"{self.path} has no column names, so none can be selected by name; --header reads "
                "its first line as names"
            )
        kept = choice.columns(self.path, n_columns, names)
        if isinstance(label_column, str):
            labelled: int | None = names.index(label_column)
        elif label_column is None:
            candidates = choice.may_hold_labels(self.path, n_columns, names)
            labelled = self._decided(nameless_labels(names, candidates))
        else:
            labelled = None
        kept = [column for column in kept if column != labelled]
        if not kept:
            raise TableError(f"{self.path} has no column to learn from")
        return kept, labelled

    def _named(
        self, values: NDArray[np.float64], kept: list[int], found: dict[int, Words]
    ) -> tuple[NDArray[np.float64], list[int], dict[int, Words]]:
        """Name columns that have values but no name; drop columns with neither."""
        if not self.names:
            return values, kept, found
        empty = []
        for at, column in enumerate(kept):
            if self.names[column]:
                continue
            if np.isnan(values[:, at]).all():
                empty.append(at)
                remark = f"its column {column}, which has neither name nor value, is left out"
            else:
                self.names[column] = f"x{column}"
                remark = f"its column {column}, which has no name, is called x{column}"
            self.remarks.append(remark)
        if len(empty) == len(kept):
            raise TableError(f"{self.path} has no column to learn from")
        if empty:
            values = np.delete(values, empty, axis=1)
            kept = [column for at, column in enumerate(kept) if at not in empty]
        checked_names(self.path, [self.names[column] for column in kept])
        return values, kept, {column: words for column, words in found.items() if column in kept}

    def _rows(
        self, begin: list[Record], more: Iterator[Record], kept: list[int], labelled: int | None
    ) -> tuple[NDArray[np.float64], dict[int, Words], list[str]]:
        """Numbers, parsed columns of text, and labels of all rows."""
        texts = {column: TextColumn() for column in kept if self._holds_text(column, begin)}
        plain = [column for column in kept if column not in texts]
        labels: list[str] = []
        numbers = array("d")
        lines = self.lines = array("q")
        width = 0
        check_at = NUMBERS_AT_ONCE
        for record in chain(begin, more):
            fields = record.fields
            width = width or len(fields)
            if width == 1 and record.n_blank:
                self._add_blank(record, texts, numbers)
            row = len(lines)
            if len(fields) != width:
                raise TableError(
                    f"{self.path}: row {row} (line {record.line}) has {len(fields)} "
                    f"field{'s' * (len(fields) > 1)}, row 0 has {width}"
                )
            if labelled is not None:
                labels.append(without_guard(fields[labelled]))
            lines.append(record.line)
            for column, content in texts.items():
                content.add(fields[column])
            try:
                if record.odd:
                    numbers.extend(self._with_gaps(record, plain))
                else:
                    numbers.extend([float(fields[column] or "nan") for column in plain])
            except ValueError:
                numbers.extend(self._with_gaps(record, plain))
            if len(numbers) + len(lines) * len(texts) > check_at:
                self._check_growth(len(numbers) + len(lines) * len(texts))
                check_at += NUMBERS_AT_ONCE
        self._check_labels(labels, labelled)
        found = {
            column: content.finished(
                self.fields,
                as_it_is=self.roles.takes_text(self._name(column)),
                none_is_level=self._name(column) in self.roles.nones,
            )
            for column, content in texts.items()
        }
        values = self._joined(numbers, found, kept, plain)
        return values, {c: words for c, words in found.items() if words.words is not None}, labels

    def _holds_text(self, column: int, begin: list[Record]) -> bool:
        """Whether a column is read as text: it is known to be text, or its first rows have one."""
        if self.texts is None or column in self.texts or self.roles.says_text(self._name(column)):
            return True
        return any(
            self.fields.plain_value(record.fields[column]) is None
            for record in begin
            if column < len(record.fields)
        )

    def _add_blank(self, record: Record, texts: dict[int, TextColumn], numbers: array) -> None:
        """Blank lines of a table of one column are gaps."""
        for content in texts.values():
            for _ in range(record.n_blank):
                content.add("")
        if not texts:
            numbers.extend([math.nan] * record.n_blank)
        self.lines.extend(range(record.line - record.n_blank, record.line))

    def _joined(
        self, numbers: array, found: dict[int, Words], kept: list[int], plain: list[int]
    ) -> NDArray[np.float64]:
        """Columns of numbers and of text joined; infinite values are errors."""
        values = np.frombuffer(numbers, dtype=np.float64).reshape(len(self.lines), len(plain))
        if found:
            beside = np.empty((len(values), len(kept)))
            for at, column in enumerate(kept):
                words = found.get(column)
                beside[:, at] = values[:, plain.index(column)] if words is None else words.values
            values = beside
        wrong = np.isinf(values)
        if wrong.any():
            row, at = (int(i) for i in np.argwhere(wrong)[0])
            raise TableError(infinite(self._place(row, self.lines[row], kept[at]), values[row, at]))
        return values

    def _check_growth(self, n_values: int) -> None:
        if n_values > MOST_VALUES:
            raise TableError(f"{self.path} holds more than {MOST_VALUES:,} numbers")
        # Eight bytes for each further value, and at the end two per value for masks and copies.
        n_bytes = 8 * NUMBERS_AT_ONCE + 2 * n_values
        check_room(n_bytes, f"{self.path}: going on after {n_values:,} numbers")

    def _check_labels(self, labels: list[str], labelled: int | None) -> None:
        """A nameless column of numbers holds labels only if they distinguish the rows."""
        nameless = labelled == 0 and bool(self.names) and not self.names[0]
        if not nameless:
            return
        there = [label for label in labels if label.strip()]
        if there and len(set(there)) == len(there):
            return
        if all(self.fields.kind(label) is not Kind.TEXT for label in labels):
            raise TableError(
                f"{self.path}: the first column has no name and repeats its numbers, so they are "
                "no labels; give it a name"
            )

    def _with_gaps(self, record: Record, plain: list[int]) -> list[float]:
        """Numbers of a row in which some field is not a plain number."""
        values = [self.fields.plain_value(record.fields[column]) for column in plain]
        late = {column for column, value in zip(plain, values, strict=True) if value is None}
        if late:
            raise LateText(late)
        return values  # type: ignore[return-value]

    def _place(self, row: int, line: int, column: int) -> str:
        names = [name or f"x{at}" for at, name in enumerate(self.names)]
        return place(self.path, row, column, names, line=line)


def labels_from_first(
    table: Table, first: Words | None, roles: Roles, *, kept: bool = True
) -> Table:
    """The table, with its first column as labels if its texts distinguish rows.

    Parameters
    ----------
    table : Table
        Without labels.
    first : Words or None
        The parsed first column; None if it holds numbers.
    roles : Roles
    kept : bool, default=True
        Whether the column is a variable if it does not hold labels.
    """
    name = table.names[0] if table.names else "x0"
    rest = table if table.values.shape[1] < 2 else table.without_first()
    if rest is table or first is None or not _tells_rows_apart(first, roles, name):
        return table if kept else rest
    n_observed = int((~np.isnan(first.values)).sum())
    remark = label_remark(name if table.names else "", len(first.words or ()), n_observed)
    return replace(
        rest,
        labels=table.texts(0),
        label_name=name if table.names else None,
        remarks=(*table.remarks, remark),
    )


def _tells_rows_apart(first: Words, roles: Roles, name: str) -> bool:
    """Whether a column may hold labels: it is not a variable, or most of its texts differ."""
    if first.words is None or not roles.may_label(name) or mostly_missing(first.values):
        return False
    if boolean_words(first.words) is not None:
        return False
    n_observed = int((~np.isnan(first.values)).sum())
    reason = None if first.problem is None else first.problem.reason
    if roles.variables:
        return True  # the model has no such variable
    return 2 * len(first.words) > n_observed and reason not in ("dates", "numbers")
