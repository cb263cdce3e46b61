"""The document: the whole comparison as Markdown, every number with its seeds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynpart.comparison.contestants import CONTESTANTS
from dynpart.comparison.figures import plot_all_templates, plot_rate_distortion
from dynpart.comparison.problems import Problem
from dynpart.comparison.report import (
    REAL,
    TOLD,
    Row,
    findings,
    markdown_table,
    table_of,
    tracking_table,
)
from dynpart.comparison.runner import MOST_CODED_ROWS, MOST_CURVE_ROWS, Result, load_templates
from dynpart.comparison.tracking import N_FEATURES, N_SEGMENTS, TrackingResult
from dynpart.families._bernoulli import SURE

INTRODUCTION = f"""# Against everything the paper names

Written by `dynpart compare`; numbers are means over the listed seeds, ± one standard deviation.
All models of a table have the same number of units, learn from the same training rows (fewer
where the column *rows* says so) and are scored on the same rows. Ours is used with its defaults
but for the limit on active units and the iterations (60 on bars and on more than five pairs).
No model gets the scored rows while it learns or tunes itself, except on pairs, where all rows are
both learnt from and scored. The fixed settings, ours and those of the others, were found with
figures of these data sets in sight.

Ours and its closest rival, the log-odds dictionary, are also encoded with more time: from eight
first units, ours with two swap passes; and with codes chosen for reconstruction, for which no
opinion counts as surer than {SURE:.0%} (`criterion="reconstruction"`). The row *patiently learnt*
searches as long in the last iterations of learning.

- **active, error**: mean number of active units; share of wrong pixels after thresholding at
  1/2 (root mean squared error on gray data). Where a table has a limit on active units, every
  code obeys it: models that have another code of their own (Boltzmann machine, autoencoders)
  are encoded by greedy likelihood pursuit with their weights, and *own active / own error* tell
  what their own code achieves.
- **log P(x given h)**: nats per row, every model's reconstruction taken as Bernoulli means
  (kept 0.001 away from 0 and 1) or Gaussian means with one variance.
- **code bits**: bits for the code (independent bits, or one choice per group where exactly one
  unit of a group is active; frequencies from the codes of up to {MOST_CODED_ROWS:,} training
  rows) and for the row given the code. A bound from above on -log2 P(x), only for binary codes.
- **factors found, all found**: true factors with a unit of their own, and seeds in which all
  have one. Pairs: the template is within 0.1 on the pair and within 0.2 of 1/2 elsewhere. Bars:
  our experts' pixels, where they ever are the owner, are exactly the bar; for models without
  owners it is enough that some threshold cuts the bar out of the template.
- **told**: how much of a factor the best single unit tells (share of its entropy), mean over
  factors; **selective**: share of what a unit tells that belongs to its best factor.
- **accuracy**: logistic regression on the codes of up to {MOST_CODED_ROWS:,} training rows.
- **stability**: correlation of matched templates between seeds.
- Times are wall-clock seconds of one process and depend on the machine; only their order of
  magnitude is meant.

The others had less work put into them than ours, so take their numbers as what they reach
at least. Maximal causes, max-min rule, equal mixture and the
log-odds dictionary use the same greedy likelihood pursuit with their own composition, and EM or
damped Newton updates on batches of rows; the max-min rule is our reading of its description
(strongest vote for plus strongest vote against, in log-odds). The Boltzmann machine is
scikit-learn's, its learning rate tuned on held-back training rows; autoencoders have one
hidden layer of sigmoid units and learn by Adam; the real-valued dictionary is scikit-learn's, its
penalty tuned to the wanted number of atoms, rows encoded by orthogonal matching pursuit.

{REAL} real-valued codes, which say more per unit than binary ones. {TOLD} is told the partition
(runs of neighbouring variables, which on pairs are the true pairs; a grid on images for the
fixed partition).
"""

TRACKING_INTRODUCTION = f"""## Tracking the best expert

Experts with given opinions, {N_FEATURES} variables in {N_SEGMENTS} segments, in each of which
one expert of five is right. Fixed share (Herbster and Warmuth, 1998) reads the variables in
order and is told the true rate of switching; with hindsight it reads them from both ends.
Levels of expertise are learnt by our default's update with all experts active; they see no
order and share nothing between neighbours. Given is the share of variables (%) for which the most
believed expert expects the right value. With few rows the levels of expertise are misled where
most experts agree: the smoothed composition prefers a mixture that matches the few observed
values to the single best expert.
"""


def write_document(
    path: Path,
    folder: Path,
    sections: Sequence[tuple[Problem, Sequence[Row]]],
    tracking: Sequence[TrackingResult] = (),
    note: str = "",
) -> None:
    """Write the document and its figures.

    Parameters
    ----------
    path : Path
        The Markdown file.
    folder : Path
        Where results and templates are kept and figures are written.
    sections : sequence of (Problem, sequence of Row)
    tracking : sequence of TrackingResult
    note : str
        A remark on how these results came about.
    """
    remark = [f"**Note on these results.** {note}\n"] if note else []
    parts = [INTRODUCTION, *remark, _how_to_repeat(sections, bool(tracking)), _summary(sections)]
    for problem, rows in sections:
        figures = draw(folder, problem, rows)
        parts.append(_section(problem, rows, [_link(path, figure) for figure in figures]))
    if tracking:
        seeds = sorted({r.seed for r in tracking})
        table = markdown_table(*tracking_table(tracking))
        parts.append(f"{TRACKING_INTRODUCTION}\n{table}\n\n{len(seeds)} seeds.\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts))


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
        # Models that differ in their codes alone have the same templates.
        if not any(np.array_equal(values, others) for others in templates.values()):
            templates[_title(first)] = values
    paths.append(folder / f"{problem.name}-templates.png")
    plot_all_templates(problem, templates).savefig(paths[-1], bbox_inches="tight")
    return paths


def _title(result: Result) -> str:
    entry = CONTESTANTS.get(result.contestant)
    return entry.title if entry else result.contestant


def _how_to_repeat(sections: Sequence[tuple[Problem, Sequence[Row]]], tracking: bool) -> str:
    lines = []
    for problem, rows in sections:
        n_seeds = max(len(row.results) for row in rows)
        lines.append(f"dynpart compare --data {problem.name} --seeds {n_seeds}")
    lines += ["dynpart compare --data tracking"] * tracking
    return "To repeat it:\n\n```\n" + "\n".join(lines) + "\n```\n"


def _summary(sections: Sequence[tuple[Problem, Sequence[Row]]]) -> str:
    lines = ["## In plain words", ""]
    for problem, rows in sections:
        lines.append(f"- **{problem.title}.** " + " ".join(findings(problem, rows)))
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
