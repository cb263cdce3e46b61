"""Amplitudes: gains and offsets of active Gaussian experts, estimated for each row.

The paper's discussion proposes real-valued latent variables in addition to binary ones, for
intensities and contrasts. An active expert predicts ``gain * opinion + offset`` for the variables
it owns. Both numbers have normal priors and are integrated out, so the log-likelihood of a code is
exact; the estimates are penalised least squares. The formulas use five sums over the variables that
an expert owns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import namespace
from dynpart.families import Family

Array = NDArray[np.float64]

MODES = ("offset", "gain")
GAIN_VARIANCE = 0.25
"""Prior variance of gains, around 1."""
OFFSET_SHARE = 1.0
"""Prior variance of offsets, around 0, relative to the smallest variance of an expert."""
N_SUMS = 5
"""Sums over variables: of w, w f, w f f, w e and w f e.

The expert has variance 1 / w and opinion f, measured from the common level; e is the residual.
"""


@dataclass(frozen=True)
class Amplitude:
    """Which numbers vary from row to row, and their priors, in the family's units.

    Attributes
    ----------
    gain : bool
        Whether gains vary, too, or only offsets.
    level : float
        The average of the data, from which opinions are measured before they are multiplied.
    offset_variance, gain_variance : float
        Of the priors.
    """

    gain: bool
    level: float
    offset_variance: float
    gain_variance: float = GAIN_VARIANCE

    @classmethod
    def of(cls, mode: str | None, family: Family) -> Amplitude | None:
        """The amplitudes of this mode; None if there are none.

        Parameters
        ----------
        mode : {"offset", "gain"} or None
        family : Family
            Must be normal, with one scale for all columns.
        """
        if mode is None:
            return None
        floor: Any = getattr(family, "floor", None)
        if not family.is_normal or not isinstance(floor, float | int):
            raise ValueError(
                f"amplitude={mode!r} is for real columns that share one scale, found "
                f"family={family.name!r}; use amplitude=None"
            )
        centre: Any = family.centre  # type: ignore[attr-defined]
        unit = family.unit
        return cls(mode == "gain", float(centre.mean()), OFFSET_SHARE * floor / unit / unit)

    def shift(self, family: Any) -> Any:
        """Distance of each column's centre from the common level, shape (n_features,)."""
        return (family.centre - self.level) / family.unit

    def deltas(self, sums: Any) -> Any:
        """Gain minus 1, and offset: the penalised least-squares solution for these sums.

        Parameters
        ----------
        sums : sequence of 5 arrays

        Returns
        -------
        gain, offset : array
            Shaped like each of the sums.
        """
        ww, wf, wff, we, wfe = sums
        b = ww + 1 / self.offset_variance
        if not self.gain:
            return 0.0 * we, we / b
        a = wff + 1 / self.gain_variance
        determinant = a * b - wf * wf
        return (b * wfe - wf * we) / determinant, (a * we - wf * wfe) / determinant

    def evidence(self, sums: Any) -> Any:
        """Gain in log-likelihood over gain 1 and offset 0, in nats.

        Gains and offsets are integrated out.
        """
        ww, wf, wff, we, wfe = sums
        xp = namespace(we)
        gain, offset = self.deltas(sums)
        if not self.gain:
            return 0.5 * we * offset - 0.5 * xp.log1p(ww * self.offset_variance)
        a, b = wff * self.gain_variance + 1, ww * self.offset_variance + 1
        volume = a * b - wf * wf * (self.gain_variance * self.offset_variance)
        return 0.5 * (wfe * gain + we * offset) - 0.5 * xp.log(volume)

    def in_data_units(self, gain: Any, offset: Any, unit: float) -> Any:
        """Gains and offsets in the data's units: a value is gain * opinion + offset."""
        xp = namespace(offset)
        return xp.stack([1 + gain, unit * offset - gain * self.level], axis=-1)

    def drawn(self, shape: tuple[int, ...], unit: float, rng: np.random.RandomState) -> Array:
        """Gains and offsets drawn from their priors, shape (*shape, 2), in the data's units."""
        gain = self.gain * math.sqrt(self.gain_variance) * rng.standard_normal(shape)
        offset = math.sqrt(self.offset_variance) * rng.standard_normal(shape)
        return self.in_data_units(gain, offset, unit)


@dataclass(frozen=True, eq=False)
class Terms:
    """Arrays of the experts that amplitudes are computed from, in the family's units.

    Attributes
    ----------
    mean : array of shape (n_experts, n_features)
    weight : array of shape (n_experts, n_features)
        One over the variance.
    measured : array of shape (n_experts, n_features)
        Opinions, measured from the common level.
    """

    mean: Any
    weight: Any
    measured: Any

    @classmethod
    def of(cls, family: Any, eta: Any, amplitude: Amplitude) -> Terms:
        """The terms of experts with these mean parameters."""
        mean = eta[0]
        return cls(mean, 1 / (eta[1] - mean * mean), mean + amplitude.shift(family))

    def sums(self, x: Any, observed: Any, owned: Any, k: Any) -> list[Any]:
        """The five sums over the variables that expert k owns.

        Parameters
        ----------
        x : array of shape (n_rows, n_features)
            The family's first statistic; any number for missing values.
        observed, owned : array of shape (n_rows, n_features), bool
        k : int, or array of shape (n_rows,)
        """
        xp = namespace(x)
        mean, weight, measured = self.mean[k], self.weight[k], self.measured[k]
        w = xp.where(owned & observed, weight, 0.0)
        e = xp.where(observed, x - mean, 0.0)
        wf = w * measured
        return [part.sum(axis=-1) for part in (w, wf, wf * measured, w * e, wf * e)]


def row_amplitudes(
    T: Any, observed: Any, owner: Any, active: Any, family: Any, eta: Any, amplitude: Amplitude
) -> tuple[Any, Any, Any]:
    """Gains and offsets of all experts in some rows, and their gain in log-likelihood.

    Parameters
    ----------
    T : array of shape (n_statistics, n_rows, n_features)
    observed : array of shape (n_rows, n_features), bool
    owner : array of shape (n_rows, n_features)
    active : array of shape (n_rows, n_experts), bool
    family : Family
    eta : array of shape (2, n_experts, n_features)
    amplitude : Amplitude

    Returns
    -------
    gain, offset : array of shape (n_rows, n_experts)
        Gains minus 1, and offsets, in the family's units; 0 where an expert is not active.
    evidence : array of shape (n_rows,)
        Their contribution to the log-likelihood of each row.
    """
    terms, xp = Terms.of(family, eta, amplitude), namespace(T)
    n_experts = eta.shape[1]
    by_expert = [terms.sums(T[0], observed, owner == k, k) for k in range(n_experts)]
    sums = [xp.stack(list(part), axis=1) for part in zip(*by_expert, strict=True)]
    gain, offset = amplitude.deltas(sums)
    worth = xp.where(active, amplitude.evidence(sums), 0.0)
    gain, offset = (xp.where(active, part, 0.0) for part in (gain, offset))
    return gain, offset, worth.sum(axis=1)
