"""The reference engine: pursuit against brute force, and sums that add up."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.composition import owners
from dynpart.engines import MARGIN, Experts, make_engine
from dynpart.engines.reference import HardScore, expert_log_densities, greedy_pursuit
from dynpart.families import Bernoulli
from dynpart.pursuits import background_expert, pursue
from dynpart.rows import Rows
from tests.strategies import make_experts, make_rows, make_rule, problems

ENGINE = make_engine("reference")


def likelihood(experts, x, active_set):
    """Log P(x | h) of one row, straight from eq. 2."""
    active = np.zeros((1, experts.n_experts), dtype=bool)
    active[0, list(active_set)] = True
    owner = owners(experts.ranks, active)[0]
    eta = experts.eta[:, owner, np.arange(len(owner))]
    return experts.family.log_density(x[None], eta[:, None]).sum()


def mixture_likelihood(experts, x, active_set):
    """Log of eq. 4 for one row: a mixture per variable."""
    k = list(active_set)
    log_density = experts.family.log_density(x[None], experts.eta[:, k])
    weight = np.exp2(experts.log2_expertise[k])
    return np.log((weight * np.exp(log_density)).sum(axis=0) / weight.sum(axis=0)).sum()


def literal_pursuit(score, n_experts, fewest, most, cost):
    """Section 2.1 in five lines: activate the best until nothing earns its cost."""
    chosen = []
    while len(chosen) < most:
        now = score(chosen) if chosen else 0.0
        gains = {
            k: score([*chosen, k]) - now - cost[k] for k in range(n_experts) if k not in chosen
        }
        best = max(gains, key=lambda k: (round(gains[k], 9), -k))
        if len(chosen) >= fewest and gains[best] <= MARGIN:
            break
        chosen.append(best)
    return chosen


@given(problems(), st.booleans(), st.data())
def test_pursuit_is_the_literal_one(problem, smoothed, data):
    experts, rows = problem
    n_experts = experts.n_experts
    most = data.draw(st.integers(1, n_experts))
    fewest = data.draw(st.integers(1, most))
    millionths = st.integers(-(10**6), 10**6)  # nothing that rounding could swallow
    drawn = data.draw(st.lists(millionths, min_size=n_experts, max_size=n_experts))
    cost = np.array(drawn) / 10**6
    rule = make_rule(n_experts, min_active=fewest, max_active=most, cost=cost, smoothed=smoothed)
    codes = pursue(ENGINE, rows, experts, rule)
    score = mixture_likelihood if smoothed else likelihood
    for x, order, value in zip(rows.values, codes.members, codes.log_likelihood, strict=True):
        expected = literal_pursuit(
            lambda s, x=x: score(experts, x, s), n_experts, fewest, most, cost
        )
        assert list(order[order >= 0]) == expected
        assert value == pytest.approx(likelihood(experts, x, expected), rel=1e-9)


@given(problems())
def test_pursuit_never_lowers_the_likelihood(problem):
    experts, rows = problem
    codes = pursue(ENGINE, rows, experts, make_rule(experts.n_experts))
    for x, order in zip(rows.values, codes.members, strict=True):
        path = [likelihood(experts, x, order[: m + 1]) for m in range((order >= 0).sum())]
        assert (np.diff(path) > 0).all()


@given(problems())
def test_a_row_gets_the_same_code_in_any_batch(problem):
    experts, rows = problem
    rule = make_rule(experts.n_experts, n_swaps=1)
    together = pursue(ENGINE, rows, experts, rule)
    for i in range(len(rows)):
        alone = pursue(ENGINE, rows[i : i + 1], experts, rule)
        np.testing.assert_array_equal(alone.members[0], together.members[i])
        assert alone.log_likelihood[0] == together.log_likelihood[i]


@given(problems(), st.integers(0, 2**32 - 1))
def test_permuting_variables_changes_no_code_and_permutes_sums(problem, seed):
    experts, rows = problem
    shuffle = np.random.default_rng(seed).permutation(rows.shape[1])
    shuffled = replace(rows, values=rows.values[:, shuffle])
    family = experts.family.of_columns(shuffle)
    eta = experts.eta[: family.n_statistics, :, shuffle]
    moved = type(experts)(family, eta, experts.log2_expertise[:, shuffle])
    rule = make_rule(experts.n_experts)
    codes = pursue(ENGINE, rows, experts, rule)
    np.testing.assert_array_equal(codes.members, pursue(ENGINE, shuffled, moved, rule).members)
    sums = ENGINE.responsibility_sums(rows, experts, codes)
    moved_sums = ENGINE.responsibility_sums(shuffled, moved, codes)
    np.testing.assert_allclose(moved_sums.weight, sums.weight[:, shuffle], rtol=1e-12)
    evidence = ENGINE.gradient_sums(rows, experts, codes)
    moved_evidence = ENGINE.gradient_sums(shuffled, moved, codes)
    np.testing.assert_allclose(moved_evidence.first, evidence.first[:, shuffle], atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["bernoulli", "gaussian"]))
def test_permuting_experts_permutes_codes(seed, family_name):
    rng = np.random.default_rng(seed)
    experts = make_experts(rng, family_name)  # no ties: the tie rule goes by index
    rows = make_rows(rng, experts)
    shuffle = rng.permutation(experts.n_experts)
    moved = type(experts)(experts.family, experts.eta[:, shuffle], experts.log2_expertise[shuffle])
    rule = make_rule(experts.n_experts)
    h = pursue(ENGINE, rows, experts, rule).active(experts.n_experts)
    moved_h = pursue(ENGINE, rows, moved, rule).active(experts.n_experts)
    np.testing.assert_array_equal(moved_h, h[:, shuffle])


@given(problems(max_rows=9), st.data())
def test_sums_of_batches_add_up(problem, data):
    experts, rows = problem
    codes = pursue(ENGINE, rows, experts, make_rule(experts.n_experts))
    cut = data.draw(st.integers(0, len(rows)))
    parts = [part for part in (slice(0, cut), slice(cut, None)) if len(rows[part])]
    for operation in (ENGINE.gradient_sums, ENGINE.responsibility_sums):
        whole = operation(rows, experts, codes)
        pieces = [operation(rows[part], experts, codes[part]) for part in parts]
        total = pieces[0] if len(pieces) == 1 else pieces[0] + pieces[1]
        for name in vars(whole):
            np.testing.assert_allclose(
                getattr(total, name), getattr(whole, name), rtol=1e-9, atol=1e-9
            )
    summaries = [codes[part].summary(experts.n_experts) for part in parts]
    total = summaries[0] if len(summaries) == 1 else summaries[0] + summaries[1]
    np.testing.assert_allclose(total.usage, codes.summary(experts.n_experts).usage)


@given(problems())
def test_responsibility_sums_count_every_observed_value_as_often_as_its_row_weighs(problem):
    experts, rows = problem
    codes = pursue(ENGINE, rows, experts, make_rule(experts.n_experts))
    sums = ENGINE.responsibility_sums(rows, experts, codes)
    T = experts.family.statistics(rows.values)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    observed = ~np.isnan(T[0])
    np.testing.assert_allclose(sums.weight.sum(axis=0), weight @ observed, rtol=1e-12)
    np.testing.assert_allclose(
        sums.statistics.sum(axis=1), weight @ np.where(observed, T, 0.0), rtol=1e-9, atol=1e-12
    )


@given(problems())
def test_gradients_over_active_experts_cancel(problem):
    """Only ratios of expertise matter: scaling all of them alike moves nothing."""
    experts, rows = problem
    codes = pursue(ENGINE, rows, experts, make_rule(experts.n_experts))
    first = ENGINE.gradient_sums(rows, experts, codes).first
    np.testing.assert_allclose(first.sum(axis=0), 0, atol=1e-8 * (1 + np.abs(first).max()))


@given(problems(max_experts=6))
def test_swaps_starts_and_pruning_only_improve_the_code(problem):
    experts, rows = problem
    n_experts = experts.n_experts
    cost = np.full(n_experts, 0.3)

    def worth(**changes):
        codes = pursue(ENGINE, rows, experts, make_rule(n_experts, cost=cost, **changes))
        assert (codes.n_active >= 1).all()
        assert codes.members.max() < n_experts
        return codes.log_likelihood - 0.3 * codes.n_active

    # dropping an expert may give away up to the margin
    slack = n_experts * MARGIN
    assert (worth(prune=True) >= worth() - slack).all()
    assert (worth(n_swaps=1) >= worth() - slack).all()
    assert (worth(n_starts=2) >= worth()).all()
    assert (worth(n_starts=2, n_swaps=2) >= worth(n_starts=2) - slack).all()


@given(problems())
def test_the_background_expert_is_the_average_one_and_comes_behind_the_best(problem):
    experts, _ = problem
    family, n_experts = experts.family, experts.n_experts
    for max_active in (1, 4, n_experts):
        more = experts.beside(background_expert(experts, max_active))
        np.testing.assert_array_equal(more.eta[:, :-1], experts.eta)
        for d in range(experts.eta.shape[2]):
            one = family.of_columns([d])
            opinions = more.eta[: one.n_statistics, :, d : d + 1]
            # Of levels the probabilities, of numbers the mean.
            said = opinions if one.n_levels else one.mean(opinions)[None]
            np.testing.assert_allclose(said[:, -1], said[:, :-1].mean(axis=1))
        full = max(1.0, min(max_active, 12, n_experts / 3))
        n_above = max(1, round(n_experts * (1 - 0.1 ** (1 / full))))
        # of experts with equal levels none is below it
        assert (more.ranks[-1] >= n_above).all()
        if len(np.unique(experts.log2_expertise)) == experts.log2_expertise.size:
            assert (more.ranks[-1] == n_above).all()
        order = more.ranks[:-1].argsort(axis=0)
        np.testing.assert_array_equal(order, experts.ranks.argsort(axis=0))


def test_the_background_expert_leads_away_from_a_bad_first_choice():
    """Alone, each specialist looks worse than the mediocre one; together, they are best."""
    mu = np.array([[0.6, 0.6, 0.6, 0.6], [0.99, 0.99, 0.01, 0.01], [0.01, 0.01, 0.99, 0.99]])
    level = np.array([[0, 0, 0, 0], [1, 1, -1, -1], [-1, -1, 1, 1]], dtype=float)
    experts = Experts(Bernoulli(), mu[None], level)
    x = Rows(np.ones((1, 4), dtype=np.uint8))
    assert pursue(ENGINE, x, experts, make_rule(3)).members[0, 0] == 0
    code = pursue(ENGINE, x, experts, make_rule(3, n_swaps=1)).members[0]
    assert set(code[code >= 0]) == {1, 2}


def test_swaps_and_starts_find_what_greed_missed():
    """Two specialists explain the row, but an all-rounder looks best at first."""
    mu = np.array([[0.8, 0.8, 0.8, 0.8], [0.99, 0.99, 0.5, 0.5], [0.5, 0.5, 0.99, 0.99]])
    level = np.array([[0, 0, 0, 0], [1, 1, -1, -1], [-1, -1, 1, 1]], dtype=float)
    experts = Experts(Bernoulli(), mu[None], level)
    x = Rows(np.ones((1, 4), dtype=np.uint8))
    rule = make_rule(3, max_active=2)
    assert set(pursue(ENGINE, x, experts, rule).members[0]) != {1, 2}
    for change in ({"n_swaps": 1}, {"n_starts": 2}):
        better = make_rule(3, max_active=2, **change)
        assert set(pursue(ENGINE, x, experts, better).members[0]) == {1, 2}
    # with room for three, the all-rounder ends up owning nothing, and pruning takes it out
    assert set(pursue(ENGINE, x, experts, make_rule(3)).members[0]) == {0, 1, 2}
    pruned = pursue(ENGINE, x, experts, make_rule(3, prune=True)).members[0]
    assert set(pruned[pruned >= 0]) == {1, 2}


@given(problems(max_experts=6))
def test_more_starts_never_explain_less(problem):
    experts, rows = problem
    n_experts = experts.n_experts
    cost = np.linspace(0, 1, n_experts)

    def worth(n_starts):
        codes = pursue(ENGINE, rows, experts, make_rule(n_experts, cost=cost, n_starts=n_starts))
        return codes.log_likelihood - codes.active(n_experts) @ cost

    found = [worth(n_starts) for n_starts in (1, 2, n_experts, 2 * n_experts)]
    assert (np.diff(found, axis=0) >= 0).all()
    np.testing.assert_array_equal(found[-1], found[-2])


def test_each_start_begins_with_another_expert():
    rng = np.random.default_rng(3)
    experts = make_experts(rng, n_experts=4, n_features=9)
    x = make_rows(rng, experts, 5)
    density = expert_log_densities(x, experts)
    orders = [
        greedy_pursuit(HardScore(density, experts), make_rule(4), place) for place in range(4)
    ]
    first = np.stack([order[:, 0] for order in orders])
    np.testing.assert_array_equal(np.sort(first, axis=0), np.arange(4)[:, None].repeat(5, axis=1))
    alone = [
        [likelihood(experts, row, (k,)) for k in order]
        for row, order in zip(x.values, first.T, strict=True)
    ]
    assert (np.diff(alone, axis=1) <= 0).all()


@pytest.mark.parametrize("change", [{"n_starts": 2}, {"n_swaps": 1}, {"prune": True}])
def test_codes_of_the_smoothed_rule_are_greedy(change):
    with pytest.raises(ValueError, match=r"codes of the smoothed rule are greedy"):
        make_rule(3, smoothed=True, **change)


@given(problems())
def test_exactly_m_active(problem):
    experts, rows = problem
    for m in (1, experts.n_experts):
        rule = make_rule(experts.n_experts, min_active=m, max_active=m, n_swaps=1, prune=True)
        assert (pursue(ENGINE, rows, experts, rule).n_active == m).all()


def test_greedy_is_near_the_best_code_on_small_problems():
    """Compare with all codes: greedy with swaps finds the best one nearly always."""
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(40):
        experts = make_experts(rng, n_experts=5, n_features=8)
        x = make_rows(rng, experts, 1)
        best = max(
            likelihood(experts, x.values[0], s)
            for m in range(1, 6)
            for s in combinations(range(5), m)
        )
        found = pursue(ENGINE, x, experts, make_rule(5, n_swaps=2)).log_likelihood[0]
        assert found <= best + 1e-9
        gaps.append(best - found)
    assert np.median(gaps) < 1e-9


def test_all_ties_leave_everything_to_the_lowest_index():
    rng = np.random.default_rng(0)
    experts = make_experts(rng, n_experts=3, n_features=4)
    experts = type(experts)(experts.family, experts.eta, np.zeros((3, 4)))
    codes = pursue(ENGINE, make_rows(rng, experts), experts, make_rule(3, min_active=3))
    np.testing.assert_array_equal(owners(experts.ranks, codes.active(3)), 0)
