"""Binary units composed by a rule: maximal causes, max-min, equal mixture, log-odds dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array, Baseline
from dynpart.baselines._pursuit import LIMIT
from dynpart.baselines._rules import CLIP, RULES, clipped
from dynpart.families import SURE

LIMITS = {"likelihood": LIMIT, "reconstruction": SURE / (1 - SURE)}
"""Limit on the odds when rows are encoded, by criterion."""
N_TUNING_ROWS = 500
N_BISECTIONS = 12


class ComposedPursuit(Baseline):
    """Binary units learnt as in `DynamicPartitionModel`, under another composition rule.

    Parameters
    ----------
    n_components : int, default=10
        Number of units.
    rule : {"max", "max-min", "equal", "log-odds"}, default="max"
        How active units compose: the largest probability (Luecke and Sahani, 2008), strongest
        vote for plus strongest vote against (Goessling and Amit, 2015), the average (Amit and
        Trouve, 2007), or the sum of log-odds on top of a bias (a sparse dictionary).
    max_active : int, default=None
        Maximum number of active units per row.
    mean_active : float, default=None
        Target mean number of active units, to which the activation cost (the sparsity penalty) is
        tuned. None sets the cost to 0.
    criterion : {"likelihood", "reconstruction"}, default="likelihood"
        Criterion for the choice of codes in encoding, as in `DynamicPartitionModel`.
    n_starts : int, default=1
        Number of pursuits per row in encoding, each from another unit; the best code is kept.
    max_iter : int, default=40
        Number of iterations.
    batch_size : int, default=2000
        Maximum number of rows drawn per iteration.
    epsilon : float, default=0.5
        Weight, in rows, of the average of the data in each template.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    means_ : ndarray of shape (n_components, n_features)
        Templates as probabilities.
    base_ : ndarray of shape (n_features,)
        Probabilities where no unit is active.
    cost_ : float
        Activation cost of a unit, in nats.

    Examples
    --------
    >>> from dynpart.baselines import ComposedPursuit
    >>> from dynpart.datasets import make_bars
    >>> X = make_bars(3, n_samples=200, random_state=0)
    >>> model = ComposedPursuit(6, rule="max", random_state=0).fit(X)
    >>> model.encode(X).shape, model.decode(model.encode(X)).shape
    ((200, 6), (200, 9))
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        rule: str = "max",
        max_active: int | None = None,
        mean_active: float | None = None,
        criterion: str = "likelihood",
        n_starts: int = 1,
        max_iter: int = 40,
        batch_size: int = 2000,
        epsilon: float = 0.5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.rule = rule
        self.max_active = max_active
        self.mean_active = mean_active
        self.criterion = criterion
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.epsilon = epsilon
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """Probabilities of the units, (n_components, n_features)."""
        return self.means_

    def _fit(self, X: NDArray) -> None:
        self._require_binary()
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, got {self.rule!r}")
        if self.criterion not in LIMITS:
            raise ValueError(
                f"criterion must be one of {', '.join(LIMITS)}, got {self.criterion!r}"
            )
        rng = check_random_state(self.random_state)
        rule = RULES[self.rule](self.epsilon)
        mean = clipped(X.mean(axis=0, dtype=np.float64))
        base = np.full(X.shape[1], CLIP) if self.rule == "max" else mean
        self.means_ = self._start(X, mean, rng)
        self.cost_ = 0.0
        for t in range(self.max_iter):
            progress = t / max(1, self.max_iter - 1)
            rows = X
            if progress < 0.7 or len(X) > self.batch_size:
                rows = X[rng.randint(len(X), size=min(len(X), self.batch_size))]
            if self.mean_active is not None and t % 5 == 0:
                self.cost_ = self._tuned_cost(rows, base)
            codes = self._pursue(rows, base, self.max_active).astype(np.float64)
            self.means_, base = rule.update(
                rows.astype(np.float64), codes, self.means_, base, mean, 2.0 * 10.0**progress
            )
        self.base_ = base
        if self.mean_active is not None:
            self.cost_ = self._tuned_cost(X[rng.permutation(len(X))], base)

    def _start(self, X: NDArray, mean: Array, rng: np.random.RandomState) -> Array:
        """Random values around the data's average, or around 1/2 for rules with log-odds."""
        noise = rng.uniform(-1, 1, (self.n_components, X.shape[1]))
        centre = mean if self.rule in ("max", "equal") else np.full_like(mean, 0.5)
        return clipped(centre + 0.5 * np.sqrt(mean * (1 - mean)) * noise)

    def _pursue(
        self, X: NDArray, base: Array, max_active: int | None, **search: Any
    ) -> NDArray[np.uint8]:
        return RULES[self.rule](self.epsilon).pursue(
            X, self.means_, base, cost=self.cost_, max_active=max_active, **search
        )

    def _tuned_cost(self, X: NDArray, base: Array) -> float:
        """The cost at which `mean_active` units are active on average, by bisection."""
        rule = RULES[self.rule](self.epsilon)
        rows = X[:N_TUNING_ROWS]

        def mean_active(cost: float) -> float:
            codes = rule.pursue(rows, self.means_, base, cost=cost, max_active=self.max_active)
            return float(codes.sum(axis=1).mean())

        wanted = float(self.mean_active or 0)
        low, high = 0.0, float(X.shape[1])
        if mean_active(low) <= wanted:
            return low
        for _ in range(N_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if mean_active(middle) > wanted else (low, middle)
        return (low + high) / 2

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        most, limit = max_active or self.max_active, LIMITS[self.criterion]
        return self._pursue(X, self.base_, most, limit=limit, n_starts=self.n_starts)

    def _decode(self, H: Array) -> Array:
        return RULES[self.rule](self.epsilon).compose(H, self.means_, self.base_)
