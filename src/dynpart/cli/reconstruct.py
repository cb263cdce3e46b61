"""``dynpart reconstruct``: the rows as the active experts predict them."""

from __future__ import annotations

from dataclasses import replace
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
    TableOutput,
    Unknown,
)

TEXTS = (".csv", ".tsv", ".jsonl")
TABLES = (*TEXTS, *(f"{ending}.gz" for ending in TEXTS), ".xlsx", ".parquet")
"""Extensions of tables with column names, by which codes are recognised."""

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dynpart.bare import BareModel
    from dynpart.schema import Schema


def command(
    model: ModelFile,
    data: DataFile,
    output: TableOutput = "-",
    owners: Annotated[
        bool, typer.Option("--owners", help="Write the owner of each variable instead of values.")
    ] = False,
    codes: Annotated[
        bool, typer.Option("--codes", help="DATA holds codes, as written by `dynpart encode`.")
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
    force: Force = False,
) -> None:
    """Reconstruct rows: compose the opinions of the active experts.

    DATA holds rows, which are encoded first, or codes. A table with a column for each expert, in
    any order, as written by `dynpart encode` (expert0, expert1_wet_sites, ...), is read as codes.

    For example:

    `dynpart reconstruct model.dynpart sites.csv -o expected.csv`

    `dynpart encode model.dynpart sites.csv | dynpart reconstruct model.dynpart - --codes`

    `dynpart reconstruct model.dynpart digits.npy --owners -o owners.npy`
    """
    import numpy as np

    from dynpart.cli._shared import nameless, open_model, say
    from dynpart.tables import check_output, write_table

    check_output(output, overwrite=force)
    fitted = open_model(model, n_starts=n_starts, n_swaps=n_swaps)
    plain = nameless(fitted)
    content = Content(array, keep, drop, header, label_column, no_labels, unknown)
    H, amplitudes, labels = _codes(fitted, data, codes, content)
    values: NDArray[Any] = plain.partition(H) if owners else plain.inverse_transform(H, amplitudes)
    if fitted.family_.is_binary and not owners:
        values = np.round(values, 6)
    schema = fitted.schema_
    words = None if owners else _words(schema)
    if words is not None:
        values = _likeliest(values, schema)
    write_table(output, values, schema.labels(), labels=labels, words=words, overwrite=force)
    if output != "-":
        say(f"{output}: {len(values)} rows of {values.shape[1]} variables")


def _words(schema: Schema) -> list[tuple[str, ...] | None] | None:
    """Names of the levels of each variable, if they have names."""
    return None if schema.levels is None else list(schema.levels)


def _likeliest(values: NDArray[Any], schema: Schema) -> NDArray[Any]:
    """Values in which binary variables with named levels have their likelier level."""
    import numpy as np

    named = [d for d in range(len(schema)) if schema.levels_of(d) is not None]
    values = np.array(values)
    values[:, named] = np.round(values[:, named])
    return values


def _codes(
    fitted: BareModel, data: str, given: bool, content: Content
) -> tuple[NDArray[Any], NDArray[Any] | None, tuple[str, ...] | None]:
    """Codes, given or of the rows; gains and offsets of the rows; labels."""
    from dynpart.cli._shared import in_order, nameless, read_rows_for
    from dynpart.naming import expert_of_column
    from dynpart.tables.gaps import refuse_gaps

    experts = [f"expert{k}" for k in range(fitted.n_experts_)]
    if given or data.endswith(TABLES):
        table = content.read(data)
        if table.names is not None:
            # The name of a column begins with the number of its expert.
            numbers = [expert_of_column(name) for name in table.names]
            known = (f"expert{k}" if k is not None else "" for k in numbers)
            plain = tuple(k or name for k, name in zip(known, table.names, strict=True))
            table = replace(table, names=plain) if len(set(plain)) == len(plain) else table
        if given or sorted(table.names or ()) == sorted(experts):
            H = in_order(table, experts, data).values
            refuse_gaps(data, H, experts, "a code is 0 or 1 for every expert")
            return H, None, table.labels
    table = read_rows_for(fitted, data, content)
    model = nameless(fitted)
    H = model.transform(table.values)
    return H, model.amplitudes(table.values, H), table.labels
