"""Conditioning: weights of earlier values, opinions and codes, learnt in turn from sums over rows.

The ordinary search finds experts without regard to earlier values. Here weights and opinions are
fitted together: rows are encoded, weights and opinions follow the gradient of log P(x | h) for a
few passes over the rows, rows are encoded again, and so on. All steps use sums over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, like, namespace, to_numpy
from dynpart.autoregression import Autoregression, AutoregressionSums
from dynpart.encoding import Encoding
from dynpart.engines import Engine, Experts
from dynpart.families import ColumnMoments
from dynpart.learning import Task, sharpened
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from dynpart.rows import Rows

Array = NDArray[np.float64]

MOST_ROWS = 100_000
"""Maximum number of rows for learning weights; of more rows a random sample is drawn."""
ROUNDS = 4
"""Number of times that rows are encoded."""
PASSES, FEWEST_STEPS = 5, 150
"""Minimum numbers of passes over the rows, and of steps, between two searches for codes."""
BATCHES, FEWEST, MOST = 50, 20, 200
"""Number of batches, and the limits on the rows of a batch."""
RATE = 0.02
"""Size of the first steps, in nats (or standard deviations); it decays to nearly 0."""
MEMORY = (0.9, 0.999)
"""Decay rates of the running means of the gradient and its square (Kingma and Ba, 2015)."""
SPARSITY = 5.0
"""L1 penalty on weights, in nats per unit."""
DEVIATION_PENALTY = 5.0
"""L2 penalty on an expert's own deviation from its previous opinion, in nats."""
EPSILON = 1.0
"""Rows of the population in the averages of real columns (eq. 5 and 6): epsilon."""
SHARPNESS, MANY_ROWS = 3.0, 240
"""Rows per expert from which on these averages follow the hard rule more closely."""
TINY = 1e-10


@dataclass
class Moving:
    """An array that follows a gradient with a step size per entry (Adam)."""

    value: Any
    mean: Any = 0.0
    square: Any = 0.0
    n_steps: int = 0

    def step(self, gradient: Any, rate: float, sparsity: float = 0.0) -> None:
        """A gradient ascent step, followed by soft thresholding with the penalty `sparsity`."""
        xp = namespace(gradient)
        self.n_steps += 1
        first, second = MEMORY
        self.mean = first * self.mean + (1 - first) * gradient
        self.square = second * self.square + (1 - second) * gradient * gradient
        size = rate / (xp.sqrt(self.square / (1 - second**self.n_steps)) + TINY)
        moved = self.value + size * self.mean / (1 - first**self.n_steps)
        if sparsity:
            moved = xp.sign(moved) * xp.clip(abs(moved) - size * sparsity, 0.0, None)
        self.value = moved


@dataclass
class Conditional:
    """The learnt numbers: weights of earlier values, and the opinions next to them.

    A binary expert with log-odds theta predicts ``slope * theta + bias + own``, with slopes and
    biases shared by all experts. The opinion of a real expert is an average of the residuals.

    Attributes
    ----------
    before : Experts
        The experts found by the search.
    eta : array of shape (n_statistics, n_experts, n_features)
        Opinions of real experts.
    centre, scale : array of shape (n_features,)
        Values are measured from the centre in these units.
    earlier : array of shape (n_features, n_features)
        1 where a weight may be, else 0.
    weights : Moving, of shape (n_features, n_features)
    slope, bias : Moving, of shape (n_features,)
    own : Moving, of shape (n_experts, n_features)
    """

    before: Experts
    eta: Any
    centre: Any
    scale: Any
    earlier: Any
    weights: Moving
    slope: Moving
    bias: Moving
    own: Moving

    @classmethod
    def of(cls, experts: Experts, earlier: Any, moments: ColumnMoments) -> Conditional:
        """The initial state, with all weights zero."""
        xp, eta = namespace(experts.eta), experts.eta
        none = xp.zeros_like(eta[0, 0])
        scale = none + 1
        if experts.family.is_normal:
            deviation = xp.sqrt(as_float64(moments.variance))
            scale = xp.where(deviation > 0, deviation, scale)
        earlier = as_float64(like(earlier, eta))
        moving = Moving(xp.zeros_like(earlier)), Moving(none + 1), Moving(none)
        own = Moving(xp.zeros_like(eta[0]))
        return cls(experts, eta, as_float64(moments.mean), scale, earlier, *moving, own)

    def experts(self) -> Experts:
        """The experts with the current numbers."""
        weights = self.weights.value * self.scale[:, None] / self.scale
        given = Autoregression(weights, self.centre)
        return replace(self.before, eta=self._opinions(), autoregression=given)

    def _opinions(self) -> Any:
        family = self.before.family
        if family.is_normal:
            return self.eta
        theta = self.before.natural[0][0]
        log_odds = self.slope.value * theta + self.bias.value + self.own.value
        xp = namespace(log_odds)
        return family.constrain(xp.exp(-xp.logaddexp(-log_odds, xp.zeros_like(log_odds)))[None])

    def follow(self, sums: AutoregressionSums, rate: float, n_rows: float) -> None:
        """One step along the gradient of a batch; penalties are divided by `n_rows`."""
        by_weight = sums.weights * self.earlier * self.scale[:, None] / self.scale
        self.weights.step(by_weight / sums.n_rows, rate, SPARSITY / n_rows)
        if self.before.family.is_normal:
            return
        gradient = sums.opinions / sums.n_rows
        self.slope.step((gradient * self.before.natural[0][0]).sum(axis=0), rate)
        self.bias.step(gradient.sum(axis=0), rate)
        self.own.step(gradient - DEVIATION_PENALTY / n_rows * self.own.value, rate)

    def average(self, engine: Engine, rows: Rows, codes: Any, sharpness: float) -> None:
        """Opinions of real experts: averages of the residuals after earlier values."""
        now, family = self.experts(), self.before.family
        if not family.is_normal or now.autoregression is None:
            return
        numbers = family.decode(rows.values)
        left = replace(rows, values=numbers - now.autoregression.offsets(numbers))
        sharp = sharpened(replace(now, autoregression=None), sharpness)
        sums = engine.responsibility_sums(left, sharp, codes)
        population = sums.statistics.sum(axis=1) / sums.weight.sum(axis=0)
        observed = sums.weight, sums.statistics
        eta = family.update(*observed, population, EPSILON)
        self.eta, _ = family.shrunk(eta, *observed, *observed, population, EPSILON)


def condition(
    task: Task,
    experts: Experts,
    prior: CodePrior,
    encoding: Encoding,
    earlier: NDArray[np.bool_],
    seed: int,
    report: Callable[[str], None] | None = None,
) -> tuple[Experts, CodePrior]:
    """Fit weights of earlier values, opinions and codes in turn.

    Parameters
    ----------
    task : Task
        The task that they were learnt from, without gaps.
    experts : Experts
        Binary or real.
    prior : CodePrior
        Of their codes.
    encoding : Encoding
        How rows are encoded.
    earlier : ndarray of shape (n_features, n_features)
        Which earlier columns each column may depend on.
    seed : int
    report : callable, default=None
        Called with a line about each round.

    Returns
    -------
    experts : Experts
        With an autoregression.
    prior : CodePrior
        The prior of the new codes of these rows.
    """
    rng, engine = np.random.default_rng(seed), task.engine
    rows = task.draw(rng, MOST_ROWS, replace=False)
    n_rows = task.count(rows)
    rows = engine.take(engine.take(rows, np.arange(n_rows)), rng.permutation(n_rows))
    weight = float(n_rows if rows.weight is None else rows.weight.sum())
    learnt = Conditional.of(experts, earlier, task.moments)
    sharpness = SHARPNESS if weight > MANY_ROWS * experts.n_experts else 1.0
    size = min(max(n_rows // BATCHES, FEWEST), MOST)
    starts = np.arange(0, n_rows, size)
    n_passes = max(PASSES, -(-FEWEST_STEPS // len(starts)))
    rates = _falling(RATE, ROUNDS * n_passes * len(starts))
    shape, now = experts.log2_expertise.shape, experts
    for number in range(ROUNDS + 1):
        codes = pursue(engine, rows, now, encoding.rule(shape, prior))
        prior = encoding.fitted_prior(codes, experts.n_experts)
        if report is not None:
            report(_round_in_words(number, codes, prior))
        if number == ROUNDS:
            break
        for _ in range(n_passes):
            for start in rng.permutation(starts):
                batch = slice(int(start), int(min(start + size, n_rows)))
                sums = engine.autoregression_sums(rows[batch], learnt.experts(), codes[batch])
                learnt.follow(sums, next(rates), weight)
            learnt.average(engine, rows, codes, sharpness)
        now = learnt.experts()
    return now, prior


def _falling(rate: float, n_steps: int) -> Iterator[float]:
    """Decreasing sizes of `n_steps` steps, the last one close to 0."""
    return (rate * (1 - step / n_steps) for step in range(n_steps))


def _round_in_words(number: int, codes: Any, prior: CodePrior) -> str:
    """A line about the codes of a round."""
    summary = codes.summary(prior.n_experts).to_numpy()
    log_prior = prior.log_prob(to_numpy(codes.active(prior.n_experts)))
    if codes.weight is None:
        code_nats = float(np.mean(log_prior))
    else:
        code_nats = float(np.average(log_prior, weights=to_numpy(codes.weight)))
    joint, active = summary.log_likelihood / summary.n_rows + code_nats, summary.usage.sum()
    return (
        f"round {number} of {ROUNDS} with earlier values: {-joint / np.log(2):.3f} bits a row; "
        f"{active / summary.n_rows:.2f} active"
    )
