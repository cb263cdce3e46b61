"""What the commands for people's own data have in common: options, reading, matching names."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.tables import Table

ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that `dynpart fit` wrote.")
]
DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv, .tsv, .npy, .npz, .parquet or .mat file, an idx file (.gz), a folder of "
        "pictures, or - for standard input.",
    ),
]
ArrayName = Annotated[
    str | None, typer.Option("--array", help="Which array of a .npz or .mat file to read.")
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="Leave out a column; repeat for more.")
]
Size = Annotated[
    str | None,
    typer.Option("--size", metavar="HxW", help="Resize the pictures of a folder, as in 28x28."),
]
Binary = Annotated[
    bool | None,
    typer.Option(
        "--binary/--gray",
        help="Make images black and white, or keep gray values. By default, as they look.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite what is there.")]
TableOutput = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write: .csv, .tsv, .npy, .npz or .parquet; - for .csv on standard output.",
    ),
]


def say(text: str) -> None:
    """Tell the person; results go to standard output, words to standard error."""
    typer.echo(text, err=True)


@contextmanager
def warnings_in_words() -> Iterator[None]:
    """Say warnings as sentences, without the place in the code they come from."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"Note: {text}")


def parsed_size(text: str | None) -> tuple[int, int] | None:
    """Height and width from a text such as 28x28."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,5})[x×]([0-9]{1,5})", text.strip())
    if not match or "0" in (match[1], match[2]):
        raise ValueError(f"--size must be HEIGHTxWIDTH, as in 28x28, got {text!r}")
    return int(match[1]), int(match[2])


def read_rows(
    source: str,
    *,
    array: str | None = None,
    drop: list[str] | None = None,
    size: tuple[int, int] | None = None,
    binary: bool | None = None,
) -> Table:
    """Read a table for learning and say what the reader decided."""
    from dynpart.tables import read_table

    table = read_table(source, array=array, drop=drop or (), size=size, binary=binary)
    if table.remark:
        say(f"{source}: {table.remark}")
    return table


def read_rows_for(
    model: DynamicPartitionModel,
    source: str,
    *,
    array: str | None = None,
    drop: list[str] | None = None,
) -> Table:
    """Read a table as the model wants it: its size of images, its kind of values, its columns."""
    from dynpart.tables import TableError, read_table

    shape = getattr(model, "image_shape_", None)
    binary = model.family_.name == "bernoulli"
    table = read_table(source, array=array, drop=drop or (), size=shape, binary=binary)
    table = _matched(table, getattr(model, "feature_names_in_", None), source)
    n_found, n_wanted = table.values.shape[1], model.n_features_in_
    if n_found != n_wanted:
        raise TableError(f"{source} has {n_found} variables, the model was learnt from {n_wanted}")
    return replace(table, image_shape=table.image_shape or shape)


def _matched(table: Table, wanted: Any, source: str) -> Table:
    """The columns the model knows, in its order."""
    from dynpart.tables import TableError

    if wanted is None or table.names is None:
        return table
    place = {name: i for i, name in enumerate(table.names)}
    missing = [name for name in wanted if name not in place]
    if missing:
        others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise TableError(f"{source} has no column {missing[0]!r}{others}, which the model needs")
    if list(table.names) == list(wanted):
        return table
    values = table.values[:, [place[name] for name in wanted]]
    return replace(table, values=values, names=tuple(wanted))


def open_model(path: Path) -> DynamicPartitionModel:
    """Load a model."""
    from dynpart.persistence import load

    with warnings_in_words():
        return load(path)


def nameless(model: DynamicPartitionModel) -> DynamicPartitionModel:
    """The same model, to be given plain arrays whose columns have been matched already."""
    twin = copy.copy(model)
    if hasattr(twin, "feature_names_in_"):
        del twin.feature_names_in_
    return twin


def variable_names(model: DynamicPartitionModel) -> list[str]:
    """Names of the variables, made up where there are none."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    shape = getattr(model, "image_shape_", None)
    if shape is not None:
        return [f"pixel ({d // shape[1]}, {d % shape[1]})" for d in range(model.n_features_in_)]
    return [f"x{d}" for d in range(model.n_features_in_)]


def expert_names(n_experts: int) -> list[str]:
    """Names of the experts as columns of a table."""
    return [f"expert{k}" for k in range(n_experts)]
