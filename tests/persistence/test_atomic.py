"""A file is written completely or not at all, if the process is killed or the disk is full."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
from sklearn.base import clone

from dynpart import atomic
from dynpart.persistence import (
    Checkpoint,
    ModelFileError,
    atomic_write,
    load,
    load_checkpoint,
    save,
    save_checkpoint,
)
from dynpart.storage import _container
from tests.persistence.conftest import PAIRS

WRITER = """
import sys
import numpy as np
from dynpart.persistence import Checkpoint, save_checkpoint
turn = int(sys.argv[2])
print("ready", flush=True)
while True:
    turn += 1
    save_checkpoint(sys.argv[1], Checkpoint({"x": np.full(200_000, float(turn))}, {"turn": turn}))
"""

RESIZING_WRITER = """
import sys
import numpy as np
from dynpart.persistence import Checkpoint, save_checkpoint
print("ready", flush=True)
turn = 0
while True:
    turn += 1
    size = 10 if turn % 2 else 50_000
    save_checkpoint(sys.argv[1], Checkpoint({"x": np.full(size, float(turn))}, {"turn": turn}))
"""

SHORT_OF_SPACE = """
import resource, signal, sys
import numpy as np
from dynpart.persistence import Checkpoint, save_checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save_checkpoint(sys.argv[1], Checkpoint({"x": np.zeros(200_000)}, {"turn": 2}))
except OSError as error:
    print(type(error).__name__, error.errno)
"""


def python(code, *arguments, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def test_a_checkpoint_survives_the_round_trip_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "eta": rng.normal(size=(2, 3, 4)),
        "key": rng.integers(2**32, size=624).astype(np.uint32),
        "empty": np.zeros((0, 3)),
        "scalar": np.float64(0.1) * np.ones(()),
    }
    meta = {"iteration": 3, "history": [{"joint": 0.1 + 0.2, "bound": np.inf}], "best": None}
    save_checkpoint(tmp_path / "c", Checkpoint(arrays, meta, "task"))
    back = load_checkpoint(tmp_path / "c", task="task")
    assert set(back.arrays) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
        assert back.arrays[name].dtype == array.dtype
    assert back.meta["history"][0]["joint"] == 0.1 + 0.2
    assert float(back.meta["history"][0]["bound"]) == np.inf


def test_a_checkpoint_of_another_task_is_refused(tmp_path):
    save_checkpoint(tmp_path / "c", Checkpoint({"x": np.ones(1)}, {}, "one"))
    with pytest.raises(ModelFileError, match="another run"):
        load_checkpoint(tmp_path / "c", task="two")


def test_models_and_checkpoints_are_not_confused(tmp_path, binary_model):
    save_checkpoint(tmp_path / "c", Checkpoint({"x": np.ones(1)}))
    with pytest.raises(ModelFileError, match="checkpoint"):
        load(tmp_path / "c")
    save(binary_model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="model"):
        load_checkpoint(tmp_path / "m")


@pytest.mark.slow
def test_killed_again_and_again_the_last_good_checkpoint_loads(tmp_path):
    path, last, n_advances, n_kills = tmp_path / "run.checkpoint", 0, 0, 0
    while n_kills < 12 or (n_advances < 3 and n_kills < 60):  # a slow disk is given more time
        process = python(WRITER, path, last)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.02 + 0.013 * n_kills)
        n_kills += 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if path.exists():
            checkpoint = load_checkpoint(path)
            assert checkpoint.meta["turn"] >= last  # a kill may come before the next is written
            assert (checkpoint.arrays["x"] == checkpoint.meta["turn"]).all()
            n_advances += checkpoint.meta["turn"] > last
            last = checkpoint.meta["turn"]
    assert n_advances >= 3
    save_checkpoint(path, load_checkpoint(path))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # leftovers are swept


def test_a_full_disk_leaves_the_last_checkpoint_as_it_was(tmp_path):
    path = tmp_path / "run.checkpoint"
    save_checkpoint(path, Checkpoint({"x": np.ones(5)}, {"turn": 1}))
    process = python(SHORT_OF_SPACE, path)
    assert "27" in process.communicate()[0]  # EFBIG
    assert load_checkpoint(path).meta["turn"] == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_an_error_while_writing_leaves_no_trace(tmp_path):
    def write():
        with atomic_write(tmp_path / "f") as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_unless_allowed(tmp_path, binary_model):
    path = tmp_path / "m"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="exists already"):
        save(binary_model, path, overwrite=False)
    assert path.read_text() == "precious"


def test_a_file_made_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "f"

    def write():
        with atomic_write(path, overwrite=False) as file:
            file.write(b"ours")
            path.write_text("theirs")

    with pytest.raises(FileExistsError):
        write()
    assert path.read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_is_followed_and_permissions_follow_the_umask(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")  # to nothing yet: made where it points
    with atomic_write(tmp_path / "link", overwrite=False) as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "real").stat().st_mode == (tmp_path / "plain").stat().st_mode
    with pytest.raises(FileExistsError), atomic_write(tmp_path / "link", overwrite=False):
        pass
    with atomic_write(tmp_path / "link") as file:
        file.write(b"newer")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "newer"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444, 0o755])
def test_permissions_survive_overwriting(tmp_path, mode):
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(mode)
    with atomic_write(path) as file:
        (temporary,) = (entry for entry in tmp_path.iterdir() if entry != path)
        assert temporary.stat().st_mode & 0o777 & ~mode == 0  # nor is it open while it is written
        file.write(b"new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_survives_overwriting(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    with atomic_write(path) as file:
        file.write(b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12345, 23456, 0o640)


def test_a_group_that_cannot_be_kept_gets_no_more_than_others(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o664)
    found = path.stat()
    foreign = os.stat_result((*found[:5], found.st_gid + 1, *found[6:10]))

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    with path.open("r+b") as file:
        atomic._inherit(file.fileno(), foreign)
    assert path.stat().st_mode & 0o777 == 0o644


def special_files(folder):
    """A pipe, a link to it, a socket, and a device if we may make one."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(folder / "socket"))
    (folder / "link").symlink_to(folder / "pipe")
    made = ["pipe", "socket", "link"]
    with suppress(PermissionError):
        os.mknod(folder / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        made.append("device")
    return [folder / name for name in made]


@pytest.mark.parametrize("overwrite", [True, False])
def test_devices_pipes_and_sockets_are_never_replaced(tmp_path, binary_model, overwrite):
    special = special_files(tmp_path)
    kinds = [path.lstat().st_mode for path in special]
    for path in special:
        with pytest.raises(OSError, match="never replaced") as caught:
            save(binary_model, path, overwrite=overwrite)
        assert str(path) in str(caught.value)
    assert [path.lstat().st_mode for path in special] == kinds
    assert len(list(tmp_path.iterdir())) == len(special)


def test_a_folder_is_not_replaced_and_a_loop_of_links_is_an_error(tmp_path, binary_model):
    with pytest.raises(IsADirectoryError):
        save(binary_model, tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        save(binary_model, tmp_path / "loop")


def test_a_file_that_is_being_written_is_not_swept_away(tmp_path, monkeypatch):
    """Also by a writer that cannot see the other's process, as in another container."""
    monkeypatch.setattr(atomic, "_is_running", lambda process: False)
    path = tmp_path / "f"
    with atomic_write(path) as slow:
        slow.write(b"slow")
        for _ in range(2):
            with atomic_write(path) as quick:
                quick.write(b"quick")
        assert path.read_bytes() == b"quick"
    assert path.read_bytes() == b"slow"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_a_file_taken_for_a_leftover_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, lost = atomic._locked, []

    def late(handle):
        if not lost:  # another writer was quicker and swept the file away
            (temporary,) = tmp_path.iterdir()
            temporary.unlink()
            lost.append(temporary)
        return lock(handle)

    monkeypatch.setattr(atomic, "_locked", late)
    with atomic_write(tmp_path / "f") as file:
        file.write(b"whole")
    assert lost
    assert (tmp_path / "f").read_bytes() == b"whole"


def test_leftovers_of_the_dead_are_swept_whatever_their_number(tmp_path):
    """The number of a process may have been given to another one since."""
    path = tmp_path / "f"
    leftover = path.with_name(f"{atomic._prefix(path)}{os.getpid()}-0.tmp")
    leftover.write_text("half")
    other = path.with_name(f".dynpart-0123456789abcdef-{os.getpid()}-0.tmp")
    other.write_text("of another file")
    with atomic_write(path) as file:
        file.write(b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, other])


# ------------------------------------------------------ models that are written while they are read


def test_a_file_replaced_while_it_is_read_is_read_as_it_was(tmp_path, binary_model, monkeypatch):
    path, other = tmp_path / "m", tmp_path / "other"
    save(binary_model, path)
    grown = clone(binary_model).fit(np.tile(PAIRS, (1, 10)))
    save(grown, other)
    check = _container._checked_size

    def checked(*arguments):
        size = check(*arguments)
        if other.exists():
            os.replace(other, path)
        return size

    monkeypatch.setattr(_container, "_checked_size", checked)
    assert load(path).n_features_in_ == binary_model.n_features_in_
    assert load(path).n_features_in_ == 40


def test_reading_beside_a_writer_never_fails(tmp_path):
    path = tmp_path / "run.checkpoint"
    save_checkpoint(path, Checkpoint({"x": np.zeros(10)}, {"turn": 0}))
    writer = python(RESIZING_WRITER, path)
    try:
        assert writer.stdout.readline() == "ready\n"
        turns, n_reads, patience = set(), 0, time.monotonic() + 120
        while n_reads < 400 or (len(turns) <= 5 and time.monotonic() < patience):
            found = load_checkpoint(path)
            assert (found.arrays["x"] == found.meta["turn"]).all()
            turns.add(found.meta["turn"])
            n_reads += 1
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert len(turns) > 5
