"""The document: the whole comparison as Markdown, every number with its seeds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynpart.atomic import atomic_write
from dynpart.comparison.contestants import CONTESTANTS
from dynpart.comparison.figures import plot_all_templates, plot_rate_distortion
from dynpart.comparison.gaps import HELD_BACK, MOST_CATEGORIES
from dynpart.comparison.imputation import ImputationResult
from dynpart.comparison.imputers import N_NEAREST, WIDE
from dynpart.comparison.ordered import OrderedResult
from dynpart.comparison.ordered_report import ordered_section
from dynpart.comparison.problems import Problem
from dynpart.comparison.report import (
    GIVEN,
    REAL,
    Row,
    findings,
    imputation_findings,
    imputation_table,
    markdown_table,
    shapes_table,
    table_of,
    tracking_table,
)
from dynpart.comparison.runner import MOST_CODED_ROWS, MOST_CURVE_ROWS, Result, load_templates
from dynpart.comparison.shapes import ShapeResult
from dynpart.comparison.tracking import N_FEATURES, N_SEGMENTS, TrackingResult
from dynpart.comparison.unseen import UnseenResult
from dynpart.comparison.unseen_report import unseen_by_table, unseen_findings, unseen_section
from dynpart.families import SURE
from dynpart.markdown import wrapped

INTRODUCTION = f"""# Comparison with other models

This page compares dynpart with the models that the paper names: reconstruction, code length,
factors found, imputation and densities. It is written by `dynpart compare`. Numbers are means over
the listed seeds, ± one standard deviation. All models of a table have the same number of units,
learn from the same training rows (fewer where the column *rows* says so) and are scored on the same
rows. Our model has its default parameters except for the limit on active units and the number of
iterations (60 on bars and on more than five pairs). No model sees the scored rows during learning
or tuning, except on pairs, where all rows are both learnt from and scored. The fixed settings of
all models were chosen while results on these data sets were known.

Our model and the closest competitor, the log-odds dictionary, are also encoded with longer
searches: from eight first units, with our codes refined each time; and with codes chosen for
reconstruction, for which opinions are limited to {SURE:.0%} (`criterion="reconstruction"`). The row
*patiently learnt* uses the longer search in the last iterations of learning, too.

- **active, error**: mean number of active units; share of wrong pixels after thresholding at
  1/2 (root mean squared error on gray data). Where a table has a limit on active units, it applies
  to every code: models with their own encoder (Boltzmann machine, autoencoders) are encoded by
  greedy likelihood pursuit with their weights, and *own active / own error* are the results of
  their own encoder.
- **log P(x given h)**: nats per row, with every model's reconstruction taken as Bernoulli means
  (kept 0.001 away from 0 and 1) or Gaussian means with one variance.
- **code bits**: bits for the code (independent bits, or one choice per group where exactly one
  unit of a group is active; frequencies from the codes of up to {MOST_CODED_ROWS:,} training
  rows) and for the row given the code. An upper bound of -log2 P(x), for binary codes only.
- **factors found, all found**: true factors with a unit of their own, and seeds in which all
  have one. Pairs: the template is within 0.1 on the pair and within 0.2 of 1/2 elsewhere. Bars:
  the pixels that one of our experts ever owns are exactly the bar; for models without owners, some
  threshold must cut the bar out of the template.
- **best unit**: information of the best single unit about a factor (share of its entropy), mean
  over factors; **selective**: share of a unit's information that belongs to its best factor.
- **accuracy**: logistic regression on the codes of up to {MOST_CODED_ROWS:,} training rows.
- **stability**: correlation of matched templates between seeds.
- Times are wall-clock seconds of one process and depend on the machine; compare only their orders
  of magnitude.

Less work went into the other models than into ours, so take their results as lower bounds of what
they can reach. Maximal causes, max-min rule, equal mixture and the log-odds dictionary use the same
greedy likelihood pursuit with their own composition, and EM or damped Newton updates on batches of
rows. The max-min rule is our interpretation of its description (strongest vote for plus strongest
vote against, in log-odds). The Boltzmann machine is scikit-learn's, with its learning rate tuned on
held-back training rows. Autoencoders have one hidden layer of sigmoid units and learn by Adam. The
real-valued dictionary is scikit-learn's, with its penalty tuned to the target number of atoms and
rows encoded by orthogonal matching pursuit.

{REAL} real-valued codes, which carry more information per unit than binary ones. {GIVEN} the
partition is given (runs of neighbouring variables, which on pairs are the true pairs; a grid on
images for the fixed partition).
"""

TRACKING_INTRODUCTION = f"""## Tracking the best expert

Experts have given opinions about {N_FEATURES} variables in {N_SEGMENTS} segments; in each segment
one expert of five is right. Fixed share (Herbster and Warmuth, 1998) reads the variables in order
and knows the true switching rate; with hindsight it reads them from both ends. Levels of expertise
are learnt by our default update with all experts active; they use neither the order nor the
neighbours of a variable. The table shows the share of variables (%) for which the expert with the
largest weight predicts the right value. With few rows the levels of expertise are often wrong where
most experts agree: the smoothed composition prefers a mixture that matches the few observed values
to the single best expert.
"""

IMPUTATION_INTRODUCTION = f"""## Hidden cells

A share of the cells, 10% or 40%, is hidden completely at random. Every method learns from the
table with gaps and fills them. All methods get the same rows and the same gaps. Columns of text and
numbers with at most {MOST_CATEGORIES} different values are categories, one binary column per value
(a single one if there are two values), hidden together; other numbers are standardised.

- **recovered**: share of the hidden cells of binary columns with the right value, threshold 1/2.
- **RMSE**: root mean squared error in the hidden cells of real columns, in standard deviations.
- **nats**: mean log-likelihood of a hidden cell. The prediction of a method is taken as a
  probability in a binary column and as the mean of a Gaussian in a real column. The certainty is
  calibrated in the same way for all methods: another {HELD_BACK:.0%} of the cells is hidden, too,
  and not scored. The distance of probabilities from 0 and 1 and the variance of Gaussians maximise
  the likelihood of these cells.
- **s**: seconds to learn and to fill, in one process.

Ours is `DynamicPartitionModel(n_experts).fit(X).impute(X)` with default parameters. KNNImputer and
IterativeImputer are scikit-learn's with default parameters; with more than {WIDE} columns the
latter regresses on {N_NEAREST} of them (`n_nearest_features`). The mixture has as many components
as our model has experts and is learnt by EM on the observed cells.

One constant of ours, the power of the likelihood with up to ten experts, was chosen by looking at
the scored cells of zoo, Titanic, heart disease and NLTCS: read these four as fitted, the others as
tested.
"""


SHAPES_INTRODUCTION = """## Shapes

Horses of 32 x 32 pixels, 300 for training and 28 for testing. The shape Boltzmann machine (Eslami
et al., 2014) has 2,000 units over four overlapping patches with shared weights and 100 units above
them, as that paper has for these data; `dynpart.baselines.ShapeBoltzmannMachine` documents what the
paper leaves open. The machine reconstructs from the means of all its units; ours reconstructs from
4 active experts of 20, or at most 10 of 50, with the graph of the pixels. Then one half of each
test horse is hidden and filled in: by the machine from 200 samples of the pixels given the other
half, by ours with `impute`. The table shows the share of wrong pixels (%). Ours at 200 x 240 is
measured on its own pixels.
"""


def write_document(
    path: Path,
    folder: Path,
    sections: Sequence[tuple[Problem, Sequence[Row]]],
    tracking: Sequence[TrackingResult] = (),
    note: str = "",
    *,
    imputation: Sequence[ImputationResult] = (),
    shapes: Sequence[ShapeResult] = (),
    unseen: Sequence[UnseenResult] = (),
    ordered: Sequence[OrderedResult] = (),
) -> None:
    """Write the document and its figures.

    Parameters
    ----------
    path : Path
        The Markdown file.
    folder : Path
        Folder of results, templates and figures.
    sections : sequence of (Problem, sequence of Row)
    tracking : sequence of TrackingResult
    note : str
        A remark on these results.
    imputation : sequence of ImputationResult
    shapes : sequence of ShapeResult
    unseen : sequence of UnseenResult
    ordered : sequence of OrderedResult
    """
    remark = [f"**Note on these results.** {note}\n"] if note else []
    repeated = _how_to_repeat(sections, bool(tracking), imputation, shapes, bool(unseen), ordered)
    parts = [INTRODUCTION, *remark, repeated]
    if sections or imputation or unseen:
        parts.append(_summary(sections, imputation, unseen))
    for problem, rows in sections:
        figures = draw(folder, problem, rows)
        parts.append(_section(problem, rows, [_link(path, figure) for figure in figures]))
    if tracking:
        seeds = sorted({r.seed for r in tracking})
        table = markdown_table(*tracking_table(tracking))
        parts.append(f"{TRACKING_INTRODUCTION}\n{table}\n\n{len(seeds)} seeds.\n")
    if imputation:
        parts.append(IMPUTATION_INTRODUCTION)
        parts += [_gap_section(results) for results in by_table(imputation)]
    if shapes:
        parts.append(_shapes_section(path, folder, shapes))
    if unseen:
        parts.append(unseen_section(unseen))
    if ordered:
        parts.append(ordered_section(ordered, lambda figure: _link(path, figure), folder))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(wrapped("\n".join(parts)).encode())


def draw(folder: Path, problem: Problem, rows: Sequence[Row]) -> list[Path]:
    """Draw the rate-distortion plot and the templates of one problem."""
    firsts = [row.results[0] for row in rows]
    paths = []
    if any(result.curve for result in firsts):
        paths.append(folder / f"{problem.name}-rate-distortion.png")
        plot_rate_distortion(problem, firsts).savefig(paths[-1], bbox_inches="tight")
    templates: dict[str, NDArray] = {}
    for first in firsts:
        values = load_templates(folder, first)
        # Models that differ only in their codes have the same templates.
        if not any(np.array_equal(values, others) for others in templates.values()):
            templates[_title(first)] = values
    paths.append(folder / f"{problem.name}-templates.png")
    plot_all_templates(problem, templates).savefig(paths[-1], bbox_inches="tight")
    return paths


def _title(result: Result) -> str:
    entry = CONTESTANTS.get(result.contestant)
    return entry.title if entry else result.contestant


def by_table(results: Sequence[ImputationResult]) -> list[list[ImputationResult]]:
    """Results of imputation, a list per table."""
    names = dict.fromkeys(r.table for r in results)
    return [[r for r in results if r.table == name] for name in names]


def _gap_section(results: Sequence[ImputationResult]) -> str:
    first = results[0]
    return (
        f"### {first.title}: hidden cells\n\n{first.n_rows:,} rows of {first.n_features:,} "
        f"columns, {first.n_experts} experts.\n\n{markdown_table(*imputation_table(results))}\n"
    )


def _shapes_section(path: Path, folder: Path, results: Sequence[ShapeResult]) -> str:
    text = [SHAPES_INTRODUCTION, markdown_table(*shapes_table(results)), ""]
    for name, title in dict.fromkeys((r.contestant, r.title) for r in results):
        figure = folder / f"shapes-{name}.png"
        if figure.exists():
            text += [f"![{title}]({_link(path, figure)})", ""]
    return "\n".join(text)


def _how_to_repeat(
    sections: Sequence[tuple[Problem, Sequence[Row]]],
    tracking: bool,
    imputation: Sequence[ImputationResult],
    shapes: Sequence[ShapeResult],
    unseen: bool,
    ordered: Sequence[OrderedResult],
) -> str:
    lines = []
    for problem, rows in sections:
        n_seeds = max(len(row.results) for row in rows)
        lines.append(f"dynpart compare --data {problem.name} --seeds {n_seeds}")
    lines += ["dynpart compare --data tracking"] * tracking
    if imputation:
        n_seeds = len({r.seed for r in imputation})
        lines.append(f"dynpart compare --data imputation --seeds {n_seeds}")
    if shapes:
        n_seeds = len({r.seed for r in shapes})
        lines.append(f"dynpart compare --data shapes --seeds {n_seeds}")
    lines += ["dynpart compare --data tables"] * unseen
    for name in dict.fromkeys(r.problem for r in ordered):
        n_seeds = len({r.seed for r in ordered if r.problem == name})
        lines.append(f"dynpart compare --data {name} --seeds {n_seeds}")
    return "To repeat it:\n\n```\n" + "\n".join(lines) + "\n```\n"


def _summary(
    sections: Sequence[tuple[Problem, Sequence[Row]]],
    imputation: Sequence[ImputationResult],
    unseen: Sequence[UnseenResult],
) -> str:
    lines = ["## In plain words", ""]
    for problem, rows in sections:
        lines.append(f"- **{problem.title}.** " + " ".join(findings(problem, rows)))
    for results in by_table(imputation):
        sentences = " ".join(imputation_findings(results))
        lines.append(f"- **{results[0].title}, hidden cells.** {sentences}")
    for of_unseen in unseen_by_table(unseen):
        sentences = " ".join(unseen_findings(of_unseen))
        lines.append(f"- **{of_unseen[0].title}, unseen rows.** {sentences}")
    return "\n".join(lines) + "\n"


def _section(problem: Problem, rows: Sequence[Row], figures: Sequence[str]) -> str:
    limit = f"at most {problem.n_active} active" if problem.capped else "no limit on active units"
    if problem.exactly:
        limit += f" (ours: exactly {problem.n_active})"
    n_scored = len(problem.score)
    text = [
        f"## {problem.title}",
        "",
        f"{problem.n_components} units, {limit}; scored on {n_scored:,} {problem.split} rows of "
        f"{problem.score.shape[1]:,} variables.",
        "",
        markdown_table(*table_of(rows, binary=problem.binary)),
        "",
    ]
    captions = {
        "rate-distortion": "Error over active units"
        + (f" (first {MOST_CURVE_ROWS:,} rows)" if n_scored > MOST_CURVE_ROWS else "")
        + f", seed {rows[0].results[0].seed}",
        "templates": f"Templates, seed {rows[0].results[0].seed}",
    }
    for figure in figures:
        caption = next(text for key, text in captions.items() if key in figure)
        text += [f"![{caption}]({figure})", ""]
    return "\n".join(text)


def _link(document: Path, figure: Path) -> str:
    return os.path.relpath(figure, document.parent).replace(os.sep, "/")
