"""Sheets of .xlsx files are tables by the rules of text."""

import datetime
import io
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from dynpart.tables import TableError, read_table

openpyxl = pytest.importorskip("openpyxl")


@pytest.fixture
def table(tmp_path):
    def read(rows, **options):
        return read_table(written(tmp_path, rows), **options)

    return read


def written(folder, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("another").append(["not", "read"])
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def replaced(path, member, content):
    """The same file with other content in one of its members."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, old in parts.items():
            archive.writestr(name, content if name == member else old)
    return path


def test_the_rules_are_those_of_text(table, tmp_path):
    rows = [
        ["site", "x", "y", 2020],
        ["wood", 1, "yes", 0.5],
        ["moor", None, False, "NA"],
        [],
        ["fen", 3, True],
    ]
    t = table(rows)
    (tmp_path / "t.csv").write_text("site,x,y,2020\nwood,1,yes,.5\nmoor,,no,\nfen,3,1,\n")
    same = read_table(tmp_path / "t.csv")
    assert (t.names, t.labels, t.remarks) == (same.names, same.labels, same.remarks)
    np.testing.assert_array_equal(t.values, same.values)
    assert table([[0, 1], [1, 1]]).values.dtype == np.uint8
    assert table(rows, drop=["y"], label_column="site").names == ("x", "2020")
    assert table([[1, 2], [3, 4]], header=True).names == ("1", "2")


def test_it_may_come_by_standard_input(tmp_path, monkeypatch):
    path = written(tmp_path, [["a", "b"], [1, 2]])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert read_table("-").names == ("a", "b")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "is empty"),
        ([["a", "b"]], "names but no rows"),
        ([["a", "b"], [1, 2], [3, "50%"]], r"row 1 \(line 3\), column 'b' is '50%'"),
        ([["a", "b"], [1, datetime.datetime(2020, 1, 2)]], "column 'b' is .*a date"),
        ([["a", "b"], [1, "#DIV/0!"]], "'#DIV/0!', not a number"),
        ([["a", "a"], [1, 2]], "two columns named 'a'"),
        ([["a", "b"], [1, 2], [1, 2, 3]], "has 3 fields"),
    ],
)
def test_what_is_no_table_is_named(table, rows, words):
    with pytest.raises(TableError, match=words):
        table(rows)


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "%s">%s]><worksheet>&j;</worksheet>""" % (
    b"ha" * 100,
    b"".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)),
)
FAR = b"""<?xml version="1.0"?>
<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>
<row r="1"><c r="A1"><v>1</v></c></row><row r="99999999999"><c r="A99999999999"><v>1</v></c></row>
</sheetData></worksheet>"""


def test_hostile_files_are_refused(tmp_path, monkeypatch):
    path = written(tmp_path, [["a", "b"], [1, 2]])
    whole = path.read_bytes()
    for sheet, words in ((LAUGHS, "not a readable"), (FAR, "more than 1,048,576 rows")):
        path.write_bytes(whole)
        with pytest.raises(TableError, match=words):
            read_table(replaced(path, "xl/worksheets/sheet1.xml", sheet))
    rng = np.random.default_rng(0)
    for _ in range(30):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 5):
            damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged[: rng.integers(len(whole) // 2, len(whole) + 1)])
        with suppress(TableError):  # nothing else may come out
            read_table(path)
    path.write_bytes(whole)
    monkeypatch.setattr("dynpart.tables._sheets.MOST_UNPACKED", 1000)
    with pytest.raises(TableError, match="unpacks to more than"):
        read_table(path)


def test_without_the_package_a_sentence_says_what_to_do(tmp_path, monkeypatch):
    path = written(tmp_path, [["a", "b"], [1, 2]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TableError, match=r"needs openpyxl: pip install 'dynpart\[tables\]'"):
        read_table(path)
