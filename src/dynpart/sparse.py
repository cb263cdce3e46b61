"""Sparse matrices of SciPy: one table for users, blocks of dense rows for engines.

A zero that is not stored is an observed 0; only a stored NaN is missing. A small matrix becomes one
dense table. A large one is converted block by block, and a large sample of its rows stays sparse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_observed, row_blocks
from dynpart.engines import Experts, PursuitRule
from dynpart.engines.blocks import BlockRows, BlocksEngine
from dynpart.families import Family
from dynpart.rows import Rows
from dynpart.validation import Names, check_stored

WHOLE_VALUES = 1 << 24
"""Maximum number of values, zeros included, of a matrix that becomes one dense table."""
BLOCK_VALUES = 1 << 22
"""Number of values of a block of a larger matrix."""


def is_large(X: Any) -> bool:
    """Whether a sparse matrix is too large to become one dense table."""
    return len(X.shape) == 2 and X.shape[0] * X.shape[1] > WHOLE_VALUES


def as_csr(X: Any, columns: Names = None) -> Any:
    """The matrix in CSR format without duplicate entries, in the narrowest type, or ValueError.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_rows, n_features)
        In any format; it is not changed.
    columns : sequence of str, default=None
        Names for errors.

    Returns
    -------
    sparse matrix or array in CSR format
        Of uint8 if every value is 0 or 1, else of float32 or float64.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dynpart.sparse import as_csr
    >>> as_csr(sp.coo_array(([1.0, 1.0, 1.0], ([0, 0, 1], [1, 1, 0])))).toarray()
    array([[0., 2.],
           [1., 0.]])
    """
    if len(X.shape) != 2:
        raise ValueError(f"X must be a table with rows and columns, got {len(X.shape)} axis")
    if X.dtype.kind not in "biuf":
        words = "Complex data not supported: " if X.dtype.kind == "c" else ""
        raise ValueError(f"{words}X must hold real numbers, got a sparse matrix of {X.dtype}")
    matrix = X.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy() if matrix is X else matrix
        matrix.sum_duplicates()
    check_stored(matrix, columns)
    values = matrix.data
    binary = bool(((values == 0) | (values == 1)).all())
    real = np.float32 if matrix.dtype == np.float32 else np.float64
    kind = np.uint8 if binary else real
    return matrix.astype(kind, copy=False)


class SparseBlocks(Sequence):
    """Blocks of rows of a CSR matrix, each made dense when it is read.

    Parameters
    ----------
    matrix : sparse matrix or array of shape (n_rows, n_features)
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.slices = list(row_blocks(*matrix.shape, values=BLOCK_VALUES))

    def __len__(self) -> int:
        return len(self.slices)

    def __getitem__(self, index: Any) -> Any:
        return self.matrix[self.slices[index]].toarray()


@dataclass(frozen=True, eq=False)
class SparseRows(BlockRows):
    """Rows of a sparse matrix in memory, dense block by block; `source` is a `SparseBlocks`."""

    @classmethod
    def of(cls, matrix: Any, weight: NDArray[np.float64] | None = None) -> Self:
        """Rows of a CSR matrix returned by :func:`as_csr`, with their weights."""
        source = SparseBlocks(matrix)
        sizes = np.array([part.stop - part.start for part in source.slices], dtype=np.intp)
        return cls(source, lambda block, index: Rows(block), sizes, (), weight=weight)

    @property
    def matrix(self) -> Any:
        """The numbers, sparse."""
        return self.source.matrix  # type: ignore[attr-defined]

    @property
    def values(self) -> NDArray:
        """An empty array of the type of a block's values."""
        return np.empty((0, self.matrix.shape[1]), self.matrix.dtype)

    @cached_property
    def complete(self) -> bool:
        """Whether every value was observed."""
        return bool(is_observed(self.matrix.data).all())

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def read(self) -> Iterator[tuple[int, Rows]]:
        """All blocks with their indices."""
        done = 0
        for index, block in enumerate(self.source):
            yield index, self._rows(block, slice(done, done + len(block)))
            done += len(block)

    def __getitem__(self, block: slice) -> Rows:
        """Consecutive rows, dense."""
        return self.rows_at(np.arange(len(self))[block])

    def rows_at(self, indices: NDArray[np.intp]) -> Rows:
        """The rows with these indices, dense."""
        return self._rows(self.matrix[indices].toarray(), indices)

    def taken(self, indices: NDArray[np.intp]) -> SparseRows:
        """The rows with these indices, sparse."""
        weight = None if self.weight is None else self.weight[indices]
        return replace(SparseRows.of(self.matrix[indices], weight), family=self.family)

    def weighing(self, weight: NDArray[np.float64] | None) -> SparseRows:
        """The same rows with other weights."""
        return replace(self, weight=weight)

    def to_numpy(self) -> SparseRows | Rows:
        """These rows, dense if they have gaps to fill."""
        return self if self.complete else self.rows_at(np.arange(len(self)))

    def _rows(self, values: NDArray, which: Any) -> Rows:
        rows = Rows(values, None if self.weight is None else self.weight[which], complete=False)
        return rows if self.family is None else rows.encoded(self.family)

    def check(self, family: Family, columns: Names = None) -> None:
        """Raise ValueError if a value is outside the family's support."""
        done = 0
        for _, block in self.read():
            family.check(block.values, f"X[{done}:{done + len(block)}]", columns)
            done += len(block)


class SparseEngine(BlocksEngine):
    """Maps another engine over blocks of a sparse matrix; drawn rows may be sparse, too."""

    def take(self, rows: Any, indices: NDArray[np.intp]) -> Any:
        """The rows with these indices: dense if they are few, else sparse as they were."""
        if not isinstance(rows, SparseRows):
            return self.inner.take(rows, indices)
        if len(indices) * rows.matrix.shape[1] > WHOLE_VALUES:
            return rows.taken(indices)
        return self.inner.hold(rows.rows_at(indices))

    def repeated(self, fold: Any, n_rows: int, experts: Experts, rule: PursuitRule) -> Any:
        """The function as recorded by the other engine, unless batches are sparse."""
        if n_rows * experts.eta.shape[2] > WHOLE_VALUES:
            return fold
        return self.inner.repeated(fold, n_rows, experts, rule)
