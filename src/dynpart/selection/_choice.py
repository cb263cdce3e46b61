"""The choice: the sizes that were tried, their comparison, and the chosen size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Curve = dict[int, tuple[Array, float]]
"""By number of experts: scores of the rows held back, in nats, and how many experts are active."""

TIE = 1.0
"""Standard errors within which two sizes are equally good."""
AS_SHORT = 0.01
"""Share of the shortest description by which an equally good one may be longer at most."""


@dataclass(frozen=True)
class TriedSize:
    """A number of experts and its score on held-back rows.

    Attributes
    ----------
    n_experts : int
    nats : float
        Mean log P(x | h) + log P(h) of the held-back rows, in nats per row; log P(x) where the
        choice is among mixtures.
    error : float
        Standard error of the difference from the best size, in nats per row; 0 for the best.
    mean_active : float
        Active experts per row.
    """

    n_experts: int
    nats: float
    error: float
    mean_active: float


@dataclass(frozen=True)
class Selection:
    """How the number of experts was chosen.

    Attributes
    ----------
    n_experts : int
        The number chosen.
    tried : tuple of TriedSize
        All sizes that were tried, from small to large: the selection curve.
    columns : float
        Mean log-likelihood of the held-back rows under independent columns, in nats per row.
    mixture : float or None
        The same under a mixture of as many components, which is the model with one active expert
        a row; None where `n_active` forbids it. Where mixtures are better than parts the choice is
        among them, and this is what the chosen one has.
    n_rows, n_held_back : int
        Rows learnt from, and rows held back. Rows that weigh more count as more.
    n_largest : int
        Experts of the largest model that was learnt; of those that were never active nothing is
        in `tried`.
    n_turns : int
        1 if some rows were held back; more if rows took turns because there were few.
    """

    n_experts: int
    tried: tuple[TriedSize, ...]
    columns: float
    mixture: float | None
    n_rows: int
    n_held_back: int
    n_largest: int
    n_turns: int

    @property
    def chosen(self) -> TriedSize:
        """The chosen size."""
        return next(one for one in self.tried if one.n_experts == self.n_experts)

    @property
    def is_mixture(self) -> bool:
        """Whether the choice was among mixtures, with one expert per row."""
        return self.mixture == self.chosen.nats

    def __str__(self) -> str:
        fewest = self.tried[0].n_experts
        saved = (self.chosen.nats - self.columns) / math.log(2)
        turns = f" in {self.n_turns} folds" if self.n_turns > 1 else ""
        beside = ""
        if self.is_mixture:
            beside = ", with one expert per row"
        elif self.mixture is not None:
            more = (self.chosen.nats - self.mixture) / math.log(2)
            word = "less" if more >= 0 else "more"
            beside = f", {abs(more):.1f} {word} than with a mixture of as many"
        word = "less" if saved >= 0 else "more"
        return (
            f"{self.n_experts} experts chosen of {fewest} to {self.n_largest}: held-back rows"
            f"{turns} take {abs(saved):.1f} bits {word} than with independent columns{beside}"
        )


def compared(curve: Curve, weight: Array, n_turns: int) -> tuple[TriedSize, ...]:
    """All sizes, small ones first, each with the standard error of its difference from the best."""
    means = {size: float(np.average(scores, weights=weight)) for size, (scores, _) in curve.items()}
    best = max(means, key=lambda size: means[size])
    return tuple(
        TriedSize(
            size,
            means[size],
            standard_error(curve[size][0] - curve[best][0], weight),
            curve[size][1] / n_turns,
        )
        for size in sorted(curve)
    )


def standard_error(difference: Array, weight: Array) -> float:
    """Of a mean; a row that weighs 3 is three rows."""
    total = weight.sum()
    mean = weight @ difference / total
    return float(np.sqrt(weight @ (difference - mean) ** 2 / total / max(total - 1, 1)))


def chosen(tried: tuple[TriedSize, ...]) -> int:
    """The smallest of the sizes that are as good as the best."""
    best = max(one.nats for one in tried)
    return next(
        one.n_experts
        for one in tried
        if best - one.nats <= min(TIE * one.error, AS_SHORT * abs(best))
    )
