"""``dynpart score``: how likely rows are, in bits, and their surprising values."""

from __future__ import annotations

import math
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

NATS = math.log(2)
"""Nats in a bit."""
NAMED = 3
"""Maximum number of columns named as reasons of a surprise."""
LIKELY = 0.5
"""A level with this probability, or a higher one, is no reason."""


def command(
    model: ModelFile,
    data: DataFile,
    output: TableOutput = "-",
    top: Annotated[
        int | None,
        typer.Option("--top", parser=whole(1), help="Only this many rows, the least likely first."),
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Also write the surprise of every value, in bits.")
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
    """Score rows: their length in bits, their rank, and the most surprising values.

    The bits of a row are minus the logarithm to base 2 of its likelihood: one bit more is half as
    likely. Rank 1 is the least likely row, with the most bits; `dynpart describe` names the rows
    that gain least over independent columns instead. A value is surprising if the expert that
    explains it gives it a chance below 50%. A number is surprising if it is more than two standard
    deviations from the expected one, or beyond all numbers of the training rows. With `--columns`
    there is one more column for each variable: minus the logarithm of the probability of the value
    (for numbers, of its density) under this expert, in bits. The mean over all rows, and the bits
    saved against independent columns, are printed on standard error.

    For example:

    `dynpart score zoo.dynpart zoo.csv --top 5`

    `dynpart score patients.dynpart new.csv --columns -o scores.csv`
    """
    import numpy as np

    from dynpart.cli._shared import nameless, open_model, read_rows_for, say
    from dynpart.explaining import expected_numbers
    from dynpart.opinions import array_opinions
    from dynpart.savings import worth_in_words
    from dynpart.tables import check_output, write_table
    from dynpart.wording import counted

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
    mean, spread = expected_numbers(plain, table.values[shown])
    usual = array_opinions(plain).spread
    reasons = _reasons(rows[shown], surprise[shown], mean, spread, usual, schema)
    words = tuple(dict.fromkeys(reason for reason in reasons if reason))
    why = [float(words.index(reason)) if reason else np.nan for reason in reasons]
    values = np.column_stack([shown, np.round(-scores[shown] / NATS, 4), rank[shown], why])
    names = ["number", "bits", "rank", "surprising"]
    if columns:
        values = np.column_stack([values, np.round(surprise[shown] / NATS, 4)])
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
        say(f"{output}: {counted(len(shown), 'row')}")
    part = "column" if schema.image_shape is None else "pixel"
    independent = plain.independent_scores(table.values)
    worth = worth_in_words(plain, table.values, scores, independent, part=part)
    say(f"{_summary(scores, independent, part)} {worth}")


def _summary(scores: NDArray[Any], independent: NDArray[Any], part: str) -> str:
    """Mean bits of the rows, and those of independent columns or pixels."""
    from dynpart.wording import counted

    bits, usual = -float(scores.mean()) / NATS, -float(independent.mean()) / NATS
    rows = f"{counted(len(scores), 'row')}, {bits:.1f} bits a row on average"
    return f"{rows}, {usual:.1f} {part} by {part}."


def _reasons(
    rows: NDArray[Any],
    surprise: NDArray[Any],
    mean: NDArray[Any],
    spread: NDArray[Any],
    usual_spread: NDArray[Any],
    schema: Schema,
) -> list[str]:
    """The most surprising values of each row: unlikely levels, and numbers far from the expected.

    The surprise of a level is in nats. That of a number depends on its unit, so it is measured from
    the likeliest number. Numbers outside the range of the training rows come first. Means
    are rounded by the usual spread of the column, as in all other texts.
    """
    import numpy as np

    from dynpart.explaining import FAR
    from dynpart.naming import mean_in_words, percent, value_in_words

    discrete = np.isin(schema.kinds, ("binary", "categorical"))
    ranges = schema.ranges or (None,) * len(schema)
    low = np.array([-np.inf if one is None else one.low for one in ranges])
    high = np.array([np.inf if one is None else one.high for one in ranges])
    distance = (rows - mean) / np.where(spread > 0, spread, 1.0)
    beyond = np.where(discrete, surprise, distance**2 / 2)
    beyond[(rows < low) | (rows > high)] = np.inf
    least = np.where(discrete, -np.log(LIKELY), FAR**2 / 2)

    def reason(i: int, d: int) -> str:
        if discrete[d]:
            return f"chance {percent(float(np.exp(-surprise[i, d])))}"
        if rows[i, d] < low[d]:
            return f"{schema.value_text(d, low[d])} or more in training"
        if rows[i, d] > high[d]:
            return f"{schema.value_text(d, high[d])} or less in training"
        return f"expected {mean_in_words(mean[i, d], float(usual_spread[d]))}"

    found = []
    for i, row in enumerate(rows):
        order = [int(d) for d in np.argsort(-beyond[i], kind="stable") if beyond[i, d] > least[d]]
        surprises = [
            f"{schema.label(d)} = {value_in_words(schema, d, row[d])} ({reason(i, d)})"
            for d in order[:NAMED]
        ]
        found.append("; ".join(surprises))
    return found
