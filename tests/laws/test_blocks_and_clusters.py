"""Blocks and clusters obey the laws of missing values and weights, as one table does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.engines import make_engine
from dynpart.engines.blocks import BlockRows, BlocksEngine
from dynpart.learning import Annealed
from dynpart.pursuits import pursue
from dynpart.sources import cut
from tests.effort import examples
from tests.strategies import make_rule, problems

INNER = make_engine("cpu")
ENGINE = BlocksEngine(INNER)
BLOCK = 40


@examples(30)
@given(problems(), st.integers(1, 8))
def test_blocks_of_gaps_and_weights_add_up_to_the_whole(problem, n_rows):
    experts, rows = problem
    parts = [rows[start : start + n_rows] for start in range(0, len(rows), n_rows)]
    blocks, _ = BlockRows.scan(parts, lambda block, index: block)
    rule = make_rule(experts.n_experts, n_swaps=10)
    codes, whole = pursue(ENGINE, blocks, experts, rule), pursue(INNER, rows, experts, rule)
    found, expected = codes.summary(experts.n_experts), whole.summary(experts.n_experts)
    assert found.n_rows == expected.n_rows
    np.testing.assert_array_equal(found.usage, expected.usage)
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-5, atol=1e-5)
    for operation in ("gradient_sums", "responsibility_sums"):
        added = getattr(ENGINE, operation)(blocks, experts, codes).array
        exact = getattr(INNER, operation)(rows, experts, whole).array
        scale = np.abs(exact).max()
        np.testing.assert_allclose(added, exact, rtol=1e-4, atol=1e-5 * scale + 1e-12)


# ---------------------------------------------------------------------------------- a cluster


def table():
    rng = np.random.default_rng(0)
    X = make_pairs(5)[rng.integers(0, 32, 200)].astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.integers(0, 3, 200).astype(float)
    weight[BLOCK : 2 * BLOCK] = 0  # a chunk that weighs nothing
    X[[3, 150]] = np.nan
    return X, weight


@pytest.fixture(scope="module")
def da():
    distributed = pytest.importorskip("distributed")
    arrays = pytest.importorskip("dask.array")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield arrays


def model_of():
    return DynamicPartitionModel(10, max_iter=3, learning=Annealed(min_active=5), random_state=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* no observed value:UserWarning")
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_a_cluster_learns_from_gaps_and_weights_what_blocks_teach(da, weighted):
    X, weight = table()
    chunks = da.from_array(X, chunks=(BLOCK, -1))
    weighing = {}, {}
    if weighted:
        weighing = (
            {"sample_weight": da.from_array(weight, chunks=BLOCK)},
            {"sample_weight": cut(weight, BLOCK)},
        )
    assert weight[3] > 0
    assert weight[150] == 0
    words = "1 row has no observed value" if weighted else "2 rows have no observed value"
    with pytest.warns(UserWarning, match=words) as told:
        model = model_of().fit(chunks, **weighing[0])
    assert sum(words in str(each.message) for each in told) == 1
    with pytest.warns(UserWarning, match=words):
        of_blocks = model_of().fit(cut(X, BLOCK), **weighing[1])
    np.testing.assert_array_equal(model.means_, of_blocks.means_)
    np.testing.assert_array_equal(model.expertise_, of_blocks.expertise_)
    np.testing.assert_array_equal(
        model.activation_probabilities_, of_blocks.activation_probabilities_
    )
    np.testing.assert_array_equal(model.transform(chunks).compute(), of_blocks.transform(X))


def test_a_cluster_refuses_what_blocks_refuse(da):
    X, weight = table()
    chunks, weights = da.from_array(X, chunks=(BLOCK, -1)), da.from_array(weight, chunks=BLOCK)
    unseen = X.copy()
    unseen[:, 4] = np.nan
    for source, weighing, words in (
        (da.from_array(unseen, chunks=(BLOCK, -1)), None, "no observed value in column 4"),
        (0 * chunks + np.nan, None, "no row with an observed value and a weight above 0"),
        (chunks, 0 * weights, "no row with an observed value and a weight above 0"),
        (chunks, -weights, "sample_weight of block . must be finite and at least 0"),
        (chunks, weights.rechunk(50), "sample_weight must be chunked as the rows of X are"),
        (chunks, weights[:80], "sample_weight must be chunked as the rows of X are"),
        (chunks, weight, "sample_weight of a Dask array must be a Dask array"),
        (chunks, "paired", "sample_weight of a Dask array must be a Dask array"),
    ):
        with pytest.raises(ValueError, match=words):
            model_of().fit(source, sample_weight=weighing)
