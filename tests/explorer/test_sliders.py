"""Gains and offsets on the page: those of the model, and the user's own."""

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from tests.explorer.conftest import made


def shaded(rng, n_rows):
    """Two halves of a picture, each at a brightness of its own."""
    halves = np.zeros((2, 6, 8))
    halves[0, :, :4] = np.linspace(0.2, 1, 6)[:, None]
    halves[1, :, 4:] = np.linspace(1, 0.2, 6)[:, None]
    light = rng.uniform(0.3, 1.4, (n_rows, 2))
    return (light @ halves.reshape(2, -1) + rng.normal(0, 0.02, (n_rows, 48))).astype(np.float32)


@pytest.fixture(scope="session", params=["gain", "offset"])
def lit(request, tmp_path_factory):
    X = shaded(np.random.default_rng(0), 80)
    model = DynamicPartitionModel(
        3, amplitude=request.param, n_active=2, max_iter=8, random_state=0
    ).fit(X)
    return made(tmp_path_factory.mktemp("page"), request.param, model, X, image_shape=(6, 8))


def move(page, number, value):
    page.execute_script(
        "const input = document.querySelectorAll('#sliders input')[arguments[0]];"
        "input.value = arguments[1]; input.dispatchEvent(new Event('input'))",
        number,
        value,
    )


def knobs(page):
    return page.execute_script(
        "return [...document.querySelectorAll('#sliders input')].map((one) => "
        "[Number(one.dataset.expert), one.dataset.knob, Number(one.value), one.ariaLabel])"
    )


def reconstruction(page):
    return np.array(page.execute_script("return dynpart.reconstruction()"))


@pytest.mark.parametrize("width", [1280, 390])
def test_sliders_begin_with_the_models_amplitudes(visit, lit, width):
    page = visit(lit, width=width)
    model, X = lit.model, lit.X
    n = 17
    page.execute_script("dynpart.choose(arguments[0])", n)
    H = model.transform(X[n : n + 1])
    told = model.amplitudes(X[n : n + 1], H)
    expected = model.inverse_transform(H, told)[0]
    np.testing.assert_allclose(reconstruction(page), expected, atol=1e-3)
    per_expert = 2 if model.amplitude == "gain" else 1
    found = knobs(page)
    assert len(found) == 2 * per_expert
    for k, knob, value, words in found:
        assert value == pytest.approx(told[0, k, int(knob == "offset")], abs=1e-4)
        assert words.startswith(f"{knob} of ")
    error = np.sqrt(np.mean((expected - X[n]) ** 2))
    readout = page.execute_script("return document.getElementById('readout').textContent")
    assert float(readout.split("RMSE ")[1].split()[0]) == pytest.approx(error, rel=0.02)
    wide = page.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width


def test_moving_a_slider_changes_what_its_expert_owns_and_reset_goes_back(visit, lit):
    page = visit(lit)
    page.execute_script("dynpart.choose(3)")
    before, owners = reconstruction(page), page.execute_script("return dynpart.owners()")
    k, knob, value, _ = knobs(page)[0]
    move(page, 0, value + 0.25)
    after = reconstruction(page)
    own = np.array(owners) == k
    mean = lit.model.means_[k][own]
    change = 0.25 * (mean if knob == "gain" else np.ones(own.sum()))
    np.testing.assert_allclose(after[own] - before[own], change, atol=1e-3)
    np.testing.assert_array_equal(after[~own], before[~own])
    note = "return document.getElementById('mix-note').textContent"
    assert page.execute_script(note) == "your own mix"
    page.execute_script("document.getElementById('reset').click()")
    np.testing.assert_array_equal(reconstruction(page), before)
    assert page.execute_script(note) == "as the model chose them"


def test_an_expert_switched_on_by_hand_begins_as_it_is(visit, lit):
    page = visit(lit)
    page.execute_script("dynpart.choose(3)")
    active = page.execute_script("return dynpart.active()")
    [idle] = set(range(3)) - set(active)
    page.execute_script("dynpart.toggle(arguments[0])", idle)
    owned = np.array(page.execute_script("return dynpart.owners()")) == idle
    mean = lit.model.means_[idle][owned]
    np.testing.assert_allclose(reconstruction(page)[owned], mean, atol=1e-5)
    assert idle in {k for k, *_ in knobs(page)}


def test_pages_of_other_models_have_no_sliders(visit, digits):
    page = visit(digits)
    assert knobs(page) == []
    assert page.execute_script("return document.getElementById('sliders').hidden")
