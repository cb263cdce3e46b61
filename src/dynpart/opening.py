"""Opening: tables and sources, checked in one pass, as rows held by an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_observed, like, namespace, row_blocks, to_numpy
from dynpart.engines import Engine
from dynpart.engines.blocks import BlockRows, BlocksEngine
from dynpart.families import ColumnMoments, Family, column_moments
from dynpart.levels import Encoder
from dynpart.rows import Rows
from dynpart.sources import (
    Columns,
    Folder,
    MiniBatches,
    as_table,
    blocks_of,
    is_dask_array,
    readable_again,
    table_of,
)
from dynpart.sparse import SparseEngine, SparseRows
from dynpart.validation import Names, check_moments, checked_moments, checked_weights

NOTHING = "X has no row with an observed value and a weight above 0"


@dataclass(frozen=True, eq=False)
class Data:
    """Rows held by an engine, and facts from one pass over them.

    Attributes
    ----------
    engine : Engine
    moments : ColumnMoments
    head : array or DataFrame of shape (1, n_features)
        The first row, with names of variables if the source has them.
    encoded : callable
        Called with the family; returns the data in the form of the engine. Raises ValueError if a
        value is outside the family's support.
    weight : ndarray of shape (n_rows,) or None
        Weights of all rows.
    n_empty : int
        Number of rows left out because they have no observed value.
    """

    engine: Engine
    moments: ColumnMoments
    head: Any
    encoded: Callable[[Family], Any]
    weight: NDArray[np.float64] | None = None
    n_empty: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether every value of every row was observed."""
        observed, weight = self.moments.observed, self.moments.weight
        return self.n_empty == 0 and float(observed.min()) >= weight * (1 - 1e-9)


def informative_rows(X: Any, weight: Any = None) -> tuple[Rows, int]:
    """The rows with a positive weight and an observed value.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Numbers, NaN for missing values.
    weight : array of shape (n_rows,), default=None

    Returns
    -------
    rows : Rows
        Of numbers.
    n_empty : int
        Number of rows of positive weight left out because they have no observed value.
    """
    xp = namespace(X)
    n_empty = 0
    if weight is not None and not bool((weight > 0).all()):
        X, weight = X[weight > 0], weight[weight > 0]
    if X.dtype not in (xp.bool, xp.uint8) and len(X):
        parts = [is_observed(X[block]).any(axis=1) for block in row_blocks(*X.shape)]
        observed = xp.concatenate(parts)
        n_empty = int((~observed).sum())
        if n_empty:
            X, weight = X[observed], None if weight is None else weight[observed]
    return Rows(X, weight, complete=False), n_empty


class Blocks:
    """Converts blocks of a source to rows of numbers, with weights if there are any.

    Parameters
    ----------
    columns : Columns
    sample_weight : "paired", sequence of array-like or None
        "paired": the source yields pairs of rows and weights. A sequence has the weights of each
        block.
    """

    def __init__(self, columns: Columns, sample_weight: Any = None) -> None:
        self.columns, self.sample_weight = columns, sample_weight
        self.n_empty = 0

    def first_look(self, item: Any, index: int) -> Rows:
        """The rows of a block in the first reading, which checks them."""
        weight = self.weight(item, index)
        rows, n_empty = informative_rows(
            as_table(item, index, self.columns, _without_weight(weight)), weight
        )
        self.n_empty += n_empty
        return rows

    def again(self, item: Any, index: int) -> Rows:
        """The same rows in a later reading."""
        weight = self.weight(item, index)
        table = as_table(item, columns=self.columns, gone=_without_weight(weight))
        return informative_rows(table, weight)[0]

    def tables(self, X: Any) -> Iterator[tuple[Any, NDArray[np.bool_] | None]]:
        """The tables of a source one by one, and which of their rows have no weight."""
        for index, item in enumerate(Folder(X) if isinstance(X, str | PathLike) else X):
            table = self.columns.aligned(table_of(item), f"block {index}")
            if len(table):
                yield table, _without_weight(self.weight(item, index))

    def weight(self, item: Any, index: int) -> Any:
        """The weights of a block, None if there are none; or ValueError."""
        if self.sample_weight is None:
            return None
        name = f"sample_weight of block {index}"
        if isinstance(self.sample_weight, str):
            if not isinstance(item, list | tuple) or len(item) != 2:
                raise ValueError(f"block {index} of X must be a pair of rows and weights")
            return checked_weights(item[1], len(item[0]), name, part=True)
        if index >= len(self.sample_weight):
            raise ValueError(
                "sample_weight must have the weights of every block of X, has those of "
                f"{len(self.sample_weight)}"
            )
        return checked_weights(self.sample_weight[index], len(table_of(item)), name, part=True)

    def check_all_used(self, n_blocks: int) -> None:
        """Raise ValueError if there are weights of more blocks than were read."""
        given = self.sample_weight
        if given is not None and not isinstance(given, str) and len(given) > n_blocks:
            raise ValueError(
                f"sample_weight has the weights of {len(given)} blocks, X has {n_blocks}"
            )


def _without_weight(weight: Any) -> NDArray[np.bool_] | None:
    return None if weight is None else weight == 0


def weighted_tables(X: Any, sample_weight: Any) -> Iterator[tuple[Any, NDArray[np.bool_] | None]]:
    """The tables of a source one by one, and which of their rows have no weight.

    Parameters
    ----------
    X : source
    sample_weight : optional
        As in :func:`open_data`.

    Yields
    ------
    table : array or DataFrame
    gone : ndarray of shape (n_rows,), bool, or None
        None if rows have no weights.
    """
    if is_dask_array(X) or sample_weight is None:
        yield from ((table, None) for table in blocks_of(X))
        return
    _check_weights_of_blocks(sample_weight)
    yield from Blocks(Columns(), sample_weight).tables(X)


def open_table(
    X: Any,
    engine: Engine,
    columns: Names = None,
    sample_weight: Any = None,
    *,
    unseen_columns: bool = False,
) -> Data:
    """A table in memory, already checked, for the engine itself.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    engine : Engine
    columns : sequence of str, default=None
        Their names, if known.
    sample_weight : array-like of shape (n_rows,), default=None
    unseen_columns : bool, default=False
        Whether columns may have no observed value, because earlier rows had some.

    Returns
    -------
    Data
    """
    weight = checked_weights(sample_weight, len(X))
    numbers, n_empty = informative_rows(X, None if weight is None else like(weight, X))
    if not len(numbers):
        raise ValueError(NOTHING)
    rows = engine.hold(numbers)
    moments = checked_moments(rows, columns, unseen_columns=unseen_columns)
    moments = engine.place(moments)

    def encoded(family: Family) -> Rows:
        if not _suits(moments, family):
            family.check(rows.values, columns=columns)
        return rows.encoded(family)

    kept = None if rows.weight is None else to_numpy(rows.weight)
    return Data(engine, moments, rows.values[:1], encoded, kept, n_empty)


def _suits(moments: ColumnMoments, family: Family) -> bool:
    """Whether the moments alone show that every value is in the family's support."""
    return moments.is_binary and family.is_binary


def open_sparse(
    matrix: Any,
    engine: Engine,
    columns: Names = None,
    sample_weight: Any = None,
    *,
    unseen_columns: bool = False,
) -> Data:
    """A large sparse matrix, of which the engine gets dense blocks; as :func:`open_table`.

    Parameters
    ----------
    matrix : sparse matrix or array of shape (n_rows, n_features)
        As returned by :func:`dynpart.sparse.as_csr`.
    engine : Engine
    columns : sequence of str, default=None
    sample_weight : array-like of shape (n_rows,), default=None
    unseen_columns : bool, default=False

    Returns
    -------
    Data
    """
    weight = checked_weights(sample_weight, matrix.shape[0])
    gaps = np.flatnonzero(~is_observed(matrix.data))
    holder = np.searchsorted(matrix.indptr, gaps, side="right") - 1
    empty = np.bincount(holder, minlength=matrix.shape[0]) == matrix.shape[1]
    heard = np.ones(len(empty), dtype=bool) if weight is None else weight > 0
    kept = ~empty & heard
    if not kept.all():
        matrix, weight = matrix[kept], None if weight is None else weight[kept]
    if not kept.any():
        raise ValueError(NOTHING)
    rows = SparseRows.of(matrix, weight)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = (column_moments(block.values, block.weight) for block in rows)
        moments = check_moments(reduce(add, parts), columns, unseen_columns=unseen_columns)

    def encoded(family: Family) -> BlockRows:
        if not _suits(moments, family):
            rows.check(family, columns)
        return rows.encoded(family)

    head = rows.rows_at(np.array([0])).values
    engine_of_blocks, placed = SparseEngine(engine), engine.place(moments)
    return Data(engine_of_blocks, placed, head, encoded, weight, int((empty & heard).sum()))


def open_data(
    X: Any, engine: Engine, sample_weight: Any = None, encoder: Encoder | None = None
) -> Data:
    """Read all blocks of a source once, for an engine that maps over blocks.

    Parameters
    ----------
    X : source
        Anything :func:`is_source` recognises.
    engine : Engine
        Processes one block, and rows drawn from all of them.
    sample_weight : optional
        For a Dask array another one; for other sources the weights of each block, or "paired".
    encoder : Encoder, default=None
        Converts blocks to tables of numbers, if necessary.

    Returns
    -------
    Data
    """
    with np.errstate(over="ignore", invalid="ignore"):
        open_it = _open_dask if is_dask_array(X) else _open_blocks
        return open_it(X, engine, sample_weight, encoder)


def as_source(
    X: Any, *, paired: bool = False, encoder: Encoder | None = None
) -> tuple[Any, Columns]:
    """The blocks of anything but a Dask array or a path, and the columns they share."""
    as_it_is = isinstance(X, Sequence) or paired
    source = readable_again(X) if as_it_is else MiniBatches(X, encoder)
    return source, source.columns if isinstance(source, MiniBatches) else Columns(encoder)


def _open_blocks(X: Any, engine: Engine, sample_weight: Any, encoder: Encoder | None) -> Data:
    if sample_weight is not None:
        _check_weights_of_blocks(sample_weight)
    if isinstance(X, str | PathLike):
        X = Folder(X)
    source, columns = as_source(X, paired=sample_weight is not None, encoder=encoder)
    blocks = Blocks(columns, sample_weight)
    rows, moments = BlockRows.scan(source, blocks.again, blocks.first_look)
    blocks.check_all_used(len(rows.sizes))
    if moments is None:
        raise ValueError(NOTHING)
    check_moments(moments, columns.names)
    head = table_of(next(iter(X)))
    if not hasattr(head, "columns"):
        head = as_table(head)

    def encoded(family: Family) -> BlockRows:
        if not _suits(moments, family):
            for index, block in rows.read():
                family.check(block.values, f"block {index} of X", columns.names)
        return rows.encoded(family)

    engine_of_blocks, placed = BlocksEngine(engine), engine.place(moments)
    return Data(engine_of_blocks, placed, head[:1], encoded, rows.weight, blocks.n_empty)


def _check_weights_of_blocks(sample_weight: Any) -> None:
    if not _is_weight_of_blocks(sample_weight):
        raise ValueError(
            "sample_weight of a source must be 'paired' or the weights of each block, got "
            f"{_kind(sample_weight)}"
        )


def _is_weight_of_blocks(sample_weight: Any) -> bool:
    if isinstance(sample_weight, str):
        return sample_weight == "paired"
    listed = isinstance(sample_weight, Sequence) or np.ndim(sample_weight) == 2
    return listed and all(np.ndim(each) > 0 for each in sample_weight)


def _kind(value: Any) -> str:
    """Short description of an argument."""
    if isinstance(value, str):
        return repr(value)
    shape = getattr(value, "shape", None)
    return f"shape {tuple(shape)}" if shape is not None else f"{type(value).__name__}"


def _open_dask(X: Any, local: Engine, sample_weight: Any, encoder: Encoder | None) -> Data:
    from dynpart.engines.dask import DaskEngine, on_one_thread

    if local.name == "torch":
        raise ValueError("engine='torch' does not take Dask arrays; use engine='cpu' on workers")
    if sample_weight is not None and not is_dask_array(sample_weight):
        raise ValueError("sample_weight of a Dask array must be a Dask array, chunked as its rows")

    engine = DaskEngine(on_one_thread(local), local=local)
    rows, moments = engine.load(X, partial(_dask_block, encoder=encoder), sample_weight)
    if moments is None:
        raise ValueError(NOTHING)
    check_moments(moments)

    def encoded(family: Family) -> Any:
        if not _suits(moments, family):
            indices = range(len(rows.blocks))
            checks = engine.map("check", partial(_check_block, family), rows.blocks, indices)
            engine.gather(checks)
        return engine.encoded(rows, family)

    head = engine.take(rows, np.array([0])).values
    return Data(engine, moments, head, encoded, rows.weight, rows.n_empty)


def _dask_block(
    chunk: Any, index: int, weight: Any = None, *, encoder: Encoder | None = None
) -> tuple[Rows, int]:
    name = f"sample_weight of block {index}"
    chunk = chunk if encoder is None else encoder(chunk, f"block {index} of X")
    return informative_rows(
        as_table(chunk, index), checked_weights(weight, len(chunk), name, part=True)
    )


def _check_block(family: Family, block: Rows, index: int) -> None:
    family.check(block.values, f"block {index} of X")
