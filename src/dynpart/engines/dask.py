"""Rows on a cluster: another engine, mapped over the row chunks of a Dask array.

Chunks and codes stay on the workers; experts travel out once an update, sums come back through a
tree of additions whose shape depends on the number of chunks alone. Every task is a function of
its arguments and has a key, so what a lost worker held is computed again, and is the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynpart.engines._contract import (
    Codes,
    CodeSummary,
    Engine,
    Experts,
    GradientSums,
    NumpyEngine,
    PursuitRule,
    ResponsibilitySums,
)
from dynpart.engines.blocks import FAN_IN, split_indices, trimmed
from dynpart.families import ColumnMoments, column_moments

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from distributed import Client, Future

T = TypeVar("T")


def cluster_client() -> Client:
    """The Dask client in charge, or an error that says how to start one."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError("Dask arrays need an extra: pip install 'dynpart[dask]'") from error
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "fit on a Dask array needs a running client: from distributed import Client; "
            "client = Client()  # or Client('scheduler-address:8786')"
        ) from error


def check_chunks(X: DaskArray) -> None:
    """Raise ValueError unless `X` is a table (n_rows, n_features) cut along rows only."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, found {X.ndim}")
    if X.numblocks[1] > 1:
        raise ValueError(
            f"X must be chunked along rows only, found {X.numblocks[1]} chunks of columns; "
            "use X.rechunk({1: -1})"
        )


def on_one_thread(engine: Engine) -> Engine:
    """The same engine for a worker, which runs one task per thread already."""
    kind: Any = type(engine)
    return kind(n_threads=1) if hasattr(engine, "n_threads") else engine


def lazily(
    X: DaskArray, task: Callable[[NDArray], NDArray], dtype: Any, n_columns: int | None = None
) -> DaskArray:
    """A Dask array of what `task` makes of each chunk, computed when asked for.

    Parameters
    ----------
    X : dask.array.Array of shape (n_rows, n_features)
        Cut along rows only.
    task : callable
        Returns as many rows as it is given.
    dtype : data type of the result
    n_columns : int, optional
        Columns of the result; it has one dimension if None.

    Returns
    -------
    dask.array.Array
    """
    check_chunks(X)
    shape: dict[str, Any] = {"drop_axis": 1}
    if n_columns is not None:
        shape = {"chunks": (X.chunks[0], (n_columns,))}
    on_chunk: Any = partial(_on_one_thread, task)
    return X.map_blocks(
        on_chunk,
        dtype=dtype,
        meta=np.empty((0,) if n_columns is None else (0, 0), dtype=dtype),
        name=_keys("encode", 1)[0][0],
        **shape,
    )


@dataclass(frozen=True, eq=False)
class DaskRows:
    """A table whose blocks are in the memory of a cluster.

    Attributes
    ----------
    blocks : list of Future
        Arrays of shape (n_rows, n_features), none of them empty.
    sizes : ndarray of shape (n_blocks,)
        Rows of each block.
    """

    blocks: list[Future]
    sizes: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class DaskCodes:
    """Codes of every block, on the workers."""

    parts: list[Future]
    engine: DaskEngine

    def summary(self, n_experts: int) -> CodeSummary:
        """What the learner needs to know of all codes."""
        return self.engine.sum_over("summary", partial(_summary, n_experts), self.parts)


class DaskEngine(NumpyEngine):
    """Maps another engine over the blocks of a Dask array and adds up.

    Rows that :meth:`take` draws are an array in the driver's memory, worked on there.

    Parameters
    ----------
    inner : Engine
        Works on one block on a worker.
    local : Engine, optional
        Works on drawn rows in the driver; `inner` by default.
    client : distributed.Client, optional
        The current one by default.

    Notes
    -----
    For the same blocks and the same `inner`, results equal those of
    :class:`~dynpart.engines.blocks.BlocksEngine` to the last bit, whichever worker computes what,
    as long as all workers have the same kind of processor and the same libraries.
    """

    name = "dask"

    def __init__(
        self, inner: Engine, *, local: Engine | None = None, client: Client | None = None
    ) -> None:
        self.inner = inner
        self.local = inner if local is None else local
        self.client = cluster_client() if client is None else client
        self._sent: tuple[Experts, Future] | None = None

    def load(
        self, X: DaskArray, prepare: Callable[[Any, int], NDArray] | None = None
    ) -> tuple[DaskRows, ColumnMoments]:
        """Bring the chunks of `X` into the workers' memory and find their column moments.

        Parameters
        ----------
        X : dask.array.Array of shape (n_rows, n_features)
            Cut along rows only. Chunks that do not fit in memory are spilled to the workers' disks
            by Dask.
        prepare : callable, optional
            Called on a worker with each chunk and its index; returns the array to work on.

        Returns
        -------
        rows : DaskRows
        moments : ColumnMoments
        """
        check_chunks(X)
        blocks = self.client.compute(list(X.to_delayed().ravel()))
        if prepare is not None:
            blocks = self.map("block", prepare, blocks, range(len(blocks)))
        sizes = np.array(self.client.gather(self.map("size", len, blocks)), dtype=np.intp)
        filled = [block for block, size in zip(blocks, sizes, strict=True) if size]
        if not filled:
            raise ValueError("X has no rows")
        rows = DaskRows(filled, sizes[sizes > 0])
        return rows, self.sum_over("moments", column_moments, filled)

    def take(self, rows: DaskRows | NDArray, indices: NDArray[np.intp]) -> NDArray:
        """The rows with these ascending indices, in the driver's memory."""
        if isinstance(rows, np.ndarray):
            return self.local.take(rows, indices)
        touched, within = split_indices(rows.sizes, indices)
        blocks = [rows.blocks[index] for index in touched]
        return np.concatenate(self.client.gather(self.map("take", _take, blocks, within)))

    def pursue(self, rows: DaskRows | NDArray, experts: Experts, rule: PursuitRule) -> Any:
        """Codes of all rows, left on the workers that found them."""
        if isinstance(rows, np.ndarray):
            return self.local.pursue(rows, experts, rule)
        shared = [self._share(experts)] * len(rows.blocks)
        task = partial(_pursue, self.inner, rule)
        return DaskCodes(self.map("pursue", task, rows.blocks, shared), self)

    def gradient_sums(self, rows: DaskRows | NDArray, experts: Experts, codes: Any) -> GradientSums:
        """Evidence for more or less expertise (appendix A), added over blocks."""
        if isinstance(rows, np.ndarray):
            return self.local.gradient_sums(rows, experts, codes)
        return self._sums("gradient", self.inner.gradient_sums, rows, experts, codes)

    def responsibility_sums(
        self, rows: DaskRows | NDArray, experts: Experts, codes: Any
    ) -> ResponsibilitySums:
        """Sums for the expert update (eq. 5 and 6), added over blocks."""
        if isinstance(rows, np.ndarray):
            return self.local.responsibility_sums(rows, experts, codes)
        return self._sums("responsibility", self.inner.responsibility_sums, rows, experts, codes)

    def _sums(
        self, name: str, of_block: Callable[..., T], rows: DaskRows, experts: Experts, codes: Any
    ) -> T:
        shared = [self._share(experts)] * len(rows.blocks)
        return self.sum_over(name, of_block, rows.blocks, shared, codes.parts)

    def _share(self, experts: Experts) -> Future:
        """The experts as a task of their own: sent once, passed on from worker to worker.

        Unlike scattered data a task can be run again, should all workers that hold it be lost.
        """
        import dask

        if self._sent is None or self._sent[0] is not experts:
            light = replace(experts)  # without what the driver has cached on it
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
                future = self.client.submit(_identity, light, key=_keys("experts", 1)[0])
            self._sent = experts, future
        return self._sent[1]

    def map(self, name: str, task: Callable[..., Any], *arguments: Any) -> list[Future]:
        """Futures of `task` called with the first, second, ... of each argument.

        Dask's dashboard shows the tasks as "dynpart-" and `name`.
        """
        return self.client.map(task, *arguments, key=_keys(name, len(arguments[0])))

    def sum_over(self, name: str, task: Callable[..., T], *arguments: Any) -> T:
        """The sum of what :meth:`map` would give, added in the tree of ``blocks.tree_sum``."""
        parts = self.map(name, task, *arguments)
        while len(parts) > 1:
            groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            keys = _keys(f"{name}-sum", len(groups))
            parts = [
                self.client.submit(_add, *group, key=key)
                for group, key in zip(groups, keys, strict=True)
            ]
        return parts[0].result()


def _keys(name: str, n: int) -> list[tuple[str, int]]:
    run = f"dynpart-{name}-{uuid.uuid4().hex}"
    return [(run, index) for index in range(n)]


# What workers run. Functions at the top of a module travel as a name.


def _identity(value: T) -> T:
    return value


def _add(*parts: Any) -> Any:
    return reduce(add, parts)


def _on_one_thread(task: Callable[[NDArray], T], block: NDArray) -> T:
    """Dask's own threads are busy with other chunks."""
    import numba

    n_threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        return task(block)
    finally:
        numba.set_num_threads(n_threads)


def _take(block: NDArray, indices: NDArray[np.intp]) -> NDArray:
    return block[indices]


def _pursue(engine: Engine, rule: PursuitRule, block: NDArray, experts: Experts) -> Codes:
    return trimmed(engine.pursue(block, experts, rule))


def _summary(n_experts: int, codes: Codes) -> CodeSummary:
    return codes.summary(n_experts)
