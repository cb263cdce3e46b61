"""Stability: which experts are found again in bootstrap samples.

Two experts of two models are compared by the rows in which they are active, which has the same
meaning in every family. Names, numbers and opinions of experts may differ between two fits
although both distinguish the same rows.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart.arrays import to_numpy
from dynpart.opinions import level_chances

Array = NDArray[np.float64]

FOUND = math.sqrt(0.5)
"""Minimum correlation of activations for a match: it explains half of the variance."""
ALWAYS_ON = 0.9
"""Minimum share of rows of an expert that is always on."""
ALIKE = 0.9
"""Minimum cosine of the opinions of duplicates, on the variables that they own."""
STEADY, SHAKY = 0.8, 0.5
"""Shares of samples in which an expert is found again: at least the first is steady, below the
second is by chance."""
MOST_DRAWS = 100
"""Maximum number of draws for a sample with an observed value in every column."""


@dataclass(frozen=True)
class Stability:
    """How often each expert is found again in fits to bootstrap samples.

    Attributes
    ----------
    n_bootstraps : int
        Number of samples and fits.
    found : tuple of int
        Number of samples in which each expert was found again.
    agreement : tuple of float
        Mean correlation of each expert's activations with those of its counterpart, 0 where there
        was none.
    always_on : tuple of int
        Experts that are active in at least 90% of the rows and so do not distinguish rows. They
        count as found if the other fit has an expert that is always on.
    duplicates : tuple of (int, int)
        Pairs of experts with the same opinions on the variables they own.
    """

    n_bootstraps: int
    found: tuple[int, ...]
    agreement: tuple[float, ...]
    always_on: tuple[int, ...]
    duplicates: tuple[tuple[int, int], ...]

    @property
    def share(self) -> Array:
        """Share of the samples in which each expert was found again, shape (n_experts,)."""
        return np.array(self.found) / self.n_bootstraps

    def mark(self, expert: int) -> str:
        """The mark of an expert: "steady", "shaky" or "by chance".

        They mean: found again in at least 80% of the samples, in 50% to 80%, in fewer than half.

        Parameters
        ----------
        expert : int
            Number of the expert.
        """
        share = self.found[expert] / self.n_bootstraps
        return "steady" if share >= STEADY else "shaky" if share >= SHAKY else "by chance"

    def words(self, expert: int) -> str:
        """The stability of an expert in words: "steady, found again in 19 of 20 samples".

        Parameters
        ----------
        expert : int
            Number of the expert.
        """
        parts = [
            f"{self.mark(expert)}, found again in {self.found[expert]} of {self.n_bootstraps} "
            "samples"
        ]
        if expert in self.always_on:
            parts.append("always on")
        twins = [str(sum(pair) - expert) for pair in self.duplicates if expert in pair]
        if twins:
            parts.append(f"same opinions as expert {', '.join(twins)}")
        return "; ".join(parts)

    def __str__(self) -> str:
        counts = [sum(self.mark(k) == mark for k in range(len(self.found))) for mark in LEGEND]
        marks = ", ".join(f"{n} {mark}" for n, mark in zip(counts, LEGEND, strict=True) if n)
        more = ""
        if self.always_on:
            more += f"; always on: {', '.join(map(str, self.always_on))}"
        if self.duplicates:
            more += f"; duplicates: {', '.join(f'{j} and {k}' for j, k in self.duplicates)}"
        return f"{self.n_bootstraps} bootstrap samples, {len(self.found)} experts: {marks}{more}"


LEGEND: dict[str, str] = {
    "steady": "found again in at least 80% of the samples: likely to hold in other rows, too",
    "shaky": "found again in 50% to 80% of the samples",
    "by chance": "found again in fewer than half of the samples: do not rely on it",
}
"""Marks and their meanings. A sample has as many rows as the table, drawn with replacement."""


class JudgesStability:
    """The method of a fitted model that estimates the stability of its experts."""

    if TYPE_CHECKING:  # attributes of the model
        _ready: Any
        _experts: Any
        _opinions: Any
        _usual_eta: Any
        _checked_rows: Any
        _engine: Any
        transform: Any
        n_experts_: Any
        _complaint: ClassVar[type[Warning]]

    stability_: Stability

    def stability(
        self,
        X: ArrayLike,
        n_bootstraps: int = 20,
        *,
        random_state: int | np.random.RandomState | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Stability:
        """Count how often each expert is found again in bootstrap samples; sets ``stability_``.

        Each sample has as many rows as `X`, drawn with replacement, and is learnt from as this
        model was, with another seed. Both models then encode the rows of `X`. An expert is found
        again if an expert of the other model is active in the same rows: if the correlation of
        their activations is at least 0.71, so that one explains half of the variance of the other.
        No expert of the other model counts twice.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The training rows, as a table in memory.
        n_bootstraps : int, default=20
            Number of bootstrap samples, each of which is fitted.
        random_state : int, RandomState instance or None, default=None
            Seed or generator of the random numbers; None draws a different seed in every call.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows; 3 is equivalent to three equal rows.

        Returns
        -------
        Stability
            Counts per expert, and which experts are duplicates or always active.

        Examples
        --------
        >>> from dynpart import DynamicPartitionModel
        >>> from dynpart.datasets import make_pairs
        >>> X = make_pairs(3, 200, random_state=0)
        >>> model = DynamicPartitionModel(6, max_iter=10, random_state=0).fit(X)
        >>> model.stability(X, 3, random_state=0).found
        (3, 3, 3, 3, 3, 3)
        """
        from dynpart.sources import is_source
        from dynpart.validation import check_count, checked_weights, random_generator

        n_experts = self._ready()
        check_count("n_bootstraps", n_bootstraps)
        if is_source(X):
            raise ValueError(
                "stability needs a table in memory, found a source of blocks; draw some of its rows"
            )
        rows = self._checked_rows(X, self._engine(X)).to_numpy()
        weight = checked_weights(sample_weight, len(rows))
        weight = np.ones(len(rows)) if weight is None else weight
        own = to_numpy(self.transform(X)).astype(bool)
        observed = ~np.isnan(rows.values if rows.values.dtype.kind == "f" else self._decoded(rows))
        # Imported here, because commands that only read a model must not import scikit-learn.
        from sklearn.base import clone

        rng = random_generator(random_state)
        found, agreement = np.zeros(n_experts, dtype=int), np.zeros(n_experts)
        for _ in range(n_bootstraps):
            counts = _drawn(weight, observed, rng)
            twin = clone(self)
            twin.set_params(
                n_experts=n_experts, random_state=rng.randint(np.iinfo(np.int32).max), verbose=0
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self._complaint)
                twin.fit(X, sample_weight=counts)
            again, alike = matched(own, to_numpy(twin.transform(X)).astype(bool), weight)
            found += again
            agreement += alike / n_bootstraps
        self.stability_ = Stability(
            int(n_bootstraps),
            tuple(int(n) for n in found),
            tuple(float(round(a, 6)) for a in agreement),
            tuple(int(k) for k in np.flatnonzero(_share(own, weight) >= ALWAYS_ON)),
            self._duplicates(own, weight),
        )
        return self.stability_

    def _decoded(self, rows: Any) -> Array:
        return to_numpy(self._experts().family.decode(rows.values))

    def _duplicates(self, active: NDArray[np.bool_], weight: Array) -> tuple[tuple[int, int], ...]:
        """Pairs of used experts with the same opinions on the variables that they own."""
        opinions = self._beyond_usual()
        norm = np.sqrt((opinions**2).sum(axis=1))
        used = (_share(active, weight) > 0) & (norm > 0)
        unit = opinions / np.where(norm > 0, norm, 1.0)[:, None]
        cosine = np.where(np.outer(used, used), unit @ unit.T, 0.0)
        return tuple(
            (int(j), int(k)) for j, k in zip(*np.nonzero(np.triu(cosine >= ALIKE, 1)), strict=True)
        )

    def _beyond_usual(self) -> Array:
        """Opinions minus overall averages, weighted by ownership, (n_experts, n_opinions).

        Probabilities of levels, and means of numbers in standard deviations.
        """
        opinions, experts = self._opinions(), self._experts().like(np.empty(0))
        family, usual = experts.family, self._usual_eta()
        numbers = (family.mean(experts.eta) - family.mean(usual)) / np.sqrt(
            np.maximum(family.variance(usual), np.finfo(float).tiny)
        )
        levelled = np.array(family.levels_of_columns(numbers.shape[1])) > 0
        parts = [np.where(levelled, 0.0, numbers) * opinions.decides]
        if levelled.any():
            more = level_chances(family, experts.eta) - level_chances(family, usual)
            parts += list(more * opinions.decides)
        return np.concatenate(parts, axis=1)


def matched(
    active: NDArray[np.bool_], other: NDArray[np.bool_], weight: Array
) -> tuple[NDArray[np.bool_], Array]:
    """Which experts have a counterpart in another model, and how well activations agree.

    Parameters
    ----------
    active, other : ndarray of shape (n_rows, n_experts) and (n_rows, n_other_experts)
        Codes of the same rows.
    weight : ndarray of shape (n_rows,)

    Returns
    -------
    found : ndarray of shape (n_experts,)
    agreement : ndarray of shape (n_experts,)
        Correlation with the counterpart, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.stability import matched
    >>> codes = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    >>> found, _ = matched(codes, codes[:, ::-1], np.ones(4))  # the same experts in another order
    >>> found.tolist()
    [True, True]
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    alike = _correlations(active, other, weight)
    on, other_on = (_share(codes, weight) >= ALWAYS_ON for codes in (active, other))
    alike = np.where(np.logical_or.outer(on, other_on), np.logical_and.outer(on, other_on), alike)
    mine, theirs = linear_sum_assignment(-alike)
    agreement = np.zeros(active.shape[1])
    agreement[mine] = alike[mine, theirs]
    return agreement >= FOUND, agreement


def _correlations(active: NDArray[np.bool_], other: NDArray[np.bool_], weight: Array) -> Array:
    """Correlations of activations of two models' experts, at least 0; 0 if one is constant."""
    share = weight / weight.sum()
    a, b = (codes - share @ codes for codes in (active.astype(float), other.astype(float)))
    covariance = (a * share[:, None]).T @ b
    scale = np.sqrt(np.outer(share @ a**2, share @ b**2))
    return np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-12).clip(min=0.0)


def _share(active: NDArray[np.bool_], weight: Array) -> Array:
    return weight @ active / weight.sum()


def _drawn(weight: Array, observed: NDArray[np.bool_], rng: np.random.RandomState) -> Array:
    """How often each row is drawn; every column has an observed value in the sample."""
    size = max(2, round(float(weight.sum())))
    for _ in range(MOST_DRAWS):
        counts = rng.multinomial(size, weight / weight.sum()).astype(float)
        if observed[counts > 0].any(axis=0).all():
            return counts
    raise ValueError(
        f"a column of X has so few observed values that {MOST_DRAWS} bootstrap samples had none: "
        "leave it out"
    )
