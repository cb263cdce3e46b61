"""Shared parts of the commands for user data: options, reading, matching names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dynpart.terminal import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dynpart.bare import BareModel
    from dynpart.schema import Schema
    from dynpart.tables import Table


def whole(least: int | None = None) -> Callable[[Any], int]:
    """Parser of whole numbers in ASCII digits; ``int`` also takes 1_0 and other scripts."""

    def integer(text: Any) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", str(text)):
            raise typer.BadParameter(f"{text!r} is not a whole number.")
        if least is not None and int(text) < least:
            raise typer.BadParameter(f"{text} is below {least}.")
        return int(text)

    return integer


def whole_or_auto(text: Any) -> int | str:
    """Parser of numbers of experts."""
    return "auto" if str(text) == "auto" else whole(1)(text)


def whole_or_all(text: Any) -> int | str:
    """Parser of the number of earlier columns: a whole number, or all."""
    return "all" if str(text) == "all" else whole(1)(text)


class UnknownLevels(StrEnum):
    """Treatment of levels that a model does not know."""

    error = "error"
    missing = "missing"


ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file written by `dynpart fit`.")
]
DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv, .tsv or .jsonl file (.gz), a .xlsx, .npy, .npz, .parquet or .mat file, an "
        "idx file (.gz), a folder of images, or - for standard input.",
    ),
]
ArrayName = Annotated[
    str | None, typer.Option("--array", help="The array of a .npz or .mat file to read.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="NAMES",
        help="Read only these columns, as in a,b; numbers from 0 if they have no names.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="NAMES", help="Leave these columns out, as in a,b."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a text table holds names. Default: detected.",
        show_default=False,
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        metavar="NAME",
        help="The column of row labels. Default: a first column of mostly different texts.",
        show_default=False,
    ),
]
NoLabels = Annotated[
    bool, typer.Option("--no-labels", help="The table has no column of row labels.")
]
NStarts = Annotated[
    int | None,
    typer.Option("--n-starts", parser=whole(1), help="Searches per row. Default: the model's."),
]
NSwaps = Annotated[
    int | None,
    typer.Option(
        "--n-swaps", parser=whole(0), help="Rounds of refining codes. Default: the model's."
    ),
]
Size = Annotated[
    str | None,
    typer.Option("--size", metavar="HxW", help="Resize the images of a folder, as in 28x28."),
]
Binary = Annotated[
    bool | None,
    typer.Option(
        "--black-white/--gray",
        help="Make images black and white, or keep gray values. Default: detected.",
        show_default=False,
    ),
]
Unknown = Annotated[
    UnknownLevels | None,
    typer.Option(
        "--unknown",
        help="Levels that the model does not know: an error, or missing values. Default: the "
        "model's setting.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing file.")]
TableOutput = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Output file: .csv, .tsv, .npy, .npz or .parquet; - for .csv on standard output.",
    ),
]


@dataclass(frozen=True)
class Content:
    """The user's options about the content of a file.

    Attributes
    ----------
    array : str or None
    keep, drop : list of str or None
    header : bool or None
    label_column : str or None
    no_labels : bool
    unknown : str or None
        Treatment of levels that the model does not know; None for that of the model.
    levels : list of str
        Columns whose texts are levels, whatever they look like.
    """

    array: str | None = None
    keep: list[str] | None = None
    drop: list[str] | None = None
    header: bool | None = None
    label_column: str | None = None
    no_labels: bool = False
    unknown: str | None = None
    levels: Sequence[str] = ()

    @property
    def labels(self) -> str | Literal[False] | None:
        """Name of the column of labels; False for none, None to detect it."""
        return False if self.no_labels else self.label_column

    def read(
        self,
        source: str,
        *,
        size: tuple[int, int] | None = None,
        binary: bool | None = None,
        like: Schema | None = None,
    ) -> Table:
        """Read a table; the caller prints its remarks."""
        from dynpart.tables import read_table

        if self.no_labels and self.label_column is not None:
            raise ValueError("--label-column and --no-labels cannot be combined")
        return read_table(
            source,
            array=self.array,
            keep=self.keep or (),
            drop=self.drop or (),
            size=size,
            binary=binary,
            header=self.header,
            label_column=self.labels,
            levels=self.levels,
            like=like,
        )


def say(text: str) -> None:
    """Print a message to standard error; results go to standard output."""
    typer.echo("\n".join(printable(line) for line in text.split("\n")), err=True)


@contextmanager
def warnings_in_words() -> Iterator[None]:
    """Print each warning once, as a message without file and line."""
    told: set[str] = set()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            say(f"Note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = tell
        yield


def parsed_size(text: str | None, option: str = "--size") -> tuple[int, int] | None:
    """Height and width from a text such as 28x28."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9})[x×]([0-9]{1,9})", text.strip())
    if not match or not int(match[1]) * int(match[2]):
        raise ValueError(f"{option} must be HEIGHTxWIDTH, as in 28x28, got {text!r}")
    from dynpart.tables.limits import MOST_PIXELS

    if int(match[1]) * int(match[2]) > MOST_PIXELS:
        raise ValueError(f"{option} must have at most {MOST_PIXELS:,} pixels, got {text}")
    return int(match[1]), int(match[2])


def read_rows(
    source: str,
    content: Content,
    *,
    size: tuple[int, int] | None = None,
    binary: bool | None = None,
    weight: str | None = None,
) -> tuple[Table, NDArray[np.float64] | None]:
    """Read a table for learning, and the rows' weights from the column called `weight`.

    Prints the reader's decisions, and which columns look unusual.
    """
    from dynpart.tables import advice

    table = content.read(source, size=size, binary=binary)
    weights = None
    if weight is not None:
        weights = row_weights(table, weight, source)
        table = _without_column(table, weight, source)
    for remark in (*table.remarks, *advice(table)):
        say(f"{source}: {remark}")
    return table, weights


def row_weights(table: Table, name: str, source: str) -> NDArray[np.float64]:
    """The weights of the rows, from a column of the table: numbers of at least 0, not all 0."""
    import numpy as np

    from dynpart.tables import TableError, place
    from dynpart.tables.gaps import refuse_gaps

    if table.names is None:
        raise TableError(f"{source} has no column names, so --weight cannot select one")
    if name not in table.names or table.words_of(table.names.index(name)) is not None:
        raise TableError(f"{source} has no column of numbers named {name!r} to take weights from")
    column = np.array(table.values[:, table.names.index(name)], dtype=np.float64)
    refuse_gaps(source, column[:, None], [name], "every row needs a weight of at least 0")
    negative = np.flatnonzero(column < 0)
    if len(negative):
        where = place(source, int(negative[0]), 0, [name])
        raise TableError(f"{where} is {column[negative[0]]:g}; a weight is a number of at least 0")
    if not column.any():
        raise TableError(
            f"{source}: all weights in column {name!r} are 0; at least one must be positive"
        )
    return column


def _without_column(table: Table, name: str, source: str) -> Table:
    import numpy as np

    from dynpart.tables import TableError, compact

    names = table.names or ()
    if len(names) < 2:
        raise TableError(f"{source} has no column of numbers beside the weights")
    rest = table.taken([i for i, other in enumerate(names) if other != name])
    return replace(rest, values=compact(np.asarray(rest.values)))


def read_rows_for(model: BareModel, source: str, content: Content) -> Table:
    """Read a table in the form of the model: its image size, kinds of values and columns."""
    return read_table_for(model, source, content)[1]


def read_table_for(model: BareModel, source: str, content: Content) -> tuple[Table, Table]:
    """The whole table, and the result of `read_rows_for`."""
    schema = model.schema_
    whole, known = read_rows_like(source, content, schema, binary=model.family_.is_binary)
    return whole, as_numbers(known, schema, source, content.unknown or model.unknown)


def as_numbers(table: Table, schema: Schema, source: str, unknown: str) -> Table:
    """The table with texts as levels of the model; ValueError names the place of an unknown one."""
    from dynpart.levels import encoded

    try:
        values = encoded(table.coded(), schema, unknown=unknown, name=source_name(source))
    except ValueError as error:
        raise ValueError(str(error).replace("unknown='missing'", "--unknown missing")) from error
    return replace(table, values=values, words=None)


def read_rows_like(
    source: str, content: Content, schema: Schema, *, binary: bool
) -> tuple[Table, Table]:
    """Read a table whose columns are known; names, if there are any, select the columns.

    Returns the whole table, and the known columns in their order.
    """
    from dynpart.tables import TableError
    from dynpart.tables.variables import labels_beside

    names, n_features, image_shape = schema.names, len(schema), schema.image_shape
    table = content.read(source, size=image_shape, binary=binary, like=schema)
    source = source_name(source)
    try:
        matched = in_order(table, names, source)
        n_found = matched.values.shape[1]
        if n_found != n_features:
            raise TableError(f"{source} has {n_found} variables, the model knows {n_features}")
    except TableError:
        _say_remarks(table, source)
        raise
    if names is None or table.names is None:
        _say_remarks(table, source)
    if names is not None and content.labels is None:
        matched = replace(matched, labels=labels_beside(table, names))
    say_gaps(matched, source)
    return table, replace(matched, image_shape=table.image_shape or image_shape)


def source_name(source: str) -> str:
    """The name of a file in messages."""
    return "standard input" if source == "-" else source


def _say_remarks(table: Table, source: str) -> None:
    for remark in table.remarks:
        say(f"{source}: {remark}")


def say_gaps(table: Table, source: str) -> None:
    """Print how many cells are missing."""
    from dynpart.tables.gaps import gaps_in_words

    words = gaps_in_words(table.values)
    if words:
        say(f"{source}: {words}")


def in_order(table: Table, wanted: Sequence[str] | None, source: str) -> Table:
    """The columns the model knows, in its order."""
    from dynpart.tables import TableError

    if wanted is None or table.names is None:
        return table
    place = {name: i for i, name in enumerate(table.names)}
    missing = [str(name) for name in wanted if name not in place]
    if missing:
        others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise TableError(f"{source} has no column {missing[0]!r}{others}, which the model needs")
    if list(table.names) == list(wanted):
        return table
    return table.taken([place[name] for name in wanted])


def row_index(row: int | None, label: str | None, labels: Sequence[str] | None, n_rows: int) -> int:
    """Index of the row that is chosen by number or by label."""
    if (row is None) == (label is None):
        raise ValueError("choose a row with either --row NUMBER or --label LABEL")
    if row is not None:
        if not -n_rows <= row < n_rows:
            raise ValueError(f"--row must be below the number of rows, {n_rows}, got {row}")
        return row % n_rows
    if not labels:
        raise ValueError("--label needs row labels, and this table has none; use --row NUMBER")
    found = [place for place, name in enumerate(labels) if name == label]
    if not found:
        number = f"; --row {label} takes a number" if re.fullmatch("[0-9]+", str(label)) else ""
        raise ValueError(f"--label must be the label of a row, got {label!r}{number}")
    if len(found) > 1:
        raise ValueError(
            f"--label {label!r} stands for {len(found)} rows, the first are {found[0]} and "
            f"{found[1]}; choose with --row"
        )
    return found[0]


def open_model(path: Path, *, n_starts: int | None = None, n_swaps: int | None = None) -> BareModel:
    """Load a model; the given search parameters replace those of the file."""
    from dynpart.bare import load_bare

    model = load_bare(path)
    given = {"n_starts": n_starts, "n_swaps": n_swaps}
    model.set_params(**{name: value for name, value in given.items() if value is not None})
    return model


def nameless(model: BareModel) -> BareModel:
    """The same model for plain arrays whose columns have been matched already."""
    return model.on_numbers()
