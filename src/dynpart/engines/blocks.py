"""Rows in blocks: another engine, block after block, whose sums are added in a tree of fixed shape.

Uses the engine contract and reads blocks repeatedly; the blocks come from :mod:`dynpart.sources`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain
from operator import add
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynpart.ahead import Kernel
from dynpart.arrays import namespace
from dynpart.autoregression import AutoregressionSums
from dynpart.engines._contract import (
    Codes,
    CodeSummary,
    Engine,
    Experts,
    Fold,
    GradientSums,
    OpinionSums,
    PursuitRule,
    ResponsibilitySums,
)
from dynpart.engines._mixture import MixtureSums
from dynpart.families import ColumnMoments, Family, column_moments
from dynpart.rows import Rows

FAN_IN = 16
"""Parts per node of the tree."""
POOL_BYTES = 1 << 28
"""Memory of the pool from which rows are drawn, if a source can only be read sequentially."""


Prepare = Callable[[Any, int], Rows]
"""Turns what a source yields, and its index, into rows."""


class Addable(Protocol):
    """A type with ``+``: sums, summaries, moments."""

    def __add__(self, other: Any, /) -> Any: ...


T = TypeVar("T", bound=Addable)


def tree_sum(parts: Iterable[T]) -> T:
    """Add parts in groups of :data:`FAN_IN`, then groups of groups, as they come.

    The shape of the tree depends only on the number of parts, so the result is bitwise the same on
    one machine and on several. Only a few parts per level are held at a time.

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
        raise ValueError("there are no sums to add")
    return reduce(add, levels[-1])


@dataclass(frozen=True, eq=False)
class BlockRows:
    """A table read block by block, any number of times with the same result.

    Attributes
    ----------
    source : iterable
        Yields the blocks, in the same order every time. If it is a sequence, single blocks are
        read by index if that avoids reading the others.
    prepare : callable
        Turns what the source yields, and its index, into rows of numbers.
    sizes : ndarray of shape (n_blocks,)
        Rows of each block.
    marks : tuple of int
        A checksum of some rows of each block, to notice a source that changes its order.
    family : Family or None
        Encodes the rows; None leaves numbers.
    weight : ndarray of shape (n_rows,) or None
        Weights of all rows.
    """

    source: Iterable[Any]
    prepare: Prepare
    sizes: NDArray[np.intp]
    marks: tuple[int, ...]
    family: Family | None = None
    weight: NDArray[np.float64] | None = None

    @classmethod
    def scan(
        cls,
        source: Iterable[Any],
        prepare: Prepare,
        first_look: Prepare | None = None,
    ) -> tuple[BlockRows, ColumnMoments | None]:
        """Read all blocks once: their sizes and the column moments of the whole table.

        Parameters
        ----------
        source : iterable
        prepare : callable
        first_look : callable, default=None
            Replaces `prepare` in this first pass, and raises if a block is invalid.

        Returns
        -------
        rows : BlockRows
        moments : ColumnMoments or None
            None if no block has a row.
        """
        sizes: list[int] = []
        marks: list[int] = []
        weights: list[NDArray] = []
        look = prepare if first_look is None else first_look

        def moments_of_blocks() -> Iterator[ColumnMoments]:
            for index, item in enumerate(source):
                block = look(item, index)
                sizes.append(len(block))
                marks.append(_mark(block))
                if block.weight is not None:
                    weights.append(block.weight)
                if len(block):
                    yield column_moments(block.values, block.weight)

        found = moments_of_blocks()
        first = next(found, None)
        moments = None if first is None else tree_sum(chain([first], found))
        weight = np.concatenate(weights) if weights else None
        rows = cls(source, prepare, np.array(sizes, dtype=np.intp), tuple(marks), weight=weight)
        return rows, moments

    def encoded(self, family: Family) -> BlockRows:
        """The same blocks as this family encodes them."""
        return replace(self, family=family)

    def __iter__(self) -> Iterator[Rows]:
        return (block for _, block in self.read() if len(block))

    def read(self) -> Iterator[tuple[int, Rows]]:
        """All blocks with their indices, empty ones too."""
        n_read = 0
        for index, item in enumerate(self.source):
            yield index, self._checked(index, self.prepare(item, index))
            n_read += 1
        if n_read != len(self.sizes):
            raise ValueError(f"the first reading found {len(self.sizes)} blocks, now {n_read}")

    def _checked(self, index: int, block: Rows) -> Rows:
        known = index < len(self.sizes)
        if not known or len(block) != self.sizes[index] or _mark(block) != self.marks[index]:
            raise ValueError(
                f"block {index} changed after it was first read: learning reads the rows several "
                "times and needs them in the same order (a DataLoader: shuffle=False); "
                "use partial_fit for rows in random order"
            )
        return block if self.family is None else block.encoded(self.family)

    def rows_at(self, indices: NDArray[np.intp]) -> Rows:
        """The rows with these ascending indices, from one reading of the blocks they are in."""
        blocks, within = split_indices(self.sizes, indices)
        if isinstance(self.source, Sequence):
            read = ((i, self._checked(i, self.prepare(self.source[i], i))) for i in blocks.tolist())
        else:
            read = (pair for pair in self.read() if pair[0] in set(blocks.tolist()))
        found = zip(read, within, strict=True)
        return Rows.joined([block[picked] for (_, block), picked in found])

    def draw(self, indices: NDArray[np.intp]) -> Rows:
        """The rows with these ascending indices, or their neighbours in the pool.

        A source that can only be read sequentially is not read again for every few rows: as many
        evenly spaced rows as fit in :data:`POOL_BYTES` represent all the others. If all rows fit,
        these are the rows requested.
        """
        if self.by_index:
            return self.rows_at(indices)
        return self._pool[indices * len(self._pool) // int(self.sizes.sum())]

    @property
    def by_index(self) -> bool:
        """Whether single rows can be read without all others."""
        return getattr(self.source, "by_index", isinstance(self.source, Sequence))

    @cached_property
    def _pool(self) -> Rows:
        n_rows = int(self.sizes.sum())
        row_bytes = max(1, next(iter(self))[:1].nbytes)
        n_kept = max(1, min(n_rows, POOL_BYTES // row_bytes))
        return self.rows_at(-(-np.arange(n_kept) * n_rows // n_kept))


AnyRows = BlockRows | Rows
"""Rows of a :class:`BlocksEngine`: blocks, or rows drawn from them."""


def _mark(block: Rows) -> int:
    """Checksum of about sixteen rows."""
    some = block[:: max(1, len(block) // 16)]
    mark = zlib.crc32(np.ascontiguousarray(some.values).tobytes())
    return mark if some.weight is None else zlib.crc32(some.weight.tobytes(), mark)


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

    def active(self, n_experts: int) -> Any:
        """The binary codes h of all rows, shape (n_rows, n_experts)."""
        parts = [codes.active(n_experts) for codes in self.parts]
        return namespace(parts[0]).concatenate(parts)

    @property
    def weight(self) -> Any:
        """Weights of all rows, shape (n_rows,), or None."""
        weights = [codes.weight for codes in self.parts]
        return None if weights[0] is None else namespace(weights[0]).concatenate(weights)

    def summary(self, n_experts: int) -> CodeSummary:
        """Summary of all codes for the learner."""
        return tree_sum(codes.summary(n_experts) for codes in self.parts)


def trimmed(codes: Any) -> Any:
    """The same codes without the columns that no row uses, to save memory."""
    if not isinstance(codes, Codes):  # on a device they are
        return codes
    n_steps = int(codes.n_active.max(initial=0))
    return replace(codes, members=codes.members[:, :n_steps].copy())


class BlocksEngine:
    """Maps another engine over blocks of rows and adds the results.

    Holds one block at a time, and the codes of all rows. Rows that :meth:`take` draws are in
    memory, and the other engine works on them directly.

    Parameters
    ----------
    inner : Engine
        Works on one block.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.engines import make_engine
    >>> from dynpart.engines.blocks import BlockRows, BlocksEngine
    >>> from dynpart.rows import Rows
    >>> engine = BlocksEngine(make_engine("reference"))
    >>> blocks = [np.zeros((3, 2)), np.ones((4, 2))]
    >>> rows, moments = BlockRows.scan(blocks, lambda block, index: Rows(block))
    >>> engine.take(rows, np.array([2, 3])).values
    array([[0., 0.],
           [1., 1.]])
    """

    name = "blocks"

    def __init__(self, inner: Engine) -> None:
        self.inner = inner

    def expected_kernels(
        self, rows: Any, experts: Experts, rules: Sequence[PursuitRule]
    ) -> list[Kernel]:
        """No kernels: a pass over the blocks takes longer than compilation."""
        return []

    def hold(self, rows: AnyRows) -> AnyRows:
        """The rows as they are, block by block."""
        return rows

    def place(self, moments: ColumnMoments) -> ColumnMoments:
        """The moments in the form of the other engine."""
        return self.inner.place(moments)

    def repeated(self, fold: Fold, n_rows: int, experts: Experts, rule: PursuitRule) -> Fold:
        """The function as optimised by the other engine, which processes the batches."""
        return self.inner.repeated(fold, n_rows, experts, rule)

    def take(self, rows: AnyRows, indices: NDArray[np.intp]) -> Any:
        """The rows with these ascending indices, in memory."""
        if not isinstance(rows, BlockRows):
            return self.inner.take(rows, indices)
        return self.inner.hold(rows.draw(indices))

    def pursue(
        self, rows: AnyRows, experts: Experts, rule: PursuitRule, background: Experts | None = None
    ) -> Any:
        """Codes of all rows, block by block."""
        if not isinstance(rows, BlockRows):
            return self.inner.pursue(rows, experts, rule, background)
        codes = (self.inner.pursue(block, experts, rule, background) for block in rows)
        return BlockCodes(tuple(map(trimmed, codes)))

    def gradient_sums(self, rows: AnyRows, experts: Experts, codes: Any) -> GradientSums:
        """Evidence for more or less expertise (appendix A), added over blocks."""
        return self._sums(self.inner.gradient_sums, rows, experts, codes)

    def responsibility_sums(
        self, rows: AnyRows, experts: Experts, codes: Any
    ) -> ResponsibilitySums:
        """Sums for the expert update (eq. 5 and 6), added over blocks."""
        return self._sums(self.inner.responsibility_sums, rows, experts, codes)

    def opinion_sums(self, rows: AnyRows, experts: Experts, codes: Any) -> OpinionSums:
        """Sums for Newton's method (appendix B), added over blocks."""
        return self._sums(self.inner.opinion_sums, rows, experts, codes)

    def mixture_sums(
        self, rows: AnyRows, experts: Experts, log_weight: Any, sharpness: float = 1.0
    ) -> MixtureSums:
        """Sums for EM of a mixture, added over blocks."""
        if not isinstance(rows, BlockRows):
            return self.inner.mixture_sums(rows, experts, log_weight, sharpness)
        of_block = self.inner.mixture_sums
        return tree_sum(of_block(block, experts, log_weight, sharpness) for block in rows)

    def autoregression_sums(
        self, rows: AnyRows, experts: Experts, codes: Any
    ) -> AutoregressionSums:
        """Sums for the weights of earlier values, added over blocks."""
        return self._sums(self.inner.autoregression_sums, rows, experts, codes)

    def _sums(
        self,
        of_block: Callable[[Rows, Experts, Any], T],
        rows: AnyRows,
        experts: Experts,
        codes: Any,
    ) -> T:
        if not isinstance(rows, BlockRows):
            return of_block(rows, experts, codes)
        parts = zip(rows, codes.parts, strict=True)
        return tree_sum(of_block(block, experts, part) for block, part in parts)
