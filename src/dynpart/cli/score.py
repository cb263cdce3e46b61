"""``dynpart score``: the log-likelihood of rows and their surprising values."""

from __future__ import annotations

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
    whole,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dynpart.schema import Schema

NAMED = 3
"""Maximum number of columns named as reasons of a surprise."""
LEAST_SURPRISE = 0.7
"""Minimum surprise of a reason, in nats: a probability of at most a half."""


def command(
    model: ModelFile,
    data: DataFile,
    output: TableOutput = "-",
    top: Annotated[
        int | None,
        typer.Option("--top", parser=whole(1), help="Only this many rows, the least likely first."),
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Also write the surprise of every value, in nats.")
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
    """Score rows: their log-likelihood in nats, their rank, and the most surprising values.

    Rank 1 is the least likely row. The surprise of a value is minus its log-probability (for
    numbers, log-density) under the expert that explains it. With `--columns` there is one more
    column for each variable. The mean over all rows, and the bits saved against independent
    columns, are printed on standard error.

    For example:

    `dynpart score zoo.dynpart zoo.csv --top 5`

    `dynpart score patients.dynpart new.csv --columns -o scores.csv`
    """
    import numpy as np

    from dynpart.cli._shared import nameless, open_model, read_rows_for, say
    from dynpart.tables import check_output, write_table

    check_output(output, overwrite=force)
    fitted = open_model(model, n_starts=n_starts, n_swaps=n_swaps)
    content = Content(array, keep, drop, header, label_column, no_labels, unknown)
    table = read_rows_for(fitted, data, content)
    plain, schema = nameless(fitted), fitted.schema_
    rows = np.asarray(table.values, dtype=np.float64)
    scores = np.asarray(plain.score_samples(table.values))
    surprise = np.asarray(plain.surprise(table.values))
    order = np.argsort(scores, kind="stable")
    rank = np.empty(len(scores))
    rank[order] = np.arange(1, len(scores) + 1)
    shown = np.arange(len(scores)) if top is None else order[:top]
    reasons = _reasons(rows[shown], surprise[shown], np.median(surprise, axis=0), schema)
    words = tuple(dict.fromkeys(reason for reason in reasons if reason))
    why = [float(words.index(reason)) if reason else np.nan for reason in reasons]
    values = np.column_stack([shown, np.round(scores[shown], 4), rank[shown], why])
    names = ["number", "log_likelihood", "rank", "surprising"]
    if columns:
        values = np.column_stack([values, np.round(surprise[shown], 4)])
        names += [f"surprise of {name}" for name in schema.labels()]
    texts = [None] * len(names)
    write_table(
        output,
        values,
        names,
        labels=None if table.labels is None else [table.labels[i] for i in shown],
        words=[*texts[:3], words or ("",), *texts[4:]],
        overwrite=force,
    )
    if output != "-":
        say(f"{output}: {len(shown)} rows")
    say(_summary(scores, plain.independent_scores(table.values)))


def _summary(scores: NDArray[Any], independent: NDArray[Any]) -> str:
    """Mean log-likelihood of the rows, that of independent columns, and the bits saved."""
    import math

    from dynpart.describing import saving_in_words

    mean, usual = float(scores.mean()), float(independent.mean())
    return (
        f"{len(scores)} rows, {mean:.2f} nats a row on average; independent columns {usual:.2f}. "
        f"{saving_in_words((mean - usual) / math.log(2))}"
    )


def _reasons(
    rows: NDArray[Any], surprise: NDArray[Any], usual: NDArray[Any], schema: Schema
) -> list[str]:
    """The most surprising values of each row, relative to the usual surprise of their column."""
    import numpy as np

    discrete = np.isin(schema.kinds, ("binary", "categorical"))
    excess = surprise - np.where(discrete, 0.0, usual)
    found = []
    for row, nats, beyond in zip(rows, surprise, excess, strict=True):
        order = np.argsort(-beyond, kind="stable")[:NAMED]
        told = [
            f"{schema.label(int(d))} = {schema.value_text(int(d), row[d])} ({nats[d]:.1f} nats)"
            for d in order
            if beyond[d] >= LEAST_SURPRISE and not np.isnan(row[d])
        ]
        found.append("; ".join(told))
    return found
