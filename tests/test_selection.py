"""The number of experts: chosen by rows held back, the true one where it is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from dynpart import DynamicPartitionModel, load
from dynpart.datasets import make_bars, make_pairs
from dynpart.learning import held_back_parts
from dynpart.selection import Selection, TriedSize
from dynpart.selection._choice import AS_SHORT, TIE, chosen, standard_error

sizes = pytest.importorskip("benchmarks.sizes", reason="not part of this distribution")

QUICK = {"random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def pairs():
    X = make_pairs(3, 300, random_state=0)
    return DynamicPartitionModel("auto", **QUICK).fit(X), X


# ------------------------------------------------------------------ laws


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(2, 5), st.integers(0, 2**32)
)
def test_parts_of_whole_rows_are_all_rows_and_equally_large(weight, n_parts, seed):
    weight = np.array(weight, dtype=float)
    parts = held_back_parts(weight, n_parts, np.random.default_rng(seed))
    np.testing.assert_array_equal(sum(parts), weight)
    assert all(((part >= 0) & (part <= weight)).all() for part in parts)
    totals = [part.sum() for part in parts]
    assert max(totals) - min(totals) <= 1


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=30), st.integers(2, 5))
def test_rows_with_other_weights_stay_whole(weight, n_parts):
    weight = np.array(weight) + 1e-3
    parts = held_back_parts(weight, n_parts, np.random.default_rng(0))
    np.testing.assert_allclose(sum(parts), weight)
    if (weight != np.floor(weight)).any():
        assert all(((part == 0) | (part == weight)).all() for part in parts)


nats_and_error = st.tuples(st.floats(-50, -1), st.floats(0, 5))


def beside_best(scores):
    """Scores with their errors; the highest has none."""
    best = max(score for score, _ in scores)
    return [(score, 0.0 if score == best else error) for score, error in scores]


def as_good(scores):
    """Places of the scores that are about as high as the highest."""
    best = max(score for score, _ in scores.values())
    return [
        place
        for place, (score, error) in scores.items()
        if best - score <= min(TIE * error, AS_SHORT * abs(best))
    ]


@given(st.lists(st.tuples(nats_and_error, nats_and_error), min_size=1, max_size=12))
def test_the_smallest_size_that_is_as_good_as_the_best_is_chosen(curve):
    joint, density = (beside_best(scores) for scores in zip(*curve, strict=True))
    tried = tuple(
        TriedSize(k + 1, *one, 1.0, *other)
        for k, (one, other) in enumerate(zip(joint, density, strict=True))
    )
    likely = as_good(dict(enumerate(density)))
    assert chosen(tried) == 1 + min(as_good({k: joint[k] for k in likely}))


def test_a_size_under_which_rows_are_less_likely_is_not_chosen():
    """Though one code each describes them as shortly: more experts have more codes near it."""
    tried = (
        TriedSize(2, -9.0, 0.1, 1.0, -8.9, 0.1),
        TriedSize(3, -5.05, 0.1, 1.5, -4.9, 0.1),
        TriedSize(4, -5.0, 0.0, 1.6, -4.5, 0.1),
        TriedSize(5, -5.1, 0.1, 1.6, -4.5, 0.0),
    )
    assert chosen(tried) == 4


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 4)), min_size=2, max_size=20))
def test_a_row_of_weight_three_is_three_rows_to_the_standard_error(rows):
    values, weight = np.array(rows).T
    repeated = np.repeat(values, weight.astype(int))
    expected = repeated.std() / np.sqrt(len(repeated) - 1)
    np.testing.assert_allclose(standard_error(values, weight), expected, atol=1e-12)


def test_it_is_the_fit_with_the_number_that_was_chosen(pairs):
    model, X = pairs
    given = DynamicPartitionModel(model.n_experts_, **QUICK).fit(X)
    np.testing.assert_array_equal(model.means_, given.means_)
    np.testing.assert_array_equal(model.expertise_, given.expertise_)
    np.testing.assert_array_equal(model.transform(X), given.transform(X))
    assert model.score(X) == given.score(X)


# ------------------------------------------------------------------ planted truth


def test_pairs_have_two_experts_each(pairs):
    model, X = pairs
    assert abs(model.n_experts_ - 6) <= 1
    chosen = model.selection_
    assert chosen.n_experts == model.n_experts_
    assert chosen.n_rows + chosen.n_held_back == len(X)
    assert [one.n_experts for one in chosen.tried] == sorted({s.n_experts for s in chosen.tried})
    assert chosen.chosen.nats > chosen.mixture > chosen.columns
    assert not chosen.is_mixture
    # Three fair coins, told by their experts; six columns, each a fair coin.
    assert chosen.chosen.nats == pytest.approx(-3 * np.log(2), abs=0.1)
    assert chosen.columns == pytest.approx(-6 * np.log(2), abs=0.1)


def groups(seed, n_groups=16, n_rows=1200, n_columns=24):
    """Rows of many groups that have no parts in common."""
    rng = np.random.default_rng(seed)
    usual = np.random.default_rng(0).random((n_groups, n_columns)) < 0.5
    group = rng.integers(n_groups, size=n_rows)
    return (rng.random((n_rows, n_columns)) < np.where(usual, 0.85, 0.15)[group]).astype(np.uint8)


@pytest.mark.slow
def test_rows_of_groups_are_told_by_one_expert_each():
    X, unseen = groups(1), groups(2)
    model = DynamicPartitionModel("auto", max_iter=10, **QUICK).fit(X)
    chosen = model.selection_
    assert (model.transform(unseen).sum(axis=1) == 1).all()
    assert chosen.chosen.mean_active == 1
    assert chosen.mixture == chosen.chosen.nats
    assert chosen.is_mixture
    assert chosen.n_experts >= 11
    assert "with one expert per row" in str(chosen)
    # A size of the ladder of parts, which ends at fewer experts, describes rows less well.
    fewer = DynamicPartitionModel(6, max_iter=10, **QUICK).fit(X)
    assert model.log_density(unseen).mean() > fewer.log_density(unseen).mean() + 1


def test_noise_is_left_to_independent_columns():
    X = np.random.default_rng(0).integers(2, size=(300, 6)).astype(np.uint8)
    model = DynamicPartitionModel("auto", **QUICK).fit(X)
    assert model.n_experts_ <= 2
    assert model.selection_.chosen.nats == pytest.approx(-6 * np.log(2), abs=0.1)


@pytest.mark.slow
def test_few_rows_take_turns():
    X = make_pairs(5)
    model = DynamicPartitionModel("auto", **QUICK).fit(X)
    chosen = model.selection_
    assert chosen.n_turns == 5
    assert chosen.n_held_back == len(X)
    assert abs(model.n_experts_ - 10) <= 1


@pytest.mark.slow
def test_rows_that_weigh_more_are_split_as_so_many_rows():
    X = make_pairs(3)
    model = DynamicPartitionModel("auto", **QUICK).fit(X, sample_weight=np.full(8, 40))
    assert model.selection_.n_turns == 1
    assert model.selection_.n_rows == 256
    assert model.selection_.n_held_back == 64
    assert abs(model.n_experts_ - 6) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fewest"),
    [("pairs", 4), ("pairs-32", 3), ("bars", 4), ("planted-binary", 4), ("planted-levels", 4)],
)
def test_the_true_number_is_found_within_one(name, fewest):
    """With four seeds; ``python -m benchmarks.sizes`` has more."""
    make, truth = sizes.DATA[name]
    found = [
        DynamicPartitionModel("auto", random_state=seed).fit(make(seed)).n_experts_
        for seed in range(4)
    ]
    assert sum(abs(n - truth) <= 1 for n in found) >= fewest, found


# ------------------------------------------------------------------ every kind of table


def test_texts_and_gaps(pairs):
    _, X = pairs
    frame = pd.DataFrame(np.array(["no", "maybe", "yes"])[X + (X[:, :1] > 0)])
    frame.columns = [f"question {d}" for d in range(6)]
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.1)
    model = DynamicPartitionModel("auto", max_iter=10, **QUICK).fit(frame)
    chosen = model.selection_
    assert model.n_experts_ == chosen.n_experts == len(model.means_)
    assert chosen.chosen.nats > chosen.columns
    assert model.transform(frame).shape == (300, model.n_experts_)


@pytest.mark.slow
def test_numbers_and_levels_in_one_table(pairs):
    _, X = pairs
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=list("abcdef")).astype(object)
    frame["size"] = 3.0 * X[:, 0] + rng.normal(size=300)
    model = DynamicPartitionModel("auto", max_iter=10, **QUICK).fit(frame)
    assert model.selection_.chosen.nats > model.selection_.columns


@pytest.mark.slow
def test_blocks_of_rows_choose_as_the_table_does(pairs):
    model, X = pairs
    blocks = DynamicPartitionModel("auto", **QUICK).fit([X[:100], X[100:130], X[130:]])
    assert blocks.selection_ == model.selection_


@pytest.mark.slow
def test_dask_arrays_choose_as_the_table_does(pairs):
    pytest.importorskip("distributed", reason="needs the extra dask")
    import dask.array as da
    from distributed import Client

    model, X = pairs
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None):
        found = DynamicPartitionModel("auto", **QUICK).fit(da.from_array(X, chunks=(90, 6)))
    assert found.n_experts_ == model.n_experts_


def test_a_large_table_is_looked_at_in_part(pairs, monkeypatch):
    monkeypatch.setattr("dynpart.learning._splits.MOST_ROWS", 200)
    _, X = pairs
    model = DynamicPartitionModel("auto", max_iter=10, **QUICK).fit(X)
    assert model.selection_.n_rows + model.selection_.n_held_back == 200


@pytest.mark.slow
def test_more_experts_are_tried_while_the_largest_model_is_the_best(monkeypatch):
    monkeypatch.setattr("dynpart.selection._ladder.FIRST", 3)
    X = make_bars(3, 300, random_state=0)
    model = DynamicPartitionModel("auto", **QUICK).fit(X)
    assert model.selection_.n_largest >= 6
    assert abs(model.n_experts_ - 7) <= 1


# ------------------------------------------------------------------ parameters


def test_auto_is_kept_as_a_parameter(pairs, tmp_path):
    model, X = pairs
    assert clone(model).n_experts == model.get_params()["n_experts"] == "auto"
    model.save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert back.n_experts == "auto"
    assert back.n_experts_ == model.n_experts_
    assert back.selection_ == model.selection_
    np.testing.assert_array_equal(back.transform(X), model.transform(X))


def test_a_new_fit_with_a_number_forgets_the_choice(pairs):
    model, X = pairs
    again = load_copy(model).set_params(max_iter=3, n_experts=4).fit(X)
    assert not hasattr(again, "selection_")
    assert again.n_experts_ == 4


def test_a_stream_cannot_choose(pairs):
    model, X = pairs
    with pytest.raises(ValueError, match=r"n_experts='auto' is for fit.*give a number"):
        clone(model).partial_fit(X)
    going_on = load_copy(model).partial_fit(X)
    assert going_on.n_experts_ == model.n_experts_
    assert not hasattr(going_on, "selection_")


def load_copy(model):
    import pickle

    return pickle.loads(pickle.dumps(model))


def test_limits_on_active_experts_are_limits_on_sizes():
    X = make_pairs(3, 250, random_state=0)
    model = DynamicPartitionModel("auto", max_active=4, max_iter=6, **QUICK).fit(X)
    assert min(one.n_experts for one in model.selection_.tried) >= 4
    model = DynamicPartitionModel("auto", n_active=3, max_iter=6, **QUICK).fit(X)
    assert model.selection_.mixture is None
    assert (model.transform(X).sum(axis=1) == 3).all()


@pytest.mark.parametrize("value", ["Auto", "", 0, 2.5, None])
def test_other_words_are_no_numbers(value):
    with pytest.raises(ValueError, match=r"n_experts.*'auto'"):
        DynamicPartitionModel(value).fit(make_pairs(3))


def test_one_row_cannot_be_held_back():
    with pytest.raises(ValueError, match="at least 2 rows"):
        DynamicPartitionModel("auto").fit(np.ones((1, 3)))


def test_what_was_chosen_in_words():
    tried = (TriedSize(2, -8.0, 0.3, 1.0), TriedSize(3, -5.0, 0.0, 1.5))
    words = str(Selection(3, tried, -9.0, -6.0, 80, 20, 12, 1))
    bits = np.array([4.0, 1.0]) / np.log(2)
    assert words == (
        f"3 experts chosen of 2 to 12: held-back rows take {bits[0]:.1f} bits less than "
        f"with independent columns, {bits[1]:.1f} less than with a mixture of as many"
    )


@pytest.mark.parametrize(("log_scales", "expected"), [(0.0, 8), (-90.0, 4)])
def test_scores_are_compared_as_those_of_standardised_columns(log_scales, expected):
    """A score near 0 by the unit of real columns does not make all differences large."""
    tried = TriedSize(4, -10.5, 2.0, 1.0, -10.5, 2.0), TriedSize(8, -10.0, 0.0, 1.0, -10.0, 0.0)
    assert chosen(tried, log_scales) == expected
