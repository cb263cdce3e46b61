"""Refitting: opinions and prior fitted again, to the posterior over codes.

Learning assigns every row to its one best code. If codes overlap, this makes opinions too certain,
because each expert is fitted to the values that it predicts well. EM continues with posteriors
instead, for fixed levels of expertise: exact ones if all codes can be enumerated, otherwise with
codes drawn from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import to_numpy
from dynpart.encoding import Encoding
from dynpart.engines import Experts, row_log_base
from dynpart.enumeration import EveryCode, all_codes, are_few
from dynpart.learning import Fit, Task, are_drawable, fitted_to_draws
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from dynpart.rows import Rows

Array = NDArray[np.float64]

TINY = float(np.finfo(np.float64).tiny)
MOST_TERMS = 3e9
"""Maximum number of terms (rows x codes x experts x variables) of an iteration."""
ITERATIONS = 20
BETWEEN_PRIORS = 4
"""Iterations after which the prior is fitted again."""
SETTLED = 1e-4
"""Minimum change of the likelihood per iteration, in nats per row."""
NEGLIGIBLE = 1e-3
"""Number of rows below which a code counts as unused."""


def refit(
    task: Task,
    epsilon: float,
    encoding: Encoding,
    fit: Fit,
    codes: Any,
    prior: CodePrior,
    seed: int,
) -> tuple[Fit, Any, CodePrior]:
    """A finished run of the learner refitted to all codes, or to codes drawn if these are many.

    The fit is returned unchanged if codes are chosen by likelihood alone, if opinions are not
    shrunk averages, if their variances are wider than those of densities, or if there are fewer
    than two rows per expert. If a mixture was preferred to several experts per row and codes are
    few, both are refitted and compared again. A mixture of many needs no refit.

    Parameters
    ----------
    task : Task
    epsilon : float
        Weight of the data's average in opinions (eq. 5).
    encoding : Encoding
    fit : Fit
    codes : Codes
        Of ``fit.rows``, chosen under `prior`.
    prior : CodePrior
    seed : int

    Returns
    -------
    fit : Fit
    codes : Codes
    prior : CodePrior
    """
    n_rows, shape = task.moments.n_rows, fit.experts.log2_expertise.shape
    limits = encoding.limits(shape[0])
    suits = encoding.is_joint and _has_densities(task, fit) and task.n_rows >= 2 * shape[0]
    if not suits:
        return fit, codes, prior
    if not is_affordable(n_rows, shape, limits):
        return _redrawn(task, epsilon, encoding, fit, codes, prior, seed)
    rows = task.engine.take(task.rows, np.arange(n_rows)).to_numpy()
    own = np.ones(len(rows)) if rows.weight is None else rows.weight
    population = to_numpy(task.population)

    def tried(begun: Fit, prior: CodePrior) -> tuple[float, Fit, CodePrior]:
        here = begun.experts.like(rows.values)
        found = refitted(rows, here, prior, limits, population, epsilon, encoding.prior_of)
        estimate = found.log_likelihood - found.loss_unseen(own.sum(), shape[1])
        unseen = begun.unseen
        if unseen is not None:
            estimated = estimate - found.log_base
            unseen = replace(unseen, experts=max(unseen.experts, estimated))
        experts = found.experts.like(begun.experts.eta)
        return estimate, replace(begun, experts=experts, unseen=unseen), found.prior

    estimate, best, prior = tried(fit, prior)
    if fit.several is not None:
        # A mixture was preferred before the refit.
        _, its_prior = encoding.counted(task.engine, fit.rows, fit.several.experts)
        other, several, its_prior = tried(fit.several, its_prior)
        if other > estimate:
            best, prior = several, its_prior
    codes = pursue(task.engine, best.rows, best.experts, encoding.rule(shape, prior))
    return best, codes, prior


def _redrawn(
    task: Task,
    epsilon: float,
    encoding: Encoding,
    fit: Fit,
    codes: Any,
    prior: CodePrior,
    seed: int,
) -> tuple[Fit, Any, CodePrior]:
    """The same with codes that are drawn, if that is affordable and better."""
    if fit.adaptation.mixture or not are_drawable(task, fit.experts):
        return fit, codes, prior
    rule = encoding.rule((task.n_experts, task.n_features))
    sharpness = fit.history[-1].step.sharpness
    known = codes if fit.rows is task.rows else None
    found = fitted_to_draws(
        task, epsilon, fit.experts, prior, rule, sharpness, encoding.prior_of, seed, known
    )
    if found is None:
        return fit, codes, prior
    experts, prior = found
    codes = pursue(task.engine, fit.rows, experts, replace(rule, prior=prior))
    return replace(fit, experts=experts), codes, prior


def _has_densities(task: Task, fit: Fit) -> bool:
    """Whether opinions are shrunk averages that describe rows as densities."""
    shrunk = bool(fit.history) and fit.history[-1].step.shrink and not task.newton
    plain = fit.experts.amplitude is None and task.neighbours is None
    return shrunk and plain and fit.experts.family.as_density(task.moments) is fit.experts.family


@dataclass(frozen=True, eq=False)
class Refit:
    """Result of refitting.

    Attributes
    ----------
    experts : Experts
    prior : CodePrior
    log_likelihood : float
        Mean log P(x) of the rows.
    log_base : float
        Mean log b(x), a part of it.
    n_parameters : int
        Number of fitted parameters: opinions of experts with rows, and those of the prior.
    """

    experts: Experts
    prior: CodePrior
    log_likelihood: float
    log_base: float
    n_parameters: int

    def loss_unseen(self, n_rows: float, n_features: int) -> float:
        """Expected loss on unseen rows from fitting the parameters, in nats per row.

        This is Akaike's criterion with the correction of Hurvich and Tsai (1989).
        """
        left = n_rows * n_features - self.n_parameters - 1
        if left <= 0:
            return np.inf
        return self.n_parameters / n_rows * (n_rows * n_features / left)


def is_affordable(n_rows: int, shape: tuple[int, int], limits: tuple[int, int]) -> bool:
    """Whether rows can be refitted to all codes within the limits.

    Parameters
    ----------
    n_rows : int
    shape : tuple of int
        Numbers of experts and of variables.
    limits : tuple of int
        Fewest and most active experts.
    """
    if shape[0] < 2 or not are_few(shape, *limits):
        return False
    return n_rows * len(all_codes(shape[0], *limits)) * shape[0] * shape[1] <= MOST_TERMS


def refitted(
    rows: Rows,
    experts: Experts,
    prior: CodePrior,
    limits: tuple[int, int],
    population: Array,
    epsilon: float,
    fit: Callable[[NDArray, Array], CodePrior],
) -> Refit:
    """Opinions and prior fitted by EM over all codes.

    An iteration computes P(h | x) of every row and code, then opinions from the expected sums,
    shrunk as at the end of learning. EM ends when the likelihood no longer changes.

    Parameters
    ----------
    rows : Rows or SparseRows
        In NumPy arrays.
    experts : Experts
    prior : CodePrior
    limits : tuple of int
        Fewest and most active experts.
    population : ndarray of shape (n_statistics, n_features)
        Mean parameters of the data as a whole.
    epsilon : float
        Weight of these in opinions (eq. 5).
    fit : callable
        (codes, weights) -> CodePrior.

    Returns
    -------
    Refit
    """
    codes = all_codes(experts.n_experts, *limits)
    every, before = EveryCode.of(experts, codes), -np.inf
    for iteration in range(ITERATIONS):
        log_likelihood, log_base, used, weight, T_sum = _expected(rows, every, experts, prior)
        if abs(log_likelihood - before) < SETTLED:
            break
        before = log_likelihood
        family = experts.family.settled(weight, T_sum)
        eta = family.update(weight, T_sum, population, epsilon)
        eta, _ = family.shrunk(eta, weight, T_sum, weight, T_sum, population, epsilon)
        experts = replace(experts, family=family, eta=eta)
        if iteration % BETWEEN_PRIORS == 0:
            some = used > NEGLIGIBLE
            prior = fit(codes[some], used[some])
    free = np.array(experts.family.free_parameters(weight.shape[1]))
    n_opinions = int(((weight > 1) * free).sum())
    n_parameters = n_opinions + prior.n_types * (experts.n_experts + 1)
    return Refit(experts, prior, before, log_base, n_parameters)


def _expected(
    rows: Rows, every: EveryCode, experts: Experts, prior: CodePrior
) -> tuple[float, float, Array, Array, Array]:
    """Means of log P(x) and log b(x), rows per code, and expected responsibility sums."""
    parts: dict[int, tuple[Any, ...]] = {}

    def of_block(block: slice) -> None:
        part = rows[block]
        density, posterior = every.summed(part, experts, prior)
        own = np.ones(len(part)) if part.weight is None else part.weight
        posterior *= own[:, None]
        base = float(own @ (row_log_base(part, experts.family) + np.zeros(len(part))))
        told = float(own @ density) + base, base, posterior.sum(axis=0)
        parts[block.start] = *told, *every.sums(part, experts, posterior)

    every.by_blocks(of_block, len(rows))
    total, of_base, used = 0.0, 0.0, np.zeros(len(every.codes))
    weight, T_sum = np.zeros_like(experts.log2_expertise), np.zeros_like(experts.eta)
    for start in sorted(parts):
        explained, base, shares, weights, statistics = parts[start]
        total, of_base = total + explained, of_base + base
        used += shares
        weight += weights
        T_sum += statistics
    n_rows = max(float(used.sum()), TINY)
    return total / n_rows, of_base / n_rows, used, weight, T_sum
