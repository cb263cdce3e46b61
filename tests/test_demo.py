"""The demo runs without a download, and its table and figures are what it says."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import dynpart
from dynpart.cli import app
from dynpart.datasets import load_digits, load_zoo, make_pairs
from dynpart.demo import describe, run_demo
from dynpart.estimator import DynamicPartitionModel
from dynpart.persistence import load


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # newcomers must see none
        return folder, run_demo(folder)


@pytest.mark.slow
def test_pairs_are_described_without_error_by_five_experts(demo):
    pairs = demo[1][0]
    assert (pairs.n_rows, pairs.n_experts) == (32, 10)
    assert pairs.mean_active == pytest.approx(5)
    assert pairs.error == 0
    # The learnt prior knows the pairs: one of two experts, five times, costs five bits; the values
    # given the code cost next to nothing.
    assert 5 < pairs.bits < 6


@pytest.mark.slow
def test_digits_are_described_better_than_by_their_mean(demo):
    digits = demo[1][1]
    assert (digits.n_rows, digits.n_experts) == (297, 20)
    assert 1 < digits.mean_active <= 6
    data = load_digits()
    mean = (data.train.sum(axis=0) + 0.5) / (len(data.train) + 1)
    assert digits.error < 0.5 * ((mean > 0.5) != data.test).mean()
    assert digits.bits < 0.9 * -np.log2(np.where(data.test, mean, 1 - mean)).sum(axis=1).mean()


@pytest.mark.slow
def test_figures_are_written_and_not_empty(demo):
    figures = sorted(demo[0].glob("*.png"))
    assert len(figures) >= 6
    for path in figures:
        with Image.open(path) as picture:
            assert min(picture.size) > 200
            assert len(np.unique(np.asarray(picture.convert("L")))) > 2


@pytest.mark.slow
def test_it_ends_with_the_zoo_and_a_page_to_open(demo, capsys):
    folder = demo[0]
    model = load(folder / "zoo.dynpart")
    page = (folder / "zoo.html").read_text(encoding="utf-8")
    assert "platypus" in page
    assert '"name":"type"' in page
    assert "legs" in (folder / "zoo.csv").read_text().splitlines()[0]
    asked = ["explain", str(folder / "zoo.dynpart"), str(folder / "zoo.csv"), "--label", "platypus"]
    run = CliRunner().invoke(app, asked)
    assert run.exit_code == 0, run.output
    zoo = load_zoo()
    code = model.transform(zoo.table([zoo.row_names.index("platypus")]))[0]
    for k, name in enumerate(model.expert_names_):
        assert (f". {name} " in run.stdout) == bool(code[k])
    assert "milk" in run.stdout


@pytest.mark.slow
def test_newcomers_see_no_warning(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "dynpart", "demo", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert "Warning" not in done.stdout + done.stderr
    assert "warn" not in done.stderr.lower()
    assert done.stdout.startswith("Compiling kernels")
    assert str(tmp_path) in done.stdout.replace("\n", "")


def test_the_command_hands_on_folder_and_seed(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("dynpart.demo.run_demo", lambda out, seed: asked.append((out, seed)))
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "here"), "--seed", "3"])
    assert result.exit_code == 0
    assert asked == [(tmp_path / "here", 3)]


def test_a_file_in_the_way_is_reported(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "file" in result.stderr


def test_description_measures_what_it_says():
    X = make_pairs(2)
    model = DynamicPartitionModel(n_experts=1, random_state=0).fit(X)
    row = describe("one expert", model, X, 1.5)
    # One expert can only say 1/2 everywhere: half of the values wrong, one bit for each.
    assert row.mean_active == 1
    assert row.error == pytest.approx(0.5, abs=0.01)
    assert row.bits == pytest.approx(4, abs=0.3)
    assert row.seconds == 1.5
