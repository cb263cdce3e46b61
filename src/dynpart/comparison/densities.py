"""Tables of mixed columns, and density estimators for them. Knows `gaps`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.comparison.contestants import OURS
from dynpart.comparison.gaps import are_real, read_columns
from dynpart.estimator import DynamicPartitionModel

Array = NDArray[np.float64]

N_STARTS = 10
"""Starts of StepMix, of which the likeliest is kept."""
TOLERANCE = 1e-5
"""Tolerance in mean nats per row at which StepMix stops; its default can take minutes."""
MOST_ITERATIONS = 200
PSEUDO_ROWS = 1.0
"""Pseudo-rows that are added to a smoothed class."""


@dataclass(frozen=True, eq=False)
class MixedTable:
    """A table of categories and numbers.

    Attributes
    ----------
    name, title : str
    values : ndarray of shape (n_rows, n_features)
        Float64: indices of levels or numbers, NaN where the table has gaps.
    names : tuple of str
    levels : tuple
        Names of the levels of each column, None for a column of numbers.
    """

    name: str
    title: str
    values: Array
    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]


def mixed_table(name: str, title: str, columns: Mapping[str, list[str]]) -> MixedTable:
    """Columns of text as indices of levels, or as numbers if they have many values.

    Parameters
    ----------
    name, title : str
    columns : mapping of str to list of str
        Empty texts are gaps.

    Returns
    -------
    MixedTable

    Examples
    --------
    >>> mixed_table("toy", "toy", {"class": ["b", "a", ""]}).values
    array([[ 1.],
           [ 0.],
           [nan]])
    """
    values: list[list[float]] = []
    levels: list[tuple[str, ...] | None] = []
    for texts in columns.values():
        found = sorted({text for text in texts if text})
        if are_real(found):
            values.append([float(text) if text else np.nan for text in texts])
            levels.append(None)
        else:
            values.append([float(found.index(text)) if text else np.nan for text in texts])
            levels.append(tuple(found))
    return MixedTable(name, title, np.transpose(values), tuple(columns), tuple(levels))


def load_mixed_table(name: str) -> MixedTable:
    """Load a table by name, a key of `MIXED_TABLES`, from the folder named by DYNPART_DATA."""
    title, leave_out = MIXED_TABLES[name]
    return mixed_table(name, title, read_columns(name, leave_out))


@dataclass(frozen=True)
class DensityMethod:
    """A density estimator, learnt from some rows and scored on others.

    Attributes
    ----------
    name, title : str
    score : callable
        Takes the table, training rows, test rows, the number of experts or classes and the seed,
        and returns scores: "nats" per test row, which may not be finite, and others.
    alone : bool
        Whether it always has one expert.
    needs : str
        A package that it requires.
    """

    name: str
    title: str
    score: Callable[[MixedTable, Array, Array, int, int], dict[str, float]]
    alone: bool = False
    needs: str = ""

    @property
    def installed(self) -> bool:
        """Whether the required package is installed."""
        return not self.needs or find_spec(self.needs) is not None


def _ours(
    table: MixedTable, train: Array, test: Array, n_experts: int, seed: int
) -> dict[str, float]:
    kinds = {
        name: "real" if levels is None else levels
        for name, levels in zip(table.names, table.levels, strict=True)
    }
    model = DynamicPartitionModel(n_experts, columns=kinds, random_state=seed)
    model.fit(_as_records(table, train))
    rows = _as_records(table, test)
    return {
        "code_nats": float(np.mean(model.score_samples(rows))),
        "nats": float(np.mean(model.log_density(rows))),
        "active": float(np.mean(np.sum(model.transform(rows), axis=1))),
    }


def _as_records(table: MixedTable, values: Array) -> NDArray[Any]:
    """Rows as a structured array: names of levels, None in a gap, and numbers."""
    kinds = [
        (name, np.float64 if levels is None else object)
        for name, levels in zip(table.names, table.levels, strict=True)
    ]
    records = np.empty(len(values), dtype=kinds)
    for d, (name, levels) in enumerate(zip(table.names, table.levels, strict=True)):
        column = values[:, d]
        records[name] = (
            column
            if levels is None
            else [None if np.isnan(value) else levels[int(value)] for value in column]
        )
    return records


def _stepmix(
    table: MixedTable, train: Array, test: Array, n_classes: int, seed: int
) -> dict[str, float]:
    model, order = _learnt_classes(table, train, n_classes, seed)
    return {"nats": float(model.score(test[:, order]))}


def _smoothed_stepmix(
    table: MixedTable, train: Array, test: Array, n_classes: int, seed: int
) -> dict[str, float]:
    """Latent classes with `PSEUDO_ROWS` rows of the overall level frequencies added to each."""
    model, order = _learnt_classes(table, train, n_classes, seed)
    parameters = model.get_parameters()
    sizes = len(train) * np.asarray(parameters["weights"])[:, None]
    categories = parameters["measurement"].get("categories")
    if categories is not None:
        more = PSEUDO_ROWS * usual_shares(table, train)
        categories["pis"] = (sizes * categories["pis"] + more) / (sizes + PSEUDO_ROWS)
        model.set_parameters(parameters)
    return {"nats": float(model.score(test[:, order]))}


def usual_shares(table: MixedTable, train: Array) -> Array:
    """Shares of all levels of categorical columns, half a row added to each level.

    Returns
    -------
    ndarray of shape (n_categorical * most_levels,)
        Column by column, zero where a column has fewer levels.
    """
    most = max(len(levels) for levels in table.levels if levels is not None)
    shares = []
    for d, levels in enumerate(table.levels):
        if levels is not None:
            counts = np.array([(train[:, d] == level).sum() + 0.5 for level in range(len(levels))])
            shares.append(np.pad(counts / counts.sum(), (0, most - len(levels))))
    return np.concatenate(shares)


def _learnt_classes(
    table: MixedTable, train: Array, n_classes: int, seed: int
) -> tuple[Any, list[int]]:
    """Latent classes of StepMix and the order of columns they expect: categories first."""
    from stepmix.stepmix import StepMix

    categorical = [d for d, levels in enumerate(table.levels) if levels is not None]
    real = [d for d, levels in enumerate(table.levels) if levels is None]
    n_levels = [len(levels) for levels in table.levels if levels is not None]
    measurement: dict[str, dict[str, Any]] = {}
    if categorical:
        measurement["categories"] = {
            "model": "categorical_nan",
            "n_columns": len(categorical),
            "max_n_outcomes": max(n_levels),
            "total_outcomes": sum(n_levels),
        }
    if real:
        measurement["numbers"] = {"model": "gaussian_diag_nan", "n_columns": len(real)}
    order = categorical + real
    # Starts are run one by one: of several, StepMix may keep one that ended with NaN.
    starts = [
        StepMix(
            n_classes,
            measurement=measurement,
            abs_tol=TOLERANCE,
            max_iter=MOST_ITERATIONS,
            random_state=N_STARTS * seed + start,
            progress_bar=0,
        ).fit(train[:, order])
        for start in range(N_STARTS)
    ]
    return max(starts, key=lambda model: np.nan_to_num(model.lower_bound_, nan=-np.inf)), order


DENSITY_METHODS = {
    method.name: method
    for method in (
        DensityMethod("one-expert", "independent columns", _ours, alone=True),
        DensityMethod(OURS, "ours", _ours),
        DensityMethod("stepmix", "StepMix", _stepmix, needs="stepmix"),
        DensityMethod("stepmix-smoothed", "StepMix, smoothed", _smoothed_stepmix, needs="stepmix"),
    )
}
MIXED_TABLES: Mapping[str, tuple[str, str | None]] = {
    "zoo": ("zoo", "name"),
    "titanic": ("Titanic", None),
    "heart_disease": ("heart disease", None),
}
