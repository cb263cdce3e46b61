"""One expert a row: learnt where rows have no parts, and no worse than EM for a mixture."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.engines import Experts, make_engine
from dynpart.families import column_moments, make_family
from dynpart.learning import Annealed, Task, fit_mixture
from dynpart.learning._contest import contest
from dynpart.learning._mixture import learn_mixture
from dynpart.learning._restarts import _continued
from dynpart.learning._unseen import Unseen
from dynpart.persistence import load
from dynpart.rows import Rows

CPU = make_engine("cpu")


def clusters(n_rows, n_clusters=5, n_features=16, seed=0):
    """Rows of one of several kinds each; within a kind columns are independent."""
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.3, 0.7, 0.9], (n_clusters, n_features))
    kind = rng.integers(0, n_clusters, n_rows)
    return (rng.random((n_rows, n_features)) < p[kind]).astype(np.uint8)


def mixture_by_em(X, n_components, n_iter=200, seed=0):
    """Mean log-likelihood of rows under a mixture of Bernoullis fitted to `X`, plain EM."""
    rng = np.random.default_rng(seed)
    usual = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    p = 0.5 * usual + 0.25 + 0.5 * (X[rng.choice(len(X), n_components, replace=False)] - 0.5) * 0.9
    weight = np.full(n_components, 1 / n_components)

    def scores(rows):
        return rows @ np.log(p / (1 - p)).T + np.log1p(-p).sum(axis=1) + np.log(weight)

    for _ in range(n_iter):
        found = scores(X)
        share = np.exp(found - np.logaddexp.reduce(found, axis=1)[:, None])
        weight = share.mean(axis=0)
        p = (share.T @ X + usual) / (share.sum(axis=0) + 1)[:, None]
    return lambda rows: np.logaddexp.reduce(scores(rows), axis=1).mean()


@pytest.fixture(scope="module")
def fitted():
    X = clusters(1500)
    return DynamicPartitionModel(5, random_state=0).fit(X[:1000]), X


def test_rows_without_parts_get_one_expert_each(fitted):
    model, X = fitted
    assert model.adaptation_.mixture
    assert "one expert per row" in str(model.adaptation_)
    codes = model.transform(X[1000:])
    assert codes.sum(axis=1).mean() < 1.05


def test_unseen_rows_are_described_as_well_as_by_em(fitted):
    model, X = fitted
    em = max(mixture_by_em(X[:1000], 5, seed=seed)(X[1000:]) for seed in range(3))
    assert model.log_density(X[1000:]).mean() > em - 0.05


def test_scores_are_those_of_the_best_expert_alone_or_better(fitted):
    model, X = fitted
    alone = np.stack(
        [model.log_likelihood(X, np.tile(h, (len(X), 1))) for h in np.eye(5, dtype=int)]
    )
    alone += model.log_prior(np.eye(5, dtype=int))[:, None]
    assert (model.score_samples(X) > alone.max(axis=0) - 0.01).all()


def test_model_files_remember_it(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "mixture.dynpart")
    again = load(tmp_path / "mixture.dynpart")
    assert again.adaptation_ == model.adaptation_
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))


def test_rows_with_parts_keep_several_experts():
    X = make_pairs(5)
    model = DynamicPartitionModel(10, random_state=0).fit(X)
    assert not model.adaptation_.mixture
    assert model.transform(X).sum(axis=1).mean() == 5


def parts(n_rows, seed=0):
    """Rows of four halves that are one of two kinds each, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, 4)).repeat(5, axis=1)
    return (X ^ (rng.random(X.shape) < 0.1)).astype(np.uint8)


def baskets(n_rows, seed=0):
    """Most rows are empty; the rest has a few things of one of six shelves."""
    rng = np.random.default_rng(seed)
    shelf = rng.integers(0, 6, n_rows)
    chance = np.kron(np.eye(6), np.full((1, 5), 0.45))[shelf]
    return ((rng.random((n_rows, 30)) < chance) & (rng.random((n_rows, 1)) < 0.3)).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_codes_of_rows_that_are_mostly_empty_cost_less_than_columns():
    """Components that overlap would each get a share of the empty rows, and cost their codes."""
    X, unseen = baskets(6000), baskets(2000, seed=1)
    model = DynamicPartitionModel(14, random_state=0).fit(X)
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    columns = np.log(np.where(unseen, p, 1 - p)).sum(axis=1).mean()
    assert model.score(unseen) > columns
    assert model.baseline_.saved_bits > 0
    em = mixture_by_em(X, 14)
    assert model.log_density(unseen).mean() > em(unseen) - 0.1


@pytest.mark.parametrize("scale", [0.1, 40.0])
@pytest.mark.parametrize(
    ("lead", "is_open"), [(-0.02, False), (-0.005, True), (0.03, True), (0.07, False)]
)
def test_a_mixture_must_lead_by_more_because_drawn_codes_are_not_in_the_estimate(
    scale, lead, is_open
):
    experts, mixture = -scale, -scale * (1 - lead)
    unseen = Unseen(experts, -2 * scale, 0.1, density=experts, mixture=mixture)
    assert unseen.is_close() == is_open
    assert not replace(unseen, mixture=np.nan).is_close()


@pytest.mark.slow
@pytest.mark.parametrize(("make", "has_parts"), [(clusters, False), (parts, True)])
def test_a_close_call_is_decided_by_rows_that_neither_has_seen(make, has_parts, monkeypatch):
    asked, continued = [], []

    def decided(*arguments):
        asked.append(contest(*arguments))
        return asked[-1]

    def further(*arguments):
        continued.append(_continued(*arguments))
        return continued[-1]

    def at_any_rate(task, plan, rows, enough, seed):
        return learn_mixture(task, plan, rows, -np.inf, seed)

    for margin in ("CLOSE", "BY_DRAWING"):
        monkeypatch.setattr(f"dynpart.learning._unseen.{margin}", np.inf)
    monkeypatch.setattr("dynpart.learning._restarts.learn_mixture", at_any_rate)
    monkeypatch.setattr("dynpart.learning._restarts.contest", decided)
    monkeypatch.setattr("dynpart.learning._restarts._continued", further)
    model = DynamicPartitionModel(8, max_iter=10, random_state=0)
    model.fit(make(2400))
    assert [winner is not None for winner in asked] == [has_parts]
    assert model.adaptation_.mixture == (not has_parts)
    assert len(continued) == has_parts
    for fit in continued:  # iterations are counted as in any fit
        assert [record.iteration for record in fit.history] == list(range(10))


@pytest.mark.parametrize(
    "asked",
    [
        {"prior": None},
        {"n_active": 2},
        {"learning": Annealed(min_active=2)},
        {"learning": "paper"},
    ],
)
def test_a_mixture_is_no_alternative_to_what_was_asked_for(asked):
    model = DynamicPartitionModel(5, max_iter=10, random_state=0, **asked).fit(clusters(300))
    assert not model.adaptation_.mixture


@pytest.mark.slow
def test_a_large_sparse_matrix_has_the_same_alternative(monkeypatch):
    X = clusters(300)
    dense = DynamicPartitionModel(5, max_iter=10, random_state=0).fit(X)
    monkeypatch.setattr("dynpart.sparse.WHOLE_VALUES", 60)
    sparse = DynamicPartitionModel(5, max_iter=10, random_state=0).fit(csr_array(X))
    assert dense.adaptation_.mixture
    assert sparse.adaptation_.mixture


def test_a_row_counts_as_often_as_it_weighs():
    X, weight = clusters(200), np.random.default_rng(0).integers(0, 3, 200)
    weighted = DynamicPartitionModel(5, max_iter=10, random_state=0).fit(X, sample_weight=weight)
    repeated = DynamicPartitionModel(5, max_iter=10, random_state=0).fit(X.repeat(weight, axis=0))
    assert weighted.adaptation_.mixture == repeated.adaptation_.mixture
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-6)
    np.testing.assert_allclose(weighted.score(X), repeated.score(X), atol=1e-6)


def test_sums_without_some_rows_are_those_of_the_others():
    X = clusters(300).astype(float)
    family = make_family("bernoulli", column_moments(X))
    eta = np.random.default_rng(0).uniform(0.1, 0.9, (1, 5, 16))
    experts, log_weight = Experts(family, eta, np.zeros((5, 16))), np.log(np.full(5, 0.2))
    every, some, others = (
        CPU.mixture_sums(Rows.of(part, family), experts, log_weight)
        for part in (X, X[:100], X[100:])
    )
    left = every.without(some)
    np.testing.assert_allclose(left.sums.array, others.sums.array, atol=1e-9)
    np.testing.assert_allclose(left.usage, others.usage)
    assert left.log_likelihood == pytest.approx(others.log_likelihood)


def rare(n_rows, seed=0):
    """Rows of four kinds that have a few of many rare things, most of them in common."""
    p = np.random.default_rng(0).beta(0.3, 12, (4, 60))
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, n_rows)
    return (rng.random((n_rows, 60)) < p[kind]).astype(np.uint8)


def task_of(X, n_experts):
    family = make_family("bernoulli", column_moments(X))
    rows = Rows.of(X, family)
    return Task(CPU, rows, column_moments(X), family, n_experts, 30, 1, n_experts, joint=True), rows


@pytest.mark.parametrize("n_rows", [500, 2500])
def test_components_that_hardly_differ_are_shrunk_to_the_average(n_rows):
    X, unseen = rare(n_rows).astype(float), rare(2500, seed=1).astype(float)
    task, _ = task_of(X, 24)
    found = fit_mixture(task, Annealed(), 0).log_densities(Rows.of(unseen, task.family)).mean()
    assert found > mixture_by_em(X, 24)(unseen) + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_told_and_hardly_modelled(seed):
    rng = np.random.default_rng(seed)
    X, unseen = ((rng.random((n, 30)) < 0.3).astype(np.uint8) for n in (200, 2000))
    model = DynamicPartitionModel(12, random_state=0)
    with pytest.warns(ConvergenceWarning, match="independent columns describe unseen rows better"):
        model.fit(X)
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    columns = np.log(np.where(unseen, p, 1 - p)).sum(axis=1).mean()
    assert model.log_density(unseen).mean() > columns - 0.4


def measurements(seed):
    """Rows of six kinds in half of the columns, with two more factors: a close decision."""
    rng = np.random.default_rng(seed)
    kind, centre = rng.integers(0, 6, 2200), rng.normal(0, 1.6, (6, 8))
    levels, effects = rng.integers(0, 3, (2200, 2)), rng.normal(size=(2, 3, 8))
    X = centre[kind] * (rng.random() < 0.5) + rng.normal(size=(2200, 8))
    X[:, :4] += effects[0][levels[:, 0], :4]
    X[:, 4:] += effects[1][levels[:, 1], 4:]
    return X


@pytest.mark.parametrize(
    ("seed", "factor"),
    [
        (4, 0.2),
        *(
            pytest.param(seed, factor, marks=pytest.mark.slow)
            for seed, factor in [(1, 0.2), (3, 0.2), (4, 1000.0)]
        ),
    ],
)
def test_the_unit_of_real_columns_decides_nothing(seed, factor):
    X, columns = measurements(seed), list("abcdefgh")
    one, other = (
        DynamicPartitionModel(6, random_state=0, max_iter=10).fit(pd.DataFrame(Z, columns=columns))
        for Z in (X, factor * X)
    )
    assert one.adaptation_.mixture == other.adaptation_.mixture
    assert one.adaptation_.min_active == other.adaptation_.min_active
    table, scaled = (pd.DataFrame(Z[:300], columns=columns) for Z in (X, factor * X))
    np.testing.assert_array_equal(one.transform(table), other.transform(scaled))
    found = other.score_samples(scaled) + 8 * np.log(factor)
    np.testing.assert_allclose(found, one.score_samples(table), atol=1e-3)


@pytest.mark.parametrize(("lead", "is_open"), [(-0.02, False), (-0.005, True), (0.03, True)])
def test_a_close_decision_is_measured_by_standardised_columns(lead, is_open):
    unseen = Unseen(-40.0, -50.0, 0.1, -40.0, -40.0 + 10 * lead, log_scales=30.0)
    assert unseen.is_close() == is_open
