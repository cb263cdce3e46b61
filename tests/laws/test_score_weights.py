"""The score of weighted rows is that of repeated ones."""

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs


@pytest.fixture(scope="module")
def fitted():
    X = make_pairs(4).astype(float)
    X = X[np.random.default_rng(0).integers(0, len(X), 60)]
    X[::7, 3] = np.nan
    return DynamicPartitionModel(8, max_iter=5, random_state=0).fit(X), X


def test_a_weighted_score_is_the_score_of_repeated_rows(fitted):
    model, X = fitted
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    found = model.score(X, sample_weight=weight)
    assert isinstance(found, float)
    assert found == pytest.approx(model.score(np.repeat(X, weight, axis=0)))
    assert found == pytest.approx(np.average(model.score_samples(X), weights=weight))


def test_equal_weights_change_no_score(fitted):
    model, X = fitted
    for weight in (None, np.ones(len(X)), np.full(len(X), 1e-9), [7] * len(X)):
        assert model.score(X, sample_weight=weight) == pytest.approx(model.score(X))


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(3), r"sample_weight must have shape \(60,\)"),
        (-np.ones(60), "sample_weight must be finite and at least 0"),
        (np.full(60, np.nan), "sample_weight must be finite and at least 0"),
        (np.zeros(60), "sample_weight must not be zero in every row"),
    ],
)
def test_weights_that_weigh_nothing_are_refused(fitted, weight, words):
    model, X = fitted
    with pytest.raises(ValueError, match=words):
        model.score(X, sample_weight=weight)
