"""Methods of a fitted model: encode and score rows, check parameters, save to a file.

Parameters may change between two calls, so every method checks them again. Fitting is in
:mod:`dynpart.fitting`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart.amplitudes import Amplitude
from dynpart.arrays import (
    as_float64,
    is_observed,
    is_tensor,
    like,
    namespace,
    row_blocks,
    to_numpy,
)
from dynpart.autoregression import check_autoregressive
from dynpart.composition import owners
from dynpart.decoding import DecodesCodes
from dynpart.describing import DescribesItself
from dynpart.encoding import Encoding, Pursuit, in_activation_order, log_likelihood
from dynpart.engines import Codes, Engine, Experts, PursuitRule, make_engine, row_log_base
from dynpart.enumeration import are_few
from dynpart.explaining import ExplainsRows
from dynpart.families import Family, family_class
from dynpart.gaps import FillsGaps
from dynpart.judging import JudgesTables
from dynpart.kept import KeepsExperts
from dynpart.neighbourhood import Neighbourhood, all_summed, neighbourhood
from dynpart.parameters import check_parameters
from dynpart.prior import CodePrior
from dynpart.progress import rows_progress
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from dynpart.sources import blocks_of, is_dask_array, is_source
from dynpart.stability import JudgesStability
from dynpart.storage import save
from dynpart.validation import (
    check_fitted,
    check_fitted_number,
    check_limits,
    check_width,
    check_with_autoregressive,
    checked_weights,
    rows_have,
)


class FittedModel(
    DecodesCodes,
    DescribesItself,
    ExplainsRows,
    FillsGaps,
    JudgesStability,
    JudgesTables,
    KeepsExperts,
):
    """Methods of a fitted model; see :class:`dynpart.DynamicPartitionModel`."""

    if TYPE_CHECKING:  # methods of the interface: scikit-learn's, or that of commands
        get_params: Callable[..., dict[str, Any]]
        set_params: Callable[..., Self]

        def _validated(self, X: Any, *, reset: bool, **checks: Any) -> Any:
            """A table of numbers as :func:`sklearn.utils.validation.validate_data` returns it."""

    n_experts: int | str
    family: str
    max_active: int | None
    n_active: int | None
    prior: str | None
    activation_cost: float
    criterion: str
    amplitude: str | None
    autoregressive: int | str | None
    engine: str
    device: Any
    n_jobs: int | None
    verbose: int

    family_: Family
    means_: NDArray[np.float64]
    variances_: NDArray[np.float64]
    expertise_: NDArray[np.float64]
    activation_probabilities_: NDArray[np.float64]
    prior_: CodePrior
    n_features_in_: int
    _counted_with: Encoding
    _parameter_constraints: ClassVar[dict]

    # ---------------------------------------------------------------- encoding

    def transform(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Encode rows: find the active experts of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Any input of :meth:`fit`. A row without any observed value gets the most probable code
            under the prior, with a warning.

        Returns
        -------
        H : ndarray of shape (n_rows, n_experts)
            Binary codes; for a Dask array, a lazy Dask array.
        """
        n_experts = self._ready()
        if is_dask_array(X):
            return self._lazily(X, "_codes", np.uint8, n_experts)
        return self._by_blocks(self._codes, X)

    def pursue(self, X: ArrayLike) -> Pursuit:
        """Encode rows and return the order of activation with log P(x | h) after each step.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.

        Returns
        -------
        Pursuit
            Order of activation with the log-likelihood after each step.
        """
        if is_source(X):
            self._ready()
            return Pursuit.joined([self.pursue(block) for block in blocks_of(X)])
        rows, codes = self._encode(X)
        rows = rows.to_numpy()
        return in_activation_order(
            rows, codes, self._experts().like(rows.values), self._rule().cost
        )

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Joint log-likelihood log P(x | h) + log P(h) of each row with its code, in nats.

        This is ``log_likelihood(X, H) + log_prior(H)`` with ``H = transform(X)``: a lower bound of
        log P(x), which sums over all codes. If an encoding parameter has changed since activations
        were counted, call :meth:`recount` first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats; divide by log(2) for bits. For a Dask array, a lazy Dask array.
        """
        n_experts = self._ready()
        self._check_counted()
        if is_dask_array(X):
            return self._lazily(X, "score_samples", np.float64)
        if is_source(X):
            return self._by_blocks(self.score_samples, X)
        rows, codes = self._encode(X)
        active = codes.active(n_experts)
        prior = self.prior_.log_prob(active)
        here = self._experts().like(rows.values)
        if Encoding.of(self).encoders(here) is here:
            explained = as_float64(codes.log_likelihood)
        else:  # the pursuit has returned the log-likelihood
            explained = log_likelihood(rows, like(active, rows.values), here)
        return like(like(explained, active) + prior, X)

    def score(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean of :meth:`score_samples`, a lower bound of the mean log P(x).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.
        y : Ignored
            Not used; for scikit-learn's interface.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows; 3 is equivalent to three equal rows.

        Returns
        -------
        float
            In nats per row; divide by log(2) for bits.
        """
        scores = self.score_samples(X)
        if sample_weight is None:
            return float(scores.mean())
        scores = to_numpy(scores)
        weight = checked_weights(sample_weight, len(scores))
        return float(weight @ scores / weight.sum())

    def log_density(self, X: ArrayLike) -> NDArray[np.float64]:
        """Log P(x), or a lower bound of it that is tighter than :meth:`score_samples`.

        With up to ten experts (fewer on rows of many variables) P(x | h) P(h) is summed over all
        codes, and the result is exactly log P(x). With more experts it is summed over each row's
        code and its neighbours, which differ by one addition, removal or exchange of an expert,
        then over the neighbours of the best of these, one after the other, until little is added.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats, never below :meth:`score_samples`.
        """
        if is_source(X):
            return self._by_blocks(self.log_density, X)
        rows, found, joint = self._neighbourhood(X)
        bound = found.log_density + row_log_base(rows, self._experts().like(rows.values).family)
        return like(np.maximum(bound, joint), X)

    def activation_posterior(self, X: ArrayLike) -> NDArray[np.float64]:
        """Posterior probability that each expert is active, P(h_k = 1 | x).

        The sum runs over the same codes as in :meth:`log_density`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows, n_experts)
            Probabilities between 0 and 1.
        """
        if is_source(X):
            return self._by_blocks(self.activation_posterior, X)
        return like(self._neighbourhood(X)[1].activation, X)

    def surprise(self, X: ArrayLike) -> NDArray[np.float64]:
        """Surprise of every value under the expert that owns it: -log P(x | h), in nats.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            Rows with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            0 for missing values. Each row sums to minus the :meth:`log_likelihood` of its code.
        """
        n_experts = self._ready()
        if is_source(X):
            return self._by_blocks(self.surprise, X)
        rows, codes = self._encode(X)
        experts = self._experts().like(rows.values)
        out = np.empty(rows.shape)
        active = like(codes.active(n_experts), rows.values)
        for block in row_blocks(*rows.shape):
            owner = owners(experts.ranks, active[block])
            out[block] = to_numpy(-experts.owned_log_density(rows.values[block], owner))
        return like(out, X)

    def _neighbourhood(self, X: ArrayLike) -> tuple[Rows, Neighbourhood, NDArray[np.float64]]:
        """Rows, sums over the neighbourhoods of their codes, and scores of the codes."""
        n_experts = self._ready()
        self._check_counted()
        rows, codes = self._encode(X)
        active, rows = to_numpy(codes.active(n_experts)), rows.to_numpy()
        experts = self._experts().like(rows.values)
        joint = to_numpy(as_float64(codes.log_likelihood)) + self.prior_.log_prob(active)
        if Encoding.of(self).encoders(experts) is not experts:  # codes belong to other opinions
            joint = log_likelihood(rows, active, experts) + self.prior_.log_prob(active)
        if experts.amplitude is None and are_few(experts.log2_expertise.shape):
            return rows, all_summed(rows, experts, self.prior_), joint
        return rows, neighbourhood(rows, active, experts, self.prior_), joint

    def save(self, path: str | PathLike[str], *, overwrite: bool = True) -> None:
        """Write the fitted model atomically to a file that :func:`dynpart.load` reads.

        Parameters
        ----------
        path : path-like
            File to write, by convention with the extension `.dynpart`.
        overwrite : bool, default=True
            Whether an existing file may be replaced.
        """
        self._ready()
        save(self, path, overwrite=overwrite)

    # ---------------------------------------------------------------- inside

    def _ready(self) -> int:
        """Check parameters that may have changed since the fit; returns the number of experts."""
        check_fitted(self)
        self._validate_params()
        n_experts = len(self.means_)
        check_fitted_number(self.n_experts, n_experts)
        check_limits(n_experts, n_active=self.n_active, max_active=self.max_active)
        return n_experts

    def _validate_params(self) -> None:
        check_parameters(
            "DynamicPartitionModel", self._parameter_constraints, self.get_params(deep=False)
        )
        if self.family != "auto":
            family_class(self.family)
        if self.autoregressive is not None:
            check_with_autoregressive(self.amplitude, self.criterion)

    def _experts(self) -> Experts:
        """The learnt or loaded experts, with the amplitude of the parameters."""
        experts = super()._experts()
        if experts.autoregression is not None:
            check_with_autoregressive(self.amplitude, self.criterion)
        amplitude = Amplitude.of(self.amplitude, experts.family)
        return experts if amplitude is None else replace(experts, amplitude=amplitude)

    def _check_counted(self) -> None:
        """Raise ValueError if activation probabilities belong to other encoding parameters."""
        now = Encoding.of(self)
        now.check_counted_with(getattr(self, "_counted_with", now))

    def _is_counted(self) -> bool:
        """Whether activation probabilities belong to the current encoding parameters."""
        try:
            self._check_counted()
        except ValueError:
            return False
        return True

    def _engine(self, X: Any) -> Engine:
        """The engine for these rows: tensors on a GPU stay there.

        A tensor on the CPU is treated as an array, unless `engine` is "torch".
        """
        device = self.device
        if is_tensor(X) and device is None:
            wanted = self.engine == "torch" or (self.engine == "auto" and X.device.type != "cpu")
            device = X.device if wanted else None
        return make_engine(self.engine, self.n_jobs, device)

    def _rule(self) -> PursuitRule:
        """The rule by which rows are encoded."""
        encoding = Encoding.of(self)
        if encoding.is_joint:
            encoding.check_prior(getattr(self, "_counted_with", encoding))
        # The codes of a stream have a minimum length, so their counts are no prior for rows.
        counted = getattr(self, "_book", None) is not None
        return encoding.rule(self.means_.shape, self.prior_ if counted else None)

    def _encode(self, X: ArrayLike) -> tuple[Rows, Codes]:
        self._ready()
        engine = self._engine(X)
        rows = self._checked_rows(X, engine)
        return rows, self._with_default_codes(rows, self._pursued(engine, rows))

    def _pursued(self, engine: Engine, rows: Rows) -> Any:
        """Codes of rows, with a progress bar if `verbose` is set."""
        experts = Encoding.of(self).encoders(self._experts().like(rows.values))
        rule = self._rule()
        with rows_progress(self.verbose, len(rows)) as advance:
            if advance is None:
                return pursue(engine, rows, experts, rule)
            parts = []
            for block in row_blocks(*rows.shape):
                parts.append(pursue(engine, rows[block], experts, rule))
                advance(len(rows[block]))
        return type(parts[0]).joined(parts)

    def _with_default_codes(self, rows: Rows, codes: Any) -> Any:
        """The codes; rows without any observed value get the most probable one."""
        if rows.complete:
            return codes
        T = self.family_.like(rows.values).statistics(rows.values)
        empty = ~is_observed(T[0]).any(axis=1)
        n_empty = int(empty.sum())
        if not n_empty:
            return codes
        warnings.warn(
            f"{rows_have(n_empty)} no observed value: such rows get the most probable code under "
            "the prior",
            UserWarning,
            stacklevel=4,
        )
        code = Encoding.of(self).likeliest_code(self.prior_)
        return codes.with_code(empty, code)

    def _by_blocks(self, method: Callable[..., Any], X: Any, *others: NDArray) -> Any:
        """Apply a method to a table, or to a source block by block.

        `others` have as many rows as all blocks in total.
        """
        if not is_source(X):
            return method(X)
        parts, done = [], 0
        for block in blocks_of(X):
            mine = (other[done : done + len(block)] for other in others)
            parts.append(method(block, *mine))
            done += len(block)
        if any(len(other) != done for other in others):
            raise ValueError(f"X and H must have as many rows, found {done} and {len(others[0])}")
        return namespace(parts[0]).concatenate(parts)

    def _codes(self, X: ArrayLike) -> NDArray[np.uint8]:
        active = like(self._encode(X)[1].active(len(self.means_)), X)
        return active.view(namespace(active).uint8)

    def _lazily(self, X: Any, method: str, dtype: type, n_columns: int | None = None) -> Any:
        from dynpart.engines.dask import lazily

        check_width(X, self.n_features_in_)
        self._rule()
        # Chunks are computed later, by a copy of the current model.
        return lazily(X, getattr(copy(self), method), dtype, n_columns)

    def _checked_rows(self, X: ArrayLike, engine: Engine) -> Rows:
        table = self._checked_table(X, engine, reset=False)
        family = self.family_.like(table)
        family.check(table, columns=self._names())
        rows = Rows.of(table, family)
        if self._learnt.autoregression is not None:
            check_autoregressive(self.autoregressive, family, complete=rows.complete)
        return rows
