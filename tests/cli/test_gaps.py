"""Tables with gaps and weights, from file to model, codes, words and a filled table."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from dynpart import cli
from dynpart.cli._shared import Content, read_rows
from dynpart.datasets import make_pairs
from dynpart.naming import mean_in_words
from dynpart.persistence import load
from dynpart.tables import read_table, write_table

runner = CliRunner()
NAMES = ["owl", "lark", "trout", "pike", "oak", "fern"]


def run(*arguments, status=0, stdin=None):
    result = runner.invoke(cli.app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == status, (result.output, result.exception)
    assert "Traceback" not in result.output
    assert "nan" not in result.output.lower()
    return result


def text(X, names=NAMES, labels=None):
    """A table of text; NaN is an empty cell, whole numbers have no point."""
    words = [["" if np.isnan(v) else f"{v:g}" for v in row] for row in np.asarray(X, dtype=float)]
    labels = [f"site{i}" for i in range(len(words))] if labels is None else labels
    lines = [["site", *names], *([label, *row] for label, row in zip(labels, words, strict=True))]
    return "".join(",".join(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def gappy():
    X = np.tile(make_pairs(3), (4, 1)).astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X


@pytest.fixture(scope="module")
def folder(tmp_path_factory, gappy):
    """Tables with and without gaps, and models learnt from them by the command."""
    folder = tmp_path_factory.mktemp("gaps")
    rng = np.random.default_rng(1)
    real = np.round(rng.normal(size=(60, 6)) + 4 * rng.integers(0, 2, size=(60, 1)), 3)
    (folder / "sites.csv").write_text(text(make_pairs(3)))
    (folder / "real.csv").write_text(text(real))
    real[rng.random(real.shape) < 0.1] = np.nan
    (folder / "gappy.csv").write_text(text(gappy))
    (folder / "gappy-real.csv").write_text(text(real))
    for name in ("sites", "real"):
        run("fit", folder / f"{name}.csv", "-k", 4, "-o", folder / name, "--iterations", 6, "-q")
    return folder


# ------------------------------------------------------------------------------- before learning


def weighed(X, weights, names=NAMES):
    return text(np.column_stack([X, weights]), [*names, "count"])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -2, 1], r"row 1, column 'count' is -2; a weight is a number of at least 0"),
        ([1, np.nan, 1], r"row 1, column 'count' is missing; every row needs a weight"),
        ([0, 0, 0], r"all weights in column 'count' are 0"),
    ],
)
def test_wrong_weights_are_located(tmp_path, weights, message):
    (tmp_path / "t.csv").write_text(weighed(make_pairs(3)[:3], weights))
    result = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--weight", "count", status=2)
    assert message in result.stderr
    assert not (tmp_path / "m").exists()


def test_a_column_of_weights_must_be_there(folder, tmp_path):
    arguments = ["-o", tmp_path / "m", "--weight", "count"]
    result = run("fit", folder / "sites.csv", *arguments, status=2)
    assert "no column of numbers named 'count' to take weights from" in result.stderr
    np.save(tmp_path / "x.npy", np.eye(3))
    assert "--weight" in run("fit", tmp_path / "x.npy", *arguments, status=2).stderr
    (tmp_path / "t.csv").write_text("count\n1\n2\n")
    result = run("fit", tmp_path / "t.csv", *arguments, status=2)
    assert "beside the weights" in result.stderr


def test_a_column_of_weights_is_no_variable(tmp_path, capsys):
    X = make_pairs(3)[:4]
    (tmp_path / "t.csv").write_text(weighed(X, [0.5, 1, 2, 3]))
    table, weights = read_rows(str(tmp_path / "t.csv"), Content(), weight="count")
    assert table.names == tuple(NAMES)
    assert table.values.dtype == np.uint8
    np.testing.assert_array_equal(table.values, X)
    np.testing.assert_array_equal(weights, [0.5, 1, 2, 3])
    assert "missing" not in capsys.readouterr().err


def test_a_column_without_any_value_is_left_out_and_said(tmp_path):
    X = make_pairs(3).astype(float)
    X[:, 2] = np.nan
    data, model = tmp_path / "t.csv", tmp_path / "m"
    data.write_text(text(X))
    told = run("fit", data, "-k", 2, "--iterations", 2, "-o", model).stderr
    assert re.search(r"^trout +- +left out: no value in any row$", told, re.MULTILINE)
    assert "missing (" not in told
    assert "trout" not in load(model).schema_.names
    run("describe", model, data)


def test_a_column_without_any_value_is_refused_by_name_if_it_was_asked_for(tmp_path):
    X = make_pairs(3).astype(float)
    X[:, 2] = np.nan
    (tmp_path / "t.csv").write_text(text(X))
    fit = ("fit", tmp_path / "t.csv", "-o", tmp_path / "m")
    result = run(*fit, "--real", "trout", status=2)
    assert "column 'trout' has no value in any row; --drop 'trout'" in result.stderr
    (tmp_path / "t.csv").write_text(text(np.full_like(X, np.nan)))
    assert "has no value in any row" in run(*fit, status=2).stderr


def test_codes_have_no_gaps(folder, tmp_path):
    run("encode", folder / "sites", folder / "sites.csv", "-o", tmp_path / "codes.csv")
    lines = (tmp_path / "codes.csv").read_text().splitlines()
    lines[2] = lines[2][:-1]
    (tmp_path / "codes.csv").write_text("\n".join(lines))
    result = run("reconstruct", folder / "sites", tmp_path / "codes.csv", status=2)
    assert "row 1, column 'expert3' is missing; a code is 0 or 1" in result.stderr


def test_a_complete_table_has_nothing_to_fill_in(folder, tmp_path):
    result = run("impute", folder / "sites", folder / "sites.csv", "-o", tmp_path / "t.csv")
    assert "0 gaps filled in, 8 rows of 6 variables" in result.stderr
    assert (tmp_path / "t.csv").read_text() == (folder / "sites.csv").read_text()
    result = run(
        "impute", folder / "sites", folder / "sites.csv", "-o", tmp_path / "t.csv", status=2
    )
    assert "exists already" in result.stderr


# ------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize(("name", "word"), [("gappy", "bernoulli"), ("gappy-real", "gaussian")])
def test_fit_says_how_many_cells_are_missing(folder, tmp_path, name, word):
    data = folder / f"{name}.csv"
    arguments = ["fit", data, "-k", 4, "-o", tmp_path / "m", "--iterations", 4, "--verbose"]
    result = run(*arguments, "--valid", data)
    n_gaps = int(np.isnan(read_table(data).values).sum())
    n_cells = read_table(data).values.size
    line = f"{n_gaps} of {n_cells} cells are missing"
    assert result.stderr.count(line) == 2
    assert f"4 {word} experts" in result.stderr
    model = load(tmp_path / "m")
    assert np.isfinite(model.means_).all()
    assert list(model.feature_names_in_) == NAMES
    assert "nan" not in json.dumps(json.loads(run("info", tmp_path / "m", "--json").stdout))


def test_weights_count_rows(folder, tmp_path):
    """A weight of 2 is equivalent to two equal rows, a weight of 0 to none."""
    X = make_pairs(3).astype(float)
    weights = np.arange(len(X)) % 3
    (tmp_path / "weighed.csv").write_text(weighed(X, weights))
    (tmp_path / "twice.csv").write_text(text(np.repeat(X, weights, axis=0)))
    arguments = ["-k", 3, "--iterations", 5, "--seed", 3, "--verbose"]
    result = run(
        "fit", tmp_path / "weighed.csv", "--weight", "count", "-o", tmp_path / "a", *arguments,
        "--valid", tmp_path / "weighed.csv",
    )  # fmt: skip
    model = load(tmp_path / "a")
    assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == 6
    said = [line for line in result.stderr.splitlines() if " experts active, " in line]
    assert "nats" not in result.stderr
    judged = [line.split(": ")[1].split(" (")[0] for line in said[-2:]]
    assert judged[0] == judged[1]
    # Judged by weight: the same numbers as of the rows written out.
    plain = load(tmp_path / "a")
    del plain.feature_names_in_
    rows = np.repeat(X, weights, axis=0).astype(np.uint8)
    assert judged[0].startswith(f"{-plain.score(rows) / np.log(2):.2f} bits a row")
    result = run(
        "fit", tmp_path / "weighed.csv", "--weight", "count", "-o", tmp_path / "b", *arguments,
        "--valid", tmp_path / "twice.csv",
    )  # fmt: skip
    assert "has no column 'count'; all its rows have the same weight" in result.stderr


# ------------------------------------------------------------------------------ with a model


def test_encode_and_reconstruct_leave_no_gap(folder, tmp_path, gappy):
    model = load(folder / "sites")
    del model.feature_names_in_
    result = run("encode", folder / "sites", folder / "gappy.csv", "-o", tmp_path / "codes.csv")
    assert "cells are missing" in result.stderr
    codes = read_table(tmp_path / "codes.csv")
    assert codes.labels[3] == "site3"
    np.testing.assert_array_equal(codes.values, model.transform(gappy))
    result = run("reconstruct", folder / "sites", folder / "gappy.csv", "-o", tmp_path / "r.csv")
    back = read_table(tmp_path / "r.csv").values
    np.testing.assert_allclose(back, model.inverse_transform(codes.values), atol=1e-6)


@pytest.mark.parametrize("name", ["sites", "real"])
def test_explain_says_what_is_expected_where_nothing_was_observed(folder, tmp_path, name):
    model = load(folder / name)
    del model.feature_names_in_
    X = read_table(folder / f"{name}.csv").values[:2].astype(float)
    X[0, [1, 4]] = np.nan
    X[1] = np.nan
    (tmp_path / "t.csv").write_text(text(X))
    said = run("explain", folder / name, tmp_path / "t.csv", "--row", 0, "--top", 6).stdout
    assert "its 6 variables, 2 of them not observed." in said
    owner = model.partition(model.transform(X[:1]))[0]
    listed = said.split("Not observed, and what the responsible expert expects there:\n")[1]
    lines = listed.splitlines()[:2]
    for line, d in zip(lines, (1, 4), strict=True):
        opinion = model.means_[owner[d], d]
        says = "yes" if opinion > 0.5 else "no"
        if name == "real":
            says = mean_in_words(opinion, model._opinions().spread[d])
        assert line.startswith(f"   - {NAMES[d]:<4}  {says} (")
        assert line.endswith(f"says “{load(folder / name).expert_names_[owner[d]]}”")
    said = run("explain", folder / name, tmp_path / "t.csv", "--row", 0, "--top", 1).stdout
    assert "... and 1 more; `dynpart impute` writes them all" in said
    nothing = run("explain", folder / name, tmp_path / "t.csv", "--row", 1).stdout
    assert "Nothing of the row was observed" in nothing


@pytest.mark.parametrize(
    "command", ["fit", "describe", "explain", "score", "encode", "impute", "reconstruct", "report"]
)
def test_empty_rows_are_noted_once_in_words(folder, tmp_path, gappy, command):
    gappy = gappy.copy()
    gappy[[2, 5]] = np.nan
    (tmp_path / "t.csv").write_text(text(gappy))
    more = {
        "fit": [tmp_path / "t.csv", "-k", 4, "-o", tmp_path / "model", "--iterations", 3],
        "explain": [folder / "sites", tmp_path / "t.csv", "--row", 2],
        "report": [folder / "sites", tmp_path / "t.csv", "-o", tmp_path / "r.html"],
    }
    said = run(command, *more.get(command, [folder / "sites", tmp_path / "t.csv"])).stderr
    rows = "1 row has" if command == "explain" else "2 rows have"
    does = "learning ignores such rows" if command == "fit" else "such rows get the most probable"
    assert said.count("no observed value") == 1
    assert f"Note: {rows} no observed value: {does}" in said
    assert "UserWarning" not in said
    assert ".py" not in said


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".npy", ".npz", ".parquet"])
@pytest.mark.parametrize("name", ["sites", "real"])
def test_impute_fills_gaps_and_nothing_else(folder, tmp_path, name, ending):
    data = folder / ("gappy.csv" if name == "sites" else "gappy-real.csv")
    out = tmp_path / f"full{ending}"
    result = run("impute", folder / name, data, "-o", out)
    before, after = read_table(data), read_table(out)
    gaps = np.isnan(before.values)
    assert f"{gaps.sum()} gaps filled in" in result.stderr
    np.testing.assert_array_equal(after.values[~gaps], before.values[~gaps])
    model = load(folder / name)
    del model.feature_names_in_
    filled = np.asarray(model.impute(before.values), dtype=float)
    np.testing.assert_allclose(after.values[gaps], filled[gaps], atol=1e-6)
    assert np.isfinite(after.values).all()
    if ending != ".npy":
        assert after.names == before.names
    if ending in (".csv", ".tsv", ".parquet"):
        assert after.labels == before.labels


def test_impute_keeps_the_tables_own_columns(folder, tmp_path, gappy):
    names = [*NAMES[::-1], "depth"]
    depth = np.arange(len(gappy)) + 0.5
    depth[1] = np.nan
    write_table(tmp_path / "t.csv", np.column_stack([gappy[:, ::-1], depth]), names)
    run("impute", folder / "sites", tmp_path / "t.csv", "-o", tmp_path / "full.csv")
    after = read_table(tmp_path / "full.csv")
    assert list(after.names) == names
    np.testing.assert_array_equal(after.values[:, -1], depth)
    straight = run("impute", folder / "sites", folder / "gappy.csv").stdout.splitlines()[1:]
    expected = [[float(cell) for cell in line.split(",")[1:]] for line in straight]
    np.testing.assert_array_equal(after.values[:, -2::-1], expected)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize(("label", "place"), [("make", 0), ("", 0), ("make", 2), ("=make", 6)])
def test_impute_keeps_name_and_place_of_the_labels(folder, tmp_path, gappy, ending, label, place):
    cells = [line.split(",") for line in text(gappy, labels=[""] * len(gappy)).splitlines()]
    for i, row in enumerate(cells):
        row.insert(place, f"car {i}" if i else label.replace("=", "'="))
        row.pop(0 if place else 1)
    data = "\n".join(map(",".join, cells)) + "\n"
    (tmp_path / "t.csv").write_text(data)
    chosen = ["--label-column", label] if place else []
    out = tmp_path / f"full{ending}"
    run("impute", folder / "sites", tmp_path / "t.csv", "-o", out, *chosen)
    if ending == ".parquet":
        names = pytest.importorskip("pyarrow.parquet").read_schema(out).names
        assert names == [name.replace("'=", "=") for name in cells[0]]
        return
    filled = [line.split(",") for line in out.read_text().splitlines()]
    assert filled[0] == cells[0]
    for before, after in zip(cells[1:], filled[1:], strict=True):
        assert after == [old or new for old, new in zip(before, after, strict=True)]


def test_impute_reads_and_writes_pipes(folder):
    content = (folder / "gappy.csv").read_text()
    piped = run("impute", folder / "sites", "-", stdin=content)
    assert piped.stdout == run("impute", folder / "sites", folder / "gappy.csv").stdout
    assert "cells are missing" in piped.stderr


def test_a_report_of_a_table_with_gaps_is_a_page(folder, tmp_path):
    for name, data in (("sites", "gappy"), ("real", "gappy-real")):
        run("report", folder / name, folder / f"{data}.csv", "-o", tmp_path / f"{name}.html")
        page = (tmp_path / f"{name}.html").read_text()
        assert json.loads(page.split('id="data">')[1].split("</script>")[0])["gaps"]
