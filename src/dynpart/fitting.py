"""Fitting: the parameters of a model, and how it learns. Checks input, calls the learner."""

from __future__ import annotations

import math
import sys
import warnings
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart import streaming
from dynpart.ahead import expecting
from dynpart.amplitudes import Amplitude
from dynpart.arrays import like, to_numpy
from dynpart.autoregression import check_autoregressive, earlier_columns
from dynpart.baseline import Baseline, beside_columns
from dynpart.conditioning import condition
from dynpart.counting import CountedModel
from dynpart.encoding import Encoding, book_of_rows
from dynpart.engines import ENGINES, Experts
from dynpart.families import ColumnMoments, Family
from dynpart.learning import (
    Annealed,
    IterationRecord,
    Paper,
    Plan,
    Remedies,
    Task,
    activation_probabilities,
    complaints,
    expected_kernels,
    fit_experts,
    neighbourly,
    with_levels,
)
from dynpart.parameters import HasMethods, Interval, Options, StrOptions
from dynpart.prior import CodePrior
from dynpart.progress import fit_progress
from dynpart.refitting import refit
from dynpart.schema import as_shape
from dynpart.selection import Selection, select_size
from dynpart.storage import open_journal
from dynpart.streaming import Stream
from dynpart.validation import check_limits, random_generator
from dynpart.widths import separated, with_tails, with_widths

PLANS: dict[str, type] = {"annealed": Annealed, "paper": Paper}


class LearningWarning(UserWarning):
    """Learning has ended, but the result should be checked."""


MOST_COST = 1e12
"""Largest cost of an activation, in nats; likelihoods beside larger ones are rounding errors."""


class LearningModel(CountedModel):
    """A model that can learn; see :class:`dynpart.DynamicPartitionModel`."""

    _complaint: ClassVar[type[Warning]] = LearningWarning
    _remedies: ClassVar[Remedies] = Remedies()
    """Category of warnings about a fit."""
    _parameter_constraints: ClassVar[dict] = {
        "n_experts": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "family": [str],
        "columns": [dict, str, list, tuple, None],
        "unknown": [StrOptions({"error", "missing"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning": [
            StrOptions(set(PLANS)),
            HasMethods(
                ["start", "candidates", "steps", "expertise_change"],
                earlier={"candidates": "contenders"},
            ),
        ],
        "expert_update": [StrOptions({"average", "newton"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_active": [Interval(Integral, 1, None, closed="left"), None],
        "n_active": [Interval(Integral, 1, None, closed="left"), None],
        "prior": [StrOptions({"auto", "independent"}), None],
        "activation_cost": [Interval(Real, -MOST_COST, MOST_COST, closed="both")],
        "criterion": [StrOptions({"likelihood", "reconstruction"})],
        "n_starts": [Interval(Integral, 1, None, closed="left"), None],
        "n_swaps": [Interval(Integral, 0, None, closed="left"), None],
        "prune": ["boolean"],
        "amplitude": [StrOptions({"offset", "gain"}), None],
        "autoregressive": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"all"}),
            None,
        ],
        "variance_floor": [Interval(Real, 0, None, closed="neither"), None],
        "connectivity": ["array-like", "sparse matrix", None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "engine": [StrOptions(set(ENGINES))],
        "device": "no_validation",  # torch validates it
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    image_shape_: tuple[int, int]
    selection_: Selection
    baseline_: Baseline
    _stream: Stream | None
    _moments: ColumnMoments

    def __init__(
        self,
        n_experts: int | str = 10,
        *,
        family: str = "auto",
        columns: Any = None,
        unknown: str = "error",
        max_iter: int = 30,
        learning: str | Plan = "annealed",
        expert_update: str = "average",
        n_init: int = 1,
        max_active: int | None = None,
        n_active: int | None = None,
        prior: str | None = "auto",
        activation_cost: float = 0.0,
        criterion: str = "likelihood",
        n_starts: int | None = None,
        n_swaps: int | None = None,
        prune: bool = False,
        amplitude: str | None = None,
        autoregressive: int | str | None = None,
        variance_floor: float | None = None,
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
        self.columns = columns
        self.unknown = unknown
        self.max_iter = max_iter
        self.learning = learning
        self.expert_update = expert_update
        self.n_init = n_init
        self.max_active = max_active
        self.n_active = n_active
        self.prior = prior
        self.activation_cost = activation_cost
        self.criterion = criterion
        self.n_starts = n_starts
        self.n_swaps = n_swaps
        self.prune = prune
        self.amplitude = amplitude
        self.autoregressive = autoregressive
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
        sample_weight: Any = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
        every: float = 60.0,
        resume: bool = True,
    ) -> Self:
        """Learn experts and their levels of expertise.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or a source of rows
            The training rows. A table larger than memory is given in blocks of rows: a list of
            arrays, the path of a folder of .npy or .parquet files, a torch DataLoader, any iterable
            that can be read repeatedly, or a Dask array (with a running ``distributed.Client``).
            SciPy sparse matrices are accepted; no dense copy is made of a large one, and zeros that
            are not stored are observed values. NaN, None, nulls of a data frame and masked values
            are missing: they add nothing to the likelihood and are not imputed.
        y : Ignored
            Not used; for scikit-learn's interface.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows: a weight of 3 is equivalent to three equal rows, 0 to none. For
            blocks of rows, a sequence with the weights of each block, or "paired" if the source
            yields pairs of rows and weights; for a Dask array, a Dask array.
        checkpoint : path-like, default=None
            File with the progress of the fit. If it exists and belongs to the same rows in the same
            order and to the same parameters, the fit continues from it and ends bitwise as if it
            had not been interrupted. A checkpoint of another fit is an error.
        every : float, default=60.0
            Seconds between two writes of the checkpoint; 0 writes after every iteration.
        resume : bool, default=True
            Whether to continue from an existing checkpoint. If False, it is replaced once the data
            have been checked and learning begins.

        Returns
        -------
        self : DynamicPartitionModel
            The fitted model.
        """
        draft = copy(self)  # a fit that fails or is interrupted leaves this model unchanged
        draft._learn(X, sample_weight, checkpoint, every=every, resume=resume)
        self.__dict__ = draft.__dict__
        return self

    def _learn(
        self,
        X: Any,
        sample_weight: Any,
        checkpoint: str | PathLike[str] | None,
        *,
        every: float,
        resume: bool,
    ) -> None:
        """Learn experts and set the attributes."""
        self._validate_params()
        check_limits(self.n_experts, n_active=self.n_active, max_active=self.max_active)
        encoding = Encoding.of(self)
        data = self._open(X, reset=True, sample_weight=sample_weight)
        family = self._make_family(data.moments)
        if self.autoregressive is not None:
            check_autoregressive(self.autoregressive, family, complete=data.is_complete)
        rows = data.encoded(family)
        n_experts = 1 if isinstance(self.n_experts, str) else self.n_experts  # for now
        kernels = partial(expected_kernels, data.engine, rows, family, data.moments, n_experts)
        with expecting(kernels):
            self._learn_from(
                X, data, family, rows, n_experts, encoding, checkpoint, every=every, resume=resume
            )

    def _learn_from(
        self,
        X: Any,
        data: Any,
        family: Family,
        rows: Any,
        n_experts: int,
        encoding: Encoding,
        checkpoint: str | PathLike[str] | None,
        *,
        every: float,
        resume: bool,
    ) -> None:
        """Learn experts from opened rows of a family."""
        moments = with_levels(data.engine, rows, family, data.moments)
        self._warn_of_empty_rows(data)
        task = Task(
            data.engine,
            rows,
            moments,
            family,
            n_experts,
            self.max_iter,
            *encoding.limits(n_experts),
            neighbours=neighbourly(self.connectivity, len(data.moments.mean)),
            tol=self.tol,
            weight=data.weight,
            newton=self._newton(family),
            amplitude=Amplitude.of(self.amplitude, family),
            joint=self._is_joint(encoding),
        )
        seed = random_generator(self.random_state).randint(np.iinfo(np.int32).max)
        journal = None
        if checkpoint is not None:
            journal = open_journal(
                checkpoint, self, data, rows, family, seed=seed, every=every, resume=resume
            )
            seed = journal.seed
        self._forget_judgements()
        if self.n_experts == "auto":
            task = self._with_chosen_size(task, encoding, seed)
        n_experts = task.n_experts
        with fit_progress(self.verbose, self.max_iter, self.n_init) as report:
            fit = fit_experts(
                task,
                self._plan(),
                n_init=self.n_init,
                seed=seed,
                rule=encoding.rule((n_experts, len(data.moments.mean))),
                report=report,
                journal=journal,
            )
        if journal is not None:
            journal.write()
        codes, prior, epsilon = fit.codes, fit.prior, self._plan().epsilon
        shrunk = bool(fit.history) and fit.history[-1].step.shrink
        if task.joint and self.variance_floor is None and shrunk and prior is None:
            fit = replace(fit, experts=separated(task, fit.experts))
        if prior is None:
            codes, prior = encoding.counted(task.engine, fit.rows, fit.experts, fit.codes)
        experts = fit.experts
        if self.autoregressive is None and task.joint:
            fit, codes, prior = refit(task, epsilon, encoding, fit, codes, prior, seed)
            experts = with_widths(task, epsilon, encoding, fit, codes, prior, seed)
        elif self.autoregressive is not None:
            experts, prior = self._conditioned(task, fit.experts, prior, encoding, seed)
            codes, prior = encoding.counted(task.engine, fit.rows, experts, prior=prior)
        if self.autoregressive is None and shrunk:
            experts, codes, prior = with_tails(task, encoding, fit.rows, experts, codes, prior)
        summary = codes.summary(n_experts).to_numpy()
        self._keep(X, experts, fit.history, activation_probabilities(summary), prior)
        self._given_names = None
        self._book = book_of_rows(
            task.engine, fit.rows, fit.n_rows, codes, experts, encoding, prior
        )
        self._stream, self._moments = None, moments.like(np.empty(0))
        usual = self._usual_eta()
        self.baseline_ = beside_columns(
            task.engine, fit.rows, fit.n_rows, codes, experts, encoding, prior, usual,
            self._repeated_values(),
        )  # fmt: skip
        self.adaptation_ = fit.adaptation
        if self.verbose > 1:
            print(f"dynpart: {fit.adaptation}", file=sys.stderr)
        limit, unseen = task.max_active, fit.unseen
        several = fit.adaptation.mixture or len(fit.adaptation.trials) > 1
        for complaint in complaints(
            summary,
            fit.experts,
            fit.history,
            limit,
            unseen,
            several_trials=several,
            remedies=self._remedies,
        ):
            warnings.warn(complaint, self._complaint, stacklevel=4)

    def _with_chosen_size(self, task: Task, encoding: Encoding, seed: int) -> Task:
        """The task with the number of experts that describes held-back rows best."""

        def report(text: str) -> None:
            print(f"dynpart: {text}", file=sys.stderr)

        if self.verbose:
            report("choosing the number of experts on held-back rows")
        log = report if self.verbose > 1 else None
        self.selection_ = select_size(task, self._plan(), encoding, seed=seed, report=log)
        if self.verbose:
            report(str(self.selection_))
        n_experts = self.selection_.n_experts
        fewest, most = encoding.limits(n_experts)
        return replace(task, n_experts=n_experts, min_active=fewest, max_active=most)

    def _conditioned(
        self, task: Task, experts: Experts, prior: CodePrior, encoding: Encoding, seed: int
    ) -> tuple[Experts, CodePrior]:
        """The experts with weights of earlier values, and the prior of their codes."""
        assert self.autoregressive is not None
        shape = as_shape(getattr(self, "image_shape_", None))
        if shape is not None and math.prod(shape) != task.n_features:
            shape = None
        earlier = earlier_columns(self.autoregressive, task.n_features, shape)
        report = partial(print, file=sys.stderr) if self.verbose > 1 else None
        return condition(task, experts, prior, encoding, earlier, seed, report)

    def partial_fit(
        self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from one batch of rows by stepwise EM with decaying steps.

        A batch is one iteration of :meth:`fit`, with running averages as memory. The first t0
        batches, the plan's search (70% of `max_iter`), have step size 1. From then on batch t,
        counted from 0, has step size (1 + t - t0)^-0.7. After :meth:`fit`, learning continues from
        the fitted experts. Use a first batch of a few hundred rows or more: it sets the family and,
        for Gaussians, the centre and the smallest variance. :meth:`save` stores the state of the
        stream: a loaded model continues bitwise as this one would.

        A batch follows the plan's next step, or the last one if there are no more: its minimum
        number of active experts, the smoothed rule, bound on expertise, starts, swaps and sharper
        averages, and `connectivity`. A stream reads rows once, so it leaves out steps that need
        them again: it draws no rows from a batch, searches once with each candidate of the plan,
        does not re-initialise idle experts, and does not shrink opinions, because no batch is the
        last. Step sizes and memory are the stream's own; `n_init` and `tol` have no effect.
        `n_experts` cannot change. :func:`dynpart.streaming.step_of_batch` makes these decisions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            The rows of the batch, with NaN for missing values. In the first batch every column must
            have an observed value.
        y : Ignored
            Not used; for scikit-learn's interface.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows; 3 is equivalent to three equal rows.

        Returns
        -------
        self : DynamicPartitionModel
            The model after this batch.

        See Also
        --------
        dynpart.streaming.advance : The step of learning behind it, to be run on other systems.

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
        draft = copy(self)  # a batch that fails or is interrupted leaves this model unchanged
        draft._learn_batch(X, sample_weight)
        self.__dict__ = draft.__dict__
        return self

    def _learn_batch(self, X: Any, sample_weight: Any) -> None:
        """Learn from a batch and set the attributes."""
        fitted = hasattr(self, "means_")
        if fitted:
            self._ready()
        self._validate_params()
        n_experts = self.n_experts_ if fitted else self.n_experts
        if isinstance(n_experts, str):
            raise ValueError(
                "n_experts='auto' is for fit: partial_fit reads every batch once and cannot hold "
                "rows back; give a number, or fit some rows first"
            )
        check_limits(n_experts, n_active=self.n_active, max_active=self.max_active)
        data = self._open_table(
            X, reset=not fitted, sample_weight=sample_weight, unseen_columns=fitted
        )
        moments = data.moments
        if not fitted:
            self.family_ = self._make_family(moments)
        family = self.family_.for_learning().like(moments.mean)
        rows = data.encoded(family)
        moments = with_levels(data.engine, rows, family, moments)
        self._warn_of_empty_rows(data)
        plan = self._plan()
        if self.expert_update == "newton":
            raise ValueError(
                "expert_update='newton' is for fit: partial_fit keeps running averages; use "
                "expert_update='average'"
            )
        if self.amplitude is not None:
            raise ValueError(
                f"amplitude={self.amplitude!r} is for fit: partial_fit does not support "
                "amplitudes; use "
                "amplitude=None"
            )
        if self.autoregressive is not None:
            raise ValueError(
                f"autoregressive={self.autoregressive!r} is for fit: partial_fit learns no weights "
                "of earlier values; use autoregressive=None"
            )
        task = Task(
            data.engine,
            rows,
            moments,
            family,
            n_experts,
            self.max_iter,
            *Encoding.of(self).limits(n_experts),
            neighbours=neighbourly(self.connectivity, self.n_features_in_),
        )
        stream: Stream | None = getattr(self, "_stream", None)
        if stream is not None:
            stream = stream.like(moments.mean)  # it may come from a file or another device
        elif fitted:
            experts = self._experts().for_learning().like(moments.mean)
            known = getattr(self, "_moments", moments).like(moments.mean)
            stream = streaming.resume(task, experts, known)
        else:
            seed = random_generator(self.random_state).randint(np.iinfo(np.int32).max)
            stream = streaming.begin(task, plan, seed)
        stream = streaming.advance(task, plan, stream)
        probabilities = stream.activation_probabilities
        prior = CodePrior.independent(to_numpy(probabilities))
        self._keep(X, stream.experts, stream.history, probabilities, prior)
        self._stream, self._book = stream, None
        if self._found_schema is not None:  # later batches may go beyond the range of this one
            self._found_schema = replace(self._found_schema, ranges=None)
        self._forget_judgements()

    def _forget_judgements(self) -> None:
        """Delete results that belong to the previous experts."""
        for name in ("selection_", "stability_", "baseline_"):
            self.__dict__.pop(name, None)

    def _newton(self, family: Family) -> bool:
        """Whether opinions are updated by Newton's method; checks that the family allows it."""
        newton = self.expert_update == "newton"
        if newton and not family.allows_newton:
            raise ValueError(
                "expert_update='newton' is for binary columns, found family="
                f"{family.name!r}; use expert_update='average'"
            )
        return newton

    def _is_joint(self, encoding: Encoding) -> bool:
        """Whether the plan learns by description length, under a learnt prior."""
        wanted = getattr(self._plan(), "by_length", False)
        return wanted and encoding.prior == "auto" and encoding.is_joint

    def _plan(self) -> Plan:
        return PLANS[self.learning]() if isinstance(self.learning, str) else self.learning

    def _keep(
        self,
        X: Any,
        experts: Experts,
        history: tuple[IterationRecord, ...],
        probabilities: NDArray[np.float64],
        prior: CodePrior,
    ) -> None:
        """Store the learnt attributes as the same type of arrays as `X`."""
        self._keep_experts(experts.like(X))
        self.history_ = history
        self.objective_history_ = np.array([record.joint for record in history])
        self.n_iter_ = len(history)
        self.activation_probabilities_ = like(probabilities, X)
        self.prior_ = prior
        self._n_features_out = experts.n_experts
        shape = getattr(self, "image_shape_", None)
        if shape is not None and math.prod(shape) != self.n_features_in_:
            del self.image_shape_
        self._counted_with = Encoding.of(self)
