"""The estimator: scikit-learn's checks, the public contract, clear errors, edge cases."""

import copy
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from dynpart import DynamicPartitionModel, load
from dynpart.datasets import make_bars, make_pairs, pairs_recovered
from dynpart.learning import Annealed, Paper


@parametrize_with_checks([DynamicPartitionModel(), DynamicPartitionModel(n_experts=3, n_active=2)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(5)


@pytest.fixture(scope="module")
def pairs_model(pairs):
    return DynamicPartitionModel(10, random_state=0).fit(pairs)


@pytest.fixture(scope="module")
def grey():
    return load_digits().data[:200] / 16.0


@pytest.fixture(scope="module")
def grey_model(grey):
    return DynamicPartitionModel(8, random_state=0, max_iter=10).fit(grey)


def test_pairs_are_recovered_and_reconstructed(pairs, pairs_model):
    H = pairs_model.transform(pairs)
    assert pairs_recovered(pairs_model.means_).all()
    np.testing.assert_array_equal(pairs_model.inverse_transform(H) > 0.5, pairs)
    np.testing.assert_array_equal(H.sum(axis=1), 5)


@pytest.mark.parametrize("name", ["pairs", "grey"])
def test_contract_shapes_and_numbers(name, request):
    X, model = request.getfixturevalue(name), request.getfixturevalue(f"{name}_model")
    n, D, K = *X.shape, model.n_experts
    H = model.transform(X)
    assert H.shape == (n, K)
    assert set(np.unique(H)) <= {0, 1}
    assert model.means_.shape == model.expertise_.shape == (K, D)
    assert hasattr(model, "variances_") == (model.family_.name == "gaussian")
    assert (model.expertise_ > 0).all()
    assert model.activation_probabilities_.shape == (K,)
    assert model.objective_history_.shape == (model.n_iter_,)
    assert model.n_features_in_ == D

    owner = model.partition(H)
    assert owner.shape == X.shape
    assert (np.take_along_axis(H, owner, axis=1) == 1).all()
    np.testing.assert_array_equal(
        model.inverse_transform(H), np.take_along_axis(model.means_, owner, axis=0)
    )
    conditional = model.log_likelihood(X, H)
    p = model.activation_probabilities_
    prior = (H * np.log(p) + (1 - H) * np.log(1 - p)).sum(axis=1)
    np.testing.assert_allclose(model.score_samples(X), conditional + prior, rtol=1e-10)
    assert model.score(X) == pytest.approx((conditional + prior).mean())

    story = model.pursue(X)
    for row in range(n):
        order = story.order[row][story.order[row] >= 0]
        assert set(order) == set(np.flatnonzero(H[row]))
        path = story.log_likelihood[row, : len(order)]
        assert path[-1] == pytest.approx(conditional[row])
        assert np.isnan(story.log_likelihood[row, len(order) :]).all()
    greedy = copy.copy(model).set_params(n_swaps=0).pursue(X)
    for path in greedy.log_likelihood:
        assert (np.diff(path[~np.isnan(path)]) > 0).all()

    drawn = model.sample(7, random_state=0)
    assert drawn.shape == (7, D)
    np.testing.assert_array_equal(drawn, model.sample(7, random_state=0))
    assert np.isfinite(model.score_samples(drawn)).all()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_binary_data_of_any_kind_give_the_same_model(pairs, pairs_model, dtype):
    model = DynamicPartitionModel(10, random_state=0).fit(pairs.astype(dtype))
    np.testing.assert_array_equal(model.means_, pairs_model.means_)
    assert model.family_.name == "bernoulli"


def test_read_only_and_memory_mapped_input(tmp_path, pairs, pairs_model):
    frozen = pairs.copy()
    frozen.setflags(write=False)
    np.save(tmp_path / "rows.npy", pairs)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for rows in (frozen, mapped):
        model = DynamicPartitionModel(10, random_state=0).fit(rows)
        np.testing.assert_array_equal(model.expertise_, pairs_model.expertise_)
        np.testing.assert_array_equal(model.transform(rows), pairs_model.transform(pairs))


def test_data_frames_keep_names_and_come_back(pairs):
    names = [f"item {d}" for d in range(10)]
    frame = pd.DataFrame(pairs, columns=names)
    model = DynamicPartitionModel(4, random_state=0, max_iter=4).set_output(transform="pandas")
    codes = model.fit_transform(frame)
    assert list(codes.columns) == list(model.get_feature_names_out())
    assert list(model.feature_names_in_) == names
    model.set_output(transform="polars")
    assert isinstance(model.transform(pl.DataFrame(pairs, schema=names)), pl.DataFrame)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"item 0": "other"}))


def test_pickle_and_clone(pairs, pairs_model):
    again = pickle.loads(pickle.dumps(pairs_model))
    np.testing.assert_array_equal(again.transform(pairs), pairs_model.transform(pairs))
    assert clone(pairs_model).get_params() == pairs_model.get_params()


def test_n_init_keeps_the_best_by_penalised_likelihood(pairs):
    found = [
        pairs_recovered(
            DynamicPartitionModel(10, n_init=5, max_iter=8, random_state=seed).fit(pairs).means_
        ).sum()
        for seed in range(6)
    ]
    single = [
        pairs_recovered(
            DynamicPartitionModel(10, max_iter=8, random_state=seed).fit(pairs).means_
        ).sum()
        for seed in range(6)
    ]
    assert np.mean(found) >= np.mean(single)


@pytest.mark.parametrize("limit", [{"max_active": 2}, {"n_active": 3}])
def test_limits_hold_in_encoding(grey, limit):
    model = DynamicPartitionModel(6, random_state=0, max_iter=5, **limit).fit(grey)
    counts = model.transform(grey).sum(axis=1)
    if "n_active" in limit:
        assert (counts == 3).all()
    else:
        assert counts.max() <= 2
    assert max(record.mean_active for record in model.history_) <= 3


def test_encoding_options_trade_experts_for_nats(grey):
    plain = DynamicPartitionModel(12, random_state=0, max_iter=8).fit(grey)
    costly = clone(plain).set_params(activation_cost="prior").fit(grey)
    swapped = clone(plain).set_params(n_swaps=2).fit(grey)
    restarted = clone(plain).set_params(n_starts=3).fit(grey)
    assert costly.transform(grey).sum() <= plain.transform(grey).sum()
    explained = plain.log_likelihood(grey, plain.transform(grey))
    assert swapped.log_likelihood(grey, swapped.transform(grey)).mean() >= explained.mean()
    assert (restarted.log_likelihood(grey, restarted.transform(grey)) >= explained - 1e-3).all()
    assert clone(plain).set_params(activation_cost=1e9).fit(grey).transform(grey).sum() == len(grey)


@pytest.mark.parametrize("binary", [False, True])
def test_codes_for_reconstruction_reconstruct_better_and_explain_less(grey, binary):
    X = (grey > np.median(grey)).astype(np.uint8) if binary else grey
    model = DynamicPartitionModel(
        12, max_active=4, variance_floor=0.05, random_state=0, max_iter=8
    ).fit(X)

    def measured(criterion):
        model.set_params(criterion=criterion, n_starts=4, n_swaps=2)
        H = model.transform(X)
        found = model.inverse_transform(H)
        error = ((found > 0.5) != X).mean() if binary else ((found - X) ** 2).mean()
        return error, model.log_likelihood(X, H).mean()

    error, explained = measured("likelihood")
    less_error, less_explained = measured("reconstruction")
    assert less_error < error
    assert less_explained < explained
    # the prior is that of the codes that are used
    fitted = clone(model).fit(X)
    usage = np.clip(fitted.transform(X).mean(axis=0), 1e-9, None)
    assert np.corrcoef(fitted.activation_probabilities_, usage)[0, 1] > 0.999


def test_how_often_experts_are_active_is_counted_in_some_of_many_rows():
    X = make_bars(3, 12_000, random_state=0)
    model = DynamicPartitionModel(6, max_iter=6, random_state=0).fit(X)
    often, found = model.transform(X).mean(axis=0), model.activation_probabilities_
    assert not np.allclose(found, often, atol=1e-4)
    np.testing.assert_allclose(found, often, atol=0.02)


def test_random_state_decides_everything(grey):
    a, b, c = (
        DynamicPartitionModel(5, max_iter=3, random_state=seed).fit(grey).means_
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_paper_mode_runs_the_literal_updates(pairs):
    model = DynamicPartitionModel(10, learning="paper", max_iter=3, random_state=0).fit(pairs)
    octaves = np.log2(model.expertise_)
    # a sign update moves by whole octaves from a start within one octave of 1
    assert np.abs(octaves).max() <= 4
    assert all(record.n_rows == 32 for record in model.history_)
    again = DynamicPartitionModel(10, learning=Paper(), max_iter=3, random_state=0).fit(pairs)
    np.testing.assert_array_equal(model.means_, again.means_)


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({"family": "bernoulli"}, [[0, 1], [2, 1]], "X must be binary"),
        ({}, [[0.0, np.nan]], "X contains NaN"),
        ({}, [[0.0, np.inf]], "X contains infinity"),
        ({}, np.empty((0, 3)), "0 sample"),
        ({"n_experts": 0}, [[0, 1]], "n_experts"),
        ({"n_experts": 2.5}, [[0, 1]], "n_experts"),
        ({"max_active": 11}, [[0, 1]], "max_active must be at most n_experts=10"),
        ({"n_active": 11}, [[0, 1]], "n_active must be at most n_experts=10"),
        ({"n_active": 2, "max_active": 3}, [[0, 1]], "exclude each other"),
        ({"family": "poisson"}, [[0, 1]], "family"),
        ({"engine": "abacus"}, [[0, 1]], "engine"),
        ({"learning": "by heart"}, [[0, 1]], "learning"),
        ({"max_iter": 0}, [[0, 1]], "max_iter"),
        ({"variance_floor": 0.0}, [[0, 1]], "variance_floor"),
        ({}, [[1e200], [-1e200]], "too large to square"),
    ],
)
def test_bad_input_is_named(params, X, message):
    with pytest.raises(ValueError, match=message):
        DynamicPartitionModel(**params).fit(np.asarray(X))


def test_bad_input_after_fitting_is_named(pairs, pairs_model):
    with pytest.raises(ValueError, match="10 features"):
        pairs_model.transform(pairs[:, :4])
    with pytest.raises(ValueError, match="binary"):
        pairs_model.transform(pairs + 1)
    with pytest.raises(ValueError, match=r"one column per expert \(10\), found 3"):
        pairs_model.inverse_transform(np.ones((2, 3)))
    with pytest.raises(ValueError, match="H must hold only 0 and 1"):
        pairs_model.inverse_transform(np.full((2, 10), 2))
    with pytest.raises(ValueError, match="none in row 1"):
        pairs_model.partition(np.eye(10)[:2] * [[1], [0]])
    with pytest.raises(ValueError, match="as many rows"):
        pairs_model.log_likelihood(pairs, np.ones((3, 10)))
    with pytest.raises(ValueError, match="n_samples"):
        pairs_model.sample(0)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0, 0.0, 1.0]]),  # one row
        np.array([[0.0], [1.0], [1.0]]),  # one variable
        np.ones((5, 3)),  # constant columns
        np.tile([[0.2, 0.9]], (6, 1)),  # duplicate rows, no variance at all
        np.c_[np.zeros(8), np.arange(8.0)],  # one constant, one varying column
    ],
)
@pytest.mark.parametrize("n_experts", [1, 4])
@pytest.mark.parametrize("learning", ["annealed", "paper"])
def test_degenerate_data_give_finite_models(X, n_experts, learning):
    model = DynamicPartitionModel(n_experts, max_iter=5, learning=learning, random_state=0)
    H = model.fit_transform(X)
    assert (H.sum(axis=1) >= 1).all()
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.score_samples(X)).all()
    if n_experts == 1:
        np.testing.assert_allclose(model.means_[0], X.mean(axis=0), atol=2e-3)


def test_more_experts_than_rows_leaves_dead_ones_harmless(pairs):
    model = DynamicPartitionModel(12, max_iter=5, random_state=0).fit(pairs[:3])
    assert np.isfinite(model.means_).all()
    assert (model.activation_probabilities_ > 0).all()
    assert (model.inverse_transform(model.transform(pairs[:3])) > 0.5).shape == (3, 10)


def test_threads_change_no_result_and_progress_changes_no_code(grey, grey_model, capsys):
    for n_jobs in (1, 2, -1):
        model = DynamicPartitionModel(8, random_state=0, max_iter=10, n_jobs=n_jobs).fit(grey)
        np.testing.assert_array_equal(model.means_, grey_model.means_)
    watched = model.set_params(verbose=1).transform(grey)
    assert "Encoding" in capsys.readouterr().err
    np.testing.assert_array_equal(watched, grey_model.transform(grey))
    with pytest.raises(ValueError, match="n_jobs"):
        DynamicPartitionModel(n_jobs=0).fit(grey)


def test_a_saved_model_comes_back(tmp_path, grey, grey_model):
    path = tmp_path / "grey.dynpart"
    grey_model.save(path)
    again = load(path)
    np.testing.assert_array_equal(again.transform(grey), grey_model.transform(grey))
    np.testing.assert_array_equal(again.score_samples(grey), grey_model.score_samples(grey))
    with pytest.raises(FileExistsError):
        grey_model.save(path, overwrite=False)


def test_a_checkpoint_is_taken_up_to_the_last_bit(tmp_path, grey, grey_model):
    path = tmp_path / "fit.checkpoint"

    class Interrupted(Exception):
        pass

    class Stopping(Annealed):
        def expertise_change(self, evidence, n_rows):
            nonlocal left
            left -= 1
            if left == 0:
                raise Interrupted
            return super().expertise_change(evidence, n_rows)

        def __repr__(self):
            return "Stopping()"

    left = 150
    model = DynamicPartitionModel(8, random_state=0, max_iter=10, learning=Stopping())
    with pytest.raises(Interrupted):
        model.fit(grey, checkpoint=path, every=0)
    model.fit(grey, checkpoint=path, every=0)
    np.testing.assert_array_equal(model.means_, grey_model.means_)
    np.testing.assert_array_equal(model.expertise_, grey_model.expertise_)
    assert model.history_ == grey_model.history_


def test_a_fit_that_settles_early_fills_its_bar(capsys):
    model = DynamicPartitionModel(10, random_state=0, verbose=1).fit(make_pairs(5))
    assert model.n_iter_ < model.max_iter
    done, total = re.findall(r"(\d+)/(\d+)", capsys.readouterr().err)[-1]
    assert done == total == str(model.n_iter_)
