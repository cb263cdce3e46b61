"""``dynpart describe``: every expert in a few lines."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from dynpart.cli._shared import (
    ArrayName,
    Content,
    Drop,
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
from dynpart.terminal import printable


def command(
    model: ModelFile,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="Rows for typical examples, in any file that `dynpart fit` reads.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print a table, one line per expert.")
    ] = False,
    top: Annotated[
        int, typer.Option("--top", parser=whole(1), help="Opinions to print per expert.")
    ] = 5,
    n_starts: NStarts = None,
    n_swaps: NSwaps = None,
    array: ArrayName = None,
    keep: Keep = None,
    drop: Drop = None,
    header: Header = None,
    label_column: LabelColumn = None,
    no_labels: NoLabels = False,
    unknown: Unknown = None,
) -> None:
    """Describe every expert: its frequency, its opinions, the experts often active with it.

    Opinions are printed with overall rates. With DATA, the output also has typical rows of each
    expert and the bits saved.

    For example:

    `dynpart describe sites.dynpart`

    `dynpart describe sites.dynpart sites.csv --top 8`

    `dynpart describe sites.dynpart sites.csv --csv > experts.csv`
    """
    from dynpart.cli._shared import nameless, open_model, read_rows_for

    if as_json and as_csv:
        raise ValueError("--json and --csv cannot be combined")
    fitted = open_model(model, n_starts=n_starts, n_swaps=n_swaps)
    if data is None:
        described = fitted.describe(top=top)
    else:
        content = Content(array, keep, drop, header, label_column, no_labels, unknown)
        table = read_rows_for(fitted, data, content)
        described = nameless(fitted).describe(table.values, labels=table.labels, top=top)
    if as_json:
        typer.echo(json.dumps(described.to_dict(), indent=2))
    elif as_csv:
        typer.echo(_csv(described.records()), nl=False)
    else:
        for line in described.lines():
            typer.echo(printable(line))


def _csv(records: list[dict[str, object]]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
