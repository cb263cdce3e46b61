"""The baseline: what a fit keeps is what the arrays say."""

import numpy as np
import pandas as pd
import pytest

from dynpart import DynamicPartitionModel, load
from dynpart.datasets import make_pairs

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def tables():
    rng = np.random.default_rng(0)
    X = make_pairs(3, 120, random_state=0)
    gappy = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    frame = pd.DataFrame({"a": np.array(list("xyz"))[rng.integers(3, size=120)]})
    frame["b"] = rng.normal(size=120) + (frame["a"] == "x")
    return {"binary": X, "gaps": gappy, "mixed": frame, "numbers": rng.normal(size=(60, 4))}


def expected(model, X, weight=None):
    weight = np.ones(len(X)) if weight is None else weight
    return (
        np.average(model.score_samples(X), weights=weight),
        np.average(model.independent_scores(X), weights=weight),
    )


@pytest.mark.parametrize("name", ["binary", "gaps", "mixed", "numbers"])
@pytest.mark.parametrize("options", [{}, {"criterion": "reconstruction"}, {"prior": None}])
def test_it_is_the_mean_of_scores_and_of_independent_columns(name, options):
    X = tables()[name]
    model = DynamicPartitionModel(3, max_iter=5, random_state=0, n_jobs=1, **options).fit(X)
    found = model.baseline_
    np.testing.assert_allclose((found.nats, found.columns), expected(model, X), rtol=1e-5)
    assert found.n_rows == len(X)
    assert found.saved_bits == pytest.approx((found.nats - found.columns) / np.log(2))


def test_independent_columns_are_frequencies():
    X = tables()["binary"]
    model = DynamicPartitionModel(3, max_iter=5, random_state=0).fit(X)
    p = X.mean(axis=0)
    by_hand = np.where(X, np.log(p), np.log(1 - p)).sum(axis=1).mean()
    assert model.baseline_.columns == pytest.approx(by_hand, abs=1e-3)


def test_weights_count():
    X = tables()["binary"]
    weight = np.arange(len(X)) % 4
    model = DynamicPartitionModel(3, max_iter=5, random_state=0).fit(X, sample_weight=weight)
    found = model.baseline_
    np.testing.assert_allclose((found.nats, found.columns), expected(model, X, weight), rtol=1e-5)
    assert found.n_rows == weight.sum()


def test_it_follows_a_recount_and_is_kept_in_files(tmp_path):
    X = tables()["binary"]
    model = DynamicPartitionModel(4, max_iter=5, random_state=0).fit(X)
    before = model.baseline_
    model.set_params(max_active=1).recount(X)
    assert model.baseline_.nats < before.nats
    assert model.baseline_.columns == pytest.approx(before.columns)
    np.testing.assert_allclose(model.baseline_.nats, expected(model, X)[0], rtol=1e-5)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").baseline_ == model.baseline_
    assert not hasattr(model.set_params(max_active=None).partial_fit(X), "baseline_")


def test_blocks_of_rows_have_one():
    X = tables()["binary"]
    model = DynamicPartitionModel(3, max_iter=5, random_state=0).fit([X[:50], X[50:]])
    found = model.baseline_
    np.testing.assert_allclose((found.nats, found.columns), expected(model, X), rtol=1e-5)
