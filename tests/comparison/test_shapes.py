"""Shapes: what is hidden, how it is scored, and that results are kept."""

import numpy as np
import pytest

from dynpart.comparison import shapes
from dynpart.comparison.report import shapes_table
from dynpart.comparison.shapes import SHAPE_CONTESTANTS, hidden_half, load_shapes, run_shapes
from dynpart.datasets import ImageDataset, make_bars


@pytest.fixture
def horses(monkeypatch):
    data = ImageDataset("bars", make_bars(4, 60, random_state=0), (4, 4), n_train=40)
    monkeypatch.setattr(shapes, "load_weizmann_horses", lambda *, image_shape: data)
    return data


def test_halves_are_halves():
    halves = {half: hidden_half((4, 6), half) for half in shapes.HALVES}
    assert (halves["left"] ^ halves["right"]).all()
    assert (halves["top"] ^ halves["bottom"]).all()
    assert halves["left"].reshape(4, 6)[:, :3].all()
    assert halves["top"].reshape(4, 6)[:2].all()


def test_results_are_measured_kept_and_written_down(horses, tmp_path):
    average = [SHAPE_CONTESTANTS["average"]]
    (result,) = run_shapes(average, [0], folder=tmp_path, report=lambda line: None)
    wrong = (horses.train.mean(axis=0) > 0.5) != horses.test
    assert result.reconstruction == pytest.approx(wrong.mean())
    for half, share in result.hidden.items():
        assert share == pytest.approx(wrong[:, hidden_half((4, 4), half)].mean())
    assert load_shapes(tmp_path) == [result]
    assert (tmp_path / "shapes-average.png").stat().st_size > 1000
    (again,) = run_shapes(average, [0], folder=tmp_path, report=pytest.fail)
    assert again == result
    _, lines = shapes_table([result])
    assert lines[0][1] == f"{100 * wrong.mean():.2f}"


def test_a_perfect_model_makes_no_mistake(horses):
    class Perfect:
        def reconstruct(self, X):
            return X

        def fill(self, X):
            return horses.test

        def sample(self, n_samples):
            return horses.test[:n_samples]

    result = shapes.measure(SHAPE_CONTESTANTS["average"], Perfect(), horses, 0, 1.0)
    assert result.reconstruction == 0
    assert not any(np.fromiter(result.hidden.values(), float))
