"""A file is written whole or not at all, whatever happens to the process or the disk."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from dynpart.persistence import (
    Checkpoint,
    ModelFileError,
    atomic_write,
    load,
    load_checkpoint,
    save,
    save_checkpoint,
)

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


def test_killed_again_and_again_the_last_good_checkpoint_loads(tmp_path):
    path, last = tmp_path / "run.checkpoint", 0
    for kill in range(12):
        process = python(WRITER, path, last)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.02 + 0.013 * kill)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if path.exists():
            checkpoint = load_checkpoint(path)
            assert checkpoint.meta["turn"] >= last
            assert (checkpoint.arrays["x"] == checkpoint.meta["turn"]).all()
            last = checkpoint.meta["turn"]
    assert last > 0
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
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "real").stat().st_mode == (tmp_path / "plain").stat().st_mode
