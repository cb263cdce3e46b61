"""Templates of the models the paper compares with on the synthetic data. Knows scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

Array = NDArray[np.float64]

N_ITERATIONS = 1000
WANTED_ACTIVE = 5


def other_templates(X: NDArray[Any], n_units: int, seed: int) -> dict[str, Array]:
    """Templates of an autoencoder, a sparse dictionary and a Boltzmann machine, in [0, 1].

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Binary rows.
    n_units : int
    seed : int

    Returns
    -------
    dict of str to ndarray of shape (n_units, n_features)
    """
    rows = np.asarray(X, dtype=np.float64)
    with warnings.catch_warnings():
        # The number of iterations is given; convergence is not required.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            "Autoencoder": autoencoder(rows, n_units, seed),
            "Sparse dictionary": sparse_dictionary(rows, n_units, seed),
            "Restricted Boltzmann machine": boltzmann_machine(rows, n_units, seed),
        }


def autoencoder(X: Array, n_units: int, seed: int) -> Array:
    """One hidden layer of sigmoid units, cross-entropy; the units' outgoing weights as odds."""
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier(
        (n_units,),
        activation="logistic",
        learning_rate_init=0.01,
        max_iter=N_ITERATIONS,
        tol=0,
        n_iter_no_change=N_ITERATIONS,
        random_state=seed,
    )
    return expit(network.fit(X, X.astype(int)).coefs_[1])


def sparse_dictionary(X: Array, n_units: int, seed: int) -> Array:
    """Atoms of the L1 dictionary with about five active atoms, gray where an atom is zero."""
    from sklearn.decomposition import DictionaryLearning

    centred = X - X.mean(axis=0)
    candidates = []
    for alpha in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        model = DictionaryLearning(
            n_units,
            alpha=alpha,
            max_iter=N_ITERATIONS // 10,
            fit_algorithm="cd",
            transform_algorithm="lasso_cd",
            transform_alpha=alpha,
            random_state=seed,
        )
        codes = model.fit_transform(centred)
        n_active = float(np.count_nonzero(np.abs(codes) > 1e-6, axis=1).mean())
        candidates.append((abs(n_active - WANTED_ACTIVE), alpha, model.components_))
    atoms = min(candidates, key=lambda candidate: candidate[:2])[2]
    return 0.5 + 0.5 * atoms / max(float(np.abs(atoms).max()), 1e-12)


def boltzmann_machine(X: Array, n_units: int, seed: int) -> Array:
    """Persistent contrastive divergence on all rows at once; the units' weights as odds."""
    from sklearn.neural_network import BernoulliRBM

    machine = BernoulliRBM(
        n_units,
        learning_rate=0.1,
        batch_size=len(X),
        n_iter=N_ITERATIONS,
        random_state=seed,
    )
    return expit(machine.fit(X).components_)
