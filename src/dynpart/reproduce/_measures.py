"""Measurements of a fitted model on test rows, by the estimator's public methods."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.estimator import DynamicPartitionModel
from dynpart.reproduce._design import Result

MOST_WEIGHT = 0.8
LOCAL_SHARE = 0.2
LOCAL_SPREAD = 0.5
GRAY_LEVELS = 256


@dataclass(frozen=True)
class Clock:
    """Wall-clock time of a fit, and its processor time over all threads.

    Processor time depends less on other work of the machine.
    """

    seconds: float
    processor_seconds: float


def timed(work: Callable[[], object]) -> Clock:
    """Call `work` and time it."""
    start, processor_start = time.perf_counter(), time.process_time()
    work()
    return Clock(time.perf_counter() - start, time.process_time() - processor_start)


def measure(
    model: DynamicPartitionModel,
    X: NDArray[Any],
    clock: Clock,
    image_shape: tuple[int, int] | None = None,
) -> Result:
    """Measure how a fitted model describes rows X of shape (n_rows, n_features)."""
    start = time.perf_counter()
    H = model.transform(X)
    encode_seconds = time.perf_counter() - start
    owner = model.partition(H)
    amplitudes = None if model.amplitude is None else model.amplitudes(X, H)
    composed = model.inverse_transform(H, amplitudes, given=X)
    log_likelihood = float(model.log_likelihood(X, H).mean())
    bits = -(log_likelihood + float(model.log_prior(H).mean())) / math.log(2)
    if is_gray(model):
        error = math.sqrt(float(np.mean((composed - X) ** 2)))
        # A density at 256 levels between 0 and 1: each level is 1/255 wide.
        bits += X.shape[1] * math.log2(GRAY_LEVELS - 1)
    else:
        error = float(np.mean((composed > 0.5) != X.astype(bool)))
    used = H.any(axis=0)
    weight = speaking_weight(model.means_, owner, H.sum(axis=0))[used]
    extent = share(weight) if image_shape is None else spread(weight, image_shape)
    local = extent <= (LOCAL_SHARE if image_shape is None else LOCAL_SPREAD) + 1e-9
    return Result(
        mean_active=float(H.sum(axis=1).mean()),
        error=error,
        log_likelihood=log_likelihood,
        bits=bits,
        fit_seconds=clock.seconds,
        fit_processor_seconds=clock.processor_seconds,
        encode_seconds=encode_seconds,
        n_local=int(local.sum()),
        extent=float(np.median(extent)),
        n_used=int(used.sum()),
    )


def principal_components(
    train: NDArray[Any], test: NDArray[Any], n_components: int
) -> tuple[float, int]:
    """Root mean square error of test rows from principal components, and their number.

    Parameters
    ----------
    train : ndarray of shape (n_train, n_features)
        Rows from which the components are computed.
    test : ndarray of shape (n_test, n_features)
    n_components : int
    """
    from sklearn.decomposition import PCA

    n_components = max(1, min(n_components, *train.shape))
    pca = PCA(n_components, random_state=0).fit(train)
    missed = pca.inverse_transform(pca.transform(test)) - test
    return math.sqrt(float(np.mean(missed**2, dtype=np.float64))), n_components


def is_gray(model: DynamicPartitionModel) -> bool:
    """Whether the experts are Gaussian."""
    return hasattr(model, "variances_")


def speaking_weight(
    means: NDArray[np.float64], owner: NDArray[np.integer], usage: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Weights of experts on variables for their extent, shape (n_experts, n_features).

    An expert's weight on a variable is how often it owns the variable when it is active, times how
    far its opinion there is from the average of all composed rows; it sums to one.

    Parameters
    ----------
    means : ndarray of shape (n_experts, n_features)
    owner : ndarray of shape (n_rows, n_features)
        The responsible expert of every variable.
    usage : ndarray of shape (n_experts,)
        Rows in which each expert is active.
    """
    n_experts, n_features = means.shape
    owned = np.zeros(n_experts * n_features)
    for rows in np.array_split(owner, max(1, owner.size // 2**22)):
        cell = rows.astype(np.intp) * n_features + np.arange(n_features)
        owned += np.bincount(cell.ravel(), minlength=owned.size)
    owned = owned.reshape(n_experts, n_features)
    average = (owned * means).sum(axis=0) / len(owner)
    weight = owned / np.maximum(usage, 1)[:, None] * np.abs(means - average)
    total = weight.sum(axis=1, keepdims=True)
    # An expert whose weights are all zero gets equal weights.
    return np.divide(weight, total, out=np.full_like(weight, 1 / n_features), where=total > 0)


def share(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Smallest share of the variables that holds four fifths of each expert's weight."""
    heaviest = np.cumsum(-np.sort(-weight, axis=1), axis=1)
    n_fewer = np.count_nonzero(heaviest < MOST_WEIGHT - 1e-9, axis=1)
    return (n_fewer + 1) / weight.shape[1]


def spread(weight: NDArray[np.float64], image_shape: tuple[int, int]) -> NDArray[np.float64]:
    """Root mean square distance of each expert's weight from its centre; 1 if it is even."""
    place = np.indices(image_shape).reshape(2, -1).astype(np.float64)
    variance = weight @ (place**2).T - (weight @ place.T) ** 2
    return np.sqrt(variance.sum(axis=1) / place.var(axis=1).sum())
