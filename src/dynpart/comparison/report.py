"""The report: means and spreads over seeds as a table for the terminal and for a document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from dynpart.comparison.contestants import (
    CONTESTANTS,
    OUR_VARIANTS,
    OURS,
    PATIENT,
    RECONSTRUCTING,
    THOROUGH,
)
from dynpart.comparison.imputation import ImputationResult
from dynpart.comparison.imputers import IMPUTERS
from dynpart.comparison.problems import Problem
from dynpart.comparison.runner import Result, load_templates
from dynpart.comparison.scores import template_stability
from dynpart.comparison.shapes import HALVES, ShapeResult
from dynpart.comparison.tracking import TrackingResult

PUBLISHED_MNIST_NATS = {"mixture of 100": -142.63, "mixture of 500": -137.64}
REAL, GIVEN = "ʳ", "ᵗ"
ONLY_IN_DOCUMENT = {
    "log P(x given h)",
    "factors found",
    "best unit",
    "selective",
    "own active",
    "own error %",
    "own RMSE",
    "stability",
    "encode s / 1000",
    "rows",
    "seeds",
}


@dataclass(frozen=True)
class Column:
    """A column of the table: heading, score, format, and whether high or low is better."""

    heading: str
    score: str
    form: str
    scale: float = 1.0


COLUMNS = (
    Column("active", "active", ".1f"),
    Column("error %", "error", ".2f", 100.0),
    Column("log P(x given h)", "log_likelihood", ".1f"),
    Column("code bits", "code_bits", ".1f"),
    Column("factors found", "found", ".1f"),
    Column("all found", "found_all", ".0f", 100.0),
    Column("best unit", "told", ".2f"),
    Column("selective", "selective", ".2f"),
    Column("accuracy %", "accuracy", ".1f", 100.0),
    Column("own active", "natural_active", ".1f"),
    Column("own error %", "natural_error", ".2f", 100.0),
)


@dataclass(frozen=True)
class Row:
    """One contestant on one problem, over all its seeds."""

    contestant: str
    results: tuple[Result, ...]
    stability: float

    @property
    def title(self) -> str:
        """Its name with marks: real-valued codes, partition given."""
        entry = CONTESTANTS.get(self.contestant)
        title = entry.title if entry else self.contestant
        marks = "" if self.results[0].binary_codes else REAL
        return title + marks + (GIVEN if entry and entry.partition_given else "")

    def values(self, score: str) -> list[float]:
        """The score of every seed that has it."""
        return [r.scores[score] for r in self.results if score in r.scores]

    def mean(self, score: str) -> float:
        """Mean over seeds, NaN if no seed has the score."""
        values = self.values(score)
        return float(np.mean(values)) if values else math.nan


def rows_of(problem: str, results: Sequence[Result], folder: Path | None = None) -> list[Row]:
    """Gather the results of one problem by contestant, in the contestants' order.

    Parameters
    ----------
    problem : str
    results : sequence of Result
    folder : Path, default=None
        Folder of templates; without it stability is not computed.

    Returns
    -------
    list of Row
    """
    mine = [r for r in results if r.problem == problem]
    names = sorted({r.contestant for r in mine}, key=_place)
    rows = []
    for name in names:
        runs = tuple(sorted((r for r in mine if r.contestant == name), key=lambda r: r.seed))
        stability = math.nan
        if folder is not None and len(runs) > 1:
            stability = template_stability([load_templates(folder, r) for r in runs])
        rows.append(Row(name, runs, stability))
    return rows


def _place(name: str) -> tuple[int, str]:
    order = list(CONTESTANTS)
    return (order.index(name) if name in order else len(order), name)


def cell(values: Sequence[float], column: Column) -> str:
    """Mean and spread of one score, or a dash.

    Examples
    --------
    >>> cell([0.1, 0.3], COLUMNS[1])
    '20.00 ± 14.14'
    """
    if not values:
        return "–"
    scaled = np.asarray(values) * column.scale
    if column.score == "found_all":
        return f"{round(sum(values))} of {len(values)}"
    text = format(float(scaled.mean()), column.form)
    if len(values) > 1:
        text += f" ± {format(float(scaled.std(ddof=1)), column.form)}"
    return text


def table_of(rows: Sequence[Row], *, binary: bool = True) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of text of one problem's table; empty columns are left out.

    Parameters
    ----------
    rows : sequence of Row
    binary : bool, default=True
        Whether errors are shares of pixels (in percent) or root mean squares.

    Returns
    -------
    headings : list of str
    lines : list of list of str
    """
    columns = [_for_gray(c) if not binary else c for c in COLUMNS]
    columns = [c for c in columns if any(row.values(c.score) for row in rows)]
    stable = any(not math.isnan(row.stability) for row in rows)
    headings = ["model", *(c.heading for c in columns)]
    headings += ["stability"] * stable + ["fit s", "encode s / 1000", "rows", "seeds"]
    lines = []
    for row in rows:
        line = [row.title, *(cell(row.values(c.score), c) for c in columns)]
        if stable:
            line.append("–" if math.isnan(row.stability) else f"{row.stability:.2f}")
        line.append(f"{np.mean([r.fit_seconds for r in row.results]):.1f}")
        line.append(f"{np.mean([r.encode_seconds for r in row.results]):.2f}")
        line.append(f"{row.results[0].n_train:,}")
        line.append(_seeds([r.seed for r in row.results]))
        lines.append(line)
    return headings, lines


def _for_gray(column: Column) -> Column:
    if "error" not in column.score:
        return column
    return Column(column.heading.replace("error %", "RMSE"), column.score, ".4f")


def _seeds(seeds: Sequence[int]) -> str:
    """Seeds with runs of neighbours written as ranges.

    Examples
    --------
    >>> _seeds([0, 1, 2, 7, 9, 10])
    '0–2, 7, 9, 10'
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    texts = [f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs]
    return ", ".join(texts)


def terminal_table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """The same for the terminal, without columns that are shown in the document only."""
    shown = [i for i, heading in enumerate(headings) if heading not in ONLY_IN_DOCUMENT]
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for i in shown:
        table.add_column(headings[i], justify="left" if i == 0 else "right", no_wrap=i == 0)
    for line in lines:
        style = "bold" if line[0] == CONTESTANTS[OURS].title else None
        table.add_row(*(line[i].replace(" ± ", "±") for i in shown), style=style)
    return table


def markdown_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """The same for a document."""
    aligned = ["---"] + ["---:"] * (len(headings) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, aligned, *lines))


ENCODED = {
    THOROUGH: "Encoded with eight starts",
    RECONSTRUCTING: "With eight starts and codes chosen for reconstruction,",
    PATIENT: "With such a search in the last iterations of learning, too,",
}


def findings(problem: Problem, rows: Sequence[Row]) -> list[str]:
    """Findings in sentences: models with binary codes that are ahead of ours, and in which score.

    Parameters
    ----------
    problem : Problem
    rows : sequence of Row

    Returns
    -------
    list of str
    """
    ours = next((row for row in rows if row.contestant == OURS), None)
    if ours is None:
        return ["Our model did not take part."]
    rivals = [r for r in rows if r.contestant not in OUR_VARIANTS]
    binary = [r for r in rivals if r.results[0].binary_codes]
    sentences = []
    if problem.truth is not None:
        sentences.append(_recovery_sentence(ours, binary))
    unit = "%" if problem.binary else " RMSE"

    def figures(row: Row) -> str:
        return f"{_error(problem, row)}{unit} with {row.mean('active'):.1f}"

    def ahead_of(row: Row) -> str:
        ahead = [r for r in binary if r.mean("error") < row.mean("error")]
        return ", ".join(f"{r.title} ({figures(r)})" for r in ahead)

    mine = f"{figures(ours)} active units"
    if not ahead_of(ours):
        sentences.append(f"No model with binary codes reconstructs better than ours ({mine}).")
    else:
        sentences.append(
            f"**Ahead of ours in reconstruction with binary codes** ({mine}): {ahead_of(ours)}."
        )
        for row in rows:
            if row.contestant in ENCODED:
                still = ahead_of(row)
                verdict = f"still ahead: {still}" if still else "no binary codes are better"
                sentences.append(f"{ENCODED[row.contestant]} ours has {figures(row)}; {verdict}.")
    real = [r for r in rivals if r not in binary and r.mean("error") < ours.mean("error")]
    if real:
        listed = ", ".join(f"{r.title} ({_error(problem, r)}{unit})" for r in real)
        sentences.append(f"Better with real-valued codes, which carry more per unit: {listed}.")
    shorter = [r for r in binary if r.mean("code_bits") < ours.mean("code_bits")]
    if not math.isnan(ours.mean("code_bits")):
        if shorter:
            listed = ", ".join(f"{r.title} ({r.mean('code_bits'):.1f} bits)" for r in shorter)
            sentences.append(
                f"**Shorter codes than ours** ({ours.mean('code_bits'):.1f} bits): {listed}."
            )
        else:
            sentences.append(
                f"No code is shorter than ours ({ours.mean('code_bits'):.1f} bits per row)."
            )
    if problem.name == "mnist":
        sentences.append(_published_sentence(ours, rows))
    return sentences


def _recovery_sentence(ours: Row, rivals: Sequence[Row]) -> str:
    n = len(ours.results)
    mine = f"{int(sum(ours.values('found_all')))} of {n} seeds"

    def often(row: Row) -> bool:
        return row.mean("found_all") > ours.mean("found_all")

    ahead = [r for r in rivals if often(r)]
    if not ahead:
        return f"No model finds all factors more often than ours ({mine})."
    listed = ", ".join(
        f"{r.title} ({int(sum(r.values('found_all')))} of {len(r.results)})" for r in ahead
    )
    return f"**Finds all factors more often than ours** ({mine}): {listed}."


def _error(problem: Problem, row: Row) -> str:
    error = row.mean("error")
    return f"{100 * error:.2f}" if problem.binary else f"{error:.4f}"


def _published_sentence(ours: Row, rows: Sequence[Row]) -> str:
    nats = -ours.mean("code_bits") * math.log(2)
    published = ", ".join(f"{k} {v:.2f}" for k, v in PUBLISHED_MNIST_NATS.items())
    exact = [-row.mean("exact_bits") * math.log(2) for row in rows if row.values("exact_bits")]
    here = f"; the mixture of this table has {exact[0]:.2f} exactly" if exact else ""
    return (
        f"As a lower bound of log P(x), our codes give {nats:.2f} nats per image; published "
        f"log-likelihoods of mixtures of Bernoullis: {published}, on another binarisation of the "
        f"images and so only a rough guide{here}."
    )


def tracking_table(results: Sequence[TrackingResult]) -> tuple[list[str], list[list[str]]]:
    """Mean share of variables with the right expert, a column per number of rows."""
    sizes = sorted({r.n_rows for r in results})
    headings = ["method", "variables", *(f"{n} row{'s' * (n > 1)}" for n in sizes)]
    form = Column("", "", ".1f", 100.0)
    lines = []
    for order in ("in order", "shuffled"):
        for method in dict.fromkeys(r.method for r in results):
            chosen = [r for r in results if r.method == method and r.order == order]
            by_size = [[r.right for r in chosen if r.n_rows == n] for n in sizes]
            lines.append([method, order, *(cell(values, form) for values in by_size)])
    return headings, lines


def shapes_table(results: Sequence[ShapeResult]) -> tuple[list[str], list[list[str]]]:
    """Wrong pixels of test shapes, reconstructed and in hidden halves: a line per model."""
    headings = ["model", "reconstructed %", *(f"{half} hidden %" for half in HALVES), "fit s"]
    form, seconds = Column("", "", ".2f", 100.0), Column("", "", ".0f")
    lines = []
    for name in dict.fromkeys(r.contestant for r in results):
        chosen = [r for r in results if r.contestant == name]
        hidden = (cell([r.hidden[half] for r in chosen], form) for half in HALVES)
        seen = cell([r.reconstruction for r in chosen], form)
        lines.append([chosen[0].title, seen, *hidden, cell([r.seconds for r in chosen], seconds)])
    return headings, lines


IMPUTATION_COLUMNS = (
    Column("recovered %", "recovered", ".2f", 100.0),
    Column("RMSE", "rmse", ".3f"),
    Column("nats", "log_likelihood", ".4f"),
)


def imputation_table(results: Sequence[ImputationResult]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of one table's imputation: a line per imputer, columns per share.

    Parameters
    ----------
    results : sequence of ImputationResult
        Of one table.

    Returns
    -------
    headings : list of str
    lines : list of list of str
    """
    shares = sorted({r.share for r in results})
    columns = [c for c in IMPUTATION_COLUMNS if any(c.score in r.scores for r in results)]
    headings = ["method"]
    for share in shares:
        headings += [f"{share:.0%}: {c.heading}" for c in columns] + [f"{share:.0%}: s"]
    headings.append("seeds")
    lines = []
    for name in _imputers_of(results):
        mine = [r for r in results if r.imputer == name]
        line = [IMPUTERS[name].title]
        for share in shares:
            runs = [r for r in mine if r.share == share]
            for column in columns:
                line.append(cell([r.scores[column.score] for r in runs], column))
            line.append(f"{np.mean([r.seconds for r in runs]):.1f}" if runs else "–")
        lines.append([*line, _seeds(sorted({r.seed for r in mine}))])
    return headings, lines


def imputation_findings(results: Sequence[ImputationResult]) -> list[str]:
    """Findings on one table in sentences: methods that are ahead of ours, and in which score.

    Parameters
    ----------
    results : sequence of ImputationResult
        Of one table.

    Returns
    -------
    list of str
    """
    sentences = []
    for share in sorted({r.share for r in results}):
        ahead = []
        for column in IMPUTATION_COLUMNS:
            means = _means(results, share, column)
            if OURS not in means:
                continue
            sign = -1 if column.score == "rmse" else 1
            better = [n for n in means if sign * means[n] > sign * means[OURS]]
            if better:
                listed = [f"{IMPUTERS[n].title} ({means[n]:{column.form}})" for n in better]
                mine = f"{column.heading} ({means[OURS]:{column.form}})"
                ahead.append(f"in {mine} {', '.join(listed)}")
        if not any(r.imputer == OURS and r.share == share for r in results):
            sentences.append(f"At {share:.0%} our model did not take part.")
        elif ahead:
            sentences.append(f"**Ahead of ours** at {share:.0%}: {'; '.join(ahead)}.")
        else:
            sentences.append(f"At {share:.0%} no method is ahead of ours.")
    return sentences


def _means(results: Sequence[ImputationResult], share: float, column: Column) -> dict[str, float]:
    """Mean of one score over seeds, by imputer."""
    means = {}
    for name in _imputers_of(results):
        runs = [r for r in results if r.imputer == name and r.share == share]
        values = [r.scores[column.score] for r in runs if column.score in r.scores]
        if values:
            means[name] = column.scale * float(np.mean(values))
    return means


def _imputers_of(results: Sequence[ImputationResult]) -> list[str]:
    present = {r.imputer for r in results}
    return [name for name in IMPUTERS if name in present]
