"""The choice: the sizes that were tried, their comparison, and the chosen size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldBackScores:
    """Scores of the held-back rows under a model.

    Attributes
    ----------
    joint : ndarray of shape (n_rows,)
        Log P(x | h) + log P(h) of each row's code, in nats.
    density : ndarray of shape (n_rows,)
        Log P(x), summed over the codes near that one.
    n_active : float
        Active experts per row.
    """

    joint: Array
    density: Array
    n_active: float = 1.0

    @classmethod
    def alone(cls, density: Array) -> HeldBackScores:
        """Scores of a mixture, of which only log P(x) is used."""
        return cls(density, density)

    def with_others(self, other: HeldBackScores) -> HeldBackScores:
        """The same model's scores of further rows; numbers of active experts are added."""
        joint = np.concatenate([self.joint, other.joint])
        density = np.concatenate([self.density, other.density])
        return HeldBackScores(joint, density, self.n_active + other.n_active)


Curve = dict[int, HeldBackScores]
"""Scores of held-back rows, by number of experts."""

TIE = 1.0
"""Standard errors within which two sizes count as equally good."""
AS_SHORT = 0.01
"""Relative difference from the shortest description up to which one counts as equally good."""


@dataclass(frozen=True)
class TriedSize:
    """A number of experts and its score on held-back rows.

    Attributes
    ----------
    n_experts : int
        The number of experts.
    nats : float
        Mean log P(x | h) + log P(h) of the held-back rows, in nats per row; log P(x) where the
        choice is among mixtures.
    error : float
        Standard error of the difference from the best size, in nats per row; 0 for the best.
    mean_active : float
        Active experts per row.
    density : float or None
        Mean log P(x) of the held-back rows, summed over the codes near those found; None in models
        of earlier versions, which did not compute it.
    density_error : float or None
        Standard error of the difference from the highest density, in nats per row; 0 for the
        highest.
    """

    n_experts: int
    nats: float
    error: float
    mean_active: float
    density: float | None = None
    density_error: float | None = None


@dataclass(frozen=True)
class Selection:
    """How the number of experts was chosen.

    Attributes
    ----------
    n_experts : int
        The chosen number.
    tried : tuple of TriedSize
        All sizes that were tried, from small to large: the selection curve.
    columns : float
        Mean log-likelihood of the held-back rows under independent columns, in nats per row.
    mixture : float or None
        The same under a mixture of as many components, the model with one active expert per row;
        None if `n_active` does not allow it. If mixtures are better than several experts per row,
        the choice is among mixtures, and this is the score of the chosen one.
    n_rows, n_held_back : int
        Rows learnt from, and held-back rows, each as the sum of weights.
    n_largest : int
        Experts of the largest model that was learnt; sizes with experts that were never active are
        not in `tried`.
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
    joint = _beside_best({size: scores.joint for size, scores in curve.items()}, weight)
    density = _beside_best({size: scores.density for size, scores in curve.items()}, weight)
    return tuple(
        TriedSize(size, *joint[size], curve[size].n_active / n_turns, *density[size])
        for size in sorted(curve)
    )


def _beside_best(scores: dict[int, Array], weight: Array) -> dict[int, tuple[float, float]]:
    """Mean score of each size, and the standard error of its difference from the highest."""
    means = {size: float(np.average(known, weights=weight)) for size, known in scores.items()}
    best = scores[max(means, key=lambda size: means[size])]
    return {size: (means[size], standard_error(scores[size] - best, weight)) for size in means}


def standard_error(difference: Array, weight: Array) -> float:
    """Standard error of a mean; a row of weight 3 counts as three rows."""
    total = weight.sum()
    mean = weight @ difference / total
    return float(np.sqrt(weight @ (difference - mean) ** 2 / total / max(total - 1, 1)))


def chosen(tried: tuple[TriedSize, ...], log_scales: float = 0.0) -> int:
    """The smallest of the sizes that are as good as the best.

    First, sizes are kept whose log P(x) is about as high as the highest. Of these, the smallest is
    chosen whose description, by one code per row, is about as short as the shortest of them.
    `log_scales` of the task are added to scores for relative differences, which then do not depend
    on units.
    """
    densities = [(one.density, one.density_error) for one in tried]
    known = [(score, of) for score, of in densities if score is not None and of is not None]
    tried = _as_good(tried, known, log_scales)
    return _as_good(tried, [(one.nats, one.error) for one in tried], log_scales)[0].n_experts


def _as_good(
    tried: tuple[TriedSize, ...], scores: list[tuple[float, float]], log_scales: float
) -> tuple[TriedSize, ...]:
    """The sizes whose scores, given with their errors, are about as high as the highest."""
    best = max(score for score, _ in scores)
    return tuple(
        one
        for one, (score, error) in zip(tried, scores, strict=True)
        if best - score <= min(TIE * error, AS_SHORT * abs(best + log_scales))
    )
