"""Tracking the best expert (Herbster and Warmuth, 1998) against levels of expertise.

Experts and their opinions are given; the task is to find the best expert for each variable. Fixed
share reads the variables in order and needs neighbours to share an owner; levels of expertise do
not depend on the order of the variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynpart.composition import expertise_ranks
from dynpart.engines import Codes, Experts, make_engine
from dynpart.families import Bernoulli
from dynpart.rows import Rows

Array = NDArray[np.float64]

CERTAINTY = 2.0  # standard errors at which expertise changes by the full factor of two


def fixed_share(losses: Array, share: float, *, rate: float = 1.0) -> Array:
    """Weights of the fixed-share algorithm before each round.

    After each round an expert's weight is multiplied by ``exp(-rate * loss)``; then each expert
    gives the share `share` of its weight to the others in equal parts.

    Parameters
    ----------
    losses : ndarray of shape (n_rounds, n_experts)
        Loss of each expert in each round.
    share : float
        Between 0 (a single best expert) and 1.
    rate : float, default=1.0
        Learning rate: the factor of the losses in the exponent.

    Returns
    -------
    weights : ndarray of shape (n_rounds, n_experts)
        Each row sums to one.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.baselines import fixed_share
    >>> fixed_share(np.array([[0.0, 9.0], [0.0, 9.0]]), share=0.1).round(2)
    array([[0.5, 0.5],
           [0.9, 0.1]])
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie between 0 and 1, got {share!r}")
    n_rounds, n_experts = losses.shape
    weights = np.empty((n_rounds, n_experts))
    current = np.full(n_experts, 1 / n_experts)
    for t in range(n_rounds):
        weights[t] = current
        kept = current * np.exp(-rate * (losses[t] - losses[t].min()))
        kept /= kept.sum()
        others = (kept.sum() - kept) / max(1, n_experts - 1)
        current = (1 - share) * kept + share * others
    return weights


def hindsight_share(losses: Array, share: float, *, rate: float = 1.0) -> Array:
    """Fixed share with hindsight: weights from the rounds before, the round itself and those after.

    Parameters
    ----------
    losses : ndarray of shape (n_rounds, n_experts)
        Loss of each expert in each round.
    share : float
        Between 0 (a single best expert) and 1, as in `fixed_share`.
    rate : float, default=1.0
        Learning rate: the factor of the losses in the exponent.

    Returns
    -------
    weights : ndarray of shape (n_rounds, n_experts)
        Each row sums to one.
    """
    before = fixed_share(losses, share, rate=rate)
    after = fixed_share(losses[::-1], share, rate=rate)[::-1]
    likelihood = np.exp(-rate * (losses - losses.min(axis=1, keepdims=True)))
    both = before * likelihood * after
    return both / both.sum(axis=1, keepdims=True)


def learn_expertise(X: NDArray, opinions: Array, *, n_iter: int = 15) -> Array:
    """Levels of expertise of given experts, all active in every row.

    The update of the default learner: expertise moves by up to a factor of two with the evidence,
    the gradient's sum over rows in units of its own standard error.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Binary rows.
    opinions : ndarray of shape (n_experts, n_features)
        Probability of a 1, by expert and variable.
    n_iter : int, default=15
        Number of updates.

    Returns
    -------
    log2_expertise : ndarray of shape (n_experts, n_features)
        Logarithms to base 2 of the levels of expertise.
    """
    engine = make_engine("reference")
    eta = Bernoulli().constrain(opinions[None])
    experts = Experts(Bernoulli(), eta, np.zeros(opinions.shape))
    everyone = np.tile(np.arange(len(opinions), dtype=np.int32), (len(X), 1))
    codes, rows = Codes(everyone, np.zeros(len(X))), Rows.of(X, experts.family)
    for _ in range(n_iter):
        evidence = engine.gradient_sums(rows, experts, codes)
        z = evidence.first / np.sqrt(np.maximum(evidence.second, 1e-12))
        moves = np.clip(z / CERTAINTY, -1, 1)
        experts = Experts(experts.family, eta, experts.log2_expertise + moves)
    return experts.log2_expertise


@dataclass(frozen=True)
class SegmentedSequence:
    """Rows whose variables come in segments, each owned by one of the given experts.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Binary rows.
    opinions : ndarray of shape (n_experts, n_features)
        Probability of a 1, by expert and variable.
    owner : ndarray of shape (n_features,)
        Expert that is right about each variable.
    """

    X: NDArray[np.uint8]
    opinions: Array
    owner: NDArray[np.intp]

    def shuffled(self, rng: np.random.RandomState) -> SegmentedSequence:
        """The same with the variables in random order.

        Parameters
        ----------
        rng : RandomState
            Generator of the order.

        Returns
        -------
        SegmentedSequence
            A copy; rows, opinions and owners have the new order.
        """
        order = rng.permutation(len(self.owner))
        return SegmentedSequence(self.X[:, order], self.opinions[:, order], self.owner[order])


def make_segments(
    n_rows: int = 20,
    n_features: int = 200,
    n_experts: int = 5,
    n_segments: int = 10,
    *,
    confidence: float = 0.8,
    random_state: int | np.random.RandomState | None = None,
) -> SegmentedSequence:
    """Draw a sequence with known segments.

    Every expert predicts every variable with the given confidence, for or against at random;
    only the owner of a segment is right about it.

    Parameters
    ----------
    n_rows : int, default=20
        Number of rows.
    n_features : int, default=200
        Number of variables.
    n_experts : int, default=5
        Number of experts.
    n_segments : int, default=10
        Number of segments; neighbouring segments have different owners.
    confidence : float, default=0.8
        Probability an expert gives to the value it expects.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Returns
    -------
    SegmentedSequence
        Rows, opinions of the experts, and the true owner of every variable.
    """
    rng = np.random.RandomState(random_state) if isinstance(random_state, int) else random_state
    rng = np.random.RandomState() if rng is None else rng
    expects = rng.randint(2, size=(n_experts, n_features))
    opinions = np.where(expects == 1, confidence, 1 - confidence)
    cuts = np.sort(rng.choice(np.arange(1, n_features), n_segments - 1, replace=False))
    of_segment = np.empty(n_segments, dtype=np.intp)
    of_segment[0] = rng.randint(n_experts)
    for s in range(1, n_segments):
        of_segment[s] = (of_segment[s - 1] + rng.randint(1, n_experts)) % n_experts
    owner = of_segment[np.searchsorted(cuts, np.arange(n_features), side="right")]
    chance = opinions[owner, np.arange(n_features)]
    X = (rng.uniform(size=(n_rows, n_features)) < chance).astype(np.uint8)
    return SegmentedSequence(X, opinions, owner)


def owner_agreement(sequence: SegmentedSequence, weights: Array) -> float:
    """Share of variables whose expert with the largest weight predicts as the true owner does.

    Parameters
    ----------
    sequence : SegmentedSequence
        Rows with their true owners.
    weights : ndarray of shape (n_features, n_experts)
        Weight of each expert, in any units.

    Returns
    -------
    float
        Between 0 and 1.
    """
    columns = np.arange(len(sequence.owner))
    ranks = expertise_ranks(np.ascontiguousarray(weights.T))
    chosen = ranks.argmin(axis=0)
    predicted = sequence.opinions[chosen, columns]
    return float(np.isclose(predicted, sequence.opinions[sequence.owner, columns]).mean())


def sequence_losses(sequence: SegmentedSequence, n_rows: int | None = None) -> Array:
    """Mean log loss of every expert on every variable.

    Parameters
    ----------
    sequence : SegmentedSequence
        Rows with the opinions of all experts.
    n_rows : int, default=None
        Number of rows to average over, from the first; all rows if None.

    Returns
    -------
    losses : ndarray of shape (n_features, n_experts)
        Negative log-probabilities in nats.
    """
    X = sequence.X[:n_rows].astype(np.float64)[:, None]
    mu = sequence.opinions
    return -(X * np.log(mu) + (1 - X) * np.log1p(-mu)).mean(axis=0).T
