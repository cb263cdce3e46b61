"""``dynpart fit``: learn a model from a file and write it to one."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynpart.cli._shared import ArrayName, Binary, DataFile, Drop, Force, Size

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.tables import Table


SECONDS_BETWEEN_CHECKPOINTS = 5.0


class FamilyName(StrEnum):
    """Distributions a variable may have."""

    auto = "auto"
    bernoulli = "bernoulli"
    gaussian = "gaussian"


def command(
    data: DataFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
    ],
    n_experts: Annotated[
        int, typer.Option("--experts", "-k", min=1, help="Experts to learn.")
    ] = 10,
    family: Annotated[
        FamilyName, typer.Option(help="Kind of values; auto takes bernoulli for 0/1 data.")
    ] = FamilyName.auto,
    valid: Annotated[
        str | None, typer.Option("--valid", metavar="FILE", help="Rows to judge the model by.")
    ] = None,
    max_iter: Annotated[int, typer.Option("--iterations", min=1, help="Rounds of learning.")] = 30,
    n_init: Annotated[int, typer.Option("--starts", min=1, help="Fits, the best is kept.")] = 1,
    max_active: Annotated[
        int | None, typer.Option("--max-active", min=1, help="At most so many experts a row.")
    ] = None,
    n_active: Annotated[
        int | None, typer.Option("--active", min=1, help="Exactly so many experts a row.")
    ] = None,
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="Images: let pixels learn with those beside them.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same model.")] = 0,
    array: ArrayName = None,
    drop: Drop = None,
    size: Size = None,
    binary: Binary = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted fit stopped.")
    ] = False,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Learn experts from a table or from pictures.

    Shows the objective (nats a row, higher is better) and the mean number of active experts while
    it learns. Next to the model it keeps a checkpoint, which `--resume` continues after an
    interruption and which goes when the fit is done.

    For example:

    `dynpart fit sites.csv -k 20 -o sites.dynpart`

    `dynpart fit silhouettes/ --size 100x100 -k 50 --neighbours -o shapes.dynpart`

    `dynpart fit train.npy --valid test.npy -k 100 -o digits.dynpart --resume`
    """
    from dynpart.cli._shared import parsed_size, read_rows, say
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.persistence import save

    _check_output(output, force)
    checkpoint = _checkpoint(output, resume, force)
    table = read_rows(data, array=array, drop=drop, size=parsed_size(size), binary=binary)
    model = DynamicPartitionModel(
        n_experts,
        family=str(family),
        max_iter=max_iter,
        n_init=n_init,
        max_active=max_active,
        n_active=n_active,
        connectivity=_graph(table) if neighbours else None,
        random_state=seed,
        verbose=0 if quiet else 1,
    )
    begun = time.monotonic()
    _learn(model, table.values, checkpoint)
    seconds = time.monotonic() - begun
    model.verbose = 0
    if table.names is not None:
        model.feature_names_in_ = _names(table)
    if table.image_shape is not None:
        model.image_shape_ = table.image_shape
    save(model, output, overwrite=force)
    checkpoint.unlink(missing_ok=True)
    if not quiet:
        n_rows, n_features = table.values.shape
        say(f"{output}: {n_experts} {model.family_.name} experts, learnt in {seconds:.1f} s")
        say(f"  {data}: {_judged(model, table)} ({n_rows} rows of {n_features} variables)")
    if valid is not None:
        from dynpart.cli._shared import read_rows_for

        held_out = read_rows_for(model, valid, array=array, drop=drop)
        typer.echo(f"  {valid}: {_judged(model, held_out)} ({len(held_out.values)} rows)", err=True)


def _learn(model: DynamicPartitionModel, values: Any, checkpoint: Path) -> None:
    """Fit, and say how to go on if it is interrupted."""
    from dynpart.cli._shared import say, warnings_in_words

    if checkpoint.exists():
        say(f"{checkpoint}: going on from here")
    try:
        with warnings_in_words():
            model.fit(values, checkpoint=checkpoint, every=SECONDS_BETWEEN_CHECKPOINTS)
    except KeyboardInterrupt:
        if checkpoint.exists():
            say(f"{checkpoint}: keeps what was learnt; the same command with --resume goes on")
        raise


def _check_output(output: Path, force: bool) -> None:
    if output.is_dir():
        raise IsADirectoryError(21, "is a folder, not a file", str(output))
    if not output.parent.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(output.parent))
    if output.exists() and not force:
        raise FileExistsError(17, "exists already; --force overwrites it", str(output))


def _checkpoint(output: Path, resume: bool, force: bool) -> Path:
    """Where the state of learning is kept; one that is left over must not be lost by accident."""
    path = output.with_name(output.name + ".checkpoint")
    if path.exists() and not resume:
        if not force:
            raise FileExistsError(
                17,
                "is left of an interrupted fit; --resume goes on, --force starts anew",
                str(path),
            )
        path.unlink()
    return path


def _graph(table: Table) -> Any:
    """Which pixels are neighbours."""
    from sklearn.feature_extraction.image import grid_to_graph

    if table.image_shape is None:
        raise ValueError("--neighbours needs images; a table has no neighbouring variables")
    return grid_to_graph(*table.image_shape)


def _names(table: Table) -> Any:
    import numpy as np

    return np.asarray(table.names, dtype=object)


def _judged(model: DynamicPartitionModel, table: Table) -> str:
    """How good the model is on some rows, in words."""
    import numpy as np

    from dynpart.cli._shared import nameless

    plain = nameless(model)
    codes = plain.transform(table.values)
    composed = plain.inverse_transform(codes)
    values = np.asarray(table.values, dtype=np.float64)
    if model.family_.name == "bernoulli":
        error = f"{np.mean((composed > 0.5) != (values > 0.5)):.2%} of values wrong"
    else:
        error = f"RMSE {np.sqrt(np.mean((composed - values) ** 2)):.4g}"
    active = codes.sum(axis=1).mean()
    return f"{plain.score(table.values):.2f} nats a row, {active:.1f} experts active, {error}"
