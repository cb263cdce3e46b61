"""What ``dynpart compare`` does: run, print the tables, write the document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dynpart.comparison.contestants import CONTESTANTS
from dynpart.comparison.document import write_document
from dynpart.comparison.problems import PROBLEMS, load_problem
from dynpart.comparison.report import (
    findings,
    rows_of,
    table_of,
    terminal_table,
    tracking_table,
)
from dynpart.comparison.runner import load_results, run
from dynpart.comparison.tracking import track

TRACKING = "tracking"
TRACKING_SEEDS = range(20)


def compare(
    names: Sequence[str],
    folder: Path,
    seeds: Sequence[int],
    *,
    document: Path,
    models: Sequence[str] | None = None,
    redo: Sequence[str] = (),
    split: str = "test",
    kept_only: bool = False,
    note: str = "",
    console: Console | None = None,
) -> None:
    """Run a comparison, print its tables and write its document.

    Parameters
    ----------
    names : sequence of str
        Problems, or "tracking".
    folder : Path
        Where results, templates and figures are kept.
    seeds : sequence of int
    document : Path
        The Markdown file to write.
    models : sequence of str, optional
        Names of contestants; by default all.
    redo : sequence of str
        Contestants to compute afresh.
    split : {"test", "validation"}, default="test"
    kept_only : bool, default=False
        Compute nothing; tables, figures and document from what the folder holds.
    note : str
        A remark for the document on how its results came about.
    console : Console, optional
    """
    for name in names:
        if name not in PROBLEMS and name != TRACKING:
            raise ValueError(
                f"--data must be one of {', '.join([*PROBLEMS, TRACKING])}, got {name!r}"
            )
    for name in [*(models or ()), *redo]:
        if name not in CONTESTANTS:
            raise ValueError(f"--model must be one of {', '.join(CONTESTANTS)}, got {name!r}")
    console = console or Console()
    contestants = [CONTESTANTS[name] for name in models or CONTESTANTS]
    problems = [name for name in dict.fromkeys(names) if name != TRACKING]
    if kept_only:
        results = load_results(folder)
    else:
        results = run(
            problems,
            contestants,
            list(seeds),
            folder=folder,
            split=split,
            redo=redo,
            report=lambda line: console.print(line, style="dim", highlight=False),
        )
    # A folder may hold results of contestants that an earlier version had.
    results = [r for r in results if r.split == split and r.contestant in CONTESTANTS]
    sections = []
    for name in problems:
        problem = load_problem(name, seeds[0], split)
        rows = rows_of(name, results, folder)
        if not rows:
            raise ValueError(f"{folder} holds no results for {name}")
        sections.append((problem, rows))
        table = table_of(rows, binary=problem.binary)
        console.print(terminal_table(f"{problem.title}, {split} rows", *table))
        for sentence in findings(problem, rows):
            console.print(sentence.replace("**", ""), highlight=False)
    tracking = track(TRACKING_SEEDS) if TRACKING in names else []
    if tracking:
        console.print(terminal_table("Tracking the best expert", *tracking_table(tracking)))
    write_document(document, folder, sections, tracking, note)
    console.print(f"Document: {document}; results and figures: {folder}", highlight=False)
