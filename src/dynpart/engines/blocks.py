"""Rows in blocks: another engine, block after block, whose sums are added in a tree of fixed shape.

Knows the engine contract and how to read blocks again and again; where blocks come from is the
business of :mod:`dynpart.sources`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynpart.engines._contract import (
    Codes,
    CodeSummary,
    Engine,
    Experts,
    Fold,
    GradientSums,
    PursuitRule,
    ResponsibilitySums,
)
from dynpart.families import ColumnMoments, column_moments

FAN_IN = 16
"""Parts added at a time on the way up the tree."""
POOL_BYTES = 1 << 28
"""Memory for rows to draw from, where a source can only be read from end to end."""


class Addable(Protocol):
    """Anything with a plus: sums, summaries, moments."""

    def __add__(self, other: Any, /) -> Any: ...


T = TypeVar("T", bound=Addable)


def tree_sum(parts: Iterable[T]) -> T:
    """Add parts in groups of :data:`FAN_IN`, then groups of groups, as they come.

    The shape of the tree follows from the number of parts alone, so whoever adds the same parts,
    here or spread over machines, gets the same bits. No more than a few parts are held per level.

    Parameters
    ----------
    parts : iterable
        At least one.

    Returns
    -------
    Sum of all parts.

    Examples
    --------
    >>> from dynpart.engines.blocks import tree_sum
    >>> tree_sum(range(100))
    4950
    """
    levels: list[list[T]] = [[]]
    for part in parts:
        levels[0].append(part)
        for depth, level in enumerate(levels):
            if len(level) == FAN_IN:
                if depth + 1 == len(levels):
                    levels.append([])
                levels[depth + 1].append(reduce(add, level))
                level.clear()
    for depth, level in enumerate(levels[:-1]):
        if level:
            levels[depth + 1].append(reduce(add, level))
    if not levels[-1]:
        raise ValueError("there is nothing to add up")
    return reduce(add, levels[-1])


@dataclass(frozen=True, eq=False)
class BlockRows:
    """A table read block by block, as often as asked and each time the same.

    Attributes
    ----------
    source : iterable
        Yields the blocks, in the same order every time. If it is a sequence, single blocks are
        read by index where that saves reading the others.
    prepare : callable
        Turns what the source yields into an array of shape (n_rows, n_features).
    sizes : ndarray of shape (n_blocks,)
        Rows of each block.
    marks : tuple of int
        A checksum of some rows of each block, to notice a source that changes its order.
    """

    source: Iterable[Any]
    prepare: Callable[[Any], NDArray]
    sizes: NDArray[np.intp]
    marks: tuple[int, ...]

    @classmethod
    def scan(
        cls,
        source: Iterable[Any],
        prepare: Callable[[Any], NDArray] = np.asarray,
        check: Callable[[NDArray, int], None] | None = None,
    ) -> tuple[BlockRows, ColumnMoments]:
        """Read all blocks once: their sizes and the column moments of the whole table.

        Parameters
        ----------
        source : iterable
        prepare : callable, optional
        check : callable, optional
            Called with each block and its index; raises if the block will not do.

        Returns
        -------
        rows : BlockRows
        moments : ColumnMoments
        """
        sizes: list[int] = []
        marks: list[int] = []

        def moments_of_blocks() -> Iterator[ColumnMoments]:
            for index, item in enumerate(source):
                block = prepare(item)
                if check is not None:
                    check(block, index)
                sizes.append(len(block))
                marks.append(_mark(block))
                if len(block):
                    yield column_moments(block)

        moments = tree_sum(moments_of_blocks())
        return cls(source, prepare, np.array(sizes, dtype=np.intp), tuple(marks)), moments

    def __iter__(self) -> Iterator[NDArray]:
        return (block for _, block in self._read() if len(block))

    def _read(self) -> Iterator[tuple[int, NDArray]]:
        n_read = 0
        for index, item in enumerate(self.source):
            yield index, self._checked(index, self.prepare(item))
            n_read += 1
        if n_read != len(self.sizes):
            raise ValueError(f"the first reading found {len(self.sizes)} blocks, now {n_read}")

    def _checked(self, index: int, block: NDArray) -> NDArray:
        known = index < len(self.sizes)
        if not known or len(block) != self.sizes[index] or _mark(block) != self.marks[index]:
            raise ValueError(
                f"block {index} is not what it was when first read: learning goes over the rows "
                "many times and needs them in the same order (a DataLoader: shuffle=False); "
                "use partial_fit for rows that come in any order"
            )
        return block

    def rows_at(self, indices: NDArray[np.intp]) -> NDArray:
        """The rows with these ascending indices, from one reading of the blocks they are in."""
        blocks, within = split_indices(self.sizes, indices)
        if isinstance(self.source, Sequence):
            read = ((i, self._checked(i, self.prepare(self.source[i]))) for i in blocks.tolist())
        else:
            read = (pair for pair in self._read() if pair[0] in set(blocks.tolist()))
        found = zip(read, within, strict=True)
        return np.concatenate([np.asarray(block[picked]) for (_, block), picked in found])

    def draw(self, indices: NDArray[np.intp]) -> NDArray:
        """The rows with these ascending indices, or their neighbours in the pool.

        A source that can only be read from end to end is not read again for every handful of rows:
        as many evenly spaced rows as fit in :data:`POOL_BYTES` stand for all the others. Where all
        rows fit, these are the rows asked for.
        """
        if self.by_index:
            return self.rows_at(indices)
        return self._pool[indices * len(self._pool) // int(self.sizes.sum())]

    @property
    def by_index(self) -> bool:
        """Whether single rows can be had without reading all others."""
        return getattr(self.source, "by_index", isinstance(self.source, Sequence))

    @cached_property
    def _pool(self) -> NDArray:
        n_rows = int(self.sizes.sum())
        row_bytes = max(1, next(iter(self))[:1].nbytes)
        n_kept = max(1, min(n_rows, POOL_BYTES // row_bytes))
        return self.rows_at(-(-np.arange(n_kept) * n_rows // n_kept))


Rows = BlockRows | NDArray
"""What a :class:`BlocksEngine` works on: blocks, or rows drawn from them."""


def _mark(block: NDArray) -> int:
    """Checksum of about sixteen rows."""
    some = block[:: max(1, len(block) // 16)]
    return zlib.crc32(np.ascontiguousarray(some).tobytes())


def split_indices(
    sizes: NDArray[np.intp], indices: NDArray[np.intp]
) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """Ascending indices into a whole table as indices into its blocks.

    Parameters
    ----------
    sizes : ndarray of shape (n_blocks,)
    indices : ndarray of shape (n_taken,)

    Returns
    -------
    blocks : ndarray of shape (n_touched,)
        Blocks that hold any of the rows, ascending.
    within : list of ndarray
        For each of them, the indices of its rows.
    """
    ends = np.cumsum(sizes)
    holder = np.searchsorted(ends, indices, side="right")
    blocks, first = np.unique(holder, return_index=True)
    starts = ends[holder] - sizes[holder]
    return blocks, np.split(indices - starts, first[1:])


@dataclass(frozen=True, eq=False)
class BlockCodes:
    """Codes of every block that has rows, in order."""

    parts: tuple[Codes, ...]

    def summary(self, n_experts: int) -> CodeSummary:
        """What the learner needs to know of all codes."""
        return tree_sum(codes.summary(n_experts) for codes in self.parts)


def trimmed(codes: Any) -> Any:
    """The same codes without the columns that no row uses: what is kept should be small."""
    if not isinstance(codes, Codes):  # on a device they are
        return codes
    n_steps = int(codes.n_active.max(initial=0))
    return Codes(codes.order[:, :n_steps].copy(), codes.log_likelihood)


class BlocksEngine:
    """Maps another engine over blocks of rows and adds up.

    Holds one block at a time, and the codes of all rows. Rows that :meth:`take` draws are an array
    in memory, which the other engine works on directly.

    Parameters
    ----------
    inner : Engine
        Works on one block, an array of shape (n_rows, n_features).

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.engines import make_engine
    >>> from dynpart.engines.blocks import BlockRows, BlocksEngine
    >>> engine = BlocksEngine(make_engine("reference"))
    >>> rows, moments = BlockRows.scan([np.zeros((3, 2)), np.ones((4, 2))])
    >>> engine.take(rows, np.array([2, 3]))
    array([[0., 0.],
           [1., 1.]])
    """

    name = "blocks"

    def __init__(self, inner: Engine) -> None:
        self.inner = inner

    def hold(self, rows: Rows) -> Rows:
        """The rows as they are, block by block."""
        return rows

    def place(self, moments: ColumnMoments) -> ColumnMoments:
        """The moments as the other engine wants them."""
        return self.inner.place(moments)

    def repeated(self, fold: Fold, n_rows: int, experts: Experts, rule: PursuitRule) -> Fold:
        """The function as the other engine, which works on the batches, wants it."""
        return self.inner.repeated(fold, n_rows, experts, rule)

    def take(self, rows: Rows, indices: NDArray[np.intp]) -> NDArray:
        """The rows with these ascending indices, in memory."""
        if not isinstance(rows, BlockRows):
            return self.inner.take(rows, indices)
        return self.inner.hold(rows.draw(indices))

    def pursue(self, rows: Rows, experts: Experts, rule: PursuitRule) -> Any:
        """Codes of all rows, block by block."""
        if not isinstance(rows, BlockRows):
            return self.inner.pursue(rows, experts, rule)
        return BlockCodes(tuple(trimmed(self.inner.pursue(block, experts, rule)) for block in rows))

    def gradient_sums(self, rows: Rows, experts: Experts, codes: Any) -> GradientSums:
        """Evidence for more or less expertise (appendix A), added over blocks."""
        return self._sums(self.inner.gradient_sums, rows, experts, codes)

    def responsibility_sums(self, rows: Rows, experts: Experts, codes: Any) -> ResponsibilitySums:
        """Sums for the expert update (eq. 5 and 6), added over blocks."""
        return self._sums(self.inner.responsibility_sums, rows, experts, codes)

    def _sums(
        self,
        of_block: Callable[[NDArray, Experts, Codes], T],
        rows: Rows,
        experts: Experts,
        codes: Any,
    ) -> T:
        if not isinstance(rows, BlockRows):
            return of_block(rows, experts, codes)
        parts = zip(rows, codes.parts, strict=True)
        return tree_sum(of_block(block, experts, part) for block, part in parts)
