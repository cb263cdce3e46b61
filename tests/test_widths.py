"""Variances of columns that share a scale, and smallest variances of those with their own."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from dynpart import DynamicPartitionModel
from dynpart.encoding import Encoding
from dynpart.engines import Experts
from dynpart.families import Categorical, Gaussian, Mixed
from dynpart.persistence import load
from dynpart.rows import Rows
from dynpart.widths import Scatter, Widths, _owned_sums


def pictures(seed, n_rows=200):
    """Rows of 12 pixels: two parts, each in one of two states, and pixels of different noise."""
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=(n_rows, 2)).repeat(6, axis=1)
    noise = np.tile([0.01, 0.02, 0.05, 0.1, 0.2, 0.3], 2)
    return state + noise * rng.normal(size=state.shape)


@pytest.fixture(scope="module")
def models():
    X = pictures(0)
    options = {"family": "gaussian", "max_iter": 10, "random_state": 0}
    kept = DynamicPartitionModel(4, variance_floor=1.0, **options).fit(X)
    return DynamicPartitionModel(4, **options).fit(X), kept


def test_unseen_rows_are_described_better_and_drawn_as_sharply(models):
    model, kept = models
    X = pictures(1)
    assert model.score(X) > kept.score(X) + 3
    errors = [((m.inverse_transform(m.transform(X)) - X) ** 2).mean() for m in models]
    assert errors[0] <= errors[1] * 1.02
    np.testing.assert_allclose(model.means_, kept.means_)


def test_variances_follow_the_noise_of_columns(models):
    model, _ = models
    order = model.variances_.min(axis=0).reshape(2, 6).argsort(axis=1)
    assert (order[:, -1] == 5).all()
    assert (order[:, 0] <= 2).all()


def test_codes_are_those_of_one_variance(models):
    model, _ = models
    X = pictures(1)
    family = model.family_
    assert family.shared_variance is not None
    judges = Encoding.of(model).encoders(model._experts())
    np.testing.assert_allclose(family.variance(judges.eta), family.yardstick, rtol=1e-6)
    codes = model.transform(X)
    joint = model.log_likelihood(X, codes) + model.log_prior(codes)
    np.testing.assert_allclose(model.score_samples(X), joint, rtol=1e-5)
    assert (model.log_density(X) >= model.score_samples(X) - 1e-6).all()


def test_a_floor_that_was_asked_for_is_kept(models):
    _, kept = models
    assert kept.family_.shared_variance is None
    assert (kept.variances_ >= kept.family_.floor * (1 - 1e-9)).all()


def test_files_and_streams_know_both_variances(models, tmp_path):
    model, _ = models
    X = pictures(2)
    path = tmp_path / "model.dynpart"
    model.save(path)
    loaded = load(path)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_allclose(loaded.score_samples(X), model.score_samples(X), rtol=1e-6)
    loaded.partial_fit(X)
    assert loaded.family_.shared_variance is None
    assert loaded.family_.floor == pytest.approx(model.family_.yardstick)


def test_a_unit_changes_the_unit_alone():
    rng = np.random.default_rng(0)
    sums = rng.random((3, 4, 5)) + np.array([10.0, 0.0, 20.0])[:, None, None]
    mean, data = 0.1 * rng.random((4, 5)), 2 + rng.random(5)
    scale = np.array([1.0, 7.0, 49.0])[:, None, None]
    found = Widths().of(Scatter.of(sums, mean, data), 1.5)
    other = Widths().of(Scatter.of(sums * scale, 7 * mean, 49 * data), 49 * 1.5)
    np.testing.assert_allclose(other, 49 * found)


def test_separating_a_family_keeps_its_unit_and_goes_back():
    family = Gaussian(np.zeros(2), 1e40)
    apart = family.separated(0.01)
    assert apart.unit == family.unit
    assert apart.floor == pytest.approx(1e38)
    assert apart.for_learning().floor == family.floor
    own = Gaussian(np.zeros(2), np.ones(2))
    assert own.separated() is own
    assert own.for_learning() is own


def test_tensors_get_the_same_sums_of_what_experts_own():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, active = rng.normal(size=(30, 12)), rng.random((30, 4)) < 0.5
    active[:, 1] |= ~active.any(axis=1)
    X[3, 5] = np.nan
    mean = rng.normal(size=(4, 12))
    family = Gaussian(np.zeros(12), 0.5)
    experts = Experts(family, np.stack([mean, mean**2 + 1]), rng.normal(size=(4, 12)))
    for weight in (None, rng.uniform(0.5, 2, 30)):
        rows = Rows(X, weight, complete=False)
        there = torch.empty(0)
        expected = _owned_sums(rows, active, experts)
        found = _owned_sums(rows.like(there), torch.as_tensor(active), experts.like(there))
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_a_fit_of_tensors_chooses_the_same_widths(models):
    torch = pytest.importorskip("torch")
    model, _ = models
    options = {"family": "gaussian", "max_iter": 10, "random_state": 0}
    there = DynamicPartitionModel(4, **options).fit(torch.as_tensor(pictures(0)))
    np.testing.assert_allclose(np.asarray(there.variances_), model.variances_, rtol=1e-6)
    assert there.baseline_.nats == pytest.approx(model.baseline_.nats)


# ------------------------------------------------------------------ columns with their own scale


def visits(seed, n_rows=300):
    """Three groups in three continuous columns, a column of two values and one of three years."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n_rows)
    sizes = 2.0 * np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])[group] + rng.normal(size=(n_rows, 3))
    sex = 1.5 + (rng.random(n_rows) < np.array([0.2, 0.5, 0.8])[group])
    return np.column_stack([sizes, sex, 2007 + rng.integers(3, size=n_rows)])


def test_columns_of_few_values_have_narrow_experts():
    X, unseen = visits(0), visits(1)
    options = {"max_iter": 12, "random_state": 0}
    model = DynamicPartitionModel(6, **options).fit(X)
    share = model.variances_ / X.var(axis=0)
    assert share[:, 3].min() == pytest.approx(1e-6)
    assert share[:, :3].min() > 0.01
    wider = DynamicPartitionModel(6, variance_floor=1e-4, **options).fit(X)
    assert model.log_density(unseen).mean() > wider.log_density(unseen).mean() + 1
    # The figures of a Gaussian mixture depend on such columns, too.
    mean, scale = X.mean(axis=0), X.std(axis=0)
    mixture = GaussianMixture(6, covariance_type="diag", n_init=3, random_state=0)
    mixture.fit((X - mean) / scale)
    known = mixture.score((unseen - mean) / scale) - np.log(scale).sum()
    assert model.log_density(unseen).mean() > known


def species(seed, n_rows=40, n_species=200):
    """Counts along a gradient, read as real numbers: mostly zeros, and rare larger values."""
    rng = np.random.default_rng(0)
    best, usual = rng.uniform(-2.5, 2.5, n_species), np.exp(rng.normal(-0.5, 1.5, n_species))
    rng = np.random.default_rng(seed)
    place = rng.uniform(-2, 2, (n_rows, 1))
    mean = 2 * usual * np.exp(-0.6 * (place - best) ** 2)
    return rng.poisson(mean * rng.gamma(0.9, 1 / 0.9, mean.shape)).astype(np.float64)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_values_that_no_expert_has_seen_are_not_impossible():
    X, unseen = species(1), species(2, 200)
    options = {"columns": "real", "max_iter": 12, "random_state": 0}
    model, alone = (DynamicPartitionModel(k, **options).fit(X) for k in (4, 1))
    assert model.log_density(unseen).mean() > alone.log_density(unseen).mean() + 10
    asked = DynamicPartitionModel(4, variance_floor=1e-6, **options).fit(X)
    assert asked.log_density(unseen).mean() > alone.log_density(unseen).mean() + 10
    for found in (model, asked):
        assert (found.variances_ >= 0.999 * found.family_.floor).all()
        bound = -found.family_.least_log_density(unseen)
        assert (found.surprise(unseen) <= bound + 1e-6).all()


def test_weights_are_repeats_for_smallest_variances():
    X = species(1, 60, 20)
    often = np.random.default_rng(0).integers(1, 3, len(X))
    options = {"columns": "real", "max_iter": 8, "random_state": 0}
    weighed = DynamicPartitionModel(4, **options).fit(X, sample_weight=often.astype(float))
    repeated = DynamicPartitionModel(4, **options).fit(np.repeat(X, often, axis=0))
    np.testing.assert_allclose(weighed.variances_.min(axis=0), repeated.variances_.min(axis=0))


def test_only_real_columns_with_their_own_scale_have_smallest_variances():
    parts = Categorical.with_levels([3]), Gaussian(np.zeros(2), np.ones(2))
    family = Mixed(parts, (np.array([0]), np.array([1, 2])))
    np.testing.assert_array_equal(family.have_own_scales(3), [False, True, True])
    assert not Gaussian(np.zeros(2), 1.0).have_own_scales(2).any()
