"""Parameters of a model in its file: numbers and words as they are, plans by name."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dynpart.storage._container import ModelFileError, number, plain
from dynpart.storage._numbers import is_count, is_real
from dynpart.terminal import printable

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

MOST_THREADS = 1024
"""Maximum number of threads in a file."""
MOST_TURNS = 10**6
"""Maximum number of iterations, starts or passes in a file."""
LARGEST = 1e30
"""Maximum absolute value of numeric parameters, so that sums in kernels stay finite."""

MOST_COLUMNS = 2**31
"""Maximum index of a column in a file."""

EARLIER: dict[str, str] = {"floor": "min_active"}
"""Fields of plans with another name in files of version 0.1."""

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


def split_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Parameters that JSON can represent, and descriptions of the others."""
    stored: dict[str, Any] = {}
    described: dict[str, str] = {}
    for name, value in parameters.items():
        if isinstance(value, np.generic):
            value = value.item()
        if name == "connectivity" and value is not None:
            continue  # its edges are arrays of the file
        if value is None or isinstance(value, str | bool | int | float):
            stored[name] = value
        elif name == "columns":
            stored[name] = _packed_columns(value)
        elif name == "learning" and type(value) in _plans().values():
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            stored[name] = {"plan": type(value).__name__, "fields": plain(fields)}
        else:
            # Without the address in memory, which differs every time.
            described[name] = _ADDRESS.sub("", repr(value))[:1000]
    return stored, described


def unfitted(path: Any, kind: type[BaseEstimator], meta: Mapping[str, Any]) -> BaseEstimator:
    """A model of this kind with the stored parameters, which must be valid."""
    from dynpart.validation import check_limits

    known = kind().get_params(deep=False)
    parameters: dict[str, Any] = {}
    unknown = dict(meta["parameters_as_text"])
    for name, value in meta["parameters"].items():
        if name not in known:
            _warn(f"{path}: parameter {name[:80]!r} is not known here")
        elif name == "columns" and not isinstance(value, str | None):
            parameters[name] = _columns(path, value)
        elif name == "learning" and isinstance(value, dict):
            plan = _plan(path, value)
            if plan is None:
                unknown[name] = value
            else:
                parameters[name] = plan
        else:
            value = number(value) if isinstance(known[name], float) else value
            if not _is_sane(name, value, known[name]):
                raise ModelFileError(
                    f"{path} holds invalid parameters: {name}={_shown(value)} is out of range"
                )
            parameters[name] = value
    for name, text in unknown.items():
        _warn(
            f"{path}: {name[:80]}={str(text)[:200]} cannot be restored; a new fit takes the "
            f"default {name[:80]}={known.get(name)!r}"
        )
    try:
        model = kind(**parameters)
        model._validate_params()
        check_limits(meta["n_experts"], n_active=model.n_active, max_active=model.max_active)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path} holds invalid parameters: {error}") from error
    if model.n_experts not in (meta["n_experts"], "auto"):
        raise ModelFileError(f"{path} contradicts itself on the number of experts")
    return model


def _warn(text: str) -> None:
    """Warn at the caller of `load`, with control characters escaped."""
    warnings.warn(printable(text), stacklevel=6)


def _shown(value: Any) -> str:
    """A value for a message; Python cannot print integers of thousands of digits."""
    if type(value) is int and abs(value) > 10**80:
        return "a number of more than 80 digits"
    return repr(value)[:80]


def _is_sane(name: str, value: Any, default: Any) -> bool:
    """Whether a value has the type and range of the default, before validation."""
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, bool):
        return isinstance(default, bool) or name == "verbose"
    if type(value) is float:
        return is_real(value, -LARGEST, LARGEST)
    if type(value) is not int:
        return False
    if name in ("random_state", "n_experts"):
        return True  # fully checked by the validation
    most = MOST_THREADS if name == "n_jobs" else MOST_TURNS
    return is_count(value, -most, most + 1)


# ---------------------------------------------------------------- columns


def _packed_columns(value: Any) -> dict[str, Any]:
    """The parameter `columns` as JSON values that distinguish names from indices."""
    if isinstance(value, Mapping):
        return {"of": [[plain(key), _packed_kind(kind)] for key, kind in value.items()]}
    return {"all": [_packed_kind(kind) for kind in value]}


def _packed_kind(kind: Any) -> Any:
    return kind if kind is None or isinstance(kind, str) else [plain(level) for level in kind]


def _columns(path: Any, value: Any) -> dict[Any, Any] | list[Any]:
    """The parameter `columns` of a file; its kinds are checked when it is used."""
    is_pair = isinstance(value, dict) and len(value) == 1
    pairs, kinds = (value.get("of"), value.get("all")) if is_pair else (None, None)
    if isinstance(kinds, list) and all(map(_is_kind, kinds)):
        return kinds
    if isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and _is_key(pair[0]) and _is_kind(pair[1])
        for pair in pairs
    ):
        return dict(pairs)
    raise ModelFileError(f"{path} holds invalid parameters: columns cannot be read")


def _is_key(key: Any) -> bool:
    return isinstance(key, str) or is_count(key, -MOST_COLUMNS, MOST_COLUMNS)


def _is_kind(kind: Any) -> bool:
    if kind is None or isinstance(kind, str):
        return True
    return isinstance(kind, list) and all(
        isinstance(level, str | bool) or is_real(level, -LARGEST, LARGEST) for level in kind
    )


# ------------------------------------------------------------------ plans


def _plans() -> dict[str, type]:
    """Plans of the package, which can be stored in a file."""
    from dynpart.learning import Annealed, Paper

    return {plan.__name__: plan for plan in (Annealed, Paper)}


def _plan(path: Any, value: Mapping[str, Any]) -> Any:
    """A plan of the package, or None if this version does not know it."""
    if set(value) != {"plan", "fields"} or not isinstance(value["fields"], dict):
        return None
    plan = _plans().get(str(value["plan"]))
    fields: dict[str, Any] = {
        EARLIER.get(str(key), str(key)): number(item) for key, item in value["fields"].items()
    }
    known = {field.name: field for field in dataclasses.fields(plan)} if plan else {}
    simple = all(v is None or isinstance(v, int | float | str) for v in fields.values())
    if plan is None or not simple or not set(fields) <= set(known):
        return None
    for name, item in fields.items():
        if not _suits(known[name], item):
            raise ModelFileError(
                f"{path} holds invalid parameters: {name}={_shown(item)} of {plan.__name__} is out "
                "of range"
            )
    try:
        return plan(**fields)
    except ValueError as error:
        raise ModelFileError(f"{path} holds invalid parameters: {error}") from error


def _suits(field: dataclasses.Field, value: Any) -> bool:
    """Whether a value has the type and range of the field, before the plan's own checks."""
    if value is None:
        return "None" in str(field.type)
    if isinstance(field.default, bool):
        return isinstance(value, bool)
    if isinstance(field.default, float):
        return is_real(value, 0, LARGEST)
    return is_count(value, 0, MOST_TURNS + 1)
