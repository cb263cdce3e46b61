"""Experts with gains and offsets: an exact likelihood, its laws, and all engines."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from dynpart.amplitudes import Amplitude
from dynpart.composition import owners
from dynpart.encoding import amplitudes, log_likelihood
from dynpart.engines import make_engine
from dynpart.pursuits import pursue
from tests.effort import examples
from tests.engines.parity import REFERENCE, assert_same_sums
from tests.strategies import make_experts, make_prior, make_rows, make_rule

seeds = st.integers(0, 2**32 - 1)
modes = st.sampled_from(["offset", "gain"])
gaps = st.sampled_from([0.0, 0.3])


def problem(seed, mode, *, missing=0.0, weighted=False, n_experts=5, n_features=30, n_rows=6):
    rng = np.random.default_rng(seed)
    experts = make_experts(rng, "gaussian", n_experts, n_features)
    experts = replace(experts, amplitude=Amplitude.of(mode, experts.family))
    rows = make_rows(rng, experts, n_rows, missing=missing, weighted=weighted)
    shared = rng.uniform(0.5, 2, (n_rows, 1)) * rows.values + rng.normal(0, 1, (n_rows, 1))
    return experts, replace(rows, values=shared)


@examples(25)
@given(seeds, modes, gaps)
def test_a_code_is_worth_the_likelihood_with_gains_and_offsets_integrated_out(seed, mode, missing):
    experts, rows = problem(seed, mode, missing=missing)
    family, amplitude = experts.family, experts.amplitude
    active = np.random.default_rng(seed).random((len(rows), 5)) < 0.5
    active[:, 0] = True
    found = log_likelihood(rows, active, experts)
    owner = owners(experts.ranks, active)
    mean, variance = family.mean(experts.eta), family.variance(experts.eta)
    for row in range(len(rows)):
        expected = 0.0
        for k in np.flatnonzero(active[row]):
            own = (owner[row] == k) & ~np.isnan(rows.values[row])
            if not own.any():
                continue
            covariance = np.diag(variance[k, own]) + amplitude.offset_variance
            if amplitude.gain:
                measured = mean[k, own] - amplitude.level
                covariance += amplitude.gain_variance * np.outer(measured, measured)
            normal = multivariate_normal(mean[k, own], covariance)
            expected += normal.logpdf(rows.values[row, own])
        assert found[row] == pytest.approx(expected, rel=1e-8, abs=1e-8)


@examples(25)
@given(seeds, modes)
def test_gains_and_offsets_are_penalised_least_squares(seed, mode):
    experts, rows = problem(seed, mode)
    family, amplitude = experts.family, experts.amplitude
    active = np.ones((len(rows), 5), dtype=bool)
    found = amplitudes(rows, active, experts)
    owner = owners(experts.ranks, active)
    mean, variance = family.mean(experts.eta), family.variance(experts.eta)

    def penalty(row, k, gain, offset):
        """Of what the expert says, gain * opinion + offset, in terms of the common level."""
        own = owner[row] == k
        residual = rows.values[row, own] - gain * mean[k, own] - offset
        shifted = offset + (gain - 1) * amplitude.level
        total = (residual**2 / variance[k, own]).sum() + shifted**2 / amplitude.offset_variance
        return total + (gain - 1) ** 2 / amplitude.gain_variance

    for row, k in np.ndindex(active.shape):
        gain, offset = found[row, k]
        best = penalty(row, k, gain, offset)
        assert mode == "gain" or gain == 1
        for by_gain, by_offset in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
            if mode == "gain" or not by_gain:
                assert penalty(row, k, gain + by_gain, offset + by_offset) > best


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@examples(15)
@given(seed=seeds, mode=modes, missing=gaps, n_swaps=st.sampled_from([0, 1, 50]),
       n_starts=st.sampled_from([1, 3]), prune=st.booleans(),
       n_types=st.sampled_from([0, 1, 3]))  # fmt: skip
def test_engines_find_the_codes_of_the_reference(
    engine, seed, mode, missing, n_swaps, n_starts, prune, n_types
):
    if engine == "torch":
        pytest.importorskip("torch")
    experts, rows = problem(seed, mode, missing=missing)
    prior = make_prior(np.random.default_rng(seed), 5, n_types) if n_types else None
    rule = make_rule(5, max_active=4, n_swaps=n_swaps, n_starts=n_starts, prune=prune, prior=prior)
    there = make_engine(engine, device="cpu" if engine == "torch" else None)
    found, exact = (pursue(each, rows, experts, rule) for each in (there, REFERENCE))
    found_order = np.asarray(found.members)
    in_order = np.sort(found_order, axis=1), np.sort(exact.members, axis=1)
    width = max(part.shape[1] for part in in_order)
    padded = [np.pad(p, ((0, 0), (width - p.shape[1], 0)), constant_values=-1) for p in in_order]
    assert_array_equal(*padded)
    assert_allclose(np.asarray(found.log_likelihood), exact.log_likelihood, rtol=1e-9, atol=1e-9)
    active = exact.active(5)
    assert_allclose(exact.log_likelihood, log_likelihood(rows, active, experts), rtol=1e-9)


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@examples(15)
@given(seed=seeds, mode=modes, missing=gaps, weighted=st.booleans())
def test_engines_agree_on_sums(engine, seed, mode, missing, weighted):
    if engine == "torch":
        pytest.importorskip("torch")
    experts, rows = problem(seed, mode, missing=missing, weighted=weighted, n_features=80)
    there = make_engine(engine, device="cpu" if engine == "torch" else None)
    rule = make_rule(5, min_active=2, max_active=3)
    codes, exact = (pursue(each, rows, experts, rule) for each in (there, REFERENCE))
    assert_same_sums(there, rows, experts, codes, numpy_codes=exact, rtol=1e-7)


def test_sums_bring_rows_back_to_the_experts_scale():
    """Rows that are one expert's opinion, louder and brighter, teach it nothing new."""
    experts, _ = problem(0, "gain", n_experts=1)
    experts = replace(
        experts, amplitude=replace(experts.amplitude, gain_variance=1e9, offset_variance=1e9)
    )
    mean = experts.family.mean(experts.eta)[0]
    loud = np.array([[0.5], [1.0], [2.0]]) * mean + np.array([[3.0], [0.0], [-1.0]])
    rows = replace(problem(0, "gain", n_experts=1)[1][:3], values=loud)
    codes = pursue(REFERENCE, rows, experts, make_rule(1))
    sums = REFERENCE.responsibility_sums(rows, experts, codes)
    assert_allclose(sums.statistics[0] / sums.weight, experts.eta[0], rtol=1e-5, atol=1e-5)


def test_families_without_one_scale_have_no_amplitudes():
    experts = make_experts(np.random.default_rng(0), "bernoulli", 3, 4)
    with pytest.raises(ValueError, match="amplitude='gain' is for real columns"):
        Amplitude.of("gain", experts.family)
    experts, rows = problem(0, "gain")
    for engine in ("cpu", "reference"):
        with pytest.raises(ValueError, match="smoothed"):
            make_engine(engine).pursue(rows, experts, make_rule(5, smoothed=True))


def test_a_prior_takes_part_in_the_choice_of_codes():
    """An expert that is never active costs more than it gains; the greedy search does not know."""
    experts, rows = problem(0, "gain")
    prior = make_prior(np.random.default_rng(0), 5)
    rare = replace(prior, log_table=np.log(np.broadcast_to([1 - 1e-300, 1e-300], (3, 5, 2, 2))))
    for engine in ("reference", "cpu"):
        found, greedy = (
            pursue(make_engine(engine), rows, experts, make_rule(5, n_swaps=n_swaps, prior=rare))
            for n_swaps in (50, 0)
        )
        assert_array_equal(found.active(5).sum(axis=1), 1)
        assert greedy.active(5).sum(axis=1).max() > 1
