"""Check that the densities of experts from a file are finite and can be added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dynpart.storage._container import ModelFileError
from dynpart.storage._numbers import LARGEST

if TYPE_CHECKING:
    from dynpart.engines import Experts

FARTHEST = 1e25
"""Maximum absolute log-density of one expert at the opinions of another, in nats.

Engines sum log-densities over variables in single precision, which ends at 1e38.
"""


def check_experts(path: Any, experts: Experts) -> None:
    """Raise unless each expert's density is finite at the opinions of the others."""
    family = experts.family
    with np.errstate(all="ignore"):
        for eta in (experts.eta, family.equally_sure(experts.eta)):
            mean, variance = family.mean(eta), family.variance(eta)
            theta, log_partition = family.natural(eta)
            nats = (np.abs(theta).max(axis=1) * np.abs(eta).max(axis=1)).sum(axis=0)
            numbers = (mean, variance, theta, log_partition, nats)
            sound = all(np.isfinite(part).all() for part in numbers) and (variance >= 0).all()
            # Opinions outside the family's bounds, except by rounding, have no density.
            sound = sound and (variance >= 0.5 * family.variance(family.constrain(eta))).all()
            if not sound or np.abs(mean).max() > LARGEST or nats.max() > FARTHEST:
                raise ModelFileError(
                    f"{path} holds experts that give no row a probability: opinions and the "
                    "family's bounds are inconsistent"
                )
