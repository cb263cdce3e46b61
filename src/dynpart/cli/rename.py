"""``dynpart rename``: names for experts, kept in the model file."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from dynpart.cli._shared import ModelFile


def command(
    model: ModelFile,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NUMBER=NAME...",
            help="New names by the expert's number; an empty name restores the automatic name.",
        ),
    ],
) -> None:
    """Set names of experts in a model file.

    Reports, explanations, descriptions and the columns of codes show them.

    For example:

    `dynpart rename sites.dynpart 3="wet sites" 5=meadows`

    `dynpart rename sites.dynpart 3=`
    """
    from dynpart.cli._shared import open_model, say
    from dynpart.storage import save

    asked: dict[int, str | None] = {}
    for text in names:
        match = re.fullmatch(r"([0-9]{1,9})=(.*)", text, flags=re.DOTALL)
        if not match:
            raise ValueError(
                f"a new name is given as NUMBER=NAME, as in 3='wet sites', got {text!r}"
            )
        asked[int(match[1])] = match[2].strip() or None
    fitted = open_model(model)
    fitted.rename_experts(asked)
    save(fitted, model, overwrite=True)
    called = fitted.expert_names_
    for k in asked:
        say(f"{model}: expert {k} is called {called[k]!r}")
