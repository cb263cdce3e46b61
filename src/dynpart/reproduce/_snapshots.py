"""Templates as they were during training: the same fit, stopped early. Knows plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from dynpart.estimator import PLANS, DynamicPartitionModel
from dynpart.learning import Plan, Step


class StoppedPlan:
    """A plan that is left after some of its iterations.

    Every draw of the learner is seeded by its iteration, so a fit with this plan goes the way of
    the whole fit as far as it goes.

    Parameters
    ----------
    plan : Plan
    n_iter : int
        Iterations of the whole plan.
    stop : int
        Iterations to follow; 0 changes nothing.
    """

    def __init__(self, plan: Plan, n_iter: int, stop: int) -> None:
        self._plan = plan
        self._n_iter = n_iter
        self._stop = stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    def steps(self, n_iter: int, *sizes: int) -> list[Step]:
        """The first steps of the whole plan."""
        steps = self._plan.steps(self._n_iter, *sizes)
        if self._stop == 0:
            return [replace(steps[0], n_updates=0)]
        return steps[: self._stop]


def snapshots(
    model: DynamicPartitionModel, X: NDArray[Any], iterations: Iterable[int]
) -> dict[int, NDArray[np.float64]]:
    """Templates of a model's fit to X after some iterations, by fitting it again.

    Parameters
    ----------
    model : DynamicPartitionModel
        With an integer `random_state`.
    X : ndarray of shape (n_rows, n_features)
    iterations : iterable of int

    Returns
    -------
    dict of int to ndarray of shape (n_experts, n_features)
    """
    whole = PLANS[model.learning]() if isinstance(model.learning, str) else model.learning
    taken = {}
    for stop in iterations:
        plan = StoppedPlan(whole, model.max_iter, stop)
        stopped = clone(model).set_params(learning=plan, max_iter=max(1, stop), verbose=0)
        taken[stop] = stopped.fit(X).means_
    return taken
