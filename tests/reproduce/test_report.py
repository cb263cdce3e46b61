"""The report is made of what was kept, and its thumbnails are small."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dynpart.cli import app
from dynpart.cli.reproduce import NAMES
from dynpart.reproduce import EXPERIMENTS
from dynpart.reproduce._report import MOST_THUMBNAIL_BYTES, thumbnail, write_report


def test_the_report_shows_every_figure_as_a_small_file_beside_it(experiment, finished, tmp_path):
    target = tmp_path / "docs" / "reproduction.md"
    write_report([experiment], finished[0], target)
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", target.read_text())
    assert len(shown) == 5
    for path in shown:
        file = target.parent / path
        assert 0 < file.stat().st_size <= MOST_THUMBNAIL_BYTES
        with Image.open(file) as picture:
            assert picture.format == "JPEG"


def test_the_table_has_a_column_per_variant(finished):
    report = (finished[0] / "reproduction.md").read_text()
    table = [line for line in report.splitlines() if line.startswith("|")]
    assert table[0] == "| | Literal | Ours |"
    assert all(line.replace("\\|", "").count("|") == 4 for line in table)
    assert any(line.startswith("| error |") and "%" in line for line in table)


def test_variants_that_did_not_run_are_named(experiment, finished):
    folder = finished[0]
    (folder / "tiny" / "default.json").unlink()
    write_report([experiment], folder, folder / "part.md")
    assert "Not run yet: Ours." in (folder / "part.md").read_text()
    assert "Not run yet" not in (folder / "reproduction.md").read_text()


def test_experiments_without_runs_are_left_out(experiment, tmp_path):
    write_report([experiment], tmp_path, tmp_path / "report.md")
    assert experiment.title not in (tmp_path / "report.md").read_text()


def test_sections_of_experiments_that_ran_elsewhere_stay_as_they_are(
    experiment, finished, tmp_path
):
    other = replace(experiment, name="other", title="Another one")
    report = tmp_path / "report.md"
    write_report([experiment], finished[0], report)
    first = report.read_text()
    (finished[0] / "tiny").rename(finished[0] / "other")
    write_report([experiment, other], finished[0], report)
    both = report.read_text()
    assert both.startswith(first.rstrip())
    assert "## Another one" in both
    write_report([experiment, other], tmp_path / "empty", report)
    assert report.read_text() == both


def test_a_picture_full_of_noise_still_becomes_a_small_thumbnail(tmp_path):
    noise = np.random.RandomState(0).randint(0, 256, size=(1200, 1500, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    thumbnail(tmp_path / "noise.png", tmp_path / "small" / "noise.jpg")
    assert (tmp_path / "small" / "noise.jpg").stat().st_size <= MOST_THUMBNAIL_BYTES


def test_the_command_knows_the_papers_experiments():
    assert tuple(EXPERIMENTS) == NAMES
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        beyond = experiment.title.startswith("Beyond: the discussion")
        assert beyond or experiment.variants[0].parameters["learning"] == "paper"
        assert experiment.remarks({})  # remarks do not need results


@pytest.mark.parametrize(
    ("name", "n_experts", "limit"),
    [
        ("synthetic", 10, {}),
        ("mnist", 100, {}),
        ("horses", 20, {"n_active": 4}),
        ("motorcycles", 50, {}),
    ],
)
def test_literal_runs_have_the_papers_settings(name, n_experts, limit):
    parameters = dict(EXPERIMENTS[name].variants[0].parameters)
    assert parameters["n_experts"] == n_experts
    assert parameters["max_iter"] == (15 if name == "synthetic" else 10)
    assert {key: parameters.get(key) for key in limit} == limit


def test_the_command_runs_all_when_asked_and_refuses_unknown_names(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("dynpart.reproduce.reproduce", lambda names, out, **_: asked.append(names))
    runner = CliRunner()
    assert runner.invoke(app, ["reproduce", "all", "--out", str(tmp_path)]).exit_code == 0
    assert runner.invoke(app, ["reproduce", "mnist", "horses"]).exit_code == 0
    assert asked == [list(NAMES), ["mnist", "horses"]]
    refused = runner.invoke(app, ["reproduce", "cats"])
    assert refused.exit_code == 2
    assert "cats" in refused.stderr
    assert runner.invoke(app, ["reproduce"]).exit_code == 2


def test_data_that_are_not_there_are_reported_without_a_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNPART_DATA", str(tmp_path / "nowhere"))
    result = CliRunner().invoke(app, ["reproduce", "horses", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "DYNPART_DATA" in result.stderr
