"""Progress on the terminal: a bar, or lines for logs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dynpart.learning import IterationRecord
from dynpart.notices import messages_enabled


@contextmanager
def fit_progress(
    verbose: int, n_iter: int, n_init: int
) -> Iterator[Callable[[IterationRecord], None] | None]:
    """Yield a function to call with each iteration's record: a bar or a line printer, or None."""
    if not verbose:
        yield None
    elif verbose > 1:
        with messages_enabled():
            yield lambda record: print(describe(record), file=sys.stderr)
    else:
        with _bar("Learning", n_iter * n_init) as advance, messages_enabled():
            yield lambda record: advance(1, _short(record))


@contextmanager
def rows_progress(verbose: int, n_rows: int) -> Iterator[Callable[[int], None] | None]:
    """Yield a function to call with each finished number of rows; None without a bar."""
    if not verbose:
        yield None
    else:
        with _bar("Encoding", n_rows) as advance, messages_enabled():
            yield lambda n: advance(n, "")


@contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    ) as progress:
        task = progress.add_task(label, total=total, note="")
        yield lambda n, note: progress.update(task, advance=n, note=note)
        # A fit that converges early completes its bar.
        progress.update(task, total=progress.tasks[0].completed)


def _short(record: IterationRecord) -> str:
    """The objective is not called bits: those of the results have another prior and variances."""
    return f"objective {_bits(record.joint):.1f}, {record.mean_active:.1f} active"


def _bits(nats: float) -> float:
    """A log-likelihood as a number of bits, of which fewer is better."""
    return -nats / math.log(2)


def describe(record: IterationRecord) -> str:
    """One line of a log: rows of the iteration, objective and changes."""
    step = record.step
    shrinkage = f"; shrinkage of {record.shrinkage:g}" if record.shrinkage else ""
    return (
        f"iteration {record.iteration + 1:3d}: objective {_bits(record.joint):.3f}, "
        f"{_bits(record.penalised):.3f} without codes, penalised; {record.mean_active:.2f} active "
        f"(at least {step.min_active} active, {'smoothed' if step.smoothed else 'hard'}, "
        f"{record.n_rows} rows, bound 2^{step.log2_bound:.1f}); "
        f"opinions moved {record.opinion_change:.1e} sd, "
        f"expertise {record.expertise_change:.1e} octaves{shrinkage}"
    )
