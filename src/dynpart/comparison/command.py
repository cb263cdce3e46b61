"""What ``dynpart compare`` does: run, print the tables, write the document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dynpart.comparison.contestants import CONTESTANTS
from dynpart.comparison.densities import DENSITY_METHODS, MIXED_TABLES
from dynpart.comparison.density_models import DENSITY_MODELS
from dynpart.comparison.density_report import (
    density_findings,
    density_tables,
    write_density_document,
)
from dynpart.comparison.density_runs import load_density, run_density
from dynpart.comparison.density_sets import DENSITY_NAMES, DensitySet, chosen_sets
from dynpart.comparison.document import by_table, write_document
from dynpart.comparison.gaps import GAP_TABLES
from dynpart.comparison.imputation import ImputationResult, load_imputations, run_imputation
from dynpart.comparison.imputers import IMPUTERS
from dynpart.comparison.ordered import (
    ORDERED_CONTESTANTS,
    ORDERED_PROBLEMS,
    OrderedProblem,
    OrderedResult,
    load_ordered,
    run_ordered,
)
from dynpart.comparison.ordered_report import (
    by_problem,
    ordered_findings,
    ordered_table,
    write_ordered_document,
)
from dynpart.comparison.problems import PROBLEMS, load_problem
from dynpart.comparison.report import (
    findings,
    imputation_findings,
    imputation_table,
    rows_of,
    shapes_table,
    table_of,
    terminal_table,
    tracking_table,
)
from dynpart.comparison.runner import load_results, run
from dynpart.comparison.shapes import SHAPE_CONTESTANTS, ShapeResult, load_shapes, run_shapes
from dynpart.comparison.tracking import track
from dynpart.comparison.unseen import UnseenResult, load_unseen, run_unseen
from dynpart.comparison.unseen_report import unseen_by_table, unseen_findings, unseen_table

TRACKING = "tracking"
IMPUTATION = "imputation"
SHAPES = "shapes"
TABLES = "tables"
OTHERS = (TRACKING, IMPUTATION, SHAPES, TABLES, *ORDERED_PROBLEMS, *DENSITY_NAMES)
TRACKING_SEEDS = range(20)
PAGE, DENSITY_PAGE, ORDERED_PAGE = "comparison.md", "density.md", "ordered.md"


def compare(
    names: Sequence[str],
    folder: Path,
    seeds: Sequence[int],
    *,
    document: Path | None = None,
    models: Sequence[str] | None = None,
    redo: Sequence[str] = (),
    split: str = "test",
    kept_only: bool = False,
    note: str = "",
    device: str | None = None,
    console: Console | None = None,
) -> None:
    """Run a comparison, print its tables and write its document.

    Densities of binary sets have their own document, density.md, which is written beside the other
    one if other data are compared, too. Autoregressive models have their own document if nothing
    else is compared; it shows all results of the folder.

    Parameters
    ----------
    names : sequence of str
        Problems, "tracking", "imputation", "shapes", "tables", "autoregressive",
        "autoregressive-mnist", "density" for all binary sets or "density-NAME" for one of them.
    folder : Path
        Folder of results, templates and figures.
    seeds : sequence of int
    document : Path, default=None
        The Markdown file to write; by default comparison.md in the folder, or density.md.
    models : sequence of str, default=None
        Names of contestants, of imputers, of models of shapes, of tables or of binary sets; by
        default all.
    redo : sequence of str
        The same, to be computed again.
    split : {"test", "validation"}, default="test"
    kept_only : bool, default=False
        Compute nothing; make tables, figures and document from the results in the folder.
    note : str
        A remark for the document on how its results came about.
    device : str, default=None
        Device of torch, such as "cuda", for autoregressive models; other data do not use it.
    console : Console, default=None
    """
    for name in names:
        if name not in PROBLEMS and name not in OTHERS:
            raise ValueError(
                f"--data must be one of {', '.join([*PROBLEMS, *OTHERS])}, got {name!r}"
            )
    if device is not None and not all(name in ORDERED_PROBLEMS for name in names):
        raise ValueError(
            f"--device={device} is for --data {' and '.join(ORDERED_PROBLEMS)} alone, got "
            f"{', '.join(names)}"
        )
    known = dict.fromkeys(
        [
            *CONTESTANTS,
            *IMPUTERS,
            *SHAPE_CONTESTANTS,
            *DENSITY_METHODS,
            *ORDERED_CONTESTANTS,
            *DENSITY_MODELS,
        ]
    )
    for name in [*(models or ()), *redo]:
        if name not in known:
            raise ValueError(f"--model must be one of {', '.join(known)}, got {name!r}")
    console = console or Console()
    contestants = [CONTESTANTS[name] for name in models or CONTESTANTS if name in CONTESTANTS]
    imputers = [IMPUTERS[name] for name in models or IMPUTERS if name in IMPUTERS]
    shape_models = [
        SHAPE_CONTESTANTS[name] for name in models or SHAPE_CONTESTANTS if name in SHAPE_CONTESTANTS
    ]
    densities = [
        DENSITY_METHODS[name] for name in models or DENSITY_METHODS if name in DENSITY_METHODS
    ]
    row_models = [
        ORDERED_CONTESTANTS[name]
        for name in models or ORDERED_CONTESTANTS
        if name in ORDERED_CONTESTANTS
    ]
    problems = [name for name in dict.fromkeys(names) if name not in OTHERS]

    def print_line(line: str) -> None:
        console.print(line, style="dim", highlight=False)

    sets = chosen_sets(names)
    in_order = [ORDERED_PROBLEMS[name] for name in ORDERED_PROBLEMS if name in names]
    alone = all(name in DENSITY_NAMES for name in names)
    if sets:
        if split != "test":
            raise ValueError(
                "--validation does not apply to density sets, whose validation rows choose the "
                "mixtures"
            )
        page = _density_page(document, folder, alone=alone)
        if not kept_only:
            row_densities = [
                DENSITY_MODELS[name] for name in models or DENSITY_MODELS if name in DENSITY_MODELS
            ]
            run_density(
                sets, row_densities, list(seeds), folder=folder, redo=redo, report=print_line
            )
        _print_densities(sets, folder, page, note, console)
    if alone:
        return
    ordered: list[OrderedResult] = []
    if in_order:
        if not kept_only:
            run_ordered(
                in_order, row_models, list(seeds), folder=folder, redo=redo, device=device,
                report=print_line,
            )  # fmt: skip
        ordered = _print_ordered(in_order, folder, console)
    if len(in_order) == len(set(names)):
        page = document or folder / ORDERED_PAGE
        write_ordered_document(page, folder, load_ordered(folder), note)
        console.print(f"Document: {page}; results and figures: {folder}", highlight=False)
        return
    document = document or folder / PAGE
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
            report=print_line,
        )
    # A folder may hold results of contestants of an earlier version.
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
    imputation: list[ImputationResult] = []
    if IMPUTATION in names:
        if not kept_only:
            run_imputation(
                GAP_TABLES, imputers, list(seeds), folder=folder, redo=redo, report=print_line
            )
        imputation = sorted(load_imputations(folder), key=lambda r: list(GAP_TABLES).index(r.table))
        if not imputation:
            raise ValueError(f"{folder} holds no results for {IMPUTATION}")
    for of_table in by_table(imputation):
        title = f"{of_table[0].title}, hidden cells"
        console.print(terminal_table(title, *imputation_table(of_table)))
        for sentence in imputation_findings(of_table):
            console.print(sentence.replace("**", ""), highlight=False)
    shapes: list[ShapeResult] = []
    if SHAPES in names:
        if not kept_only:
            run_shapes(shape_models, list(seeds), folder=folder, redo=redo, report=print_line)
        shapes = load_shapes(folder)
        if not shapes:
            raise ValueError(f"{folder} holds no results for {SHAPES}")
        console.print(terminal_table("Shapes, test horses", *shapes_table(shapes)))
    unseen: list[UnseenResult] = []
    if TABLES in names:
        if not kept_only:
            run_unseen(MIXED_TABLES, densities, folder=folder, redo=redo, report=print_line)
        unseen = sorted(load_unseen(folder), key=lambda r: list(MIXED_TABLES).index(r.table))
        if not unseen:
            raise ValueError(f"{folder} holds no results for {TABLES}")
        console.print(terminal_table("Unseen rows of tables, nats per row", *unseen_table(unseen)))
    for of_unseen in unseen_by_table(unseen):
        for sentence in unseen_findings(of_unseen):
            console.print(f"{of_unseen[0].title}. {sentence.replace('**', '')}", highlight=False)
    write_document(
        document,
        folder,
        sections,
        tracking,
        note,
        imputation=imputation,
        shapes=shapes,
        unseen=unseen,
        ordered=ordered,
    )
    console.print(f"Document: {document}; results and figures: {folder}", highlight=False)


def _density_page(document: Path | None, folder: Path, *, alone: bool) -> Path:
    """The document for densities: the given one, or another beside it if there are other data."""
    if alone:
        return document or folder / DENSITY_PAGE
    if document is not None and document.name == DENSITY_PAGE:
        raise ValueError(f"--report must not be {DENSITY_PAGE}, which is written for density sets")
    return (document or folder / PAGE).with_name(DENSITY_PAGE)


def _print_ordered(
    problems: Sequence[OrderedProblem], folder: Path, console: Console
) -> list[OrderedResult]:
    """Print the folder's results on these problems, and return them."""
    names = [problem.name for problem in problems]
    results = [r for r in load_ordered(folder) if r.problem in names]
    if not results:
        raise ValueError(f"{folder} holds no results for {', '.join(names)}")
    for title, found in by_problem(results).items():
        console.print(terminal_table(f"{title}, autoregressive", *ordered_table(found)))
        for sentence in ordered_findings(found):
            console.print(sentence, highlight=False)
    return results


def _print_densities(
    sets: Sequence[DensitySet], folder: Path, page: Path, note: str, console: Console
) -> None:
    """Print the folder's results on these sets, and write their document."""
    # A folder may hold results of models of an earlier version.
    results = [r for r in load_density(sets, folder) if r.model in DENSITY_MODELS]
    if not results:
        raise ValueError(f"{folder} holds no results for {', '.join(s.name for s in sets)}")
    for title, headings, lines in density_tables(results):
        console.print(terminal_table(title, headings, lines))
    for sentence in density_findings(results):
        console.print(sentence.replace("**", ""), highlight=False)
    write_density_document(page, results, note)
    console.print(f"Document: {page}; results: {folder}", highlight=False)
