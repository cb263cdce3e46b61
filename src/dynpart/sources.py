"""Sources: tables larger than memory, read as blocks of rows for an engine.

A list of arrays, slices of a memory-mapped array, a folder of .npy or .parquet files, a torch
DataLoader, a large sparse matrix, any iterable that can be read repeatedly, or a Dask array.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_sparse, is_tensor, to_numpy
from dynpart.sparse import SparseBlocks, as_csr, is_large
from dynpart.validation import (
    DTYPES,
    check_exact,
    check_finite,
    checked_array,
    without_masks,
)

BATCH_VALUES = 1 << 22
"""Mini-batches are joined until a block has this many values."""
SUFFIXES = (".npy", ".parquet")


def is_dask_array(X: Any) -> bool:
    """Whether `X` is a Dask array; never imports Dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def is_source(X: Any) -> bool:
    """Whether `X` yields blocks of rows and is not a single table in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.sources import is_source
    >>> is_source([np.zeros((2, 3)), np.ones((1, 3))]), is_source([[0, 1], [1, 0]])
    (True, False)
    """
    if is_dask_array(X) or isinstance(X, str | PathLike):
        return True
    if is_sparse(X):
        return is_large(X)
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(len(getattr(table_of(block), "shape", ())) == 2 for block in X)
    is_table = hasattr(X, "__array__") or hasattr(X, "shape") or hasattr(X, "__dataframe__")
    return hasattr(X, "__iter__") and not is_table and not isinstance(X, dict | set | bytes)


def cut(X: NDArray, n_rows: int) -> list[NDArray]:
    """Views of `n_rows` rows each of an array, for example a memory-mapped one.

    Parameters
    ----------
    X : ndarray of shape (n_total, n_features)
        Array to cut.
    n_rows : int
        Rows per view; the last view may have fewer.

    Returns
    -------
    list of ndarray
        The views, in order; no row is copied.

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
        """Whether single rows can be read, as from memory-mapped .npy files."""
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


def readable_again(source: Any) -> Any:
    """The source itself, or ValueError if it can be read only once."""
    if iter(source) is source:
        raise ValueError(
            "X can be read only once, and learning goes over the rows many times: pass something "
            "that can be read again, or use partial_fit"
        )
    return source


class MiniBatches:
    """Small batches joined to larger blocks.

    Parameters
    ----------
    batches : iterable
        Yields arrays or tensors of shape (n_rows, n_features), or tuples that begin with one.
    encoder : callable, default=None
        As in `Columns`.
    """

    def __init__(
        self, batches: Iterable[Any], encoder: Callable[[Any, str, Any], Any] | None = None
    ) -> None:
        self.batches = readable_again(batches)
        self.columns = Columns(encoder)
        self._known = False  # whether all batches have been checked

    def __iter__(self) -> Iterator[NDArray]:
        waiting: list[NDArray] = []
        for index, batch in enumerate(self.batches):
            rows = self.columns.aligned(table_of(batch), f"batch {index}")
            if not self._known:
                check_exact(rows, f"batch {index} of X")
            waiting.append(_table(without_masks(rows)))
            if sum(part.size for part in waiting) >= BATCH_VALUES:
                yield np.concatenate(waiting)
                waiting = []
        self._known = True
        if waiting:
            yield np.concatenate(waiting)


class Columns:
    """The columns of a source: those of its first block, by name if blocks have names.

    Attributes
    ----------
    names : list or None
        Of the first block that has names.

    Parameters
    ----------
    encoder : callable, default=None
        Converts a block to a table of numbers; called with the block, its name for errors, and
        which of its rows do not count.
    """

    def __init__(self, encoder: Callable[[Any, str, Any], Any] | None = None) -> None:
        self.names: list[Any] | None = None
        self.encoder = encoder
        self._named = ""
        self._first: tuple[str, int] | None = None

    def aligned(self, item: Any, label: str, gone: NDArray[np.bool_] | None = None) -> Any:
        """The block with its columns in the order of the first block, or ValueError.

        With an encoder, values are converted to numbers, except in rows that are `gone`.
        """
        item = self._in_order(item, label)
        return item if self.encoder is None else self.encoder(item, f"{label} of X", gone)

    def _in_order(self, item: Any, label: str) -> Any:
        self._check_width(item, label)
        found = list(item.columns) if hasattr(item, "columns") else None
        if found is None or found == self.names:
            return item
        if self.names is None:
            self.names, self._named = found, label
            return item
        there, here = Counter(self.names), Counter(found)
        for column in (*self.names, *found):
            if not here[column] == there[column] == 1:
                raise ValueError(
                    f"all blocks of X must have the same columns: {column!r} is a column of "
                    f"{self._named} {_times(there[column])}, of {label} {_times(here[column])}"
                )
        return item[self.names]

    def _check_width(self, item: Any, label: str) -> None:
        if len(getattr(item, "shape", ())) != 2:
            return
        first = self._first = self._first or (label, item.shape[1])
        if item.shape[1] != first[1]:
            raise ValueError(
                f"all blocks of X must have as many columns: {first[0]} has {first[1]}, "
                f"{label} has {item.shape[1]}"
            )


def _times(n: int) -> str:
    return {0: "never", 1: "once"}.get(n, f"{n} times")


def table_of(item: Any) -> Any:
    """A batch without its labels or weights."""
    return item[0] if isinstance(item, list | tuple) and item else item


def _table(item: Any) -> NDArray:
    """Rows as an array in CPU memory; the number type is kept."""
    if is_tensor(item):
        item = to_numpy(item)
    elif hasattr(item, "to_numpy"):
        item = item.to_numpy()
    return np.asarray(item)


def as_table(
    item: Any,
    index: int | None = None,
    columns: Columns | None = None,
    gone: NDArray[np.bool_] | None = None,
) -> NDArray:
    """An item of a source as an array for engines, shape (n_rows, n_features).

    Parameters
    ----------
    item : array, tensor or DataFrame
    index : int, default=None
        Its number in the first reading: values are checked, and errors name the block.
    columns : Columns, default=None
        Columns of the source: they are put in the order of its first block.
    gone : ndarray of shape (n_rows,), bool, default=None
        Rows that do not count, whose values need not be levels that are known.
    """
    first_look = index is not None
    label = f"block {index}" if first_look else "a block"
    name = f"{label} of X"
    item = table_of(item)
    if columns is not None:
        item = columns.aligned(item, label, gone)
    if first_look:
        check_exact(item, name)
    block = checked_array(
        _table(without_masks(item)),
        dtype=DTYPES,
        order="C",
        ensure_all_finite=False,
        ensure_min_samples=0,
        input_name=name,
    )
    if first_look:
        check_finite(block, name, None if columns is None else columns.names)
    return block


def blocks_of(X: Any) -> Iterator[Any]:
    """The tables of a source one by one, with columns in the same order.

    The source is read once, so iterators are accepted.
    """
    if is_dask_array(X):
        yield from (X.blocks[index].compute() for index in range(X.numblocks[0]))
        return
    if is_sparse(X):
        yield from SparseBlocks(as_csr(X))
        return
    columns = Columns()
    for index, item in enumerate(Folder(X) if isinstance(X, str | PathLike) else X):
        block = columns.aligned(table_of(item), f"block {index}")
        if len(block):
            yield block
