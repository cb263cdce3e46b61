"""Compiled sums of codes and forests, held to what they mean."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dynpart.prior import _fitting, _kernels
from dynpart.prior._code_prior import MANY_SCORES
from tests.effort import examples
from tests.test_prior import random_prior


def drawn_codes(rng, n_experts):
    n_rows = rng.integers(1, 200)
    codes = rng.random((n_rows, n_experts)) < rng.random(n_experts)
    return _fitting._Counted.of(codes, rng.uniform(0.1, 3, n_rows))


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 6))
def test_rows_are_shared_out_by_how_probable_types_are(seed, n_experts, n_types):
    rng = np.random.default_rng(seed)
    counted, prior = drawn_codes(rng, n_experts), random_prior(rng, n_types, n_experts)
    types, log_prob = counted.shared_out(prior)
    share = counted.counts[:, None] * prior.type_probabilities(counted.codes)
    np.testing.assert_allclose(types.share, share, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(types.n_rows, share.sum(axis=0), atol=1e-8)
    np.testing.assert_allclose(types.active, share.T @ counted.codes, atol=1e-8)
    np.testing.assert_allclose(log_prob, counted.counts @ prior.log_prob(counted.codes))
    pairs = counted.pairs(types, slice(0, n_types))
    heavy = np.where(share > _fitting.NEGLIGIBLE * counted.counts[:, None], share, 0.0)
    expected = np.einsum("nc,ni,nj->cij", heavy, counted.codes, counted.codes)
    np.testing.assert_allclose(pairs, expected, rtol=1e-6, atol=1e-6)


def test_many_codes_are_as_probable_as_few():
    rng = np.random.default_rng(1)
    prior = random_prior(rng, 8, 30)
    codes = rng.random((4000, 30)) < 0.2
    few = np.concatenate([prior.log_prob(codes[i : i + 100]) for i in range(0, 4000, 100)])
    assert len(codes) * prior.n_types >= MANY_SCORES > 100 * prior.n_types
    np.testing.assert_allclose(prior.log_prob(codes), few, rtol=1e-10)


def test_blocks_and_threads_change_nothing_but_rounding(monkeypatch):
    rng = np.random.default_rng(0)
    codes = rng.random((6000, 40)) < rng.random(40) / 2
    prior = random_prior(rng, 8, 40)
    whole, log_prob = _fitting._Counted.of(codes, None).shared_out(prior)
    monkeypatch.setattr(_fitting, "BLOCK_CODES", 100)
    monkeypatch.setattr("dynpart.threads.SHARED_TERMS", 1)
    parts, again = _fitting._Counted.of(codes, None).shared_out(prior)
    np.testing.assert_array_equal(parts.share, whole.share)
    np.testing.assert_allclose(parts.active, whole.active)
    np.testing.assert_allclose(again, log_prob)


def gains_of_edges(pairs, n_rows, overall):
    """Mutual information of every two experts, times rows, from the four cells of their table."""
    gain = np.zeros_like(pairs)
    total = n_rows + _fitting.SHRINKAGE
    both = pairs + _fitting.SHRINKAGE * np.outer(overall, overall)
    single = np.diagonal(pairs) + _fitting.SHRINKAGE * overall
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
    _kernels.heaviest_forests(pairs, n_rows, overall, _fitting.SHRINKAGE, price, parent)
    gain = gains_of_edges(pairs[0], n_rows[0], overall)
    child = np.flatnonzero(parent[0] >= 0)
    edges = gain[child, parent[0, child]]
    assert (edges > price - 1e-9).all()
    np.testing.assert_allclose((edges - price).sum(), heaviest_forest(gain, price), atol=1e-7)
