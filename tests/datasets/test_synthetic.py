"""Synthetic data: every row is a composition of the factors it was made from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.datasets import bar_templates, make_bars, make_pairs


@given(n_pairs=st.integers(1, 8))
def test_all_combinations_of_pairs_occur_once(n_pairs):
    X = make_pairs(n_pairs)
    assert X.dtype == np.uint8
    assert X.shape == (2**n_pairs, 2 * n_pairs)
    assert len(np.unique(X, axis=0)) == 2**n_pairs
    np.testing.assert_array_equal(X[:, ::2] + X[:, 1::2], 1)


@given(n_pairs=st.integers(1, 30), n_samples=st.integers(1, 50), seed=st.integers(0, 2**32 - 1))
def test_drawn_pairs_are_pairs_and_follow_the_seed(n_pairs, n_samples, seed):
    X = make_pairs(n_pairs, n_samples, random_state=seed)
    assert X.shape == (n_samples, 2 * n_pairs)
    np.testing.assert_array_equal(X[:, ::2] + X[:, 1::2], 1)
    np.testing.assert_array_equal(X, make_pairs(n_pairs, n_samples, random_state=seed))


def test_many_pairs_are_drawn_rather_than_listed():
    assert make_pairs(20, random_state=0).shape == (4000, 40)


@given(size=st.integers(2, 7), seed=st.integers(0, 1000), probability=st.floats(0, 1))
def test_an_image_is_the_union_of_the_bars_it_contains(size, seed, probability):
    X = make_bars(size, n_samples=20, probability=probability, random_state=seed)
    assert X.dtype == np.uint8
    bars = bar_templates(size)
    contained = (X[:, None, :] >= bars).all(axis=2)
    union = (contained[:, :, None] & bars).any(axis=1)
    np.testing.assert_array_equal(X, union)


def test_bars_show_twice_per_image_on_average_by_default():
    X = make_bars(8, n_samples=5000, random_state=0)
    # A pixel is off if both bars through it are: (1 - 1/8)**2.
    assert abs(X.mean() - (1 - (7 / 8) ** 2)) < 0.01


def test_bars_of_probability_zero_and_one():
    assert not make_bars(3, 5, probability=0).any()
    assert make_bars(3, 5, probability=1).all()


def test_each_bar_has_its_own_line():
    bars = bar_templates(4)
    assert (bars.sum(axis=1) == 4).all()
    assert (bars.sum(axis=0) == 2).all()
    assert len(np.unique(bars, axis=0)) == 8


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: make_pairs(0), "n_pairs"),
        (lambda: make_pairs(2.5), "n_pairs"),
        (lambda: make_pairs(True), "n_pairs"),
        (lambda: make_pairs(3, n_samples=0), "n_samples"),
        (lambda: make_bars(1), "size"),
        (lambda: make_bars(5, n_samples=-1), "n_samples"),
        (lambda: make_bars(5, probability=1.5), "probability"),
        (lambda: make_bars(5, probability=float("nan")), "probability"),
    ],
)
def test_errors_name_the_argument(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()
