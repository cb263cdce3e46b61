"""Shrinkage: what a single expert, an idle one and a constant variable must come to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_bars, make_pairs
from dynpart.engines import CodeSummary
from dynpart.learning._objective import activation_probabilities, joint_objective
from dynpart.prior import CodePrior
from tests.effort import examples

RATES = ("rare", "mixed", "even")


def rates_of(kind, rng, n_features):
    """Probabilities of a 1, column by column."""
    if kind == "rare":
        return 10 ** rng.uniform(-3, -1, n_features)
    if kind == "mixed":
        return rng.uniform(0.01, 0.5, n_features)
    return np.full(n_features, 0.5)


def expected_log_likelihood(rates, mean):
    """Of unseen rows, exactly, when the model says `mean` and `rates` are true."""
    return float((rates * np.log(mean) + (1 - rates) * np.log1p(-mean)).sum())


def one_expert(X, **settings):
    return DynamicPartitionModel(1, max_iter=4, random_state=0, **settings).fit(X)


def add_half(X):
    return (X.sum(axis=0) + 0.5) / (len(X) + 1)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(5, 200),
    st.integers(1, 300),
    st.sampled_from(RATES),
)
def test_one_expert_is_independent_columns(seed, n_rows, n_features, kind):
    rng = np.random.default_rng(seed)
    rates = rates_of(kind, rng, n_features)
    X = (rng.random((n_rows, n_features)) < rates).astype(np.uint8)
    model = one_expert(X)
    unseen = (rng.random((20, n_features)) < rates).astype(np.uint8)
    found = model.log_likelihood(unseen, np.ones((20, 1)))
    # A single expert is always active: to say so costs nothing.
    np.testing.assert_allclose(model.score_samples(unseen), found, atol=1e-9)
    if model.history_[-1].shrinkage == 0:
        p = add_half(X)
        np.testing.assert_allclose(model.means_[0], p, rtol=1e-12)
        np.testing.assert_allclose(found, np.log(np.where(unseen, p, 1 - p)).sum(axis=1))


@pytest.mark.parametrize("kind", RATES)
@pytest.mark.parametrize(("n_rows", "n_features"), [(5, 300), (20, 300), (50, 40), (200, 10)])
def test_more_shrinkage_than_half_a_row_pays_on_average(kind, n_rows, n_features):
    """Against the true rates, so that chance is in the training rows alone."""
    gains = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rates = rates_of(kind, rng, n_features)
        X = (rng.random((n_rows, n_features)) < rates).astype(np.uint8)
        ours, theirs = one_expert(X).means_[0], add_half(X)
        gains.append(expected_log_likelihood(rates, ours) - expected_log_likelihood(rates, theirs))
    assert np.mean(gains) > -1e-9
    if kind == "even" and n_features == 300:
        assert np.mean(gains) > 1


def test_a_survey_of_fifty_plots_is_told_as_well_as_by_frequencies():
    """Many rare species: no unseen one may come as an infinite surprise."""
    rng = np.random.default_rng(0)
    rates = rng.beta(0.3, 2.0, 300)
    X, unseen = ((rng.random((n, 300)) < rates).astype(np.uint8) for n in (50, 2000))
    p = add_half(X)
    theirs = np.log(np.where(unseen, p, 1 - p)).sum(axis=1).mean()
    assert one_expert(X).score(unseen) > theirs - 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@examples(10)
def test_a_constant_variable_is_known_as_well_as_the_rows_allow(seed, n_experts):
    """However the rows are shared out: half a row of the value that was never seen."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (40, 8)).astype(np.uint8)
    X[:, 3], X[:, 5] = 0, 1
    means = DynamicPartitionModel(n_experts, max_iter=6, random_state=seed % 1000).fit(X).means_
    np.testing.assert_allclose(means[:, 3], 0.5 / 41, rtol=1e-6)
    np.testing.assert_allclose(means[:, 5], 40.5 / 41, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_opinion_is_certain_for_want_of_rows():
    X = (np.random.default_rng(0).random((20, 200)) < 0.05).astype(np.uint8)
    means = DynamicPartitionModel(5, random_state=0).fit(X).means_
    assert means.min() > 1e-3


@pytest.mark.slow
def test_what_is_never_wrong_stays_crisp():
    pairs = DynamicPartitionModel(10, random_state=0).fit(make_pairs(5))
    # 16 of 32 rows each, and one row of the population, which is half and half
    crisp = 16.5 / 17
    codes = pairs.transform(make_pairs(5))
    composed = pairs.inverse_transform(codes)
    np.testing.assert_allclose(np.maximum(composed, 1 - composed), crisp, atol=0.002)
    bars = make_bars(5, 1000, random_state=0)
    model = DynamicPartitionModel(12, max_iter=60, random_state=0).fit(bars)
    assert model.history_[-1].shrinkage == 0
    assert model.log_likelihood(bars, model.transform(bars)).mean() > -0.1


@pytest.mark.parametrize("tol", [0.0, 10.0])
@pytest.mark.parametrize("max_iter", [1, 2, 3, 10])
def test_every_fit_ends_with_shrinkage(max_iter, tol):
    X = np.zeros((10, 4), dtype=np.uint8)
    X[0, 0] = 1
    model = DynamicPartitionModel(1, max_iter=max_iter, tol=tol, random_state=0).fit(X)
    np.testing.assert_allclose(model.means_[0], add_half(X), rtol=1e-12)


def test_the_paper_taken_literally_does_not_shrink():
    X = np.zeros((10, 2), dtype=np.uint8)
    X[0, 0] = 1
    model = DynamicPartitionModel(1, learning="paper", random_state=0).fit(X)
    np.testing.assert_allclose(model.means_[0], [0.1, 1e-4], rtol=1e-12)


def test_to_say_that_the_only_expert_is_active_costs_nothing():
    alone = activation_probabilities(CodeSummary(5, np.array([5]), -3.0))
    assert 0 < alone[0] < 1
    assert CodePrior.independent(alone).log_prob(np.ones((1, 1)))[0] == pytest.approx(0, abs=1e-11)
    assert joint_objective(CodeSummary(5, np.array([5]), -3.0)) == pytest.approx(-3.0 / 5)
    two = activation_probabilities(CodeSummary(5, np.array([5, 2]), -3.0))
    np.testing.assert_allclose(two, [5.5 / 6, 2.5 / 6])
