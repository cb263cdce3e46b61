"""Experts that know earlier values: exact likelihoods, laws of codes, and all engines."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dynpart.arrays import to_numpy
from dynpart.autoregression import Autoregression, drawn, earlier_columns, mean_given
from dynpart.composition import compose_hard, owners, owners_of
from dynpart.encoding import log_likelihood
from dynpart.engines import MARGIN, make_engine
from dynpart.engines._offsets import without_shift
from dynpart.engines.reference import expert_log_densities
from dynpart.neighbourhood import neighbourhood
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from tests.engines.parity import REFERENCE
from tests.strategies import make_experts, make_prior, make_rows, make_rule

seeds = st.integers(0, 2**32 - 1)
families = st.sampled_from(["bernoulli", "gaussian", "own scale"])


def problem(seed, family="bernoulli", *, n_experts=5, n_features=20, n_rows=6, weighted=False):
    rng = np.random.default_rng(seed)
    experts = make_experts(rng, family, n_experts, n_features)
    rows = make_rows(rng, experts, n_rows, weighted=weighted)
    numbers = experts.family.decode(rows.values)
    scale = np.ones(n_features) if family == "bernoulli" else numbers.std(axis=0) + 1e-3
    weights = np.tril(rng.normal(0, 0.7, (n_features, n_features)), -1)
    weights *= rng.random(weights.shape) < 0.5
    given_ = Autoregression(weights * scale[:, None] / scale, numbers.mean(axis=0))
    return replace(experts, autoregression=given_), rows


def make(engine):
    if engine == "torch":
        pytest.importorskip("torch")
    return make_engine(engine, device="cpu" if engine == "torch" else None)


def random_codes(seed, rows, n_experts):
    active = np.random.default_rng(seed).random((len(rows), n_experts)) < 0.5
    active[:, 0] = True
    return active


@settings(deadline=None, max_examples=15)
@given(seeds)
def test_the_likelihoods_of_all_rows_sum_to_one(seed):
    experts, _ = problem(seed, n_experts=3, n_features=6)
    everything = np.array(list(product([0, 1], repeat=6)), dtype=np.uint8)
    active = np.tile(random_codes(seed, [0], 3), (len(everything), 1))
    found = log_likelihood(Rows(everything), active, experts)
    assert np.exp(found).sum() == pytest.approx(1)


@settings(deadline=None, max_examples=15)
@given(seeds)
def test_real_rows_are_shifted_by_what_came_before(seed):
    """Value after value: the owner's normal density around its opinion and the offset."""
    experts, rows = problem(seed, "own scale", n_features=7)
    active = random_codes(seed, rows, 5)
    found = log_likelihood(rows, active, experts)
    owner, family, given_ = owners(experts.ranks, active), experts.family, experts.autoregression
    mean, variance = family.mean(experts.eta), family.variance(experts.eta)
    x = rows.values - given_.centre
    for n in range(len(rows)):
        total = 0.0
        for d, k in enumerate(owner[n]):
            said = mean[k, d] + sum(given_.weights[d, j] * x[n, j] for j in range(d))
            off = rows.values[n, d] - said
            total -= 0.5 * (off * off / variance[k, d] + np.log(2 * np.pi * variance[k, d]))
        assert found[n] == pytest.approx(total, rel=1e-6)


@settings(deadline=None, max_examples=15)
@given(seeds, families)
def test_without_weights_nothing_is_different(seed, family):
    experts, rows = problem(seed, family)
    nothing = replace(experts.autoregression, weights=0 * experts.autoregression.weights)
    with_none = replace(experts, autoregression=None)
    silent = replace(experts, autoregression=nothing)
    density = expert_log_densities(rows, with_none)
    assert_allclose(expert_log_densities(rows, silent), density, rtol=1e-9, atol=1e-12)
    rule = make_rule(5, n_swaps=20)
    for engine in ("reference", "cpu"):
        plain, same = (pursue(make(engine), rows, each, rule) for each in (with_none, silent))
        assert_array_equal(np.sort(plain.members), np.sort(same.members))


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@settings(deadline=None, max_examples=25)
@given(
    seed=seeds,
    family=families,
    n_swaps=st.sampled_from([0, 20]),
    n_starts=st.sampled_from([1, 3]),
    prune=st.booleans(),
    with_prior=st.booleans(),
)
def test_engines_find_the_codes_of_the_reference(
    engine, seed, family, n_swaps, n_starts, prune, with_prior
):
    experts, rows = problem(seed, family)
    prior = make_prior(np.random.default_rng(seed), 5) if with_prior and n_swaps else None
    rule = make_rule(5, max_active=4, n_swaps=n_swaps, n_starts=n_starts, prune=prune, prior=prior)
    found, exact = (pursue(each, rows, experts, rule) for each in (make(engine), REFERENCE))
    active = to_numpy(found.active(5))
    likelihood = log_likelihood(rows, active, experts)
    assert_allclose(to_numpy(found.log_likelihood), likelihood, rtol=1e-5, atol=1e-4)
    assert_array_equal(active, exact.active(5))


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@settings(deadline=None, max_examples=15)
@given(seed=seeds, family=families, weighted=st.booleans())
def test_engines_agree_on_sums(engine, seed, family, weighted):
    experts, rows = problem(seed, family, weighted=weighted)
    there, rule = make(engine), make_rule(5, min_active=2, max_active=3)
    codes, exact = (pursue(each, rows, experts, rule) for each in (there, REFERENCE))
    found = there.autoregression_sums(rows, experts, codes)
    wanted = REFERENCE.autoregression_sums(rows, experts, exact)
    assert found.n_rows == pytest.approx(wanted.n_rows)
    assert found.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-4, abs=1e-3)
    for name in ("weights", "opinions"):
        expected = getattr(wanted, name)
        # Products are in single precision: small sums of large terms lose digits.
        scale = np.abs(expected).max(axis=0, keepdims=True)
        error = np.abs(to_numpy(getattr(found, name)) - expected) / (scale + 1e-9)
        assert error.max() < 1e-3


@settings(deadline=None, max_examples=20)
@given(seeds, families)
def test_sums_are_derivatives_and_add_up(seed, family):
    experts, rows = problem(seed, family, n_features=5, weighted=True)
    active = random_codes(seed, rows, 5)
    codes = pursue(REFERENCE, rows, experts, make_rule(5, min_active=2, max_active=3))
    active = codes.active(5)
    sums = REFERENCE.autoregression_sums(rows, experts, codes)

    def total(changed):
        return float(rows.weight @ log_likelihood(rows, active, changed))

    assert sums.log_likelihood == pytest.approx(total(experts), rel=1e-9)
    given_ = experts.autoregression
    for d, j in ((1, 0), (4, 2)):
        step = 1e-5 * (1 + abs(given_.weights[d, j]))
        moved = []
        for sign in (1, -1):
            weights = given_.weights.copy()
            weights[d, j] += sign * step
            moved.append(total(replace(experts, autoregression=replace(given_, weights=weights))))
        slope = (moved[0] - moved[1]) / (2 * step)
        assert sums.weights[d, j] == pytest.approx(slope, rel=1e-3, abs=1e-3 + 1e-4 * abs(slope))
    halves = (slice(0, 3), slice(3, 6))
    first, second = (REFERENCE.autoregression_sums(rows[h], experts, codes[h]) for h in halves)
    both = first + second
    assert both.n_rows == pytest.approx(sums.n_rows)
    assert_allclose(both.weights, sums.weights, rtol=1e-9, atol=1e-9)
    assert_allclose(both.opinions, sums.opinions, rtol=1e-9, atol=1e-9)


def test_opinion_sums_are_derivatives_by_log_odds():
    experts, rows = problem(3, n_features=5)
    codes = pursue(REFERENCE, rows, experts, make_rule(5, min_active=2, max_active=3))
    sums = REFERENCE.autoregression_sums(rows, experts, codes)
    active, theta = codes.active(5), experts.natural[0][0]
    for k, d in product(range(5), range(5)):
        moved = []
        for sign in (1, -1):
            log_odds = theta.copy()
            log_odds[k, d] += sign * 1e-4
            eta = 1 / (1 + np.exp(-log_odds))[None]
            moved.append(log_likelihood(rows, active, replace(experts, eta=eta)).sum())
        slope = (moved[0] - moved[1]) / 2e-4
        assert sums.opinions[k, d] == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@settings(deadline=None, max_examples=10)
@given(seed=seeds, family=families)
def test_no_single_change_improves_a_refined_code(engine, seed, family):
    experts, rows = problem(seed, family)
    there = make(engine)
    active = to_numpy(pursue(there, rows, experts, make_rule(5, n_swaps=50)).active(5))
    greedy = to_numpy(pursue(there, rows, experts, make_rule(5)).active(5))

    def worth(code, row):
        return log_likelihood(rows[row : row + 1], code[None], experts)[0]

    for row in range(len(rows)):
        best = worth(active[row], row) + MARGIN + 1e-3
        assert best >= worth(greedy[row], row)
        inside, outside = np.flatnonzero(active[row]), np.flatnonzero(~active[row])
        changes = [[k] for k in range(5)] + [list(pair) for pair in product(inside, outside)]
        for change in changes:
            code = active[row].copy()
            code[change] ^= True
            if code.any():
                assert worth(code, row) <= best


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@settings(deadline=None, max_examples=10)
@given(seed=seeds, family=families)
def test_codes_under_a_prior_are_worth_no_less_than_greedy_ones(engine, seed, family):
    experts, rows = problem(seed, family)
    prior = make_prior(np.random.default_rng(seed), 5)
    there, rule = make(engine), make_rule(5, n_swaps=50, prior=prior)

    def worth(codes):
        active = to_numpy(codes.active(5))
        return log_likelihood(rows, active, experts) + prior.log_joint(active).max(axis=1)

    found, greedy = (pursue(there, rows, experts, each) for each in (rule, make_rule(5)))
    assert (worth(found) >= worth(greedy) - 2 * MARGIN - 1e-3).all()


@settings(deadline=None, max_examples=10)
@given(seeds, families)
def test_the_sum_over_neighbours_is_no_smaller_than_the_code_itself(seed, family):
    experts, rows = problem(seed, family)
    prior = make_prior(np.random.default_rng(seed), 5)
    active = random_codes(seed, rows, 5)
    joint = log_likelihood(rows, active, experts) + prior.log_prob(active)
    assert (neighbourhood(rows, active, experts, prior).log_density >= joint - 1e-6).all()


def test_owners_from_orders_are_those_from_codes():
    experts, rows = problem(5, n_rows=40)
    codes = pursue(REFERENCE, rows, experts, make_rule(5, max_active=4))
    found = owners_of(experts.ranks, codes.members)
    assert_array_equal(found, owners(experts.ranks, codes.active(5)))


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_drawn_rows_have_the_means_that_the_model_expects(family):
    """Given the values before it, every variable is on average what its owner expects."""
    experts, rows = problem(1, family, n_features=6)
    owner = owners(experts.ranks, random_codes(1, rows, 5)[:1]).repeat(20_000, axis=0)
    eta, given_ = compose_hard(experts.eta, owner), experts.autoregression
    x = drawn(eta, experts.family, given_, np.random.RandomState(0))
    expected = mean_given(x.astype(float), eta, experts.family, given_)
    spread = (x - expected).std(axis=0)
    assert_allclose((x - expected).mean(axis=0), 0, atol=5 * spread.max() / np.sqrt(len(x)))
    correlated = (x[:, 0] - expected[:, 0]) @ (x[:, 5] - expected[:, 5]) / len(x)
    assert abs(correlated) < 5 * spread.max() ** 2 / np.sqrt(len(x))


def test_earlier_columns_are_near_and_earlier():
    assert earlier_columns("all", 5).sum() == 10
    two = earlier_columns(2, 5)
    assert_array_equal(two.sum(axis=1), [0, 1, 2, 2, 2])
    image = earlier_columns(1, 12, (3, 4))
    assert_array_equal(np.flatnonzero(image[5]), [0, 1, 2, 4])
    assert_array_equal(np.flatnonzero(image[4]), [0, 1])
    assert not np.triu(image).any()


def test_what_cannot_be_is_refused():
    experts, rows = problem(0)
    later = np.zeros((20, 20))
    later[1, 2] = 1.0
    with pytest.raises(ValueError, match="earlier variables only"):
        Autoregression(later, np.zeros(20))
    with pytest.raises(ValueError, match="do not suit 19 variables"):
        Autoregression(later, np.zeros(19))
    codes = pursue(REFERENCE, rows, experts, make_rule(5))
    for engine in (REFERENCE, make("cpu")):
        with pytest.raises(ValueError, match="smoothed"):
            engine.pursue(rows, experts, make_rule(5, smoothed=True))
        with pytest.raises(ValueError, match="autoregressive experts do not have these sums"):
            engine.gradient_sums(rows, experts, codes)
        with pytest.raises(ValueError, match="autoregressive experts do not have these sums"):
            engine.responsibility_sums(rows, experts, codes)
    with pytest.raises(ValueError, match="without gaps"):
        without_shift(replace(rows, complete=False), experts)
