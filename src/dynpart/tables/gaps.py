"""Gaps: missing cells, NaN in a table; `cells.MISSING` lists their texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.tables._columns import called, place
from dynpart.tables._table import Table, TableError, row_blocks

MOST_NAMED = 8
"""Columns without a value that are named one by one."""


def count_gaps(values: NDArray[Any]) -> int:
    """How many cells are NaN."""
    if values.dtype.kind != "f":
        return 0
    return sum(int(np.count_nonzero(np.isnan(block))) for _, block in row_blocks(values))


def gaps_in_words(values: NDArray[Any]) -> str:
    """A sentence on how many cells are missing; empty if none is."""
    n_gaps = count_gaps(values)
    if not n_gaps:
        return ""
    share = n_gaps / values.size
    percent = "less than 0.1%" if share < 0.001 else f"{share:.1%}"
    verb, consequence = ("is", "it counts") if n_gaps == 1 else ("are", "they count")
    return (
        f"{n_gaps:,} of {values.size:,} cells {verb} missing ({percent}): "
        f"{consequence} as not observed"
    )


def without_empty(source: str, table: Table) -> tuple[Table, list[str]]:
    """The table without columns that have no observed value, and a remark that names them.

    Raises
    ------
    TableError
        If no column is left, or columns have no names by which other commands could leave them out.
    """
    if table.values.dtype.kind != "f":
        return table, []
    seen = np.zeros(table.values.shape[1], dtype=bool)
    for _, block in row_blocks(table.values):
        seen |= ~np.isnan(block).all(axis=0)
        if seen.all():
            return table, []
    empty = np.flatnonzero(~seen)
    if table.names is None or not seen.any():
        first = called(int(empty[0]), table.names)
        raise TableError(f"{source}: {first} has no value in any row; leave it out")
    names = ", ".join(repr(table.names[d]) for d in empty[:MOST_NAMED])
    names += f" and {len(empty) - MOST_NAMED} others" if len(empty) > MOST_NAMED else ""
    subject, verb = ("column", "has") if len(empty) == 1 else ("columns", "have")
    left = "is left out" if len(empty) == 1 else "are left out"
    told = f"{subject} {names} {verb} no value in any row and {left}"
    return table.taken(np.flatnonzero(seen).tolist()), [told]


def refuse_gaps(
    source: Path | str, values: NDArray[Any], names: Sequence[str] | None, reason: str
) -> None:
    """Reject NaN in arrays that cannot have gaps, with the place of the first one."""
    if values.dtype.kind != "f":
        return
    for begin, block in row_blocks(values):
        gaps = np.isnan(block)
        if gaps.any():
            row, column = (int(i) for i in np.argwhere(gaps)[0])
            raise TableError(f"{place(source, begin + row, column, names)} is missing; {reason}")
