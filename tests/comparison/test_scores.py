"""Scores against cases worked out by hand."""

import math

import numpy as np
import pytest

from dynpart.comparison.scores import (
    bars_separated,
    code_log_prior,
    conditional_log_likelihood,
    disentanglement,
    information_table,
    mutual_information,
    reconstruction_error,
    template_stability,
)
from dynpart.datasets import bar_templates


def test_errors():
    X = np.array([[1, 0], [1, 1]])
    assert reconstruction_error(X, np.array([[0.9, 0.6], [0.4, 0.8]]), binary=True) == 0.5
    gray = reconstruction_error(np.array([[0.0, 2.0]]), np.array([[1.0, 2.0]]), binary=False)
    assert gray == pytest.approx(math.sqrt(0.5))


def test_conditional_likelihood_is_clipped_bernoulli_or_gaussian():
    bernoulli = conditional_log_likelihood(np.array([[1, 0]]), np.array([[0.25, 1.0]]), binary=True)
    assert bernoulli[0] == pytest.approx(math.log(0.25) + math.log(1e-3))
    gaussian = conditional_log_likelihood(
        np.array([[1.0]]), np.array([[3.0]]), binary=False, noise_variance=2.0
    )
    assert gaussian[0] == pytest.approx(-0.5 * (4 / 2 + math.log(2 * math.pi * 2)))


def test_prior_of_independent_bits_and_of_choices():
    train = np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0]])
    p = np.array([3.5, 1.5, 1.5]) / 4
    expected = math.log(p[0]) + math.log(1 - p[1]) + math.log(p[2])
    assert code_log_prior(np.array([[1, 0, 1]]), train)[0] == pytest.approx(expected)
    choice = np.array([[1, 0, 1, 0], [0, 1, 1, 0]])
    groups = np.array([0, 0, 1, 1])
    found = code_log_prior(np.array([[1, 0, 1, 0]]), choice, groups)[0]
    assert found == pytest.approx(math.log(1.5 / 3) + math.log(2.5 / 3))


def test_priors_sum_to_one():
    rng = np.random.RandomState(0)
    train = rng.randint(2, size=(10, 3))
    every = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    assert np.exp(code_log_prior(every, train)).sum() == pytest.approx(1)
    one = np.eye(3, dtype=int)
    groups = np.zeros(3, dtype=int)
    assert np.exp(code_log_prior(one, one[[0, 0, 2]], groups)).sum() == pytest.approx(1)


def test_mutual_information():
    a = np.array([0, 0, 1, 1])
    assert mutual_information(a, np.array([0, 1, 0, 1])) == pytest.approx(0)
    assert mutual_information(a, a) == pytest.approx(1)
    # A unit that is on in one of four rows: H = 0.811 bits, all of it about the row's class.
    assert mutual_information(np.array([1, 0, 0, 0]), np.arange(4)) == pytest.approx(
        0.8113, abs=1e-4
    )


def test_real_units_are_cut_at_quartiles():
    factor = np.repeat([0, 1], 50)
    assert information_table(np.arange(100.0)[:, None], factor[:, None])[0, 0] == pytest.approx(1)


def test_disentanglement():
    factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    best_unit, selective = disentanglement(factors, factors)
    assert (best_unit, selective) == (pytest.approx(1), pytest.approx(1))
    mixed = (factors.sum(axis=1) == 2).astype(int)[:, None]  # an "and" tells both alike
    best_unit, selective = disentanglement(mixed, factors)
    assert best_unit == pytest.approx(0.3113, abs=1e-4)
    assert selective == pytest.approx(0.5)


def test_bars_are_separated_whatever_the_scale():
    bars = bar_templates(3)
    assert bars_separated(10 * bars - 4.0).all()
    faint = 0.5 + 0.1 * bars
    faint[0, 4] = 0.6  # a foreign pixel as high as the bar
    assert bars_separated(faint).tolist() == [False] + [True] * 5


def test_stability_ignores_order_and_scale():
    rng = np.random.RandomState(0)
    T = rng.normal(size=(5, 40))
    assert template_stability([T, 3 * T[::-1] + 1]) == pytest.approx(1)
    assert template_stability([T, rng.normal(size=(5, 40))]) < 0.6
    assert math.isnan(template_stability([T]))
