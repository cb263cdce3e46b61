"""A second process that compiles ahead: it takes work off a fit, and a fit never depends on it."""

import os
import sys
import time
from importlib import import_module

import numpy as np
import pytest

from dynpart import DynamicPartitionModel, ahead
from dynpart.engines import make_engine
from dynpart.engines.cpu import CpuEngine
from dynpart.families import Bernoulli, column_moments
from dynpart.learning import expected_kernels
from dynpart.rows import Rows

KERNELS = [("a", "first", (1,)), ("b", "second", ()), ("c", "third", (2,))]

ANSWERS = """
import pickle, sys, time
pickle.load(sys.stdin.buffer)
while True:
    module, name, types = pickle.load(sys.stdin.buffer)
    time.sleep({seconds})
    {then}
    print(flush=True)
"""


@pytest.fixture
def here(monkeypatch):
    """Kernels that are compiled in this process, in order; two processors, whatever there are."""
    compiled = []
    monkeypatch.setattr(ahead, "compile_kernel", compiled.append)
    monkeypatch.setattr(ahead, "can_start", lambda: True)
    return compiled


def companion(monkeypatch, seconds=0.0, then=""):
    monkeypatch.setattr(ahead, "COMPANION", ANSWERS.format(seconds=seconds, then=then or "pass"))


def wait_until(ready):
    end = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_who_needs_a_kernel_at_work_elsewhere_compiles_others_meanwhile(here, monkeypatch):
    companion(monkeypatch, seconds=1.0)
    with ahead.expecting(lambda: KERNELS):
        assert not ahead.compiled_elsewhere("z", "unexpected", ())
        wait_until(lambda: ahead._companion._at_work == KERNELS[0])
        assert ahead.compiled_elsewhere(*KERNELS[0])
    assert here == KERNELS[:0:-1]  # from the end


def test_what_nobody_has_begun_is_left_to_who_needs_it(here, monkeypatch):
    companion(monkeypatch, seconds=1.0)
    with ahead.expecting(lambda: KERNELS):
        assert not ahead.compiled_elsewhere(*KERNELS[1])
        wait_until(lambda: ahead._companion._at_work == KERNELS[0])
        assert ahead._companion._waiting == [KERNELS[2]]
    assert here == []


def test_a_process_that_fails_leaves_everything_to_this_one(here, monkeypatch):
    companion(monkeypatch, then="sys.exit(1)")
    with ahead.expecting(lambda: KERNELS):
        ahead.compiled_elsewhere("z", "unexpected", ())
        ahead._companion._feeder.join(30)
        assert not any(ahead.compiled_elsewhere(*kernel) for kernel in KERNELS)


def test_a_list_that_cannot_be_sent_leaves_everything_to_this_one(here, monkeypatch):
    companion(monkeypatch)
    with ahead.expecting(lambda: [("a", "first", (lambda: None,))]):
        ahead.compiled_elsewhere("z", "unexpected", ())
        ahead._companion._feeder.join(30)
        assert ahead._companion._at_work is None


def test_a_process_that_hangs_is_not_waited_for(here, monkeypatch):
    companion(monkeypatch, seconds=600)
    monkeypatch.setattr(ahead, "PATIENCE", 0.1)
    with ahead.expecting(lambda: KERNELS):
        ahead.compiled_elsewhere("z", "unexpected", ())
        wait_until(lambda: ahead._companion._at_work == KERNELS[0])
        assert not ahead.compiled_elsewhere(*KERNELS[0])


def test_no_process_is_left_after_a_fit(here, monkeypatch):
    companion(monkeypatch, seconds=600)
    with ahead.expecting(lambda: KERNELS):
        ahead.compiled_elsewhere("z", "unexpected", ())
        process = ahead._companion._process
        with ahead.expecting(lambda: pytest.fail("one fit at a time")):
            ahead.compiled_elsewhere("z", "another", ())
        assert process.poll() is None
    assert process.poll() is not None
    assert (ahead._companion, ahead._expected) == (None, None)


@pytest.mark.parametrize("executable", ["", "/nowhere/python"])
def test_where_no_process_can_start_nothing_is_compiled_elsewhere(monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    with ahead.expecting(lambda: KERNELS):
        assert not ahead.compiled_elsewhere("z", "unexpected", ())
        assert not ahead.compiled_elsewhere(*KERNELS[0])


@pytest.mark.parametrize(
    ("executable", "is_python"),
    [
        ("", False),
        (None, False),
        ("/usr/bin/server", False),
        ("C:\\pythonw.exe", True),
        ("/pypy3", True),
    ],
)
def test_only_python_is_started(monkeypatch, executable, is_python):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(sys, "executable", executable)
    assert ahead.can_start() == is_python


def test_one_processor_has_no_companion(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert not ahead.can_start()
    family = Bernoulli()
    rows = Rows(np.zeros((3, 2), np.uint8))
    moments = column_moments(rows.values)
    assert expected_kernels(CpuEngine(n_threads=1), rows, family, moments, 2) == []
    assert expected_kernels(make_engine("reference"), rows, family, moments, 2) == []


def test_nobody_asks_for_kernels_unless_one_is_missing(here):
    with ahead.expecting(lambda: pytest.fail("nothing was missing")):
        pass


def tables():
    rng = np.random.default_rng(0)
    binary = rng.integers(0, 2, (120, 8)).astype(np.uint8)
    yield "binary", binary
    yield "gaps", np.where(rng.random(binary.shape) < 0.1, np.nan, binary)
    yield "levels", rng.integers(0, 4, (120, 6)).astype(str)
    yield "numbers", rng.normal(size=(120, 6)) + 4 * rng.integers(0, 2, (120, 1))


@pytest.mark.parametrize(("kind", "table"), [pytest.param(*t, id=t[0]) for t in tables()])
def test_kernels_that_are_expected_are_those_that_a_fit_calls(monkeypatch, kind, table):
    asked = []

    def expecting(kernels):
        asked.extend(kernels())
        return ahead.expecting(kernels)

    monkeypatch.setattr("dynpart.fitting.expecting", expecting)
    DynamicPartitionModel(3, random_state=0, n_jobs=2).fit(table)
    assert len(asked) >= 9
    for module, name, types in asked:
        assert types in getattr(import_module(module), name).signatures, name
