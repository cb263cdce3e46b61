"""Matchers find exactly the recovered factors, in any order of the experts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.datasets import bar_templates, bars_recovered, pairs_recovered

seeds = st.integers(0, 2**32 - 1)


def ideal_pairs(n_pairs):
    """One expert per level, in the order of the matcher's answer: (2 * n_pairs, 2 * n_pairs)."""
    means = np.full((n_pairs, 2, n_pairs, 2), 0.5)
    for pair in range(n_pairs):
        means[pair, :, pair] = [[0, 1], [1, 0]]
    return means.reshape(2 * n_pairs, 2 * n_pairs)


@given(n_pairs=st.integers(1, 6), seed=seeds)
def test_perfect_experts_are_found_up_to_the_tolerances(n_pairs, seed):
    rng = np.random.default_rng(seed)
    means = ideal_pairs(n_pairs)
    decided = means != 0.5
    reach = np.where(decided, 0.0999, 0.1999)
    noisy = np.clip(means + reach * rng.uniform(-1, 1, means.shape), 0, 1)
    assert pairs_recovered(noisy).all()


@given(n_pairs=st.integers(1, 6), data=st.data())
def test_found_levels_are_those_whose_expert_is_left(n_pairs, data):
    kept = data.draw(st.lists(st.booleans(), min_size=2 * n_pairs, max_size=2 * n_pairs))
    flat = np.full((1, 2 * n_pairs), 0.5)
    means = np.concatenate([ideal_pairs(n_pairs)[np.array(kept)], flat])
    np.testing.assert_array_equal(pairs_recovered(means).ravel(), kept)


@given(n_pairs=st.integers(1, 5), n_experts=st.integers(1, 12), seed=seeds)
def test_the_order_of_experts_does_not_matter(n_pairs, n_experts, seed):
    rng = np.random.default_rng(seed)
    means = rng.choice([0.0, 0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0], size=(n_experts, 2 * n_pairs))
    means[0] = ideal_pairs(n_pairs)[0]
    shuffled = means[rng.permutation(n_experts)]
    np.testing.assert_array_equal(pairs_recovered(means), pairs_recovered(shuffled))


@given(n_pairs=st.integers(2, 5), seed=seeds)
def test_permuting_pairs_permutes_the_answer(n_pairs, seed):
    rng = np.random.default_rng(seed)
    means = ideal_pairs(n_pairs)[rng.random(2 * n_pairs) < 0.5]
    means = np.concatenate([means, np.full((1, 2 * n_pairs), 0.5)])
    order = rng.permutation(n_pairs)
    permuted = means.reshape(-1, n_pairs, 2)[:, order].reshape(means.shape)
    np.testing.assert_array_equal(pairs_recovered(permuted), pairs_recovered(means)[order])


@given(n_pairs=st.integers(1, 5), n_experts=st.integers(1, 12), seed=seeds)
def test_wider_tolerances_never_lose_a_level(n_pairs, n_experts, seed):
    rng = np.random.default_rng(seed)
    means = rng.uniform(size=(n_experts, 2 * n_pairs))
    strict = pairs_recovered(means, tol=0.1, rest_tol=0.2)
    loose = pairs_recovered(means, tol=0.3, rest_tol=0.4)
    assert (loose | ~strict).all()


def test_matcher_agrees_with_the_definition_written_out():
    rng = np.random.default_rng(0)
    means = rng.choice([0, 0.09, 0.11, 0.29, 0.31, 0.5, 0.69, 0.71, 0.89, 0.91, 1], (4000, 4))
    expected = np.zeros((2, 2), dtype=bool)
    for mean in means:
        one = pairs_recovered(mean[None])
        by_hand = [
            [
                abs(mean[2 * pair] - level) <= 0.1
                and abs(mean[2 * pair + 1] - (1 - level)) <= 0.1
                and all(abs(mean[d] - 0.5) <= 0.2 for d in range(4) if d // 2 != pair)
                for level in (0, 1)
            ]
            for pair in (0, 1)
        ]
        np.testing.assert_array_equal(one, by_hand)
        expected |= one
    np.testing.assert_array_equal(pairs_recovered(means), expected)
    assert expected.any()


def everyone_owns(n_experts, n_pixels):
    """Owners under which every expert owns every pixel in some image."""
    return np.repeat(np.arange(n_experts)[:, None], n_pixels, axis=1)


@given(size=st.integers(2, 6), data=st.data())
def test_found_bars_are_those_with_an_expert(size, data):
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=2 * size, max_size=2 * size)))
    blank = np.zeros((1, size * size))
    means = np.concatenate([bar_templates(size)[kept] * 0.8, blank])
    found = bars_recovered(means, everyone_owns(len(means), size * size))
    np.testing.assert_array_equal(found, kept)


@given(size=st.integers(2, 5), seed=seeds)
def test_opinions_where_an_expert_never_is_the_owner_do_not_count(size, seed):
    rng = np.random.default_rng(seed)
    bars = bar_templates(size)
    # Each expert owns only its bar and has random opinions elsewhere; expert 0 owns nothing.
    means = np.where(bars, 0.9, rng.uniform(size=bars.shape))
    means = np.concatenate([rng.uniform(size=(1, size * size)), means])
    owners = np.where(bars, np.arange(1, 2 * size + 1)[:, None], -1)
    assert bars_recovered(means, owners).all()


@given(size=st.integers(2, 5), n_experts=st.integers(1, 9), seed=seeds)
def test_permuting_experts_with_their_indices_changes_nothing(size, n_experts, seed):
    rng = np.random.default_rng(seed)
    n_pixels = size * size
    templates = bar_templates(size)[rng.integers(0, 2 * size, n_experts)]
    means = np.abs(templates - 0.1 * rng.random((n_experts, n_pixels)))
    owners = rng.integers(-1, n_experts, (6, n_pixels))
    order = rng.permutation(n_experts)
    renamed = np.append(np.argsort(order), -1)[owners]
    np.testing.assert_array_equal(
        bars_recovered(means, owners), bars_recovered(means[order], renamed)
    )


def test_a_bar_with_a_pixel_too_many_or_too_few_is_not_found():
    means = bar_templates(3)[:1].astype(float)
    owners = everyone_owns(1, 9)
    assert bars_recovered(means, owners)[0]
    for pixel in range(9):
        changed = means.copy()
        changed[0, pixel] = 1 - changed[0, pixel]
        assert not bars_recovered(changed, owners).any()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: pairs_recovered([[0.5, 0.5, 0.5]]), "means"),
        (lambda: pairs_recovered([0.5, 0.5]), "means"),
        (lambda: pairs_recovered([[np.nan, 0.5]]), "means"),
        (lambda: pairs_recovered(np.empty((0, 4))), "means"),
        (lambda: bars_recovered(np.zeros((2, 5)), np.zeros((1, 5), int)), "means"),
        (lambda: bars_recovered(np.zeros((2, 4)), np.zeros((1, 5), int)), "owners"),
        (lambda: bars_recovered(np.zeros((2, 4)), np.zeros((1, 4))), "owners"),
        (lambda: bars_recovered(np.zeros((2, 4)), np.full((1, 4), 2)), "owners"),
        (lambda: bars_recovered(np.zeros((2, 4)), np.full((1, 4), -2)), "owners"),
    ],
)
def test_errors_name_the_argument(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()
