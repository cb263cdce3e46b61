"""The shape Boltzmann machine: its patches, its energy, and that it learns shapes."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynpart.baselines.shape import ShapeBoltzmannMachine, patches
from dynpart.datasets import make_bars

torch = pytest.importorskip("torch")


def small_machine(**changes):
    arguments = {"n_top": 3, "overlap": 2, "n_updates": (30, 10, 10), "random_state": 0}
    return ShapeBoltzmannMachine((4, 4), 8, device="cpu", **arguments | changes)


@pytest.fixture(scope="module")
def fitted():
    return small_machine().fit(make_bars(4, 60, random_state=0))


def test_patches_cover_the_image_and_overlap_in_the_middle():
    often = np.bincount(patches((8, 6), 2).ravel(), minlength=48).reshape(8, 6)
    assert often.min() == 1
    assert_array_equal(often[3:5, 2:4], 4)
    assert_array_equal(often[:3, 2:4], 2)


def test_conditionals_are_those_of_one_energy(fitted):
    """Ratios of probabilities of neighbouring states agree with exp(-energy)."""
    machine = fitted._machine
    rng = np.random.default_rng(0)
    v, h, g = (machine.tensor(rng.integers(0, 2, (1, n))) for n in (16, 8, 3))

    def energy(v, h, g):
        total = -(v @ machine.bias)[0] - (h @ machine.second @ g.T)[0, 0]
        total = total - (g @ machine.second_bias)[0]
        for place, pixels in enumerate(machine.pixels_of):
            units = h[0, 2 * place : 2 * place + 2]
            total = total - units @ machine.first @ v[0, pixels] - units @ machine.first_bias
        return float(total)

    def log_odds(state, index, layer):
        on, off = state.clone(), state.clone()
        on[0, index], off[0, index] = 1, 0
        layers = {"v": v, "h": h, "g": g}
        return energy(**{**layers, layer: off}) - energy(**{**layers, layer: on})

    told = {"v": machine.pixels(h), "h": machine.middle(v, g), "g": machine.top(h)}
    for (layer, state), index in itertools.product({"v": v, "h": h, "g": g}.items(), range(3)):
        expected = log_odds(state, index, layer)
        assert_allclose(float(torch.logit(told[layer][0, index])), expected, atol=1e-4)


def test_what_was_observed_stays_and_the_rest_are_probabilities(fitted):
    X = make_bars(4, 6, random_state=1).astype(float)
    X[:, 8:] = np.nan
    filled = fitted.fill(X, n_steps=20, keep=10)
    assert_array_equal(filled[:, :8], X[:, :8])
    assert ((filled[:, 8:] >= 0) & (filled[:, 8:] <= 1)).all()
    samples = fitted.sample(5, n_steps=3)
    assert samples.shape == (5, 16)
    assert ((samples >= 0) & (samples <= 1)).all()


def test_learning_beats_the_average():
    X = np.repeat(np.eye(2, dtype=np.uint8), 8, axis=1)[np.arange(40) % 2]
    model = small_machine(n_updates=(600, 200, 200), learning_rate=0.1).fit(X)
    half = X[:2].astype(float)
    half[:, 4:8] = half[:, 12:] = np.nan
    assert (((model.fill(half)) > 0.5) == X[:2]).mean() > 0.9
    assert ((model.decode(model.encode(X)) > 0.5) == X).mean() > 0.95


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"image_shape": (3, 4)}, "image_shape"), ({"overlap": 3}, "overlap"),
     ({"n_components": 6}, "multiple of 4")],
)  # fmt: skip
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        small_machine().set_params(**changes).fit(make_bars(4, 20, random_state=0))
