"""``dynpart fit --autoregressive``: accepted values, and the radius on images."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dynpart import load
from dynpart.cli import app


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", (rng.random((60, 3, 4)) < 0.5).astype(np.uint8))
    return tmp_path / "rows.npy"


def fit(rows, target, *options):
    command = ["fit", str(rows), "-k", "2", "--iterations", "2", "-o", str(target), "-q", *options]
    return CliRunner().invoke(app, command)


@pytest.mark.slow
def test_pictures_look_at_pixels_nearby(pictures, tmp_path):
    result = fit(pictures, tmp_path / "m.dynpart", "--autoregressive", "1")
    assert result.exit_code == 0, result.output
    model = load(tmp_path / "m.dynpart")
    assert model.autoregressive == 1
    assert model.image_shape_ == (3, 4)
    weights = model._experts().autoregression.weights
    assert not weights[3 + 4, [0, 1, 4, 5]].any()  # more than a column away


@pytest.mark.parametrize("wrong", ["0", "some", "-1"])
def test_anything_but_a_number_or_all_is_refused(pictures, tmp_path, wrong):
    result = fit(pictures, tmp_path / "m.dynpart", "--autoregressive", wrong)
    assert result.exit_code == 2
    assert not (tmp_path / "m.dynpart").exists()
