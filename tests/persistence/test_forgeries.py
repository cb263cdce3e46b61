"""Files with valid checksums and absurd content: refused, or a model that works."""

import copy
import json
import threading
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sklearn.base import clone

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.learning import Annealed
from dynpart.persistence import ModelFileError, load, save
from dynpart.storage._container import as_text, read_container
from tests.effort import examples
from tests.persistence.conftest import PAIRS, as_format_1, reseal

ABSURD = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e308, -1e308, 5e-324, 1e-300, 1e160, 10**9, 2**31,
    2**63, 10**400, -(10**400), "", "prior", "Infinity", "-Infinity", "NaN", "\x1b[2J", "\ud800",
    [], {}, [1], [[]], {"a": 1}, {"plan": "Annealed", "fields": {"factor": 1e308}},
    {"plan": "Annealed", "fields": {"floor": True}}, {"plan": "Paper", "fields": {"epsilon": -1}},
    {"tuple": [1, 2]},
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e160, 1e120, 1e40, 1e20, 1e-20, 1e-160,
           5e-324, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1 - 1e-16]  # fmt: skip


def saved(tmp_path_factory, name, model):
    path = tmp_path_factory.mktemp("forgeries") / name
    save(model, path)
    content = read_container(path)
    return path, content.meta, content.arrays


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """Files of all kinds: fitted and in mid-stream, binary and measured, with a graph and names."""
    from sklearn.feature_extraction.image import grid_to_graph

    pairs = PAIRS
    gray = pairs + np.random.default_rng(0).normal(0, 0.2, pairs.shape)
    options = {"max_iter": 4, "random_state": 0, "engine": "cpu"}
    fitted = DynamicPartitionModel(4, learning=Annealed(min_active=2), **options).fit(pairs)
    fitted.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)
    fitted.image_shape_ = (2, 2)
    models = {
        "fitted": fitted,
        "gaussian": DynamicPartitionModel(3, family="gaussian", variance_floor=0.1, **options).fit(
            gray
        ),
        "stream": DynamicPartitionModel(4, connectivity=grid_to_graph(2, 2), **options)
        .partial_fit(pairs)
        .partial_fit(pairs[::2]),
        "gaussian stream": DynamicPartitionModel(3, family="gaussian", **options)
        .partial_fit(gray)
        .partial_fit(gray),
    }
    files = {name: saved(tmp_path_factory, name, model) for name, model in models.items()}
    for name, (path, meta, arrays) in list(files.items()):
        old = f"{name}, format 1"
        files[old] = path.with_name(old), *as_format_1(meta, arrays)
    return files


def places(value, path=()):
    """Where something stands in a JSON value: every entry at every depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def changed(meta, place, value):
    """The metadata with another value at this place; Ellipsis takes the entry out."""
    meta = copy.deepcopy(meta)
    target = meta
    for key in place[:-1]:
        target = target[key]
    if value is ...:
        del target[place[-1]]
    else:
        target[place[-1]] = value
    return meta


def assert_refused_or_sound(path):
    """Loading either raises ModelFileError, or the model encodes, scores and composes rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except ModelFileError:
            return False
    model.set_params(verbose=0, engine="auto", device=None)  # this machine may have no other
    before = threading.active_count()
    pairs = make_pairs(2)
    binary = model.family_.n_levels == 2
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        del model.feature_names_in_
    rows = pairs if binary else np.concatenate([pairs + 0.0, model.means_])
    H = model.transform(rows)
    assert (H.sum(axis=1) >= 1).all()
    assert np.isfinite(model.score_samples(rows)).all()
    assert np.isfinite(model.score(rows))
    assert np.isfinite(model.inverse_transform(H)).all()
    assert np.isfinite(model.sample(3, random_state=0)).all()
    assert threading.active_count() < before + 1024
    for record in model.history_:
        assert np.isfinite([record.joint, record.penalised, record.mean_active]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ValueError):  # a graph or parameters that contradict the data are named
            model.partial_fit(rows)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.activation_probabilities_).all()
    return True


KINDS = ["fitted", "gaussian", "stream", "gaussian stream"]
ALL_KINDS = [*KINDS, *(f"{kind}, format 1" for kind in KINDS)]
relaxed = examples(
    150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@relaxed
@given(data=st.data())
def test_forged_words_and_numbers(originals, data):
    path, meta, arrays = originals[data.draw(st.sampled_from(ALL_KINDS))]
    forged = meta
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(sorted(places(forged), key=repr)))
        value = data.draw(st.sampled_from([..., *ABSURD]) | st.floats() | st.integers())
        if isinstance(value, float) and not np.isfinite(value):
            value = 0.0  # JSON has no other numbers
        forged = changed(forged, place, value)
    reseal(path, forged, arrays)
    assert_refused_or_sound(path)


@relaxed
@given(data=st.data())
def test_forged_arrays(originals, data):
    path, meta, arrays = originals[data.draw(st.sampled_from(ALL_KINDS))]
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name].copy()
    how = data.draw(st.sampled_from(["value", "all", "scale", "shape", "type", "gone", "new"]))
    if how == "value" and array.size:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            number = data.draw(st.sampled_from(NUMBERS))
            array.flat[data.draw(st.integers(0, array.size - 1))] = _as(array, number)
    elif how == "all":
        array[...] = _as(array, data.draw(st.sampled_from(NUMBERS)))
    elif how == "scale" and array.dtype == np.float64:
        with np.errstate(all="ignore"):
            array *= data.draw(st.sampled_from(NUMBERS))
    elif how == "shape":
        array = np.resize(array, data.draw(st.tuples(*[st.integers(0, 5)] * array.ndim)))
    elif how == "type":
        array = array.astype(data.draw(st.sampled_from([np.float32, np.int64, np.uint8, np.bool_])))
    forged = {**arrays, name: array}
    if how == "gone":
        del forged[name]
    elif how == "new":
        forged["surprise"] = array
    reseal(path, meta, forged)
    assert_refused_or_sound(path)


def _as(array, number):
    """The number, or what an array of integers or flags can hold of it."""
    if array.dtype.kind == "f":
        return number
    limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.iinfo(np.uint8)
    return int(np.clip(np.nan_to_num(number), limits.min / 2, limits.max / 2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_with_every_absurd_value(originals, kind):
    """Unlike the draws above, these are the same every time."""
    path, meta, arrays = originals[kind]
    loaded = 0
    for name in meta["parameters"]:
        for value in [..., *ABSURD]:
            place = ("parameters", name)
            reseal(path, changed(meta, place, value), arrays)
            loaded += assert_refused_or_sound(path)
    assert loaded > 0


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("parameters", "n_jobs"), 10**9),
        (("parameters", "n_swaps"), 10**400),
        (("parameters", "n_starts"), True),
        (("parameters", "max_iter"), 10**12),
        (("parameters", "activation_cost"), 1e308),
        (("parameters", "activation_cost"), "Infinity"),
        (("parameters", "tol"), True),
        (("parameters", "prune"), 1),
        (("family", "numbers", "clip"), 1e-300),
        (("family", "numbers", "clip"), True),
        (("family", "numbers", "clip"), 10**400),
        (("family", "numbers", "clip"), ...),
        (("family", "numbers"), [0.1]),
        (("family", "numbers", "floor"), 1.0),
        (("family", "name"), ["bernoulli"]),
        (("family", "name"), "gaussian"),
        (("history", 0), {}),
        (("history", 0, "joint"), True),
        (("history", 0, "joint"), "NaN"),
        (("history", 0, "n_rows"), -5),
        (("history", 0, "step", "n_batches"), 1e308),
        (("history", 0, "step", "smoothed"), 1),
        (("history", 0, "step"), None),
        (("history",), []),
        (("adaptation", "min_active"), True),
        (("adaptation", "n_rows"), 10**400),
        (("moments", "n_rows"), 10**400),
        (("n_iter",), True),
        (("schema", "image_shape"), [10**400, 1]),
        (("schema", "names"), ["a", "b", "c", "a"]),
        (("schema", "kinds"), "real"),
        (("schema", "kinds"), ["binary"] * 3),
        (("schema", "levels"), {}),
        (("parameters_as_text",), {"learning": 3}),
        (("parameters", "learning", "fields", "certainty"), 0),
        (("parameters", "learning", "fields", "certainty"), -0.0),
        (("parameters", "learning", "fields", "factor"), 0.5),
        (("parameters", "learning", "fields", "epsilon"), 0.0),
        (("parameters", "learning", "fields", "n_starts"), 0),
    ],
)
def test_absurd_values_that_were_believed(originals, place, value):
    path, meta, arrays = originals["fitted"]
    reseal(path, changed(meta, place, value), arrays)
    if place == ("history",):
        assert load(path).history_ == ()  # a file without a log is one of an earlier version
        return
    with pytest.raises(ModelFileError):
        load(path)


@pytest.fixture(scope="module")
def table_file(tmp_path_factory):
    """The file of a model of a data frame: levels, numbers, and what was said of columns."""
    frame = pd.DataFrame({"c": ["a", "b", "c"] * 6, "v": np.arange(18.0), "n": [0, 1, 5] * 6})
    said = {"n": "count", 0: ["a", "b", "c"]}
    model = DynamicPartitionModel(2, max_iter=2, columns=said, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so little is learnt that there is much to say about it
        return saved(tmp_path_factory, "table", model.fit(frame))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema", "levels", 0), ["a", "b"]),
        (("schema", "levels", 0), ["a", "b", "b"]),
        (("schema", "levels", 0), ["a", "b", 3]),
        (("schema", "levels", 0), "abc"),
        (("schema", "levels", 0), [str(i) for i in range(10**5)]),
        (("schema", "levels", 1), ["a"]),
        (("schema", "levels"), [["a", "b", "c"]]),
        (("schema", "levels"), 3),
        (("schema", "dtypes"), "object"),
        (("schema", "dtypes"), ["int"]),
        (("schema", "dtypes", 0), None),
        (("schema", "container"), "os.system"),
        (("schema", "container"), ["pandas"]),
        (("schema", "kinds", 2), "real"),
        (("parameters", "columns"), {"of": [["n"]]}),
        (("parameters", "columns"), {"of": [[{}, "count"]]}),
        (("parameters", "columns"), {"of": [["n", {"count": 1}]]}),
        (("parameters", "columns"), {"all": 3, "of": []}),
        (("parameters", "columns"), [1]),
        (("parameters", "unknown"), "whatever"),
    ],
)
def test_absurd_columns_are_refused(table_file, place, value):
    path, meta, arrays = table_file
    reseal(path, meta, arrays)
    assert load(path).schema_.kinds == ("categorical", "real", "count")
    reseal(path, changed(meta, place, value), arrays)
    with pytest.raises(ModelFileError):
        load(path)


# ------------------------------------------------- what cannot be loaded is not saved


def models():
    pairs = PAIRS
    fitted = DynamicPartitionModel(4, max_iter=4, random_state=0).fit(pairs)
    gray = pairs + np.random.default_rng(0).normal(0, 0.2, pairs.shape)
    measured = DynamicPartitionModel(3, max_iter=4, random_state=0).fit(gray)
    streamed = clone(fitted).partial_fit(pairs)
    return [fitted, measured, streamed]


MODELS = models()
FITTED = [
    "means_", "variances_", "expertise_", "activation_probabilities_", "objective_history_",
]  # fmt: skip
PARAMETERS = sorted(set(DynamicPartitionModel().get_params()) - {"connectivity"})


def _same(one, other):
    return one == other or (one != one and other != other)


@relaxed
@given(data=st.data())
def test_a_model_is_saved_as_it_will_be_loaded_or_not_at_all(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any"
    path.unlink(missing_ok=True)
    model = copy.deepcopy(data.draw(st.sampled_from(MODELS)))
    _tamper(model, data)
    try:
        save(model, path)
    except ModelFileError:
        assert not path.exists()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = load(path)
    for name in FITTED:
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    stored = read_container(path).meta["parameters"]
    for name, value in model.get_params(deep=False).items():
        assert name not in stored or _same(getattr(back, name), value), name
    assert back.history_ == tuple(model.history_)
    assert back.n_iter_ == model.n_iter_
    for name in ("feature_names_in_", "image_shape_"):
        assert list(getattr(back, name, ())) == list(getattr(model, name, ()))
    again = path.with_name("again")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(load(path), again)
    if set(stored) == set(model.get_params(deep=False)):
        assert again.read_bytes() == path.read_bytes()


def _tamper(model, data):
    """Put something into a fitted model that may not belong there."""
    for _ in range(data.draw(st.integers(0, 2))):
        what = data.draw(st.sampled_from(["parameter", "array", "names", "shape", "log", "family"]))
        if what == "parameter":
            name = data.draw(st.sampled_from(PARAMETERS))
            setattr(model, name, data.draw(st.sampled_from([*ABSURD, np.float64(0.5), object()])))
        elif what == "array":
            name = data.draw(st.sampled_from([n for n in FITTED if hasattr(model, n)]))
            array = np.array(getattr(model, name))
            if not array.size:  # what was taken away before cannot be changed
                continue
            with np.errstate(over="ignore"):
                place = data.draw(st.integers(0, array.size - 1))
                array.flat[place] = data.draw(st.sampled_from(NUMBERS))
                narrow = array.astype(np.float32)
            setattr(model, name, data.draw(st.sampled_from([array, array[1:], narrow])))
        elif what == "names":
            some = st.lists(st.text(max_size=3) | st.integers(), min_size=3, max_size=5)
            model.feature_names_in_ = np.array(data.draw(some), dtype=object)
        elif what == "shape":
            model.image_shape_ = data.draw(st.sampled_from([(2, 2), (4, 1), (2.0, 2), (3, 3), 4]))
        elif what == "log":
            model.history_ = data.draw(st.sampled_from([(), model.history_[:-1], (3,)]))
            model.n_iter_ = data.draw(st.sampled_from([model.n_iter_, 0, -1, True, 10**400]))
        else:
            kind = type(model.family_)
            bound = data.draw(st.sampled_from([*NUMBERS, 10**400, True]))
            args = (model.family_.centre, bound) if kind.__name__ == "Gaussian" else (bound,)
            model.family_ = kind(*args)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    def fitted():
        model = DynamicPartitionModel(
            3, max_iter=2, random_state=np.random.RandomState(0), learning=Annealed(min_active=2)
        )
        return model.fit(PAIRS)

    paths = [tmp_path / str(i) for i in range(6)]
    for path in paths:
        save(fitted(), path)
    assert len({path.read_bytes() for path in paths}) == 1


def test_files_are_what_other_readers_of_the_format_expect(tmp_path):
    from safetensors import safe_open

    save(MODELS[0], tmp_path / "m")
    with safe_open(tmp_path / "m", framework="numpy") as file:
        assert set(file.metadata()) == {"dynpart", "sha256"}
        np.testing.assert_array_equal(file.get_tensor("eta")[0], MODELS[0].means_)
    n_header = int.from_bytes((tmp_path / "m").read_bytes()[:8], "little")
    assert n_header % 8 == 0
    text = json.loads((tmp_path / "m").read_bytes()[8 : 8 + n_header])["__metadata__"]["dynpart"]
    assert text == as_text(json.loads(text))  # sorted
