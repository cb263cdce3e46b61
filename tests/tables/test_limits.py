"""Sizes are checked before reading, and damaged files are reported in one line."""

import gzip
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.io import savemat

import dynpart
from dynpart.tables import TableError, _mat, _text, limits, read_table, write_table


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 10**6)


def test_free_memory_is_a_number_where_it_is_known():
    free = limits.free_memory()
    if Path("/proc/meminfo").exists():
        assert 10**6 < free < 10**15
    else:
        assert free is None


def test_a_container_has_less_memory_than_its_machine(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n",
        "/sys/fs/cgroup/memory.max": "5000\n",
        "/sys/fs/cgroup/memory.current": "3000\n",
        "/sys/fs/cgroup/memory.stat": "anon 1\nactive_file 100\ninactive_file 400\n",
    }
    monkeypatch.setattr(limits, "_content", lambda path: files.get(path, ""))
    assert limits.free_memory() == 5000 - 3000 + 500
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert limits.free_memory() == 8000 * 1024
    files.clear()
    assert limits.free_memory() is None


def test_arrays_that_do_not_fit_are_refused(tmp_path, little_memory):
    zeros = np.zeros((1000, 1000))
    np.savez_compressed(tmp_path / "x.npz", x=zeros)
    savemat(tmp_path / "x.mat", {"x": zeros}, do_compression=True)
    pq.write_table(pa.table({"x": np.zeros(10**6)}), tmp_path / "x.parquet")
    for name in ("x.npz", "x.mat", "x.parquet"):
        assert (tmp_path / name).stat().st_size < 10**5
        with pytest.raises(TableError, match="of memory"):
            read_table(tmp_path / name)


def test_pictures_that_do_not_fit_are_refused(tmp_path, little_memory):
    from PIL import Image

    Image.new("1", (10, 10)).save(tmp_path / "p.png")
    with pytest.raises(TableError, match="of memory"):
        read_table(tmp_path, size=(1000, 1000))
    with pytest.raises(TableError, match="size must have"):
        read_table(tmp_path, size=(99_999, 99_999))


def test_text_is_weighed_while_it_is_read(tmp_path, little_memory, monkeypatch):
    monkeypatch.setattr(_text, "NUMBERS_AT_ONCE", 1000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 400_000))
    with pytest.raises(TableError, match="of memory"):
        read_table(tmp_path / "t.csv.gz")


def test_text_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "MOST_UNPACKED", 10**6)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"\n" * 2 * 10**6))
    with pytest.raises(TableError, match="unpacks to more than"):
        read_table(tmp_path / "t.csv.gz")
    monkeypatch.setattr(_text, "MOST_LINE", 10**5)
    (tmp_path / "t.csv").write_bytes(b"1,2\n" + b"1" * 10**6)
    with pytest.raises(TableError, match="line of more than"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b", gzip.compress(b"a,b\n" + b"1,2\n" * 99, mtime=0)[:-9]]
)
def test_damaged_zipped_text_is_refused(tmp_path, content):
    (tmp_path / "t.csv.gz").write_bytes(content)
    with pytest.raises(TableError, match="truncated or damaged"):
        read_table(tmp_path / "t.csv.gz")


def test_a_text_in_every_row_of_a_parquet_file_is_kept_once(tmp_path):
    n_rows, text = 20_000, "x" * 10**6  # 20 GB if it were copied
    labels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int32)), pa.array([text]))
    pq.write_table(pa.table({"site": labels, "a": np.arange(n_rows)}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", label_column="site")
    assert table.labels[-1] == text
    assert read_table(tmp_path / "t.parquet", label_column=False).words == ((text,), None)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_values_that_are_infinite_are_located(tmp_path, value):
    X = np.ones((4, 3))
    X[2, 1] = value
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X)
    savemat(tmp_path / "x.mat", {"x": X})
    for name in ("x.npy", "x.npz", "x.mat"):
        with pytest.raises(TableError, match=r"row 2, column 1 \(counted from 0\) is "):
            read_table(tmp_path / name)
    for ending in (".npz", ".parquet", ".csv"):
        write_table(tmp_path / f"n{ending}", X, ["a", "b", "c"])
        with pytest.raises(TableError, match=r"row 2( \(line 4\))?, column 'b' is "):
            read_table(tmp_path / f"n{ending}")


def test_dates_in_a_parquet_file_have_a_remedy(tmp_path):
    day = np.array(["2021-03-04", "2021-03-05"], dtype="datetime64[us]")
    pq.write_table(pa.table({"day": day, "a": [1, 0]}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"'day' holds dates.*--drop 'day'.*into a number"):
        read_table(tmp_path / "t.parquet")
    texts = pa.table({"a": [1, 0], "day": ["2021-03-04", "2021-03-05"]})
    pq.write_table(texts, tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"'day' is .* a date.*--drop 'day'.*into a number"):
        read_table(tmp_path / "t.parquet")
    pq.write_table(pa.table({"day": day, "a": [1, 0]}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", label_column="day")
    assert table.names == ("a",)
    assert table.labels[0].startswith("2021-03-04")


def test_a_file_that_ends_the_reader_of_matlab_files_is_one_error(tmp_path, monkeypatch):
    crash = tmp_path / "crash.py"
    crash.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    savemat(tmp_path / "x.mat", {"x": np.eye(2)})
    monkeypatch.setattr(_mat._mat_process, "__file__", str(crash))
    with pytest.raises(TableError, match=r"x\.mat is not a readable MATLAB file"):
        read_table(tmp_path / "x.mat")


def test_a_reader_that_ends_while_it_copies_is_one_error(tmp_path, monkeypatch):
    stop = tmp_path / "stop.py"
    stop.write_text("""print('{"content": [["x", [2, 2], "double"]]}', flush=True)""")
    savemat(tmp_path / "x.mat", {"x": np.eye(2)})
    monkeypatch.setattr(_mat._mat_process, "__file__", str(stop))
    with pytest.raises(TableError, match=r"x\.mat is not a readable MATLAB file"):
        read_table(tmp_path / "x.mat")


def test_the_process_for_matlab_files_starts_without_the_package():
    program = (
        f"import runpy, sys\nrunpy.run_path({_mat._mat_process.__file__!r})\n"
        "print(sorted({'dynpart', 'numpy', 'sklearn', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_an_array_that_declares_more_than_its_archive_holds_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2, 10**6)}
    )
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"\0" * 16)
    with pytest.raises(TableError, match="holds less"):
        read_table(tmp_path / "x.npz")


def test_too_little_memory_is_one_line_on_the_command_line(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 10)))
    program = (
        "import sys\nfrom dynpart import cli, tables\n"
        "def fail(*a, **k): raise MemoryError('Unable to allocate 9 TiB')\n"
        "tables.read_table = fail\n"
        f"sys.argv = ['dynpart', 'fit', {str(tmp_path / 'x.npy')!r}, '-o', 'm']\n"
        "cli.main()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr == "dynpart: not enough memory. Unable to allocate 9 TiB\n"
