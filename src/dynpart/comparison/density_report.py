"""Densities of binary sets written down: tables, findings and a document of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dynpart.atomic import atomic_write
from dynpart.comparison.chow_liu import SMOOTHING
from dynpart.comparison.density_models import (
    COLUMNS,
    MIXTURE_CHOSEN,
    MIXTURE_GIVEN,
    MIXTURE_SIZES,
    MIXTURE_SMOOTHING,
    N_EXPERTS,
    OURS_CHOSEN,
    OURS_GIVEN,
    TREE,
)
from dynpart.comparison.density_runs import DensityResult
from dynpart.comparison.density_sets import DENSITY, DENSITY_SETS
from dynpart.comparison.ordered import LEAST_CHANCE
from dynpart.comparison.report import Column, cell, markdown_table
from dynpart.markdown import wrapped

PUBLISHED = "HCLT, published"
SHORT = {
    COLUMNS: "columns",
    TREE: "tree",
    MIXTURE_CHOSEN: "mixture, chosen",
    MIXTURE_GIVEN: f"mixture, {N_EXPERTS}",
    OURS_CHOSEN: "dynpart, chosen",
    OURS_GIVEN: f"dynpart, {N_EXPERTS}",
}
"""Headings of tables."""
OUR_DETAILS = (
    ("experts", "experts", ".0f"),
    ("active", "active", ".1f"),
    ("code_nats", "one code", ".2f"),
)
MIXTURE_DETAILS = (("components", "components", ".0f"), ("smoothing", "smoothing", "g"))
SIZES = ("variables", "training", "validation", "test")
RIVALS = {
    COLUMNS: "independent columns",
    TREE: "the Chow-Liu tree",
    MIXTURE_CHOSEN: "the mixture of the best size",
    MIXTURE_GIVEN: f"the mixture of {N_EXPERTS} components",
    PUBLISHED: "the published circuits",
}
OURS = {
    OURS_CHOSEN: "dynpart with the number of experts chosen",
    OURS_GIVEN: f"dynpart with {N_EXPERTS} experts",
}


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{n:g}" for n in numbers[:-1]) + f" or {numbers[-1]:g}"


INTRODUCTION = f"""# Densities of binary tables

This page compares the log-likelihood of unseen rows on published binary data sets with fixed
training, validation and test rows. It is written by `dynpart compare`. Numbers are mean log P(x) of
the test rows in nats, higher is better; ± is one standard deviation over seeds.

- **columns**: independent columns, {SMOOTHING:g} of a row added for each value.
- **tree**: the Chow-Liu tree, smoothed in the same way.
- **mixture, chosen**: a mixture of Bernoullis by EM, with {_listed(MIXTURE_SIZES)} components,
  each smoothed by {_listed(MIXTURE_SMOOTHING)} rows of the average, chosen by the likelihood of the
  validation rows. Probabilities are kept {LEAST_CHANCE:g} away from 0 and 1, as in our model.
  **mixture, {N_EXPERTS}**: the same with {N_EXPERTS} components.
- **dynpart, chosen**: `DynamicPartitionModel(n_experts="auto")`, **dynpart, {N_EXPERTS}**:
  `DynamicPartitionModel({N_EXPERTS})`, otherwise with defaults. They learn from the training rows
  and do not use the validation rows. Nats are `log_density`, which sums over the codes near the
  chosen one; *one code* is `score`, log P(x given h) + log P(h) of that code alone. Both are lower
  bounds of log P(x). The other models are exact.
- **{PUBLISHED}**: hidden Chow-Liu trees, which are probabilistic circuits. Their numbers are
  taken from published logs and were not computed here.
"""

WHY = """## Why others are ahead where they are

These explanations follow from the form of the models. None of them was measured separately.

- **Columns are independent given the code.** Each column has one owner among the active experts,
  and an expert cannot condition on the values of other columns. The code must
  carry every dependence, and it costs nats under its prior. A Chow-Liu tree conditions a column on
  the value of another column without a code. That helps where single columns determine others.
- **Circuits have more hidden states.** A hidden Chow-Liu tree has a hidden variable with many
  states for every column, and joins these variables in a tree. Most of its parameters are in the
  tables of all pairs of states of neighbouring hidden variables.
- **Circuits sum over all hidden states.** Their log P(x) is exact. Ours is a lower bound: the sum
  runs over the codes near the one found by search.
- **The number of experts is chosen for short descriptions.** `n_experts="auto"` compares sizes
  by log P(x) of held-back training rows. Of the sizes that are about as good as the best, it
  chooses the smallest that describes rows about as shortly by one code each. A larger model may
  have a slightly higher density.
- **A mixture has one component per row.** Its cost is low if rows fall into groups. Several active
  experts cost more, which is worth it if parts combine freely.
"""


def density_tables(
    results: Sequence[DensityResult],
) -> list[tuple[str, list[str], list[list[str]]]]:
    """Tables with a line per set: nats, details of our models, sizes, and seconds.

    Parameters
    ----------
    results : sequence of DensityResult

    Returns
    -------
    list of (title, headings, lines)
    """
    present = [name for name in SHORT if any(r.model == name for r in results)]
    scores = [(name, "nats", SHORT[name], ".2f") for name in present]
    details = [
        (name, score, f"{heading}{suffix}", form)
        for name, suffix in ((OURS_CHOSEN, ", chosen"), (OURS_GIVEN, f", {N_EXPERTS}"))
        for score, heading, form in OUR_DETAILS
        if name in present and not (name == OURS_GIVEN and score == "experts")
    ]
    sizes = [(MIXTURE_CHOSEN, *detail) for detail in MIXTURE_DETAILS if MIXTURE_CHOSEN in present]
    titles, nats, ours, rows, times = [], [], [], [], []
    for name, found in density_by_set(results).items():
        titles.append(DENSITY_SETS[name].title)
        nats.append([*_cells(found, scores), f"{DENSITY_SETS[name].published:.2f}"])
        ours.append(_cells(found, details))
        first = found[0]
        counts = (first.n_features, first.n_train, first.n_valid, first.n_test)
        rows.append([*(f"{n:,}" for n in counts), *_cells(found, sizes)])
        seconds = [[r.seconds for r in found if r.model == model] for model in present]
        times.append([cell(values, Column("", "", ".1f")) for values in seconds])
    shown = [SHORT[name] for name in present]
    tables = [
        ("Test nats per row", [*shown, PUBLISHED], nats),
        ("Ours in detail", [heading for _, _, heading, _ in details], ours),
        ("Sizes of sets and mixtures", [*SIZES, *(heading for _, _, heading, _ in sizes)], rows),
        ("Seconds to learn and to score", shown, times),
    ]
    return [
        (caption, ["set", *headings], [[t, *line] for t, line in zip(titles, lines, strict=True)])
        for caption, headings, lines in tables
        if headings
    ]


def _cells(
    found: Sequence[DensityResult], columns: Sequence[tuple[str, str, str, str]]
) -> list[str]:
    """Cells of one set; columns are model, score, heading and form."""
    return [
        cell([r.scores[score] for r in found if r.model == model], Column(heading, score, form))
        for model, score, heading, form in columns
    ]


def density_findings(results: Sequence[DensityResult]) -> list[str]:
    """Findings in sentences: sets on which ours is ahead of each model, or behind, and by how much.

    Numbers are compared as the table shows them, to two decimals.

    Parameters
    ----------
    results : sequence of DensityResult

    Returns
    -------
    list of str
    """
    sentences = []
    for model, subject in OURS.items():
        mine = _nats(results, model)
        for rival, title in RIVALS.items():
            theirs = _nats(results, rival)
            gaps = {name: mine[name] - theirs[name] for name in mine if name in theirs}
            if gaps:
                sentences.append(_against(subject, title, gaps, mine, theirs))
    chosen, given = (_nats(results, name) for name in OURS)
    gaps = {name: chosen[name] - given[name] for name in chosen if name in given}
    if gaps:
        sentences.append(_against(OURS[OURS_CHOSEN], OURS[OURS_GIVEN], gaps, chosen, given))
    for model, subject in OURS.items():
        one = _nats(results, model, "code_nats")
        near = _nats(results, model)
        if one:
            more = {name: near[name] - one[name] for name in one}
            least, most = min(more, key=more.__getitem__), max(more, key=more.__getitem__)
            extent = f"{more[least]:.2f} nats ({_title(least)})"
            if most != least:
                extent = f"from {extent} to {more[most]:.2f} ({_title(most)})"
            sentences.append(f"For {subject}, nearby codes add {extent} to the chosen code alone.")
    largest = _largest_mixtures(results)
    if largest:
        sentences.append(
            f"Mixtures of {MIXTURE_SIZES[-1]} components, the largest tried, were chosen "
            f"on {', '.join(largest)}; larger ones may do better."
        )
    return sentences


def _largest_mixtures(results: Sequence[DensityResult]) -> list[str]:
    """Titles of sets on which some seed chose the largest mixture that was tried."""
    return [
        DENSITY_SETS[name].title
        for name, found in density_by_set(results).items()
        if any(r.scores.get("components") == MIXTURE_SIZES[-1] for r in found)
    ]


def _against(
    subject: str,
    rival: str,
    gaps: dict[str, float],
    mine: dict[str, float],
    theirs: dict[str, float],
) -> str:
    """A sentence on one other model; differences are in nats, positive where ours is ahead."""
    rounded = {name: round(gap, 2) for name, gap in gaps.items()}
    ahead = sum(gap > 0 for gap in rounded.values())
    level = sum(gap == 0 for gap in rounded.values())
    behind = sorted((name for name in rounded if rounded[name] < 0), key=rounded.__getitem__)
    text = f"{subject[0].upper()}{subject[1:]} is ahead of {rival} on {ahead} of {len(gaps)} sets"
    text += f" and level on {level}" if level else ""
    if not behind:
        return f"{text}; **behind** on none."
    losses = [
        f"{_title(name)} by {-rounded[name]:.2f} ({mine[name]:.2f} against {theirs[name]:.2f})"
        for name in behind
    ]
    return f"{text}; **behind** on {len(behind)}: {', '.join(losses)}."


def write_density_document(path: Path, results: Sequence[DensityResult], note: str = "") -> None:
    """Write the document.

    Parameters
    ----------
    path : Path
        The Markdown file.
    results : sequence of DensityResult
    note : str
        A remark on these results.
    """
    parts = [INTRODUCTION, _how_to_repeat(results)]
    parts += [f"**Note on these results.** {note}\n"] if note else []
    parts += ["## In plain words\n"]
    parts += ["".join(f"- {line}\n" for line in density_findings(results))]
    for title, headings, lines in density_tables(results):
        parts += [f"## {title}\n", markdown_table(headings, lines) + "\n"]
    parts.append(WHY)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(wrapped("\n".join(parts)).encode())


def density_by_set(results: Sequence[DensityResult]) -> dict[str, list[DensityResult]]:
    """Results by the name of their set, in the order of `DENSITY_SETS`."""
    return {
        name: found for name in DENSITY_SETS if (found := [r for r in results if r.data == name])
    }


def _nats(results: Sequence[DensityResult], model: str, score: str = "nats") -> dict[str, float]:
    """Means over seeds by set, to two decimals; published figures too."""
    by_set = density_by_set(results)
    if model == PUBLISHED:
        return {name: DENSITY_SETS[name].published for name in by_set}
    means = {}
    for name, found in by_set.items():
        values = [r.scores[score] for r in found if r.model == model]
        if values:
            means[name] = round(float(np.mean(values)), 2)
    return means


def _title(name: str) -> str:
    return DENSITY_SETS[name].title


def _how_to_repeat(results: Sequence[DensityResult]) -> str:
    names = list(density_by_set(results))
    data = [DENSITY] if len(names) == len(DENSITY_SETS) else [f"{DENSITY}-{name}" for name in names]
    n_seeds = len({r.seed for r in results})
    lines = [f"dynpart compare --data {name} --seeds {n_seeds}" for name in data]
    return "To repeat it:\n\n```\n" + "\n".join(lines) + "\n```\n"
