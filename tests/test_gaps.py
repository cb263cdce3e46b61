"""What a fitted model does with what was not observed, and with tables in pieces."""

import copy

import numpy as np
import pandas as pd
import pytest

from dynpart import DynamicPartitionModel, load
from dynpart.datasets import make_bars, make_pairs
from dynpart.sources import cut


@pytest.fixture(scope="module")
def bars():
    return make_bars(4, 400, random_state=0).astype(float)


@pytest.fixture(scope="module")
def model(bars):
    return DynamicPartitionModel(8, random_state=0).fit(bars)


def with_gaps(X, share, seed=0):
    hidden = np.random.default_rng(seed).random(X.shape) < share
    return np.where(hidden, np.nan, X), hidden


@pytest.mark.parametrize(
    "engine", [pytest.param("reference", marks=pytest.mark.slow), "cpu", "torch"]
)
def test_observed_values_stay_and_hidden_ones_are_recovered(bars, model, engine):
    if engine == "torch":
        pytest.importorskip("torch")
    model = copy.copy(model).set_params(engine=engine)
    bars = bars[:100] if engine == "reference" else bars
    gappy, hidden = with_gaps(bars, 0.2)
    filled = model.impute(gappy)
    np.testing.assert_array_equal(filled[~hidden], bars[~hidden])
    usual = np.where(bars.mean(axis=0) > 0.5, 1.0, 0.0)[np.nonzero(hidden)[1]]
    right, by_mode = (filled == bars)[hidden].mean(), (usual == bars[hidden]).mean()
    assert right > 0.9 > by_mode


def test_learning_from_gaps_recovers_what_rows_have_in_common(bars):
    gappy, hidden = with_gaps(bars, 0.3)
    model = DynamicPartitionModel(8, max_iter=15, random_state=0).fit(gappy)
    assert (model.impute(gappy) == bars)[hidden].mean() > 0.85
    means = model.conditional_means(gappy)
    assert means.shape == bars.shape
    assert ((means > 0) & (means < 1)).all()


def test_a_table_without_gaps_stays_as_it_is(bars, model):
    np.testing.assert_array_equal(model.impute(bars), bars)


def test_draws_differ_where_nothing_was_observed_and_nowhere_else(bars, model):
    gappy, hidden = with_gaps(bars, 0.3)
    first, second = model.impute(gappy, draws=2, random_state=0)
    assert (first != second)[hidden].any()
    for table in (first, second):
        np.testing.assert_array_equal(table[~hidden], bars[~hidden])
        assert set(np.unique(table)) <= {0.0, 1.0}
    again, _ = model.impute(gappy, draws=2, random_state=0)
    np.testing.assert_array_equal(again, first)
    many = np.mean(model.impute(gappy, draws=400, random_state=1), axis=0)
    np.testing.assert_allclose(
        many, np.where(hidden, model.conditional_means(gappy), bars), atol=0.15
    )
    with pytest.raises(ValueError, match="draws must be an integer of at least 1"):
        model.impute(gappy, draws=0)


def test_real_values_are_filled_with_means(bars):
    X = bars + np.random.default_rng(0).normal(0, 0.1, bars.shape)
    gappy, hidden = with_gaps(X, 0.2)
    before = gappy.copy()
    model = DynamicPartitionModel(8, random_state=0).fit(gappy)
    filled = model.impute(gappy)
    np.testing.assert_array_equal(gappy, before)  # gaps are filled in a copy
    np.testing.assert_array_equal(model.impute(gappy), filled)
    error = np.sqrt(np.mean((filled - X)[hidden] ** 2))
    assert error < 0.8 * X.std()


def test_the_code_book_survives_a_file_and_a_stream_does_without(bars, model, tmp_path):
    gappy, _ = with_gaps(bars[:50], 0.3)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").impute(gappy), model.impute(gappy))
    stream = DynamicPartitionModel(8, random_state=0, max_iter=10)
    for _ in range(12):
        stream.partial_fit(bars)
    filled = stream.impute(gappy)
    assert not np.isnan(filled).any()
    stream.save(tmp_path / "s")
    np.testing.assert_array_equal(load(tmp_path / "s").impute(gappy), filled)


def test_rows_without_anything_get_the_likeliest_code(bars, model):
    gappy = bars[:6].copy()
    gappy[2] = np.nan
    with pytest.warns(UserWarning, match="1 row has no observed value"):
        H = model.transform(gappy)
    assert model.log_prior(H)[2] == model.log_prior(model.transform(bars)).max()
    np.testing.assert_array_equal(np.delete(H, 2, axis=0), model.transform(np.delete(gappy, 2, 0)))
    exactly = DynamicPartitionModel(8, n_active=3, random_state=0, max_iter=5).fit(bars)
    with pytest.warns(UserWarning, match="no observed value"):
        assert exactly.transform(gappy)[2].sum() == 3
    assert model.log_likelihood(gappy, H)[2] == 0
    with pytest.warns(UserWarning, match="no observed value"):
        assert model.score_samples(gappy)[2] == pytest.approx(model.log_prior(H[2:3])[0])


class OnlyOnce:
    """Blocks that can be read a single time."""

    def __init__(self, blocks):
        self.blocks = iter(blocks)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.blocks)


@pytest.mark.parametrize("kind", ["list", "once", "folder", "frames"])
def test_every_method_takes_every_source(bars, model, tmp_path, kind):
    gappy, _ = with_gaps(bars, 0.1)

    def source():
        blocks = cut(gappy, 70)
        if kind == "folder":
            for i, block in enumerate(blocks):
                np.save(tmp_path / f"{i}.npy", block)
            return tmp_path
        if kind == "frames":
            blocks = [pd.DataFrame(block) for block in blocks]
        return OnlyOnce(blocks) if kind == "once" else blocks

    H = model.transform(gappy)
    np.testing.assert_array_equal(model.transform(source()), H)
    np.testing.assert_array_equal(model.score_samples(source()), model.score_samples(gappy))
    assert model.score(source()) == pytest.approx(model.score(gappy))
    likelihood = model.log_likelihood(gappy, H)
    np.testing.assert_array_equal(model.log_likelihood(source(), H), likelihood)
    story, whole = model.pursue(source()), model.pursue(gappy)
    np.testing.assert_array_equal(story.order, whole.order)
    np.testing.assert_array_equal(story.log_likelihood, whole.log_likelihood)
    with pytest.raises(ValueError, match="as many rows"):
        model.log_likelihood(source(), H[:-1])


def test_a_dask_array_is_a_source_of_all_methods(bars, model):
    da = pytest.importorskip("dask.array")
    X, H = da.from_array(bars, chunks=(90, -1)), model.transform(bars)
    np.testing.assert_array_equal(model.transform(X).compute(scheduler="threads"), H)
    np.testing.assert_array_equal(model.log_likelihood(X, H), model.log_likelihood(bars, H))
    np.testing.assert_array_equal(model.pursue(X).order, model.pursue(bars).order)


def test_pairs_with_gaps_are_still_found():
    X = np.tile(make_pairs(5), (6, 1)).astype(float)
    gappy, hidden = with_gaps(X, 0.15)
    model = DynamicPartitionModel(10, random_state=0).fit(gappy)
    partner_known = hidden & ~hidden.reshape(-1, 5, 2)[:, :, ::-1].reshape(X.shape)
    assert (model.impute(gappy) == X)[partner_known].mean() > 0.95
