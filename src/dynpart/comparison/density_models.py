"""Density models of binary rows, ours and others: fit and score of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynpart.baselines import Mixture
from dynpart.comparison.chow_liu import SMOOTHING, chow_liu_tree
from dynpart.comparison.density_sets import BinaryRows
from dynpart.comparison.ordered import LEAST_CHANCE
from dynpart.estimator import DynamicPartitionModel
from dynpart.prior import CodePrior

COLUMNS, TREE = "independent-columns", "chow-liu"
MIXTURE_CHOSEN, MIXTURE_GIVEN = "mixture-chosen", "mixture-30"
OURS_CHOSEN, OURS_GIVEN = "dynamic-auto", "dynamic-30"
N_EXPERTS = 30
MIXTURE_SIZES = (10, 30, 100)
MIXTURE_SMOOTHING = (0.5, 2.0, 8.0, 32.0)
"""Candidate numbers of rows of the overall average added to each component."""


@dataclass(frozen=True)
class DensityModel:
    """A model of binary rows.

    Attributes
    ----------
    name, title : str
    score : callable
        Takes the rows of a set and a seed, learns, and returns scores: "nats", mean log P(x) of
        the test rows, and others.
    seeded : bool
        Whether its result depends on the seed.
    """

    name: str
    title: str
    score: Callable[[BinaryRows, int], dict[str, float]]
    seeded: bool = True


def _columns(rows: BinaryRows, seed: int) -> dict[str, float]:
    on = rows.train.sum(axis=0, dtype=np.float64)
    p = (on + SMOOTHING) / (len(rows.train) + 2 * SMOOTHING)
    return {"nats": _mean_log_prob(CodePrior.independent(p), rows.test)}


def _tree(rows: BinaryRows, seed: int) -> dict[str, float]:
    return {"nats": _mean_log_prob(chow_liu_tree(rows.train), rows.test)}


def _mean_log_prob(distribution: CodePrior, rows: NDArray[np.uint8]) -> float:
    return float(np.mean(distribution.log_prob(rows)))


def _mixture_chosen(rows: BinaryRows, seed: int) -> dict[str, float]:
    return _best_mixture(rows, seed, MIXTURE_SIZES)


def _mixture_given(rows: BinaryRows, seed: int) -> dict[str, float]:
    return _best_mixture(rows, seed, (N_EXPERTS,))


def _best_mixture(rows: BinaryRows, seed: int, sizes: Sequence[int]) -> dict[str, float]:
    """The mixture with the best validation likelihood: first over sizes, then over smoothings."""
    tried: dict[tuple[int, float], tuple[float, Mixture]] = {}

    def score(size: int, smoothing: float) -> float:
        if (size, smoothing) not in tried:
            model = Mixture(size, epsilon=smoothing, clip=LEAST_CHANCE, random_state=seed)
            found = float(np.mean(model.fit(rows.train).score_samples(rows.valid)))
            tried[size, smoothing] = found, model
        return tried[size, smoothing][0]

    # A start needs one row per component.
    sizes = sorted({min(size, len(rows.train)) for size in sizes})
    size = max(sizes, key=lambda size: score(size, MIXTURE_SMOOTHING[1]))
    smoothing = max(MIXTURE_SMOOTHING, key=lambda smoothing: score(size, smoothing))
    best = tried[size, smoothing][1]
    return {
        "nats": float(np.mean(best.score_samples(rows.test))),
        "components": float(best.n_components),
        "smoothing": best.epsilon,
    }


def _ours(n_experts: int | str) -> Callable[[BinaryRows, int], dict[str, float]]:
    def score(rows: BinaryRows, seed: int) -> dict[str, float]:
        model = DynamicPartitionModel(n_experts, random_state=seed).fit(rows.train)
        return {
            "nats": float(np.mean(model.log_density(rows.test))),
            "code_nats": float(model.score(rows.test)),
            "experts": float(model.n_experts_),
            "active": float(np.mean(np.sum(model.transform(rows.test), axis=1))),
        }

    return score


DENSITY_MODELS = {
    model.name: model
    for model in (
        DensityModel(COLUMNS, "independent columns", _columns, seeded=False),
        DensityModel(TREE, "Chow-Liu tree", _tree, seeded=False),
        DensityModel(MIXTURE_CHOSEN, "mixture of Bernoullis", _mixture_chosen),
        DensityModel(MIXTURE_GIVEN, f"mixture of {N_EXPERTS} Bernoullis", _mixture_given),
        DensityModel(OURS_CHOSEN, "dynpart, experts chosen", _ours("auto")),
        DensityModel(OURS_GIVEN, f"dynpart, {N_EXPERTS} experts", _ours(N_EXPERTS)),
    )
}
