"""Learning in steps: sums of parts are sums of the whole, and a stream is learnt from once."""

import math
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.datasets.recovery import pairs_recovered
from dynpart.engines import CodeSummary, ResponsibilitySums, make_engine
from dynpart.families import ColumnMoments, column_moments, make_family
from dynpart.learning import (
    Annealed,
    LearnerState,
    Paper,
    Step,
    Task,
    _learner,
    iterate,
    with_levels,
)
from dynpart.learning._batch import Memory
from dynpart.rows import Rows
from dynpart.streaming import (
    Averages,
    accumulate,
    advance,
    begin,
    merge,
    resume,
    step_of_batch,
    update,
)
from tests.strategies import make_rule, problems

ENGINE = make_engine("auto")
PLAN = Annealed()


def arrays_of(sums):
    """All numbers of some sums."""
    return [
        sums.codes.usage,
        sums.codes.log_likelihood,
        sums.gradient.first,
        sums.gradient.second,
        sums.responsibility.weight,
        sums.responsibility.statistics,
    ]


@given(problems(), st.data())
def test_sums_of_parts_are_sums_of_the_whole(problem, data):
    experts, rows = problem
    assume(len(rows) > 1)
    cut = data.draw(st.integers(1, len(rows) - 1))
    rule = make_rule(experts.n_experts)
    whole = accumulate(rows, experts, rule)
    parts = [accumulate(part, experts, rule) for part in (rows[:cut], rows[cut:])]
    merged = merge(parts)
    assert merged.codes.n_rows == whole.codes.n_rows
    assert np.array_equal(merged.codes.usage, whole.codes.usage)
    for found, expected in zip(arrays_of(merged), arrays_of(whole), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@given(problems())
def test_an_update_follows_the_sums(problem):
    """Expertise goes where the gradient points, within bounds; opinions are shrunk averages."""
    experts, rows = problem
    numbers = np.nan_to_num(experts.family.decode(rows.values))
    complete = Rows.of(numbers, experts.family)
    engine = make_engine("reference")
    moments = with_levels(engine, complete, experts.family, column_moments(numbers))
    sums = accumulate(rows, experts, make_rule(experts.n_experts))
    free = update(experts, sums, moments, log2_bound=np.inf)
    change = free.log2_expertise - experts.log2_expertise
    moved = np.abs(sums.gradient.first) > 1e-9 * np.sqrt(sums.gradient.second)
    assert np.array_equal(np.sign(change[moved]), np.sign(sums.gradient.first[moved]))
    assert np.abs(change).max() <= 1 + 1e-9
    half = update(experts, sums, moments, log2_bound=np.inf, step=0.5)
    np.testing.assert_allclose(half.log2_expertise - experts.log2_expertise, change / 2, atol=1e-9)
    kept = update(experts, sums, moments, log2_bound=np.inf, step=0.0)
    assert np.array_equal(kept.log2_expertise, experts.log2_expertise)
    weight, statistics = sums.responsibility.weight, sums.responsibility.statistics
    population = experts.family.population(moments)[:, None]
    average = (statistics + PLAN.epsilon * population) / (weight + PLAN.epsilon)
    kinds = np.array(experts.family.kinds_of_columns(rows.shape[1]))
    of_levels = np.isin(kinds, ["binary", "categorical"])
    for after in (free, half, kept):
        # For numbers the mean is an average; the second moment has a lower bound or a prior.
        told = np.where(of_levels, average, np.stack([average[0], *after.eta[1:]]))
        np.testing.assert_allclose(after.eta[0], experts.family.constrain(told)[0], atol=1e-9)
    largest = np.abs(free.log2_expertise).max(axis=0)
    bounded = np.abs(update(experts, sums, moments, log2_bound=2.0).log2_expertise).max(axis=0)
    np.testing.assert_allclose(bounded, np.minimum(largest, 2.0), atol=1e-9)


def test_sums_travel():
    """They go through a pickle, as they would to another machine, unchanged."""
    X = make_pairs(3)
    moments = column_moments(X)
    experts = PLAN.start(make_family("auto", moments), moments, 6, np.random.default_rng(0))
    sums = accumulate(X, experts, make_rule(6))
    back = pickle.loads(pickle.dumps(sums))
    assert back.codes.n_rows == sums.codes.n_rows == 8
    for found, expected in zip(arrays_of(back), arrays_of(sums), strict=True):
        assert np.array_equal(found, expected)
        assert np.any(expected)


def make_task(batch, family, n_experts=10, n_settle=30):
    moments = column_moments(batch)
    return Task(ENGINE, Rows.of(batch, family), moments, family, n_experts, n_settle, 1, n_experts)


def learn(batches, *, n_experts=10, plan=PLAN, n_settle=30, seed=0):
    """States of a stream after each batch."""
    family = make_family("auto", column_moments(batches[0]))
    states = [begin(make_task(batches[0], family, n_experts, n_settle), plan, seed)]
    for batch in batches:
        states.append(advance(make_task(batch, family, n_experts, n_settle), plan, states[-1]))
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
    assert len(states[1].candidates) > 1
    assert len(last.candidates) == 1
    assert pairs_recovered(last.leader.experts.eta[0]).all()


@pytest.mark.parametrize(
    "plan", [PLAN, Annealed(min_active=2), Paper()], ids=["trials", "one search", "paper"]
)
def test_step_sizes_are_one_in_the_search_and_decay_from_then_on(plan, monkeypatch):
    """Long past the rows (240 an expert) from which on refinement draws batches as well."""
    used = []

    def noted(task, plan, step, experts, batches, n_rows, memory, sums, prior):
        assert memory.evidence == 0
        assert memory.kept == 1 - step.size == step.memory
        assert memory.own == step.size / n_rows
        used.append(step.size)
        return learn_batches(task, plan, step, experts, batches, n_rows, memory, sums, prior)

    learn_batches = _learner.learn
    monkeypatch.setattr(_learner, "learn", noted)
    n_settle, n_batches = 10, 40
    rows = np.random.default_rng(0).integers(0, 2, (100, 6)).astype(np.uint8)
    last = learn([rows] * n_batches, n_experts=4, plan=plan, n_settle=n_settle)[-1]
    t0 = 0 if isinstance(plan, Paper) else 7
    expected = [1.0 if t <= t0 else (1 + t - t0) ** -0.7 for t in range(n_batches)]
    n_tried = 2 if plan is PLAN else 1
    assert used == [
        size for t, size in enumerate(expected) for _ in range(n_tried if t < t0 else 1)
    ]
    assert [record.step.size for record in last.history] == expected
    assert [record.step.search for record in last.history] == [t < t0 for t in range(n_batches)]


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
    task = make_task(batches[40][:20], learnt.experts.family)
    stream = advance(task, PLAN, resume(task, learnt.leader.experts, learnt.moments))
    assert not np.array_equal(stream.leader.experts.eta, learnt.leader.experts.eta)
    assert pairs_recovered(stream.leader.experts.eta[0]).all()


@given(st.integers(1, 1000), st.integers(1, 1000), st.floats(0, 1))
def test_averages_are_worth_the_rows_they_remember(n_known, n_rows, size):
    """A step moves averages by its size, and keeps that much less of the rows before."""
    experts = learn(batches_of_pairs(1))[0].leader.experts
    known, own = np.ones((2, 10, 10)), np.full((2, 10, 10), 3.0 * n_rows)
    averages = Averages(n_known, np.ones(10), ResponsibilitySums(known))
    memory = averages.memory(n_rows, size)
    sums = ResponsibilitySums(memory.kept * known + memory.own * own)
    codes = CodeSummary(n_rows, np.full(10, 3 * n_rows), 0.0)
    moved = averages.moved(sums, codes, memory)
    assert moved.n_rows == pytest.approx((1 - size) * n_known + n_rows)
    np.testing.assert_allclose(moved.sums.array, 1 + 2 * size)
    np.testing.assert_allclose(moved.usage, 1 + 2 * size)
    assert Averages.none(experts).memory(n_rows, 1.0) == Memory(0.0, 0.0, 1 / n_rows, n_rows)


def test_averages_made_up_for_experts_lead_back_to_them():
    experts = learn(batches_of_pairs(1))[0].leader.experts
    sums = accumulate(batches_of_pairs(1)[0], experts, make_rule(10))
    averages = Averages.behind(experts, sums.responsibility, sums.codes, 500)
    assert averages.n_rows == 500
    np.testing.assert_allclose(averages.sums.statistics / averages.sums.weight, experts.eta)


@pytest.mark.parametrize("plan", [PLAN, Paper()], ids=["default", "paper"])
def test_a_batch_of_a_stream_is_an_iteration_over_its_rows(plan):
    """The first batch, of which nothing is remembered, is what a fit does with all rows."""
    (batch,) = batches_of_pairs(1)
    before, after = learn([batch], plan=plan, n_settle=1)
    task = make_task(batch, before.leader.experts.family, n_settle=1)
    for candidate in after.candidates:
        step = step_of_batch(plan.steps(task, candidate.min_active), 0)
        start = LearnerState(before.leader.experts)
        (state,) = iterate(task, plan, start, [step], seed=0)
        np.testing.assert_array_equal(
            state.experts.log2_expertise, candidate.experts.log2_expertise
        )
        np.testing.assert_allclose(state.experts.eta, candidate.experts.eta, atol=1e-12)


@given(st.integers(1, 80), st.integers(0, 500), st.integers(1, 10**6), st.integers(1, 60))
def test_sizes_of_steps_are_as_documented(n_settle, t, n_rows, n_experts):
    """Whatever the sizes: 1 in the search, 70% of the iterations, then (1 + t - t0)^-0.7."""
    moments = ColumnMoments.complete(n_rows, np.zeros(9), np.zeros(9), True)
    family = make_family("bernoulli", moments)
    task = Task(None, None, moments, family, n_experts, n_settle, 1, n_experts)
    t0 = math.floor(0.7 * n_settle)
    for least in PLAN.candidates(task):
        step = step_of_batch(PLAN.steps(task, least), t)
        assert step.search == (t < t0)
        assert step.size == (1.0 if t < t0 else (1 + t - t0) ** -0.7)


def test_a_stream_follows_all_of_a_plan_that_a_stream_can():
    asked = Step(
        n_rows=7, n_batches=3, min_active=2, price=0.2, smoothed=True, log2_bound=3.0, size=0.3,
        memory=0.5, n_starts=4, n_swaps=5, sharpness=2.0, shrink=True,
    )  # fmt: skip
    steps = [replace(asked, search=True)] * 2 + [asked] * 2
    for t in (0, 1, 2, 3, 9):
        found = step_of_batch(steps, t)
        size = 1.0 if t <= 2 else (t - 1) ** -0.7
        own = {"n_rows": None, "n_batches": 1, "size": size, "memory": 1 - size, "shrink": False}
        assert found == replace(asked, search=t < 2, **own)


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
    before = model.means_.copy()
    assert pairs_recovered(before).all()
    back = pickle.loads(pickle.dumps(model)).partial_fit(pairs[::2])
    model.partial_fit(pairs[::2])
    assert not np.array_equal(model.means_, before)
    assert np.array_equal(back.means_, model.means_)
    assert pairs_recovered(model.means_).all()
    assert model.n_iter_ == 1


def test_fit_forgets_the_stream():
    batches = batches_of_pairs(2)
    streamed = DynamicPartitionModel(10, max_iter=6, random_state=0).partial_fit(batches[0])
    fresh = DynamicPartitionModel(10, max_iter=6, random_state=0)
    for model in (streamed, fresh):
        model.fit(batches[1])
        fitted = model.means_.copy()
        model.partial_fit(batches[0])
        assert not np.array_equal(model.means_, fitted)
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
    stream = model._stream
    with pytest.raises(ValueError, match="binary"):
        model.partial_fit(np.full((3, 10), 0.5))
    with pytest.raises(ValueError, match="9 features"):
        model.partial_fit(np.ones((3, 9)))
    assert model._stream is stream


def test_steps_of_a_stream_refuse_other_experts_and_columns():
    (batch,) = batches_of_pairs(1)
    stream = learn([batch])[-1]
    family = stream.experts.family
    with pytest.raises(ValueError, match=r"n_experts=9 .* 10 experts"):
        advance(make_task(batch, family, n_experts=9), PLAN, stream)
    with pytest.raises(ValueError, match="9 features"):
        advance(make_task(batch[:, :9], family), PLAN, stream)


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_a_stream_does_not_go_on_with_another_number_of_experts(way):
    batches = batches_of_pairs(2)
    model = getattr(DynamicPartitionModel(10, random_state=0), way)(batches[0])
    means = model.means_.copy()
    for n_experts in (9, 11):
        with pytest.raises(ValueError, match=f"n_experts={n_experts} .* 10 experts"):
            model.set_params(n_experts=n_experts).partial_fit(batches[1])
        assert np.array_equal(model.means_, means)
