"""The scikit-learn face of the model: checks input, calls the learner, holds no numerics."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    DensityMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from dynpart.arrays import is_tensor, like, namespace, to_numpy
from dynpart.composition import compose_hard, owners
from dynpart.engines import ENGINES, Codes, Engine, Experts, PursuitRule, make_engine
from dynpart.families import ColumnMoments, make_family
from dynpart.families._moments import row_blocks
from dynpart.learning import Annealed, IterationRecord, Paper, Plan, Task, fit_experts
from dynpart.learning._connectivity import neighbourly
from dynpart.learning._diagnosis import complaints
from dynpart.learning._objective import activation_probabilities, log_prior
from dynpart.persistence import open_journal, save
from dynpart.progress import fit_progress, rows_progress
from dynpart.sources import DTYPES, Data, is_dask_array, is_source, open_data, open_table
from dynpart.streaming import Course, Stream, advance, begin, resume
from dynpart.validation import (
    check_codes,
    check_limits,
    check_width,
    checked_moments,
    checked_tensor,
)

PLANS: dict[str, type] = {"annealed": Annealed, "paper": Paper}
LITERAL: dict[str, Any] = {"learning": "paper", "n_swaps": 0}
"""Arguments with which everything is done as the paper's text says."""


@dataclass(frozen=True, eq=False)
class Pursuit:
    """The likelihood matching pursuit of some rows, step by step.

    Attributes
    ----------
    order : ndarray of shape (n_rows, n_steps)
        Experts in the order of their activation, padded with -1; one that was swapped in stands
        where the one stood that it replaced: first of all the one who got the layman's seat.
    log_likelihood : ndarray of shape (n_rows, n_steps)
        Log P(x | h) after each step, padded with NaN.
    """

    order: NDArray[np.int32]
    log_likelihood: NDArray[np.float64]


class DynamicPartitionModel(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator
):
    """Dynamic partition model: explain each row by a few experts, each variable by one of them.

    Every expert has an opinion on every variable and a level of expertise for it. A row's code
    says which experts are active; each variable is explained by the active expert with the highest
    expertise, so the code also partitions the variables. Codes are found by greedy likelihood
    matching pursuit, then refined once; experts and expertise are learnt by an EM-like loop [1]_.

    Parameters
    ----------
    n_experts : int, default=10
        Number of experts to learn.
    family : {"auto", "bernoulli", "gaussian"}, default="auto"
        Distribution of a variable under an expert. "auto" takes "bernoulli" when every value is 0
        or 1 and "gaussian" otherwise. The Gaussian family measures all columns with one yardstick,
        as k-means does: scale columns that come in different units.
    max_iter : int, default=30
        Iterations of learning. The schedule stretches over all of them.
    learning : {"annealed", "paper"} or Plan, default="annealed"
        How to learn. "paper" is the paper's text taken literally (with ``n_swaps=0``). An object
        with the methods of :class:`dynpart.learning.Plan` replaces the schedule as a whole.
    n_init : int, default=1
        Number of fits from different starts; the one with the best penalised conditional
        likelihood is kept.
    max_active : int, default=None
        At most so many experts are active in a row, in learning and encoding; None for no limit.
    n_active : int, default=None
        Exactly so many experts are active in a row; None leaves the number to the data.
    activation_cost : "prior" or float, default=0.0
        Nats an expert must gain to be activated when rows are encoded. "prior" charges each
        expert what its activation costs under the learnt prior, log((1 - p) / p).
    criterion : {"likelihood", "reconstruction"}, default="likelihood"
        What codes are chosen for when rows are encoded. "likelihood" takes every opinion as firmly
        as it is held. "reconstruction" holds all of them alike: fewer values come out wrong, or
        squared errors are smaller, at the price of likelihood. Learning is the same.
    n_starts : int, default=1
        Pursuits of each row when rows are encoded, from different beginnings; the best code is
        kept. The first begins with a layman, who thinks what experts think on average and leaves
        when the code is full, the next with the expert that explains the row best alone, then with
        the second best, and so on.
    n_swaps : int, default=2
        Refinement passes when rows are encoded: each takes out every active expert in turn and
        puts back the best one, or none. With 0 there is no layman either, and codes are the
        paper's: greedy, and found in half the time.
    prune : bool, default=False
        Drop experts that later activations made useless when rows are encoded.
    variance_floor : float, default=1.0
        Smallest variance of a Gaussian expert relative to the data's mean column variance. Small
        values fit densities, 1.0 reconstructs best.
    connectivity : sparse matrix or array of shape (n_features, n_features), default=None
        Which variables are neighbours, as :func:`~sklearn.feature_extraction.image.grid_to_graph`
        gives it. Evidence for expertise then flows between them, and supports become coherent
        parts; an expert that has seen little of a variable also listens to its opinion on the
        neighbours. Worth it on images of many pixels.
    tol : float, default=1e-5
        Learning stops before `max_iter` when opinions move less than this, in standard deviations
        of the data, in an iteration over all rows; the search before is never cut short.
    engine : {"auto", "cpu", "reference", "torch"}, default="auto"
        Where the computation runs: "cpu" has compiled kernels for all cores, "torch" kernels for
        the GPU (``pip install 'dynpart[gpu]'``). "auto" takes "torch" for tensors on a GPU and
        where `device` is given, "cpu" otherwise.
    device : str or torch.device, default=None
        Device of the torch engine, such as "cuda" or "cuda:1". None takes the one the rows are on,
        or the GPU. NumPy rows that do not fit on it are streamed.
    n_jobs : int, default=None
        Threads of the CPU engine. None takes what Numba and threadpoolctl allow, -1 all cores.
    random_state : int, RandomState instance or None, default=None
        Determines the starts and the rows drawn in early iterations.
    verbose : int, default=0
        1 shows progress, 2 prints a line per iteration.

    Attributes
    ----------
    means_ : ndarray of shape (n_experts, n_features)
        Opinions: the mean of every variable under every expert.
    variances_ : ndarray of shape (n_experts, n_features)
        Variances of the opinions; only for the Gaussian family.
    expertise_ : ndarray of shape (n_experts, n_features)
        Levels of expertise. Only their order and ratios within a variable matter.
    activation_probabilities_ : ndarray of shape (n_experts,)
        How often each expert is active in the training rows; in 10,000 of them if there are more.
    objective_history_ : ndarray of shape (n_iter_,)
        Mean joint log-likelihood log P(x | h) + log P(h) of each iteration's rows, in nats.
    history_ : tuple of IterationRecord
        The full log of learning.
    adaptation_ : Adaptation
        How the schedule was adapted to the data, and why; printed with `verbose`.
    family_ : Family
        The family the data asked for.
    n_iter_ : int
        Iterations run.
    n_features_in_ : int
        Number of variables.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the variables, where the input had names.

    References
    ----------
    .. [1] M. Goessling and Y. Amit, "Dynamic Partition Models", ICLR workshop, 2017.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> X = make_pairs(5)
    >>> model = DynamicPartitionModel(n_experts=10, random_state=0).fit(X)
    >>> model.transform(X).sum(axis=1).mean()
    np.float64(5.0)
    >>> bool(((model.inverse_transform(model.transform(X)) > 0.5) == X).all())
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_experts": [Interval(Integral, 1, None, closed="left")],
        "family": [StrOptions({"auto", "bernoulli", "gaussian"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning": [
            StrOptions(set(PLANS)),
            HasMethods(["start", "contenders", "steps", "expertise_change"]),
        ],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_active": [Interval(Integral, 1, None, closed="left"), None],
        "n_active": [Interval(Integral, 1, None, closed="left"), None],
        "activation_cost": [StrOptions({"prior"}), Interval(Real, None, None, closed="neither")],
        "criterion": [StrOptions({"likelihood", "reconstruction"})],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "n_swaps": [Interval(Integral, 0, None, closed="left")],
        "prune": ["boolean"],
        "variance_floor": [Interval(Real, 0, None, closed="neither")],
        "connectivity": ["array-like", "sparse matrix", None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "engine": [StrOptions(set(ENGINES))],
        "device": "no_validation",  # torch knows what a device is
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    means_: NDArray[np.float64]
    variances_: NDArray[np.float64]
    expertise_: NDArray[np.float64]
    activation_probabilities_: NDArray[np.float64]
    n_features_in_: int
    _stream: Stream | None
    _moments: ColumnMoments

    def __init__(
        self,
        n_experts: int = 10,
        *,
        family: str = "auto",
        max_iter: int = 30,
        learning: str | Plan = "annealed",
        n_init: int = 1,
        max_active: int | None = None,
        n_active: int | None = None,
        activation_cost: str | float = 0.0,
        criterion: str = "likelihood",
        n_starts: int = 1,
        n_swaps: int = 2,
        prune: bool = False,
        variance_floor: float = 1.0,
        connectivity: Any = None,
        tol: float = 1e-5,
        engine: str = "auto",
        device: Any = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_experts = n_experts
        self.family = family
        self.max_iter = max_iter
        self.learning = learning
        self.n_init = n_init
        self.max_active = max_active
        self.n_active = n_active
        self.activation_cost = activation_cost
        self.criterion = criterion
        self.n_starts = n_starts
        self.n_swaps = n_swaps
        self.prune = prune
        self.variance_floor = variance_floor
        self.connectivity = connectivity
        self.tol = tol
        self.engine = engine
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    def fit(
        self,
        X: ArrayLike,
        y: None = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
        every: float = 60.0,
    ) -> DynamicPartitionModel:
        """Learn experts and their levels of expertise.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            A table larger than memory comes in blocks of rows: a list of arrays, the path of a
            folder of .npy or .parquet files, a torch DataLoader, anything that can be read again
            and again, or a Dask array (with a running ``distributed.Client``).
        y : Ignored
        checkpoint : path-like, default=None
            File that remembers how far the fit has come. If it exists, and belongs to the same
            data and parameters, the fit goes on from there and ends bit for bit as if it had never
            been interrupted.
        every : float, default=60.0
            Seconds between two writings of the checkpoint; 0 writes after every iteration.

        Returns
        -------
        self : DynamicPartitionModel
        """
        self._validate_params()
        check_limits(self.n_experts, n_active=self.n_active, max_active=self.max_active)
        data = self._open(X)
        family = make_family(self.family, data.moments, variance_floor=self.variance_floor)
        data.check(family)
        task = Task(
            data.engine,
            data.rows,
            data.moments,
            *self._limits(),
            neighbours=neighbourly(self.connectivity, len(data.moments.mean)),
            tol=self.tol,
        )
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        journal = None
        if checkpoint is not None:
            journal = open_journal(checkpoint, self, data.moments, family, seed=seed, every=every)
            seed = journal.seed
        with fit_progress(self.verbose, self.max_iter, self.n_init) as report:
            fit = fit_experts(
                task,
                self._plan(),
                family,
                n_experts=self.n_experts,
                n_iter=self.max_iter,
                n_init=self.n_init,
                seed=seed,
                rule=self._rule(),
                report=report,
                journal=journal,
            )
        if journal is not None:
            journal.write()
        codes = fit.codes
        if self.activation_cost == "prior" or self.criterion != "likelihood":
            # The prior that charges for activations is the one of codes found without charge.
            probabilities = activation_probabilities(codes.summary(self.n_experts).to_numpy())
            encoders, rule = self._encoders(fit.experts), self._rule(probabilities)
            codes = task.engine.pursue(fit.rows, encoders, rule)
        summary = codes.summary(self.n_experts).to_numpy()
        self._keep(X, fit.experts, fit.history, activation_probabilities(summary))
        self.adaptation_ = fit.adaptation
        if self.verbose:
            print(f"dynpart: {fit.adaptation}", file=sys.stderr)
        for complaint in complaints(summary, fit.experts, fit.history, task.max_active):
            warnings.warn(complaint, ConvergenceWarning, stacklevel=2)
        self._stream, self._moments = None, data.moments.like(np.empty(0))
        return self

    def partial_fit(self, X: ArrayLike, y: None = None) -> DynamicPartitionModel:
        """Learn from one batch of rows and forget them: stepwise EM with steps that decay.

        The first ``max_iter`` calls settle the model as iterations of :meth:`fit` do; from then on
        batch t counts for less and less, as t to the power of -0.7. After :meth:`fit` learning goes
        on from the fitted experts. A first batch of a few hundred rows is a good start: it fixes
        the family and, for Gaussians, the centre and the smallest variance. `n_init` has no effect.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : Ignored

        Returns
        -------
        self : DynamicPartitionModel

        See Also
        --------
        dynpart.streaming : the steps behind it, to be run wherever rows are.

        Examples
        --------
        >>> import numpy as np
        >>> from dynpart import DynamicPartitionModel
        >>> from dynpart.datasets import make_pairs
        >>> model = DynamicPartitionModel(n_experts=10, random_state=0)
        >>> rng = np.random.default_rng(0)
        >>> for _ in range(40):
        ...     model = model.partial_fit(rng.permutation(make_pairs(5)))
        >>> model.n_iter_
        40
        """
        self._validate_params()
        check_limits(self.n_experts, n_active=self.n_active, max_active=self.max_active)
        fitted = hasattr(self, "means_")
        engine = self._engine(X)
        rows = engine.hold(self._checked_table(X, engine, reset=not fitted))
        moments = engine.place(checked_moments(rows))
        if not fitted:
            self.family_ = make_family(self.family, moments, variance_floor=self.variance_floor)
        self.family_.check(rows)
        course = Course(
            engine,
            self._plan(),
            self.n_experts,
            self.max_iter,
            *self._limits(),
            neighbours=neighbourly(self.connectivity, self.n_features_in_),
        )
        stream: Stream | None = getattr(self, "_stream", None)
        if stream is None and fitted:
            experts = self._experts().like(moments.mean)
            known = getattr(self, "_moments", moments).like(moments.mean)
            stream = resume(course, experts, known)
        elif stream is None:
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            stream = begin(course, self.family_, moments, seed)
        stream = advance(course, stream, rows, moments)
        self._keep(X, stream.experts, stream.history, stream.activation_probabilities)
        self._stream = stream
        return self

    def _open(self, X: Any) -> Data:
        engine = self._engine(X)
        if is_source(X):
            data = open_data(X, engine)
            validate_data(self, data.head, dtype=DTYPES)
            return data
        return open_table(self._checked_table(X, engine, reset=True), engine)

    def _engine(self, X: Any) -> Engine:
        """The engine for these rows: tensors on a GPU stay there.

        A tensor on the CPU is an array like any other, unless the torch engine is asked for.
        """
        device = self.device
        if is_tensor(X) and device is None:
            wanted = self.engine == "torch" or (self.engine == "auto" and X.device.type != "cpu")
            device = X.device if wanted else None
        return make_engine(self.engine, self.n_jobs, device)

    def _checked_table(self, X: Any, engine: Engine, *, reset: bool) -> Any:
        """The rows as the engine reads them: tensors for the torch engine, else NumPy's arrays."""
        if is_tensor(X):
            X = checked_tensor(X)
            if engine.name == "torch":
                validate_data(self, np.zeros((1, X.shape[1])), reset=reset)
                return X
            X = to_numpy(X)
        return validate_data(self, X, dtype=DTYPES, order="C", reset=reset)

    def _plan(self) -> Plan:
        return PLANS[self.learning]() if isinstance(self.learning, str) else self.learning

    def _keep(
        self,
        X: Any,
        experts: Experts,
        history: tuple[IterationRecord, ...],
        probabilities: NDArray[np.float64],
    ) -> None:
        """Keep what was learnt, as the kind of arrays that `X` is."""
        experts = experts.like(X)
        self.family_ = experts.family
        self.means_ = experts.family.mean(experts.eta)
        if experts.family.n_statistics > 1:
            self.variances_ = experts.family.variance(experts.eta)
        elif hasattr(self, "variances_"):
            del self.variances_
        self.expertise_ = namespace(experts.eta).exp2(experts.log2_expertise)
        self.history_ = history
        self.objective_history_ = np.array([record.joint for record in history])
        self.n_iter_ = len(history)
        self.activation_probabilities_ = like(probabilities, X)
        self._n_features_out = self.n_experts

    # ---------------------------------------------------------------- encoding

    def transform(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Encode rows: which experts are active in each.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_rows, n_features)

        Returns
        -------
        H : ndarray of shape (n_rows, n_experts)
            Binary codes; for a Dask array a Dask array, computed chunk by chunk when asked for.
        """
        if is_dask_array(X):
            return self._lazily(X, self._codes, np.uint8, self.n_experts)
        return self._codes(X)

    def pursue(self, X: ArrayLike) -> Pursuit:
        """Encode rows and tell the story: who was activated when, and what it brought.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        Pursuit
            Orders of activation with the log-likelihood after each step.
        """
        rows, codes = self._encode(X)
        rows = to_numpy(rows)
        n_steps = int(codes.n_active.max())
        order = to_numpy(codes.order)[:, :n_steps].astype(np.int32)
        path = np.full(order.shape, np.nan)
        active = np.zeros((len(order), self.n_experts), dtype=bool)
        for step in range(n_steps):
            running = np.flatnonzero(order[:, step] >= 0)
            active[running, order[running, step]] = True
            path[running, step] = self._log_likelihood(rows[running], active[running])
        return Pursuit(order, path)

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Joint log-likelihood log P(x | h) + log P(h) of each row with its code, in nats.

        A lower bound of log P(x), which sums over all codes.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            For a Dask array a Dask array, computed chunk by chunk when asked for.
        """
        if is_dask_array(X):
            return self._lazily(X, self.score_samples, np.float64)
        rows, codes = self._encode(X)
        active = like(codes.active(self.n_experts), rows)
        prior = log_prior(active, like(self.activation_probabilities_, rows))
        return like(self._log_likelihood(rows, active) + prior, X)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Mean of :meth:`score_samples`, a lower bound of the mean log P(x).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : Ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    # ---------------------------------------------------------------- decoding

    def inverse_transform(self, H: ArrayLike) -> NDArray[np.float64]:
        """Compose the active experts' opinions under the hard rule (eq. 2).

        Parameters
        ----------
        H : array-like of shape (n_rows, n_experts)
            Binary codes, each with at least one active expert.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            The composed templates.
        """
        owner = self.partition(H)
        return like(self.means_, owner)[owner, np.arange(self.n_features_in_)]

    def partition(self, H: ArrayLike) -> NDArray[np.int32]:
        """Who explains what: the responsible expert of every variable (eq. 2).

        Parameters
        ----------
        H : array-like of shape (n_rows, n_experts)

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Index of the active expert with the highest expertise.
        """
        active = like(self._checked_codes(H), H)
        return owners(self._experts().like(active).ranks, active)

    def log_likelihood(self, X: ArrayLike, H: ArrayLike) -> NDArray[np.float64]:
        """Conditional log-likelihood log P(x | h) under the hard rule, in nats.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        H : array-like of shape (n_rows, n_experts)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows, active = self._checked_rows(X, self._engine(X)), self._checked_codes(H)
        if len(rows) != len(active):
            raise ValueError(f"X and H must have as many rows, found {len(rows)} and {len(active)}")
        return like(self._log_likelihood(rows, like(active, rows)), X)

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> NDArray:
        """Draw rows: a code from the learnt prior, then each variable from its owner.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples!r}")
        rng = check_random_state(random_state)
        probabilities = to_numpy(self.activation_probabilities_)
        active = rng.uniform(size=(n_samples, self.n_experts)) < probabilities
        # An empty code explains nothing: the likeliest expert speaks alone.
        active[~active.any(axis=1), probabilities.argmax()] = True
        experts = self._experts().like(probabilities)
        eta = compose_hard(experts.eta, owners(experts.ranks, active))
        return like(experts.family.draw(eta, rng), self.means_)

    def save(self, path: str | PathLike[str], *, overwrite: bool = True) -> None:
        """Write the fitted model to a file that :func:`dynpart.load` reads, whole or not at all.

        Parameters
        ----------
        path : path-like
        overwrite : bool, default=True
            Whether an existing file may be replaced.
        """
        save(self, path, overwrite=overwrite)

    # ---------------------------------------------------------------- inside

    def _limits(self) -> tuple[int, int]:
        """Fewest and most active experts per row."""
        if self.n_active is not None:
            return self.n_active, self.n_active
        return 1, self.n_experts if self.max_active is None else self.max_active

    def _rule(self, probabilities: NDArray[np.float64] | None = None) -> PursuitRule:
        """How rows are encoded; without probabilities a prior cost is not yet known."""
        fewest, most = self._limits()
        cost = np.zeros(self.n_experts)
        if not isinstance(self.activation_cost, str):
            cost += self.activation_cost
        elif probabilities is not None:
            probabilities = to_numpy(probabilities)
            cost -= np.log(probabilities) - np.log1p(-probabilities)
        return PursuitRule(
            fewest,
            most,
            cost,
            n_starts=self.n_starts,
            n_swaps=self.n_swaps,
            prune=self.prune,
        )

    def _encoders(self, experts: Experts) -> Experts:
        """The experts as codes are chosen by them."""
        return experts if self.criterion == "likelihood" else experts.equally_sure()

    def _experts(self) -> Experts:
        check_is_fitted(self)
        eta = self.family_.from_moments(self.means_, getattr(self, "variances_", self.means_))
        return Experts(self.family_, eta, namespace(eta).log2(self.expertise_))

    def _encode(self, X: ArrayLike) -> tuple[NDArray, Codes]:
        engine = self._engine(X)
        rows = self._checked_rows(X, engine)
        experts = self._encoders(self._experts().like(rows))
        rule = self._rule(self.activation_probabilities_)
        with rows_progress(self.verbose, len(rows)) as advance:
            if advance is None:
                return rows, engine.pursue(rows, experts, rule)
            parts = []
            for block in row_blocks(*rows.shape):
                parts.append(engine.pursue(rows[block], experts, rule))
                advance(len(rows[block]))
        return rows, type(parts[0]).joined(parts)

    def _codes(self, X: ArrayLike) -> NDArray[np.uint8]:
        active = like(self._encode(X)[1].active(self.n_experts), X)
        return active.view(namespace(active).uint8)

    def _lazily(self, X: Any, method: Callable, dtype: type, n_columns: int | None = None) -> Any:
        from dynpart.engines.dask import lazily

        check_is_fitted(self)
        check_width(X, self.n_features_in_)
        return lazily(X, method, dtype, n_columns)

    def _log_likelihood(self, rows: NDArray, active: NDArray[np.bool_]) -> NDArray[np.float64]:
        experts = self._experts().like(rows)
        family = experts.family

        def of_block(block: slice) -> NDArray[np.float64]:
            eta = compose_hard(experts.eta, owners(experts.ranks, active[block]))
            return family.log_density(family.statistics(rows[block]), eta).sum(axis=1)

        blocks = [of_block(block) for block in row_blocks(*rows.shape)]
        return namespace(blocks[0]).concatenate(blocks)

    def _checked_rows(self, X: ArrayLike, engine: Engine) -> NDArray:
        check_is_fitted(self)
        rows: NDArray = self._checked_table(X, engine, reset=False)
        self.family_.check(rows)
        return rows

    def _checked_codes(self, H: ArrayLike) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return check_codes(H, self.n_experts)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
