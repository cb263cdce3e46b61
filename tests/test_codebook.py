"""The code book: codes counted, and what they say about gaps, straight from the formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import codebook
from dynpart.codebook import EVIDENCE, OWN, CodeBook, guesses
from dynpart.composition import owners
from dynpart.pursuits import pursue
from tests.engines.parity import REFERENCE
from tests.strategies import make_rule, problems


@given(st.integers(1, 20), st.integers(1, 40), st.booleans(), st.integers(0, 999))
def test_codes_are_counted_as_often_as_rows_weigh(n_experts, n_rows, weighted, seed):
    rng = np.random.default_rng(seed)
    active = rng.random((n_rows, n_experts)) < 0.5
    weight = rng.integers(1, 5, n_rows).astype(float) if weighted else None
    book = CodeBook.of(active, weight)
    assert len(np.unique(book.codes, axis=0)) == len(book)
    assert (np.diff(book.counts) <= 0).all()
    for code, count in zip(book.codes, book.counts, strict=True):
        same = (active == code).all(axis=1)
        assert count == (same.sum() if weight is None else weight[same].sum())


def test_of_very_many_codes_the_most_frequent_are_kept():
    codes = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [0, 1], [0, 1]], dtype=bool)
    book = CodeBook.of(codes, most=2)
    np.testing.assert_array_equal(book.codes, [[0, 1], [1, 1]])
    np.testing.assert_array_equal(book.counts, [3, 2])


@given(problems(max_experts=4), st.integers(0, 999))
def test_guesses_are_opinions_under_all_codes_of_the_book(problem, seed):
    experts, rows = problem
    rng = np.random.default_rng(seed)
    n_experts, every = experts.n_experts, np.arange(rows.shape[1])
    active = rng.random((9, n_experts)) < 0.5
    active[~active.any(axis=1), 0] = True
    book = CodeBook.of(active)
    own = pursue(REFERENCE, rows, experts, make_rule(n_experts)).active(n_experts)
    (guess,) = guesses(rows, own, experts, book)
    family = experts.family
    for row, code in enumerate(own):
        candidates = np.concatenate([book.codes, code[None]])
        counts = np.append(book.counts - (book.codes == code).all(axis=1), OWN).clip(OWN)
        eta = experts.eta[:, owners(experts.ranks, candidates), every]
        likelihood = family.log_density(rows.values[[row] * len(candidates)], eta).sum(axis=1)
        weight = counts * np.exp(EVIDENCE * (likelihood - likelihood.max()))
        expected = np.einsum("c,scd->sd", weight / weight.sum(), eta)
        np.testing.assert_allclose(guess.mixed()[:, row], expected, rtol=1e-8, atol=1e-9)


def test_drawn_codes_come_as_often_as_they_weigh():
    weight = np.tile([[0.2, 0.5, 0.3]], (20_000, 1))
    eta, own = np.array([[[0.0], [1.0]]]), np.full((1, 20_000, 1), 2.0)
    drawn = codebook.Guess(slice(0, 20_000), weight, eta, own).drawn(np.random.RandomState(0))
    shares = np.bincount(drawn[0, :, 0].astype(int)) / 20_000
    assert shares == pytest.approx([0.2, 0.5, 0.3], abs=0.02)
