"""``dynpart impute``: a table with its gaps filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dynpart.schema import Schema
    from dynpart.tables import Table

    Words = tuple[tuple[str, ...] | None, ...] | None


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
    """Fill gaps with the predictions of the experts that explain the rest of a row.

    Writes the table with the same rows and columns; observed values do not change. Columns that the
    model does not know keep their gaps.

    For example:

    `dynpart impute model.dynpart sites.csv -o complete.csv`
    """
    import numpy as np

    from dynpart.cli._shared import nameless, open_model, read_table_for, say
    from dynpart.tables import check_output, write_table
    from dynpart.tables.gaps import count_gaps

    check_output(output, overwrite=force)
    fitted = open_model(model, n_starts=n_starts, n_swaps=n_swaps)
    content = Content(array, keep, drop, header, label_column, no_labels, unknown)
    whole, known = read_table_for(fitted, data, content)
    n_gaps = count_gaps(known.values)
    values, words = np.asarray(whole.values), whole.words
    if n_gaps:
        filled = np.asarray(nameless(fitted).impute(known.values), dtype=np.float64)
        values, words = _completed(whole, known, filled, fitted.schema_)
    names = whole.names or fitted.schema_.labels()
    write_table(
        output,
        values,
        names,
        labels=whole.labels,
        label_name=whole.label_name,
        label_place=whole.label_place,
        words=words,
        overwrite=force,
    )
    if output != "-":
        rows, columns = values.shape
        gaps = "gap" if n_gaps == 1 else "gaps"
        say(f"{output}: {n_gaps:,} {gaps} filled in, {rows} rows of {columns} variables")


def _completed(
    whole: Table, known: Table, filled: NDArray[Any], schema: Schema
) -> tuple[NDArray[Any], Words]:
    """The whole table, with the gaps of the model's columns filled in."""
    import numpy as np

    from dynpart.levels import boolean_words
    from dynpart.tables import compact

    if whole.names is None or known.names is None:
        columns = list(range(filled.shape[1]))
    else:
        columns = [whole.names.index(name) for name in known.names]
    values = np.array(whole.values, dtype=np.float64)
    words = list(whole.words or (None,) * values.shape[1])
    for d, column in enumerate(columns):
        gaps = np.isnan(values[:, column])
        levels, found = schema.levels_of(d), words[column]
        own = not gaps.all() if found is None else boolean_words(found) is not None
        if levels is None or (schema.kinds[d] == "binary" and own):
            values[gaps, column] = filled[gaps, d]
            continue
        texts = [levels[round(i)] for i in filled[gaps, d].tolist()]
        if found is None and not gaps.all() and all(map(_is_number, texts)):
            values[gaps, column] = [float(text) for text in texts]
            continue
        known_words = tuple(dict.fromkeys([*(found or ()), *texts]))
        words[column] = known_words
        values[gaps, column] = [known_words.index(text) for text in texts]
    return compact(values), tuple(words) if any(words) else None


def _is_number(text: str) -> bool:
    from dynpart.cells import Fields

    return Fields(decimal_comma=False).plain_number(text) is not None
