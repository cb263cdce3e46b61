"""The search for a number of experts: several sizes, compared on held-back rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dynpart.encoding import Encoding
from dynpart.learning import Plan, Task, splits_of
from dynpart.selection._choice import Selection, chosen, compared
from dynpart.selection._ladder import Judge

Array = NDArray[np.float64]

MOST = 512
"""Maximum number of experts."""
ROWS_PER_EXPERT = 2
"""Minimum number of training rows per expert."""


def select_size(
    task: Task,
    plan: Plan,
    encoding: Encoding,
    *,
    seed: int,
    report: Callable[[str], None] | None = None,
) -> Selection:
    """Choose the number of experts by the description length of held-back rows.

    A model with many experts is learnt from the other rows. Then the experts with the smallest
    losses are dropped, step by step. Each size goes through the last part of the plan again, and
    its description of the held-back rows is computed. If no expert can be dropped without loss,
    twice as many are learnt. The smallest of equally good sizes is chosen. If mixtures, with one
    expert per row, have clearly shorter descriptions, the choice is among their sizes.

    Parameters
    ----------
    task : Task
        All rows; its number of experts is ignored.
    plan : Plan
    encoding : Encoding
        How rows will be encoded.
    seed : int
    report : callable, default=None
        Called with a text about each size that was tried.

    Returns
    -------
    Selection

    Raises
    ------
    ValueError
        If there is only one row.
    """
    splits = splits_of(task, np.random.default_rng(seed))
    least = max(encoding.n_active or 1, encoding.max_active or 1)
    most = max(least, min(MOST, min(split.task.n_rows for split in splits) // ROWS_PER_EXPERT))
    weight = np.concatenate([split.weight for split in splits])
    judges = [Judge(split, plan, encoding, seed + turn) for turn, split in enumerate(splits)]
    singles = judges[0].mixtures(most, report)
    curve = judges[0].search(least, most, singles, report)
    one_each = judges[0].prefers(singles)
    if one_each:
        curve = {size: known for size, known in curve.items() if size == 1} | singles
    for judge in judges[1:]:
        sizes = sorted(curve, reverse=True)
        found = judge.follow_mixtures(sizes) if one_each else judge.follow(sizes)
        curve = {size: scores.with_others(found[size]) for size, scores in curve.items()}
    tried = compared(curve, weight, len(splits))
    n_experts = chosen(tried, task.log_scales)
    columns = _mean([judge.columns for judge in judges], weight)
    mixture = None
    if encoding.n_active is None or encoding.n_active == 1:
        mixture = _mean([judge.mixture(n_experts) for judge in judges], weight)
    return Selection(
        n_experts,
        tried,
        columns,
        mixture,
        splits[0].task.n_rows,
        sum(split.n_held for split in splits),
        max(max(curve), *(judge.n_largest for judge in judges)),
        len(splits),
    )


def _mean(parts: list[Array], weight: Array) -> float:
    return float(np.average(np.concatenate(parts), weights=weight))
