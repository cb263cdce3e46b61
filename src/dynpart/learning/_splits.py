"""Splits into rows for learning and held-back rows. Passes rows on without reading them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like, namespace
from dynpart.families import ColumnMoments, Family, column_moments
from dynpart.learning._task import Task, with_levels
from dynpart.rows import Rows

Array = NDArray[np.float64]

HELD_BACK = 5
"""One row in this many is held back."""
FEWEST_HELD_BACK = 40
"""With fewer held-back rows, cross-validation is used: each row is held back once."""
MOST_ROWS = 20_000
"""Maximum number of rows; of more, this many are drawn."""
MOST_VALUES = 1 << 24
"""Maximum number of values of these rows, so that they fit in memory."""


@dataclass(frozen=True, eq=False)
class Split:
    """A task on some rows, and the rows that are held back from it."""

    task: Task
    held: Any
    weight: Array

    @property
    def n_held(self) -> int:
        return max(1, round(float(self.weight.sum())))


def splits_of(task: Task, rng: np.random.Generator) -> list[Split]:
    """One part of the rows held back, or each part in turn if there are few."""
    n_rows = task.moments.n_rows
    most = max(2, min(MOST_ROWS, MOST_VALUES // task.n_features))
    drawn = np.sort(rng.choice(n_rows, most, replace=False)) if n_rows > most else np.arange(n_rows)
    weight = np.ones(len(drawn)) if task.weight is None else task.weight[drawn]
    if weight.sum() < 2:
        raise ValueError(
            "n_experts='auto' holds rows back and needs at least 2 rows, found "
            f"{weight.sum():g}; give a number"
        )
    # As if each row was repeated as often as it weighs, and every fifth was held back.
    few = weight.sum() / HELD_BACK < FEWEST_HELD_BACK
    n_parts = min(HELD_BACK, int(weight.sum()))
    parts = [
        back
        for back in held_back_parts(weight, n_parts, rng)
        if (back > 0).any() and (back < weight).any()
    ]
    if not parts:
        raise ValueError("n_experts='auto' holds rows back and found a single row; give a number")
    return [_split(task, drawn, weight - back, back) for back in (parts if few else parts[:1])]


def held_back_parts(weight: Array, n_parts: int, rng: np.random.Generator) -> list[Array]:
    """Weights of the rows in each part, which add up to all weights.

    A row with an integer weight is split as if it was repeated that often; other rows are not
    split.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
    n_parts : int
    rng : Generator

    Returns
    -------
    list of ndarray of shape (n_rows,)
    """
    order = rng.permutation(len(weight))
    place = np.empty(len(weight), dtype=np.intp)
    place[order] = np.arange(len(weight))
    if (weight != np.floor(weight)).any():
        return [np.where(place % n_parts == part, weight, 0.0) for part in range(n_parts)]
    ends = np.cumsum(weight[order])[place]
    begins = ends - weight
    return [
        np.floor((ends + part) / n_parts) - np.floor((begins + part) / n_parts)
        for part in range(n_parts)
    ]


def _split(task: Task, drawn: NDArray[np.intp], kept: Array, back: Array) -> Split:
    """The task on the rows that are kept, with moments of their own."""
    rows, held = (_some(task, drawn[w > 0], w[w > 0]) for w in (kept, back))
    known = task.moments
    moments = task.engine.place(_moments(rows, task.family))
    xp = namespace(moments.mean)
    seen = moments.observed > 0  # otherwise the moments of all rows are used
    moments = replace(
        moments,
        mean=xp.where(seen, moments.mean, known.mean),
        variance=xp.where(seen, moments.variance, known.variance),
    )
    moments = with_levels(task.engine, rows, task.family, moments)
    weight = None if task.weight is None else kept[kept > 0]
    return Split(replace(task, rows=rows, moments=moments, weight=weight), held, back[back > 0])


def _some(task: Task, indices: NDArray[np.intp], weight: Array) -> Any:
    rows = task.engine.take(task.rows, indices)
    if task.weight is None:
        return rows
    values = rows.values if isinstance(rows, Rows) else np.empty(0)
    return rows.weighing(like(weight, values))


def _moments(rows: Any, family: Family) -> ColumnMoments:
    """Column moments of rows that are encoded already."""
    blocks = [rows] if isinstance(rows, Rows) else rows
    return reduce(add, (column_moments(family.decode(b.values), b.weight) for b in blocks))
