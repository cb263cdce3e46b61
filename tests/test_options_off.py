"""Without amplitudes and autoregression, none of their code is used."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynpart import DynamicPartitionModel, conditioning
from dynpart.amplitudes import Amplitude, Terms
from dynpart.autoregression import Autoregression
from dynpart.datasets import make_pairs
from dynpart.engines import _cpu_amplitudes, _cpu_offsets, reference_amplitudes

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def said(model, X):
    """Everything that a fitted model says about rows, and the rows that it draws."""
    H = model.transform(X)
    return [
        model.means_,
        model.expertise_,
        H,
        model.score_samples(X),
        model.log_likelihood(X, H),
        model.inverse_transform(H),
        model.pursue(X).log_likelihood,
        model.sample(5, random_state=0),
    ]


def refuse(*args, **options):
    raise AssertionError("an option that is off was asked")


def turn_off(monkeypatch, engine):
    """Make all code of the options fail."""
    for owner, names in {
        Amplitude: ("__init__", "evidence", "deltas"),
        Terms: ("__init__",),
        Autoregression: ("__init__", "offsets"),
        conditioning: ("condition",),
        reference_amplitudes: ("pursue_block", "gradient_terms", "responsibility_terms"),
        _cpu_amplitudes: ("pursue_rows", "row_amplitudes", "gradients", "responsibilities"),
        _cpu_offsets: ("pursue",),
    }.items():
        for name in names:
            monkeypatch.setattr(owner, name, refuse)
    if engine == "torch":
        from dynpart.engines import _torch_amplitudes

        for name in ("gradient_sums", "responsibility_sums"):
            monkeypatch.setattr(_torch_amplitudes, name, refuse)
        monkeypatch.setattr(_torch_amplitudes.AmplitudeHard, "__init__", refuse)


@pytest.mark.parametrize("engine", ["reference", "cpu", "torch"])
@pytest.mark.parametrize("kind", ["binary", "real"])
def test_nothing_changes_to_the_last_bit(engine, kind, monkeypatch):
    if engine == "torch":
        pytest.importorskip("torch")
    X = make_pairs(3)
    if kind == "real":
        X = X + np.random.default_rng(0).normal(0, 0.1, X.shape)
    usual = {"max_iter": 4, "engine": engine, "random_state": 0}
    if engine == "torch":
        usual["device"] = "cpu"
    before = said(DynamicPartitionModel(4, **usual).fit(X), X)
    turn_off(monkeypatch, engine)
    options = {"amplitude": None, "autoregressive": None}
    after = said(DynamicPartitionModel(4, **usual, **options).fit(X), X)
    for found, expected in zip(after, before, strict=True):
        assert_array_equal(found, expected)


def test_options_that_are_on_would_have_been_noticed(monkeypatch):
    X = make_pairs(3)
    turn_off(monkeypatch, "cpu")
    usual = {"max_iter": 2, "engine": "cpu", "random_state": 0}
    with pytest.raises(AssertionError, match="an option that is off"):
        DynamicPartitionModel(2, amplitude="gain", **usual).fit(X + 0.5)
    with pytest.raises(AssertionError, match="an option that is off"):
        DynamicPartitionModel(2, autoregressive=1, **usual).fit(X)
