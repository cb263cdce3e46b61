"""Codes as lists of active experts: the sums of EM in compiled code, by several threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.ahead import Kernel
from dynpart.arrays import row_blocks
from dynpart.prior._code_prior import CodePrior
from dynpart.prior._counted import (
    LEAST_SHARE,
    NEGLIGIBLE,
    SHRINKAGE,
    Counted,
    Types,
    n_pairs,
    with_edges,
)

Array = NDArray[np.float64]

BLOCK_CODES = 512
"""Number of codes in a block; sums of blocks are added in order, whichever thread made them."""
PAIR_VALUES = 1 << 17
"""Maximum number of counts of pairs, over several types, that a thread makes at a time."""
FEW_TYPES = 4
"""Number of types whose forests a thread grows at a time; one if there are many experts."""
TERMS_OF_CODE = 8
"""Time of a code per active expert, beside that of its types, in terms of a type."""


@dataclass(frozen=True, eq=False)
class ListedCodes(Counted):
    """Distinct codes, and how many rows have each, in NumPy arrays."""

    @staticmethod
    def as_kept(codes: Any) -> Any:
        """Codes with one byte per bit."""
        return (np.asarray(codes) != 0).astype(np.uint8)

    @cached_property
    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Array]:
        """Start of each code in the list, the active experts of all codes, and counts."""
        from dynpart.prior import _kernels

        return *_kernels.code_lists(self.codes), self.counts

    def _map(self, task: Any, n_types: int) -> None:
        """Call `task(b, start, experts, part)` for every block of codes: index and lists."""
        start, experts, _ = self.lists

        def of_block(b: int) -> None:
            part = slice(b * BLOCK_CODES, min((b + 1) * BLOCK_CODES, len(self.codes)))
            task(b, start[part.start : part.stop + 1], experts, part)

        n_terms = len(experts) * (n_types + TERMS_OF_CODE)
        self.threads.map(of_block, range(self._n_blocks), n_terms)

    @property
    def _n_blocks(self) -> int:
        return -(-len(self.codes) // BLOCK_CODES)

    def shared_out(self, prior: CodePrior, *, linked: bool) -> Types:
        """The rows of each type under the prior; types with less than one row are left out."""
        from dynpart.prior import _kernels

        share, tables = np.empty((len(self.codes), prior.n_types)), prior.by_expert
        n_rows = np.zeros((self._n_blocks, prior.n_types))
        active = np.zeros((self._n_blocks, *prior.parent.shape))

        def of_block(b: int, start: Array, experts: Array, part: slice) -> None:
            lists = start, experts, self.counts[part]
            sums = share[part], n_rows[b], active[b]
            _kernels.shares_of_types(*lists, tables, LEAST_SHARE, *sums)

        self._map(of_block, prior.n_types)
        return _without_empty(Types(share, n_rows.sum(axis=0), active.sum(axis=0)))

    def log_prob(self, prior: CodePrior, *, linked: bool) -> float:
        """Sum of log P(h) over rows."""
        from dynpart.prior import _kernels

        found, tables = np.empty(len(self.codes)), prior.by_expert

        def of_block(b: int, start: Array, experts: Array, part: slice) -> None:
            _kernels.log_probabilities(start, experts, tables, found[part])

        self._map(of_block, prior.n_types)
        return float(self.counts @ found)

    def likeliest(self, prior: CodePrior) -> tuple[NDArray[np.int64], Array]:
        """The likeliest type of each code and log P(h, type) of it."""
        from dynpart.prior import _kernels

        own, most = np.empty(len(self.codes), dtype=np.int64), np.empty(len(self.codes))
        tables = prior.by_expert

        def of_block(b: int, start: Array, experts: Array, part: slice) -> None:
            _kernels.likeliest_types(start, experts, tables, own[part], most[part])

        self._map(of_block, prior.n_types)
        return own, most

    def forests(self, types: Types, table: Array, price: float) -> tuple[NDArray[np.int64], Array]:
        """Parents and tables of types in each of which the strongest dependences form trees."""
        n_types, n_experts = table.shape[:2]
        parent, linked = np.empty((n_types, n_experts), dtype=np.int64), table.copy()
        overall = self.frequencies

        def of_block(block: slice) -> None:
            from dynpart.prior import _kernels

            pairs, n_rows = self.pairs(types, block), types.n_rows[block]
            gain = np.zeros(pairs.shape)
            _kernels.gains_of_edges(pairs, n_rows, overall, SHRINKAGE, price, gain)
            _kernels.heaviest_forests(gain, parent[block])
            linked[block] = with_edges(pairs, parent[block], n_rows, table[block])

        width, n_active = n_pairs(n_experts), len(self.lists[1])
        values = min(PAIR_VALUES, FEW_TYPES * width)
        n_terms = n_types * width + n_active**2 // max(1, len(self.codes))
        self.threads.map(of_block, [*row_blocks(n_types, width, values=values)], n_terms)
        return parent, linked

    def pairs(self, types: Types, block: slice) -> Array:
        """Rows of some types in which both experts of a pair are active, (n_types, n_pairs)."""
        from dynpart.prior import _kernels

        pairs = np.zeros((block.stop - block.start, n_pairs(self.codes.shape[1])))
        _kernels.sums_of_pairs(*self.lists, types.share, NEGLIGIBLE, block.start, pairs)
        return pairs

    def without_empty(self, prior: CodePrior) -> CodePrior:
        """The prior itself: removed types are left out already."""
        return prior


def prior_kernels() -> list[Kernel]:
    """The kernels that fitting a prior calls, for :func:`dynpart.ahead.expecting`."""
    from dynpart.compiled import kernel_for
    from dynpart.prior import _kernels

    return [kernel_for(*example) for example in _kernels.examples()]


def _without_empty(types: Types) -> Types:
    """The types with at least one row."""
    kept = types.n_rows >= min(1.0, types.n_rows.max())
    if kept.all():
        return types
    share = np.ascontiguousarray(types.share[:, kept])
    return Types(share, types.n_rows[kept], types.active[kept])
