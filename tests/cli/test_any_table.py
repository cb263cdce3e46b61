"""Raw tables are read without options or tracebacks, and levels keep their names throughout."""

import csv
import gzip
import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dynpart import load
from dynpart.cli import app
from dynpart.datasets import load_zoo, write_zoo


def run(*arguments, status=0, stdin=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == status, (result.stderr, result.exception)
    return result


def rows_of(text):
    return list(csv.reader(io.StringIO(text)))


def repeated(head, *rows, n=5):
    """A table with these rows several times."""
    return "\n".join([head, *(rows * n)]) + "\n"


PENGUINS = repeated(
    "species,island,bill_length_mm,body_mass_g,sex",
    "Adelie,Torgersen,39.1,3750,male",
    "Adelie,Biscoe,40.3,3250,female",
    "Adelie,Torgersen,NA,NA,NA",
    "Gentoo,Biscoe,50,5700,male",
    "Gentoo,Biscoe,46.1,4500,female",
    "Chinstrap,Dream,46.5,3500,female",
)
TABLES = {
    "penguins": (PENGUINS, "categorical categorical real real categorical"),
    "questionnaire": (
        repeated(
            "q1,q2,q3,comment",
            "agree,Yes,1,n/a",
            "disagree,No,5,N/A",
            "neutral,,3,",
            "agree,Yes,2,good",
            ",No,4,bad",
        ),
        "categorical binary real categorical",
    ),
    "counts": (repeated("oak,elm,ash", "0,3,12", "5,0,1", "0,0,7"), "real real real"),
    "quoted": (repeated('"a","b"', '"1","x"', '"2.5","y"'), "real categorical"),
    "flags": (repeated("a,b", "TRUE,false", "FALSE,True", "NA,true"), "binary binary"),
    "unicode": (repeated("größe,цвет", "klein,красный", "groß,синий"), "categorical categorical"),
    "one column": (repeated("colour", "red", "blue", "", "red"), "categorical"),
    "constant": (repeated("country,n", "here,1", "here,2.5"), "categorical real"),
    "codes": (repeated("code,n", "01,1.5", "02,2.5", "A1,3.5"), "categorical real"),
    "semicolons": (repeated("a;b", "1,5;x", "2,5;y"), "real categorical"),
    "guarded": (repeated("a,b", "'=1+1,1.5", "'-x,2.5"), "categorical real"),
    "ages": (repeated("age,n", "18-25,1.5", "26-35,2", "65+,3"), "categorical real"),
}


@pytest.fixture(params=TABLES)
def table(request, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLES[request.param][0], encoding="utf-8")
    return path, TABLES[request.param][1].split()


@pytest.mark.filterwarnings("ignore:.* no observed value:UserWarning")
def test_every_command_works_at_the_first_try(table, tmp_path):
    path, kinds = table
    model = tmp_path / "m.dynpart"
    told = run("fit", path, "-k", 3, "--iterations", 3, "-o", model).stderr
    assert list(load(model).schema_.kinds) == kinds
    for line in told.splitlines()[1 : 1 + len(kinds)]:
        assert any(kind in line for kind in kinds)
    run("info", model)
    run("explain", model, path, "--row", 1)
    run("report", model, path, "-o", tmp_path / "r.html")
    n_rows = len(run("encode", model, path).stdout.splitlines())
    for command in ("reconstruct", "impute", "score"):
        assert len(run(command, model, path).stdout.splitlines()) == n_rows, command
    drawn = rows_of(run("sample", model, "-n", 7).stdout)
    assert len(drawn) == 8
    assert drawn[0] == rows_of(run("impute", model, path).stdout)[0]


@pytest.fixture(scope="module")
def penguins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("penguins")
    (folder / "p.csv").write_text(PENGUINS)
    run("fit", folder / "p.csv", "-k", 4, "--iterations", 8, "-o", folder / "m.dynpart")
    return folder


def test_fit_says_what_it_understood(penguins, tmp_path):
    told = run("fit", penguins / "p.csv", "-k", 2, "--iterations", 2, "-o", tmp_path / "m").stderr
    lines = [line.split() for line in told.splitlines()]
    assert ["column", "kind", "levels", "or", "range", "missing"] in lines
    assert ["species", "categorical", "3:", "Adelie,", "Gentoo,", "Chinstrap"] in lines
    assert ["bill_length_mm", "real", "39.1", "to", "50", "5"] in lines
    quiet = run("fit", penguins / "p.csv", "-k", 2, "--iterations", 2, "-q", "-o", tmp_path / "q")
    assert "species" not in quiet.stderr


def test_results_speak_levels(penguins):
    model, data = penguins / "m.dynpart", penguins / "p.csv"
    whole = rows_of(run("impute", model, data).stdout)
    given = rows_of(PENGUINS)
    assert whole[0] == given[0]
    for filled, row in zip(whole[1:], given[1:], strict=True):
        assert filled[4] in ("male", "female")
        assert float(filled[2]) > 30
        known = [cell for cell in row if cell != "NA"]
        assert [_plain(cell) for cell in filled[: len(known)]] == [_plain(cell) for cell in known]
    composed = rows_of(run("reconstruct", model, data).stdout)
    assert {row[0] for row in composed[1:]} <= {"Adelie", "Gentoo", "Chinstrap"}
    drawn = rows_of(run("sample", model, "-n", 20, "--seed", 1).stdout)
    assert {row[1] for row in drawn[1:]} <= {"Torgersen", "Biscoe", "Dream"}
    once, again, other = (run("sample", model, "--seed", seed).stdout for seed in (1, 1, 2))
    assert once == again != other
    facts = json.loads(run("info", model, "--json").stdout)
    assert facts["variables"][0] == {
        "name": "species",
        "kind": "categorical",
        "levels": ["Adelie", "Chinstrap", "Gentoo"],
    }


def _plain(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


def test_scores_rank_rows_and_name_what_surprises(penguins, tmp_path):
    odd = tmp_path / "odd.csv"
    odd.write_text(PENGUINS + "Gentoo,Biscoe,50,2000,male\n")
    rows = rows_of(run("score", penguins / "m.dynpart", odd, "--top", 2).stdout)
    assert rows[0] == ["number", "bits", "rank", "surprising"]
    assert (rows[1][0], rows[1][2]) == ("30", "1")
    assert "body_mass_g = 2000 (3250 or more in training)" in rows[1][3]
    assert len(rows) == 3
    whole = rows_of(run("score", penguins / "m.dynpart", odd, "--columns").stdout)
    assert whole[0][4:] == [f"surprise of {name}" for name in rows_of(PENGUINS)[0]]
    bits = np.array([float(row[1]) for row in whole[1:]])
    order = np.argsort(-bits, kind="stable")
    assert [int(whole[1 + i][2]) for i in order] == list(range(1, 32))
    model, table = load(penguins / "m.dynpart"), pd.read_csv(odd)
    assert np.allclose(bits, -model.score_samples(table) / np.log(2), atol=1e-4)
    surprise = [[float(cell) for cell in row[4:]] for row in whole[1:]]
    assert np.allclose(surprise, model.surprise(table) / np.log(2), atol=1e-4)


def test_a_number_that_is_as_expected_surprises_nobody(tmp_path):
    """Most rows have exact numbers, of a high density; others are spread around what is said."""
    rng = np.random.default_rng(0)
    rows = [f"flat,{4 + 0.001 * z:.4f}" for z in rng.normal(size=60)]
    rows += [f"wide,{40 + 10 * z:.2f}" for z in rng.normal(size=40)]
    rows += ["wide,95", "wide,-15"]
    (tmp_path / "t.csv").write_text("\n".join(["kind,size", *rows]))
    run("fit", tmp_path / "t.csv", "-k", 2, "--max-active", 1, "-o", tmp_path / "m.dynpart")
    told = rows_of(run("score", tmp_path / "m.dynpart", tmp_path / "t.csv").stdout)[1:]
    model = load(tmp_path / "m.dynpart")
    mean, spread = model.means_, np.sqrt(model.variances_)
    wide = int(mean[:, 1].argmax())
    for row, line in zip(rows, told, strict=True):
        kind, size = row.split(",")
        if kind == "wide":
            far = abs(float(size) - mean[wide, 1]) > 2 * spread[wide, 1]
            assert ("size = " in line[3]) == far, (row, line)
    assert re.search(r"size = 95 \(expected [34]\d\)", told[-2][3])


def test_kinds_can_be_said(tmp_path):
    (tmp_path / "t.csv").write_text(
        repeated("legs,visits,day,w", "0,3,2020-01-01,1", "4,0,2020-01-02,2", "2,1,,1")
    )
    fit = ("fit", tmp_path / "t.csv", "-k", 2, "--iterations", 2, "-o", tmp_path / "m.dynpart")
    result = run(*fit, status=2)
    assert "row 0 (line 2), column 'day' is '2020-01-01', a date" in result.stderr
    assert "--drop 'day'" in result.stderr
    assert "--categorical 'day'" in result.stderr
    run(*fit, "--categorical", "legs,day", "--count", "visits", "--weight", "w")
    schema = load(tmp_path / "m.dynpart").schema_
    assert schema.kinds == ("categorical", "count", "categorical")
    assert schema.levels_of(0) == ("0", "2", "4")
    assert schema.levels_of(2) == ("2020-01-01", "2020-01-02")
    for option, message in [
        (("--count", "nothing", "--drop", "day"), "no column named 'nothing'"),
        (("--binary", "legs", "--drop", "day"), "0 or 1"),
        (("--real", "legs", "--count", "legs", "--drop", "day"), "both"),
    ]:
        assert message in run(*fit, *option, "--force", status=2).stderr


def test_texts_that_tell_rows_apart_are_labels_or_left_out(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(0, 2)},name {i},ticket {i},{rng.random():.3f}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["survived,name,ticket,fare", *lines]) + "\n")
    model = tmp_path / "m.dynpart"
    told = run("fit", tmp_path / "t.csv", "-k", 2, "--iterations", 2, "-o", model).stderr
    assert load(model).schema_.names == ("survived", "fare")
    assert "number of the row" not in told
    assert "labels of rows: 30 different texts in 30 rows" in told
    assert "left out: 30 different texts in 30 rows" in told
    for choice in (("--row", 3), ("--label", "name 3")):
        explained = run("explain", model, tmp_path / "t.csv", *choice).stdout
        assert explained.startswith("Row 3 (name 3):")


def test_a_text_that_most_rows_lack_names_no_rows(tmp_path):
    rng = np.random.default_rng(0)
    notes = [f"note {i}" if i % 3 == 0 else "" for i in range(60)]
    numbers = [f"{rng.integers(0, 2)},{rng.random():.3f}" for _ in notes]
    lines = list(zip(["note", *notes], ["sick,dose", *numbers], strict=True))
    data, model = tmp_path / "t.csv", tmp_path / "m.dynpart"
    for place in (1, -1):
        data.write_text("".join(",".join(line[::place]) + "\n" for line in lines))
        told = run("fit", data, "-k", 2, "--iterations", 2, "-o", model, "--force").stderr
        assert "left out: 20 different texts in 20 of 60 rows" in told
        assert "labels" not in told
        assert run("explain", model, data, "--row", 3).stdout.startswith("Row 3:")


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_booleans_are_written_back_as_they_were(tmp_path, ending):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sick": rng.random(40) < 0.5, "old": rng.random(40) < 0.5})
    gappy = frame.astype("boolean")
    gappy.iloc[3, 0] = None
    for name, table in (("full", frame), ("gappy", gappy)):
        path = tmp_path / f"{name}{ending}"
        if ending == ".jsonl":
            table.to_json(path, orient="records", lines=True)
        elif ending == ".parquet":
            table.to_parquet(path, index=False)
        else:
            table.to_csv(path, index=False)
    full, data, model = tmp_path / f"full{ending}", tmp_path / f"gappy{ending}", tmp_path / "m"
    run("fit", full, "-k", 2, "--iterations", 2, "-o", model)
    words = {"false", "true"} if ending == ".jsonl" else {"False", "True"}
    for told in (run("impute", model, data).stdout, run("sample", model, "--rows", 40).stdout):
        assert {cell for row in rows_of(told)[1:] for cell in row} == words
    out = tmp_path / "out.parquet"
    run("impute", model, data, "-o", out)
    assert [dtype.kind for dtype in pd.read_parquet(out).dtypes] == ["b", "b"]
    (tmp_path / "numbers.csv").write_text("sick,old\n1,0\n,1\n0,1\n")
    filled = rows_of(run("impute", model, tmp_path / "numbers.csv").stdout)
    assert filled[1:] in ([["1", "0"], [str(i), "1"], ["0", "1"]] for i in (0, 1))


def test_one_row_and_one_variable_are_told_in_the_singular(tmp_path):
    data, one, model = tmp_path / "t.csv", tmp_path / "one.csv", tmp_path / "m.dynpart"
    data.write_text("sick\n" + "yes\nno\n" * 20)
    one.write_text("sick\nyes\n")
    run("fit", data, "-k", 1, "--iterations", 2, "-o", model)
    explained = run("explain", model, one, "--row", 0).stdout
    assert "one expert explains its 1 variable." in explained
    assert "It explains 1 of 1 variable." in explained
    said = run("score", model, one, "-o", tmp_path / "s.csv").stderr
    assert f"{tmp_path / 's.csv'}: 1 row\n1 row, 1.0 bits a row" in said


def test_too_many_levels_have_a_remedy(tmp_path):
    data, fit = tmp_path / "t.csv", ("-k", 2, "-o", tmp_path / "m.dynpart")
    lines = [f"{i % 2},shop {i // 3},{i}\n" for i in range(3300)]
    data.write_text("".join(["sick,shop,zip\n", *lines]))
    for options, message in [
        ((), "column 'shop' has 1,100 levels"),
        (("--drop", "shop", "--categorical", "zip"), "column 'zip' has 3,300 levels"),
    ]:
        told = run("fit", data, *options, *fit, status=2).stderr
        assert f"{data}: {message}" in told
        assert f"leave the column out with --drop {message.split()[1]}" in told


def numbered(start, n=30):
    """A table whose first column only numbers the rows, as R and pandas write it."""
    rng = np.random.default_rng(0)
    lines = [f"{start + i},animal {i},{rng.random():.3f},{rng.random():.3f}" for i in range(n)]
    return "\n".join([",name,sleep,weight", *lines]) + "\n"


@pytest.mark.parametrize("start", [0, 1])
def test_names_of_rows_are_better_labels_than_their_numbers(tmp_path, start):
    data, model = tmp_path / "t.csv", tmp_path / "m.dynpart"
    data.write_text(numbered(start))
    told = run("fit", data, "-k", 2, "--iterations", 2, "-o", model).stderr
    assert "labels of rows, in place of their numbers: 30 different texts in 30 rows" in told
    assert "Row 3 (animal 3):" in run("explain", model, data, "--row", 3).stdout
    assert rows_of(run("encode", model, data).stdout)[4][0] == "animal 3"
    filled = rows_of(run("impute", model, data).stdout)
    assert filled[0][:2] == ["", "name"]
    assert filled[4][:2] == [str(start + 3), "animal 3"]


def test_labels_that_do_more_than_count_or_were_chosen_stay(tmp_path):
    data, model = tmp_path / "t.csv", tmp_path / "m.dynpart"
    data.write_text(numbered(7))
    told = run("fit", data, "-k", 2, "--iterations", 2, "-o", model).stderr
    assert "left out: 30 different texts in 30 rows" in told
    assert "Row 3 (10):" in run("explain", model, data, "--row", 3).stdout
    data.write_text(numbered(1).replace(",name", "number,name", 1))
    run("fit", data, "-k", 2, "--iterations", 2, "--label", "number", "-o", model, "--force")
    chosen = run("explain", model, data, "--row", 3, "--label-column", "number").stdout
    assert "Row 3 (4):" in chosen
    unlabelled = run("explain", model, data, "--row", 3, "--no-labels").stdout
    assert unlabelled.startswith("Row 3:")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("45%", "50%"), "is '45%', not a plain number"),
        (('"3,5"', '"4,5"'), "is '3,5', not a plain number"),
        (("2020-01-01", "2021-02-03"), "a date"),
        (("#DIV/0!", "3"), "is '#DIV/0!', not a number"),
        (("-", "3"), "leave the cell empty"),
    ],
)
def test_what_is_no_level_is_refused_with_its_place(tmp_path, cells, message):
    (tmp_path / "t.csv").write_text(repeated("b,a", *(f"{i}.5,{c}" for i, c in enumerate(cells))))
    told = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", status=2).stderr
    assert message in told
    assert "row 0 (line 2), column 'a'" in told


def test_a_text_far_down_is_found(tmp_path):
    numbers = [f"{i % 5},{i}" for i in range(3000)]
    numbers[2500] = "many,2500"
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *numbers]) + "\n")
    model = tmp_path / "m.dynpart"
    run("fit", tmp_path / "t.csv", "-k", 2, "--iterations", 2, "-o", model)
    assert load(model).schema_.levels_of(0) == ("0", "1", "2", "3", "4", "many")


def test_unknown_levels_are_errors_or_missing(penguins):
    row = "species,island,bill_length_mm,body_mass_g,sex\nMacaroni,Dream,46,3500,female\n"
    model = penguins / "m.dynpart"
    told = run("encode", model, "-", stdin=row, status=2).stderr
    assert "standard input holds 'Macaroni' in row 0" in told
    assert "column 'species'" in told
    assert "--unknown missing" in told
    run("encode", model, "-", "--unknown", "missing", stdin=row)
    assert "--unknown missing" in run("describe", model, "-", stdin=row, status=2).stderr
    run("describe", model, "-", "--unknown", "missing", stdin=row)
    text = row.replace("46,3500", "long,3500").replace("Macaroni", "Gentoo")
    assert "column 'bill_length_mm'" in run("encode", model, "-", stdin=text, status=2).stderr


def test_other_columns_of_new_data_may_hold_anything(penguins, tmp_path):
    lines = PENGUINS.splitlines()
    new = [f"day,{lines[0]},note", *(f"2020-01-0{i},{row},45%" for i, row in enumerate(lines[1:7]))]
    (tmp_path / "n.csv").write_text("\n".join(new) + "\n")
    rows = rows_of(run("impute", penguins / "m.dynpart", tmp_path / "n.csv").stdout)
    assert rows[1][-1] == "45%"
    run("encode", penguins / "m.dynpart", tmp_path / "n.csv")


def test_the_same_table_in_other_files(penguins, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(io.StringIO(PENGUINS))
    with gzip.open(tmp_path / "p.csv.gz", "wt") as file:
        file.write(PENGUINS)
    frame.to_json(tmp_path / "p.jsonl", orient="records", lines=True)
    frame.to_excel(tmp_path / "p.xlsx", index=False)
    frame.astype({"species": "category"}).to_parquet(tmp_path / "p.parquet", index=False)
    model = penguins / "m.dynpart"
    expected = run("score", model, penguins / "p.csv").stdout
    for name in ("p.csv.gz", "p.jsonl", "p.xlsx", "p.parquet"):
        assert run("score", model, tmp_path / name).stdout == expected, name
        made = tmp_path / f"{name}.dynpart"
        run("fit", tmp_path / name, "-k", 2, "--iterations", 2, "-o", made)
        assert load(made).schema_.kinds == load(model).schema_.kinds
    assert run("score", model, "-", stdin=PENGUINS).stdout == expected
    target = tmp_path / "out.parquet"
    run("impute", model, penguins / "p.csv", "-o", target)
    assert set(pd.read_parquet(target)["sex"]) == {"male", "female"}
    told = run("impute", model, penguins / "p.csv", "-o", tmp_path / "x.npy", status=2).stderr
    assert "write .csv" in told


def test_rows_to_judge_by_may_have_other_levels(penguins, tmp_path):
    (tmp_path / "v.csv").write_text(PENGUINS.replace("Chinstrap", "Macaroni"))
    told = run(
        "fit",
        penguins / "p.csv",
        "--valid",
        tmp_path / "v.csv",
        "-k",
        2,
        "--iterations",
        2,
        "-o",
        tmp_path / "m.dynpart",
    ).stderr
    assert "v.csv: A row" in told.splitlines()[-1]


def test_score_tells_what_the_model_saves(penguins, tmp_path):
    model, data = penguins / "m.dynpart", penguins / "p.csv"
    told = run("describe", model, data, "--json").stdout
    bits, usual = (json.loads(told)[name] for name in ("bits", "baseline_bits"))
    summary = (
        f"30 rows, {bits:.1f} bits a row on average, {usual:.1f} column by column. "
        f"A row takes {usual - bits:.1f} bits less than column by column"
    )
    assert run("score", model, data).stderr.splitlines()[-1].startswith(summary)
    out = tmp_path / "s.csv"
    said = run("score", model, data, "--top", 2, "-o", out).stderr.splitlines()
    assert said[-2] == f"{out}: 2 rows"
    assert said[-1].startswith(summary)


def test_score_and_explain_round_what_they_expect_alike(tmp_path):
    """Two narrow groups, far apart: the owner's own spread has other digits than the column's."""
    rng = np.random.default_rng(0)
    kind = np.arange(80) % 2
    size = np.where(kind, 1_205_431.0, 3_812_345.0) + rng.normal(0, 900, 80)
    size[7] = 2_100_000
    data, model = tmp_path / "t.csv", tmp_path / "m.dynpart"
    cells = [f"{'ab'[k]},{s:.0f}" for k, s in zip(kind, size, strict=True)]
    data.write_text("\n".join(["kind,size", *cells]) + "\n")
    run("fit", data, "-k", 2, "-o", model, "--no-labels")
    scored = rows_of(run("score", model, data, "--no-labels").stdout)
    (found,) = re.findall(r"size = 2100000 \(expected (\d+)\)", " ".join(scored[8]))
    explained = run("explain", model, data, "--no-labels", "--row", 7).stdout
    (told,) = re.findall(r"size .*expected (\d+) \(usually", explained)
    assert found == told


# ------------------------------------------------------------------ another column in a report


def content_of(page):
    found = re.search(r'<script [^>]*id="data">(.*?)</script>', page.read_text(), flags=re.S)
    return json.loads(found[1])


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    write_zoo(folder / "zoo.csv")
    arguments = ["--drop", "type,legs", "-k", 4, "--iterations", 6, "-o", folder / "zoo.dynpart"]
    run("fit", folder / "zoo.csv", *arguments)
    return folder


def test_a_report_shows_experts_against_another_column(zoo, tmp_path):
    page, data = tmp_path / "zoo.html", load_zoo()
    run("report", zoo / "zoo.dynpart", zoo / "zoo.csv", "--by", "type", "-o", page)
    told = content_of(page)["by"]
    codes = load(zoo / "zoo.dynpart").transform(data.frame.drop(columns="legs")).astype(bool)
    classes = np.array(data.classes)
    assert (told["name"], told["kind"]) == ("type", "classes")
    assert sorted(told["classes"]) == sorted(set(classes))
    for counts, rows in zip(told["counts"], [np.full(101, True), *codes.T], strict=True):
        assert counts == [int((classes[rows] == c).sum()) for c in told["classes"]]


def test_a_report_against_numbers_has_boxes(zoo, tmp_path):
    lines = (zoo / "zoo.csv").read_text().splitlines()
    weights = np.arange(101) / 4
    more = [f"{line},{weight}" for line, weight in zip(lines[1:], weights, strict=True)]
    (tmp_path / "more.csv").write_text("\n".join([f"{lines[0]},weight", *more]) + "\n")
    page = tmp_path / "zoo.html"
    run("report", zoo / "zoo.dynpart", tmp_path / "more.csv", "--by", "weight", "-o", page)
    told = content_of(page)["by"]
    assert (told["name"], told["kind"]) == ("weight", "numbers")
    np.testing.assert_allclose(told["boxes"][0], np.quantile(weights, [0, 0.25, 0.5, 0.75, 1]))


def test_a_report_against_a_column_that_is_not_there_says_so(zoo, tmp_path):
    arguments = ["--by", "habitat", "-o", tmp_path / "r.html"]
    said = run("report", zoo / "zoo.dynpart", zoo / "zoo.csv", *arguments, status=2).stderr
    assert "has no column 'habitat' for --by" in said
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "xlsx", "parquet"])
def test_none_counts_as_missing_and_is_a_level_on_request(tmp_path, ending):
    """None is a gap to pandas, and a level to whoever wrote "airbags: None"."""
    data, model = tmp_path / f"cars.{ending}", tmp_path / "m.dynpart"
    frame = pd.DataFrame(
        {"airbags": ["None", "driver", "both", ""] * 6, "doors": ["2", "None", "4", "5"] * 6}
    )
    if ending == "parquet":
        frame.to_parquet(data, index=False)
    elif ending == "xlsx":
        frame.to_excel(data, index=False)
    elif ending == "jsonl":
        frame.to_json(data, orient="records", lines=True)
    else:
        frame.to_csv(data, index=False)
    fit = ("fit", data, "-k", 2, "--iterations", 2, "-o", model, "--force")
    told = run(*fit).stderr
    assert "'airbags': None counts as missing (cells: 6); --categorical 'airbags' makes it" in told
    assert "column 'doors': None" not in told
    assert load(model).schema_.levels_of(0) == ("both", "driver")
    told = run(*fit, "--categorical", "airbags").stderr
    assert "None counts as missing" not in told
    assert load(model).schema_.levels_of(0) == ("both", "driver", "None")
    filled = rows_of(run("impute", model, data).stdout)
    assert [row[0] for row in filled[1:4]] == ["None", "driver", "both"]
    assert filled[4][0] in ("both", "driver", "None")


def test_none_is_missing_beside_numbers_even_on_request(tmp_path):
    data, model = tmp_path / "t.csv", tmp_path / "m.dynpart"
    data.write_text(repeated("a,b", "1,x", "None,y", "2,x"))
    told = run("fit", data, "-k", 2, "--iterations", 2, "--categorical", "a", "-o", model).stderr
    assert "None counts" not in told
    assert load(model).schema_.levels_of(0) == ("1", "2")


def test_whole_numbers_are_written_as_the_table_has_them(tmp_path):
    """Also if no column has texts."""
    data, model = tmp_path / "t.csv", tmp_path / "m.dynpart"
    data.write_text(repeated("legs,size", "4,1.5", "2,3", ",2.5", "6,1"))
    run("fit", data, "-k", 2, "--iterations", 2, "-o", model)
    filled = rows_of(run("impute", model, data).stdout)
    assert filled[1:3] + filled[4:5] == [["4", "1.5"], ["2", "3"], ["6", "1"]]
    assert filled[3][1] == "2.5"
    drawn = rows_of(run("sample", model, "-n", 20).stdout)
    assert not any(cell.endswith(".0") for row in drawn for cell in row)


def test_fields_parted_by_blanks_have_a_remedy(tmp_path):
    lines = [f"{i} {i / 7:.2f} {i % 2}" for i in range(12)]
    text = "\n".join(["OBS GPA GRADE", *lines]) + "\n"
    for ending in ("csv", "txt"):
        (tmp_path / f"t.{ending}").write_text(text)
    fit = ("-k", 2, "--iterations", 2, "-o", tmp_path / "m.dynpart")
    told = run("fit", tmp_path / "t.csv", *fit, status=2).stderr
    assert "if blanks separate its fields, give the file the ending .txt" in told
    run("fit", tmp_path / "t.txt", *fit)
    assert load(tmp_path / "m.dynpart").schema_.names == ("OBS", "GPA", "GRADE")


@pytest.mark.parametrize("options", [(), ("--categorical", "sex")])
def test_levels_that_are_numbers_may_be_written_with_a_point(tmp_path, options):
    """Two integers are levels, 1 and 2; pandas writes them as 1.0 and 2.0 beside a gap."""
    data, model = tmp_path / "t.csv", tmp_path / "m.dynpart"
    rows = [f"{1 + i % 2}.0,{i / 7:.2f}" for i in range(30)]
    data.write_text("\n".join(["sex,size", *rows]) + "\n")
    run("fit", data, "-k", 2, "--iterations", 2, *options, "-o", model)
    assert load(model).schema_.levels_of(0) == (("1.0", "2.0") if options else ("1", "2"))
    first = run("encode", model, data).stdout
    if not options:
        data.write_text(data.read_text().replace("1.0,", "1,").replace("2.0,", "2,"))
        assert run("encode", model, data).stdout == first
