"""The contract: engines see only arrays that suit each other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.engines import Experts, PursuitRule, make_engine
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from tests.strategies import make_experts, make_prior, make_rows, make_rule


@pytest.mark.parametrize("engine", ["reference", "cpu", "torch"])
def test_engines_refuse_arrays_that_do_not_suit_each_other(engine):
    if engine == "torch":
        pytest.importorskip("torch")
    engine = make_engine(engine)
    rng = np.random.default_rng(0)
    experts = make_experts(rng)
    rows = make_rows(rng, experts, 6)
    with pytest.raises(ValueError, match=r"rows of shape \(6, 4\).* 7 variables"):
        pursue(engine, Rows(rows.values[:, :4]), experts, make_rule(5))
    with pytest.raises(ValueError, match=r"costs of shape \(500,\).* 5 experts"):
        pursue(engine, rows, experts, make_rule(500))
    if engine.name == "reference":
        return
    codes = pursue(engine, rows, experts, make_rule(5))
    for sums in (engine.gradient_sums, engine.responsibility_sums):
        with pytest.raises(ValueError, match=r"codes of shape .* 4 rows"):
            sums(rows[:4], experts, codes)
        with pytest.raises(ValueError, match=r"rows of shape"):
            sums(Rows(rows.values[:, :3]), experts, codes)
    if engine.name == "cpu":
        codes.members[0, 0] = 77
        with pytest.raises(ValueError, match="expert 77, there are 5"):
            engine.gradient_sums(rows, experts, codes)


def test_rows_hold_together():
    with pytest.raises(ValueError, match=r"two axes, got shape \(3,\)"):
        Rows(np.zeros(3))
    with pytest.raises(ValueError, match=r"3 rows must have as many weights, got shape \(2,\)"):
        Rows(np.zeros((3, 2)), np.ones(2))


def test_a_refinement_needs_somebody_to_guide_it():
    experts = make_experts(np.random.default_rng(0))
    rows = make_rows(np.random.default_rng(0), experts)
    with pytest.raises(ValueError, match="n_swaps=2 needs a background expert"):
        make_engine("reference").pursue(rows, experts, make_rule(5, n_swaps=2))


def test_experts_and_rules_hold_together():
    experts = make_experts(np.random.default_rng(0))
    with pytest.raises(ValueError, match="disagree"):
        Experts(experts.family, experts.eta[:, :3], experts.log2_expertise)
    with pytest.raises(ValueError, match="disagree"):
        Experts(experts.family, experts.eta[0], experts.log2_expertise)
    with pytest.raises(ValueError, match="at least 1, got 0 and 0"):
        PursuitRule(0, 0, np.zeros(5))


def test_a_prior_must_suit_the_experts():
    prior = CodePrior.independent([0.5, 0.25])
    with pytest.raises(ValueError, match="prior over codes of 2 experts does not match 3"):
        PursuitRule(1, 3, np.zeros(3), prior=prior)


def test_a_prior_must_be_made_of_trees():
    rule = make_rule(
        2, prior=replace(CodePrior.independent([0.5, 0.25]), parent=np.array([[1, 0]]))
    )
    with pytest.raises(ValueError, match="circle"):
        _ = rule.charges


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_charges_are_the_prior_less_the_costs(n_experts, n_types, seed):
    """Of whole codes, and of every single change: costs are what the objective changes by."""
    rng = np.random.default_rng(seed)
    prior, cost = make_prior(rng, n_experts, n_types), rng.normal(0, 1, n_experts)
    charges = make_rule(n_experts, cost=cost, prior=prior).charges
    h = rng.random((5, n_experts)) < 0.4
    order = np.full((5, n_experts), -1)
    for row in range(5):
        code = rng.permutation(np.flatnonzero(h[row]))
        order[row, : len(code)] = code
    expected = prior.log_joint(h) - (h @ cost)[:, None]
    np.testing.assert_allclose(charges.of_types(order), expected, rtol=1e-10, atol=1e-10)
    expected = prior.log_prob(h) - h @ cost
    np.testing.assert_allclose(charges.of_codes(order), expected, rtol=1e-10, atol=1e-10)
    types = rng.integers(0, n_types, 5)
    for k in range(n_experts):
        on, off = h.copy(), h.copy()
        on[:, k], off[:, k] = True, False
        change = (prior.log_joint(off) - prior.log_joint(on))[np.arange(5), types] + cost[k]
        np.testing.assert_allclose(charges.costs_in(order, types)[:, k], change, atol=1e-10)
        change = prior.log_prob(off) - prior.log_prob(on) + cost[k]
        np.testing.assert_allclose(charges.costs(order)[:, k], change, atol=1e-10)
