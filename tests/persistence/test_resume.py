"""An interrupted fit ends, bit for bit, where the uninterrupted one does."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.persistence import Journal, ModelFileError, load, load_checkpoint

FIT = """
import sys
import numpy as np
from dynpart import DynamicPartitionModel
from dynpart.persistence import save
rows = np.load(sys.argv[1])
model = DynamicPartitionModel(6, max_iter=14, n_init=2, random_state=0)
print("ready", flush=True)
model.fit(rows, checkpoint=sys.argv[2], every=0)
save(model, sys.argv[3])
"""


class Stop(Exception):
    """An interruption."""


def stop_after(monkeypatch, n_notes):
    """Let the journal raise after so many iterations."""
    note, count = Journal.note, iter(range(n_notes))

    def counted(self, state):
        note(self, state)
        if next(count, None) is None:
            raise Stop

    monkeypatch.setattr(Journal, "note", counted)


def data(family):
    if family == "bernoulli":
        return make_pairs(3)
    return np.random.default_rng(0).normal(size=(60, 4)) + np.arange(4)


def assert_same(one, other):
    for name in ("means_", "expertise_", "activation_probabilities_", "objective_history_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.history_ == other.history_


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("n_notes", [0, 1, 5, 12, 30])
def test_interrupted_anywhere_the_fit_ends_the_same(family, n_notes, tmp_path, monkeypatch):
    X = data(family)
    model = DynamicPartitionModel(4, max_iter=10, n_init=2, random_state=3)
    straight = DynamicPartitionModel(4, max_iter=10, n_init=2, random_state=3).fit(X)
    with monkeypatch.context() as patch:
        stop_after(patch, n_notes)
        try:
            model.fit(X, checkpoint=tmp_path / "c", every=0)
        except Stop:
            assert load_checkpoint(tmp_path / "c").meta["histories"]
    resumed = DynamicPartitionModel(4, max_iter=10, n_init=2, random_state=3)
    assert_same(resumed.fit(X, checkpoint=tmp_path / "c", every=0), straight)
    # A third time finds everything done.
    assert_same(resumed.fit(X, checkpoint=tmp_path / "c", every=0), straight)


def test_a_checkpoint_changes_nothing(tmp_path):
    X = make_pairs(3)
    plain = DynamicPartitionModel(6, max_iter=8, random_state=0).fit(X)
    kept = DynamicPartitionModel(6, max_iter=8, random_state=0)
    assert_same(kept.fit(X, checkpoint=tmp_path / "c"), plain)


def test_without_a_seed_the_first_one_is_kept(tmp_path, monkeypatch):
    X = make_pairs(3)
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(Stop):
            DynamicPartitionModel(5, max_iter=8).fit(X, checkpoint=tmp_path / "c", every=0)
    first = DynamicPartitionModel(5, max_iter=8).fit(X, checkpoint=tmp_path / "c", every=0)
    again = DynamicPartitionModel(5, max_iter=8).fit(X, checkpoint=tmp_path / "c", every=0)
    assert_same(first, again)


def test_other_data_or_parameters_are_refused(tmp_path):
    X = make_pairs(3)
    DynamicPartitionModel(4, max_iter=3, random_state=0).fit(X, checkpoint=tmp_path / "c", every=0)
    for model, rows in (
        (DynamicPartitionModel(5, max_iter=3, random_state=0), X),
        (DynamicPartitionModel(4, max_iter=4, random_state=0), X),
        (DynamicPartitionModel(4, max_iter=3, random_state=1), X),
        (DynamicPartitionModel(4, max_iter=3, random_state=0), X[1:]),
    ):
        with pytest.raises(ModelFileError, match="another run"):
            model.fit(rows, checkpoint=tmp_path / "c")


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "c").write_bytes(b"not a checkpoint")
    with pytest.raises(ModelFileError):
        DynamicPartitionModel(4).fit(make_pairs(2), checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="every"):
        DynamicPartitionModel(4).fit(make_pairs(2), checkpoint=tmp_path / "d", every=-1)


@pytest.mark.slow
def test_killed_in_a_loop_the_fit_still_ends_the_same(tmp_path):
    X = np.random.default_rng(0).integers(0, 2, size=(400, 60)).astype(np.uint8)
    np.save(tmp_path / "x.npy", X)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FIT, tmp_path / "x.npy", tmp_path / "c", tmp_path / "m"]
    kills, pause = 0, 0.05
    while not (tmp_path / "m").exists():
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        try:
            process.wait(timeout=pause if kills < 5 else 300)
            assert process.returncode == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            pause += 0.25
        process.stdout.close()
        if (tmp_path / "c").exists():
            load_checkpoint(tmp_path / "c")
    straight = DynamicPartitionModel(6, max_iter=14, n_init=2, random_state=0).fit(X)
    assert_same(load(tmp_path / "m"), straight)
    assert kills > 0
