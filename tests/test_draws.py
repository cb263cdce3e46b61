"""Codes drawn from their posterior, held to sums over all codes, and opinions fitted to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynpart.learning._drawn
import dynpart.refitting
from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.enumeration import EveryCode, all_codes
from dynpart.learning._drawn import members_of
from dynpart.neighbourhood import redrawn
from tests.effort import examples
from tests.strategies import make_experts, make_prior, make_rows, problems


def posterior(rows, experts, prior, codes):
    """P(h | x) of these codes by enumeration."""
    return EveryCode.of(experts, codes).summed(rows, experts, prior)[1]


def chains(rows, experts, prior, limits, rng, n_sweeps):
    """Codes after some sweeps, which begin with codes within the limits, drawn evenly."""
    codes = all_codes(experts.n_experts, *limits)
    active = codes[rng.integers(len(codes), size=len(rows))]
    for _ in range(n_sweeps):
        active = redrawn(rows, active, experts, prior, limits, rng)
    return active


def unsure(rng, family, n_experts):
    """Experts with few variables, so that several codes of a row are probable."""
    return make_experts(rng, family, n_experts, 3)


@examples(12)
@given(
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(["bernoulli", "categorical", "count", "mixed"]),
    n_experts=st.integers(2, 4),
    data=st.data(),
)
def test_chains_end_in_the_posterior(seed, family, n_experts, data):
    rng = np.random.default_rng(seed)
    fewest = data.draw(st.integers(1, n_experts))
    limits = fewest, data.draw(st.integers(fewest, n_experts))
    experts, prior = unsure(rng, family, n_experts), make_prior(rng, n_experts)
    row = make_rows(rng, experts, 1, missing=0.2)
    codes = all_codes(n_experts, *limits)
    expected = posterior(row, experts, prior, codes)[0]
    n_chains = 4000
    drawn = chains(row[np.zeros(n_chains, int)], experts, prior, limits, rng, 60)
    place = (drawn[:, None] == codes).all(axis=2).argmax(axis=1)
    found = np.bincount(place, minlength=len(codes)) / n_chains
    # The standard error of a share is below 0.008; one code in a thousand examples is further off.
    np.testing.assert_allclose(found, expected, atol=0.05)


@examples(30)
@given(problem=problems(), seed=st.integers(0, 1000), data=st.data())
def test_draws_stay_within_the_limits_and_do_not_depend_on_other_rows(problem, seed, data):
    experts, rows = problem
    n_experts = experts.n_experts
    fewest = data.draw(st.integers(1, n_experts))
    limits = fewest, data.draw(st.integers(fewest, n_experts))
    prior, rng = make_prior(np.random.default_rng(seed), n_experts), np.random.default_rng(seed)
    first = chains(rows, experts, prior, limits, rng, 3)
    assert (first.sum(axis=1) >= limits[0]).all()
    assert (first.sum(axis=1) <= limits[1]).all()
    joined = type(rows).joined([rows, rows])
    rng = np.random.default_rng(seed)
    code = all_codes(n_experts, *limits)[0]
    begun = np.tile(code, (2 * len(rows), 1))
    together = redrawn(joined, begun, experts, prior, limits, rng)
    alone = redrawn(rows, begun[: len(rows)], experts, prior, limits, np.random.default_rng(seed))
    np.testing.assert_array_equal(together[: len(rows)], alone)


def test_members_are_the_active_experts():
    active = np.array([[True, False, True], [False, True, False]])
    np.testing.assert_array_equal(members_of(active), [[0, 2], [1, -1]])


def overlapping_parts(n_rows, seed):
    """Answers to 24 questions with five levels; four questions each share a trait."""
    rng = np.random.default_rng(seed)
    traits = np.repeat(rng.normal(size=(n_rows, 6)), 4, axis=1)
    answers = np.digitize(traits + rng.normal(size=traits.shape), [-1.5, -0.5, 0.5, 1.5])
    return [[f"level {answer}" for answer in row] for row in answers.tolist()]


@pytest.fixture
def decided(monkeypatch):
    """A function that takes the decision of held-back rows."""

    def decide(outcome):
        monkeypatch.setattr(dynpart.learning._drawn, "_is_better", lambda *arguments: outcome)

    return decide


def fitted(rows, **changes):
    """A model of more codes than can be enumerated."""
    parameters = {"max_iter": 15, "random_state": 0, **changes}
    return DynamicPartitionModel(12, **parameters).fit(rows)


def test_unseen_rows_gain_by_draws(decided):
    train, test = overlapping_parts(600, 0), overlapping_parts(400, 10)
    decided(True)
    drawn = fitted(train)
    decided(False)
    best = fitted(train)
    assert not best.adaptation_.mixture
    np.testing.assert_array_equal(drawn.expertise_, best.expertise_)
    assert np.mean(drawn.log_density(test) - best.log_density(test)) > 0.05


@pytest.mark.slow
def test_held_back_rows_decide(monkeypatch):
    outcomes = []
    is_better = dynpart.learning._drawn._is_better

    def noted(*arguments):
        outcomes.append(is_better(*arguments))
        return outcomes[-1]

    monkeypatch.setattr(dynpart.learning._drawn, "_is_better", noted)
    # Many rows whose codes overlap, and rows each of which has one code.
    fitted(overlapping_parts(2500, 0), max_iter=10)
    fitted(np.tile(make_pairs(6), (4, 1)))
    assert outcomes == [True, False]


def test_a_fit_with_draws_is_repeatable_on_any_number_of_threads(decided):
    decided(True)
    X = overlapping_parts(200, 0)
    models = [fitted(X, max_iter=10, n_jobs=n_jobs) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(models[0].expertise_, models[1].expertise_)
    np.testing.assert_array_equal(models[0].log_density(X), models[1].log_density(X))


def test_torch_fits_end_with_draws(monkeypatch, decided):
    pytest.importorskip("torch")
    decided(True)
    called = []
    drawn = dynpart.refitting.fitted_to_draws

    def noted(*arguments):
        called.append(drawn(*arguments))
        return called[-1]

    monkeypatch.setattr(dynpart.refitting, "fitted_to_draws", noted)
    monkeypatch.setattr(dynpart.refitting, "is_affordable", lambda *sizes: False)
    X = make_pairs(4)
    weight = 1 + np.arange(len(X)) % 3
    model = DynamicPartitionModel(6, max_iter=4, engine="torch", random_state=0)
    model.fit(X, sample_weight=weight)
    assert len(called) == 1
    assert np.isfinite(model.log_density(X)).all()
