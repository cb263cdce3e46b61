"""Tables of JSON lines: keys are columns, what a line does not have is a gap."""

import gzip
import io
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.tables import TableError, read_table
from tests.effort import examples


@pytest.fixture
def table(tmp_path):
    def read(text, name="t.jsonl", **options):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_table(path, **options)

    return read


def test_keys_are_columns_in_the_order_of_their_first_appearance(table):
    t = table('{"b": 1, "a": 0.5}\n\n{"a": null, "c": true}\n{"c": "NA", "b": "2"}\n')
    assert t.names == ("b", "a", "c")
    assert t.labels is None
    expected = [[1, 0.5, np.nan], [np.nan, np.nan, 1], [2, np.nan, np.nan]]
    np.testing.assert_array_equal(t.values, expected)


def test_a_first_key_of_text_holds_labels(table):
    begin = '{"site": null, "x": 1}\n{"site": "wood", "x": 0}\n{"x": 1}\n'
    text = begin + '{"site": "moor", "x": 0}\n'
    t = table(text)
    assert (t.names, t.labels) == (("x",), ("", "wood", "", "moor"))
    assert t.values.dtype == np.uint8
    assert "taken for the rows' labels" in t.remarks[0]
    both = table('{"x": 1, "site": "moor", "y": 2}\n', label_column="site")
    assert (both.names, both.labels, both.remarks) == (("x", "y"), ("moor",), ())
    assert table(text, drop=["site"]).labels is None
    assert table(text, label_column=False).words == (("moor", "wood"), None)
    assert table(begin).labels is None


def test_columns_are_chosen_by_name(table):
    text = '{"site": "wood", "x": 1, "note": ["fine"], "y,z": 2, "u": 3}\n'
    t = table(text, keep=["x", "y,z"])
    assert (t.names, t.labels) == (("x", "y,z"), ("wood",))
    assert table(text, drop=["note,site", "u"]).names == ("x", "y,z")
    assert table(text, drop=["note,site", "u"]).labels is None


def test_it_may_be_zipped_and_come_by_standard_input(table, monkeypatch):
    text = b'{"a": 1, "b": 2}\n{"b": 3}\n'
    zipped = table(gzip.compress(text), "t.jsonl.gz")
    for content in (text, gzip.compress(text)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        t = read_table("-")
        assert t.names == zipped.names == ("a", "b")
        np.testing.assert_array_equal(t.values, zipped.values)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "is empty"),
        ('{"a": 1}\n{"a": [1]}\n', {}, r"row 1 \(line 2\), column 'a' is nested"),
        ('{"a": 1}\n\n{"a": {"b": 1}}\n', {}, r"row 1 \(line 3\), column 'a' is nested"),
        ('{"a": 1}\n{"a": \n', {}, "line 2 is no JSON"),
        ("[1, 2]\n", {}, r"line 1 must be an object"),
        ("[" * 100_000, {}, "line 1 is no JSON"),
        ('{"a": 1, "a": 2}\n', {}, "line 1 has two columns named 'a'"),
        ('{"": 1}\n', {}, "line 1 has a key without a letter"),
        ('{"a": 1, "b": "5%"}\n', {}, r"column 'b' is '5%', not a plain number; .*--drop 'b'"),
        ('{"a": 1, "b": "2020-01-01"}\n', {}, r"column 'b' is '2020-01-01', a date, .*into a num"),
        ('{"a": 1e999}\n', {}, "column 'a' is inf"),
        ('{"a": -Infinity}\n', {}, "column 'a' is -inf"),
        ('{"a": 1' + "0" * 400 + "}\n", {}, "column 'a' is inf"),
        ('{"a": 1' + "0" * 5000 + "}\n", {}, "line 1 is no JSON"),
        ('{"a": 1}\n', {"drop": ["z"]}, "no column named 'z' to drop"),
        ('{"a": 1}\n', {"drop": ["a"]}, "no column to learn from"),
        ('{"a": 1}\n', {"label_column": "z"}, "no column named 'z' to take labels from"),
        ('{"a": "$5", "b": 1}\n', {"keep": ["a,b"]}, "column 'a' is '\\$5', not a plain number"),
        (b'{"a": \xff}\n', {}, "is not UTF-8 text"),
    ],
)
def test_what_is_no_table_is_named(table, text, options, words):
    with pytest.raises(TableError, match=words):
        table(text, **options)


def test_keys_that_lines_do_not_share_are_refused_before_room_is_made(table, monkeypatch):
    monkeypatch.setattr("dynpart.tables._lines.MOST_VALUES", 9_999)
    with pytest.raises(TableError, match="100 rows of 100 keys: too many"):
        table("".join(f'{{"k{i}": 1}}\n' for i in range(100)))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_infinity=False)
)


@examples(50)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1), min_size=1))
def test_numbers_come_back_as_they_were_written(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("lines") / "t.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    t = read_table(path)
    assert t.names == tuple(dict.fromkeys(key for row in rows for key in row))
    values = [[row.get(name) for name in t.names] for row in rows]
    np.testing.assert_array_equal(t.values, np.array(values, dtype=float))
