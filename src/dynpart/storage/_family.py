"""The family of a model in its file: its name and stored values. Knows no family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dynpart.arrays import as_float64, to_numpy
from dynpart.storage._container import ModelFileError, number, plain

if TYPE_CHECKING:
    from dynpart.families import Family

PREFIX = "family."
"""Prefix of the names of the family's arrays."""


def pack_family(family: Family) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """JSON entry and arrays of a family."""
    numbers, arrays = family.stored()
    meta = {"name": family.name, "numbers": plain(numbers)}
    return meta, {PREFIX + name: as_float64(to_numpy(array)) for name, array in arrays.items()}


def known_family(path: Any, meta: Mapping[str, Any]) -> type[Family]:
    """The class of the family that a JSON entry names, or ModelFileError."""
    from dynpart.families import family_class

    name = meta.get("name")
    if not isinstance(name, str):
        raise ModelFileError(f"{path} has no valid entry 'family' in its metadata")
    try:
        return family_class(name)
    except ValueError:
        raise ModelFileError(
            f"{path} needs a family called {name[:80]!r}, which is not registered: import the "
            "module that registers it"
        ) from None


def unpack_family(
    path: Any, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int
) -> Family:
    """The family of a file; the family checks its own stored values."""
    family, numbers = known_family(path, meta), meta.get("numbers")
    if set(meta) != {"name", "numbers"} or not isinstance(numbers, dict):
        raise ModelFileError(f"{path} has no valid entry 'family' in its metadata")
    numbers = {name: number(value) for name, value in numbers.items()}
    own = {
        name.removeprefix(PREFIX): array
        for name, array in arrays.items()
        if name.startswith(PREFIX)
    }
    try:
        return family.restored(numbers, own, n_features)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise ModelFileError(f"{path} has no valid family {family.name!r}: {error}") from error
