"""Newton's method for opinions (appendix B): its derivatives, its remedies, and all engines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dynpart import DynamicPartitionModel, load
from dynpart.composition import compose_smoothed, responsibilities
from dynpart.datasets import make_bars, make_pairs
from dynpart.engines import make_engine
from dynpart.engines.reference import ReferenceEngine
from dynpart.learning._newton import as_average, newton_opinions
from dynpart.pursuits import pursue
from tests.effort import examples
from tests.engines.parity import REFERENCE
from tests.strategies import make_experts, make_rows, make_rule

seeds = st.integers(0, 2**32 - 1)


def problem(seed, *, missing=0.0, weighted=False, n_rows=9):
    rng = np.random.default_rng(seed)
    experts = make_experts(rng, "bernoulli", 5, 70)
    rows = make_rows(rng, experts, n_rows, missing=missing, weighted=weighted)
    return experts, rows, pursue(REFERENCE, rows, experts, make_rule(5, min_active=2))


def log_likelihood(rows, experts, codes, eta):
    """Of all rows under the smoothed rule, shape (n_features,)."""
    r = responsibilities(experts.log2_expertise, codes.active(experts.n_experts))
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    return weight @ experts.family.log_density(rows.values, compose_smoothed(eta, r))


@examples(10)
@given(seeds, st.sampled_from([0.0, 0.4]), st.booleans())
def test_the_sums_are_derivatives_of_the_log_likelihood(seed, missing, weighted):
    experts, rows, codes = problem(seed, missing=missing, weighted=weighted)
    eta = experts.eta.clip(0.1, 0.9)
    experts = type(experts)(experts.family, eta, experts.log2_expertise)
    sums = ReferenceEngine().opinion_sums(rows, experts, codes)
    small = 1e-4
    for k in range(experts.n_experts):
        step = np.zeros_like(eta)
        step[:, k] = small
        below, here, above = (
            log_likelihood(rows, experts, codes, eta + sign * step) for sign in (-1, 0, 1)
        )
        assert_allclose(sums.first[k], (above - below) / (2 * small), rtol=1e-4, atol=1e-4)
        curvature = (above - 2 * here + below) / small**2
        assert_allclose(-sums.second[k], curvature, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@examples(10)
@given(seed=seeds, missing=st.sampled_from([0.0, 0.4]), weighted=st.booleans())
def test_engines_agree(engine, seed, missing, weighted):
    if engine == "torch":
        pytest.importorskip("torch")
    experts, rows, codes = problem(seed, missing=missing, weighted=weighted)
    there = make_engine(engine, device="cpu" if engine == "torch" else None)
    own_codes = pursue(there, rows, experts, make_rule(5, min_active=2))
    found = np.asarray(there.opinion_sums(rows, experts, own_codes).array)
    expected = REFERENCE.opinion_sums(rows, experts, codes).array
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@examples(10)
@given(seeds)
def test_sums_of_two_sets_of_rows_add_up(seed):
    experts, rows, codes = problem(seed)
    whole = REFERENCE.opinion_sums(rows, experts, codes).array
    halves = (slice(0, 4), slice(4, len(rows)))
    parts = (REFERENCE.opinion_sums(rows[half], experts, codes[half]) for half in halves)
    assert_allclose(sum(part.array for part in parts), whole, rtol=1e-9)


def test_other_families_have_no_such_sums():
    rng = np.random.default_rng(0)
    experts = make_experts(rng, "gaussian", 3, 4)
    rows = make_rows(rng, experts, 5)
    for engine in ("reference", "cpu"):
        codes = pursue(make_engine(engine), rows, experts, make_rule(3))
        with pytest.raises(ValueError, match="binary columns"):
            make_engine(engine).opinion_sums(rows, experts, codes)


@examples(30)
@given(seeds, st.floats(0.1, 10))
def test_steps_stay_inside_the_unit_interval_and_idle_experts_go_to_the_population(seed, epsilon):
    experts, rows, codes = problem(seed, n_rows=3)
    population = np.random.default_rng(seed).uniform(0.05, 0.95, (1, 70))
    engine = ReferenceEngine()
    idle = ~codes.active(experts.n_experts).any(axis=0)
    for _ in range(60):
        sums = as_average(engine.opinion_sums(rows, experts, codes), experts.eta)
        experts = newton_opinions(experts, sums, population, epsilon)
        assert (experts.eta >= experts.family.clip).all()
        assert (experts.eta <= 1 - experts.family.clip).all()
    assert_allclose(experts.eta[0, idle], np.broadcast_to(population, (idle.sum(), 70)), atol=1e-6)


def test_one_expert_alone_converges_to_the_penalised_optimum():
    rng = np.random.default_rng(0)
    experts = make_experts(rng, "bernoulli", 1, 6)
    experts = type(experts)(experts.family, experts.eta.clip(0.2, 0.8), experts.log2_expertise)
    rows = make_rows(rng, experts, 200)
    codes = pursue(REFERENCE, rows, experts, make_rule(1))
    population = rows.values.mean(axis=0)[None]
    for _ in range(20):
        sums = as_average(REFERENCE.opinion_sums(rows, experts, codes), experts.eta)
        experts = newton_opinions(experts, sums, population, 1.0)
    assert_allclose(experts.eta[0, 0], population[0], atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_finds_the_pairs_and_keeps_the_option(tmp_path):
    X = make_pairs(4)
    model = DynamicPartitionModel(8, expert_update="newton", random_state=0).fit(X)
    assert ((model.inverse_transform(model.transform(X)) > 0.5) == X).all()
    model.save(tmp_path / "pairs.dynpart")
    assert load(tmp_path / "pairs.dynpart").expert_update == "newton"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_engines_and_blocks_learn_the_same():
    X = make_bars(n_samples=300, random_state=0)

    def fitted(rows, **more):
        model = DynamicPartitionModel(
            6, expert_update="newton", learning="paper", max_iter=4, random_state=0, **more
        )
        return model.fit(rows).means_

    expected = fitted(X, engine="reference")
    assert_allclose(fitted(X, engine="cpu"), expected, atol=1e-4)
    assert_allclose(fitted([X[:100], X[100:]], engine="cpu"), expected, atol=1e-4)


def test_what_newton_cannot_do_is_refused():
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = DynamicPartitionModel(2, expert_update="newton")
    with pytest.raises(ValueError, match="expert_update='newton' is for binary columns"):
        model.fit(X)
    with pytest.raises(ValueError, match="expert_update='newton' is for fit"):
        model.partial_fit(make_pairs(3))
