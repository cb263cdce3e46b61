"""The mixed family: columns of several kinds in one table, with one family per group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, is_observed, namespace
from dynpart.families._base import Array, Family
from dynpart.families._moments import ColumnMoments
from dynpart.families._stored import stored_column


@dataclass(frozen=True, eq=False)
class Mixed(Family):
    """Several families, each for some of the columns.

    Mean parameters and statistics have as many entries as the largest family; others are padded
    with zeros. Values are numbers, NaN for missing values.

    Parameters
    ----------
    parts : tuple of Family
        One family for each kind of column.
    columns : tuple of ndarray of int
        Indices of each part's columns; every column belongs to one part.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import Categorical, Count, Mixed
    >>> parts = Categorical.with_levels([3]), Count(np.zeros(1))
    >>> family = Mixed(parts, (np.array([0]), np.array([1])))
    >>> family.statistics(np.array([[2.0, 5.0]]))[:, 0].T
    array([[ 0.,  0.,  1.],
           [ 5., 25.,  0.]])
    """

    parts: tuple[Family, ...]
    columns: tuple[NDArray[np.intp], ...]
    name: ClassVar[str] = "mixed"
    by_name: ClassVar[bool] = False
    kind: ClassVar[str] = "mixed"

    @classmethod
    def for_data(cls, moments: ColumnMoments, *, variance_floor: float) -> Mixed:
        raise ValueError(
            "family='mixed' is made from the columns: use family='auto' and set their kinds with "
            "columns={...}"
        )

    @cached_property
    def n_statistics(self) -> int:  # type: ignore[override]
        """Number of statistics, the largest of the parts."""
        return max(part.n_statistics for part in self.parts)

    @cached_property
    def n_noise(self) -> int:  # type: ignore[override]
        """Random numbers per expert and variable that an initialisation needs."""
        return max(part.n_noise for part in self.parts)

    @cached_property
    def counts_levels(self) -> bool:  # type: ignore[override]
        """Whether a part needs counts of levels."""
        return any(part.counts_levels for part in self.parts)

    @cached_property
    def has_tails(self) -> bool:  # type: ignore[override]
        """Whether a part has heavy tails."""
        return any(part.has_tails for part in self.parts)

    def _each(self) -> Any:
        return zip(self.parts, self.columns, strict=True)

    def _joined(self, found: list[Any], n_lead: int | None = None) -> Any:
        """Results of the parts, joined by column; the first axis is padded to `n_lead`."""
        first = found[0]
        n_features = sum(map(len, self.columns))
        lead = first.shape[1:-1] if n_lead is not None else first.shape[:-1]
        shape = (*lead, n_features) if n_lead is None else (n_lead, *lead, n_features)
        xp = namespace(first)
        out = np.zeros(shape) if xp is np else first.new_zeros(shape, dtype=xp.float64)
        for values, columns in zip(found, self.columns, strict=True):
            if n_lead is None:
                out[..., columns] = values
            else:
                out[: len(values), ..., columns] = values
        return out

    def _of_eta(self, name: str, eta: Array, **others: Any) -> list[Any]:
        """Apply a method of every part to its own mean parameters."""
        return [
            getattr(part, name)(eta[: part.n_statistics, ..., columns], **others)
            for part, columns in self._each()
        ]

    def _padded(self, found: list[Any]) -> Array:
        return self._joined(found, self.n_statistics)

    def kinds_of_columns(self, n_features: int) -> tuple[str, ...]:
        kinds = np.empty(n_features, dtype=object)
        for part, columns in self._each():
            kinds[columns] = part.kinds_of_columns(len(columns))
        return tuple(kinds)

    def levels_of_columns(self, n_features: int) -> tuple[int, ...]:
        levels = np.zeros(n_features, dtype=int)
        for part, columns in self._each():
            levels[columns] = part.levels_of_columns(len(columns))
        return tuple(levels.tolist())

    def free_parameters(self, n_features: int) -> tuple[int, ...]:
        free = np.zeros(n_features, dtype=int)
        for part, columns in self._each():
            free[columns] = part.free_parameters(len(columns))
        return tuple(free.tolist())

    def level_probabilities(self, eta: Array) -> Array:
        """P(x = level), shape (most levels of a part, n_experts, n_features); 0 for numbers."""
        chances = np.zeros((max(part.n_levels or 0 for part in self.parts), *eta.shape[1:]))
        for part, own, s in self._sizes():
            if part.n_levels:
                chances[: part.n_levels, :, own] = part.level_probabilities(eta[:s, :, own])
        return chances

    def of_columns(self, columns: Any) -> Family:
        wanted = np.atleast_1d(np.arange(sum(map(len, self.columns)))[columns])
        groups = [
            (part, [int(np.flatnonzero(own == d)[0]) for d in wanted if d in own],
             np.flatnonzero(np.isin(wanted, own)))
            for part, own in self._each()
        ]  # fmt: skip
        kept = [(part.of_columns(inside), to) for part, inside, to in groups if inside]
        if len(kept) == 1:
            return kept[0][0]
        return Mixed(tuple(part for part, _ in kept), tuple(to for _, to in kept))

    def statistics_of(self, X: Array) -> Array:
        return self._padded([part.statistics_of(X[..., own]) for part, own in self._each()])

    def log_base(self, values: NDArray) -> Any:
        x = self.decode(values)
        nothing = 0.0 * as_float64(is_observed(x))
        return self._joined(
            [part.log_base(x[:, own]) + nothing[:, own] for part, own in self._each()]
        )

    def least_log_density(self, values: NDArray) -> Any:
        x = self.decode(values)
        return self._joined([part.least_log_density(x[:, own]) for part, own in self._each()])

    def natural(self, eta: Array) -> tuple[Array, Array]:
        found = self._of_eta("natural", eta)
        return self._padded([theta for theta, _ in found]), self._joined([A for _, A in found])

    def pull(self, T: Array, eta: Array) -> Array:
        found = []
        for part, own in self._each():
            s = part.n_statistics
            found.append(part.pull(T[:s, ..., own], eta[:s, ..., own]))
        return self._padded(found)

    def constrain(self, eta: Array) -> Array:
        return self._padded(self._of_eta("constrain", eta))

    def population(self, moments: ColumnMoments) -> Array:
        return self._padded([p.population(moments.of_columns(own)) for p, own in self._each()])

    def mean(self, eta: Array) -> Array:
        return self._joined(self._of_eta("mean", eta))

    def variance(self, eta: Array) -> Array:
        return self._joined(self._of_eta("variance", eta))

    def scattered(self, moments: ColumnMoments, noise: Array, spread: float) -> Array:
        return self._padded(
            [
                part.scattered(moments.of_columns(own), noise[: part.n_noise, ..., own], spread)
                for part, own in self._each()
            ]
        )

    def disturbed(self, eta: Array, noise: Array) -> Array:
        return self._padded(
            [
                part.disturbed(eta[: part.n_statistics, ..., own], noise[: part.n_noise, ..., own])
                for part, own in self._each()
            ]
        )

    def average(self, eta: Array) -> Array:
        return self._padded(self._of_eta("average", eta))

    def change(self, before: Array, after: Array, moments: ColumnMoments) -> Any:
        total: Any = 0.0
        for part, own in self._each():
            s = part.n_statistics
            moved = part.change(before[:s, :, own], after[:s, :, own], moments.of_columns(own))
            total = total + len(own) * moved
        return total / before.shape[2]

    def update(
        self, weight: Array, T_sum: Array, population: Array, epsilon: float | Array
    ) -> Array:
        return self._padded(
            [
                part.update(
                    weight[:, own], T_sum[:s, :, own], population[:s, own], _at(epsilon, own)
                )
                for part, own, s in self._sizes()
            ]
        )

    def conjugate(self, weight: Array, T_sum: Array) -> Array:
        return self._joined(
            [part.conjugate(weight[:, own], T_sum[:s, :, own]) for part, own, s in self._sizes()]
        )

    def settled(self, weight: Array, T_sum: Array) -> Mixed:
        found = [part.settled(weight[:, own], T_sum[:s, :, own]) for part, own, s in self._sizes()]
        return replace(self, parts=tuple(found))

    def shrunk(
        self,
        eta: Array,
        weight: Array,
        T_sum: Array,
        smoothed_weight: Array,
        smoothed_T: Array,
        population: Array,
        epsilon: float | Array,
        amount: float | None = None,
    ) -> tuple[Array, float]:
        """Each part shrunk by its own rule; the amount is that of the part that has one."""
        found = [
            part.shrunk(
                eta[:s, :, own],
                weight[:, own],
                T_sum[:s, :, own],
                smoothed_weight[:, own],
                smoothed_T[:s, :, own],
                population[:s, own],
                _at(epsilon, own),
                amount,
            )
            for part, own, s in self._sizes()
        ]
        return self._padded([eta for eta, _ in found]), max(chosen for _, chosen in found)

    def _sizes(self) -> list[tuple[Family, Any, int]]:
        return [(part, own, part.n_statistics) for part, own in self._each()]

    def equally_sure(self, eta: Array) -> Array:
        return self._padded(self._of_eta("equally_sure", eta))

    def for_learning(self) -> Mixed:
        return self._with_parts([part.for_learning() for part in self.parts])

    def as_density(self, moments: ColumnMoments) -> Mixed:
        return self._with_parts(
            [part.as_density(moments.of_columns(own)) for part, own in self._each()]
        )

    def heavy_tailed(self, moments: ColumnMoments | None) -> Mixed:
        return self._with_parts(
            [
                part.heavy_tailed(None if moments is None else moments.of_columns(own))
                for part, own in self._each()
            ]
        )

    def _with_parts(self, parts: list[Family]) -> Mixed:
        same = all(part is own for part, own in zip(parts, self.parts, strict=True))
        return self if same else replace(self, parts=tuple(parts))

    def have_own_scales(self, n_features: int) -> NDArray[np.bool_]:
        own_scales = np.zeros(n_features, dtype=bool)
        for part, own in self._each():
            own_scales[own] = part.have_own_scales(len(own))
        return own_scales

    def likeliest(self, eta: Array) -> Array:
        return self._joined(self._of_eta("likeliest", eta))

    def draw(self, eta: Array, rng: np.random.RandomState) -> Array:
        return self._joined(self._of_eta("draw", eta, rng=rng))

    def check(self, X: NDArray, name: str = "X", columns: Any = None) -> None:
        for part, own in self._each():
            part.check(X[:, own], name, own if columns is None else [columns[d] for d in own])

    def like(self, reference: Any) -> Mixed:
        return replace(self, parts=tuple(part.like(reference) for part in self.parts))

    def stored(self) -> tuple[dict[str, float], dict[str, Any]]:
        numbers: dict[str, float] = {}
        arrays: dict[str, Any] = {}
        for place, (part, own) in enumerate(self._each()):
            prefix = f"{place}.{part.name}."
            its_numbers, its_arrays = part.stored()
            numbers |= {prefix + name: value for name, value in its_numbers.items()}
            arrays |= {prefix + name: value for name, value in its_arrays.items()}
            arrays[prefix + "columns"] = own.astype(np.float64)
        return numbers, arrays

    @classmethod
    def restored(
        cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray], n_features: int
    ) -> Mixed:
        from dynpart.families import family_class

        prefixes = sorted({_prefix(name) for name in (*numbers, *arrays)})
        parts, columns = [], []
        for place, prefix in enumerate(prefixes):
            number, _, name = prefix.partition(".")
            if number != str(place) or name == cls.name:
                raise ValueError(f"{prefix[:80]!r} is not a part of a mixed family")
            its_numbers, its_arrays = (_of_part(prefix, each) for each in (numbers, arrays))
            own = its_arrays.pop("columns", np.empty((0, 0)))
            own = stored_column({"columns": own}, "columns", own.size, least=0, most=n_features - 1)
            if not own.size or (own != np.floor(own)).any():
                raise ValueError("columns of a part must be indices, and at least one")
            columns.append(own.astype(np.intp))
            parts.append(family_class(name).restored(its_numbers, its_arrays, own.size))
        if not parts or not np.array_equal(np.sort(np.concatenate(columns)), np.arange(n_features)):
            raise ValueError("every column must belong to one part of a mixed family")
        return cls(tuple(parts), tuple(columns))


def _at(epsilon: Any, columns: Any) -> Any:
    """Weights of the population of some columns, if every column has its own."""
    return epsilon if np.ndim(epsilon) == 0 else epsilon[columns]


def _prefix(name: str) -> str:
    return ".".join(name.split(".")[:2])


def _of_part(prefix: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored values of one part, under its own names."""
    begin = prefix + "."
    return {n.removeprefix(begin): v for n, v in stored.items() if n.startswith(begin)}
