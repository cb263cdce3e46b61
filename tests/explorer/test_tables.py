"""The page of a table: cards, map, another column and filters say what the arrays say."""

import base64
import itertools
import os
import re
import statistics
import time

import numpy as np
import pandas as pd
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_zoo
from dynpart.engines import Experts
from dynpart.explorer._tables import by_column
from dynpart.families import Bernoulli
from dynpart.listing import rows_by_type
from dynpart.naming import percent
from dynpart.prior import CodePrior
from tests.explorer.conftest import made
from tests.explorer.test_page import CLICK_TO_PAINT, busy, click, page_state
from tests.strategies import composed_means


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """The zoo's yes/no traits, explained by five experts."""
    data = load_zoo()
    frame = data.frame.drop(columns="legs")
    model = DynamicPartitionModel(5, random_state=0).fit(frame)
    model._known_names = model.__dict__.pop("feature_names_in_")
    options = {"labels": data.row_names, "title": "Zoo", "by": data.classes, "by_name": "type"}
    X = frame.to_numpy().astype(np.uint8)
    return made(tmp_path_factory.mktemp("page"), "zoo", model, X, **options)


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """A model of the size the page must bear: 50,000 rows of 500 variables."""
    rng = np.random.default_rng(0)
    model = DynamicPartitionModel(20, max_active=3, n_swaps=0)
    means = np.clip(rng.beta(0.3, 0.7, size=(20, 500)), 0.01, 0.99)
    model._keep_experts(Experts(Bernoulli(), means[None], rng.normal(size=(20, 500))))
    model.activation_probabilities_ = rng.uniform(0.05, 0.2, size=20)
    model.prior_ = CodePrior.independent(model.activation_probabilities_)
    model.objective_history_ = -np.geomspace(200, 100, 30)
    model.history_, model.n_iter_, model.n_features_in_ = (), 30, 500
    model._n_features_out = 20
    X = model.sample(50_000, random_state=0)
    options = {"names": [f"question {d}" for d in range(500)]}
    return made(tmp_path_factory.mktemp("page"), "wide", model, X, **options)


def texts(page, selector):
    return page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
    )


def test_it_opens_on_the_experts_with_their_names(visit, zoo):
    page = visit(zoo)
    names = zoo.model.expert_names_
    usage = zoo.model.transform(zoo.X).sum(axis=0, dtype=int)
    order = sorted(range(5), key=lambda k: (-usage[k], k))
    assert texts(page, ".card-name b") == [names[k] for k in order]
    sections = page.execute_script(
        "return [...document.querySelectorAll('main > section')].filter(s => !s.hidden)"
        ".map(s => s.id)"
    )
    assert sections == [
        "overview", "experts", "types", "map", "by", "explore", "together", "learning",
    ]  # fmt: skip
    for width in (1280, 390):
        page = visit(zoo, width=width)
        top = page.execute_script(
            "return document.querySelector('.card').getBoundingClientRect().top"
        )
        assert top < 900


def test_cards_say_what_the_description_says(visit, zoo):
    page = visit(zoo)
    told = zoo.model.describe(zoo.X, labels=load_zoo().row_names, top=6)
    for one in told.experts:
        card = f'.card[data-expert="{one.expert}"]'
        lines = texts(page, f"{card} .bars li")
        for line, opinion in zip(lines, one.opinions, strict=True):
            words = opinion.words.replace(f"{opinion.says} (", "").replace(")", "")
            assert line.startswith(f"{opinion.variable} {opinion.says}")
            assert line.endswith(words.replace(";", ""))
            assert (" of its rows" in line) == (opinion.decides < 0.5)
        company = texts(page, f"{card} .company .tag")
        expected = [*one.typical, *(o.name for o in one.together), *(o.name for o in one.apart)]
        assert company == expected
    found = page.find_element("id", "found").text
    assert f"{told.saved_bits:.1f} bits less than column by column" in found
    assert all(label in found for label in told.odd)


def test_types_of_rows_are_listed(visit, zoo):
    page = visit(zoo)
    types = zoo.model.describe().types
    lines = page.execute_script(
        "return [...document.querySelectorAll('.types li')].map(l => [l.querySelector('.number')"
        ".textContent, [...l.querySelectorAll('.tag')].map(t => t.textContent),"
        " [...l.querySelectorAll('.tags .note')].map(t => t.textContent)])"
    )
    assert len(lines) == min(8, len(types)) > 1
    for (share, names, parts), kind in zip(lines, types, strict=False):
        assert names == list(kind.names)
        assert len(parts) == sum(active < 0.9 for active in kind.active)
        assert float(share.rstrip("%")) == pytest.approx(100 * kind.share, abs=0.51)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_type_of_rows_is_apart_from_the_next_one(visit, zoo, width):
    """A line is between them, and the share of an expert is next to its name."""
    page = visit(zoo, width=width)
    lines, members = page.execute_script(
        "return [[...document.querySelectorAll('.types li')].map(l =>"
        " parseFloat(getComputedStyle(l).borderTopWidth)),"
        " [...document.querySelectorAll('.types .member')].map(m => m.textContent)]"
    )
    assert min(lines) >= 1
    told = [
        name if active >= 0.9 else f"{name}in {percent(active)} of them"
        for kind in zoo.model.describe().types[:8]
        for name, active in zip(kind.names, kind.active, strict=True)
    ]
    assert members == told


def test_a_typical_row_is_one_click_away(visit, zoo):
    page = visit(zoo)
    label = texts(page, ".company .tag")[0]
    page.execute_script("document.querySelector('.company button.tag').click()")
    assert page.find_element("id", "sample-title").text == label


def test_the_rows_numbers_are_the_models(visit, zoo):
    page = visit(zoo)
    usual = zoo.X.mean(axis=0)
    codes = zoo.model.transform(zoo.X)
    owner, composed = zoo.model.partition(codes), composed_means(zoo.model, codes)
    for n in (0, 63, 100):
        page.execute_script("dynpart.choose(arguments[0])", n)
        own = np.where(zoo.X[n], composed[n], 1 - composed[n])
        bits = np.log2(own / np.where(zoo.X[n], usual, 1 - usual)).sum()
        cost = -zoo.model.prior_.log_prob(codes[n : n + 1])[0] / np.log(2)
        bits -= cost  # as ``explain`` counts them
        wrong = (composed[n] > 0.5) != zoo.X[n]
        readout = page.find_element("id", "readout").text
        word = "fewer" if bits >= 0 else "more"
        assert f"{abs(bits):.1f} bits {word} than column by column" in readout
        assert f"(naming the experts costs {cost:.1f})" in readout
        assert (f"{wrong.sum()} of 15 variables not as expected" in readout) == wrong.any()
        names = zoo.model.expert_names_
        rows = page.execute_script(
            "return [...document.querySelectorAll('.variables tbody tr')].map(r =>"
            " [r.querySelector('th').textContent, r.querySelector('.value').textContent,"
            "  r.querySelector('.owner .name').textContent])"
        )
        features = list(zoo.model._known_names)
        for name, value, who in rows:
            d = features.index(name)
            assert value == ("yes" if zoo.X[n, d] else "no") + (" !" if wrong[d] else "")
            assert who == names[owner[n, d]]


@pytest.mark.parametrize("name", ["all", "present", "wrong", "surprising"])
def test_variables_are_filtered(visit, zoo, name):
    page = visit(zoo)
    features = np.array(zoo.model._known_names)
    for n in (63, 72):
        page.execute_script("dynpart.choose(arguments[0])", n)
        click(page, f'[data-filter="{name}"]')
        code = zoo.model.transform(zoo.X[[n]])
        composed, x = composed_means(zoo.model, code)[0], zoo.X[n].astype(bool)
        own, usual = np.where(x, composed, 1 - composed), zoo.X.mean(axis=0)
        usual = np.where(x, usual, 1 - usual)
        expected = {
            "all": np.ones(15, dtype=bool),
            "present": x,
            "wrong": own < 0.5,
            "surprising": np.log2(usual / own) > 1,
        }[name]
        assert sorted(texts(page, ".variables tbody th")) == sorted(features[expected])
        pressed = page.find_element("css selector", ".filters [aria-pressed=true]").text
        assert pressed.endswith(f" {expected.sum()}")
        assert page.find_element("css selector", ".nothing").is_displayed() == (not expected.any())


def test_the_map_is_ordered_searched_and_clicked(visit, zoo):
    page = visit(zoo)
    labels = load_zoo().row_names
    codes = zoo.model.transform(zoo.X)
    order = rows_by_type(codes, zoo.model.prior_.types(codes)).tolist()
    assert sorted(order) == list(range(101))
    packed = [codes[n].tobytes() for n in order]
    changes = sum(a != b for a, b in itertools.pairwise(packed))
    assert changes + 1 == len(set(packed))  # equal codes lie together
    types = zoo.model.prior_.types(codes)[order]
    assert sum(a != b for a, b in itertools.pairwise(types)) + 1 == len(set(types))

    def click_row(place):
        page.execute_script(
            "const c = document.querySelector('#map-box canvas');"
            "const b = c.getBoundingClientRect();"
            "c.dispatchEvent(new MouseEvent('click', {clientX: b.left + 5,"
            " clientY: b.top + 16 * arguments[0] + 8, bubbles: true}))", place
        )  # fmt: skip

    for place in (0, 7, 60):
        click_row(place)
        assert page.find_element("id", "sample-title").text == labels[order[place]]
    page.find_element("id", "map-search").send_keys("platy")
    click_row(0)
    assert page.find_element("id", "sample-title").text == "platypus"
    words = page.find_element("css selector", "#map-box canvas").get_attribute("aria-label")
    assert "Map of 101 rows and 5 experts" in words


def test_the_map_is_painted_where_experts_are_active(visit, zoo):
    page = visit(zoo)
    codes = zoo.model.transform(zoo.X)
    order = rows_by_type(codes, zoo.model.prior_.types(codes)).tolist()
    columns = texts(page, ".map-head button")
    found = np.array(
        page.execute_script(
            "const c = document.querySelector('#map-box canvas');"
            "const copy = new OffscreenCanvas(c.width, c.height);"
            "const pen = copy.getContext('2d', {willReadFrequently: true});"
            "pen.drawImage(c, 0, 0);"
            "const w = (c.width - 120) / 5;"
            "return Array.from({length: 101}, (_, i) => Array.from({length: 5}, (_, k) =>"
            " Array.from(pen.getImageData(120 + w * k + w / 2, 16 * i + 6, 1, 1).data)))"
        )
    )
    coloured = np.ptp(found[..., :3], axis=2) > 60
    names = zoo.model.expert_names_
    experts = [names.index(name) for name in columns]
    np.testing.assert_array_equal(coloured, codes[order][:, experts] == 1)


def test_arrow_keys_move_through_the_map(visit, zoo):
    page = visit(zoo)
    labels, codes = load_zoo().row_names, zoo.model.transform(zoo.X)
    order = rows_by_type(codes, zoo.model.prior_.types(codes)).tolist()
    page.execute_script("dynpart.choose(arguments[0])", order[3])
    page.find_element("id", "map-box").send_keys("\ue015")
    assert page.find_element("id", "sample-title").text == labels[order[4]]
    page.find_element("id", "map-box").send_keys("\ue013")
    assert page.find_element("id", "sample-title").text == labels[order[3]]


def test_experts_against_another_column(visit, zoo):
    page = visit(zoo)
    codes, classes = zoo.model.transform(zoo.X), np.array(load_zoo().classes)
    names = zoo.model.expert_names_
    cards = page.execute_script(
        "return [...document.querySelectorAll('.by-card')].map(c => [c.querySelector('figcaption')"
        ".textContent, [...c.querySelectorAll('li')].map(l => l.title)])"
    )
    assert len(cards) == 5
    for name, lines in cards:
        mine = classes[codes[:, names.index(name)] == 1]
        for line in lines:
            kind, rest = line.split(": ")
            share, usual = (mine == kind).mean(), (classes == kind).mean()
            shown = [float(part.split("%")[0]) for part in rest.split(", ")]
            np.testing.assert_allclose(shown, [100 * share, 100 * usual], atol=0.51)


def test_numbers_beside_experts_are_boxes():
    codes = np.array([[1, 0]] * 30 + [[0, 0]] * 20)
    told = by_column(codes, list(range(50)), "age")
    assert told["boxes"][0] == [0, 12.25, 24.5, 36.75, 49]
    assert told["boxes"][1] == [0, 7.25, 14.5, 21.75, 29]
    assert told["boxes"][2] is None
    with pytest.raises(ValueError, match=r"one value per row \(50\), got 3"):
        by_column(codes, [1, 2, 3], "age")
    classes = by_column(codes, [f"class {n % 20}" for n in range(50)], "kind")
    assert len(classes["classes"]) == 13
    assert classes["classes"][-1] == "other"
    assert sum(classes["counts"][0]) == 50
    gaps = by_column(codes, ["a", None, float("nan")] + ["b"] * 47, "kind")
    assert gaps["counts"][0] == [47, 1]


def test_the_page_knows_whether_a_column_was_a_variable(visit, zoo, tmp_path):
    note = visit(zoo).find_element("id", "by-note").text
    assert note.endswith("This column was not used to find the experts.")
    names = list(load_zoo().frame.drop(columns="legs"))
    options = {"names": names, "by": zoo.X[:, 3], "by_name": names[3]}
    report = made(tmp_path, "own", zoo.model, zoo.X, **options)
    note = visit(report).find_element("id", "by-note").text
    assert note.endswith("The experts were found with this column among the others.")


@pytest.fixture(scope="session")
def survey(tmp_path_factory):
    """Answers from 1 to 6 to six questions of 60 letters and more that begin and end alike."""
    rng = np.random.default_rng(0)
    X = np.clip(np.round(3 + 2 * rng.integers(0, 2, (80, 1)) + rng.normal(size=(80, 6))), 1, 6)
    words = ["the weather", "your work", "your sleep", "old friends", "the neighbours", "politics"]
    names = [f"How much did {word} trouble you during the last four weeks?" for word in words]
    model = DynamicPartitionModel(3, max_iter=5, random_state=0).fit(X)
    return made(tmp_path_factory.mktemp("page"), "survey", model, X, names=names)


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_of_variables_are_legible_on_cards(visit, survey, width):
    page = visit(survey, width=width)
    cards = page.execute_script(
        "return [...document.querySelectorAll('.card .bars')].map(c => [...c.querySelectorAll("
        "'.name')].map(n => [n.firstChild.textContent, n.scrollWidth <= n.clientWidth]))"
    )
    assert cards
    for card in cards:
        names = [name for name, _ in card]
        assert len(set(names)) == len(names)
        assert all("How much" not in name and len(name) <= 28 for name in names)
        assert all(fits for _, fits in card)
    heads = page.execute_script(
        "return [...document.querySelectorAll('.map-head.flat button')].map(b => ["
        "b.getBoundingClientRect().top, b.parentElement.getBoundingClientRect().top])"
    )
    assert (width == 390) or heads
    assert all(top >= box for top, box in heads)


def test_box_plots_are_drawn(visit, zoo, tmp_path):
    weights = np.random.default_rng(0).normal(size=101)
    report = made(tmp_path, "boxes", zoo.model, zoo.X, by=weights, by_name="weight")
    page = visit(report)
    labels = page.execute_script(
        "return [...document.querySelectorAll('.box-plot')].map(e => e.getAttribute('aria-label'))"
    )
    assert len(labels) == 6
    assert labels[0].startswith("all rows: from −")
    assert len(page.find_elements("css selector", ".box-plot rect")) == 6


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_clipped_and_all_is_legible(visit, zoo, width):
    page = visit(zoo, width=width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    clipped = page.execute_script(
        "return [...document.querySelectorAll('.card-name b, .bars .number, .company .tag, .says,"
        " .by-card figcaption, .chip-text b, #found p, .variables .value')].filter(e =>"
        " e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline').map(e =>"
        " e.textContent)"
    )
    assert clipped == []
    beyond = page.execute_script(
        "return [...document.querySelectorAll('.card *, .by-card *, #found *, .variables *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert beyond == 0
    covered = page.execute_script(
        "return [...document.querySelectorAll('.bars li')].filter(row => {"
        " const boxes = [...row.children].map(e => e.getBoundingClientRect())"
        ".filter(box => box.width);"
        " return boxes.some((box, i) => boxes.slice(i + 1).some(other =>"
        " box.right > other.left + 1 && other.right > box.left + 1 &&"
        " box.bottom > other.top + 1 && other.bottom > box.top + 1)); }).length"
    )
    assert covered == 0
    small = page.execute_script(
        "return [...document.querySelectorAll('main *')].filter(e => e.childNodes.length &&"
        " [...e.childNodes].some(c => c.nodeType === 3 && c.textContent.trim()) &&"
        " parseFloat(getComputedStyle(e).fontSize) < 10.4 && !e.closest('svg')).map(e =>"
        " e.className)"
    )
    assert small == []


def test_the_map_fits_on_paper(visit, zoo):
    page = visit(zoo)
    measure = "return document.querySelector('#map-box canvas').getBoundingClientRect().width"
    seen = page.execute_script(measure)
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert page.execute_script(measure) <= 660 < seen
    heads = page.execute_script(
        "return [...document.querySelectorAll('.map-head button')].map(b =>"
        " b.getBoundingClientRect().right - b.parentElement.getBoundingClientRect().left)"
    )
    assert len(heads) == 5
    assert max(heads) <= 660
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script(measure) == seen


def test_the_printed_map_repeats_names_and_cuts_no_row(visit, zoo):
    """A table, whose head is repeated on every page; browsers repeat text, but no buttons."""
    page = visit(zoo)
    codes = zoo.model.transform(zoo.X)
    shown = texts(page, ".map-head button")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    try:
        assert texts(page, ".paper-map thead span") == shown
        assert page.find_elements("css selector", ".paper-map thead :is(button, canvas, svg)") == []
        style = (
            "return [...document.querySelectorAll(arguments[0])].map(e =>"
            " getComputedStyle(e)[arguments[1]])"
        )
        assert page.execute_script(style, ".paper-map thead", "display") == ["table-header-group"]
        assert set(page.execute_script(style, ".paper-map tr", "break-inside")) == {"avoid"}
        screen = ".map-box > canvas, .map-box > .map-head"
        assert set(page.execute_script(style, screen, "display")) == {"none"}
        heights = page.execute_script(
            "return [...document.querySelectorAll('.paper-map canvas')].map(c =>"
            " c.getBoundingClientRect().height)"
        )
        assert sum(heights) == pytest.approx(16 * len(codes))
        assert max(heights) <= 80
        right = page.execute_script(
            "return Math.max(...[...document.querySelectorAll('.paper-map *')].map(e =>"
            " e.getBoundingClientRect().right)) -"
            " document.querySelector('.paper-map').getBoundingClientRect().left"
        )
        assert right <= 660
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.find_elements("css selector", ".paper-map") == []


@pytest.mark.parametrize("width", [1280, 390])
def test_no_name_is_cut_at_the_edge_of_the_map(visit, zoo, width):
    page = visit(zoo, width=width)
    names, right = page.execute_script(
        "const head = document.querySelector('.map-head');"
        "return [[...head.querySelectorAll('span')].map(e => e.getBoundingClientRect()).map(b =>"
        " [b.top - head.getBoundingClientRect().top, b.right]),"
        " head.getBoundingClientRect().right]"
    )
    assert len(names) == 5
    assert min(top for top, _ in names) >= 0
    assert max(end for _, end in names) <= right + 1


def test_the_curve_of_learning_is_in_bits(visit, zoo):
    page = visit(zoo)
    words = page.execute_script(
        "return [...document.querySelectorAll('.chart')].map(e => e.getAttribute('aria-label'))"
    )
    told = next(text for text in words if text.startswith("Bits per row while learning"))
    bits = -zoo.model.objective_history_ / np.log(2)
    first, last = re.search(r"from (\S+) to (\S+) bits over", told).groups()
    np.testing.assert_allclose([float(first), float(last)], bits[[0, -1]], rtol=0.01)
    assert ("without types of rows" in told) == (len(zoo.model.describe().types) > 1)
    facts = page.find_element("id", "facts").text
    saved = zoo.model.baseline_.saved_bits
    assert facts.endswith(f"a training row takes {saved:.1f} bits less than column by column")


def test_print_shows_every_card_whether_it_was_seen_or_not(visit, zoo):
    page = visit(zoo, height=300)
    pdf = base64.b64decode(
        page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    )
    assert pdf.startswith(b"%PDF")
    lists = page.execute_script(
        "return [...document.querySelectorAll('.card')].map(c => c.querySelectorAll('li').length)"
    )
    assert min(lists) > 0
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        heights = page.execute_script(
            "return [...document.querySelectorAll('.card li')].map(e =>"
            " e.getBoundingClientRect().height)"
        )
        assert min(heights) > 5
        nav = page.execute_script("return getComputedStyle(document.querySelector('nav')).display")
        assert nav == "none"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_images_print_every_card_too(visit, digits):
    page = visit(digits, height=300)
    page.execute_cdp_cmd("Page.printToPDF", {})
    painted = page.execute_script(
        "return [...document.querySelectorAll('.card canvas:first-child')].map(c => {"
        " const copy = new OffscreenCanvas(c.width, c.height).getContext('2d');"
        " copy.drawImage(c, 0, 0);"
        " return Math.max(...copy.getImageData(0, 0, c.width, c.height).data)})"
    )
    assert min(painted) == 255


def test_pictures_and_buttons_of_a_table_have_words(visit, zoo):
    page = visit(zoo)
    page.execute_script("document.querySelector('.face').click()")
    nameless = page.execute_script(
        "return [...document.querySelectorAll('canvas, svg:not([aria-hidden])')]"
        ".filter(e => !e.getAttribute('aria-label')).length"
        " + [...document.querySelectorAll('button, input, select')].filter(e => !e.hidden &&"
        " !(e.getAttribute('aria-label') || e.textContent.trim() || e.title)).length"
    )
    assert nameless == 0


def test_words_of_company_charts_and_map_are_those_of_the_codes(visit, zoo):
    page = visit(zoo)
    codes, names = zoo.model.transform(zoo.X).astype(int), zoo.model.expert_names_
    share, size = codes.mean(axis=0), codes.sum(axis=1)
    found = page.find_element("id", "found").text
    assert "5 experts explain 101 rows of 15 variables." in found
    assert f"a row is explained by {size.mean():.1f} of them on average" in found
    related = np.corrcoef(codes.T)
    page.execute_script(
        "const s = document.querySelector('#partners select'); s.value = '2';"
        "s.dispatchEvent(new Event('change'))"
    )
    chips = page.execute_script(
        "return [...document.querySelectorAll('#partners .chip')].map(c =>"
        " [c.querySelector('b').textContent, c.querySelector('.share').textContent])"
    )
    assert {name for name, _ in chips} == {
        names[j] for j in range(5) if j != 2 and abs(related[2, j]) > 0.03
    }
    for name, value in chips:
        shown = float(value.replace("−", "-"))
        assert shown == pytest.approx(related[2, names.index(name)], abs=0.0051)
    words = page.execute_script(
        "return [...document.querySelectorAll('.chart')].map(e => e.getAttribute('aria-label'))"
    )
    usage = next(text for text in words if text.startswith("Usage of experts"))
    numbers = [float(number) for number in re.findall(r"([0-9.]+)%", usage)]
    np.testing.assert_allclose(numbers, 100 * np.sort(share)[[-1, 0]], atol=0.51)
    counts = next(text for text in words if text.startswith("Number of active experts"))
    assert counts.endswith(f"most often {np.bincount(size).argmax()}")
    told = page.find_element("css selector", "#map-box canvas").get_attribute("aria-label")
    rows, n_rows = np.unique(codes, axis=0, return_counts=True)
    most = " with ".join(names[k] for k in np.flatnonzero(rows[n_rows.argmax()]))
    assert f"most frequent: {most} ({n_rows.max()} rows)" in told


def test_company_has_labelled_axes(visit, zoo):
    page = visit(zoo)
    shown = texts(page, ".axis-left .name")
    assert sorted(shown) == sorted(zoo.model.expert_names_)
    numbers = [int(number) for number in texts(page, ".axis-top span")]
    assert [zoo.model.expert_names_[k] for k in numbers] == shown


@pytest.mark.slow
def test_fifty_thousand_rows_of_five_hundred_variables(visit, wide):
    assert wide.n_bytes < 15_000_000
    begun = time.monotonic()
    page = visit(wide)
    loaded = time.monotonic() - begun
    paint = page.execute_script(
        "const p = performance.getEntriesByName('first-contentful-paint')[0];"
        "return p ? p.startTime : null"
    )
    note = page.find_element("id", "samples-note").text
    assert "of 50,000 rows are on this page" in note
    assert "of 50,000 rows are shown" in page.find_element("id", "map-note").text
    page.set_script_timeout(20)
    page.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    work = []
    for selector in [f'.card[data-expert="{k}"] .add' for k in range(10)] + [
        f"#sample-{n}" for n in range(1, 11)
    ]:
        before = busy(page)
        page.execute_async_script(CLICK_TO_PAINT, selector)
        work.append(1000 * (busy(page) - before))
    page.execute_cdp_cmd("Performance.disable", {})
    print(
        f"report of 50,000 rows and 500 variables: {wide.n_bytes / 1e6:.2f} MB; first paint after "
        f"{paint} ms, loaded after {loaded:.1f} s; a click takes {statistics.median(work):.0f} ms "
        f"of work (worst {max(work):.0f} ms, load {os.getloadavg()[0]:.1f})"
    )
    assert statistics.median(work) < 100
    if os.getloadavg()[0] < (os.cpu_count() or 1):
        assert paint < 2000
    shown = page_state(page)
    H = wide.code(shown["active"])
    np.testing.assert_array_equal(shown["owners"], wide.model.partition(H)[0])


def test_hostile_classes_stay_text(visit, zoo, tmp_path):
    hostile = "<img src=x onerror='window.hacked = 1'>"
    report = made(tmp_path, "hostile", zoo.model, zoo.X, by=[hostile] * 101, by_name=hostile)
    page = visit(report)
    assert hostile in page.find_element("id", "by-title").text
    assert page.find_elements("css selector", "img") == []


@pytest.mark.filterwarnings("error:X ")
def test_a_frame_of_pandas_is_reported_with_its_names(tmp_path):
    frame = pd.DataFrame(np.eye(6, dtype=np.uint8)[np.arange(60) % 6], columns=list("abcdef"))
    model = DynamicPartitionModel(3, random_state=0).fit(frame)
    report = made(tmp_path, "frame", model, frame)
    text = report.path.read_text(encoding="utf-8")
    assert '"names":["a","b","c","d","e","f"]' in text
