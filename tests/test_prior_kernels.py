"""Compiled sums of codes and forests, held to what they mean."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from dynpart.prior import _kernels, _lists
from dynpart.prior._counted import LEAST_SHARE, NEGLIGIBLE, SHRINKAGE, n_pairs
from dynpart.prior._lists import ListedCodes
from tests.effort import examples
from tests.test_prior import random_prior


def drawn_codes(rng, n_experts):
    n_rows = rng.integers(1, 200)
    codes = rng.random((n_rows, n_experts)) < rng.random(n_experts)
    return ListedCodes.of(codes, rng.uniform(0.1, 3, n_rows))


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 6))
def test_rows_are_shared_out_by_how_probable_types_are(seed, n_experts, n_types):
    rng = np.random.default_rng(seed)
    counted, prior = drawn_codes(rng, n_experts), random_prior(rng, n_types, n_experts)
    types = counted.shared_out(prior, linked=True)
    joint = prior.log_joint(counted.codes)
    below = joint - joint.max(axis=1, keepdims=True)
    share = np.where(below > LEAST_SHARE, np.exp(below), 0.0)  # the rest is left out
    share *= counted.counts[:, None] / share.sum(axis=1, keepdims=True)
    share = share[:, share.sum(axis=0) >= min(1.0, share.sum(axis=0).max())]
    np.testing.assert_allclose(types.share, share, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(types.n_rows, share.sum(axis=0), atol=1e-8)
    np.testing.assert_allclose(types.active, share.T @ counted.codes, atol=1e-8)
    log_prob = counted.log_prob(prior, linked=True)
    np.testing.assert_allclose(log_prob, counted.counts @ prior.log_prob(counted.codes))
    own, most = counted.likeliest(prior)
    np.testing.assert_array_equal(own, prior.types(counted.codes))
    np.testing.assert_allclose(most, prior.log_joint(counted.codes).max(axis=1))
    pairs = counted.pairs(types, slice(0, share.shape[1]))
    heavy = np.where(share > NEGLIGIBLE * counted.counts[:, None], share, 0.0)
    expected = np.einsum("nc,ni,nj->cij", heavy, counted.codes, counted.codes)
    k, other = np.tril_indices(n_experts)
    np.testing.assert_allclose(pairs, expected[:, k, other], rtol=1e-6, atol=1e-6)


def test_a_code_is_as_probable_in_any_batch():
    rng = np.random.default_rng(1)
    prior = random_prior(rng, 8, 30)
    codes = rng.random((4000, 30)) < 0.2
    few = np.concatenate([prior.log_prob(codes[i : i + 100]) for i in range(0, 4000, 100)])
    found = prior.log_prob(codes)
    np.testing.assert_array_equal(found, few)
    np.testing.assert_allclose(found, logsumexp(prior.log_joint(codes), axis=1), rtol=1e-10)
    assert prior.log_prob(codes[:0]).shape == (0,)


def test_blocks_and_threads_change_nothing_but_rounding(monkeypatch):
    rng = np.random.default_rng(0)
    codes = rng.random((6000, 40)) < rng.random(40) / 2
    prior = random_prior(rng, 8, 40)
    counted = ListedCodes.of(codes, None)
    whole, log_prob = counted.shared_out(prior, linked=True), counted.log_prob(prior, linked=True)
    monkeypatch.setattr(_lists, "BLOCK_CODES", 100)
    monkeypatch.setattr("dynpart.threads.SHARED_TERMS", 1)
    parts, again = counted.shared_out(prior, linked=True), counted.log_prob(prior, linked=True)
    np.testing.assert_array_equal(parts.share, whole.share)
    np.testing.assert_allclose(parts.active, whole.active)
    np.testing.assert_allclose(again, log_prob)


def gains_of_edges(pairs, n_rows, overall):
    """Mutual information of every two experts, times rows, from the four cells of their table."""
    gain = np.zeros_like(pairs)
    total = n_rows + SHRINKAGE
    both = pairs + SHRINKAGE * np.outer(overall, overall)
    single = np.diagonal(pairs) + SHRINKAGE * overall
    for i, j in combinations(range(len(overall)), 2):
        cells = np.array([
            [total - single[i] - single[j] + both[i, j], single[j] - both[i, j]],
            [single[i] - both[i, j], both[i, j]],
        ]).clip(1e-300)  # fmt: skip
        expected = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / total
        gain[i, j] = gain[j, i] = (cells * np.log(cells / expected)).sum()
    return gain


def heaviest_forest(gain, price):
    """Total gain beyond the price, by Kruskal's rule."""
    tree, total = list(range(len(gain))), 0.0
    edges = sorted(((gain[i, j], i, j) for i, j in combinations(tree, 2)), reverse=True)
    for weight, i, j in edges:
        if weight > price and tree[i] != tree[j]:
            total += weight - price
            tree = [tree[i] if place == tree[j] else place for place in tree]
    return total


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(0, 6))
def test_forests_are_the_heaviest(seed, n_experts, price):
    rng = np.random.default_rng(seed)
    counted = drawn_codes(rng, n_experts)
    overall, n_rows = counted.frequencies, np.array([counted.n_rows])
    pairs = ((counted.codes.T * counted.counts) @ counted.codes)[None]
    parent = np.empty((1, n_experts), dtype=np.int64)
    packed = pairs[:, *np.tril_indices(n_experts)]
    edges = np.zeros((1, n_pairs(n_experts)))
    _kernels.gains_of_edges(packed, n_rows, overall, SHRINKAGE, price, edges)
    _kernels.heaviest_forests(edges, parent)
    gain = gains_of_edges(pairs[0], n_rows[0], overall)
    child = np.flatnonzero(parent[0] >= 0)
    edges = gain[child, parent[0, child]]
    assert (edges > price - 1e-9).all()
    np.testing.assert_allclose((edges - price).sum(), heaviest_forest(gain, price), atol=1e-7)
