"""``dynpart demo``: three small data sets, learnt and drawn, without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynpart.cli._shared import whole


def command(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the figures; created if needed.")
    ] = Path("demo-output"),
    seed: Annotated[int, typer.Option(parser=whole(0), help="Seed of the random starts.")] = 0,
) -> None:
    """Fit three small data sets and show the results (about a minute, no download).

    The data are the paper's synthetic pairs, with ten factor levels to find, scikit-learn's digits,
    and the zoo. For the zoo, the demo names the experts, explains the platypus and writes a page.

    Example: `dynpart demo --out pictures`
    """
    from dynpart.demo import run_demo

    run_demo(out, seed=seed)
