"""Masked networks: proper distributions that read rows in order."""

from itertools import product

import numpy as np
import pytest

from dynpart.baselines import MaskedNetwork

pytest.importorskip("torch")


@pytest.fixture(scope="module", params=[0, 12])
def network(request):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 5))
    X[:, 3] = X[:, 0] ^ X[:, 1]  # no logistic regression knows this
    settings = {"learning_rate": 0.02, "max_epochs": 60, "random_state": 0}
    return MaskedNetwork(request.param, **settings).fit(X.astype(np.uint8)), X


def test_the_probabilities_of_all_rows_sum_to_one(network):
    everything = np.array(list(product([0, 1], repeat=5)))
    assert np.exp(network[0].log_density(everything)).sum() == pytest.approx(1)


def test_a_variable_depends_on_earlier_ones_only(network):
    model, X = network
    before = model.log_odds(X[:20])
    for d in range(5):
        changed = X[:20].copy()
        changed[:, d] ^= 1
        moved = np.abs(model.log_odds(changed) - before).max(axis=0) > 1e-12
        assert not moved[: d + 1].any()


def test_hidden_units_see_what_a_regression_cannot(network):
    model, X = network
    nats = model.log_density(X).mean()
    if model.n_hidden:
        assert nats > -4 * np.log(2) - 0.2
    else:
        assert nats < -5 * np.log(2) + 0.1


def test_samples_are_drawn_from_the_density(network):
    model, _ = network
    drawn = model.sample(4000)
    everything = np.array(list(product([0, 1], repeat=5)))
    found = np.bincount(drawn @ 2 ** np.arange(4, -1, -1), minlength=32) / 4000
    assert np.abs(found - np.exp(model.log_density(everything))).max() < 0.03
