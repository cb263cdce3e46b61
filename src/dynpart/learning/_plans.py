"""Plans: what each iteration of learning does, and how evidence moves expertise.

A plan uses numbers of rows and experts, but no row. The learner gets from it the initial
experts, the steps of the run and each change of expertise; replacing the plan replaces the whole
schedule.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like, namespace
from dynpart.deprecated import Renamed, renamed, warn_renamed
from dynpart.engines import Experts, GradientSums
from dynpart.families import ColumnMoments, Family
from dynpart.pursuits import FULL_CODE

Array = NDArray[np.float64]

DRAWN_TOGETHER = 1 << 18
"""Smallest number of random numbers drawn by a separate thread."""
TINY = float(np.finfo(np.float64).tiny)
ROUNDING = 1e-10
"""Gradients below this are rounding errors: if all experts agree there is no evidence."""


@renamed(doubt="shrink")
@dataclass(frozen=True)
class Step:
    """What one iteration does.

    Attributes
    ----------
    n_rows : int or None
        Rows drawn with replacement for each batch; None for one batch of all rows.
    n_batches : int
        Number of batches in this iteration, each with its own codes and update.
    min_active : int
        Minimum number of active experts.
    price : float
        Gain in nats that an expert beyond the minimum needs to be activated.
    smoothed : bool
        Whether the pursuit scores codes by the smoothed rule (eq. 4).
    log2_bound : float
        Levels of expertise are kept within plus and minus this.
    size : float
        Step size of expertise, from 1 down to 0.
    memory : float
        Weight of the sums of the iteration's earlier batches, added to those of a batch.
    n_starts, n_swaps : int
        Number of pursuits of a row from different experts, and rounds of refinement.
    sharpness : float
        Power to which expertise is raised in the responsibilities of the averages: the higher, the
        larger the share of the variable's owner.
    search : bool
        Whether the iteration belongs to the search, which trial searches repeat with other values
        of `min_active`.
    shrink : bool
        Whether this is the last iteration, after which opinions are shrunk.
    """

    n_rows: int | None = None
    n_batches: int = 1
    min_active: int = 1
    price: float = 0.0
    smoothed: bool = False
    log2_bound: float = math.inf
    size: float = 1.0
    memory: float = 0.0
    n_starts: int = 1
    n_swaps: int = 0
    sharpness: float = 1.0
    search: bool = False
    shrink: bool = False


class Sizes(Protocol):
    """The sizes and limits of a task that a plan may use; no values.

    Every task of the learner has these.

    Attributes
    ----------
    n_rows, n_features, n_experts, n_iter : int
        Numbers of rows, variables, experts and iterations.
    min_active, max_active : int
        Limits on active experts per row that the user set.
    """

    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_experts(self) -> int: ...
    @property
    def n_iter(self) -> int: ...
    @property
    def min_active(self) -> int: ...
    @property
    def max_active(self) -> int: ...


class Plan(Protocol):
    """Learning schedule: pass an instance as ``learning=`` to replace the default.

    Attributes
    ----------
    epsilon : float
        Weight of the data's average in the expert update (eq. 5).
    """

    epsilon: float

    def start(
        self, family: Family, moments: ColumnMoments, n_experts: int, rng: np.random.Generator
    ) -> Experts:
        """Initial experts.

        Parameters
        ----------
        family : Family
            The family of the columns.
        moments : ColumnMoments
            Means and variances of the columns.
        n_experts : int
            Number of experts.
        rng : numpy.random.Generator
            Generator of the random numbers.

        Returns
        -------
        Experts
            Opinions and levels of expertise before the first iteration.
        """

    def candidates(self, task: Sizes) -> list[int]:
        """Minimum numbers of active experts to try; a single one means no trial searches.

        Parameters
        ----------
        task : Sizes
            Numbers of rows, variables, experts and iterations.

        Returns
        -------
        list of int
            A search runs with each of them, and the best one is continued.
        """

    def steps(self, task: Sizes, min_active: int) -> list[Step]:
        """The steps of all iterations, for a minimum number of active experts in the search.

        Parameters
        ----------
        task : Sizes
            Numbers of rows, variables, experts and iterations.
        min_active : int
            One of :meth:`candidates`.

        Returns
        -------
        list of Step
            One step per iteration.
        """

    def expertise_change(self, evidence: GradientSums, n_rows: float) -> Array:
        """Change of the logarithms of expertise in one iteration.

        Parameters
        ----------
        evidence : GradientSums
            Sums over rows of the derivatives by log expertise, and of their squares.
        n_rows : float
            Number of these rows, weighted.

        Returns
        -------
        ndarray of shape (n_experts, n_features)
            To be added to the logarithms to base 2.
        """


def candidates(plan: Plan, task: Sizes) -> list[int]:
    """Minimum numbers of active experts that the plan tries.

    A plan may still use the deprecated name of the method, `contenders`.
    """
    earlier = getattr(type(plan), "contenders", None)
    if hasattr(plan, "candidates") and (earlier is None or isinstance(earlier, Renamed)):
        return plan.candidates(task)
    warn_renamed(f"{type(plan).__name__}.contenders", "candidates", stacklevel=2)
    contenders: Any = plan.contenders  # type: ignore[attr-defined]
    return list(contenders(task))


def noise(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Numbers between -1 and 1: those of ``rng.uniform(-1, 1, shape)``, drawn by several threads.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.learning._plans import noise
    >>> drawn = noise(np.random.default_rng(0), (400, 1000))
    >>> bool((drawn == np.random.default_rng(0).uniform(-1, 1, (400, 1000))).all())
    True
    """
    if math.prod(shape) <= DRAWN_TOGETHER:
        return rng.uniform(-1, 1, shape)
    drawn = np.empty(math.prod(shape))
    state: Any = rng.bit_generator.state

    def draw(begin: int) -> None:
        bits = np.random.PCG64()
        bits.state = state
        bits.advance(begin)
        part = drawn[begin : begin + DRAWN_TOGETHER]
        np.random.Generator(bits).random(out=part)
        part *= 2
        part -= 1

    with ThreadPoolExecutor() as threads:
        list(threads.map(draw, range(0, drawn.size, DRAWN_TOGETHER)))
    rng.bit_generator.advance(drawn.size)  # type: ignore[attr-defined]
    return drawn.reshape(shape)


def random_start(
    family: Family,
    moments: ColumnMoments,
    n_experts: int,
    rng: np.random.Generator,
    *,
    spread: float,
) -> Experts:
    """Initial experts: opinions near the data's average, expertise random within a factor of 2."""
    shape = (n_experts, len(moments.mean))
    drawn = noise(rng, (family.n_noise * n_experts, shape[1])).reshape(-1, *shape)
    eta = family.scattered(moments, like(drawn, moments.mean), spread)
    return Experts(family, eta, like(noise(rng, shape), moments.mean), log2_bound=1.0)


def _check_real(plan: object, name: str, least: float, *, inside: bool = False) -> None:
    """Raise ValueError unless the plan's number is finite and at least, or above, `least`."""
    value = getattr(plan, name)
    sound = isinstance(value, int | float | np.number) and least <= value < math.inf
    if not sound or (inside and value == least):
        bound = f"above {least:g}" if inside else f"of at least {least:g}"
        kind = type(plan).__name__
        raise ValueError(f"{name} of {kind} must be a finite number {bound}, got {value!r}")


def _check_count(plan: object, name: str, least: int, *, optional: bool = False) -> None:
    """Raise ValueError unless the plan's number is an integer of at least `least`."""
    value = getattr(plan, name)
    if (value is None and optional) or (isinstance(value, int | np.integer) and value >= least):
        return
    kind, words = type(plan).__name__, " or None" if optional else ""
    raise ValueError(
        f"{name} of {kind} must be an integer of at least {least}{words}, got {value!r}"
    )


@renamed(contenders="candidates")
@dataclass(frozen=True)
class Paper:
    """Literal implementation of the paper (section 2.2).

    The paper leaves some choices open. Here templates start at the data's average plus up to one
    standard deviation of noise. Expertise starts random within a factor of 2 of one, because with
    equal levels the tie rule would decide every comparison. A gradient whose mean over rows
    is below `still` counts as "very close to 0".

    Parameters
    ----------
    factor : float, default=2.0
        The paper's C, at least 1.
    epsilon : float, default=1.0
        Weight of the data's average in the expert update (eq. 5), above 0.
    still : float, default=1e-6
        Largest mean gradient per row, in absolute value, that leaves expertise unchanged.
    """

    factor: float = 2.0
    epsilon: float = 1.0
    still: float = 1e-6

    def __post_init__(self) -> None:
        _check_real(self, "factor", 1)
        _check_real(self, "epsilon", 0, inside=True)
        _check_real(self, "still", 0)

    def start(
        self, family: Family, moments: ColumnMoments, n_experts: int, rng: np.random.Generator
    ) -> Experts:
        return random_start(family, moments, n_experts, rng, spread=1.0)

    def candidates(self, task: Sizes) -> list[int]:
        return [task.min_active]

    def steps(self, task: Sizes, min_active: int) -> list[Step]:
        return [Step(min_active=min_active)] * task.n_iter

    def expertise_change(self, evidence: GradientSums, n_rows: float) -> Array:
        xp = namespace(evidence.first)
        moves = xp.abs(evidence.first) > self.still * n_rows
        return moves * xp.sign(evidence.first) * math.log2(self.factor)


@renamed(floor="min_active", contenders="candidates")
@dataclass(frozen=True)
class Annealed:
    """The default schedule: trial searches on small batches, then refinement on all rows.

    The first 70% of the iterations are the search, on small random batches, with a minimum number
    of active experts, the smoothed rule, and a growing bound on expertise. The rest is the
    refinement on all rows, with steps that decrease to zero. :doc:`/learning` has reasons and
    ablations.

    Parameters
    ----------
    factor : float, default=2.0
        Largest change of expertise in one update, the paper's C, at least 1.
    certainty : float, default=2.0
        Evidence, in standard errors of the gradient, that gives the full factor; above 0.
    epsilon : float, default=1.0
        Weight of the data's average in the expert update (eq. 5), above 0.
    min_active : int, default=None
        Minimum number of active experts in the search; None chooses it by trial searches.
    n_starts : int, default=1
        Number of pursuits per row in the refinement; the model's parameter is for encoding.
    n_swaps : int, default=None
        Rounds of refining codes in the refinement; the model's parameter is for encoding. None
        means one round, but none in a refinement of few iterations, nor in a last iteration over
        many rows. Eight starts and two rounds give slightly better models in several times the
        time.
    """

    factor: float = 2.0
    certainty: float = 2.0
    epsilon: float = 1.0
    min_active: int | None = None
    n_starts: int = 1
    n_swaps: int | None = None

    search: ClassVar[float] = 0.7
    """Share of the iterations that search."""
    by_length: ClassVar[bool] = True
    """Whether description length decides what comes after the search."""
    held: ClassVar[float] = 0.7
    """Share of the search during which `min_active` is held at its full value."""
    affordable: ClassVar[float] = 4e9
    """Maximum terms (rows x min_active x experts x variables) of a search for trials to be run."""
    soft: ClassVar[float] = 0.25
    """Share of the search with soft comparisons if there are no trials."""
    n_batches: ClassVar[int] = 3
    """Batches per iteration of a search that is one of several trials."""
    n_batches_alone: ClassVar[int] = 8
    """The same if there are no trials, so that more time is spent on the single search.

    A search of few iterations has fewer, to be quick.
    """
    memory_alone: ClassVar[float] = 0.3
    """Weight of earlier batches in such a search."""
    n_batches_refined: ClassVar[int] = 4
    """Batches per iteration of the refinement if there are many rows."""
    last_sharpness: ClassVar[float] = 3.0
    """Sharpness of the last averages over many rows; the higher, the nearer to the hard rule."""

    def __post_init__(self) -> None:
        _check_real(self, "factor", 1)
        _check_real(self, "certainty", 0, inside=True)
        _check_real(self, "epsilon", 0, inside=True)
        _check_count(self, "min_active", 0, optional=True)
        _check_count(self, "n_starts", 1)
        _check_count(self, "n_swaps", 0, optional=True)

    def start(
        self, family: Family, moments: ColumnMoments, n_experts: int, rng: np.random.Generator
    ) -> Experts:
        return random_start(family, moments, n_experts, rng, spread=0.5)

    def candidates(self, task: Sizes) -> list[int]:
        """Minimum numbers of active experts to try in a `task`: 1, 1/6, 1/3 and 1/2 of all.

        If trial searches would cost too much, it is 1/3 of the experts, but at most 12.
        """
        K = task.n_experts
        if self.min_active is not None:
            wanted = [self.min_active]
        elif self._is_small(task):
            wanted = [1, math.ceil(K / 6), math.ceil(K / 3), math.ceil(K / 2)]
        else:
            wanted = [min(FULL_CODE, math.ceil(K / 3))]
        within = [min(task.max_active, max(task.min_active, least)) for least in wanted]
        return list(dict.fromkeys(within))

    def _is_small(self, task: Sizes) -> bool:
        """Whether a search is cheap enough for trial searches and a long smoothed phase."""
        n_search = self._n_search(task)
        batches = [self._batches(task, t, n_search, self.n_batches) for t in range(n_search)]
        rows = sum(map(math.prod, batches))
        most = min(task.max_active, math.ceil(task.n_experts / 2))
        return rows * most * task.n_experts * task.n_features <= self.affordable

    def _n_search(self, task: Sizes) -> int:
        return math.floor(self.search * task.n_iter)

    def _batches(self, task: Sizes, t: int, n_search: int, n_batches: int) -> tuple[int, int]:
        """Number of batches and rows in each: from 3 to 20 rows per expert over the search."""
        rows = math.ceil(3 * task.n_experts * (20 / 3) ** (t / max(1, n_search - 1)))
        return (n_batches if task.n_rows >= 2 * rows else 1), min(task.n_rows, rows)

    def steps(self, task: Sizes, min_active: int) -> list[Step]:
        K, n_iter = task.n_experts, task.n_iter
        n_search = self._n_search(task)
        low = max(task.min_active, math.ceil(min_active / 2))
        search_bound, final_bound = math.log2(8 * K), math.log2(max(8 * K, task.n_rows))
        small = self._is_small(task)
        # Without trials, an expert must gain the cost of naming one of K: log K nats.
        price = 0.0 if small else math.log(K)
        soft, most_batches, memory = (
            (self.held, self.n_batches, 0.0)
            if small
            else (self.soft, min(self.n_batches_alone, 1 + n_search // 2), self.memory_alone)
        )

        n_refined, batch_rows = n_iter - n_search, 60 * K
        refined_batches = min(self.n_batches_refined, 1 + n_refined // 2)
        many_rows = task.n_rows >= self.n_batches_refined * batch_rows

        def search_step(t: int) -> Step:
            u = t / max(1, n_search - 1)
            fall = max(0.0, (u - self.held) / (1 - self.held))
            n_batches, rows = self._batches(task, t, n_search, most_batches)
            return Step(
                n_rows=rows,
                n_batches=n_batches,
                min_active=round(min_active + (low - min_active) * fall),
                price=price,
                smoothed=u <= soft,
                log2_bound=1 + (search_bound - 1) * u,
                memory=memory,
                search=True,
            )

        def refinement_step(t: int) -> Step:
            left = (n_iter - t) / n_refined
            last = t == n_iter - 1
            by_batches, sums_up = many_rows and not last, many_rows and last
            n_swaps = int(n_refined > 3 and not sums_up)
            return Step(
                n_rows=batch_rows if by_batches else None,
                n_batches=refined_batches if by_batches else 1,
                min_active=low,
                log2_bound=final_bound + (search_bound - final_bound) * left,
                size=math.sqrt(left),
                memory=1.0,
                n_starts=self.n_starts,
                n_swaps=n_swaps if self.n_swaps is None else self.n_swaps,
                sharpness=self.last_sharpness if sums_up else 1.0,
                shrink=last,
            )

        return [search_step(t) if t < n_search else refinement_step(t) for t in range(n_iter)]

    def expertise_change(self, evidence: GradientSums, n_rows: float) -> Array:
        # Evidence in units of its standard error, so that noise of any scale changes little.
        xp = namespace(evidence.first)
        least = max(ROUNDING**2 * n_rows, TINY)  # weights of rows may be 0
        z = evidence.first / xp.sqrt(xp.clip(evidence.second, least, None))
        most = math.log2(self.factor)
        return most * xp.clip(z / self.certainty, -1, 1)
