"""The task: data and limits of learning. Passes rows on without reading them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.ahead import Kernel
from dynpart.amplitudes import Amplitude
from dynpart.arrays import as_float64, like, namespace
from dynpart.engines import Engine, Experts, PursuitRule
from dynpart.families import ColumnMoments, Family
from dynpart.learning._connectivity import Neighbours
from dynpart.neighbourhood import neighbourhood_kernels
from dynpart.prior import prior_kernels

FEWEST_FOR_PRIOR = 200
"""Minimum number of rows for a learnt prior: enough codes can be held back to judge it."""
TINY = float(np.finfo(np.float64).tiny)
ROUNDING = 1e-9
"""Share of a column's weight below which the rest of it is a rounding error."""
EXACT = 2**53
"""Sums of integer weights are exact up to this value."""


@dataclass(frozen=True, eq=False)
class Task:
    """Data and limits of learning: rows held by an engine, their moments, and settings.

    Plans use its numbers; see :class:`dynpart.learning.Sizes`.

    Attributes
    ----------
    engine : Engine
    rows : object
        The data, as the engine holds it; for a stream, the current batch.
    moments : ColumnMoments
        Means and variances of the data; for a stream, those of all rows so far.
    family : Family
    n_experts : int
    n_iter : int
        Iterations of the plan; for a stream, the batches until it has settled.
    min_active, max_active : int
        Limits on active experts per row, on top of the plan's own minimum.
    neighbours : Neighbours or None
        Diffuses evidence and opinions between neighbouring variables.
    tol : float
        Change of opinions, in standard deviations of the data, below which they have settled.
    weight : ndarray of shape (n_rows,) or None
        Weights of the rows; 3 is equivalent to three equal rows.
    newton : bool
        Whether opinions are updated by Newton's method (appendix B) instead of averages (eq. 5).
    amplitude : Amplitude or None
        Whether gains and offsets of active experts vary from row to row, and how much.
    joint : bool
        Whether description length decides: codes are chosen under a learnt prior after the search,
        and a mixture is tried as an alternative.
    """

    engine: Engine
    rows: Any
    moments: ColumnMoments
    family: Family
    n_experts: int
    n_iter: int
    min_active: int
    max_active: int
    neighbours: Neighbours | None = None
    tol: float = 0.0
    weight: NDArray[np.float64] | None = None
    newton: bool = False
    amplitude: Amplitude | None = None
    joint: bool = False

    @property
    def n_rows(self) -> int:
        """Total weight of the rows."""
        return max(1, round(self.moments.weight))

    @property
    def n_features(self) -> int:
        return len(self.moments.mean)

    @property
    def learns_prior(self) -> bool:
        """Whether codes are chosen under a learnt prior after the search.

        From few rows only a prior of nearly independent bits can be learnt, under which codes with
        fewer experts cost too little.
        """
        return self.joint and self.amplitude is None and self.n_rows >= FEWEST_FOR_PRIOR

    @cached_property
    def population(self) -> NDArray[np.float64]:
        """Mean parameters of the data as a whole, shape (n_statistics, n_features)."""
        return self.family.population(self.moments)

    @cached_property
    def log_scale(self) -> NDArray[np.float64]:
        """Logarithm of the standard deviation of each real column with its own scale.

        Densities of these columns have a unit. Their sum with these numbers has none: it is the
        density of standardised columns. 0 for other or constant columns.
        """
        variance = self.moments.variance
        xp, own_scale = namespace(variance), self.family.have_own_scales(self.n_features)
        varies = like(own_scale, variance) & (variance > 0)
        return xp.where(varies, 0.5 * xp.log(xp.clip(variance, TINY, None)), 0.0)

    @cached_property
    def log_scales(self) -> float:
        """The sum of these logarithms over the observed columns of a row, on average."""
        return float((self.moments.observed * self.log_scale).sum() / self.moments.weight)

    def moments_without(
        self, statistics: NDArray[np.float64], gone: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean parameters of the data without some rows, and the number of values left.

        Parameters
        ----------
        statistics : ndarray of shape (n_statistics, n_features)
            Sums over these rows.
        gone : ndarray of shape (n_features,)
            Number of their observed values.
        """
        xp, left = namespace(gone), self.moments.observed - gone
        kept = xp.clip(left, TINY, None)
        others = (self.moments.observed * self.population - statistics) / kept
        # A column without remaining values keeps its mean parameters.
        some = left > ROUNDING * self.moments.observed
        return xp.where(some, others, self.population), xp.where(some, kept, 0.0)

    def draw(self, rng: np.random.Generator, n_rows: int, *, replace: bool) -> Any:
        """`n_rows` rows drawn at random, held by the engine.

        Without replacement these are all rows if there are no more. A row of weight w is drawn as
        w equal rows would be.
        """
        if not replace and n_rows >= self.n_rows:
            return self.rows
        if self.weight is None:
            drawn = _drawn(rng, self.n_rows, n_rows, replace=replace)
            return self.engine.take(self.rows, np.sort(drawn))
        ends = np.cumsum(self.weight)
        if ends[-1] <= EXACT and (self.weight == np.floor(self.weight)).all():
            place = _drawn(rng, int(ends[-1]), n_rows, replace=replace)
        elif replace:
            place = ends[-1] * rng.random(n_rows)
        else:
            place = ends[-1] * (np.arange(n_rows) + rng.random()) / n_rows
        drawn = np.searchsorted(ends, np.sort(place), side="right").clip(max=len(ends) - 1)
        if replace:
            return self.engine.take(self.rows, drawn).weighing(None)
        indices, often = np.unique(drawn, return_counts=True)
        rows = self.engine.take(self.rows, indices)
        return rows.weighing(like(as_float64(often), rows.values))

    @property
    def n_compared(self) -> int:
        """Number of rows that is enough to compare models of this size."""
        return min(self.n_rows, max(1000, 20 * self.n_experts))

    def count(self, rows: Any) -> int:
        """Number of these rows, all or some that were drawn, regardless of weights."""
        return self.moments.n_rows if rows is self.rows else len(rows)

    def rule(
        self,
        least: int = 1,
        *,
        price: float = 0.0,
        smoothed: bool = False,
        n_starts: int = 1,
        n_swaps: int = 0,
    ) -> PursuitRule:
        """Activate experts that gain more than their price, at least `least`, within the limits."""
        fewest = min(self.max_active, max(self.min_active, least))
        return PursuitRule(
            fewest,
            self.max_active,
            np.full(self.n_experts, price),
            smoothed=smoothed,
            n_starts=n_starts,
            n_swaps=n_swaps,
        )


def with_levels(engine: Engine, rows: Any, family: Family, moments: ColumnMoments) -> ColumnMoments:
    """The moments with counts of levels, if the family has categorical variables.

    Counts are the responsibility sums of one expert, which every engine computes.

    Parameters
    ----------
    engine : Engine
    rows : object
        Rows held by the engine, as `family` encodes them.
    family : Family
    moments : ColumnMoments
        Of the same rows.

    Returns
    -------
    ColumnMoments
    """
    if not family.counts_levels:
        return moments
    n_features, alone = len(moments.mean), _average(family, moments)
    codes = engine.pursue(rows, alone, PursuitRule(1, 1, np.zeros(1)))
    counts = engine.responsibility_sums(rows, alone, codes).statistics[:, 0]
    kinds = family.kinds_of_columns(n_features)
    discrete = [float(kind in ("binary", "categorical")) for kind in kinds]
    return replace(moments, levels=counts * like(np.array(discrete), counts))


def expected_kernels(
    engine: Engine, rows: Any, family: Family, moments: ColumnMoments, n_experts: int
) -> list[Kernel]:
    """Kernels that a fit will call and that are slow to compile, the slowest first.

    Parameters
    ----------
    engine : Engine
    rows : object
        Rows held by the engine, as `family` encodes them.
    family : Family
    moments : ColumnMoments
    n_experts : int

    Returns
    -------
    list of Kernel
        Of the hard and the smoothed pursuit, of sums over neighbours, and of the prior.
    """
    one = _average(family, moments)
    xp, rule = namespace(one.eta), PursuitRule(1, n_experts, np.zeros(n_experts))
    eta = xp.concatenate([one.eta] * n_experts, 1)
    experts = Experts(family, eta, xp.concatenate([one.log2_expertise] * n_experts))
    pursuits = engine.expected_kernels(rows, experts, [rule, replace(rule, smoothed=True)])
    if not pursuits:
        return []
    return [*dict.fromkeys(pursuits), *neighbourhood_kernels(), *prior_kernels()]


def _average(family: Family, moments: ColumnMoments) -> Experts:
    """One expert with the opinion of all rows, as far as the moments determine it."""
    xp = namespace(moments.mean)
    known = replace(moments, levels=xp.stack([0 * moments.mean] * family.n_statistics))
    return Experts(
        family, family.constrain(family.population(known)[:, None]), 0 * moments.mean[None]
    )


def _drawn(
    rng: np.random.Generator, n_rows: int, n_drawn: int, *, replace: bool
) -> NDArray[np.int64]:
    """Indices of rows drawn at random."""
    if replace:
        return rng.integers(n_rows, size=n_drawn)
    return rng.choice(n_rows, n_drawn, replace=False)
