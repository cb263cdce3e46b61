"""Unseen rows: how well experts would describe them, estimated by leaving rows out of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_remote, like, namespace, to_numpy
from dynpart.engines import CodeSummary, Engine, Experts, PursuitRule, ResponsibilitySums
from dynpart.families import Family
from dynpart.learning._batch import shared, sharpened
from dynpart.learning._left_out import LeftOut, leave_out, together
from dynpart.learning._mixture import Mixture, mixture_without
from dynpart.learning._objective import activation_probabilities
from dynpart.learning._plans import TINY, Plan
from dynpart.learning._records import IterationRecord
from dynpart.learning._task import FEWEST_FOR_PRIOR, Task
from dynpart.neighbourhood import neighbourhood
from dynpart.prior import MOST_TYPES, ROUGHLY, CodePrior, fit_prior
from dynpart.pursuits import pursue
from dynpart.rows import Rows

Array = NDArray[np.float64]

SAMPLE = 250
"""Number of rows that are left out and described."""
SAMPLE_TO_COMPARE = 1000
"""The same if a mixture is compared, since such differences are smaller."""
FOLDS = 5
"""Number of parts in which these rows are left out."""
WORTH_IT = 70.0
"""Nats, about 100 bits over all rows, that a mixture must save to be preferred."""
MANY = 10
"""All folds are left out of a mixture at once if there are this many times as many rows."""
CLOSE = 0.01
"""Relative error of the estimate, as a share of the nats of a row."""
BY_DRAWING = 0.05
"""Share of the nats of a row that drawn codes may save the experts; the estimate does without."""
VAGUE = 1.0
"""Error of the estimate for a single row, in nats, beyond sampling error."""
BY_CHANCE = 0.1
"""Smallest error of a mixture's score, in nats over all left-out rows: folds agree by chance."""
PRICE = 1.0
"""Nats, over all rows, that a fitted parameter loses on unseen ones (Akaike's correction)."""


@dataclass(frozen=True)
class Unseen:
    """Scores of left-out rows: log-likelihoods in nats per row.

    Attributes
    ----------
    experts : float
        By the experts: log P(x | h) + log P(h), with the best of three priors over codes.
    columns : float
        By independent columns.
    error : float
        Standard error of the difference.
    density : float
        By the experts, summed over the neighbours of each code; NaN without a mixture.
    mixture : float
        By a mixture of as many components, learnt without them; NaN if there is none.
    mixture_error : float
        Standard error of the difference between the mixture and independent columns.
    log_scales : float
        Of the task; added to a density, they make it one of standardised columns, without a unit.
    """

    experts: float
    columns: float
    error: float
    density: float = math.nan
    mixture: float = math.nan
    mixture_error: float = math.nan
    log_scales: float = 0.0

    def by_mixture(self) -> Unseen:
        """The same scores with the mixture in the place of the experts."""
        return replace(self, experts=self.mixture, error=self.mixture_error)

    def prefers_mixture(self, n_rows: float) -> bool:
        """Whether a mixture describes `n_rows` rows in clearly fewer nats.

        Several experts per row are easier to interpret, so they are kept if it is close.
        """
        return n_rows * (self.mixture - self.density) > WORTH_IT

    def is_close(self) -> bool:
        """Whether this estimate leaves open which of the two is better."""
        lead, scale = self.mixture - self.density, abs(self.density + self.log_scales)
        return -CLOSE * scale < lead < BY_DRAWING * scale


def describe_unseen(
    task: Task,
    plan: Plan,
    experts: Experts,
    rows: Any,
    n_coded: int,
    codes: Any,
    rule: PursuitRule,
    last: IterationRecord | None,
    seed: int,
    mixture: Mixture | None = None,
) -> Unseen | None:
    """Leave some rows out of the experts' opinions, encode them, and compute their likelihood.

    Nothing is learnt again: the contribution of these rows is subtracted from the sums of the
    opinions. Levels of expertise are not changed, although they were fitted to these rows. So a
    price is paid for every level of an expert that shares a variable with others. Independent
    columns leave out the same rows. None if there is only one row or one expert.

    Parameters
    ----------
    task : Task
    plan : Plan
    experts : Experts
    rows : object
        `n_coded` rows held by the engine.
    n_coded : int
    codes : Codes
        Codes of these rows.
    rule : PursuitRule
    last : IterationRecord or None
        Of the iteration that made the opinions.
    seed : int
    mixture : Mixture, default=None
        Evaluated in the same way, as an alternative.

    Returns
    -------
    Unseen or None
    """
    engine, n_experts, n_rows = task.engine, experts.n_experts, task.moments.weight
    summary, weight = codes.summary(n_experts), _weight(codes)
    n_sample = min(SAMPLE if mixture is None else SAMPLE_TO_COMPARE, round(summary.n_rows))
    if n_sample < 2 or n_experts < 2:
        return None
    shrunk = last is not None and last.step.shrink and not task.newton
    amount = last.shrinkage if last is not None and shrunk else None
    sharp = sharpened(experts, 1.0 if last is None else last.step.sharpness)
    population, dense = task.population, experts.family.as_density(task.moments)

    def of_sums(sums: ResponsibilitySums, population: Array) -> Array:
        return _opinions(dense, sums, population, plan, task, amount)

    sums = engine.responsibility_sums(rows, sharp, codes).weighted(n_rows / summary.n_rows)
    made = of_sums(sums, population)
    if dense is not experts.family:
        experts = replace(experts, family=dense, eta=made)
    folds = leave_out(weight, n_coded, n_sample, FOLDS, np.random.default_rng(seed))
    at_once = summary.n_rows >= 2 * n_sample
    parts = [fold.taken(engine, rows) for fold in folds]
    seen = _codes_of_parts(engine, parts, experts, rule)
    sizes = [_sizes(code, n_experts) for code in seen]
    usage, price = to_numpy(summary.usage), _n_levels(sums.weight, task.moments.variance) / n_rows

    def scored(priors: Sequence[CodePrior | None], mixtures: Sequence[Mixture | None]) -> Unseen:
        """The scores of all parts, each with its own prior over codes and mixture, or without."""
        found = []
        for part, code, size, prior, single in zip(
            parts, seen, sizes, priors, mixtures, strict=True
        ):
            own, counted = engine.responsibility_sums(part, sharp, code), code.summary(n_experts)
            statistics, n_gone = own.statistics.sum(axis=1), own.weight.sum(axis=0)
            others, kept = task.moments_without(statistics, n_gone)
            eta = dense.constrain(experts.eta + of_sums(sums.without(own), others) - made)
            judges = replace(experts, eta=eta)
            left_out = pursue(engine, part, judges, rule)
            active, described = to_numpy(left_out.active(n_experts)), left_out.summary(n_experts)
            each = np.ones(len(part)) if part.weight is None else to_numpy(part.weight)
            n_others = max(0.0, summary.n_rows - counted.n_rows)
            others_used = CodeSummary(n_others, (usage - to_numpy(counted.usage)).clip(0), 0.0)
            bits = CodePrior.independent(activation_probabilities(others_used))
            likelihood = float(described.log_likelihood - described.log_base)
            by_size = _log_prior_of_sizes(active, sum(sizes) - size, rule.max_active)
            by_prior, by_density, by_mixture = -np.inf, np.nan, np.nan
            if prior is not None:
                joint = pursue(engine, part, judges, replace(rule, prior=prior))
                told, chosen = joint.summary(n_experts), to_numpy(joint.active(n_experts))
                by_prior = float(told.log_likelihood - told.log_base)
                by_prior += float(each @ prior.log_prob(chosen))
                if single is not None:
                    by_density = float(each @ _log_density(part, chosen, judges, prior))
                    by_mixture = single.total_log_density(engine, part) - float(described.log_base)
            found.append(
                (
                    described.n_rows,
                    likelihood + float(each @ bits.log_prob(active)),
                    likelihood + float(each @ by_size),
                    by_prior,
                    _by_columns(dense, statistics, others, n_gone, kept, plan),
                    by_density,
                    by_mixture,
                )
            )
        n, *ways, columns, density, alone = np.array(found).T
        # Codes by independent bits, by the number and choice of active experts, or by the prior.
        best = max(ways, key=np.sum)
        # The mixture is learnt again without the rows, so its error is hardly more than that of
        # sampling.
        error, alone_error = (
            np.std((nats - columns) / n, ddof=1) / np.sqrt(len(n)) for nats in (best, alone)
        )
        return Unseen(
            float(best.sum() / n.sum()) - PRICE * price,
            float(columns.sum() / n.sum()),
            float(np.hypot(error, VAGUE / np.sqrt(n_sample))),
            float(density.sum() / n.sum()) - PRICE * price,
            float(alone.sum() / n.sum()),
            float(np.hypot(alone_error, BY_CHANCE / n_sample)),
            task.log_scales,
        )

    def fitted_priors(codes: Any, most_types: int) -> Sequence[CodePrior]:
        """Priors over codes, each fitted without the rows of a part, or all without all parts."""
        active = codes.active(n_experts)
        apart = [together(folds)] if at_once else folds
        fitted = [_prior_without(active, weight, part, most_types) for part in apart]
        return fitted * len(folds) if at_once else fitted

    none: Sequence[None] = [None] * len(folds)
    if mixture is None:
        plain = scored(none, none)
        # Only a warning depends on the comparison with independent columns, and a prior that is
        # learnt can only help the experts.
        if plain.experts >= plain.columns or summary.n_rows < FEWEST_FOR_PRIOR:
            return plain
        return scored(fitted_priors(codes, ROUGHLY), none)
    first = fit_prior(codes.active(n_experts), weight, ROUGHLY)
    codes = pursue(engine, rows, experts, replace(rule, prior=first))
    # Fewer rows make a mixture worse, so the left-out ones must be a small part of all.
    learns_once = n_rows >= MANY * n_sample
    gone = [together(folds).taken(engine, rows)] if learns_once else parts
    learnt = [mixture_without(task, plan, part, seed) for part in gone]
    # The comparison with a mixture needs a full prior; independent columns are far worse.
    return scored(fitted_priors(codes, MOST_TYPES), learnt * len(folds) if learns_once else learnt)


def _codes_of_parts(engine: Engine, parts: list[Any], experts: Experts, rule: PursuitRule) -> list:
    """Codes of rows in several parts; found at once on a GPU, because launches cost most there."""
    if not all(is_remote(part.values) for part in parts):
        return [pursue(engine, part, experts, rule) for part in parts]
    codes = pursue(engine, Rows.joined(parts), experts, rule)
    ends = np.cumsum([len(part) for part in parts]).tolist()
    return [codes[slice(end - len(part), end)] for part, end in zip(parts, ends, strict=True)]


def _weight(codes: Any) -> Array | None:
    return None if codes.weight is None else to_numpy(codes.weight)


def _prior_without(
    active: Any, weight: Array | None, left_out: LeftOut, most_types: int
) -> CodePrior:
    """The prior fitted to codes of shape (n_rows, n_experts), without these rows."""
    rest, amount = left_out.of_others(weight, len(active))
    return fit_prior(active[like(rest, active)], amount, most_types)


def _log_density(rows: Any, active: NDArray, experts: Experts, prior: CodePrior) -> Array:
    """Log P(x) of rows, without b(x), summed over the neighbours of their codes.

    One change from the code, no further: the estimate favours several experts per row anyway.
    """
    here = experts.like(np.empty(0))
    return neighbourhood(rows.to_numpy(), active, here, prior, most_turns=1).log_density


def _opinions(
    family: Family,
    sums: ResponsibilitySums,
    population: Array,
    plan: Plan,
    task: Task,
    amount: float | None,
) -> Array:
    """Opinions that follow from sums, shrunk by this amount unless it is None."""
    heard = shared(task, plan, sums, population)
    told = heard.weight, heard.statistics
    eta = family.update(*told, population, plan.epsilon)
    if amount is None:
        return eta
    own = sums.weight, sums.statistics
    return family.shrunk(eta, *own, *told, population, plan.epsilon, amount)[0]


def _n_levels(weight: Array, variance: Array) -> float:
    """Number of fitted levels of expertise: the effective owners of each variable, minus one."""
    xp = namespace(weight)
    share = weight / xp.clip(weight.sum(axis=0), TINY, None)
    entropy = -(share * xp.log(xp.clip(share, TINY, None))).sum(axis=0)
    return float((xp.expm1(entropy) * (variance > 0)).sum())


def _by_columns(
    family: Family, statistics: Array, others: Array, gone: Array, kept: Array, plan: Plan
) -> float:
    """Log-likelihood of rows, given by their summed statistics, under one expert.

    `gone` and `kept` are the numbers of values of each column that are left out and kept.
    """
    xp = namespace(statistics)
    sums = kept[None], (kept * others)[:, None]
    eta = family.update(*sums, others, plan.epsilon)
    eta, _ = family.shrunk(eta, *sums, *sums, others, plan.epsilon, 0.0)
    theta, log_partition = family.natural(eta)
    total = xp.einsum("sd,skd->", statistics, theta) - (gone * log_partition).sum()
    return float(total)


def _sizes(codes: Any, n_experts: int) -> Array:
    """Number of codes with 0, 1, ... active experts."""
    size = to_numpy(codes.active(n_experts)).sum(axis=1)
    return np.bincount(size, _weight(codes), minlength=n_experts + 1).astype(float)


def _log_prior_of_sizes(active: NDArray, sizes: NDArray, max_active: int) -> Array:
    """Log P(h): the log frequency of the code's size, `sizes`, and equal shares within a size."""
    n_experts = active.shape[1]
    k = active.sum(axis=1)
    frequency = (sizes + 0.5) / (sizes.sum() + 0.5 * max_active)
    found, place = np.unique(k, return_inverse=True)
    ways = np.array([math.log(math.comb(n_experts, size)) for size in found.tolist()])
    return np.log(frequency[k]) - ways[place]
