"""Figures of tables show the model's arrays, with names, and an expert in one colour everywhere."""

import re
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_zoo
from dynpart.naming import mean_in_words
from dynpart.plotting import (
    plot_codes,
    plot_decomposition,
    plot_experts,
    plot_experts_by,
    plot_partition,
    plot_pursuit,
    plot_reconstructions,
    plot_supports,
)
from dynpart.plotting._canvas import HUES, NOT_OBSERVED, expert_colour
from dynpart.plotting.tables import shortened
from tests.strategies import composed_means


@pytest.fixture(scope="module")
def frame():
    return load_zoo().frame.drop(columns="legs")


@pytest.fixture(scope="module")
def model(frame):
    return DynamicPartitionModel(5, random_state=0).fit(frame)


def cells(figure):
    return np.asarray(figure.axes[0].images[0].get_array())


def lines(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def hue(colours):
    """Direction of a colour from white: shades of one expert share it."""
    away = 1 - np.asarray(colours, dtype=float)
    return away / np.linalg.norm(away, axis=-1, keepdims=True)


def test_every_value_has_the_colour_of_its_owner_and_frames_mark_the_unexpected(model, frame):
    rows = frame.iloc[[63, 19, 72]]
    figure = plot_partition(model, rows)
    codes = model.transform(rows)
    owner, wrong = model.partition(codes), (composed_means(model, codes) > 0.5) != rows.to_numpy()
    expected = hue([[expert_colour(k) for k in line] for line in owner])
    np.testing.assert_allclose(hue(cells(figure)), expected, atol=1e-6)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(frame.columns)
    assert lines(figure) == list(rows.index)
    framed = {
        (round(p.get_y() + 0.44), round(p.get_x() + 0.46)) for p in axes.patches if not p.get_fill()
    }
    assert framed == {tuple(place) for place in np.argwhere(wrong)}
    written = [text.get_text() for text in axes.texts]
    assert written == ["yes" if value else "no" for value in rows.to_numpy().ravel()]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == [model.expert_names_[k] for k in np.flatnonzero(codes.any(axis=0))]


def test_a_decomposition_shows_what_each_expert_says_of_its_own(model, frame):
    rows = frame.iloc[[19]]
    figure = plot_decomposition(model, rows)
    order = [k for k in model.pursue(rows).order[0] if k >= 0]
    owner = model.partition(model.transform(rows))[0]
    assert lines(figure) == ["dolphin", *(model.expert_names_[k] for k in order)]
    for line, k in enumerate(order, start=1):
        coloured = np.ptp(cells(figure)[line], axis=1) > 0.1
        np.testing.assert_array_equal(coloured, owner == k)


def test_a_pursuit_adds_one_expert_a_line(model, frame):
    rows = frame.iloc[[19]]
    figure = plot_pursuit(model, rows)
    order = [k for k in model.pursue(rows).order[0] if k >= 0]
    names = [model.expert_names_[k] for k in order]
    assert lines(figure) == [names[0], *(f"+ {name}" for name in names[1:]), "dolphin"]
    for step in range(len(order)):
        H = np.zeros((1, 5), dtype=np.uint8)
        H[0, order[: step + 1]] = 1
        expected = hue([expert_colour(k) for k in model.partition(H)[0]])
        np.testing.assert_allclose(hue(cells(figure)[step]), expected, atol=1e-6)


def test_reconstructions_of_a_table_have_names_and_values(model, frame):
    rows = frame.iloc[[63, 19]]
    figure = plot_reconstructions(model, rows)
    codes = model.transform(rows)
    owner, said = model.partition(codes), composed_means(model, codes) > 0.5
    assert lines(figure) == ["platypus", "as the experts say", "", "dolphin", "as the experts say"]
    for n, line in enumerate([1, 4]):
        expected = hue([expert_colour(k) for k in owner[n]])
        np.testing.assert_allclose(hue(cells(figure)[line]), expected, atol=1e-6)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(frame.columns)
    written = {(round(t.get_position()[1]), round(t.get_position()[0])): t for t in axes.texts}
    for n, line in enumerate([0, 3]):
        for d, value in enumerate(rows.iloc[n]):
            assert written[line, d].get_text() == ("yes" if value else "no")
            assert written[line + 1, d].get_text() == ("yes" if said[n, d] else "no")
    framed = {(round(p.get_y() + 0.44), round(p.get_x() + 0.46)) for p in axes.patches}
    wrong = np.argwhere(said != rows.to_numpy())
    assert framed == {(3 * n, d) for n, d in wrong}


def test_supports_on_a_table_show_what_counts_beside_others(model, frame):
    figure = plot_supports(model, frame, experts=[2, 0], n_codes=3)
    codes = np.unique(model.transform(frame), axis=0)
    shown, found = lines(figure), cells(figure)
    names = model.expert_names_
    place = shown.index("")
    assert (shown[0], shown[place + 1]) == (names[2], names[0])
    for k, begin, end in ((2, 1, place), (0, place + 2, len(shown))):
        np.testing.assert_allclose(
            hue(found[begin - 1]), np.tile(hue(expert_colour(k)), (15, 1)), atol=1e-6
        )
        possible = {}
        for code in codes[codes[:, k] == 1]:
            others = " + ".join(names[j] for j in np.flatnonzero(code) if j != k)
            told = shortened(f"   with {others}" if others else "   alone")
            possible.setdefault(told, []).append(model.partition(code[None])[0] == k)
        assert 1 <= end - begin <= 3
        for line in range(begin, end):
            coloured = np.ptp(found[line], axis=1) > 0.1
            assert any(np.array_equal(coloured, own) for own in possible[shown[line]])


def test_gains_and_offsets_are_in_the_reconstruction_of_a_table():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(0, 3, (60, 1)), 6, axis=1) + rng.normal(0, 0.1, (60, 6))
    model = DynamicPartitionModel(1, amplitude="offset", random_state=0, max_iter=10).fit(X)
    figure = plot_reconstructions(model, X[:3])
    codes = model.transform(X[:3])
    said = model.inverse_transform(codes, model.amplitudes(X[:3], codes))
    assert not np.allclose(said, model.inverse_transform(codes), atol=0.5)
    written = [text.get_text() for text in figure.axes[0].texts]
    assert written[6:12] == [mean_in_words(said[0, d], X[:, d].std()) for d in range(6)]


def test_the_map_of_codes_is_coloured_where_experts_are_active(model, frame):
    figure = plot_codes(model, frame, max_rows=200)
    codes = model.transform(frame)
    at = [list(frame.index).index(label) for label in lines(figure)]
    assert len(at) == 101
    shown = cells(figure)
    for line, n in enumerate(at):
        if list(frame.index).count(frame.index[n]) > 1:
            continue
        for k in range(5):
            same = np.allclose(shown[line, k], expert_colour(k))
            assert same == codes[n, k]
    assert len(lines(plot_codes(model, frame, max_rows=20))) == 20


def test_experts_against_classes_and_numbers(model, frame):
    classes = np.array(load_zoo().classes)
    figure = plot_experts_by(model, frame, classes, name="type")
    codes = model.transform(frame)
    for k in range(5):
        axes = figure.axes[k]
        assert axes.get_title(loc="left") == model.expert_names_[k]
        mine = classes[codes[:, k] == 1]
        found = [bar.get_width() for bar in axes.patches]
        np.testing.assert_allclose(found, [(mine == c).mean() for c in np.unique(classes)])
    weights = np.arange(101.0)
    boxes = plot_experts_by(model, frame, weights, name="weight").axes[0]
    texts = [label.get_text() for label in boxes.get_yticklabels()]
    assert texts == [*model.expert_names_, "all rows"]
    with pytest.raises(ValueError, match=r"one value per row \(101\), got 2"):
        plot_experts_by(model, frame, ["a", "b"])


def test_gaps_are_marked(model, frame):
    gappy = frame.iloc[[0]].astype(float)
    gappy.iloc[0, 3] = np.nan
    figure = plot_partition(model, pd.DataFrame(gappy))
    np.testing.assert_allclose(cells(figure)[0, 3], NOT_OBSERVED[0])


def test_colours_are_those_of_the_explorer():
    script = (files("dynpart.explorer") / "assets" / "draw.js").read_text()
    hues = re.search(r"const HUES = \[([\d, ]+)\]", script)
    assert tuple(int(text) for text in hues[1].split(",")) == HUES
    colours = np.array([expert_colour(k) for k in range(36)])
    assert len(np.unique(colours.round(3), axis=0)) == 36
    assert ((colours >= 0) & (colours <= 1)).all()


@pytest.fixture(scope="module")
def patients():
    """Columns of every kind with different units, and a model of them."""
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 120)
    table = pd.DataFrame(
        {
            "weight": 70000 + 20000 * ill + 5000 * rng.normal(size=120),
            "share": 0.2 + 0.1 * ill + 0.03 * rng.normal(size=120),
            "smoker": np.where(rng.random(120) < 0.2 + 0.6 * ill, "yes", "no"),
            "ward": np.array(["A", "B", "C"])[(ill + (rng.random(120) < 0.2)) % 3],
        }
    )
    return DynamicPartitionModel(2, random_state=0).fit(table), table


def test_opinions_with_different_units_are_drawn_as_distances_from_the_usual(patients):
    model, table = patients
    axes = plot_experts(model).axes
    drawn = axes[0].images[0].get_array()
    for d, name in enumerate(["weight", "share"]):
        far = (model.means_[:, d] - table[name].mean()) / table[name].std(ddof=0)
        np.testing.assert_allclose(drawn[:, d], far, rtol=1e-4, atol=1e-4)
    usual = (table["smoker"] == "yes").mean()
    far = (model.means_[:, 2] - usual) / np.sqrt(usual * (1 - usual))
    np.testing.assert_allclose(drawn[:, 2], far, rtol=1e-3, atol=1e-3)
    opinions = model._opinions()
    for k in range(2):
        level = "ABC"[int(opinions.value[k, 3])]
        usual = (table["ward"] == level).mean()
        far = (opinions.chance[k, 3] - usual) / np.sqrt(usual * (1 - usual))
        assert drawn[k, 3] == pytest.approx(far, rel=1e-3)
    assert any(a.get_xlabel() == "standard deviations from usual" for a in axes)


def test_predicted_means_are_told_with_the_digits_that_matter(patients):
    model, table = patients
    figure = plot_decomposition(model, table.iloc[:1])
    texts = [text.get_text() for text in figure.axes[0].texts]
    owner = model.partition(model.transform(table.iloc[:1]))[0]
    for d, name in enumerate(["weight", "share"]):
        mean = model.means_[owner[d], d]
        assert mean_in_words(mean, table[name].std(ddof=0)) in texts
