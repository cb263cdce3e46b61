"""Unseen rows: the estimate by leaving rows out, and the warnings that follow from it."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_bars, make_pairs
from dynpart.encoding import Encoding
from dynpart.engines import CodeSummary, Experts, make_engine
from dynpart.families import column_moments, make_family
from dynpart.learning import Annealed, Task
from dynpart.learning._diagnosis import complaints
from dynpart.learning._restarts import COUNTED_ROWS
from dynpart.learning._unseen import Unseen, describe_unseen
from dynpart.pursuits import pursue
from dynpart.rows import Rows

CPU = make_engine("cpu")


def noise(seed, n_rows, n_features, rate=None):
    """Independent columns, and as many unseen rows as make their mean certain."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.02, 0.5, n_features) if rate is None else rate
    return [(rng.random((n, n_features)) < rates).astype(np.uint8) for n in (n_rows, 1000)]


def warnings_of(X, n_experts, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DynamicPartitionModel(n_experts, random_state=0, **settings).fit(X)
    return [str(warning.message) for warning in caught]


def estimate(model, X):
    moments = column_moments(X)
    family = make_family("auto", moments, variance_floor=model.variance_floor)
    experts, rule = model._experts(), model._rule()
    n_experts, n_iter = experts.n_experts, model.max_iter
    limits = Encoding.of(model).limits(n_experts)
    rows = Rows.of(X, family)
    task = Task(CPU, rows, moments, family, n_experts, n_iter, *limits)
    codes, last = pursue(CPU, rows, experts, rule), model.history_[-1]
    return describe_unseen(task, Annealed(), experts, rows, len(X), codes, rule, last, seed=0)


def fitted(X, n_experts, weight=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DynamicPartitionModel(n_experts, random_state=0, **settings)
        return model.fit(X, sample_weight=weight)


def by_frequencies(X, unseen):
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    return np.log(np.where(unseen, p, 1 - p)).sum(axis=1).mean()


@pytest.mark.parametrize("rate", [None, 0.1, 0.5])
def test_experts_for_noise_in_a_tiny_table_are_warned_about(rate):
    X, _ = noise(0, 20, 100, rate)
    (text,) = [text for text in warnings_of(X, 10) if "unseen" in text]
    assert "independent columns describe unseen rows better" in text
    assert "smaller n_experts" in text
    # both figures, in bits a row, the better one first
    columns, experts = map(float, re.findall(r"\d+\.\d", text))
    assert columns < experts


@pytest.mark.parametrize(
    ("X", "n_experts"),
    [
        pytest.param(noise(1, 200, 30)[0], 12, id="bernoulli"),
        pytest.param(
            np.random.default_rng(1).normal(size=(400, 40)),
            20,
            id="gaussian",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_many_experts_for_noise_are_warned_about(X, n_experts):
    assert any("unseen rows" in text for text in warnings_of(X, n_experts))


@pytest.mark.parametrize("variance_floor", [0.1, 1.0])
def test_measurements_that_hang_together_are_not_warned_about(variance_floor):
    assert warnings_of(load_iris().data, 4, variance_floor=variance_floor) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_has_structure_is_not_warned_about(seed):
    digits = (load_digits().data > 8).astype(np.uint8)[:300]
    for X, n_experts in [
        (make_pairs(5), 10),
        (make_bars(5, 300, random_state=seed), 12),
        (digits, 10),
    ]:
        model = DynamicPartitionModel(n_experts, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            model.fit(X)


def test_more_experts_than_rows_are_warned_about():
    (text,) = warnings_of(make_pairs(3)[:5], 6)
    assert "more experts (6) than rows (5)" in text
    assert not any("more experts" in text for text in warnings_of(make_pairs(3), 6))


@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_experts"),
    [
        (20, 100, 10),
        pytest.param(50, 30, 10, marks=pytest.mark.slow),
        pytest.param(100, 200, 20, marks=pytest.mark.slow),
    ],
)
def test_the_estimate_is_near_the_truth_for_noise(n_rows, n_features, n_experts):
    """Training rows look better explained than independent columns; unseen ones are not."""
    gaps, truths = [], []
    for seed in range(3):
        X, unseen = noise(seed, n_rows, n_features)
        model = fitted(X, n_experts, max_iter=12)
        found = estimate(model, X)
        gaps.append(found.experts - found.columns)
        truths.append(model.score(unseen) - by_frequencies(X, unseen))
        seen = model.log_likelihood(X, model.transform(X)).mean()
        assert found.experts < seen
    assert max(truths) < 0
    assert np.mean(gaps) == pytest.approx(np.mean(truths), abs=0.15 * n_features)
    assert max(gaps) < 0


def test_the_estimate_is_near_the_truth_for_parts():
    X, unseen = make_bars(5, 100, random_state=0), make_bars(5, 1000, random_state=1)
    model = fitted(X, 12)
    found = estimate(model, X)
    truth = model.score(unseen) - by_frequencies(X, unseen)
    assert found.experts - found.columns == pytest.approx(truth, abs=2)


def test_independent_columns_are_left_the_same_rows():
    """Five rows, five parts: every row under the add-1/2 frequencies of the other four."""
    X = np.random.default_rng(0).integers(0, 2, (5, 6)).astype(np.uint8)
    expected = 0.0
    for i, x in enumerate(X):
        p = (np.delete(X, i, axis=0).sum(axis=0) + 0.5) / 5
        expected += np.log(np.where(x, p, 1 - p)).sum() / 5
    assert estimate(fitted(X, 2), X).columns == pytest.approx(expected)


def test_one_expert_or_one_row_says_nothing_of_unseen_ones():
    X = make_pairs(3)
    assert estimate(fitted(X, 1), X) is None
    assert estimate(fitted(X[:1], 2), X[:1]) is None


def test_a_mixture_as_good_as_independent_columns_is_not_warned_about():
    """The folds may agree better than by chance, so that their spread is near 0."""
    rng = np.random.default_rng(2)
    X = (rng.random((300, 8)) < rng.uniform(0.05, 0.5, 8)).astype(np.uint8)
    assert not any("unseen" in text for text in warnings_of(X, 4, max_iter=6))
    assert fitted(X, 4, max_iter=6).adaptation_.mixture


def test_complaints_ask_for_a_clear_difference():
    family = make_family("auto", column_moments(np.eye(2)))
    experts = Experts(family, np.full((1, 3, 2), 0.5), np.zeros((3, 2)))
    summary = CodeSummary(30, np.array([20, 20, 20]), 0.0)

    def found(columns, error):
        return complaints(summary, experts, (), 3, Unseen(-5.0, columns, error))

    assert found(-4.0, 0.6) == found(-5.0, 0.0) == found(-6.0, 0.1) == []
    (text,) = found(-4.0, 0.4)
    assert "5.8 bits per row against 7.2" in text
    many = CodeSummary(COUNTED_ROWS, np.full(3, 5000), 0.0)
    assert complaints(many, experts, (), 3, None) == []


def test_rows_left_out_take_back_no_more_than_there_is():
    """Codes change when variances do, so a row may take back more than it had given."""
    X = load_iris().data
    told = warnings_of(X - X.mean(), 10, learning="paper", n_swaps=0)
    assert not [words for words in told if "encountered" in words]


RARE = {"binary": 1.0, "categorical": 2.0, "count": 3.0, "real": 1.5}
"""A value of each kind."""


def column_of(kind, rng, n_rows):
    if kind == "real":
        return rng.normal(size=n_rows)
    if kind == "count":
        return rng.poisson(5, n_rows).astype(float)
    return rng.integers(0, 2 if kind == "binary" else 3, n_rows).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("beside", RARE)
@pytest.mark.parametrize("kind", RARE)
def test_a_column_may_have_all_its_values_in_one_fold(kind, beside, weighted):
    """Fractional weights leave rounding errors where no value is left."""
    rng = np.random.default_rng(0)
    rare = np.full((60, 1), np.nan)
    rare[7] = RARE[kind]
    X = np.c_[column_of(beside, rng, 60), column_of(beside, rng, 60), rare]
    settings = {"columns": [beside, beside, kind], "max_iter": 3}
    model = fitted(X, 2, weight=rng.random(60) if weighted else None, **settings)
    assert np.isfinite(model.score_samples(X)).all()


@pytest.mark.parametrize("kind", RARE)
def test_the_number_of_experts_can_be_chosen_if_a_column_has_one_value(kind):
    rng = np.random.default_rng(0)
    rare = np.full((60, 1), np.nan)
    rare[7] = RARE[kind]
    X = np.c_[column_of(kind, rng, 60), column_of(kind, rng, 60), rare]
    model = fitted(X, "auto", columns=kind, max_iter=3)
    assert np.isfinite(model.score_samples(X)).all()
