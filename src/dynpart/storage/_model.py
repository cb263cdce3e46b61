"""Model files: the arrays and metadata of a fitted model, and their checks."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, to_numpy
from dynpart.storage._autoregression import pack_autoregression, unpack_autoregression
from dynpart.storage._checks import check_arrays, check_meta
from dynpart.storage._container import (
    MOST_BYTES,
    ModelFileError,
    as_text,
    check_kind,
    read_container,
    write_container,
)
from dynpart.storage._extras import pack_extras, unpack_extras
from dynpart.storage._family import pack_family, unpack_family
from dynpart.storage._format1 import upgraded
from dynpart.storage._history import pack_history, read_history
from dynpart.storage._parameters import split_parameters, unfitted
from dynpart.storage._prior import pack_prior, unpack_prior, with_prior
from dynpart.storage._sanity import check_experts

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from dynpart.families import Family
    from dynpart.schema import Schema

FORMAT = 2


def save(model: BaseEstimator, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write a fitted model to a file.

    A model that learns from a stream is stored with its state, so that
    :meth:`~dynpart.DynamicPartitionModel.partial_fit` continues as in memory. Parameters that are
    objects (your own plan, a random generator) are stored as text only: the loaded model encodes as
    before, and uses their defaults in a new fit. Equal models give equal bytes. To read a file of
    more than 4 GiB, use ``load(path, max_bytes=...)``.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    path : path-like
        File to write, by convention ``*.dynpart``.
    overwrite : bool, default=True
        Whether an existing file may be replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    ModelFileError
        If `load` would reject the model, for example because of an infinite expertise.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.persistence import load, save
    >>> X = make_pairs(5)
    >>> model = DynamicPartitionModel(10, random_state=0).fit(X)
    >>> path = Path(tempfile.mkdtemp()) / "pairs.dynpart"
    >>> save(model, path)
    >>> bool((load(path).transform(X) == model.transform(X)).all())
    True
    """
    from dynpart.validation import check_fitted

    check_fitted(model)
    try:
        meta, arrays = _packed(model)
    except (TypeError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"the model has invalid fitted attributes: {error}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `load` warns about what cannot be restored
        _restored(path, type(model), json.loads(as_text(meta)), arrays)
    write_container(path, meta, arrays, overwrite=overwrite)


def _packed(model: BaseEstimator) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """JSON entries and arrays of a fitted model."""
    from dynpart import __version__
    from dynpart.validation import check_fitted_number

    try:
        check_fitted_number(model.n_experts, len(model.means_))
        experts, schema = model._experts(), model.schema_
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    stored, described = split_parameters(model.get_params(deep=False))
    family, own_arrays = pack_family(experts.family)
    meta = {
        "kind": "model",
        "format": FORMAT,
        "written_by": __version__,
        "n_experts": len(model.means_),
        "n_features": model.n_features_in_,
        "n_iter": model.n_iter_,
        "family": family,
        "schema": schema.to_json(),
        "parameters": stored,
        "parameters_as_text": described,
        "history": pack_history(getattr(model, "history_", ())),
    }
    arrays = {
        "eta": experts.eta,
        "log2_expertise": experts.log2_expertise,
        "activation_probabilities": model.activation_probabilities_,
        "objective_history": model.objective_history_,
    }
    arrays = {name: as_float64(to_numpy(array)) for name, array in arrays.items()}
    more_meta, more_arrays = pack_extras(model)
    more_arrays |= pack_autoregression(experts.autoregression)
    return meta | more_meta, arrays | own_arrays | more_arrays | pack_prior(model.prior_)


def restore(
    path: str | os.PathLike[str], kind: type[BaseEstimator], *, max_bytes: int = MOST_BYTES
) -> BaseEstimator:
    """Read a fitted model from a file; :func:`dynpart.load` with the class of the model.

    Parameters
    ----------
    path : path-like
    kind : type
        Class of the estimator, which has a default for every parameter.
    max_bytes : int, default=2**32
        Larger files are rejected.

    Returns
    -------
    kind
        As it was saved: same codes, same parameters, same history.

    Raises
    ------
    ModelFileError
        If the file is truncated, oversized, tampered with, foreign or of a newer format.
    FileNotFoundError
        If there is no file.
    """
    container = read_container(path, max_bytes=max_bytes)
    return _restored(path, kind, container.meta, container.arrays)


def _restored(
    path: Any,
    kind: type[BaseEstimator],
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> BaseEstimator:
    """The model that a file with this content holds, or ModelFileError."""
    from dynpart.engines import Experts

    if check_kind(path, meta, "model", FORMAT) == 1:
        meta, arrays = upgraded(path, meta, arrays)
    check_meta(path, meta)
    n_features = meta["n_features"]
    family = unpack_family(path, meta["family"], arrays, n_features)
    check_arrays(path, meta, arrays, family.n_statistics)
    schema = _schema(path, meta["schema"], family, n_features)
    meta = with_prior(meta)
    model = unfitted(path, kind, meta)
    experts = Experts(family, arrays["eta"], arrays["log2_expertise"])
    check_experts(path, experts)
    given = unpack_autoregression(path, arrays, family, n_features)
    model._keep_experts(replace(experts, autoregression=given))
    model.activation_probabilities_ = arrays["activation_probabilities"]
    model.prior_ = unpack_prior(path, arrays, model.activation_probabilities_)
    model.objective_history_ = arrays["objective_history"]
    model.history_ = read_history(path, meta["history"])
    if len(model.history_) not in (0, meta["n_iter"]):
        raise ModelFileError(f"{path} contradicts itself on the number of iterations")
    model.n_iter_ = meta["n_iter"]
    model.n_features_in_ = n_features
    model._n_features_out = meta["n_experts"]
    if schema.names is not None:
        model.feature_names_in_ = np.asarray(schema.names, dtype=object)
    if schema.image_shape is not None:
        model.image_shape_ = schema.image_shape
    if schema.dtypes is not None or schema.levels is not None:
        model._found_schema = schema
    unpack_extras(path, model, meta, arrays)
    return model


def _schema(path: Any, value: Any, family: Family, n_features: int) -> Schema:
    """The schema; the number of variables was checked with the arrays before."""
    from dynpart.schema import Schema

    try:
        schema = Schema.from_json(value, n_features)
    except ValueError as error:
        raise ModelFileError(f"{path} has no valid schema: {error}") from error
    if schema.kinds != family.kinds_of_columns(n_features):
        raise ModelFileError(f"{path} contradicts itself on the kinds of its variables")
    counts = family.levels_of_columns(n_features)
    for d, names in enumerate(schema.levels or ()):
        if names is not None and len(names) != counts[d]:
            raise ModelFileError(f"{path} contradicts itself on the levels of variable {d}")
    return schema
