"""Tables in Parquet files: only the selected columns are read, a few rows at a time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.cells import Fields
from dynpart.tables._columns import (
    Choice,
    check_not_infinite,
    checked_names,
    columns_before,
    place,
    places,
)
from dynpart.tables._rules import Roles
from dynpart.tables._table import Table, TableError, compact
from dynpart.tables._text import labels_from_first
from dynpart.tables._texts import TextColumn, Words, none_remarks, not_a_number, other_uses
from dynpart.tables.limits import MOST_VALUES, check_room

_ROWS_AT_ONCE = 2**16
_MIDNIGHT = " 00:00:00"
"""The end of dates that were stored as times."""
BOOLEAN_WORDS = ("False", "True")
"""The words for 0 and 1 in columns of booleans."""
_NAMELESS_INDEX = re.compile(r"^__index_level_[0-9]+__$")
"""The name that pandas gives to an index without one."""


def read_parquet(path: Path, *, choice: Choice, roles: Roles) -> Table:
    """Read columns of numbers and of text.

    The index of a pandas data frame, or a first column of distinct texts, holds labels.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError(
            f"reading {path} needs pyarrow: pip install 'dynpart[tables]', or save it as .csv"
        ) from error
    try:
        schema = pq.read_schema(path)
        names = [str(name) for name in schema.names]
        checked_names(path, names, roles.label_column)
        index = _index_of_pandas(path, schema, names, choice, roles)
        labelled = roles.label_column or index
        kept = [names[i] for i in choice.columns(path, len(names), names) if names[i] != labelled]
        if not kept:
            raise TableError(f"{path} has no column to learn from")
        first = choice.may_hold_labels(path, len(names), names)
        may_label = roles.label_column is None and index is None and 0 in first
        may_label = may_label and _is_text(schema.field(names[0]).type, pa)
        extra = may_label and names[0] not in kept
        kept = [names[0], *kept] if extra else kept
        for name in kept:
            _check_type(path, name, schema.field(name).type, pa, roles)
        texts = [
            name
            for name in dict.fromkeys([*kept, *([labelled] if labelled else [])])
            if not _is_number(schema.field(name).type, pa)
        ]
        # A dictionary stores repeated texts once.
        strings = [name for name in texts if _is_text(schema.field(name).type, pa)]
        with pq.ParquetFile(path, read_dictionary=strings or None) as file:
            values, found, labels = _content(path, file, kept, texts, labelled)
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise TableError(f"{path} is not a readable Parquet file: {error}") from error
    check_not_infinite(path, values, kept)
    columns = {
        name: column.finished(
            Fields(decimal_comma=False),
            as_it_is=roles.takes_text(name),
            typed=True,
            none_is_level=name in roles.nones,
        )
        for name, column in found.items()
    }
    for at, name in enumerate(kept):
        if name in columns:
            values[:, at] = columns[name].values
    for name in kept:
        if pa.types.is_boolean(schema.field(name).type):
            columns[name] = Words(values[:, kept.index(name)], BOOLEAN_WORDS)
    words = tuple(columns[name].words if name in columns else None for name in kept)
    remarks = none_remarks(columns) if roles.judge else []
    if index is not None:
        remarks.append("its index is taken for the rows' labels; --no-labels makes it a variable")
    table = Table(
        compact(values),
        tuple(kept),
        tuple(labels) if labelled else None,
        remarks=tuple(remarks),
        words=words if any(words) else None,
        label_name=labelled and _NAMELESS_INDEX.sub("", labelled),
        label_place=0 if index or not labelled else columns_before(labelled, kept, names),
    )
    if may_label and kept[0] == names[0]:
        table = labels_from_first(table, columns.get(kept[0]), roles, kept=not extra)
    for name in table.names or ():
        if name in columns:
            _check_words(path, name, columns[name])
    return table


def _index_of_pandas(
    path: Path, schema: Any, names: list[str], choice: Choice, roles: Roles
) -> str | None:
    """The column that pandas stored as the index, if there is one and nobody chose other labels."""
    try:
        stored = (schema.pandas_metadata or {}).get("index_columns")
    except (ValueError, AttributeError):  # the metadata may be anything
        return None
    if not (isinstance(stored, list) and len(stored) == 1 and stored[0] in names):
        return None
    name = stored[0]
    at = names.index(name)
    free = at not in places(path, choice.keep, "keep", len(names), names)
    free = free and at in Choice(drop=choice.drop).columns(path, len(names), names)
    return name if free and len(names) > 1 and roles.may_label(name) else None


def _check_words(path: Path, name: str, content: Words) -> None:
    """Reject numbers and dates that are stored as text."""
    problem = content.problem
    if problem is None or problem.reason == "names":
        return
    what = f"text instead of a number; {other_uses(name)}"
    if problem.reason == "dates":
        what = not_a_number(problem, name)
    where = place(path, content.row, 0, [name])
    raise TableError(f"{where} is {problem.example[:40]!r}, {what}")


def _is_number(kind: Any, pa: Any) -> bool:
    """Whether values are numbers; a column of gaps only counts as numbers."""
    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def _is_text(kind: Any, pa: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _check_type(path: Path, name: str, kind: Any, pa: Any, roles: Roles) -> None:
    """Reject types other than numbers and texts; dates are accepted as texts on request."""
    if _is_number(kind, pa) or _is_text(kind, pa):
        return
    if pa.types.is_temporal(kind):
        if roles.takes_text(name):
            return
        raise TableError(
            f"{path}: column {name!r} holds dates or times, not numbers; {other_uses(name)}, or "
            "turn it into a number"
        )
    raise TableError(
        f"{path}: column {name!r} holds {kind}, not numbers; leave it out with --drop {name!r}, or "
        f"name the rows by it with --label-column {name!r}"
    )


def _content(
    path: Path, file: Any, kept: list[str], texts: list[str], labelled: str | None
) -> tuple[NDArray[np.float64], dict[str, TextColumn], list[str]]:
    """Numbers, texts and labels; the file must not hold more than it declares."""
    n_rows = file.metadata.num_rows
    if n_rows < 1:
        raise TableError(f"{path} has no rows")
    if n_rows * len(kept) > MOST_VALUES:
        raise TableError(f"{path} declares {n_rows:,} rows of {len(kept):,} numbers: too many")
    check_room(n_rows * (8 * len(kept) + 16) + _unpacked(file), f"reading {path}")
    values = np.zeros((n_rows, len(kept)))  # texts become levels later
    found = {name: TextColumn() for name in texts if name in kept}
    labels: list[str] = []
    done = 0
    columns = [*kept] if labelled is None else [labelled, *kept]
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
        if done + batch.num_rows > n_rows:
            raise TableError(f"{path} holds more rows than the {n_rows} it declares")
        for place_, name in enumerate(kept):
            if name in found:
                for text in _texts(batch.column(name)):
                    found[name].add(text)
            else:
                values[done : done + batch.num_rows, place_] = _numbers(batch.column(name))
        if labelled is not None:
            labels += _texts(batch.column(labelled))
        done += batch.num_rows
    if all(label.endswith(_MIDNIGHT) for label in labels if label):
        labels = [label.removesuffix(_MIDNIGHT) for label in labels]
    if done != n_rows:
        raise TableError(f"{path} holds {done} rows, yet declares {n_rows}")
    return values, found, labels


def _unpacked(file: Any) -> int:
    """Unpacked bytes of the largest row group, which is read as a whole."""
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    return max((max(0, group.total_byte_size) for group in groups), default=0)


def _numbers(column: Any) -> NDArray[Any]:
    """A column's values, NaN for null."""
    if str(column.type).startswith("decimal"):
        column = column.cast("float64")
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    there = np.asarray(column.is_valid())
    values = np.full(len(column), np.nan)
    if there.any():
        values[there] = column.drop_null().to_numpy(zero_copy_only=False)
    return values


def _texts(column: Any) -> list[str]:
    if not hasattr(column, "dictionary"):
        return ["" if label is None else str(label) for label in column.to_pylist()]
    words = [str(word) for word in column.dictionary.to_pylist()]
    return ["" if i is None else words[i] for i in column.indices.to_pylist()]
