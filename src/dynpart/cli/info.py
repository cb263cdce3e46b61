"""``dynpart info``: what a model file holds."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dynpart.cli._shared import ModelFile


def command(
    model: ModelFile,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
) -> None:
    """Tell what a model file holds: size, family, how it was learnt, how good it was.

    For example:

    `dynpart info model.dynpart`

    `dynpart info model.dynpart --json | jq .n_experts`
    """
    from dynpart.cli._shared import open_model

    facts = _facts(open_model(model), model.stat().st_size)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' '):<{width}}  {_worded(value)}")


def _facts(fitted: Any, n_bytes: int) -> dict[str, Any]:
    from dynpart.persistence._container import plain

    shape = getattr(fitted, "image_shape_", None)
    names = getattr(fitted, "feature_names_in_", None)
    last = fitted.history_[-1] if fitted.history_ else None
    facts = {
        "family": fitted.family_.name,
        "n_experts": fitted.n_experts,
        "n_variables": fitted.n_features_in_,
        "image_shape": None if shape is None else list(shape),
        "names": None if names is None else [str(name) for name in names],
        "active_experts_a_row": round(float(fitted.activation_probabilities_.sum()), 2),
        "busiest_expert": int(fitted.activation_probabilities_.argmax()),
        "n_iterations": fitted.n_iter_,
        "nats_a_row": None if last is None else round(float(last.joint), 3),
        "rows_in_last_iteration": None if last is None else last.n_rows,
        "parameters": _changed(fitted),
        "bytes": n_bytes,
    }
    return plain({name: value for name, value in facts.items() if value is not None})


def _changed(fitted: Any) -> dict[str, Any]:
    """Parameters that differ from their defaults; objects by their description."""
    usual = type(fitted)().get_params(deep=False)
    changed: dict[str, Any] = {}
    for name, value in fitted.get_params(deep=False).items():
        if not isinstance(value, str | bool | int | float | None):
            changed[name] = " ".join(repr(value).split())[:80]
        elif value != usual[name]:
            changed[name] = value
    return changed


def _worded(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item!r}" for name, item in value.items()) or "all defaults"
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:8])
        return shown if len(value) <= 8 else f"{shown}, ... ({len(value)} in all)"
    return f"{value:,}" if isinstance(value, int) else str(value)
