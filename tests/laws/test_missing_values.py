"""The laws of missing values: they add nothing to any sum or likelihood."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.arrays import to_numpy
from dynpart.datasets import make_pairs
from dynpart.encoding import log_likelihood
from dynpart.engines import make_engine
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from tests.effort import examples
from tests.engines.parity import assert_likelihood_of_codes
from tests.strategies import make_experts, make_rows, make_rule, problems

ENGINES = {name: make_engine(name) for name in ("reference", "cpu")}
SUMS = ("gradient_sums", "responsibility_sums")
EXAMPLES = examples(25)


def engine_named(name):
    if name == "torch":
        pytest.importorskip("torch")
        return make_engine("torch", device="cpu")
    return ENGINES[name]


every_engine = pytest.mark.parametrize("name", ["reference", "cpu", "torch"])


def missing(family):
    """What stands for a value that was not observed."""
    return np.nan if family.n_levels is None else family.n_levels


def hidden(rows, family, where):
    """The same rows without the values at these places."""
    values = rows.values.copy()
    values[where] = missing(family)
    return replace(rows, values=values, complete=False)


def without_column(experts, rows, d):
    """The experts of all other variables, and rows of these."""
    others = np.delete(np.arange(rows.shape[1]), d)
    family = experts.family.of_columns(others)
    eta = experts.eta[: family.n_statistics, :, others]
    few = replace(experts, family=family, eta=eta, log2_expertise=experts.log2_expertise[:, others])
    return few, Rows.of(experts.family.decode(rows.values)[:, others], family, rows.weight)


def close(found, expected, rtol=1e-4):
    """Equal, but for the rounding of sums of which single terms may be far larger."""
    found, expected = to_numpy(found), to_numpy(expected)
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=0.1 * rtol * scale + 1e-12)


# ------------------------------------------------------------------------- a column of a row


@every_engine
@EXAMPLES
@given(problems(), st.data())
def test_a_hidden_column_adds_nothing_to_its_sums_and_leaves_all_others(name, problem, data):
    experts, rows = problem
    engine = engine_named(name)
    d = data.draw(st.integers(0, rows.shape[1] - 1))
    here = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    codes = pursue(engine, rows, experts, make_rule(experts.n_experts))
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    gaps = hidden(rows, experts.family, (here, d))
    for operation in SUMS:
        sums = getattr(engine, operation)
        found = sums(gaps, experts, codes).array
        whole = sums(rows, experts, codes).array
        rest = sums(rows.weighing(np.where(here, 0.0, weight)), experts, codes).array
        others = np.arange(rows.shape[1]) != d
        close(found[:, :, others], whole[:, :, others])
        close(found[:, :, d], rest[:, :, d])


@every_engine
@EXAMPLES
@given(problems(), st.data())
def test_log_p_of_a_code_is_that_of_the_observed_columns(name, problem, data):
    experts, rows = problem
    engine = engine_named(name)
    d = data.draw(st.integers(0, rows.shape[1] - 1))
    gaps = hidden(rows, experts.family, (slice(None), d))
    codes = pursue(engine, gaps, experts, make_rule(experts.n_experts))
    active = to_numpy(codes.active(experts.n_experts))
    found = log_likelihood(gaps, active, experts)
    terms = log_likelihood(rows, active, experts) - found
    only = np.arange(rows.shape[1]) != d
    alone = log_likelihood(hidden(rows, experts.family, (slice(None), only)), active, experts)
    close(terms, alone, 1e-9)
    base = to_numpy(codes.log_base) if not isinstance(codes.log_base, float) else 0.0
    np.testing.assert_allclose(to_numpy(codes.log_likelihood), found, rtol=1e-5, atol=1e-4)
    assert np.isfinite(base).all()


@every_engine
@EXAMPLES
@given(problems(max_features=8), st.data())
def test_a_model_without_the_column_gives_the_same_codes(name, problem, data):
    experts, rows = problem
    if rows.shape[1] == 1:
        return
    engine = engine_named(name)
    d = data.draw(st.integers(0, rows.shape[1] - 1))
    rule = make_rule(experts.n_experts, n_swaps=data.draw(st.sampled_from([0, 100])))
    gaps = hidden(rows, experts.family, (slice(None), d))
    few, narrow = without_column(experts, rows, d)
    found, expected = pursue(engine, gaps, experts, rule), pursue(engine, narrow, few, rule)
    np.testing.assert_allclose(
        to_numpy(found.log_likelihood), to_numpy(expected.log_likelihood), rtol=1e-5, atol=1e-4
    )
    if name == "reference":  # others round, and experts that gain the same change places
        np.testing.assert_array_equal(found.members, expected.members)


# ------------------------------------------------------------------------- nothing is missing


@every_engine
@EXAMPLES
@given(problems(), st.sampled_from([0, 100]))
def test_with_nothing_missing_it_does_not_matter_whether_that_is_known(name, problem, n_swaps):
    experts, rows = problem
    engine = engine_named(name)
    if not rows.complete:
        rows = Rows.of(np.nan_to_num(experts.family.decode(rows.values)), experts.family)
    assert rows.complete
    unknown = replace(rows, complete=False)
    rule = make_rule(experts.n_experts, n_swaps=n_swaps)
    codes, others = (pursue(engine, each, experts, rule) for each in (rows, unknown))
    np.testing.assert_array_equal(to_numpy(codes.members), to_numpy(others.members))
    close(codes.log_likelihood, others.log_likelihood, 1e-6)
    for operation in SUMS:
        sums = getattr(engine, operation)
        close(sums(rows, experts, codes).array, sums(unknown, experts, codes).array, 1e-6)


# ------------------------------------------------------------------- missing by chance alone


@every_engine
@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_sums_divided_by_the_share_observed_are_right_on_average(name, family, share):
    """Missing completely at random: the mean over masks is within five standard errors."""
    engine, rng = engine_named(name), np.random.default_rng(3)
    experts = make_experts(rng, family, n_experts=4, n_features=6)
    rows = make_rows(rng, experts, 8)
    codes = pursue(engine, rows, experts, make_rule(4))
    masks = rng.random((300, *rows.shape)) < share
    for operation in SUMS:
        sums = getattr(engine, operation)
        whole = to_numpy(sums(rows, experts, codes).array)
        gaps = (hidden(rows, experts.family, mask) for mask in masks)
        found = np.stack([to_numpy(sums(each, experts, codes).array) for each in gaps])
        found /= 1 - share
        error = found.std(axis=0, ddof=1) / np.sqrt(len(masks))
        assert (np.abs(found.mean(axis=0) - whole) <= 5 * error + 1e-6 * np.abs(whole).max()).all()
        assert (error < 0.2 * np.abs(whole).max()).all()  # otherwise the test has no power


# --------------------------------------------------------------------------------- empty rows


def learnt(family="binary", **settings):
    rng = np.random.default_rng(0)
    X = make_pairs(4).astype(float)
    if family != "binary":
        X = X + 0.1 * rng.standard_normal(X.shape)
    settings = {"n_experts": 8, "max_iter": 6, "random_state": 0, **settings}
    return DynamicPartitionModel(**settings).fit(X), X


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* no observed value:UserWarning")
@pytest.mark.parametrize("family", ["binary", "real"])
@pytest.mark.parametrize("engine", ["reference", "cpu", "torch"])
@pytest.mark.parametrize("limits", [{}, {"n_active": 3}, {"max_active": 2}, {"n_swaps": 0}])
def test_an_empty_row_gets_a_code_and_is_perfectly_likely(family, engine, limits):
    if engine == "torch":
        pytest.importorskip("torch")
    model, X = learnt(family, **limits)
    model.set_params(engine=engine)
    rows = np.vstack([np.full((2, X.shape[1]), np.nan), X[:2]])
    H = model.transform(rows)
    n_active = H.sum(axis=1)
    assert (n_active >= limits.get("n_active", 1)).all()
    assert (n_active <= limits.get("n_active", limits.get("max_active", 8))).all()
    np.testing.assert_array_equal(H[2:], model.transform(X[:2]))
    np.testing.assert_array_equal(model.log_likelihood(rows, H)[:2], 0.0)
    assert np.isfinite(model.score_samples(rows)).all()
    assert (model.pursue(rows).log_likelihood[:2, 0] == 0).all()


@pytest.mark.parametrize("family", ["binary", "real"])
def test_empty_rows_are_left_out_of_a_fit_with_one_warning(family):
    model, X = learnt(family)
    gaps = np.insert(X, [0, 5, 5, len(X)], np.nan, axis=0)
    other = DynamicPartitionModel(**model.get_params())
    words = "4 rows have no observed value: learning ignores such rows"
    for source in (gaps, [gaps[:7], gaps[7:]]):
        with pytest.warns(UserWarning, match=words) as told:
            other.fit(source)
        assert len(told) == 1
        np.testing.assert_allclose(other.means_, model.means_, rtol=1e-6)
        np.testing.assert_allclose(other.expertise_, model.expertise_, rtol=1e-5)
    plain = DynamicPartitionModel(**model.get_params()).partial_fit(X)
    stream = DynamicPartitionModel(**model.get_params())
    with pytest.warns(UserWarning, match=words) as told:
        stream.partial_fit(gaps)
    assert len(told) == 1
    np.testing.assert_array_equal(stream.means_, plain.means_)


# ------------------------------------------------------------------------------ empty columns


def test_a_column_without_an_observed_value_is_named():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X = np.array([[0.0, np.nan, 1.0], [1.0, np.nan, np.nan], [1.0, np.nan, 0.0]])
    names = ["a", "b", "c"]
    frame = pandas.DataFrame(X, columns=names)
    by_number = r"X has no observed value in column 1 \(counted from 0\): leave the column out"
    by_name = "X has no observed value in column 'b': leave the column out"
    model = DynamicPartitionModel(2, max_iter=2)
    for source, words in (
        (X, by_number),
        (X.astype(np.float32), by_number),
        (X.tolist(), by_number),
        (np.ma.masked_invalid(X), by_number),
        (frame, by_name),
        (polars.DataFrame({n: frame[n].tolist() for n in names}, strict=False), by_name),
        ([X[:1], X[1:]], by_number),
        ([frame[:2], frame[2:]], by_name),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(source)
        if not isinstance(source, list) or not hasattr(source[0], "shape"):
            with pytest.raises(ValueError, match=words):
                model.partial_fit(source)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_column_seen_in_another_block_or_batch_is_fine():
    X = make_pairs(3).astype(float)
    first, second = X.copy(), X.copy()
    first[:, 1], second[:, 2] = np.nan, np.nan
    model = DynamicPartitionModel(4, max_iter=4, random_state=0).fit([first, second])
    assert np.isfinite(model.means_).all()
    with pytest.raises(ValueError, match="no observed value in column 1"):
        DynamicPartitionModel(4).fit([first, first])


@pytest.mark.filterwarnings("ignore:.* no observed value:UserWarning")
@EXAMPLES
@given(st.integers(0, 2**32 - 1))
def test_a_table_with_gaps_is_learnt_and_described(seed):
    """Whatever is missing: finite numbers, and codes that hold to the limits."""
    rng = np.random.default_rng(seed)
    X = make_rows(rng, make_experts(rng, "gaussian"), 12).values
    gaps = np.where(rng.random(X.shape) < rng.uniform(0, 0.9), np.nan, X)
    gaps[0] = X[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty rows, and of experts that do not pay
        model = DynamicPartitionModel(3, max_iter=3, random_state=0).fit(gaps)
    H = model.transform(gaps)
    assert H.any(axis=1).all()
    for array in (model.means_, model.variances_, model.expertise_, model.score_samples(gaps)):
        assert np.isfinite(array).all()
    observed = ~np.isnan(gaps)
    eta = model._experts().family.log_density(gaps, model._experts().eta[:, 0][:, None])
    assert (eta[~observed] == 0).all()


def test_codes_of_gaps_are_as_likely_as_the_engine_says():
    rng = np.random.default_rng(5)
    for family in ("bernoulli", "gaussian"):
        experts = make_experts(rng, family, 6, 9)
        rows = make_rows(rng, experts, 20, missing=0.4)
        codes = pursue(ENGINES["cpu"], rows, experts, make_rule(6, n_swaps=10))
        assert_likelihood_of_codes(rows, experts, codes)
