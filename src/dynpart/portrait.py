"""A read-only view of a model file: its experts in words, without scikit-learn or kernels."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, Self

from dynpart.describing import DescribesItself
from dynpart.kept import KeepsExperts
from dynpart.opinions import Opinions
from dynpart.prior import CodePrior, RowType
from dynpart.storage import restore

DEFAULTS: dict[str, Any] = {
    "n_experts": 10,
    "family": "auto",
    "columns": None,
    "unknown": "error",
    "max_iter": 30,
    "learning": "annealed",
    "expert_update": "average",
    "n_init": 1,
    "max_active": None,
    "n_active": None,
    "prior": "auto",
    "activation_cost": 0.0,
    "criterion": "likelihood",
    "n_starts": None,
    "n_swaps": None,
    "prune": False,
    "amplitude": None,
    "autoregressive": None,
    "variance_floor": None,
    "connectivity": None,
    "tol": 1e-5,
    "engine": "auto",
    "device": None,
    "n_jobs": None,
    "random_state": None,
    "verbose": 0,
}
"""Parameters of the estimator and their defaults; a test compares the two."""


class Portrait(DescribesItself, KeepsExperts):
    """The attributes of a fitted model, without its methods for data.

    Parameters
    ----------
    **parameters
        Parameters of the estimator; values of a file are checked when a model is created from it.
    """

    prior: str | None
    prior_: CodePrior

    def __init__(self, **parameters: Any) -> None:
        self.__dict__.update(DEFAULTS | parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""
        return {name: getattr(self, name) for name in DEFAULTS}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters."""
        self.__dict__.update(parameters)
        return self

    @property
    def types_(self) -> tuple[RowType, ...]:
        """Types of rows, the most frequent first."""
        return self.prior_.row_types()

    @cached_property
    def _opinions_once(self) -> Opinions:
        return super()._opinions()

    def _opinions(self) -> Opinions:
        return self._opinions_once

    def _validate_params(self) -> None:
        pass

    def _ready(self) -> int:
        return len(self.means_)  # type: ignore[attr-defined]


def portrait(path: str | os.PathLike[str]) -> Portrait:
    """Read a model file; errors are those of :func:`dynpart.load`."""
    return restore(path, Portrait)
