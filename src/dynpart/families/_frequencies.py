"""Shrunk frequencies of levels, with an amount of shrinkage chosen by leave-one-out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynpart.arrays import namespace
from dynpart.families._base import Array
from dynpart.families._moments import TINY

SHRINKAGES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Candidate numbers of rows per value, times the variable's standard deviation, added at the
end."""
WORTH_SHRINKING = 2.0
"""Nats that more shrinkage must gain, as for one more parameter in a likelihood-ratio test."""


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Counts of each level, by expert and over all rows.

    With c of n rows at a level of a variable that has L of them, an expert responsible for a share
    u of the rows, and for T rows at this level, holds the opinion
    (T + u / 2 + epsilon (1 - u) p) / (w + u L / 2 + epsilon (1 - u)), where
    p = (c + 1/2) / (n + L / 2). A single expert has the opinion p, and so have all experts for a
    constant variable.

    Attributes
    ----------
    counts, smoothed : sequence of ndarray of shape (n_experts, n_features)
        Rows at each level: the expert's own, and smoothed over neighbouring variables.
    columns : sequence of ndarray of shape (n_features,)
        Total number of rows at each level.
    weight, smoothed_weight : ndarray of shape (n_experts, n_features)
        Rows at any level.
    n_levels : float or ndarray of shape (n_features,)
    epsilon : float or ndarray of shape (n_features,)
    clip : float
    """

    counts: Any
    smoothed: Any
    columns: Any
    weight: Array
    smoothed_weight: Array
    n_levels: Any
    epsilon: float | Array
    clip: float

    def of_level(self, v: int, gone: Any, added: float) -> Array:
        """Frequency of level v, without those of its rows that are `gone`.

        Further rows, `added` times the variable's standard deviation for each of two values, are
        spread evenly over the levels.
        """
        xp = namespace(self.weight)
        n_rows = self.weight.sum(axis=0)
        rows = xp.clip(n_rows - gone, TINY, None)
        seen = xp.clip(self.columns[v] - gone, 0.0, None)
        share = xp.clip((self.weight - gone) / rows, 0.0, 1.0)
        prior = self.epsilon * (1 - share)
        half = self.n_levels / 2
        more = added * self._deviation(v, seen, rows) if added else 0.0
        above = self.smoothed[v] - gone + share / 2 + prior * (seen + 0.5) / (rows + half)
        below = self.smoothed_weight - gone + share * half + prior + 2 * more
        return xp.clip(above + more / half, 0.0, None) / xp.clip(below, TINY, None)

    def _deviation(self, v: int, seen: Array, rows: Array) -> Array:
        """Standard deviation of a variable with two levels, generalised to more levels.

        The probability that two rows differ is twice the variance of a binary variable.
        """
        xp = namespace(rows)
        equal = seen * seen
        for u, column in enumerate(self.columns):
            if u != v:
                equal = equal + column * column
        return xp.sqrt(xp.clip(rows * rows - equal, 0.0, None) / 2) / rows

    def of_unseen(self, added: float) -> float:
        """Log-likelihood of every row under the opinions from the other rows."""
        xp = namespace(self.weight)
        total = 0.0
        for v, own in enumerate(self.counts):
            chance = self.of_level(v, xp.clip(own, 0.0, 1.0), added)
            total = total + (own * xp.log(xp.clip(chance, self.clip, 1 - self.clip))).sum()
        return float(total)

    def best_shrinkage(self) -> float:
        """Number of rows to add: 0 unless more clearly raises the likelihood of left-out rows."""
        worth = [self.of_unseen(added) for added in SHRINKAGES]
        best = max(worth)
        return SHRINKAGES[worth.index(best)] if best > worth[0] + WORTH_SHRINKING else 0.0
