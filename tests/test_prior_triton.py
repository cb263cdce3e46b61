"""EM over codes by kernels: the same priors as by matrices. Triton's interpreter runs them here."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.arrays import to_numpy
from dynpart.prior import _fitting
from dynpart.prior._counted import EDGE_PRICE
from dynpart.prior._dense import DenseCodes
from tests.effort import examples
from tests.test_prior import random_prior

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("kernels need a GPU, or TRITON_INTERPRET=1", allow_module_level=True)

from dynpart.prior._triton_em import KernelCodes  # noqa: E402
from tests.test_prior_dense import drawn_codes  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def counted(codes, weight):
    """The same codes as matrices, and as kernels read them."""
    there = [torch.as_tensor(array, device=DEVICE) for array in (codes, weight)]
    return DenseCodes.of(*there), KernelCodes.of(*there)


def assert_same(found, expected):
    """The same prior, but for rounding."""
    np.testing.assert_array_equal(to_numpy(found.parent), to_numpy(expected.parent))
    for name in ("log_weight", "log_table"):
        numbers = [to_numpy(getattr(prior, name)) for prior in (found, expected)]
        np.testing.assert_allclose(*numbers, rtol=1e-7, atol=1e-9)
    for ours, theirs in zip(found.coefficients, expected.coefficients, strict=True):
        np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("edges", [False, True])
@examples(10)
@given(seed=st.integers(0, 10**6), n_experts=st.integers(1, 9), n_types=st.integers(1, 6))
def test_kernels_iterate_as_matrices_do(edges, seed, n_experts, n_types):
    rng = np.random.default_rng(seed)
    dense, kernels = counted(*drawn_codes(rng, int(rng.integers(1, 60)), n_experts))
    tree = random_prior(rng, n_types, n_experts)
    plain = tree.mixture(tree.log_weight, rng.uniform(0.05, 0.95, (n_types, n_experts)))
    price = EDGE_PRICE if seed % 2 else float(rng.uniform(0, 3))
    for prior, linked in ((tree, True), (plain, False)):
        here = prior.like(dense.counts)
        told = [float(some.log_prob(here, linked=linked)) for some in (kernels, dense)]
        np.testing.assert_allclose(*told)
        found = [
            some.em(here, 2, linked=linked, edges=edges, price=price) for some in (kernels, dense)
        ]
        assert_same(*found)
    for ours, theirs in zip(kernels.likeliest(here), dense.likeliest(here), strict=True):
        np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs))


@pytest.mark.parametrize("n_types", [2, 40])
def test_programs_that_iterate_by_themselves_add_up_all_codes(n_types):
    rng = np.random.default_rng(n_types)
    dense, kernels = counted(*drawn_codes(rng, 700, 12))
    assert len(dense.counts) > 150  # more than a program reads at a time
    p = rng.uniform(0.05, 0.95, (n_types, 12))
    prior = random_prior(rng, n_types, 12).mixture(np.full(n_types, -np.log(n_types)), p)
    here = prior.like(dense.counts)
    found = [some.em(here, 4, linked=False, edges=False) for some in (kernels, dense)]
    assert_same(*found)
    assert_same(here, prior.like(dense.counts))  # where they began is unchanged


@examples(5)
@given(seed=st.integers(0, 10**6), n_experts=st.integers(1, 9), n_types=st.integers(1, 6))
def test_kernels_begin_the_same_types(seed, n_experts, n_types):
    rng = np.random.default_rng(seed)
    dense, kernels = counted(*drawn_codes(rng, 40, n_experts))
    tree = random_prior(rng, n_types, n_experts)
    plain = tree.mixture(tree.log_weight, rng.uniform(0.05, 0.95, (n_types, n_experts)))
    here = plain.like(dense.counts)
    n_codes = len(dense.counts)
    n_more = int(rng.integers(1, min(n_types, n_codes) + 1))
    drawn = torch.as_tensor(rng.choice(n_codes, n_more, replace=False), device=DEVICE)
    own = dense.likeliest(here)[0]
    assert_same(*(some.begun(here, own, drawn) for some in (kernels, dense)))


def test_kernels_leave_out_types_without_rows():
    codes = np.repeat(np.eye(4, dtype=bool), 10, axis=0)
    dense, kernels = counted(codes, np.full(40, 0.2))
    apart = np.array([[0.9, 0.1, 0.1, 0.1], [0.1, 0.9, 0.9, 0.9], [0.8, 0.8, 0.1, 0.1]])
    prior = random_prior(0, 3, 4).mixture(np.log([0.49, 0.49, 0.02]), apart).like(dense.counts)
    for edges in (False, True):
        found = [some.em(prior, 3, linked=False, edges=edges) for some in (kernels, dense)]
        assert found[0].n_types == 2
        assert_same(*found)


@examples(4)
@given(seed=st.integers(0, 10**6), n_experts=st.integers(2, 8), n_rows=st.integers(100, 200))
def test_kernels_choose_the_same_candidate(seed, n_experts, n_rows):
    codes, weight = drawn_codes(np.random.default_rng(seed), n_rows, n_experts)
    found = []
    for some in counted(codes, weight):
        best, score = _fitting._best_candidate(*some.tried.held_back(), 4)
        found.append((_fitting._refitted(best, some).prior, score))
    (dense, score), (kernels, its_score) = found
    np.testing.assert_allclose(its_score, score)
    assert_same(kernels, dense)


def test_kernels_count_pairs_of_codes_with_many_experts():
    rng = np.random.default_rng(0)
    codes = rng.random((24, 70)) < 0.7  # more experts than are paired at a time
    # Rows of different weights: no two edges gain the same.
    dense, kernels = counted(codes, rng.uniform(1, 5, 24))
    prior = dense.independent()
    found = [some.em(prior, 1, linked=False, edges=True, price=0.5) for some in (kernels, dense)]
    assert_same(*found)
