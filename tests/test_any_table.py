"""Tables of text, categories, counts and gaps are accepted, and results have the same type."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from dynpart import DynamicPartitionModel, load
from dynpart.schema import MOST_LEVELS
from tests.effort import examples

pl = pytest.importorskip("polars")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def patients(n=60, seed=0):
    """A table of texts, numbers, flags and gaps of two groups of patients."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.4
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["female", "male"], n),
            "age": np.where(ill, rng.normal(70, 5, n), rng.normal(40, 5, n)),
            "visits": rng.poisson(np.where(ill, 6, 1)),
            "smokes": np.where(rng.random(n) < np.where(ill, 0.8, 0.2), "Yes", "No"),
            "insured": rng.random(n) < 0.7,
            "grade": pd.Categorical(
                np.where(ill, "bad", rng.choice(["good", "fair"], n)),
                ["good", "fair", "bad"],
                ordered=True,
            ),
        },
        index=[f"p{i}" for i in range(n)],
    )
    frame.loc["p3", "sex"] = None
    frame.loc["p4", "age"] = np.nan
    frame.loc["p5", "grade"] = None
    return frame


KINDS = ("categorical", "real", "count", "binary", "binary", "categorical")


def model(**options):
    return DynamicPartitionModel(
        3, max_iter=5, random_state=0, columns={"visits": "count"}, **options
    )


@pytest.fixture(scope="module")
def frame():
    return patients()


@pytest.fixture(scope="module")
def fitted(frame):
    return model().fit(frame)


def test_columns_are_judged_one_by_one(fitted, frame):
    schema = fitted.schema_
    assert schema.kinds == KINDS
    assert schema.names == tuple(frame.columns)
    assert schema.levels_of(0) == ("female", "male")
    assert schema.levels_of(3) == ("No", "Yes")
    assert schema.levels_of(5) == ("good", "fair", "bad")
    assert fitted.judge(frame) == schema
    assert fitted.transform(frame).shape == (60, 3)
    assert np.isfinite(fitted.score(frame))


def test_what_comes_back_is_a_frame_of_the_same_types(fitted, frame):
    drawn = fitted.sample(50, random_state=0)
    assert list(drawn.columns) == list(frame.columns)
    assert set(drawn["sex"]) <= {"female", "male"}
    assert drawn["visits"].dtype.kind == "i"
    assert drawn["insured"].dtype == bool
    assert drawn["grade"].dtype == frame["grade"].dtype
    composed = fitted.inverse_transform(fitted.transform(frame))
    assert set(composed["smokes"]) <= {"No", "Yes"}
    assert composed["insured"].between(0, 1).all()


def test_gaps_are_filled_with_levels_and_the_rest_stays(fitted, frame):
    whole = fitted.impute(frame)
    assert not whole.isna().any().any()
    assert whole["grade"].dtype == frame["grade"].dtype
    assert list(whole.index) == list(frame.index)
    pd.testing.assert_frame_equal(whole.where(frame.notna()), frame.where(frame.notna()))
    assert whole.loc["p3", "sex"] in ("female", "male")
    draws = fitted.impute(frame, draws=2, random_state=0)
    assert len(draws) == 2
    assert draws[0].loc["p5", "grade"] in ("good", "fair", "bad")


@pytest.mark.parametrize("container", ["polars", "structured", "objects", "rows"])
def test_the_container_does_not_matter(fitted, frame, container):
    plain = frame.assign(grade=frame["grade"].astype(object))
    columns = {"visits": "count", "grade": ["good", "fair", "bad"]}
    X = {
        "polars": lambda: pl.from_pandas(plain),
        "structured": lambda: _structured(plain),
        "objects": lambda: plain.astype(object).to_numpy(),
        "rows": lambda: plain.astype(object).to_numpy().tolist(),
    }[container]()
    if container in ("objects", "rows"):
        columns = {2: "count", 5: ["good", "fair", "bad"]}
    other = DynamicPartitionModel(3, max_iter=5, random_state=0, columns=columns).fit(X)
    assert other.schema_.kinds == KINDS
    np.testing.assert_allclose(other.score_samples(X), fitted.score_samples(frame), rtol=1e-9)
    back, drawn = other.impute(X), other.sample(4, random_state=0)
    assert type(back) is type(drawn) is type(np.empty(0) if container == "rows" else X)
    if container == "polars":
        assert drawn["visits"].dtype.is_integer()
        assert back["sex"].null_count() == 0
    elif container == "structured":
        assert drawn.dtype.names == X.dtype.names
    else:
        assert back[3, 0] in ("female", "male")


def _structured(frame):
    kinds = [("sex", object), ("age", float), ("visits", int), ("smokes", "U3"), ("insured", bool)]
    return np.array(list(frame.itertuples(index=False)), dtype=[*kinds, ("grade", object)])


def test_blocks_and_streams_know_the_same_levels(fitted, frame):
    blocks = [frame[:25], frame[25:40], frame[40:]]
    other = model().fit(blocks)
    assert other.schema_.levels == fitted.schema_.levels
    np.testing.assert_allclose(other.score_samples(blocks), fitted.score_samples(frame), rtol=1e-6)
    stream = model().partial_fit(blocks[0])
    for block in blocks[1:]:
        stream.partial_fit(block)
    assert stream.n_iter_ == 3
    with pytest.raises(ValueError, match=r"'other' in row 2 .*column 'sex'"):
        stream.partial_fit(frame[:5].assign(sex=["female", "male", "other", "male", "male"]))


def test_a_folder_of_parquet_files(fitted, frame, tmp_path):
    pytest.importorskip("pyarrow")
    for i, part in enumerate((frame[:30], frame[30:])):
        part.reset_index(drop=True).to_parquet(tmp_path / f"{i}.parquet")
    other = model().fit(tmp_path)
    assert other.schema_.kinds == KINDS
    assert other.transform(tmp_path).shape == (60, 3)


def test_unknown_levels_and_texts_are_errors_with_a_place(frame, fitted):
    new = frame[:3].assign(sex=["male", "diverse", "male"])
    with pytest.raises(ValueError, match=r"'diverse' in row 1 .*column 'sex'.*unknown='missing'"):
        fitted.transform(new)
    lenient = clone(fitted).set_params(unknown="missing").fit(frame)
    known = lenient.transform(new.assign(sex=["male", None, "male"]))
    np.testing.assert_array_equal(lenient.transform(new), known)
    with pytest.raises(ValueError, match=r"'old' in row 0 .*column 'age'.*real"):
        fitted.transform(frame[:1].assign(age=["old"]))
    with pytest.raises(ValueError, match="now missing"):
        fitted.transform(frame.drop(columns="age"))
    with pytest.raises(ValueError, match=r"-1.*row 1.*visits|row 1.*'visits'"):
        fitted.transform(frame[:2].assign(visits=[1, -1]))


def test_columns_without_a_value_or_of_dates_are_named(frame):
    with pytest.raises(ValueError, match="'empty': leave"):
        model().fit(frame.assign(empty=None))
    with pytest.raises(ValueError, match=r"'day'.*days since"):
        model().fit(frame.assign(day=pd.Timestamp("2020-01-01")))
    with pytest.raises(ValueError, match=r"'name' holds 60 different texts.*'categorical'"):
        model().fit(frame.assign(name=frame.index))


def test_constant_columns_are_fine(frame):
    constant = frame.assign(country="here", zero=0, seven=7)
    found = model().fit(constant)
    assert found.schema_.kinds[6:] == ("categorical", "binary", "real")
    assert np.isfinite(found.score(constant))
    assert set(found.sample(5, random_state=0)["country"]) == {"here"}


def test_one_column_of_text_will_do():
    frame = pd.DataFrame({"colour": ["red", "red", "blue"] * 5})
    found = DynamicPartitionModel(2, max_iter=3, random_state=0).fit(frame)
    assert set(found.sample(9, random_state=0)["colour"]) <= {"red", "blue"}


@pytest.mark.slow
def test_many_levels():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"word": [f"w{i}" for i in rng.integers(0, 300, 2000)], "n": 0})
    found = DynamicPartitionModel(2, max_iter=2, random_state=0).fit(frame)
    assert found.schema_.n_levels[0] == frame["word"].nunique()
    many = pd.DataFrame({"word": [f"w{i % 1500}" for i in range(6000)]})
    with pytest.raises(ValueError, match=rf"'word' has 1,500 levels.*{MOST_LEVELS:,}"):
        DynamicPartitionModel(2).fit(many)


def test_columns_of_arrays_are_judged_one_by_one(frame):
    X = np.column_stack([np.eye(4), np.arange(4)]) * 1.0
    plain = DynamicPartitionModel(2, max_iter=2)
    assert plain.judge(X).kinds == plain.fit(X).schema_.kinds == ("binary",) * 4 + ("real",)
    assert DynamicPartitionModel(family="gaussian").judge(X).kinds == ("real",) * 5
    said = DynamicPartitionModel(2, max_iter=2, columns={4: "categorical"}).fit(X)
    assert said.schema_.kinds == ("binary",) * 4 + ("categorical",)
    assert said.schema_.levels_of(4) == ("0", "1", "2", "3")
    assert said.transform(X).shape == (4, 2)
    assert set(said.fit(X + [0, 0, 0, 0, 5]).sample(9, random_state=0)[:, 4]) <= {5, 6, 7, 8}
    same = DynamicPartitionModel(2, max_iter=2, columns="count", random_state=0)
    counts = np.random.default_rng(0).poisson(2, (30, 4))
    dense, sparse = same.fit(counts).means_, same.fit(sp.csr_array(counts)).means_
    np.testing.assert_allclose(dense, sparse)


@examples(8)
@given(seed=st.integers(0, 2**16), units=st.booleans())
def test_an_array_teaches_what_the_data_frame_of_its_columns_teaches(seed, units):
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 2))]
    X[:, :3] *= 10.0 ** rng.integers(-3, 4, 3) if units else 1
    model = DynamicPartitionModel(2, max_iter=4, random_state=0)
    framed = pd.DataFrame(X, columns=list("abcde"))
    blocks = [X[:15], X[15:]]
    expected = model.fit(framed).log_density(framed)
    np.testing.assert_array_equal(model.fit(X).log_density(X), expected)
    np.testing.assert_allclose(model.fit(blocks).log_density(X), expected, rtol=1e-6, atol=1e-6)


def test_pixels_of_an_array_share_one_scale():
    rng = np.random.default_rng(0)
    pictures = rng.uniform(size=(20, 64)) * rng.uniform(0.3, 1, 64)
    model = DynamicPartitionModel(2, max_iter=2, random_state=0)
    assert np.ndim(model.fit(pictures).family_.floor) == 0
    small = pictures[:, :9]
    assert np.shape(model.fit(small).family_.floor) == (9,)
    assert np.shape(model.fit(pictures * 10.0 ** np.arange(64)).family_.floor) == (64,)
    flags = np.c_[pictures, rng.integers(0, 2, (20, 20))]
    assert model.fit(flags).schema_.kinds == ("real",) * 64 + ("binary",) * 20
    for asked in ({"family": "gaussian"}, {"connectivity": np.eye(9)}, {"amplitude": "gain"}):
        told = DynamicPartitionModel(2, max_iter=2, random_state=0, **asked)
        assert np.ndim(told.fit(small).family_.floor) == 0
    model.image_shape_ = (3, 3)
    assert np.ndim(model.fit(small).family_.floor) == 0


def test_family_and_columns_do_not_contradict_each_other(frame):
    numbers = frame[["age", "visits"]]
    assert DynamicPartitionModel(2, family="gaussian", max_iter=2).fit(numbers).schema_.kinds == (
        "real",
        "real",
    )
    with pytest.raises(ValueError, match="both set the kinds"):
        DynamicPartitionModel(2, family="gaussian", columns="count").fit(numbers)
    with pytest.raises(ValueError, match="'sex'"):
        DynamicPartitionModel(2, family="gaussian").fit(frame)


def test_output_of_a_column_transformer_works_as_it_comes(frame):
    made = ColumnTransformer(
        [("levels", OneHotEncoder(), ["sex", "smokes", "grade"])], remainder="passthrough"
    )
    X = made.fit_transform(frame.drop(columns="age"))
    assert DynamicPartitionModel(3, max_iter=2).fit(X).transform(X).shape == (60, 3)
    hot = OneHotEncoder().fit_transform(frame[["smokes", "insured"]])
    assert DynamicPartitionModel(3, max_iter=2).fit(hot).schema_.kinds == ("binary",) * 4
    named = made.set_output(transform="pandas").set_params(
        levels=OneHotEncoder(sparse_output=False)
    )
    X = named.fit_transform(frame.drop(columns="age"))
    assert "real" in DynamicPartitionModel(3, max_iter=2).fit(X).schema_.kinds


def test_a_file_keeps_columns_and_levels(fitted, frame, tmp_path):
    said = DynamicPartitionModel(
        3, max_iter=2, random_state=0, columns={1: "real", "sex": ["male", "female", "diverse"]}
    ).fit(frame)
    said.save(tmp_path / "said.dynpart")
    assert load(tmp_path / "said.dynpart").columns == said.columns
    fitted.save(tmp_path / "m.dynpart")
    again = load(tmp_path / "m.dynpart")
    assert again.schema_ == fitted.schema_
    pd.testing.assert_frame_equal(again.sample(5, random_state=0), fitted.sample(5, random_state=0))
    np.testing.assert_array_equal(again.transform(frame), fitted.transform(frame))


def test_weights_count_rows_of_a_mixed_table(fitted, frame):
    twice = pd.concat([frame[:20], frame])
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    assert fitted.score(twice) == pytest.approx(fitted.score(frame, sample_weight=weights))
    learnt = model().fit(frame, sample_weight=weights)
    assert learnt.schema_ == model().judge(twice)
    assert np.isfinite(learnt.score(frame))


def test_surprise_sums_to_the_likelihood(fitted, frame):
    surprise = fitted.surprise(frame)
    likelihood = fitted.log_likelihood(frame, fitted.transform(frame))
    np.testing.assert_allclose(-surprise.sum(axis=1), likelihood, rtol=1e-6)
    assert surprise[3, 0] == surprise[4, 1] == 0


def test_a_model_for_numbers_takes_indices_of_levels(fitted, frame):
    numbers = np.asarray([[1, 40.0, 2, 0, 1, 2]])
    plain = fitted.on_numbers()
    row = pd.DataFrame([["male", 40.0, 2, "No", True, "bad"]], columns=frame.columns)
    np.testing.assert_allclose(plain.score_samples(numbers), fitted.score_samples(row))
    assert plain.schema_ == fitted.schema_
    assert isinstance(plain.sample(2), np.ndarray)


@pytest.mark.parametrize("settings", [{}, {"columns": {"age": "real"}}])
def test_the_text_in_a_column_of_numbers_is_named(frame, settings):
    """Not a number in a row before it."""
    wrong = frame[["age", "sex"]].astype(object)
    wrong.loc["p2", "age"] = "Female"
    fitted = DynamicPartitionModel(2, max_iter=2, random_state=0).fit(frame[["age", "sex"]])
    call = clone(fitted).set_params(**settings).fit if settings else fitted.transform
    with pytest.raises(ValueError, match=r"X holds 'Female' in row 2 .*column 'age'"):
        call(wrong)
