"""The baseline: log-likelihood of rows under independent columns, and under the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_observed, is_tensor, like, row_blocks, to_numpy
from dynpart.codebook import CodeBook
from dynpart.encoding import Encoding, log_likelihood
from dynpart.engines import Engine, Experts, PursuitRule
from dynpart.opinions import decisions
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from dynpart.sparse import SparseRows

Array = NDArray[np.float64]

ENOUGH_ROWS = 10_000
"""Maximum number of rows that are encoded again."""
OF_NO_EXPERT = 0.01
"""Weight of the normal distribution of all rows in a mixture of opinions about a column."""


@dataclass(frozen=True, eq=False)
class RepeatedValues:
    """What the distributions of single columns save if they know which values repeat.

    A real column with its own scale is one normal distribution in the baseline. Experts may be as
    narrow as the values of a column repeat, such as whole numbers, and then save many bits even if
    no column tells anything about another. So does the mixture of all opinions about a column.

    Attributes
    ----------
    experts : Experts
        In NumPy arrays.
    usual : ndarray of shape (n_statistics, 1, n_features)
        Mean parameters of all training rows.
    share : ndarray of shape (n_experts, n_features)
        How often each expert decides about each column, of all rows.
    columns : ndarray of shape (n_columns,)
        The columns that are real and have their own scale. Empty if opinions change from row to
        row: by gains, offsets, or earlier values.
    """

    experts: Experts
    usual: Array
    share: Array
    columns: NDArray[np.intp]

    @classmethod
    def of(
        cls, experts: Experts, usual: Array, probabilities: Array, book: CodeBook | None
    ) -> RepeatedValues:
        """From how often experts are active, and from codes of training rows if they are known."""
        fixed = experts.amplitude is None and experts.autoregression is None
        columns = np.flatnonzero(experts.family.have_own_scales(usual.shape[2]) & fixed)
        share = np.zeros(experts.log2_expertise.shape)
        if len(columns):
            share = probabilities[:, None] * decisions(experts, probabilities, book)
            share /= np.maximum(share.sum(axis=0), np.finfo(float).tiny)
        return cls(experts, usual, share, columns)

    def saved(self, rows: Rows | SparseRows) -> Array:
        """Nats by which mixtures describe each row better, shape (n_rows,)."""
        total = np.zeros(len(rows))
        if len(self.columns):
            for block in row_blocks(len(rows), self.usual.shape[2]):
                total[block] = self._saved_in_block(rows[block].values).sum(axis=1)
        return total

    def _saved_in_block(self, values: Any) -> Array:
        """The same for each value, shape (n_rows, n_columns); 0 if it was not observed."""
        x = self.experts.family.statistics(values)[0][:, self.columns]
        seen = is_observed(x)
        x = np.where(seen, x, 0.0)

        def normal(eta: Array) -> Array:
            mean = eta[0, self.columns]
            variance = eta[1, self.columns] - mean**2
            return -0.5 * ((x - mean) ** 2 / variance + np.log(variance))

        alone = normal(self.usual[:, 0])
        found = np.full(x.shape, math.log(OF_NO_EXPERT))
        for k, share in enumerate(self.share[:, self.columns]):
            with np.errstate(divide="ignore"):
                weight = np.log((1 - OF_NO_EXPERT) * share)
            np.logaddexp(found, weight + normal(self.experts.eta[:, k]) - alone, out=found)
        return np.where(seen, found, 0.0)


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
    repeats : float, default=0.0
        Nats per row that independent columns would save by knowing which values repeat.
    """

    nats: float
    columns: float
    n_rows: int
    repeats: float = 0.0

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
    usual: Array,
    repeated: RepeatedValues,
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
    repeated : RepeatedValues

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
        _mean_of_repeats(engine, rows, n_rows, repeated),
    )


def _mean_of_repeats(engine: Engine, rows: Any, n_rows: int, repeated: RepeatedValues) -> float:
    """Mean nats per row that knowing repeated values saves, from at most 10,000 rows."""
    if not len(repeated.columns):
        return 0.0
    some = engine.take(rows, np.arange(min(n_rows, ENOUGH_ROWS))).to_numpy()
    weight = None if some.weight is None else to_numpy(some.weight)
    if weight is not None and not weight.any():
        return 0.0
    return float(np.average(repeated.saved(some), weights=weight))


def _total(values: Any, weight: Any) -> float:
    """The weighted sum over rows."""
    return float(values.sum() if weight is None else (values * like(weight, values)).sum())
