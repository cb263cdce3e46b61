"""Sources: what may stand in for a table that no memory holds, turned into rows for an engine.

A list of arrays, slices of a memory-mapped array, a folder of .npy or .parquet files, a torch
DataLoader, anything that can be read again and again, or a Dask array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from dynpart.arrays import is_tensor, to_numpy
from dynpart.engines import Engine
from dynpart.engines.blocks import BlockRows, BlocksEngine
from dynpart.families import ColumnMoments, Family
from dynpart.validation import check_moments, checked_moments

DTYPES = (np.float64, np.float32, np.uint8, np.bool_)
"""Kinds of numbers engines read as they are; all others become float64."""
BATCH_VALUES = 1 << 22
"""Mini-batches are joined until a block has this many values."""
SUFFIXES = (".npy", ".parquet")


@dataclass(frozen=True, eq=False)
class Data:
    """Rows in an engine's hands, and what one look at all of them told.

    Attributes
    ----------
    engine : Engine
    rows : object
        The data, as the engine holds it.
    moments : ColumnMoments
    head : array or DataFrame of shape (1, n_features)
        The first row, with names of variables where the source has them.
    check : callable
        Called with the family; raises ValueError if a value has no probability.
    """

    engine: Engine
    rows: Any
    moments: ColumnMoments
    head: Any
    check: Callable[[Family], None]


def is_dask_array(X: Any) -> bool:
    """Whether `X` is a Dask array; never imports Dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def is_source(X: Any) -> bool:
    """Whether `X` gives rows in blocks, rather than being one table in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.sources import is_source
    >>> is_source([np.zeros((2, 3)), np.ones((1, 3))]), is_source([[0, 1], [1, 0]])
    (True, False)
    """
    if is_dask_array(X) or isinstance(X, str | PathLike):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(len(getattr(block, "shape", ())) == 2 for block in X)
    is_table = hasattr(X, "__array__") or hasattr(X, "shape") or hasattr(X, "__dataframe__")
    return hasattr(X, "__iter__") and not is_table and not isinstance(X, dict | set | bytes)


def cut(X: NDArray, n_rows: int) -> list[NDArray]:
    """Views of `n_rows` rows each of an array, for instance a memory-mapped one.

    Parameters
    ----------
    X : ndarray of shape (n_total, n_features)
    n_rows : int

    Returns
    -------
    list of ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.sources import cut
    >>> [len(block) for block in cut(np.zeros((10, 2)), 4)]
    [4, 4, 2]
    """
    return [X[start : start + n_rows] for start in range(0, len(X), n_rows)]


class Folder(Sequence):
    """The .npy and .parquet files of a folder, one block each, in the order of their names.

    Parameters
    ----------
    path : str or path-like
    """

    def __init__(self, path: str | PathLike) -> None:
        folder = Path(fspath(path))
        if not folder.is_dir():
            raise ValueError(f"X must be a table or a folder of blocks, found no folder {folder}")
        self.files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
        if not self.files:
            raise ValueError(f"no {' or '.join(SUFFIXES)} file in {folder}")

    @property
    def by_index(self) -> bool:
        """Whether single rows can be read: of .npy files, which are mapped into memory."""
        return all(file.suffix == ".npy" for file in self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: Any) -> Any:
        file = self.files[index]
        if file.suffix == ".npy":
            return np.load(file, mmap_mode="r")
        return _read_parquet(file)


def _read_parquet(file: Path) -> Any:
    for package in ("polars", "pandas"):
        try:
            return __import__(package).read_parquet(file)
        except ImportError:
            continue
    raise ImportError("parquet files need polars, or pandas with pyarrow: pip install polars")


class MiniBatches:
    """Small batches joined to blocks that are worth an engine's while.

    Parameters
    ----------
    batches : iterable
        Yields arrays or tensors of shape (n_rows, n_features), or tuples that begin with one.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        if iter(batches) is batches:
            raise ValueError(
                "X can be read only once, and learning goes over the rows many times: pass "
                "something that can be read again, or use partial_fit"
            )
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        waiting: list[NDArray] = []
        for batch in self.batches:
            waiting.append(_table(batch))
            if sum(part.size for part in waiting) >= BATCH_VALUES:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)


def _table(item: Any) -> NDArray:
    """A batch as an array: without its labels, off the GPU, numbers as narrow as they were."""
    if isinstance(item, list | tuple):
        item = item[0]
    if is_tensor(item):
        item = to_numpy(item)
    elif hasattr(item, "to_numpy"):
        item = item.to_numpy()
    return np.asarray(item)


def as_block(item: Any, index: int | None = None) -> NDArray:
    """What a source yields as an array an engine can read, shape (n_rows, n_features).

    Parameters
    ----------
    item : array, tensor or DataFrame
    index : int, optional
        Its number; if given, all values must be finite, and errors name the block.
    """
    name = "" if index is None else f"block {index} of X"
    first_look = index is not None
    block: NDArray = check_array(
        _table(item),
        dtype=list(DTYPES),
        order="C",
        ensure_all_finite=first_look,
        ensure_min_samples=0,
        input_name=name,
    )
    return block


def open_table(rows: NDArray, engine: Engine) -> Data:
    """A table in memory, already checked, for the engine itself."""
    rows = engine.hold(rows)
    moments = engine.place(checked_moments(rows))

    def check(family: Family) -> None:
        if not moments.is_binary:
            family.check(rows)

    return Data(engine, rows, moments, rows[:1], check)


def open_data(X: Any, engine: Engine) -> Data:
    """Look at all blocks of a source once and hand them to an engine that maps over blocks.

    Parameters
    ----------
    X : source
        Anything :func:`is_source` recognises.
    engine : Engine
        Works on one block, and on rows drawn from all of them.

    Returns
    -------
    Data
    """
    with np.errstate(over="ignore", invalid="ignore"):
        data = _open_dask(X, engine) if is_dask_array(X) else _open_blocks(X, engine)
    check_moments(data.moments)
    return data


def _open_blocks(X: Any, engine: Engine) -> Data:
    if isinstance(X, str | PathLike):
        X = Folder(X)
    source = X if isinstance(X, Sequence) else MiniBatches(X)
    n_features: list[int] = []

    def check_block(block: NDArray, index: int) -> None:
        as_block(block, index)
        n_features.append(block.shape[1])
        if n_features[-1] != n_features[0]:
            raise ValueError(
                f"all blocks of X must have as many columns: block 0 has {n_features[0]}, "
                f"block {index} has {n_features[-1]}"
            )

    rows, moments = BlockRows.scan(source, as_block, check_block)
    head = next(iter(source))
    if not hasattr(head, "columns"):
        head = as_block(head)

    def check(family: Family) -> None:
        if not moments.is_binary:
            for index, block in enumerate(rows):
                _check_block(family, block, index)

    return Data(BlocksEngine(engine), rows, engine.place(moments), head[:1], check)


def _open_dask(X: Any, local: Engine) -> Data:
    from dynpart.engines.dask import DaskEngine, on_one_thread

    if local.name == "torch":
        raise ValueError("engine='torch' does not take Dask arrays; use engine='cpu' on workers")

    engine = DaskEngine(on_one_thread(local), local=local)
    rows, moments = engine.load(X, as_block)

    def check(family: Family) -> None:
        if not moments.is_binary:
            indices = range(len(rows.blocks))
            checks = engine.map("check", partial(_check_block, family), rows.blocks, indices)
            engine.client.gather(checks)

    return Data(engine, rows, moments, engine.take(rows, np.array([0])), check)


def _check_block(family: Family, block: NDArray, index: int) -> None:
    family.check(block, f"block {index} of X")
