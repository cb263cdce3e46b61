"""Distinct codes and their counts, to which a prior is fitted, and the sums that EM needs.

There are two implementations: lists of active experts in compiled code (`_lists`), and matrices
(`_dense`) for codes on a GPU. This module holds what both share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dynpart.arrays import like, namespace, take_along, to_numpy
from dynpart.prior._code_prior import ROOT, CodePrior
from dynpart.prior._distinct import distinct_codes

if TYPE_CHECKING:
    from dynpart.threads import Threads  # imports Numba, which reading a model does not need

MOST_CODES = 60_000
"""Maximum number of distinct codes that a prior is fitted to; of more, this many are drawn."""
MOST_TRIED = 20_000
"""Maximum number of codes that candidates are fitted to and compared on."""
HELD_BACK = 5
"""One row in this many is held back."""
SHRINKAGE = 1.0
"""Weight, in rows, of the overall frequencies in every type and in every branch of a tree."""
NEGLIGIBLE = 1e-3
"""Share of a row in a type below which the row is left out of the type's sums of pairs."""
LEAST_SHARE = -12.0
"""Nats relative to a code's likeliest type below which a type gets none of its rows."""
EDGE_PRICE = 2.0
"""Nats an edge must gain over the rows of its type, if held-back rows judge the result."""
TINY = 1e-300
"""Probability of removed types, so that its logarithm is finite."""
ALWAYS = 1 - 1e-12
"""Activation probability of a single expert: no code is empty, so it is not estimated. Also the
highest probability of any expert."""


@dataclass(frozen=True, eq=False)
class Types:
    """Rows divided among types, and their sums.

    Attributes
    ----------
    share : array of shape (n_codes, n_types)
        Rows of each code that belong to each type.
    n_rows : array of shape (n_types,)
        0 for removed types, unless these are left out.
    active : array of shape (n_types, n_experts)
        Rows of each type in which each expert is active.
    """

    share: Any
    n_rows: Any
    active: Any


def _threads() -> Threads:
    from dynpart.threads import Threads

    return Threads()


@dataclass(frozen=True, eq=False)
class Counted(ABC):
    """Distinct codes, and how many rows have each.

    Attributes
    ----------
    codes : array of shape (n_codes, n_experts), 0 or 1
    counts : array of shape (n_codes,)
    threads : Threads
        Threads of the host.
    """

    codes: Any
    counts: Any
    threads: Threads = field(default_factory=_threads)

    @classmethod
    def of(cls, codes: Any, weight: Any = None) -> Self:
        """Distinct codes in a random order that depends only on the codes."""
        rows, counts = distinct_codes(codes, weight)
        if weight is not None:
            rows, counts = rows[counts > 0], counts[counts > 0]
        drawn = like(np.random.default_rng(0).permutation(len(rows))[:MOST_CODES], codes)
        return cls(cls.as_kept(codes[rows[drawn]]), counts[drawn])

    @staticmethod
    @abstractmethod
    def as_kept(codes: Any) -> Any:
        """Binary codes in the data type in which they are stored."""

    @property
    def tried(self) -> Self:
        """A subset of the codes, if there are many; their order is random."""
        return replace(self, codes=self.codes[:MOST_TRIED], counts=self.counts[:MOST_TRIED])

    @cached_property
    def n_rows(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def frequencies(self) -> Any:
        """How often each expert is active, kept off 0 and 1 by half a row; (n_experts,)."""
        if self.codes.shape[1] == 1:
            return like(np.array([ALWAYS]), self.counts)
        return (self.counts @ self.codes + 0.5) / (self.n_rows + 1)

    def independent(self) -> CodePrior:
        """Independent bits with these frequencies."""
        return CodePrior.independent(to_numpy(self.frequencies)).like(self.counts)

    def held_back(self) -> tuple[Self, Self]:
        """All rows but every fifth, and every fifth; rows of equal codes are adjacent."""
        xp = namespace(self.counts)
        ends = xp.cumsum(self.counts, 0)
        # The last of every five rows; counts may be fractions.
        whole = xp.floor(ends / HELD_BACK)
        held = whole + xp.clip(ends - HELD_BACK * whole - (HELD_BACK - 1), 0.0, None)
        back = held - xp.concatenate([0 * held[:1], held[:-1]])
        back = xp.minimum(back, self.counts)
        kept = self.counts - back
        return self._of_counts(kept), self._of_counts(back)

    def _of_counts(self, counts: Any) -> Self:
        return replace(self, codes=self.codes[counts > 0], counts=counts[counts > 0])

    def begun(self, prior: CodePrior, own: Any, drawn: Any) -> CodePrior:
        """The prior and new types, each initialised at a code.

        Parameters
        ----------
        prior : CodePrior
            Without edges.
        own : array of shape (n_codes,)
            A type of each code: new types begin halfway between this type and the code.
        drawn : array of shape (n_more,)
            Indices of the codes.
        """
        xp = namespace(prior.log_weight)
        p = xp.exp(prior.log_table[:, :, 0, 1])
        begun = 0.5 * p[own[drawn]] + 0.5 * (0.05 + 0.9 * self.codes[drawn])
        weight = xp.exp(prior.log_weight)
        weight = xp.concatenate([weight, weight[own[drawn]]])
        return CodePrior.mixture(xp.log(weight / weight.sum()), xp.concatenate([p, begun]))

    def em(
        self,
        prior: CodePrior,
        n_iter: int,
        *,
        linked: bool,
        edges: bool,
        price: float = EDGE_PRICE,
    ) -> CodePrior:
        """Run `n_iter` iterations of EM; types without rows are removed.

        Parameters
        ----------
        prior : CodePrior
            Initial prior.
        n_iter : int
        linked : bool
            Whether the initial prior has edges.
        edges : bool
            Whether the result may have edges: trees of the strongest dependences.
        price : float
            Nats that an edge must gain over all rows of its type.
        """
        for _ in range(n_iter):
            types = self.shared_out(prior, linked=linked)
            prior = mixture(types, self.frequencies)
            if edges:
                parts = self.forests(types, prior.log_table, price)
                prior = CodePrior(prior.log_weight, *parts)
            linked = edges
        return self.without_empty(prior)

    @abstractmethod
    def shared_out(self, prior: CodePrior, *, linked: bool) -> Types:
        """The rows of each type under the prior; types with less than one row are removed.

        The prior has edges only if it is `linked`.
        """

    @abstractmethod
    def log_prob(self, prior: CodePrior, *, linked: bool) -> Any:
        """Sum of log P(h) over rows."""

    @abstractmethod
    def likeliest(self, prior: CodePrior) -> tuple[Any, Any]:
        """The likeliest type of each code and log P(h, type) of it, under a prior without edges."""

    @abstractmethod
    def forests(self, types: Types, table: Any, price: float) -> tuple[Any, Any]:
        """Parents and tables of types in each of which the strongest dependences form trees.

        Parameters
        ----------
        types : Types
        table : array of shape (n_types, n_experts, 2, 2)
            Log probabilities without edges.
        price : float
            Nats that an edge must gain over all rows of the type.

        Returns
        -------
        parent : array of shape (n_types, n_experts)
        table : array of shape (n_types, n_experts, 2, 2)
        """

    @abstractmethod
    def without_empty(self, prior: CodePrior) -> CodePrior:
        """The prior without removed types."""


def mixture(types: Types, overall: Any) -> CodePrior:
    """Types whose experts are active independently of each other.

    Parameters
    ----------
    types : Types
    overall : array of shape (n_experts,)
        Frequencies towards which those of types are shrunk.
    """
    xp = namespace(overall)
    p = (types.active + SHRINKAGE * overall) / (types.n_rows + SHRINKAGE)[:, None]
    p = xp.clip(p, None, ALWAYS)  # of very many rows, it would be rounded to 1
    weight = xp.clip(types.n_rows / types.n_rows.sum(), TINY, None)
    return CodePrior.mixture(xp.log(weight), p)


def n_pairs(n_experts: int) -> int:
    """Number of pairs of experts, including the pairs of an expert with itself.

    The order of pairs is (0, 0), (1, 0), (1, 1), (2, 0), ...
    """
    return n_experts * (n_experts + 1) // 2


def place_of_pair(one: Any, other: Any) -> Any:
    """Index of a pair of experts, given in either order."""
    xp = namespace(one)
    high, low = xp.maximum(one, other), xp.minimum(one, other)
    return high * (high + 1) // 2 + low


def with_edges(pairs: Any, parent: Any, n_rows: Any, table: Any) -> Any:
    """Log probabilities of experts given their parents, shape (n_types, n_experts, 2, 2).

    Parameters
    ----------
    pairs : array of shape (n_types, n_pairs)
        Rows in which both experts are active.
    parent : array of shape (n_types, n_experts)
    n_rows : array of shape (n_types,)
    table : array of shape (n_types, n_experts, 2, 2)
        Log probabilities without edges, which are kept for roots.
    """
    xp, is_child = namespace(pairs), parent != ROOT
    own = like(np.arange(parent.shape[1]), pairs)
    above = xp.where(is_child, parent, 0)
    active, both = pairs[:, place_of_pair(own, own)], take_along(pairs, place_of_pair(own, above))
    only, only_above = active - both, take_along(active, above) - both
    neither = n_rows[:, None] - both - only - only_above
    idle, busy = xp.stack([neither, only], axis=-1), xp.stack([only_above, both], axis=-1)
    branch = xp.stack([idle, busy], axis=2)  # [c, k, a, b]: rows, before shrinkage
    shrunk = xp.clip(branch, 0.0, None) + SHRINKAGE * xp.exp(table[:, :, :1])
    found = xp.log(shrunk / shrunk.sum(axis=3, keepdims=True))
    return xp.where(is_child[:, :, None, None], found, table)
