"""Rows that are left out: by weight as they would be by repetition, each once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.learning import leave_out
from dynpart.learning._left_out import together

SEEDS = st.integers(0, 2**32 - 1)


def drawn(weight, n_rows, n_left_out, n_folds, seed):
    return leave_out(weight, n_rows, n_left_out, n_folds, np.random.default_rng(seed))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=12).filter(any),
    st.integers(1, 20),
    st.integers(1, 5),
    SEEDS,
)
def test_a_row_is_left_out_as_often_as_its_copies_are(weight, n_left_out, n_folds, seed):
    weight = np.array(weight, dtype=float)
    copies = np.repeat(np.arange(len(weight)), weight.astype(int))
    by_weight = drawn(weight, len(weight), n_left_out, n_folds, seed)
    by_copies = drawn(None, len(copies), n_left_out, n_folds, seed)
    assert len(by_weight) == len(by_copies)
    for one, other in zip(by_weight, by_copies, strict=True):
        rows, often = np.unique(copies[other.indices], return_counts=True)
        np.testing.assert_array_equal(one.indices, rows)
        np.testing.assert_allclose(one.amount, often)


@given(
    st.lists(st.floats(0.01, 3), min_size=2, max_size=12),
    st.integers(1, 20),
    st.integers(1, 5),
    SEEDS,
)
def test_no_more_is_left_out_than_there_is(weight, n_left_out, n_folds, seed):
    weight = np.array(weight)
    folds = drawn(weight, len(weight), n_left_out, n_folds, seed)
    for fold in folds:
        assert (fold.amount <= weight[fold.indices] + 1e-12).all()
        rest, amount = fold.of_others(weight, len(weight))
        total = amount.sum() + fold.amount.sum()
        assert total == pytest.approx(weight.sum())
        assert (np.diff(rest) > 0).all()


def test_folds_share_out_all_rows():
    folds = drawn(None, 23, 23, 5, 0)
    assert sorted(np.concatenate([fold.indices for fold in folds])) == list(range(23))
    at_once = together(folds)
    np.testing.assert_array_equal(at_once.indices, np.arange(23))
    assert at_once.of_others(None, 23)[0].size == 0
