"""Conversion of files of format 1 to format 2, with a check of redundant arrays.

The earliest files hold only means, variances and expertise; later ones also the learnt experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.storage._checks import FAINTEST, STRONGEST, check_meta
from dynpart.storage._container import ModelFileError
from dynpart.storage._family import PREFIX, known_family, unpack_family
from dynpart.storage._numbers import LARGEST_SQUARE, check_array

if TYPE_CHECKING:
    from dynpart.families import Family

AGREEMENT = 1e-9
"""Tolerance for rounding differences between experts and redundant arrays, relative."""
SHOWN = ("means", "variances", "expertise")
DESCRIBED = ("feature_names", "image_shape")

Arrays = dict[str, NDArray[Any]]


def upgraded(
    path: Any, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], Arrays]:
    """Equivalent metadata and arrays of format 2, or ModelFileError."""
    check_meta(path, meta, "n_experts", "n_features", "family")
    for name in DESCRIBED:
        if name not in meta:
            raise ModelFileError(f"{path} has no valid entry {name!r} in its metadata")
    numbers = {name: value for name, value in meta["family"].items() if name != "name"}
    family = {"name": meta["family"].get("name"), "numbers": numbers}
    schema = {
        "kinds": known_family(path, family).kind,
        "names": meta["feature_names"],
        "image_shape": meta["image_shape"],
    }
    new = {name: array for name, array in arrays.items() if name not in SHOWN}
    if "centre" in new:
        new[PREFIX + "centre"] = new.pop("centre")
    shown = _shown(path, meta, arrays)
    found = unpack_family(path, family, new, meta["n_features"])
    if "eta" in new or "log2_expertise" in new:
        _check_agreement(path, found, shown, new)
    else:
        new |= _experts(path, found, shown)
    kept = {name: value for name, value in meta.items() if name not in DESCRIBED}
    return {**kept, "format": 2, "family": family, "schema": schema}, new


def _shown(path: Any, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> Arrays:
    """Arrays of opinions; variances come with the centre from which they are measured."""
    table = (meta["n_experts"], meta["n_features"])
    most = float(np.finfo(np.float64).max)
    bounds: dict[str, dict[str, Any]] = {
        "means": {},
        "variances": {"least": 0.0, "most": LARGEST_SQUARE, "inside": True},
        "expertise": {"least": 0.0, "most": most, "inside": True},
    }
    if ("variances" in arrays) != ("centre" in arrays):
        raise ModelFileError(f"{path} must have 'variances' and 'centre', or neither")
    wanted = [name for name in SHOWN if name != "variances" or name in arrays]
    return {
        name: check_array(path, name, arrays.get(name), table, **bounds[name]) for name in wanted
    }


def _experts(path: Any, family: Family, shown: Arrays) -> Arrays:
    """Experts from arrays of opinions."""
    if family.n_levels is not None:
        top = family.n_levels - 1.0
        check_array(path, "means", shown["means"], shown["means"].shape, least=0.0, most=top)
    with np.errstate(all="ignore"):
        eta = family.from_moments(shown["means"], shown.get("variances", shown["means"]))
        return {"eta": eta, "log2_expertise": np.log2(shown["expertise"])}


def _check_agreement(path: Any, family: Family, shown: Arrays, arrays: Arrays) -> None:
    table = shown["means"].shape
    eta = check_array(
        path,
        "eta",
        arrays.get("eta"),
        (family.n_statistics, *table),
        least=-LARGEST_SQUARE,
        most=LARGEST_SQUARE,
    )
    level = check_array(
        path,
        "log2_expertise",
        arrays.get("log2_expertise"),
        table,
        least=FAINTEST,
        most=STRONGEST,
    )
    with np.errstate(all="ignore"):
        expected = {"means": family.mean(eta), "expertise": np.exp2(level)}
        if "variances" in shown:
            expected["variances"] = family.variance(eta)
        for name, array in expected.items():
            if not np.allclose(array, shown[name], rtol=AGREEMENT, atol=0.0):
                raise ModelFileError(f"{path} contradicts itself on the {name} of its experts")
