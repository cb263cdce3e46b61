"""An interrupted fit ends, bit for bit, where the uninterrupted one does."""

import os
import signal
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynpart import DynamicPartitionModel
from dynpart.arrays import to_numpy
from dynpart.datasets import make_pairs
from dynpart.persistence import (
    Checkpoint,
    Journal,
    ModelFileError,
    digest_rows,
    load,
    load_checkpoint,
    save_checkpoint,
)
from dynpart.rows import Rows
from dynpart.storage import _rows

PAIRS = np.tile(make_pairs(3), (5, 1)).astype(np.uint8)

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
        return PAIRS
    noise = np.random.default_rng(0).normal(0, 0.2, (60, 4))
    return np.tile(make_pairs(2), (15, 1)) + noise + np.arange(4)


def assert_same(one, other):
    for name in ("means_", "expertise_", "activation_probabilities_", "objective_history_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.history_ == other.history_


@cache
def fitted_without_interruption(family):
    return DynamicPartitionModel(4, max_iter=10, n_init=2, random_state=3).fit(data(family))


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
@pytest.mark.parametrize(
    "n_notes", [0, 5, 30, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 12))]
)
def test_interrupted_anywhere_the_fit_ends_the_same(family, n_notes, tmp_path, monkeypatch):
    X = data(family)
    model = DynamicPartitionModel(4, max_iter=10, n_init=2, random_state=3)
    straight = fitted_without_interruption(family)
    with monkeypatch.context() as patch:
        stop_after(patch, n_notes)
        with pytest.raises(Stop):
            model.fit(X, checkpoint=tmp_path / "c", every=0)
    done = load_checkpoint(tmp_path / "c").meta["histories"]
    assert sum(map(len, done)) == n_notes + 1  # nothing is done twice
    resumed = DynamicPartitionModel(4, max_iter=10, n_init=2, random_state=3)
    assert_same(resumed.fit(X, checkpoint=tmp_path / "c", every=0), straight)
    # A third time finds everything done.
    assert_same(resumed.fit(X, checkpoint=tmp_path / "c", every=0), straight)


def test_a_checkpoint_changes_nothing(tmp_path):
    X = PAIRS
    plain = DynamicPartitionModel(6, max_iter=8, random_state=0).fit(X)
    kept = DynamicPartitionModel(6, max_iter=8, random_state=0)
    assert_same(kept.fit(X, checkpoint=tmp_path / "c"), plain)


# Without a seed, a start may be drawn that earns a warning.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_a_seed_the_first_one_is_kept(tmp_path, monkeypatch):
    X = PAIRS
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(Stop):
            DynamicPartitionModel(5, max_iter=8).fit(X, checkpoint=tmp_path / "c", every=0)
    seed = load_checkpoint(tmp_path / "c").meta["seed"]
    first = DynamicPartitionModel(5, max_iter=8).fit(X, checkpoint=tmp_path / "c", every=0)
    again = DynamicPartitionModel(5, max_iter=8).fit(X, checkpoint=tmp_path / "c", every=0)
    assert_same(first, again)
    assert load_checkpoint(tmp_path / "c").meta["seed"] == seed


def test_other_data_or_parameters_are_refused(tmp_path):
    X = PAIRS
    DynamicPartitionModel(4, max_iter=3, random_state=0).fit(X, checkpoint=tmp_path / "c", every=0)
    for model, rows in (
        (DynamicPartitionModel(5, max_iter=3, random_state=0), X),
        (DynamicPartitionModel(4, max_iter=4, random_state=0), X),
        (DynamicPartitionModel(4, max_iter=3, random_state=1), X),
        (DynamicPartitionModel(4, max_iter=3, random_state=0), X[1:]),
    ):
        with pytest.raises(ModelFileError, match="another run"):
            model.fit(rows, checkpoint=tmp_path / "c")


def with_equal_moments():
    """Tables that no sum over a column tells from the first one."""
    X = PAIRS[np.random.default_rng(0).permutation(40)]
    turned, mixed = X.copy(), X.copy()
    turned[:20] = X[19::-1]
    mixed[:20, 0] = X[19::-1, 0]  # one column by itself: other rows, the same columns
    return X, [turned, mixed]


@pytest.mark.parametrize("kind", ["array", "blocks", "torch"])
def test_other_rows_with_equal_moments_are_refused(kind, tmp_path):
    torch = pytest.importorskip("torch") if kind == "torch" else None
    options = {"engine": "torch", "device": "cpu"} if torch else {}
    convert = {
        "array": lambda X: X,
        "blocks": lambda X: [X[:25], X[25:]],
        "torch": lambda X: torch.tensor(X),
    }[kind]
    X, others = with_equal_moments()
    model = DynamicPartitionModel(4, max_iter=3, random_state=0, **options)
    model.fit(convert(X), checkpoint=tmp_path / "c", every=0)
    means, before = to_numpy(model.means_), (tmp_path / "c").read_bytes()
    for other in others:
        with pytest.raises(ModelFileError, match="other rows"):
            model.fit(convert(other), checkpoint=tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == before
    model.fit(convert(X.astype(np.float64)), checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(to_numpy(model.means_), means)


def test_blocks_cut_elsewhere_are_another_run(tmp_path):
    """Sums over other blocks are rounded otherwise, so the fit would not end the same."""
    X = with_equal_moments()[0]
    model = DynamicPartitionModel(4, max_iter=3, random_state=0)
    model.fit([X[:25], X[25:]], checkpoint=tmp_path / "c", every=0)
    with pytest.raises(ModelFileError, match="another run"):
        model.fit([X[:20], X[20:]], checkpoint=tmp_path / "c")


@pytest.mark.slow
def test_chunks_of_a_cluster_are_known_again(tmp_path):
    distributed = pytest.importorskip("distributed")
    da = pytest.importorskip("dask.array")
    X, (other, *_) = with_equal_moments()
    model = DynamicPartitionModel(4, max_iter=3, random_state=0, engine="reference")
    with distributed.Client(processes=False, dashboard_address=":0"):
        model.fit(da.from_array(X, chunks=(25, 6)), checkpoint=tmp_path / "c", every=0)
        means = model.means_.copy()
        with pytest.raises(ModelFileError, match="other rows"):
            model.fit(da.from_array(other, chunks=(25, 6)), checkpoint=tmp_path / "c")
        model.fit(da.from_array(X, chunks=(25, 6)), checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(model.means_, means)


@given(st.data())
def test_fingerprints_of_rows_differ_whenever_the_rows_do(data):
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 4)))
    dtype = data.draw(st.sampled_from([np.uint8, np.float32, np.float64, np.bool_]))
    numbers = st.integers(0, 1).map(dtype)
    X = data.draw(arrays(dtype, shape, elements=numbers))
    Y = data.draw(arrays(dtype, shape, elements=numbers) | st.permutations(list(X)).map(np.array))
    assert (digest_rows(Rows(X)) == digest_rows(Rows(Y))) == np.array_equal(X, Y)
    assert digest_rows(Rows(np.asfortranarray(X))) == digest_rows(Rows(X))
    assert (digest_rows(Rows(X.reshape(shape[::-1]))) == digest_rows(Rows(X))) == (
        shape[0] == shape[1]
    )


def test_pieces_of_a_large_table_are_hashed_as_the_whole(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 3))
    whole = digest_rows(Rows(X))
    monkeypatch.setattr(_rows, "CHUNK_VALUES", 7)
    assert digest_rows(Rows(X)) == whole


def test_a_checkpoint_that_does_not_know_its_rows_is_refused(tmp_path):
    """As those of earlier versions."""
    X = PAIRS
    model = DynamicPartitionModel(4, max_iter=3, random_state=0)
    model.fit(X, checkpoint=tmp_path / "c", every=0)
    old = load_checkpoint(tmp_path / "c")
    meta = {name: value for name, value in old.meta.items() if name != "rows"}
    save_checkpoint(tmp_path / "c", Checkpoint(old.arrays, meta, old.task))
    with pytest.raises(ModelFileError, match=r"earlier version.*remove it"):
        model.fit(X, checkpoint=tmp_path / "c")


def test_a_checkpoint_to_be_replaced_stays_until_learning_begins(tmp_path, monkeypatch):
    X, path = PAIRS, tmp_path / "c"
    first = DynamicPartitionModel(4, max_iter=3, random_state=0)
    first.fit(X, checkpoint=path, every=0)
    before = path.read_bytes()
    binary = DynamicPartitionModel(4, max_iter=3, random_state=1, family="bernoulli")
    with pytest.raises(ValueError, match="binary"):
        binary.fit(X + 0.5, checkpoint=path, every=0, resume=False)
    with pytest.raises(ValueError, match="no row with an observed value"):
        binary.fit(X * np.nan, checkpoint=path, every=0, resume=False)
    assert path.read_bytes() == before
    with monkeypatch.context() as patch:
        stop_after(patch, 0)
        with pytest.raises(Stop):
            binary.fit(X, checkpoint=path, every=1e9, resume=False)
    assert load_checkpoint(path).meta["histories"] == [[]]  # the new one, at its start
    straight = DynamicPartitionModel(4, max_iter=3, random_state=1, family="bernoulli").fit(X)
    assert_same(binary.fit(X, checkpoint=path), straight)


def test_a_checkpoint_is_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for resume in (True, False):
        with pytest.raises(OSError, match="never replaced"):
            DynamicPartitionModel(4).fit(make_pairs(2), checkpoint=tmp_path / "pipe", resume=resume)
    assert (tmp_path / "pipe").is_fifo()


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "c").write_bytes(b"not a checkpoint")
    with pytest.raises(ModelFileError):
        DynamicPartitionModel(4).fit(make_pairs(2), checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="every"):
        DynamicPartitionModel(4).fit(make_pairs(2), checkpoint=tmp_path / "d", every=-1)


@pytest.mark.slow
def test_killed_in_a_loop_the_fit_still_ends_the_same(tmp_path):
    rng = np.random.default_rng(0)
    X = np.tile(make_pairs(6)[rng.integers(0, 64, 400)], (1, 5)).astype(np.uint8)
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
