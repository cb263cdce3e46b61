"""``dynpart demo``: three small data sets, learnt and drawn, without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynpart.cli._shared import whole


def command(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the figures; made if it is not there.")
    ] = Path("demo-output"),
    seed: Annotated[int, typer.Option(parser=whole(0), help="Seed of the random starts.")] = 0,
) -> None:
    """Learn three small data sets and show what was learnt (about a minute, no download).

    The paper's synthetic pairs, whose ten factor levels the model has to find, the digits that come
    with scikit-learn, and a zoo: its experts named, the platypus explained, and a page to open.

    Example: `dynpart demo --out pictures`
    """
    from dynpart.demo import run_demo

    run_demo(out, seed=seed)
