"""Packing: what the page must know of a model and its data, in few bytes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.composition import expertise_ranks

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel

EXACT_VALUES = 300_000
"""Up to so many numbers per array travel as float32, more as 16-bit integers."""

SAMPLE_BYTES = 1_500_000
"""Room for the data points shown; fewer are taken if they are larger."""

MOST_TOGETHER = 400
"""Up to so many experts the page gets the whole table of who goes with whom."""

_TYPES = {"u1": "u8", "u2": "u16", "u4": "u32", "f4": "f32", "i2": "i16"}


def pack(
    model: DynamicPartitionModel,
    X: Any,
    *,
    names: Sequence[str] | None,
    labels: Sequence[str] | None,
    image_shape: tuple[int, int] | None,
    title: str,
    n_samples: int,
) -> dict[str, Any]:
    """Everything the page shows, ready for JSON.

    Parameters
    ----------
    model : DynamicPartitionModel
        Fitted.
    X : array-like of shape (n_rows, n_features)
        Codes of all rows are counted; at most `n_samples` of them are shown.
    names, labels : sequence of str or None
        Of variables and rows.
    image_shape : tuple of int or None
    title : str
    n_samples : int

    Returns
    -------
    dict
    """
    codes = model.transform(X)
    codes = np.asarray(codes)
    rows = np.asarray(X)
    binary = model.family_.name == "bernoulli"
    exact = image_shape is None
    chosen = _chosen(len(rows), rows.shape[1], n_samples, binary=binary, exact=exact)
    shown = _take(X, chosen)
    story = model.pursue(shown)
    low, high = _range(model, rows[chosen])
    content = {
        "version": 1,
        "title": title,
        "family": model.family_.name,
        "experts": model.n_experts,
        "variables": model.n_features_in_,
        "image": None if image_shape is None else [int(length) for length in image_shape],
        "names": None if names is None else [str(name) for name in names],
        "rows": len(rows),
        "low": low,
        "high": high,
        "means": _numbers(model.means_),
        "ranks": _ranks(model),
        "expertise": _bytes(np.log2(model.expertise_)),
        "usage": [int(count) for count in codes.sum(axis=0)],
        "together": _together(codes),
        "activeCounts": [int(count) for count in np.bincount(codes.sum(axis=1))],
        "probabilities": _numbers(model.activation_probabilities_),
        "samples": _samples(rows[chosen], binary=binary, exact=exact),
        "sampleRows": [int(row) for row in chosen],
        "sampleLabels": None if labels is None else [str(labels[row]) for row in chosen],
        "orders": [[int(k) for k in order if k >= 0] for order in story.order],
        "likelihoods": [_finite(path) for path in story.log_likelihood],
        "objective": _finite(model.objective_history_),
        "active": _finite([record.mean_active for record in model.history_]),
    }
    if hasattr(model, "variances_"):
        content["variances"] = _numbers(model.variances_)
    return content


def _chosen(
    n_rows: int, n_features: int, n_samples: int, *, binary: bool, exact: bool
) -> NDArray[np.intp]:
    """Rows to show: all of them, or as many as there is room for, drawn evenly."""
    size = n_features / 8 if binary else (4 if exact else 1) * n_features
    most = max(1, min(n_rows, n_samples, int(SAMPLE_BYTES / max(1.0, size))))
    return np.linspace(0, n_rows - 1, most).round().astype(np.intp)


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    return (
        X.iloc[rows] if hasattr(X, "iloc") else X[rows] if hasattr(X, "shape") else _rows(X, rows)
    )


def _rows(X: Any, rows: NDArray[np.intp]) -> NDArray[Any]:
    return np.asarray(X)[rows]


def _range(model: DynamicPartitionModel, rows: NDArray[Any]) -> tuple[float, float]:
    """The values that are drawn darkest and brightest."""
    if model.family_.name == "bernoulli":
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(rows, [1, 99]))
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _samples(rows: NDArray[Any], *, binary: bool, exact: bool) -> dict[str, Any]:
    if binary:
        return {"kind": "bits", **_array(np.packbits(rows.astype(bool), axis=1))}
    if exact:
        return {"kind": "numbers", **_array(rows.astype(np.float32))}
    return {"kind": "numbers", **_scaled(rows.astype(np.float64), np.uint8)}


def _ranks(model: DynamicPartitionModel) -> dict[str, Any]:
    ranks = expertise_ranks(np.log2(model.expertise_))
    return _array(ranks.astype(np.uint8 if model.n_experts <= 256 else np.uint16))


def _together(codes: NDArray[np.uint8]) -> dict[str, Any] | None:
    """How often each pair of experts is active in the same row, and an order that groups them."""
    n_experts = codes.shape[1]
    if not 2 <= n_experts <= MOST_TOGETHER:
        return None
    counts = codes.T.astype(np.float64) @ codes
    return {"counts": _array(counts.astype(np.uint32)), "order": _grouped(codes)}


def _grouped(codes: NDArray[np.uint8]) -> list[int]:
    """Experts in an order that puts those that go together side by side."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    spread = codes - codes.mean(axis=0)
    norm = np.sqrt((spread**2).sum(axis=0))
    unit = np.divide(spread, norm, out=np.zeros_like(spread), where=norm > 0)
    distance = 1 - (unit.T @ unit)[np.triu_indices(codes.shape[1], 1)]
    tree = linkage(np.clip(distance, 0, 2), "average", optimal_ordering=True)
    return [int(k) for k in leaves_list(tree)]


def _numbers(values: NDArray[np.float64]) -> dict[str, Any]:
    """Numbers as float32, or as 16-bit integers between their extremes where there are many."""
    if values.size <= EXACT_VALUES:
        return _array(values.astype(np.float32))
    return _scaled(values, np.uint16)


def _bytes(values: NDArray[np.float64]) -> dict[str, Any]:
    return _scaled(values, np.uint8)


def _scaled(values: NDArray[np.float64], dtype: type) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    steps = np.iinfo(dtype).max
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return {**_array((share * steps).round().astype(dtype)), "low": low, "high": high}


def _array(values: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
    data = base64.b64encode(little.tobytes()).decode()
    return {"type": _TYPES[values.dtype.str[1:]], "data": data}


def _finite(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values if np.isfinite(value)]
