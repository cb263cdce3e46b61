"""``dynpart explain``: which expert explains what in one row, in words."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dynpart.cli._shared import (
    ArrayName,
    Content,
    DataFile,
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


def _number(text: Any) -> int:
    """The number of a row; a label has an option of its own."""
    try:
        return whole()(text)
    except typer.BadParameter as error:
        remedy = f"--label {text!r} finds a row by its label."
        raise typer.BadParameter(f"{error.message} {remedy}") from None


def command(
    model: ModelFile,
    data: DataFile,
    row: Annotated[
        int | None, typer.Option("--row", "-r", parser=_number, help="Number of the row, from 0.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Label of the row.")] = None,
    top: Annotated[
        int, typer.Option("--top", parser=whole(1), help="Variables to name per expert.")
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
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
    """Explain one row in words: which expert explains which variables.

    Opinions are printed with overall rates. The output also lists values that are not as expected
    and the second-best code.

    For example:

    `dynpart explain sites.dynpart sites.csv --row 17`

    `dynpart explain sites.dynpart sites.csv --label "Muir Woods" --top 8`
    """
    from dynpart.cli._shared import nameless, open_model, read_rows_for, row_index

    fitted = open_model(model, n_starts=n_starts, n_swaps=n_swaps)
    content = Content(array, keep, drop, header, label_column, no_labels, unknown)
    table = read_rows_for(fitted, data, content)
    place = row_index(row, label, table.labels, len(table.values))
    called = table.labels[place] if table.labels else None
    explanation = nameless(fitted).explain(table.values, place, label=called, top=top)
    if as_json:
        typer.echo(json.dumps(explanation.to_dict(), indent=2))
        return
    for line in explanation.lines():
        typer.echo(printable(line))
