"""The report on autoregressive models: table, findings, samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dynpart.atomic import atomic_write
from dynpart.comparison.ordered import (
    ORDERED_CONTESTANTS,
    ORDERED_PROBLEMS,
    OrderedResult,
    picture_of,
)
from dynpart.comparison.report import Column, cell, markdown_table
from dynpart.markdown import wrapped

INTRODUCTION = """\
Mean log P(x) of test rows in nats, higher is better; all models learn from the same binary rows.

- **ours, autoregressive**: `autoregressive="all"`; predictions depend on the earlier pixels.
  *one code* is `score`, log P(x given h) + log P(h) of each row's code; *nearby codes* is
  `log_density`, which sums over codes that a few changes lead to. Both are lower bounds.
  **one expert a row**: the same with `max_active=1`, a mixture of networks that share weights.
  **ours**: without earlier pixels.
- **fully visible sigmoid network**: a logistic regression of each pixel on the earlier pixels.
- **MADE**: the same with a layer of hidden units, one order of the pixels. Both networks learn by
  Adam in torch and stop when the score of held-back rows (10%) no longer improves.
- **mixture of Bernoullis**: as many components as ours has experts, by EM.
"""


def ordered_table(results: Sequence[OrderedResult]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of one problem: a line per model."""
    nats, active, seconds = (Column("", "", form) for form in (".2f", ".1f", ".0f"))
    headings = ["model", "nats (ours: one code)", "nearby codes", "active", "fit s"]
    lines = []
    for name in dict.fromkeys(r.contestant for r in results):
        chosen = [r for r in results if r.contestant == name]

        def text(score: str, form: Column, chosen: Sequence[OrderedResult] = chosen) -> str:
            return cell([r.scores[score] for r in chosen if score in r.scores], form)

        times = cell([r.seconds for r in chosen], seconds)
        scores = text("nats", nats), text("nearby", nats), text("active", active)
        lines.append([chosen[0].title, *scores, times])
    return headings, lines


def by_problem(results: Sequence[OrderedResult]) -> dict[str, list[OrderedResult]]:
    """Results by the title of their problem."""
    return {
        problem.title: found
        for problem in ORDERED_PROBLEMS.values()
        if (found := [r for r in results if r.problem == problem.name])
    }


def ordered_section(
    results: Sequence[OrderedResult], link: Callable[[Path], str], folder: Path
) -> str:
    """The section of the document."""
    text = ["## Autoregressive models\n", INTRODUCTION]
    for title, found in by_problem(results).items():
        text += [f"### {title}, autoregressive\n", *_of_problem(found, link, folder)]
    return "\n".join(text)


def _of_problem(
    found: Sequence[OrderedResult], link: Callable[[Path], str], folder: Path
) -> list[str]:
    """Sizes, findings, table and samples of one problem."""
    problem = ORDERED_PROBLEMS[found[0].problem]
    text = [
        f"{problem.n_experts} experts or components, at most {problem.max_active} active; "
        f"{problem.n_hidden} hidden units.\n",
        *(f"{sentence}\n" for sentence in ordered_findings(found)),
        markdown_table(*ordered_table(found)) + "\n",
    ]
    for result in found:
        figure = picture_of(folder, result)
        if result.seed == found[0].seed and figure.exists():
            text.append(f"Samples, {result.title}:\n\n![{result.title}]({link(figure)})\n")
    return text


def ordered_findings(results: Sequence[OrderedResult]) -> list[str]:
    """Findings on one problem, in sentences."""
    best = {}
    for name in dict.fromkeys(r.contestant for r in results):
        chosen = [r for r in results if r.contestant == name]
        best[name] = float(np.mean([r.scores.get("nearby", r.scores["nats"]) for r in chosen]))
    ours = best.get("dynamic-autoregressive")
    if ours is None:
        return []
    sentences = []
    if "dynamic-plain" in best:
        sentences.append(
            f"Earlier pixels take ours from {-best['dynamic-plain']:.2f} to {-ours:.2f} nats a row."
        )
    rivals = {
        name: -best[name]
        for name in ("visible-network", "made", "bernoulli-mixture")
        if name in best
    }
    if rivals:
        others = [f"{ORDERED_CONTESTANTS[name].title} {nats:.2f}" for name, nats in rivals.items()]
        sentences.append(f"Ours takes {-ours:.2f} nats a row, {', '.join(others)}.")
    return sentences


def write_ordered_document(
    path: Path, folder: Path, results: Sequence[OrderedResult], note: str = ""
) -> None:
    """Write a document on these results alone.

    Parameters
    ----------
    path : Path
        The Markdown file.
    folder : Path
        Folder of figures.
    results : sequence of OrderedResult
    note : str
        A remark on the results.
    """

    def link(figure: Path) -> str:
        return os.path.relpath(figure, path.parent).replace(os.sep, "/")

    text = ["# Autoregressive models\n", "Written by `dynpart compare`; do not edit.\n"]
    text += [INTRODUCTION]
    if note:
        text.append(f"**Note on these results.** {note}\n")
    again = [
        f"dynpart compare --data {found[0].problem} --seeds {len({r.seed for r in found})}"
        for found in by_problem(results).values()
    ]
    text.append("To repeat it:\n\n```\n" + "\n".join(again) + "\n```\n")
    for title, found in by_problem(results).items():
        text += [f"## {title}\n", *_of_problem(found, link, folder)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(wrapped("\n".join(text)).encode())
