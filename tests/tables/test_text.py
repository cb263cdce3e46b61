"""Tables of text are read by documented rules; ambiguous content is an error or a remark."""

import io
import sys

import numpy as np
import pytest

from dynpart.tables import TableError, read_table


@pytest.fixture
def table(tmp_path):
    def read(text, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_table(path, **options)

    return read


def test_names_and_labels_are_told_from_numbers(table):
    t = table("site,robin,wren\nwood,1,0\nmoor,0,1\n")
    assert t.names == ("robin", "wren")
    assert t.labels == ("wood", "moor")
    assert t.values.dtype == np.uint8
    np.testing.assert_array_equal(t.values, [[1, 0], [0, 1]])


def test_numbers_alone_have_no_names(table):
    t = table("1,2.5\n3,-4e1\n")
    assert t.names is None
    assert t.labels is None
    np.testing.assert_array_equal(t.values, [[1, 2.5], [3, -40]])


def test_names_in_the_way_r_writes_them(table):
    t = table('"a" "b"\n'.replace(" ", ",") + '"r1",1,2\n"r2",3,4\n')
    assert t.names == ("a", "b")
    assert t.labels == ("r1", "r2")


def test_a_nameless_first_column_is_an_index(table):
    t = table(",a,b\n0,5,6\n1,7,8\n")  # as pandas writes them
    assert t.names == ("a", "b")
    assert t.labels == ("0", "1")


@pytest.mark.parametrize(
    ("text", "name"),
    [("a;b\n1,5;2\n", "t.csv"), ("a\tb\n1.5\t2\n", "t.tsv"), ("a\tb\n1.5\t2\n", "t.csv")],
)
def test_separators_and_decimal_commas(table, text, name):
    t = table(text, name)
    assert t.names == ("a", "b")
    np.testing.assert_array_equal(t.values, [[1.5, 2]])


def test_words_for_yes_and_no(table):
    t = table("a,b\nTRUE,no\nfalse, yes\n")
    np.testing.assert_array_equal(t.values, [[1, 0], [0, 1]])


def test_quotes_marks_and_blank_lines(table):
    t = table('\ufeff"a,1",\'b\n\n1,2\n\n3,4\n')
    assert t.names == ("a,1", "'b")
    assert len(t.values) == 2


def test_columns_can_be_dropped(table):
    t = table("a,note,b\n1,fine,2\n", drop=["note"])
    assert t.names == ("a", "b")
    with pytest.raises(TableError, match="'nope'"):
        table("a,b\n1,2\n", drop=["nope"])
    with pytest.raises(TableError, match="no column"):
        table("a\n1\n", drop=["a"])
    with pytest.raises(TableError, match=r"--drop takes column numbers from 0 to 1, got 'a'"):
        table("1,2\n", drop=["a"])
    with pytest.raises(TableError, match=r"--keep takes column numbers from 0 to 1, got '2'"):
        table("1,2\n", keep=["0,2"])


def test_columns_are_kept_by_name_or_place(table):
    text = 'site,"a,b",c,note,d\nwood,1,2,fine,3\nmoor,4,5,fine,6\n'
    for keep in (["d,a", "c"], ["d", "c "]):
        with pytest.raises(TableError, match="no column named 'a' to keep"):
            table(text, keep=[*keep, "a"])
    t = table(text, keep=["d, c", "a,b"])
    assert (t.names, t.labels) == (("a,b", "c", "d"), ("wood", "moor"))
    np.testing.assert_array_equal(t.values, [[1, 2, 3], [4, 5, 6]])
    assert table(text, keep=["c,d"], drop=["d"]).names == ("c",)
    assert table(text, keep=["c,d"], drop=["site"]).labels is None
    assert table(text, keep=["c"], label_column="note").labels == ("fine", "fine")
    assert table(text, keep=["site,c"]).words == (("moor", "wood"), None)
    places = table("1,2,3\n4,5,6\n", keep=["2,0"])
    assert places.names is None
    np.testing.assert_array_equal(places.values, [[1, 3], [4, 6]])
    np.testing.assert_array_equal(table("1,2,3\n4,5,6\n", drop=["1"]).values, places.values)


@pytest.mark.parametrize(
    ("text", "name", "names"),
    [
        ('"a" "b"\n"r1" 1.5 2\n"r 2" 3 4\n', "t.txt", ("a", "b")),  # as R's write.table
        ("  a    b\n  1.5  2 \n  3  4  \n", "t.txt", ("a", "b")),
        ("a,b\n1.5,2\n3,4\n", "t.txt", ("a", "b")),
        ("a b\n1.5\n3\n", "t.txt", ("a b",)),  # a name with a blank
        ("a b,c\n1.5,2\n3,4\n", "t.txt", ("a b", "c")),
        ("a b\n1.5\n3\n", "t.csv", ("a b",)),
    ],
)
def test_blanks_may_separate_the_fields_of_plain_text(table, text, name, names):
    t = table(text, name)
    assert t.names == names
    np.testing.assert_array_equal(t.values[:, 0], [1.5, 3])
    if names == ("a", "b"):
        np.testing.assert_array_equal(t.values[:, 1], [2, 4])


@pytest.mark.parametrize(
    ("encoding", "remark"), [("cp1252", "Windows-1252"), ("utf-8", None), ("utf-16", None)]
)
def test_text_of_other_encodings_is_read(table, encoding, remark):
    t = table("größe;straße\n1,5;süd\n2;nord – ost\n".encode(encoding))
    assert t.names == ("größe", "straße")
    assert t.words == (None, ("nord – ost", "süd"))
    assert [remark in text for text in t.remarks] == ([True] if remark else [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", r"row 1 \(line 3\) has 1 field, row 0 has 2"),
        ("a,b\n1,5%\n", "column 'b' is '5%', not a plain number"),
        ("a,b\n1,-\n", r"row 0 \(line 2\), column 'b' is '-', .* leave the cell empty"),
        ("1,2\n1,-inf\n", r"row 1 \(line 2\), column 1 \(counted from 0\) is -inf"),
        ("a,b\n1,inf\n", "column 'b' is inf"),
        ("a,a\n1,2\n", "two columns named 'a'"),
        ("a,b,c,d\n1,2\n", "4 names but 2 fields"),
        ('a,b\n"1,2\n', "not a readable table"),
        (b"a,b\n\x81,1\n", "UTF-8"),
        (b"a,b\n\xff\x00,1\n", "UTF-8"),
        ("a," * 600_000 + "\n", "million"),
    ],
)
def test_what_is_unclear_is_named(table, text, message):
    with pytest.raises(TableError, match=message):
        table(text)


def test_standard_input_is_read(monkeypatch, tmp_path):
    def stdin(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return read_table("-")

    assert stdin(b"a,b\n1,0\n").names == ("a", "b")
    array = io.BytesIO()
    np.save(array, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(stdin(array.getvalue()).values, np.arange(6.0).reshape(2, 3))
    archive = io.BytesIO()
    np.savez(archive, x=np.eye(2))
    np.testing.assert_array_equal(stdin(archive.getvalue()).values, np.eye(2))
