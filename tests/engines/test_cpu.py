"""The CPU engine: held to the reference, and to the same answer whatever the batch and threads."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynpart
from dynpart.composition import owners
from dynpart.engines import Codes, Experts, _cpu_dense, _cpu_levels, _cpu_sums
from dynpart.engines.cpu import CpuEngine
from dynpart.engines.reference import ReferenceEngine
from dynpart.families import Bernoulli, Count, Gaussian
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from tests.effort import examples
from tests.engines.parity import (
    assert_follows_the_rule,
    assert_likelihood_of_codes,
    assert_same_codes,
    assert_same_sums,
)
from tests.strategies import make_experts, make_prior, make_rows, make_rule, problems

CPU = CpuEngine()
REFERENCE = ReferenceEngine()


@given(problems(max_experts=40, max_features=150), st.booleans(), st.data())
def test_pursuit_is_the_reference_one(problem, smoothed, data):
    experts, rows = problem
    if data.draw(st.booleans()):
        experts = experts.equally_sure()
    most = data.draw(st.integers(1, experts.n_experts))
    fewest = data.draw(st.integers(1, most))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    cost = rng.normal(0, 0.5, experts.n_experts)
    rule = make_rule(
        experts.n_experts, min_active=fewest, max_active=most, cost=cost, smoothed=smoothed
    )
    codes = pursue(CPU, rows, experts, rule)
    assert codes.members.shape == (len(rows), most)
    assert_follows_the_rule(rows, experts, rule, codes)
    assert_likelihood_of_codes(rows, experts, codes)


@given(problems(max_experts=20, max_features=80), st.sampled_from([0, 1, 2, 100]), st.booleans())
def test_refined_codes_are_the_reference_ones(problem, n_swaps, prune):
    experts, rows = problem
    cost = np.full(experts.n_experts, 0.3)
    most = max(1, experts.n_experts // 2)
    rule = make_rule(experts.n_experts, max_active=most, cost=cost, n_swaps=n_swaps, prune=prune)
    codes = pursue(CPU, rows, experts, rule)
    exact = pursue(REFERENCE, rows, experts, rule)
    assert_same_codes(codes, exact, in_order=n_swaps == 0)


@given(problems(max_experts=20, max_features=80), st.integers(2, 5), st.integers(0, 1))
def test_codes_of_several_starts_are_the_reference_ones(problem, n_starts, n_swaps):
    experts, rows = problem
    n_experts = experts.n_experts
    rule = make_rule(
        n_experts,
        max_active=max(1, n_experts // 2),
        cost=np.linspace(0, 0.5, n_experts),
        n_starts=n_starts,
        n_swaps=n_swaps,
    )
    codes, exact = (pursue(engine, rows, experts, rule) for engine in (CPU, REFERENCE))
    assert_same_codes(codes, exact, in_order=n_swaps == 0)


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("max_active", [1, 5])
def test_swaps_where_experts_agree_on_half_the_variables(max_active, family):
    rng = np.random.default_rng(11)
    experts = make_experts(rng, family, n_experts=16, n_features=60)
    eta = experts.eta.copy()
    eta[:, :, ::2] = eta[:, :1, ::2]
    experts = Experts(experts.family, eta, experts.log2_expertise)
    rows = make_rows(rng, experts, 100)
    cost = rng.uniform(0, 5, 16)
    for n_swaps in (0, 1, 4):
        rule = make_rule(16, max_active=max_active, cost=cost, n_swaps=n_swaps, prune=True)
        codes, exact = (pursue(engine, rows, experts, rule) for engine in (CPU, REFERENCE))
        np.testing.assert_array_equal(codes.members, exact.members)
        np.testing.assert_allclose(codes.log_likelihood, exact.log_likelihood, rtol=1e-5)


@given(problems(max_experts=20, max_features=150))
def test_sums_are_the_reference_ones(problem):
    experts, rows = problem
    codes = pursue(REFERENCE, rows, experts, make_rule(experts.n_experts))
    # The type of the engine's own codes; kernels are compiled once more for any other.
    assert_same_sums(CPU, rows, experts, replace(codes, members=codes.members.astype(np.int16)))


def test_codes_of_the_reference_engine_can_be_summed():
    rng = np.random.default_rng(0)
    experts = make_experts(rng, "bernoulli", 3, 5)
    rows = make_rows(rng, experts, 20)
    codes = pursue(REFERENCE, rows, experts, make_rule(3))
    assert codes.members.dtype != np.int16
    assert_same_sums(CPU, rows, experts, codes)


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize(
    ("n_experts", "n_features"),
    [
        (1, 1),
        (3, 50_000),
        (254, 65),
        # With the background expert, ranks of two bytes: kernels are compiled once more.
        pytest.param(255, 65, marks=pytest.mark.slow),
        pytest.param(256, 64, marks=pytest.mark.slow),
        pytest.param(2000, 5, marks=pytest.mark.slow),
    ],
)
def test_any_number_of_experts_and_variables(family, n_experts, n_features):
    rng = np.random.default_rng(0)
    experts = make_experts(rng, family, n_experts, n_features)
    rows = make_rows(rng, experts, 2)
    most = min(n_experts, 6)
    for smoothed in (False, True):
        rule = make_rule(n_experts, max_active=most, smoothed=smoothed)
        codes = pursue(CPU, rows, experts, rule)
        assert_follows_the_rule(rows, experts, rule, codes)
        assert_likelihood_of_codes(rows, experts, codes)
    swapped = make_rule(n_experts, max_active=most, n_swaps=1, prune=True)
    assert_likelihood_of_codes(rows, experts, pursue(CPU, rows, experts, swapped))
    assert_same_sums(CPU, rows, experts, codes)


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("octaves", [30, 120, 400])
@pytest.mark.parametrize("smoothed", [False, True])
def test_extreme_expertise(family, octaves, smoothed):
    rng = np.random.default_rng(1)
    experts = make_experts(rng, family, 12, 40)
    experts = Experts(experts.family, experts.eta, rng.uniform(-octaves, octaves, (12, 40)))
    rows = make_rows(rng, experts, 20)
    rule = make_rule(12, min_active=3, max_active=8, smoothed=smoothed)
    codes = pursue(CPU, rows, experts, rule)
    assert_follows_the_rule(rows, experts, rule, codes)
    assert_same_sums(CPU, rows, experts, codes)


@pytest.mark.parametrize("smoothed", [False, True])
def test_rows_far_from_every_expert(smoothed):
    """Densities that differ by hundreds of nats in one variable still compare rightly."""
    rng = np.random.default_rng(2)
    experts = make_experts(rng, "gaussian", 8, 30)
    rows = make_rows(rng, experts, 10)
    rows.values[::2, :5] += 40
    rule = make_rule(8, min_active=2, max_active=6, smoothed=smoothed)
    codes = pursue(CPU, rows, experts, rule)
    assert_follows_the_rule(rows, experts, rule, codes)


@pytest.mark.parametrize("smoothed", [False, True])
def test_ties_go_to_the_lowest_index(smoothed):
    """Copies of an expert: only the first is ever activated before the others."""
    rng = np.random.default_rng(3)
    one = make_experts(rng, n_experts=4, n_features=30)
    twice = Experts(one.family, np.tile(one.eta, (1, 2, 1)), np.tile(one.log2_expertise, (2, 1)))
    rows = make_rows(rng, one, 50)
    codes = pursue(CPU, rows, twice, make_rule(8, max_active=3, smoothed=smoothed))
    exact = pursue(REFERENCE, rows, twice, make_rule(8, max_active=3, smoothed=smoothed))
    np.testing.assert_array_equal(codes.members, exact.members)
    assert (codes.members[:, 0] < 4).all()


def test_dead_experts_stay_asleep():
    """Experts without a say, of equal and low expertise everywhere, explain nothing."""
    rng = np.random.default_rng(4)
    experts = make_experts(rng, n_experts=10, n_features=40)
    eta, level = experts.eta.copy(), experts.log2_expertise.copy()
    eta[:, 5:], level[5:] = 0.001, -50
    experts = Experts(experts.family, eta, level)
    rows = make_rows(rng, experts, 30)
    codes = pursue(CPU, rows, experts, make_rule(10))
    assert codes.members.max() < 5
    assert_same_sums(CPU, rows, experts, codes)
    assert (CPU.responsibility_sums(rows, experts, codes).weight[5:] == 0).all()


def test_an_expert_alone_leaves_no_evidence():
    """Rounding must not look like a gradient: z would make evidence of it."""
    rng = np.random.default_rng(5)
    for family in ("bernoulli", "gaussian"):
        experts = make_experts(rng, family, 6, 70)
        rows = make_rows(rng, experts, 40)
        codes = pursue(CPU, rows, experts, make_rule(6, max_active=1))
        sums = CPU.gradient_sums(rows, experts, codes)
        assert not sums.first.any()
        assert not sums.second.any()


@examples(10)
@given(
    st.sampled_from(["bernoulli", "gaussian"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_a_row_gets_the_same_code_in_any_batch_order_and_thread(family, smoothed, ties, seed):
    rng = np.random.default_rng(seed)
    experts = make_experts(rng, family, 24, 90, ties=ties)
    rows = make_rows(rng, experts, 500)  # enough work for threads to be used
    rule = make_rule(24, max_active=9, smoothed=smoothed, n_swaps=0 if smoothed else 100)
    whole = pursue(CpuEngine(n_threads=1), rows, experts, rule)
    shuffle = rng.permutation(len(rows))
    moved = pursue(CpuEngine(n_threads=3), rows[shuffle], experts, rule)
    np.testing.assert_array_equal(moved.members, whole.members[shuffle])
    np.testing.assert_array_equal(moved.log_likelihood, whole.log_likelihood[shuffle])
    for i in (0, 77, 149):
        alone = pursue(CPU, rows[i : i + 1], experts, rule)
        np.testing.assert_array_equal(alone.members[0], whole.members[i])
        assert alone.log_likelihood[0] == whole.log_likelihood[i]


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_sums_do_not_depend_on_threads(family):
    rng = np.random.default_rng(6)
    experts = make_experts(rng, family, 7, 200)
    rows = Rows.joined([make_rows(rng, experts, 500, missing=0.1, weighted=True)] * 40)
    codes = pursue(CPU, rows, experts, make_rule(7))
    for operation in ("gradient_sums", "responsibility_sums"):
        one, three = (getattr(CpuEngine(n), operation)(rows, experts, codes) for n in (1, 3))
        for name in vars(one):
            np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


def test_binary_rows_of_any_type(tmp_path):
    rng = np.random.default_rng(7)
    experts = make_experts(rng, n_experts=9, n_features=50)
    rows = make_rows(rng, experts, 60).values
    rule = make_rule(9)
    expected = pursue(CPU, Rows(rows), experts, rule)
    np.save(tmp_path / "rows.npy", rows)
    kinds = [
        rows.astype(bool),
        rows.astype(np.float32),
        rows.astype(np.float64),
        rows.astype(np.int64),
        np.asfortranarray(rows),
        np.repeat(rows, 2, axis=1)[:, ::2],
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
    ]
    for table in kinds:
        kind = Rows.of(table, experts.family)
        assert kind.complete
        codes = pursue(CPU, kind, experts, rule)
        np.testing.assert_array_equal(codes.members, expected.members)
        np.testing.assert_array_equal(codes.log_likelihood, expected.log_likelihood)
        sums = CPU.gradient_sums(kind, experts, codes)
        exact = CPU.gradient_sums(Rows(rows), experts, expected)
        np.testing.assert_array_equal(sums.first, exact.first)


def test_chunks_change_nothing(monkeypatch):
    from dynpart.engines import cpu

    rng = np.random.default_rng(8)
    for family in ("bernoulli", "gaussian"):
        experts = make_experts(rng, family, 9, 50)
        rows = make_rows(rng, experts, 300)
        rule = make_rule(9, n_swaps=1)
        whole = pursue(CPU, rows, experts, rule)
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "CHUNK_VALUES", 1000)
            patch.setattr(cpu, "CHUNK_WIDENED", 1000)
            patch.setattr("dynpart.threads.TASK_TERMS", 1000)
            patch.setattr(cpu, "FEWEST_ROWS", 3)
            pieces = pursue(CPU, rows, experts, rule)
            sums = CPU.gradient_sums(rows, experts, pieces)
        np.testing.assert_array_equal(pieces.members, whole.members)
        np.testing.assert_array_equal(pieces.log_likelihood, whole.log_likelihood)
        exact = REFERENCE.gradient_sums(rows, experts, whole)
        np.testing.assert_allclose(sums.first, exact.first, atol=1e-4)


def test_usual_values_may_be_ones():
    """Most variables on: corrections are for the zeros then."""
    rng = np.random.default_rng(9)
    family = Bernoulli()
    eta = family.constrain(rng.beta(8, 1, (1, 12, 100)))
    experts = Experts(family, eta, rng.normal(0, 3, (12, 100)))
    rows = Rows((rng.uniform(size=(40, 100)) < 0.85).astype(np.uint8))
    rule = make_rule(12)
    codes = pursue(CPU, rows, experts, rule)
    assert_follows_the_rule(rows, experts, rule, codes)


CHECK_CACHE = """
import numpy as np
from dynpart.engines import Experts, PursuitRule, _cpu_levels, _cpu_smoothed, _cpu_sums
from dynpart.engines.cpu import CpuEngine
from dynpart.families import Bernoulli, Count, Gaussian
from dynpart.rows import Rows

kernels = [_cpu_levels.first_pass, _cpu_levels.pursue_groups, _cpu_smoothed.pursue_levels,
           _cpu_sums.binary_gradients, _cpu_sums.responsibility_sums]
assert not any(kernel.signatures for kernel in kernels), "compiled at import"
rng = np.random.default_rng(0)
experts = Experts(Bernoulli(), rng.uniform(0.1, 0.9, (1, 4, 9)), rng.normal(size=(4, 9)))
rows = Rows(rng.integers(0, 2, (5, 9)).astype(np.uint8))
engine = CpuEngine()
for smoothed in (False, True):
    codes = engine.pursue(rows, experts, PursuitRule(1, 3, np.zeros(4), smoothed=smoothed))
engine.gradient_sums(rows, experts, codes)
engine.responsibility_sums(rows, experts, codes)
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    source = str(Path(dynpart.__file__).parents[1])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": source}
    misses = [
        int(
            subprocess.run(
                [sys.executable, "-c", CHECK_CACHE],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for _ in range(2)
    ]
    assert misses[0] > 0
    assert misses[1] == 0


def test_summary_of_codes_counts_activations():
    rng = np.random.default_rng(10)
    experts = make_experts(rng, n_experts=5, n_features=20)
    rows = make_rows(rng, experts, 30)
    codes = pursue(CPU, rows, experts, make_rule(5))
    assert isinstance(codes, Codes)
    np.testing.assert_array_equal(codes.summary(5).usage, codes.active(5).sum(axis=0))


class UnknownNormal(Gaussian):
    """A family that no kernel knows."""

    is_normal = False


@given(problems())
def test_families_that_no_kernel_knows_are_asked_for_their_pull(problem):
    experts, rows = problem
    if not isinstance(experts.family, Gaussian):
        return
    family = UnknownNormal(experts.family.centre, experts.family.floor)
    unknown = Experts(family, experts.eta, experts.log2_expertise)
    codes = pursue(REFERENCE, rows, experts, make_rule(experts.n_experts))
    found, known = (CPU.gradient_sums(rows, each, codes).array for each in (unknown, experts))
    np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-9 * np.abs(known).max())


@given(problems(max_experts=20, max_features=80), st.sampled_from([0, 1, 100]), st.data())
def test_codes_under_a_prior_are_the_reference_ones(problem, n_swaps, data):
    experts, rows = problem
    n_experts = experts.n_experts
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rule = make_rule(
        n_experts,
        max_active=data.draw(st.integers(1, n_experts)),
        cost=rng.choice([0.0, 0.3], n_experts),
        n_swaps=n_swaps,
        n_starts=data.draw(st.sampled_from([1, 3, 8])),
        prune=data.draw(st.booleans()),
        prior=make_prior(rng, n_experts, data.draw(st.integers(1, 5))),
    )
    codes, exact = (pursue(engine, rows, experts, rule) for engine in (CPU, REFERENCE))
    assert_same_codes(codes, exact, in_order=n_swaps == 0)


@pytest.mark.parametrize("seed", [5, 6, 20])
def test_a_code_that_has_settled_in_one_type_is_searched_on_in_all_types(seed):
    """Most searches of a row end in a code that has settled before, for the same costs."""
    rng = np.random.default_rng(seed)
    experts, prior = make_experts(rng, "bernoulli", 6, 8), make_prior(rng, 6, 4)
    rows = make_rows(rng, experts, 100)
    rule = make_rule(6, n_swaps=100, n_starts=6, prior=prior)
    codes, exact = (pursue(engine, rows, experts, rule) for engine in (CPU, REFERENCE))
    assert_same_codes(codes, exact, in_order=False)


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_read_only_rows_need_no_kernels_of_their_own(family):
    rng = np.random.default_rng(0)
    experts = make_experts(rng, family, 5, 12)
    rows = replace(make_rows(rng, experts, 20), weight=np.ones(20))

    def compiled_for(rows):
        codes = pursue(CPU, rows, experts, make_rule(5, n_swaps=2))
        CPU.gradient_sums(rows, experts, codes)
        CPU.responsibility_sums(rows, experts, codes)
        return {
            (name, str(signature))
            for module in (_cpu_dense, _cpu_levels, _cpu_sums)
            for name, kernel in vars(module).items()
            for signature in getattr(kernel, "signatures", ())
        }

    kernels = compiled_for(rows)
    assert kernels
    frozen = replace(rows, values=rows.values.copy(), weight=np.ones(20))
    frozen.values.flags.writeable = frozen.weight.flags.writeable = False
    assert compiled_for(frozen) == kernels


@pytest.mark.parametrize("scale", [10.0, 1e4, 1e8])
@pytest.mark.parametrize("smoothed", [False, True])
def test_likelihoods_of_large_counts_keep_their_digits(scale, smoothed):
    """Without b(x) they have as many digits before the point as float32 holds in all."""
    rng = np.random.default_rng(0)
    means = scale * rng.uniform(1, 3, size=(5, 4))
    X = rng.poisson(means[rng.integers(5, size=60)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    eta = np.stack([means, means + means**2])
    experts = Experts(Count(np.zeros(4)), eta, rng.normal(size=(5, 4)))
    codes = pursue(CPU, Rows(X), experts, make_rule(5, smoothed=smoothed))
    owner = owners(experts.ranks, codes.active(5))
    exact = experts.owned_log_density(X, owner).sum(axis=1)
    np.testing.assert_allclose(codes.log_likelihood, exact, rtol=1e-7, atol=1e-5)
