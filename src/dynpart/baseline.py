"""The baseline: log-likelihood of rows under independent columns, and under the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_tensor, like
from dynpart.encoding import Encoding, log_likelihood
from dynpart.engines import Engine, Experts, PursuitRule
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue

ENOUGH_ROWS = 10_000
"""Maximum number of rows that are encoded again."""


@dataclass(frozen=True)
class Baseline:
    """Log-likelihoods of training rows under a model and under independent columns.

    Attributes
    ----------
    nats : float
        Mean log P(x | h) + log P(h) of training rows, in nats per row.
    columns : float
        Mean log-likelihood of the same rows under independent columns.
    n_rows : int
        Total weight of the rows: all training rows, or some thousands of them.
    """

    nats: float
    columns: float
    n_rows: int

    @property
    def saved_bits(self) -> float:
        """Bits per row that the model saves; negative if independent columns are better."""
        return (self.nats - self.columns) / math.log(2)


def beside_columns(
    engine: Engine,
    rows: Any,
    n_rows: int,
    codes: Any,
    experts: Experts,
    encoding: Encoding,
    prior: CodePrior,
    usual: NDArray[np.float64],
) -> Baseline:
    """Scores of rows under the experts and under independent columns.

    Parameters
    ----------
    engine : Engine
    rows : object
        `n_rows` rows held by the engine.
    n_rows : int
    codes : Codes
        Codes to which the prior was fitted. If the search uses the prior, up to 10,000 rows are
        encoded again under it.
    experts : Experts
    encoding : Encoding
        How rows are encoded.
    prior : CodePrior
    usual : ndarray of shape (n_statistics, 1, n_features)
        Mean parameters of independent columns, those of all training rows.

    Returns
    -------
    Baseline
    """
    if encoding.is_joint and n_rows > ENOUGH_ROWS:
        rows, n_rows = engine.take(rows, np.arange(ENOUGH_ROWS)), ENOUGH_ROWS
    family = experts.family.like(np.empty(0))
    alone = Experts(family, usual, np.zeros((1, usual.shape[2]))).like(experts.eta)
    by_columns = engine.pursue(rows, alone, PursuitRule(1, 1, np.zeros(1)))
    columns = by_columns.summary(1).to_numpy()
    encoders = encoding.encoders(experts)
    if encoding.is_joint:
        rule = encoding.rule(experts.log2_expertise.shape, prior)
        codes = pursue(engine, rows, encoders, rule)
    summary = codes.summary(experts.n_experts).to_numpy()
    explained = summary.log_likelihood
    active, weight = codes.active(experts.n_experts), codes.weight
    if encoders is not experts:  # the likelihoods of the codes belong to other opinions
        taken = engine.take(rows, np.arange(n_rows))
        taken = taken if is_tensor(taken.values) else taken.to_numpy()
        here = experts.like(taken.values)
        its = like(active, taken.values)
        explained = _total(log_likelihood(taken, its, here), weight)
    by_codes = _total(prior.log_prob(active), weight)
    return Baseline(
        float((explained + by_codes) / summary.n_rows),
        float(columns.log_likelihood / columns.n_rows),
        max(1, round(summary.n_rows)),
    )


def _total(values: Any, weight: Any) -> float:
    """The weighted sum over rows."""
    return float(values.sum() if weight is None else (values * like(weight, values)).sum())
