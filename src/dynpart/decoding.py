"""Decoding: templates, owners and probabilities of given codes, and draws of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart.arrays import like
from dynpart.autoregression import drawn, mean_given
from dynpart.composition import compose_hard, owners
from dynpart.containers import within
from dynpart.encoding import Encoding, amplitudes, log_likelihood
from dynpart.engines import Engine, Experts
from dynpart.prior import CodePrior, RowType
from dynpart.rows import Rows
from dynpart.schema import Schema
from dynpart.sources import is_source
from dynpart.validation import (
    check_amplitudes,
    check_codes,
    check_count,
    codes_in_place,
    random_generator,
)


class DecodesCodes:
    """Methods of a fitted model that start from codes."""

    means_: NDArray[np.float64]
    prior_: CodePrior
    n_features_in_: int

    if TYPE_CHECKING:  # attributes of the model
        _ready: Callable[[], int]
        _engine: Callable[[Any], Engine]
        _experts: Callable[[], Experts]
        _check_counted: Callable[[], None]
        _checked_rows: Callable[[ArrayLike, Engine], Rows]
        _by_blocks: Callable[..., Any]
        _given_back: Callable[..., Any]
        transform: Callable[[ArrayLike], NDArray[np.uint8]]

        @property
        def schema_(self) -> Schema:
            """Kinds, names and levels of the variables."""

    def inverse_transform(
        self, H: ArrayLike, amplitudes: ArrayLike | None = None, *, given: ArrayLike | None = None
    ) -> Any:
        """Compose the active experts' opinions under the hard rule (eq. 2).

        With `autoregressive`, opinions are those of a row whose earlier values are average. If rows
        are `given`, they are the owners' predictions of each variable from the earlier ones.

        Parameters
        ----------
        H : array-like of shape (n_rows, n_experts)
            Binary codes, each with at least one active expert.
        amplitudes : array-like of shape (n_rows, n_experts, 2), default=None
            Gain and offset of every expert, as returned by :meth:`amplitudes`. None means gains of
            1 and offsets of 0.
        given : array-like of shape (n_rows, n_features), default=None
            Rows with the earlier values for autoregressive experts.

        Returns
        -------
        ndarray or DataFrame of shape (n_rows, n_features)
            The composed templates: the probability of 1 of a binary variable, the most probable
            level of a categorical one, the mean of others. A model fitted to a data frame returns a
            data frame of the same type.
        """
        owner = self.partition(H)
        composed = like(self.means_, owner)[owner, np.arange(self.n_features_in_)]
        if given is not None:
            composed = self._given(given, owner, composed)
        if amplitudes is not None:
            given_ones = check_amplitudes(amplitudes, len(owner), len(self.means_))
            owned = like(given_ones, owner)[np.arange(len(owner))[:, None], owner]
            composed = owned[..., 0] * composed + owned[..., 1]
        return self._given_back(composed, means=True)

    def _given(self, X: ArrayLike, owner: Any, composed: Any) -> Any:
        """Predictions of each variable of these rows by its owner, given the earlier ones."""
        rows = self._checked_rows(X, self._engine(X))
        if len(rows) != len(owner):
            raise ValueError(
                f"given and H must have as many rows, found {len(rows)} and {len(owner)}"
            )
        experts = self._experts().like(owner)
        if experts.autoregression is None:
            return composed
        numbers = experts.family.decode(like(rows.values, owner))
        eta = compose_hard(experts.eta, owner)
        return mean_given(numbers, eta, experts.family, experts.autoregression)

    def amplitudes(self, X: ArrayLike, H: ArrayLike | None = None) -> NDArray[np.float64]:
        """Gains and offsets of the active experts of each row.

        For the variables it owns, an active expert predicts gain * opinion + offset. Both are
        posterior means, a penalised least-squares solution: gains have prior mean 1 and standard
        deviation 0.5, offsets have prior mean 0 and the smallest variance of an expert.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.
        H : array-like of shape (n_rows, n_experts), default=None
            Codes; by default those of :meth:`transform`.

        Returns
        -------
        ndarray of shape (n_rows, n_experts, 2)
            Gain and offset; 1 and 0 if an expert is not active or has no amplitude.

        Examples
        --------
        >>> import numpy as np
        >>> from dynpart import DynamicPartitionModel
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0.5, 2, (60, 1)) * np.sin(np.arange(12.0))
        >>> model = DynamicPartitionModel(2, amplitude="gain", max_active=1, random_state=0)
        >>> model = model.fit(X)
        >>> H = model.transform(X)
        >>> error = model.inverse_transform(H, model.amplitudes(X, H)) - X
        >>> bool(np.abs(error).max() < np.abs(model.inverse_transform(H) - X).max() / 3)
        True
        """
        n_experts = self._ready()
        H = self.transform(X) if H is None else H
        active = check_codes(H, n_experts)
        if is_source(X):
            return self._by_blocks(self.amplitudes, X, active)
        rows = self._checked_rows(X, self._engine(X))
        if len(rows) != len(active):
            raise ValueError(f"X and H must have as many rows, found {len(rows)} and {len(active)}")
        experts = self._experts().like(rows.values)
        if experts.amplitude is None:
            return like(np.broadcast_to([1.0, 0.0], (*active.shape, 2)).copy(), X)
        return like(amplitudes(rows, like(active, rows.values), experts), X)

    def partition(self, H: ArrayLike) -> NDArray[np.int32]:
        """The owner of every variable: the expert that explains it (eq. 2).

        Parameters
        ----------
        H : array-like of shape (n_rows, n_experts)
            Binary codes, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Index of the active expert with the highest expertise.
        """
        active = codes_in_place(H, self._ready())
        return owners(self._experts().like(active).ranks, active)

    def log_likelihood(self, X: ArrayLike, H: ArrayLike) -> NDArray[np.float64]:
        """Conditional log-likelihood log P(x | h) under the hard rule, in nats.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.
        H : array-like of shape (n_rows, n_experts)
            Binary codes, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats; divide by log(2) for bits.
        """
        active = codes_in_place(H, self._ready())
        if is_source(X):
            return self._by_blocks(self.log_likelihood, X, active)
        rows = self._checked_rows(X, self._engine(X))
        if len(rows) != len(active):
            raise ValueError(f"X and H must have as many rows, found {len(rows)} and {len(active)}")
        experts = self._experts().like(rows.values)
        return like(log_likelihood(rows, like(active, rows.values), experts), X)

    def log_prior(self, H: ArrayLike) -> NDArray[np.float64]:
        """Log P(h), the prior log-probability of codes, in nats: the negative cost of a code.

        Parameters
        ----------
        H : array-like of shape (n_rows, n_experts)
            Binary codes, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats; divide by log(2) for bits.
        """
        active = codes_in_place(H, self._ready())
        self._check_counted()
        return like(self.prior_.log_prob(active), H)

    @property
    def types_(self) -> tuple[RowType, ...]:
        """Types of rows, the most frequent first: the components of the prior over codes.

        Each has a `weight`, ``activation_probabilities`` and its most probable `code`.
        """
        return self.prior_.row_types()

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> Any:
        """Draw rows: a type of rows, a code along its tree, then each variable from its owner.

        With `autoregressive`, variables are drawn in order, each given the earlier ones. Numbers of
        a table with names are like those of the training rows: within their range, and whole if all
        of them were. Numbers outside are drawn again, and moved to the limit if that fails.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows to draw.
        random_state : int, RandomState instance or None, default=None
            Seed or generator of the random numbers; None draws a different seed in every call.

        Returns
        -------
        X : ndarray or DataFrame of shape (n_samples, n_features)
            Rows of the kinds and type of table of the training data.
        """
        self._ready()
        self._check_counted()
        check_count("n_samples", n_samples)
        rng = random_generator(random_state)
        active, _ = self.prior_.sample(int(n_samples), rng)
        # An empty code has no owners: it is replaced by the likeliest code.
        active[np.ix_(~active.any(axis=1), Encoding.of(self).likeliest_code(self.prior_))] = True
        experts = self._experts().like(active)
        owner, family = owners(experts.ranks, active), experts.family
        eta = compose_hard(experts.eta, owner)
        if experts.autoregression is not None:
            rows = drawn(eta, family, experts.autoregression, rng)
        else:
            rows = family.draw(eta, rng)
        if experts.amplitude is not None:
            gains = experts.amplitude.drawn(active.shape, family.unit, rng)
            owned = gains[np.arange(len(owner))[:, None], owner]
            rows = rows + (owned[..., 0] - 1) * family.mean(eta) + owned[..., 1]
        ranges = self.schema_.ranges
        if ranges is not None:
            plain = experts.autoregression is None and experts.amplitude is None
            rows = within(ranges, rows, (lambda: family.draw(eta, rng)) if plain else None)
        return self._given_back(like(rows, self.means_))
