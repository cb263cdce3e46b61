"""Sums over the neighbourhood of codes, held to sums over all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from dynpart import DynamicPartitionModel
from dynpart.encoding import log_likelihood
from dynpart.engines import Experts
from dynpart.families import Bernoulli
from dynpart.neighbourhood import all_summed, expert_losses, neighbourhood
from dynpart.neighbourhood._kernels import ENOUGH, NEGLIGIBLE, UNLIKELY
from dynpart.prior import CodePrior
from dynpart.rows import Rows
from tests.effort import examples
from tests.strategies import problems
from tests.test_prior import all_codes, random_prior


def near(code):
    """All codes that one change leads to, and the code itself; none is empty."""
    codes = all_codes(len(code)).astype(bool)
    differs = codes != code
    added, dropped = (differs & codes).sum(axis=1), (differs & ~codes).sum(axis=1)
    return codes[(added <= 1) & (dropped <= 1) & codes.any(axis=1)]


def summed(code, most_turns, value_of):
    """All codes that are summed over, with their values: one turn after the other."""
    found, likely, waiting = {}, np.ones(len(code), dtype=bool), {tuple(code): 0.0}
    top = added = total = -np.inf
    while most_turns and waiting and not added < np.log(ENOUGH) + total:
        base = max(waiting, key=waiting.get)
        new = [c for c in near(base) if tuple(c) not in found and (likely | base)[c].all()]
        values = dict(zip(map(tuple, new), value_of(np.array(new)), strict=True)) if new else {}
        if not found:
            best = max(values.values())
            rated = np.array([np.where(c, v, -np.inf) for c, v in values.items()])
            likely = rated.max(axis=0) > best - UNLIKELY
        top = max([top, *values.values()])
        values = {c: v for c, v in values.items() if v >= top - NEGLIGIBLE}
        added = logsumexp(list(values.values())) if values else -np.inf
        found |= values
        total = logsumexp(list(found.values()))
        waiting = {c: v for c, v in (waiting | values).items() if c not in (base, tuple(code))}
        most_turns -= 1
    return np.array(list(found)), np.array(list(found.values()))


@examples(40)
@given(problem=problems(), seed=st.integers(0, 1000), most_turns=st.sampled_from([1, 2, 5, 16]))
def test_sums_are_those_of_all_neighbours(problem, seed, most_turns):
    experts, rows = problem
    rng, n_experts = np.random.default_rng(seed), experts.n_experts
    prior = random_prior(seed, 2, n_experts)
    active = rng.random((len(rows), n_experts)) < 0.5
    active[~active.any(axis=1), 0] = True
    base = experts.family.log_base(rows.values)
    found = neighbourhood(rows, active, experts, prior, most_turns)
    for n, code in enumerate(active):

        def value_of(codes, n=n):
            row = rows[np.full(len(codes), n)]
            value = log_likelihood(row, codes, experts) + prior.log_prob(codes)
            return value - (base if isinstance(base, float) else base[n].sum())

        codes, value = summed(code, most_turns, value_of)
        total = logsumexp(value)
        assert found.log_density[n] == pytest.approx(total, rel=1e-6, abs=1e-6)
        share = np.exp(value - total) @ codes
        np.testing.assert_allclose(found.activation[n], share, atol=1e-6)
        if most_turns == 1:
            assert len(codes) <= len(near(code))


@examples(20)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_more_turns_come_closer_to_the_sum_over_all_codes(problem, seed):
    experts, rows = problem
    n_experts = experts.n_experts
    prior = random_prior(seed, 2, n_experts)
    active = np.eye(n_experts, dtype=bool)[np.full(len(rows), seed % n_experts)]
    sums = [neighbourhood(rows, active, experts, prior, n).log_density for n in (1, 2, 4, 16)]
    exact = all_summed(rows, experts, prior).log_density
    for fewer, more in zip(sums, [*sums[1:], exact], strict=True):
        assert (more >= fewer - 1e-9).all()


@examples(30)
@given(problem=problems(), seed=st.integers(0, 1000), fewest=st.integers(1, 2))
def test_losses_are_those_of_the_best_neighbour_without_the_expert(problem, seed, fewest):
    experts, rows = problem
    rng, n_experts = np.random.default_rng(seed), experts.n_experts
    if n_experts <= fewest:
        return
    prior = random_prior(seed, 2, n_experts)
    active = rng.random((len(rows), n_experts)) < 0.5
    active[np.arange(len(rows)), rng.integers(n_experts, size=len(rows))] = True
    if fewest > 1:
        active[:, :2] = True
    found = expert_losses(rows, active, experts, prior, fewest)
    for n, code in enumerate(active):
        row = rows[np.array([n])]
        told = log_likelihood(row, code[None], experts) + prior.log_prob(code[None])
        for k in range(n_experts):
            codes = near(code)
            codes = codes[~codes[:, k] & (codes.sum(axis=1) >= min(fewest, code.sum()))]
            if not code[k]:
                codes = code[None]
            if len(codes) == 0:
                assert found[n, k] == np.inf
                continue
            explained = log_likelihood(rows[np.full(len(codes), n)], codes, experts)
            chance = prior.log_prob(codes)
            best = (explained + chance).argmax()
            completed = codes[best].copy()
            completed[k] = True
            both = np.logaddexp(chance[best], prior.log_prob(completed[None])[0])
            assert found[n, k] == pytest.approx(
                told[0] - explained[best] - both, rel=1e-5, abs=1e-5
            )


@examples(5)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_empty_codes_are_refused(problem, seed):
    experts, rows = problem
    prior = random_prior(seed, 2, experts.n_experts)
    active = np.ones((len(rows), experts.n_experts), dtype=bool)
    active[-1] = False
    for sums in (neighbourhood, expert_losses):
        with pytest.raises(ValueError, match="no active expert"):
            sums(rows, active, experts, prior)


def test_codes_that_are_far_from_the_best_do_not_overflow():
    own = np.repeat(np.eye(6), 400, axis=1)
    experts = Experts(Bernoulli(), np.where(own, 0.99, 0.01)[None], 5 * own, log2_bound=np.inf)
    rows, alone = Rows(np.ones((1, 2400), np.uint8)), np.eye(6, dtype=bool)[:1]
    prior = CodePrior.independent(np.full(6, 0.5))
    found = neighbourhood(rows, alone, experts, prior)
    exact = all_summed(rows, experts, prior)
    assert found.log_density == pytest.approx(exact.log_density)
    np.testing.assert_allclose(found.activation, exact.activation, atol=1e-9)


@pytest.fixture(scope="module")
def planted():
    """A model whose rows are its own samples, so that all probabilities are known."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 6)) < 0.5).repeat(3, axis=1)
    X = np.where(rng.random(X.shape) < 0.2, 1 - X, X).astype(np.uint8)
    model = DynamicPartitionModel(5, max_iter=10, random_state=0).fit(X)
    codes, _ = model.prior_.sample(4000, rng)
    codes = codes[codes.any(axis=1)]
    rows = (rng.random((len(codes), X.shape[1])) < model.inverse_transform(codes)).astype(np.uint8)
    return model, codes, rows


def test_the_density_is_between_that_of_the_code_and_that_of_all_codes(planted):
    model, _, rows = planted
    rows = rows[:300]
    every = all_codes(5)[1:]
    joint = [model.log_likelihood(rows, np.tile(code, (len(rows), 1))) for code in every]
    exact = logsumexp(np.array(joint) + model.log_prior(every)[:, None], axis=0)
    found = model.log_density(rows)
    assert (found >= model.score_samples(rows)).all()
    assert (found <= exact + 1e-4).all()
    assert (exact - found).mean() < 0.25 * (exact - model.score_samples(rows)).mean()


def test_experts_are_active_as_often_as_the_model_says(planted):
    model, codes, rows = planted
    p = model.activation_posterior(rows)
    assert p.shape == codes.shape
    assert ((p >= 0) & (p <= 1)).all()
    for low in np.arange(0, 1, 0.2):
        said = (p >= low) & (p <= low + 0.2)
        if said.sum() > 200:
            assert codes[said].mean() == pytest.approx(p[said].mean(), abs=0.07)
