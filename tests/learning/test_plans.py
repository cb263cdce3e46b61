"""Plans: what the schedule promises at every size, and the paper's sign updates."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.engines import GradientSums
from dynpart.families import ColumnMoments, make_family
from dynpart.learning import Annealed, Paper, Task


def sized(n_rows, n_features, n_experts, n_iter, min_active, max_active):
    """A task of these sizes, without rows."""
    moments = ColumnMoments.complete(n_rows, np.zeros(n_features), np.zeros(n_features), True)
    family = make_family("bernoulli", moments)
    return Task(None, None, moments, family, n_experts, n_iter, min_active, max_active)


sizes = st.builds(
    lambda n_rows, n_features, n_experts, n_iter, cap: sized(
        n_rows, n_features, n_experts, n_iter, 1, min(cap, n_experts)
    ),
    st.integers(1, 10**7),
    st.integers(1, 50_000),
    st.integers(1, 500),
    st.integers(1, 80),
    st.integers(1, 500),
)


@given(sizes)
def test_every_schedule_keeps_its_promises(task):
    plan = Annealed()
    for least in plan.candidates(task):
        assert task.min_active <= least <= task.max_active
        steps = plan.steps(task, least)
        assert len(steps) == task.n_iter
        # first the search, then the refinement; the very last iteration sees all rows
        assert [step.search for step in steps] == sorted((s.search for s in steps), reverse=True)
        assert steps[-1].n_rows is None
        assert all(step.smoothed <= step.search for step in steps)
        assert all(step.n_rows is None or step.n_rows <= task.n_rows for step in steps)
        minima = [step.min_active for step in steps]
        assert minima == sorted(minima, reverse=True)
        assert max(minima) <= least
        low = max(task.min_active, math.ceil(least / 2))
        assert minima[-1] == low
        n_search = sum(step.search for step in steps)
        bounds = [step.log2_bound for step in steps]
        assert np.all(np.diff(bounds) >= -1e-9)
        widest = math.log2(max(8 * task.n_experts, task.n_rows))
        if n_search:
            # softly, with the minimum at its full value and levels within a factor of two, at first
            assert (steps[0].smoothed, minima[0], bounds[0]) == (True, least, 1.0)
        if n_search > 1:
            assert bounds[n_search - 1] == pytest.approx(math.log2(8 * task.n_experts))
        if task.n_iter - n_search > 1:
            assert bounds[n_search - 1] <= bounds[n_search] + 1e-9 < bounds[-1] + 2e-9
            assert bounds[-1] == pytest.approx(
                widest - (widest - bounds[n_search]) / (task.n_iter - n_search)
            )
        sizes = [step.size for step in steps if not step.search]
        assert np.all(np.diff(sizes) < 0)
        assert sizes[0] == 1
        assert sizes[-1] == pytest.approx(len(sizes) ** -0.5)
        assert [step.shrink for step in steps] == [False] * (task.n_iter - 1) + [True]


def test_only_the_refinement_is_thorough():
    steps = Annealed(n_starts=8, n_swaps=2).steps(sized(10**4, 100, 20, 30, 1, 20), min_active=7)
    for step in steps:
        assert (step.n_starts, step.n_swaps) == ((1, 0) if step.search else (8, 2))


@pytest.mark.parametrize(
    ("n_rows", "n_iter", "swaps"),
    [(10**3, 20, [1] * 6), (10**4, 20, [1] * 5 + [0]), (10**3, 10, [0] * 3)],
)
def test_swaps_are_for_refinements_with_time(n_rows, n_iter, swaps):
    steps = Annealed().steps(sized(n_rows, 100, 20, n_iter, 1, 20), min_active=7)
    assert [step.n_swaps for step in steps if not step.search] == swaps


def test_only_the_last_averages_of_many_rows_are_sharper():
    *others, last = Annealed().steps(sized(10**4, 100, 20, 30, 1, 20), min_active=7)
    assert last.sharpness > 1
    assert {step.sharpness for step in others} == {1.0}
    few = Annealed().steps(sized(10**3, 100, 20, 30, 1, 20), min_active=7)
    assert {step.sharpness for step in few} == {1.0}


def test_the_cost_of_the_search_does_not_grow_with_the_rows():
    def rows(n_rows):
        steps = Annealed().steps(sized(n_rows, 784, 100, 30, 1, 12), 12)
        return sum(step.n_rows * step.n_batches for step in steps if step.search)

    assert rows(10**6) == rows(10**5)


def test_small_tasks_have_trials_and_large_ones_follow_the_rule():
    assert len(Annealed().candidates(sized(1000, 25, 12, 60, 1, 12))) == 4
    assert Annealed().candidates(sized(60_000, 784, 100, 30, 1, 100)) == [12]
    assert Annealed(min_active=5).candidates(sized(1000, 25, 12, 60, 1, 12)) == [5]
    assert Annealed(min_active=50).candidates(sized(1000, 25, 12, 60, 1, 3)) == [3]


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


@pytest.mark.parametrize(
    ("plan", "name", "value"),
    [
        (Annealed, "factor", 0.5),
        (Annealed, "factor", math.inf),
        (Annealed, "certainty", 0),
        (Annealed, "certainty", -1.0),
        (Annealed, "epsilon", 0.0),
        (Annealed, "epsilon", math.nan),
        (Annealed, "min_active", -1),
        (Annealed, "min_active", 1.5),
        (Annealed, "n_starts", 0),
        (Annealed, "n_starts", None),
        (Annealed, "n_swaps", -1),
        (Paper, "factor", 0),
        (Paper, "factor", "two"),
        (Paper, "epsilon", -1.0),
        (Paper, "still", -1e-6),
    ],
)
def test_a_plan_refuses_numbers_that_nothing_can_be_learnt_with(plan, name, value):
    with pytest.raises(ValueError, match=rf"^{name} of {plan.__name__} must be .*, got {value!r}$"):
        plan(**{name: value})


@pytest.mark.parametrize("certainty", [5e-324, 1e-300, 1e300])
def test_any_certainty_leaves_changes_within_the_factor(certainty):
    first, second = np.array([[1.0, 0.0, -3.0]]), np.array([[1.0, 0.0, 1.0]])
    with np.errstate(over="ignore"):
        change = Annealed(certainty=certainty).expertise_change(
            GradientSums(np.stack([first, second])), 10
        )
    assert np.isfinite(change).all()
    assert change[0, 1] == 0
    assert (np.abs(change) <= 1).all()


def test_only_a_search_without_trials_has_a_price():
    """With trials the minimum says how many experts to activate; the refinement has a prior."""
    small, large = sized(1000, 25, 12, 60, 1, 12), sized(60_000, 784, 100, 30, 1, 100)
    assert {step.price for step in Annealed().steps(small, 3)} == {0.0}
    for step in Annealed().steps(large, 12):
        assert step.price == (np.log(100) if step.search else 0.0)
