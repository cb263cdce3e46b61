"""Names and labels that a spreadsheet would compute are guarded in text, and come back whole."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.tables import _write, read_table, write_table

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)
formulas = st.tuples(st.sampled_from("=+-@"), words).map("".join)


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@given(label=formulas, name=formulas)
def test_formulas_are_guarded_and_come_back(tmp_path_factory, ending, label, name):
    name, label = f"{name}x", f"{label}x"
    path = tmp_path_factory.getbasetemp() / f"f{ending}"
    write_table(path, np.array([[1.5, 2]]), [name.strip(), "b"], labels=[label], overwrite=True)
    for line in path.read_text().splitlines():
        assert line.lstrip('"')[0] not in "=+-@"
    table = read_table(path)
    assert table.labels == (label,)
    assert table.names == (name.strip(), "b")


def test_plain_labels_and_negative_numbers_are_left_alone(tmp_path):
    labels = ["-5", "owl", "'tis", "+1.5e3"]
    write_table(tmp_path / "t.csv", np.eye(4), list("abcd"), labels=labels)
    assert [
        line.split(",")[0] for line in (tmp_path / "t.csv").read_text().splitlines()[1:]
    ] == labels


def test_other_files_keep_labels_as_they_are(tmp_path):
    write_table(tmp_path / "t.parquet", np.eye(2), ["a", "b"], labels=["=1", "b"])
    assert read_table(tmp_path / "t.parquet").labels == ("=1", "b")


def test_control_characters_reach_files_but_no_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, shown in ((Terminal(), "\\x1b[2J"), (io.StringIO(), "\x1b[2J")):
        labels = _write._Labels(["\x1b[2J"], "row", 0)
        _write._write_text(stream, np.eye(1), ["a"], labels, ",")
        assert stream.getvalue() == f"row,a\n{shown},1.0\n"
