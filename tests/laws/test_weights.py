"""The law of weights: a row that weighs w is w equal rows, and one that weighs 0 is none."""

import itertools
import warnings

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import grid_to_graph

from dynpart import DynamicPartitionModel
from dynpart.arrays import to_numpy
from dynpart.engines import make_engine
from dynpart.families import column_moments
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from dynpart.streaming import accumulate
from tests.effort import examples
from tests.strategies import make_experts, make_rows, make_rule, problems

polars = pytest.importorskip("polars")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ENGINES = {name: make_engine(name) for name in ("reference", "cpu")}
EXAMPLES = examples(25)


def engine_named(name):
    if name == "torch":
        pytest.importorskip("torch")
        return make_engine("torch", device="cpu")
    return ENGINES[name]


every_engine = pytest.mark.parametrize("name", ["reference", "cpu", "torch"])


def repeated(X, weight):
    return np.repeat(X, weight.astype(int), axis=0)


def table(seed=0, n_rows=40, *, binary=True, missing=0.15):
    """Rows of two parts of four variables each, and weights from 0 to 3."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, (n_rows, 2)).repeat(4, axis=1)
    usual = rng.integers(0, 2, (3, 8))
    X = np.take_along_axis(usual, kind, axis=0).astype(float)
    X = np.where(rng.random(X.shape) < 0.1, 1 - X, X)
    if not binary:
        X = 3 * X + rng.normal(size=X.shape)
    gaps = rng.random(X.shape) < missing
    gaps[np.arange(n_rows), rng.integers(0, 8, n_rows)] = False
    X[gaps] = np.nan
    return X, rng.integers(0, 4, n_rows).astype(float)


def close(found, expected, rtol=1e-6):
    found, expected = to_numpy(found), to_numpy(expected)
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale + 1e-12)


def assert_same_model(model, other, X, rtol=1e-5):
    close(model.means_, other.means_, rtol)
    close(model.expertise_, other.expertise_, 10 * rtol)
    close(model.activation_probabilities_, other.activation_probabilities_, rtol)
    close(model.objective_history_, other.objective_history_, rtol)
    np.testing.assert_array_equal(model.transform(X), other.transform(X))


# ------------------------------------------------------------------------------ one iteration


@EXAMPLES
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 0.4]))
def test_moments_of_weighted_rows_are_those_of_repeated_ones(seed, binary, missing):
    X, weight = table(seed, 9, binary=binary, missing=missing)
    if not weight.any():
        return
    found, expected = column_moments(X, weight), column_moments(repeated(X, weight))
    assert found.weight == expected.weight
    close(found.observed, expected.observed)
    seen = expected.observed > 0
    close(found.mean[seen], expected.mean[seen], 1e-12)
    close(found.variance[seen], expected.variance[seen], 1e-9)
    dropped = column_moments(X[weight > 0], weight[weight > 0])
    close(dropped.mean[seen], found.mean[seen], 1e-12)
    halves = column_moments(X[:4], weight[:4]) + column_moments(X[4:], weight[4:])
    close(halves.mean[seen], found.mean[seen], 1e-12)
    close(halves.variance[seen], found.variance[seen], 1e-9)


@every_engine
@EXAMPLES
@given(problems())
def test_sums_and_summaries_of_weighted_rows_are_those_of_repeated_ones(name, problem):
    experts, rows = problem
    engine, rng = engine_named(name), np.random.default_rng(len(rows))
    weight = rng.integers(0, 5, len(rows)).astype(float)
    weight[0] += 1
    index = np.repeat(np.arange(len(rows)), weight.astype(int))
    found, expected = (
        accumulate(each, experts, make_rule(experts.n_experts), engine=engine)
        for each in (rows.weighing(weight), rows[index].weighing(None))
    )
    assert found.codes.n_rows == expected.codes.n_rows == weight.sum()
    close(found.codes.usage, expected.codes.usage)
    close(float(found.codes.log_likelihood), float(expected.codes.log_likelihood), 1e-5)
    close(float(found.codes.log_base), float(expected.codes.log_base), 1e-5)
    close(found.gradient.array, expected.gradient.array, 1e-4)
    close(found.responsibility.array, expected.responsibility.array, 1e-4)


@every_engine
@EXAMPLES
@given(problems(), st.sampled_from([0.5, 1 / 3, 1e-6, 1e6]))
def test_sums_are_proportional_to_weights(name, problem, factor):
    experts, rows = problem
    engine = engine_named(name)
    codes = pursue(engine, rows, experts, make_rule(experts.n_experts))
    weight = np.arange(1.0, len(rows) + 1)
    for operation in ("gradient_sums", "responsibility_sums"):
        sums = getattr(engine, operation)
        once = sums(rows.weighing(weight), experts, codes).array
        scaled = sums(rows.weighing(factor * weight), experts, codes).array
        close(scaled / factor, once, 1e-5)


# ------------------------------------------------------------------------------- a whole fit


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "real"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"learning": "paper"},
        {"n_init": 2},
        {"connectivity": grid_to_graph(2, 4)},
        {"n_active": 2},
        {"prior": "independent"},
        {"prior": None},
        pytest.param({"engine": "reference"}, id="reference", marks=pytest.mark.slow),
        pytest.param(
            {"engine": "reference", "learning": "paper"},
            id="reference-paper",
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda changes: "-".join(map(str, changes)) or "defaults",
)
def test_a_fit_of_weighted_rows_is_that_of_repeated_ones(binary, changes):
    X, weight = table(1, binary=binary)
    n_iter = 4 if "engine" in changes else 8
    settings = {"n_experts": 5, "max_iter": n_iter, "random_state": 0, **changes}
    model = DynamicPartitionModel(**settings).fit(X, sample_weight=weight)
    again = DynamicPartitionModel(**settings).fit(repeated(X, weight))
    assert_same_model(model, again, X)
    dropped = DynamicPartitionModel(**settings).fit(X[weight > 0], None, weight[weight > 0])
    assert_same_model(model, dropped, X)


def test_weights_may_be_a_list_of_integers():
    X, weight = table(1)
    settings = {"n_experts": 5, "max_iter": 4, "random_state": 0}
    model = DynamicPartitionModel(**settings).fit(X, sample_weight=weight)
    as_ints = DynamicPartitionModel(**settings).fit(X, sample_weight=weight.astype(int).tolist())
    assert_same_model(model, as_ints, X)


def test_weights_of_one_are_no_weights():
    X, _ = table(2)
    model = DynamicPartitionModel(4, max_iter=6, random_state=0).fit(X)
    other = DynamicPartitionModel(4, max_iter=6, random_state=0).fit(X, sample_weight=np.ones(40))
    assert_same_model(model, other, X)


def test_more_rows_than_are_drawn_at_once():
    """Enough for a drawn part of the rows to tell restarts apart, and to count activations."""
    X, weight = table(3, 60, missing=0.0)
    settings = {"n_experts": 3, "max_iter": 4, "random_state": 0, "learning": "paper"}
    heavy = 200 * weight
    model = DynamicPartitionModel(**settings).fit(X, sample_weight=heavy)
    again = DynamicPartitionModel(**settings).fit(repeated(X, heavy))
    assert heavy.sum() > 10_000
    assert_same_model(model, again, X, 1e-4)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "real"])
def test_a_stream_of_weighted_rows_is_that_of_repeated_ones(binary):
    settings = {"n_experts": 4, "max_iter": 4, "random_state": 0}
    model, again = DynamicPartitionModel(**settings), DynamicPartitionModel(**settings)
    for seed in range(6):
        X, weight = table(seed, binary=binary)
        model.partial_fit(X, sample_weight=weight)
        again.partial_fit(repeated(X, weight))
    assert_same_model(model, again, X, 1e-4)
    fitted = DynamicPartitionModel(**settings).fit(X, sample_weight=weight)
    refitted = DynamicPartitionModel(**settings).fit(repeated(X, weight))
    for seed in (7, 8):
        X, weight = table(seed, binary=binary)
        fitted.partial_fit(X, sample_weight=weight)
        refitted.partial_fit(repeated(X, weight))
    assert_same_model(fitted, refitted, X, 1e-4)


class Pairs:
    """Pairs of rows and weights, from end to end and again."""

    def __init__(self, parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "real"])
def test_blocks_of_weighted_rows_are_those_of_repeated_ones(binary):
    X, weight = table(4, binary=binary)
    weight[10:13] = 0.0
    cuts = [0, 10, 13, 30, 40]  # a block between them weighs nothing at all
    parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    blocks, weights = [X[part] for part in parts], [weight[part] for part in parts]
    settings = {"n_experts": 4, "max_iter": 3, "random_state": 0}
    again = DynamicPartitionModel(**settings).fit([repeated(X[p], weight[p]) for p in parts])
    pairs = list(zip(blocks, weights, strict=True))
    for source, weighing in (
        (blocks, weights),
        (blocks, [each.tolist() for each in weights]),
        (pairs, "paired"),
        (Pairs(pairs), "paired"),
        (Pairs(blocks), weights),
    ):
        model = DynamicPartitionModel(**settings).fit(source, sample_weight=weighing)
        assert_same_model(model, again, X)
    whole = DynamicPartitionModel(**settings).fit(X, sample_weight=weight)
    assert_same_model(model, whole, X)


def test_recounting_weighted_rows_is_recounting_repeated_ones():
    X, weight = table(5)
    model = DynamicPartitionModel(4, max_iter=4, random_state=0).fit(X)
    model.set_params(max_active=2)
    expected = model.recount(repeated(X, weight)).activation_probabilities_
    found = model.recount(X, sample_weight=weight).activation_probabilities_
    np.testing.assert_allclose(found, expected)
    blocks = model.recount([X[:9], X[9:]], sample_weight=[weight[:9], weight[9:]])
    np.testing.assert_allclose(blocks.activation_probabilities_, expected)


@examples(8)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_any_weights_give_a_sound_model(seed, binary):
    X, weight = table(seed, 12, binary=binary)
    rng = np.random.default_rng(seed)
    weight = np.where(weight > 0, weight * rng.lognormal(0, 2, 12), 0.0)
    X[0], weight[0] = np.nan_to_num(X[0]), 5.0
    model = DynamicPartitionModel(3, max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sample_weight=weight)
    for array in (model.means_, model.expertise_, model.score_samples(X)):
        assert np.isfinite(array).all()
    p = model.activation_probabilities_
    assert ((p > 0) & (p < 1)).all()


def test_a_draw_takes_rows_as_often_as_they_weigh():
    from dynpart.families import make_family
    from dynpart.learning import Task

    rng = np.random.default_rng(0)
    X = np.arange(5.0)[:, None]
    for weight in (np.array([1.0, 2, 0, 3, 4]), np.array([0.5, 1.25, 0, 2.0, 6.25])):
        kept = weight > 0
        rows = Rows(X[kept], weight[kept])
        moments = column_moments(rows.values, rows.weight)
        family = make_family("gaussian", moments)
        task = Task(ENGINES["cpu"], rows, moments, family, 2, 3, 1, 2, weight=rows.weight)
        drawn = task.draw(rng, 20_000, replace=True)
        assert drawn.weight is None
        counts = np.bincount(drawn.values[:, 0].astype(int), minlength=5)
        np.testing.assert_allclose(counts / 20_000, weight / weight.sum(), atol=0.02)
        few = [task.draw(rng, 4, replace=False) for _ in range(3000)]
        assert {each.weight.sum() for each in few} == {4.0}
        counts = sum(np.bincount(f.values[:, 0].astype(int), f.weight, minlength=5) for f in few)
        np.testing.assert_allclose(counts / 12_000, weight / weight.sum(), atol=0.02)
        assert task.draw(rng, 50, replace=False) is rows


# ------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (-np.ones(40), r"sample_weight must be finite and at least 0, found -1.0 in row 0"),
        (np.full(40, np.nan), "found nan in row 0"),
        (np.r_[np.ones(39), np.inf], r"found inf in row 39 \(counted from 0\)"),
        (np.ones(39), r"sample_weight must have shape \(40,\), one per row, got \(39,\)"),
        (np.ones((40, 1)), r"must have shape \(40,\)"),
        (3.0, r"must have shape \(40,\)"),
        (np.zeros(40), "sample_weight must not be zero in every row"),
        ("paired", "sample_weight must hold numbers, one per row"),
        (["owl"] * 40, "must hold numbers"),
        ([None] * 40, "must hold numbers|found nan"),
        (np.full(40, 1e300), r"sample_weight must sum to at most 2\^53, found 4e\+301: divide"),
        (np.full(40, 1.7e308), "sample_weight must sum to at most"),
        (np.ones(40, dtype=complex), "must hold numbers"),
        (np.ma.array(np.ones(40), mask=np.arange(40) == 3), "found nan in row 3"),
    ],
)
def test_weights_that_count_nothing_are_refused(weight, words):
    X, _ = table(0)
    fitted = DynamicPartitionModel(2, max_iter=2).fit(X)
    for call in (DynamicPartitionModel(2).fit, DynamicPartitionModel(2).partial_fit):
        with pytest.raises(ValueError, match=words):
            call(X, sample_weight=weight)
    with pytest.raises(ValueError, match=words):
        fitted.recount(X, sample_weight=weight)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(40), "sample_weight of a source must be 'paired' or the weights of each block"),
        ("pairs", "sample_weight of a source must be 'paired' or the weights of each block"),
        (3.0, "sample_weight of a source must be 'paired' or the weights of each block"),
        ([np.ones(20)], "sample_weight must have the weights of every block of X, has those of 1"),
        ([np.ones(20)] * 3, "sample_weight has the weights of 3 blocks, X has 2"),
        ([np.ones(20), np.ones(19)], r"sample_weight of block 1 must have shape \(20,\)"),
        ([np.ones(20), -np.ones(20)], "sample_weight of block 1 must be finite and at least 0"),
        ([np.zeros(20)] * 2, "no row with an observed value and a weight above 0"),
        ("paired", "block 0 of X must be a pair of rows and weights"),
    ],
)
def test_weights_of_blocks_that_count_nothing_are_refused(weight, words):
    X, _ = table(0)
    with pytest.raises(ValueError, match=words):
        DynamicPartitionModel(2).fit([X[:20], X[20:]], sample_weight=weight)


def test_blocks_of_empty_rows_are_no_table():
    empty = np.full((3, 4), np.nan)
    with pytest.raises(ValueError, match="no row with an observed value"):
        DynamicPartitionModel(2).fit([empty, empty])


# -------------------------------------------------------------------------------- small weights


def test_weights_that_sum_to_one_are_told_to_count_rows():
    """Weights count rows: a table that weighs one row is learnt as one row, with a warning."""
    X, weight = table(6)
    share = weight / weight.sum()
    words = r"weights sum to 1 over \d+ rows.*multiply"
    model = DynamicPartitionModel(3, max_iter=3, random_state=0)
    for source, weighing in ((X, share), ([X[:9], X[9:]], [share[:9], share[9:]])):
        with pytest.warns(UserWarning, match=words) as told:
            model.fit(source, sample_weight=weighing)
        assert sum("multiply" in str(each.message) for each in told) == 1
        assert np.isfinite(model.means_).all()
    with pytest.warns(UserWarning, match=words):
        DynamicPartitionModel(3, max_iter=3, random_state=0).partial_fit(X, sample_weight=share)


@pytest.mark.parametrize("factor", [0.11, 1.0, 100.0])
def test_weights_of_a_tenth_of_a_row_earn_no_warning(factor):
    X, _ = table(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        DynamicPartitionModel(3, max_iter=3, random_state=0).fit(
            X, sample_weight=np.full(40, factor)
        )


@every_engine
def test_weights_too_small_for_single_precision_still_count(name):
    rng = np.random.default_rng(0)
    engine, experts = engine_named(name), make_experts(rng)
    rows = make_rows(rng, experts, 6)
    codes = pursue(engine, rows, experts, make_rule(5))
    for operation in ("gradient_sums", "responsibility_sums"):
        sums = getattr(engine, operation)
        once = sums(rows, experts, codes).array
        tiny = sums(rows.weighing(np.full(6, 1e-30)), experts, codes).array
        close(1e30 * to_numpy(tiny), once, 1e-4)


# ------------------------------------------------------------------- what is not read from rows


def people(n_rows=40):
    """A table of several kinds, and weights, with a last row of weight 0 that is like no other."""
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(
        {
            "flag": rng.integers(0, 2, n_rows),
            "code": rng.choice([1, 2], n_rows),
            "size": np.round(rng.normal(size=n_rows), 2),
            "word": rng.choice(["red", "blue"], n_rows),
            "grade": rng.integers(0, 3, n_rows),
            "visits": rng.poisson(2, n_rows),
        }
    )
    odd = pandas.DataFrame([[2, 7, 1e6, "green", 9, -1.5]], columns=frame.columns)
    return pandas.concat([frame, odd], ignore_index=True), np.append(np.ones(n_rows), 0.0)


def of_people(**settings):
    columns = {"grade": "categorical", "visits": "count", **settings}
    return DynamicPartitionModel(2, max_iter=3, random_state=0, columns=columns)


@pytest.mark.parametrize(
    "hold", [lambda frame: frame, polars.from_pandas], ids=["pandas", "polars"]
)
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_kinds_levels_and_ranges_are_those_of_rows_with_weight(hold, learn):
    frame, weight = people()
    found = getattr(of_people(), learn)(hold(frame), sample_weight=weight)
    expected = getattr(of_people(), learn)(hold(frame[:-1]), sample_weight=weight[:-1])
    schema = expected.schema_
    assert schema.kinds == ("binary", "categorical", "real", "categorical", "categorical", "count")
    assert found.schema_.kinds == schema.kinds
    assert found.schema_.levels == schema.levels
    assert found.schema_.ranges == schema.ranges
    np.testing.assert_allclose(found.means_, expected.means_, rtol=1e-6)


def test_a_later_batch_may_hold_anything_in_rows_without_weight():
    frame, weight = people()
    model = of_people().partial_fit(frame[:-1]).partial_fit(frame, sample_weight=weight)
    assert model.n_iter_ == 2
    assert model.recount(frame, sample_weight=weight).schema_.levels_of(3) == ("blue", "red")


def test_an_array_with_kinds_takes_them_from_rows_with_weight():
    X, weight = np.array([[0, 1], [1, 2], [1, 1], [9, -3]] * 5), np.array([1.0, 1.0, 1.0, 0.0] * 5)
    model = DynamicPartitionModel(2, max_iter=2, columns=["binary", "count"], random_state=0)
    for container in (np.asarray, csr_array, lambda X: X.astype(np.uint8) % 200):
        found = model.fit(container(X), sample_weight=weight)
        assert found.schema_.kinds == ("binary", "count")


def test_errors_name_the_place_in_the_table_with_all_rows():
    frame, weight = people()
    frame = pandas.concat([frame, frame[:1].assign(visits=-2)], ignore_index=True)
    with pytest.raises(ValueError, match=r"X holds -2 in row 41 .*'visits'"):
        of_people().fit(frame, sample_weight=np.append(weight, 1.0))


def test_rows_without_weight_are_not_complained_about():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, np.nan]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        DynamicPartitionModel(1, max_iter=2).fit(X, sample_weight=[1.0, 1.0, 0.0])


@pytest.mark.parametrize("paired", [False, True])
def test_kinds_and_levels_of_blocks_are_those_of_rows_with_weight(paired):
    frame, weight = people()
    cuts = [(frame[:15], weight[:15]), (frame[15:], weight[15:])]
    blocks, weights = [block for block, _ in cuts], [own for _, own in cuts]
    source, given_weight = (cuts, "paired") if paired else (blocks, weights)
    found = of_people().fit(source, sample_weight=given_weight)
    kept = [(block[own > 0], own[own > 0]) for block, own in cuts]
    expected = of_people().fit(kept, sample_weight="paired")
    assert found.schema_ == expected.schema_
    np.testing.assert_allclose(found.means_, expected.means_, rtol=1e-6)
