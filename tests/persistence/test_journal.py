"""A journal brings back every run of a fit to the last bit, and only to the fit it belongs to."""

import numpy as np
import pytest

from dynpart.engines import Experts
from dynpart.families import Bernoulli
from dynpart.learning import IterationRecord, LearnerState, Step
from dynpart.persistence import Checkpoint, Journal, ModelFileError, fingerprint, save_checkpoint

FAMILY = Bernoulli()


def state(n_iterations, seed=0):
    rng = np.random.default_rng((seed, n_iterations))
    experts = Experts(FAMILY, rng.uniform(size=(1, 2, 3)), rng.normal(size=(2, 3)))
    steps = [Step(n_rows=None, log2_bound=np.inf), Step(n_rows=5, smoothed=True)]
    records = [
        IterationRecord(t, 5, rng.normal(), rng.normal(), 1.5, 0.1, 0.2, steps[t % 2])
        for t in range(n_iterations)
    ]
    return LearnerState(experts, tuple(records))


def assert_same(one, other):
    np.testing.assert_array_equal(one.experts.eta, other.experts.eta)
    np.testing.assert_array_equal(one.experts.log2_expertise, other.experts.log2_expertise)
    assert one.history == other.history


def opened(path, task="task", every=0.0, seed=5):
    return Journal(path, task=task, family=FAMILY, seed=seed, every=every)


def test_a_fresh_journal_starts_every_run_at_its_start(tmp_path):
    journal, start = opened(tmp_path / "j"), state(0)
    assert journal.begin(start) is start


def test_runs_come_back_in_order_as_far_as_they_came(tmp_path):
    journal = opened(tmp_path / "j")
    first, second = state(3, seed=1), state(2, seed=2)
    journal.begin(state(0))
    for n in range(1, 4):
        journal.note(state(n, seed=1))
    journal.begin(state(0))
    journal.note(second)
    again = opened(tmp_path / "j")
    assert_same(again.begin(state(0)), first)
    assert_same(again.begin(state(0)), second)
    third = state(0, seed=3)
    assert again.begin(third) is third


def test_the_first_seed_is_kept(tmp_path):
    journal = opened(tmp_path / "j", seed=5)
    journal.begin(state(0))
    journal.note(state(1))
    assert opened(tmp_path / "j", seed=6).seed == 5


def test_it_is_written_only_when_due(tmp_path):
    journal = opened(tmp_path / "j", every=1e9)
    journal.begin(state(0))
    journal.note(state(1))
    assert not (tmp_path / "j").exists()
    journal.write()
    assert_same(opened(tmp_path / "j").begin(state(0)), state(1))


def test_the_journal_of_another_fit_is_refused(tmp_path):
    journal = opened(tmp_path / "j")
    journal.begin(state(0))
    journal.note(state(1))
    with pytest.raises(ModelFileError, match="another run"):
        opened(tmp_path / "j", task="other")


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    arrays = {"eta.0": np.full((1, 2, 3), 0.5), "log2_expertise.0": np.ones((2, 3))}
    meta = {"histories": [[]], "seed": 5, "rows": ""}

    def write(more_arrays=None, **more_meta):
        checkpoint = Checkpoint({**arrays, **(more_arrays or {})}, {**meta, **more_meta}, "task")
        save_checkpoint(tmp_path / "j", checkpoint)

    write()
    assert opened(tmp_path / "j").seed == 5  # so that what follows is refused for what it is
    for change, message in (
        ({"histories": None}, "complete"),
        ({"histories": [[], []]}, "complete"),
        ({"histories": [3]}, "history"),
        ({"histories": [[{}]]}, "lacks"),
        ({"seed": "x"}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": 10**400}, "seed"),
        ({"rows": None}, "earlier version"),
        ({"rows": "other"}, "other rows"),
        ({"more_arrays": {"log2_expertise.0": np.ones((3, 2))}}, "holds invalid experts"),
        ({"more_arrays": {"eta.0": np.full((1, 2, 3), np.nan)}}, "holds invalid experts"),
        ({"more_arrays": {"log2_expertise.0": np.full((2, 3), np.inf)}}, "holds invalid experts"),
    ):
        write(**change)
        with pytest.raises(ModelFileError, match=message):
            opened(tmp_path / "j")


def test_fingerprints_tell_tasks_apart():
    base = fingerprint({"k": 1}, mean=np.zeros(2))
    assert fingerprint({"k": 1}, mean=np.zeros(2)) == base
    for other in (
        fingerprint({"k": 2}, mean=np.zeros(2)),
        fingerprint({"k": 1}, mean=np.ones(2)),
        fingerprint({"k": 1}, mean=np.zeros(2, dtype=np.float32)),
        fingerprint({"k": 1, "j": 0}, mean=np.zeros(2)),
    ):
        assert other != base
