"""Model files: which arrays and words make a fitted model, and what must hold of them."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, to_numpy
from dynpart.persistence._checks import check_arrays, check_meta
from dynpart.persistence._container import (
    MOST_BYTES,
    ModelFileError,
    check_kind,
    number,
    plain,
    read_container,
    write_container,
)
from dynpart.persistence._extras import pack_extras, unpack_extras

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.families import Family

FORMAT = 1

Array = NDArray[np.float64]


def save(
    model: DynamicPartitionModel, path: str | os.PathLike[str], *, overwrite: bool = True
) -> None:
    """Write a fitted model to a file.

    Parameters that are objects (a plan of your own, a random generator) are stored as text only:
    the loaded model encodes as before, and takes their defaults when it is fitted anew.

    Parameters
    ----------
    model : DynamicPartitionModel
        Fitted.
    path : path-like
        By convention ``*.dynpart``.
    overwrite : bool, default=True
        Whether an existing file may be replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    ModelFileError
        If the model holds something a file cannot, such as an infinite level of expertise.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.persistence import load, save
    >>> X = make_pairs(2)
    >>> model = DynamicPartitionModel(4, max_iter=5, random_state=0).fit(X)
    >>> path = Path(tempfile.mkdtemp()) / "pairs.dynpart"
    >>> save(model, path)
    >>> bool((load(path).transform(X) == model.transform(X)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    from dynpart import __version__
    from dynpart.families import Gaussian

    check_is_fitted(model)
    if model.n_experts != len(model.means_):
        raise ModelFileError(
            f"n_experts={model.n_experts} was set after {len(model.means_)} experts were learnt"
        )
    stored, described = _split_parameters(model.get_params(deep=False))
    names = getattr(model, "feature_names_in_", None)
    shape = getattr(model, "image_shape_", None)
    meta = {
        "kind": "model",
        "format": FORMAT,
        "written_by": __version__,
        "n_experts": len(model.means_),
        "n_features": model.n_features_in_,
        "n_iter": model.n_iter_,
        "family": _family_meta(model.family_),
        "parameters": stored,
        "parameters_as_text": described,
        "feature_names": None if names is None else [str(name) for name in names],
        "image_shape": None if shape is None else [int(length) for length in shape],
        "history": [plain(dataclasses.asdict(r)) for r in getattr(model, "history_", ())],
    }
    arrays = {
        "means": model.means_,
        "expertise": model.expertise_,
        "activation_probabilities": model.activation_probabilities_,
        "objective_history": model.objective_history_,
    }
    if isinstance(model.family_, Gaussian):
        arrays |= {"variances": model.variances_, "centre": model.family_.centre}
    arrays = {name: as_float64(to_numpy(array)) for name, array in arrays.items()}
    more_meta, more_arrays = pack_extras(model)
    meta |= more_meta
    arrays |= more_arrays
    check_arrays(path, meta, arrays)
    write_container(path, meta, arrays, overwrite=overwrite)


def load(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> DynamicPartitionModel:
    """Read a fitted model from a file.

    No file can make this run code or take more memory than a small multiple of its own size.

    Parameters
    ----------
    path : path-like
    max_bytes : int, default=2**32
        Larger files are refused.

    Returns
    -------
    DynamicPartitionModel
        As it was saved: same codes, same parameters, same history.

    Raises
    ------
    ModelFileError
        If the file is truncated, oversized, tampered with, foreign or of a newer format.
    FileNotFoundError
        If there is no file.
    """
    container = read_container(path, max_bytes=max_bytes)
    meta, arrays = container.meta, container.arrays
    check_kind(path, meta, "model", FORMAT)
    check_meta(path, meta)
    check_arrays(path, meta, arrays)
    model = _unfitted(path, meta)
    model.family_ = _family(path, meta["family"], arrays)
    model.means_ = arrays["means"]
    if "variances" in arrays:
        model.variances_ = arrays["variances"]
    model.expertise_ = arrays["expertise"]
    model.activation_probabilities_ = arrays["activation_probabilities"]
    model.objective_history_ = arrays["objective_history"]
    model.history_ = read_history(meta["history"])
    model.n_iter_ = meta["n_iter"]
    model.n_features_in_ = meta["n_features"]
    model._n_features_out = meta["n_experts"]
    if meta["feature_names"] is not None:
        model.feature_names_in_ = np.asarray(meta["feature_names"], dtype=object)
    if meta["image_shape"] is not None:
        model.image_shape_ = tuple(meta["image_shape"])
    unpack_extras(path, model, meta, arrays)
    return model


# ---------------------------------------------------------------- parameters


def _split_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Parameters JSON can keep, and descriptions of the others."""
    stored: dict[str, Any] = {}
    described: dict[str, str] = {}
    for name, value in parameters.items():
        if isinstance(value, np.generic):
            value = value.item()
        if name == "connectivity" and value is not None:
            continue  # its edges are arrays of the file
        if value is None or isinstance(value, str | bool | int | float):
            stored[name] = value
        elif name == "learning" and type(value) in _plans().values():
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            stored[name] = {"plan": type(value).__name__, "fields": plain(fields)}
        elif isinstance(value, tuple) and all(isinstance(v, int | float | str) for v in value):
            stored[name] = {"tuple": list(value)}
        else:
            described[name] = repr(value)[:1000]
    return stored, described


def _unfitted(path: Any, meta: Mapping[str, Any]) -> DynamicPartitionModel:
    """A model with the stored parameters, which must be valid."""
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.validation import check_limits

    known = DynamicPartitionModel().get_params(deep=False)
    parameters: dict[str, Any] = {}
    unknown = dict(meta["parameters_as_text"])
    for name, value in meta["parameters"].items():
        if name not in known:
            warnings.warn(f"{path}: parameter {name[:80]!r} is not known here", stacklevel=3)
        elif isinstance(value, dict):
            unpacked = _unpacked(value)
            if unpacked is None:
                unknown[name] = value
            else:
                parameters[name] = unpacked
        else:
            parameters[name] = number(value) if isinstance(known[name], float) else value
    for name, text in unknown.items():
        warnings.warn(
            f"{path}: {name[:80]}={str(text)[:200]} cannot be restored; a new fit takes the "
            f"default {name[:80]}={known.get(name)!r}",
            stacklevel=3,
        )
    try:
        model = DynamicPartitionModel(**parameters)
        model._validate_params()
        check_limits(model.n_experts, n_active=model.n_active, max_active=model.max_active)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path} holds invalid parameters: {error}") from error
    if model.n_experts != meta["n_experts"]:
        raise ModelFileError(f"{path} contradicts itself on the number of experts")
    return model


def _plans() -> dict[str, type]:
    """Plans of the package, which can be kept in a file."""
    from dynpart.learning import Annealed, Paper

    return {plan.__name__: plan for plan in (Annealed, Paper)}


def _unpacked(value: dict[str, Any]) -> Any:
    """A parameter that JSON has no word for, or None if this version does not know it."""
    if set(value) == {"tuple"} and isinstance(value["tuple"], list):
        return tuple(value["tuple"])
    if set(value) == {"plan", "fields"} and isinstance(value["fields"], dict):
        plan = _plans().get(str(value["plan"]))
        fields = {key: number(item) for key, item in value["fields"].items()}
        known = {field.name for field in dataclasses.fields(plan)} if plan else set()
        simple = all(v is None or isinstance(v, int | float | str) for v in fields.values())
        if plan is not None and simple and set(fields) <= known:
            return plan(**fields)
    return None


# -------------------------------------------------------- family and history


def _family_meta(family: Family) -> dict[str, Any]:
    from dynpart.families import Bernoulli, Gaussian

    if isinstance(family, Gaussian):
        return {"name": "gaussian", "floor": family.floor}
    if isinstance(family, Bernoulli):
        return {"name": "bernoulli", "clip": family.clip}
    raise ModelFileError(f"models of family {family.name!r} cannot be saved")


def _family(path: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Family:
    from dynpart.families import Bernoulli, Gaussian

    name = meta.get("name")
    if name == "gaussian" and _is_number(meta.get("floor")) and meta["floor"] > 0:
        return Gaussian(arrays["centre"], float(meta["floor"]))
    if name == "bernoulli" and _is_number(meta.get("clip")) and 0 < meta["clip"] < 0.5:
        return Bernoulli(float(meta["clip"]))
    raise ModelFileError(f"{path} holds no valid family: {str(dict(meta))[:80]}")


def read_history(records: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The log of learning; what a later version asks for beyond it stays None."""
    from dynpart.learning import IterationRecord, Step

    def rebuilt(kind: type, values: Mapping[str, Any]) -> Any:
        names = (field.name for field in dataclasses.fields(kind))
        fields = {name: number(values.get(name)) for name in names}
        if isinstance(fields.get("step"), dict):
            fields["step"] = rebuilt(Step, fields["step"])
        return kind(**fields)

    return tuple(rebuilt(IterationRecord, record) for record in records)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
