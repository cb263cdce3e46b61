"""Shrinkage of normal opinions: laws of units, of weights, of one expert and of none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynpart.families._spreads import shrunk_normals


def sums_of(X, share):
    """Rows per expert, sums of x and x^2, and mean and variance of the data."""
    weight = share.T @ np.ones_like(X)
    T = np.stack([share.T @ X, share.T @ X**2])
    return weight, T, (X.mean(axis=0), X.var(axis=0))


def shrunk(X, share):
    weight, T, data = sums_of(X, share)
    return shrunk_normals(weight, weight, T, data)


def draw(seed, n_experts=3, n_rows=60):
    rng = np.random.default_rng(seed)
    owner = rng.integers(n_experts, size=n_rows)
    X = rng.normal(size=(n_rows, 4)) * [1, 0.1, 5, 1] + 2 * rng.normal(size=(n_experts, 4))[owner]
    return X - X.mean(axis=0), np.eye(n_experts)[owner] * 0.9 + 0.1 / n_experts


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), factor=st.sampled_from([1e-6, 0.5, 39.37, 1e6]))
def test_another_unit_changes_the_unit_alone(seed, factor):
    X, share = draw(seed)
    unit = np.array([factor, 1, 1 / factor, factor])
    mean, variance = shrunk(X, share)
    other_mean, other_variance = shrunk(X * unit, share)
    np.testing.assert_allclose(other_mean, mean * unit, rtol=1e-6, atol=1e-9 * unit.max())
    np.testing.assert_allclose(other_variance, variance * unit**2, rtol=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_experts_and_columns_does_not_matter(seed):
    X, share = draw(seed)
    rng = np.random.default_rng(seed)
    experts, columns = rng.permutation(share.shape[1]), rng.permutation(X.shape[1])
    for found, other in zip(
        shrunk(X, share), shrunk(X[:, columns], share[:, experts]), strict=True
    ):
        np.testing.assert_allclose(other, found[experts][:, columns], rtol=1e-9, atol=1e-12)


def test_a_column_without_rows_has_finite_opinions():
    nothing = np.zeros((3, 1))
    data = np.array([-0.5]), np.array([1.75])
    mean, variance = shrunk_normals(nothing, nothing, np.zeros((2, 3, 1)), data)
    np.testing.assert_allclose(mean, -0.5)
    assert (variance >= 1.75).all()
    assert (variance < 10).all()


@pytest.mark.parametrize("n_rows", [3, 10, 100])
def test_one_expert_thinks_what_its_column_says(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    mean, variance = shrunk(X, np.ones((n_rows, 1)))
    np.testing.assert_allclose(mean[0], X.mean(axis=0), atol=1e-12)
    assert (variance[0] > X.var(axis=0, ddof=1)).all()
    np.testing.assert_allclose(variance[0], X.var(axis=0), rtol=20 / n_rows)


def test_an_expert_without_rows_thinks_what_the_data_says():
    X, share = draw(0, n_rows=2000)
    mean, variance = shrunk(X, np.c_[share, np.zeros(len(X))])
    np.testing.assert_allclose(mean[-1], X.mean(axis=0), atol=1e-9)
    assert (variance[-1] > 0.5 * X.var(axis=0)).all()


def test_experts_that_differ_by_chance_alone_have_one_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 50))
    share = np.eye(5)[rng.integers(5, size=len(X))]
    plain = sums_of(X, share)[1][0] / sums_of(X, share)[0]
    assert np.abs(shrunk(X, share)[0]).mean() < 0.6 * np.abs(plain).mean()


def test_experts_far_apart_keep_their_means_and_variances():
    rng = np.random.default_rng(0)
    owner = np.arange(90) % 3
    X = 100.0 * owner[:, None] + rng.normal(size=(90, 5))
    share = np.eye(3)[owner]
    weight, T, _ = sums_of(X, share)
    mean, variance = shrunk(X, share)
    np.testing.assert_allclose(mean, T[0] / weight, atol=0.01)
    assert variance.max() < 2


@pytest.mark.parametrize("almost_none", [0.0, 1e-18, 1e-12])
def test_rounding_does_not_make_an_expert_without_rows_infinitely_wide(almost_none):
    X = np.array([[-65216.70269380370], [65216.70269380365]])
    weight = np.array([[2.0], [almost_none]])
    T = np.stack([weight * 3.6e-11, weight * (X**2).mean()])  # a mean that is 0 but for rounding
    data = np.zeros(1), X.var(axis=0)
    _, variance = shrunk_normals(weight, weight, T, data)
    assert (variance < 100 * X.var(axis=0)).all()


def test_few_equal_values_may_be_equal_by_chance():
    """Experts that see one value each are narrow if they have many rows, not by their company."""
    owner = np.repeat(np.arange(4), [30, 30, 30, 1])
    X = np.array([0.0, 0.0, 1.0, 3.0])[owner][:, None]
    _, variance = shrunk(X - X.mean(axis=0), np.eye(4)[owner])
    assert (variance[:3, 0] < 1e-6 * X.var()).all()
    assert variance[3, 0] >= X.var()


def narrow_and_wide(n_rows=40):
    """A first column in which most experts hardly vary, among columns in which all vary equally."""
    rng = np.random.default_rng(0)
    owner = np.arange(8 * n_rows) % 8
    X = rng.normal(size=(len(owner), 20))
    X[:, 0] *= np.where(owner < 2, 1.0, 0.01)
    return X, np.eye(8)[owner]


def test_narrow_experts_of_a_column_stay_narrow_beside_columns_of_equal_experts():
    X, share = narrow_and_wide()
    _, variance = shrunk(X, share)
    assert variance[2:, 0].max() < 3e-4
    assert variance[:2, 0].min() > 0.5
    # The other columns have one variance, up to chance.
    assert variance[:, 1:].std() < 0.1


def test_an_expert_without_rows_in_a_column_of_narrow_experts_is_wide():
    X, share = narrow_and_wide()
    _, variance = shrunk(X, np.c_[share, np.zeros(len(X))])
    assert 0.5 < variance[-1, 0] / X[:, 0].var() < 2


def test_narrow_experts_are_surer_of_their_means():
    X, share = narrow_and_wide()
    X[:, 0] += 0.3 * share @ np.linspace(-1, 1, 8)
    weight, T, _ = sums_of(X, share)
    moved = np.abs(shrunk(X, share)[0] - T[0] / weight)[:, 0]
    assert moved[2:].max() < 0.1 * moved[:2].min()


@pytest.mark.parametrize("noise", [1e-9, 1e-8])
def test_rounding_does_not_decide_about_columns_whose_values_repeat(noise):
    """Experts of equal values have no variance; sums of these values may say 10^-16 instead."""
    owner = np.arange(120) % 2
    exact = np.c_[owner - 0.5, np.random.default_rng(0).normal(size=120)]
    rounded = exact + np.c_[noise * np.tile([1, 1, -1, -1], 30), np.zeros(120)]
    share = np.c_[np.eye(2)[owner], np.zeros(120)]
    for found, other in zip(shrunk(exact, share), shrunk(rounded, share), strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-3, atol=1e-9)
