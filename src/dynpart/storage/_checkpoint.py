"""Checkpoints: the state of a run of learning in a file, as arrays and JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dynpart.storage._container import (
    ModelFileError,
    check_kind,
    read_container,
    write_container,
)

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run.

    Attributes
    ----------
    arrays : dict of ndarray
        The state's arrays by name, kept bitwise.
    meta : dict
        Everything else, as JSON values; floats keep every digit.
    task : str
        A fingerprint of data and parameters. A checkpoint of another task is rejected.
    """

    arrays: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the previous one is kept until the new one is on the disk.

    Parameters
    ----------
    path : path-like
        The checkpoint file.
    checkpoint : Checkpoint
        State to write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dynpart.persistence import Checkpoint, load_checkpoint, save_checkpoint
    >>> path = Path(tempfile.mkdtemp()) / "run.checkpoint"
    >>> save_checkpoint(path, Checkpoint({"eta": np.ones((1, 2, 3))}, {"iteration": 7}))
    >>> load_checkpoint(path).meta["iteration"]
    7
    """
    from dynpart import __version__

    meta = {
        "kind": "checkpoint",
        "format": FORMAT,
        "written_by": __version__,
        "task": checkpoint.task,
        "state": dict(checkpoint.meta),
    }
    write_container(path, meta, checkpoint.arrays)


def load_checkpoint(path: str | os.PathLike[str], *, task: str = "") -> Checkpoint:
    """Read a checkpoint.

    Parameters
    ----------
    path : path-like
        The checkpoint file.
    task : str, default=""
        The fingerprint the checkpoint must have; empty accepts any.

    Returns
    -------
    Checkpoint
        Arrays and numbers to continue from.

    Raises
    ------
    ModelFileError
        If the file is damaged, of another kind, or belongs to another task.
    FileNotFoundError
        If there is no file.
    """
    container = read_container(path)
    check_kind(path, container.meta, "checkpoint", FORMAT)
    found, state = container.meta.get("task"), container.meta.get("state")
    if not isinstance(found, str) or not isinstance(state, dict):
        raise ModelFileError(f"{path} is not a complete checkpoint")
    if task and found != task:
        raise ModelFileError(
            f"{path} is the checkpoint of another run: the data, the parameters or the version of "
            "dynpart differ; remove it to start again"
        )
    return Checkpoint(container.arrays, state, found)
