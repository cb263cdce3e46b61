"""``dynpart demo``: two small data sets, learnt and drawn, without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the figures; made if it is not there.")
    ] = Path("demo-output"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random starts.")] = 0,
) -> None:
    """Learn two small data sets and draw what was learnt (under a minute, no download).

    The paper's synthetic pairs, whose ten factor levels the model has to find, and the digits that
    come with scikit-learn. Prints a table and writes figures.

    Example: `dynpart demo --out pictures`
    """
    from dynpart.demo import run_demo

    run_demo(out, seed=seed)
