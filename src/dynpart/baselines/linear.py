"""Real-valued codes with linear composition: principal components and sparse dictionaries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning, sparse_encode
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array, Baseline

N_TUNING_ROWS = 500
N_TUNING_STEPS = 5


class PrincipalComponents(Baseline):
    """PCA: the first `max_active` coefficients are the code.

    Parameters
    ----------
    n_components : int, default=10
        Components kept (fewer if the data have no more).
    max_active : int, default=None
        How many of them a code uses; by default all.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.baselines import PrincipalComponents
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> model = PrincipalComponents(1).fit(X)
    >>> bool(np.allclose(model.decode(model.encode(X)), X))
    True
    """

    binary_codes = False

    def __init__(
        self,
        n_components: int = 10,
        *,
        max_active: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.max_active = max_active
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """Principal directions, (n_components, n_features)."""
        return self._pca.components_

    def _fit(self, X: NDArray) -> None:
        n_components = min(self.n_components, *X.shape)
        rng = check_random_state(self.random_state)
        self._pca = PCA(n_components, random_state=rng).fit(_floats(X))

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        codes = self._pca.transform(_floats(X))
        codes[:, max_active or self.max_active or codes.shape[1] :] = 0
        return codes

    def _decode(self, H: Array) -> Array:
        return self._pca.inverse_transform(H)


class SparseDictionary(Baseline):
    """Sparse dictionary with real coefficients (scikit-learn's), its penalty tuned.

    While atoms are learnt, the L1 penalty is the one that makes `n_active` atoms active on
    average; rows are then encoded by orthogonal matching pursuit with so many atoms.

    Parameters
    ----------
    n_components : int, default=10
        Number of atoms.
    n_active : int, default=5
        Number of active atoms per row.
    max_iter : int, default=20
        Passes over the data.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    alpha_ : float
        The tuned penalty.
    """

    binary_codes = False

    def __init__(
        self,
        n_components: int = 10,
        *,
        n_active: int = 5,
        max_iter: int = 20,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_active = n_active
        self.max_iter = max_iter
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """Atoms, (n_components, n_features)."""
        return self._atoms

    def _fit(self, X: NDArray) -> None:
        rng = check_random_state(self.random_state)
        self._mean = X.mean(axis=0, dtype=np.float64)
        centred = _floats(X) - self._mean
        seed = rng.randint(2**31 - 1)
        some = centred[rng.permutation(len(X))[:N_TUNING_ROWS]]
        low, high = 1e-3, float(np.abs(centred).sum(axis=1).mean())
        for _ in range(N_TUNING_STEPS):
            middle = float(np.sqrt(low * high))
            atoms = self._learn(some, middle, seed, max_iter=5)
            codes = sparse_encode(some, atoms, algorithm="lasso_cd", alpha=middle)
            too_many = np.count_nonzero(codes, axis=1).mean() > self.n_active
            low, high = (middle, high) if too_many else (low, middle)
        self.alpha_ = float(np.sqrt(low * high))
        self._atoms = self._learn(centred, self.alpha_, seed, max_iter=self.max_iter)

    def _learn(self, X: Array, alpha: float, seed: int, max_iter: int) -> Array:
        return (
            MiniBatchDictionaryLearning(
                self.n_components,
                alpha=alpha,
                max_iter=max_iter,
                batch_size=min(256, len(X)),
                fit_algorithm="cd",
                random_state=seed,
            )
            .fit(X)
            .components_
        )

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        n_active = min(max_active or self.n_active, self.n_components)
        return sparse_encode(
            _floats(X) - self._mean, self._atoms, algorithm="omp", n_nonzero_coefs=n_active
        )

    def _decode(self, H: Array) -> Array:
        return H @ self._atoms + self._mean


def _floats(X: NDArray) -> Array:
    return X.astype(np.float64)
