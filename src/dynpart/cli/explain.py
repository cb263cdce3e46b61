"""``dynpart explain``: who explains what in one row, in words."""

from __future__ import annotations

from typing import Annotated

import typer

from dynpart.cli._shared import ArrayName, DataFile, Drop, ModelFile


def command(
    model: ModelFile,
    data: DataFile,
    row: Annotated[
        str, typer.Option("--row", "-r", help="Number of the row, from 0, or its label.")
    ],
    top: Annotated[int, typer.Option("--top", min=1, help="Variables to name per expert.")] = 5,
    array: ArrayName = None,
    drop: Drop = None,
) -> None:
    """Explain one row in words: the active experts, what each brings and which variables it owns.

    For example:

    `dynpart explain sites.dynpart sites.csv --row 17`

    `dynpart explain sites.dynpart sites.csv --row "Muir Woods" --top 8`
    """
    from dynpart.cli._shared import nameless, open_model, read_rows_for, variable_names
    from dynpart.cli._words import explanation

    fitted = open_model(model)
    table = read_rows_for(fitted, data, array=array, drop=drop)
    place = _place(row, table.labels, len(table.values))
    label = table.labels[place] if table.labels else ""
    names = variable_names(fitted)
    for line in explanation(nameless(fitted), table, place, label, names, top):
        typer.echo(line)


def _place(row: str, labels: tuple[str, ...] | None, n_rows: int) -> int:
    """Index of a row given by number or label; a label is tried first."""
    if labels and row in labels:
        return labels.index(row)
    try:
        place = int(row)
    except ValueError:
        raise ValueError(f"--row must be a number or a row's label, got {row!r}") from None
    if not -n_rows <= place < n_rows:
        raise ValueError(f"--row must be below the number of rows, {n_rows}, got {place}")
    return place % n_rows
