"""The selection curve and the bars of stability show what the model keeps."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.plotting import plot_selection, plot_stability
from dynpart.plotting.choices import MARKS
from dynpart.selection import Selection, TriedSize
from dynpart.stability import Stability


@pytest.fixture(scope="module")
def model():
    model = DynamicPartitionModel(4, max_iter=5, random_state=0).fit(make_pairs(2, 60))
    tried = (TriedSize(2, -8.0, 0.3, 1.0), TriedSize(4, -5.0, 0.0, 1.5), TriedSize(6, -5.2, 0.1, 2))
    model.selection_ = Selection(4, tried, -9.0, -6.0, 80, 20, 12, 1)
    model.stability_ = Stability(10, (10, 3, 6, 8), (0.9, 0.2, 0.7, 0.8), (0,), ((1, 3),))
    return model


def test_the_curve_is_bits_of_held_back_rows_with_both_baselines(model):
    axes = plot_selection(model).axes[0]
    curve = axes.containers[0].lines[0]
    np.testing.assert_array_equal(curve.get_xdata(), [2, 4, 6])
    np.testing.assert_allclose(
        np.asarray(curve.get_ydata(), float), np.array([8.0, 5.0, 5.2]) / np.log(2)
    )
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert f"independent columns, {9 / np.log(2):.1f}" in words
    assert f"mixture of 4 components, {6 / np.log(2):.1f}" in words
    assert axes.texts[0].get_text() == f"4 chosen, {5 / np.log(2):.1f} bits"


def test_bars_are_shares_of_samples_in_the_colour_of_their_mark(model):
    axes = plot_stability(model).axes[0]
    order = [0, 3, 2, 1]
    assert [bar.get_width() for bar in axes.patches] == [1.0, 0.8, 0.6, 0.3]
    for bar, k in zip(axes.patches, order, strict=True):
        assert bar.get_facecolor() == to_rgba(MARKS[model.stability_.mark(k)])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[0].endswith("(0, always on)")
    assert labels[1].endswith("(3, as 1)")


@pytest.mark.parametrize(
    ("draw", "words"),
    [(plot_selection, "fit with n_experts='auto'"), (plot_stability, "stability")],
)
def test_models_that_were_not_asked_say_so(draw, words):
    X = make_pairs(2, 60, random_state=0)
    model = DynamicPartitionModel(4, max_iter=5, random_state=0).fit(X)
    with pytest.raises(ValueError, match=words):
        draw(model)
