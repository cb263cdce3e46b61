"""``dynpart fit``: learn a model from a file and write it to one."""

from __future__ import annotations

import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynpart.cli._shared import (
    ArrayName,
    Binary,
    Content,
    DataFile,
    Drop,
    Force,
    Header,
    Keep,
    NoLabels,
    NStarts,
    NSwaps,
    Size,
    Unknown,
    whole,
    whole_or_all,
    whole_or_auto,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dynpart.bare import BareModel
    from dynpart.schema import Schema
    from dynpart.tables import Table


SECONDS_BETWEEN_CHECKPOINTS = 5.0


Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", metavar="NAMES", help="Columns whose values are levels."),
]
Count = Annotated[
    list[str] | None,
    typer.Option("--count", metavar="NAMES", help="Columns of counts (integers from 0)."),
]
Real = Annotated[
    list[str] | None, typer.Option("--real", metavar="NAMES", help="Columns of measurements.")
]
BinaryColumns = Annotated[
    list[str] | None, typer.Option("--binary", metavar="NAMES", help="Columns of 0 and 1.")
]


class AmplitudeName(StrEnum):
    """Numbers of an active expert that vary from row to row."""

    offset = "offset"
    gain = "gain"


class FamilyName(StrEnum):
    """Distributions of a variable."""

    auto = "auto"
    bernoulli = "bernoulli"
    counts = "count"
    gaussian = "gaussian"


def command(
    data: DataFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
    ],
    n_experts: Annotated[
        Any,
        typer.Option(
            "--experts",
            "-k",
            parser=whole_or_auto,
            metavar="NUMBER|auto",
            help="Number of experts; auto chooses it on held-back rows.",
        ),
    ] = 10,
    family: Annotated[
        FamilyName, typer.Option(help="Kind of values; auto takes bernoulli for 0/1 data.")
    ] = FamilyName.auto,
    valid: Annotated[
        str | None,
        typer.Option("--valid", metavar="FILE", help="Held-out rows to score the model on."),
    ] = None,
    max_iter: Annotated[
        int, typer.Option("--iterations", parser=whole(1), help="Number of iterations.")
    ] = 30,
    n_init: Annotated[
        int, typer.Option("--n-init", parser=whole(1), help="Number of fits; the best is kept.")
    ] = 1,
    starts: Annotated[int | None, typer.Option("--starts", parser=whole(1), hidden=True)] = None,
    max_active: Annotated[
        int | None,
        typer.Option(
            "--max-active", parser=whole(1), help="Maximum number of active experts per row."
        ),
    ] = None,
    n_active: Annotated[
        int | None,
        typer.Option("--active", parser=whole(1), help="Exact number of active experts per row."),
    ] = None,
    n_starts: NStarts = None,
    n_swaps: NSwaps = None,
    amplitude: Annotated[
        AmplitudeName | None,
        typer.Option(
            help="Real columns: give active experts an offset, or also a gain, in every row."
        ),
    ] = None,
    autoregressive: Annotated[
        str | None,
        typer.Option(
            parser=whole_or_all,
            metavar="N|all",
            help="Make predictions depend on earlier values: a number of columns, a radius in "
            "pixels on images, or all.",
        ),
    ] = None,
    neighbours: Annotated[
        bool,
        typer.Option("--neighbours", help="Images: smooth expertise over neighbouring pixels."),
    ] = False,
    stability: Annotated[
        int | None,
        typer.Option(
            "--stability",
            parser=whole(1),
            help="Fit this many bootstrap samples and count how often experts are found again.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(parser=whole(0), help="Seed; the same seed gives the same model.")
    ] = 0,
    array: ArrayName = None,
    keep: Keep = None,
    drop: Drop = None,
    header: Header = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            "--label",
            "--label-column",
            metavar="NAME",
            help="The column of row labels. Default: a first column of text.",
            show_default=False,
        ),
    ] = None,
    no_labels: NoLabels = False,
    weight: Annotated[
        str | None,
        typer.Option(
            "--weight",
            metavar="NAME",
            help="The column of row weights, numbers of at least 0. It is not a variable.",
        ),
    ] = None,
    categorical: Categorical = None,
    count: Count = None,
    real: Real = None,
    binary: BinaryColumns = None,
    unknown: Unknown = None,
    size: Size = None,
    black_white: Binary = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")] = False,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every iteration and the scores.")
    ] = False,
) -> None:
    """Learn experts from a table or from images, and print a summary.

    Keeps a checkpoint next to the model. `--resume` continues from it after an interruption; it is
    deleted when the fit is done. `--verbose` prints every iteration and scores, in bits per row:
    fewer is better.

    Prints the kind of each column: 0/1, yes/no and true/false are binary, other texts are levels of
    a categorical variable, other numbers are real. `--categorical`, `--count`, `--real` and
    `--binary` set other kinds. Empty cells are missing values. With `--weight`, a row counts as
    often as its weight.

    For example:

    `dynpart fit sites.csv -k 20 -o sites.dynpart`

    `dynpart fit zoo.csv -k auto --categorical legs --stability 20 -o zoo.dynpart`

    `dynpart fit silhouettes/ --size 100x100 -k 50 --neighbours -o shapes.dynpart`

    `dynpart fit train.npy --valid test.npy -k 100 -o digits.dynpart --resume`
    """
    from dynpart.bare import BareModel
    from dynpart.cli._shared import as_numbers, parsed_size, read_rows, say, say_gaps
    from dynpart.notices import enable_messages
    from dynpart.storage import save
    from dynpart.tables.gaps import check_observed
    from dynpart.tables.variables import (
        check_levels,
        declared_kinds,
        understood,
        variables_of,
    )
    from dynpart.validation import check_limits

    enable_messages(not quiet)
    check_limits(n_experts, n_active=n_active, max_active=max_active)
    _check_output(output, force)
    checkpoint = _checkpoint(output, resume, force)
    if starts is not None:
        say("Note: --starts is now called --n-init")
        n_init = starts
    if keep and weight is not None:
        keep = [*keep, weight]
    kinds = {"categorical": categorical, "count": count, "real": real, "binary": binary}
    levels = [name for names in categorical or () for name in (names, *names.split(","))]
    content = Content(array, keep, drop, header, label_column, no_labels, unknown, levels)
    if valid is not None:
        _check_source(valid)
    table, weights = read_rows(
        data, content, size=parsed_size(size), binary=black_white, weight=weight
    )
    declared = declared_kinds(data, table, kinds)
    table, others = variables_of(table, declared, content.labels)
    check_observed(data, table)
    check_levels(data, table, declared)
    held_out = None if valid is None else _read_valid(valid, content, table, weight)
    _check_memory(1 if n_experts == "auto" else n_experts, table)
    model = BareModel(
        n_experts,
        family=str(family),
        columns=declared or None,
        **_given(unknown=None if unknown is None else str(unknown)),
        max_iter=max_iter,
        n_init=n_init,
        max_active=max_active,
        n_active=n_active,
        **_given(n_starts=n_starts, n_swaps=n_swaps),
        amplitude=None if amplitude is None else str(amplitude),
        autoregressive=autoregressive,
        connectivity=_graph(table) if neighbours else None,
        random_state=seed,
        verbose=0 if quiet else 2 if verbose else 1,
    )
    rows: Any = table.values
    if _in_columns(table):
        rows = table.coded()
        schema, table = _judged_table(model, table)
        if not quiet:
            say("\n".join(understood(table, schema, others)))
    if not quiet:
        say_gaps(table, data)
    if table.image_shape is not None:
        model.image_shape_ = table.image_shape
    begun = time.monotonic()
    _learn(model, rows, weights, checkpoint, resume)
    seconds = time.monotonic() - begun
    model.verbose = 0
    with warnings.catch_warnings():
        # Learning has warned of these rows.
        warnings.simplefilter("ignore", UserWarning)
        if stability is not None:
            model.stability(rows, stability, random_state=seed, **_weighted(weights))
        save(model, output, overwrite=force)
        checkpoint.unlink(missing_ok=True)
        if not quiet:
            say(_found(model, table, weights, data, output))
            if stability is not None:
                say(f"Stability: {model.stability_}. Marks are explained by: dynpart describe")
        if verbose:
            experts = f"{model.n_experts_} {model.family_.name} experts"
            say(f"{output}: {experts}, learnt in {seconds:.1f} s")
            size = "{} rows of {} variables".format(*table.values.shape)
            say(f"  {data}: {_judged(model, table, weights)} ({size})")
    if held_out is not None and valid is not None:
        held, held_weights = held_out
        held = as_numbers(held, model.schema_, valid, "missing")
        if verbose:
            say(f"  {valid}: {_judged(model, held, held_weights)} ({len(held.values)} rows)")
        say(f"{valid}: {_worth(model, held, held_weights)}")


def _judged_table(model: BareModel, table: Table) -> tuple[Schema, Table]:
    """The schema of the columns, and the table as numbers, with indices for levels."""
    from dataclasses import replace

    from dynpart.levels import encoded

    schema = model.judge(table.coded())
    return schema, replace(table, values=encoded(table.coded(), schema), words=None)


def _in_columns(table: Table) -> bool:
    """Whether each column has its own kind: columns have names or texts and are not pixels."""
    return table.image_shape is None and (table.names is not None or table.words is not None)


def _given(**parameters: Any) -> dict[str, Any]:
    """Parameters that were given."""
    return {name: value for name, value in parameters.items() if value is not None}


def _weighted(weights: NDArray[np.float64] | None) -> dict[str, Any]:
    """The rows' weights as an argument, if there are any."""
    return {} if weights is None else {"sample_weight": weights}


def _check_source(valid: str) -> None:
    """Raise an error before the fit if the file for the final scores is missing."""
    if valid != "-" and not Path(valid).exists():
        raise FileNotFoundError(2, "No such file or directory", valid)


def _read_valid(
    valid: str, content: Content, table: Table, weight: str | None
) -> tuple[Table, NDArray[np.float64] | None]:
    """Held-out rows in the form of the training rows, and their weights if they have any."""
    from dynpart.cli._shared import read_rows_like, row_weights, say
    from dynpart.schema import Schema
    from dynpart.tables import is_binary

    known = Schema(("real",) * table.values.shape[1], table.names, table.image_shape)
    whole, rows = read_rows_like(valid, content, known, binary=is_binary(table.values, gaps=True))
    if weight is None:
        return rows, None
    if weight not in (whole.names or ()):
        say(f"{valid}: has no column {weight!r}; all its rows have the same weight")
        return rows, None
    return rows, row_weights(whole, weight, valid)


def _check_memory(n_experts: int, table: Table) -> None:
    """Reject a model that does not fit in memory: opinions, expertise, and sums for both."""
    from dynpart.tables.limits import check_room

    n_features = table.values.shape[1]
    check_room(
        8 * 10 * n_experts * n_features,
        f"learning {n_experts:,} experts on {n_features:,} variables",
    )


def _learn(
    model: BareModel,
    values: NDArray[Any],
    weights: NDArray[np.float64] | None,
    checkpoint: Path,
    resume: bool,
) -> None:
    """Fit, and print how to continue if it is interrupted."""
    from dynpart.cli._shared import say

    if resume and checkpoint.exists():
        say(f"{checkpoint}: continuing from this checkpoint")
    try:
        model.fit(
            values,
            checkpoint=checkpoint,
            every=SECONDS_BETWEEN_CHECKPOINTS,
            resume=resume,
            **_weighted(weights),
        )
    except KeyboardInterrupt:
        if checkpoint.exists():
            say(f"{checkpoint}: holds the progress; run the same command with --resume to continue")
        raise


def _check_output(output: Path, force: bool) -> None:
    from dynpart.atomic import check_target

    check_target(output)
    if not output.parent.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(output.parent))
    if output.exists() and not force:
        raise FileExistsError(17, "exists already; --force overwrites it", str(output))


def _checkpoint(output: Path, resume: bool, force: bool) -> Path:
    """Path of the checkpoint; an existing one is an error without --resume or --force.

    With --force it is replaced once the new fit has begun.
    """
    path = output.with_name(output.name + ".checkpoint")
    if path.exists() and not (resume or force):
        raise FileExistsError(
            17,
            "is left from an interrupted fit; --resume continues it, --force starts again",
            str(path),
        )
    return path


def _graph(table: Table) -> Any:
    """Which pixels are neighbours."""
    from sklearn.feature_extraction.image import grid_to_graph

    if table.image_shape is None:
        raise ValueError("--neighbours needs images; a table has no neighbouring variables")
    return grid_to_graph(*table.image_shape)


def _found(
    model: BareModel,
    table: Table,
    weights: NDArray[np.float64] | None,
    data: str,
    output: Path,
) -> str:
    """The result in three lines: experts, bits saved, the next command."""
    import shlex

    import numpy as np

    from dynpart.cli._shared import nameless
    from dynpart.wording import counted

    codes = nameless(model).transform(table.values)
    per_row = np.average(codes, axis=0, weights=weights).sum()  # as `describe` has it
    n_used = int(codes.any(axis=0).sum())
    experts = f"{n_used} experts" if n_used > 1 else "One expert"
    n_unused = model.n_experts_ - n_used
    unused = f" {n_unused} more {'is' if n_unused == 1 else 'are'} never used." if n_unused else ""
    n_rows, n_features = table.values.shape
    unit = "variable" if table.image_shape is None else "pixel"
    model_file, rows = shlex.quote(str(output)), shlex.quote(data)
    return (
        f"{experts} found in {counted(n_rows, 'row')} of {counted(n_features, unit)}; a row is "
        f"explained by {per_row:.1f} of them.{unused}\n"
        f"{_worth(model, table, weights, 'training row')}\n"
        f"Next: dynpart describe {model_file} {rows}   (or: explain ... --row 0, report ...)"
    )


def _worth(
    model: BareModel, table: Table, weights: NDArray[np.float64] | None, row: str = "row"
) -> str:
    """A sentence on the bits that the model saves on some rows against independent columns."""
    from dynpart.cli._shared import nameless
    from dynpart.savings import worth_in_words

    plain = nameless(model)
    return worth_in_words(
        plain,
        table.values,
        plain.score_samples(table.values),
        plain.independent_scores(table.values),
        weights=weights,
        row=row,
        part="column" if table.image_shape is None else "pixel",
    )


def _judged(model: BareModel, table: Table, weights: NDArray[np.float64] | None) -> str:
    """Scores of the model on the observed values of some rows, as text."""
    import numpy as np

    from dynpart.cli._shared import nameless

    plain = nameless(model)
    codes = plain.transform(table.values)
    composed = plain.inverse_transform(codes, plain.amplitudes(table.values, codes))
    counts = np.ones(len(codes)) if weights is None else weights
    values = np.asarray(table.values, dtype=np.float64)
    error = _misses(composed, values, counts, model.schema_.kinds)
    bits = -plain.score(table.values, **_weighted(weights)) / np.log(2)
    active = np.average(codes.sum(axis=1), weights=weights)
    return f"{bits:.2f} bits a row, {active:.1f} experts active, {error}"


def _misses(
    composed: NDArray[Any], values: NDArray[Any], counts: NDArray[Any], kinds: tuple[str, ...]
) -> str:
    """Error rate of levels and RMSE of numbers, over observed values, as text."""
    import numpy as np

    discrete = np.isin(kinds, ("binary", "categorical"))
    observed = ~np.isnan(values)
    weight = counts[:, None] * observed

    def mean(miss: NDArray[Any], columns: NDArray[np.bool_]) -> float | None:
        total = weight[:, columns].sum()
        if not total:
            return None
        return float((np.where(observed, miss, 0) * weight)[:, columns].sum() / total)

    wrong = mean(np.round(composed) != values, discrete)
    squares = (composed - values) ** 2
    if not discrete.any():
        mean_square = mean(squares, ~discrete)
        return "no value observed" if mean_square is None else f"RMSE {np.sqrt(mean_square):.4g}"
    shown = "no value observed" if wrong is None else f"{wrong:.2%} of values wrong"
    if discrete.all():
        return shown
    deviation = np.nanstd(np.where(discrete, 0, values), axis=0)
    scaled = mean(squares / np.where(deviation > 0, deviation, 1) ** 2, ~discrete)
    far = "" if scaled is None else f", numbers off by {np.sqrt(scaled):.2f} standard deviations"
    return f"{shown.replace('values', 'levels')}{far}"
