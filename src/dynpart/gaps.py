"""Gaps: imputation by a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart.arrays import is_observed, like, to_numpy
from dynpart.codebook import AllCodes, CodeBook, Guess, completed, guesses
from dynpart.containers import filled
from dynpart.encoding import Encoding
from dynpart.engines import Engine, Experts
from dynpart.families import Family
from dynpart.prior import CodePrior
from dynpart.rows import Rows
from dynpart.schema import Schema
from dynpart.validation import check_count, random_generator


class FillsGaps:
    """Methods of a fitted model for missing values."""

    family_: Family
    prior_: CodePrior
    autoregressive: int | str | None
    _book: CodeBook | None = None

    if TYPE_CHECKING:  # attributes of the model
        _engine: Callable[[Any], Engine]
        _experts: Callable[[], Experts]
        _encode: Callable[[Any], tuple[Rows, Any]]
        _pursued: Callable[[Engine, Rows], Any]
        _numbers: Callable[[Any], NDArray]
        _found_schema: Schema | None
        _takes_numbers: bool

        @property
        def schema_(self) -> Schema:
            """Kinds, names and levels of the variables."""

    def conditional_means(self, X: ArrayLike) -> NDArray[np.float64]:
        """Expected value of every variable, given the observed values of its row.

        The result is an average of the composed opinions (eq. 2) under all codes. The weight of a
        code is its prior probability times the square root of its likelihood for the observed
        values. With more than ten experts, the codes are those of training rows: the weight of a
        code is its number of rows times a power of the likelihood, and the row's own code counts
        once less. A model learnt from a stream then uses the codes of `X` itself.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows with the columns of the training data, NaN for missing values.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            For binary variables the probability of 1. Observed variables have expected values, too.
        """
        out = np.empty(0)
        for guess, shape in self._guesses(X):
            if not out.size:
                out = np.empty(shape)
            out[guess.block] = self.family_.like(out).mean(guess.mixed())
        return like(out, X)

    def impute(
        self,
        X: ArrayLike,
        *,
        draws: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> Any:
        """Impute missing values; observed values do not change.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            NaN, None, nulls and masked values are missing.
        draws : int, default=None
            None fills in the mean given the observed values (:meth:`conditional_means`), or the
            most probable value of binary variables. A number returns as many tables with drawn
            values: a code for each row, then each value from the expert that owns it.
        random_state : int, RandomState instance or None, default=None
            Seed or generator of the draws.

        Returns
        -------
        array or DataFrame of the kind of `X`, or a list of them
            The table without gaps; with `draws`, a list of that many tables.

        Examples
        --------
        >>> import numpy as np
        >>> from dynpart import DynamicPartitionModel
        >>> from dynpart.datasets import make_pairs
        >>> X = np.repeat(make_pairs(3), 10, axis=0)
        >>> model = DynamicPartitionModel(6, random_state=0).fit(X)
        >>> gappy = X.astype(float)
        >>> gappy[:, 0] = np.nan
        >>> bool((model.impute(gappy) == X).all())
        True
        """
        if draws is not None:
            check_count("draws", draws)
        rng = random_generator(random_state)
        table = self._numbers(X)
        gaps = ~is_observed(table)
        family = self.family_.like(table)
        tables = [np.zeros(table.shape) for _ in range(draws or 1)]
        if gaps.any():
            for guess, _ in self._guesses(X):
                for values in tables:
                    if draws is None:
                        values[guess.block] = family.likeliest(guess.mixed())
                    else:
                        values[guess.block] = family.draw(guess.drawn(rng), rng)
        numeric = self._found_schema is None or self._takes_numbers
        schema = None if numeric else self.schema_
        found = [filled(X, values, gaps, schema) for values in tables]
        return found[0] if draws is None else found

    def _guesses(self, X: Any) -> Iterator[tuple[Guess, tuple[int, int]]]:
        """Predictive distributions of rows, block by block, and the shape of the table."""
        rows, codes = self._encode(X)
        rows = rows.to_numpy()
        experts = self._experts().like(rows.values)
        if experts.amplitude is not None:
            raise ValueError(
                "imputation does not support amplitudes: set amplitude=None and call recount(X)"
            )
        if experts.autoregression is not None:
            raise ValueError(
                f"autoregressive={self.autoregressive!r} cannot fill gaps, because every value "
                "depends on earlier ones; fit with autoregressive=None to impute"
            )
        own = to_numpy(codes.active(experts.n_experts))
        encoding = Encoding.of(self)
        if encoding.are_few(experts.log2_expertise.shape):
            every = AllCodes.of(self.prior_, *encoding.limits(experts.n_experts))
            for guess in guesses(rows, own, experts, every):
                yield guess, rows.shape
            return
        book = self._book or CodeBook.of(own)
        if not rows.complete:
            # The book has the codes of completed rows; a row's own code counts once less.
            again = self._pursued(self._engine(X), completed(rows, own, experts, book))
            own = to_numpy(again.active(experts.n_experts))
        for guess in guesses(rows, own, experts, book):
            yield guess, rows.shape
