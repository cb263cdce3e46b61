"""Kinds of columns: from the user's settings, from the values, and by documented rules."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.coding import Coded, coded
from dynpart.containers import built
from dynpart.kinds import Survey, column_settings, tells_rows_apart, text_problem
from dynpart.levels import encoded
from dynpart.schema import Schema
from tests.effort import examples

pl = pytest.importorskip("polars")


def judged(X, columns=None):
    survey = Survey(columns)
    survey.look(coded(X))
    return survey.schema()


def kind_of(values, **said):
    return judged(pd.DataFrame({"x": values}), said or None).kinds[0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False, True], "binary"),
        ([0, 1, 1], "binary"),
        ([0.0, np.nan, 1.0], "binary"),
        ([1, 1, 1], "binary"),
        ([7, 7, 7], "real"),
        ([1, 2, 3], "real"),
        ([1.5, 2.5, None], "real"),
        (["a", "b", None], "categorical"),
        (["a", "a", "a"], "categorical"),
        (["Yes", "no", "NO"], "binary"),
        (["TRUE", "false", None], "binary"),
        (["yes", "no", "maybe"], "categorical"),
        (["1", "2", "3"], "categorical"),
        ([True, None, False], "binary"),
        (["18-25", "26-35", "18-25"], "categorical"),
        (["1", "2", "3", "4", "5+"], "categorical"),
        (["1+", "2+", "3+"], "categorical"),
        (pd.Categorical([1, 0, 1]), "categorical"),
        (pd.array([1, None, 0], dtype="Int64"), "binary"),
        (pd.array([True, None, False], dtype="boolean"), "binary"),
        (pd.array(["u", None, "v"], dtype="string"), "categorical"),
        (pd.cut([1.0, 5.0, 9.0], [0, 4, 10]), "categorical"),
    ],
)
def test_a_column_is_what_a_person_would_guess(values, kind):
    assert kind_of(values) == kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2] * 10, "categorical"),
        ([-1.0, 1.0, np.nan] * 10, "categorical"),
        ([1, 2] * 9 + [1], "real"),  # too few rows to know
        ([0, 1] * 10, "binary"),
        ([0, 1] * 10 + [2], "real"),
        ([2] * 20, "real"),
        ([0.5, 1.0] * 10, "real"),
        ([1, 2] * 9 + [np.nan] * 9, "categorical"),  # as a column without gaps beside it
        ([1, 2] * 4 + [np.nan] * 30, "real"),  # hardly anything observed
    ],
)
def test_two_whole_numbers_in_many_rows_are_codes_of_levels(values, kind):
    found = judged(pd.DataFrame({"x": values}))
    assert found.kinds == (kind,)
    if kind == "categorical":
        assert found.levels == (tuple(str(int(v)) for v in sorted({*values[:2]})),)
    assert kind_of(values, x="real") == "real"


def test_codes_of_levels_are_for_tables_with_names():
    X = np.array([[1.0, 2.0]] * 10 + [[2.0, 1.0]] * 10)
    assert DynamicPartitionModel().judge(X).kinds == ("real", "real")
    named = DynamicPartitionModel().judge(pd.DataFrame(X, columns=["a", "b"]))
    assert named.kinds == ("categorical", "categorical")
    assert named.levels == (("1", "2"), ("1", "2"))


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0, 0.5, np.nan]), min_size=1, max_size=60),
    st.integers(1, 60),
)
@examples(100)
def test_blocks_are_judged_as_the_whole_table_is(values, length):
    X = pd.DataFrame({"x": values, "y": 0.3})
    survey = Survey()
    for start in range(0, len(X), length):
        survey.look(coded(X.iloc[start : start + length]))
    assert survey.schema().kinds == judged(X).kinds
    assert survey.schema().levels == judged(X).levels


def test_an_unknown_code_is_told_with_a_remedy():
    learnt = judged(pd.DataFrame({"sex": [1, 2] * 10}))
    with pytest.raises(ValueError, match=r"holds '3' .* or learn with the column as 'real'"):
        encoded(coded(pd.DataFrame({"sex": [1, 3]})), learnt)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"id{i}" for i in range(30)], "30 different texts in 30 rows"),
        ([f"2020-01-{i + 1:02}" for i in range(12)], "dates or times"),
        ([f"{i},5" for i in range(12)], "numbers stored as text"),
        (["45%", "50%", "45%"], "numbers stored as text"),
        ([*map(str, range(20)), "unknown"], "other texts among them"),
        ([datetime.date(2020, 1, 1)] * 3, "dates or times"),
        ([pd.Timestamp("2020-01-01")] * 3, "dates or times"),
        ([[1], [2], [3]], "neither a number nor a text"),
    ],
)
def test_what_is_hardly_a_variable_is_refused_by_name(values, words):
    with pytest.raises(ValueError, match=words) as error:
        kind_of(values)
    assert "'x'" in str(error.value)


def test_what_was_said_overrules():
    frame = pd.DataFrame({"legs": [0, 2, 4], "n": [3, 0, 1], "id": [f"i{k}" for k in range(3)]})
    schema = judged(frame, {"legs": "categorical", "n": "count", "id": ["i0", "i1", "i2", "i3"]})
    assert schema.kinds == ("categorical", "count", "categorical")
    assert schema.levels == (("0", "2", "4"), None, ("i0", "i1", "i2", "i3"))
    np.testing.assert_array_equal(encoded(coded(frame), schema)[:, 0], [0, 1, 2])
    long = pd.DataFrame({"id": [f"i{k}" for k in range(30)]})
    assert judged(long, "categorical").n_levels == (30,)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"z": "real"}, "'z', which is not a column of X; it has 'a', 'b'"),
        ({7: "real"}, "a place below 2, got 7"),
        ({"a": "nominal"}, "column 'a' to 'nominal'"),
        (["real"], r"an entry per column \(2\), got 1"),
        ({"a": ["x", "x"]}, "differ from each other"),
        ({"a": "real", 0: "count"}, "column 'a' twice"),
        ({"b": "count"}, "holds 3.5 in row 1 .*column 'b'.* whole numbers from 0"),
        ({"b": "binary"}, "holds 2 in row 0 .*column 'b'.* 0 or 1"),
        ({"a": "real"}, "holds 'x' in row 0 .*column 'a'.* a text"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(columns, words):
    with pytest.raises(ValueError, match=words):
        judged(pd.DataFrame({"a": ["x", "y"], "b": [2, 3.5]}), columns)


def test_names_and_places_mean_the_same():
    names = ["a", "b", "c"]
    by_name = column_settings({"c": "count"}, 3, names)
    assert by_name == column_settings({2: "count"}, 3, names) == {2: "count"}
    assert by_name == column_settings({-1: "count"}, 3, None)
    assert by_name == column_settings([None, None, "count"], 3, names)
    with pytest.raises(ValueError, match="no names of columns: use indices from 0 to 2"):
        column_settings({"c": "count"}, 3, None)


def test_levels_of_later_blocks_join_those_of_the_first():
    survey = Survey()
    for block in (["b", "c"], [None, None], ["a", "c"]):
        survey.look(coded(pd.DataFrame({"x": pd.Series(block, dtype=object)})))
    assert survey.schema().levels == (("a", "b", "c"),)


def test_unknown_levels_are_named_or_missing():
    schema = judged(pd.DataFrame({"c": ["red", "blue"], "v": [1.5, 2.5]}))
    new = coded(pd.DataFrame({"c": ["blue", "mauve"], "v": [1.0, 2.0]}))
    with pytest.raises(
        ValueError, match=r"'mauve' in row 1 .*column 'c'.*'blue', 'red'.*unknown='missing'"
    ):
        encoded(new, schema)
    np.testing.assert_array_equal(encoded(new, schema, unknown="missing")[:, 0], [0, np.nan])
    wrong = coded(pd.DataFrame({"c": ["red"], "v": ["Female"]}))
    with pytest.raises(ValueError, match=r"'Female' in row 0 .*column 'v'.*real"):
        encoded(wrong, schema, unknown="missing")


# In an array of texts blanks alone are a gap, as in a file (tested below).
texts = st.text("abcXYZ äß,;'\"", min_size=1, max_size=4).filter(str.strip)
columns = st.one_of(
    st.lists(st.one_of(st.none(), texts), min_size=6, max_size=6).filter(any),
    st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=6),
    st.lists(st.integers(-50, 50), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)


@given(st.lists(columns, min_size=1, max_size=4), st.sampled_from(["pandas", "polars", "objects"]))
def test_a_table_comes_back_as_it_went(drawn, container):
    data = {f"c{i}": values for i, values in enumerate(drawn)}
    frame = pd.DataFrame({name: pd.Series(v, dtype=_dtype(v)) for name, v in data.items()})
    X = {
        "pandas": lambda: frame,
        "polars": lambda: pl.DataFrame(data),
        "objects": lambda: frame.astype(object).to_numpy(),
    }[container]()
    table = coded(X)
    if table is None:
        return  # an array of numbers stays one
    schema = judged(X, ["categorical" if words else None for words in table.words])
    back = built(_filled(encoded(table, schema)), schema)
    for i, values in enumerate(drawn):
        column = back[:, i] if container == "objects" else back[f"c{i}"]
        for found, value in zip(list(column), values, strict=True):
            assert value is None or found == value


def test_blanks_alone_are_a_gap_in_an_array_of_texts():
    X = np.array([["a", "1"], [" ", "2"], ["b", ""]], dtype=object)
    table = coded(X)
    np.testing.assert_array_equal(np.isnan(table.values), [[0, 0], [1, 0], [0, 1]])


def _dtype(values):
    return object if any(value is None or isinstance(value, str) for value in values) else None


def _filled(table):
    return np.nan_to_num(table, nan=0.0)


def test_the_same_levels_whatever_the_container():
    rows = [["b", 1.5, True], ["a", 2.5, False], ["b", 0.5, True]]
    kinds = np.dtype([("x", "U1"), ("y", float), ("z", bool)])
    tables = [
        pd.DataFrame(rows, columns=["x", "y", "z"]),
        pl.DataFrame(rows, schema=["x", "y", "z"], orient="row"),
        np.array([tuple(row) for row in rows], dtype=kinds),
        rows,
        np.array(rows, dtype=object),
    ]
    for X in tables:
        schema = judged(X)
        assert schema.kinds == ("categorical", "real", "binary")
        np.testing.assert_array_equal(
            encoded(coded(X), schema), [[1, 1.5, 1], [0, 2.5, 0], [1, 0.5, 1]]
        )


def test_text_alone_is_read_as_a_file_would_be():
    table = coded(np.array([["a", "1.5", "NA"], ["b", "n/a", "2"]]))
    assert table.words == (("a", "b"), None, None)
    np.testing.assert_array_equal(table.values[:, 1:], [[1.5, np.nan], [np.nan, 2]])


def test_arrays_of_numbers_are_left_to_the_whole_table_rule():
    assert coded(np.eye(2)) is None
    assert coded([[1, 2], [3, None]]) is None
    assert coded(pd.DataFrame(np.eye(2))) is None
    assert coded(np.array([[1, 2.5]], dtype=object)) is None
    assert coded([["a"], ["b", "c"]]) is None


def test_order_of_categories_is_kept():
    ordered = pd.Categorical(["lo", "hi"], ["lo", "mid", "hi"], ordered=True)
    schema = judged(pd.DataFrame({"x": ordered}))
    assert (schema.levels, schema.dtypes) == ((("lo", "mid", "hi"),), ("ordered:text",))
    enum = pl.DataFrame({"x": pl.Series(["lo", "hi"], dtype=pl.Enum(["lo", "mid", "hi"]))})
    assert judged(enum).levels == schema.levels
    numbers = judged(pd.DataFrame({"x": pd.Categorical([10, 9])}))
    assert numbers.levels == (("9", "10"),)
    back = built(np.array([[1.0]]), numbers)
    assert back["x"].iloc[0] == 10


@pytest.mark.parametrize(
    ("n_different", "n_observed", "apart"),
    [
        (3, 3, False),
        (30, 30, True),
        (1000, 1000, True),
        (25, 40, True),
        (20, 30, False),
        (1000, 9000, False),
    ],
)
def test_texts_that_tell_rows_apart(n_different, n_observed, apart):
    assert tells_rows_apart(n_different, n_observed) == apart


def test_a_broken_formula_is_no_level():
    assert text_problem({"#DIV/0!": 1, "3": 5}).reason == "mixed"
    assert text_problem({"-": 1, "3": 5}).example == "-"
    assert text_problem({"-": 1, "red": 5}) is None


def test_values_in_words():
    schema = Schema(("categorical", "real", "binary"), levels=(("a", "b"), None, ("no", "yes")))
    said = [
        schema.value_text(*each) for each in ((0, 1), (1, 2.0), (1, 1 / 3), (2, 0), (1, np.nan))
    ]
    assert said == ["b", "2", "0.333333", "no", "not observed"]


def test_numbers_are_coded_as_they_are():
    values = np.array([[1, 2]], dtype=np.uint8)
    assert Coded.of_numbers(values).values is values
