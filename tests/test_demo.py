"""The demo runs without a download, and its table and figures are what it says."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dynpart.cli import app
from dynpart.datasets import make_pairs
from dynpart.demo import describe, run_demo
from dynpart.estimator import DynamicPartitionModel


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return folder, run_demo(folder)


def test_pairs_are_described_without_error_by_five_experts(demo):
    pairs = demo[1][0]
    assert (pairs.n_rows, pairs.n_experts) == (32, 10)
    assert pairs.mean_active == pytest.approx(5)
    assert pairs.error == 0
    # Five of ten independent bits cost ten bits; the values given the code cost next to nothing.
    assert 10 < pairs.bits < 11


def test_digits_are_described_better_than_by_their_mean(demo):
    digits = demo[1][1]
    assert (digits.n_rows, digits.n_experts) == (297, 20)
    assert 1 < digits.mean_active <= 6
    # The mean digit, rounded, is wrong on more than a fifth of the pixels.
    assert digits.error < 0.12
    assert digits.bits < 64


def test_figures_are_written_and_not_empty(demo):
    figures = sorted(demo[0].glob("*.png"))
    assert len(figures) >= 6
    for path in figures:
        with Image.open(path) as picture:
            assert min(picture.size) > 200
            assert len(np.unique(np.asarray(picture.convert("L")))) > 2


def test_the_command_says_where_the_figures_are(tmp_path, monkeypatch, demo):
    rows = demo[1]
    monkeypatch.setattr("dynpart.demo.run_demo", lambda out, seed: rows and print(out, seed))
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "here"), "--seed", "3"])
    assert result.exit_code == 0
    assert str(tmp_path / "here") in result.stdout.replace("\n", "")


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
