"""``dynpart sample``: rows drawn from a model."""

from __future__ import annotations

from typing import Annotated

import typer

from dynpart.cli._shared import Force, ModelFile, TableOutput, whole

DIGITS = 6
"""Digits with which real numbers are written."""


def command(
    model: ModelFile,
    output: TableOutput = "-",
    n_rows: Annotated[
        int, typer.Option("--rows", "-n", parser=whole(1), help="Number of rows to draw.")
    ] = 10,
    seed: Annotated[
        int, typer.Option(parser=whole(0), help="Seed; the same seed gives the same rows.")
    ] = 0,
    force: Force = False,
) -> None:
    """Draw rows: a code from the prior, then each variable from the expert that owns it.

    For example:

    `dynpart sample zoo.dynpart --rows 100 -o drawn.csv`
    """
    import numpy as np

    from dynpart.cli._shared import nameless, open_model, say
    from dynpart.tables import check_output, compact, write_table

    check_output(output, overwrite=force)
    fitted = open_model(model)
    schema = fitted.schema_
    values = np.array(nameless(fitted).sample(n_rows, random_state=seed), dtype=np.float64)
    for d in (d for d, kind in enumerate(schema.kinds) if kind == "real"):
        values[:, d] = [float(f"{value:.{DIGITS}g}") for value in values[:, d]]
    values = compact(values)
    write_table(output, values, schema.labels(), words=schema.levels, overwrite=force)
    if output != "-":
        say(f"{output}: {n_rows} rows of {values.shape[1]} variables")
