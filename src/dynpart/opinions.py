"""Opinions of each expert on each variable, the usual ones, and how often the expert owns it.

These arrays are behind all names and texts about experts; uses experts and code books, no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import row_blocks, to_numpy
from dynpart.codebook import CodeBook
from dynpart.composition import owners
from dynpart.engines import Experts
from dynpart.families import ColumnMoments, Family

Array = NDArray[np.float64]

MOST_CODES_LOOKED_AT = 1000
"""Number of codes of the book, the most frequent first, from which ownership is computed."""
LEAST_CHANCE = 1e-12
RARELY = 0.1
"""Share of rows, relative to an expert's most owned variable, below which variables are ignored."""
EXACT = 0.02
"""An expert is exact if its standard deviation is at most this share of the usual one.

Its numbers are then all printed alike.
"""
EXACT_STRENGTH = 0.1
"""Minimum strength of an exact opinion, in nats; its mean may be the usual one."""


@dataclass(frozen=True, eq=False)
class Opinions:
    """Opinions of experts, in arrays of shape (n_experts, n_features) unless stated otherwise.

    Attributes
    ----------
    value : ndarray
        The likeliest level of a variable with levels, the mean of any other.
    chance : ndarray
        Probability of that level under the expert; NaN for numbers.
    usual : ndarray
        For a variable with levels, how often that level occurs in all rows. For numbers, the
        mean of all rows, the same for every expert.
    spread : ndarray of shape (n_features,)
        Standard deviation of numbers in all rows; NaN for variables with levels.
    strength : ndarray
        Distance between the opinion and the usual one, in nats; at least 0. For levels, the
        divergence of the two probabilities (0 if the level is less likely than usual). For numbers,
        half the squared distance of the means in standard deviations, and at least 0.1 for exact
        opinions.
    exact : ndarray, bool
        Whether the expert says one number where the column usually varies.
    decides : ndarray
        Share of the rows with this expert in which it owns the variable.
    """

    value: Array
    chance: Array
    usual: Array
    spread: Array
    strength: Array
    exact: NDArray[np.bool_]
    decides: Array

    @property
    def weight(self) -> Array:
        """How distinctive a variable is of an expert: `strength` times `decides`.

        It is 0 if the expert rarely owns the variable, relative to its most owned one: an extreme
        opinion that is hardly ever used does not describe the expert's rows.
        """
        often = self.decides >= RARELY * self.decides.max(axis=1, keepdims=True)
        return np.where(often, self.strength * self.decides, 0.0)

    @property
    def distinction(self) -> Array:
        """How far an opinion tells an expert from the others: `weight` times its share.

        The share is the expert's part of the weight of all experts that say the same of the
        variable: the same level, or a mean on the same side of the usual one.
        """
        weight = self.weight
        said = np.where(np.isnan(self.chance), self.value > self.usual, self.value)
        shared = np.array([np.where(said == own, weight, 0.0).sum(axis=0) for own in said])
        return np.divide(weight**2, shared, out=np.zeros_like(weight), where=shared > 0)

    def strongest(self, k: int, count: int) -> list[int]:
        """The most distinctive variables of expert k, the strongest first; none of weight 0."""
        return largest(self.weight[k])[:count]


def largest(weight: Array) -> list[int]:
    """Places of the weights above 0, the largest first."""
    order = np.argsort(-weight, kind="stable")
    return [int(d) for d in order if weight[d] > 0]


def opinions_of(
    experts: Experts,
    probabilities: Array,
    moments: ColumnMoments | None,
    book: CodeBook | None,
) -> Opinions:
    """Opinions of experts, and the usual ones.

    Parameters
    ----------
    experts : Experts
        In NumPy arrays.
    probabilities : ndarray of shape (n_experts,)
        How often each is active.
    moments : ColumnMoments or None
        Of the training rows; without them the usual opinion is the average over experts, weighted
        by how often each is active.
    book : CodeBook or None
        Codes of training rows; without them, experts are assumed to be active independently.
    """
    family, eta = experts.family, experts.eta
    usual_eta = usual_parameters(family, eta, probabilities, moments)
    value, chance, usual = family.mean(eta), np.full(eta.shape[1:], np.nan), family.mean(usual_eta)
    usual = np.broadcast_to(usual, value.shape).copy()
    spread = np.sqrt(family.variance(usual_eta))[0]
    exact = (np.sqrt(family.variance(eta)) <= EXACT * spread) & (spread > 0)
    strength = np.maximum(_distance(value, usual, spread), np.where(exact, EXACT_STRENGTH, 0.0))
    levelled = np.array(family.levels_of_columns(value.shape[1])) > 0
    if levelled.any():
        own, common = level_chances(family, eta), level_chances(family, usual_eta)
        likeliest = own.argmax(axis=0)
        at = likeliest[None]
        own = np.take_along_axis(own, at, axis=0)[0]
        common = np.take_along_axis(np.broadcast_to(common, (len(common), *value.shape)), at, 0)[0]
        more = np.where(own > common, divergence(own, common), 0.0)
        value, chance = np.where(levelled, likeliest, value), np.where(levelled, own, chance)
        usual, strength = np.where(levelled, common, usual), np.where(levelled, more, strength)
        spread, exact = np.where(levelled, np.nan, spread), exact & ~levelled
    decides = decisions(experts, probabilities, book)
    return Opinions(value, chance, usual, spread, strength, exact, decides)


def usual_parameters(
    family: Family, eta: Array, probabilities: Array, moments: ColumnMoments | None
) -> Array:
    """Mean parameters of all rows together, shape (n_statistics, 1, n_features)."""
    if moments is not None:
        usual = to_numpy(family.population(moments.like(np.empty(0))))[:, None]
    else:
        usual = np.einsum("k,skd->sd", probabilities / probabilities.sum(), eta)[:, None]
    return family.constrain(usual)


def level_chances(family: Family, eta: Array) -> Array:
    """Probability of every level, shape (n_levels, n_experts, n_features); 0 where there is none.

    `eta` has shape (n_statistics, n_experts, n_features).
    """
    chances = family.level_probabilities(eta)
    exists = np.arange(len(chances))[:, None] < np.array(family.levels_of_columns(eta.shape[2]))
    return np.where(exists[:, None], chances, 0.0)


def divergence(own: Array, usual: Array) -> Array:
    """Divergence of two probabilities of the same event, in nats."""
    own, usual = (np.clip(p, LEAST_CHANCE, 1 - LEAST_CHANCE) for p in (own, usual))
    return own * np.log(own / usual) + (1 - own) * np.log((1 - own) / (1 - usual))


def _distance(mean: Array, usual: Array, spread: Array) -> Array:
    """Half the squared distance of means, in standard deviations of the rows."""
    varies = spread > 0
    return np.where(varies, ((mean - usual) / np.where(varies, spread, 1.0)) ** 2 / 2, 0.0)


def decisions(experts: Experts, probabilities: Array, book: CodeBook | None) -> Array:
    """Share of the rows with an expert in which it owns a variable, (n_experts, n_features).

    Experts that are in no code of the book are treated as if all were active independently.
    """
    decides = _decisions_by_chance(experts, probabilities)
    if book is None:
        return decides
    codes, counts = book.codes[:MOST_CODES_LOOKED_AT], book.counts[:MOST_CODES_LOOKED_AT]
    total = np.zeros_like(decides)
    for block in row_blocks(len(codes), len(decides[0])):
        owner = owners(experts.ranks, codes[block])
        where = owner * np.int64(owner.shape[1]) + np.arange(owner.shape[1])
        weight = np.repeat(counts[block], owner.shape[1])
        total += np.bincount(where.ravel(), weight, total.size).reshape(total.shape)
    active = counts @ codes
    known = active > 0
    decides[known] = total[known] / active[known, None]
    return decides


def _decisions_by_chance(experts: Experts, probabilities: Array) -> Array:
    """Probability that no expert of higher expertise is active."""
    by_rank = np.argsort(experts.ranks, axis=0, kind="stable")
    absent = (1 - np.clip(probabilities, 0, 1))[by_rank]
    alone = np.vstack([np.ones_like(absent[:1]), np.cumprod(absent, axis=0)[:-1]])
    decides = np.empty_like(alone)
    np.put_along_axis(decides, by_rank, alone, axis=0)
    return decides


def array_opinions(model: Any) -> Opinions:
    """The opinions of a fitted model's experts."""
    experts = model._experts().like(np.empty(0))
    return opinions_of(
        experts,
        to_numpy(model.activation_probabilities_),
        getattr(model, "_moments", None),
        getattr(model, "_book", None),
    )
