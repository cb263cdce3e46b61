"""Rows: the input of engines. Values as encoded by their family, and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dynpart.arrays import is_observed, is_tensor, like, namespace, to_numpy
from dynpart.families import Family


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table.

    Attributes
    ----------
    values : array of shape (n_rows, n_features)
        Of NumPy or torch, as returned by :meth:`Family.encode`: levels of discrete families, with
        one more level for missing values; numbers of all others, NaN for missing values.
    weight : array of shape (n_rows,), float64, or None
        Weights of the rows; None if all weights are 1.
    complete : bool
        Whether every value is known to be observed.
    """

    values: Any
    weight: Any = None
    complete: bool = True

    def __post_init__(self) -> None:
        if self.values.ndim != 2:
            raise ValueError(f"rows must have two axes, got shape {tuple(self.values.shape)}")
        if self.weight is not None and tuple(self.weight.shape) != (len(self.values),):
            raise ValueError(
                f"{len(self.values)} rows must have as many weights, got shape "
                f"{tuple(self.weight.shape)}"
            )

    @classmethod
    def of(cls, X: Any, family: Family, weight: Any = None) -> Self:
        """Rows of a table of numbers, NaN for missing values, for this family."""
        xp = namespace(X)
        complete = X.dtype in (xp.bool, xp.uint8) or bool(is_observed(X).all())
        return cls(family.encode(X), weight, complete)

    def encoded(self, family: Family) -> Self:
        """The same rows, encoded by this family; their values must be numbers."""
        return type(self).of(self.values, family, self.weight)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and variables."""
        n_rows, n_features = self.values.shape
        return int(n_rows), int(n_features)

    @property
    def nbytes(self) -> int:
        """Memory of the values."""
        return int(self.values.nbytes)

    def __sizeof__(self) -> int:
        """Memory of values and weights; a cluster uses it to decide what to spill to disk."""
        return self.nbytes + (0 if self.weight is None else int(self.weight.nbytes))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Self:
        """Some of the rows: a slice, or an array of indices."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, values=self.values[rows], weight=weight)

    def weighing(self, weight: Any) -> Self:
        """The same rows with other weights."""
        return replace(self, weight=weight)

    def like(self, reference: Any) -> Self:
        """The same rows as the type of arrays that `reference` is, on its device."""
        weight = None if self.weight is None else like(self.weight, reference)
        return replace(self, values=like(self.values, reference), weight=weight)

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """All parts joined; weights are kept if all parts have them."""
        xp = namespace(parts[0].values)
        weights = [part.weight for part in parts]
        weighted = all(weight is not None for weight in weights)
        return cls(
            xp.concatenate([part.values for part in parts]),
            xp.concatenate(weights) if weighted else None,
            all(part.complete for part in parts),
        )

    def to_numpy(self) -> Self:
        """The same rows in NumPy arrays."""
        return self.like(np.empty(0)) if is_tensor(self.values) else self


def weight_of(rows: Rows) -> float:
    """Total weight of the rows: their number if they have no weights."""
    return len(rows) if rows.weight is None else float(to_numpy(rows.weight).sum())
