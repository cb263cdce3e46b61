"""Rows, columns and codes are chosen without confusion, and output can be cut off."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dynpart
from dynpart import cli
from dynpart.datasets import make_pairs
from dynpart.persistence import load, save
from dynpart.tables import read_table

runner = CliRunner()
NAMES = ["owl", "lark", "trout", "pike", "oak", "fern"]


def run(*arguments, status=0, stdin=None):
    result = runner.invoke(cli.app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == status, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def text(X, labels=None, names=NAMES):
    head = [*([] if labels is None else ["site"]), *names]
    lines = [[*([] if labels is None else [labels[i]]), *map(str, row)] for i, row in enumerate(X)]
    return "".join(",".join(line) + "\n" for line in [head, *lines])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table whose labels are numbers and words, and a model learnt from it."""
    folder = tmp_path_factory.mktemp("choices")
    X = make_pairs(3).tolist()
    labels = ["wood", "1", "10", "moor", *(f"s{i}" for i in range(4, len(X)))]
    (folder / "sites.csv").write_text(text(X, labels))
    run("fit", folder / "sites.csv", "-k", 6, "-o", folder / "m.dynpart", "--iterations", 10)
    return folder


def test_labels_are_announced_where_a_column_could_have_been_data(folder, tmp_path):
    result = run("fit", folder / "sites.csv", "-o", tmp_path / "m", "--iterations", 2, "-q")
    assert "'site'" in result.stderr
    assert "--label-column" in result.stderr
    # A model that knows its columns leaves nothing to decide.
    assert run("encode", folder / "m.dynpart", folder / "sites.csv").stderr == ""


def explain(folder, *choice, **options):
    return run("explain", folder / "m.dynpart", folder / "sites.csv", *choice, **options)


@pytest.mark.parametrize("row", ["1_0", "0_1", "٣", "1.0", "wood", " 1", "0x1"])
def test_rows_are_chosen_by_plain_numbers_alone(folder, row):
    told = " ".join(explain(folder, "--row", row, status=2).stderr.replace("│", " ").split())
    assert "--row" in told
    assert f"--label {row!r} finds a row by its label" in told


@pytest.mark.parametrize(
    ("command", "option"), [("fit", "-k"), ("fit", "--seed"), ("report", "--samples")]
)
def test_all_whole_numbers_are_plain(folder, tmp_path, command, option):
    before = [folder / "m.dynpart"] if command == "report" else []
    out = ["-o", tmp_path / "out"]
    result = run(command, *before, folder / "sites.csv", *out, option, "1_0", status=2)
    assert option in result.stderr
    assert not list(tmp_path.iterdir())


def test_numbers_and_labels_are_not_confused(folder):
    assert explain(folder, "--row", 1).stdout.startswith("Row 1 (1): ")
    assert explain(folder, "--label", 10).stdout.startswith("Row 2 (10): ")
    assert explain(folder, "--label", "wood").stdout.startswith("Row 0 (wood): ")
    assert explain(folder, "--row", -1).stdout.startswith("Row 7 (s7): ")
    assert "--label" in explain(folder, "--label", 3, status=2).stderr
    assert "--row" in explain(folder, status=2).stderr
    assert "--row" in explain(folder, "--row", 1, "--label", "wood", status=2).stderr


def test_a_label_that_stands_twice_is_refused(folder, tmp_path):
    (tmp_path / "twice.csv").write_text(text(make_pairs(3).tolist()[:2], ["wood", "wood"]))
    result = run(
        "explain", folder / "m.dynpart", tmp_path / "twice.csv", "--label", "wood", status=2
    )
    assert "2 rows" in result.stderr
    np.save(tmp_path / "x.npy", make_pairs(3))
    result = run("explain", folder / "m.dynpart", tmp_path / "x.npy", "--label", "wood", status=2)
    assert "this table has none" in result.stderr


def test_fit_takes_labels_from_any_column(tmp_path):
    X = make_pairs(3).tolist()
    lines = [["owl", "kind", *NAMES[1:]], *([row[0], f"k{i}", *row[1:]] for i, row in enumerate(X))]
    (tmp_path / "t.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    result = run(
        "fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--label", "kind", "--iterations", 2, "-q"
    )
    assert "taken for" not in result.stderr
    assert list(load(tmp_path / "m").feature_names_in_) == NAMES
    rows = [tmp_path / "m", tmp_path / "t.csv", "--label-column", "kind"]
    assert run("explain", *rows, "--label", "k3").stdout.startswith("Row 3 (k3)")
    result = run(
        "fit", tmp_path / "t.csv", "-o", tmp_path / "n", "--label", "kind", "--no-labels", status=2
    )
    assert "cannot be combined" in result.stderr


def test_a_column_that_counts_rows_is_pointed_out(tmp_path):
    X = make_pairs(3).tolist()
    lines = [["number", *NAMES], *([i + 1, *row] for i, row in enumerate(X))]
    (tmp_path / "t.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    arguments = ["fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--iterations", 2, "--force"]
    assert "'number' looks like a number of the row" in run(*arguments).stderr
    assert "looks like" not in run(*arguments, "--drop", "number").stderr
    assert "looks like" not in run(*arguments, "--label", "number").stderr
    assert load(tmp_path / "m").n_features_in_ == 6


def test_an_identifier_that_is_there_twice_is_pointed_out(tmp_path):
    ids = [*range(900, 940), 900, 901]
    lines = [["ID", "dose"], *([i, n % 7 / 2] for n, i in enumerate(reversed(ids)))]
    (tmp_path / "t.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    told = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--iterations", 2, "-k", 2).stderr
    assert "'ID' looks like a number of the row" in told


def test_columns_are_kept_and_dropped_in_one_list(tmp_path):
    X = make_pairs(3)
    (tmp_path / "t.csv").write_text(text(X.tolist(), [f"r{i}" for i in range(len(X))]))
    np.save(tmp_path / "t.npy", X)
    fit = ["fit", tmp_path / "t.csv", "-o", tmp_path / "m", "-k", 2, "--iterations", 2, "--force"]
    run(*fit, "--keep", "pike,owl", "--keep", "oak")
    assert list(load(tmp_path / "m").feature_names_in_) == ["owl", "pike", "oak"]
    assert len(run("encode", tmp_path / "m", tmp_path / "t.csv").stdout.splitlines()) == 1 + len(X)
    assert "owl" in run("explain", tmp_path / "m", tmp_path / "t.csv", "--label", "r3").stdout
    run(*fit, "--drop", "pike,owl", "--weight", "oak")
    assert list(load(tmp_path / "m").feature_names_in_) == ["lark", "trout", "fern"]
    run(*fit, "--keep", "lark,fern", "--weight", "oak")
    assert list(load(tmp_path / "m").feature_names_in_) == ["lark", "fern"]
    assert "'wren' to keep" in run(*fit, "--keep", "owl,wren", status=2).stderr
    fit[1] = tmp_path / "t.npy"
    run(*fit, "--keep", "0,3,4")
    assert load(tmp_path / "m").n_features_in_ == 3
    assert "knows 3" in run("encode", tmp_path / "m", tmp_path / "t.npy", status=2).stderr
    run("encode", tmp_path / "m", tmp_path / "t.npy", "--keep", "0,3,4")
    assert "from 0 to 5" in run(*fit, "--drop", "6", status=2).stderr


def test_standard_input_is_learnt_from(tmp_path):
    content = text(make_pairs(3).tolist())
    told = ["-o", tmp_path / "m", "-k", 2, "--iterations", 2]
    run("fit", "-", *told, stdin=content)
    assert list(load(tmp_path / "m").feature_names_in_) == NAMES
    lines = "".join(
        json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in make_pairs(3).tolist()
    )
    assert run("encode", tmp_path / "m", "-", stdin=lines).stdout == (
        run("encode", tmp_path / "m", "-", stdin=content).stdout
    )


def test_zipped_tables_are_read(folder, tmp_path):
    content = (folder / "sites.csv").read_text()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content.encode()))
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(content.replace(",", "\t").encode()))
    plain = run("encode", folder / "m.dynpart", folder / "sites.csv").stdout
    for name in ("t.csv.gz", "t.tsv.gz"):
        assert run("encode", folder / "m.dynpart", tmp_path / name).stdout == plain
    zipped = (tmp_path / "t.csv.gz").read_bytes()
    assert run("encode", folder / "m.dynpart", "-", stdin=zipped).stdout == plain


def test_the_search_for_codes_can_be_chosen(folder, tmp_path):
    fitted = load(folder / "m.dynpart")
    del fitted.feature_names_in_
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(60, 6))
    np.save(tmp_path / "x.npy", X)
    codes = {}
    for starts, swaps in ((1, 2), (1, 0), (6, 0)):
        chosen = ["--n-starts", starts, "--n-swaps", swaps]
        out = tmp_path / f"{starts}{swaps}.npy"
        run("encode", folder / "m.dynpart", tmp_path / "x.npy", *chosen, "-o", out)
        codes[starts, swaps] = np.load(out)
        expected = fitted.set_params(n_starts=starts, n_swaps=swaps).transform(X)
        np.testing.assert_array_equal(codes[starts, swaps], expected)
        back = tmp_path / f"back{starts}{swaps}.npy"
        run(
            "reconstruct", folder / "m.dynpart", tmp_path / "x.npy", *chosen, "--owners", "-o", back
        )
        np.testing.assert_array_equal(np.load(back), fitted.partition(expected))
    assert (codes[1, 0] != codes[6, 0]).any()
    arguments = ["fit", folder / "sites.csv", "-o", tmp_path / "m", "--iterations", 2, "-q"]
    run(*arguments, "--n-starts", 3, "--n-swaps", 1)
    model = load(tmp_path / "m")
    assert (model.n_starts, model.n_swaps) == (3, 1)
    for command in ("explain", "report"):
        row = ["--row", 0] if command == "explain" else ["-o", tmp_path / "r.html"]
        arguments = [command, folder / "m.dynpart", folder / "sites.csv", *row]
        run(*arguments, "--n-starts", 2, "--n-swaps", 0)
        (tmp_path / "r.html").unlink(missing_ok=True)
        assert "--n-starts" in run(*arguments, "--n-starts", 0, status=2).stderr


def test_fits_are_counted_by_n_init(folder, tmp_path):
    arguments = ["fit", folder / "sites.csv", "--iterations", 2, "-q", "--force"]
    assert "--starts" not in run(*arguments, "-o", tmp_path / "a", "--n-init", 2).stderr
    assert "--n-init" in run(*arguments, "-o", tmp_path / "b", "--starts", 2).stderr
    assert load(tmp_path / "a").n_init == load(tmp_path / "b").n_init == 2
    assert "--starts" not in run("fit", "--help").stdout


def test_codes_are_matched_by_name(folder, tmp_path):
    run("encode", folder / "m.dynpart", folder / "sites.csv", "-o", tmp_path / "codes.csv")
    codes = read_table(tmp_path / "codes.csv")
    turned = text(codes.values[:, ::-1].tolist(), codes.labels, codes.names[::-1])
    (tmp_path / "turned.csv").write_text(turned)
    straight = run("reconstruct", folder / "m.dynpart", tmp_path / "codes.csv").stdout
    for option in ([], ["--codes"]):
        result = run("reconstruct", folder / "m.dynpart", tmp_path / "turned.csv", *option)
        assert result.stdout.splitlines()[1:] == straight.splitlines()[1:]
    other = turned.replace("expert0", "expert9")
    (tmp_path / "other.csv").write_text(other)
    result = run("reconstruct", folder / "m.dynpart", tmp_path / "other.csv", "--codes", status=2)
    assert "no column 'expert0'" in result.stderr


def test_a_missing_file_to_judge_by_stops_before_learning(folder, tmp_path):
    arguments = ["fit", folder / "sites.csv", "-o", tmp_path / "m"]
    result = run(*arguments, "--valid", tmp_path / "none.csv", status=2)
    assert "none.csv: No such file" in result.stderr
    assert "Learning" not in result.stderr
    (tmp_path / "less.csv").write_text("owl\n1\n")
    result = run(*arguments, "--valid", tmp_path / "less.csv", status=2)
    assert "no column 'lark'" in result.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("size", ["99999x99999", "0x5", "5x0", "9999999999x1", "5", "1_0x2"])
def test_sizes_are_checked_before_work(folder, tmp_path, size):
    arguments = ["fit", folder / "sites.csv", "-o", tmp_path / "m", "--size", size]
    assert "--size" in run(*arguments, status=2).stderr
    arguments = ["report", folder / "m.dynpart", folder / "sites.csv", "-o", tmp_path / "r.html"]
    assert "--image" in run(*arguments, "--image", size, status=2).stderr


def test_a_model_that_does_not_fit_in_memory_is_refused(folder, tmp_path):
    arguments = ["fit", folder / "sites.csv", "-o", tmp_path / "m", "-k", 10**12]
    assert "of memory" in run(*arguments, status=2).stderr


def test_control_characters_are_shown_not_obeyed(folder, tmp_path):
    model = load(folder / "m.dynpart")
    model.feature_names_in_ = np.array(["\x1b[31mred", *NAMES[1:]], dtype=object)
    save(model, tmp_path / "m.dynpart")
    table = text(make_pairs(3).tolist()[:3], ["\x1b[2J", "b", "c"], ["\x1b[31mred", *NAMES[1:]])
    (tmp_path / "t.csv").write_text(table)
    rows = [tmp_path / "m.dynpart", tmp_path / "t.csv"]
    for result in (
        run("info", tmp_path / "m.dynpart"),
        run("explain", *rows, "--row", 0, "--top", 6),
        run("explain", *rows, "--label", "\x1b]0;x\x07", status=2),
        run("encode", tmp_path / "m.dynpart", folder / "sites.csv", status=2),
        run("fit", tmp_path / "\x1b[1m.csv", "-o", tmp_path / "o", status=2),
    ):
        assert "\x1b" not in result.output
        assert "\\x1b" in result.output


def dynpart_in_shell(command, folder):
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    return subprocess.run(
        [
            "bash",
            "-o",
            "pipefail",
            "-c",
            command.replace("dynpart", f"{sys.executable} -m dynpart", 1),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "dynpart encode m.dynpart many.csv | head -1",
        "dynpart encode m.dynpart sites.csv | true",
        "dynpart info m.dynpart | true",
        "dynpart fit --help | true",
    ],
)
def test_output_may_be_cut_off(folder, command):
    many = np.tile(make_pairs(3), (4000, 1)).tolist()
    (folder / "many.csv").write_text(text(many))
    done = dynpart_in_shell(command, folder)
    assert done.returncode in (0, 141)
    assert done.stderr == ""
