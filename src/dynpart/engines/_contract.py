"""The interface between engines, which process rows, and the learner, which uses only sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dynpart.ahead import Kernel
from dynpart.amplitudes import Amplitude
from dynpart.arrays import like, namespace, to_numpy
from dynpart.autoregression import Autoregression, AutoregressionSums, log_density_given
from dynpart.composition import compose_hard, expertise_ranks
from dynpart.deprecated import renamed
from dynpart.engines._charges import Charges
from dynpart.families import ColumnMoments, Family
from dynpart.prior import CodePrior
from dynpart.rows import Rows

if TYPE_CHECKING:
    from dynpart.engines._mixture import MixtureSums

Array = NDArray[np.float64]

MARGIN = 1e-3
"""Nats an expert must gain beyond its cost to be activated; smaller gains are rounding errors."""
NEARLY = 3.0
"""Largest difference in nats to the best type at which a code also settles under another type."""


@dataclass(frozen=True, eq=False)
class Experts:
    """The parameters of a model that pursuit and sums need.

    Attributes
    ----------
    family : Family
        The family of the columns.
    eta : ndarray of shape (n_statistics, n_experts, n_features)
        Opinions, as mean parameters.
    log2_expertise : ndarray of shape (n_experts, n_features)
        Levels of expertise as logarithms, because only order and ratios matter.
    log2_bound : float
        All these levels lie within plus and minus this bound, up to rounding.
    amplitude : Amplitude or None
        Priors of the gains and offsets of active experts, if there are any.
    autoregression : Autoregression or None
        Weights of the earlier values of a row in the predictions of every expert.
    """

    family: Family
    eta: Array
    log2_expertise: Array
    log2_bound: float = math.inf
    amplitude: Amplitude | None = None
    autoregression: Autoregression | None = None

    def __post_init__(self) -> None:
        wanted = (self.family.n_statistics, *self.log2_expertise.shape)
        if len(wanted) != 3 or tuple(self.eta.shape) != wanted:
            raise ValueError(
                f"opinions and expertise disagree: eta has shape {tuple(self.eta.shape)}, "
                f"log2_expertise {tuple(self.log2_expertise.shape)}"
            )

    @property
    def n_experts(self) -> int:
        """Number of experts."""
        return self.eta.shape[1]

    def check_shapes(self, rows: Rows, *, cost: Any = None, members: Any = None) -> None:
        """Raise ValueError unless `rows`, `cost` and `members` have the sizes that kernels require.

        `cost` and `members` are those of :class:`PursuitRule` and :class:`Codes`.
        """
        n_experts, n_features = self.log2_expertise.shape
        if rows.shape[1] != n_features:
            raise ValueError(f"rows of shape {rows.shape} do not match {n_features} variables")
        if cost is not None and tuple(cost.shape) != (n_experts,):
            raise ValueError(f"costs of shape {tuple(cost.shape)} do not match {n_experts} experts")
        if members is not None and (members.ndim != 2 or len(members) != len(rows)):
            raise ValueError(f"codes of shape {tuple(members.shape)} do not match {len(rows)} rows")

    def like(self, reference: Any) -> Experts:
        """The same experts as arrays of the type and device of `reference`."""
        eta, log2_expertise = like(self.eta, reference), like(self.log2_expertise, reference)
        family, given = self.family.like(reference), self.autoregression
        given = None if given is None else given.like(reference)
        return Experts(family, eta, log2_expertise, self.log2_bound, self.amplitude, given)

    def equally_sure(self) -> Experts:
        """The same experts with opinions of equal certainty, and without heavy tails."""
        family = self.family.heavy_tailed(None)
        return replace(self, family=family, eta=self.family.equally_sure(self.eta))

    def heavy_tailed(self, moments: ColumnMoments) -> Experts:
        """The same experts with heavy tails in real columns that have their own scale.

        `moments` are those of the data, whose spread the tails have.
        """
        family = self.family.heavy_tailed(moments)
        return self if family is self.family else replace(self, family=family)

    def judged(self) -> Experts:
        """The experts for choosing codes: the same, unless a single variance is used."""
        eta = self.family.judged(self.eta)
        return self if eta is self.eta else replace(self, eta=eta)

    def for_learning(self) -> Experts:
        """The same experts as used in learning."""
        family = self.family.for_learning()
        if family is self.family:
            return self
        return replace(self, family=family, eta=family.constrain(self.eta))

    def beside(self, background: Experts) -> Experts:
        """The same experts with the expert `background` appended."""
        xp = namespace(self.eta)
        eta = xp.concatenate([self.eta, background.eta], axis=1)
        levels = xp.concatenate([self.log2_expertise, background.log2_expertise])
        return replace(self, eta=eta, log2_expertise=levels)

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """Strict order of expertise per variable, shape (n_experts, n_features)."""
        return expertise_ranks(self.log2_expertise)

    @cached_property
    def natural(self) -> tuple[Array, Array]:
        """Natural parameters and log-partition of every expert and variable."""
        return self.family.natural(self.eta)

    def owned_log_density(self, values: Any, owner: Any) -> Any:
        """Log P(x_d) of every variable under its owner, given earlier ones if autoregressive.

        Parameters
        ----------
        values : array of shape (n_rows, n_features)
            As :meth:`Family.encode <dynpart.families.Family.encode>` returns them.
        owner : array of shape (n_rows, n_features)
            Index of the owner of each variable.
        """
        eta = compose_hard(self.eta, owner)
        if self.autoregression is None:
            return self.family.log_density(values, eta)
        return log_density_given(values, eta, self.family, self.autoregression)


@dataclass(frozen=True, eq=False)
class PursuitRule:
    """Rules by which likelihood matching pursuit activates, refines and stops.

    Attributes
    ----------
    min_active, max_active : int
        Minimum and maximum number of active experts per row; both at least 1.
    cost : ndarray of shape (n_experts,)
        Activation cost of each expert, in nats.
    smoothed : bool
        Whether to score codes by the smoothed rule (eq. 4) instead of the hard rule (eq. 2). Such
        codes are greedy: one start, no refinement.
    n_starts : int
        Number of pursuits per row, each starting with another expert; the best code is kept.
    n_swaps : int
        Maximum number of rounds of the refinement after each pursuit, which exchanges, drops and
        adds experts; 0 for none.
    prune : bool
        Whether to drop experts that later activations made useless.
    prior : CodePrior, default=None
        Prior over codes for the refinement: log P(h), summed over types, is added to the
        objective. The pursuit itself uses only likelihood and costs, because under the prior it
        would stop too early. None means that all codes are equally probable.
    """

    min_active: int
    max_active: int
    cost: Array
    smoothed: bool = False
    n_starts: int = 1
    n_swaps: int = 0
    prune: bool = False
    prior: CodePrior | None = None

    def __post_init__(self) -> None:
        if min(self.min_active, self.max_active) < 1:
            raise ValueError(
                "min_active and max_active must be at least 1, got "
                f"{self.min_active} and {self.max_active}"
            )
        if self.prior is not None and self.prior.n_experts != len(self.cost):
            raise ValueError(
                f"a prior over codes of {self.prior.n_experts} experts does not match "
                f"{len(self.cost)} experts"
            )
        if self.smoothed and (self.n_starts > 1 or self.n_swaps or self.prune):
            raise ValueError(
                "codes of the smoothed rule are greedy: n_starts must be 1, n_swaps 0 and prune "
                f"False, got n_starts={self.n_starts}, n_swaps={self.n_swaps}, prune={self.prune}"
            )

    @cached_property
    def charges(self) -> Charges:
        """Costs of codes, and their log P(h) if there is a prior."""
        return Charges.of(self.cost, self.prior)

    @property
    def one_cost(self) -> bool:
        """Whether all experts cost the same."""
        return bool((self.cost == self.cost[0]).all())

    @property
    def tries_experts_alone(self) -> bool:
        """Whether refined codes are compared with the best single expert: if rows have types."""
        return bool(self.n_swaps) and self.min_active == 1 and self.charges.n_types > 1

    def check_background(self, background: Experts | None) -> None:
        """Raise ValueError if codes are to be refined and `background` is None."""
        if self.n_swaps and background is None:
            raise ValueError(f"n_swaps={self.n_swaps} needs a background expert: dynpart.pursuits")


def check_hard(rule: PursuitRule) -> None:
    """Raise ValueError if codes with amplitudes are combined with the smoothed rule."""
    if rule.smoothed:
        raise ValueError("codes with amplitudes need the hard rule: smoothed must be False")


def check_plain(experts: Experts) -> None:
    """Raise ValueError if experts are autoregressive: their sums are `autoregression_sums`."""
    if experts.autoregression is not None:
        raise ValueError("autoregressive experts do not have these sums")


def check_newton(experts: Experts) -> None:
    """Raise ValueError unless this family supports Newton's method."""
    if not experts.family.allows_newton:
        raise ValueError(f"Newton's method is for binary columns, found {experts.family.name}")


def n_weakest(n_active: Any) -> Any:
    """Number of experts of a code that are re-examined with the background expert: a third."""
    return -(-n_active // 3)


@dataclass(frozen=True, eq=False)
class CodeSummary:
    """Summary of the codes of some rows for the learner; parts combine with ``+``.

    Attributes
    ----------
    n_rows : float
        Number of rows, weighted.
    usage : ndarray of shape (n_experts,)
        Weighted number of rows in which each expert is active.
    log_likelihood : float
        Weighted sum of log P(x | h) under the hard rule.
    log_base : float
        The part of it that does not depend on experts: the sum of b(x).
    """

    n_rows: float
    usage: NDArray
    log_likelihood: float
    log_base: float = 0.0

    def __add__(self, other: CodeSummary) -> CodeSummary:
        return CodeSummary(
            self.n_rows + other.n_rows,
            self.usage + other.usage,
            self.log_likelihood + other.log_likelihood,
            self.log_base + other.log_base,
        )

    def to_numpy(self) -> CodeSummary:
        """The same summary off the GPU."""
        usage = to_numpy(self.usage)
        return CodeSummary(self.n_rows, usage, float(self.log_likelihood), float(self.log_base))


def row_log_base(rows: Rows, family: Family) -> Any:
    """Sums of b(x) over the variables of each row, shape (n_rows,), or 0.0."""
    base = family.log_base(rows.values)
    return base if isinstance(base, float) else base.sum(axis=1)


@renamed(order="members")
@dataclass(frozen=True, eq=False)
class Codes:
    """The active experts of each row.

    Attributes
    ----------
    members : ndarray of shape (n_rows, max_active)
        Indices of active experts, padded with -1. They are in the order of activation for greedy
        codes and in no particular order for refined ones.
    log_likelihood : ndarray of shape (n_rows,)
        Log P(x | h) under the hard rule, also if the smoothed rule found the code.
    log_base : ndarray of shape (n_rows,) or 0.0
        The part of it that does not depend on experts: b(x).
    weight : ndarray of shape (n_rows,) or None
        Weight of each row; None if all are 1.
    """

    members: NDArray[np.integer]
    log_likelihood: Array
    log_base: Array | float = 0.0
    weight: Array | None = None

    @property
    def n_active(self) -> NDArray[np.int64]:
        """Number of active experts of each row."""
        return np.count_nonzero(self.members >= 0, axis=1)

    @classmethod
    def joined(cls, parts: Sequence[Codes]) -> Codes:
        """The codes of several `parts` of the rows, concatenated."""
        members, log_likelihood = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("members", "log_likelihood")
        )
        bases = [part.log_base for part in parts]
        log_base = 0.0 if isinstance(bases[0], float) else np.concatenate(bases)
        weights = [part.weight for part in parts if part.weight is not None]
        weight = np.concatenate(weights) if weights else None
        return cls(members, log_likelihood, log_base, weight)

    def __sizeof__(self) -> int:
        """Memory of the codes, by which a cluster decides what goes to disk."""
        return int(self.members.nbytes + self.log_likelihood.nbytes)

    def __getitem__(self, rows: slice) -> Codes:
        base = self.log_base if isinstance(self.log_base, float) else self.log_base[rows]
        weight = None if self.weight is None else self.weight[rows]
        return Codes(self.members[rows], self.log_likelihood[rows], base, weight)

    def of_rows(self, rows: Rows, family: Family) -> Codes:
        """The codes with b(x) of a `family` and the weights of `rows`."""
        base = row_log_base(rows, family)
        return Codes(self.members, self.log_likelihood + base, base, rows.weight)

    def with_code(self, rows: Any, code: NDArray[np.int64]) -> Codes:
        """The same codes with the experts `code`, of likelihood 1, in some `rows`."""
        members, log_likelihood = self.members.copy(), self.log_likelihood.copy()
        members[rows] = -1
        members[rows, : len(code)] = code
        log_likelihood[rows] = 0.0
        return replace(self, members=members, log_likelihood=log_likelihood)

    def or_better(self, other: Codes, charges: Charges) -> Codes:
        """The better code of each row, this or the `other`, by log-likelihood minus `charges`."""
        better = other._worth(charges) > self._worth(charges) + MARGIN
        members = np.where(better[:, None], other.members, self.members)
        return Codes(members, np.where(better, other.log_likelihood, self.log_likelihood))

    def _worth(self, charges: Charges) -> Array:
        return self.log_likelihood + charges.of_codes(self.members)

    def active(self, n_experts: int) -> NDArray[np.bool_]:
        """The binary codes h, shape (n_rows, `n_experts`)."""
        h = np.zeros((len(self.members), n_experts), dtype=bool)
        rows, steps = np.nonzero(self.members >= 0)
        h[rows, self.members[rows, steps]] = True
        return h

    def summary(self, n_experts: int) -> CodeSummary:
        """Summary of these codes of `n_experts` experts for the learner."""
        rows, steps = np.nonzero(self.members >= 0)
        base = self.log_base + np.zeros(len(self.members))
        if self.weight is None:
            usage = np.bincount(self.members[rows, steps], minlength=n_experts)
            n_rows, sums = len(self.members), (self.log_likelihood.sum(), base.sum())
        else:
            usage = np.bincount(self.members[rows, steps], self.weight[rows], minlength=n_experts)
            n_rows = self.weight.sum()
            sums = self.weight @ self.log_likelihood, self.weight @ base
        return CodeSummary(float(n_rows), usage, float(sums[0]), float(sums[1]))


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over rows, stacked in an array of shape (n_sums, n_experts, n_features).

    The sums of two sets of rows add up to the sums of their union.
    """

    array: Array

    def __add__(self, other: Self) -> Self:
        return type(self)(self.array + other.array)

    def weighted(self, weight: float) -> Self:
        """The sums multiplied by `weight`."""
        return type(self)(weight * self.array)


class GradientSums(RowSums):
    """Sums over rows of the derivatives g of log P(x | h) by log expertise, and of their squares.

    Both decide how much the expertise of an expert for a variable changes.

    Attributes
    ----------
    array : ndarray of shape (2, n_experts, n_features)
        The sums of g, then the sums of its square.
    """

    @property
    def first(self) -> Array:
        """Sums of the derivatives, (n_experts, n_features)."""
        return self.array[0]

    @property
    def second(self) -> Array:
        """Sums of the squared derivatives, (n_experts, n_features)."""
        return self.array[1]


class ResponsibilitySums(RowSums):
    """Sums over rows of responsibilities r, and of r T(x) for each statistic T of the family.

    Their ratios are the new opinions (eq. 5 and 6).

    Attributes
    ----------
    array : ndarray of shape (1 + n_statistics, n_experts, n_features)
        The sums of r, then the sums of r T(x), one for each statistic.
    """

    @property
    def weight(self) -> Array:
        """Sums of the responsibilities, (n_experts, n_features)."""
        return self.array[0]

    @property
    def statistics(self) -> Array:
        """Weighted sums of the statistics, (n_statistics, n_experts, n_features)."""
        return self.array[1:]

    def without(self, own: ResponsibilitySums) -> ResponsibilitySums:
        """The sums minus those of some rows, `own`, with weights bounded below by 0."""
        left = self.array - own.array
        return ResponsibilitySums(namespace(left).where(left[:1] > 0, left, 0.0))


class OpinionSums(RowSums):
    """Sums over rows of the derivatives by an opinion (appendix A.1.2), (n_experts, n_features).

    The first derivative, and minus the second, which for a binary variable is its square.
    """

    @property
    def first(self) -> Array:
        return self.array[0]

    @property
    def second(self) -> Array:
        return self.array[1]


Fold = Callable[..., tuple[Any, ...]]
"""Update from a batch: (rows, *arrays) -> arrays of the same shapes."""


class NumpyEngine:
    """Common base of engines for NumPy arrays, which need no moves between devices."""

    def repeated(self, fold: Fold, n_rows: int, experts: Experts, rule: PursuitRule) -> Fold:
        """The function as it is."""
        return fold

    def expected_kernels(
        self, rows: Any, experts: Experts, rules: Sequence[PursuitRule]
    ) -> list[Kernel]:
        """No kernels: none of them takes long to compile."""
        return []

    def hold(self, rows: Rows) -> Rows:
        """The rows as they are."""
        return rows

    def place(self, moments: ColumnMoments) -> ColumnMoments:
        """The moments as they are."""
        return moments

    def take(self, rows: Rows, indices: NDArray[np.intp]) -> Rows:
        """The rows with these indices."""
        return rows[indices]

    def mixture_sums(
        self, rows: Rows, experts: Experts, log_weight: Array, sharpness: float = 1.0
    ) -> MixtureSums:
        """Sums for EM of a mixture whose components are the experts."""
        from dynpart.engines._mixture import mixture_sums

        return mixture_sums(rows, experts, log_weight, sharpness)


class Engine(Protocol):
    """Operations over rows: find their codes, compute sums given the codes, select some of them.

    In all methods, `rows` are ``dynpart.rows.Rows``, or blocks of them that the engine can
    read, and `experts` are :class:`Experts`. `codes` are what :meth:`pursue` returns, of any type
    with a method ``summary(n_experts)``; callers only pass them back. The sums of two sets of rows
    add up to the sums of their union. Missing values add nothing to any likelihood or sum, and rows
    count with their weights.

    Attributes
    ----------
    name : str
        Name for users: ``DynamicPartitionModel(engine=name)``.
    """

    name: str

    def expected_kernels(
        self, rows: Any, experts: Experts, rules: Sequence[PursuitRule]
    ) -> list[Kernel]:
        """The compiled kernels of pursuits by these `rules`, if compiling them takes long.

        Only the types of rows and experts matter; nothing is run.
        """

    def hold(self, rows: Any) -> Any:
        """Rows in the form in which the engine keeps them for repeated use."""

    def place(self, moments: ColumnMoments) -> ColumnMoments:
        """The same `moments` as the type of arrays that the engine returns."""

    def repeated(self, fold: Fold, n_rows: int, experts: Experts, rule: PursuitRule) -> Fold:
        """A function equivalent to `fold`, optimised for several calls in a row.

        Parameters
        ----------
        fold : callable
            Finds the codes of a batch by `rule`, computes sums, and updates arrays with them.
        n_rows : int
            Number of rows of every batch.
        experts : Experts
            Experts of the same size and range.
        rule : PursuitRule
            How codes are found.

        Returns
        -------
        callable
            With the arguments and results of `fold`.
        """

    def take(self, rows: Any, indices: NDArray[np.intp]) -> Any:
        """The rows with these `indices`."""

    def pursue(
        self, rows: Any, experts: Experts, rule: PursuitRule, background: Experts | None = None
    ) -> Any:
        """Codes of all rows by likelihood matching pursuit (section 2.1).

        Parameters
        ----------
        rows : Rows
            Rows to encode.
        experts : Experts
            Experts to encode with.
        rule : PursuitRule
            Limits on active experts, costs, and refinement.
        background : Experts or None, default=None
            A model of one expert, which guides the refinement (``rule.n_swaps``).

        Returns
        -------
        Codes
            The active experts of each row, or another type with the same methods.
        """

    def gradient_sums(self, rows: Any, experts: Experts, codes: Any) -> GradientSums:
        """Evidence for more or less expertise (appendix A), given the codes."""

    def responsibility_sums(self, rows: Any, experts: Experts, codes: Any) -> ResponsibilitySums:
        """Sums for the expert update (eq. 5 and 6), given the codes."""

    def opinion_sums(self, rows: Any, experts: Experts, codes: Any) -> OpinionSums:
        """Sums for Newton's method (appendix B), given the codes, in families that allow it."""

    def mixture_sums(
        self, rows: Any, experts: Experts, log_weight: Array, sharpness: float = 1.0
    ) -> MixtureSums:
        """Sums for EM of a mixture whose components are the experts.

        Parameters
        ----------
        rows : Rows
            Rows to sum over.
        experts : Experts
            The components.
        log_weight : ndarray of shape (n_experts,)
            Logarithms of the weights of the components.
        sharpness : float, default=1.0
            Power to which posterior probabilities are raised.

        Returns
        -------
        MixtureSums
            Sums of the posterior probabilities, and of the statistics weighted by them.
        """

    def autoregression_sums(self, rows: Any, experts: Experts, codes: Any) -> AutoregressionSums:
        """Sums for the weights of earlier values, given the codes, of experts that have them.

        Autoregressive experts have no other sums.
        """
