"""Real-valued activations in the estimator: learning, decoding, samples, files, refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynpart import DynamicPartitionModel, load
from dynpart.datasets import make_pairs

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def loud_parts(n_rows=300, seed=0):
    """Two parts of ten variables, each with one of two shapes, its own gain and offset."""
    rng = np.random.default_rng(seed)
    shapes = rng.normal(0, 1, (2, 2, 10))
    kind = rng.integers(0, 2, (n_rows, 2))
    parts = [
        rng.uniform(0.3, 2, (n_rows, 1)) * shapes[part, kind[:, part]]
        + rng.normal(0, 1, (n_rows, 1))
        for part in range(2)
    ]
    return np.concatenate(parts, axis=1) + rng.normal(0, 0.05, (n_rows, 20))


@pytest.fixture(scope="module")
def models():
    X = loud_parts()
    return {
        mode: DynamicPartitionModel(
            4, family="gaussian", amplitude=mode, max_iter=15, random_state=0
        ).fit(X)
        for mode in (None, "offset", "gain")
    }


def error(model, X):
    H = model.transform(X)
    return np.sqrt(((model.inverse_transform(H, model.amplitudes(X, H)) - X) ** 2).mean())


def test_each_amplitude_explains_more_of_unseen_rows(models):
    X = loud_parts(seed=0)[:100]
    binary, offset, gain = (error(models[mode], X) for mode in (None, "offset", "gain"))
    assert gain < offset < binary
    assert gain < binary / 2
    # With the same variance for all; a model without amplitudes may choose others.
    plain = DynamicPartitionModel(**models[None].get_params() | {"variance_floor": 1.0})
    assert models["gain"].score(X) > plain.fit(loud_parts()).score(X)


def test_amplitudes_are_one_and_zero_where_nothing_varies(models):
    X = loud_parts()[:20]
    H = models["gain"].transform(X).astype(bool)
    told = models["gain"].amplitudes(X)
    assert told.shape == (20, 4, 2)
    assert_array_equal(told[~H], np.broadcast_to([1.0, 0.0], told[~H].shape))
    assert (np.abs(told[H] - [1, 0]) > 1e-6).all(axis=1).any()
    assert_array_equal(models["offset"].amplitudes(X)[..., 0], 1)
    plain = models[None].amplitudes(X)
    assert_array_equal(plain, np.broadcast_to([1.0, 0.0], plain.shape))


def test_without_amplitudes_decoding_composes_opinions_as_they_are(models):
    H = models["gain"].transform(loud_parts()[:5])
    neutral = np.broadcast_to([1.0, 0.0], (5, 4, 2))
    composed = models["gain"].inverse_transform(H)
    assert_allclose(models["gain"].inverse_transform(H, neutral), composed)


def test_scores_are_likelihoods_of_the_codes(models):
    X = loud_parts()[:30]
    model = models["gain"]
    H = model.transform(X)
    expected = model.log_likelihood(X, H) + model.log_prior(H)
    assert_allclose(model.score_samples(X), expected, rtol=1e-6)
    story = model.pursue(X)
    last = np.nanmax(np.where(story.order >= 0, np.arange(story.order.shape[1]), -1), axis=1)
    assert_allclose(story.log_likelihood[np.arange(30), last], model.log_likelihood(X, H))


def test_samples_vary_in_gain_and_offset(models):
    drawn = {mode: models[mode].sample(2000, random_state=0) for mode in (None, "gain")}
    spread = {mode: X[:, :10].mean(axis=1).std() for mode, X in drawn.items()}
    assert spread["gain"] > spread[None]


def test_files_keep_the_option_and_what_it_means(models, tmp_path):
    model, X = models["gain"], loud_parts()[:20]
    model.save(tmp_path / "loud.dynpart")
    again = load(tmp_path / "loud.dynpart")
    assert again.amplitude == "gain"
    assert_array_equal(again.transform(X), model.transform(X))
    assert_array_equal(again.amplitudes(X), model.amplitudes(X))
    assert_allclose(again.score(X), model.score(X))


@pytest.mark.slow
def test_engines_blocks_and_gaps_learn_the_same():
    X = loud_parts(120)
    X[::7, 3] = np.nan

    def fitted(rows, engine):
        model = DynamicPartitionModel(
            3, amplitude="gain", learning="paper", max_iter=3, engine=engine, random_state=0
        )
        return model.fit(rows).means_

    expected = fitted(X, "reference")
    assert_allclose(fitted(X, "cpu"), expected, atol=1e-6)
    assert_allclose(fitted([X[:50], X[50:]], "cpu"), expected, atol=1e-6)
    pytest.importorskip("torch")
    assert_allclose(fitted(X, "torch"), expected, atol=1e-6)


def test_resumed_fits_end_the_same(tmp_path):
    X, path = loud_parts(80), tmp_path / "fit.checkpoint"
    arguments = {"amplitude": "gain", "max_iter": 6, "random_state": 0}
    whole = DynamicPartitionModel(3, **arguments).fit(X)
    DynamicPartitionModel(3, **arguments).fit(X, checkpoint=path, every=0)
    again = DynamicPartitionModel(3, **arguments).fit(X, checkpoint=path)
    assert_array_equal(again.means_, whole.means_)
    assert_array_equal(again.transform(X), whole.transform(X))


def test_the_option_is_one_of_encoding(models):
    X = loud_parts()[:20]
    model = DynamicPartitionModel(3, family="gaussian", max_iter=4, random_state=0)
    model.fit(loud_parts(60))
    model.set_params(amplitude="gain")
    assert error(model, X) < error(model.set_params(amplitude=None), X)
    with pytest.raises(ValueError, match="amplitude='gain' was set after"):
        model.set_params(amplitude="gain").score(X)
    assert np.isfinite(model.recount(loud_parts(60)).score(X))


def test_what_amplitudes_cannot_do_is_refused(models):
    X = loud_parts(20)
    with pytest.raises(ValueError, match="amplitude='gain' is for real columns"):
        DynamicPartitionModel(2, amplitude="gain").fit(make_pairs(3))
    with pytest.raises(ValueError, match="amplitude='offset' is for fit"):
        DynamicPartitionModel(2, amplitude="offset").partial_fit(X)
    gappy = np.where(np.arange(20) == 3, np.nan, X)
    with pytest.raises(ValueError, match="set amplitude=None"):
        models["gain"].impute(gappy)
    H = models["gain"].transform(X)
    with pytest.raises(ValueError, match="amplitudes must be numbers of shape"):
        models["gain"].inverse_transform(H, np.ones((20, 4)))
    with pytest.raises(ValueError, match="amplitudes must be finite"):
        models["gain"].inverse_transform(H, np.full((20, 4, 2), np.nan))


def test_commands_fit_and_reconstruct_with_gains(tmp_path):
    from typer.testing import CliRunner

    from dynpart.cli import app

    X = loud_parts(60)
    np.save(tmp_path / "loud.npy", X)
    model, out = tmp_path / "loud.dynpart", tmp_path / "seen.npy"
    fit = ["fit", tmp_path / "loud.npy", "-k", "3", "--amplitude", "gain", "--iterations", "4"]
    for command in ([*fit, "-q", "-o", model], ["reconstruct", model, fit[1], "-o", out]):
        result = CliRunner().invoke(app, [str(word) for word in command])
        assert result.exit_code == 0, result.output
    fitted = load(model)
    H = fitted.transform(X)
    assert_allclose(np.load(out), fitted.inverse_transform(H, fitted.amplitudes(X, H)), atol=1e-5)
