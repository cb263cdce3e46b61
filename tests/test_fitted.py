"""A fitted model whose parameters change, and fits that never come to their end."""

import copy
import pickle
import sys
import warnings

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynpart.fitted
import dynpart.fitting
import dynpart.judging
from dynpart import DynamicPartitionModel
from dynpart.arrays import to_numpy
from dynpart.datasets import make_pairs
from dynpart.engines import make_engine
from tests.strategies import problems
from tests.test_prior import random_prior

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

K = 4
COUNTING = ("score_samples", "score", "sample", "log_prior", "log_density", "activation_posterior")
"""Methods that need a prior over codes found as rows are encoded now."""
ENCODING = (
    "max_active",
    "n_active",
    "prior",
    "activation_cost",
    "criterion",
    "n_starts",
    "n_swaps",
    "prune",
)

FIND_CODES = ("transform", "pursue", "impute", "conditional_means")


def with_a_gap(X):
    gappy = X.astype(np.float64)
    gappy[0, 0] = np.nan
    return gappy


METHODS = {
    "transform": lambda model, X, H, path: model.transform(X),
    "log_density": lambda model, X, H, path: model.log_density(X),
    "activation_posterior": lambda model, X, H, path: model.activation_posterior(X),
    "log_prior": lambda model, X, H, path: model.log_prior(H),
    "pursue": lambda model, X, H, path: model.pursue(X),
    "score_samples": lambda model, X, H, path: model.score_samples(X),
    "score": lambda model, X, H, path: model.score(X),
    "inverse_transform": lambda model, X, H, path: model.inverse_transform(H),
    "amplitudes": lambda model, X, H, path: model.amplitudes(X, H),
    "partition": lambda model, X, H, path: model.partition(H),
    "log_likelihood": lambda model, X, H, path: model.log_likelihood(X, H),
    "sample": lambda model, X, H, path: model.sample(3, random_state=0),
    "surprise": lambda model, X, H, path: model.surprise(X),
    "impute": lambda model, X, H, path: model.impute(with_a_gap(X)),
    "conditional_means": lambda model, X, H, path: model.conditional_means(X),
    "partial_fit": lambda model, X, H, path: model.partial_fit(X),
    "recount": lambda model, X, H, path: model.recount(X),
    "save": lambda model, X, H, path: model.save(path / "model.dynpart"),
}

UNAFFECTED = {
    "judge",
    "on_numbers",
    "plainly",
    "describe",
    "explain",
    "independent_scores",
    "rename_experts",
    "stability",
}
"""Methods that are made of others, or rely on no parameter."""

BAD = {
    "n_experts": [0, -1, 2.5, "many", None, 3, 500],
    "family": ["poisson", None],
    "columns": [3, {1, 2}],
    "unknown": ["maybe", None],
    "max_iter": [0, 1.5, "long"],
    "learning": ["by heart", 3],
    "expert_update": ["foo", None],
    "n_init": [0, None],
    "max_active": [0, -2, 1.5, K + 1],
    "n_active": [0, -1, K + 1, "two"],
    "prior": ["foo", 1],
    "activation_cost": ["foo", "prior", np.nan, np.inf, None, 1e300, -1e18],
    "criterion": ["foo", None],
    "n_starts": [0, -1, 1.5],
    "n_swaps": [-1, 0.5, "all"],
    "prune": ["yes", None],
    "amplitude": ["loud", 2],
    "autoregressive": [0, 1.5, "some"],
    "variance_floor": [0.0, -1.0, "low"],
    "connectivity": ["graph", 3],
    "tol": [-1.0, None],
    "engine": ["abacus", None],
    "n_jobs": [0, "all"],
    "random_state": ["dice", -1],
    "verbose": [-1, "loud"],
}

GOOD = {
    "n_experts": [K, np.int64(K)],
    "family": ["gaussian"],  # that of the fit stays
    "columns": [{0: "real"}],  # that of the fit stays
    "unknown": ["missing"],
    "max_iter": [1],
    "learning": ["paper"],
    "expert_update": ["average"],
    "n_init": [7],
    "max_active": [1, 2, K],
    "n_active": [1, K],
    "prior": [None, "auto", "independent"],
    "activation_cost": [3, -2.5, 1e12, -1e12],
    "criterion": ["reconstruction"],
    "n_starts": [None, 5],
    "n_swaps": [None, 0, 1],
    "prune": [True],
    "amplitude": [None],
    "autoregressive": [None],
    "variance_floor": [0.1],
    "connectivity": [np.eye(6)],
    "tol": [0.0],
    "engine": ["cpu", "reference"],
    "n_jobs": [1, -1],
    "random_state": [3, np.random.RandomState(0)],
    "verbose": [0],
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return make_pairs(3)[rng.integers(0, 8, 60)].astype(np.uint8)


@pytest.fixture(scope="module")
def fitted(rows):
    return DynamicPartitionModel(K, max_iter=3, random_state=0).fit(rows)


def unchanged(model, before):
    """Whether a model has the very attributes it had, and none besides."""
    return vars(model).keys() == before.keys() and all(
        vars(model)[name] is value for name, value in before.items()
    )


def test_nothing_is_left_out(fitted):
    own = {
        name
        for kind in type(fitted).__mro__
        if kind.__module__.startswith("dynpart")
        for name in vars(kind)
        if not name.startswith(("_", "set_")) and callable(getattr(kind, name))
    }
    assert own - {"fit"} - UNAFFECTED == set(METHODS)
    parameters = set(fitted.get_params())
    assert parameters - {"device"} == set(BAD) == set(GOOD)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_refuses_parameters_that_went_bad(method, rows, fitted, tmp_path):
    H = fitted.transform(rows)
    for name, values in BAD.items():
        for value in values:
            model = copy.copy(fitted).set_params(**{name: value})
            before = dict(vars(model))
            with pytest.raises((ValueError, TypeError), match=name):
                METHODS[method](model, rows, H, tmp_path)
            assert unchanged(model, before), (name, value)
    assert not list(tmp_path.iterdir())


def test_another_number_of_experts_asks_for_a_fit(rows, fitted):
    model = copy.copy(fitted).set_params(n_experts=500)
    with pytest.raises(ValueError, match=r"n_experts=500 was set after 4 .* fit the model again"):
        model.transform(rows)
    assert model.set_params(n_experts=2).fit(rows).transform(rows).shape == (60, 2)


def test_two_limits_at_once_are_refused_after_fitting_too(rows, fitted):
    with pytest.raises(ValueError, match="exclude each other"):
        copy.copy(fitted).set_params(n_active=2, max_active=3).transform(rows)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_works_with_parameters_that_changed_or_says_what_to_do(
    method, rows, fitted, tmp_path
):
    """What needs no activation probabilities goes on; what does asks for a new count."""
    H = fitted.transform(rows)
    for name, values in GOOD.items():
        for value in values:
            model = copy.copy(fitted).set_params(**{name: value})
            stale = name in ENCODING and value != getattr(fitted, name)
            counts = method in COUNTING or (
                method in ("transform", "pursue", "impute", "conditional_means", "surprise")
                and name == "prior"
                and value is not None
            )
            if stale and counts:
                with pytest.raises(ValueError, match=rf"{name}=.*{name}=.*recount\(X\)"):
                    METHODS[method](model, rows, H, tmp_path)
                model.recount(rows)
            METHODS[method](model, rows, H, tmp_path)


def test_changed_parameters_do_what_they_say(rows, fitted):
    def codes(**changes):
        return copy.copy(fitted).set_params(**changes).transform(rows)

    assert (codes(n_active=2).sum(axis=1) == 2).all()
    assert codes(max_active=1).sum(axis=1).max() == 1
    assert (codes(activation_cost=1e9).sum(axis=1) == 1).all()
    assert (codes(activation_cost=-1e9).sum(axis=1) == K).all()
    for learning_only in ("family", "variance_floor", "max_iter", "learning", "n_init", "tol"):
        for value in GOOD[learning_only]:
            np.testing.assert_array_equal(codes(**{learning_only: value}), codes())


def test_a_lazy_answer_is_that_of_the_model_that_was_asked(rows, fitted):
    da = pytest.importorskip("dask.array")
    model = copy.copy(fitted)
    lazy = model.transform(da.from_array(rows, chunks=(20, -1)))
    scores = model.score_samples(da.from_array(rows, chunks=(20, -1)))
    with pytest.raises(ValueError, match="recount"):  # at once, not when chunks are computed
        copy.copy(model).set_params(prior="independent").transform(
            da.from_array(rows, chunks=(20, -1))
        )
    model.set_params(n_experts=2, n_active=2).fit(make_pairs(2))
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), fitted.transform(rows))
    np.testing.assert_array_equal(scores.compute(scheduler="sync"), fitted.score_samples(rows))


# ------------------------------------------------------------------------ fits that break off


class Breaking:
    """An engine that is interrupted at its n-th operation."""

    def __init__(self, inner, left):
        self.inner, self.left = inner, left

    def __getattr__(self, name):
        found = getattr(self.inner, name)
        if name not in ("pursue", "gradient_sums", "responsibility_sums", "take", "hold", "place"):
            return found

        def operation(*arguments):
            self.left[0] -= 1
            if self.left[0] < 0:
                raise KeyboardInterrupt
            return found(*arguments)

        return operation


LEARN = {
    "fit": lambda model, X: model.fit(X),
    "partial_fit": lambda model, X: model.partial_fit(X),
}


def narrow_rows(rows):
    return rows[:30, :4]


@pytest.mark.parametrize(
    ("method", "at_another_width"),
    [
        pytest.param("fit", False, marks=pytest.mark.slow),
        pytest.param("fit", True, marks=pytest.mark.slow),
        ("partial_fit", False),
    ],
)
def test_a_fit_interrupted_in_any_operation_leaves_the_old_model(
    method, at_another_width, rows, fitted, monkeypatch
):
    X = narrow_rows(rows) if at_another_width else rows
    left = [0]
    monkeypatch.setattr(
        dynpart.fitted, "make_engine", lambda *args: Breaking(make_engine(*args), left)
    )
    expected = fitted.means_.copy(), fitted.expertise_.copy()
    n_operations = 0
    while True:
        model, fresh = copy.copy(fitted), DynamicPartitionModel(K, max_iter=3, random_state=0)
        before, nothing = dict(vars(model)), dict(vars(fresh))
        try:
            left[0] = n_operations
            LEARN[method](model, X)
        except KeyboardInterrupt:
            assert unchanged(model, before)
            left[0] = n_operations
            with pytest.raises(KeyboardInterrupt):
                LEARN[method](fresh, X)
            assert unchanged(fresh, nothing)
            n_operations += 1
        else:
            break
    assert n_operations > 4
    np.testing.assert_array_equal(fitted.means_, expected[0])
    np.testing.assert_array_equal(fitted.expertise_, expected[1])
    left[0] = 10**6
    model = copy.copy(fitted)
    np.testing.assert_array_equal(
        model.transform(rows), pickle.loads(pickle.dumps(fitted)).transform(rows)
    )


def interrupted_at(line, call):
    """Run `call`, interrupted at the n-th line of the estimator's code; whether it came so far."""
    left = line
    files = {module.__file__ for module in (dynpart.fitting, dynpart.fitted, dynpart.judging)}

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("method", LEARN)
def test_a_fit_interrupted_at_any_line_leaves_a_whole_model(method, rows, fitted):
    """The old one or, after the last line that matters, the new one."""
    X = narrow_rows(rows) if method == "fit" else rows
    old = dict(vars(fitted))
    new = LEARN[method](copy.copy(fitted), X)
    line, states = 0, []
    while True:
        model = copy.copy(fitted)
        if not interrupted_at(line, lambda model=model: LEARN[method](model, X)):
            break
        states.append(unchanged(model, old))
        if not states[-1]:
            assert vars(model).keys() == vars(new).keys()
            np.testing.assert_array_equal(model.means_, new.means_)
            assert model.n_features_in_ == new.n_features_in_
        line += 1
    assert states.count(True) > 40
    assert states == sorted(states, reverse=True)
    assert states.count(False) <= 2


def test_a_fit_that_warns_where_warnings_are_errors_leaves_the_old_model(rows, fitted):
    model = copy.copy(fitted)
    before = dict(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning, match=r"collapsed|never used"):
            model.fit(np.tile(rows[:1], (40, 1)))
    assert unchanged(model, before)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((9, 6), np.nan), "no row with an observed value"),
        (np.outer([1e200, -1e200], np.ones(6)), "too large"),
        ([["5%", "6%"]], "numbers stored as text|n_features|features"),
        (np.ones((0, 6)), "0 sample"),
    ],
)
def test_rows_that_are_refused_leave_the_old_model(X, message, fitted):
    model, fresh = copy.copy(fitted), DynamicPartitionModel(K)
    before, nothing = dict(vars(model)), dict(vars(fresh))
    for method in LEARN.values():
        with pytest.raises(ValueError, match=message):
            method(model, X)
        with pytest.raises(ValueError, match=message):
            method(fresh, X)
        assert unchanged(model, before)
        assert unchanged(fresh, nothing)


@pytest.mark.parametrize("value", [1e16, -1e30, 1e200])
def test_rows_too_far_away_are_refused(value):
    X = np.random.default_rng(0).normal(size=(50, 6))
    model = DynamicPartitionModel(K, max_iter=2, random_state=0).fit(X)
    X[7, 2] = value
    with pytest.raises(ValueError, match=r"row 7, column 2 \(counted from 0\).*check its units"):
        model.transform(X)


# ------------------------------------------------------------------------------------ experts


def dumped(model, folder):
    joblib.dump(model, folder / "m")
    return joblib.load(folder / "m")


@pytest.mark.parametrize(
    "way",
    [
        lambda model, _: copy.copy(model),
        lambda model, _: copy.deepcopy(model),
        lambda model, _: pickle.loads(pickle.dumps(model)),
        dumped,
    ],
    ids=["copy", "deepcopy", "pickle", "joblib"],
)
def test_arrays_that_show_the_experts_are_for_reading(way, rows, fitted, tmp_path):
    """Experts are kept as they were learnt: what shows them may not disagree in silence."""
    model = way(fitted, tmp_path)
    experts = model._experts()
    assert np.array_equal(experts.eta, fitted._experts().eta)
    assert np.array_equal(model.transform(rows), fitted.transform(rows))
    for name in ("means_", "expertise_"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(model, name)[0, 0] = 0.5
        changed = copy.copy(model)
        setattr(changed, name, getattr(model, name) + 0.0)
        changed.transform(rows)
        setattr(changed, name, getattr(model, name) / 2)
        with pytest.raises(ValueError, match=f"{name} was replaced"):
            changed.transform(rows)


# ------------------------------------------------------------------------------------ scores


def as_model(experts, rng, **params):
    """A fitted model of these experts, that knows some prior over codes."""
    model = DynamicPartitionModel(experts.n_experts, **params)
    model._keep_experts(experts)
    model.prior_ = random_prior(int(rng.integers(1000)), 2, experts.n_experts)
    model.activation_probabilities_ = model.prior_.mean_activation
    model.n_features_in_ = experts.eta.shape[2]
    return model


parameters = st.fixed_dictionaries(
    {
        "prior": st.sampled_from(["auto", "independent", None]),
        "activation_cost": st.sampled_from([0.0, 1.5, -0.5]),
        "criterion": st.sampled_from(["likelihood", "reconstruction"]),
        "n_starts": st.integers(1, 3),
        "n_swaps": st.integers(0, 2),
        "prune": st.booleans(),
        "max_active": st.sampled_from([None, 1]),
    }
)


@pytest.mark.filterwarnings("ignore:.* no observed value:UserWarning")
@pytest.mark.parametrize("engine", ["reference", "cpu", "torch"])
@given(problem=problems(), params=parameters, seed=st.integers(0, 1000))
def test_scores_are_those_of_the_codes(engine, problem, params, seed):
    if engine == "torch":
        pytest.importorskip("torch")
    experts, rows = problem
    model = as_model(experts, np.random.default_rng(seed), engine=engine, **params)
    rows = experts.family.decode(rows.values)
    H = model.transform(rows)
    scores = model.score_samples(rows)
    assert scores.dtype == np.float64
    assert model.score(rows) == pytest.approx(scores.mean(), rel=1e-12)
    explained = scores - model.log_prior(H)
    np.testing.assert_allclose(explained, model.log_likelihood(rows, H), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("engine", ["reference", "cpu", "torch"])
def test_scores_need_no_second_look_at_the_rows(engine, rows, fitted, monkeypatch):
    if engine == "torch":
        pytest.importorskip("torch")
    model = copy.copy(fitted).set_params(engine=engine)
    expected = model.log_likelihood(rows, model.transform(rows))

    def recalculated(*arguments):
        raise AssertionError

    monkeypatch.setattr(dynpart.fitted, "log_likelihood", recalculated)
    prior = model.log_prior(model.transform(rows))
    np.testing.assert_allclose(model.score_samples(rows), expected + prior, rtol=1e-5)
    with pytest.raises(AssertionError):  # the pursuit's likelihood is that of other experts
        model.set_params(criterion="reconstruction").recount(rows).score_samples(rows)


@pytest.mark.parametrize("name", ENCODING)
def test_a_new_count_is_that_of_the_codes(name, rows, fitted):
    for value in GOOD[name]:
        model = copy.copy(fitted).set_params(**{name: value})
        assert model.recount(rows) is model
        assert model.means_ is fitted.means_
        if value != "prior":  # which charges by the codes found without charge
            usage = model.transform(rows).sum(axis=0)
            np.testing.assert_allclose(model.activation_probabilities_, (usage + 0.5) / 61)
        again = DynamicPartitionModel(K, max_iter=3, random_state=0, **{name: value}).fit(rows)
        if name in ("n_starts", "n_swaps", "prune"):  # learning knows all others, too
            np.testing.assert_array_equal(
                model.activation_probabilities_, again.activation_probabilities_
            )
        assert np.isfinite(model.score(rows))


def test_a_count_may_come_from_blocks(rows, fitted):
    model = copy.copy(fitted).set_params(max_active=1)
    whole = copy.copy(model).recount(rows).activation_probabilities_
    np.testing.assert_array_equal(
        model.recount([rows[:25], rows[25:]]).activation_probabilities_, whole
    )
    torch = pytest.importorskip("torch")
    model.recount(torch.as_tensor(rows))
    np.testing.assert_array_equal(to_numpy(model.activation_probabilities_), whole)
    with pytest.raises(ValueError, match="6 features"):
        model.recount(rows[:, :3])


def test_a_stream_counts_with_the_parameters_of_its_last_batch(rows):
    model = DynamicPartitionModel(K, random_state=0).partial_fit(rows).set_params(n_swaps=0)
    with pytest.raises(ValueError, match=r"n_swaps=0 was set after .* n_swaps=None"):
        model.score(rows)
    assert np.isfinite(model.partial_fit(rows).score(rows))


@pytest.mark.parametrize("engines", [("cpu", "torch"), ("torch", "reference")])
def test_a_stream_goes_on_in_another_engine(engines, rows):
    pytest.importorskip("torch")
    model = DynamicPartitionModel(K, random_state=0, engine=engines[0]).partial_fit(rows)
    stayed = copy.copy(model).partial_fit(rows)
    moved = model.set_params(engine=engines[1]).partial_fit(rows)
    np.testing.assert_allclose(moved.means_, stayed.means_, atol=1e-6)
