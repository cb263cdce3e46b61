"""Categorical, count, real and mixed columns: densities, derivatives, shrinkage, files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dynpart.arrays import to_numpy
from dynpart.composition import compose_smoothed, responsibilities
from dynpart.families import (
    OWN_FLOOR,
    Bernoulli,
    Categorical,
    Count,
    Gaussian,
    Mixed,
    column_moments,
    family_class,
    make_family,
)
from tests.effort import examples
from tests.strategies import FAMILIES, make_family_of, make_opinions, make_values

seeds = st.integers(0, 2**32 - 1)
every_family = pytest.mark.parametrize("name", FAMILIES)


def counted(X, n_levels):
    """Moments of a table of levels."""
    moments = column_moments(X)
    levels = [(v == X).sum(axis=0) for v in range(n_levels)]
    return type(moments)(**{**vars(moments), "levels": np.array(levels, dtype=float)})


# -------------------------------------------------------------------------------- densities


@given(seeds)
def test_densities_are_those_of_another_library(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4))
    family = Categorical.with_levels([4])
    x = rng.integers(0, 4)
    found = family.log_density(np.array([[float(x)]]), family.constrain(p[:, None, None]))
    assert found[0, 0] == pytest.approx(np.log(p[x]), abs=1e-3)
    mu, dispersion, y = rng.gamma(2.0, 3.0), rng.choice([0.0, 0.3, 2.0]), rng.poisson(4.0)
    count = Count(np.array([dispersion]))
    found = count.log_density(np.array([[float(y)]]), count.constrain(np.full((1, 1, 1), mu)))
    size = 1 / dispersion if dispersion else 0.0
    expected = (
        stats.nbinom.logpmf(y, size, size / (size + mu)) if size else stats.poisson.logpmf(y, mu)
    )
    assert found[0, 0] == pytest.approx(expected)


@every_family
@given(seeds)
@examples(20)
def test_probabilities_of_levels_and_of_counts_sum_to_one(name, seed):
    family = make_family_of(np.random.default_rng(seed), name, 5)
    eta = make_opinions(np.random.default_rng(seed), family, (3, 5))
    if family.n_levels is not None:
        p = family.level_probabilities(eta)
        exists = np.arange(family.n_levels)[:, None] < getattr(family, "levels", np.full(5, 2))
        np.testing.assert_allclose(np.where(exists[:, None], p, 0).sum(axis=0), 1, rtol=1e-9)
    if isinstance(family, Count):
        values = np.arange(4000.0)[:, None] + np.zeros(5)
        for k in range(3):
            said = np.broadcast_to(eta[:, k][:, None], (2, 4000, 5))
            total = np.exp(family.log_density(values, said)).sum(axis=0)
            np.testing.assert_allclose(total, 1, atol=1e-3)


# ------------------------------------------------------------------------------ derivatives


@every_family
@given(seeds)
@examples(25)
def test_expertise_gradients_are_differences_of_the_composed_density(name, seed):
    """The general formula against finite differences of log P under the smoothed rule."""
    rng = np.random.default_rng(seed)
    family = make_family_of(rng, name, 4)
    eta, log2_expertise = make_opinions(rng, family, (3, 4)), rng.normal(0, 1, (3, 4))
    X = make_values(rng, family, (5, 4)).astype(float)
    X[0, 0] = np.nan
    values, active = family.encode(X), np.ones((5, 3), dtype=bool)

    def density(levels):
        r = responsibilities(levels, active)
        return family.log_density(values, compose_smoothed(eta, r))

    r = responsibilities(log2_expertise, active)
    T = family.statistics(values)[:, :, None]
    g = family.expertise_gradient(T, compose_smoothed(eta, r)[:, :, None], eta, r)
    step = 1e-5
    for k in range(3):
        for d in range(4):
            moved = np.zeros((3, 4))
            moved[k, d] = step / np.log(2)
            slope = (density(log2_expertise + moved) - density(log2_expertise - moved)) / (2 * step)
            seen = ~np.isnan(X[:, d])
            scale = 1 + np.abs(slope[seen, d]).max(initial=0.0)
            np.testing.assert_allclose(g[seen, k, d], slope[seen, d], atol=1e-5 * scale)


@given(seeds)
def test_the_gradient_of_levels_needs_the_observed_one_alone(seed):
    rng = np.random.default_rng(seed)
    family = make_family_of(rng, "categorical", 3)
    eta = make_opinions(rng, family, (4, 3))
    X = make_values(rng, family, (6, 3))
    r = responsibilities(rng.normal(0, 1, (4, 3)), np.ones((6, 4), dtype=bool))
    composed = compose_smoothed(eta, r)
    T = family.statistics(family.encode(X))
    g = family.expertise_gradient(T[:, :, None], composed[:, :, None], eta, r)
    level = X.astype(int)
    at = np.arange(3)
    p_k = eta[level[:, None], np.arange(4)[:, None], at]
    p = np.take_along_axis(composed, level[None], axis=0)[0]
    np.testing.assert_allclose(g, r * (p_k / p[:, None] - 1), atol=1e-12)


@given(seeds)
def test_two_levels_are_a_binary_variable(seed):
    """Densities, gradients, averages and shrinkage are those of the Bernoulli family."""
    rng = np.random.default_rng(seed)
    two, one = Categorical.with_levels([2, 2], [True, True]), Bernoulli()
    mu = one.constrain(rng.uniform(0, 1, (1, 3, 2)))
    eta = np.concatenate([1 - mu, mu])
    X = rng.integers(0, 2, (7, 2)).astype(np.uint8)
    r = responsibilities(rng.normal(0, 1, (3, 2)), np.ones((7, 3), dtype=bool))
    for family, opinions in ((two, eta), (one, mu)):
        composed = compose_smoothed(opinions, r)
        T = family.statistics(X)[:, :, None]
        g = family.expertise_gradient(T, composed[:, :, None], opinions, r)
        density = family.log_density(X, composed)
        if family is two:
            expected = density, g
    np.testing.assert_allclose(density, expected[0])
    np.testing.assert_allclose(g, expected[1], atol=1e-9)
    np.testing.assert_allclose(two.mean(eta), one.mean(mu))
    np.testing.assert_allclose(two.variance(eta), one.variance(mu))
    weight, ones = r.sum(axis=0), (r * X[:, None]).sum(axis=0)
    mean = X.mean(axis=0)
    sums = weight, np.stack([weight - ones, ones])
    average = np.stack([1 - mean, mean])
    updated = two.update(*sums, average, 1.0)
    np.testing.assert_allclose(updated[1], one.update(weight, ones[None], mean[None], 1.0)[0])
    for amount in (None, 0.0, 1.0):
        found, chosen = two.shrunk(eta, *sums, *sums, average, 1.0, amount)
        exact, expected = one.shrunk(
            mu, weight, ones[None], weight, ones[None], mean[None], 1.0, amount
        )
        assert chosen == expected
        np.testing.assert_allclose(found[1], exact[0])


# -------------------------------------------------------------------------------- shrinkage


def alone(family, X, moments):
    """What one expert thinks at the end of learning."""
    T = family.statistics(family.encode(X))
    sums = np.full((1, X.shape[1]), float(len(X))), T.sum(axis=1)[:, None]
    population = family.population(moments)
    family = family.settled(*sums)
    eta = family.update(*sums, population, 1.0)
    return family, family.shrunk(eta, *sums, *sums, population, 1.0, 0.0)[0]


@given(seeds, st.integers(3, 60), st.integers(2, 6))
def test_one_expert_of_levels_adds_half_a_row_to_each(seed, n_rows, n_levels):
    X = np.random.default_rng(seed).integers(0, n_levels, (n_rows, 4)).astype(float)
    family = Categorical.with_levels([n_levels] * 4)
    moments = counted(X, n_levels)
    _, eta = alone(family, X, moments)
    expected = (moments.levels + 0.5) / (n_rows + n_levels / 2)
    np.testing.assert_allclose(eta[:, 0], expected)


@given(seeds, st.integers(3, 60))
def test_one_expert_of_counts_adds_half_a_count(seed, n_rows):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 3.0, 4), (n_rows, 4)).astype(float)
    _, eta = alone(Count.for_data(column_moments(X), variance_floor=1.0), X, column_moments(X))
    np.testing.assert_allclose(eta[0, 0], (X.sum(axis=0) + 0.5) / n_rows)


@pytest.mark.parametrize("n_rows", [6, 10, 30, 200])
def test_one_expert_of_numbers_is_no_worse_than_independent_gaussians(n_rows):
    """On unseen rows, on average; on few rows clearly better than the likeliest variances."""
    gains = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scale = 10.0 ** rng.integers(-5, 6, 30)
        X, unseen = (scale * rng.normal(size=(n, 30)) for n in (n_rows, 500))
        moments = column_moments(X)
        family, eta = alone(Gaussian.for_columns(moments, variance_floor=0.05), X, moments)
        ours = family.log_density(unseen, np.broadcast_to(eta, (2, 500, 30))).sum(axis=1).mean()
        theirs = stats.norm.logpdf(unseen, X.mean(axis=0), X.std(axis=0)).sum(axis=1).mean()
        gains.append(ours - theirs)
    assert np.mean(gains) > 0
    if n_rows <= 10:
        assert np.mean(gains) > 1


def test_dispersion_is_what_experts_leave():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4000)
    mean = np.where(group[:, None], [20.0, 8.0], [2.0, 1.0])
    poisson = rng.poisson(mean).astype(float)
    mixed = rng.poisson(mean * rng.gamma(2.0, 0.5, mean.shape)).astype(float)
    for X, dispersion in ((poisson, 0.0), (mixed, 0.5)):
        family = Count.for_data(column_moments(X), variance_floor=1.0)
        assert (family.dispersion > 0.4).all()
        T = family.statistics(X)
        weight = np.array([[np.sum(group == k)] * 2 for k in (0, 1)], dtype=float)
        T_sum = np.stack([T[:, group == k].sum(axis=1) for k in (0, 1)], axis=1)
        np.testing.assert_allclose(family.settled(weight, T_sum).dispersion, dispersion, atol=0.08)


def test_variances_of_experts_that_saw_few_rows_lean_on_the_others():
    rng = np.random.default_rng(0)
    weight = np.array([[400.0], [400.0], [3.0]])
    X = [rng.normal(0, 1, int(w)) for w in weight[:, 0]]
    X[2] = np.array([0.0, 0.01, -0.01])
    family = Gaussian(np.zeros(1), np.array([1e-6]))
    T_sum = np.array([[[x.sum()] for x in X], [[(x * x).sum()] for x in X]])
    population = np.array([[0.0], [1.0]])
    sums = weight, T_sum
    eta = family.update(*sums, population, 1.0)
    v = family.variance(family.shrunk(eta, *sums, *sums, population, 1.0)[0])[:, 0]
    np.testing.assert_allclose(v[:2], 1, atol=0.2)
    assert v[2] > 0.3


# ------------------------------------------------------------------- what every family can do


@every_family
@given(seeds)
@examples(15)
def test_columns_can_be_taken_out(name, seed):
    rng = np.random.default_rng(seed)
    family = make_family_of(rng, name, 6)
    eta = make_opinions(rng, family, (3, 6))
    X = make_values(rng, family, (4, 6)).astype(float)
    columns = rng.permutation(6)[:3]
    part = family.of_columns(columns)
    assert part.kinds_of_columns(3) == tuple(np.array(family.kinds_of_columns(6))[columns])
    said = np.broadcast_to(eta[:, :1], (len(eta), 4, 6))
    whole = family.log_density(family.encode(X), said)[:, columns]
    own = part.log_density(part.encode(X[:, columns]), said[: part.n_statistics, ..., columns])
    np.testing.assert_allclose(own, whole)
    np.testing.assert_allclose(part.mean(eta[: part.n_statistics, :, columns]),
                               family.mean(eta)[:, columns])  # fmt: skip


@every_family
@given(seeds)
@examples(15)
def test_what_is_drawn_has_a_probability_and_what_is_likeliest_too(name, seed):
    rng = np.random.default_rng(seed)
    family = make_family_of(rng, name, 5)
    eta = make_opinions(rng, family, (40, 5))
    drawn = np.asarray(family.draw(eta, np.random.RandomState(0)), dtype=float)
    family.check(drawn)
    family.check(np.asarray(family.likeliest(eta), dtype=float))
    assert np.isfinite(family.log_density(family.encode(drawn), eta)).all()
    for other in (
        family.equally_sure(eta),
        family.disturbed(eta, rng.uniform(-1, 1, (family.n_noise, 40, 5))),
    ):
        theta, log_partition = family.natural(other)
        assert np.isfinite(theta).all()
        assert np.isfinite(log_partition).all()
        np.testing.assert_allclose(family.constrain(other), other, rtol=1e-6, atol=1e-9)


@every_family
@given(seeds)
@examples(15)
def test_families_are_stored_and_restored(name, seed):
    rng = np.random.default_rng(seed)
    family = make_family_of(rng, name, 5)
    numbers, arrays = family.stored()
    back = family_class(family.name).restored(numbers, arrays, 5)
    eta = make_opinions(rng, family, (3, 5))
    for found, expected in zip(back.natural(eta), family.natural(eta), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert back.kinds_of_columns(5) == family.kinds_of_columns(5)
    if arrays:
        with pytest.raises((ValueError, IndexError)):
            family_class(family.name).restored(numbers, arrays, 6)


@pytest.mark.parametrize("name", FAMILIES)
def test_tensors_give_the_same_numbers(name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    family = make_family_of(rng, name, 6)
    eta = make_opinions(rng, family, (4, 6))
    X = make_values(rng, family, (5, 6)).astype(float)
    X[0, 1] = np.nan
    there = family.like(torch.empty(0))
    opinions, values = torch.as_tensor(eta), there.encode(torch.as_tensor(X))
    said = np.broadcast_to(eta[:, :1], (len(eta), 5, 6)).copy()
    pairs = [
        (
            there.log_density(values, torch.as_tensor(said)),
            family.log_density(family.encode(X), said),
        ),
        (there.average(opinions), family.average(eta)),
        (there.equally_sure(opinions), family.equally_sure(eta)),
        (there.likeliest(opinions), family.likeliest(eta)),
        (there.variance(opinions), family.variance(eta)),
    ]
    weight = rng.uniform(0.5, 20, (4, 6))
    T_sum, population = weight * eta, eta.mean(axis=1)
    here = family.shrunk(eta, weight, T_sum, weight, T_sum, population, 1.0)
    on = [torch.as_tensor(a) for a in (eta, weight, T_sum, weight, T_sum, population)]
    pairs.append((there.shrunk(*on, 1.0)[0], here[0]))
    for found, expected in pairs:
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------- making a family


def test_kinds_decide_the_family():
    X = np.c_[np.tile([0.0, 1, 2], 4), np.tile([0.0, 1], 6), np.arange(12.0), np.linspace(0, 1, 12)]
    moments = column_moments(X)
    every = ["categorical", "binary", "count", "real"]
    family = make_family("auto", moments, kinds=every, n_levels=[3, None, None, None])
    assert isinstance(family, Mixed)
    assert family.kinds_of_columns(4) == tuple(every)
    assert [type(part) for part in family.parts] == [Categorical, Count, Gaussian]
    for kind, expected in zip(
        ("binary", "count", "real"), (Bernoulli, Count, Gaussian), strict=True
    ):
        assert isinstance(make_family("auto", moments, kinds=[kind] * 4), expected)
    own = make_family("auto", moments, kinds=["real"] * 4, own_scale=True)
    np.testing.assert_allclose(own.floor, OWN_FLOOR * moments.variance)
    shared = make_family("auto", moments, kinds=["real"] * 4)
    assert shared.floor == pytest.approx(moments.variance.mean())
    with pytest.raises(ValueError, match="n_levels must say how many levels categorical column 0"):
        make_family("auto", moments, kinds=every)
    with pytest.raises(ValueError, match="kinds must be one of 'binary', 'categorical'"):
        make_family("auto", moments, kinds=["real", "owl", "real", "real"])


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("categorical", 3.0, r"X must hold levels 0 to 2 there, found 3.0 in row 1, column 2"),
        ("categorical", 0.5, r"X must hold levels 0 to 2 there, found 0.5 in row 1, column 2"),
        ("count", -1.0, r"X must hold counts \(0, 1, 2, ...\), found -1.0 in row 1, column 2"),
        ("count", 0.5, r"X must hold counts \(0, 1, 2, ...\), found 0.5 in row 1, column 2"),
    ],
)
def test_values_without_a_probability_are_named(kind, value, words):
    X = np.zeros((3, 3))
    kinds = ["real", "real", kind]
    family = make_family("auto", column_moments(X), kinds=kinds, n_levels=[None, None, 3])
    family.check(X)
    X[1, 2] = value
    with pytest.raises(ValueError, match=words):
        family.check(X)
    with pytest.raises(ValueError, match=r"row 1 \(counted from 0\), column 'c'"):
        family.check(X, columns=["a", "b", "c"])


@given(st.integers(0, 2**32 - 1))
def test_no_variance_is_below_zero(seed):
    """Nor that of columns with a single level, whose probabilities are 1 up to rounding."""
    rng = np.random.default_rng(seed)
    family = Categorical(levels=np.array([1.0, 1.0, 3.0, 2.0]), binary=np.array([0.0, 0, 0, 1]))
    eta = np.zeros((3, 5, 4))
    eta[0, :, :2] = 1 + rng.integers(0, 3, (5, 2)) * np.finfo(float).eps
    eta[:, :, 2] = np.eye(3)[rng.integers(0, 3, 5)].T * (1 + np.finfo(float).eps)
    eta[:2, :, 3] = 0.5
    assert (family.variance(eta) >= 0).all()


def test_the_smallest_variance_of_a_tiny_column_can_be_stored():
    moments = column_moments(np.array([[0.0, 0.0], [1.0, 1.3e-216]]))
    family = Gaussian.for_columns(moments, variance_floor=1e-4)
    assert (family.floor >= 1e-300).all()


def test_without_a_value_the_mean_of_a_count_is_that_of_the_data():
    """A weight near zero, a rounding error, changes nothing."""
    family, population = Count(np.zeros(1)), np.array([[3.0], [12.0]])
    for weight in (0.0, 1e-17):
        sums = np.full((2, 1), weight), np.zeros((2, 2, 1))
        eta = family.update(*sums, population, 1.0)
        found, _ = family.shrunk(eta, *sums, *sums, population, 1.0)
        np.testing.assert_allclose(found[0], 3.0)


@pytest.mark.parametrize("epsilon", [1, np.float32(1), np.array(1)])
def test_one_weight_of_the_average_may_be_a_number_of_any_type(epsilon):
    family = Mixed((Count(np.zeros(1)), Bernoulli()), (np.array([1]), np.array([0])))
    rng = np.random.default_rng(0)
    T = rng.random((2, 3, 2))
    sums, population = (1 + T[0], T), T.mean(axis=1)
    for found in (family.update, lambda *given: family.shrunk(T, *sums, *given)[0]):
        np.testing.assert_array_equal(
            found(*sums, population, epsilon), found(*sums, population, 1.0)
        )
