"""Optional parts of a model file: graph, moments, code book, adaptation, stream, names of experts,
assessments, and the parameters with which activations were counted if they have changed.

Each part is written if the model has it and read if the file has it, with its own checks.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.storage._autoregression import AUTOREGRESSION
from dynpart.storage._choices import pack_choices, unpack_choices
from dynpart.storage._container import ModelFileError, plain
from dynpart.storage._history import LONGEST
from dynpart.storage._numbers import MOST_ROWS, is_count, is_real
from dynpart.storage._prior import PRIOR
from dynpart.storage._stream import pack_moments, pack_stream, unpack_moments, unpack_stream

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from dynpart.codebook import CodeBook
    from dynpart.encoding import Encoding

GRAPH = ("connectivity.row", "connectivity.column", "connectivity.weight")
MOMENTS = ("moments.mean", "moments.variance", "moments.observed", "moments.levels")
BOOK = ("book.codes", "book.counts")
OPTIONAL = {*GRAPH, *MOMENTS, *BOOK, *PRIOR, *AUTOREGRESSION}
LEAST_WEIGHT, MOST_WEIGHT = 1e-300, 1e6
"""Range of the weights of edges: with larger weights smoothing does not converge, and the
reciprocal of smaller ones overflows."""

Arrays = dict[str, NDArray[Any]]


def pack_extras(model: BaseEstimator) -> tuple[dict[str, Any], Arrays]:
    """JSON entries and arrays of the parts that the model has."""
    from dynpart.encoding import Encoding

    meta: dict[str, Any] = {}
    arrays: Arrays = {}
    graph = graph_arrays(getattr(model, "connectivity", None))
    if graph is not None:
        arrays |= dict(zip(GRAPH, graph, strict=True))
    moments = getattr(model, "_moments", None)
    if moments is not None:
        meta["moments"], more = pack_moments("moments", moments)
        arrays |= more
    book = getattr(model, "_book", None)
    if book is not None:
        arrays |= dict(zip(BOOK, (np.packbits(book.codes, axis=1), book.counts), strict=True))
    stream = getattr(model, "_stream", None)
    if stream is not None:
        meta["stream"], more = pack_stream(stream)
        arrays |= more
    adaptation = getattr(model, "adaptation_", None)
    if adaptation is not None:
        meta["adaptation"] = plain(dataclasses.asdict(adaptation))
    given = getattr(model, "_given_names", None)
    if given:
        meta["expert_names"] = {str(k): name for k, name in sorted(given.items())}
    counted = getattr(model, "_counted_with", None)
    if counted is not None and counted != Encoding.of(model):
        meta["counted_with"] = plain(dataclasses.asdict(counted))
    return meta | pack_choices(model), arrays


def graph_arrays(connectivity: Any) -> tuple[NDArray[Any], ...] | None:
    """A graph over the variables as rows, columns and weights of its edges."""
    if connectivity is None:
        return None
    from scipy import sparse

    graph = sparse.coo_array(connectivity)
    weight = np.asarray(graph.data, dtype=np.float64)
    return graph.row.astype(np.int64), graph.col.astype(np.int64), weight


def unpack_extras(
    path: Any, model: BaseEstimator, meta: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Set the parts that the file has."""
    n_experts, n_features = meta["n_experts"], meta["n_features"]
    _unpack_graph(path, model, arrays, n_features)
    model._book = _book(path, arrays, n_experts)
    if meta.get("moments") is not None or any(name in arrays for name in MOMENTS):
        facts = meta.get("moments")
        model._moments = unpack_moments(path, "moments", facts, arrays, model.family_, n_features)
    if meta.get("stream") is not None:
        shape = (n_experts, n_features)
        model._stream = unpack_stream(
            path, meta["stream"], arrays, model.family_, model.history_, shape
        )
    if meta.get("adaptation") is not None:
        model.adaptation_ = _adaptation(path, meta["adaptation"])
    if meta.get("expert_names") is not None:
        model._given_names = _expert_names(path, meta["expert_names"], n_experts)
    unpack_choices(path, model, meta)
    model._counted_with = _counted_with(path, model, meta.get("counted_with"))


def _unpack_graph(
    path: Any, model: BaseEstimator, arrays: Mapping[str, Any], n_features: int
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
        and ((weight == 0) | ((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT))).all()
    )
    if not sound:
        raise ModelFileError(f"{path} holds an invalid graph over the variables")
    shape = (n_features, n_features)
    model.connectivity = sparse.csr_array((weight, (row, column)), shape=shape)


def _book(path: Any, arrays: Mapping[str, Any], n_experts: int) -> CodeBook | None:
    """The codes of training rows, none of which is empty."""
    from dynpart.codebook import MOST_CODES, CodeBook

    if not any(name in arrays for name in BOOK):
        return None
    packed, counts = (arrays.get(name, np.empty(0)) for name in BOOK)
    n_bytes = -(-n_experts // 8)
    sound = (
        packed.dtype == np.uint8
        and counts.dtype == np.float64
        and packed.shape == (len(counts), n_bytes)
        and 0 < len(counts) <= MOST_CODES
        and ((counts > 0) & (counts <= MOST_ROWS)).all()
    )
    if sound:
        codes = np.unpackbits(packed, axis=1, count=n_experts).astype(bool)
        sound = codes.any(axis=1).all() and (np.packbits(codes, axis=1) == packed).all()
    if not sound:
        raise ModelFileError(f"{path} holds an invalid code book")
    return CodeBook(codes, counts)


def _expert_names(path: Any, meta: Any, n_experts: int) -> dict[int, str]:
    """Names of experts set by the user."""
    from dynpart.naming import checked_names

    if not isinstance(meta, dict) or not all(re.fullmatch("0|[1-9][0-9]{0,8}", k) for k in meta):
        raise ModelFileError(f"{path} holds invalid names of experts")
    try:
        return checked_names({int(k): name for k, name in meta.items()}, n_experts)
    except ValueError as error:
        raise ModelFileError(f"{path} holds invalid names of experts: {error}") from error


def _counted_with(path: Any, model: BaseEstimator, meta: Any) -> Encoding:
    """Parameters with which activations were counted: the model's, if the file has no others."""
    from dynpart.encoding import Encoding
    from dynpart.validation import check_limits

    if meta is None:
        return Encoding.of(model)
    names = {field.name for field in dataclasses.fields(Encoding)}
    if isinstance(meta, dict):
        meta = {"amplitude": None} | meta  # older files have no entry
    if not isinstance(meta, dict) or set(meta) != names:
        raise ModelFileError(f"{path} has no valid record of how activations were counted")
    twin = copy.copy(model).set_params(**meta)
    try:
        twin._validate_params()
        check_limits(twin.n_experts, n_active=twin.n_active, max_active=twin.max_active)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path} holds invalid parameters: {error}") from error
    return Encoding.of(twin)


def _adaptation(path: Any, meta: Any) -> Any:
    """How the schedule was adapted to the data."""
    from dynpart.learning import Adaptation, Trial

    def least(values: Any) -> Any:
        """Minimum number of active experts, which version 0.1 calls `floor`."""
        return values.get("min_active", values.get("floor"))

    def sound(values: Any) -> bool:
        return isinstance(values, dict) and is_count(least(values), 1)

    others = meta.get("trials", meta.get("contenders", [])) if sound(meta) else None
    if (
        not isinstance(others, list)
        or not is_count(meta.get("n_rows", 0), 0, MOST_ROWS)
        or not all(
            sound(other)
            and is_real(other.get("score"), -LONGEST, LONGEST)
            and is_real(other.get("mean_active"), 0)
            for other in others
        )
    ):
        raise ModelFileError(f"{path} holds an adaptation that cannot be read")
    trials = (Trial(least(other), other["score"], other["mean_active"]) for other in others)
    mixture = meta.get("mixture", False)
    if not isinstance(mixture, bool):
        raise ModelFileError(f"{path} holds an adaptation that cannot be read")
    return Adaptation(least(meta), meta.get("n_rows", 0), tuple(trials), mixture)
