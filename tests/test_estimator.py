"""The estimator: scikit-learn's checks, the public contract, clear errors, edge cases."""

import copy
import multiprocessing
import pickle
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from dynpart import DynamicPartitionModel, load
from dynpart.datasets import make_bars, make_pairs, pairs_recovered
from dynpart.learning import Annealed, Paper

# The checks fit tiny and noisy tables, for which a warning is right and not their concern.
quietly = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def expected_to_fail(estimator):
    reason = "the default plan draws rows at random, and the check puts them in another order"
    names = ["check_sample_weight_equivalence_on_dense_data"]
    names.append("check_sample_weight_equivalence_on_sparse_data")
    return dict.fromkeys(names, reason) if estimator.learning == "annealed" else {}


@quietly
@parametrize_with_checks(
    [
        DynamicPartitionModel(3, max_iter=4),
        DynamicPartitionModel(3, learning="paper", n_swaps=0),
    ],
    expected_failed_checks=expected_to_fail,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@quietly
@parametrize_with_checks(
    [DynamicPartitionModel(), DynamicPartitionModel(n_experts=3, n_active=2)],
    expected_failed_checks=expected_to_fail,
)
def test_scikit_learn_conventions_in_full(estimator, check):
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
    prior = model.log_prior(H)
    # the pursuit sums terms in single precision
    np.testing.assert_allclose(model.score_samples(X), conditional + prior, rtol=1e-5, atol=1e-4)
    assert model.score(X) == pytest.approx((conditional + prior).mean(), rel=1e-5)

    story = model.pursue(X)
    for row in range(n):
        order = story.order[row][story.order[row] >= 0]
        assert set(order) == set(np.flatnonzero(H[row]))
        path = story.log_likelihood[row, : len(order)]
        assert path[-1] == pytest.approx(conditional[row])
        assert np.isnan(story.log_likelihood[row, len(order) :]).all()
    # Where codes are chosen by other variances than those of the densities, these may fall.
    if model.family_.shared_variance is None:
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


@pytest.mark.slow
def test_n_init_keeps_the_best_by_penalised_likelihood(grey):
    def explained(n_init, seed):
        model = DynamicPartitionModel(
            6, n_init=n_init, max_iter=2, random_state=seed, variance_floor=1.0
        ).fit(grey)
        return model.log_likelihood(grey, model.transform(grey)).mean()

    single = np.array([explained(1, seed) for seed in range(4)])
    best = np.array([explained(4, seed) for seed in range(4)])
    assert (best >= single).all()  # the first start is among the four
    assert (best > single).sum() >= 2


def test_limits_hold_in_learning_and_encoding(grey):
    def counted(**limit):
        model = DynamicPartitionModel(6, prior=None, random_state=0, max_iter=5, **limit).fit(grey)
        active = [record.mean_active for record in model.history_]
        return model.transform(grey).sum(axis=1), active

    free, few, three = counted(), counted(max_active=2), counted(n_active=3)
    assert free[0].min() < 3 < free[0].max()
    assert few[0].max() == 2
    assert 1 < max(few[1]) <= 2
    assert (three[0] == 3).all()
    assert three[1] == [3.0] * len(three[1])


def test_encoding_options_trade_experts_for_nats(grey):
    model = DynamicPartitionModel(12, prior=None, random_state=0, max_iter=8).fit(grey)

    def encoded(**changes):
        H = copy.copy(model).set_params(**changes).recount(grey).transform(grey)
        return H.sum(), model.log_likelihood(grey, H)

    n_active, explained = encoded()
    greedy, refined = encoded(n_swaps=0)[1], encoded(n_starts=1)[1]
    assert (refined >= greedy - 0.02).all()
    assert refined.mean() > greedy.mean()
    # by default every expert of such a small model begins once
    assert explained.mean() > refined.mean()
    np.testing.assert_array_equal(explained, encoded(n_starts=12)[1])
    assert encoded(n_swaps=0, prune=True)[0] < encoded(n_swaps=0)[0]
    assert encoded(prior="independent")[0] < n_active
    assert encoded(prior="auto")[0] < n_active
    assert encoded(activation_cost=1e9)[0] == len(grey)


@pytest.mark.slow
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
    usage = fitted.transform(X).sum(axis=0)
    np.testing.assert_allclose(fitted.activation_probabilities_, (usage + 0.5) / (len(X) + 1))


@pytest.mark.slow
def test_how_often_experts_are_active_is_counted_in_some_of_many_rows():
    X = make_bars(3, 24_000, random_state=0)
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


# Two or three iterations are too few to end well, and enough to see each update.
@pytest.mark.filterwarnings("ignore:independent columns")
def test_paper_mode_runs_the_literal_updates(pairs):
    model = DynamicPartitionModel(10, learning="paper", prior=None, max_iter=3, random_state=0).fit(
        pairs
    )
    before = DynamicPartitionModel(
        10, learning="paper", prior=None, max_iter=2, random_state=0
    ).fit(pairs)
    octaves = np.log2(model.expertise_ / before.expertise_)
    # a sign update moves every level by a whole octave, up or down; ties are broken by less
    np.testing.assert_allclose(np.abs(octaves), 1, atol=1e-5)
    assert -0.9 < np.sign(octaves).mean() < 0.9
    assert all(record.n_rows == 32 for record in model.history_)
    again = DynamicPartitionModel(10, learning=Paper(), prior=None, max_iter=3, random_state=0).fit(
        pairs
    )
    np.testing.assert_array_equal(model.means_, again.means_)


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({"family": "bernoulli"}, [[0, 1], [2, 1]], "X must be binary"),
        ({}, [[0.0, np.nan], [1.0, np.nan]], "X has no observed value in column 1"),
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


# Such data deserve warnings; here it is the numbers that must stay finite.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
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
        flags = np.isin(X, (0, 1)).all(axis=0) & (learning == "annealed")
        mean = np.where(flags, (X.sum(axis=0) + 0.5) / (len(X) + 1), X.mean(axis=0))
        np.testing.assert_allclose(model.means_[0], mean, atol=1e-3)


def test_more_experts_than_rows_leaves_dead_ones_harmless(pairs):
    model = DynamicPartitionModel(12, max_iter=5, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"more experts \(12\) than rows \(3\)"):
        model.fit(pairs[:3])
    assert np.isfinite(model.means_).all()
    assert (model.activation_probabilities_ > 0).all()
    back = model.inverse_transform(model.transform(pairs[:3]))
    np.testing.assert_array_equal(back > 0.5, pairs[:3])


def test_a_warning_points_at_the_call_of_fit(pairs):
    with pytest.warns(ConvergenceWarning) as caught:
        DynamicPartitionModel(4, max_iter=2, random_state=0).fit(np.tile(pairs[:1], (20, 1)))
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.slow
def test_threads_change_no_result_and_progress_changes_no_code(
    grey, grey_model, capsys, monkeypatch
):
    # so few rows would be left to one thread
    monkeypatch.setattr("dynpart.threads.SHARED_TERMS", 1)
    monkeypatch.setattr("dynpart.threads.TASK_TERMS", 1 << 12)
    for n_jobs in (1, 2, 5):
        model = DynamicPartitionModel(8, random_state=0, max_iter=10, n_jobs=n_jobs).fit(grey)
        np.testing.assert_array_equal(model.means_, grey_model.means_)
        np.testing.assert_array_equal(model.transform(grey), grey_model.transform(grey))
    watched = model.set_params(verbose=1).transform(grey)
    assert "Encoding" in capsys.readouterr().err
    np.testing.assert_array_equal(watched, grey_model.transform(grey))
    with pytest.raises(ValueError, match="n_jobs"):
        DynamicPartitionModel(n_jobs=0).fit(grey)


def codes_of_a_fit(X, n_jobs):
    model = DynamicPartitionModel(8, random_state=0, max_iter=3, n_jobs=n_jobs).fit(X)
    return model.transform(X), model.score_samples(X)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "spawn", "fork"])
def test_fits_side_by_side_give_the_same_codes(kind, grey, monkeypatch):
    """In threads and processes, also in those forked while threads of ours are there."""
    monkeypatch.setattr("dynpart.threads.SHARED_TERMS", 1)
    codes, scores = codes_of_a_fit(grey, 2)
    if kind == "threads":
        pool = ThreadPoolExecutor(3)
    elif kind in multiprocessing.get_all_start_methods():
        pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(kind))
    else:
        pytest.skip(f"this system cannot {kind}")
    with pool:
        futures = [pool.submit(codes_of_a_fit, grey, n_jobs) for n_jobs in (1, 2, 3)]
        for future in futures:
            found = future.result(timeout=120)
            np.testing.assert_array_equal(found[0], codes)
            np.testing.assert_array_equal(found[1], scores)


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
    said = capsys.readouterr().err
    done, total = re.findall(r"(\d+)/(\d+)", said)[-1]
    assert done == total == str(model.n_iter_)
    bits = -model.history_[-1].joint / np.log(2)
    assert re.findall(r"objective (\S+),", said.replace("\n", " "))[-1] == f"{bits:.1f}"
    assert "bits a row" not in said


def test_a_refit_at_another_width_forgets_the_shape_of_images():
    X = np.tile(make_pairs(4), (5, 1))
    model = DynamicPartitionModel(4, max_iter=10, random_state=0).fit(X)
    model.image_shape_ = (2, 4)
    assert model.fit(X).image_shape_ == (2, 4)
    assert not hasattr(model.fit(X[:, :6]), "image_shape_")
