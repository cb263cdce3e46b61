"""Gaps: missing cells, NaN in a table; `cells.MISSING` lists their texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.tables._columns import called, place
from dynpart.tables._table import Table, TableError, row_blocks


def count_gaps(values: NDArray[Any]) -> int:
    """How many cells are NaN."""
    if values.dtype.kind != "f":
        return 0
    return sum(int(np.count_nonzero(np.isnan(block))) for _, block in row_blocks(values))


def mostly_missing(column: NDArray[Any]) -> bool:
    """Whether more than half of the cells of a column are NaN: such a column names no rows."""
    return 2 * count_gaps(column[:, None]) > len(column)


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


def check_observed(source: str, table: Table) -> None:
    """Reject a column without any observed value.

    Raises
    ------
    TableError
        Names the first such column.
    """
    if table.values.dtype.kind != "f":
        return
    seen = np.zeros(table.values.shape[1], dtype=bool)
    for _, block in row_blocks(table.values):
        seen |= ~np.isnan(block).all(axis=0)
        if seen.all():
            return
    empty = int(np.flatnonzero(~seen)[0])
    remedy = "leave it out" if table.names is None else f"--drop {table.names[empty]!r}"
    raise TableError(f"{source}: {called(empty, table.names)} has no value in any row; {remedy}")


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
