"""A stream that is saved and loaded, anywhere, goes on to the last bit as if it had not been."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.arrays import to_numpy
from dynpart.datasets import make_pairs
from dynpart.learning import Annealed, Paper
from dynpart.persistence import ModelFileError, load, save
from dynpart.storage._stream import MOMENTS

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
N_BATCHES = 9


def batches(family, n_batches=N_BATCHES, n_rows=40, seed=0):
    """Pairs, with noise where they are to be measured."""
    rng = np.random.default_rng(seed)
    pairs = make_pairs(3).astype(np.uint8)
    drawn = [pairs[rng.integers(0, len(pairs), n_rows)] for _ in range(n_batches)]
    if family == "bernoulli":
        return drawn
    return [batch + rng.normal(0, 0.3, batch.shape) for batch in drawn]


def reloaded(model, folder):
    path = folder / "m.dynpart"
    save(model, path)
    return load(path)


def learnt(stream):
    """All numbers that decide how a stream goes on."""
    arrays = [stream.moments.mean, stream.moments.variance, stream.activation_probabilities]
    facts = [stream.moments.n_rows, stream.moments.is_binary, stream.n_batches, stream.history]
    for candidate in stream.candidates:
        experts, averages = candidate.experts, candidate.averages
        arrays += [experts.eta, experts.log2_expertise]
        arrays += [averages.usage, averages.sums.array]
        facts += [candidate.min_active, experts.log2_bound, averages.n_rows]
    return facts, [to_numpy(array) for array in arrays]


def assert_same(one, other):
    """The models, and the streams behind them, are the same to the last bit."""
    (facts, arrays), (other_facts, other_arrays) = learnt(one._stream), learnt(other._stream)
    assert facts == other_facts
    for array, expected in zip(arrays, other_arrays, strict=True):
        np.testing.assert_array_equal(array, expected)
    names = ["means_", "expertise_", "activation_probabilities_", "objective_history_"]
    for name in names + ["variances_"] * hasattr(one, "variances_"):
        np.testing.assert_array_equal(to_numpy(getattr(one, name)), to_numpy(getattr(other, name)))
    assert one.history_ == other.history_
    assert one.n_iter_ == other.n_iter_


def make_model(**options):
    # Six batches search, three candidates are tried; the rest refines.
    return DynamicPartitionModel(6, max_iter=9, random_state=0, **options)


def streamed(parts, cuts, folder, *, convert=np.asarray, **options):
    """A model of a stream, saved and loaded before each of the batches in `cuts`."""
    model = make_model(**options)
    for t, part in enumerate(parts):
        if t in cuts:
            model = reloaded(model, folder)
        model.partial_fit(convert(part))
    return model


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("learning", ["annealed", Paper(), Annealed(min_active=2)], ids=str)
def test_cut_anywhere_the_stream_ends_the_same(family, learning, tmp_path):
    parts = batches(family)
    straight = streamed(parts, (), tmp_path, learning=learning)
    for cut in range(1, N_BATCHES):
        assert_same(streamed(parts, (cut,), tmp_path, learning=learning), straight)


@given(
    family=st.sampled_from(["bernoulli", "gaussian"]),
    cuts=st.sets(st.integers(1, N_BATCHES - 1)),
    seed=st.integers(0, 2**16),
    n_rows=st.integers(2, 60),
)
def test_cut_again_and_again_the_stream_ends_the_same(family, cuts, seed, n_rows, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    parts = batches(family, n_rows=n_rows, seed=seed)
    straight = streamed(parts, (), folder)
    assert_same(streamed(parts, cuts, folder), straight)
    assert not np.array_equal(straight.means_, streamed(parts[:-1], (), folder).means_)


@needs_torch
@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("tensors", [True, False])
def test_a_stream_of_torch_goes_on_too(family, tensors, tmp_path):
    import torch

    parts = batches(family)
    options = {"engine": "torch", "device": "cpu", "convert": torch.tensor if tensors else np.array}
    straight = streamed(parts, (), tmp_path, **options)
    assert_same(streamed(parts, (2, 7), tmp_path, **options), straight)


@needs_torch
def test_a_stream_of_torch_may_go_on_without_it(tmp_path):
    parts = batches("bernoulli")
    model = streamed(parts[:5], (), tmp_path, engine="torch", device="cpu")
    back = reloaded(model, tmp_path).set_params(engine="reference", device=None)
    back.partial_fit(parts[5])
    expected = streamed(parts[:6], (), tmp_path, engine="reference")
    np.testing.assert_allclose(back.means_, expected.means_, atol=1e-9)


def test_a_graph_is_listened_to_after_loading(tmp_path):
    from sklearn.feature_extraction.image import grid_to_graph

    parts, graph = batches("bernoulli"), grid_to_graph(2, 3)
    straight = streamed(parts, (), tmp_path, connectivity=graph)
    assert_same(streamed(parts, (4,), tmp_path, connectivity=graph), straight)
    assert not np.array_equal(straight.means_, streamed(parts, (), tmp_path).means_)


@pytest.mark.parametrize(
    ("family", "engine"),
    [
        ("bernoulli", "cpu"),
        ("gaussian", "cpu"),
        pytest.param("bernoulli", "torch", marks=needs_torch),
        pytest.param("gaussian", "torch", marks=needs_torch),
    ],
)
def test_a_fitted_model_goes_on_the_same(family, engine, tmp_path):
    """Also one whose arrays are tensors, which come back as arrays."""
    convert = np.asarray
    if engine == "torch":
        from torch import tensor as convert
    first, *more = batches(family)
    model = make_model(engine=engine).fit(convert(first))
    back = reloaded(model, tmp_path)
    for batch in more[:3]:
        model.partial_fit(convert(batch))
        back.partial_fit(convert(batch))
        assert_same(back, model)
    assert not np.array_equal(to_numpy(model.means_), to_numpy(back.fit(convert(first)).means_))


@needs_torch
def test_logarithms_of_torch_and_numpy_are_not_mixed(tmp_path):
    """Some differ in the last bit, and loaded arrays are NumPy's: levels are stored as they are."""
    import torch

    levels = np.random.default_rng(0).lognormal(0, 3, 200_000)
    levels = levels[np.log2(levels) != torch.log2(torch.tensor(levels)).numpy()]
    if not levels.size:
        pytest.skip("they are the same here")
    first, second, *_ = (torch.tensor(batch) for batch in batches("bernoulli"))
    model = make_model(engine="torch", device="cpu").fit(first)
    experts = model._experts()
    levels = torch.log2(torch.tensor(np.resize(levels, model.expertise_.shape)))
    model._keep_experts(replace(experts, log2_expertise=levels))
    back = reloaded(model, tmp_path)
    assert_same(back.partial_fit(second), model.partial_fit(second))


def test_a_fit_ends_the_stream_also_in_the_file(tmp_path):
    first, second, third = batches("bernoulli", n_batches=3)
    model = make_model().partial_fit(first).fit(second)
    back = reloaded(model, tmp_path)
    assert_same(back.partial_fit(third), model.partial_fit(third))


def test_files_without_a_stream_still_load(tmp_path, forge):
    """What was written before streams were kept starts a settled stream, as it did."""
    model = make_model().fit(batches("bernoulli")[0])
    path = tmp_path / "m"
    save(model, path)
    forge(path, drop=["stream", "moments", *(f"moments.{part}" for part in MOMENTS)])
    back = load(path)
    assert getattr(back, "_stream", None) is None
    back.partial_fit(batches("bernoulli")[1])
    assert back._stream.n_batches == model.max_iter + 1


@pytest.mark.parametrize(
    "change",
    [
        3, [], {}, {"n_batches": 0}, {"n_batches": 1}, {"n_batches": True}, {"n_batches": 10**400},
        {"candidates": []}, {"candidates": [{}]}, {"candidates": 7}, {"candidates": [3]},
        {"moments": None}, {"moments": {"n_rows": -1, "is_binary": True}},
        {"min_active": 0}, {"min_active": 7}, {"min_active": 1.5},
        {"log2_bound": "NaN"}, {"log2_bound": -1.0}, {"log2_bound": None}, {"n_rows": -1.0},
        {"n_rows": 1e308}, {"n_rows": True},
    ],
    ids=repr,
)  # fmt: skip
def test_a_forged_stream_is_refused(change, tmp_path, forge):
    from dynpart.storage._container import read_container

    path = tmp_path / "m"
    save(streamed(batches("bernoulli")[:2], (), tmp_path), path)
    stream = read_container(path).meta["stream"]
    candidate = stream["candidates"][0]
    if not isinstance(change, dict) or not change:
        stream = change
    elif set(change) <= set(stream):
        stream |= change
    else:
        candidate |= change
    forge(path, meta={"stream": stream})
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stream.0.eta", 1.5), ("stream.0.eta", np.nan), ("stream.0.eta", 0.0),
        ("stream.0.log2_expertise", np.inf), ("stream.0.usage", 1.5), ("stream.0.usage", -0.1),
        ("stream.0.weight", -1.0), ("stream.0.weight", np.nan), ("stream.0.statistics", np.inf),
        ("stream.moments.mean", np.nan), ("stream.moments.mean", 2.0),
        ("stream.moments.variance", -1.0), ("stream.0.eta", "narrow"), ("stream.0.eta", "gone"),
        ("stream.7.eta", "more"),
    ],
)  # fmt: skip
def test_forged_arrays_of_a_stream_are_refused(name, value, tmp_path, forge):
    from dynpart.storage._container import read_container

    path = tmp_path / "m"
    save(streamed(batches("bernoulli")[:2], (), tmp_path), path)
    array = read_container(path).arrays.get(name, np.ones(3))
    if value == "gone":
        forge(path, drop=[name])
    else:
        changed = array[..., 1:].copy() if value == "narrow" else array.copy()
        if not isinstance(value, str):
            changed.flat[-1] = value
        forge(path, arrays={name: changed})
    with pytest.raises(ModelFileError):
        load(path)
