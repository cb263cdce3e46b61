"""Two kinds of arrays, one set of formulas."""

import numpy as np
import pytest

from dynpart.arrays import (
    as_float64,
    copied,
    first_true,
    in_order,
    in_rows,
    is_remote,
    is_tensor,
    like,
    log_gamma,
    namespace,
    put_along,
    stable_order,
    sums_by_place,
    take_along,
    to_numpy,
)
from dynpart.composition import compose_hard, expertise_ranks, owners
from dynpart.families import column_moments, make_family

torch = pytest.importorskip("torch")


def test_arrays_become_each_other():
    array = np.array([[1.0, 2.0]])
    tensor = like(array, torch.zeros(1))
    assert is_tensor(tensor)
    assert not is_tensor(array)
    assert namespace(tensor) is torch
    assert namespace(array) is np
    np.testing.assert_array_equal(to_numpy(tensor), array)
    np.testing.assert_array_equal(like(tensor, array), array)
    assert as_float64(torch.ones(2, dtype=torch.uint8)).dtype == torch.float64
    twin = copied(tensor)
    twin += 1
    assert tensor[0, 0] == 1
    twin = copied(array)
    twin += 1
    assert array[0, 0] == 1
    mixed = np.array([[3.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(in_order(mixed), [[1, 1], [3, 2]])
    np.testing.assert_array_equal(to_numpy(in_order(torch.as_tensor(mixed))), [[1, 1], [3, 2]])


def test_numbers_are_taken_put_and_summed_by_place_alike():
    rng = np.random.default_rng(0)
    values, wide = rng.integers(0, 9, (3, 5)).astype(float), rng.random((3, 8))
    index = np.stack([rng.permutation(8)[:5] for _ in range(3)])
    place = rng.integers(0, 5, (3, 5))
    expected = np.zeros((3, 5))
    np.add.at(expected, (np.arange(3)[:, None], place), values)
    for kind in (np.asarray, torch.as_tensor):
        taken = take_along(kind(wide), kind(index))
        spread = put_along(kind(values), kind(index), 8)
        np.testing.assert_array_equal(to_numpy(taken), np.take_along_axis(wide, index, axis=1))
        np.testing.assert_array_equal(to_numpy(take_along(spread, kind(index))), values)
        assert to_numpy(spread).sum() == values.sum()
        np.testing.assert_array_equal(to_numpy(sums_by_place(kind(values), kind(place))), expected)
        order = to_numpy(stable_order(kind(values[0])))
        np.testing.assert_array_equal(order, np.lexsort((np.arange(5), values[0])))
        assert not is_remote(kind(values))
    assert in_rows(values.T).flags.c_contiguous
    assert in_rows(torch.as_tensor(values).T).is_contiguous()


def test_the_first_of_many_places_is_found_row_by_row():
    mask = np.zeros((4, 3), dtype=bool)
    assert first_true(mask) is None
    mask[2, 0] = mask[1, 2] = True
    assert first_true(mask) == first_true(torch.as_tensor(mask)) == (1, 2)


@pytest.mark.parametrize("gray", [False, True])
def test_formulas_do_not_care_whose_arrays_they_get(gray):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) if gray else rng.integers(0, 2, (40, 6)).astype(np.uint8)
    moments, there = column_moments(X), column_moments(torch.as_tensor(X))
    np.testing.assert_allclose(to_numpy(there.variance), moments.variance)
    assert there.is_binary == moments.is_binary
    family, other = make_family("auto", moments), make_family("auto", there)
    mean = moments.mean + 0.3 * rng.uniform(-1, 1, (4, 6))
    eta = family.from_moments(mean, np.broadcast_to(moments.variance, mean.shape))
    level = rng.integers(0, 3, (4, 6)).astype(float)  # with ties
    t_eta, t_level = torch.as_tensor(eta), torch.as_tensor(level)
    for ours, theirs in zip(family.natural(eta), other.natural(t_eta), strict=True):
        np.testing.assert_allclose(to_numpy(theirs), ours)
    np.testing.assert_array_equal(to_numpy(expertise_ranks(t_level)), expertise_ranks(level))
    active = rng.integers(0, 2, (5, 4)).astype(bool)
    active[:, 0] = True
    owner = owners(expertise_ranks(level), active)
    there_owner = owners(expertise_ranks(t_level), torch.as_tensor(active))
    np.testing.assert_array_equal(to_numpy(there_owner), owner)
    np.testing.assert_array_equal(
        to_numpy(compose_hard(t_eta, there_owner)), compose_hard(eta, owner)
    )


def test_log_gamma_is_that_of_scipy():
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 300, 2000)), rng.uniform(0, 20, 2000)])
    np.testing.assert_allclose(log_gamma(x), special.gammaln(x), rtol=1e-13, atol=1e-13)
    assert log_gamma(0.0) == np.inf
    assert log_gamma(np.ones((2, 3))).shape == (2, 3)
