"""Assessments of a model in its file: selection of the size, stability, baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dynpart.storage._container import ModelFileError, plain
from dynpart.storage._history import LONGEST
from dynpart.storage._numbers import MOST_ROWS, is_count, is_real

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from dynpart.baseline import Baseline
    from dynpart.selection import Selection
    from dynpart.stability import Stability

ENTRIES = {"selection": "selection_", "stability": "stability_", "baseline": "baseline_"}
"""Entries of the metadata and their attributes."""


def pack_choices(model: BaseEstimator) -> dict[str, Any]:
    """JSON entries of the attributes that the model has."""
    found = {entry: getattr(model, name, None) for entry, name in ENTRIES.items()}
    return {
        entry: plain(dataclasses.asdict(value))
        for entry, value in found.items()
        if value is not None
    }


def unpack_choices(path: Any, model: BaseEstimator, meta: Mapping[str, Any]) -> None:
    """Set the attributes that the file has."""
    readers: dict[str, Callable[[Any, int], Any]] = {
        "selection": _selection,
        "stability": _stability,
        "baseline": _baseline,
    }
    for entry, name in ENTRIES.items():
        if meta.get(entry) is None:
            continue
        try:
            value = readers[entry](meta[entry], meta["n_experts"])
        except (TypeError, KeyError, AttributeError, AssertionError) as error:
            raise ModelFileError(f"{path} holds an invalid {entry}") from error
        setattr(model, name, value)


def _check(*sound: bool) -> None:
    if not all(sound):
        raise AssertionError


def _is_likelihood(value: Any) -> bool:
    return is_real(value, -LONGEST, LONGEST)


def _is_rows(value: Any) -> bool:
    return is_count(value, 1, MOST_ROWS)


def _selection(meta: Any, n_experts: int) -> Selection:
    from dynpart.selection import Selection, TriedSize

    tried = tuple(TriedSize(**one) for one in meta["tried"])
    for one in tried:
        _check(
            is_count(one.n_experts, 1),
            _is_likelihood(one.nats),
            is_real(one.error, 0, LONGEST),
            is_real(one.mean_active, 0),
            one.density is None or _is_likelihood(one.density),
            (one.density is None) == (one.density_error is None),
            one.density_error is None or is_real(one.density_error, 0, LONGEST),
        )
    sizes = [one.n_experts for one in tried]
    found = Selection(**{**meta, "tried": tried})
    _check(
        found.n_experts == n_experts,
        n_experts in sizes,
        sizes == sorted(set(sizes)),
        _is_likelihood(found.columns),
        found.mixture is None or _is_likelihood(found.mixture),
        _is_rows(found.n_rows),
        _is_rows(found.n_held_back),
        is_count(found.n_largest, 1),
        is_count(found.n_turns, 1),
    )
    return found


def _stability(meta: Any, n_experts: int) -> Stability:
    from dynpart.stability import Stability

    pairs = tuple((j, k) for j, k in meta["duplicates"])
    found = Stability(
        **{
            **meta,
            "found": tuple(meta["found"]),
            "agreement": tuple(meta["agreement"]),
            "always_on": tuple(meta["always_on"]),
            "duplicates": pairs,
        }
    )
    _check(
        is_count(found.n_bootstraps, 1),
        len(found.found) == len(found.agreement) == n_experts,
        all(is_count(n, 0, found.n_bootstraps + 1) for n in found.found),
        all(is_real(share, 0, 1) for share in found.agreement),
        all(is_count(k, 0, n_experts) for k in found.always_on),
        all(is_count(j) and is_count(k, j + 1, n_experts) for j, k in pairs),
    )
    return found


def _baseline(meta: Any, n_experts: int) -> Baseline:
    from dynpart.baseline import Baseline

    found = Baseline(**meta)
    _check(*map(_is_likelihood, (found.nats, found.columns, found.repeats)), _is_rows(found.n_rows))
    return found
