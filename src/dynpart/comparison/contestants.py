"""Contestants: which models take part, and how each is set up for a problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynpart.baselines import (
    Autoencoder,
    Baseline,
    BoltzmannMachine,
    ComposedPursuit,
    DynamicPartition,
    FixedPartition,
    KMeansCodes,
    Mixture,
    PrincipalComponents,
    SparseDictionary,
)
from dynpart.comparison.problems import Problem
from dynpart.estimator import LITERAL
from dynpart.learning import Annealed
from dynpart.pursuits import affordable_starts

OURS = "dynamic"
THOROUGH = "thorough"
RECONSTRUCTING = "reconstructing"
PATIENT = "patient"
OUR_VARIANTS = (OURS, "greedy", THOROUGH, RECONSTRUCTING, PATIENT, "paper")
N_STARTS = 8
"""Minimum number of searches per row for contestants with longer searches."""
_RECONSTRUCTION = {"n_starts": N_STARTS, "criterion": "reconstruction"}
AT_LEISURE: dict[str, dict[str, Any]] = {
    THOROUGH: {"n_starts": N_STARTS},
    RECONSTRUCTING: _RECONSTRUCTION,
    PATIENT: _RECONSTRUCTION | {"learning": Annealed(n_starts=N_STARTS, n_swaps=2)},
}
"""Arguments of our model with longer searches, by contestant."""


@dataclass(frozen=True)
class Contestant:
    """A model and its properties.

    Attributes
    ----------
    name, title : str
    make : callable
        (problem, seed) -> unfitted model.
    gray : bool
        Whether it can learn from gray rows.
    max_rows : int or None
        Maximum number of training rows, for slow models.
    partition_given : bool
        Whether it gets the true partition.
    natural : bool
        Whether its own codes differ from those with a limited number of active units.
    needs : str or None
        A package that it requires.
    compiled : bool
        Whether its first call compiles, which is not timed.
    """

    name: str
    title: str
    make: Callable[[Problem, int], Baseline]
    gray: bool = True
    max_rows: int | None = None
    partition_given: bool = False
    natural: bool = False
    needs: str | None = None
    compiled: bool = False


def our_settings(problem: Problem) -> dict[str, Any]:
    """Arguments of our model for a problem; all others have their defaults."""
    settings: dict[str, Any] = {"max_iter": problem.max_iter}
    if problem.exactly:
        settings["n_active"] = problem.n_active
    elif problem.capped:
        settings["max_active"] = problem.n_active
    return settings


def ours(name: str, title: str, **changes: Any) -> Contestant:
    """Our model with some settings changed."""

    def make(problem: Problem, seed: int) -> Baseline:
        settings = our_settings(problem) | changes
        if "n_starts" in settings:
            # Small rows have more searches by default; longer searches never use fewer.
            shape = problem.n_components, problem.train.shape[1]
            settings["n_starts"] = max(settings["n_starts"], affordable_starts(*shape))
        return DynamicPartition(problem.n_components, settings=settings, random_state=seed)

    return Contestant(name, title, make, compiled=True)


def _composed(rule: str, title: str) -> Contestant:
    def make(problem: Problem, seed: int) -> Baseline:
        return ComposedPursuit(
            problem.n_components,
            rule=rule,
            max_active=problem.n_active if problem.capped else None,
            batch_size=_batch(problem),
            random_state=seed,
        )

    return Contestant(rule, title, make, gray=False, compiled=True)


def _batch(problem: Problem) -> int:
    """Rows per iteration: few on small synthetic data, where noise helps to leave local optima."""
    return 2000 if len(problem.train) > 2000 else max(100, len(problem.train) // 5)


def _log_odds_dictionary(name: str, title: str, **search: Any) -> Contestant:
    def make(problem: Problem, seed: int) -> Baseline:
        return ComposedPursuit(
            problem.n_components,
            rule="log-odds",
            max_active=problem.n_active if problem.capped else None,
            mean_active=problem.n_active,
            **search,
            batch_size=_batch(problem),
            random_state=seed,
        )

    return Contestant(name, title, make, gray=False, compiled=True)


def _autoencoder(kind: str) -> Contestant:
    def make(problem: Problem, seed: int) -> Baseline:
        return Autoencoder(
            problem.n_components, kind=kind, n_active=problem.n_active, random_state=seed
        )

    return Contestant(
        f"autoencoder-{kind}", f"autoencoder, {kind}", make, natural=True, needs="torch"
    )


def _partition(problem: Problem, seed: int) -> Baseline:
    return FixedPartition(
        problem.n_components,
        n_active=problem.n_active,
        image_shape=None if problem.truth == "pairs" else problem.image_shape,
        random_state=seed,
    )


def _product_quantisation(problem: Problem, seed: int) -> Baseline:
    return FixedPartition(
        problem.n_components, n_active=problem.n_active, cell_model="k-means", random_state=seed
    )


_ALL = (
    ours(OURS, "dynamic partition (ours)"),
    ours("greedy", "dynamic partition, greedy codes", n_swaps=0),
    ours(THOROUGH, "dynamic partition, eight starts", **AT_LEISURE[THOROUGH]),
    ours(
        RECONSTRUCTING,
        "dynamic partition, thorough codes for reconstruction",
        **AT_LEISURE[RECONSTRUCTING],
    ),
    ours(PATIENT, "dynamic partition, patiently learnt, for reconstruction", **AT_LEISURE[PATIENT]),
    ours("paper", "dynamic partition, literal paper", **LITERAL),
    Contestant(
        "boltzmann",
        "restricted Boltzmann machine",
        lambda p, seed: BoltzmannMachine(p.n_components, random_state=seed),
        gray=False,
        natural=True,
    ),
    _autoencoder("plain"),
    _autoencoder("denoising"),
    _autoencoder("sparse"),
    Contestant(
        "dictionary",
        "sparse dictionary",
        lambda p, seed: SparseDictionary(p.n_components, n_active=p.n_active, random_state=seed),
        max_rows=5000,
    ),
    _log_odds_dictionary("log-odds", "sparse dictionary, log-odds"),
    _log_odds_dictionary(
        "log-odds-starts", "sparse dictionary, log-odds, eight starts", n_starts=N_STARTS
    ),
    _log_odds_dictionary(
        "log-odds-reconstructing",
        "sparse dictionary, log-odds, eight starts for reconstruction",
        n_starts=N_STARTS,
        criterion="reconstruction",
    ),
    _composed("max", "maximal causes"),
    _composed("max-min", "max-min rule"),
    _composed("equal", "equal mixture"),
    Contestant("partition", "fixed partition", _partition, partition_given=True),
    Contestant("mixture", "mixture", lambda p, seed: Mixture(p.n_components, random_state=seed)),
    Contestant(
        "k-means", "k-means", lambda p, seed: KMeansCodes(p.n_components, random_state=seed)
    ),
    Contestant(
        "pca",
        "PCA",
        lambda p, seed: PrincipalComponents(
            p.n_components, max_active=p.n_active, random_state=seed
        ),
    ),
    Contestant("quantisation", "product quantisation", _product_quantisation, partition_given=True),
)

CONTESTANTS: Mapping[str, Contestant] = {contestant.name: contestant for contestant in _ALL}
