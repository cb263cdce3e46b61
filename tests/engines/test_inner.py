"""Inner loops: explicit vectors and plain loops do the same, alone and in a whole fit."""

import inspect
import os
import subprocess
import sys
from functools import lru_cache

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynpart.compiled import KernelCompiler, explicit_vectors
from dynpart.engines import _cpu_loops as plain
from dynpart.engines import _cpu_vectors as vectors

N_FEATURES = 150
"""More than a tile and than two strips, and no multiple of eight."""


@lru_cache
def kernel_of(module, name):
    """An inner loop compiled alone: otherwise it is a part of kernels."""
    described = getattr(plain, name, None) or getattr(module, name)
    names = ", ".join(inspect.signature(described.py_func).parameters)
    space = {"loop": getattr(module, name)}
    exec(f"def kernel({names}):\n    return loop({names})", space)
    return numba.njit(space["kernel"], pipeline_class=KernelCompiler)


def both(name):
    """An inner loop in both forms."""
    return [kernel_of(plain, name), kernel_of(vectors, name)]


@pytest.fixture(params=[16, 32, 48, 64, 112, 128, 176], ids=lambda n: f"{n} lanes")
def lanes(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def table_of(rng, n_lanes):
    """Log-densities of two values of every variable, and where those of a row begin."""
    table = rng.normal(size=2 * N_FEATURES * n_lanes).astype(np.float32)
    values = rng.integers(2, size=N_FEATURES)
    return table, (values * N_FEATURES + np.arange(N_FEATURES)) * n_lanes


def test_rows_of_a_table_are_added(lanes, rng):
    table, offsets = table_of(rng, lanes)
    found = []
    for add_rows in both("add_rows"):
        gains = np.ones((3, lanes))
        add_rows(gains, 1, 5, 69, offsets, table)
        found.append(gains)
    assert_allclose(found[0], found[1], atol=1e-4)
    rows = table[offsets[5:69, None] + np.arange(lanes)]
    assert_allclose(found[0][1], 1 + rows.sum(axis=0), atol=1e-4)
    assert_array_equal(found[0][[0, 2]], 1)


def test_rows_of_a_table_are_averaged(lanes, rng):
    table = rng.uniform(size=9 * lanes).astype(np.float32)
    weights, rows = rng.uniform(size=9).astype(np.float32), rng.permutation(9)[:6].astype(np.int32)
    for average_rows in both("average_rows"):
        mean = np.full(lanes, np.nan, np.float32)
        average_rows(mean, weights, rows, 5, table)
        used = rows[:5]
        assert_allclose(mean, weights[used] @ table.reshape(9, lanes)[used], rtol=1e-5)


def test_logarithms(lanes, rng):
    values = np.exp(rng.uniform(-80, 80, size=lanes)).astype(np.float32)
    values[[1, 5]] = 0, 1
    for logarithms in both("logarithms"):
        found = values.copy()
        logarithms(found)
        with np.errstate(divide="ignore"):
            assert_allclose(found, np.log(values), rtol=1e-6, atol=1e-6)


def test_the_largest_value_is_found_wherever_it_is(lanes, rng):
    for largest_of in both("largest_of"):
        for at in (0, lanes // 2, lanes - 1):
            values = -rng.uniform(1, 2, size=lanes)
            values[at] = -0.5
            assert largest_of(values) == -0.5


def test_exponentials_are_relative_to_the_largest(lanes, rng):
    nats = rng.uniform(-60, 0, size=lanes) - 1e4
    nats[3], nats[7], nats[-1] = -1e4 + 1, -2e4, -np.inf
    for relative_exponentials in both("relative_exponentials"):
        share = np.full(lanes, np.nan, np.float32)
        assert relative_exponentials(nats, share) == nats[3]
        assert_allclose(share, np.exp(nats - nats[3]), rtol=1e-5)
        assert share[3] == 1
        assert share[7] == share[-1] == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_gains_pass_from_owner_to_owner(lanes, rng, dtype):
    table, offsets = table_of(rng, lanes)
    rank = rng.permuted(np.tile(np.arange(lanes), (N_FEATURES, 1)), axis=1).astype(dtype)
    old = rng.integers(lanes, size=N_FEATURES)
    new = np.array([rng.choice(np.flatnonzero(r <= r[k])) for r, k in zip(rank, old, strict=True)])
    at = np.arange(N_FEATURES)
    old_log, new_log = table[offsets + old], table[offsets + new]
    listed = rng.permutation(N_FEATURES)[:60].astype(np.int32)
    found = []
    for add_changes in both("add_changes"):
        gains = np.zeros((2, lanes))
        add_changes(
            gains, 1, 0, 60, -1.0, listed, offsets, rank[at, old], old_log,
            np.r_[np.zeros(4, dtype), rank[at, new]], 4, new_log, table, rank,
        )  # fmt: skip
        found.append(gains)
    assert_allclose(found[0], found[1], atol=1e-4)

    def worth(owner, log):
        better = rank < rank[at, owner][:, None]
        return np.where(better, table[offsets[:, None] + np.arange(lanes)] - log[:, None], 0)

    change = worth(new, new_log) - worth(old, old_log)
    assert_allclose(found[0][1], -change[listed].sum(axis=0), atol=1e-4)


def test_ratios_are_multiplied(lanes, rng):
    shares = rng.uniform(size=2 * N_FEATURES * lanes).astype(np.float32)
    levels = rng.uniform(0.1, 1, size=(N_FEATURES, lanes)).astype(np.float32)
    offsets = np.stack([table_of(rng, lanes)[1] for _ in range(2)])
    factors = rng.uniform(0.2, 2, size=(16, 4)).astype(np.float32)
    found = []
    for multiply_ratios in both("multiply_ratios"):
        mantissa = np.full((2, lanes), 1.25, np.float32)
        exponent = np.zeros((2, lanes), np.int32)
        multiply_ratios(mantissa, exponent, 1, 3, 19, offsets, factors, shares, 0, levels)
        assert np.all((mantissa >= 1) & (mantissa < 2))
        found.append(mantissa * 2.0**exponent)
    assert_allclose(found[0], found[1], rtol=1e-5)
    share = shares[offsets[1, 3:19, None] + np.arange(lanes)]
    above = factors[:, :1] + factors[:, 1:2] * share
    below = factors[:, 2:3] + factors[:, 3:] * levels[3:19]
    assert_allclose(found[0][1], 1.25 * (above / below).prod(axis=0), rtol=1e-5)


def test_shares_of_a_mixture(lanes, rng):
    table, offsets = table_of(rng, lanes)
    log2_levels = -rng.exponential(20, size=(N_FEATURES, lanes)).astype(np.float32)
    found = []
    for mixture_shares in both("mixture_shares"):
        shares = np.zeros_like(table)
        mixture_shares(2, 40, offsets, table, log2_levels, shares)
        found.append(shares)
    assert_allclose(found[0], found[1], rtol=1e-5)
    cells = offsets[2:40, None] + np.arange(lanes)
    log = table[cells]
    expected = np.exp(log - log.max(axis=1, keepdims=True)) * 2.0 ** log2_levels[2:40]
    assert_allclose(found[0][cells], expected, rtol=1e-4, atol=2.0**plain.LOWEST)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, N_FEATURES])
def test_values_are_summed(n, rng):
    values = rng.normal(size=N_FEATURES).astype(np.float32)
    for sum_of in both("sum_of"):
        assert sum_of(values, n) == pytest.approx(values[:n].sum(dtype=float), rel=1e-12)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 16, 17, N_FEATURES])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_variables_of_an_expert_are_listed(n, dtype, rng):
    owner = rng.integers(0, 4, size=n).astype(dtype)
    for owned_by in both("owned_by"):
        flags, owned = np.ones((n + 15) // 16 * 16, np.uint8), np.empty(n + 15, np.int32)
        for j in range(5):
            m = owned_by(dtype(j), owner, flags, owned)
            assert_array_equal(owned[:m], np.flatnonzero(owner == j))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 16, 17, N_FEATURES])
def test_flags_are_listed(n, rng):
    for share in (0.0, 0.3, 1.0):
        flags = np.r_[rng.uniform(size=n) < share, np.ones(15, bool)].astype(np.uint8)
        for positions in (*both("positions"), kernel_of(vectors, "positions_by_table")):
            found = np.empty(n + 15, np.int32)
            m = positions(flags.copy(), n, found)
            assert_array_equal(found[:m], np.flatnonzero(flags[:n]))


@pytest.mark.parametrize("n_experts", [1, 7, 8, 20, 100])
def test_the_best_expert_is_the_first_of_several(n_experts, rng):
    places = both("best_expert")
    for _ in range(50):
        gains = np.full((2, -(-n_experts // 16) * 16), 99.0)
        gains[1, :n_experts] = rng.integers(4, size=n_experts)
        cost = rng.integers(2, size=n_experts).astype(float)
        cost[rng.uniform(size=n_experts) < 0.1] = np.inf
        active = rng.uniform(size=n_experts) < 0.4
        value = np.where(active, -np.inf, gains[1, :n_experts] - cost)
        expected = int(value.argmax()) if value.max() > -np.inf else -1
        for best_expert in places:
            best, most = best_expert(gains, 1, cost, active)
            assert best == expected
            assert most == value.max()


@pytest.mark.parametrize("n_features", [1, 63, 64, 65, N_FEATURES])
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_owners_and_heirs_are_the_two_best(n_features, dtype, rng):
    keys = rng.permuted(np.tile(np.arange(9, dtype=dtype), (n_features, 1)), axis=1).T.copy()
    highest = np.iinfo(dtype).max
    for code, background in (([4], -1), ([4], 2), ([0, 3, 8], -1), ([5, 1, 6, 7], 2)):
        active = [*code, background] if background >= 0 else code
        expected = np.sort(np.vstack([keys[active], np.full((2, n_features), highest)]), axis=0)
        for two_best in both("two_best"):
            owner, heir = np.empty(n_features, dtype), np.empty(n_features, dtype)
            padded = np.array([*code, -1, -1])
            two_best(padded, len(code), background, keys, 0, owner, heir)
            assert_array_equal([owner, heir], expected[:2])


def test_powers_of_two():
    for exponent_of in both("exponent_of"):
        for power in range(-126, 128, 7):
            for factor in (1.0, 1.5, 1.999):
                assert exponent_of(np.float32(factor * 2.0**power)) == power
    for power_of_two in both("power_of_two"):
        found = [power_of_two(np.int32(n)) for n in (-126, 0, 127)]
        assert found == [2.0**-126, 1.0, 2.0**127]


FIT = """
import numpy as np
from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
X = make_pairs(4)
model = DynamicPartitionModel(8, random_state=0).fit(X)
print(model.transform(X).sum(axis=0).tolist(), round(model.score(X), 3))
smooth = DynamicPartitionModel(6, max_iter=3, random_state=0).fit(
    np.random.default_rng(0).normal(size=(60, 70))
)
print(smooth.transform(np.eye(70)[:9]).tolist())
"""


@pytest.mark.skipif(not explicit_vectors(), reason="this processor runs plain loops anyway")
@pytest.mark.slow
def test_a_model_learns_the_same_from_plain_loops(tmp_path):
    with_loops = {"DYNPART_VECTORS": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", FIT],
            env={**os.environ, **changes}, capture_output=True, text=True, check=True,
        ).stdout
        for changes in ({}, with_loops)
    ]  # fmt: skip
    assert said[0] == said[1]
    assert said[0]
