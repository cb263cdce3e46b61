"""Codes as matrices: the sums of EM as matrix products, which are fast on a GPU.

Array formulas, with torch on a GPU. Only gains of edges are copied to the host, to grow forests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, in_rows, like, namespace, put_along, row_blocks, to_numpy
from dynpart.prior._code_prior import ROOT, CodePrior, log_sum_exp
from dynpart.prior._counted import (
    LEAST_SHARE,
    NEGLIGIBLE,
    SHRINKAGE,
    TINY,
    Counted,
    Types,
    place_of_pair,
    with_edges,
)

BLOCK_VALUES = 1 << 26
"""Maximum number of values in a block of codes, pairs of experts included."""
FEW_TYPES = 8
"""Number of types whose forests a thread grows at a time."""
TERMS_OF_PAIR = 8
"""Time to evaluate an edge, in terms of a pursuit."""


@dataclass(frozen=True, eq=False)
class DenseCodes(Counted):
    """Distinct codes as a matrix in double precision, and how many rows have each."""

    @staticmethod
    def as_kept(codes: Any) -> Any:
        """Codes in double precision."""
        return as_float64(codes != 0)

    @cached_property
    def _pair(self) -> tuple[Any, Any]:
        """Both experts of each pair, shape (n_pairs,); the first has the higher number."""
        return tuple(like(k, self.codes) for k in np.tril_indices(self.codes.shape[1]))

    @cached_property
    def _own(self) -> tuple[Any, Any]:
        """All experts, and the index of each one's pair with itself, both of shape (n_experts,)."""
        own = like(np.arange(self.codes.shape[1]), self.codes)
        return own, place_of_pair(own, own)

    @cached_property
    def _by_expert(self) -> Any:
        """Whether each expert is active, shape (n_experts, n_codes)."""
        return in_rows(self.codes.T != 0)

    def _both(self, block: slice) -> Any:
        """Whether both experts of each pair are active, shape (n_pairs, n_codes)."""
        (one, other), active = self._pair, self._by_expert[:, block]
        return as_float64(active[one] & active[other])

    @property
    def _blocks(self) -> list[slice]:
        """Blocks of codes whose pairs are processed together."""
        return [*row_blocks(len(self.codes), len(self._pair[0]), values=BLOCK_VALUES)]

    def _scores(self, prior: CodePrior, *, linked: bool) -> Any:
        """Log w_c + log P_c(h), shape (n_codes, n_types)."""
        if not linked:
            idle, busy = prior.log_table[:, :, 0, 0], prior.log_table[:, :, 0, 1]
            return self.codes @ (busy - idle).T + (prior.log_weight + idle.sum(axis=1))
        constant, single, pair = prior.coefficients
        # Coefficients of pairs; an expert's pair with itself has the coefficient of its own bit.
        xp, (own, alone) = namespace(pair), self._own
        places = place_of_pair(own, xp.where(prior.parent != ROOT, prior.parent, own))
        factor = put_along(pair, places, len(self._pair[0]))
        factor[:, alone] = single
        parts = [(factor @ self._both(block)).T for block in self._blocks]
        return xp.concatenate(parts) + constant

    def log_prob(self, prior: CodePrior, *, linked: bool) -> Any:
        """Sum of log P(h) over rows."""
        return self.counts @ log_sum_exp(self._scores(prior, linked=linked))

    def likeliest(self, prior: CodePrior) -> tuple[Any, Any]:
        """The likeliest type of each code and log P(h, type) of it, under a prior without edges."""
        scores = self._scores(prior, linked=False)
        return scores.argmax(axis=1), namespace(scores).amax(scores, axis=1)

    def shared_out(self, prior: CodePrior, *, linked: bool) -> Types:
        """The rows of each type under the prior; types with less than one row get none."""
        scores = self._scores(prior, linked=linked)
        xp = namespace(scores)
        below = scores - xp.amax(scores, axis=1)[:, None]
        share = xp.where(below > LEAST_SHARE, xp.exp(below), 0.0)
        share = share * (self.counts / share.sum(axis=1))[:, None]
        n_rows = share.sum(axis=0)
        kept = n_rows >= xp.clip(n_rows.max(), None, 1.0)
        share, n_rows = xp.where(kept, share, 0.0), xp.where(kept, n_rows, 0.0)
        return Types(share, n_rows, share.T @ self.codes)

    def forests(self, types: Types, table: Any, price: float) -> tuple[Any, Any]:
        """Parents and tables of types in each of which the strongest dependences form trees."""
        pairs = self._pairs(types)
        gain = self._gains(pairs, types.n_rows, price)
        parent = like(self._grown(to_numpy(gain)), gain)
        return parent, with_edges(pairs, parent, types.n_rows, table)

    def _pairs(self, types: Types) -> Any:
        """Rows of each type in which both experts of a pair are active, (n_types, n_pairs)."""
        xp, least = namespace(types.share), NEGLIGIBLE * self.counts[:, None]
        share = xp.where(types.share > least, types.share, 0.0).T
        return sum(share[:, block] @ self._both(block).T for block in self._blocks)

    def _gains(self, pairs: Any, n_rows: Any, price: float) -> Any:
        """Gain of an edge between two experts, minus its price; (n_types, n_pairs).

        The gain is the mutual information of both ends, times the rows of the type.
        """
        one, other = self._pair
        overall, total = self.frequencies, (n_rows + SHRINKAGE)[:, None]
        single = pairs[:, self._own[1]] + SHRINKAGE * overall
        both = pairs + SHRINKAGE * overall[one] * overall[other]
        told = _x_log_x(single) + _x_log_x(total - single)
        rest = total - single[:, one] - single[:, other] + both
        cells = _x_log_x(both) + _x_log_x(single[:, one] - both) + _x_log_x(rest)
        cells = cells + _x_log_x(single[:, other] - both)
        return cells - told[:, one] - told[:, other] + _x_log_x(total) - price

    def _grown(self, gain: NDArray) -> NDArray[np.int64]:
        """Parents in the forests of the highest gains, computed on the host."""
        from dynpart.prior import _kernels

        n_types, n_experts = len(gain), self.codes.shape[1]
        parent = np.empty((n_types, n_experts), dtype=np.int64)
        blocks = [*row_blocks(n_types, 1, values=FEW_TYPES)]

        def of_block(block: slice) -> None:
            _kernels.heaviest_forests(gain[block], parent[block])

        self.threads.map(of_block, blocks, TERMS_OF_PAIR * gain.size)
        return parent

    def without_empty(self, prior: CodePrior) -> CodePrior:
        """The prior without removed types."""
        kept = prior.log_weight > np.log(TINY) / 2
        if kept.all():
            return prior
        return CodePrior(prior.log_weight[kept], prior.parent[kept], prior.log_table[kept])


def _x_log_x(x: Any) -> Any:
    xp = namespace(x)
    return xp.clip(x, 0.0, None) * xp.log(xp.clip(x, TINY, None))
