"""What only some models have also comes back: a graph, the data's moments, the adaptation."""

import inspect

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.image import grid_to_graph

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.persistence import ModelFileError, load, save

HAS_GRAPH = "connectivity" in inspect.signature(DynamicPartitionModel).parameters
needs_graph = pytest.mark.skipif(not HAS_GRAPH, reason="models take no graph yet")


def fitted(**options):
    return DynamicPartitionModel(4, max_iter=4, random_state=0, **options).fit(make_pairs(2))


@needs_graph
@pytest.mark.parametrize("kind", [sparse.coo_matrix, sparse.csr_array, np.asarray])
def test_a_graph_over_the_variables_is_kept(tmp_path, kind):
    graph = grid_to_graph(2, 2, return_as=np.ndarray if kind is np.asarray else sparse.coo_matrix)
    model = fitted(connectivity=kind(graph))
    save(model, tmp_path / "m")
    back = load(tmp_path / "m")
    expected = graph if kind is np.asarray else graph.toarray()
    np.testing.assert_array_equal(back.connectivity.toarray(), expected)
    np.testing.assert_array_equal(back.fit(make_pairs(2)).means_, model.means_)


@needs_graph
def test_a_forged_graph_is_refused(tmp_path, forge):
    path = tmp_path / "m"
    for change in (
        {"connectivity.row": np.array([9])},
        {"connectivity.row": np.array([-1])},
        {"connectivity.row": np.array([0.5])},
        {"connectivity.weight": np.array([np.nan])},
        {"connectivity.weight": np.ones(2)},
        {"connectivity.column": np.ones((1, 1), dtype=np.int64)},
    ):
        save(fitted(connectivity=sparse.coo_matrix(([1.0], ([0], [1])), shape=(4, 4))), path)
        forge(path, arrays=change)
        with pytest.raises(ModelFileError, match="graph"):
            load(path)


def test_the_adaptation_is_kept(tmp_path):
    model = fitted()
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").adaptation_ == model.adaptation_


@pytest.mark.parametrize("value", [3, [], {"floor": "x"}, {"contenders": 3}, {"contenders": [1]}])
def test_a_forged_adaptation_is_refused(tmp_path, forge, value):
    save(fitted(), tmp_path / "m")
    forge(tmp_path / "m", meta={"adaptation": value})
    with pytest.raises(ModelFileError, match="adaptation"):
        load(tmp_path / "m")


def test_moments_let_learning_go_on_as_it_would_have(tmp_path):
    X, more = make_pairs(2), make_pairs(2)[::2]
    model = fitted()
    save(model, tmp_path / "m")
    back = load(tmp_path / "m")
    np.testing.assert_array_equal(back._moments.mean, model._moments.mean)
    model.partial_fit(more)
    back.partial_fit(more)
    np.testing.assert_array_equal(back.means_, model.means_)
    np.testing.assert_array_equal(back.transform(X), model.transform(X))


@pytest.mark.parametrize(
    "value", [None, 3, {"n_rows": 0, "is_binary": True}, {"n_rows": 4, "is_binary": 1}]
)
def test_forged_moments_are_refused(tmp_path, forge, value):
    save(fitted(), tmp_path / "m")
    moments = {"moments.mean": np.ones(4), "moments.variance": np.ones(4)}
    forge(tmp_path / "m", meta={"moments": value}, arrays=moments)
    with pytest.raises(ModelFileError, match="moments"):
        load(tmp_path / "m")
