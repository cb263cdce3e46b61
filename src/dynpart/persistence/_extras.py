"""Parts of a model file that not every model has: a graph, the data's moments, the adaptation.

Each is written if the model has it and read if the file has it, with checks of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.persistence._container import ModelFileError, number, plain

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel

GRAPH = ("connectivity.row", "connectivity.column", "connectivity.weight")
MOMENTS = ("moments.mean", "moments.variance")
OPTIONAL = {*GRAPH, *MOMENTS}

Arrays = dict[str, NDArray[Any]]


def pack_extras(model: DynamicPartitionModel) -> tuple[dict[str, Any], Arrays]:
    """JSON entries and arrays of what the model has."""
    meta: dict[str, Any] = {}
    arrays: Arrays = {}
    graph = graph_arrays(getattr(model, "connectivity", None))
    if graph is not None:
        arrays |= dict(zip(GRAPH, graph, strict=True))
    moments = getattr(model, "_moments", None)
    if moments is not None:
        meta["moments"] = {"n_rows": int(moments.n_rows), "is_binary": bool(moments.is_binary)}
        values = (np.asarray(moments.mean, float), np.asarray(moments.variance, float))
        arrays |= dict(zip(MOMENTS, values, strict=True))
    adaptation = getattr(model, "adaptation_", None)
    if adaptation is not None:
        meta["adaptation"] = plain(dataclasses.asdict(adaptation))
    return meta, arrays


def graph_arrays(connectivity: Any) -> tuple[NDArray[Any], ...] | None:
    """A graph over the variables as rows, columns and weights of its edges."""
    if connectivity is None:
        return None
    from scipy import sparse

    graph = sparse.coo_array(connectivity)
    weight = np.asarray(graph.data, dtype=np.float64)
    return graph.row.astype(np.int64), graph.col.astype(np.int64), weight


def unpack_extras(
    path: Any, model: DynamicPartitionModel, meta: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Give the model what the file has."""
    n_features = meta["n_features"]
    if not OPTIONAL.isdisjoint(arrays):
        _unpack_graph(path, model, arrays, n_features)
        _unpack_moments(path, model, meta, arrays, n_features)
    if meta.get("adaptation") is not None:
        model.adaptation_ = _adaptation(path, meta["adaptation"])


def _unpack_graph(
    path: Any, model: DynamicPartitionModel, arrays: Mapping[str, Any], n_features: int
) -> None:
    if not any(name in arrays for name in GRAPH):
        return
    from scipy import sparse

    row, column, weight = (arrays.get(name, np.empty(0)) for name in GRAPH)
    sound = (
        row.dtype == column.dtype == np.int64
        and weight.dtype == np.float64
        and row.ndim == 1
        and row.shape == column.shape == weight.shape
        and all(((index >= 0) & (index < n_features)).all() for index in (row, column))
        and np.isfinite(weight).all()
    )
    if not sound:
        raise ModelFileError(f"{path} holds a graph over the variables that cannot be")
    shape = (n_features, n_features)
    model.connectivity = sparse.csr_array((weight, (row, column)), shape=shape)


def _unpack_moments(
    path: Any,
    model: DynamicPartitionModel,
    meta: Mapping[str, Any],
    arrays: Mapping[str, Any],
    n_features: int,
) -> None:
    facts: Any = meta.get("moments")
    if facts is None and not any(name in arrays for name in MOMENTS):
        return
    from dynpart.families import ColumnMoments

    mean, variance = (arrays.get(name, np.empty(0)) for name in MOMENTS)
    sound = (
        isinstance(facts, dict)
        and type(facts.get("n_rows")) is int
        and facts["n_rows"] > 0
        and isinstance(facts.get("is_binary"), bool)
        and mean.dtype == variance.dtype == np.float64
        and mean.shape == variance.shape == (n_features,)
        and np.isfinite(mean).all()
        and (np.isfinite(variance) & (variance >= 0)).all()
    )
    if not sound:
        raise ModelFileError(f"{path} holds moments of the data that cannot be")
    model._moments = ColumnMoments(facts["n_rows"], mean, variance, facts["is_binary"])


def _adaptation(path: Any, meta: Any) -> Any:
    """How the schedule was adapted to the data."""
    from dynpart.learning import Adaptation, Contender

    def numbers(values: Any, kind: type) -> dict[str, Any]:
        if not isinstance(values, dict):
            raise ModelFileError(f"{path} holds an adaptation that cannot be read")
        names = [field.name for field in dataclasses.fields(kind) if field.name != "contenders"]
        found = {name: number(values.get(name)) for name in names}
        if not all(value is None or isinstance(value, int | float) for value in found.values()):
            raise ModelFileError(f"{path} holds an adaptation that cannot be read")
        return found

    own = numbers(meta, Adaptation)
    others = meta.get("contenders", [])
    if not isinstance(others, list):
        raise ModelFileError(f"{path} holds an adaptation that cannot be read")
    return Adaptation(**own, contenders=tuple(Contender(**numbers(c, Contender)) for c in others))
