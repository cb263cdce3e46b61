"""Arrays and images become rows; files with false sizes are rejected."""

import gzip
import struct
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from dynpart.schema import Schema
from dynpart.tables import TableError, read_table, write_table


def test_npy_files_stay_on_the_disk(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    table = read_table(tmp_path / "x.npy")
    assert isinstance(table.values, np.memmap)
    np.testing.assert_array_equal(table.values, np.arange(6.0).reshape(2, 3))


def test_arrays_of_three_dimensions_are_images(tmp_path):
    np.save(tmp_path / "x.npy", np.full((4, 2, 3), 255, dtype=np.uint8))
    table = read_table(tmp_path / "x.npy")
    assert table.image_shape == (2, 3)
    assert table.values.shape == (4, 6)
    assert (table.values == 1).all()
    assert "black and white" in table.remarks[0]
    gray = read_table(tmp_path / "x.npy", binary=False)
    assert gray.values.dtype == np.float32
    assert (gray.values == 1).all()


def test_one_array_of_several_is_chosen_by_name(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.eye(2), b=np.ones((1, 3)))
    savemat(tmp_path / "x.mat", {"a": np.eye(2), "b": np.ones((1, 3)), "word": "text"})
    for name in ("x.npz", "x.mat"):
        np.testing.assert_array_equal(read_table(tmp_path / name, array="b").values, [[1, 1, 1]])
        with pytest.raises(TableError, match=r"2 arrays \(a, b\)"):
            read_table(tmp_path / name)
        with pytest.raises(TableError, match="no array 'c'"):
            read_table(tmp_path / name, array="c")


@pytest.mark.parametrize(
    ("index", "first"),
    [
        (pd.date_range("2021-03-04", periods=3), "2021-03-04"),
        (pd.Index([7, 3, 5]), "7"),
        (pd.Index(["x", "y", "z"]), "x"),
    ],
)
@pytest.mark.parametrize("name", [None, "site"])
def test_the_index_of_a_stored_data_frame_is_the_labels(tmp_path, index, first, name):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"a": [1.5, 2.0, 3.0], "note": ["p", "p", "q"]}, index=index)
    frame.rename_axis(name).to_parquet(path)
    table = read_table(path)
    assert (table.names, table.labels[0]) == (("a", "note"), first)
    assert table.label_name == (name or "")
    assert "--no-labels" in table.remarks[0]
    assert read_table(path, keep=["a"]).labels == table.labels
    stored = name or "__index_level_0__"
    assert read_table(path, drop=[stored]).labels is None
    if first == "7":
        assert read_table(path, label_column=False).names == ("a", "note", stored)
    like = read_table(path, like=Schema(("real", "categorical"), ("a", stored)))
    assert stored in like.names


def test_metadata_of_pandas_may_be_anything(tmp_path):
    for stored in (b"{", b"[]", b"{}", b'{"index_columns": ["c"]}', b'{"index_columns": [{}]}'):
        table = pa.table({"a": [1, 0], "b": [0, 1]}).replace_schema_metadata({b"pandas": stored})
        pq.write_table(table, tmp_path / "t.parquet")
        assert read_table(tmp_path / "t.parquet").names == ("a", "b")


def test_decimals_of_a_parquet_file_are_numbers(tmp_path):
    prices = pa.array([Decimal("1.25"), None, Decimal("-3.10")], pa.decimal128(5, 2))
    pq.write_table(pa.table({"price": prices, "a": [1, 0, 1]}), tmp_path / "t.parquet")
    values = read_table(tmp_path / "t.parquet").values
    np.testing.assert_array_equal(values[:, 0], [1.25, np.nan, -3.1])


def test_parquet_keeps_names_and_labels(tmp_path):
    frame = pd.DataFrame({"site": ["x", "y"], "a": [1, 0], "b": [True, False]})
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    table = read_table(tmp_path / "t.parquet")
    assert table.names == ("a", "b")
    assert table.labels == ("x", "y")
    assert table.values.dtype == np.uint8
    frame["note"] = ["p", None]
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    noted = read_table(tmp_path / "t.parquet")
    assert noted.names == ("a", "b", "note")
    assert noted.words == (None, ("False", "True"), ("p",))
    np.testing.assert_array_equal(noted.values[:, 2], [0, np.nan])
    assert read_table(tmp_path / "t.parquet", drop=["note"]).names == ("a", "b")
    frame["a"] = [1.0, None]
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    np.testing.assert_array_equal(
        read_table(tmp_path / "t.parquet", drop=["note"]).values, [[1, 1], [np.nan, 0]]
    )


def test_a_folder_of_pictures_in_natural_order(tmp_path):
    for number in (10, 2, 1):
        Image.new("L", (3, 2), 255 * (number == 2)).save(tmp_path / f"p{number}.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    table = read_table(tmp_path)
    assert table.labels == ("p1.png", "p2.png", "p10.png")
    assert table.image_shape == (2, 3)
    np.testing.assert_array_equal(table.values[:, 0], [0, 1, 0])
    resized = read_table(tmp_path, size=(4, 5))
    assert resized.image_shape == (4, 5)
    np.testing.assert_array_equal(resized.values, np.repeat([[0], [1], [0]], 20, axis=1))


def test_transparent_pixels_are_black(tmp_path):
    Image.new("RGBA", (2, 2), (255, 255, 255, 0)).save(tmp_path / "p.png")
    assert not read_table(tmp_path).values.any()


def test_pictures_of_different_sizes_ask_for_a_size(tmp_path):
    Image.new("L", (3, 2)).save(tmp_path / "a.png")
    Image.new("L", (3, 3)).save(tmp_path / "b.png")
    with pytest.raises(TableError, match="--size"):
        read_table(tmp_path)
    (tmp_path / "c.png").write_bytes(b"nonsense")
    with pytest.raises(TableError, match=r"c\.png cannot be read"):
        read_table(tmp_path, size=(2, 2))


def test_folders_without_pictures_and_unknown_endings(tmp_path):
    with pytest.raises(TableError, match="no pictures"):
        read_table(tmp_path)
    (tmp_path / "x.ods").write_bytes(b"")
    with pytest.raises(TableError, match="unknown extension"):
        read_table(tmp_path / "x.ods")
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "missing.csv")


def idx(n, height, width, body):
    return struct.pack(">4B3I", 0, 0, 8, 3, n, height, width) + body


def test_idx_files_zipped_and_plain(tmp_path):
    content = idx(2, 2, 2, bytes([0, 255, 0, 255, 255, 0, 255, 0]))
    (tmp_path / "x-ubyte").write_bytes(content)
    (tmp_path / "x.gz").write_bytes(gzip.compress(content, mtime=0))
    for name in ("x-ubyte", "x.gz"):
        table = read_table(tmp_path / name)
        assert table.image_shape == (2, 2)
        np.testing.assert_array_equal(table.values, [[0, 1, 0, 1], [1, 0, 1, 0]])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.gz", gzip.compress(idx(2**32 - 1, 2**16, 2, b""), mtime=0)),
        ("x.gz", gzip.compress(idx(5, 2, 2, b"short"), mtime=0)),
        ("x.gz", gzip.compress(idx(1, 2, 2, b"longer than declared"), mtime=0)),
        ("x.gz", gzip.compress(b"", mtime=0)),
        ("x.gz", b"\x1f\x8b broken"),
        ("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (99"),
        ("x.npy", b""),
        ("x.npz", b"PK\x03\x04 broken"),
        ("x.mat", b"MATLAB 5.0 broken"),
        ("x.parquet", b"PAR1 broken PAR1"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=name):
        read_table(tmp_path / name)


def test_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", np.array([[{}]], dtype=object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(TableError):
            read_table(tmp_path / name)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".npz", ".parquet"])
@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9).map(
            lambda s: f"n{s.strip()}"
        ),
        min_size=2,
        max_size=5,
        unique=True,
    ),
    data=st.data(),
)
def test_what_is_written_is_read_back(tmp_path_factory, ending, names, data):
    n_rows = data.draw(st.integers(1, 4))
    values = np.array(
        data.draw(
            st.lists(
                st.lists(st.floats(-1e9, 1e9), min_size=len(names), max_size=len(names)),
                min_size=n_rows,
                max_size=n_rows,
            )
        )
    )
    path = tmp_path_factory.getbasetemp() / f"t{ending}"
    write_table(path, values, names, overwrite=True)
    table = read_table(path)
    assert list(table.names) == names
    np.testing.assert_array_equal(table.values, values)


def test_labels_are_written_and_read_back(tmp_path):
    for ending in (".csv", ".parquet"):
        path = tmp_path / f"t{ending}"
        write_table(path, np.eye(2, dtype=np.uint8), ["a", "b"], labels=["x", "y"])
        assert read_table(path).labels == ("x", "y")


def test_outputs_are_not_overwritten_unasked(tmp_path):
    (tmp_path / "t.csv").write_text("precious")
    with pytest.raises(FileExistsError):
        write_table(tmp_path / "t.csv", np.eye(2), ["a", "b"])
    assert (tmp_path / "t.csv").read_text() == "precious"
    write_table(tmp_path / "t.csv", np.eye(2), ["a", "b"], overwrite=True)
    with pytest.raises(TableError, match="must end in"):
        write_table(tmp_path / "t.xlsx", np.eye(2), ["a", "b"])


def test_npy_output_holds_the_values_alone(tmp_path):
    write_table(tmp_path / "t.npy", np.eye(2), ["a", "b"], labels=["x", "y"])
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), np.eye(2))
