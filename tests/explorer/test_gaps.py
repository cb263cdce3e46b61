"""What was not observed is shown as such: never as a value, and never in a scale of colours."""

import json

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_digits
from dynpart.explorer import report_html
from dynpart.explorer._pack import _range, _samples, pack
from tests.explorer.conftest import made
from tests.explorer.test_page import click, page_state

EMPTY = 5
"""A row of which nothing was observed."""

pytestmark = pytest.mark.filterwarnings("ignore:1 row has no observed value")


@pytest.fixture(scope="session")
def gray_model():
    X = load_digits(binarize=False).train[:150]
    return DynamicPartitionModel(6, max_iter=3, random_state=0).fit(X), X.astype(float)


def holed(X):
    """Rows of 64 pixels without their lower left corner, one without anything."""
    X = np.array(X, dtype=float)
    X[:30].reshape(-1, 8, 8)[:, 4:, :3] = np.nan
    X[EMPTY] = np.nan
    return X


@pytest.fixture(scope="session")
def gappy_digits(tmp_path_factory):
    X = load_digits().train[:150]
    model = DynamicPartitionModel(12, max_iter=6, max_active=5, random_state=0).fit(X)
    folder = tmp_path_factory.mktemp("page")
    return made(folder, "gappy-digits", model, holed(X), image_shape=(8, 8))


@pytest.fixture(scope="session")
def gappy_gray(tmp_path_factory, gray_model):
    model, X = gray_model
    folder = tmp_path_factory.mktemp("page")
    return made(folder, "gappy-gray", model, holed(X), image_shape=(8, 8))


@pytest.fixture(scope="session")
def gappy_table(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5)) + 3 * rng.integers(0, 2, size=(30, 1))
    model = DynamicPartitionModel(4, max_iter=5, variance_floor=0.2, random_state=0).fit(X)
    X[0, [1, 3]] = np.nan
    X[:, 4] = np.nan
    names = ["a", "b", "c", "d", "e"]
    return made(tmp_path_factory.mktemp("page"), "gappy-table", model, X, names=names)


# -------------------------------------------------------------------------------------- packing


def test_the_place_of_a_gap_does_not_widen_the_scale():
    rows = np.array([[5.0, np.nan], [7.0, 6.0]])
    packed = _samples(rows, np.isnan(rows), binary=False, exact=False)
    assert (packed["low"], packed["high"]) == (5.0, 7.0)


def test_the_range_of_colours_is_that_of_observed_values(gray_model):
    model, _ = gray_model
    assert _range(model, np.array([1.0, 3.0])) == pytest.approx((1.02, 2.98))
    low, high = _range(model, np.empty(0))
    assert model.means_.min() <= low < high <= model.means_.max()


def test_a_table_without_gaps_carries_none(gray_model):
    model, X = gray_model
    options = {"names": None, "labels": None, "image_shape": (8, 8), "title": "", "n_samples": 9}
    assert pack(model, X, **options)["gaps"] is None


@pytest.mark.parametrize("image_shape", [None, (8, 8)])
def test_pages_with_gaps_hold_no_nan(gray_model, image_shape):
    model, X = gray_model
    page = report_html(model, holed(X), image_shape=image_shape)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["gaps"] is not None
    assert np.isfinite([data["low"], data["high"]]).all()


# ----------------------------------------------------------------------------------- the page


def assert_agrees(report, n, shown):
    """The page's numbers are the model's, gaps included."""
    x = report.X[n : n + 1]
    found = np.array([[np.nan if value is None else value for value in shown["data"]]])
    np.testing.assert_allclose(found, x, atol=0.07, rtol=1e-4)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    H = report.code(shown["active"])
    np.testing.assert_array_equal(shown["owners"], report.model.partition(H)[0])
    if report.model.family_.n_levels == 2:  # gray values of pictures are rounded
        expected = report.model.log_likelihood(x, H)[0]
        np.testing.assert_allclose(shown["nats"], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["gappy_digits", "gappy_gray", "gappy_table"])
def test_numbers_on_the_page_leave_gaps_out(visit, name, request):
    report = request.getfixturevalue(name)
    page = visit(report)
    codes = report.model.transform(report.X)
    for n in (0, 1, EMPTY, len(report.X) - 1):
        page.execute_script("dynpart.choose(arguments[0])", n)
        shown = page_state(page)
        assert sorted(shown["active"]) == list(np.flatnonzero(codes[n]))
        assert_agrees(report, n, shown)
        body = page.execute_script("return document.body.innerText")
        assert "NaN" not in body
        assert "Infinity" not in body


def pixels(page, picture):
    flat = page.execute_script(
        "const c = document.querySelectorAll('#pictures canvas')[arguments[0]];"
        "const copy = new OffscreenCanvas(c.width, c.height);"
        "const context = copy.getContext('2d', {willReadFrequently: true});"
        "context.drawImage(c, 0, 0);"
        "return Array.from(context.getImageData(0, 0, c.width, c.height).data)",
        picture,
    )
    return np.array(flat).reshape(-1, 4)[:, :3]


@pytest.mark.parametrize("name", ["gappy_digits", "gappy_gray"])
@pytest.mark.parametrize("dark", [False, True])
def test_pixels_that_were_not_observed_have_a_colour_of_their_own(visit, name, dark, request):
    report = request.getfixturevalue(name)
    page = visit(report, dark=dark)
    gaps = np.isnan(report.X[0])
    for picture in (0, 3):  # data and surprise
        painted = pixels(page, picture)
        striped = {tuple(color) for color in painted[gaps]}
        assert len(striped) == 2
        assert not striped & {tuple(color) for color in painted[~gaps]}
    gray = pixels(page, 0)[~gaps].astype(int)
    assert (np.ptp(gray, axis=1) < 16).all()
    assert (np.ptp(np.array(list(striped)), axis=1) > 20).all()
    legend = page.find_element("id", "gaps")
    assert legend.is_displayed()
    assert legend.text == "not observed"
    assert f"{gaps.sum()} of 64 pixels not observed" in page.find_element("id", "readout").text
    page.execute_script("dynpart.choose(arguments[0])", len(report.X) - 1)
    assert not legend.is_displayed()
    assert "not observed" not in page.find_element("id", "readout").text


def test_the_table_says_what_was_not_observed(visit, gappy_table):
    page = visit(gappy_table)
    page.execute_script("dynpart.choose(0)")
    cells = page.execute_script(
        "return [...document.querySelectorAll('.variables tbody tr')].map(row =>"
        " [row.querySelector('th').textContent, row.querySelector('td').textContent,"
        "  row.querySelectorAll('.tick').length, row.querySelectorAll('td')[1].textContent])"
    )
    assert sorted(cell[0] for cell in cells) == list("abcde")
    for name, data, marks, opinion in cells:
        assert data.startswith("not observed") == (name in "bde")
        assert marks == 1  # what is usual
        assert "usually" in opinion
    widths = page.execute_script(
        "return [...document.querySelectorAll('.meter .fill')].map(e => e.style.width)"
    )
    assert not [width for width in widths if "NaN" in width or not width]


def test_a_row_of_gaps_says_so(visit, gappy_digits):
    page = visit(gappy_digits)
    page.execute_script("dynpart.choose(arguments[0])", EMPTY)
    text = page.find_element("id", "readout").text
    assert "0.0 bits" in text
    assert "nothing observed" in text
    click(page, ".card .add")
    assert "NaN" not in page.find_element("id", "readout").text


@pytest.mark.parametrize("name", ["gappy_digits", "gappy_table"])
def test_gaps_fit_a_phone(visit, name, request):
    page = visit(request.getfixturevalue(name), width=360, height=740)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 360
