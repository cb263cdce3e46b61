"""Learning in steps: sums of parts are sums of the whole, and a stream is learnt from once."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.datasets.recovery import pairs_recovered
from dynpart.engines import make_engine
from dynpart.families import column_moments, make_family
from dynpart.learning import Annealed, Paper
from dynpart.streaming import (
    Averages,
    Course,
    accumulate,
    advance,
    begin,
    merge,
    resume,
    update,
)
from tests.strategies import make_rule, problems

ENGINE = make_engine("auto")
PLAN = Annealed()


@given(problems(), st.integers(0, 8))
def test_sums_of_parts_are_sums_of_the_whole(problem, cut):
    experts, rows = problem
    cut = min(cut, len(rows) - 1)
    rule = make_rule(experts.n_experts)
    whole = accumulate(rows, experts, rule)
    parts = [accumulate(part, experts, rule) for part in (rows[:cut], rows[cut:]) if len(part)]
    merged = merge(parts)
    assert merged.codes.n_rows == whole.codes.n_rows
    assert np.array_equal(merged.codes.usage, whole.codes.usage)
    np.testing.assert_allclose(merged.gradient.first, whole.gradient.first, atol=1e-6)
    np.testing.assert_allclose(
        merged.responsibility.statistics, whole.responsibility.statistics, atol=1e-6
    )


@given(problems())
def test_an_update_moves_within_bounds(problem):
    experts, rows = problem
    moments = column_moments(np.asarray(rows, dtype=np.float64))
    sums = accumulate(rows, experts, make_rule(experts.n_experts))
    after = update(experts, sums, moments, log2_bound=2.0)
    assert np.abs(after.log2_expertise).max() <= 2.0
    kept = update(experts, sums, moments, log2_bound=np.inf, step=0.0)
    assert np.array_equal(kept.log2_expertise, experts.log2_expertise)
    assert np.array_equal(kept.eta, after.eta)


def test_sums_travel():
    """They go through a pickle, as they would to another machine, unchanged."""
    X = make_pairs(3)
    moments = column_moments(X)
    experts = PLAN.start(make_family("auto", moments), moments, 6, np.random.default_rng(0))
    sums = accumulate(X, experts, make_rule(6))
    back = pickle.loads(pickle.dumps(sums))
    assert np.array_equal(back.gradient.second, sums.gradient.second)


def learn(batches, *, n_experts=10, plan=PLAN, n_settle=30, seed=0):
    """States of a stream after each batch."""
    course = Course(ENGINE, plan, n_experts, n_settle, 1, n_experts)
    moments = column_moments(batches[0])
    states = [begin(course, make_family("auto", moments), moments, seed)]
    for batch in batches:
        states.append(advance(course, states[-1], batch, column_moments(batch)))
    return states


def batches_of_pairs(n_batches, n_rows=200, seed=1):
    pairs = make_pairs(5).astype(np.uint8)
    rng = np.random.default_rng(seed)
    return [pairs[rng.integers(0, 32, n_rows)] for _ in range(n_batches)]


def test_a_stream_of_pairs_is_understood():
    states = learn(batches_of_pairs(40))
    last = states[-1]
    assert last.moments.n_rows == 40 * 200
    assert [record.iteration for record in last.history] == list(range(40))
    assert len(states[1].runners) > 1
    assert len(last.runners) == 1
    assert pairs_recovered(last.leader.experts.eta[0]).all()


def test_steps_decay():
    """On noise, where there is nothing to learn, experts come to rest."""
    rng = np.random.default_rng(2)
    batches = [rng.integers(0, 2, (50, 8)).astype(np.uint8) for _ in range(120)]
    states = learn(batches, n_experts=5, plan=Paper(), n_settle=1)
    moves = [
        np.abs(after.leader.experts.eta - before.leader.experts.eta).mean()
        for before, after in pairwise(states)
    ]
    assert np.mean(moves[-20:]) < 0.25 * np.mean(moves[:20])


def test_experts_learnt_otherwise_are_not_forgotten():
    batches = batches_of_pairs(41)
    learnt = learn(batches[:40])[-1]
    course = Course(ENGINE, PLAN, 10, 30, 1, 10)
    stream = resume(course, learnt.leader.experts, learnt.moments)
    stream = advance(course, stream, batches[40][:20], column_moments(batches[40][:20]))
    assert pairs_recovered(stream.leader.experts.eta[0]).all()


def test_averages_are_worth_the_rows_they_remember():
    experts = learn(batches_of_pairs(1))[0].leader.experts
    sums = accumulate(batches_of_pairs(1)[0], experts, make_rule(10))
    first = Averages.before(sums, experts, 500).moved(sums, 1.0)
    assert first.n_rows == 200
    np.testing.assert_allclose(first.as_sums().weight, sums.responsibility.weight)
    half = first.moved(sums, 0.5)
    assert half.n_rows == 300
    np.testing.assert_allclose(half.weight, first.weight)


def test_averages_made_up_for_experts_lead_back_to_them():
    experts = learn(batches_of_pairs(1))[0].leader.experts
    sums = accumulate(batches_of_pairs(1)[0], experts, make_rule(10))
    averages = Averages.before(sums, experts, 500)
    assert averages.n_rows == 500
    np.testing.assert_allclose(averages.statistics / averages.weight, experts.eta)


# ----------------------------------------------------------------------------- the estimator


def test_a_model_learns_batch_by_batch():
    model = DynamicPartitionModel(10, random_state=0)
    for batch in batches_of_pairs(40):
        model.partial_fit(batch)
    assert pairs_recovered(model.means_).all()
    assert model.n_iter_ == len(model.objective_history_) == 40
    assert model.transform(make_pairs(5)).sum(axis=1).mean() == 5
    np.testing.assert_allclose(model.activation_probabilities_, 0.5, atol=0.1)


def test_a_model_goes_on_after_fit_and_after_a_pickle():
    """Also with a batch that has no use for some of the experts."""
    pairs = make_pairs(5)
    model = DynamicPartitionModel(10, random_state=0).fit(np.tile(pairs, (20, 1)))
    assert pairs_recovered(model.means_).all()
    model = pickle.loads(pickle.dumps(model)).partial_fit(pairs[::2])
    assert pairs_recovered(model.means_).all()
    assert model.n_iter_ == 1


def test_fit_forgets_the_stream():
    batches = batches_of_pairs(2)
    streamed = DynamicPartitionModel(10, random_state=0).partial_fit(batches[0])
    fresh = DynamicPartitionModel(10, random_state=0)
    for model in (streamed, fresh):
        model.fit(batches[1]).partial_fit(batches[0])
    assert np.array_equal(streamed.means_, fresh.means_)


def test_gaussian_streams_are_learnt():
    rng = np.random.default_rng(0)
    model = DynamicPartitionModel(10, random_state=0, variance_floor=0.1)
    for batch in batches_of_pairs(60):
        model.partial_fit(batch + rng.normal(0, 0.1, batch.shape))
    clean = make_pairs(5).astype(np.float64)
    back = model.inverse_transform(model.transform(clean))
    assert np.abs(back - clean).mean() < 0.2


def test_later_batches_must_suit_the_family():
    model = DynamicPartitionModel(10, random_state=0).partial_fit(batches_of_pairs(1)[0])
    with pytest.raises(ValueError, match="binary"):
        model.partial_fit(np.full((3, 10), 0.5))
    with pytest.raises(ValueError, match="9 features"):
        model.partial_fit(np.ones((3, 9)))
