"""Families: densities, the appendix's derivatives, the averages of eq. 5 and 6."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dynpart.families import Bernoulli, Gaussian, column_moments, make_family
from dynpart.families._bernoulli import (
    bernoulli_curvature,
    bernoulli_expertise_derivative,
    bernoulli_opinion_derivatives,
    bernoulli_score,
)
from dynpart.families._frequencies import SHRINKAGES, WORTH_SHRINKING
from dynpart.families._gaussian import gaussian_expertise_derivative, gaussian_score

seeds = st.integers(0, 2**32 - 1)
STEP = 1e-6


def slope(f, at):
    """Central finite difference."""
    return (f(at + STEP) - f(at - STEP)) / (2 * STEP)


def bernoulli_density(x, mu):
    return x * np.log(mu) + (1 - x) * np.log(1 - mu)


def gaussian_density(x, mu, v):
    return stats.norm.logpdf(x, mu, np.sqrt(v))


def compose_bernoulli(e, mu_k):
    return (e * mu_k).sum() / e.sum()


def compose_gaussian(e, mu_k, v_k):
    r = e / e.sum()
    mu = (r * mu_k).sum()
    return mu, (r * (v_k + mu_k**2)).sum() - mu**2


@given(seeds)
def test_log_density_is_the_textbook_one(seed):
    rng = np.random.default_rng(seed)
    x, mu = rng.integers(0, 2, (3, 4)), rng.uniform(0.01, 0.99, (3, 4))
    bernoulli = Bernoulli()
    found = bernoulli.log_density(x, mu[None])
    np.testing.assert_allclose(found, stats.bernoulli.logpmf(x, mu), rtol=1e-10)

    y, v = rng.normal(3, 2, (3, 4)), rng.uniform(0.1, 3, (3, 4))
    gaussian = Gaussian(centre=rng.normal(3, 1, 4), floor=1e-3)
    found = gaussian.log_density(y, gaussian.from_moments(mu, v))
    np.testing.assert_allclose(found, gaussian_density(y, mu, v), rtol=1e-8)


@given(seeds)
def test_bernoulli_appendix_derivatives_match_finite_differences(seed):
    rng = np.random.default_rng(seed)
    x = float(rng.integers(0, 2))
    e, mu_k = rng.uniform(0.2, 3, 4), rng.uniform(0.1, 0.9, 4)
    mu, r = compose_bernoulli(e, mu_k), e / e.sum()

    score = bernoulli_score(x, mu)
    assert score == pytest.approx(slope(lambda m: bernoulli_density(x, m), mu), rel=1e-4)
    curvature = bernoulli_curvature(x, mu)
    assert curvature == pytest.approx(slope(lambda m: bernoulli_score(x, m), mu), rel=1e-4)
    assert curvature < 0

    def with_opinion(opinion):
        return bernoulli_density(x, compose_bernoulli(e, np.r_[opinion, mu_k[1:]]))

    first, second = bernoulli_opinion_derivatives(x, mu, r[0])
    assert first == pytest.approx(slope(with_opinion, mu_k[0]), rel=1e-4)
    assert second == pytest.approx(r[0] ** 2 * curvature)

    def with_expertise(level):
        return bernoulli_density(x, compose_bernoulli(np.r_[level, e[1:]], mu_k))

    found = bernoulli_expertise_derivative(x, mu, mu_k[0], e.sum())
    assert found == pytest.approx(slope(with_expertise, e[0]), rel=1e-3, abs=1e-8)


@given(seeds)
def test_gaussian_appendix_derivatives_match_finite_differences(seed):
    rng = np.random.default_rng(seed)
    x, e = rng.normal(), rng.uniform(0.2, 3, 4)
    mu_k, v_k = rng.normal(0, 1, 4), rng.uniform(0.2, 2, 4)
    mu, v = compose_gaussian(e, mu_k, v_k)

    by_mean, by_variance = gaussian_score(x, mu, v)
    assert by_mean == pytest.approx(
        slope(lambda m: gaussian_density(x, m, v), mu), rel=1e-4, abs=1e-7
    )
    assert by_variance == pytest.approx(
        slope(lambda w: gaussian_density(x, mu, w), v), rel=1e-4, abs=1e-7
    )

    def with_expertise(level):
        return gaussian_density(x, *compose_gaussian(np.r_[level, e[1:]], mu_k, v_k))

    found = gaussian_expertise_derivative(x, mu, v, mu_k[0], v_k[0], e.sum())
    assert found == pytest.approx(slope(with_expertise, e[0]), rel=1e-3, abs=1e-7)


@given(seeds)
def test_general_expertise_gradient_contains_both_appendix_formulas(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_experts, n_features = 3, 4, 5
    shape = (n_experts, n_features)
    e = rng.uniform(0.2, 3, shape)
    r = np.broadcast_to(e / e.sum(axis=0), (n_rows, *shape))

    bernoulli = Bernoulli()
    x = rng.integers(0, 2, (n_rows, n_features))
    mu_k = rng.uniform(0.1, 0.9, shape)
    mu = (r[0] * mu_k).sum(axis=0)
    found = bernoulli.expertise_gradient(
        bernoulli.statistics(x)[:, :, None], mu[None, None, None], mu_k[None], r
    )
    expected = e * bernoulli_expertise_derivative(x[:, None], mu, mu_k, e.sum(axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-9)

    gaussian = Gaussian(centre=rng.normal(size=n_features), floor=1e-3)
    y, m_k = rng.normal(size=(n_rows, n_features)), rng.normal(size=shape)
    v_k = rng.uniform(0.2, 2, shape)
    m = (r[0] * m_k).sum(axis=0)
    v = (r[0] * (v_k + m_k**2)).sum(axis=0) - m**2
    eta_k = gaussian.from_moments(m_k, v_k)
    eta = np.einsum("kd,skd->sd", r[0], eta_k)
    found = gaussian.expertise_gradient(
        gaussian.statistics(y)[:, :, None], eta[:, None, None], eta_k, r
    )
    expected = e * gaussian_expertise_derivative(y[:, None], m, v, m_k, v_k, e.sum(axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@given(seeds)
def test_pull_is_the_gradient_in_mean_parameters(seed):
    rng = np.random.default_rng(seed)
    gaussian = Gaussian(centre=np.zeros(1), floor=1e-3)
    eta = gaussian.from_moments(rng.normal(size=(1, 1)), rng.uniform(0.3, 2, (1, 1)))
    x = rng.normal(size=(1, 1))
    pull = gaussian.pull(gaussian.statistics(x), eta)
    for s in range(2):
        direction = np.zeros_like(eta)
        direction[s] = 1
        expected = slope(lambda t, d=direction: gaussian.log_density(x, eta + t * d)[0, 0], 0.0)
        assert pull[s, 0, 0] == pytest.approx(expected, rel=1e-4, abs=1e-6)


@given(seeds)
def test_updates_are_eq_5_and_6(seed):
    rng = np.random.default_rng(seed)
    n_rows, shape, epsilon = 9, (3, 4), 0.7
    r = rng.uniform(0, 1, (n_rows, *shape))
    y = rng.normal(100, 1, (n_rows, 4))
    moments = column_moments(y)
    family = Gaussian.for_data(moments, variance_floor=1e-9)
    T = family.statistics(y)
    eta = family.update(
        r.sum(axis=0), np.einsum("nkd,snd->skd", r, T), family.population(moments), epsilon
    )
    total = r.sum(axis=0) + epsilon
    mu = ((r * y[:, None]).sum(axis=0) + epsilon * y.mean(axis=0)) / total
    spread = (r * (y[:, None] - mu) ** 2).sum(axis=0)
    np.testing.assert_allclose(family.mean(eta), mu, rtol=1e-12)
    np.testing.assert_allclose(
        family.variance(eta), (spread + epsilon * y.var(axis=0)) / total, rtol=1e-9
    )


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments_of_blocks_add_up_without_losing_digits(offset):
    y = np.random.default_rng(0).normal(offset, 1, (50, 3))
    both = column_moments(y[:13]) + column_moments(y[13:])
    np.testing.assert_allclose(both.mean, y.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(both.variance, y.var(axis=0), rtol=1e-8)
    assert both.n_rows == 50


def test_auto_chooses_by_the_values():
    assert make_family("auto", column_moments(np.eye(3, dtype=bool))).name == "bernoulli"
    assert make_family("auto", column_moments(np.eye(3) / 2)).name == "gaussian"
    with pytest.raises(ValueError, match="family must be"):
        make_family("poison", column_moments(np.eye(3)))


def test_variance_floor_is_relative_to_the_data():
    y = np.random.default_rng(0).normal(0, 10, (400, 6))
    floor = Gaussian.for_data(column_moments(y), variance_floor=0.5).floor
    assert floor == pytest.approx(50, rel=0.1)
    assert floor == pytest.approx(0.5 * y.var(axis=0).mean())
    assert Gaussian.for_data(column_moments(np.ones((4, 2))), variance_floor=0.5).floor == 1


def test_bernoulli_names_the_first_value_that_is_not_binary():
    X = np.zeros((3, 2))
    X[1, 1] = 0.5
    with pytest.raises(ValueError, match=r"0\.5.* in row 1, column 1"):
        Bernoulli().check(X)


def test_equally_sure_opinions_say_the_same():
    mu = np.array([[[0.001, 0.4, 0.5, 0.65, 0.999]]])
    sure = Bernoulli().equally_sure(mu)
    np.testing.assert_array_equal(sure > 0.5, mu > 0.5)
    assert sure[0, 0, 0] == pytest.approx(1 - sure[0, 0, -1])
    np.testing.assert_array_equal(sure[0, 0, 1:4], mu[0, 0, 1:4])

    family = Gaussian(centre=np.array([1.0, -2.0]), floor=0.3)
    eta = family.from_moments(np.array([[2.0, 3.0]]), np.array([[0.5, 7.0]]))
    sure = family.equally_sure(eta)
    np.testing.assert_allclose(family.mean(sure), family.mean(eta))
    # log-densities are squared distances, up to a constant
    density = family.log_density(np.array([[2.5, 1.0]]), sure)[0]
    assert density[0] - density[1] == pytest.approx((2.0**2 - 0.5**2) / (2 * 0.3))


def shrunk_opinions(weight, T_sum, epsilon, amount):
    """Opinions of all experts, from the formula as it is documented."""
    n_rows, ones = weight.sum(axis=0), T_sum.sum(axis=0)
    share, of_all = weight / n_rows, (ones + 0.5) / (n_rows + 1)
    prior = epsilon * (1 - share)
    more = amount * np.sqrt(ones / n_rows * (1 - ones / n_rows))
    above = T_sum + share / 2 + prior * of_all + more
    return np.clip(above / (weight + share + prior + 2 * more), 1e-4, 1 - 1e-4)


def sums_of(X, owner, n_experts):
    """Sums of hard responsibilities: each row belongs to one expert."""
    r = np.eye(n_experts)[owner]
    weight = np.repeat(r.sum(axis=0)[:, None], X.shape[1], axis=1)
    return weight, r.T @ X


def left_out_likelihood(X, owner, n_experts, epsilon, amount):
    """Each row under the opinions that all others make."""
    total = 0.0
    for i, x in enumerate(X):
        others = np.arange(len(X)) != i
        sums = sums_of(X[others], owner[others], n_experts)
        mu = shrunk_opinions(*sums, epsilon, amount)[owner[i]]
        total += np.where(x, np.log(mu), np.log1p(-mu)).sum()
    return total


@pytest.mark.parametrize("n_experts", [1, 3])
@pytest.mark.parametrize("n_rows", [4, 12, 60])
@pytest.mark.parametrize("sharpness", [0.05, 0.3, 3.0])
def test_shrinkage_is_what_rows_left_out_ask_for(n_rows, sharpness, n_experts):
    rng = np.random.default_rng(n_rows)
    X = rng.random((n_rows, 300)) < rng.beta(sharpness, sharpness, 300)
    owner, epsilon = rng.integers(n_experts, size=n_rows), 0.7
    family = Bernoulli()
    weight, T_sum = sums_of(X, owner, n_experts)
    eta = family.update(weight, T_sum[None], X.mean(axis=0)[None], epsilon)
    sums, population = (weight, T_sum[None]), X.mean(axis=0)[None]
    found, amount = family.shrunk(eta, *sums, *sums, population, epsilon)
    worth = [left_out_likelihood(X, owner, n_experts, epsilon, tried) for tried in SHRINKAGES]
    clearly = max(worth) > worth[0] + WORTH_SHRINKING
    assert amount == (SHRINKAGES[int(np.argmax(worth))] if clearly else 0)
    expected = shrunk_opinions(weight, T_sum, epsilon, amount)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    told, same = family.shrunk(eta, *sums, *sums, population, epsilon, 4.0)
    assert same == 4.0
    np.testing.assert_allclose(told[0], shrunk_opinions(weight, T_sum, epsilon, 4.0), rtol=1e-12)


@given(seeds, st.integers(1, 5), st.floats(0.1, 3.0))
def test_shrinkage_keeps_what_all_rows_say(seed, n_experts, epsilon):
    """An expert that owns nothing has the column's opinion; all do for a constant column."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0, 9, (n_experts, 4))
    weight[:, 1] = 0
    weight[0, 1] = 7.5
    T_sum = weight * rng.uniform(0, 1, weight.shape)
    T_sum[:, 2], T_sum[:, 3] = 0, weight[:, 3]
    sums = weight, T_sum[None]
    population = T_sum.sum(axis=0) / weight.sum(axis=0)
    found, _ = Bernoulli().shrunk(T_sum[None], *sums, *sums, population[None], epsilon, 0.0)
    of_all = (T_sum.sum(axis=0) + 0.5) / (weight.sum(axis=0) + 1)
    np.testing.assert_allclose(found[0, 1:, 1], of_all[1])
    np.testing.assert_allclose(found[0, :, 2], of_all[2])
    np.testing.assert_allclose(found[0, :, 3], of_all[3])
    if n_experts == 1:
        np.testing.assert_allclose(found[0, 0], of_all)


def test_neighbours_count_as_rows_that_were_heard():
    weight, T_sum = np.full((2, 3), 5.0), np.array([[[5.0, 0, 1], [0, 5.0, 2]]])
    smoothed_weight, smoothed_T = weight + 20, T_sum + 20 * np.array([0.5, 0.1, 0.9])
    sums, population = (weight, T_sum), T_sum.sum(axis=1) / 10
    found, _ = Bernoulli().shrunk(
        T_sum / 5, *sums, smoothed_weight, smoothed_T, population, 1.0, 0.0
    )
    of_all = (T_sum[0].sum(axis=0) + 0.5) / 11
    np.testing.assert_allclose(found[0], (smoothed_T[0] + 0.25 + 0.5 * of_all) / 26)


def test_what_is_certain_is_not_shrunk_further():
    family, weight = Bernoulli(), np.full((2, 4), 8.0)
    T_sum = np.array([[[8.0, 0, 8, 0], [0, 8.0, 0, 8]]])
    eta = family.update(weight, T_sum, np.full((1, 4), 0.5), 1.0)
    sums, population = (weight, T_sum), np.full((1, 4), 0.5)
    found, amount = family.shrunk(eta, *sums, *sums, population, 1.0)
    assert amount == 0
    np.testing.assert_allclose(found, eta)
    gaussian = Gaussian(centre=np.zeros(4), floor=0.3)
    eta = gaussian.from_moments(np.ones((2, 4)), np.ones((2, 4)))
    sums = weight, np.stack([T_sum[0]] * 2)
    found, amount = gaussian.shrunk(eta, *sums, *sums, eta[:, 0], 1.0)
    assert amount == 0
    assert found is eta


def test_draws_follow_their_parameters():
    rng = np.random.RandomState(0)
    x = Bernoulli().draw(np.full((1, 20_000, 1), 0.3), rng)
    assert x.mean() == pytest.approx(0.3, abs=0.02)
    gaussian = Gaussian(centre=np.array([5.0]), floor=1e-3)
    eta = np.broadcast_to(
        gaussian.from_moments(np.array([[7.0]]), np.array([[4.0]])), (2, 20_000, 1)
    )
    y = gaussian.draw(eta, rng)
    assert y.mean() == pytest.approx(7, abs=0.1)
    assert y.var() == pytest.approx(4, rel=0.05)
