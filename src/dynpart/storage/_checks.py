"""Checks of a model file's metadata and arrays: types, shapes and ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from dynpart.storage._container import ModelFileError
from dynpart.storage._extras import OPTIONAL
from dynpart.storage._family import PREFIX
from dynpart.storage._numbers import LARGEST_SQUARE, check_array, is_count
from dynpart.storage._stream import stream_arrays

FAINTEST, STRONGEST = -1074.0, 1024.0
"""Bounds of log2 expertise: the range of float64."""


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


RULES: dict[str, Callable[[Any], bool]] = {
    "n_experts": lambda value: is_count(value, 1),
    "n_features": lambda value: is_count(value, 1),
    "n_iter": is_count,
    "family": _is_dict,
    "schema": _is_dict,
    "parameters": _is_dict,
    "parameters_as_text": _is_texts,
    "history": lambda value: isinstance(value, list),
}
"""Entries of the metadata, and the check of each."""


def check_meta(path: Any, meta: Mapping[str, Any], *names: str) -> None:
    """Check that these entries, or all, exist and have their type."""
    for name in names or RULES:
        if name not in meta or not RULES[name](meta[name]):
            raise ModelFileError(f"{path} has no valid entry {name!r} in its metadata")


def check_arrays(
    path: Any, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_statistics: int
) -> None:
    """Check that every array exists and has its shape, type and range.

    The family checks its own arrays.
    """
    n_experts, n_features = meta["n_experts"], meta["n_features"]
    table = (n_experts, n_features)
    shapes: dict[str, tuple[int, ...]] = {
        "eta": (n_statistics, *table),
        "log2_expertise": table,
        "activation_probabilities": (n_experts,),
        "objective_history": (meta["n_iter"],),
    }
    optional = OPTIONAL | stream_arrays(path, meta.get("stream"))
    found = {name for name in set(arrays) - optional if not name.startswith(PREFIX)}
    if found != set(shapes):
        odd = sorted(found ^ set(shapes))[0]
        verb = "holds an unknown" if odd in arrays else "lacks the"
        raise ModelFileError(f"{path} {verb} array {odd[:80]!r}")
    bounds: dict[str, dict[str, Any]] = {
        "eta": {"least": -LARGEST_SQUARE, "most": LARGEST_SQUARE},
        "log2_expertise": {"least": FAINTEST, "most": STRONGEST, "inside": True},
        "activation_probabilities": {"least": 0.0, "most": 1.0, "inside": True},
        "objective_history": {"least": -LARGEST_SQUARE, "most": LARGEST_SQUARE},
    }
    for name, shape in shapes.items():
        check_array(path, name, arrays[name], shape, **bounds[name])
