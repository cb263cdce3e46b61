"""Codes as matrices, of NumPy or of torch: the same priors as from lists in compiled code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.arrays import is_tensor, to_numpy
from dynpart.codebook import CodeBook
from dynpart.learning._learner import prior_of
from dynpart.prior import _dense, _fitting, distinct_codes
from dynpart.prior._dense import DenseCodes
from dynpart.prior._lists import ListedCodes
from tests.effort import examples
from tests.test_prior import random_prior

torch = pytest.importorskip("torch")
TorchCodes = pytest.importorskip("dynpart.engines._torch_codes").TorchCodes

KINDS = {"numpy": np.asarray, "torch": torch.as_tensor}


def drawn_codes(rng, n_rows, n_experts):
    """Codes with dependences, some of them equal, and weights."""
    truth = random_prior(rng, 3, n_experts)
    return truth.sample(n_rows, rng)[0], rng.uniform(0.1, 3, n_rows)


def counted(kind, codes, weight):
    """The same codes as lists and as matrices."""
    as_kind = KINDS[kind]
    return ListedCodes.of(codes, weight), DenseCodes.of(as_kind(codes), as_kind(weight))


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(seed=st.integers(0, 10**6), n_experts=st.integers(1, 130), n_rows=st.integers(1, 200))
def test_distinct_codes_are_those_of_their_packed_bits(kind, seed, n_experts, n_rows):
    rng = np.random.default_rng(seed)
    few = rng.random((1 + n_rows // 3, n_experts)) < 0.3
    codes, weight = few[rng.integers(len(few), size=n_rows)], rng.integers(0, 4, n_rows)
    packed, inverse = np.unique(np.packbits(codes, axis=1), axis=0, return_inverse=True)
    for given_weight in (None, weight):
        rows, counts = distinct_codes(KINDS[kind](codes), given_weight)
        expected = np.bincount(inverse.ravel(), given_weight, minlength=len(packed))
        np.testing.assert_array_equal(np.packbits(codes[to_numpy(rows)], axis=1), packed)
        np.testing.assert_array_equal(to_numpy(counts), expected)


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(seed=st.integers(0, 10**6), n_experts=st.integers(1, 9), n_types=st.integers(1, 6))
def test_sums_over_codes_are_those_of_lists(kind, seed, n_experts, n_types):
    rng = np.random.default_rng(seed)
    lists, dense = counted(kind, *drawn_codes(rng, int(rng.integers(1, 200)), n_experts))
    np.testing.assert_array_equal(lists.codes, to_numpy(dense.codes))
    np.testing.assert_allclose(to_numpy(dense.frequencies), lists.frequencies)
    tree = random_prior(rng, n_types, n_experts)
    plain = tree.mixture(tree.log_weight, rng.uniform(0.05, 0.95, (n_types, n_experts)))
    for prior, linked in ((tree, True), (plain, False)):
        here = prior.like(dense.counts)
        listed, shared = (
            some.shared_out(of, linked=linked) for some, of in ((lists, prior), (dense, here))
        )
        kept = to_numpy(shared.n_rows) > 0
        np.testing.assert_allclose(to_numpy(shared.n_rows)[kept], listed.n_rows)
        np.testing.assert_allclose(to_numpy(shared.share)[:, kept], listed.share, atol=1e-12)
        np.testing.assert_allclose(to_numpy(shared.active)[kept], listed.active, atol=1e-10)
        told = float(dense.log_prob(here, linked=linked))
        np.testing.assert_allclose(told, lists.log_prob(prior, linked=linked))
    own, most = lists.likeliest(plain)
    np.testing.assert_array_equal(to_numpy(dense.likeliest(here)[0]), own)
    np.testing.assert_allclose(to_numpy(dense.likeliest(here)[1]), most)


@pytest.mark.parametrize("kind", KINDS)
@examples(12)
@given(seed=st.integers(0, 10**6), n_experts=st.integers(1, 12), n_rows=st.integers(1, 900))
def test_the_same_candidate_is_chosen_and_codes_are_as_probable(kind, seed, n_experts, n_rows):
    rng = np.random.default_rng(seed)
    codes, weight = drawn_codes(rng, n_rows, n_experts)
    priors = []
    for some in counted(kind, codes, weight):
        train, test = some.tried.held_back()
        if test.n_rows < _fitting.FEWEST_HELD_BACK:
            priors.append(_fitting._careful_forest(some).prior.like(np.empty(0)))
        else:
            best = _fitting._best_candidate(train, test, 16)[0]
            priors.append(_fitting._refitted(best, some).prior.like(np.empty(0)))
    listed, dense = priors
    assert dense.n_types == listed.n_types
    assert (dense.parent >= 0).sum() == (listed.parent >= 0).sum()
    np.testing.assert_allclose(dense.log_prob(codes), listed.log_prob(codes), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edges", [False, True])
def test_types_without_rows_are_left_out_of_both(kind, edges):
    codes = np.repeat(np.eye(4, dtype=bool), 10, axis=0)
    lists, dense = counted(kind, codes, np.full(40, 0.2))
    apart = np.array([[0.9, 0.1, 0.1, 0.1], [0.1, 0.9, 0.9, 0.9], [0.8, 0.8, 0.1, 0.1]])
    prior = random_prior(0, 3, 4).mixture(np.log([0.49, 0.49, 0.02]), apart)
    found = [
        _fitting._em(_fitting._Candidate(prior.like(some.counts), False), some, 3, edges=edges)
        for some in (lists, dense)
    ]
    assert [one.prior.n_types for one in found] == [2, 2]
    table = [to_numpy(one.prior.log_table) for one in found]
    np.testing.assert_allclose(table[0], table[1])


def test_blocks_change_nothing_but_rounding(monkeypatch):
    rng = np.random.default_rng(0)
    codes, weight = drawn_codes(rng, 300, 8)
    _, dense = counted("torch", codes, weight)
    prior = random_prior(1, 4, 8).like(dense.counts)
    whole = dense.shared_out(prior, linked=True)
    pairs = dense._pairs(whole)
    monkeypatch.setattr(_dense, "BLOCK_VALUES", 1000)
    parts = dense.shared_out(prior, linked=True)
    np.testing.assert_allclose(to_numpy(parts.share), to_numpy(whole.share))
    np.testing.assert_allclose(to_numpy(dense._pairs(parts)), to_numpy(pairs))


def test_codes_of_the_torch_engine_get_the_same_prior_where_they_are(monkeypatch):
    rng = np.random.default_rng(3)
    active, weight = drawn_codes(rng, 400, 6)
    active[:, 0] |= ~active.any(axis=1)
    slots = np.where(active, np.arange(6), 6)
    members = torch.as_tensor(np.where(np.sort(slots) == 6, -1, np.sort(slots)))
    codes = TorchCodes(members, torch.zeros(400), 6, False, weight=torch.as_tensor(weight))
    book = CodeBook.of(codes.active(6), codes.weight)
    np.testing.assert_array_equal(book.codes, CodeBook.of(active, weight).codes)
    on_host = prior_of(codes, 6, 16)
    monkeypatch.setattr(_fitting, "is_remote", is_tensor)
    there = prior_of(codes, 6, 16)
    np.testing.assert_allclose(there.log_prob(active), on_host.log_prob(active), rtol=1e-6)


@examples(20)
@given(seed=st.integers(0, 10**6), n_experts=st.integers(1, 9), n_types=st.integers(1, 5))
def test_codes_are_as_probable_in_torch(seed, n_experts, n_types):
    rng = np.random.default_rng(seed)
    prior, codes = random_prior(rng, n_types, n_experts), rng.random((50, n_experts)) < 0.4
    there = torch.as_tensor(codes)
    expected = prior.log_prob(codes)
    np.testing.assert_allclose(to_numpy(prior.like(there)._log_sums(there)), expected)
    for either in (prior, prior.like(there)):
        told = either.log_prob(there)
        assert is_tensor(told)
        np.testing.assert_allclose(to_numpy(told), expected)
