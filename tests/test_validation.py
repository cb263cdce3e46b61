"""Input that would be misread is rejected, with a message that names the place and a remedy."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dynpart import DynamicPartitionModel
from dynpart.validation import check_exact, check_finite

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ODD = 2**53 + 1
DAY = datetime.datetime(2020, 2, 29)
NAMES = ["age", "height", "number"]


def counts(value, dtype=np.int64):
    """A table of counts with one value in its second row, third column."""
    table = np.arange(12, dtype=dtype).reshape(4, 3)
    table[1, 2] = value
    return table


def fit(X):
    return DynamicPartitionModel(2, max_iter=1, random_state=0).fit(X)


# ---------------------------------------------------------------------------------- integers


@given(hnp.arrays(st.sampled_from([np.int64, np.uint64]), (2, 3)), st.booleans())
def test_an_integer_is_refused_if_and_only_if_it_would_be_rounded(table, as_list):
    rounded = any(int(float(value)) != int(value) for value in table.ravel())
    if not rounded:
        check_exact(table.tolist() if as_list else table)
        return
    with pytest.raises(ValueError, match="double precision would round"):
        check_exact(table.tolist() if as_list else table)


@pytest.mark.parametrize(
    ("X", "where"),
    [
        (counts(ODD), r"row 1, column 2 \(counted from 0\)"),
        (counts(2**63 + 1, np.uint64), r"row 1, column 2 \(counted from 0\)"),
        (counts(ODD).tolist(), r"row 1, column 2 \(counted from 0\)"),
        ([[0.5, 1], [ODD, 0.25]], r"row 1, column 0 \(counted from 0\)"),
        (counts(10**400, object), r"row 1, column 2 \(counted from 0\)"),
        (pd.DataFrame(counts(ODD), columns=NAMES), r"row 1 \(counted from 0\), column 'number'"),
        (
            pd.DataFrame(counts(ODD), columns=NAMES).astype({"number": "Int64"}),
            r"row 1 \(counted from 0\), column 'number'",
        ),
        (pl.DataFrame(counts(ODD), schema=NAMES), r"row 1 \(counted from 0\), column 'number'"),
        ([counts(5), counts(ODD)], r"block 1 of X holds .* row 1, column 2"),
    ],
)
def test_an_integer_that_would_be_rounded_is_named(X, where):
    with pytest.raises(ValueError, match=where) as caught:
        fit(X)
    assert "np." not in str(caught.value)


def test_integers_are_not_rounded_after_fitting_either():
    model = fit(counts(5))
    for call in (model.transform, model.score, model.partial_fit, model.recount):
        with pytest.raises(ValueError, match=f"{ODD} in row 1, column 2"):
            call(counts(ODD))


def test_integers_of_tensors_are_not_rounded_either():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=f"{ODD} in row 1, column 2"):
        fit(torch.as_tensor(counts(ODD)))
    loader = torch.utils.data.DataLoader(torch.as_tensor(counts(ODD)), batch_size=1)
    with pytest.raises(ValueError, match=rf"batch 1 of X holds the integer {ODD} in row 0"):
        fit(loader)
    learnt = torch.ones((3, 2), requires_grad=True)
    assert fit([learnt, learnt]).n_features_in_ == 2


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**60])
def test_large_integers_that_are_exact_are_welcome(value):
    rows = np.array([[value, 1], [0, 2], [value, 3]])
    for X in (rows, rows.tolist(), rows.astype(object), pd.DataFrame(rows)):
        assert fit(X).n_features_in_ == 2


# ------------------------------------------------------------------------------------- dates


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.array([["2020-01-01"], ["2021-01-01"]], dtype="datetime64[D]"), r"datetime64\[D\]"),
        (np.array([[1], [2]], dtype="timedelta64[s]"), r"timedelta64\[s\]"),
        ([[1.0, DAY], [2.0, DAY]], "in column 1 "),
        (np.array([[1.0, pd.Timestamp(DAY)]], dtype=object), "in column 1 "),
        (pd.DataFrame({"age": [1, 2], "born": pd.to_datetime([DAY, DAY])}), "column 'born'"),
        (pd.DataFrame({"born": pd.to_datetime([DAY, DAY], utc=True)}), "column 'born'"),
        (pd.DataFrame({"took": pd.to_timedelta([1, 2], unit="h"), "age": [1, 2]}), "'took'"),
        (pl.DataFrame({"age": [1, 2], "born": [DAY, DAY]}), "column 'born'"),
        (pl.DataFrame({"age": [1, 2], "born": [DAY.date(), DAY.date()]}), "column 'born'"),
        (pl.DataFrame({"took": [DAY - DAY, DAY - DAY]}), "column 'took'"),
        ([pl.DataFrame({"born": [DAY, DAY]})], "X holds dates .*column 'born'"),
    ],
)
def test_dates_are_no_numbers(X, words):
    with pytest.raises(ValueError, match=words) as caught:
        fit(X)
    assert "days since" in str(caught.value)


# ------------------------------------------------------------------------------ missing values


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_value_that_is_no_number_is_named(value, dtype):
    X = np.random.default_rng(0).normal(size=(9, 3)).astype(dtype)
    model, named = fit(X), fit(pd.DataFrame(X, columns=NAMES))
    X[5, 1] = value
    place = r"X contains infinity in row 5, column 1 \(counted from 0\)"
    for call in (fit, model.transform, model.partial_fit, model.score):
        with pytest.raises(ValueError, match=place):
            call(X)
    frame = pd.DataFrame(X, columns=NAMES)
    for call in (fit, named.transform, named.partial_fit):
        with pytest.raises(ValueError, match=r"row 5 \(counted from 0\), column 'height'"):
            call(frame)
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=place):
        fit(torch.as_tensor(X))


def test_rows_are_counted_through_in_long_tables():
    X = np.zeros((3000, 1000), dtype=np.float32)
    X[2500, 7] = np.inf
    with pytest.raises(ValueError, match="row 2500, column 7"):
        check_finite(X)


# --------------------------------------------------------------------------- places in words


def test_values_of_the_wrong_kind_are_named_by_column():
    X = pd.DataFrame(np.eye(3), columns=NAMES)
    model = DynamicPartitionModel(2, max_iter=1, random_state=0, family="bernoulli")
    X.loc[1, "height"] = 2.0
    words = r"(found 2\.0|holds 2) in row 1 \(counted from 0\), column 'height'"
    with pytest.raises(ValueError, match=words):
        model.fit(X)
    model.fit(X.clip(upper=1))
    with pytest.raises(ValueError, match=words):
        model.transform(X)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X)
    with pytest.raises(ValueError, match=r"block 1 of X .* row 1 .* column 'height'"):
        model.fit([X.clip(upper=1), X])


def test_columns_too_large_to_square_are_named():
    X = pd.DataFrame(np.outer([1, -1], [1.0, 1e200, 1.0]), columns=NAMES)
    for rows in (X, [X]):
        with pytest.raises(ValueError, match=r"too large to square \(column 'height'\)"):
            fit(rows)
    with pytest.raises(ValueError, match=r"too large to square \(column 1 \(counted from 0\)\)"):
        fit(X.to_numpy())


def test_codes_are_named_in_plain_numbers():
    model = fit(np.eye(3))
    with pytest.raises(ValueError, match=r"found 7 in row 1, column 0 \(counted from 0\)"):
        model.inverse_transform(np.array([[1, 0], [7, 1]]))
    with pytest.raises(ValueError, match=r"none in row 1 \(counted from 0\)"):
        model.partition(np.array([[1, 0], [0, 0]]))
    for n_samples in (0, 2.5, "many"):
        with pytest.raises(ValueError, match="n_samples must be an integer of at least 1"):
            model.sample(n_samples)
