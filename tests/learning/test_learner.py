"""The learner: laws of an iteration, trials, re-initialisation, connectivity, early stop."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import expm
from scipy.ndimage import gaussian_filter
from scipy.sparse.csgraph import laplacian
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import grid_to_graph

from dynpart import DynamicPartitionModel
from dynpart.bare import BareModel
from dynpart.composition import responsibilities
from dynpart.datasets import bars_recovered, make_bars, make_pairs, pairs_recovered
from dynpart.engines import (
    Codes,
    CodeSummary,
    Experts,
    PursuitRule,
    ResponsibilitySums,
    make_engine,
)
from dynpart.families import Bernoulli, column_moments, make_family
from dynpart.learning import Annealed, LearnerState, Step, Task, iterate
from dynpart.learning._batch import SHARPEST, break_ties, sharpened, within_bound
from dynpart.learning._connectivity import (
    Neighbours,
    check_connectivity,
    diffusion,
    neighbourly,
)
from dynpart.learning._diagnosis import complaints
from dynpart.learning._objective import joint_objective, penalised_objective
from dynpart.learning._reinitialisation import idle_experts, reinitialise
from dynpart.learning._trials import REPEATS
from dynpart.prior import CodePrior
from dynpart.rows import Rows

REFERENCE = make_engine("reference")


def make_task(X, *, neighbours=None, n_experts=4, n_iter=9):
    moments = column_moments(X)
    family = make_family("auto", moments)
    return Task(
        REFERENCE, Rows.of(X, family), moments, family, n_experts, n_iter, 1, n_experts, neighbours
    )


def start_for(task, seed=0):
    rng = np.random.default_rng(seed)
    return Annealed().start(task.family, task.moments, task.n_experts, rng)


def last(states):
    *_, state = states
    return state


def some_steps(n_iter=4, **changes):
    return [Step(min_active=2, log2_bound=4.0, **changes)] * n_iter


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_permuting_variables_and_graph_permutes_what_is_learnt(seed, with_graph):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (30, 6)).astype(np.uint8)
    graph = grid_to_graph(2, 3).toarray() if with_graph else np.zeros((6, 6))
    shuffle = rng.permutation(6)
    results = []
    for columns in (np.arange(6), shuffle):
        neighbours = Neighbours(check_connectivity(graph[np.ix_(columns, columns)], 6), 1.0)
        task = make_task(X[:, columns], neighbours=neighbours)
        start = start_for(make_task(X), seed=seed)
        start = Experts(start.family, start.eta[:, :, columns], start.log2_expertise[:, columns])
        state = last(iterate(task, Annealed(), LearnerState(start), some_steps(2), seed=1))
        results.append(state.experts)
        assert abs(state.experts.eta - start.eta).max() > 1e-3
    np.testing.assert_allclose(results[1].eta, results[0].eta[:, :, shuffle], atol=1e-6)
    levels = results[0].log2_expertise[:, shuffle]
    np.testing.assert_allclose(results[1].log2_expertise, levels, atol=1e-6)


def test_an_empty_graph_changes_nothing():
    X = make_bars(4, 200, random_state=0)
    plain = DynamicPartitionModel(6, max_iter=6, random_state=0).fit(X)
    empty = sparse.csr_array((16, 16))
    same = DynamicPartitionModel(6, max_iter=6, random_state=0, connectivity=empty).fit(X)
    np.testing.assert_array_equal(plain.means_, same.means_)
    np.testing.assert_array_equal(plain.expertise_, same.expertise_)


def test_diffusion_is_the_heat_kernel_of_the_graph():
    rng = np.random.default_rng(0)
    weights = sparse.random(12, 12, 0.3, random_state=0).toarray()
    graph = check_connectivity(weights, 12)
    L = laplacian(graph.toarray())
    values = rng.normal(size=(2, 12))
    for radius in (1e-4, 0.3, 1.0, 4.0):
        exact = values @ expm(-(radius**2) / 2 * L)
        np.testing.assert_allclose(diffusion(graph, radius)(values), exact, atol=1e-4)


def test_diffusion_on_a_grid_is_nearly_a_gaussian_blur():
    picture = np.zeros((31, 33))
    picture[15, 16] = 1.0
    graph = check_connectivity(grid_to_graph(31, 33), 31 * 33)
    blurred = diffusion(graph, 3.0)(picture.reshape(1, -1)).reshape(31, 33)
    gaussian = gaussian_filter(picture, 3.0, truncate=6)
    # pixels are not points: at the peak the two differ by 1 / (8 radius^2) on each axis
    np.testing.assert_allclose(blurred, gaussian, atol=0.04 * gaussian.max())


def test_connectivity_makes_expertise_smoother():
    """Two halves of a picture switch on and off; noise hides who is expert for which half."""
    rng = np.random.default_rng(0)
    halves = rng.integers(0, 2, (60, 1, 2)).repeat(6, axis=2)
    X = (halves ^ (rng.uniform(size=(60, 12, 12)) < 0.3)).reshape(60, 144).astype(np.uint8)
    blur = Neighbours(check_connectivity(grid_to_graph(12, 12), 144), 2.0)

    def roughness(neighbours):
        task = make_task(X, neighbours=neighbours)
        state = last(
            iterate(task, Annealed(), LearnerState(start_for(task)), some_steps(6), seed=0)
        )
        level = state.experts.log2_expertise.reshape(4, 12, 12)
        return np.abs(np.diff(level, axis=1)).mean() / level.std()

    assert roughness(blur) < 0.5 * roughness(None)


def test_opinions_listen_to_the_neighbourhood_where_an_expert_has_seen_little():
    """A variable without rows takes what is thought nearby; one with many hardly moves."""
    graph = check_connectivity(grid_to_graph(1, 9), 9)
    weight = np.full((1, 9), 1000.0)
    weight[0, 4] = 0.0
    sums = ResponsibilitySums(np.stack([weight, 0.9 * weight]))
    heard = Neighbours(graph, 2.0).opinions(sums, np.full((1, 9), 0.1), 1.0)
    opinion = (heard.statistics / heard.weight)[0, 0]
    assert opinion[4] > 0.85
    np.testing.assert_allclose(np.delete(opinion, 4), 0.9, atol=1e-3)
    np.testing.assert_array_equal(sums.weight, weight)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.eye(3), r"shape \(4, 4\)"),
        (-np.ones((4, 4)), "at least 0"),
        (np.full((4, 4), np.nan), "finite"),
    ],
)
def test_bad_graphs_are_named(graph, message):
    with pytest.raises(ValueError, match=f"connectivity must.*{message}"):
        neighbourly(graph, 4)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 5))
def test_the_bound_keeps_the_order(seed, bound):
    level = np.random.default_rng(seed).normal(0, 4, (5, 3))
    held = within_bound(level, bound)
    largest = np.abs(level).max(axis=0)
    np.testing.assert_allclose(np.abs(held).max(axis=0), np.minimum(largest, bound))
    np.testing.assert_array_equal(held[:, largest <= bound], level[:, largest <= bound])
    np.testing.assert_array_equal(held.argsort(axis=0), level.argsort(axis=0))


@given(st.integers(0, 2**32 - 1), st.floats(1.5, 4.0))
def test_sharper_experts_share_less_in_the_same_order(seed, power):
    rng = np.random.default_rng(seed)
    experts = Experts(Bernoulli(), np.full((1, 5, 3), 0.5), rng.uniform(-30, 30, (5, 3)), 30.0)
    sharp = sharpened(experts, power)
    np.testing.assert_array_equal(sharp.ranks, experts.ranks)
    assert np.abs(sharp.log2_expertise).max() <= SHARPEST * (1 + 1e-12)
    active = np.ones((1, 5), dtype=bool)
    before = responsibilities(experts.log2_expertise, active).max(axis=1)
    after = responsibilities(sharp.log2_expertise, active).max(axis=1)
    open_to_change = before < 1 - 1e-9
    assert (after[open_to_change] > before[open_to_change]).all()
    assert (after[~open_to_change] > 1 - 1e-9).all()
    assert sharpened(experts, 1.0) is experts


def test_ties_go_to_the_more_confident_expert():
    family = make_family("auto", column_moments(np.eye(2)))
    eta = np.array([[[0.5, 0.1], [0.9, 0.4]]])
    settled = break_ties(Experts(family, eta, np.zeros((2, 2))))
    np.testing.assert_array_equal(settled.ranks, [[1, 0], [0, 1]])


class Overheard(Annealed):
    """The default plan, noting the evidence it is given."""

    def expertise_change(self, evidence, n_rows):
        heard.append(evidence)
        return super().expertise_change(evidence, n_rows)


heard = []


class Telling(type(REFERENCE)):
    """The reference engine, noting the evidence that each batch gives by itself."""

    def gradient_sums(self, rows, experts, codes):
        sums = super().gradient_sums(rows, experts, codes)
        told.append(sums)
        return sums


told = []


@pytest.mark.parametrize("memory", [0.0, 0.5, 1.0])
def test_batches_of_an_iteration_remember_the_earlier_ones(memory):
    X = make_pairs(3)
    task = replace(make_task(X), engine=Telling())
    heard.clear()
    told.clear()
    step = Step(n_rows=6, n_batches=3, min_active=2, log2_bound=4.0, memory=memory)
    last(iterate(task, Overheard(), LearnerState(start_for(task)), [step, step], seed=0))
    assert len(heard) == len(told) == 6
    for batch in range(6):
        earlier = range(batch // 3 * 3, batch + 1)  # the second iteration begins afresh
        first = sum(memory ** (batch - i) * told[i].first for i in earlier)
        second = sum(memory ** (batch - i) * told[i].second for i in earlier)
        np.testing.assert_allclose(heard[batch].first, first, atol=1e-12)
        np.testing.assert_allclose(heard[batch].second, second, atol=1e-12)


def test_what_is_known_of_levels_is_true():
    task = make_task(make_pairs(3))
    experts = start_for(task)
    assert abs(experts.log2_expertise).max() <= experts.log2_bound == 1.0
    for state in iterate(task, Annealed(), LearnerState(experts), some_steps(6), seed=0):
        assert abs(state.experts.log2_expertise).max() <= state.experts.log2_bound + 1e-9
        assert state.experts.log2_bound == 4.0
    # without the bound they would have gone further
    assert abs(state.experts.log2_expertise).max() == pytest.approx(4.0)


def test_a_stopped_run_goes_on_as_if_it_had_not_been():
    X = make_bars(4, 100, random_state=0)
    task, plan = make_task(X), Annealed()
    steps = plan.steps(task, 2)
    states = list(iterate(task, plan, LearnerState(start_for(task)), steps, seed=3))
    resumed = last(iterate(task, plan, states[3], steps, seed=3))
    np.testing.assert_array_equal(resumed.experts.eta, states[-1].experts.eta)
    assert resumed.history == states[-1].history


@given(st.integers(1, 30), st.integers(1, 60), st.integers(0, 99))
def test_rows_are_drawn_in_order_with_or_without_replacement(n_rows, n_drawn, seed):
    task = make_task(np.arange(n_rows, dtype=np.float64)[:, None])
    again = task.draw(np.random.default_rng(seed), n_drawn, replace=True).values[:, 0]
    once = task.draw(np.random.default_rng(seed), n_drawn, replace=False).values[:, 0]
    assert len(again) == n_drawn
    assert len(once) == len(set(once)) == min(n_rows, n_drawn)
    for drawn in (again, once):
        assert np.array_equal(drawn, np.sort(drawn))
        assert set(drawn) <= set(range(n_rows))


def test_learning_stops_when_nothing_moves_but_never_in_the_search():
    X = make_pairs(3)
    fit = DynamicPartitionModel(6, max_iter=40, random_state=0, tol=10.0).fit(X)
    searches = sum(record.step.search for record in fit.history_)
    # One iteration over all rows to see that nothing moves, and the last, which shrinks.
    assert fit.n_iter_ == searches + 2 < 40
    assert [record.step.shrink for record in fit.history_].index(True) == fit.n_iter_ - 1
    full = DynamicPartitionModel(6, max_iter=40, random_state=0, tol=0.0).fit(X)
    assert full.n_iter_ == 40


def test_opinions_on_few_rows_are_shrunk_and_explain_unseen_ones_better():
    rng = np.random.default_rng(0)
    parts = rng.random((6, 60)) < 0.5
    rows = np.where(rng.random((500, 60)) < 0.15, 1, 0) ^ parts[rng.integers(6, size=500)]
    train, unseen = rows[:60], rows[60:]

    class Sure(Annealed):
        def steps(self, problem, min_active):
            return [replace(step, shrink=False) for step in super().steps(problem, min_active)]

    def explained(learning):
        model = DynamicPartitionModel(6, learning=learning, random_state=0).fit(train)
        return model, model.log_likelihood(unseen, model.transform(unseen)).mean()

    (shrunk, more), (sure, less) = explained("annealed"), explained(Sure())
    assert shrunk.history_[-1].shrinkage > 0
    assert sure.history_[-1].shrinkage == 0
    assert more > less
    np.testing.assert_allclose(shrunk.expertise_, sure.expertise_, rtol=1e-5)
    certain = DynamicPartitionModel(6, random_state=0).fit(make_pairs(3))
    assert certain.history_[-1].shrinkage == 0


def test_objectives_are_what_they_say():
    summary = CodeSummary(10, np.array([5, 0, 10]), -20.0)
    p = np.array([5.5, 0.5, 10.5]) / 11
    h = np.zeros((10, 3))
    h[:5, 0] = h[:, 2] = 1
    expected = (-20.0 + CodePrior.independent(p).log_prob(h).sum()) / 10
    assert joint_objective(summary) == pytest.approx(expected)
    family = make_family("auto", column_moments(np.eye(2)))
    experts = Experts(family, np.full((1, 3, 2), 0.3), np.zeros((3, 2)))
    prior = 6 * (0.5 * np.log(0.3) + 0.5 * np.log(0.7))
    found = penalised_objective(summary, experts, np.full((1, 2), 0.5), 2.0, 10)
    assert found == pytest.approx(-2.0 + 2.0 * prior / 10)


def test_idle_experts_are_reinitialised_when_that_explains_more():
    """Three of eight experts insist that all pixels are on: nobody ever asks them again."""
    X = make_bars(4, 400, random_state=0)
    task, plan = make_task(X, n_experts=8, n_iter=20), Annealed()
    steps = plan.steps(task, 2)
    start = LearnerState(start_for(task, seed=1))
    state = last(iterate(task, plan, start, steps, seed=0))
    eta, level = state.experts.eta.copy(), state.experts.log2_expertise.copy()
    eta[:, :3], level[:3] = 0.9999, level.max()
    crippled = replace(state, experts=Experts(state.experts.family, eta, level))

    def codes(experts):
        return REFERENCE.pursue(Rows(X), experts, PursuitRule(1, 8, np.zeros(8)))

    assert set(idle_experts(codes(crippled.experts).summary(8).usage)) >= {0, 1, 2}
    changed = reinitialise(task, plan, crippled, steps[-1], task.rows, 400, seed=0)
    after = codes(changed.experts)
    assert after.log_likelihood.sum() > codes(crippled.experts).log_likelihood.sum()
    assert len(idle_experts(after.summary(8).usage)) < 3


def test_reinitialisation_leaves_a_good_model_alone():
    X = make_pairs(4)
    model = DynamicPartitionModel(8, random_state=0).fit(X)
    state = LearnerState(model._experts())
    task = make_task(X, n_experts=8)
    assert reinitialise(task, Annealed(), state, Step(), task.rows, len(X), seed=0) is state


def test_reinitialisation_that_explains_less_is_taken_back():
    """Two of ten experts have nothing to do: whoever joins the eight, nothing is left to gain."""
    X = make_pairs(4)
    model = DynamicPartitionModel(8, random_state=0).fit(X)
    known = model._experts()
    eta = np.concatenate([known.eta, np.full((1, 2, 8), 0.5)], axis=1)
    level = np.concatenate([known.log2_expertise, np.full((2, 8), known.log2_expertise.min() - 9)])
    state = LearnerState(Experts(known.family, eta, level))
    task = make_task(X, n_experts=10)
    codes = REFERENCE.pursue(Rows(X), state.experts, PursuitRule(1, 10, np.zeros(10)))
    assert set(idle_experts(codes.summary(10).usage)) == {8, 9}
    assert (
        reinitialise(task, Annealed(), state, Step(min_active=4), task.rows, len(X), seed=0)
        is state
    )


def test_complaints_name_what_went_wrong():
    family = make_family("auto", column_moments(np.eye(2)))
    experts = Experts(family, np.full((1, 4, 2), 0.5), np.zeros((4, 2)))
    one_each = Codes(np.zeros((20, 1), dtype=int), np.zeros(20)).summary(4)
    found = complaints(one_each, experts, (), 4)
    assert any("one active expert in every row" in text for text in found)
    assert any("3 of 4 experts are never used" in text for text in found)
    assert any("try n_init=5, more iterations" in text for text in found)
    options = complaints(one_each, experts, (), 4, remedies=BareModel._remedies)
    assert all("--n-init 5" in text and "n_init" not in text for text in options)
    assert any("try a smaller -k, or" in text for text in options)
    assert complaints(CodeSummary(20, np.array([9, 8, 7, 9]), 0.0), experts, (), 4) == []


@pytest.mark.filterwarnings("ignore:independent columns")
def test_a_collapse_is_warned_about():
    X = np.repeat(np.eye(6, dtype=np.uint8), 20, axis=0)
    with pytest.warns(ConvergenceWarning, match="experts are never used"):
        DynamicPartitionModel(12, random_state=0, max_iter=5, learning="paper").fit(X)


def test_trials_are_kept_and_explained(capsys):
    model = DynamicPartitionModel(10, random_state=0, max_iter=12, verbose=2).fit(make_pairs(5))
    found = model.adaptation_
    minima = [trial.min_active for trial in found.trials]
    assert {least: minima.count(least) for least in minima} == dict.fromkeys((1, 2, 4, 5), REPEATS)
    assert found.min_active == max(found.trials, key=lambda trial: trial.score).min_active
    assert f"at least {found.min_active} active experts in the search" in capsys.readouterr().err


@pytest.mark.slow
def test_factors_are_found_with_one_set_of_defaults():
    """Five pairs and bars, a few seeds each: the full count is in benchmarks/quality.py."""
    X = make_pairs(5)
    found = [
        pairs_recovered(DynamicPartitionModel(10, random_state=seed).fit(X).means_).all()
        for seed in range(10)
    ]
    assert np.mean(found) >= 0.9
    bars = make_bars(5, 1000, random_state=0)
    model = DynamicPartitionModel(12, max_iter=60, random_state=0).fit(bars)
    H = model.transform(bars)
    assert bars_recovered(model.means_, model.partition(H)).all()
