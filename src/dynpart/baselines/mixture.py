"""One active unit per row: mixtures of Bernoullis or diagonal Gaussians, and k-means."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array, Baseline, one_hot
from dynpart.baselines._rules import CLIP

RELATIVE_VARIANCE_FLOOR = 1e-2
FEW_ROWS = 20_000


class Mixture(Baseline):
    """Mixture of product Bernoullis (binary rows) or of diagonal Gaussians (gray rows).

    Parameters
    ----------
    n_components : int, default=10
        Number of components.
    max_iter : int, default=50
        Maximum number of EM iterations.
    epsilon : float, default=0.5
        Weight, in rows, of the average of the data in each Bernoulli template.
    clip : float, default=0.001
        Probabilities of Bernoulli templates are kept this far from 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    means_ : ndarray of shape (n_components, n_features)
        Means of the components.
    weights_ : ndarray of shape (n_components,)
        Probabilities of the components; they sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.baselines import Mixture
    >>> X = np.repeat(np.eye(2, dtype=np.uint8), 50, axis=0)
    >>> model = Mixture(2, random_state=0).fit(X)
    >>> bool((model.decode(model.encode(X)).round() == X).all())
    True
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        max_iter: int = 50,
        epsilon: float = 0.5,
        clip: float = CLIP,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.epsilon = epsilon
        self.clip = clip
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """Means of the components, (n_components, n_features)."""
        return self.means_

    def score_samples(self, X: NDArray) -> Array:
        """Exact log P(x) of each row, in nats.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows,)
            Log P(x), summed over all components.
        """
        if not self.binary_:
            return self._gaussian.score_samples(X)
        return logsumexp(self._joint(X), axis=1)

    def _fit(self, X: NDArray) -> None:
        self.groups_ = np.zeros(self.n_components, dtype=np.intp)
        rng = check_random_state(self.random_state)
        if self.binary_:
            self._fit_bernoulli(X.astype(np.float32), rng)
            return
        floor = RELATIVE_VARIANCE_FLOOR * float(X.var(axis=0).mean())
        self._gaussian = GaussianMixture(
            self.n_components,
            covariance_type="diag",
            max_iter=self.max_iter,
            reg_covar=floor or 1e-6,
            random_state=rng,
        ).fit(X)
        self.means_ = self._gaussian.means_
        self.weights_ = self._gaussian.weights_

    def _fit_bernoulli(self, X: NDArray[np.float32], rng: np.random.RandomState) -> None:
        mean = X.mean(axis=0, dtype=np.float64)
        some = X[rng.permutation(len(X))[: 50 * self.n_components]]
        seeds = kmeans_plusplus(some, self.n_components, random_state=rng)[0]
        self.means_ = self._clipped(0.5 * mean + 0.5 * seeds)
        self.weights_ = np.full(self.n_components, 1 / self.n_components)
        for _ in range(self.max_iter):
            joint = self._joint(X)
            posterior = np.exp(joint - logsumexp(joint, axis=1, keepdims=True)).astype(np.float32)
            size = posterior.sum(axis=0, dtype=np.float64)[:, None]
            on = (posterior.T @ X).astype(np.float64)
            self.means_ = self._clipped((on + self.epsilon * mean) / (size + self.epsilon))
            self.weights_ = (size[:, 0] + 1e-3) / (size.sum() + 1e-3 * len(size))

    def _clipped(self, means: Array) -> Array:
        return np.clip(means, self.clip, 1 - self.clip)

    def _joint(self, X: NDArray) -> Array:
        """Log P(x, k), shape (n_rows, n_components)."""
        log_on, log_off = np.log(self.means_), np.log1p(-self.means_)
        odds = (log_on - log_off).astype(np.float32)
        return X.astype(np.float32, copy=False) @ odds.T + (
            log_off.sum(axis=1) + np.log(self.weights_)
        )

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        joint = self._joint(X) if self.binary_ else self._gaussian.predict_proba(X)
        return one_hot(joint.argmax(axis=1), self.n_components)

    def _decode(self, H: Array) -> Array:
        return H @ self.means_


class KMeansCodes(Baseline):
    """k-means: the code is the nearest centre.

    Parameters
    ----------
    n_components : int, default=10
        Number of components.
    n_init : int, default=1
        Number of starts; the best result is kept.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.baselines import KMeansCodes
    >>> KMeansCodes(2, random_state=0).fit(np.eye(2)).encode(np.eye(2)).sum()
    np.uint64(2)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        n_init: int = 1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """The centres, (n_components, n_features)."""
        return self._kmeans.cluster_centers_

    def _fit(self, X: NDArray) -> None:
        self.groups_ = np.zeros(self.n_components, dtype=np.intp)
        self._kmeans = KMeans(
            self.n_components,
            n_init=self.n_init,
            max_iter=300 if len(X) <= FEW_ROWS else 40,
            random_state=check_random_state(self.random_state),
        ).fit(_floats(X))

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        return one_hot(self._kmeans.predict(_floats(X)), self.n_components)

    def _decode(self, H: Array) -> Array:
        return H @ self.templates


def _floats(X: NDArray) -> NDArray:
    return X.astype(np.float32) if X.dtype.kind in "bu" else X
