"""Sparse matrices: the same table as a dense one, in every method and without a dense copy."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from dynpart import DynamicPartitionModel, sparse
from dynpart.datasets import make_pairs
from dynpart.sources import is_source
from tests.effort import examples

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def model_of(**changes):
    """A model that is quickly fitted: what is tried here is how rows come in."""
    told = {"max_iter": 2, "learning": "paper", "n_swaps": 0, "random_state": 0, **changes}
    return DynamicPartitionModel(3, **told)


@pytest.fixture
def in_blocks(monkeypatch):
    """Matrices count as large, and are cut into blocks of a few rows."""
    monkeypatch.setattr(sparse, "WHOLE_VALUES", 60)
    monkeypatch.setattr(sparse, "BLOCK_VALUES", 64)


@st.composite
def tables(draw):
    """A dense table, the same one sparse, and weights or None."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(2, 12)), draw(st.integers(1, 6))
    dense = rng.binomial(draw(st.sampled_from([1, 4])), 0.4, shape)
    kind = draw(st.sampled_from([np.uint8, np.int64, np.float32, np.float64, np.bool_]))
    dense = dense.astype(kind)
    if draw(st.booleans()) and dense.dtype.kind == "f":
        dense[1:][rng.random((shape[0] - 1, shape[1])) < 0.1] = np.nan
    container = draw(st.sampled_from([sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix]))
    weight = rng.integers(1, 4, shape[0]).astype(float) if draw(st.booleans()) else None
    return dense, container(dense), weight


@examples(25)
@given(tables(), st.sampled_from(["auto", "gaussian"]))
def test_a_small_matrix_is_a_table_bit_for_bit(problem, family):
    dense, X, weight = problem
    before = X.copy()
    expected = model_of(family=family).fit(dense, sample_weight=weight)
    found = model_of(family=family).fit(X, sample_weight=weight)
    for name in ("means_", "expertise_", "activation_probabilities_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.transform(X), expected.transform(dense))
    np.testing.assert_array_equal(found.score_samples(X), expected.score_samples(dense))
    assert found.score(X, sample_weight=weight) == expected.score(dense, sample_weight=weight)
    assert type(X) is type(before)
    np.testing.assert_array_equal(X.toarray(), before.toarray())


def large(*, counts=False, gaps=False):
    rng = np.random.default_rng(1)
    dense = make_pairs(5)[rng.integers(0, 32, 90)].astype(float)
    if counts:
        dense = rng.poisson(1 + 4 * dense).astype(float)
    if gaps:
        dense[rng.random(dense.shape) < 0.1] = np.nan
        dense[7] = np.nan
    return dense, rng.integers(0, 3, 90).astype(float)


@pytest.mark.filterwarnings("ignore:.* no observed value:UserWarning")
@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("counts", [False, True], ids=["binary", "counts"])
@pytest.mark.parametrize("learning", [pytest.param("annealed", marks=pytest.mark.slow), "paper"])
def test_a_large_matrix_teaches_what_the_table_teaches(in_blocks, counts, weighted, gaps, learning):
    dense, weight = large(counts=counts, gaps=gaps)
    weight = weight if weighted else None
    X = sp.csc_array(dense)
    assert is_source(X)
    expected = model_of(learning=learning).fit(dense, sample_weight=weight)
    found = model_of(learning=learning).fit(X, sample_weight=weight)
    np.testing.assert_allclose(found.means_, expected.means_, atol=1e-4)
    np.testing.assert_allclose(
        found.activation_probabilities_, expected.activation_probabilities_, atol=1e-6
    )
    H = expected.transform(dense)
    np.testing.assert_array_equal(expected.transform(X), H)
    np.testing.assert_allclose(expected.score_samples(X), expected.score_samples(dense), rtol=1e-6)
    np.testing.assert_allclose(expected.log_likelihood(X, H), expected.log_likelihood(dense, H))
    np.testing.assert_array_equal(expected.pursue(X).order, expected.pursue(dense).order)
    assert expected.score(X, sample_weight=weight) == pytest.approx(
        expected.score(dense, sample_weight=weight)
    )
    again = expected.activation_probabilities_
    counted = expected.recount(X, sample_weight=weight).activation_probabilities_
    np.testing.assert_allclose(counted, again, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.* no observed value:UserWarning")
@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
def test_a_stream_takes_sparse_batches(in_blocks, gaps):
    dense, weight = large(gaps=gaps)
    expected, found = model_of(), model_of()
    for _ in range(3):
        expected.partial_fit(dense, sample_weight=weight)
        found.partial_fit(sp.coo_array(dense), sample_weight=weight)
    np.testing.assert_allclose(found.means_, expected.means_, atol=1e-4)
    fitted = model_of().fit(sp.csr_array(dense), sample_weight=weight)
    fitted.partial_fit(sp.csr_array(dense))
    assert fitted.n_iter_ == 1


@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_only_a_stored_nan_is_a_gap(container):
    dense, _ = large()
    model = model_of().fit(container(dense))
    gappy = dense.copy()
    gappy[2, [0, 1]] = np.nan
    X = container(gappy)
    found = model.impute(X)
    assert type(found) is type(X)
    np.testing.assert_array_equal(found.toarray(), model.impute(gappy))
    assert np.isnan(X.toarray()).sum() == 2
    np.testing.assert_array_equal(model.impute(container(dense)).toarray(), dense)


def test_places_stored_twice_are_added_and_the_matrix_stays_as_it_is():
    twice = sp.csr_array((np.ones(4), np.array([0, 0, 1, 2]), np.array([0, 2, 3, 4])), shape=(3, 3))
    assert sparse.as_csr(twice).toarray().tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert twice.nnz == 4
    assert sparse.as_csr(sp.csr_array(np.eye(2))).dtype == np.uint8


@pytest.mark.parametrize("blocks", [False, True], ids=["small", "large"])
def test_errors_say_where(blocks, request):
    if blocks:
        request.getfixturevalue("in_blocks")
    dense, weight = large()
    model = model_of()

    def broken(value, kind=float):
        X = sp.lil_array(dense.astype(kind))
        X[60, 4] = value
        return X.tocsc()

    for X, told, words in (
        (broken(np.inf), {}, "X contains infinity in row 60, column 4"),
        (broken(2**53 + 1, np.int64), {}, "the integer 9007199254740993 in row 60, column 4"),
        (broken(1j, complex), {}, "Complex data not supported"),
        (sp.coo_array(np.ones(3)), {}, "must be a table with rows and columns"),
        (broken(1), {"sample_weight": weight[1:]}, r"sample_weight must have shape \(90,\)"),
        (broken(1), {"sample_weight": 0 * weight}, "sample_weight must not be zero in every row"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(X, **told)
    with pytest.raises(ValueError, match=r"X(\[60:66\])? .*found 2"):
        model_of(family="bernoulli").fit(broken(2))
    model.fit(broken(1))
    with pytest.raises(ValueError, match="features"):
        model.transform(broken(1)[:, 1:])
    with pytest.raises(ValueError, match="X and H must have as many rows"):
        model.log_likelihood(broken(1), np.ones((89, 3)))


def test_a_checkpoint_knows_a_sparse_matrix_again(in_blocks, tmp_path):
    dense, weight = large()
    path = tmp_path / "fit.checkpoint"
    X = sp.csr_array(dense)
    first = model_of().fit(X, sample_weight=weight, checkpoint=path, every=0)
    again = model_of().fit(X, sample_weight=weight, checkpoint=path, every=0)
    np.testing.assert_array_equal(first.means_, again.means_)
    with pytest.raises(ValueError, match="another run"):
        model_of().fit(X[::-1], sample_weight=weight[::-1], checkpoint=path)


def test_encoders_of_categories_lead_into_a_model():
    rng = np.random.default_rng(0)
    words = np.array(["a", "b", "c"])[rng.integers(0, 3, (60, 4))]
    columns = ColumnTransformer([("words", OneHotEncoder(), [0, 1, 2, 3])], sparse_threshold=1.0)
    for encoder in (OneHotEncoder(), columns):
        assert sp.issparse(encoder.fit_transform(words))
        chain = make_pipeline(encoder, model_of()).fit(words)
        assert chain[-1].family_.name == "bernoulli"
        assert chain.transform(words).shape == (60, 3)


MEMORY = """
import re
import numpy as np, scipy.sparse as sp
from dynpart import DynamicPartitionModel

def memory(which):
    return int(re.search(which + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

def matrix(n_rows, n_columns, rng):
    width = n_columns // 50
    columns = rng.integers(0, width, (n_rows, 50)) + width * np.arange(50)
    starts = np.arange(0, 50 * n_rows + 1, 50)
    return sp.csr_array((np.ones(50 * n_rows), columns.ravel(), starts), (n_rows, n_columns))

def fit(X):
    model = DynamicPartitionModel(2, max_iter=2, learning="paper", n_swaps=0, random_state=0)
    return model.fit(X)

rng = np.random.default_rng(0)
fit(matrix(200, 400, rng))  # compiled code is no part of what is measured
X = matrix(20_000, 20_000, rng)
before = memory("VmRSS")
fit(X).score(X[:100])
print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.slow
def test_no_dense_copy_of_a_large_matrix_is_made():
    """400 MB as bytes; what the fit takes beside the matrix is a quarter of that at most."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEMORY], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 100
