"""A gap is a value that was not observed: NaN in a table, whatever kind of file it comes from."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

from dynpart.tables import Table, TableError, read_table, write_table
from dynpart.tables._columns import advice
from dynpart.tables._table import is_binary
from dynpart.tables.gaps import check_observed, count_gaps, gaps_in_words, refuse_gaps

NAN = np.nan


@pytest.fixture
def table(tmp_path):
    def read(text, **options):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return read_table(path, **options)

    return read


@pytest.mark.parametrize(
    "gap", ["", " ", "NA", "na", "N/A", "#N/A", "<NA>", "NaN", "nan", "-nan", "null", "NULL",
            "None", "?", ".", '""', '"NA"'],
)  # fmt: skip
def test_words_for_nothing_are_gaps(table, gap):
    t = table(f"a,b,c\n1,0,1\n0,{gap},1\n")
    np.testing.assert_array_equal(t.values, [[1, 0, 1], [0, NAN, 1]])
    assert is_binary(t.values, gaps=True)
    assert t.names == ("a", "b", "c")


def test_a_table_of_bits_with_gaps_holds_bits_and_gaps(table):
    t = table("a,b\nyes,no\n,TRUE\n1,0\n")
    np.testing.assert_array_equal(t.values, [[1, 0], [NAN, 1], [1, 0]])
    assert t.values.dtype == np.float64
    assert not is_binary(t.values)
    assert not is_binary(np.array([[0, 2, NAN]]), gaps=True)


def test_a_comma_at_the_end_of_every_line_is_no_column(table):
    t = table("a,b,\n1,2,\n3,,\n")
    assert t.names == ("a", "b")
    np.testing.assert_array_equal(t.values, [[1, 2], [3, NAN]])
    assert t.remarks == ("its column 2, which has neither name nor value, is left out",)
    named = table("a,b,\n1,2,\n3,4,5\n")
    assert named.names == ("a", "b", "x2")
    assert named.remarks == ("its column 2, which has no name, is called x2",)
    with pytest.raises(TableError, match="no column to learn from"):
        table("a,,\n1,,\n", drop=["a"])
    assert table("a,b,\n1,2,\n3,4,owl\n").words == (None, None, ("owl",))
    with pytest.raises(TableError, match=r"row 1 \(line 3\), column 'x2' is '5%'"):
        table("a,b,\n1,2,\n3,4,5%\n")


def test_gaps_beside_decimal_commas(table):
    np.testing.assert_array_equal(table("a;b\n1,5;\nNA;2\n").values, [[1.5, NAN], [NAN, 2]])


def test_names_are_found_over_gaps(table):
    assert table("a,b\n,\n1,2\n").names == ("a", "b")
    assert table("a,b\nNA,NA\n").names == ("a", "b")
    assert table("Fe,Na,K\n1,2,3\n").names == ("Fe", "Na", "K")
    assert table("25%,50%\n1,\n").names == ("25%", "50%")
    assert table("yes,no\n,0\n").names == ("yes", "no")
    numbers = table("5,6\n,2\n")
    assert numbers.names is None
    assert numbers.remarks == ()


def test_labels_are_found_where_the_first_one_is_missing(table):
    t = table("site,a\n,1\nNA,2\nwood,3\nmoor,4\n")
    assert t.labels == ("", "", "wood", "moor")
    np.testing.assert_array_equal(t.values.T, [[1, 2, 3, 4]])
    numbers = table("a,b\n,1\n,2\n5,3\n")
    assert numbers.labels is None
    np.testing.assert_array_equal(numbers.values[:, 0], [NAN, NAN, 5])


def test_a_mostly_empty_column_of_texts_holds_no_labels(table):
    t = table("site,a\n,1\nNA,2\nwood,3\n,4\n")
    assert t.labels is None
    assert t.words[0] == ("wood",)


def test_nameless_labels_may_have_gaps_but_not_repeat(table):
    assert table(",a\n7,1\n,2\n,3\n8,4\n").labels == ("7", "", "", "8")
    with pytest.raises(TableError, match="repeats its numbers"):
        table(",a\n7,1\n,2\n7,3\n")


def test_a_first_column_that_begins_with_many_gaps_is_still_read(table):
    t = table("a,b\n" + ",1\n" * 3000 + "4,5\n")
    assert t.labels is None
    assert count_gaps(t.values) == 3000
    assert t.values[-1, 0] == 4


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2)])
def test_nan_in_arrays_is_a_gap(tmp_path, shape):
    X = np.arange(np.prod(shape), dtype=float).reshape(shape)
    X[2, 1] = NAN
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X)
    savemat(tmp_path / "x.mat", {"x": X})
    for name in ("x.npy", "x.npz", "x.mat"):
        found = read_table(tmp_path / name)
        np.testing.assert_array_equal(found.values, X.reshape(4, -1))
        assert found.image_shape == (shape[1:] if len(shape) == 3 else None)


def test_nulls_of_a_parquet_file_are_gaps(tmp_path):
    columns = {
        "real": pa.array([1.5, None, float("nan")]),
        "whole": pa.array([None, 2, 3]),
        "bit": pa.array([True, None, False]),
        "nothing": pa.nulls(3),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    expected = [[1.5, NAN, 1, NAN], [NAN, 2, NAN, NAN], [NAN, 3, 0, NAN]]
    np.testing.assert_array_equal(read_table(tmp_path / "t.parquet").values, expected)


def test_gaps_of_a_long_parquet_file_stay_in_their_rows(tmp_path):
    column = pa.array([1.0] * 70_000 + [None, 2.0])
    pq.write_table(pa.table({"a": np.ones(70_002), "b": column}), tmp_path / "t.parquet")
    values = read_table(tmp_path / "t.parquet").values
    np.testing.assert_array_equal(np.argwhere(np.isnan(values)), [[70_000, 1]])


cells = st.floats(-1e9, 1e9) | st.just(NAN) | st.sampled_from([0.0, 1.0])


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".npy", ".npz", ".parquet"])
@given(data=st.data(), n_columns=st.integers(1, 4), labelled=st.booleans())
def test_gaps_are_written_and_read_back(tmp_path_factory, ending, data, n_columns, labelled):
    row = st.lists(cells, min_size=n_columns, max_size=n_columns)
    values = np.array(data.draw(st.lists(row, min_size=1, max_size=4)))
    labels = [f"s{i}" for i in range(len(values))] if labelled else None
    path = tmp_path_factory.getbasetemp() / f"gaps{ending}"
    names = [f"n{i}" for i in range(n_columns)]
    write_table(path, values, names, labels=labels, overwrite=True)
    if ending in (".csv", ".tsv"):
        assert "nan" not in path.read_text()
    back = read_table(path)
    np.testing.assert_array_equal(back.values, values)
    if ending in (".csv", ".tsv", ".parquet"):
        assert back.labels == (tuple(labels) if labels else None)


def test_gaps_of_text_are_empty_cells(capsys):
    write_table("-", np.array([[1.5, NAN], [NAN, 2]]), ["a", "b"], labels=["x", "y"])
    assert capsys.readouterr().out == "row,a,b\nx,1.5,\ny,,2\n"


def test_gaps_of_a_parquet_file_are_nulls(tmp_path):
    write_table(tmp_path / "t.parquet", np.array([[1.0, NAN]]), ["a", "b"])
    assert pq.read_table(tmp_path / "t.parquet").to_pydict() == {"a": [1.0], "b": [None]}


def test_gaps_are_counted_in_one_sentence():
    values = np.zeros((100, 200))
    assert gaps_in_words(values) == ""
    assert gaps_in_words(values.astype(np.uint8)) == ""
    values[0, 0] = NAN
    words = "1 of 20,000 cells is missing (less than 0.1%): it counts as not observed"
    assert gaps_in_words(values) == words
    values.ravel()[:1234] = NAN
    words = "1,234 of 20,000 cells are missing (6.2%): they count as not observed"
    assert gaps_in_words(values) == words


def test_a_column_without_any_value_is_named():
    values = np.array([[1, NAN, 2], [NAN, NAN, 3]])
    with pytest.raises(TableError, match=r"t\.csv: column 'b' has no value .* --drop 'b'"):
        check_observed("t.csv", Table(values, ("a", "b", "c")))
    with pytest.raises(TableError, match=r"column 1 \(counted from 0\) has no value"):
        check_observed("t.csv", Table(values))
    check_observed("t.csv", Table(values[:, [0, 2]]))
    check_observed("t.csv", Table(np.eye(2, dtype=np.uint8)))


def test_gaps_are_located_where_none_may_be():
    values = np.ones((3, 2))
    refuse_gaps("t.csv", values, None, "why")
    values[2, 1] = NAN
    with pytest.raises(TableError, match=r"t\.csv: row 2, column 'b' is missing; why"):
        refuse_gaps("t.csv", values, ["a", "b"], "why")


def test_columns_with_gaps_that_name_rows_are_pointed_out(table):
    text = "a,id\n1,7\n0,\n1,9\n0,4\n1,12\n"
    (line,) = advice(table(text))
    assert "'id'" in line
    assert advice(table("a,id\n1,7\n0,\n1,7\n0,4\n1,12\n")) == []
    assert advice(table("a,id\n1,7\n0,\n1,\n0,\n")) == []
