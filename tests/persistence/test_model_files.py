"""A model is restored exactly from its file; invalid files are rejected."""

import os
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.learning import Annealed, Paper
from dynpart.persistence import ModelFileError, load, save
from dynpart.storage._container import read_container
from tests.persistence.conftest import PAIRS

GOLDEN = Path(__file__).parents[1] / "data"
ARRAYS = ("means_", "expertise_", "activation_probabilities_", "objective_history_")


class Own(Annealed):
    """A plan this test made up."""


def assert_same(one, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.get_params() == other.get_params()
    assert one.history_ == other.history_
    assert one.n_iter_ == other.n_iter_
    assert one.n_features_in_ == other.n_features_in_


@pytest.fixture(params=["binary", "gaussian"])
def model(request, binary_model, gaussian_model):
    return {"binary": binary_model, "gaussian": gaussian_model}[request.param]


def test_a_model_survives_the_round_trip_to_the_last_bit(model, tmp_path):
    X = model.sample(50, random_state=0)
    save(model, tmp_path / "m.dynpart")
    back = load(tmp_path / "m.dynpart")
    assert_same(model, back)
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(back.sample(5, random_state=1), model.sample(5, random_state=1))
    assert list(back.get_feature_names_out()) == list(model.get_feature_names_out())


@pytest.mark.parametrize("way", [pickle, joblib], ids=["pickle", "joblib"])
def test_pickle_and_joblib_work_as_for_any_estimator(model, way, tmp_path):
    X = model.sample(20, random_state=0)
    with (tmp_path / "m").open("wb") as file:
        way.dump(model, file)
    with (tmp_path / "m").open("rb") as file:
        back = way.load(file)
    assert_same(model, back)
    np.testing.assert_array_equal(back.transform(X), model.transform(X))


def test_names_of_variables_are_kept(tmp_path):
    names = ["plain", "<script>alert(1)</script>", "umlaut ä\u2028", 'quote "\\', ""]
    X = pd.DataFrame(np.hstack([PAIRS, PAIRS[:, :1]]), columns=names)
    save(DynamicPartitionModel(3, max_iter=4, random_state=0).fit(X), tmp_path / "m")
    back = load(tmp_path / "m")
    assert list(back.feature_names_in_) == names
    back.transform(X)
    with pytest.raises(ValueError, match="names"):
        back.transform(X.rename(columns={"plain": "other"}))


def test_image_shape_is_kept(binary_model, tmp_path):
    model = clone(binary_model).fit(PAIRS)
    model.image_shape_ = (2, 2)
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").image_shape_ == (2, 2)


@pytest.mark.parametrize("plan", [Annealed(factor=3.0), Paper(epsilon=2.0)])
def test_plans_of_the_package_are_kept(plan, tmp_path):
    model = DynamicPartitionModel(2, max_iter=2, learning=plan, max_active=1, random_state=0)
    model.fit(PAIRS)
    save(model, tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path / "m").learning == plan


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_objects_among_the_parameters_fall_back_to_defaults_with_a_warning(tmp_path):
    model = DynamicPartitionModel(
        2, max_iter=2, learning=Own(factor=3.0), random_state=np.random.RandomState(0)
    ).fit(make_pairs(2))
    save(model, tmp_path / "m")
    with pytest.warns(UserWarning, match="cannot be restored") as caught:
        back = load(tmp_path / "m")
    assert len(caught) == 2
    assert "Own(factor=3.0" in str(caught[0].message)
    assert back.learning == DynamicPartitionModel().learning
    assert back.random_state is None
    np.testing.assert_array_equal(back.means_, model.means_)


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(DynamicPartitionModel(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_model_whose_parameters_contradict_it_is_not_saved(binary_model, tmp_path):
    model = pickle.loads(pickle.dumps(binary_model)).set_params(n_experts=7)
    with pytest.raises(ModelFileError, match="n_experts=7"):
        save(model, tmp_path / "m")


def test_a_model_that_could_not_be_loaded_is_not_saved(binary_model, tmp_path):
    model = pickle.loads(pickle.dumps(binary_model))
    experts = model._experts()
    levels = np.full_like(experts.log2_expertise, np.inf)
    model._keep_experts(replace(experts, log2_expertise=levels))
    with pytest.raises(ModelFileError, match="'log2_expertise' holds inf"):
        save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("name", ["bernoulli", "gaussian"])
def test_the_golden_files_load_for_ever(name, version):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load(GOLDEN / f"golden-{version}-{name}.dynpart")
    expected = np.load(GOLDEN / f"golden-{version}-{name}.npz")
    np.testing.assert_array_equal(model.means_, expected["means"])
    rows = pd.DataFrame(expected["rows"], columns=expected["names"])
    np.testing.assert_array_equal(model.transform(rows), expected["codes"])
    np.testing.assert_allclose(
        model.log_likelihood(rows, expected["codes"]), expected["log_likelihood"]
    )
    assert list(model.feature_names_in_) == list(expected["names"])
    assert len(model.history_) == model.n_iter_ == len(model.objective_history_)


# ------------------------------------------------------------------ bad files


@pytest.fixture
def file(model, tmp_path):
    path = tmp_path / "m.dynpart"
    save(model, path)
    return path


def test_every_flipped_bit_is_noticed(binary_model, tmp_path):
    path = tmp_path / "m"
    save(binary_model, path)
    content = path.read_bytes()
    step = max(1, len(content) // 400)
    for position in range(0, len(content), step):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load(path)


def test_every_truncation_is_noticed(file):
    content = file.read_bytes()
    for length in [*range(0, 40), *range(40, len(content), max(1, len(content) // 100))]:
        file.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load(file)


def test_trailing_bytes_are_noticed(file):
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(ModelFileError):
        load(file)


@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "foreign"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("size", [2**24 + 1, 2**40, 2**64 - 1])
def test_a_huge_header_is_refused_before_it_is_read(size, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(size.to_bytes(8, "little") + b"{" + b" " * 100)
    with pytest.raises(ModelFileError, match="header"):
        load(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "m"
    path.write_bytes((2).to_bytes(8, "little") + b"{}")
    os.truncate(path, 2**40)  # a hole: takes no space
    with pytest.raises(ModelFileError, match="max_bytes"):
        load(path)


def test_a_deep_metadata_text_is_refused(file):
    from safetensors.numpy import save as save_tensors

    words = {"dynpart": "[" * 100_000 + "]" * 100_000, "sha256": ""}
    file.write_bytes(save_tensors({"means": np.ones((1, 1))}, words))
    with pytest.raises(ModelFileError, match="metadata"):
        load(file)


def test_pickles_folders_pipes_and_other_safetensors_are_refused(model, tmp_path):
    from safetensors.numpy import save_file

    (tmp_path / "pickle").write_bytes(pickle.dumps(model))
    save_file({"weight": np.ones(3)}, tmp_path / "weights")
    os.mkfifo(tmp_path / "pipe")
    for name in ("pickle", "weights", "pipe", "."):
        with pytest.raises(ModelFileError):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "checkpoint"}, "not a 'model'"),
        ({"format": 3}, "upgrade"),
        ({"format": 1}, "feature_names"),
        ({"format": 0}, "format version"),
        ({"format": True}, "format version"),
        ({"format": "1"}, "format version"),
        ({"n_experts": -1}, "n_experts"),
        ({"n_experts": 10**12}, "n_experts"),
        ({"n_features": 3.0}, "n_features"),
        ({"n_iter": 1}, "objective_history"),
        (
            {"family": {"name": "poisson", "numbers": {}}},
            "family called 'poisson', which is not registered: import the module",
        ),
        ({"family": {}}, "family"),
        ({"family": {"name": "bernoulli"}}, "family"),
        ({"schema": []}, "schema"),
        ({"schema": {}}, "schema"),
        ({"schema": {"kinds": "binary", "names": ["a"], "image_shape": None}}, "names"),
        ({"schema": {"kinds": "binary", "names": [1, 2, 3, 4], "image_shape": None}}, "names"),
        ({"schema": {"kinds": "binary", "names": None, "image_shape": [3, 3]}}, "image_shape"),
        ({"schema": {"kinds": "binary", "names": None, "image_shape": [-2, -2]}}, "image_shape"),
        ({"schema": {"kinds": "count", "names": None, "image_shape": None}}, "kinds"),
        ({"schema": {"kinds": ["binary"] * 5, "names": None, "image_shape": None}}, "kinds"),
        ({"history": [1]}, "history"),
        ({"history": [{"joint": [1]}]}, "history"),
        ({"history": {}}, "history"),
        ({"parameters": {"n_experts": 0}}, "invalid parameters"),
        ({"parameters": {"n_experts": 4, "learning": 3}}, "invalid parameters"),
        ({"parameters": {"n_experts": 4, "max_active": 9}}, "invalid parameters"),
        ({"parameters": {"n_experts": 4, "engine": {"tuple": [1]}}}, "invalid parameters"),
        ({"parameters": {"n_experts": 5}}, "number of experts"),
    ],
)  # fmt: skip
def test_forged_metadata_is_refused(binary_model, tmp_path, forge, change, message):
    path = tmp_path / "m"
    save(binary_model, path)
    forge(path, meta=change)
    with pytest.raises(ModelFileError, match=message):
        load(path)


@pytest.mark.parametrize("entry", ["family", "history", "n_experts", "parameters", "schema", "eta"])
def test_missing_parts_are_noticed(file, forge, entry):
    forge(file, drop=[entry])
    with pytest.raises(ModelFileError, match=entry):
        load(file)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eta", np.nan),
        ("eta", np.inf),
        ("log2_expertise", -1075.0),
        ("log2_expertise", 1024.0),
        ("log2_expertise", np.nan),
        ("activation_probabilities", 0.0),
        ("activation_probabilities", 1.0),
        ("objective_history", np.nan),
    ],
)
def test_values_out_of_range_are_refused(file, forge, name, value):
    array = read_container(file).arrays[name].copy()
    array.flat[-1] = value
    forge(file, arrays={name: array})
    with pytest.raises(ModelFileError, match=name):
        load(file)


def test_loaded_experts_are_the_saved_ones(file, model):
    found, expected = load(file)._experts(), model._experts()
    assert found.log2_bound == expected.log2_bound
    np.testing.assert_array_equal(found.eta, expected.eta)
    np.testing.assert_array_equal(found.log2_expertise, expected.log2_expertise)


def test_ranges_that_depend_on_the_family(binary_model, gaussian_model, tmp_path, forge):
    path = tmp_path / "m"
    save(binary_model, path)
    forge(path, arrays={"eta": binary_model._experts().eta + 1.0})
    with pytest.raises(ModelFileError, match="no row a probability"):
        load(path)
    save(gaussian_model, path)
    eta = gaussian_model._experts().eta.copy()
    eta[1] = eta[0] ** 2
    forge(path, arrays={"eta": eta})
    with pytest.raises(ModelFileError, match="no row a probability"):
        load(path)
    for floor in (0.0, -1.0, "x", None, True, 1e301):
        save(gaussian_model, path)
        forge(path, meta={"family": {"name": "gaussian", "numbers": {"floor": floor}}})
        with pytest.raises(ModelFileError, match="family 'gaussian': floor"):
            load(path)
    for centre in (np.zeros(4), np.full(5, np.nan), np.zeros(5, dtype=np.float32)):
        save(gaussian_model, path)
        forge(path, arrays={"family.centre": centre})
        with pytest.raises(ModelFileError, match="family 'gaussian': centre"):
            load(path)


def test_wrong_types_and_shapes_of_arrays_are_refused(file, forge, model):
    eta = model._experts().eta
    for change in (
        {"eta": eta.astype(np.float32)},
        {"eta": eta[:, :, 1:].copy()},
        {"eta": eta[:0].copy()},
        {"eta": np.ones(0)},
        {"surprise": np.ones(1)},
        {"surprise": np.ones(1, dtype=np.float16)},
        {"family.surprise": np.ones(1)},
    ):
        content = file.read_bytes()
        forge(file, arrays=change)
        with pytest.raises(ModelFileError, match=next(iter(change)).removeprefix("family.")):
            load(file)
        file.write_bytes(content)


# ------------------------------------------------------------------ format 1


@pytest.fixture
def old_file(file, downgrade):
    downgrade(file)
    return file


def test_a_file_of_format_1_is_the_same_model(old_file, model):
    X = model.sample(50, random_state=0)
    back = load(old_file)
    assert_same(model, back)
    assert back.schema_ == model.schema_
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))


@pytest.mark.parametrize("name", ["means", "expertise", "eta", "log2_expertise"])
def test_a_file_that_shows_other_experts_than_it_encodes_with_is_refused(old_file, forge, name):
    array = read_container(old_file).arrays[name].copy()
    array.flat[-1] += -0.01 if array.flat[-1] > 0.5 else 0.01
    forge(old_file, arrays={name: array})
    with pytest.raises(ModelFileError, match="contradicts itself"):
        load(old_file)


@pytest.mark.parametrize("name", ["eta", "log2_expertise", "means", "expertise"])
def test_half_of_the_experts_is_not_enough(old_file, forge, name):
    forge(old_file, drop=[name])
    with pytest.raises(ModelFileError, match=f"lacks the array '{name}'"):
        load(old_file)


def test_variances_go_with_their_centre(gaussian_model, tmp_path, forge, downgrade):
    for drop in (["variances"], ["centre"], ["variances", "centre"]):
        save(gaussian_model, tmp_path / "m")
        downgrade(tmp_path / "m")
        forge(tmp_path / "m", drop=drop)
        with pytest.raises(ModelFileError, match="centre"):
            load(tmp_path / "m")


def test_files_that_only_show_experts_still_load(old_file, forge, model):
    """The earliest have no others."""
    forge(old_file, drop=["eta", "log2_expertise"])
    back = load(old_file)
    for name in ("eta", "log2_expertise"):
        found, expected = (getattr(m._experts(), name) for m in (back, model))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_probabilities_of_an_early_file_are_probabilities(binary_model, tmp_path, forge, downgrade):
    save(binary_model, tmp_path / "m")
    downgrade(tmp_path / "m")
    means = binary_model.means_ + 1.0
    forge(tmp_path / "m", arrays={"means": means}, drop=["eta", "log2_expertise"])
    with pytest.raises(ModelFileError, match="means"):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": {"name": "bernoulli", "clip": 0.0}}, "clip"),
        ({"family": {"name": "poisson"}}, "not registered"),
        ({"family": 3}, "family"),
        ({"feature_names": ["a"]}, "names"),
        ({"image_shape": [3, 3]}, "image_shape"),
        ({"n_experts": 10**12}, "n_experts"),
        ({"n_features": 5}, "means"),
    ],
)
def test_forged_metadata_of_format_1_is_refused(
    binary_model, tmp_path, forge, downgrade, change, message
):
    save(binary_model, tmp_path / "m")
    downgrade(tmp_path / "m")
    forge(tmp_path / "m", meta=change)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "m")


# ------------------------------------------------------------------ other releases


def test_unknown_parameters_of_another_release_are_named(file, forge, model):
    forge(file, meta={"parameters": {**model.get_params(), "from_the_future": 1}})
    with pytest.warns(UserWarning, match="from_the_future"):
        load(file)


@pytest.mark.parametrize(
    "plan",
    [
        {"plan": "os", "fields": {}},
        {"plan": "Paper", "fields": {"of_the_future": 1}},
        {"plan": "Paper", "fields": {"factor": []}},
        {"plan": []},
        {},
    ],
)
def test_plans_of_another_release_fall_back_to_the_default(binary_model, tmp_path, forge, plan):
    save(binary_model, tmp_path / "m")
    forge(tmp_path / "m", meta={"parameters": {"n_experts": 4, "learning": plan}})
    with pytest.warns(UserWarning, match="learning=.* cannot be restored"):
        back = load(tmp_path / "m")
    assert back.learning == DynamicPartitionModel().learning
