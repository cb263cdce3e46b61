"""``dynpart info``: the contents of a model file."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Annotated, Any

import typer

from dynpart.cli._shared import ModelFile
from dynpart.terminal import printable

MOST_LINES = 30
"""Maximum number of experts, or types of rows, that are printed, one per line."""


def command(
    model: ModelFile,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
) -> None:
    """Print the contents of a model file: size, family, experts, learning, scores.

    With a learnt prior over codes, also prints the types of rows: their frequencies and the experts
    that are typically active in them.

    For example:

    `dynpart info model.dynpart`

    `dynpart info model.dynpart --json | jq .n_experts`
    """
    from dynpart.portrait import portrait

    shown = portrait(model)
    facts = _facts(shown, model.stat().st_size)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    part = "column" if shown.schema_.image_shape is None else "pixel"
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        title = name.replace("_", " ")
        for line in _lines_of(name, value, part):
            typer.echo(printable(f"{title:<{width}}  {line}"))
            title = ""


def _facts(fitted: Any, n_bytes: int) -> dict[str, Any]:
    from dynpart.describing import observed_shares
    from dynpart.storage import plain

    shares = observed_shares(fitted)
    schema = fitted.schema_
    last = fitted.history_[-1] if fitted.history_ else None
    facts = {
        "family": fitted.family_.name,
        "n_experts": fitted.n_experts_,
        "n_variables": fitted.n_features_in_,
        "image_shape": schema.to_json()["image_shape"],
        "names": schema.to_json()["names"],
        "variables": _variables(schema),
        "active_experts_a_row": round(float(shares.sum()), 2),
        "experts": fitted.expert_names_,
        "busiest_expert": int(shares.argmax()),
        "prior": _prior(fitted),
        "types": _types(fitted),
        "n_iterations": fitted.n_iter_,
        "baseline": _baseline(fitted),
        "selection": _selection(fitted),
        "stability": _stability(fitted),
        "objective": None if last is None else round(-float(last.joint) / math.log(2), 2),
        "rows_in_last_iteration": None if last is None else last.n_rows,
        "parameters": _changed(fitted),
        "bytes": n_bytes,
    }
    return plain({name: value for name, value in facts.items() if value is not None})


def _variables(schema: Any) -> list[dict[str, Any]] | None:
    """Name, kind and levels of each variable; None if all have the same kind and no levels."""
    if schema.levels is None and len(set(schema.kinds)) == 1:
        return None
    facts = []
    for d, kind in enumerate(schema.kinds):
        levels = schema.levels_of(d)
        one = {"name": schema.label(d), "kind": kind}
        facts.append(one if levels is None else {**one, "levels": list(levels)})
    return facts


def _prior(fitted: Any) -> str:
    """The prior over codes in words."""
    prior = fitted.prior_
    n_types, n_edges = prior.n_types, int((prior.parent >= 0).sum())
    text = f"{n_types} types of rows" if n_types > 1 else "independent activations"
    if n_edges:
        edges = f"{n_edges} edges" if n_edges > 1 else "1 edge"
        text = f"{text}, {edges} between experts" if n_types > 1 else f"a tree of {edges}"
    return text if fitted.prior is not None else f"{text}, for scores only"


def _types(fitted: Any) -> list[dict[str, Any]] | None:
    """Share and typically active experts of each type of row; None if there is only one type."""
    types = fitted.describe(top=1).types
    return [dataclasses.asdict(kind) for kind in types] if len(types) > 1 else None


def _baseline(fitted: Any) -> dict[str, float] | None:
    """Bits per training row under the model, and under independent columns."""
    found = getattr(fitted, "baseline_", None)
    if found is None:
        return None
    bits, columns = (-nats / math.log(2) for nats in (found.nats, found.columns))
    return {
        "bits_a_row": round(bits, 2),
        "independent_columns": round(columns, 2),
        "saved": round(columns - bits, 4),  # rounded again in words
        "repeats": round(found.repeats / math.log(2), 4),
    }


def _selection(fitted: Any) -> dict[str, Any] | None:
    """How the number of experts was chosen; None if it was given."""
    found = getattr(fitted, "selection_", None)
    return None if found is None else {"words": str(found), **dataclasses.asdict(found)}


def _stability(fitted: Any) -> dict[str, Any] | None:
    """How often each expert was found again; None if stability was not estimated."""
    found = getattr(fitted, "stability_", None)
    if found is None:
        return None
    words = [found.words(k) for k in range(len(found.found))]
    return {"words": str(found), **dataclasses.asdict(found), "experts": words}


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


def _variable(item: Any) -> str:
    """A variable as text: its name, and its kind or levels."""
    if not isinstance(item, dict):
        return str(item)
    return f"{item['name']} ({'/'.join(item.get('levels', [item['kind']])[:6])})"


def _lines_of(name: str, value: Any, part: str) -> list[str]:
    """A fact in one line; experts and types of rows one per line, because names have commas.

    A `part` of a row is a column, or a pixel.
    """
    from dynpart.stability import LEGEND
    from dynpart.summaries import RowTypeSummary, types_in_words
    from dynpart.wording import saving_in_words

    if name == "baseline":
        return [
            f"{value['bits_a_row']} bits a training row under this model, "
            f"{value['independent_columns']} {part} by {part}, the baseline. "
            f"{saving_in_words(value['saved'], 'training row', part, repeats=value['repeats'])}"
        ]
    if name == "objective":
        return [f"{value} in the last iteration of learning, not to be compared with the baseline"]
    if name == "selection":
        return [value["words"]]
    if name == "stability":
        listed = [f"{k}  {expert}" for k, expert in enumerate(value["experts"])]
        legend = [f"{mark}: {meaning}" for mark, meaning in LEGEND.items()]
        return [value["words"], *listed[:MOST_LINES], *legend]
    if name == "types":
        return types_in_words([RowTypeSummary(**kind) for kind in value])
    if name != "experts":
        return [_worded(value)]
    width = len(str(len(value) - 1))
    lines = [f"{k:>{width}}  {expert}" for k, expert in enumerate(value)]
    if len(lines) > MOST_LINES:
        return [*lines[:MOST_LINES], f"... ({len(lines)} in all)"]
    return lines


def _worded(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item!r}" for name, item in value.items()) or "all defaults"
    if isinstance(value, list):
        shown = ", ".join(_variable(item) for item in value[:8])
        return shown if len(value) <= 8 else f"{shown}, ... ({len(value)} in all)"
    return f"{value:,}" if isinstance(value, int) else str(value)
