"""Measurements say what the report explains."""

import math
import time

import numpy as np
import pytest

from dynpart.datasets import make_pairs
from dynpart.estimator import DynamicPartitionModel
from dynpart.reproduce._measures import (
    Clock,
    measure,
    principal_components,
    share,
    speaking_weight,
    spread,
    timed,
)

NO_TIME = Clock(0.0, 0.0)


@pytest.fixture(scope="module")
def model():
    fitted = DynamicPartitionModel(10, n_init=3, random_state=0).fit(make_pairs(5))
    return fitted


def test_binary_rows_are_measured_by_wrong_pixels_and_bits(model):
    X = make_pairs(5)
    result = measure(model, X, Clock(2.0, 3.0))
    H = model.transform(X)
    assert result.mean_active == H.sum(axis=1).mean()
    assert result.error == ((model.inverse_transform(H) > 0.5) != X).mean() == 0
    assert result.log_likelihood == pytest.approx(model.log_likelihood(X, H).mean())
    assert result.bits == pytest.approx(-model.score(X) / math.log(2))
    assert (result.fit_seconds, result.fit_processor_seconds, result.n_used) == (2.0, 3.0, 10)


def test_gray_rows_are_measured_by_rmse_and_bits_of_256_levels():
    X = 0.2 + 0.6 * np.tile(make_pairs(3), (5, 1))
    X += np.random.RandomState(0).uniform(-0.2, 0.2, size=X.shape)
    model = DynamicPartitionModel(3, max_iter=4, random_state=0).fit(X)
    result = measure(model, X, NO_TIME)
    composed = model.inverse_transform(model.transform(X))
    assert result.error == pytest.approx(np.sqrt(((composed - X) ** 2).mean()))
    # Eight bits per value is what no model at all would need.
    assert 20 < result.bits < 55
    assert result.bits == pytest.approx(-model.score(X) / math.log(2) + 6 * math.log2(255))


def test_experts_of_pairs_are_local_and_an_expert_for_everything_is_not(model):
    found = measure(model, make_pairs(5), NO_TIME)
    assert found.n_local == found.n_used == 10
    assert found.extent == pytest.approx(0.2)
    rng = np.random.RandomState(0)
    prototypes = rng.randint(0, 2, size=(2, 40)).astype(np.uint8)
    rows = prototypes[rng.randint(0, 2, size=60)]
    clusters = DynamicPartitionModel(2, n_active=1, random_state=0).fit(rows)
    assert measure(clusters, rows, NO_TIME).n_local == 0


def test_weight_counts_ownership_and_difference_from_the_average():
    means = np.array([[1.0, 0.5, 0.5], [0.0, 0.5, 0.5]])
    owner = np.array([[0, 0, 0], [1, 1, 1]])
    weight = speaking_weight(means, owner, np.array([1, 1]))
    assert np.allclose(weight, [[1, 0, 0], [1, 0, 0]])
    silent = speaking_weight(means, owner[:1], np.array([1, 0]))
    assert np.allclose(silent, 1 / 3)


def test_principal_components_miss_what_is_in_no_direction_of_theirs():
    rng = np.random.default_rng(0)
    train = rng.normal(0, 1, (200, 1)) * np.array([3.0, 4.0, 0.0]) / 5 + 7
    off = np.array([[0.0, 0.0, 0.3]])
    error, n_components = principal_components(train, train[:10] + off, 1)
    assert n_components == 1
    assert error == pytest.approx(0.3 / math.sqrt(3))
    assert principal_components(train, train, 50)[1] == 3


def test_share_is_the_smallest_that_holds_most_of_the_weight():
    weight = np.array([[0.5, 0.3, 0.1, 0.05, 0.05], [0.2, 0.2, 0.2, 0.2, 0.2]])
    assert np.allclose(share(weight), [2 / 5, 4 / 5])


def test_spread_is_one_for_even_weight_and_nothing_for_one_pixel():
    even = np.full((1, 12), 1 / 12)
    assert spread(even, (3, 4)) == pytest.approx(1)
    assert spread(np.eye(12)[:1], (3, 4)) == pytest.approx(0)
    assert spread(np.eye(12)[[0]] / 2 + np.eye(12)[[1]] / 2, (3, 4)) < 0.5


def test_the_clock_counts_waiting_but_the_processor_does_not():
    clock = timed(lambda: time.sleep(0.05))
    assert clock.seconds >= 0.05 > clock.processor_seconds
