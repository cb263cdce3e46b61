"""Rows on a cluster: another engine, mapped over the row chunks of a Dask array.

Chunks and codes stay on the workers. Experts are sent once per update, and sums return through a
tree of additions whose shape depends only on the number of chunks. Every task is a pure function
with a key, so results of a lost worker are recomputed identically.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynpart.autoregression import AutoregressionSums
from dynpart.engines._contract import (
    Codes,
    CodeSummary,
    Engine,
    Experts,
    GradientSums,
    NumpyEngine,
    OpinionSums,
    PursuitRule,
    ResponsibilitySums,
)
from dynpart.engines._mixture import MixtureSums
from dynpart.engines.blocks import FAN_IN, BlockCodes, split_indices, trimmed
from dynpart.families import ColumnMoments, Family, column_moments
from dynpart.rows import Rows

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from distributed import Client, Future

T = TypeVar("T")


def cluster_client() -> Client:
    """The current Dask client; without one, raises an error that explains how to start it."""
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
    """A Dask array of the results of `task` for each chunk, computed when requested.

    Parameters
    ----------
    X : dask.array.Array of shape (n_rows, n_features)
        Cut along rows only.
    task : callable
        Returns as many rows as it is given.
    dtype : data type of the result
    n_columns : int, default=None
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
        Rows, none of them empty.
    sizes : ndarray of shape (n_blocks,)
        Rows of each block.
    weight : ndarray of shape (n_rows,) or None
        Weights of all rows.
    n_empty : int
        Number of rows left out because all their values are missing.
    """

    blocks: list[Future]
    sizes: NDArray[np.intp]
    weight: NDArray[np.float64] | None = None
    n_empty: int = 0


@dataclass(frozen=True, eq=False)
class DaskCodes:
    """Codes of every block, on the workers."""

    parts: list[Future]
    engine: DaskEngine

    @cached_property
    def _here(self) -> BlockCodes:
        return BlockCodes(tuple(self.engine.gather(self.parts)))

    def active(self, n_experts: int) -> NDArray[np.bool_]:
        """The binary codes h of all rows, brought here, shape (n_rows, n_experts)."""
        return self._here.active(n_experts)

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """Weights of all rows, shape (n_rows,), or None."""
        return self._here.weight

    def summary(self, n_experts: int) -> CodeSummary:
        """Summary of all codes for the learner."""
        return self.engine.sum_over("summary", partial(_summary, n_experts), self.parts)


class DaskEngine(NumpyEngine):
    """Maps another engine over the blocks of a Dask array and adds the results.

    Rows that :meth:`take` draws are an array in the driver's memory, processed there.

    Parameters
    ----------
    inner : Engine
        Works on one block on a worker.
    local : Engine, default=None
        Works on drawn rows in the driver; `inner` by default.
    client : distributed.Client, default=None
        The current one by default.

    Notes
    -----
    For the same blocks and the same `inner`, results equal those of
    :class:`~dynpart.engines.blocks.BlocksEngine` bitwise, whichever worker computes what,
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
        self._made: weakref.WeakSet[Future] = weakref.WeakSet()

    def load(
        self,
        X: DaskArray,
        prepare: Callable[..., tuple[Rows, int]],
        weight: DaskArray | None = None,
    ) -> tuple[DaskRows, ColumnMoments | None]:
        """Bring the chunks of `X` into the workers' memory and find their column moments.

        Parameters
        ----------
        X : dask.array.Array of shape (n_rows, n_features)
            Cut along rows only. Chunks that do not fit in memory are spilled to the workers' disks
            by Dask.
        prepare : callable
            Called on a worker with each chunk, its index and, if there are weights, those of its
            rows; returns rows of numbers, and how many were left out as empty.
        weight : dask.array.Array of shape (n_rows,), default=None
            Chunked as the rows of `X` are.

        Returns
        -------
        rows : DaskRows
        moments : ColumnMoments or None
            None if no chunk has a row.
        """
        check_chunks(X)
        self._retry_kept(X)
        chunks = self.client.compute(list(X.to_delayed().ravel()))
        self._made.update(chunks)
        arguments: list[Any] = [chunks, range(len(chunks))]
        if weight is not None:
            if weight.chunks[0] != X.chunks[0]:
                raise ValueError(
                    "sample_weight must be chunked as the rows of X are; use "
                    "sample_weight.rechunk({0: X.chunks[0]})"
                )
            arguments.append(self.client.compute(list(weight.to_delayed().ravel())))
            self._made.update(arguments[-1])
        looks = self.map("look", prepare, *arguments)
        n_empty = sum(self.gather(self.map("empty", _n_empty, looks)))
        blocks = self.map("block", _block, looks)
        sizes = np.array(self.gather(self.map("size", len, blocks)), dtype=np.intp)
        filled = [block for block, size in zip(blocks, sizes, strict=True) if size]
        if not filled:
            return DaskRows([], sizes[:0]), None
        weights = None
        if weight is not None:
            weights = np.concatenate(self.gather(self.map("weight", _weight, filled)))
        rows = DaskRows(filled, sizes[sizes > 0], weights, n_empty)
        return rows, self.sum_over("moments", _moments, filled)

    def encoded(self, rows: DaskRows, family: Family) -> DaskRows:
        """The rows as this family encodes them, on the workers."""
        blocks = self.map("encode", partial(_encoded, family), rows.blocks)
        return replace(rows, blocks=blocks)

    def take(self, rows: DaskRows | Rows, indices: NDArray[np.intp]) -> Rows:
        """The rows with these ascending indices, in the driver's memory."""
        if isinstance(rows, Rows):
            return self.local.take(rows, indices)
        touched, within = split_indices(rows.sizes, indices)
        blocks = [rows.blocks[index] for index in touched]
        return Rows.joined(self.gather(self.map("take", _take, blocks, within)))

    def pursue(
        self,
        rows: DaskRows | Rows,
        experts: Experts,
        rule: PursuitRule,
        background: Experts | None = None,
    ) -> Any:
        """Codes of all rows, left on the workers that found them."""
        if isinstance(rows, Rows):
            return self.local.pursue(rows, experts, rule, background)
        shared = [self._share(experts)] * len(rows.blocks)
        task = partial(_pursue, self.inner, rule, background)
        return DaskCodes(self.map("pursue", task, rows.blocks, shared), self)

    def gradient_sums(self, rows: DaskRows | Rows, experts: Experts, codes: Any) -> GradientSums:
        """Evidence for more or less expertise (appendix A), added over blocks."""
        if isinstance(rows, Rows):
            return self.local.gradient_sums(rows, experts, codes)
        return self._sums("gradient", self.inner.gradient_sums, rows, experts, codes)

    def responsibility_sums(
        self, rows: DaskRows | Rows, experts: Experts, codes: Any
    ) -> ResponsibilitySums:
        """Sums for the expert update (eq. 5 and 6), added over blocks."""
        if isinstance(rows, Rows):
            return self.local.responsibility_sums(rows, experts, codes)
        return self._sums("responsibility", self.inner.responsibility_sums, rows, experts, codes)

    def opinion_sums(self, rows: DaskRows | Rows, experts: Experts, codes: Any) -> OpinionSums:
        """Sums for Newton's method (appendix B), added over blocks."""
        if isinstance(rows, Rows):
            return self.local.opinion_sums(rows, experts, codes)
        return self._sums("opinion", self.inner.opinion_sums, rows, experts, codes)

    def mixture_sums(
        self, rows: DaskRows | Rows, experts: Experts, log_weight: Any, sharpness: float = 1.0
    ) -> MixtureSums:
        """Sums for EM of a mixture, added over blocks."""
        if isinstance(rows, Rows):
            return self.local.mixture_sums(rows, experts, log_weight, sharpness)
        shared = [self._share(experts)] * len(rows.blocks)
        others = ([each] * len(rows.blocks) for each in (log_weight, sharpness))
        return self.sum_over("mixture", self.inner.mixture_sums, rows.blocks, shared, *others)

    def autoregression_sums(
        self, rows: DaskRows | Rows, experts: Experts, codes: Any
    ) -> AutoregressionSums:
        """Sums for the weights of earlier values, added over blocks."""
        if isinstance(rows, Rows):
            return self.local.autoregression_sums(rows, experts, codes)
        return self._sums("autoregression", self.inner.autoregression_sums, rows, experts, codes)

    def _sums(
        self, name: str, of_block: Callable[..., T], rows: DaskRows, experts: Experts, codes: Any
    ) -> T:
        shared = [self._share(experts)] * len(rows.blocks)
        return self.sum_over(name, of_block, rows.blocks, shared, codes.parts)

    def _share(self, experts: Experts) -> Future:
        """The experts as a task of their own: sent once, then copied between workers.

        Unlike scattered data, a task can be run again if all workers that hold it are lost.
        """
        import dask

        if self._sent is None or self._sent[0] is not experts:
            light = replace(experts)  # without cached properties of the driver
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
                future = self.client.submit(_identity, light, key=_keys("experts", 1)[0])
            self._sent = experts, future
        return self._sent[1]

    def map(self, name: str, task: Callable[..., Any], *arguments: Any) -> list[Future]:
        """Futures of `task` called with the first, second, ... of each argument.

        Dask's dashboard shows the tasks as "dynpart-" and `name`.
        """
        futures = self.client.map(task, *arguments, key=_keys(name, len(arguments[0])))
        self._made.update(futures)
        return futures

    def gather(self, futures: list[Future]) -> list[Any]:
        """Results of futures; on an error, all futures of the engine are released.

        Chunks have the keys of their array. While a failed key, or a result of it, is still
        requested, the cluster returns the stored error. An exception under inspection also keeps
        the futures of the failed fit alive.
        """
        try:
            return self.client.gather(futures)
        except BaseException:
            for future in list(self._made):
                future.release()
            if self.client.status == "running":
                # Keys are released in another thread: wait, lest they be requested before.
                self.client.sync(_nothing)
            raise

    def _retry_kept(self, X: DaskArray) -> None:
        """Retry chunks of a persisted array that have failed."""
        from distributed import futures_of

        failed = [future for future in futures_of(X) if future.status == "error"]
        if failed:
            with suppress(KeyError):  # the task that failed first may have no future
                self.client.retry(failed)

    def sum_over(self, name: str, task: Callable[..., T], *arguments: Any) -> T:
        """The sum of the results of :meth:`map`, added in the tree of ``blocks.tree_sum``."""
        parts = self.map(name, task, *arguments)
        while len(parts) > 1:
            groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            keys = _keys(f"{name}-sum", len(groups))
            parts = [
                self.client.submit(_add, *group, key=key)
                for group, key in zip(groups, keys, strict=True)
            ]
            self._made.update(parts)
        return self.gather(parts)[0]


async def _nothing() -> None:
    pass


def _keys(name: str, n: int) -> list[tuple[str, int]]:
    run = f"dynpart-{name}-{uuid.uuid4().hex}"
    return [(run, index) for index in range(n)]


# Tasks of workers. Functions at module level are pickled by name.


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


def _block(look: tuple[Rows, int]) -> Rows:
    return look[0]


def _n_empty(look: tuple[Rows, int]) -> int:
    return look[1]


def _take(block: Rows, indices: NDArray[np.intp]) -> Rows:
    return block[indices]


def _moments(block: Rows) -> ColumnMoments:
    return column_moments(block.values, block.weight)


def _weight(block: Rows) -> Any:
    return block.weight


def _encoded(family: Family, block: Rows) -> Rows:
    return block.encoded(family)


def _pursue(
    engine: Engine, rule: PursuitRule, background: Experts | None, block: Rows, experts: Experts
) -> Codes:
    return trimmed(engine.pursue(block, experts, rule, background))


def _summary(n_experts: int, codes: Codes) -> CodeSummary:
    return codes.summary(n_experts)
