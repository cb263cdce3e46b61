"""Measurements say what the report explains."""

import math

import numpy as np
import pytest

from dynpart.datasets import make_pairs
from dynpart.estimator import DynamicPartitionModel
from dynpart.reproduce._measures import local_experts, measure


@pytest.fixture(scope="module")
def model():
    fitted = DynamicPartitionModel(10, n_init=3, random_state=0).fit(make_pairs(5))
    return fitted


def test_binary_rows_are_measured_by_wrong_pixels_and_bits(model):
    X = make_pairs(5)
    result = measure(model, X, 2.0)
    H = model.transform(X)
    assert result.mean_active == H.sum(axis=1).mean()
    assert result.error == ((model.inverse_transform(H) > 0.5) != X).mean() == 0
    assert result.log_likelihood == pytest.approx(model.log_likelihood(X, H).mean())
    assert result.bits == pytest.approx(-model.score(X) / math.log(2))
    assert (result.fit_seconds, result.n_used) == (2.0, 10)


def test_gray_rows_are_measured_by_rmse_and_bits_of_256_levels():
    X = np.random.RandomState(0).uniform(size=(40, 6))
    model = DynamicPartitionModel(3, max_iter=4, random_state=0).fit(X)
    result = measure(model, X, 0.0)
    composed = model.inverse_transform(model.transform(X))
    assert result.error == pytest.approx(np.sqrt(((composed - X) ** 2).mean()))
    # Eight bits per value is what no model at all would need.
    assert 20 < result.bits < 55
    assert result.bits == pytest.approx(-model.score(X) / math.log(2) + 6 * math.log2(255))


def locality(model, X):
    H = model.transform(X)
    return local_experts(model.means_, model.partition(H), H.sum(axis=0))


def test_experts_of_pairs_are_local_and_an_expert_for_everything_is_not(model):
    assert locality(model, make_pairs(5)).all()
    rng = np.random.RandomState(0)
    prototypes = rng.randint(0, 2, size=(2, 40)).astype(np.uint8)
    rows = prototypes[rng.randint(0, 2, size=60)]
    clusters = DynamicPartitionModel(2, n_active=1, random_state=0).fit(rows)
    assert not locality(clusters, rows).any()


def test_an_expert_that_is_never_active_is_not_local(model):
    few = make_pairs(5)[:1]
    idle = ~model.transform(few).any(axis=0)
    assert idle.any()
    assert not locality(model, few)[idle].any()
