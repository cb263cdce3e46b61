"""What only some models have also comes back: a graph, the data's moments, the adaptation."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.image import grid_to_graph

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.persistence import ModelFileError, load, save
from tests.persistence.conftest import PAIRS


def fitted(**options):
    return DynamicPartitionModel(4, max_iter=4, random_state=0, **options).fit(PAIRS)


@pytest.mark.parametrize("kind", [sparse.coo_matrix, sparse.csr_array, np.asarray])
def test_a_graph_over_the_variables_is_kept(tmp_path, kind):
    graph = grid_to_graph(2, 2, return_as=np.ndarray if kind is np.asarray else sparse.coo_matrix)
    model = fitted(connectivity=kind(graph))
    save(model, tmp_path / "m")
    back = load(tmp_path / "m")
    expected = graph if kind is np.asarray else graph.toarray()
    np.testing.assert_array_equal(back.connectivity.toarray(), expected)
    np.testing.assert_array_equal(back.fit(PAIRS).means_, model.means_)


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


@pytest.mark.parametrize(
    "value",
    [3, [], {"min_active": "x"}, {"min_active": 1, "trials": 3}, {"min_active": 1, "trials": [1]}],
)
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
    without = load(tmp_path / "m")
    del without._moments
    for one in (model, back, without):
        one.partial_fit(more)
    np.testing.assert_array_equal(back.means_, model.means_)
    assert not np.array_equal(without.means_, model.means_)
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


COUNTED = {
    "max_active": 2,
    "n_active": None,
    "prior": "auto",
    "activation_cost": 0.5,
    "criterion": "likelihood",
    "n_starts": 1,
    "n_swaps": 2,
    "prune": False,
}


def test_a_file_knows_with_which_parameters_activations_were_counted(tmp_path):
    X, path = make_pairs(2), tmp_path / "m"
    model = fitted(activation_cost=0.5)
    model.save(path)
    assert load(path).score(X) == model.score(X)
    model.set_params(n_swaps=0).save(path)
    back = load(path)
    assert back.n_swaps == 0
    with pytest.raises(ValueError, match=r"n_swaps=0 was set after .* n_swaps=None"):
        back.score(X)
    assert np.isfinite(back.set_params(n_swaps=None).score(X))


def test_a_file_without_a_word_on_counting_counted_with_its_parameters(tmp_path, forge):
    save(fitted(n_starts=3), tmp_path / "m")
    forge(tmp_path / "m", drop=("counted_with",))
    assert np.isfinite(load(tmp_path / "m").score(make_pairs(2)))


@pytest.mark.parametrize(
    "value",
    [
        3,
        {},
        {**COUNTED, "n_experts": 4},
        {**COUNTED, "max_active": 5},
        {**COUNTED, "max_active": 0},
        {**COUNTED, "activation_cost": "foo"},
        {**COUNTED, "prior": "foo"},
        {**COUNTED, "n_swaps": -1},
        {**COUNTED, "n_swaps": "all"},
        {**COUNTED, "n_starts": 0},
    ],
)
def test_a_forged_way_of_counting_is_refused(tmp_path, forge, value):
    save(fitted(), tmp_path / "m")
    forge(tmp_path / "m", meta={"counted_with": COUNTED})
    load(tmp_path / "m")
    forge(tmp_path / "m", meta={"counted_with": value})
    with pytest.raises(ModelFileError, match=r"counted|invalid parameters"):
        load(tmp_path / "m")


def prior_arrays(**changes):
    """A sound prior of two types, a tree and independent activations, with changes."""
    weight = np.log([0.25, 0.75])
    parent = np.array([[-1, 0, 1, -1], [-1] * 4])
    table = np.log(np.tile([0.3, 0.7], (2, 4, 2, 1)))
    table[0, 1] = np.log([[0.9, 0.1], [0.2, 0.8]])
    sound = {"log_weight": weight, "parent": parent, "log_table": table}
    return {f"prior.{name}": changes.get(name, array) for name, array in sound.items()}


SOUND = {name.removeprefix("prior."): array for name, array in prior_arrays().items()}


@pytest.mark.parametrize(
    "change",
    [
        {"log_weight": np.array(0.0)},
        {"log_weight": np.zeros(0)},
        {"log_weight": np.zeros((1, 2))},
        {"log_weight": np.log([0.5, 0.4])},
        {"log_weight": np.array([np.nan, 0.0])},
        {"log_weight": np.array([-np.inf, 0.0])},
        {"log_weight": np.array([0.0, -1e5])},
        {"log_weight": np.array([1.0, 0.0])},
        {"log_weight": SOUND["log_weight"].astype(np.float32)},
        {"log_weight": np.zeros(1)},
        {"parent": SOUND["parent"][:, :3].copy()},
        {"parent": SOUND["parent"] + 0.0},
        {"parent": np.full((2, 4), -2)},
        {"parent": np.full((2, 4), 4)},
        {"parent": np.full((2, 4), 2**62)},
        {"parent": np.array([[1, 0, -1, -1], [-1] * 4])},
        {"parent": np.array([[0, -1, -1, -1], [-1] * 4])},
        {"parent": np.full((2, 4), -1)},
        {"log_table": SOUND["log_table"][..., :1].copy()},
        {"log_table": np.zeros((2, 4, 2, 2))},
        {"log_table": np.full((2, 4, 2, 2), np.nan)},
        {"log_table": np.array(0.0)},
        {"log_table": SOUND["log_table"] * 2},
    ],
)
def test_a_forged_prior_is_refused(tmp_path, forge, change):
    path = tmp_path / "m"
    save(fitted(), path)
    forge(path, arrays=prior_arrays())
    np.testing.assert_array_equal(load(path).prior_.parent, SOUND["parent"])
    forge(path, arrays=prior_arrays(**change))
    with pytest.raises(ModelFileError, match="holds an invalid prior over codes"):
        load(path)


@pytest.mark.parametrize("name", ["log_weight", "parent", "log_table"])
def test_a_part_of_a_prior_is_refused(tmp_path, forge, name):
    save(fitted(), tmp_path / "m")
    forge(tmp_path / "m", arrays=prior_arrays())
    forge(tmp_path / "m", drop=(f"prior.{name}",))
    with pytest.raises(ModelFileError, match="holds an invalid prior over codes"):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    "value",
    [
        3,
        "a name",
        ["a name"],
        {"4": "one too many"},
        {"-1": "the last"},
        {"1.0": "a number"},
        {"01": "padded"},
        {"": "nobody"},
        {"1" * 5000: "far away"},
        {"0": 3},
        {"0": ["a"]},
        {"0": ""},
        {"0": "   "},
        {"0": "two\nlines"},
        {"0": "\x1b[2J"},
        {"0": "\ud800"},
        {"0": "a" * 100_000},
        {"0": "twins", "1": "twins"},
    ],
)
def test_forged_names_of_experts_are_refused(tmp_path, forge, value):
    save(fitted(), tmp_path / "m")
    forge(tmp_path / "m", meta={"expert_names": {"3": "given"}})
    assert load(tmp_path / "m").expert_names_[3] == "given"
    forge(tmp_path / "m", meta={"expert_names": value})
    with pytest.raises(ModelFileError, match="holds invalid names of experts"):
        load(tmp_path / "m")


def test_what_cannot_be_restored_is_said_where_load_was_called(tmp_path):
    save(fitted().set_params(random_state=np.random.RandomState(0)), tmp_path / "m")
    with pytest.warns(UserWarning, match="random_state.*cannot be restored") as said:
        load(tmp_path / "m")
    assert [warning.filename for warning in said] == [__file__]


TRIED = {"n_experts": 4, "nats": -3.0, "error": 0.0, "mean_active": 2.0}
JUDGEMENTS = {
    "selection": {
        "n_experts": 4,
        "tried": [TRIED],
        "columns": -4.0,
        "mixture": None,
        "n_rows": 16,
        "n_held_back": 4,
        "n_largest": 12,
        "n_turns": 1,
    },
    "stability": {
        "n_bootstraps": 3,
        "found": [3, 3, 2, 0],
        "agreement": [1.0, 0.9, 0.7, 0.1],
        "always_on": [0],
        "duplicates": [[1, 3]],
    },
    "baseline": {"nats": -3.0, "columns": -4.0, "n_rows": 20},
}


@pytest.mark.parametrize("entry", JUDGEMENTS)
def test_judgements_are_kept(tmp_path, forge, entry):
    save(fitted(), tmp_path / "m")
    forge(tmp_path / "m", meta={entry: JUDGEMENTS[entry]})
    back = load(tmp_path / "m")
    found = getattr(back, f"{entry}_")
    save(back, tmp_path / "again")
    assert getattr(load(tmp_path / "again"), f"{entry}_") == found


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        ("selection", {"n_experts": 5}),
        ("selection", {"tried": []}),
        ("selection", {"tried": [{"n_experts": 4}]}),
        ("selection", {"tried": [TRIED | {"density": "x", "density_error": 0.0}]}),
        ("selection", {"tried": [TRIED | {"density": -3.0}]}),
        ("selection", {"tried": [TRIED | {"density": -3.0, "density_error": -1.0}]}),
        ("selection", {"columns": "x"}),
        ("selection", {"n_rows": -1}),
        ("selection", {"more": 1}),
        ("stability", {"found": [3, 3, 2]}),
        ("stability", {"found": [9, 0, 0, 0]}),
        ("stability", {"agreement": [2, 0, 0, 0]}),
        ("stability", {"duplicates": [[3, 1]]}),
        ("stability", {"always_on": [4]}),
        ("stability", {"n_bootstraps": 0}),
        ("baseline", {"nats": None}),
        ("baseline", {"n_rows": 0}),
    ],
)
def test_forged_judgements_are_refused(tmp_path, forge, entry, change):
    save(fitted(), tmp_path / "m")
    forge(tmp_path / "m", meta={entry: JUDGEMENTS[entry] | change})
    with pytest.raises(ModelFileError, match=entry):
        load(tmp_path / "m")


@pytest.mark.parametrize("entry", JUDGEMENTS)
def test_what_is_no_judgement_is_refused(tmp_path, forge, entry):
    save(fitted(), tmp_path / "m")
    for value in (3, [], "x"):
        forge(tmp_path / "m", meta={entry: value})
        with pytest.raises(ModelFileError, match=entry):
            load(tmp_path / "m")
