"""The journal of a fit: keeps where every run of the learner stands, and brings it back.

A fit is a sequence of runs (laps of a race, restarts). All of them follow from seeds, so it is
enough to know how far each one came: a fit that is started again asks for its runs in the same
order, gets finished ones back as they ended, and goes on with the one that was interrupted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import to_numpy
from dynpart.persistence._checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dynpart.persistence._container import ModelFileError, plain
from dynpart.persistence._extras import graph_arrays
from dynpart.persistence._model import read_history

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.families import ColumnMoments, Family
    from dynpart.learning._learner import LearnerState


class Journal:
    """Where the runs of a fit stand, on disk.

    Parameters
    ----------
    path : path-like
        The checkpoint file. If it exists, the fit goes on from it.
    task : str
        Fingerprint of data and parameters, see :func:`fingerprint`.
    family : Family
        Of the experts that are learnt.
    seed : int
        From which all runs follow. A journal that is taken up again keeps its own.
    every : float
        Seconds between two writings; 0 writes after every iteration.

    Attributes
    ----------
    seed : int
        The seed to go on with.

    Raises
    ------
    ModelFileError
        If the file is damaged or belongs to another task.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        task: str,
        family: Family,
        seed: int,
        every: float,
    ) -> None:
        self.path = Path(path)
        self.task = task
        self.seed = seed
        self.every = every
        self._family = family
        self._begun = 0
        self._written = time.monotonic()
        self._runs: list[LearnerState] = self._read() if self.path.exists() else []

    def begin(self, start: LearnerState) -> LearnerState:
        """Where the next run stands: `start` itself, unless an earlier process came further."""
        self._begun += 1
        if self._begun <= len(self._runs):
            state = self._runs[self._begun - 1]
            return dataclasses.replace(state, experts=state.experts.like(start.experts.eta))
        self._runs.append(start)
        return start

    def note(self, state: LearnerState) -> None:
        """Remember the state after an iteration of the current run; write it down when due."""
        self._runs[self._begun - 1] = state
        if time.monotonic() - self._written >= self.every:
            self.write()

    def write(self) -> None:
        """Write the journal, whole or not at all."""
        arrays: dict[str, NDArray[Any]] = {}
        for run, state in enumerate(self._runs):
            arrays[f"eta.{run}"] = to_numpy(state.experts.eta)
            arrays[f"log2_expertise.{run}"] = to_numpy(state.experts.log2_expertise)
        histories = [[dataclasses.asdict(r) for r in state.history] for state in self._runs]
        meta = {"seed": self.seed, "histories": plain(histories)}
        save_checkpoint(self.path, Checkpoint(arrays, meta, self.task))
        self._written = time.monotonic()

    def _read(self) -> list[LearnerState]:
        from dynpart.engines import Experts
        from dynpart.learning._learner import LearnerState

        checkpoint = load_checkpoint(self.path, task=self.task)
        runs = []
        try:
            self.seed = int(checkpoint.meta["seed"])
            for run, history in enumerate(checkpoint.meta["histories"]):
                eta = checkpoint.arrays[f"eta.{run}"]
                level = checkpoint.arrays[f"log2_expertise.{run}"]
                if eta.shape[1:] != level.shape or not (
                    np.isfinite(eta).all() and np.isfinite(level).all()
                ):
                    raise ModelFileError(f"{self.path} holds experts that cannot be")
                runs.append(LearnerState(Experts(self._family, eta, level), read_history(history)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{self.path} is not a complete checkpoint of a fit") from error
        return runs


def open_journal(
    path: str | os.PathLike[str],
    model: DynamicPartitionModel,
    moments: ColumnMoments,
    family: Family,
    *,
    seed: int,
    every: float,
) -> Journal:
    """The journal of fitting `model` to data with these moments, new or taken up again.

    Parameters
    ----------
    path : path-like
    model : DynamicPartitionModel
        Its parameters, but for `verbose` and a random generator, must be those of the journal.
    moments : ColumnMoments
        Stand for the data.
    family : Family
    seed : int
    every : float
        Seconds between two writings.

    Returns
    -------
    Journal
    """
    if not every >= 0:
        raise ValueError(f"every must be a number of seconds, at least 0, got {every!r}")
    parameters = model.get_params(deep=False)
    del parameters["verbose"]
    if not isinstance(parameters["random_state"], Integral):
        del parameters["random_state"]  # the seed drawn from it is in the journal
    graph = graph_arrays(parameters.pop("connectivity", None)) or ()
    task = fingerprint(
        parameters,
        n_rows=moments.n_rows,
        mean=to_numpy(moments.mean),
        variance=to_numpy(moments.variance),
        **{f"graph{place}": part for place, part in enumerate(graph)},
    )
    return Journal(path, task=task, family=family, seed=seed, every=every)


def fingerprint(parameters: Mapping[str, Any], **arrays: Any) -> str:
    """A short text that differs whenever parameters, data or the version of dynpart do.

    Parameters
    ----------
    parameters : mapping
        By name; objects count with their repr.
    **arrays : array-like
        What stands for the data, such as its shape and column moments.

    Examples
    --------
    >>> from dynpart.persistence import fingerprint
    >>> fingerprint({"n_experts": 3}, mean=[0.5]) == fingerprint({"n_experts": 4}, mean=[0.5])
    False
    """
    from dynpart import __version__

    words = {name: repr(value) for name, value in parameters.items()}
    digest = hashlib.sha256(json.dumps([__version__, sorted(words.items())]).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
