"""Composition rules for binary units: how active units compose, and how templates are updated.

Every rule offers the composed probabilities of codes and one update of the templates with codes
fixed (an EM step where the rule has one, a damped Newton step where it has none). Sums over
active units are matrix products with the codes H of shape (n_rows, n_units).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from dynpart.baselines import _pursuit

Array = NDArray[np.float64]

CLIP = 1e-3
N_NEWTON_STEPS = 3


def clipped(mu: Array) -> Array:
    """Probabilities inside [CLIP, 1 - CLIP], as in our own model."""
    return np.clip(mu, CLIP, 1 - CLIP)


@dataclass(frozen=True)
class Rule(ABC):
    """How active units compose a template.

    Parameters
    ----------
    epsilon : float
        Weight, in rows, of the average of the data (or of abstaining) in each template.
    """

    epsilon: float = 0.5
    kernel: ClassVar[int]

    @abstractmethod
    def compose(self, H: Array, mu: Array, base: Array) -> Array:
        """Probabilities composed by codes, (n_rows, n_features); `base` is for no unit."""

    @abstractmethod
    def update(
        self, X: Array, H: Array, mu: Array, base: Array, mean: Array, sharpness: float
    ) -> tuple[Array, Array]:
        """Better templates (n_units, n_features) and base (n_features,) for fixed codes.

        `sharpness` is the order of the power mean that replaces a maximum.
        """

    def pursue(
        self,
        X: NDArray,
        mu: Array,
        base: Array,
        *,
        cost: float = 0.0,
        limit: float = _pursuit.LIMIT,
        min_active: int = 0,
        max_active: int | None = None,
        n_starts: int = 1,
    ) -> NDArray[np.uint8]:
        """Binary codes by greedy likelihood matching pursuit."""
        units = mu if self.kernel == _pursuit.EQUAL else mu / (1 - mu)
        order, _ = _pursuit.pursue(
            self.kernel,
            X,
            units,
            base / (1 - base),
            cost=cost,
            limit=limit,
            min_active=min_active,
            max_active=max_active,
            n_starts=n_starts,
        )
        return _pursuit.codes_from_order(order, len(mu))


@dataclass(frozen=True)
class Maximum(Rule):
    """The maximum of the probabilities (maximal causes, Luecke and Sahani 2008).

    As in their paper, learning replaces the maximum by a power mean of order `sharpness`: each
    active unit is responsible in proportion to mu ** sharpness. In our terms, expertise is a
    function of the opinion.
    """

    kernel: ClassVar[int] = _pursuit.MAX

    def compose(self, H: Array, mu: Array, base: Array) -> Array:
        out = np.broadcast_to(base, (len(H), len(base))).copy()
        for k, unit in enumerate(mu):
            rows = H[:, k] > 0
            out[rows] = np.maximum(out[rows], unit)
        return out

    def update(
        self, X: Array, H: Array, mu: Array, base: Array, mean: Array, sharpness: float
    ) -> tuple[Array, Array]:
        power = mu**sharpness
        total = H @ power + base**sharpness
        weight = power * (H.T @ (1 / total))
        on = power * (H.T @ (X / total))
        return clipped((on + self.epsilon * mean) / (weight + self.epsilon)), base


@dataclass(frozen=True)
class MaximumMinimum(Rule):
    """Strongest vote for plus strongest vote against, in log-odds; a unit may abstain.

    Our reading of the max-min rule of Goessling and Amit (2015): agreeing units gain nothing from
    each other, opposing ones cancel. Both extremes are learnt as soft ones of order `sharpness`.
    """

    kernel: ClassVar[int] = _pursuit.MAX_MIN

    def compose(self, H: Array, mu: Array, base: Array) -> Array:
        votes = logit(mu)
        highest = np.zeros((len(H), mu.shape[1]))
        lowest = np.zeros_like(highest)
        for k, vote in enumerate(votes):
            rows = H[:, k] > 0
            highest[rows] = np.maximum(highest[rows], vote)
            lowest[rows] = np.minimum(lowest[rows], vote)
        return expit(highest + lowest)

    def update(
        self, X: Array, H: Array, mu: Array, base: Array, mean: Array, sharpness: float
    ) -> tuple[Array, Array]:
        votes = logit(mu)
        for _ in range(N_NEWTON_STEPS):
            up, down = np.exp(sharpness * votes), np.exp(-sharpness * votes)
            above, below = 1 + H @ up, 1 + H @ down
            p = expit((np.log(above) - np.log(below)) / sharpness)
            pull, curvature = X - p, p * (1 - p)
            slope = up * (H.T @ (pull / above)) + down * (H.T @ (pull / below))
            bend = up * (H.T @ (curvature / above)) + down * (H.T @ (curvature / below))
            step = (slope - self.epsilon * votes) / (bend + self.epsilon)
            votes = logit(clipped(expit(votes + np.clip(step, -1, 1))))
        return expit(votes), base


@dataclass(frozen=True)
class EqualMixture(Rule):
    """The average of the active templates (patchwork of parts, Amit and Trouve 2007)."""

    kernel: ClassVar[int] = _pursuit.EQUAL

    def compose(self, H: Array, mu: Array, base: Array) -> Array:
        return (H @ mu) / np.maximum(H.sum(axis=1, keepdims=True), 1)

    def update(
        self, X: Array, H: Array, mu: Array, base: Array, mean: Array, sharpness: float
    ) -> tuple[Array, Array]:
        # EM: the responsibility of an active unit is proportional to its likelihood of the value.
        on = mu * (H.T @ (X / (H @ mu + 1e-12)))
        off = (1 - mu) * (H.T @ ((1 - X) / (H @ (1 - mu) + 1e-12)))
        return clipped((on + self.epsilon * mean) / (on + off + self.epsilon)), base


@dataclass(frozen=True)
class LogOddsSum(Rule):
    """The sum of log-odds on top of a base (products of experts, sparse dictionaries)."""

    kernel: ClassVar[int] = _pursuit.LOG_ODDS

    def compose(self, H: Array, mu: Array, base: Array) -> Array:
        return expit(H @ logit(mu) + logit(base))

    def update(
        self, X: Array, H: Array, mu: Array, base: Array, mean: Array, sharpness: float
    ) -> tuple[Array, Array]:
        votes, bias = logit(mu), logit(base)
        n_active = H.sum(axis=1, keepdims=True) + 1  # all of them, and the bias, change together
        for _ in range(N_NEWTON_STEPS):
            p = expit(H @ votes + bias)
            bend = n_active * p * (1 - p)
            step = (H.T @ (X - p) - self.epsilon * votes) / (H.T @ bend + self.epsilon)
            shift = (X - p).sum(axis=0) / (bend.sum(axis=0) + self.epsilon)
            votes = logit(clipped(expit(votes + np.clip(step, -1, 1))))
            bias = logit(clipped(expit(bias + np.clip(shift, -1, 1))))
        return expit(votes), expit(bias)


RULES: dict[str, type[Rule]] = {
    "max": Maximum,
    "max-min": MaximumMinimum,
    "equal": EqualMixture,
    "log-odds": LogOddsSum,
}
