"""The contract between engines, which touch rows, and the learner, which sees only sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import in_order, like, namespace, to_numpy
from dynpart.composition import expertise_ranks
from dynpart.families import ColumnMoments, Family

Array = NDArray[np.float64]

MARGIN = 1e-3
"""Nats an expert must gain beyond its cost to be activated: below it, gains are rounding."""
LAYMAN = -1
"""Place of a layman in the order of what experts gain beyond their cost: the last."""
LEFT_TO_LAYMAN = 0.1
"""Share of the variables of which a layman knows more than all experts of a random full code."""
FULL_CODE = 12
"""Experts that make a code full, if no other limit is set: these, or a third of all if less."""


@dataclass(frozen=True, eq=False)
class Experts:
    """All that pursuit and sums need to know of a model.

    Attributes
    ----------
    family : Family
    eta : ndarray of shape (n_statistics, n_experts, n_features)
        Opinions, as mean parameters.
    log2_expertise : ndarray of shape (n_experts, n_features)
        Levels of expertise; only order and ratios matter, so they are kept as logarithms.
    log2_bound : float
        What is known of these levels: all are within plus and minus this, give or take a rounding.
    """

    family: Family
    eta: Array
    log2_expertise: Array
    log2_bound: float = math.inf

    @property
    def n_experts(self) -> int:
        return self.eta.shape[1]

    def like(self, reference: Any) -> Experts:
        """The same experts as the kind of arrays that `reference` is."""
        eta, log2_expertise = like(self.eta, reference), like(self.log2_expertise, reference)
        return Experts(self.family.like(reference), eta, log2_expertise, self.log2_bound)

    def equally_sure(self) -> Experts:
        """The same experts, none of whom holds an opinion more firmly than the others."""
        return replace(self, eta=self.family.equally_sure(self.eta))

    def with_layman(self, max_active: int) -> Experts:
        """The same experts and, as the last, a layman: a guide to a pursuit, no part of a code.

        He thinks what experts think on average, and knows as much of every variable as would leave
        him a tenth of them beside a full code of experts drawn at random.
        """
        xp = namespace(self.eta)
        full = max(1, min(max_active, FULL_CODE, self.n_experts / 3))
        n_above = max(1, round(self.n_experts * (1 - LEFT_TO_LAYMAN ** (1 / full))))
        mean, variance = self.family.mean(self.eta), self.family.variance(self.eta)
        opinion = self.family.from_moments(mean.mean(axis=0), variance.mean(axis=0))
        eta = xp.concatenate([self.eta, opinion[:, None]], axis=1)
        # Ties go to the lowest index, so he comes right behind the expert whose level this is.
        level = in_order(self.log2_expertise)[self.n_experts - n_above][None]
        return replace(self, eta=eta, log2_expertise=xp.concatenate([self.log2_expertise, level]))

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """Strict order of expertise per variable, shape (n_experts, n_features)."""
        return expertise_ranks(self.log2_expertise)

    @cached_property
    def natural(self) -> tuple[Array, Array]:
        """Natural parameters and log-partition of every expert and variable."""
        return self.family.natural(self.eta)


@dataclass(frozen=True, eq=False)
class PursuitRule:
    """When likelihood matching pursuit activates, refines and stops.

    Attributes
    ----------
    min_active, max_active : int
        Fewest and most active experts per row; both at least one.
    cost : ndarray of shape (n_experts,)
        Nats each expert must earn to be active, the activation cost.
    smoothed : bool
        Score codes by the smoothed composition (eq. 4) instead of the hard one (eq. 2).
    n_starts : int
        Pursuits of a row, each begun with another expert; only under the hard rule.
    n_swaps : int
        Passes that take out each active expert in turn and put back the best, or none.
    prune : bool
        Take out experts that later ones made useless.
    """

    min_active: int
    max_active: int
    cost: Array
    smoothed: bool = False
    n_starts: int = 1
    n_swaps: int = 0
    prune: bool = False

    def __post_init__(self) -> None:
        if self.smoothed and self.n_starts > 1:
            raise ValueError(f"n_starts must be 1 under the smoothed rule, got {self.n_starts}")


@dataclass(frozen=True, eq=False)
class CodeSummary:
    """What the learner needs to know of the codes of some rows; parts combine with ``+``.

    Attributes
    ----------
    n_rows : int
    usage : ndarray of shape (n_experts,)
        Number of rows in which each expert is active.
    log_likelihood : float
        Sum of log P(x | h) under the hard composition.
    """

    n_rows: int
    usage: NDArray[np.int64]
    log_likelihood: float

    def __add__(self, other: CodeSummary) -> CodeSummary:
        return CodeSummary(
            self.n_rows + other.n_rows,
            self.usage + other.usage,
            self.log_likelihood + other.log_likelihood,
        )

    def to_numpy(self) -> CodeSummary:
        """The same summary off the GPU."""
        return CodeSummary(self.n_rows, to_numpy(self.usage), float(self.log_likelihood))


@dataclass(frozen=True, eq=False)
class Codes:
    """Which experts are active in each row, in the order of their activation.

    Attributes
    ----------
    order : ndarray of shape (n_rows, max_active)
        Indices of experts, padded with -1.
    log_likelihood : ndarray of shape (n_rows,)
        Log P(x | h) under the hard composition, whichever rule found the code.
    """

    order: NDArray[np.integer]
    log_likelihood: Array

    @property
    def n_active(self) -> NDArray[np.int64]:
        return np.count_nonzero(self.order >= 0, axis=1)

    @classmethod
    def joined(cls, parts: Sequence[Codes]) -> Codes:
        """The codes of one part of the rows after the other."""
        order = np.concatenate([part.order for part in parts])
        return cls(order, np.concatenate([part.log_likelihood for part in parts]))

    def or_better(self, other: Codes, cost: Array) -> Codes:
        """Of each row this code, or the other where it explains more beyond its cost."""
        better = other._worth(cost) > self._worth(cost) + MARGIN
        order = np.where(better[:, None], other.order, self.order)
        return Codes(order, np.where(better, other.log_likelihood, self.log_likelihood))

    def _worth(self, cost: Array) -> Array:
        return self.log_likelihood - np.append(cost, 0.0)[self.order].sum(axis=1)

    def active(self, n_experts: int) -> NDArray[np.bool_]:
        """The binary codes h, shape (n_rows, n_experts)."""
        h = np.zeros((len(self.order), n_experts), dtype=bool)
        rows, steps = np.nonzero(self.order >= 0)
        h[rows, self.order[rows, steps]] = True
        return h

    def summary(self, n_experts: int) -> CodeSummary:
        used = self.order[self.order >= 0]
        usage = np.bincount(used, minlength=n_experts)
        return CodeSummary(len(self.order), usage, float(self.log_likelihood.sum()))


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over rows, one beside the other in an array of shape (n_sums, n_experts, n_features).

    Those of two sets of rows add up to those of both.
    """

    array: Array

    def __add__(self, other: Self) -> Self:
        return type(self)(self.array + other.array)

    def weighted(self, weight: float) -> Self:
        """The sums as if every row counted this much."""
        return type(self)(weight * self.array)


class GradientSums(RowSums):
    """Sums over rows of g = d log P / d log e_k and of g^2, each (n_experts, n_features)."""

    @property
    def first(self) -> Array:
        return self.array[0]

    @property
    def second(self) -> Array:
        return self.array[1]


class ResponsibilitySums(RowSums):
    """Sums over rows of r, (n_experts, n_features), and of r T(x), one for each statistic."""

    @property
    def weight(self) -> Array:
        return self.array[0]

    @property
    def statistics(self) -> Array:
        return self.array[1:]


class SomeCodes(Protocol):
    """Codes of any engine, as far as pursuits of the same rows are compared."""

    def or_better(self, other: Self, cost: Array) -> Self:
        """Of each row this code, or the other where it explains more beyond its cost."""


C = TypeVar("C", bound=SomeCodes)


def best_of_starts(
    pursue_from: Callable[[Experts, PursuitRule, int], C], experts: Experts, rule: PursuitRule
) -> C:
    """Pursue the same rows from several beginnings and keep the best code of each row.

    The paper begins with the expert that explains most alone. Experts who know a part well may be
    overlooked that way: alone, each has to explain what others will explain better. Where swaps
    follow, a layman begins instead. Experts join him for what they know better, and the first swap
    gives his seat to the best of them, since nobody could pay for him. Further pursuits begin as
    the paper does, and with the second best expert, and so on.

    Parameters
    ----------
    pursue_from : callable
        Takes experts, a rule and the place of the first expert in the order of what each gains
        alone: 0 for the best, `LAYMAN` for the last.
    experts : Experts
    rule : PursuitRule
    """
    places = range(min(rule.n_starts, experts.n_experts))
    starts = [(experts, rule, place) for place in places]
    if rule.n_swaps and not rule.smoothed:
        unpayable = replace(rule, cost=np.append(rule.cost, np.inf))
        starts = [(experts.with_layman(rule.max_active), unpayable, LAYMAN), *starts[:-1]]
    codes = (pursue_from(*start) for start in starts)
    return reduce(lambda best, other: best.or_better(other, rule.cost), codes)


Fold = Callable[..., tuple[Any, ...]]
"""(rows, *arrays) -> arrays of the same shapes: what a batch of rows makes of what is known."""


class NumpyEngine:
    """What engines that work on NumPy's arrays have in common: nothing has to be moved."""

    def repeated(self, fold: Fold, n_rows: int, experts: Experts, rule: PursuitRule) -> Fold:
        """The function as it is."""
        return fold

    def hold(self, rows: NDArray) -> NDArray:
        """The rows as they are."""
        return rows

    def place(self, moments: ColumnMoments) -> ColumnMoments:
        """The moments as they are."""
        return moments


class Engine(Protocol):
    """Where rows are touched: three operations over rows, and a way to take some of them.

    `rows` and codes are whatever the engine likes; callers only hand them back. Codes must offer
    ``summary(n_experts)``. Sums of two sets of rows add up to the sums of both.
    """

    name: str

    def hold(self, rows: Any) -> Any:
        """Rows as the engine likes to keep them while it works on them again and again."""

    def place(self, moments: ColumnMoments) -> ColumnMoments:
        """The same moments as the kind of arrays the engine returns, and learning works with."""

    def repeated(self, fold: Fold, n_rows: int, experts: Experts, rule: PursuitRule) -> Fold:
        """A function that does what `fold` does, which will be called a few times in a row.

        Parameters
        ----------
        fold : callable
            Asks for the codes of a batch by `rule`, and for sums, and calculates with them.
        n_rows : int
            Rows of every batch.
        experts : Experts
            Experts of the same size and range.
        rule : PursuitRule
        """

    def take(self, rows: Any, indices: NDArray[np.intp]) -> Any:
        """The rows with these indices."""

    def pursue(self, rows: Any, experts: Experts, rule: PursuitRule) -> Codes:
        """Codes of all rows by likelihood matching pursuit (section 2.1)."""

    def gradient_sums(self, rows: Any, experts: Experts, codes: Codes) -> GradientSums:
        """Evidence for more or less expertise (appendix A), given the codes."""

    def responsibility_sums(self, rows: Any, experts: Experts, codes: Codes) -> ResponsibilitySums:
        """Sums for the expert update (eq. 5 and 6), given the codes."""
