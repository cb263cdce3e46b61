"""The torch engine: held to the reference, plain on any device and by kernels where they can run.

Kernels run on a GPU where there is one. Elsewhere Triton's interpreter runs them on the CPU,
slowly, if the environment says TRITON_INTERPRET=1.
"""

import gc
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.image import grid_to_graph

from dynpart import DynamicPartitionModel, validation
from dynpart.arrays import to_numpy
from dynpart.composition import expertise_ranks, owners
from dynpart.datasets import make_bars, make_pairs
from dynpart.engines import Codes, Experts, PursuitRule, make_engine
from dynpart.engines.reference import ReferenceEngine
from dynpart.learning import Annealed
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from tests.effort import examples
from tests.engines.parity import (
    assert_follows_the_rule,
    assert_likelihood_of_codes,
    assert_same_codes,
    assert_same_sums,
)
from tests.strategies import make_experts, make_prior, make_rows, make_rule, problems

torch = pytest.importorskip("torch")
from dynpart.engines import torch as torch_module  # noqa: E402
from dynpart.engines.torch import TorchEngine  # noqa: E402

REFERENCE = ReferenceEngine()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INTERPRETED = DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
EXAMPLES = 5 if INTERPRETED else 25
too_slow = pytest.mark.skipif(INTERPRETED, reason="takes too long in the interpreter")
KERNELS = pytest.param(
    True,
    id="kernels",
    marks=pytest.mark.skipif(
        not TorchEngine(DEVICE).kernels, reason="Triton has neither a GPU nor TRITON_INTERPRET=1"
    ),
)
both_ways = pytest.mark.parametrize("kernels", [pytest.param(False, id="plain"), KERNELS])


def engine_of(kernels):
    return TorchEngine(DEVICE, kernels=kernels)


def as_numpy(codes, rule):
    """Codes as the reference has them, with all slots."""
    order = np.full((len(codes.members), rule.max_active), -1, dtype=np.int32)
    found = to_numpy(codes.members)
    order[:, : found.shape[1]] = found
    weight = None if codes.weight is None else to_numpy(codes.weight)
    return Codes(order, to_numpy(codes.log_likelihood), weight=weight)


@both_ways
@examples(EXAMPLES)
@given(problems(max_experts=30, max_features=140), st.booleans(), st.data())
def test_pursuit_is_the_reference_one(kernels, problem, smoothed, data):
    experts, rows = problem
    if data.draw(st.booleans()):
        experts = experts.equally_sure()
    most = data.draw(st.integers(1, min(experts.n_experts, 8)))
    fewest = data.draw(st.integers(1, most))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    cost = rng.normal(0, 0.5, experts.n_experts)
    rule = make_rule(
        experts.n_experts, min_active=fewest, max_active=most, cost=cost, smoothed=smoothed
    )
    codes = as_numpy(pursue(engine_of(kernels), rows, experts, rule), rule)
    assert_follows_the_rule(rows, experts, rule, codes)
    assert_likelihood_of_codes(rows, experts, codes)


@both_ways
@examples(EXAMPLES)
@given(problems(max_experts=16, max_features=60), st.sampled_from([0, 100]), st.data())
def test_codes_under_a_prior_are_the_reference_ones(kernels, problem, n_swaps, data):
    experts, rows = problem
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rule = make_rule(
        experts.n_experts,
        max_active=max(1, experts.n_experts // 2),
        n_swaps=n_swaps,
        n_starts=data.draw(st.sampled_from([1, 2])),
        prune=data.draw(st.booleans()),
        prior=make_prior(rng, experts.n_experts, data.draw(st.integers(1, 4))),
    )
    codes = as_numpy(pursue(engine_of(kernels), rows, experts, rule), rule)
    assert_same_codes(codes, pursue(REFERENCE, rows, experts, rule), in_order=n_swaps == 0)


@both_ways
@pytest.mark.parametrize("n_starts", [1, 2])
@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_rows_of_a_type_begin_again_with_one_expert(monkeypatch, kernels, family, n_starts):
    """In some rows the best code is found only from the best single expert."""
    rng = np.random.default_rng(0)
    experts = make_experts(rng, family, 8, 24)
    rows = make_rows(rng, experts, 24)[16:20]
    # One expert is typical of each type. No two types are equally probable given a code: which
    # of them is tried first would depend on rounding.
    weight = np.log(rng.dirichlet(np.full(8, 4.0)))
    often, seldom = rng.uniform(0.97, 0.995, (8, 8)), rng.uniform(0.005, 0.03, (8, 8))
    prior = CodePrior.mixture(weight, np.where(np.eye(8, dtype=bool), often, seldom))
    rule = make_rule(8, max_active=4, n_swaps=100, n_starts=n_starts, prior=prior)
    codes = as_numpy(pursue(engine_of(kernels), rows, experts, rule), rule)
    exact = pursue(REFERENCE, rows, experts, rule)
    assert_same_codes(codes, exact, in_order=False)
    assert_likelihood_of_codes(rows, experts, codes)
    monkeypatch.setattr(PursuitRule, "tries_experts_alone", False)
    without = as_numpy(pursue(engine_of(kernels), rows, experts, rule), rule)
    assert (codes.active(8) != without.active(8)).any()


@both_ways
@examples(EXAMPLES)
@given(problems(max_experts=16, max_features=60), st.sampled_from([0, 1, 2, 100]), st.booleans())
def test_refined_codes_are_the_reference_ones(kernels, problem, n_swaps, prune):
    experts, rows = problem
    rule = make_rule(
        experts.n_experts,
        max_active=max(1, experts.n_experts // 3),
        cost=np.full(experts.n_experts, 0.3),
        n_swaps=n_swaps,
        prune=prune,
    )
    codes = as_numpy(pursue(engine_of(kernels), rows, experts, rule), rule)
    exact = pursue(REFERENCE, rows, experts, rule)
    assert_same_codes(codes, exact, in_order=n_swaps == 0)


@both_ways
@examples(EXAMPLES)
@given(problems(max_experts=16, max_features=60), st.integers(2, 5), st.integers(0, 1))
def test_codes_of_several_starts_are_the_reference_ones(kernels, problem, n_starts, n_swaps):
    experts, rows = problem
    n_experts = experts.n_experts
    rule = make_rule(
        n_experts,
        max_active=max(1, n_experts // 3),
        cost=np.linspace(0, 0.5, n_experts),
        n_starts=n_starts,
        n_swaps=n_swaps,
    )
    codes = as_numpy(pursue(engine_of(kernels), rows, experts, rule), rule)
    exact = pursue(REFERENCE, rows, experts, rule)
    assert_same_codes(codes, exact, in_order=n_swaps == 0)


@both_ways
@examples(EXAMPLES)
@given(problems(max_experts=20, max_features=150))
def test_sums_are_the_reference_ones(kernels, problem):
    experts, rows = problem
    rule = make_rule(experts.n_experts)
    engine = engine_of(kernels)
    codes = pursue(engine, rows, experts, rule)
    exact = as_numpy(codes, rule)
    assert_same_sums(engine, rows, experts, codes, rtol=1e-5, numpy_codes=exact)
    summary, expected = codes.summary(experts.n_experts), exact.summary(experts.n_experts)
    np.testing.assert_allclose(to_numpy(summary.usage), expected.usage)
    assert summary.n_rows == expected.n_rows
    assert float(summary.log_likelihood) == pytest.approx(expected.log_likelihood)


@too_slow
@both_ways
@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize(
    ("n_experts", "n_features"), [(1, 1), (2, 5000), (2000, 5), (256, 64), (255, 65)]
)
def test_any_number_of_experts_and_variables(kernels, family, n_experts, n_features):
    rng = np.random.default_rng(0)
    experts = make_experts(rng, family, n_experts, n_features)
    rows = make_rows(rng, experts, 2)
    most = min(n_experts, 3)
    for smoothed in (False, True):
        rule = make_rule(n_experts, max_active=most, smoothed=smoothed)
        engine = engine_of(kernels)
        codes = pursue(engine, rows, experts, rule)
        exact = as_numpy(codes, rule)
        assert_follows_the_rule(rows, experts, rule, exact)
        assert_likelihood_of_codes(rows, experts, exact)
    assert_same_sums(engine, rows, experts, codes, rtol=1e-5, numpy_codes=exact)


@too_slow
@both_ways
@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("octaves", [30, 400])
@pytest.mark.parametrize("smoothed", [False, True])
def test_extreme_expertise(kernels, family, octaves, smoothed):
    rng = np.random.default_rng(1)
    experts = make_experts(rng, family, 12, 40)
    experts = Experts(experts.family, experts.eta, rng.uniform(-octaves, octaves, (12, 40)))
    rows = make_rows(rng, experts, 20)
    rule = make_rule(12, min_active=3, max_active=8, smoothed=smoothed)
    engine = engine_of(kernels)
    codes = pursue(engine, rows, experts, rule)
    exact = as_numpy(codes, rule)
    assert_follows_the_rule(rows, experts, rule, exact)
    assert_same_sums(engine, rows, experts, codes, numpy_codes=exact)


@too_slow
@both_ways
@pytest.mark.parametrize("smoothed", [False, True])
def test_rows_far_from_every_expert(kernels, smoothed):
    rng = np.random.default_rng(2)
    experts = make_experts(rng, "gaussian", 8, 30)
    rows = make_rows(rng, experts, 10)
    rows.values[::2, :5] += 40
    rule = make_rule(8, min_active=2, max_active=6, smoothed=smoothed)
    codes = as_numpy(pursue(engine_of(kernels), rows, experts, rule), rule)
    assert_follows_the_rule(rows, experts, rule, codes)


@both_ways
@pytest.mark.parametrize("smoothed", [False, True])
def test_ties_go_to_the_lowest_index(kernels, smoothed):
    rng = np.random.default_rng(3)
    one = make_experts(rng, n_experts=4, n_features=30)
    twice = Experts(one.family, np.tile(one.eta, (1, 2, 1)), np.tile(one.log2_expertise, (2, 1)))
    rows = make_rows(rng, one, 30)
    rule = make_rule(8, max_active=3, smoothed=smoothed)
    codes = as_numpy(pursue(engine_of(kernels), rows, twice, rule), rule)
    np.testing.assert_array_equal(codes.members, pursue(REFERENCE, rows, twice, rule).members)


@both_ways
@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_an_expert_alone_leaves_no_evidence(kernels, family):
    rng = np.random.default_rng(5)
    experts = make_experts(rng, family, 6, 70)
    rows = make_rows(rng, experts, 40)
    engine = engine_of(kernels)
    codes = pursue(engine, rows, experts, make_rule(6, max_active=1))
    sums = engine.gradient_sums(rows, experts, codes)
    assert not to_numpy(sums.first).any()
    assert not to_numpy(sums.second).any()


@pytest.mark.parametrize("kernels", [KERNELS])
@pytest.mark.parametrize("n_rows", [1, 130, 1030])
def test_codes_turned_round_name_the_rows_of_every_expert(kernels, n_rows):
    from dynpart.engines._triton_codes import rows_by_expert

    rng = np.random.default_rng(7)
    n_experts, n_slots = 9, 4
    order = rng.permuted(np.tile(np.arange(n_experts), (n_rows, 1)), axis=1)[:, :n_slots]
    order[np.arange(n_slots) >= rng.integers(1, n_slots + 1, n_rows)[:, None]] = -1
    order[order == 8] = 0  # nobody takes the last expert
    whole = torch.as_tensor(order, dtype=torch.int32, device=DEVICE)
    for codes in (whole, whole[:, :1]):
        members, counts = map(to_numpy, rows_by_expert(codes, n_experts))
        for k in range(n_experts):
            expected = np.flatnonzero((to_numpy(codes) == k).any(axis=1))
            np.testing.assert_array_equal(members[k, : counts[k]], expected)


@pytest.mark.parametrize("kernels", [KERNELS])
@pytest.mark.parametrize("n_rows", [0, 1, 40])
def test_owners_found_on_the_device_are_those_of_numpy(kernels, n_rows):
    from dynpart.composition._triton_owners import owners_on_device

    rng = np.random.default_rng(3)
    ranks = expertise_ranks(rng.normal(size=(7, 150)))
    active = rng.random((n_rows, 7)) < 0.4
    active[:, 2] |= ~active.any(axis=1)
    found = owners_on_device(*(torch.as_tensor(part, device=DEVICE) for part in (ranks, active)))
    np.testing.assert_array_equal(to_numpy(found), owners(ranks, active))


@pytest.mark.parametrize("kernels", [KERNELS])
def test_charges_under_a_prior_are_moved_to_the_device_once(kernels):
    from dynpart.engines._triton_tables import lane_charges

    prior = CodePrior.independent(np.array([0.2, 0.5, 0.9]))
    first, again, dearer = (
        lane_charges(PursuitRule(1, 3, np.full(3, cost), n_swaps=1, prior=prior), 16, DEVICE)
        for cost in (0.0, 0.0, 1.0)
    )
    assert again is first
    np.testing.assert_allclose(to_numpy(dearer.cost - first.cost)[:, :3], 1.0)


@too_slow
@both_ways
@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("smoothed", [False, True])
def test_a_row_gets_the_same_code_in_any_batch_and_run(kernels, family, smoothed):
    rng = np.random.default_rng(6)
    experts = make_experts(rng, family, 24, 90)
    rows = make_rows(rng, experts, 60 if INTERPRETED else 700)
    rule = make_rule(24, max_active=6, smoothed=smoothed)
    engine = engine_of(kernels)
    whole = pursue(engine, rows, experts, rule)
    expected = as_numpy(whole, rule)
    shuffle = rng.permutation(len(rows))
    moved = as_numpy(pursue(engine, rows[shuffle], experts, rule), rule)
    np.testing.assert_array_equal(moved.members, expected.members[shuffle])
    if kernels:
        np.testing.assert_array_equal(moved.log_likelihood, expected.log_likelihood[shuffle])
    alone = as_numpy(pursue(engine, rows[7:8], experts, rule), rule)
    np.testing.assert_array_equal(alone.members[0], expected.members[7])
    for operation in ("gradient_sums", "responsibility_sums"):
        once, again = (getattr(engine, operation)(rows, experts, whole) for _ in range(2))
        for name in vars(once):
            assert bool((getattr(once, name) == getattr(again, name)).all())


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_chunks_and_streams_change_nothing(monkeypatch, family):
    rng = np.random.default_rng(8)
    experts = make_experts(rng, family, 9, 50)
    rows = make_rows(rng, experts, 120)
    rule = make_rule(9, max_active=5)
    engine = TorchEngine(DEVICE)
    held = engine.hold(rows)
    assert isinstance(held.values, torch.Tensor)
    whole = pursue(engine, held, experts, rule)
    sums = engine.gradient_sums(held, experts, whole)
    monkeypatch.setattr(torch_module, "CPU_BYTES", 200_000)
    monkeypatch.setattr(torch_module, "WORK_SHARE", 1e-6)
    by_pieces = TorchEngine(DEVICE)
    assert len(list(by_pieces._chunks(rows, 18_000))) > 1
    for kind in (held, rows):
        pieces = pursue(by_pieces, kind, experts, rule)
        assert bool((pieces.members == whole.members).all())
        again = by_pieces.gradient_sums(kind, experts, pieces)
        torch.testing.assert_close(again.first, sums.first, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(again.second, sums.second, rtol=1e-9, atol=1e-9)
    taken = engine.take(rows, np.array([3, 5]))
    np.testing.assert_array_equal(to_numpy(taken.values), rows.values[[3, 5]])


@too_slow
@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("gray", [False, True])
def test_a_fit_ends_where_the_cpu_engine_does(gray, connected):
    X = make_pairs(6)
    if gray:
        X = X + np.random.default_rng(9).normal(0, 0.2, X.shape)
    graph = grid_to_graph(3, 4) if connected else None
    arguments = {"max_iter": 8, "random_state": 0, "connectivity": graph}
    on_cpu = DynamicPartitionModel(6, **arguments).fit(X)
    there = DynamicPartitionModel(6, device=DEVICE, **arguments).fit(X)
    assert isinstance(there.means_, np.ndarray)
    np.testing.assert_allclose(there.means_, on_cpu.means_, atol=1e-5)
    np.testing.assert_array_equal(there.transform(X), on_cpu.transform(X))


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU records what it does")
@pytest.mark.parametrize("gray", [False, True])
def test_a_recorded_fit_is_the_same_to_the_last_bit(monkeypatch, gray):
    X = make_bars(n_samples=400, random_state=0)
    if gray:
        X = X + np.random.default_rng(10).normal(0, 0.2, X.shape)
    recorded = []
    replay = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(
        torch.cuda.CUDAGraph, "replay", lambda graph: (recorded.append(1), replay(graph))
    )
    arguments = {
        "learning": Annealed(min_active=3),
        "max_iter": 6,
        "device": DEVICE,
        "random_state": 0,
    }
    there = DynamicPartitionModel(6, **arguments).fit(X)
    assert recorded
    monkeypatch.setattr(TorchEngine, "repeated", lambda self, fold, *_: fold)
    recorded.clear()
    one_by_one = DynamicPartitionModel(6, **arguments).fit(X)
    assert not recorded
    np.testing.assert_array_equal(there.means_, one_by_one.means_)
    np.testing.assert_array_equal(there.expertise_, one_by_one.expertise_)
    assert there.history_ == one_by_one.history_


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU records what it does")
def test_a_fit_gives_back_the_memory_of_its_recordings():
    X = torch.as_tensor(make_bars(n_samples=400, random_state=0), device=DEVICE)

    def held_after_a_fit():
        DynamicPartitionModel(6, learning=Annealed(min_active=3), max_iter=6, random_state=0).fit(X)
        return torch.cuda.memory_allocated()

    gc.disable()
    try:
        assert held_after_a_fit() == held_after_a_fit()
    finally:
        gc.enable()


@too_slow
@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "float32", "float64", "int64"])
def test_tensors_in_tensors_out(dtype, tmp_path):
    X = torch.as_tensor(make_pairs(4), device=DEVICE).to(getattr(torch, dtype))
    model = DynamicPartitionModel(8, max_iter=10, engine="torch", random_state=0).fit(X)
    H = model.transform(X)
    results = [model.means_, model.expertise_, model.activation_probabilities_, H]
    results += [model.inverse_transform(H), model.partition(H), model.score_samples(X)]
    results += [model.log_likelihood(X, H), model.sample(3, random_state=0)]
    for result in results:
        assert isinstance(result, torch.Tensor)
        assert result.device.type == DEVICE
    assert H.dtype == torch.uint8
    rows = to_numpy(X).astype(np.uint8)
    np.testing.assert_array_equal(model.transform(rows), to_numpy(H))
    model.save(tmp_path / "model.dynpart")
    from dynpart import load

    loaded = load(tmp_path / "model.dynpart")
    np.testing.assert_array_equal(loaded.transform(rows), to_numpy(H))
    assert model.partial_fit(X).n_iter_ == len(model.history_)
    assert isinstance(model.means_, torch.Tensor)


def test_a_tensor_on_the_cpu_takes_the_cpu_engine():
    X = make_pairs(4)
    expected = DynamicPartitionModel(8, max_iter=6, random_state=0).fit(X)
    model = DynamicPartitionModel(8, max_iter=6, random_state=0).fit(torch.as_tensor(X))
    assert isinstance(model.means_, torch.Tensor)
    np.testing.assert_array_equal(to_numpy(model.means_), expected.means_)


@too_slow
def test_a_checkpoint_goes_on_where_it_stopped(tmp_path):
    X, path = make_pairs(4), tmp_path / "fit.checkpoint"
    arguments = {"max_iter": 8, "device": DEVICE, "random_state": 0}
    whole = DynamicPartitionModel(8, **arguments).fit(X)
    DynamicPartitionModel(8, **arguments).fit(X, checkpoint=path, every=0)
    again = DynamicPartitionModel(8, **arguments).fit(X, checkpoint=path, every=0)
    np.testing.assert_array_equal(again.means_, whole.means_)


@too_slow
def test_blocks_of_rows_are_learnt_on_the_device():
    X = make_pairs(5)
    arguments = {"max_iter": 8, "device": DEVICE, "random_state": 0}
    whole = DynamicPartitionModel(10, **arguments).fit(X)
    blocks = DynamicPartitionModel(10, **arguments).fit([X[:20], X[20:]])
    np.testing.assert_allclose(blocks.means_, whole.means_, atol=1e-6)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.zeros(3), "rows and columns"),
        (torch.zeros((0, 3)), "at least one row"),
        (torch.tensor([[0.0, float("inf")]]), "infinity"),
        (torch.zeros((2, 2), dtype=torch.complex64), "real"),
    ],
)
def test_bad_tensors_are_named(X, message):
    with pytest.raises(ValueError, match=f"^X .*{message}"):
        DynamicPartitionModel(2, engine="torch").fit(X)


def test_codes_on_a_device_are_checked_there(monkeypatch):
    monkeypatch.setattr(validation, "is_remote", validation.is_tensor)
    codes = torch.tensor([[1, 0, 1], [0, 1, 0]], dtype=torch.uint8, device=DEVICE)
    with monkeypatch.context() as on_device:
        on_device.setattr(validation, "check_codes", None)
        for H in (codes, codes.double()):
            torch.testing.assert_close(validation.codes_in_place(H, 3), codes.bool())
    for bad, message in (
        (codes.double() / 2, "only 0 and 1"),
        (codes * 0, "an active expert in every row"),
        (codes[:, :2], "one column per expert"),
    ):
        with pytest.raises(ValueError, match=message):
            validation.codes_in_place(bad, 3)


def test_a_tensor_of_another_width_is_named():
    X = torch.as_tensor(np.tile(make_pairs(2), (5, 1)))
    model = DynamicPartitionModel(3, max_iter=2, engine="torch", device="cpu", random_state=0)
    model.fit(X)
    with pytest.raises(ValueError, match="4 features"):
        model.transform(torch.eye(3, dtype=torch.uint8))


def test_devices_that_cannot_be_used_are_named():
    with pytest.raises(ValueError, match=r"device='nowhere' cannot be used"):
        DynamicPartitionModel(2, device="nowhere").fit(make_pairs(2))
    with pytest.raises(ValueError, match=r"device=3.5 cannot be used"):
        DynamicPartitionModel(2, device=3.5).fit(make_pairs(2))
    with pytest.raises(ValueError, match=r"device is for engine='torch'.*'cpu'"):
        make_engine("cpu", device="cuda")
