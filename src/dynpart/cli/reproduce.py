"""``dynpart reproduce``: the paper's experiments, figures and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynpart.cli._shared import whole

NAMES = (
    "synthetic",
    "mnist",
    "horses",
    "motorcycles",
    "intensities",
    "intensities-photographs",
    "intensities-faces",
    "intensities-motorcycles",
    "order",
)


def command(
    experiments: Annotated[
        list[str],
        typer.Argument(
            help="synthetic, mnist, horses, motorcycles; intensities, intensities-photographs, "
            "intensities-faces, intensities-motorcycles and order, from the paper's "
            "discussion; or all.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for models, numbers and figures.")
    ] = Path("reproduction-output"),
    report: Annotated[
        Path | None,
        typer.Option(help="Markdown file to write.", show_default="reproduction.md in --out"),
    ] = None,
    seed: Annotated[int, typer.Option(parser=whole(0), help="Seed of the random starts.")] = 0,
    engine: Annotated[str, typer.Option(help="Engine of the estimator.")] = "auto",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Learn again instead of reusing kept fits.")
    ] = False,
) -> None:
    """Run the paper's experiments, draw its figures, and write a report with numbers.

    Each experiment runs with a literal implementation of the paper and with our default learner.
    Finished fits are kept in the output folder: the same command draws the figures again without
    learning, and continues after an interruption. Data come from the folder DYNPART_DATA, or are
    downloaded.

    Example: `dynpart reproduce synthetic horses --out reproduction-output`
    """
    names = list(NAMES) if "all" in experiments else experiments
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"experiment must be one of {', '.join(NAMES)} or all, got {unknown[0]!r}")
    from dynpart.reproduce import reproduce

    reproduce(names, out, report=report, seed=seed, engine=engine, fresh=fresh)
