"""``dynpart report``: a model and its data as one HTML file to explore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynpart.cli._shared import (
    ArrayName,
    Content,
    DataFile,
    Drop,
    Force,
    Header,
    Keep,
    LabelColumn,
    ModelFile,
    NoLabels,
    NStarts,
    NSwaps,
    Unknown,
    whole,
)

if TYPE_CHECKING:
    from dynpart.tables import Table


def command(
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option("--title", help="Title of the page. Default: the model's name.")
    ] = None,
    n_samples: Annotated[
        int, typer.Option("--samples", parser=whole(1), help="Number of rows on the page.")
    ] = 500,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="HxW", help="Show rows as images of this size."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="NAME",
            help="Show experts against this column of DATA, which is not a variable of the model.",
        ),
    ] = None,
    n_starts: NStarts = None,
    n_swaps: NSwaps = None,
    array: ArrayName = None,
    keep: Keep = None,
    drop: Drop = None,
    header: Header = None,
    label_column: LabelColumn = None,
    no_labels: NoLabels = False,
    unknown: Unknown = None,
    force: Force = False,
) -> None:
    """Write an explorer: one HTML file that needs no server and no network.

    It shows all experts and their use. Select a row to see which expert explains which variable,
    follow the pursuit step by step, and switch experts on and off to see the partition change.

    For example:

    `dynpart report sites.dynpart sites.csv -o sites.html`

    `dynpart report sites.dynpart sites.csv --by habitat -o sites.html`

    `dynpart report digits.dynpart test.npy --image 28x28 --samples 200 -o digits.html`
    """
    from dynpart.cli._shared import nameless, open_model, parsed_size, read_table_for, say
    from dynpart.explorer import write_report

    if output.exists() and not force:
        raise FileExistsError(17, "exists already; --force overwrites it", str(output))
    shape = parsed_size(image, "--image")
    fitted = open_model(model, n_starts=n_starts, n_swaps=n_swaps)
    content = Content(array, keep, drop, header, label_column, no_labels, unknown)
    whole, table = read_table_for(fitted, data, content)
    against = {} if by is None else {"by": _column(whole, by, data), "by_name": by}
    n_bytes = write_report(
        nameless(fitted),
        table.values,
        output,
        overwrite=force,
        names=fitted.schema_.names,
        labels=table.labels,
        image_shape=shape or table.image_shape,
        title=title or model.stem,
        n_samples=n_samples,
        **against,
    )
    say(f"{output}: {n_bytes / 1e6:.2f} MB; open it in a browser")


def _column(table: Table, name: str, source: str) -> list[Any]:
    """The values of a column: numbers, or texts; None for missing values."""
    import numpy as np

    from dynpart.tables import TableError

    if table.names is None or name not in table.names:
        known = ", ".join(table.names or ()) or "no names"
        raise TableError(f"{source} has no column {name!r} for --by; its columns are {known:.300}")
    place = table.names.index(name)
    values, words = table.values[:, place], table.words_of(place)
    if words is None:
        return [float(value) for value in values]
    return [None if np.isnan(value) else words[int(value)] for value in values]
