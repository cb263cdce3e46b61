"""Names and labels are detected by documented rules, and decisions are reported."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.cells import Fields, Kind
from dynpart.tables import TableError, read_table
from dynpart.tables._columns import advice


@pytest.fixture
def table(tmp_path):
    def read(text, **options):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return read_table(path, **options)

    return read


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("1", Kind.NUMBER),
        (" -2.5e3 ", Kind.NUMBER),
        ("yes", Kind.WORD),
        ("FALSE", Kind.WORD),
        ("", Kind.MISSING),
        ("n/a", Kind.MISSING),
        (" NaN ", Kind.MISSING),
        ("#N/A", Kind.MISSING),
        ("<NA>", Kind.MISSING),
        ("-", Kind.TEXT),
        ("$5", Kind.LIKE_A_NUMBER),
        ("50%", Kind.LIKE_A_NUMBER),
        ("1 000", Kind.LIKE_A_NUMBER),
        ("1,234,567.8", Kind.LIKE_A_NUMBER),
        ("1'000", Kind.LIKE_A_NUMBER),
        ("(3.50 €)", Kind.LIKE_A_NUMBER),
        ("1_0", Kind.LIKE_A_NUMBER),
        ("٣", Kind.LIKE_A_NUMBER),
        ("2021-03-04", Kind.DATE),
        ("2021-03-04T10:30:00+02:00", Kind.DATE),
        ("4/3/21", Kind.DATE),
        ("04.03.2021", Kind.DATE),
        ("4 March 2021", Kind.DATE),
        ("Mar 4, 2021", Kind.DATE),
        ("10:30", Kind.DATE),
        ("owl", Kind.TEXT),
        ("A1", Kind.TEXT),
        ("192.168.0.1", Kind.TEXT),
        ("12 oaks 99", Kind.TEXT),
    ],
)
def test_what_a_field_is(field, kind):
    assert Fields(decimal_comma=False).kind(field) is kind


def test_a_gap_in_the_first_row_makes_no_names(table):
    t = table("1,,3\n4,5,6\n")
    assert t.names is None
    np.testing.assert_array_equal(t.values, [[1, np.nan, 3], [4, 5, 6]])
    assert "--header" in t.remarks[0]
    assert table("1,,3\n4,5,6\n", header=True).names == ("1", "x1", "3")


def test_one_name_over_two_columns_of_numbers_is_unclear(table):
    with pytest.raises(TableError, match="1 name but 2 fields"):
        table("a\n1,2\n3,4\n")
    t = table("a\nwood,2\nmoor,4\n")
    assert t.names == ("a",)
    assert t.labels == ("wood", "moor")
    assert "labels" in t.remarks[0]


def test_nameless_numbers_are_labels_only_if_they_differ(table):
    t = table("a,b\n1,5,6\n2,7,8\n")  # as R writes them
    assert t.labels == ("1", "2")
    assert "--no-labels" in t.remarks[0]
    with pytest.raises(TableError, match="no name and repeats its numbers"):
        table("a,b\n1,5,6\n1,7,8\n")


@pytest.mark.parametrize("field", ["$5", "50%", "1 000", "1_0", "٣"])
def test_odd_numbers_do_not_become_labels(table, field):
    with pytest.raises(TableError, match=r"row 0 \(line 2\), column 'a' is .*not a plain number"):
        table(f"a,b\n{field},1\n7,0\n")
    with pytest.raises(TableError, match="not a plain number"):
        table(f"{field},1\n7,0\n")
    assert table(f"a,b\n{field},1\n7,0\n", label_column="a").labels == (field, "7")


def test_underscores_are_refused_in_every_row(table):
    with pytest.raises(TableError, match=r"row 1 \(line 3\), column 'b' is '1_0'"):
        table("a,b\n1,2\n3,1_0\n")


def test_words_over_numbers_are_names(table):
    t = table("yes,no\n1,0\n0,1\n")
    assert t.names == ("yes", "no")
    assert len(t.values) == 2
    assert "--no-header" in t.remarks[0]
    assert len(table("yes,no\n1,0\n0,1\n", header=False).values) == 3
    over_words = table("yes,no\nno,yes\n")
    assert over_words.names is None
    np.testing.assert_array_equal(over_words.values, [[1, 0], [0, 1]])


def test_a_blank_line_in_one_column_is_a_missing_value(table):
    np.testing.assert_array_equal(table("a\n1\n\n \n0\n").values.T, [[1, np.nan, np.nan, 0]])
    np.testing.assert_array_equal(table("\n1\n0\n").values.T, [[np.nan, 1, 0]])
    assert len(table("\na\n1\n0\n\n\n").values) == 2
    assert len(table("a,b\n1,0\n\n0,1\n").values) == 2


def test_percentiles_and_counts_on_top_are_names(table):
    assert table("25%,50%\n1,2\n").names == ("25%", "50%")
    pandas = table(",0,1\n0,5,6\n1,7,8\n")
    assert pandas.names == ("0", "1")
    assert pandas.labels == ("0", "1")
    assert len(pandas.remarks) == 2


def test_a_line_like_the_one_below_is_names_only_if_they_differ(table):
    years = table("site,2019,2020\nwood,1,0\n")
    assert years.names == ("2019", "2020")
    assert "--no-header" in years.remarks[0]
    rows = table("wood,1,1\nmoor,0,1\n")
    assert rows.names is None
    assert rows.labels == ("wood", "moor")
    assert "--header" in rows.remarks[0]


def test_options_overrule(table):
    text = "x,site,y\n1,wood,2\n3,moor,4\n"
    t = table(text, label_column="site")
    assert t.names == ("x", "y")
    assert t.labels == ("wood", "moor")
    assert t.remarks == ()
    assert table(text).words == (None, ("moor", "wood"), None)
    with pytest.raises(TableError, match=r"column 'site'.*--label-column 'site'"):
        table(text.replace("wood", "5%").replace("moor", "6%"))
    with pytest.raises(TableError, match="no column named 'nope' to take labels from"):
        table(text, label_column="nope")
    assert table("site,x\nwood,2\n", label_column=False).words == (("wood",), None)
    with pytest.raises(TableError, match="--header"):
        table("1,2\n3,4\n", label_column="a")
    index = table(",a\n7,5\n8,6\n", label_column=False)
    assert index.names == ("x0", "a")
    assert "x0" in index.remarks[0]


def test_what_is_clear_is_not_talked_about(table):
    assert table("a,b\n1,2\n3,4\n").remarks == ()
    assert table("1,2\n3,4\n").remarks == ()


def test_a_first_column_of_text_is_announced(table):
    (remark,) = table("site,a\nwood,1\n").remarks
    assert "'site'" in remark
    assert "--label-column" in remark


@pytest.mark.parametrize("date", ["2021-03-04", "4.3.2021", "3/4/21 10:30"])
def test_dates_have_a_remedy(table, date):
    for text in (f"day,a\n{date},1\n", f"a,day\n1,{date}\n"):
        with pytest.raises(TableError, match=r"'day' is .* a date.*--drop 'day'.*into a number"):
            table(text)
        assert table(text, drop=["day"]).names == ("a",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("n,a\n10,1\n20,0\n30,1\n40,1\n", "'n'"),
        ("a,id\n1,7\n0,3\n1,9\n0,4\n", "'id'"),
        ("a,identifier\n1,7\n0,3\n1,9\n0,4\n", "'identifier'"),
        ("a,siteID\n1,7\n0,3\n1,9\n0,4\n", "'siteID'"),
        ("0,1\n1,0\n2,1\n3,0\n", "column 0"),
    ],
)
def test_columns_that_count_rows_are_pointed_out(table, text, named):
    (line,) = advice(table(text))
    assert named in line
    assert "number of the row" in line


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,7\n0,3\n1,9\n0,4\n",
        "id,b\n7,.5\n7,3\n7,9\n7,4\n",
        "id,b\n7.5,1\n3,1\n9,1\n4,1\n",
        "a,b\n4,1\n3,0\n2,1\n1,0\n",
    ],
)
def test_measurements_are_not_pointed_out(table, text):
    assert advice(table(text)) == []


def test_integers_that_are_rounded_are_pointed_out(table):
    (line,) = advice(table("a,code\n1,9007199254740993\n2,5\n"))
    assert "'code'" in line
    assert "2^53" in line


@given(
    names=st.lists(
        st.from_regex(r"[a-z]{2,6}", fullmatch=True), min_size=1, max_size=4, unique=True
    ),
    rows=st.lists(st.lists(st.integers(-9, 9), min_size=4, max_size=4), min_size=1, max_size=4),
    labelled=st.booleans(),
    header=st.booleans(),
)
def test_text_over_numbers_is_always_understood(tmp_path_factory, names, rows, labelled, header):
    names = [f"n{name}" for name in names]
    rows = [row[: len(names)] for row in rows]
    lines = [["site", *names] if labelled else names] if header else []
    lines += [[*([f"s{i}"] if labelled else []), *map(str, row)] for i, row in enumerate(rows)]
    path = tmp_path_factory.getbasetemp() / "drawn.csv"
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    table = read_table(path, header=None if header else False)
    assert table.names == (tuple(names) if header else None)
    assert table.labels == (tuple(f"s{i}" for i in range(len(rows))) if labelled else None)
    np.testing.assert_array_equal(table.values, rows)


@pytest.mark.parametrize("code", ["-9", "-99", "-999"])
def test_codes_of_missing_values_are_pointed_out(table, code):
    (line,) = advice(table(f"a,b\n5,0.5\n{code},2\n3,\n{code},1\n3,4\n"))
    assert line.startswith(f"column 'a': {code} is the only negative number")
    assert "leave these cells empty" in line
    (line,) = advice(table(f"a,b\n5,{code}\n{code},2\n3,\n{code},{code}\n3,4\n"))
    assert line.startswith(f"column 'a' and 1 more: {code} is")


@pytest.mark.parametrize("column", ["5,-9,3,7,7", "5,-9,-9,-1,7", "5,-8,-8,3,7", "0,1,1,0,0"])
def test_other_negative_numbers_are_numbers(table, column):
    assert advice(table("a,b\n" + "".join(f"{x},1\n" for x in column.split(",")))) == []
