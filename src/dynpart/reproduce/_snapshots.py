"""Templates during training, recorded by wrappers of plan and family."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dynpart.estimator import DynamicPartitionModel
from dynpart.fitting import PLANS

Array = NDArray[np.float64]


class ListeningFamily:
    """A family that records the templates after every expert update of one run.

    Parameters
    ----------
    family : Family
    """

    def __init__(self, family: Any) -> None:
        self._family = family
        self.templates: list[Array] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._family, name)

    def update(self, *sums: Any) -> Array:
        """Update as the family does (eq. 5 and 6), and record the means."""
        eta = self._family.update(*sums)
        self.templates.append(self._family.mean(eta))
        return eta

    def shrunk(self, *opinions: Any) -> tuple[Array, float]:
        """Shrink as the family does, at the end of the last update, and record the means."""
        eta, amount = self._family.shrunk(*opinions)
        self.templates[-1] = self._family.mean(eta)
        return eta, amount


class ListeningPlan:
    """A plan that records its runs, one per start.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self.runs: list[list[Array]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    def start(self, family: Any, *sizes: Any) -> Any:
        """Start as the plan does, and record the means."""
        listening = ListeningFamily(family)
        experts = self._plan.start(listening, *sizes)
        listening.templates.append(family.mean(experts.eta))
        self.runs.append(listening.templates)
        return experts


def fitted_aside(model: DynamicPartitionModel, X: NDArray[Any]) -> DynamicPartitionModel:
    """The model fitted for snapshots; warnings are those of the kept fit only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


def snapshots(
    model: DynamicPartitionModel, X: NDArray[Any], iterations: Iterable[int]
) -> dict[int, Array]:
    """Templates of a model's fit to X after some iterations, by fitting it once more.

    Parameters
    ----------
    model : DynamicPartitionModel
        With an integer `random_state`.
    X : ndarray of shape (n_rows, n_features)
    iterations : iterable of int
        0 is the start. A number beyond the last iteration gives the final templates.

    Returns
    -------
    dict of int to ndarray of shape (n_experts, n_features)
    """
    wanted = sorted(iterations)
    if not wanted:
        return {}
    plan = ListeningPlan(
        PLANS[model.learning]() if isinstance(model.learning, str) else model.learning
    )
    fitted = fitted_aside(clone(model).set_params(learning=plan, verbose=0), X)
    # Of several starts, the kept one has the model's final templates.
    kept = min(plan.runs, key=lambda run: float(np.abs(run[-1] - fitted.means_).max()))
    steps = [record.step for record in fitted.history_]
    updates = [step.n_batches if step.n_rows else 1 for step in steps]
    position = np.concatenate([[0], np.cumsum(updates)])
    return {t: kept[position[t]] for t in sorted({min(t, len(steps)) for t in wanted})}
