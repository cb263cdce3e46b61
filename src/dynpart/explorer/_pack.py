"""Packing: the numbers of a model and its data that the page needs, in few bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.composition import expertise_ranks
from dynpart.explorer._arrays import packed_array, scaled_array
from dynpart.explorer._tables import CARD_OPINIONS, by_column, table_content
from dynpart.listing import taken
from dynpart.stability import LEGEND

if TYPE_CHECKING:
    from dynpart.fitting import LearningModel
    from dynpart.selection import Selection
    from dynpart.summaries import Description

EXACT_VALUES = 300_000
"""Arrays of up to this many numbers are stored as float32, larger ones as 16-bit integers."""

SAMPLE_BYTES = 1_500_000
"""Maximum size of the rows that are shown; if rows are large, there are fewer."""

MOST_TOGETHER = 400
"""Maximum number of experts for the table of pairs that are active together."""


def pack(
    model: LearningModel,
    X: Any,
    *,
    names: Sequence[str] | None,
    labels: Sequence[str] | None,
    image_shape: tuple[int, int] | None,
    title: str,
    n_samples: int,
    by: Sequence[Any] | None = None,
    by_name: str = "",
) -> dict[str, Any]:
    """Content of the page, ready for JSON.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Codes of all rows are counted; at most `n_samples` of them are shown. NaN is missing.
    names, labels : sequence of str or None
        Of variables and rows.
    image_shape : tuple of int or None
    title : str
    n_samples : int
    by : sequence or None
        Another column, against which experts are shown.
    by_name : str

    Returns
    -------
    dict
    """
    model, X = model.plainly(X)
    codes = np.asarray(model.transform(X))
    told = None
    if image_shape is None:
        told = _named(model, names).describe(X, labels=labels, top=CARD_OPINIONS)
    rows = np.asarray(X)
    binary = model.family_.is_binary
    exact = image_shape is None
    gappy = rows.dtype.kind == "f" and bool(np.isnan(rows.min()))
    size = _row_bytes(rows.shape[1], binary=binary, exact=exact, gappy=gappy)
    chosen = _chosen(len(rows), n_samples, size, _telling(told))
    shown = taken(X, chosen)
    story = model.pursue(shown)
    gaps = np.isnan(rows[chosen]) if gappy else np.zeros((len(chosen), rows.shape[1]), dtype=bool)
    low, high = _range(model, rows[chosen][~gaps])
    content = {
        "version": 1,
        "title": title,
        "family": model.family_.name,
        "levels": model.family_.n_levels,
        "normal": model.family_.is_normal,
        "experts": model.n_experts_,
        "expertNames": _named(model, names).expert_names_,
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
        "activeCounts": [int(count) for count in np.bincount(codes.sum(axis=1, dtype=np.intp))],
        "probabilities": _numbers(model.activation_probabilities_),
        "samples": _samples(rows[chosen], gaps, binary=binary, exact=exact),
        "gaps": packed_array(np.packbits(gaps, axis=1)) if gaps.any() else None,
        "sampleRows": [int(row) for row in chosen],
        "sampleLabels": None if labels is None else [str(labels[row]) for row in chosen],
        "orders": [[int(k) for k in order if k >= 0] for order in story.order],
        "likelihoods": [_finite(path) for path in story.log_likelihood],
        "objective": _finite(model.objective_history_),
        "active": _finite([record.mean_active for record in model.history_]),
        **_judgements(model),
    }
    if model.family_.n_levels is None:
        content["variances"] = _numbers(model.variances_)
    if image_shape is not None and model.amplitude is not None:
        content["amplitude"] = model.amplitude
        content["amplitudes"] = _amplitudes(model, shown, story.order)
    if told is not None:
        content |= table_content(_named(model, names), told, codes[chosen])
    if by is not None:
        content["by"] = by_column(codes, by, by_name)
    return content


def _amplitudes(
    model: LearningModel, shown: Any, orders: NDArray[np.integer]
) -> list[list[list[float]]]:
    """Gain and offset of each expert of a code, in the order of activation."""
    told = model.amplitudes(shown)
    return [
        [[round(float(number), 5) for number in told[n, k]] for k in order if k >= 0]
        for n, order in enumerate(orders)
    ]


def _judgements(model: LearningModel) -> dict[str, Any]:
    """Measures of the quality of the model; None for those that were not computed.

    These are bits saved on training rows, the choice of size, and the stability of experts.
    """
    baseline, chosen, found = (
        getattr(model, name, None) for name in ("baseline_", "selection_", "stability_")
    )
    return {
        "savedBits": None if baseline is None else round(baseline.saved_bits, 4),
        "selection": None if chosen is None else _selection(chosen),
        "stability": None
        if found is None
        else {
            "marks": [found.mark(k) for k in range(len(found.found))],
            "words": [found.words(k) for k in range(len(found.found))],
            "legend": LEGEND,
        },
    }


def _selection(chosen: Selection) -> dict[str, Any]:
    """Bits of held-back rows by number of experts, and the baselines."""
    bits = -np.array([one.nats for one in chosen.tried]) / math.log(2)
    return {
        "sizes": [one.n_experts for one in chosen.tried],
        "bits": _finite(bits),
        "chosen": chosen.n_experts,
        "columns": round(-chosen.columns / math.log(2), 4),
        "mixture": None if chosen.mixture is None else round(-chosen.mixture / math.log(2), 4),
        "words": str(chosen),
    }


def _named(model: LearningModel, names: Sequence[str] | None) -> LearningModel:
    """The model with these names of variables."""
    twin = copy(model)
    if names is not None and tuple(names) != model.schema_.names:
        twin._known_names = np.asarray([str(name) for name in names], dtype=object)
        twin.__dict__.pop("feature_names_in_", None)
    return twin


def _telling(told: Description | None) -> list[int]:
    """Rows that the page names: unusual ones, and typical ones of every expert."""
    if told is None:
        return []
    rows = [*told.odd_rows, *(n for one in told.experts for n in one.typical_rows)]
    return list(dict.fromkeys(rows))


def _row_bytes(n_features: int, *, binary: bool, exact: bool, gappy: bool) -> float:
    """Bytes of a row as `_samples` packs it, with a bit for each variable that may be a gap."""
    size = n_features / 8 if binary else (4 if exact else 1) * n_features
    return size + n_features / 8 if gappy else size


def _chosen(
    n_rows: int, n_samples: int, size: float, telling: Sequence[int] = ()
) -> NDArray[np.intp]:
    """Rows to show: all of them, or as many as fit.

    Up to half of them are from `telling`, the others are evenly spaced.
    """
    most = max(1, min(n_rows, n_samples, int(SAMPLE_BYTES / max(1.0, size))))
    named = np.array(telling[: most // 2] if most < n_rows else (), dtype=np.intp)
    even = np.linspace(0, n_rows - 1, most - len(named)).round().astype(np.intp)
    return np.unique(np.concatenate([named, even]))


def _range(model: LearningModel, observed: NDArray[Any]) -> tuple[float, float]:
    """Values of the darkest and the brightest colour."""
    if model.family_.is_binary:
        return 0.0, 1.0
    values = observed if observed.size else model.means_
    low, high = (float(value) for value in np.percentile(values, [1, 99]))
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _samples(
    rows: NDArray[Any], gaps: NDArray[np.bool_], *, binary: bool, exact: bool
) -> dict[str, Any]:
    if gaps.any():  # values at gaps are ignored, but must not widen the scale
        rows = np.where(gaps, rows[~gaps][0] if (~gaps).any() else 0, rows)
    if binary:
        return {"kind": "bits", **packed_array(np.packbits(rows.astype(bool), axis=1))}
    if exact:
        return {"kind": "numbers", **packed_array(rows.astype(np.float32))}
    return {"kind": "numbers", **scaled_array(rows.astype(np.float64), np.uint8)}


def _ranks(model: LearningModel) -> dict[str, Any]:
    ranks = expertise_ranks(np.log2(model.expertise_))
    return packed_array(ranks.astype(np.uint8 if model.n_experts_ <= 256 else np.uint16))


def _together(codes: NDArray[np.uint8]) -> dict[str, Any] | None:
    """How often each pair of experts is active in the same row, and an order by similarity."""
    n_experts = codes.shape[1]
    if not 2 <= n_experts <= MOST_TOGETHER:
        return None
    counts = codes.T.astype(np.float64) @ codes
    return {"counts": packed_array(counts.astype(np.uint32)), "order": _grouped(codes)}


def _grouped(codes: NDArray[np.uint8]) -> list[int]:
    """Experts in an order that puts those that are active together next to each other."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    spread = codes - codes.mean(axis=0)
    norm = np.sqrt((spread**2).sum(axis=0))
    unit = np.divide(spread, norm, out=np.zeros_like(spread), where=norm > 0)
    distance = 1 - (unit.T @ unit)[np.triu_indices(codes.shape[1], 1)]
    tree = linkage(np.clip(distance, 0, 2), "average", optimal_ordering=True)
    return [int(k) for k in leaves_list(tree)]


def _numbers(values: NDArray[np.float64]) -> dict[str, Any]:
    """Numbers as float32, or as 16-bit integers that span their range if there are many."""
    if values.size <= EXACT_VALUES:
        return packed_array(values.astype(np.float32))
    return scaled_array(values, np.uint16)


def _bytes(values: NDArray[np.float64]) -> dict[str, Any]:
    return scaled_array(values, np.uint8)


def _finite(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values if np.isfinite(value)]
