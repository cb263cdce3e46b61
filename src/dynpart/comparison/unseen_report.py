"""Unseen rows of tables written down: the table, its findings and its section."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynpart.comparison.densities import DENSITY_METHODS, MOST_ITERATIONS, N_STARTS, OURS, TOLERANCE
from dynpart.comparison.gaps import MOST_CATEGORIES
from dynpart.comparison.report import Column, cell, markdown_table
from dynpart.comparison.unseen import N_FOLDS, SEED, UnseenResult

INTRODUCTION = f"""## Unseen rows of tables

Mean log-likelihood of a test row in nats, higher is better, by {N_FOLDS}-fold cross-validation
(seed {SEED}). The table shows mean and standard deviation over folds. All methods get the same
rows, gaps and kinds: columns of text and numbers with at most {MOST_CATEGORIES} different values
are categories, with all levels of the table known in advance; other numbers are real.

- **independent columns**: our model with one expert.
- **ours**: `log_density` of `DynamicPartitionModel` with its defaults, a lower bound of log P(x)
  that sums over the codes near the chosen one. **ours, one code**: `score_samples`,
  log P(x given h) + log P(h) of the chosen code alone. **active**: number of
  active experts of that code.
- **StepMix**: latent classes (`pip install stepmix`), as many as ours has experts, of
  `categorical_nan` and `gaussian_diag_nan` columns, the best of {N_STARTS} starts,
  `abs_tol={TOLERANCE:g}` and at most {MOST_ITERATIONS} iterations; its exact log-likelihood. It
  does not smooth: a level that did not occur in any class costs a row 35 nats. **StepMix,
  smoothed**: the same classes after one row with the level frequencies of the training rows has
  been added to each. StepMix has no such option; the column shows how much of the difference is due
  to smoothing. If no start reached a finite likelihood, there is *no value*, or a mean over fewer
  folds.
"""


def unseen_table(results: Sequence[UnseenResult]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines: a line per table and number of experts, a column per method.

    Parameters
    ----------
    results : sequence of UnseenResult

    Returns
    -------
    headings : list of str
    lines : list of list of str
    """
    present = {r.method for r in results}
    headings = ["table", "experts"]
    for name in DENSITY_METHODS:
        if name in present:
            headings.append(DENSITY_METHODS[name].title)
            headings += ["ours, one code", "active"] if name == OURS else []
    lines = []
    for mine in unseen_by_table(results):
        for n_experts in _numbers(mine):
            line = [mine[0].title, str(n_experts)]
            for name in DENSITY_METHODS:
                if name in present:
                    runs = _runs(mine, name, n_experts)
                    line.append(_cell(runs, "nats", ".2f"))
                    if name == OURS:
                        line += [_cell(runs, "code_nats", ".2f"), _cell(runs, "active", ".1f")]
            lines.append(line)
    return headings, lines


def unseen_findings(results: Sequence[UnseenResult]) -> list[str]:
    """Findings on one table in sentences: methods with a higher log-likelihood than ours.

    Parameters
    ----------
    results : sequence of UnseenResult
        Of one table.

    Returns
    -------
    list of str
    """
    sentences = []
    for n_experts in _numbers(results):
        ours = _nats(_runs(results, OURS, n_experts))
        if not ours:
            sentences.append(f"With {n_experts} experts our model did not take part.")
            continue
        ahead, behind = [], []
        for name, method in DENSITY_METHODS.items():
            theirs = _nats(_runs(results, name, n_experts))
            both = sorted(set(ours) & set(theirs))
            if name == OURS or not both:
                continue
            mean = np.mean([theirs[fold] for fold in both])
            if mean > np.mean([ours[fold] for fold in both]):
                wins = sum(theirs[fold] > ours[fold] for fold in both)
                ahead.append(f"{method.title} ({mean:.2f}, in {wins} of {len(both)} folds)")
            else:
                wins = sum(ours[fold] > theirs[fold] for fold in both)
                behind.append(f"{method.title} ({mean:.2f}, in {wins} of {len(both)} folds)")
        mine = f"With {n_experts} experts ours has {np.mean(list(ours.values())):.2f} nats per row"
        parts = [f"**ahead of ours**: {', '.join(ahead)}"] if ahead else []
        parts += [f"ahead of {', '.join(behind)}"] if behind else []
        sentences.append("; ".join([mine, *parts]) + ".")
    return sentences


def unseen_section(results: Sequence[UnseenResult]) -> str:
    """The section of the document."""
    sizes = [
        f"{of[0].title} has {of[0].n_rows:,} rows of {of[0].n_categorical} categories"
        + (f" and {of[0].n_real} real columns" if of[0].n_real else "")
        for of in unseen_by_table(results)
    ]
    return f"{INTRODUCTION}\n{markdown_table(*unseen_table(results))}\n\n{'; '.join(sizes)}.\n"


def unseen_by_table(results: Sequence[UnseenResult]) -> list[list[UnseenResult]]:
    """Results, a list per table."""
    names = dict.fromkeys(r.table for r in results)
    return [[r for r in results if r.table == name] for name in names]


def _numbers(results: Sequence[UnseenResult]) -> list[int]:
    """Numbers of experts, without the 1 of independent columns."""
    return sorted({r.n_experts for r in results if not DENSITY_METHODS[r.method].alone})


def _runs(results: Sequence[UnseenResult], method: str, n_experts: int) -> list[UnseenResult]:
    alone = DENSITY_METHODS[method].alone
    return [r for r in results if r.method == method and (alone or r.n_experts == n_experts)]


def _nats(runs: Sequence[UnseenResult]) -> dict[int, float]:
    return {r.fold: r.scores["nats"] for r in runs if "nats" in r.scores}


def _cell(runs: Sequence[UnseenResult], score: str, form: str) -> str:
    """Mean and spread over folds, with the number of folds if some have no value."""
    values = [r.scores[score] for r in runs if score in r.scores]
    if runs and not values:
        return "no value"
    folds = f" ({len(values)} of {len(runs)} folds)" if len(values) < len(runs) else ""
    return cell(values, Column("", score, form)) + folds
