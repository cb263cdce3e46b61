"""Priors fitted to codes: weights count rows, dependences are found, noise is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.prior import CodePrior, fit_prior, independent_prior
from tests.effort import examples
from tests.test_prior import all_codes, random_prior


def entropy(prior):
    log_p = prior.log_prob(all_codes(prior.n_experts))
    return -(np.exp(log_p) @ log_p)


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 120))
def test_a_weight_is_as_many_equal_rows(seed, n_experts, n_rows):
    rng = np.random.default_rng(seed)
    codes = rng.random((n_rows, n_experts)) < rng.random(n_experts)
    weight = rng.integers(0, 4, n_rows)
    if not weight.sum():
        return
    by_weight = fit_prior(codes, weight.astype(float))
    repeated = fit_prior(np.repeat(codes, weight, axis=0))
    shuffled = fit_prior(rng.permutation(np.repeat(codes, weight, axis=0)))
    for other in (repeated, shuffled):
        np.testing.assert_array_equal(by_weight.parent, other.parent)
        np.testing.assert_allclose(by_weight.log_table, other.log_table)
        np.testing.assert_allclose(by_weight.log_weight, other.log_weight)


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 300))
def test_every_fitted_prior_is_a_distribution(seed, n_experts, n_rows):
    rng = np.random.default_rng(seed)
    codes = rng.random((n_rows, n_experts)) < rng.random(n_experts) ** 2
    for prior in (fit_prior(codes), independent_prior(codes)):
        log_p = prior.log_prob(all_codes(n_experts))
        assert np.isfinite(log_p).all()
        assert np.exp(log_p).sum() == pytest.approx(1)
        assert prior.generations.max() < n_experts


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_of_trees_is_found(seed):
    truth = random_prior(seed, 2, 6)
    codes, _ = truth.sample(6000, np.random.default_rng(seed))
    unseen, _ = truth.sample(6000, np.random.default_rng(seed + 100))
    best = truth.log_prob(unseen).mean()
    assert fit_prior(codes).log_prob(unseen).mean() > best - 0.02
    assert independent_prior(codes).log_prob(unseen).mean() < best - 0.05


def test_pairs_of_exclusive_experts_are_edges_even_in_few_rows():
    bits = all_codes(5)
    prior = fit_prior(np.c_[bits, 1 - bits])
    assert prior.n_types == 1
    assert {frozenset((k, int(j))) for k, j in enumerate(prior.parent[0]) if j >= 0} == {
        frozenset((k, k + 5)) for k in range(5)
    }
    assert entropy(prior) / np.log(2) == pytest.approx(5.5, abs=0.5)


def test_one_active_expert_costs_its_logarithm():
    codes = np.eye(16)[np.random.default_rng(0).integers(16, size=2000)]
    unseen = np.eye(16)
    assert fit_prior(codes).log_prob(unseen).mean() == pytest.approx(-np.log(16), abs=0.1)
    assert independent_prior(codes).log_prob(unseen).mean() < -np.log(16) - 0.8


@pytest.mark.parametrize("n_rows", [30, 300, 3000])
def test_independent_bits_stay_independent(n_rows):
    rng = np.random.default_rng(n_rows)
    p = rng.uniform(0.1, 0.9, 12)
    codes, unseen = rng.random((n_rows, 12)) < p, rng.random((3000, 12)) < p
    loss = (
        independent_prior(codes).log_prob(unseen).mean() - fit_prior(codes).log_prob(unseen).mean()
    )
    assert loss < 0.05


def test_frequencies_are_kept_off_certainty_by_half_a_row():
    codes = np.array([[1, 0], [1, 0], [1, 0]])
    np.testing.assert_allclose(independent_prior(codes).mean_activation, [3.5 / 4, 0.5 / 4])
    assert fit_prior(np.ones((5, 1))).log_prob(np.ones((1, 1)))[0] == pytest.approx(0, abs=1e-9)
    assert isinstance(fit_prior(np.ones((0, 3))), CodePrior)


@pytest.mark.parametrize("weight", [16384.0, 1e9, 1e15])
def test_an_expert_active_in_very_many_rows_is_not_certain(weight):
    """Population weights add up to hundreds of millions of rows."""
    for codes in (np.ones((1, 1)), np.c_[np.ones(6), np.arange(6) % 2]):
        prior = fit_prior(codes, np.full(len(codes), weight))
        assert np.isfinite(prior.log_prob(codes)).all()
        assert np.isfinite(prior.log_prob(1 - codes)).all()
