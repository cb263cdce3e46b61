"""The restricted Boltzmann machine: a product of experts, by persistent contrastive divergence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.neural_network import BernoulliRBM
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array, Baseline
from dynpart.baselines._rules import LogOddsSum, clipped

LEARNING_RATES = (0.3, 0.1, 0.03, 0.01)
MOST_TUNING_ROWS = 2000
TUNING_SHARE = 0.2


class BoltzmannMachine(Baseline):
    """Restricted Boltzmann machine (scikit-learn's), with a tuned learning rate.

    Batch persistent contrastive divergence; the learning rate is the one of a few whose short
    run gives held-out training rows the best pseudo-likelihood, and falls to a tenth in the last
    third. A unit is active if its probability given the row is above 1/2. For a limited number
    of active units, codes are found by greedy likelihood pursuit with the learnt weights.

    Parameters
    ----------
    n_components : int, default=10
        Number of hidden units.
    learning_rate : float, default=None
        Learning rate at the start; None tunes it on held-out rows.
    n_updates : int, default=6000
        Number of updates, one per batch.
    batch_size : int, default=100
        Rows per update.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components, n_features)
        Weights between hidden units and variables.
    bias_ : ndarray of shape (n_features,)
        Biases of the variables.
    learning_rate_ : float
        Learning rate at the start, given or tuned.

    Examples
    --------
    >>> from dynpart.baselines import BoltzmannMachine
    >>> from dynpart.datasets import make_pairs
    >>> X = make_pairs(2)
    >>> model = BoltzmannMachine(3, learning_rate=0.1, n_updates=20, random_state=0).fit(X)
    >>> model.encode(X).shape
    (4, 3)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        learning_rate: float | None = None,
        n_updates: int = 6000,
        batch_size: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.n_updates = n_updates
        self.batch_size = batch_size
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """The experts' probabilities: the logistic function of their weights."""
        return expit(self.weights_)

    def _fit(self, X: NDArray) -> None:
        self._require_binary()
        rng = check_random_state(self.random_state)
        seed = rng.randint(2**31 - 1)
        self.learning_rate_ = self.learning_rate or self._tuned_rate(X, rng, seed)
        self._keep(self._train(X, self.learning_rate_, self.n_updates, seed))

    def _tuned_rate(self, X: NDArray, rng: np.random.RandomState, seed: int) -> float:
        some = X[rng.permutation(len(X))[:MOST_TUNING_ROWS]]
        n_held_out = max(1, int(TUNING_SHARE * len(some)))

        def quality(rate: float) -> float:
            machine = self._train(some[n_held_out:], rate, max(1, self.n_updates // 5), seed)
            return float(machine.score_samples(some[:n_held_out].astype(np.float64)).mean())

        return max(LEARNING_RATES, key=quality)

    def _train(self, X: NDArray, rate: float, n_updates: int, seed: int) -> BernoulliRBM:
        size = min(self.batch_size, len(X))
        machine = BernoulliRBM(
            self.n_components, learning_rate=rate, batch_size=size, random_state=seed
        )
        rng = check_random_state(seed)
        queue = np.empty(0, dtype=np.intp)
        for update in range(n_updates):
            if len(queue) < size:
                queue = rng.permutation(len(X))
            if update == 2 * n_updates // 3:
                machine.set_params(learning_rate=rate / 10)
            machine.partial_fit(X[queue[:size]].astype(np.float64))
            queue = queue[size:]
            if update == 0:
                # scikit-learn starts from zero; this bias reproduces the column means.
                mean = clipped(X.mean(axis=0, dtype=np.float64))
                machine.intercept_visible_ = np.log(mean / (1 - mean))
        return machine

    def _keep(self, machine: BernoulliRBM) -> None:
        self._machine = machine
        self.weights_ = machine.components_
        self.bias_ = machine.intercept_visible_

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        if max_active is None:
            return (self._machine.transform(X.astype(np.float64)) > 0.5).astype(np.uint8)
        return pursue_log_odds(X, self.weights_, self.bias_, max_active)

    def _decode(self, H: Array) -> Array:
        return expit(H @ self.weights_ + self.bias_)


def pursue_log_odds(X: NDArray, weights: Array, bias: Array, max_active: int) -> NDArray[np.uint8]:
    """Binary codes by greedy pursuit for units whose log-odds add up.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Binary rows.
    weights : ndarray of shape (n_units, n_features)
    bias : ndarray of shape (n_features,)
    max_active : int

    Returns
    -------
    codes : ndarray of shape (n_rows, n_units)
    """
    limit = 13.0  # odds within 1e±6
    mu, base = expit(np.clip(weights, -limit, limit)), expit(np.clip(bias, -limit, limit))
    return LogOddsSum().pursue(X, mu, base, max_active=max_active)
