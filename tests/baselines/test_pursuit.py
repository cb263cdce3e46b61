"""Pursuit and rules against brute force: what the compiled loops must agree with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.datasets import load_digits

from dynpart.baselines import ComposedPursuit
from dynpart.baselines._pursuit import MARGIN, codes_from_order, pursue
from dynpart.baselines._rules import RULES, clipped


def composed(rule, active, mu, base):
    """The rules as the papers state them, for one code."""
    chosen = mu[list(active)]
    if rule == "max":
        return np.max([base, *chosen], axis=0)
    if rule == "equal":
        return chosen.mean(axis=0)
    votes = logit(chosen)
    if rule == "log-odds":
        return expit(logit(base) + votes.sum(axis=0))
    highest = np.max([np.zeros_like(base), *votes], axis=0)
    return expit(highest + np.min([np.zeros_like(base), *votes], axis=0))


def log_likelihood(x, p):
    return np.sum(np.where(x == 1, np.log(p), np.log1p(-p)))


def literal_pursuit(rule, x, mu, base, max_active, cost):
    active = []
    current = -np.inf if rule == "equal" else log_likelihood(x, composed(rule, [], mu, base))
    while len(active) < max_active:
        rest = [k for k in range(len(mu)) if k not in active]
        gains = {k: log_likelihood(x, composed(rule, [*active, k], mu, base)) for k in rest}
        best = max(rest, key=gains.__getitem__)
        if gains[best] - current <= cost + MARGIN:
            break
        active.append(best)
        current = gains[best]
    return active, current


@pytest.mark.parametrize("rule", RULES)
@given(
    seed=st.integers(0, 2**32 - 1), n_features=st.integers(1, 70), cost=st.sampled_from([0, 0.7])
)
def test_pursuit_is_the_literal_greedy_search(rule, seed, n_features, cost):
    rng = np.random.RandomState(seed)
    mu = clipped(rng.uniform(size=(6, n_features)))
    base = clipped(rng.uniform(size=n_features))
    X = rng.randint(2, size=(3, n_features)).astype(np.uint8)
    units = mu if rule == "equal" else mu / (1 - mu)
    order, found = pursue(RULES[rule].kernel, X, units, base / (1 - base), cost=cost, max_active=4)
    for x, steps, value in zip(X, order, found, strict=True):
        active, expected = literal_pursuit(rule, x, mu, base, 4, cost)
        assert steps[steps >= 0].tolist() == active
        assert value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_more_starts_never_explain_less(rule):
    rng = np.random.RandomState(5)
    mu, base = clipped(rng.uniform(0.2, 0.8, size=(12, 30))), np.full(30, 0.5)
    X = rng.randint(2, size=(40, 30)).astype(np.uint8)
    units = mu if rule == "equal" else mu / (1 - mu)

    def worth(n_starts):
        order, found = pursue(
            RULES[rule].kernel,
            X,
            units,
            base / (1 - base),
            cost=0.3,
            min_active=1,
            max_active=4,
            n_starts=n_starts,
        )
        return found - 0.3 * (order >= 0).sum(axis=1)

    one, two, all_units, more = (worth(n_starts) for n_starts in (1, 2, 12, 99))
    assert (two >= one).all()
    assert (all_units >= two).all()
    assert (all_units > one).any()
    np.testing.assert_array_equal(all_units, more)


def test_codes_for_reconstruction_leave_fewer_wrong_values():
    X = (load_digits().data[:300] > 7).astype(np.uint8)
    model = ComposedPursuit(10, rule="log-odds", max_active=3, n_starts=4, random_state=0).fit(X)

    def error():
        return ((model.decode(model.encode(X)) > 0.5) != X).mean()

    before = error()
    assert model.set_params(criterion="reconstruction") is model
    assert error() < before
    with pytest.raises(ValueError, match="criterion must be one of likelihood, reconstruction"):
        model.set_params(criterion="taste").fit(X)


@pytest.mark.parametrize("rule", RULES)
def test_composition_agrees_with_brute_force(rule):
    rng = np.random.RandomState(1)
    mu, base = clipped(rng.uniform(size=(5, 8))), clipped(rng.uniform(size=8))
    H = rng.randint(2, size=(20, 5)).astype(float)
    H[0] = 1
    if rule == "equal":
        H[:, 0] = 1
    expected = [composed(rule, np.flatnonzero(h), mu, base) for h in H]
    assert np.allclose(RULES[rule]().compose(H, mu, base), expected)


@pytest.mark.parametrize("rule", RULES)
def test_updates_with_fixed_codes_raise_the_likelihood(rule):
    rng = np.random.RandomState(2)
    X = rng.randint(2, size=(200, 8)).astype(float)
    H = rng.randint(2, size=(200, 5)).astype(float)
    H[:, 0] = 1
    mean, model = X.mean(axis=0), RULES[rule](epsilon=1e-3)
    mu = clipped(rng.uniform(0.3, 0.7, size=(5, 8)))
    base = np.full(8, 1e-3) if rule == "max" else mean
    before = log_likelihood(X, model.compose(H, mu, base))
    for _ in range(5):
        mu, base = model.update(X, H, mu, base, mean, sharpness=20.0)
    assert log_likelihood(X, model.compose(H, mu, base)) > before


def test_codes_from_order_ignores_padding():
    codes = codes_from_order(np.array([[2, 0], [1, -1]], dtype=np.int32), 3)
    assert codes.tolist() == [[1, 0, 1], [0, 1, 0]]


def test_at_least_so_many_are_active_if_asked():
    X = np.zeros((4, 3), dtype=np.uint8)
    order, _ = pursue(RULES["max"].kernel, X, np.ones((5, 3)), np.full(3, 1e-3), min_active=2)
    assert ((order >= 0).sum(axis=1) == 2).all()
