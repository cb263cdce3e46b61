"""The weight of the data's average in opinions, chosen by the likelihood of the sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from dynpart.engines import ResponsibilitySums
from dynpart.families import Bernoulli, Categorical, Count, Family, Gaussian
from dynpart.learning._epsilon import CANDIDATES, likeliest_epsilon
from tests.strategies import FAMILIES, make_family_of, make_values

USUAL = 0.5


def sums_of(family, X, kind, n_experts):
    """Sums of rows that have one expert each."""
    alone = np.arange(n_experts)[:, None] == kind
    T = family.statistics_of(X)
    weight = np.repeat(alone.sum(axis=1, dtype=float)[:, None], X.shape[1], axis=1)
    return ResponsibilitySums(np.stack([weight, *(alone @ t for t in T)]))


def normaliser(family, weight, T_sum, theta, step):
    """The integral in the definition of `conjugate`, by the rectangle rule over natural parameters.

    `theta` returns, for each point, the natural parameters and the log-normaliser of a variable.
    """
    natural, A = theta
    exponent = sum(t * s for t, s in zip(natural, T_sum, strict=True)) - weight * A
    return logsumexp(exponent) + np.log(step)


LINE = np.linspace(-60, 30, 90_001)


def of_bernoulli():
    return Bernoulli(), ((LINE,), np.logaddexp(0, LINE))


def of_poisson():
    return Count(np.zeros(1)), ((LINE,), np.exp(LINE))


def of_dispersed():
    below = LINE[LINE < -1e-6]
    return Count(np.full(1, 0.4)), ((below,), -np.log(-np.expm1(below)) / 0.4)


def of_one_scale():
    return Gaussian(centre=np.zeros(1), floor=0.7), ((LINE,), 0.35 * LINE * LINE)


def of_own_scale():
    """Natural parameters (m / v, -1 / 2v), as squares on a grid of m / v and log v."""
    first, log_v = np.meshgrid(np.linspace(-60, 60, 2401), np.linspace(-6, 7, 1301))
    v = np.exp(log_v)
    # -1 / 2v changes by exp(-log v) / 2 per unit of log v.
    A = 0.5 * (first * first * v + log_v)
    return Gaussian(centre=np.zeros(1), floor=np.full(1, 1e-9)), ((first, -0.5 / v), A), log_v


def data(family, rng, n):
    if isinstance(family, Bernoulli):
        return rng.integers(0, 2, n).astype(float)
    if isinstance(family, Count):
        return rng.poisson(3.0, n).astype(float)
    return rng.normal(0.3, 1.2, n)


@pytest.mark.parametrize("case", [of_bernoulli, of_poisson, of_dispersed, of_one_scale])
@pytest.mark.parametrize("seed", range(3))
def test_a_difference_of_normalisers_is_the_likelihood_of_the_sums(case, seed):
    family, theta = case()
    rng = np.random.default_rng(seed)
    X = data(family, rng, 7)
    rows, mean = rng.uniform(0.5, 20), rng.uniform(0.2, 0.8)
    prior = np.array([[rows]]), np.array([rows * mean])
    told = np.array([[rows + 7]]), np.array([rows * mean + X.sum()])

    def integral(weight, T_sum):
        return normaliser(family, weight[0, 0], T_sum[:1], theta, LINE[1] - LINE[0])

    def conjugate(weight, T_sum):
        second = np.zeros((family.n_statistics - 1, 1, 1))
        return family.conjugate(weight, np.concatenate([T_sum[None, :, None], second]))[0, 0]

    expected = integral(*told) - integral(*prior)
    assert conjugate(*told) - conjugate(*prior) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_so_it_is_for_means_and_variances_together(seed):
    family, (natural, A), log_v = of_own_scale()
    rng = np.random.default_rng(seed)
    X = data(family, rng, 7)
    rows, mean, variance = rng.uniform(3, 20), rng.normal(0, 0.3), rng.uniform(0.8, 2)
    prior = rows, rows * np.array([mean, mean**2 + variance])
    told = rows + 7, prior[1] + np.array([X.sum(), (X * X).sum()])

    def integral(weight, T_sum):
        exponent = natural[0] * T_sum[0] + natural[1] * T_sum[1] - weight * A - log_v
        return logsumexp(exponent)

    def conjugate(weight, T_sum):
        # The definition leaves a multiple of the weight open.
        found = family.conjugate(np.array([[weight]]), T_sum[:, None, None])[0, 0]
        return found + 0.5 * weight * np.log(2)

    expected = integral(*told) - integral(*prior)
    assert conjugate(*told) - conjugate(*prior) == pytest.approx(expected, abs=1e-3)


def test_levels_are_normalised_as_two_of_them_are():
    binary, two = Bernoulli(), Categorical.with_levels(np.array([2, 3]))
    weight, ones = np.full((1, 1), 9.0), np.full((1, 1, 1), 2.5)
    levels = np.array([6.5, 2.5, 0.0])[:, None, None] * np.ones((1, 1, 2))
    levels[2, 0, 1], levels[0, 0, 1] = 4.0, 2.5
    found = two.conjugate(np.full((1, 2), 9.0), levels)
    assert found[0, 0] == pytest.approx(binary.conjugate(weight, ones)[0, 0])
    # With levels 1 and 2 taken together and then told apart, the probabilities multiply.
    split = binary.conjugate(weight, ones) + binary.conjugate(weight - 2.5, ones)
    assert found[0, 1] == pytest.approx(split[0, 0])


@pytest.mark.parametrize("rows", [2.0, 32.0, 256.0])
def test_the_weight_of_the_prior_that_made_the_experts_is_found(rows):
    rng = np.random.default_rng(0)
    usual = rng.uniform(0.1, 0.9, 40)
    p = rng.beta(rows * usual, rows * (1 - usual), (60, 40))
    sums = ResponsibilitySums(np.stack([np.full(p.shape, 200.0), rng.binomial(200, p)]))
    found = likeliest_epsilon(Bernoulli(), sums, usual[None], USUAL)
    assert found.shape == (40,)
    assert np.median(found) == pytest.approx(rows, rel=0.3)


def test_variables_differ_in_it():
    """Experts differ about the first ten variables, and by chance alone about the others."""
    rng = np.random.default_rng(1)
    p = np.where(np.arange(20) < 10, rng.choice([0.1, 0.9], (30, 20)), 0.5)
    sums = ResponsibilitySums(np.stack([np.full(p.shape, 100.0), rng.binomial(100, p)]))
    found = likeliest_epsilon(Bernoulli(), sums, np.full((1, 20), 0.5), USUAL)
    assert found[:10].max() < 3
    assert found[10:].min() > 100


@given(seed=st.integers(0, 2**32 - 1), family_name=st.sampled_from(FAMILIES))
def test_the_order_of_experts_and_variables_does_not_matter(seed, family_name):
    rng = np.random.default_rng(seed)
    family = make_family_of(rng, family_name, 6)
    X, kind = make_values(rng, family, (50, 6)), rng.integers(0, 4, 50)
    sums = sums_of(family, X, kind, 4)
    population = sums.statistics.sum(axis=1) / 50
    found = likeliest_epsilon(family, sums, population, USUAL)
    some = found != USUAL
    assert (found[some] >= CANDIDATES[0] * 0.999).all()
    assert (found[some] <= CANDIDATES[-1] * 1.001).all()
    experts, columns = rng.permutation(4), rng.permutation(6)
    again = ResponsibilitySums(sums.array[:, experts][:, :, columns])
    family, population = family.of_columns(columns), population[:, columns]
    found_again = likeliest_epsilon(family, again, population, USUAL)
    np.testing.assert_allclose(found_again, found[columns], rtol=1e-6)


def test_a_family_without_conjugate_priors_keeps_the_usual_weight():
    class Plain(Bernoulli):
        conjugate = Family.conjugate

    X = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(float)
    sums = sums_of(Plain(), X, np.arange(30) % 4, 4)
    found = likeliest_epsilon(Plain(), sums, X.mean(axis=0)[None], USUAL)
    np.testing.assert_array_equal(found, [USUAL] * 3)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_column_without_finite_likelihoods_leaves_the_others_alone(bad):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (50, 4)).astype(float)
    sums, usual = sums_of(Bernoulli(), X, np.arange(50) % 4, 4), X.mean(axis=0)[None]
    broken = ResponsibilitySums(sums.array.copy())
    broken.array[1, :, 2] = bad
    found = likeliest_epsilon(Bernoulli(), broken, usual, USUAL)
    assert found[2] == USUAL
    # The column has no preference, which makes the common weight of the others less certain.
    expected, others = likeliest_epsilon(Bernoulli(), sums, usual, USUAL), [0, 1, 3]
    np.testing.assert_allclose(found[others], expected[others], rtol=0.5)


@pytest.mark.parametrize("family_name", FAMILIES)
def test_torch_finds_the_same_weights(family_name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    family = make_family_of(rng, family_name, 6)
    X, kind = make_values(rng, family, (50, 6)), rng.integers(0, 4, 50)
    sums = sums_of(family, X, kind, 4)
    population = sums.statistics.sum(axis=1) / 50
    there = ResponsibilitySums(torch.as_tensor(sums.array))
    placed, average = family.like(there.array), torch.as_tensor(population)
    found = likeliest_epsilon(placed, there, average, USUAL)
    expected = likeliest_epsilon(family, sums, population, USUAL)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)
