"""``dynpart compare``: our model and the models that the paper names, on the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynpart.cli._shared import whole


def command(
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            "-d",
            metavar="NAME",
            help="synthetic, pairs10, pairs20, bars, digits, digits-gray, mnist, motorcycles, "
            "horses, silhouettes, faces, news, tracking, imputation (hidden cells of several "
            "tables), shapes (horses, with the shape Boltzmann machine), tables (unseen rows of "
            "mixed tables, with StepMix), autoregressive (autoregressive models of digits, with "
            "MADE), autoregressive-mnist, density (test nats of twelve binary sets, with trees, "
            "mixtures and circuits) or one of them as density-nltcs; repeat for more. "
            "Default: synthetic.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for results and figures; kept results are reused."
        ),
    ] = Path("comparison-output"),
    seeds: Annotated[int, typer.Option(parser=whole(1), help="Number of seeds.")] = 3,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", metavar="NAME", help="Only this model; repeat for more. Default: all."
        ),
    ] = None,
    redo: Annotated[
        list[str] | None,
        typer.Option(
            "--redo", help="Compute this model again and replace its results; repeat for more."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="The document. Default: comparison.md in the folder; density.md for density sets, "
            "which have their own document."
        ),
    ] = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="Compute nothing; write the document from kept results.")
    ] = False,
    note: Annotated[str, typer.Option(help="A remark to put into the document.")] = "",
    device: Annotated[
        str | None,
        typer.Option(
            help="Device of torch, such as cuda, for autoregressive and autoregressive-mnist."
        ),
    ] = None,
    validation: Annotated[
        bool, typer.Option(help="Score on held-back training rows, without using the test rows.")
    ] = False,
) -> None:
    """Compare dynpart with every model that the paper names: a table, curves and templates.

    Writes results, figures and a document. Results that are already in the folder are reused, so
    an interrupted comparison continues.

    Example: `dynpart compare --data synthetic --data bars --seeds 5`
    """
    from dynpart.comparison.command import compare

    compare(
        data or ["synthetic"],
        out,
        range(seeds),
        models=model,
        redo=redo or (),
        document=report,
        kept_only=kept,
        note=note,
        device=device,
        split="validation" if validation else "test",
    )
