"""Cases of a competitor: named calls, and the rows that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """Sizes: rows to fit, to encode, and for the slow engine, and components."""

    n_fit: int
    n_encode: int
    n_subset: int
    n_components: int


FULL = Sizes(60_000, 10_000, 500, 100)
QUICK = Sizes(1_000, 300, 60, 20)


@dataclass(frozen=True)
class Case:
    """One row of a table.

    `call(rows, n_components)` returns a fitted model in the group "fit"; `call(model, rows)`
    returns codes in the groups "encode" and "subset", with the model of the case `model`.
    """

    name: str
    title: str
    group: str
    call: Callable[..., Any]
    dtype: str = "float32"
    model: str | None = None
    threads: int | None = None
    """Threads, where they are not those of the command."""
    twin: str | None = None
    """The same case with the command's threads."""
    one_process: bool = True
    """False where work goes to processes whose memory is not seen."""

    def n_rows(self, sizes: Sizes) -> int:
        return {"fit": sizes.n_fit, "encode": sizes.n_encode, "subset": sizes.n_subset}[self.group]
