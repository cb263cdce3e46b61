"""Every baseline: the common interface, and that each recovers what it should on tiny data."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

from dynpart.baselines import (
    Autoencoder,
    BoltzmannMachine,
    ComposedPursuit,
    DynamicPartition,
    FixedPartition,
    KMeansCodes,
    Mixture,
    PrincipalComponents,
    SparseDictionary,
    autoencoder,
    block_cells,
    grid_cells,
)
from dynpart.comparison.scores import bars_separated
from dynpart.datasets import make_bars, make_pairs, pairs_recovered

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

MODELS = [
    BoltzmannMachine(6, learning_rate=0.1, n_updates=200, random_state=0),
    SparseDictionary(6, n_active=3, random_state=0),
    PrincipalComponents(6, max_active=3),
    Mixture(6, random_state=0),
    KMeansCodes(6, random_state=0),
    FixedPartition(6, n_active=3, random_state=0),
    FixedPartition(6, n_active=3, cell_model="k-means", random_state=0),
    DynamicPartition(6, settings={"max_iter": 5}, random_state=0),
    *(ComposedPursuit(6, rule=rule, random_state=0) for rule in ("max", "max-min", "equal")),
    ComposedPursuit(6, rule="log-odds", mean_active=2, random_state=0),
    pytest.param(Autoencoder(6, n_updates=100, random_state=0), marks=needs_torch),
]


def wrong(model, X):
    return float(((model.decode(model.encode(X)) > 0.5) != X).mean())


@pytest.mark.parametrize("model", MODELS, ids=lambda m: str(m)[:30])
def test_interface(model):
    X = make_pairs(4)[::2]
    model = clone(model).fit(X)
    codes = model.encode(X)
    n_units = len(model.templates)
    assert codes.shape == (len(X), n_units)
    assert model.templates.shape == (n_units, 8)
    assert np.array_equal(codes, model.transform(X))
    decoded = model.decode(codes)
    assert decoded.shape == X.shape
    assert np.isfinite(decoded).all()
    if model.binary_codes:
        assert set(np.unique(codes)) <= {0, 1}
        assert decoded.min() >= 0
        assert decoded.max() <= 1
    if not model.refit_for_rate:
        assert (np.count_nonzero(model.encode(X, max_active=2), axis=1) <= 2).all()
    if model.groups_ is not None:
        for group in np.unique(model.groups_):
            assert (codes[:, model.groups_ == group].sum(axis=1) == 1).all()
    with pytest.raises(ValueError, match="one column per unit"):
        model.decode(np.ones((2, n_units + 1)))
    again = clone(model).fit(X)
    assert np.allclose(again.templates, model.templates)


@pytest.mark.parametrize("seed", range(3))
def test_the_max_rule_finds_all_bars(seed):
    X = make_bars(5, 1000, random_state=seed)
    model = ComposedPursuit(12, rule="max", batch_size=200, random_state=seed).fit(X)
    assert bars_separated(model.templates).all()
    assert wrong(model, X) < 1e-3


def test_the_max_min_rule_and_the_dictionary_reconstruct_pairs():
    X = make_pairs(5)
    for rule in ("max-min", "log-odds"):
        assert wrong(ComposedPursuit(10, rule=rule, random_state=0).fit(X), X) == 0


def test_equal_mixture_with_one_active_unit_is_a_clustering():
    X = np.repeat(np.eye(4, dtype=np.uint8), 20, axis=0)
    model = ComposedPursuit(4, rule="equal", max_active=1, random_state=1).fit(X)
    assert (model.encode(X).sum(axis=1) == 1).all()
    assert wrong(model, X) <= 0.125


def test_the_dictionarys_penalty_follows_the_wanted_number_of_atoms():
    X = make_bars(5, 500, random_state=0)
    few = ComposedPursuit(12, rule="log-odds", mean_active=1.5, random_state=0).fit(X)
    assert few.cost_ > 0
    assert few.encode(X).sum(axis=1).mean() == pytest.approx(1.5, abs=0.3)


def test_fixed_partition_with_the_true_cells_finds_all_pairs():
    X = make_pairs(5)
    model = FixedPartition(10, cells=np.repeat(np.arange(5), 2), random_state=0).fit(X)
    assert pairs_recovered(model.templates).all()
    assert wrong(model, X) == 0


def test_fixed_partition_refuses_more_cells_than_units():
    with pytest.raises(ValueError, match="n_components=2"):
        FixedPartition(2, n_active=3).fit(make_pairs(3))


def test_grid_cells_are_rectangles_of_about_equal_size():
    cells = grid_cells((28, 28), 12)
    sizes = np.bincount(cells)
    assert len(sizes) == 12
    assert sizes.max() <= 1.3 * sizes.min()
    for cell in range(12):
        rows, columns = np.divmod(np.flatnonzero(cells == cell), 28)
        assert sizes[cell] == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    assert block_cells(10, 5).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_mixture_recovers_components_and_gives_their_likelihood():
    rng = np.random.RandomState(0)
    truth = np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]])
    X = (rng.uniform(size=(3000, 4)) < truth[rng.randint(2, size=3000)]).astype(np.uint8)
    model = Mixture(2, random_state=0).fit(X)
    order = model.means_[:, 0].argsort()[::-1]
    assert np.allclose(model.means_[order], truth, atol=0.04)
    p = np.where(X[:5, None] == 1, model.means_, 1 - model.means_).prod(axis=2)
    assert np.allclose(model.score_samples(X[:5]), np.log(p @ model.weights_), atol=1e-4)


def test_mixture_of_gaussians_separates_gray_clusters():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.normal(0, 0.1, (50, 3)), rng.normal(3, 0.1, (50, 3))])
    model = Mixture(2, random_state=0).fit(X)
    assert np.abs(model.decode(model.encode(X)) - X).max() < 1
    assert not model.binary_


def test_principal_components_keep_the_first_coefficients():
    X = np.random.RandomState(0).normal(size=(30, 5))
    model = PrincipalComponents(5).fit(X)
    assert np.allclose(model.decode(model.encode(X)), X)
    assert (model.encode(X, 2)[:, 2:] == 0).all()


def test_sparse_dictionary_uses_so_many_atoms():
    X = make_bars(5, 300, random_state=0)
    model = SparseDictionary(12, n_active=3, random_state=0).fit(X)
    assert np.count_nonzero(model.encode(X), axis=1).max() <= 3
    assert wrong(model, X) < 0.08


def test_boltzmann_machine_tunes_its_rate_and_reconstructs():
    X = np.repeat(make_pairs(3), 10, axis=0)
    model = BoltzmannMachine(6, n_updates=1500, random_state=0).fit(X)
    assert model.learning_rate_ in (0.3, 0.1, 0.03, 0.01)
    assert wrong(model, X) < 0.1
    with pytest.raises(ValueError, match="must be binary"):
        BoltzmannMachine(2).fit(np.random.RandomState(0).normal(size=(9, 3)))


@needs_torch
@pytest.mark.parametrize("kind", ["plain", "denoising", "sparse"])
def test_autoencoders_reconstruct_pairs(kind):
    X = make_pairs(4)
    model = Autoencoder(8, kind=kind, n_active=4, n_updates=1500, random_state=0).fit(X)
    codes = model.encode(X)
    assert codes.min() >= 0
    assert codes.max() <= 1
    assert wrong(model, X) < 0.05


@needs_torch
def test_the_sparse_autoencoder_is_sparser():
    X = make_bars(5, 500, random_state=0)
    plain = Autoencoder(12, n_updates=1000, random_state=0).fit(X)
    sparse = Autoencoder(12, kind="sparse", n_active=2, n_updates=1000, random_state=0).fit(X)
    assert sparse.encode(X).mean() < 0.6 * plain.encode(X).mean()
    assert sparse.encode(X).mean() == pytest.approx(2 / 12, abs=0.1)


def test_without_torch_the_message_is_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'dynpart\[gpu\]'") as error:
        autoencoder.require_torch()
    assert "\n" not in str(error.value)


def test_our_model_behind_the_interface_obeys_the_limit():
    X = make_pairs(5)
    model = DynamicPartition(10, random_state=0).fit(X)
    assert model.encode(X, max_active=3).sum(axis=1).max() <= 3
    assert model.owners(model.encode(X)).shape == X.shape
    assert model.model_.max_active is None


def test_unknown_settings_are_refused():
    for model, word in (
        (ComposedPursuit(rule="sum"), "rule"),
        (FixedPartition(cell_model="tree"), "cell_model"),
        (Autoencoder(kind="deep"), "kind"),
    ):
        with pytest.raises(ValueError, match=word):
            model.fit(make_pairs(5))


def test_ours_keeps_to_exactly_so_many_where_it_was_told_so():
    X = make_pairs(4)
    model = DynamicPartition(8, settings={"max_iter": 5, "n_active": 3}, random_state=0).fit(X)
    assert (model.encode(X, 3).sum(axis=1) == 3).all()
    assert model.encode(X, 2).sum(axis=1).max() <= 2
