"""Sums of mixtures: one formula, whatever the engine, the blocks, the weights and the gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.arrays import to_numpy
from dynpart.engines import make_engine, row_log_base
from dynpart.engines.blocks import BlockRows, BlocksEngine
from dynpart.engines.reference import expert_log_densities
from dynpart.rows import Rows
from tests.strategies import FAMILIES, make_experts, make_rows

REFERENCE = make_engine("reference")


def made(seed, family, n_rows=9, **rows):
    rng = np.random.default_rng(seed)
    experts = make_experts(rng, family, n_experts=4, n_features=5)
    log_weight = np.log(rng.dirichlet(np.ones(4)))
    return make_rows(rng, experts, n_rows, **rows), experts, log_weight


def assert_same(found, expected):
    np.testing.assert_allclose(to_numpy(found.sums.array), expected.sums.array, rtol=1e-9)
    np.testing.assert_allclose(to_numpy(found.usage), expected.usage, rtol=1e-9)
    assert float(found.log_likelihood) == pytest.approx(expected.log_likelihood)
    assert float(found.log_joint) == pytest.approx(expected.log_joint)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(FAMILIES),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.0, 1.3]),
)
def test_sums_are_those_of_the_definition(seed, family, weighted, gaps, sharpness):
    rows, experts, log_weight = made(seed, family, weighted=weighted, missing=0.3 * gaps)
    found = REFERENCE.mixture_sums(rows, experts, log_weight, sharpness)
    scores = expert_log_densities(rows, experts).sum(axis=2) + log_weight
    log_density = np.logaddexp.reduce(scores, axis=1)
    share = np.exp(sharpness * (scores - log_density[:, None]))
    share /= share.sum(axis=1, keepdims=True)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    told = log_density + row_log_base(rows, experts.family)
    assert float(found.log_likelihood) == pytest.approx(weight @ told)
    best = scores.max(axis=1) + row_log_base(rows, experts.family)
    assert float(found.log_joint) == pytest.approx(weight @ best)
    np.testing.assert_allclose(found.usage, weight @ share)
    T = experts.family.statistics(rows.values)
    observed = ~np.isnan(T[0])
    np.testing.assert_allclose(found.sums.weight, (weight[:, None] * share).T @ observed)
    for s, statistic in enumerate(np.where(observed, T, 0.0)):
        expected = (weight[:, None] * share).T @ statistic
        np.testing.assert_allclose(found.sums.statistics[s], expected, atol=1e-9)


@pytest.mark.parametrize("name", ["cpu", "torch"])
@pytest.mark.parametrize("family", FAMILIES)
def test_engines_agree(name, family):
    if name == "torch":
        pytest.importorskip("torch")
    rows, experts, log_weight = made(1, family, weighted=True, missing=0.2)
    found = make_engine(name).mixture_sums(rows, experts, log_weight, 1.3)
    assert_same(found, REFERENCE.mixture_sums(rows, experts, log_weight, 1.3))


def test_blocks_add_up():
    rows, experts, log_weight = made(2, "mixed", n_rows=20, missing=0.2)
    blocks = [rows.values[:7], rows.values[7:8], rows.values[8:]]
    held, _ = BlockRows.scan(blocks, lambda block, _: Rows(block, complete=False))
    found = BlocksEngine(REFERENCE).mixture_sums(held, experts, log_weight, 1.3)
    assert_same(found, REFERENCE.mixture_sums(rows, experts, log_weight, 1.3))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_weight_of_w_is_w_equal_rows(family):
    rows, experts, log_weight = made(3, family, weighted=True)
    repeated = rows[np.repeat(np.arange(len(rows)), rows.weight.astype(int))].weighing(None)
    assert_same(
        REFERENCE.mixture_sums(rows, experts, log_weight),
        REFERENCE.mixture_sums(repeated, experts, log_weight),
    )


def test_sizes_that_do_not_agree_are_refused():
    rows, experts, log_weight = made(4, "bernoulli")
    with pytest.raises(ValueError, match=r"costs of shape \(3,\).* 4 experts"):
        REFERENCE.mixture_sums(rows, experts, log_weight[:3])
