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


def integers(n_rows=200):
    """Independent whole numbers, as real columns."""
    return np.random.default_rng(1).integers(0, 3, (n_rows, 4)).astype(float)


def test_values_that_columns_repeat_are_told_apart_from_what_columns_share():
    X = integers()
    model = DynamicPartitionModel(6, max_iter=10, random_state=0, columns="real").fit(X)
    found = model.baseline_
    assert found.nats - found.columns > 3, "narrow experts save bits on independent columns"
    assert found.repeats > found.nats - found.columns
    told = f"Columns on their own would save {found.repeats / np.log(2):.1f} bits"
    assert told in model.describe().saving
    assert told in model.describe(X).saving


def test_values_of_normal_columns_do_not_repeat():
    model = DynamicPartitionModel(3, max_iter=10, random_state=0).fit(tables()["numbers"])
    assert abs(model.baseline_.repeats) < 1
    one = DynamicPartitionModel(1, max_iter=5, random_state=0, columns="real").fit(integers())
    assert one.baseline_.repeats == pytest.approx(0, abs=0.05)
    assert DynamicPartitionModel(3, max_iter=5).fit(tables()["binary"]).baseline_.repeats == 0


def test_repeated_values_say_nothing_about_missing_ones(tmp_path):
    X = integers()
    X[::3, 1] = np.nan
    weight = np.arange(len(X)) % 3
    model = DynamicPartitionModel(4, max_iter=5, random_state=0, columns="real")
    model.fit(X, sample_weight=weight)
    each = model._saved_by_repeats(X)
    assert model.baseline_.repeats == pytest.approx(np.average(each, weights=weight), rel=1e-5)
    assert model._saved_by_repeats(np.full((1, 4), np.nan)) == pytest.approx(0)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").baseline_ == model.baseline_


def test_blocks_of_rows_have_one():
    X = tables()["binary"]
    model = DynamicPartitionModel(3, max_iter=5, random_state=0).fit([X[:50], X[50:]])
    found = model.baseline_
    np.testing.assert_allclose((found.nats, found.columns), expected(model, X), rtol=1e-5)
