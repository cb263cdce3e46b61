"""Families: the distribution of one variable under one expert, in exponential-family form.

This package knows nothing about rows, experts' supports or learning; the other packages build on
it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynpart.families._base import Family
from dynpart.families._bernoulli import SURE, Bernoulli
from dynpart.families._categorical import Categorical
from dynpart.families._count import Count
from dynpart.families._gaussian import OWN_FLOOR, SHARED_FLOOR, Gaussian
from dynpart.families._mixed import Mixed
from dynpart.families._moments import ColumnMoments, column_moments
from dynpart.families._stored import stored_column, stored_number

__all__ = [
    "KINDS",
    "SURE",
    "Bernoulli",
    "Categorical",
    "ColumnMoments",
    "Count",
    "Family",
    "Gaussian",
    "Mixed",
    "column_moments",
    "family_class",
    "family_names",
    "make_family",
    "register",
    "stored_column",
    "stored_number",
]

_FAMILIES: dict[str, type[Family]] = {}


def register(family: type[Family]) -> type[Family]:
    """Decorator that registers a family by its name, for models and model files.

    Parameters
    ----------
    family : subclass of Family
        A class with a `name` that no other family has.

    Returns
    -------
    subclass of Family
        The same class.
    """
    _FAMILIES[family.name] = family
    return family


for known in (Bernoulli, Categorical, Count, Gaussian, Mixed):
    register(known)

KINDS = ("binary", "categorical", "count", "real")
"""Kinds of columns."""


def family_names() -> list[str]:
    """Names that a model's `family` parameter accepts; other families follow from its columns.

    Examples
    --------
    >>> from dynpart.families import family_names
    >>> family_names()
    ['bernoulli', 'count', 'gaussian']
    """
    return sorted(name for name, family in _FAMILIES.items() if family.by_name)


def family_class(name: str) -> type[Family]:
    """The family of a name.

    Parameters
    ----------
    name : str
        Name of a registered family.

    Returns
    -------
    subclass of Family
        The class that was registered with this name.

    Raises
    ------
    ValueError
        If no family has this name.
    """
    if name not in _FAMILIES:
        known = ", ".join(map(repr, family_names()))
        raise ValueError(f"family must be 'auto' or one of {known}, got {name!r}")
    return _FAMILIES[name]


def make_family(
    name: str,
    moments: ColumnMoments,
    *,
    variance_floor: float | None = None,
    kinds: Sequence[str] | None = None,
    n_levels: Sequence[int | None] | None = None,
    own_scale: bool = False,
) -> Family:
    """Build the family called `name` for data with the given column moments.

    Parameters
    ----------
    name : str
        One of :func:`family_names`, or "auto" to follow `kinds`. Without kinds, "auto" means the
        Bernoulli family if every value is 0 or 1, and the Gaussian family otherwise.
    moments : ColumnMoments
        Moments of the columns of the data.
    variance_floor : float, default=None
        Smallest variance of a Gaussian expert, in units of the data's mean column variance, or of
        each column's variance if columns have their own scale. None means 1 and 0.000001.
    kinds : sequence of {"binary", "categorical", "count", "real"}, default=None
        Kind of each column.
    n_levels : sequence of int or None, default=None
        Number of levels of each categorical column; other entries are ignored.
    own_scale : bool, default=False
        Whether every real column has its own scale, as in a table with different units, or all
        share one scale, as pixels do.

    Returns
    -------
    Family
        A single family if all columns are of one kind, else a :class:`Mixed` one.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import column_moments, make_family
    >>> make_family("auto", column_moments(np.eye(3))).name
    'bernoulli'
    >>> kinds = ["count", "categorical", "real"]
    >>> moments = column_moments(np.eye(3))
    >>> make_family("auto", moments, kinds=kinds, n_levels=[None, 2, None]).name
    'mixed'
    """
    if variance_floor is None:
        variance_floor = OWN_FLOOR if own_scale else SHARED_FLOOR
    if name != "auto" or kinds is None:
        if name == "auto":
            name = "bernoulli" if moments.is_binary else "gaussian"
        if own_scale and name == "gaussian":
            return Gaussian.for_columns(moments, variance_floor=variance_floor)
        return family_class(name).for_data(moments, variance_floor=variance_floor)
    if len(kinds) != len(moments.mean) or not set(kinds) <= set(KINDS):
        raise ValueError(
            f"kinds must be one of {', '.join(map(repr, KINDS))} for each of "
            f"{len(moments.mean)} columns, got {kinds!r:.200}"
        )
    if set(kinds) == {"binary"}:
        return Bernoulli()
    makers = {
        "discrete": lambda of, own: _discrete(kinds, n_levels, own).like(of.mean),
        "count": lambda of, own: Count.for_data(of, variance_floor=variance_floor),
        "real": lambda of, own: (Gaussian.for_columns if own_scale else Gaussian.for_data)(
            of, variance_floor=variance_floor
        ),
    }
    groups = np.array(["discrete" if k in ("binary", "categorical") else k for k in kinds])
    parts, columns = [], []
    for group, make in makers.items():
        own = np.flatnonzero(groups == group)
        if own.size:
            parts.append(make(moments.of_columns(own), own))
            columns.append(own)
    return parts[0] if len(parts) == 1 else Mixed(tuple(parts), tuple(columns))


def _discrete(
    kinds: Sequence[str], n_levels: Sequence[int | None] | None, own: np.ndarray
) -> Categorical:
    """The family of the binary and categorical columns among all."""
    levels: list[int] = []
    for d in own:
        if kinds[d] == "binary":
            levels.append(2)
        elif n_levels is None or n_levels[d] is None:
            raise ValueError(f"n_levels must say how many levels categorical column {d} has")
        else:
            levels.append(int(n_levels[d]))
    return Categorical.with_levels(levels, [kinds[d] == "binary" for d in own])
