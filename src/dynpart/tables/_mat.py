"""Tables in MATLAB files, read in a subprocess: a damaged file can crash SciPy's reader."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.tables import _mat_process
from dynpart.tables._arrays import as_table, check_shape, chosen_array
from dynpart.tables._table import Table, TableError
from dynpart.tables.limits import check_room

NUMERIC = {"double", "single", "logical"} | {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32)}


def read_mat_table(path: Path, name: str | None, binary: bool | None) -> Table:
    """Read one array of a MATLAB file (up to version 7.2)."""
    with tempfile.TemporaryDirectory() as folder:
        array = _array(path, name, Path(folder) / "array.npy")
    return as_table(path, array, binary)


def _array(path: Path, name: str | None, copy: Path) -> NDArray[Any]:
    """Let a subprocess list the file and copy one array into an .npy file."""
    command = [sys.executable, "-P", _mat_process.__file__, os.fspath(path), os.fspath(copy)]
    with subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            content = _answer(path, process)["content"]
            shapes = {key: tuple(shape) for key, shape, kind in content if kind in NUMERIC}
            chosen = chosen_array(path, name, list(shapes))
            check_shape(path, shapes[chosen])
            n_bytes = 8 * math.prod(shapes[chosen])
            check_room(2 * n_bytes, f"reading array {chosen!r} of {path}")
            _ask(process, {"name": chosen, "n_bytes": n_bytes})
            _answer(path, process)
        finally:
            process.kill()
    array = np.load(copy, allow_pickle=False)
    if array.shape != shapes[chosen]:
        raise TableError(f"{path}: array {chosen!r} is not of the shape it declares")
    return array


def _ask(process: subprocess.Popen[bytes], question: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # a process that has ended gives no answer
        process.stdin.write(json.dumps(question).encode() + b"\n")


def _answer(path: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The answer of the process; no answer means that the file crashed it."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise TableError(f"{path} is not a readable MATLAB file: it crashes SciPy's reader")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise TableError(f"{path} {answer['error']}")
    return answer
