"""Figures show what the model says: colours and layout are checked against its arrays."""

import copy
import itertools
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.exceptions import NotFittedError

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.plotting import (
    plot_decomposition,
    plot_experts,
    plot_history,
    plot_partition,
    plot_pursuit,
    plot_reconstructions,
    plot_supports,
    plot_templates,
    plot_training,
)
from dynpart.plotting._canvas import NOT_RESPONSIBLE, Scale, as_tiles, mosaic
from dynpart.plotting.parts import PART_COLOURS, _different

SHAPE = (2, 4)  # eight variables, drawn as a small picture


@pytest.fixture(scope="module")
def rows():
    return make_pairs(4)


@pytest.fixture(scope="module")
def model(rows):
    return DynamicPartitionModel(n_experts=8, random_state=0).fit(rows)


@pytest.fixture(scope="module")
def gaussian(rows):
    noise = np.random.RandomState(0).normal(scale=0.1, size=rows.shape)
    return DynamicPartitionModel(n_experts=5, max_iter=5, random_state=0).fit(rows + noise)


def picture_of(figure, axes=0):
    return np.asarray(figure.axes[axes].images[0].get_array())


def tile_of(figure, row, column, grid, shape=SHAPE, axes=0):
    """RGB of one tile, at one value per variable, cut out of the drawn mosaic."""
    picture = picture_of(figure, axes)
    pitch = np.array(picture.shape[:2]) / grid
    zoom = round(48 / max(shape))
    gap = picture.shape[0] - grid[0] * int(pitch[0])
    top, left = gap + row * int(pitch[0]), gap + column * int(pitch[1])
    centre = zoom // 2
    return picture[top + centre :: zoom, left + centre :: zoom][: shape[0], : shape[1]]


def grey(values):
    """RGB of probabilities, white at 0 and black at 1."""
    return np.repeat(1 - np.asarray(values, float).reshape(SHAPE)[..., None], 3, axis=2)


def test_no_figure_goes_through_pyplot(model, rows, monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    figure = plot_partition(model, rows[:4], image_shape=SHAPE)
    assert "matplotlib.pyplot" not in sys.modules
    assert figure.canvas.__class__.__name__ == "FigureCanvasAgg"


@pytest.mark.parametrize("image_shape", [None, SHAPE])
@pytest.mark.parametrize("which", ["model", "gaussian"])
def test_every_figure_can_be_drawn(which, image_shape, rows, request, tmp_path):
    fitted = request.getfixturevalue(which)
    X = rows if which == "model" else rows + 0.05
    figures = [
        plot_experts(fitted, image_shape=image_shape),
        plot_pursuit(fitted, X[:5], image_shape=image_shape, max_steps=3),
        plot_supports(fitted, X, image_shape=image_shape, n_experts=2, n_codes=3),
        plot_decomposition(fitted, X[:9], image_shape=image_shape),
        plot_reconstructions(fitted, X[:7], image_shape=image_shape),
        plot_partition(fitted, X[:5], image_shape=image_shape),
        plot_history(fitted),
    ]
    for i, figure in enumerate(figures):
        path = tmp_path / f"{i}.png"
        figure.savefig(path, dpi=60)
        with Image.open(path) as drawn:
            assert min(drawn.size) > 40
        contents = [image.get_array() for axes in figure.axes for image in axes.images]
        contents += [line.get_ydata() for axes in figure.axes for line in axes.lines]
        assert contents
        assert all(np.isfinite(content).all() for content in contents)
        assert any(np.ptp(content) > 0.1 for content in contents)


def test_experts_of_a_table_are_drawn_as_they_are(model):
    figure = plot_experts(model, experts=[3, 1], feature_names=list("abcdefgh"))
    opinions, expertise = (axes.images[0].get_array() for axes in figure.axes[:2])
    assert np.allclose(opinions, model.means_[[3, 1]])
    assert np.allclose(expertise, np.log2(model.expertise_[[3, 1]]))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == list("abcdefgh")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        f"{model.expert_names_[k]}  {k}" for k in (3, 1)
    ]


def test_names_of_the_data_are_written_beside_its_variables(rows):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows, columns=[f"species {d}" for d in range(rows.shape[1])])
    fitted = DynamicPartitionModel(n_experts=3, max_iter=4, random_state=0).fit(table)
    labels = plot_experts(fitted).axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == list(table.columns)


@pytest.mark.parametrize(("n_experts", "n_features"), [(20, 40), (3, 60), (40, 4)])
def test_labels_of_a_table_do_not_overlap_and_the_table_fills_its_figure(n_experts, n_features):
    figure = plot_templates(np.zeros((n_experts, n_features)))
    figure.canvas.draw()
    axes = figure.axes[0]
    for labels, side in ((axes.get_xticklabels(), "x"), (axes.get_yticklabels(), "y")):
        extents = [label.get_window_extent() for label in labels]
        ends = sorted(getattr(extent, f"interval{side}").tolist() for extent in extents)
        assert all(first[1] <= then[0] for first, then in itertools.pairwise(ends))
    drawn = axes.get_tightbbox()
    assert drawn.height > 0.8 * figure.bbox.height
    assert drawn.width > 0.8 * figure.bbox.width


def test_templates_are_white_at_zero_and_black_at_one():
    templates = np.array([[0, 1, 0, 1, 0.5, 0.5, 0, 0]] * 2)
    figure = plot_templates(templates, title="other", image_shape=SHAPE)
    assert figure.axes[0].get_title(loc="left") == "other"
    assert np.allclose(tile_of(figure, 0, 0, (2, 1)), grey(templates[0]), atol=0.01)


def test_training_is_drawn_in_order_of_iterations():
    figure = plot_training({15: np.eye(4), 0: np.full((4, 4), 0.5), 1: np.eye(4)})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["Start", "After 1 iteration", "After 15 iterations"]
    assert np.allclose(picture_of(figure, 0), 0.5)
    assert np.allclose(picture_of(figure, 2), np.eye(4))


def test_pursuit_ends_in_the_reconstruction_above_the_data(model, rows):
    X = rows[:3]
    order = model.pursue(X).order
    figure = plot_pursuit(model, X, image_shape=SHAPE)
    grid = (order.shape[1] + 1, 3)
    composed = model.inverse_transform(model.transform(X))
    for n in range(3):
        last = np.count_nonzero(order[n] >= 0) - 1
        assert np.allclose(tile_of(figure, last, n, grid), grey(composed[n]), atol=0.01)
        assert np.allclose(tile_of(figure, grid[0] - 1, n, grid), grey(X[n]), atol=0.01)
    assert figure.axes[0].get_yticklabels()[-1].get_text() == "data"


def test_decomposition_is_grey_where_the_expert_is_not_responsible(model, rows):
    X = rows[:2]
    order = model.pursue(X).order
    owner = model.partition(model.transform(X))
    figure = plot_decomposition(model, X, image_shape=SHAPE, n_blocks=1)
    grid = (2, 2 + order.shape[1])
    for n in range(2):
        for step, k in enumerate(order[n]):
            tile = tile_of(figure, n, 2 + step, grid).reshape(-1, 3)
            silent = np.isclose(tile, NOT_RESPONSIBLE).all(axis=1)
            assert np.array_equal(~silent, owner[n] == k)


def test_supports_are_red_where_the_expert_speaks(model, rows):
    chosen = [0, 1]
    figure = plot_supports(model, rows, experts=chosen, n_codes=3, image_shape=SHAPE)
    owner = model.partition(model.transform(rows))
    for i, k in enumerate(chosen):
        assert np.allclose(tile_of(figure, i, 0, (2, 4)), grey(model.means_[k]), atol=0.01)
        for j in (1, 2, 3):
            tile = tile_of(figure, i, j, (2, 4)).reshape(-1, 3)
            coloured = np.ptp(tile, axis=1) > 0.02
            assert coloured.any()
            assert any(np.array_equal(coloured, owned) for owned in owner == k)


def test_supports_choose_codes_that_differ():
    own = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=bool)
    assert _different(own, 2) == [0, 2]
    assert _different(own[:0], 2) == []


def test_partition_gives_each_owner_one_hue(model, rows):
    X = rows[:1]
    order, owner = model.pursue(X).order[0], model.partition(model.transform(X))[0]
    figure = plot_partition(model, X, image_shape=SHAPE)
    tile = tile_of(figure, 1, 0, (2, 1)).reshape(-1, 3)
    for d, k in enumerate(owner):
        hue = np.asarray(PART_COLOURS[list(order).index(k)])
        missing, expected = 1 - tile[d], 1 - hue
        assert np.allclose(missing / missing.max(), expected / expected.max(), atol=0.02)


def test_reconstructions_stand_below_the_data(model, rows):
    X = rows[:4]
    composed = model.inverse_transform(model.transform(X))
    figure = plot_reconstructions(model, X, image_shape=SHAPE, n_columns=2)
    for n in range(4):
        band, column = divmod(n, 2)
        assert np.allclose(tile_of(figure, 2 * band, column, (4, 2)), grey(X[n]), atol=0.01)
        below = tile_of(figure, 2 * band + 1, column, (4, 2))
        assert np.allclose(below, grey(composed[n]), atol=0.01)


def test_history_draws_the_logged_objective_in_bits(model):
    figure = plot_history(model)
    assert figure.axes[0].get_title(loc="left") == "Bits per row: fewer is better"
    bits = -model.objective_history_ / np.log(2)
    assert np.allclose(figure.axes[0].lines[0].get_ydata(), bits)
    penalised = [-record.penalised / np.log(2) for record in model.history_]
    assert np.allclose(figure.axes[0].lines[1].get_ydata(), penalised)
    active = [record.mean_active for record in model.history_]
    assert np.allclose(figure.axes[1].lines[0].get_ydata(), active)
    assert figure.axes[1].get_ylim()[1] > max(active)


def test_wrong_arguments_are_named(model, rows):
    with pytest.raises(ValueError, match="image_shape"):
        plot_experts(model, image_shape=(3, 3))
    with pytest.raises(ValueError, match="experts"):
        plot_experts(model, experts=[8])
    with pytest.raises(ValueError, match="feature_names"):
        plot_experts(model, feature_names=["one"])
    with pytest.raises(ValueError, match="templates"):
        plot_templates(np.zeros(3))
    with pytest.raises(NotFittedError):
        plot_pursuit(DynamicPartitionModel(), rows)


def test_scale_clips_and_marks_what_is_missing():
    colours = Scale(0, 2, "gray").colours([-1.0, 1.0, 5.0, np.nan])
    assert np.allclose(colours[[0, 2]], [[0, 0, 0], [1, 1, 1]])
    assert np.allclose(colours[1], 0.5, atol=0.01)
    assert np.allclose(colours[3], NOT_RESPONSIBLE)


def test_tiles_keep_every_value_and_leave_out_what_is_not_shown():
    values = np.arange(8.0)
    assert np.array_equal(as_tiles(values, SHAPE), values.reshape(SHAPE))
    assert (as_tiles(values, None) == values).all()
    tiles = np.zeros((1, 2, *SHAPE, 3))
    picture = mosaic(tiles, np.array([[True, False]]))
    centre = [int(picture.place(axis, 0, 0)) for axis in (0, 1)]
    assert (picture.picture[centre[0], centre[1]] == 0).all()
    assert (picture.picture[:, -picture.gap - 1] == 1).all()


def test_the_models_own_shape_and_names_are_the_default(model, rows):
    fitted = copy.deepcopy(model)
    fitted.image_shape_ = SHAPE
    found, expected = (
        plot_partition(m, rows[:2], image_shape=shape)
        for m, shape in ((fitted, None), (model, SHAPE))
    )
    np.testing.assert_array_equal(picture_of(found), picture_of(expected))
    assert picture_of(plot_partition(model, rows[:2])).shape != picture_of(found).shape
