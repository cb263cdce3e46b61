"""Missing values are striped, have a legend and do not affect colour scales."""

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.plotting import (
    plot_decomposition,
    plot_partition,
    plot_pursuit,
    plot_reconstructions,
    plot_supports,
    plot_templates,
)
from dynpart.plotting._canvas import NOT_OBSERVED, NOT_RESPONSIBLE, mosaic, value_scale
from tests.plotting.test_figures import SHAPE, grey, tile_of

pytestmark = pytest.mark.filterwarnings("ignore:1 row has no observed value")
FIGURES = [plot_pursuit, plot_decomposition, plot_reconstructions, plot_partition]


@pytest.fixture(scope="module")
def rows():
    """Rows of eight bits; the first lacks two of them, the second all."""
    X = make_pairs(4).astype(float)
    X[0, [2, 3]] = np.nan
    X[1] = np.nan
    return X


@pytest.fixture(scope="module")
def model():
    return DynamicPartitionModel(n_experts=8, random_state=0).fit(make_pairs(4))


@pytest.fixture(scope="module")
def gaussian():
    noise = np.random.RandomState(0).normal(scale=0.1, size=make_pairs(4).shape)
    X = make_pairs(4) + noise
    return DynamicPartitionModel(n_experts=5, max_iter=5, random_state=0).fit(X)


def striped(tile):
    """Which pixels have one of the two colours of what was not observed."""
    flat = np.asarray(tile).reshape(-1, 3)
    return np.any([np.isclose(flat, colour).all(axis=1) for colour in NOT_OBSERVED], axis=0)


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_gaps_of_a_mosaic_are_striped_and_nothing_else():
    tiles = np.zeros((1, 2, *SHAPE, 3))
    gaps = np.zeros((1, 2, *SHAPE), dtype=bool)
    gaps[0, 1, 0, 2] = True
    picture = mosaic(tiles, gaps=gaps)
    found = striped(picture.picture).reshape(picture.picture.shape[:2])
    assert found.sum() == picture.zoom**2
    y, x = np.argwhere(found).mean(axis=0)
    assert y == pytest.approx(picture.place(0, 0, 0))
    assert x == pytest.approx(picture.place(1, 1, 2))
    assert len(np.unique(picture.picture[found], axis=0)) == 2
    np.testing.assert_array_equal(mosaic(tiles).picture, mosaic(tiles, gaps=gaps & False).picture)


def test_stripes_are_seen_in_tiles_that_are_not_enlarged():
    picture = mosaic(np.zeros((1, 1, 60, 60, 3)), gaps=np.ones((1, 1, 60, 60), dtype=bool))
    assert picture.zoom == 1
    inside = picture.picture[picture.gap : -picture.gap, picture.gap : -picture.gap]
    shares = [np.isclose(inside, colour).all(axis=2).mean() for colour in NOT_OBSERVED]
    assert min(shares) > 0.4
    assert sum(shares) == 1


def test_scales_are_those_of_observed_values(gaussian):
    X = make_pairs(4) + 0.5
    whole = value_scale(gaussian, X)
    X[0, 0] = np.nan
    gappy = value_scale(gaussian, X)
    assert (gappy.low, gappy.high) == (whole.low, whole.high)
    nothing = value_scale(gaussian, np.full((2, 8), np.nan))
    assert nothing.low < nothing.high


def test_templates_with_gaps_keep_their_scale():
    templates = np.array([[2.0, np.nan, 5.0, 3.0, 2.0, 2.0, 2.0, 2.0]])
    figure = plot_templates(templates, image_shape=SHAPE, limits=None)
    tile = tile_of(figure, 0, 0, (1, 1)).reshape(-1, 3)
    np.testing.assert_allclose(tile[[0, 2]], [[1, 1, 1], [0, 0, 0]], atol=0.01)


@pytest.mark.parametrize("image_shape", [None, SHAPE])
@pytest.mark.parametrize("which", ["model", "gaussian"])
@pytest.mark.parametrize("plot", [*FIGURES, plot_supports])
def test_every_figure_of_rows_with_gaps_can_be_drawn(
    which, image_shape, plot, rows, request, tmp_path
):
    figure = plot(request.getfixturevalue(which), rows[:4], image_shape=image_shape)
    figure.savefig(tmp_path / "f.png", dpi=60)
    for axes in figure.axes:
        assert all(np.isfinite(image.get_array()).all() for image in axes.images)
    # Supports show codes, not rows.
    assert legend_of(figure) == ([] if plot is plot_supports else ["not observed"])


@pytest.mark.parametrize("plot", FIGURES)
def test_rows_without_gaps_have_no_legend(model, plot):
    assert legend_of(plot(model, make_pairs(4)[:3])) == []
    assert legend_of(plot(model, make_pairs(4)[:3].astype(float))) == []


def test_data_is_striped_where_it_has_gaps_and_as_before_elsewhere(model, rows):
    X = rows[:3]
    gaps = np.isnan(X)
    n_steps = model.pursue(X).order.shape[1]
    drawn = {
        "pursuit": (plot_pursuit(model, X, image_shape=SHAPE), lambda n: (n_steps, n)),
        "parts": (
            plot_decomposition(model, X, image_shape=SHAPE, n_blocks=1),
            lambda n: (n, 0),
        ),
        "copies": (
            plot_reconstructions(model, X, image_shape=SHAPE, n_columns=3),
            lambda n: (0, n),
        ),
        "owners": (plot_partition(model, X, image_shape=SHAPE, n_columns=3), lambda n: (0, n)),
    }
    grids = {"pursuit": (n_steps + 1, 3), "parts": (3, 2 + n_steps), "copies": (2, 3)}
    grids["owners"] = (2, 3)
    for name, (figure, place) in drawn.items():
        for n in range(3):
            tile = tile_of(figure, *place(n), grids[name])
            np.testing.assert_array_equal(striped(tile), gaps[n], err_msg=name)
            expected = grey(np.where(gaps[n], 0, X[n])).reshape(-1, 3)
            np.testing.assert_allclose(
                tile.reshape(-1, 3)[~gaps[n]], expected[~gaps[n]], atol=0.01, err_msg=name
            )


def test_what_others_explain_is_grey_and_not_striped(model, rows):
    figure = plot_decomposition(model, rows[:2], image_shape=SHAPE, n_blocks=1)
    order = model.pursue(rows[:2]).order
    owner = model.partition(model.transform(rows[:2]))
    for step, k in enumerate(order[0][order[0] >= 0]):
        tile = tile_of(figure, 0, 2 + step, (2, 2 + order.shape[1])).reshape(-1, 3)
        silent = np.isclose(tile, NOT_RESPONSIBLE).all(axis=1)
        np.testing.assert_array_equal(~silent, owner[0] == k)
        assert not striped(tile).any()
