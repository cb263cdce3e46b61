"""``dynpart encode``: which experts are active in each row."""

from __future__ import annotations

from dynpart.cli._shared import ArrayName, DataFile, Drop, Force, ModelFile, TableOutput


def command(
    model: ModelFile,
    data: DataFile,
    output: TableOutput = "-",
    array: ArrayName = None,
    drop: Drop = None,
    force: Force = False,
) -> None:
    """Encode rows: which experts are active in each.

    One row per row of DATA and one column per expert, 0 or 1. Columns are matched by name where
    both the data and the model have names.

    For example:

    `dynpart encode model.dynpart sites.csv -o codes.csv`

    `cut -d, -f1-20 sites.csv | dynpart encode model.dynpart - > codes.csv`
    """
    from dynpart.cli._shared import expert_names, nameless, open_model, read_rows_for, say
    from dynpart.tables import write_table
    from dynpart.tables._write import check_output

    check_output(output, overwrite=force)
    fitted = open_model(model)
    table = read_rows_for(fitted, data, array=array, drop=drop)
    codes = nameless(fitted).transform(table.values)
    names = expert_names(fitted.n_experts)
    write_table(output, codes, names, labels=table.labels, overwrite=force)
    if output != "-":
        say(f"{output}: {len(codes)} rows, {codes.sum(axis=1).mean():.1f} experts active in each")
