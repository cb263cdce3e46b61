"""Laws of models of mixed tables: weights, gaps, blocks, engines, files, one expert alone."""

import warnings

import numpy as np
import pytest
from scipy import stats

from dynpart import DynamicPartitionModel, load

KINDS = ("categorical", "binary", "count", "real", "real", "categorical", "count", "binary")
N_LEVELS = (4, None, None, None, None, 3, None, None)
COLUMNS = [list(range(n)) if n else kind for kind, n in zip(KINDS, N_LEVELS, strict=True)]
SETTINGS = {"n_experts": 4, "max_iter": 8, "random_state": 0, "columns": COLUMNS}


def table(seed, n_rows=60, *, missing=0.15):
    """Two hidden types that all columns depend on, with gaps."""
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, 2, (2, n_rows))
    X = np.c_[
        np.where(rng.random(n_rows) < 0.8, z + 2 * y, rng.integers(0, 4, n_rows)),
        rng.random(n_rows) < 0.2 + 0.6 * z,
        rng.poisson((1 + 6 * z) * rng.gamma(3.0, 1 / 3, n_rows)),
        rng.normal(1e5 * z, 2e4),
        rng.normal(0.01 * y, 0.002),
        np.where(rng.random(n_rows) < 0.8, 2 * z, 1),
        rng.poisson(2 + 4 * y),
        rng.random(n_rows) < 0.1 + 0.8 * y,
    ].astype(float)
    gaps = rng.random(X.shape) < missing
    gaps[np.arange(n_rows), rng.integers(0, 8, n_rows)] = False
    X[gaps] = np.nan
    return X, rng.integers(0, 4, n_rows).astype(float)


def repeated(X, weight):
    return np.repeat(X, weight.astype(int), axis=0)


def assert_same_model(model, other, X, rtol=1e-5):
    np.testing.assert_allclose(model.means_, other.means_, rtol=rtol, atol=1e-8)
    np.testing.assert_allclose(model._learnt.eta, other._learnt.eta, rtol=rtol, atol=1e-8)
    np.testing.assert_allclose(model.score_samples(X), other.score_samples(X), rtol=1e-4)


def test_a_fit_of_weighted_rows_is_that_of_repeated_ones():
    X, weight = table(1)
    model = DynamicPartitionModel(**SETTINGS).fit(X, sample_weight=weight)
    again = DynamicPartitionModel(**SETTINGS).fit(repeated(X, weight))
    assert_same_model(model, again, X)
    assert model.schema_.kinds == KINDS


def test_a_stream_of_weighted_rows_is_that_of_repeated_ones():
    model, again = DynamicPartitionModel(**SETTINGS), DynamicPartitionModel(**SETTINGS)
    for seed in range(4):
        X, weight = table(seed)
        model.partial_fit(X, sample_weight=weight)
        again.partial_fit(repeated(X, weight))
    assert_same_model(model, again, X, 1e-4)


def test_blocks_are_the_table_they_make_up():
    X, weight = table(2)
    whole = DynamicPartitionModel(**SETTINGS).fit(X, sample_weight=weight)
    blocks = DynamicPartitionModel(**SETTINGS).fit(
        [X[:20], X[20:35], X[35:]], sample_weight=[weight[:20], weight[20:35], weight[35:]]
    )
    assert_same_model(whole, blocks, X)


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_engines_learn_the_same(engine):
    if engine == "torch":
        pytest.importorskip("torch")
    X, weight = table(3)
    settings = {**SETTINGS, "max_iter": 4}
    exact = DynamicPartitionModel(**settings, engine="reference").fit(X, sample_weight=weight)
    model = DynamicPartitionModel(**settings, engine=engine).fit(X, sample_weight=weight)
    assert_same_model(model, exact, X, 1e-4)


@pytest.mark.slow
def test_a_cluster_learns_the_same():
    distributed = pytest.importorskip("distributed")
    da = pytest.importorskip("dask.array")
    X, _ = table(4)
    settings = {**SETTINGS, "max_iter": 3, "engine": "reference"}
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        spread = DynamicPartitionModel(**settings).fit(da.from_array(X, chunks=(25, 8)))
    here = DynamicPartitionModel(**settings).fit([X[:25], X[25:50], X[50:]])
    assert_same_model(spread, here, X)


def test_a_model_file_keeps_everything(tmp_path):
    X, _ = table(5)
    path = tmp_path / "m.dynpart"
    model = DynamicPartitionModel(**SETTINGS).fit(X)
    model.save(path)
    back = load(path)
    assert back.schema_ == model.schema_
    np.testing.assert_array_equal(back._learnt.eta, model._learnt.eta)
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))
    for each in (model, back):
        each.partial_fit(table(6)[0])
    np.testing.assert_array_equal(back.means_, model.means_)
    back.save(path)
    again = load(path)
    for each in (model, again):
        each.partial_fit(table(7)[0])
    np.testing.assert_array_equal(again.means_, model.means_)


def test_an_interrupted_fit_goes_on(tmp_path):
    X, _ = table(5)
    path = tmp_path / "checkpoint"
    first = DynamicPartitionModel(**SETTINGS).fit(X, checkpoint=path, every=0)
    again = DynamicPartitionModel(**SETTINGS).fit(X, checkpoint=path, every=0)
    np.testing.assert_array_equal(first.means_, again.means_)
    np.testing.assert_array_equal(first.score_samples(X), again.score_samples(X))


def test_drawn_and_completed_rows_are_possible():
    X, _ = table(8)
    model = DynamicPartitionModel(**SETTINGS).fit(X)
    observed = ~np.isnan(X)
    filled = model.impute(X)
    np.testing.assert_array_equal(filled[observed], X[observed])
    for rows in (model.sample(200, random_state=0), filled, *model.impute(X, draws=2)):
        model.family_.check(np.asarray(rows))
        assert np.isfinite(rows).all()
        assert np.isfinite(model.score(rows))


@pytest.mark.parametrize("n_rows", [8, 30, 200])
def test_one_expert_is_independent_columns(n_rows):
    """On unseen rows: add-1/2 frequencies, means of counts and normal densities, or better."""
    gaps = []
    for seed in range(8):
        X, unseen = table(seed, n_rows, missing=0.0)[0], table(100 + seed, 400, missing=0.0)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DynamicPartitionModel(**{**SETTINGS, "n_experts": 1}).fit(X)
        gaps.append(model.score(unseen) - independent_columns(X, unseen))
    assert np.mean(gaps) > -0.02


def independent_columns(X, unseen):
    """Mean log-likelihood of rows, by frequencies, negative binomials and normal densities."""
    n_rows, total = len(X), 0.0
    for d, kind in enumerate(KINDS):
        x, y = X[:, d], unseen[:, d]
        if kind in ("binary", "categorical"):
            n_levels = N_LEVELS[d] or 2
            p = np.array(
                [(np.sum(x == v) + 0.5) / (n_rows + n_levels / 2) for v in range(n_levels)]
            )
            total += np.log(p[y.astype(int)]).mean()
        elif kind == "count":
            mean, excess = (x.sum() + 0.5) / n_rows, x.var(ddof=1) - x.mean()
            size = x.mean() ** 2 / excess if excess > 1e-6 * x.mean() ** 2 else np.inf
            total += (
                stats.poisson.logpmf(y, mean)
                if np.isinf(size)
                else stats.nbinom.logpmf(y, size, size / (size + mean))
            ).mean()
        else:
            total += stats.norm.logpdf(y, x.mean(), max(x.std(), 1e-12)).mean()
    return total
