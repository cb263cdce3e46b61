"""Tables in .xlsx files: the first sheet, read row by row by the rules of text tables."""

from __future__ import annotations

import datetime
import warnings
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from dynpart.cells import Fields
from dynpart.tables._columns import Choice
from dynpart.tables._rules import Roles
from dynpart.tables._table import Table, TableError
from dynpart.tables._text import Reading, Record, read_again
from dynpart.tables.limits import MOST_UNPACKED, check_room, in_words

MOST_ROWS = 2**20
"""Maximum number of rows of a sheet in Excel."""
_ROOM = 4
"""Bytes of memory per byte of unpacked text."""
_MEMBER = "[Content_Types].xml"


def read_xlsx(
    path: Path,
    *,
    choice: Choice,
    header: bool | None = None,
    roles: Roles,
) -> Table:
    """Read the first sheet; formulas have their saved values."""
    try:
        import openpyxl
    except ImportError as error:
        raise TableError(
            f"reading {path} needs openpyxl: pip install 'dynpart[tables]', or save it as .csv"
        ) from error

    def once(texts: set[int] | None) -> Table:
        reading = Reading(path, Fields(decimal_comma=False), roles, texts)
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            if not book.worksheets:
                raise TableError(f"{path} has no sheet of cells")
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # the declared size may be wrong
            records = _records(path, sheet.iter_rows(values_only=True))
            return reading.table(records, choice, header)

    try:
        _check_size(path)
        return read_again(once)
    except (TableError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes openpyxl raise errors of many kinds
        raise TableError(f"{path} is not a readable .xlsx file: {error}"[:300]) from error


def is_workbook(path: Path) -> bool:
    """Whether a zipped file holds a workbook rather than arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _MEMBER in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _check_size(path: Path) -> None:
    """Reject a file that unpacks to more than the free memory, by its declared sizes."""
    with zipfile.ZipFile(path) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
    if n_bytes > MOST_UNPACKED:
        raise TableError(f"{path} unpacks to more than {in_words(MOST_UNPACKED)}")
    check_room(_ROOM * n_bytes, f"reading {path}")


def _records(path: Path, rows: Iterator[tuple[Any, ...]]) -> Iterator[Record]:
    """Rows with content as fields of text; cells that a row lacks on its right are empty."""
    found = _filled(path, rows)
    begin = [next(found, None), next(found, None)]
    known = [record for record in begin if record is not None]
    width = max((len(record.fields) for record in known), default=0)
    for place, record in enumerate(chain(known, found)):
        missing = width - len(record.fields)
        if place and missing > 0:
            record.fields.extend([""] * missing)
        yield record


def _filled(path: Path, rows: Iterator[tuple[Any, ...]]) -> Iterator[Record]:
    n_blank = 0
    for line, cells in enumerate(rows, start=1):
        if line > MOST_ROWS:
            raise TableError(f"{path} has more than {MOST_ROWS:,} rows")
        fields = [_as_text(cell) for cell in cells]
        while fields and not fields[-1].strip():
            fields.pop()
        if not fields:
            n_blank += 1
            continue
        yield Record(fields, line, n_blank, True)
        n_blank = 0


def _as_text(cell: Any) -> str:
    """A cell as text of a .csv file."""
    if cell is None:
        return ""
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)
