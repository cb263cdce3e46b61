"""Opinions and prior refitted to all codes, and sums over all codes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm, poisson

from dynpart import DynamicPartitionModel
from dynpart.encoding import log_likelihood
from dynpart.engines import row_log_base
from dynpart.enumeration import EveryCode, all_codes, are_few, n_codes
from dynpart.neighbourhood import all_summed
from dynpart.prior import fit_prior
from dynpart.refitting import _expected, is_affordable, refitted
from tests.strategies import problems
from tests.test_prior import random_prior


@settings(max_examples=40, deadline=None)
@given(n_experts=st.integers(1, 8), data=st.data())
def test_codes_within_limits_are_all_there_and_different(n_experts, data):
    fewest = data.draw(st.integers(1, n_experts))
    most = data.draw(st.integers(fewest, n_experts))
    codes = all_codes(n_experts, fewest, most)
    assert len(codes) == n_codes(n_experts, fewest, most)
    assert len(np.unique(codes, axis=0)) == len(codes)
    assert set(codes.sum(axis=1)) == set(range(fewest, most + 1))


def test_many_codes_are_not_few():
    assert are_few((10, 50))
    assert not are_few((11, 50))
    assert are_few((11, 50), 1, 2)
    assert not are_few((10, 100_000))
    assert not are_few((100_000, 2))
    assert not is_affordable(10**9, (8, 20), (1, 8))
    assert not is_affordable(100, (1, 20), (1, 1))


@settings(max_examples=30, deadline=None)
@given(problem=problems(max_experts=5), seed=st.integers(0, 1000))
def test_sums_over_all_codes_are_those_of_each(problem, seed):
    experts, rows = problem
    prior, codes = random_prior(seed, 2, experts.n_experts), all_codes(experts.n_experts)
    found = all_summed(rows, experts, prior)
    base = row_log_base(rows, experts.family) + np.zeros(len(rows))
    value = np.stack(
        [log_likelihood(rows, np.tile(code, (len(rows), 1)), experts) for code in codes], axis=1
    )
    value += prior.log_prob(codes) - base[:, None]
    total = logsumexp(value, axis=1)
    np.testing.assert_allclose(found.log_density, total, rtol=1e-6, atol=1e-6)
    share = np.exp(value - total[:, None]) @ codes
    np.testing.assert_allclose(found.activation, share, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(problem=problems(max_experts=4), seed=st.integers(0, 1000))
def test_expected_sums_of_weighted_rows_are_those_of_repeated_ones(problem, seed):
    experts, rows = problem
    prior = random_prior(seed, 2, experts.n_experts)
    every = EveryCode.of(experts, all_codes(experts.n_experts))
    often = np.random.default_rng(seed).integers(0, 4, len(rows))
    often[0] = 1
    weighed = rows.weighing(often.astype(np.float64))
    again = rows[np.repeat(np.arange(len(rows)), often)].weighing(None)
    for found, expected in zip(
        _expected(weighed, every, experts, prior),
        _expected(again, every, experts, prior),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def overlapping(seed=0, n_rows=600):
    """Three columns whose three groups overlap."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(3, size=n_rows)
    return np.array([[0.0, 0, 0], [2, 0, 1], [0, 2, 2]])[owner] + rng.normal(size=(n_rows, 3))


def as_frame(X):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X, columns=[f"c{d}" for d in range(X.shape[1])])


def test_refitting_makes_rows_likelier():
    X = as_frame(overlapping())
    model = DynamicPartitionModel(3, max_iter=10, random_state=0, max_active=1).fit(X)
    rows = model._checked_rows(X, model._engine(X)).to_numpy()
    experts, population = model._experts(), model.family_.population(model._moments)
    # Variances as hard assignments leave them are too small.
    hard = experts.family.from_moments(model.means_, 0.5 * model.variances_)
    hard = type(experts)(experts.family, hard, experts.log2_expertise)
    told = rows, hard, model.prior_, (1, 1), population, 1.0, fit_prior
    found = refitted(*told)
    again, prior = found.experts, found.prior
    before = all_summed(rows, hard, model.prior_).log_density.mean()
    after = all_summed(rows, again, prior).log_density.mean()
    assert after > before + 0.05
    assert found.log_likelihood == pytest.approx(after, abs=0.01)
    np.testing.assert_array_equal(again.log2_expertise, hard.log2_expertise)


def test_fitted_numbers_are_counted_by_the_kind_of_a_column():
    """One of a binary column and of a count, two of a real one, one less than levels."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=200)
    X = pandas.DataFrame(
        {
            "flag": (group ^ (rng.random(200) < 0.1)).astype(bool),
            "colour": np.array(["red", "green", "blue", "white"])[
                group + 2 * (rng.random(200) < 0.5)
            ],
            "visits": rng.poisson(1 + 4 * group),
            "size": rng.normal(size=200) + 3 * group,
        }
    )
    model = DynamicPartitionModel(2, columns={"visits": "count"}, max_active=1, random_state=0)
    model.fit(X)
    assert model.family_.free_parameters(4) == (1, 3, 1, 2)
    rows = model._checked_rows(X, model._engine(X)).to_numpy()
    population = model.family_.population(model._moments)
    found = refitted(rows, model._experts(), model.prior_, (1, 1), population, 1.0, fit_prior)
    assert found.n_parameters == 2 * 7 + found.prior.n_types * 3


def test_unseen_rows_of_overlapping_groups_are_likelier_than_by_columns():
    X, unseen = overlapping(0), overlapping(1)
    model = DynamicPartitionModel(3, random_state=0).fit(as_frame(X))
    alone = norm.logpdf(unseen, X.mean(axis=0), X.std(axis=0)).sum(axis=1).mean()
    assert model.log_density(as_frame(unseen)).mean() > alone + 0.05


def test_a_unit_changes_the_density_by_its_logarithm():
    X = overlapping()
    unit = np.array([1.0, 1024.0, 1 / 64])
    model = DynamicPartitionModel(3, max_iter=10, random_state=0).fit(as_frame(X))
    other = DynamicPartitionModel(3, max_iter=10, random_state=0).fit(as_frame(X * unit))
    expected = model.log_density(as_frame(X)) - np.log(unit).sum()
    np.testing.assert_allclose(other.log_density(as_frame(X * unit)), expected, atol=1e-3)


def species(seed, n_rows=300, n_species=25, n_habitats=4, dispersion=0.5):
    """Counts of species at sites: habitats differ by factors, counts are over-dispersed."""
    rng = np.random.default_rng(seed)
    habitat = rng.integers(n_habitats, size=n_rows)
    usual = np.exp(rng.normal(0.5, 1, n_species))
    mean = usual * np.exp(rng.normal(0, 1.2, (n_habitats, n_species)))[habitat]
    rate = mean * rng.gamma(1 / dispersion, dispersion, mean.shape)
    return rng.poisson(rate).astype(np.float64), habitat


def test_counts_of_species_are_likelier_by_habitats():
    X, habitat = species(0)
    train, unseen = X[:200], X[200:]

    def density(n_experts):
        model = DynamicPartitionModel(n_experts, columns="count", random_state=0, max_iter=15)
        return model.fit(as_frame(train)).log_density(as_frame(unseen)).mean()

    # A Poisson mixture can do no better than know the habitat of every site.
    means = np.stack([train[habitat[:200] == h].mean(axis=0) + 0.01 for h in range(4)])
    poissons = poisson.logpmf(unseen, means[habitat[200:]]).sum(axis=1).mean()
    several = density(4)
    assert several > density(1) + 2
    assert several > poissons + 2
