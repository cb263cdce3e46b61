"""``dynpart report``: a model and its data as one HTML file to explore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynpart.cli._shared import ArrayName, DataFile, Drop, Force, ModelFile


def command(
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option("--title", help="Title of the page; the model's name by default.")
    ] = None,
    n_samples: Annotated[
        int, typer.Option("--samples", min=1, help="Rows that can be picked on the page.")
    ] = 500,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="HxW", help="Show rows as images of this size."),
    ] = None,
    array: ArrayName = None,
    drop: Drop = None,
    force: Force = False,
) -> None:
    """Write an explorer: one HTML file, no server, no network, to open in any browser.

    Shows all experts and how they are used; pick a row to see who explains what, follow the pursuit
    step by step, and switch experts on and off to watch the partition change.

    For example:

    `dynpart report sites.dynpart sites.csv -o sites.html`

    `dynpart report digits.dynpart test.npy --image 28x28 --samples 200 -o digits.html`
    """
    from dynpart.cli._shared import nameless, open_model, parsed_size, read_rows_for, say
    from dynpart.explorer import write_report

    if output.exists() and not force:
        raise FileExistsError(17, "exists already; --force overwrites it", str(output))
    fitted = open_model(model)
    table = read_rows_for(fitted, data, array=array, drop=drop)
    n_bytes = write_report(
        nameless(fitted),
        table.values,
        output,
        overwrite=force,
        names=getattr(fitted, "feature_names_in_", None),
        labels=table.labels,
        image_shape=parsed_size(image) or table.image_shape,
        title=title or model.stem,
        n_samples=n_samples,
    )
    say(f"{output}: {n_bytes / 1e6:.2f} MB; open it in a browser")
