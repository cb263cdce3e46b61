"""Composition: owners (eq. 2), responsibilities (eq. 4), and the limit that connects them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dynpart.composition import (
    compose_hard,
    compose_smoothed,
    expertise_ranks,
    owners,
    responsibilities,
    supports,
)

seeds = st.integers(0, 2**32 - 1)


def random_code(rng, n_rows, n_experts):
    active = rng.uniform(size=(n_rows, n_experts)) < 0.5
    active[np.arange(n_rows), rng.integers(0, n_experts, n_rows)] = True
    return active


@given(seeds)
def test_owner_is_the_active_expert_with_the_highest_expertise(seed):
    rng = np.random.default_rng(seed)
    level, active = rng.normal(size=(5, 6)), random_code(rng, 4, 5)
    expected = np.where(active[:, :, None], level, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(owners(expertise_ranks(level), active), expected)


@given(seeds)
def test_ties_go_to_the_lowest_index(seed):
    rng = np.random.default_rng(seed)
    level, active = rng.integers(0, 2, (6, 5)).astype(float), random_code(rng, 4, 6)
    # argmax returns the first, that is the lowest, of equal ones
    expected = np.where(active[:, :, None], level, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(owners(expertise_ranks(level), active), expected)


@given(seeds)
def test_supports_partition_the_variables_among_active_experts(seed):
    rng = np.random.default_rng(seed)
    active = random_code(rng, 4, 5)
    support = supports(owners(expertise_ranks(rng.normal(size=(5, 6))), active), 5)
    np.testing.assert_array_equal(support.sum(axis=1), 1)
    assert not support[~active].any()


@given(seeds)
def test_responsibilities_sum_to_one_over_active_experts(seed):
    rng = np.random.default_rng(seed)
    active = random_code(rng, 4, 5)
    r = responsibilities(rng.normal(0, 300, (5, 6)), active)
    np.testing.assert_allclose(r.sum(axis=1), 1, rtol=1e-12)
    assert (r >= 0).all()
    assert not r[~active].any()


@given(seeds)
def test_hard_rule_is_the_limit_of_the_smoothed_one(seed):
    rng = np.random.default_rng(seed)
    level = rng.permuted(np.tile(np.arange(5.0)[:, None], (1, 6)), axis=0)
    active, eta = random_code(rng, 4, 5), rng.uniform(size=(2, 5, 6))
    active[:, :2] = True  # at least two experts share
    hard = compose_hard(eta, owners(expertise_ranks(level), active))
    gaps = [
        np.abs(compose_smoothed(eta, responsibilities(sharpness * level, active)) - hard).max()
        for sharpness in (1, 10, 60)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-12


def test_composed_gaussian_variance_is_the_total_variance():
    mu_k, v_k, r = np.array([0.0, 4.0]), np.array([1.0, 2.0]), np.array([0.25, 0.75])
    eta = np.stack([mu_k, v_k + mu_k**2])[:, :, None]
    m, q = compose_smoothed(eta, r[None, :, None])[:, 0, 0]
    within, between = (r * v_k).sum(), (r * (mu_k - m) ** 2).sum()
    np.testing.assert_allclose(q - m**2, within + between)


@given(seed=st.integers(0, 10_000), n_levels=st.sampled_from([2, 5, 1000]))
def test_ranks_are_those_of_a_stable_sort(seed, n_levels):
    rng = np.random.default_rng(seed)
    level = rng.integers(n_levels, size=(rng.integers(1, 70), 40)) - n_levels / 2
    ranks = expertise_ranks(level)
    order = np.argsort(-level, axis=0, kind="stable")
    places = np.arange(len(level))[:, None].repeat(40, axis=1)
    np.testing.assert_array_equal(np.take_along_axis(ranks, order, axis=0), places)
