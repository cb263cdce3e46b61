"""What must hold of a model file's metadata and arrays. Knows shapes and ranges, no estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.persistence._container import ModelFileError
from dynpart.persistence._extras import OPTIONAL

Array = NDArray[np.float64]


def check_meta(path: Any, meta: Mapping[str, Any]) -> None:
    """Every entry is there and of its kind."""

    def count(least: int) -> Callable[[Any], bool]:
        return lambda value: type(value) is int and least <= value < 2**31

    def names(value: Any) -> bool:
        return value is None or (
            isinstance(value, list)
            and len(value) == meta["n_features"]
            and all(isinstance(name, str) for name in value)
            and len(set(value)) == len(value)
        )

    def shape(value: Any) -> bool:
        return value is None or (
            isinstance(value, list)
            and len(value) == 2
            and all(type(length) is int and length > 0 for length in value)
            and value[0] * value[1] == meta["n_features"]
        )

    rules: dict[str, Callable[[Any], bool]] = {
        "n_experts": count(1),
        "n_features": count(1),
        "n_iter": count(0),
        "family": lambda value: isinstance(value, dict),
        "parameters": lambda value: isinstance(value, dict),
        "parameters_as_text": lambda value: isinstance(value, dict),
        "feature_names": names,
        "image_shape": shape,
        "history": lambda value: isinstance(value, list) and all(map(_is_record, value)),
    }
    for name, holds in rules.items():
        if name not in meta or not holds(meta[name]):
            raise ModelFileError(f"{path} has no valid entry {name!r} in its metadata")


def check_arrays(path: Any, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Every array is there with its shape, its type and values that make sense."""
    n_experts, n_features = meta["n_experts"], meta["n_features"]
    table = (n_experts, n_features)
    shapes: dict[str, tuple[int, ...]] = {
        "means": table,
        "expertise": table,
        "activation_probabilities": (n_experts,),
        "objective_history": (meta["n_iter"],),
    }
    gaussian = meta["family"].get("name") == "gaussian"
    if gaussian:
        shapes |= {"variances": table, "centre": (n_features,)}
    if set(arrays) - OPTIONAL != set(shapes):
        odd = sorted((set(arrays) - OPTIONAL) ^ set(shapes))[0]
        verb = "holds an unknown" if odd in arrays else "lacks the"
        raise ModelFileError(f"{path} {verb} array {odd[:80]!r}")
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float64:
            found = f"{arrays[name].dtype} of shape {arrays[name].shape}"
            raise ModelFileError(
                f"{path}: array {name!r} must be float64 of shape {shape}, got {found}"
            )
    _check_range(path, "expertise", arrays["expertise"], lambda e: (e > 0) & np.isfinite(e))
    probabilities = arrays["activation_probabilities"]
    _check_range(path, "activation_probabilities", probabilities, lambda p: (p > 0) & (p < 1))
    _check_range(path, "objective_history", arrays["objective_history"], np.isfinite)
    if gaussian:
        _check_range(path, "means", arrays["means"], np.isfinite)
        _check_range(path, "centre", arrays["centre"], np.isfinite)
        _check_range(path, "variances", arrays["variances"], lambda v: (v > 0) & np.isfinite(v))
    else:
        _check_range(path, "means", arrays["means"], lambda m: (m >= 0) & (m <= 1))


def _is_record(value: Any) -> bool:
    """A log entry: numbers and words by name, and perhaps the step that was asked for."""
    return isinstance(value, dict) and all(
        item is None or isinstance(item, int | float | str) or (name == "step" and _is_record(item))
        for name, item in value.items()
    )


def _check_range(
    path: Any, name: str, array: Array, holds: Callable[[Array], NDArray[np.bool_]]
) -> None:
    good = holds(array)
    if not good.all():
        value = array[~good].flat[0]
        raise ModelFileError(f"{path}: array {name!r} holds {value}, which is out of its range")
