"""Variables: the columns of a file to learn from, and the kind of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynpart.coding import level_name
from dynpart.kinds import text_problem, too_many_levels
from dynpart.levels import boolean_words
from dynpart.schema import MOST_LEVELS, Schema
from dynpart.tables._columns import called, places
from dynpart.tables._table import LabelColumn, Table, TableError, compact
from dynpart.tables.gaps import mostly_missing

WIDEST = 48
"""Maximum number of characters for the levels of a column."""
MOST_SHOWN = 60
"""Maximum number of columns shown one by one; of more, only unusual columns are shown."""


def declared_kinds(
    source: str, table: Table, kinds: Mapping[str, Collection[str] | None]
) -> dict[str | int, str]:
    """The user's settings for columns, by name, or by index if they have no names.

    Parameters
    ----------
    source : str
        The file, for messages.
    table : Table
    kinds : mapping
        For each kind the names of columns, separated by commas.

    Returns
    -------
    dict

    Raises
    ------
    TableError
        If a column does not exist or has two kinds.
    """
    declared: dict[str | int, str] = {}
    for kind, wanted in kinds.items():
        for d in places(Path(source), wanted or (), kind, table.values.shape[1], table.names):
            key = d if table.names is None else table.names[d]
            if declared.get(key, kind) != kind:
                raise TableError(
                    f"{called(d, table.names)} is declared both {declared[key]} and {kind}"
                )
            declared[key] = kind
    return declared


def variables_of(
    table: Table, declared: Mapping[str | int, str], label_column: LabelColumn = None
) -> tuple[Table, list[tuple[str, str]]]:
    """The columns to learn from, and the use of the others.

    Texts that only distinguish rows become labels, or are left out; a column with gaps in most rows
    does not become labels. Named columns without any value are left out, unless all of them are
    empty.

    Parameters
    ----------
    table : Table
    declared : mapping
        The user's settings for columns; these columns are kept.
    label_column : str, False or None, default=None
        The user's choice of labels: no column of texts replaces them.

    Returns
    -------
    table : Table
    others : list of (str, str)
        Columns that are not variables: their names, and their use.

    Raises
    ------
    TableError
        If no column is left.
    """
    names: Sequence[str | int] = table.names or range(table.values.shape[1])
    free = [d for d, name in enumerate(names) if name not in declared]
    empty = {d for d in free if table.names and _is_empty(table, d)}
    texts = {d: _texts_of_rows(table, d) for d in free}
    fixed = label_column is not None or _name_rows(table.labels)
    found = None if fixed else _labels_among(table, free)
    if len(empty) == len(names):
        return table, []
    others: list[tuple[str, str]] = []
    for d in free:
        if d in empty:
            others.append((str(names[d]), "left out: no value in any row"))
        elif d == found:
            place = ", in place of their numbers" if table.labels else ""
            others.append((str(names[d]), f"labels of rows{place}: {texts[d]}"))
        elif texts[d]:
            others.append((str(names[d]), f"left out: {texts[d]}"))
    kept = [d for d in range(len(names)) if not (d in empty or texts.get(d))]
    if not kept:
        name = str(names[next(d for d in free if texts[d])])
        blanks = len(names) == 1 and table.labels is None and " " in name.strip()
        hint = "; if blanks separate its fields, give the file the ending .txt" if blanks else ""
        raise TableError(
            f"every column holds texts that identify rows{hint}; --categorical {name!r} uses "
            f"column {name!r} as levels anyway"
        )
    if found is not None:
        table = replace(table, labels=table.texts(found))
    if len(kept) < len(names):
        table = table.taken(kept)
        words_left = table.words if any(table.words or ()) else None
        table = replace(table, values=compact(np.asarray(table.values)), words=words_left)
    return table, others


def check_levels(source: str, table: Table, declared: Mapping[str | int, str]) -> None:
    """Reject a categorical column with too many levels.

    Parameters
    ----------
    source : str
        The file, for messages.
    table : Table
        The columns to learn from.
    declared : mapping
        The user's settings for columns.

    Raises
    ------
    TableError
        Names the first such column.
    """
    names: Sequence[str | int] = table.names or range(table.values.shape[1])
    for d, name in enumerate(names):
        n_levels = len(table.words_of(d) or ())
        if not n_levels and declared.get(name) == "categorical":
            n_levels = len(set(table.texts(d)) - {""})
        if n_levels > MOST_LEVELS:
            remedy = f" with --drop {name!r}" if table.names else ""
            raise TableError(
                f"{source}: {too_many_levels(called(d, table.names), n_levels)}{remedy}"
            )


def labels_beside(table: Table, variables: Collection[str]) -> tuple[str, ...] | None:
    """Labels of the rows of a table for a model: the labels that learning would have found.

    Parameters
    ----------
    table : Table
        The whole table.
    variables : collection of str
        Names of the model's columns; these are not labels.

    Returns
    -------
    tuple of str or None
    """
    if _name_rows(table.labels):
        return table.labels
    others = (d for d, name in enumerate(table.names or ()) if name not in variables)
    found = _labels_among(table, others)
    return table.labels if found is None else table.texts(found)


def _name_rows(labels: Sequence[str] | None) -> bool:
    """Whether labels do more than number the rows from 0 or 1, as R and pandas write them."""
    if not labels:
        return False
    first = int(labels[0]) if labels[0] in ("0", "1") else None
    return first is None or any(label != str(i) for i, label in enumerate(labels, start=first))


def _labels_among(table: Table, columns: Iterable[int]) -> int | None:
    """The first of the columns whose texts identify most of the rows."""
    return next(
        (d for d in columns if _texts_of_rows(table, d) and not mostly_missing(table.values[:, d])),
        None,
    )


def _texts_of_rows(table: Table, column: int) -> str:
    """The number of texts of a column in words if they identify rows; otherwise empty."""
    words = table.words_of(column)
    if words is None or boolean_words(words):
        return ""
    texts = Counter(text for text in table.texts(column) if text)
    problem = text_problem(texts)
    if problem is None or problem.reason != "names":
        return ""
    n_rows, n_observed = len(table.values), sum(texts.values())
    rows = f"{n_rows:,}" if n_observed == n_rows else f"{n_observed:,} of {n_rows:,}"
    return f"{len(texts):,} different texts in {rows} rows"


def _is_empty(table: Table, column: int) -> bool:
    values = table.values[:, column]
    return values.dtype.kind == "f" and bool(np.isnan(values).all())


def understood(table: Table, schema: Schema, others: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Lines of a table with column, kind, levels or range, and gaps.

    Parameters
    ----------
    table : Table
        Table of numbers, with indices for levels.
    schema : Schema
    others : sequence of (str, str)
        Columns that are not variables, and their use.

    Returns
    -------
    list of str
    """
    if len(schema) > MOST_SHOWN:
        return [_summary(schema), *(f"  {name}: {what}" for name, what in others)]
    rows = [("column", "kind", "levels or range", "missing")]
    for d in range(len(schema)):
        column = np.asarray(table.values[:, d], dtype=np.float64)
        n_gaps = int(np.isnan(column).sum())
        rows.append(
            (
                schema.label(d)[:40],
                schema.kinds[d],
                _content(column, schema, d),
                f"{n_gaps:,}" if n_gaps else "",
            )
        )
    rows += [(name[:40], "-", what, "") for name, what in others]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]
        ).rstrip()
        for row in rows
    ]


def _summary(schema: Schema) -> str:
    counts = Counter(schema.kinds)
    listed = ", ".join(f"{n:,} {kind}" for kind, n in counts.items())
    return f"{len(schema):,} columns: {listed}"


def _content(column: np.ndarray, schema: Schema, d: int) -> str:
    """Levels of a column with the most frequent first, or the range of its numbers."""
    seen = column[~np.isnan(column)]
    levels = schema.levels_of(d)
    if schema.kinds[d] == "categorical" or levels is not None:
        names = levels or tuple(str(i) for i in range(int(seen.max(initial=0)) + 1))
        counts = np.bincount(seen.astype(np.intp), minlength=len(names))
        order = np.argsort(-counts, kind="stable")
        listed = ", ".join(names[i] for i in order)
        short = listed if len(listed) <= WIDEST else f"{listed[: WIDEST - 3]}..."
        return f"{len(names)}: {short}"
    if not len(seen):
        return "nothing observed"
    if schema.kinds[d] == "binary":
        return f"1 in {seen.mean():.0%}"
    low, high = (_number(number) for number in (seen.min(), seen.max()))
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return level_name(value) if float(value).is_integer() else f"{value:.6g}"
