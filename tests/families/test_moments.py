"""Column moments and extraordinary scales: constants are constants, units do not matter."""

import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynpart import DynamicPartitionModel
from dynpart.families import ColumnMoments, Gaussian, column_moments, make_family
from dynpart.families._gaussian import TAIL
from dynpart.rows import Rows
from dynpart.validation import checked_moments
from tests.effort import examples

finite = st.floats(-1e100, 1e100, allow_subnormal=False)


@given(finite, st.integers(1, 300), st.lists(st.integers(1, 299), max_size=3))
def test_a_constant_column_has_no_variance_whatever_its_value(value, n_rows, cuts):
    X = np.full((n_rows, 2), value)
    X[:, 1] = np.arange(n_rows)
    edges = sorted({0, n_rows, *(cut for cut in cuts if cut < n_rows)})
    blocks = [X[a:b] for a, b in pairwise(edges)]
    moments = column_moments(blocks[0])
    for block in blocks[1:]:
        moments = moments + column_moments(block)
    assert moments.mean[0] == value
    assert moments.variance[0] == 0
    assert (moments.variance[1] > 0) == (n_rows > 1)


@given(arrays(np.float64, st.tuples(st.integers(2, 20), st.integers(1, 4)), elements=finite))
def test_only_constants_have_no_variance(X):
    half = len(X) // 2
    with np.errstate(over="ignore"):
        for moments in (column_moments(X), column_moments(X[:half]) + column_moments(X[half:])):
            np.testing.assert_array_equal(moments.variance == 0, (X[0] == X).all(axis=0))


def test_constants_of_tensors_are_constants():
    torch = pytest.importorskip("torch")
    X = torch.full((1000, 2), 3.7, dtype=torch.float64)
    X[0, 1] = 4
    moments = column_moments(X)
    assert float(moments.variance[0]) == 0 < float(moments.variance[1])
    assert float(moments.mean[0]) == 3.7


def _sources(X):
    yield "table", X
    yield "blocks", [X[:7], X[7:11], X[11:]]
    torch = pytest.importorskip("torch")
    yield "tensor", torch.as_tensor(X)


@pytest.mark.parametrize("value", [3.7, 0.1, -1e10 / 3, 1e-30])
@pytest.mark.parametrize("n_rows", [50, 1000])
def test_a_table_of_constants_has_a_sensible_score(value, n_rows):
    """A variance of rounding errors would make every row extremely unlikely."""
    X = np.full((n_rows, 3), value)
    for name, source in _sources(X):
        model = DynamicPartitionModel(1, max_iter=3, random_state=0).fit(source)
        expected = 3 * (np.log1p(-TAIL) - 0.5 * np.log(2 * np.pi))
        assert model.score(X) == pytest.approx(expected), name
        np.testing.assert_allclose(model.means_, value, err_msg=name)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_constant_beside_columns_that_vary_is_harmless():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 4)), rng.normal(4, 1, (50, 4))])
    wider = np.column_stack([X, np.full(100, 3.7)])
    options = {"family": "gaussian", "max_iter": 8, "random_state": 0}
    model, other = (DynamicPartitionModel(2, **options).fit(x) for x in (X, wider))
    assert np.isfinite(other.score(wider))
    # Codes are chosen by one variance, 4/5 of the one without the constant.
    assert other.family_.yardstick == pytest.approx(0.8 * model.family_.yardstick)
    # The constant costs what its own variance says.
    H = other.transform(wider)
    off = np.zeros(wider.shape)  # one standard deviation
    off[:, 4] = np.sqrt(other.variances_[other.partition(H)[:, 4], 4])
    own = other.log_likelihood(wider, H)
    np.testing.assert_allclose(other.log_likelihood(wider + off, H), own - 0.5)


def parts():
    """Rows of two halves, each of which is high or low."""
    rng = np.random.default_rng(0)
    high = rng.integers(0, 2, (80, 2)).repeat(4, axis=1)
    return 3.0 * high + rng.normal(size=(80, 8))


@cache
def model_of_parts(engine, scale=1.0):
    device = {"device": "cpu"} if engine == "torch" else {}
    model = DynamicPartitionModel(4, max_iter=8, random_state=0, engine=engine, **device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the estimate for unseen rows has no unit either
        return model.fit(scale * parts())


@pytest.mark.parametrize(
    ("engine", "scale"),
    [("cpu", scale) for scale in (1e-138, 1e-100, 1e-30, 1e-7, 1e7, 1e30, 1e100, 1e148)]
    + [pytest.param("reference", scale, marks=pytest.mark.slow) for scale in (1e-138, 1e148)]
    + [("torch", scale) for scale in (1e-138, 1e148)],
)
def test_units_do_not_matter(engine, scale):
    if engine == "torch":
        pytest.importorskip("torch")
    X, model, other = parts(), model_of_parts(engine), model_of_parts(engine, scale)
    H = model.transform(X)
    np.testing.assert_array_equal(other.transform(scale * X), H)
    jacobian = X.shape[1] * np.log(scale)
    expected = model.log_likelihood(X, H) - jacobian
    np.testing.assert_allclose(other.log_likelihood(scale * X, H), expected, rtol=1e-6)
    assert other.score(scale * X) == pytest.approx(model.score(X) - jacobian, rel=1e-6)
    np.testing.assert_allclose(other.means_, scale * model.means_, rtol=1e-6)
    np.testing.assert_allclose(other.variances_ / scale / scale, model.variances_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@examples(10)
@given(st.integers(-130, 140), st.floats(-50, 50), st.booleans())
def test_scale_and_shift_do_not_matter(power, shift, negative):
    X = parts()
    factor = (-1.0 if negative else 1.0) * 2.0 ** (3 * power)
    moved = factor * X + factor * shift
    model, other = (
        DynamicPartitionModel(3, max_iter=6, random_state=0, learning="paper").fit(rows)
        for rows in (X, moved)
    )
    if not negative:  # the random start knows up from down
        np.testing.assert_array_equal(other.transform(moved), model.transform(X))
    assert (other.transform(moved).sum(axis=1) >= 1).all()
    assert np.isfinite(other.score(moved))


@pytest.mark.parametrize("scale", [1e-170, 1e-145])
def test_differences_too_small_to_square_are_named(scale):
    X = np.ones((6, 3))
    X[:, :2] = 0
    X[:, 1] = scale * np.arange(6)
    for _, source in _sources(np.vstack([X, X])):
        with pytest.raises(ValueError, match=r"too small to square \(column 1 .*; rescale"):
            DynamicPartitionModel(2).fit(source)


@pytest.mark.parametrize("scale", [1e151, 1e200, 1e300])
def test_values_too_large_to_square_are_named(scale):
    X = np.ones((12, 3))
    X[:, 2] = scale * np.arange(12)
    words = r"too large to square \(column 2 \(counted from 0\)\); rescale"
    for _, source in _sources(X):
        with pytest.raises(ValueError, match=words):
            DynamicPartitionModel(2).fit(source)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_narrow_column_beside_a_wide_one_is_no_error():
    X = np.column_stack([1e-200 * np.arange(9), np.arange(9.0)])
    assert isinstance(checked_moments(Rows(X)), ColumnMoments)
    model = DynamicPartitionModel(2, max_iter=4, random_state=0).fit(X)
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("engine", ["cpu", pytest.param("reference", marks=pytest.mark.slow)])
@pytest.mark.parametrize("value", [-1e20, 1e160, 1e300])
def test_unseen_values_without_a_density_are_named(value, engine):
    X = parts()
    model = DynamicPartitionModel(4, max_iter=4, random_state=0, engine=engine).fit(X)
    far = X[:4].copy()
    far[2, 5] = value
    for method in (model.transform, model.score_samples):
        with pytest.raises(ValueError, match=r"X must hold .* row 2, column 5 .*units"):
            method(far)
    far[2, 5] = 1e12
    assert (model.transform(far).sum(axis=1) >= 1).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from([-300, -90, 0, 90, 300]))
def test_a_unit_is_a_matter_of_units_alone(seed, power):
    """Densities, opinions and averages in another unit, where squares of squares overflow."""
    rng, scale = np.random.default_rng(seed), 2.0**power
    X = rng.normal(5, 2, (9, 3))
    plain = Gaussian.for_data(column_moments(X), variance_floor=0.1)
    moments = column_moments(scale * X)
    family = make_family("gaussian", moments, variance_floor=0.1)
    assert (family.unit == 1) == (power == 0)
    mean, variance = rng.normal(5, 2, (2, 3)), rng.uniform(0.01, 3, (2, 3))
    eta = family.from_moments(scale * mean, scale * variance * scale)
    kept = plain.from_moments(mean, variance)
    np.testing.assert_allclose(family.mean(eta), scale * mean, rtol=1e-12)
    np.testing.assert_allclose(
        family.variance(eta) / scale / scale, plain.variance(kept), rtol=1e-10
    )
    lower = family.as_density(moments)
    assert (lower.unit, lower.floor) == (family.unit, pytest.approx(family.floor / 10))
    density = family.log_density((scale * X)[:, None], eta[:, None])
    expected = plain.log_density(X[:, None], kept[:, None])
    np.testing.assert_allclose(density, expected - power * np.log(2), rtol=1e-9, atol=1e-9)
    population = family.population(moments)
    np.testing.assert_allclose(family.mean(population), moments.mean, rtol=1e-12)
    np.testing.assert_allclose(family.variance(population), moments.variance, rtol=1e-9)
    drawn = family.draw(eta, np.random.RandomState(0))
    np.testing.assert_allclose(drawn, scale * plain.draw(kept, np.random.RandomState(0)))
