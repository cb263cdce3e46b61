"""Fitting: a prior over codes from codes, by EM over sums that add up over rows.

A type's sums are the number of its rows and, for every two experts, in how many of them both are
active. Everything else follows from these: probabilities shrunk towards the overall frequencies,
and the tree of the strongest dependences (Chow & Liu 1968; mixtures: Meila & Jordan 2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import row_blocks
from dynpart.prior._code_prior import ROOT, CodePrior

if TYPE_CHECKING:
    from dynpart.threads import Threads  # with Numba, which reading a model does without

Array = NDArray[np.float64]

MOST_CODES = 60_000
"""Distinct codes that a prior is fitted to; of more, so many are drawn."""
MOST_TRIED = 20_000
"""Those of them that candidates are fitted to and compared by."""
BLOCK_CODES = 2048
"""Codes of a block of sums; the blocks' sums are added in order, whoever made them."""
PAIR_VALUES = 1 << 17
"""Numbers of rows that two experts share, of several types, which a thread counts at a time."""
MOST_TYPES = 128
"""Types that are tried at most."""
ROUGHLY = 32
"""The same for a prior that is soon followed by another, or that only compares experts."""
FEWEST_HELD_BACK = 20
"""Rows held back below which nothing is decided by them."""
HELD_BACK = 5
"""One row in so many is held back."""
SHRINKAGE = 1.0
"""Rows of the overall frequencies that are added to every type and to every branch of a tree."""
PLAIN_ITERATIONS = 12
"""EM iterations of a mixture without edges, after each doubling of the number of types."""
TREE_ITERATIONS = 2
"""EM iterations with edges."""
LAST_ITERATIONS = 5
"""EM iterations of the chosen prior on all codes."""
EDGE_PRICE = 2.0
"""Nats an edge must gain over the rows of its type, where rows held back judge the result."""
NEGLIGIBLE = 1e-3
"""Share of a row in a type below which the row adds nothing to the type's sums of pairs."""
ALWAYS = 1 - 1e-12
"""How likely a single expert is to be active: no code is empty, so there is nothing to learn."""


def fit_prior(
    codes: NDArray, weight: Array | None = None, most_types: int = MOST_TYPES
) -> CodePrior:
    """The prior that describes codes like these best.

    Candidates are independent bits, a tree, and mixtures of 2, 4, 8, ... types without and with
    edges. A fifth of the codes is held back, and the candidate under which these are likeliest is
    fitted again to all; of many codes, some are enough to choose by. Where fewer than 20 rows would
    be held back it is a single tree, in which only edges stand that pay for themselves by the other
    rows: perhaps none, independent bits.

    Equal codes are counted first, so a row of weight w is the same as w equal rows.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_experts)
        Binary codes.
    weight : ndarray of shape (n_rows,), optional
        How many rows each row stands for.
    most_types : int, default=128
        Types that are tried at most.

    Returns
    -------
    CodePrior

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.prior import fit_prior
    >>> coin = np.arange(200) % 2
    >>> prior = fit_prior(np.c_[coin, 1 - coin])  # either the one expert or the other
    >>> np.exp(prior.log_prob(np.array([[1, 0], [0, 1], [1, 1]]))).round(2)
    array([0.5, 0.5, 0. ])
    """
    counted = _Counted.of(codes, weight)
    train, test = counted.tried.held_back()
    if test.n_rows < FEWEST_HELD_BACK:
        return _careful_forest(counted)
    return _refitted(_best_candidate(train, test, most_types)[0], counted)


def mean_log_prior(codes: NDArray, weight: Array | None = None) -> float:
    """Mean log P(h) under the prior of codes like these, of those that are held back.

    Where too few rows would be held back, it is that of the rows the prior was fitted to.
    """
    counted = _Counted.of(codes, weight)
    if not counted.n_rows:
        return 0.0
    train, test = counted.tried.held_back()
    if test.n_rows < FEWEST_HELD_BACK:
        return counted.log_prob(_careful_forest(counted)) / counted.n_rows
    return _best_candidate(train, test, ROUGHLY)[1] / test.n_rows


def _careful_forest(counted: _Counted) -> CodePrior:
    """A single type, with edges that nobody would find by chance among so few rows."""
    n_experts = counted.codes.shape[1]
    if n_experts == 1 or not counted.n_rows:
        return CodePrior.independent(counted.frequencies)
    # An edge tells a number more, and the best of so many pairs looks good by chance.
    price = np.log(n_experts * (n_experts - 1) / 2) + 0.5 * np.log(1 + counted.n_rows)
    alone = CodePrior.independent(counted.frequencies)
    return _forest(counted, counted.shared_out(alone)[0], counted.frequencies, price)


def independent_prior(codes: NDArray, weight: Array | None = None) -> CodePrior:
    """Independent bits with the frequencies of these codes."""
    return CodePrior.independent(_Counted.of(codes, weight).frequencies)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Distinct codes, and how many rows have each.

    Attributes
    ----------
    codes : ndarray of shape (n_codes, n_experts), 0 or 1
    counts : ndarray of shape (n_codes,)
    """

    codes: NDArray[np.uint8]
    counts: Array

    @cached_property
    def threads(self) -> Threads:
        """Who sums over codes."""
        from dynpart.threads import Threads

        return Threads()

    @classmethod
    def of(cls, codes: NDArray, weight: Array | None) -> _Counted:
        """Distinct codes in a random order that the codes themselves decide."""
        active = np.asarray(codes).astype(bool)
        packed, inverse = np.unique(np.packbits(active, axis=1), axis=0, return_inverse=True)
        counts = np.bincount(inverse.ravel(), weight, minlength=len(packed)).astype(np.float64)
        order = np.random.default_rng(0).permutation(np.flatnonzero(counts > 0))[:MOST_CODES]
        distinct = np.unpackbits(packed[order], axis=1, count=active.shape[1])
        return cls(distinct, counts[order])

    @property
    def tried(self) -> _Counted:
        """Some of the codes, if there are many: they stand in a random order."""
        return _Counted(self.codes[:MOST_TRIED], self.counts[:MOST_TRIED])

    @property
    def n_rows(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def frequencies(self) -> Array:
        """How often each expert is active, kept off 0 and 1 by half a row."""
        if self.codes.shape[1] == 1:
            return np.array([ALWAYS])
        return (self.counts @ self.codes + 0.5) / (self.n_rows + 1)

    def held_back(self) -> tuple[_Counted, _Counted]:
        """All rows but every fifth, and every fifth: rows of equal codes stand side by side."""
        ends = np.cumsum(self.counts)
        # Of every five rows the last one; a code may have parts of rows.
        whole, rest = np.divmod(ends, HELD_BACK)
        held = whole + np.clip(rest - (HELD_BACK - 1), 0.0, None)
        back = np.minimum(np.diff(held, prepend=0.0), self.counts)
        kept = self.counts - back
        return self._of_counts(kept), self._of_counts(back)

    def _of_counts(self, counts: Array) -> _Counted:
        return _Counted(self.codes[counts > 0], counts[counts > 0])

    @cached_property
    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Array]:
        """Where the experts of each code begin, the active experts of all codes, and counts."""
        from dynpart.prior import _kernels

        return *_kernels.code_lists(self.codes), self.counts

    def shared_out(self, prior: CodePrior) -> tuple[_Types, float]:
        """The rows of each type under the prior, and the sum of log P(h) over all rows."""
        from dynpart.prior import _kernels

        n_codes, n_types = len(self.codes), prior.n_types
        share, tables = np.empty((n_codes, n_types)), prior.by_expert
        blocks = range(0, n_codes, BLOCK_CODES)
        n_rows, total = np.zeros((len(blocks), n_types)), np.zeros(len(blocks))
        active = np.zeros((len(blocks), *prior.parent.shape))

        def of_block(b: int) -> None:
            start, experts, counts = self.lists
            part = slice(blocks[b], min(blocks[b] + BLOCK_CODES, n_codes))
            lists = start[part.start : part.stop + 1], experts, counts[part]
            total[b] = _kernels.shares_of_types(*lists, tables, share[part], n_rows[b], active[b])

        self.threads.map(of_block, range(len(blocks)), len(self.lists[1]) * n_types)
        return _Types(share, n_rows.sum(axis=0), active.sum(axis=0)), float(total.sum())

    def pairs(self, types: _Types, block: slice) -> Array:
        """Rows of some types in which two experts are both active, for every two."""
        from dynpart.prior import _kernels

        n_experts = self.codes.shape[1]
        pairs = np.zeros((block.stop - block.start, n_experts, n_experts))
        _kernels.sums_of_pairs(*self.lists, types.share, NEGLIGIBLE, block.start, pairs)
        return pairs

    def log_prob(self, prior: CodePrior) -> float:
        """Sum of log P(h) over rows."""
        return self.shared_out(prior)[1]


@dataclass(frozen=True, eq=False)
class _Types:
    """Rows shared out among types, and their sums.

    Attributes
    ----------
    share : ndarray of shape (n_codes, n_types)
        Rows of each code that belong to each type.
    n_rows : ndarray of shape (n_types,)
    active : ndarray of shape (n_types, n_experts)
        Rows of each type in which each expert is active.
    """

    share: Array
    n_rows: Array
    active: Array

    def without_empty(self) -> _Types:
        """Those that have at least one row."""
        kept = self.n_rows >= min(1.0, self.n_rows.max())
        if kept.all():
            return self
        return _Types(
            np.ascontiguousarray(self.share[:, kept]), self.n_rows[kept], self.active[kept]
        )


def _best_candidate(train: _Counted, test: _Counted, most_types: int) -> tuple[CodePrior, float]:
    """Of all candidates, fitted to `train`, the one under which `test` is likeliest, and how."""
    rng = np.random.default_rng(0)
    plain = CodePrior.independent(train.frequencies)
    best, best_score = plain, test.log_prob(plain)
    worse = 0
    while worse < 2:
        tree = _em(plain, train, TREE_ITERATIONS if plain.n_types > 1 else 1, edges=True)
        scores = [test.log_prob(plain), test.log_prob(tree)]
        worse = 0 if max(scores) > best_score or plain.n_types == 1 else worse + 1
        for candidate, score in zip((plain, tree), scores, strict=True):
            if score > best_score:
                best, best_score = candidate, score
        n_more = min(plain.n_types, most_types - plain.n_types, len(train.counts) - plain.n_types)
        if n_more <= 0:
            break
        more = _with_more_types(plain, train, n_more, rng)
        plain = _em(more, train, PLAIN_ITERATIONS, edges=False)
    return best, best_score


def _refitted(prior: CodePrior, counted: _Counted) -> CodePrior:
    """The same kind of prior, fitted to all codes."""
    edges = bool((prior.parent != ROOT).any())
    return _em(prior, counted, LAST_ITERATIONS if prior.n_types > 1 else 1, edges=edges)


def _em(prior: CodePrior, counted: _Counted, n_iter: int, *, edges: bool) -> CodePrior:
    """So many iterations of EM; types without rows are left out."""
    overall = counted.frequencies
    for _ in range(n_iter):
        types = counted.shared_out(prior)[0].without_empty()
        prior = _forest(counted, types, overall) if edges else _mixture(types, overall)
    return prior


def _mixture(types: _Types, overall: Array) -> CodePrior:
    """Types whose experts are active independently of each other.

    Parameters
    ----------
    types : _Types
    overall : ndarray of shape (n_experts,)
        Frequencies towards which those of types are shrunk.
    """
    p = (types.active + SHRINKAGE * overall) / (types.n_rows + SHRINKAGE)[:, None]
    row = np.log(np.stack([1 - p, p], axis=-1))
    table = np.repeat(row[:, :, None], 2, axis=2)
    return CodePrior(np.log(types.n_rows / types.n_rows.sum()), np.full(p.shape, ROOT), table)


def _forest(
    counted: _Counted, types: _Types, overall: Array, price: float = EDGE_PRICE
) -> CodePrior:
    """Types in each of which the strongest dependences form trees; see `_mixture`.

    An edge stands if it gains more than its price, in nats over all rows of the type.
    """
    plain, n_experts = _mixture(types, overall), len(overall)
    parent, table = plain.parent.copy(), plain.log_table.copy()
    blocks = [*row_blocks(len(parent), n_experts**2, values=PAIR_VALUES)]

    def of_block(block: slice) -> None:
        pairs = counted.pairs(types, block)
        parent[block], table[block] = _chow_liu(
            pairs, types.n_rows[block], overall, table[block], price
        )

    counted.threads.map(of_block, blocks, len(parent) * n_experts**2)
    return CodePrior(plain.log_weight, parent, table)


def _chow_liu(
    pairs: Array, n_rows: Array, overall: Array, table: Array, price: float
) -> tuple[NDArray[np.int64], Array]:
    """The forests of strongest dependences, of those that pay for themselves.

    Parameters
    ----------
    pairs : ndarray of shape (n_types, n_experts, n_experts)
        Rows in which both experts are active.
    n_rows : ndarray of shape (n_types,)
    overall : ndarray of shape (n_experts,)
    table : ndarray of shape (n_types, n_experts, 2, 2)
        Log probabilities without edges.
    price : float
        Nats that an edge must gain.

    Returns
    -------
    parent : ndarray of shape (n_types, n_experts)
    table : ndarray of shape (n_types, n_experts, 2, 2)
    """
    from dynpart.prior import _kernels

    parent = np.empty(table.shape[:2], dtype=np.int64)
    _kernels.heaviest_forests(pairs, n_rows, overall, SHRINKAGE, price, parent)
    is_child = parent != ROOT
    above = np.where(is_child, parent, 0)
    active = np.diagonal(pairs, axis1=1, axis2=2)
    both = np.take_along_axis(pairs, above[:, None], axis=1)[:, 0]
    active_above = np.take_along_axis(active, above, axis=1)
    branch = np.empty((*parent.shape, 2, 2))  # [c, k, a, b]: rows, without those added above
    branch[..., 1, 1] = both
    branch[..., 1, 0] = active_above - both
    branch[..., 0, 1] = active - both
    branch[..., 0, 0] = n_rows[:, None] - active_above - branch[..., 0, 1]
    shrunk = np.maximum(branch, 0.0) + SHRINKAGE * np.exp(table[:, :, 0])[:, :, None]
    with_edges = np.log(shrunk / shrunk.sum(axis=3, keepdims=True))
    return parent, np.where(is_child[..., None, None], with_edges, table)


def _with_more_types(
    prior: CodePrior, counted: _Counted, n_more: int, rng: np.random.Generator
) -> CodePrior:
    """So many more types, each begun at a code that is rare within its most probable type."""
    joint = prior.log_joint(counted.codes)
    own = joint.argmax(axis=1)
    rarity = counted.counts * (prior.log_weight[own] - joint.max(axis=1) + NEGLIGIBLE)
    drawn = rng.choice(len(own), n_more, replace=False, p=rarity / rarity.sum())
    p = prior.activation_probabilities
    begun = 0.5 * p[own[drawn]] + 0.5 * (0.05 + 0.9 * counted.codes[drawn])
    row = np.log(np.stack([1 - np.r_[p, begun], np.r_[p, begun]], axis=-1))
    table = np.repeat(row[:, :, None], 2, axis=2)
    weight = np.exp(prior.log_weight)
    weight = np.r_[weight, weight[own[drawn]]]
    return CodePrior(np.log(weight / weight.sum()), np.full(table.shape[:2], ROOT), table)
