"""Containers come back as they were, with their gaps filled."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dynpart import DynamicPartitionModel, load
from dynpart.containers import built, filled, within
from dynpart.schema import Range, Schema
from tests.effort import examples

GAPS = np.array([[False, True, False], [False, False, True]])
WHOLE, HALVES = np.full((2, 3), 7.0), np.full((2, 3), 2.5)


def test_arrays_keep_their_type_if_it_holds_what_is_filled_in():
    X = np.array([[1, np.nan, 3], [4, 5, np.nan]], dtype=np.float32)
    out = filled(X, HALVES, GAPS)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, [[1, 2.5, 3], [4, 5, 2.5]])
    assert np.isnan(X[0, 1])
    masked = np.ma.MaskedArray([[1, 9, 3], [4, 5, 9]], mask=GAPS)
    assert filled(masked, WHOLE, GAPS).dtype == masked.dtype
    np.testing.assert_array_equal(filled(masked, WHOLE, GAPS), [[1, 7, 3], [4, 5, 7]])
    assert filled(masked, HALVES, GAPS).dtype == np.float64
    assert filled([[1, None, 3], [4, 5, None]], WHOLE, GAPS).tolist() == [[1, 7, 3], [4, 5, 7]]


def test_frames_of_pandas_keep_index_names_and_types():
    X = pd.DataFrame(
        {
            "a": pd.array([1, 4], dtype="Int64"),
            "b": pd.array([None, True], dtype="boolean"),
            "c": [3.5, np.nan],
        },
        index=["x", "y"],
    )
    out = filled(X, np.ones((2, 3)), GAPS)
    assert list(out.index) == ["x", "y"]
    assert dict(out.dtypes) == dict(X.dtypes)
    assert out.loc["x", "b"] is np.True_ or out.loc["x", "b"] == True  # noqa: E712
    assert out.loc["y", "c"] == 1
    assert X.isna().sum().sum() == 2
    X["b"] = pd.array([None, 3], dtype="Int64")
    assert filled(X, HALVES, GAPS)["b"].tolist() == [2.5, 3.0]


def test_frames_of_polars_keep_names_and_types():
    X = pl.DataFrame({"a": [1, 4], "b": [None, True], "c": [3.5, float("nan")]})
    out = filled(X, np.ones((2, 3)), GAPS)
    assert out.schema == X.schema
    assert out.rows() == [(1, True, 3.5), (4, True, 1.0)]


def test_tensors_stay_where_they_are():
    torch = pytest.importorskip("torch")
    X = torch.tensor([[1, float("nan"), 3], [4, 5, float("nan")]])
    out = filled(X, HALVES, GAPS)
    assert out.dtype == X.dtype
    assert out.tolist() == [[1, 2.5, 3], [4, 5, 2.5]]
    assert bool(X.isnan().any())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_flags_with_gaps_that_are_called_categories_stay_flags():
    frame = pd.DataFrame({"a": ["red", "blue"] * 4, "b": [True, None, False, None] * 2})
    model = DynamicPartitionModel(2, columns="categorical", max_iter=2, random_state=0).fit(frame)
    whole = model.impute(frame)
    assert set(map(type, whole["b"])) <= {bool, np.bool_}
    assert model.transform(whole).shape == (8, 2)
    assert model.sample(3, random_state=0)["b"].dtype == bool


@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=20),
    st.floats(-20, 20), st.floats(0, 20), st.booleans(), st.booleans(),
)  # fmt: skip
@examples(100)
def test_what_is_drawn_could_have_been_observed(values, low, width, whole, redrawn):
    if whole:
        low, width = round(low), round(width)
    table, rng = np.array([values, values]).T, np.random.default_rng(0)
    again = (lambda: rng.normal(0, 30, table.shape)) if redrawn else None
    found = within((Range(float(low), float(low + width), whole), None), table, again)
    inside = (table[:, 0] >= low) & (table[:, 0] <= low + width)
    assert ((found[:, 0] >= low) & (found[:, 0] <= low + width)).all()
    assert not whole or (found[:, 0] == np.round(found[:, 0])).all()
    assert_array_equal(found[:, 1], table[:, 1])
    kept = np.round(table[inside, 0]) if whole else table[inside, 0]
    assert_array_equal(found[inside, 0], kept)


def test_tables_drawn_from_a_model_have_the_numbers_of_its_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"rooms": rng.integers(1, 5, 60), "rent": np.round(rng.gamma(1, 300, 60), 2),
         "old": rng.integers(0, 2, 60)}
    )  # fmt: skip
    model = DynamicPartitionModel(2, max_iter=4, random_state=0).fit(X)
    drawn = model.sample(300, random_state=0)
    assert drawn["rooms"].dtype == X["rooms"].dtype
    for name in X:
        assert drawn[name].min() >= X[name].min()
        assert drawn[name].max() <= X[name].max()
    assert not (drawn["rent"] == drawn["rent"].round()).all()
    streamed = DynamicPartitionModel(2, random_state=0).partial_fit(X)
    assert streamed.schema_.ranges is None  # later batches may go beyond


TYPES = {
    "flag": "boolean",
    "small": "int8",
    "count": "uint8",
    "maybe": "Int64",
    "size": "float32",
    "width": "Float64",
    "word": "string",
    "plain": "int64",
}


def typed(n_rows=40):
    rng = np.random.default_rng(0)
    columns = {
        "flag": rng.integers(0, 2, n_rows),
        "small": rng.integers(-9, 9, n_rows),
        "count": rng.poisson(3, n_rows),
        "maybe": rng.integers(0, 90, n_rows),
        "size": rng.normal(size=n_rows),
        "width": rng.normal(size=n_rows),
        "word": rng.choice(["red", "blue"], n_rows),
        "plain": rng.integers(0, 90, n_rows),
    }
    return pd.DataFrame(columns).astype(TYPES)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_that_are_drawn_have_the_types_of_pandas_that_rows_came_in(tmp_path):
    X = typed()
    X.loc[3, ["flag", "width", "word"]] = pd.NA
    model = DynamicPartitionModel(2, max_iter=3, random_state=0, columns={"count": "count"}).fit(X)
    model.save(tmp_path / "model.dynpart")
    for each in (model, load(tmp_path / "model.dynpart")):
        assert list(each.sample(5, random_state=0).dtypes) == list(X.dtypes)
        assert list(each.impute(X).dtypes) == list(X.dtypes)
    H = model.transform(X)
    expected = {"size": "float32", "width": "Float64", "word": "string"}
    assert {name: str(model.inverse_transform(H)[name].dtype) for name in expected} == expected


def test_a_value_that_a_narrow_type_cannot_hold_is_not_cut():
    schema = Schema(("count",), ("a",), dtypes=("int",), container="pandas", special=("int8",))
    assert built(np.array([[200.0]]), schema)["a"].tolist() == [200]
    assert built(np.array([[20.0]]), schema)["a"].dtype == np.int8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_blocks_of_different_types_have_none_in_common():
    X = typed()
    model = DynamicPartitionModel(2, max_iter=2, random_state=0)
    model.fit([X[:20], X[20:].astype({"small": "int64"})])
    assert model.schema_.special is None
    assert Schema.from_json(model.schema_.to_json(), len(TYPES)) == model.schema_
