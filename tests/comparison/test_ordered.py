"""Rows told value after value: how models are scored, kept and written down."""

import numpy as np
import pytest

from dynpart.baselines import Mixture
from dynpart.comparison import ordered
from dynpart.comparison.ordered import (
    ORDERED_CONTESTANTS,
    ORDERED_PROBLEMS,
    OrderedProblem,
    load_ordered,
    ordered_section,
    ordered_table,
    run_ordered,
)
from dynpart.datasets import ImageDataset, make_bars


def bars():
    return ImageDataset("bars", make_bars(4, 60, random_state=0), (4, 4), n_train=40)


PROBLEM = OrderedProblem("autoregressive", "digits", bars, 3, 2, 4)


def test_results_are_measured_kept_and_written_down(tmp_path):
    contestants = [ORDERED_CONTESTANTS["bernoulli-mixture"], ORDERED_CONTESTANTS["dynamic-plain"]]
    found = run_ordered([PROBLEM], contestants, [0], folder=tmp_path, report=lambda line: None)
    mixture, ours = found
    assert ours.scores["nearby"] >= ours.scores["nats"] - 1e-9
    assert 1 <= ours.scores["active"] <= 2
    assert load_ordered(tmp_path) == found
    again = run_ordered([PROBLEM], contestants, [0], folder=tmp_path, report=pytest.fail)
    assert again == found
    headings, lines = ordered_table(found)
    assert len(headings) == len(lines[0])
    assert lines[0][1] == f"{mixture.scores['nats']:.2f}"
    text = ordered_section(found, str, tmp_path)
    assert "mixture of Bernoullis" in text
    assert text.count(".png") == 2


def test_the_mixture_is_scored_by_its_density():
    X = bars().train
    model = Mixture(2, random_state=0).fit(X)
    p = model.means_.clip(1e-4, 1 - 1e-4)
    expected = [
        np.log(
            sum(
                w * np.prod(np.where(x == 1, q, 1 - q))
                for w, q in zip(model.weights_, p, strict=True)
            )
        )
        for x in X
    ]
    assert ordered._Mixture(model).scores(X)["nats"] == pytest.approx(np.mean(expected))


def test_pictures_show_rows_where_they_belong():
    rows = np.eye(13, 16, dtype=np.uint8)
    figure = ordered.draw_rows(rows, (4, 4))
    drawn = figure.axes[0].images[0].get_array()
    assert drawn.shape == (2 * 5, 12 * 5)
    assert drawn[0, 0] == 1
    assert drawn[5 + 3, 0] == 1  # the thirteenth row begins the second line
    assert (drawn == 1).sum() == 13


def test_every_problem_has_its_own_name():
    assert all(name == problem.name for name, problem in ORDERED_PROBLEMS.items())
