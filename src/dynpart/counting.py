"""Counting: tables opened for a model that learns from them or counts activations again."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynpart.arrays import is_sparse, like
from dynpart.baseline import beside_columns
from dynpart.encoding import Encoding, book_of_rows
from dynpart.fitted import FittedModel
from dynpart.learning import COUNTED_ROWS, activation_probabilities
from dynpart.opening import Data, open_data, open_sparse, open_table
from dynpart.sources import is_source
from dynpart.sparse import is_large
from dynpart.validation import DTYPES, checked_weights, rows_have

LIGHT = 0.1
"""Mean weight of a row below which a warning suggests to rescale the weights."""


class CountedModel(FittedModel):
    """Methods of a fitted model that use whole tables."""

    def recount(self, X: ArrayLike, *, sample_weight: Any = None) -> Self:
        """Estimate activation probabilities and prior again, with the current encoding parameters.

        :meth:`fit` counts activations in codes found with the parameters at that time. After
        a change of `max_active`, `n_active`, `prior`, `activation_cost`, `criterion`, `n_starts`,
        `n_swaps` or `prune`, ``activation_probabilities_`` belong to other codes than
        :meth:`transform` finds. Methods that use them raise ValueError until this one is called.
        Experts do not change.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows to count in, usually the training rows; any input of :meth:`fit`.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows, as in :meth:`fit`.

        Returns
        -------
        self : DynamicPartitionModel
            The model with new activation probabilities and prior.

        Examples
        --------
        >>> from dynpart import DynamicPartitionModel
        >>> from dynpart.datasets import make_pairs
        >>> X = make_pairs(3)
        >>> model = DynamicPartitionModel(6, random_state=0).fit(X)
        >>> model.set_params(max_active=2).recount(X).activation_probabilities_.sum().round()
        np.float64(2.0)
        """
        self._ready()
        data = self._open(X, reset=False, sample_weight=sample_weight)
        rows = data.encoded(self.family_.like(data.moments.mean))
        encoding = Encoding.of(self)
        experts = self._experts().like(data.moments.mean)
        n_rows = data.moments.n_rows
        if n_rows > COUNTED_ROWS:
            rows = data.engine.take(rows, np.arange(COUNTED_ROWS) * n_rows // COUNTED_ROWS)
            n_rows = COUNTED_ROWS
        codes, prior = encoding.counted(data.engine, rows, experts)
        probabilities = activation_probabilities(codes.summary(self.n_experts_).to_numpy())
        self.__dict__.update(
            activation_probabilities_=like(probabilities, self.means_),
            prior_=prior,
            _book=book_of_rows(data.engine, rows, n_rows, codes, experts, encoding, prior),
            _counted_with=encoding,
        )
        self.baseline_ = beside_columns(
            data.engine, rows, n_rows, codes, experts, encoding, prior, self._usual_eta(),
            self._repeated_values(),
        )  # fmt: skip
        return self

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Data:
        if is_sparse(X) or not is_source(X):
            return self._open_table(X, reset=reset, sample_weight=sample_weight)
        if reset:
            self._found_schema = self._survey_blocks(X, sample_weight)
        data = open_data(X, self._engine(X), sample_weight, self._encoder())
        if hasattr(data.head, "columns"):
            self._validated(data.head, reset=reset, skip_check_array=True)
        else:
            self._validated(data.head, dtype=DTYPES, reset=reset, ensure_all_finite=False)
        return data

    def _open_table(
        self, X: Any, *, reset: bool, sample_weight: Any, unseen_columns: bool = False
    ) -> Data:
        """Open a single table: dense, or sparse of any size."""
        engine = self._engine(X)
        options: dict[str, Any] = {"sample_weight": sample_weight, "unseen_columns": unseen_columns}
        if is_sparse(X) and is_large(X):
            matrix = self._checked_sparse(X, reset=reset)
            if reset:
                weight = checked_weights(sample_weight, matrix.shape[0])
                heard = matrix if weight is None or weight.all() else matrix[weight > 0]
                self._found_schema = self._judge_sparse(heard)
            return open_sparse(matrix, engine, self._names(), **options)
        table = self._checked_table(X, engine, reset=reset, sample_weight=sample_weight)
        return open_table(table, engine, self._names(), **options)

    def _warn_of_empty_rows(self, data: Data) -> None:
        """Warn of rows without observed values, and of weights that are close to 0."""
        if data.n_empty:
            warnings.warn(
                f"{rows_have(data.n_empty)} no observed value: learning ignores such rows",
                UserWarning,
                stacklevel=4,
            )
        n_rows, weight = data.moments.n_rows, data.moments.weight
        if weight < LIGHT * n_rows:
            warnings.warn(
                f"the weights sum to {weight:.3g} over {n_rows} rows, and a weight is a number of "
                "rows: this is too little data to learn from; multiply normalised weights by the "
                "number of rows",
                UserWarning,
                stacklevel=4,
            )
