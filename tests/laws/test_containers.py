"""One table in many containers, with all representations of missing values."""

import datetime
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.opening import informative_rows
from tests.effort import examples

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

NAMES = list("abcdefgh")
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.* feature names:UserWarning"),
]


def model_of():
    """A model that is quickly fitted: what is tried here is how rows come in."""
    return DynamicPartitionModel(4, max_iter=2, learning="paper", n_swaps=0, random_state=0)


@cache
def models_of(missing, binary, named=False):
    """Models of a table as an array, or as a plain data frame, whose columns have their own scale.

    Fitted, and after a batch of a stream.
    """
    X = table(missing, binary=binary)
    X = frame(X) if named else X
    return model_of().fit(X), model_of().partial_fit(X)


def table(missing=0.0, *, binary=True):
    rng = np.random.default_rng(1)
    X = make_pairs(4)[rng.integers(0, 16, 24)].astype(float)
    if not binary:
        X = np.round(8 * X + rng.normal(size=X.shape))
    X[rng.random(X.shape) < missing] = np.nan
    X[:2] = np.nan_to_num(X[:2])
    return np.abs(X)


def frame(X, **columns):
    return pandas.DataFrame(X, columns=NAMES, **columns)


def cells(X, null, kind=lambda value: value):
    """The table as lists, with another word for what was not observed."""
    return [[null if np.isnan(value) else kind(value) for value in row] for row in X]


def tensor(X, dtype):
    torch = pytest.importorskip("torch")
    return torch.as_tensor(X).to(getattr(torch, dtype))


def polars_of(X, dtype, null=None, kind=float):
    rows = cells(X, null, kind)
    return polars.DataFrame(rows, schema=dict.fromkeys(NAMES, dtype), orient="row")


COMPLETE = {
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "uint8": lambda X: X.astype(np.uint8),
    "bool": lambda X: X.astype(bool),
    "int64": lambda X: X.astype(np.int64),
    "int8": lambda X: X.astype(np.int8),
    "columns first": np.asfortranarray,
    "lists": lambda X: X.astype(int).tolist(),
    "tuples": lambda X: tuple(map(tuple, X.tolist())),
    "objects": lambda X: X.astype(object),
    "frame": frame,
    "frame of ints": lambda X: frame(X).astype(int),
    "frame of bools": lambda X: frame(X).astype(bool),
    "mixed frame": lambda X: frame(X).astype({"a": bool, "b": "Int64", "c": "float32"}),
    "Int64": lambda X: frame(X).astype("Int64"),
    "boolean": lambda X: frame(X).astype("boolean"),
    "Float64": lambda X: frame(X).astype("Float64"),
    "arrow": lambda X: frame(X).astype("int64[pyarrow]"),
    "sparse frame": lambda X: frame(X).astype(pandas.SparseDtype("uint8", 0)),
    "polars": lambda X: polars_of(X, polars.Float64),
    "polars ints": lambda X: polars_of(X, polars.Int8, kind=int),
    "polars bools": lambda X: polars_of(X, polars.Boolean, kind=bool),
    "masked without a mask": np.ma.asarray,
    "masked bools": lambda X: np.ma.asarray(X.astype(bool)),
    "tensor": lambda X: tensor(X, "float64"),
    "tensor of bools": lambda X: tensor(X, "bool"),
    "tensor of ints": lambda X: tensor(X, "int64"),
}


def masked(X, beneath=0.0, dtype=np.float64):
    return np.ma.array(np.where(np.isnan(X), beneath, X).astype(dtype), mask=np.isnan(X))


def nullable(X, dtype):
    return frame(X).astype("Float64").astype(dtype)


WITH_GAPS = {
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "lists with NaN": lambda X: X.tolist(),
    "lists with None": lambda X: cells(X, None, int),
    "lists with NA": lambda X: cells(X, pandas.NA, int),
    "tuples with None": lambda X: tuple(map(tuple, cells(X, None, float))),
    "objects with None": lambda X: np.array(cells(X, None, int), dtype=object),
    "objects with NA": lambda X: np.array(cells(X, pandas.NA, int), dtype=object),
    "objects with NaN": lambda X: X.astype(object),
    "masked": masked,
    "masked infinity": lambda X: masked(X, np.inf),
    "masked huge": lambda X: masked(X, 2**60 + 1, np.int64),
    "masked ints": lambda X: masked(X, 7, np.int64),
    "masked uint8": lambda X: masked(X, 255, np.uint8),
    "frame": frame,
    "sparse frame": lambda X: frame(X).astype(pandas.SparseDtype(float, 0.0)),
    "Int64": lambda X: nullable(X, "Int64"),
    "Float64": lambda X: nullable(X, "Float64"),
    "arrow": lambda X: nullable(X, "int64[pyarrow]"),
    "frame with None": lambda X: frame(cells(X, None, int), dtype=object),
    "frame with NA": lambda X: frame(cells(X, pandas.NA, int), dtype=object),
    "frame, one column nullable": lambda X: frame(X).astype({"b": "Int64"}),
    "frame, one column of objects": lambda X: frame(X).astype({"b": "Int64"}).astype({"b": object}),
    "polars nulls": lambda X: polars_of(X, polars.Float64),
    "polars NaN": lambda X: polars_of(X, polars.Float64, np.nan),
    "polars ints": lambda X: polars_of(X, polars.Int32, kind=int),
    "polars uint8": lambda X: polars_of(X, polars.UInt8, kind=int),
    "tensor": lambda X: tensor(X, "float64"),
}
BINARY_GAPS = {
    **WITH_GAPS,
    "masked bools": lambda X: masked(X, 1, np.bool_),
    "boolean": lambda X: nullable(X, "boolean"),
    "lists of bools": lambda X: cells(X, None, bool),
    "frame of bools with None": lambda X: frame(cells(X, None, bool), dtype=object),
    "polars bools": lambda X: polars_of(X, polars.Boolean, kind=bool),
}


def assert_same_model(hold, missing=0.0, *, binary=True):
    X = table(missing, binary=binary)
    held = hold(X)
    assert np.isnan(X).any() == (missing > 0)
    named = hasattr(held, "columns")
    (expected, stream), model = models_of(missing, binary, named), model_of().fit(held)
    if named:
        X = frame(X)
    assert type(model.family_) is type(expected.family_)
    np.testing.assert_allclose(np.asarray(model.means_), expected.means_, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(model.expertise_), expected.expertise_, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(model.transform(held)), expected.transform(X))
    # Rows in this container, told by a model that was fitted to an array or a plain data frame.
    np.testing.assert_array_equal(np.asarray(expected.transform(held)), expected.transform(X))
    assert expected.score(held) == pytest.approx(expected.score(X))
    H = expected.transform(X)
    found = np.asarray(expected.log_likelihood(held, H))
    np.testing.assert_allclose(found, expected.log_likelihood(X, H), rtol=1e-9)
    other = model_of().partial_fit(held)
    np.testing.assert_allclose(np.asarray(other.means_), stream.means_, rtol=1e-6)


@pytest.mark.parametrize("hold", COMPLETE.values(), ids=COMPLETE.keys())
def test_a_complete_binary_table_is_the_same_in_every_container(hold):
    assert_same_model(hold)


@pytest.mark.parametrize("hold", BINARY_GAPS.values(), ids=BINARY_GAPS.keys())
def test_a_gap_in_a_binary_table_is_nan_in_every_container(hold):
    assert_same_model(hold, 0.2)


@pytest.mark.parametrize("hold", WITH_GAPS.values(), ids=WITH_GAPS.keys())
def test_a_gap_among_measurements_is_nan_in_every_container(hold):
    assert_same_model(hold, 0.2, binary=False)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_sparse_frame_may_lack_names(missing):
    X = table(missing)
    held = pandas.DataFrame(X).astype(pandas.SparseDtype(float, 0.0))
    expected, stream = models_of(missing, True)
    for model, same in [(model_of().fit(held), expected), (model_of().partial_fit(held), stream)]:
        np.testing.assert_allclose(model.means_, same.means_, rtol=1e-6)
    np.testing.assert_array_equal(expected.transform(held), expected.transform(X))
    assert expected.score(held) == pytest.approx(expected.score(X))
    filled = expected.impute(held)
    assert list(filled.dtypes) == list(held.dtypes)
    np.testing.assert_array_equal(filled.sparse.to_dense(), expected.impute(X))


BLOCKS = {
    name: BINARY_GAPS[name]
    for name in BINARY_GAPS
    if not name.startswith(("lists", "tuples")) and "float16" not in name
}


@pytest.mark.parametrize("hold", BLOCKS.values(), ids=BLOCKS.keys())
def test_a_gap_in_a_block_is_nan_in_every_container(hold):
    X, expected = table(0.2), models_of(0.2, True)[0]
    for source in ([hold(X[:10]), hold(X[10:])], Batches([hold(X[:5]), hold(X[5:])])):
        model = model_of().fit(source)
        np.testing.assert_allclose(np.asarray(model.means_), expected.means_, rtol=1e-5)
        np.testing.assert_array_equal(model.transform(X), expected.transform(X))


class Batches:
    """Batches that can be read from end to end, again and again."""

    def __init__(self, parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


# ----------------------------------------------------------------------------- still refused


BIG = 2**53 + 1
DAY = datetime.date(2020, 1, 2)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([[0, BIG], [1, None]], "double precision would round"),
        ([[0, BIG], [1, 2]], "double precision would round"),
        (np.array([[0, BIG], [1, None]], dtype=object), "double precision would round"),
        (np.ma.array([[0, BIG], [1, 5]], mask=[[0, 0], [0, 1]]), "double precision would round"),
        (pandas.DataFrame({"a": [0, 1], "b": [BIG, None]}, dtype="Int64"), "would round"),
        (pandas.DataFrame({"a": [0, 1], "b": [BIG, None]}, dtype=object), "would round"),
        (pandas.DataFrame({"a": [0, 1], "b": [BIG, None]}, dtype="int64[pyarrow]"), "would round"),
        (polars.DataFrame({"a": [0, 1], "b": [BIG, None]}), "would round"),
        ([[0, DAY], [1, None]], "dates or times"),
        (pandas.DataFrame({"a": [0, 1], "b": [DAY, None]}), "dates or times"),
        (pandas.DataFrame({"a": [0, 1], "b": pandas.to_datetime([DAY, None])}), "dates or times"),
        (polars.DataFrame({"a": [0, 1], "b": [DAY, None]}), "dates or times"),
        (np.ma.array([[0.0, np.inf], [1.0, 2.0]], mask=[[0, 0], [0, 1]]), "contains infinity"),
        ([[0.0, np.inf], [1.0, None]], "contains infinity"),
        (polars.DataFrame({"a": [0.0, 1.0], "b": [np.inf, None]}), "contains infinity"),
        (pandas.DataFrame({"a": [0.0, 1.0], "b": [np.inf, None]}), "contains infinity"),
        (
            pandas.DataFrame({"a": [0.0, 1.0], "b": ["5%", None]}),
            "'b' holds numbers stored as|'b', but the model knows",
        ),
        (
            polars.DataFrame({"a": [0.0, 1.0], "b": ["5%", None]}),
            "'b' holds numbers stored as|'b', but the model knows",
        ),
        ([[0.0, "5%"], [1.0, None]], "numbers stored as text|but the model knows"),
        (polars.DataFrame({"a": [0.0, 1.0], "b": [1.0, None]}).lazy(), r"with X\.collect\(\)"),
    ],
)
def test_a_gap_hides_nothing_that_is_no_number(X, words):
    model = model_of().fit(np.array([[0.0, 1.0], [1.0, 0.0]]))
    calls = [model_of().fit, model_of().partial_fit, model.transform, model.score]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match=words):
            call(X)
    if hasattr(X, "shape"):
        with pytest.raises((ValueError, TypeError), match=words):
            model_of().fit([X, X])


# ------------------------------------------------------------------------------ what is kept


@examples(30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float64, np.float32]))
def test_rows_that_say_something_are_kept_in_order(seed, dtype):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (6, 3)).astype(dtype)
    X[rng.random(X.shape) < 0.6] = np.nan
    weight = rng.integers(0, 3, 6).astype(float)
    empty = np.isnan(X).all(axis=1)
    for given_weight, heard in ((None, np.ones(6, dtype=bool)), (weight, weight > 0)):
        rows, n_empty = informative_rows(X, given_weight)
        kept = ~empty & heard
        np.testing.assert_array_equal(rows.values, X[kept])
        assert n_empty == (empty & heard).sum()
        if given_weight is not None:
            np.testing.assert_array_equal(rows.weight, weight[kept])
