"""Fixed share against levels of expertise on sequences with known segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynpart.baselines.tracking import (
    SegmentedSequence,
    fixed_share,
    hindsight_share,
    learn_expertise,
    make_segments,
    owner_agreement,
    sequence_losses,
)

ROWS = (1, 3, 10, 30)
N_FEATURES = 200
N_SEGMENTS = 10


@dataclass(frozen=True)
class TrackingResult:
    """Share of variables for which the right expert has the largest weight, with one seed.

    Attributes
    ----------
    method : {"fixed share", "fixed share, hindsight", "levels of expertise"}
    order : {"in order", "shuffled"}
        Whether variables of a segment are neighbours.
    n_rows, seed : int
    right : float
    """

    method: str
    order: str
    n_rows: int
    seed: int
    right: float


def track(seeds: Sequence[int]) -> list[TrackingResult]:
    """Run all methods on sequences drawn with the given seeds.

    Parameters
    ----------
    seeds : sequence of int

    Returns
    -------
    list of TrackingResult
    """
    results = []
    for seed in seeds:
        rng = np.random.RandomState(seed)
        for n_rows in ROWS:
            ordered = make_segments(n_rows, N_FEATURES, n_segments=N_SEGMENTS, random_state=rng)
            for order, sequence in (("in order", ordered), ("shuffled", ordered.shuffled(rng))):
                for method, right in _right(sequence).items():
                    results.append(TrackingResult(method, order, n_rows, seed, right))
    return results


def _right(sequence: SegmentedSequence) -> dict[str, float]:
    """Share of right variables by method; fixed share gets the true switching rate."""
    share = (N_SEGMENTS - 1) / (N_FEATURES - 1)
    losses = len(sequence.X) * sequence_losses(sequence)
    expertise = learn_expertise(sequence.X, sequence.opinions)
    return {
        "fixed share": owner_agreement(sequence, fixed_share(losses, share)),
        "fixed share, hindsight": owner_agreement(sequence, hindsight_share(losses, share)),
        "levels of expertise": owner_agreement(sequence, expertise.T),
    }
