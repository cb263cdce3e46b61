"""Plans: what the schedule promises at every size, and the paper's sign updates."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.engines import GradientSums
from dynpart.learning import Annealed, Paper, Problem

sizes = st.builds(
    lambda n_rows, n_features, n_experts, n_iter, cap: Problem(
        n_rows, n_features, n_experts, n_iter, 1, min(cap, n_experts)
    ),
    st.integers(1, 10**7),
    st.integers(1, 50_000),
    st.integers(1, 500),
    st.integers(1, 80),
    st.integers(1, 500),
)


@given(sizes)
def test_every_schedule_keeps_its_promises(problem):
    plan = Annealed()
    for floor in plan.contenders(problem):
        assert problem.min_active <= floor <= problem.max_active
        steps = plan.steps(problem, floor)
        assert len(steps) == problem.n_iter
        # first the search, then the polish; the very last iteration sees all rows
        assert [step.search for step in steps] == sorted((s.search for s in steps), reverse=True)
        assert steps[-1].n_rows is None
        assert all(step.smoothed <= step.search for step in steps)
        assert all(step.n_rows is None or step.n_rows <= problem.n_rows for step in steps)
        floors = [step.min_active for step in steps]
        assert floors == sorted(floors, reverse=True)
        assert max(floors) <= floor
        assert floors[-1] >= math.ceil(floor / 2) or floor == 1
        bounds = [step.log2_bound for step in steps]
        assert np.all(np.diff(bounds) >= -1e-9)
        polish = [step.size for step in steps if not step.search]
        assert np.all(np.diff(polish) < 0)
        assert all(0 < size <= 1 for size in polish)


def test_only_the_polish_is_thorough():
    steps = Annealed(n_starts=8, n_swaps=2).steps(Problem(10**4, 100, 20, 30, 1, 20), floor=7)
    for step in steps:
        assert (step.n_starts, step.n_swaps) == ((1, 0) if step.search else (8, 2))


@pytest.mark.parametrize(
    ("n_rows", "n_iter", "swaps"),
    [(10**3, 20, [1] * 6), (10**4, 20, [1] * 5 + [0]), (10**3, 10, [0] * 3)],
)
def test_swaps_are_for_polishes_with_time(n_rows, n_iter, swaps):
    steps = Annealed().steps(Problem(n_rows, 100, 20, n_iter, 1, 20), floor=7)
    assert [step.n_swaps for step in steps if not step.search] == swaps


def test_only_the_last_averages_of_many_rows_are_sharper():
    *others, last = Annealed().steps(Problem(10**4, 100, 20, 30, 1, 20), floor=7)
    assert last.sharpness > 1
    assert {step.sharpness for step in others} == {1.0}
    few = Annealed().steps(Problem(10**3, 100, 20, 30, 1, 20), floor=7)
    assert {step.sharpness for step in few} == {1.0}


def test_the_cost_of_the_search_does_not_grow_with_the_rows():
    def rows(n_rows):
        steps = Annealed().steps(Problem(n_rows, 784, 100, 30, 1, 12), 12)
        return sum(step.n_rows * step.n_batches for step in steps if step.search)

    assert rows(10**6) == rows(10**5)


def test_small_problems_race_and_large_ones_follow_the_rule():
    assert len(Annealed().contenders(Problem(1000, 25, 12, 60, 1, 12))) == 4
    assert Annealed().contenders(Problem(60_000, 784, 100, 30, 1, 100)) == [12]
    assert Annealed(floor=5).contenders(Problem(1000, 25, 12, 60, 1, 12)) == [5]
    assert Annealed(floor=50).contenders(Problem(1000, 25, 12, 60, 1, 3)) == [3]


def test_evidence_counts_in_its_own_standard_errors():
    first = np.array([[4.0, 1.0, -8.0, 0.0]])
    evidence = GradientSums(np.stack([first, np.array([[4.0, 1.0, 1.0, 0.0]])]))
    change = Annealed(certainty=2.0, factor=2.0).expertise_change(evidence, 10)
    np.testing.assert_allclose(change, [[1.0, 0.5, -1.0, 0.0]])
    scaled = GradientSums(np.stack([1e6 * first, 1e12 * evidence.second]))
    np.testing.assert_allclose(Annealed().expertise_change(scaled, 10), change)


@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_paper_moves_by_the_sign_and_leaves_still_gradients(factor):
    evidence = GradientSums(np.stack([np.array([[5.0, -0.1, 1e-9]]), np.ones((1, 3))]))
    change = Paper(factor=factor).expertise_change(evidence, 100)
    np.testing.assert_allclose(change, np.log2(factor) * np.array([[1, -1, 0]]))
