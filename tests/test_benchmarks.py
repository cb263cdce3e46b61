"""The speed benchmark measures what it says, and its page gets exactly one block of numbers."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from dynpart.datasets import make_pairs

speed = pytest.importorskip("benchmarks.speed", reason="not part of this distribution")
from benchmarks.speed import __main__ as command  # noqa: E402
from benchmarks.speed import kinds, report  # noqa: E402
from benchmarks.speed.case import FULL, Sizes  # noqa: E402
from benchmarks.speed.competitors import CASES  # noqa: E402
from benchmarks.speed.data import load, make_strokes  # noqa: E402
from benchmarks.speed.growth import AXES, QUICK, draw, exponent  # noqa: E402
from benchmarks.speed.growth import FULL as FULL_GROWTH  # noqa: E402
from benchmarks.speed.images import SETS, measure_images  # noqa: E402
from benchmarks.speed.startup import FIT, TABLES, first_and_second  # noqa: E402

TINY = Sizes(n_fit=120, n_encode=80, n_subset=40, n_components=4)


def result(name, *seconds, threads=2, memory=10.0):
    case = CASES[name]
    return {
        "name": name,
        "title": case.title,
        "group": case.group,
        "n_rows": case.n_rows(FULL),
        "threads": threads,
        "twin": case.twin,
        "seconds": list(seconds),
        "cpu_seconds": list(seconds),
        "beyond_input_mb": memory,
    }


@pytest.fixture
def saved():
    return {
        "sizes": asdict(FULL),
        "threads": 2,
        "date": "2001-02-03",
        "machine": "a machine",
        "load": 0.5,
        "data": "made-up strokes",
        "results": [
            result("rbm", 9.0, 20.0, 30.0),
            result("dynpart-10", 5.0, 4.0, 100.0),
            result("dynpart-10-alone", 9.0, threads=1),
            result("omp", 6.0),
            result("omp-jobs", 4.0, memory=None),
            result("dynpart-encode", 0.5),
        ],
        "images": [
            {
                "name": "some images",
                "n_rows": 300,
                "n_features": 48_000,
                "n_experts": 20,
                "n_iter": 30,
                "seconds": 1.5,
                "cpu_seconds": 2.5,
            }
        ],
        "growth": [
            {"axis": axis, "n": 10, "K": 10, "D": 10, "encode_s": 1.0, "iteration_s": 1.0}
            | {axis: size, "encode_s": size * 1e-3, "iteration_s": size**2 * 1e-3}
            for axis in AXES
            for size in (1, 2, 4, 8)
        ],
    }


def test_every_competitor_has_a_name_and_encoders_have_a_model():
    assert {"rbm", "omp", "dictionary", "nmf", "kmeans", "reference"} <= set(CASES)
    for case in CASES.values():
        assert case.group in report.HEADINGS
        assert (case.group == "fit") == (case.model is None)
        assert case.model is None or CASES[case.model].group == "fit"
        assert case.twin is None or (case.threads == 1 and case.twin in CASES)
    assert all(name in CASES for names in report.BASES.values() for name in names)
    assert [case.name for case in command.chosen(["omp"])] == ["dictionary", "omp"]


@pytest.mark.parametrize("sizes", [FULL_GROWTH, QUICK])
def test_every_axis_grows_by_eight_and_alone(sizes):
    for place, axis in enumerate(AXES):
        points = np.array(sizes[axis])
        assert points[:, place].max() >= 8 * points[:, place].min()
        assert (np.ptp(np.delete(points, place, axis=1), axis=0) == 0).all()


def test_ratios_are_of_medians(saved):
    results = {r["name"]: r for r in saved["results"]}
    assert report.ratio(saved["results"], results["dynpart-10"]) == 5.0 / 20.0
    # Encoders are measured against the faster of the two ways to run OMP.
    assert report.ratio(saved["results"], results["dynpart-encode"]) == 4.0 / 0.5
    assert report.ratio([results["dynpart-10"]], results["dynpart-10"]) is None


def test_tables_have_a_row_per_case_and_twins_a_table_of_their_own(saved):
    tables = {title: (headings, lines) for title, headings, lines in report.tables(saved)}
    large = "Fit large images, default settings"
    assert set(tables) == {"Fit", "Encode", "One thread and all threads", large, "Growth"}
    assert tables[large][1] == [["some images", "300", "48,000", "20", "30", "1.50 s", "2.50 s"]]
    assert [line[0] for line in tables["Fit"][1]] == [CASES["rbm"].title, "dynpart, max_iter=10"]
    assert tables["Fit"][1][1][1:] == ["60,000", "2", "5.00 s", "5.00 s", "0.25", "10 MB"]
    assert tables["Encode"][1][1][-1] == "–"
    assert tables["One thread and all threads"][1][0][-1] == "1.80"
    assert [line[-2:] for line in tables["Growth"][1]] == [["2.00", "1.00"]] * 3
    assert all(len(line) == len(headings) for headings, lines in tables.values() for line in lines)


def test_exponents_of_powers(saved, tmp_path):
    assert exponent(saved["growth"], "K", "encode_s") == pytest.approx(1)
    assert exponent(saved["growth"], "K", "iteration_s") == pytest.approx(2)
    draw(saved["growth"], tmp_path / "deep" / "growth.png")
    assert (tmp_path / "deep" / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_but_the_block_is_replaced(saved, tmp_path):
    page = tmp_path / "page.md"
    head, tail = "# Title\n\nwörter | x |\n", "\n\n## After\n\nno newline at the end"
    page.write_text(f"{head}{report.BEGIN}\nold\n{report.END}{tail}", encoding="utf-8")
    for _ in range(2):
        report.write_block(page, report.markdown(saved, "images/growth.png"))
        text = page.read_text(encoding="utf-8")
        assert text.startswith(head + report.BEGIN)
        assert text.endswith(report.END + tail)
        assert "old" not in text
        assert text.count("| dynpart, max_iter=10 | 60,000 | 2 | 5.00 s | 5.00 s | 0.25 |") == 1


@pytest.mark.parametrize(
    "text",
    ["no markers", report.BEGIN, f"{report.END} {report.BEGIN}", 2 * (report.BEGIN + report.END)],
)
def test_a_page_with_other_markers_is_left_alone(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="once each"):
        report.write_block(page, "numbers")
    assert page.read_text() == text


def test_the_page_of_the_project_has_its_block():
    if not command.PAGE.exists():
        pytest.skip("the page is not part of this distribution")
    text = command.PAGE.read_text(encoding="utf-8")
    assert text.count(report.BEGIN) == text.count(report.END) == 1
    assert text.index(report.BEGIN) < text.index("| dynpart") < text.index(report.END)


def test_made_up_rows_are_binary_repeatable_and_as_dark_as_digits(monkeypatch):
    monkeypatch.delenv("DYNPART_DATA", raising=False)
    title, fit, encode = load(TINY, None)
    assert title == "made-up strokes"
    assert (fit.shape, encode.shape) == ((120, 784), (80, 784))
    assert fit.dtype == np.uint8
    assert set(np.unique(fit)) == {0, 1}
    assert 0.05 < fit.mean() < 0.25
    np.testing.assert_array_equal(np.vstack([fit, encode]), make_strokes(200))


@pytest.mark.parametrize("name", SETS)
def test_large_images_are_left_out_where_no_folder_has_them(name, monkeypatch, tmp_path):
    monkeypatch.delenv("DYNPART_DATA", raising=False)
    assert measure_images(name, None, quick=True) is None
    assert measure_images(name, str(tmp_path), quick=True) is None


def test_an_iteration_of_large_images_is_measured(monkeypatch):
    rows = np.tile(make_pairs(2), (8, 10)).astype(np.uint8)
    images = SimpleNamespace(name="made-up", train=rows)
    monkeypatch.setitem(SETS, "horses", (lambda folder: images, {"n_experts": 4, "n_active": 2}))
    found = measure_images("horses", "anywhere", quick=True)
    assert (found["name"], found["n_rows"], found["n_features"]) == ("made-up", 20, 40)
    assert found["n_iter"] == 2
    assert found["seconds"] > 0


@pytest.mark.slow
def test_one_command_measures_saves_and_writes(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("DYNPART_DATA", raising=False)
    monkeypatch.setattr("benchmarks.speed.case.QUICK", TINY)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}{report.END}\nafter\n")
    arguments = ["--quick", "--threads", "1", "--out", str(tmp_path), "--only", "kmeans-encode"]
    arguments.append("--images")
    command.main([*arguments, "--write-docs"], page)
    saved = json.loads((tmp_path / "speed-quick.json").read_text())
    assert [r["name"] for r in saved["results"]] == ["kmeans", "kmeans-encode"]
    for found, n_rows in zip(saved["results"], (120, 80), strict=True):
        assert found["n_rows"] == n_rows
        assert found["threads"] == 1
        assert len(found["seconds"]) == 1
        assert found["seconds"][0] > 0
        assert -5 < found["beyond_input_mb"] < 500
    assert "KMeans, nearest centre" in page.read_text()
    printed = capsys.readouterr().out
    assert "KMeans" in printed
    assert "horses: left out" in printed

    before = page.read_text()
    command.main([*arguments, "--saved", "--write-docs"], page)
    assert page.read_text() == before


@pytest.mark.parametrize("table", TABLES)
def test_tables_of_the_first_fit_are_what_they_are_called(table):
    pd = pytest.importorskip("pandas")
    names = {"np": np, "pd": pd, "rng": np.random.default_rng(0), "shape": (50, 20)}
    drawn = eval(TABLES[table], names)
    assert drawn.shape == (50, 20)
    assert "TABLE" in FIT


@pytest.mark.slow
def test_the_first_fit_compiles_and_the_second_does_not(tmp_path):
    pytest.importorskip("pandas")
    (first, took), (second, nothing) = first_and_second("binary", str(tmp_path))
    assert took  # the others are compiled by a second process
    assert nothing == {}
    for kernel in (*took, "pursue_groups", "first_pass"):
        assert list(tmp_path.rglob(f"*{kernel}*.nbc"))
    assert second < first


def test_kinds_of_cells_are_timed_beside_binary_ones(monkeypatch):
    rows = kinds.planted(50, 3, np.random.default_rng(0))
    assert rows.shape == (50, 120)
    assert set(np.unique(rows)) == {0, 1, 2}
    for make in kinds.KINDS.values():
        assert make(5, np.random.default_rng(0))[0].shape == (5, 120)
    found = iter([([2.0, 0.5, 1.0], 8), *[([3.0, 1.0, 1.2], 16)] * (len(kinds.KINDS) - 1)])
    monkeypatch.setattr(kinds, "measure", lambda name, n_rows: next(found))
    first, second = kinds.table(50).splitlines()[2:4]
    assert first == "| binary | 2.00 s | 1.00 | 0.50 s | 1.00 | 1.00 s | 1.00 | 8 |"
    assert second == "| binary, 10% missing | 3.00 s | 1.50 | 1.00 s | 2.00 | 1.20 s | 1.20 | 16 |"
