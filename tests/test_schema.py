"""The schema: what variables are called, and what a file may say of them."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.schema import Range, Schema


@st.composite
def schemas(draw):
    shape = draw(st.none() | st.tuples(st.integers(1, 4), st.integers(1, 4)))
    n_features = draw(st.integers(1, 8)) if shape is None else shape[0] * shape[1]
    columns = {"min_size": n_features, "max_size": n_features}
    names = draw(st.none() | st.lists(st.text(max_size=3), unique=True, **columns).map(tuple))
    kinds = draw(st.lists(st.sampled_from(["binary", "real"]), **columns))
    ranges = None
    if draw(st.booleans()):
        spans = st.tuples(st.floats(-9, 0), st.floats(0, 9), st.booleans())
        ranges = tuple(Range(*draw(spans)) if kind == "real" else None for kind in kinds)
    return Schema(tuple(kinds), names, shape, ranges=ranges)


@given(schemas())
def test_a_schema_survives_its_text(schema):
    assert Schema.from_json(schema.to_json(), len(schema)) == schema
    labels = schema.labels()
    assert len(set(labels)) == len(schema)
    assert schema.names is None or tuple(labels) == schema.names


def test_labels_are_names_or_places():
    assert Schema.of("real", 2, names=["a", "b"], image_shape=(1, 2)).labels() == ["a", "b"]
    assert Schema.of("real", 2).labels() == ["x0", "x1"]
    assert Schema.of("real", 6, image_shape=(2, 3)).label(5) == "pixel (1, 2)"


GOOD = {"kinds": "real", "names": None, "image_shape": None}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "entries"),
        ({}, "entries"),
        ({**GOOD, "unit": "m"}, "entries"),
        ({**GOOD, "kinds": 3}, "kinds"),
        ({**GOOD, "kinds": ["real"]}, "kinds"),
        ({**GOOD, "kinds": ["real", 3, "real", "real"]}, "kinds"),
        ({**GOOD, "names": "abcd"}, "names"),
        ({**GOOD, "names": ["a", "b", "c"]}, "names"),
        ({**GOOD, "names": ["a", "b", "c", 4]}, "names"),
        ({**GOOD, "names": ["a", "b", "c", "a"]}, "names"),
        ({**GOOD, "names": ["a", "b", "c", []]}, "names"),
        ({**GOOD, "image_shape": 4}, "image_shape"),
        ({**GOOD, "image_shape": [4]}, "image_shape"),
        ({**GOOD, "image_shape": [4, True]}, "image_shape"),
        ({**GOOD, "image_shape": [2.0, 2]}, "image_shape"),
        ({**GOOD, "image_shape": [-2, -2]}, "image_shape"),
        ({**GOOD, "ranges": 3}, "ranges"),
        ({**GOOD, "ranges": [None]}, "ranges"),
        ({**GOOD, "ranges": [None, None, None, 3]}, "range"),
        ({**GOOD, "ranges": [None, None, None, [1, 2]]}, "range"),
        ({**GOOD, "ranges": [None, None, None, [2, 1, False]]}, "range"),
        ({**GOOD, "ranges": [None, None, None, [1, "2", False]]}, "range"),
        ({**GOOD, "ranges": [None, None, None, [1, 1e999, False]]}, "range"),
        ({**GOOD, "ranges": [None, None, None, [1, 2, 0]]}, "range"),
        ({**GOOD, "kinds": "binary", "ranges": [None, None, None, [0, 1, True]]}, "range"),
    ],
)
def test_what_is_no_schema_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        Schema.from_json(value, 4)


def test_a_fitted_model_has_one_that_agrees_with_its_attributes():
    X = np.tile(make_pairs(2), (5, 1))
    model = DynamicPartitionModel(4, max_iter=4, random_state=0)
    assert not hasattr(model, "schema_")
    assert model.fit(X).schema_ == Schema.of("binary", 4)
    assert not hasattr(model, "image_shape_")
    model.image_shape_ = (np.int64(2), 2)
    assert model.schema_.image_shape == (2, 2)
    noisy = X + 0.5 * np.random.default_rng(0).random(X.shape)
    model.fit(pd.DataFrame(noisy, columns=list("abcd")))
    assert model.schema_ == Schema(
        ("real",) * 4,
        tuple("abcd"),
        (2, 2),
        dtypes=("float",) * 4,
        container="pandas",
        ranges=tuple(
            Range(*ends, False)
            for ends in zip(noisy.min(0).tolist(), noisy.max(0).tolist(), strict=True)
        ),
    )
    assert list(model.feature_names_in_) == list(model.schema_.names)
    assert model.partial_fit(pd.DataFrame(X, columns=list("abcd"))).schema_.names == tuple("abcd")
    model.image_shape_ = (3, 3)
    with pytest.raises(ValueError, match="image_shape"):
        _ = model.schema_
    with pytest.raises(FrozenInstanceError):
        Schema.of("binary", 4).names = None
