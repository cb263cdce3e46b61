"""``dynpart reconstruct``: what the active experts say the rows look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynpart.cli._shared import ArrayName, DataFile, Drop, Force, ModelFile, TableOutput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dynpart.estimator import DynamicPartitionModel


def command(
    model: ModelFile,
    data: DataFile,
    output: TableOutput = "-",
    owners: Annotated[
        bool, typer.Option("--owners", help="Write who explains each variable, not the values.")
    ] = False,
    codes: Annotated[
        bool, typer.Option("--codes", help="DATA holds codes, as `dynpart encode` writes them.")
    ] = False,
    array: ArrayName = None,
    drop: Drop = None,
    force: Force = False,
) -> None:
    """Reconstruct rows: compose the opinions of the active experts.

    DATA holds rows, which are encoded first, or codes. A table with the columns expert0, expert1
    and so on is taken for codes.

    For example:

    `dynpart reconstruct model.dynpart sites.csv -o expected.csv`

    `dynpart encode model.dynpart sites.csv | dynpart reconstruct model.dynpart - --codes`

    `dynpart reconstruct model.dynpart digits.npy --owners -o owners.npy`
    """
    import numpy as np

    from dynpart.cli._shared import nameless, open_model, say, variable_names
    from dynpart.tables import write_table
    from dynpart.tables._write import check_output

    check_output(output, overwrite=force)
    fitted = open_model(model)
    plain = nameless(fitted)
    H, labels = _codes(fitted, data, codes, array, drop)
    values: NDArray[Any] = plain.partition(H) if owners else plain.inverse_transform(H)
    if fitted.family_.name == "bernoulli" and not owners:
        values = np.round(values, 6)
    write_table(output, values, variable_names(fitted), labels=labels, overwrite=force)
    if output != "-":
        say(f"{output}: {len(values)} rows of {values.shape[1]} variables")


def _codes(
    fitted: DynamicPartitionModel,
    data: str,
    given: bool,
    array: str | None,
    drop: list[str] | None,
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Codes as they are, or of the rows that are."""
    from dynpart.cli._shared import expert_names, nameless, read_rows_for
    from dynpart.tables import read_table

    if given or data.endswith((".csv", ".tsv", ".parquet")):
        table = read_table(data, array=array, drop=drop or ())
        if given or list(table.names or ()) == expert_names(fitted.n_experts):
            return table.values, table.labels
    table = read_rows_for(fitted, data, array=array, drop=drop)
    return nameless(fitted).transform(table.values), table.labels
