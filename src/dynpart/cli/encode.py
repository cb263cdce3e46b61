"""``dynpart encode``: which experts are active in each row."""

from __future__ import annotations

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
    TableOutput,
    Unknown,
)


def command(
    model: ModelFile,
    data: DataFile,
    output: TableOutput = "-",
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
    """Encode rows: write which experts are active in each row.

    The output has one row per row of DATA and one column of 0 and 1 per expert, named by its number
    and name. Columns of DATA are matched by name if both the data and the model have names.

    For example:

    `dynpart encode model.dynpart sites.csv -o codes.csv`

    `cut -d, -f1-20 sites.csv | dynpart encode model.dynpart - > codes.csv`
    """
    from dynpart.cli._shared import nameless, open_model, read_rows_for, say
    from dynpart.naming import column_names
    from dynpart.tables import check_output, write_table

    check_output(output, overwrite=force)
    fitted = open_model(model, n_starts=n_starts, n_swaps=n_swaps)
    content = Content(array, keep, drop, header, label_column, no_labels, unknown)
    table = read_rows_for(fitted, data, content)
    codes = nameless(fitted).transform(table.values)
    names = column_names(fitted.expert_names_)
    write_table(output, codes, names, labels=table.labels, overwrite=force)
    if output != "-":
        say(f"{output}: {len(codes)} rows, {codes.sum(axis=1).mean():.1f} experts active in each")
