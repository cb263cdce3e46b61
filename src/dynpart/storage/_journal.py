"""The journal of a fit: stores and restores the state of every run of the learner.

A fit is a sequence of runs (trial searches, restarts). All of them are determined by seeds, so the
state of each run is enough: a resumed fit requests its runs in the same order, gets the final
states of finished ones, and continues with the interrupted one.
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
from dynpart.atomic import check_target
from dynpart.storage._checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dynpart.storage._container import ModelFileError
from dynpart.storage._extras import graph_arrays
from dynpart.storage._family import pack_family, unpack_family
from dynpart.storage._history import pack_history, read_history
from dynpart.storage._numbers import is_count
from dynpart.storage._rows import digest_rows

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from dynpart.families import Family
    from dynpart.learning import LearnerState
    from dynpart.opening import Data


class Journal:
    """The states of the runs of a fit, on disk.

    Parameters
    ----------
    path : path-like
        The checkpoint file. If it exists, the fit continues from it.
    task : str
        Fingerprint of data and parameters, see :func:`fingerprint`.
    family : Family
        Family of the experts.
    seed : int
        Seed of all runs. A resumed journal keeps its own.
    every : float
        Seconds between two writes; 0 writes after every iteration.
    rows : str
        Fingerprint of the rows, see :func:`digest_rows`.
    resume : bool, default=True
        Whether to continue from an existing file. If False, it is kept until the first run begins.

    Attributes
    ----------
    seed : int
        The seed to continue with.

    Raises
    ------
    ModelFileError
        If the file is damaged or belongs to another task or to other rows.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        task: str,
        family: Family,
        seed: int,
        every: float,
        rows: str = "",
        resume: bool = True,
    ) -> None:
        self.path = Path(path)
        self.task = task
        self.rows = rows
        self.seed = seed
        self.every = every
        self._family = family
        self._begun = 0
        self._written = time.monotonic()
        check_target(path)
        self._replaces = self.path.exists() and not resume
        self._runs: list[LearnerState] = self._read() if self.path.exists() and resume else []

    def begin(self, start: LearnerState) -> LearnerState:
        """The state of the next run: `start`, or a later state from the file."""
        self._begun += 1
        if self._begun <= len(self._runs):
            state = self._runs[self._begun - 1]
            return dataclasses.replace(state, experts=state.experts.like(start.experts.eta))
        self._runs.append(start)
        if self._replaces:  # the file of another fit must not be resumed
            self.write()
            self._replaces = False
        return start

    def note(self, state: LearnerState) -> None:
        """Store the state after an iteration of the current run; write the file when due."""
        self._runs[self._begun - 1] = state
        if time.monotonic() - self._written >= self.every:
            self.write()

    def write(self) -> None:
        """Write the journal, atomically."""
        arrays: dict[str, NDArray[Any]] = {}
        families = []
        for run, state in enumerate(self._runs):
            arrays[f"eta.{run}"] = to_numpy(state.experts.eta)
            arrays[f"log2_expertise.{run}"] = to_numpy(state.experts.log2_expertise)
            family, more = pack_family(state.experts.family)
            families.append(family)
            arrays |= {f"{run}.{name}": array for name, array in more.items()}
        histories = [pack_history(state.history) for state in self._runs]
        meta = {
            "seed": self.seed, "histories": histories, "families": families, "rows": self.rows
        }  # fmt: skip
        save_checkpoint(self.path, Checkpoint(arrays, meta, self.task))
        self._written = time.monotonic()

    def _read(self) -> list[LearnerState]:
        from dynpart.engines import Experts
        from dynpart.learning import LearnerState

        checkpoint = load_checkpoint(self.path, task=self.task)
        self._check_rows(checkpoint.meta.get("rows"))
        runs = []
        try:
            if not is_count(checkpoint.meta["seed"]):
                raise ModelFileError(f"{self.path} holds no valid seed")
            self.seed = checkpoint.meta["seed"]
            for run, history in enumerate(checkpoint.meta["histories"]):
                eta = checkpoint.arrays[f"eta.{run}"]
                level = checkpoint.arrays[f"log2_expertise.{run}"]
                if eta.shape[1:] != level.shape or not (
                    np.isfinite(eta).all() and np.isfinite(level).all()
                ):
                    raise ModelFileError(f"{self.path} holds invalid experts")
                family = self._family_of(checkpoint, run, level.shape[1])
                experts = Experts(family, eta, level)
                runs.append(LearnerState(experts, read_history(self.path, history)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{self.path} is not a complete checkpoint of a fit") from error
        return runs

    def _family_of(self, checkpoint: Checkpoint, run: int, n_features: int) -> Family:
        """The family of a run, whose shared parameters are fitted at the end."""
        families = checkpoint.meta.get("families")
        if families is None:  # of an earlier version
            return self._family
        prefix = f"{run}."
        arrays = {
            name.removeprefix(prefix): array
            for name, array in checkpoint.arrays.items()
            if name.startswith(prefix)
        }
        return unpack_family(self.path, families[run], arrays, n_features)

    def _check_rows(self, found: Any) -> None:
        if found is None:
            raise ModelFileError(
                f"{self.path} has no hash of its rows: it was written by an earlier version of "
                "dynpart; remove it to start again"
            )
        if found != self.rows:
            raise ModelFileError(
                f"{self.path} is the checkpoint of another run: it was learnt from other rows, or "
                "from the same ones in another order or type; remove it to start again"
            )


def open_journal(
    path: str | os.PathLike[str],
    model: BaseEstimator,
    data: Data,
    rows: Any,
    family: Family,
    *,
    seed: int,
    every: float,
    resume: bool = True,
) -> Journal:
    """The journal of fitting `model` to this data, new or resumed.

    Parameters
    ----------
    path : path-like
    model : DynamicPartitionModel
        Its parameters, except `verbose` and a random generator, must be those of the journal.
    data : Data
    rows : object
        The data in the form of the engine. Must equal that of the journal, row by row.
    family : Family
    seed : int
    every : float
        Seconds between two writes.
    resume : bool, default=True
        Whether to continue from an existing file, or to replace it when learning begins.

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
    moments = data.moments
    graph = graph_arrays(parameters.pop("connectivity", None)) or ()
    task = fingerprint(
        parameters,
        n_rows=moments.n_rows,
        mean=to_numpy(moments.mean),
        variance=to_numpy(moments.variance),
        **{f"graph{place}": part for place, part in enumerate(graph)},
    )
    return Journal(
        path,
        task=task,
        family=family,
        seed=seed,
        every=every,
        rows=digest_rows(rows, data.engine),
        resume=resume,
    )


def fingerprint(parameters: Mapping[str, Any], **arrays: Any) -> str:
    """A hash of parameters, data and the version of dynpart.

    Parameters
    ----------
    parameters : mapping
        By name; of other objects the repr is used.
    **arrays : array-like
        Arrays that represent the data, such as its shape and column moments.

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
