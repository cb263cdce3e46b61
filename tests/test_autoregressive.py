"""Fits whose experts know earlier values: what they gain, what they keep, what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynpart import DynamicPartitionModel, load
from dynpart.conditioning import Moving
from dynpart.persistence import ModelFileError
from dynpart.storage import _autoregression

QUICK = {"max_iter": 4, "random_state": 0, "engine": "cpu"}


def chains(n_rows=300, n_features=8, seed=0):
    """Binary rows in which every value is mostly the one before it."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n_rows, n_features), dtype=np.uint8)
    x[:, 0] = rng.random(n_rows) < 0.5
    for d in range(1, n_features):
        x[:, d] = np.where(rng.random(n_rows) < 0.9, x[:, d - 1], rng.random(n_rows) < 0.5)
    return x


def walks(n_rows=300, n_features=6, seed=0):
    """Real rows: random walks, columns in units of their own."""
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.normal(size=(n_rows, n_features)), axis=1) * 10.0 ** np.arange(n_features)


@pytest.fixture(scope="module")
def fitted():
    return DynamicPartitionModel(2, autoregressive=2, max_active=1, **QUICK).fit(chains())


@pytest.fixture(scope="module")
def walker():
    columns = ["real"] * 6
    settings = {"columns": columns, "max_active": 1, **QUICK}
    return DynamicPartitionModel(1, autoregressive="all", **settings).fit(walks())


def test_a_chain_is_described_by_the_values_before(fitted):
    unseen = chains(seed=1)
    plain = DynamicPartitionModel(2, max_active=1, **QUICK).fit(chains())
    # Given the one before, a value is the other with 1 in 20: 0.2 nats, and 0.7 for the first.
    truth = np.log(0.5) + 7 * (0.95 * np.log(0.95) + 0.05 * np.log(0.05))
    assert fitted.score(unseen) > plain.score(unseen) + 0.5
    assert truth - 0.6 < fitted.score(unseen) < truth + 0.3
    assert not np.tril(fitted._experts().autoregression.weights, -3).any()
    alone = DynamicPartitionModel(1, autoregressive=2, **QUICK).fit(chains())
    assert (np.diag(alone._experts().autoregression.weights, -1) > 1).all()


def test_a_random_walk_is_found_in_any_units(walker):
    given = walker._experts().autoregression
    units = 10.0 ** np.arange(6)
    found = given.weights / units[:, None] * units
    assert_allclose(np.diag(found, -1), 1, atol=0.25)
    unseen = walks(seed=1)
    exact = -0.5 * (np.log(2 * np.pi) + 1) * 6 - np.log(units).sum()
    plain = DynamicPartitionModel(1, columns=["real"] * 6, max_active=1, **QUICK).fit(walks())
    assert walker.score(unseen) > plain.score(unseen) + 1
    assert walker.score(unseen) == pytest.approx(exact, abs=0.4)


def test_scores_agree_with_each_other(fitted):
    X = chains(40, seed=2)
    H = fitted.transform(X)
    explained = fitted.log_likelihood(X, H)
    assert_allclose(fitted.score_samples(X), explained + fitted.log_prior(H), atol=1e-4)
    assert_allclose(fitted.surprise(X).sum(axis=1), -explained, atol=1e-9)
    assert (fitted.log_density(X) >= fitted.score_samples(X) - 1e-9).all()
    assert fitted.pursue(X).log_likelihood[:, 0] == pytest.approx(explained, abs=1e-6)
    assert "Row 0" in str(fitted.explain(X, 0))


def test_rows_told_by_their_experts_come_value_after_value(fitted, walker):
    X = chains(50, seed=3)
    H = fitted.transform(X)
    expected = fitted.inverse_transform(H, given=X)
    chance = np.where(X == 1, expected, 1 - expected)
    assert_allclose(np.log(chance).sum(axis=1), fitted.log_likelihood(X, H), atol=1e-6)
    assert_allclose(fitted.inverse_transform(H)[0], fitted.means_[H[0].argmax()])
    first = walker.inverse_transform(np.ones((1, 1), np.uint8), given=walks(1, seed=4))
    assert first[0, 0] == pytest.approx(walker.means_[0, 0])
    with pytest.raises(ValueError, match="given and H must have as many rows"):
        fitted.inverse_transform(H, given=X[:3])


def test_drawn_rows_are_like_those_learnt_from(fitted, walker):
    drawn = fitted.sample(2000, random_state=0)
    assert drawn.dtype == np.uint8
    same = (drawn[:, 1:] == drawn[:, :-1]).mean()
    assert same == pytest.approx((chains()[:, 1:] == chains()[:, :-1]).mean(), abs=0.06)
    steps = np.diff(walker.sample(2000, random_state=0) / 10.0 ** np.arange(6), axis=1)
    assert_allclose(steps.std(axis=0), 1, atol=0.35)
    assert_array_equal(fitted.sample(5, random_state=1), fitted.sample(5, random_state=1))
    assert (fitted.sample(5, random_state=1) != fitted.sample(5, random_state=2)).any()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model(fitted):
    again = DynamicPartitionModel(2, autoregressive=2, max_active=1, **QUICK).fit(chains())
    weights = (model._experts().autoregression.weights for model in (fitted, again))
    assert_array_equal(*weights)


@pytest.mark.slow
def test_rows_that_weigh_more_count_more():
    """Chains that weigh nothing say nothing."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 2, (300, 8)).astype(np.uint8)
    X, weight = np.vstack([chains(), noise]), np.repeat([1.0, 0.0], 300)
    model = DynamicPartitionModel(1, autoregressive="all", **QUICK)
    heavy = model.fit(X, sample_weight=weight)._experts().autoregression.weights
    alone = model.fit(chains())._experts().autoregression.weights
    assert_allclose(heavy, alone, atol=1e-9)


def test_a_model_file_keeps_the_weights(fitted, walker, tmp_path):
    for model, X in ((fitted, chains(30, seed=5)), (walker, walks(30, seed=5))):
        path = tmp_path / "model.dynpart"
        model.save(path)
        again = load(path)
        assert_array_equal(again.score_samples(X), model.score_samples(X))
        assert again.autoregressive == model.autoregressive


@pytest.mark.parametrize(
    "change",
    [
        {"autoregression.row": np.array([0])},
        {"autoregression.column": np.array([7])},
        {"autoregression.weight": np.array([np.nan])},
        {"autoregression.centre": np.zeros(3)},
        {"autoregression.row": np.array([1.0])},
    ],
)
def test_forged_weights_are_refused(fitted, change):
    arrays = {
        "autoregression.row": np.array([3]),
        "autoregression.column": np.array([1]),
        "autoregression.weight": np.array([0.5]),
        "autoregression.centre": np.zeros(8),
    }
    family = fitted.family_
    found = _autoregression.unpack_autoregression("f", arrays, family, 8)
    assert found.weights[3, 1] == 0.5
    with pytest.raises(ModelFileError, match="weights of earlier values"):
        _autoregression.unpack_autoregression("f", arrays | change, family, 8)


def test_images_look_at_pixels_nearby():
    model = DynamicPartitionModel(1, autoregressive=1, **QUICK)
    model.image_shape_ = (2, 4)
    weights = model.fit(chains())._experts().autoregression.weights
    assert weights[5, 4] > 1
    assert not weights[7, :2].any()
    assert not weights[7, 4:6].any()


@pytest.mark.parametrize("engine", [pytest.param("reference", marks=pytest.mark.slow), "torch"])
def test_engines_learn_the_same(engine, fitted):
    if engine == "torch":
        pytest.importorskip("torch")
    settings = QUICK | {"engine": engine}
    model = DynamicPartitionModel(2, autoregressive=2, max_active=1, **settings).fit(chains())
    assert model.score(chains(seed=1)) == pytest.approx(fitted.score(chains(seed=1)), abs=0.05)


@pytest.mark.slow
def test_blocks_of_rows_are_learnt_from_too():
    X = chains()
    model = DynamicPartitionModel(1, autoregressive="all", **QUICK)
    whole = model.fit(X)._experts().autoregression.weights
    parts = model.fit([X[:100], X[100:]])._experts().autoregression.weights
    assert_allclose(parts, whole, atol=1e-9)


def test_gaps_are_refused_with_a_clear_error(fitted):
    gappy = chains().astype(float)
    gappy[3, 2] = np.nan
    with pytest.raises(ValueError, match="autoregressive='all' needs rows without gaps"):
        DynamicPartitionModel(2, autoregressive="all", **QUICK).fit(gappy)
    with pytest.raises(ValueError, match="autoregressive=2 needs rows without gaps"):
        fitted.transform(gappy)
    with pytest.raises(ValueError, match="autoregressive=2"):
        fitted.conditional_means(chains(3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"autoregressive": 0}, "autoregressive"),
        ({"autoregressive": "some"}, "autoregressive"),
        ({"autoregressive": 1, "criterion": "reconstruction"}, "criterion='reconstruction'"),
        ({"autoregressive": 1, "amplitude": "gain"}, "amplitude='gain' and autoregressive"),
        ({"autoregressive": 1, "columns": "categorical"}, "autoregressive=1 is for columns"),
        ({"autoregressive": 1, "columns": "count"}, "autoregressive=1 is for columns"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DynamicPartitionModel(2, **settings, **QUICK).fit(chains(50))


def test_a_stream_learns_no_weights(fitted):
    with pytest.raises(ValueError, match="autoregressive=1 is for fit"):
        DynamicPartitionModel(2, autoregressive=1, **QUICK).partial_fit(chains(50))


def test_parameters_set_after_the_fit_are_checked(fitted):
    changed = DynamicPartitionModel(2, autoregressive=2, max_active=1, **QUICK).fit(chains(60))
    changed.set_params(criterion="reconstruction")
    with pytest.raises(ValueError, match="criterion='reconstruction'"):
        changed.transform(chains(3))


def test_entries_that_do_not_pay_become_zero():
    moving = Moving(np.zeros(2))
    for _ in range(300):
        pull = np.array([1.0, 0.005]) - moving.value
        moving.step(pull, 0.01, sparsity=0.1)
    assert moving.value[0] == pytest.approx(0.9, abs=0.05)
    assert moving.value[1] == 0
