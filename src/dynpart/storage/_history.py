"""The log of learning in a file: one record per iteration, each with the step it followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dynpart.storage._container import ModelFileError, number, plain
from dynpart.storage._numbers import MOST_ROWS, is_count, is_real

Rule = Callable[[Any], bool]

LONGEST = 1e300
"""Bound of log-likelihoods, which are sums over all variables."""


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _is_share(value: Any) -> bool:
    return is_real(value, 0)


def _is_level(value: Any) -> bool:
    """A bound on expertise, which may be infinite."""
    return value == float("inf") or is_real(value, 0)


def _is_likelihood(value: Any) -> bool:
    return is_real(value, -LONGEST, LONGEST)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


STEP: dict[str, Rule] = {
    "n_rows": _or_none(lambda value: is_count(value, 1, MOST_ROWS)),
    "n_batches": lambda value: is_count(value, 1),
    "min_active": is_count,
    "price": _is_share,
    "smoothed": _is_flag,
    "log2_bound": _is_level,
    "size": _is_share,
    "memory": _is_share,
    "n_starts": is_count,
    "n_swaps": is_count,
    "sharpness": _is_share,
    "search": _is_flag,
    "shrink": _is_flag,
}
RECORD: dict[str, Rule] = {
    "iteration": is_count,
    "n_rows": lambda value: is_count(value, 1, MOST_ROWS),
    "joint": _is_likelihood,
    "penalised": _is_likelihood,
    "mean_active": _is_share,
    "opinion_change": _is_share,
    "expertise_change": _is_share,
    "step": lambda value: isinstance(value, dict),
    "shrinkage": _is_share,
}


def pack_history(records: Any) -> list[Any]:
    """Records as JSON values."""
    return [plain(dataclasses.asdict(record)) for record in records]


def read_history(path: Any, records: Any) -> tuple[Any, ...]:
    """The log of learning.

    Entries that a record of an earlier version lacks get their defaults. Entries that this version
    does not know are ignored.
    """
    from dynpart.learning import IterationRecord, Step

    if not isinstance(records, list):
        raise ModelFileError(f"{path} has no valid entry 'history' in its metadata")
    found = []
    for place, record in enumerate(records):
        where = f"{path}: record {place} of the history"
        values = _values(where, record, RECORD, IterationRecord)
        values["step"] = Step(**_values(where, values["step"], STEP, Step))
        found.append(IterationRecord(**values))
    return tuple(found)


def _values(where: str, entries: Any, rules: Mapping[str, Rule], kind: type[Any]) -> dict[str, Any]:
    """Entries of a record that this version knows, or ModelFileError if one is invalid."""
    if not isinstance(entries, dict):
        raise ModelFileError(f"{where} is not one")
    entries = {_today(name, rules): value for name, value in entries.items()}
    values = {name: number(entries[name]) for name in rules if name in entries}
    for name, value in values.items():
        if not rules[name](value):
            raise ModelFileError(f"{where} holds no valid {name!r}")
        if rules[name] in (_is_share, _is_level, _is_likelihood):
            values[name] = float(value)
    for field in dataclasses.fields(kind):
        if field.name not in values and field.default is dataclasses.MISSING:
            raise ModelFileError(f"{where} lacks {field.name!r}")
    return values


def _today(name: str, rules: Mapping[str, Rule]) -> str:
    """The name of an entry that files of version 0.1 call `doubt`, in a step and in a record."""
    if name != "doubt":
        return name
    return "shrink" if rules is STEP else "shrinkage"
