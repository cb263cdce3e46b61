"""The prior over codes in a model file, and its default for older files without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.storage._container import ModelFileError

if TYPE_CHECKING:
    from dynpart.prior import CodePrior

PRIOR = ("prior.log_weight", "prior.parent", "prior.log_table")
MOST_TYPES = 10_000
"""Maximum number of types in a file."""
LEAST_LOG = -1e4
"""Smallest log-probability."""
AGREEMENT = 1e-6
"""Tolerance for the sum of probabilities."""


def pack_prior(prior: CodePrior) -> dict[str, NDArray[Any]]:
    """Arrays of the prior."""
    parts = (prior.log_weight, np.asarray(prior.parent, dtype=np.int64), prior.log_table)
    return dict(zip(PRIOR, parts, strict=True))


def unpack_prior(path: Any, arrays: Mapping[str, Any], probabilities: NDArray) -> CodePrior:
    """The prior of a file; independent activations if the file has none.

    Parameters
    ----------
    path : path-like
    arrays : dict
    probabilities : ndarray of shape (n_experts,)
        Activation frequencies of the experts.
    """
    from dynpart.prior import CodePrior

    if not any(name in arrays for name in PRIOR):
        return CodePrior.independent(probabilities)
    log_weight, parent, log_table = (arrays.get(name, np.empty(0)) for name in PRIOR)
    n_types, n_experts = log_weight.size, len(probabilities)
    sound = (
        0 < n_types <= MOST_TYPES
        and log_weight.shape == (n_types,)
        and parent.shape == (n_types, n_experts)
        and log_table.shape == (n_types, n_experts, 2, 2)
        and parent.dtype == np.int64
        and _is_distribution(log_weight)
        and _is_distribution(log_table)
        and ((log_table[:, :, 0] == log_table[:, :, 1]).all(axis=-1) | (parent >= 0)).all()
    )
    if sound:
        prior = CodePrior(log_weight, parent, log_table)
        try:
            _ = prior.generations
        except ValueError:
            sound = False
    if not sound:
        raise ModelFileError(f"{path} holds an invalid prior over codes")
    return prior


def _is_distribution(log_p: NDArray[Any]) -> bool:
    """Whether these are logarithms of probabilities that sum to one along the last axis."""
    if log_p.dtype != np.float64 or not ((log_p >= LEAST_LOG) & (log_p <= AGREEMENT)).all():
        return False
    return bool((np.abs(np.exp(log_p).sum(axis=-1) - 1) <= AGREEMENT).all())


def with_prior(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata with the parameter `prior`, which older files lack.

    In older versions codes were chosen by likelihood alone or under independent activations.
    """
    parts = {name: meta[name] for name in ("parameters", "counted_with") if name in meta}
    valid = {name: part for name, part in parts.items() if isinstance(part, dict)}
    return {**meta, **{name: _with_prior(part) for name, part in valid.items()}}


def _with_prior(parameters: dict[str, Any]) -> dict[str, Any]:
    if "prior" in parameters or not parameters:
        return parameters
    if parameters.get("activation_cost") == "prior":
        return {**parameters, "prior": "independent", "activation_cost": 0.0}
    return {**parameters, "prior": None}
