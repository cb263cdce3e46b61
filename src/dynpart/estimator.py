"""The scikit-learn interface of the model, for its tools and pipelines."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    DensityMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from dynpart.fitting import LearningModel

LITERAL: dict[str, Any] = {"learning": "paper", "n_swaps": 0, "prior": None}
"""Parameters for a literal implementation of the paper."""


class DynamicPartitionModel(
    LearningModel,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    DensityMixin,
    BaseEstimator,
):
    """Dynamic partition model: explain each row by a few experts, each variable by one of them.

    Every expert has an opinion about every variable and a level of expertise for it. The code of a
    row is the set of its active experts. Each variable is explained by the active expert with the
    highest expertise, so a code partitions the variables. Codes are found by greedy likelihood
    matching pursuit and refined until no single change improves them. Experts and expertise are
    learnt by an EM-like loop [1]_.

    Most fits need only `n_experts` and `random_state`, and `columns` if numbers stand for classes.
    Use `max_active` for shorter codes and `n_init` if results differ between seeds. The defaults of
    the other parameters adapt to the data. :doc:`The user guide </guide/index>` shows them in use.

    Parameters
    ----------
    n_experts : int or "auto", default=10
        Number of experts, at least `max_active` and `n_active`. More experts describe finer parts;
        they need more rows and more time. "auto" chooses the number by the description length of
        held-back rows and then learns from all rows, which takes two and a half to four times as
        long as one fit; see ``selection_`` and :doc:`how many experts </guide/size>`.
    family : {"auto", "bernoulli", "gaussian", "count"} or a registered name, default="auto"
        Distribution of a variable under an expert. "auto" follows the kinds of the columns. Each
        column has its own kind: booleans, 0/1 and yes/no are binary, other texts and categories
        categorical, other numbers real with a scale per column. Columns of an array without names
        share one scale if they :doc:`look like pixels </your-own-data>`, or if `connectivity`,
        `amplitude` or ``image_shape_`` is set. A name, also one added by
        :func:`dynpart.families.register`, applies to all columns; "gaussian" has one scale for all.
        For single columns, use `columns`.
    columns : dict, str or sequence, default=None
        Kinds of columns that should not be detected, for example of integers that are codes of
        classes: column names or indices and their kinds, as in
        ``{"legs": "categorical", "visits": "count"}``; one kind for all columns; or one per column,
        None to detect it. Kinds are "binary", "categorical", "count" and "real". A list of levels
        instead of a kind makes a column categorical with these levels, in this order.
    unknown : {"error", "missing"}, default="error"
        Treatment of a level that did not occur in the fit: an error, or a missing value. Use
        "missing" if new data may have new levels.
    max_iter : int, default=30
        Number of iterations, at least 1. The schedule is scaled to this number. 15 halve the time
        and are often enough for small data; use more after a warning that learning collapsed.
    learning : {"annealed", "paper"} or Plan, default="annealed"
        Learning schedule; :doc:`how dynpart learns </learning>` explains the default. "paper" is a
        literal implementation of the paper (use it with ``n_swaps=0`` and ``prior=None``), which
        finds worse experts. An object with the methods of :class:`dynpart.learning.Plan` replaces
        the whole schedule.
    expert_update : {"average", "newton"}, default="average"
        Update of opinions. "average" is eq. 5 and 6 of the paper. "newton" is Newton's method of
        its appendix B, for :meth:`fit` and binary columns; it is :doc:`not better overall
        </learning>`.
    n_init : int, default=1
        Number of fits from different starts; the one with the shortest description is kept. Five
        take five times as long and help if results differ between seeds.
    max_active : int, default=None
        Maximum number of active experts per row, in learning and encoding; None for no limit. A
        limit gives codes that are shorter to read and faster to find.
    n_active : int, default=None
        Exact number of active experts per row; None lets the number vary between rows. 1 makes the
        model a mixture: each row belongs to one expert.
    prior : {"auto", "independent"} or None, default="auto"
        The prior P(h) over codes. "auto" learns which experts are active together: a mixture of
        trees or one of its special cases, chosen on held-back codes. "independent" uses independent
        activations. With both, codes are chosen by log P(x|h) + log P(h), so every active expert
        gains more than it costs. None chooses codes by log P(x|h) alone, as the paper does, and
        scores them with independent activations: more experts are active and reconstructions are
        closer, but codes of unseen rows cost more bits.
    activation_cost : float, default=0.0
        Additional cost of an active expert in encoding, in nats, from -1e12 to 1e12. Raise it for
        shorter codes.
    criterion : {"likelihood", "reconstruction"}, default="likelihood"
        Criterion for the choice of codes in encoding. "reconstruction" gives all opinions the same
        certainty: fewer values are wrong, or squared errors are smaller, but the likelihood is
        lower. Use it for codes that you look at or decode. Learning does not depend on it.
    n_starts : int, default=None
        Number of searches for the code of a row in encoding, each starting with another expert; the
        best code is kept. None uses as many as are cheap: every expert on a small table, one on
        rows of many variables. With ``n_swaps=0`` None means one. 8 searches longer on images.
    n_swaps : int, default=None
        Maximum number of rounds of the refinement, which exchanges, drops and adds experts. None
        continues until no single change improves the code. With 0, codes are greedy, as in the
        paper, and take less than half the time.
    prune : bool, default=False
        Whether to drop experts that later activations made useless, in encoding. Use it with
        ``n_swaps=0``; the refinement drops them anyway.
    amplitude : {"offset", "gain"} or None, default=None
        Real-valued activations, for real columns that share one scale: for the variables it owns,
        an active expert predicts its opinion plus an offset ("offset"), or gain * opinion + offset
        ("gain"). Both numbers are estimated for each row; see :meth:`amplitudes`. Use it for gray
        images whose parts vary in brightness or contrast. None keeps activations binary.
    autoregressive : int, "all" or None, default=None
        Dependence of predictions on earlier variables: P(x_d | x_<d, h) instead of P(x_d | h), with
        weights shared by all experts, for columns that are all binary or all real. "all" uses every
        earlier column. A number uses as many earlier columns or, on images (``image_shape_``, set
        before the fit), pixels at most that many lines and columns away. The weights are learnt by
        :meth:`fit` after the experts, from rows without gaps. Use it for higher likelihoods and for
        samples that look more like the data. With None, variables are independent given the code.
    variance_floor : float, default=None
        Smallest variance of a Gaussian expert, relative to the mean column variance of the data, or
        to each column's own variance if columns have their own scale. Small values fit densities;
        1.0 reconstructs best. None means 0.000001 if columns have their own scale, or more in
        columns where left-out rows need it. If they share one scale, None means 1.0 for learning
        and for choosing codes; the variances for scores are estimated at the end.
    connectivity : sparse matrix or array of shape (n_features, n_features), default=None
        Graph of neighbouring variables, such as the result of scikit-learn's ``grid_to_graph``.
        Evidence for expertise is smoothed over neighbours, so that supports become coherent parts.
        An expert with little data for a variable also uses its opinions about the neighbours. It
        helps on large images.
    tol : float, default=1e-5
        Learning stops before `max_iter` if opinions change by less than this, in standard
        deviations of the data, in an iteration over all rows. The search phase is never shortened.
        0 always runs all iterations.
    engine : {"auto", "cpu", "reference", "torch"}, default="auto"
        Implementation of the computation: "cpu" has compiled kernels for all cores, "torch" has
        kernels for GPUs (``pip install 'dynpart[gpu]'``), "reference" is plain NumPy and slow.
        "auto" uses "torch" for tensors on a GPU or if `device` is given, and "cpu" otherwise.
    device : str or torch.device, default=None
        Device of the torch engine, such as "cuda" or "cuda:1". None uses the device of the rows, or
        the GPU. NumPy rows that do not fit on it are streamed.
    n_jobs : int, default=None
        Number of threads of the CPU engine. None uses as many as Numba and threadpoolctl allow, -1
        all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisation and of the rows drawn in early iterations. With an integer, a fit
        can be repeated.
    verbose : int, default=0
        1 shows progress, 2 prints a line per iteration.

    Attributes
    ----------
    n_experts_ : int
        Number of learnt experts.
    selection_ : Selection
        The choice of the number, after a fit with ``n_experts="auto"``: the sizes that were tried,
        their description lengths of held-back rows, and two baselines.
    baseline_ : Baseline
        Log-likelihoods of training rows under the model and under independent columns.
    stability_ : Stability
        How often each expert is found again in bootstrap samples, after :meth:`stability`.
    expert_names_ : list of str
        Names of the experts, made of their most unusual opinions or set by :meth:`rename_experts`.
    means_ : ndarray of shape (n_experts, n_features)
        Opinions: the mean of every variable under every expert.
    variances_ : ndarray of shape (n_experts, n_features)
        Variances of the opinions, in families of numbers.
    expertise_ : ndarray of shape (n_experts, n_features)
        Levels of expertise. Only their order and ratios within a variable matter.
    activation_probabilities_ : ndarray of shape (n_experts,)
        Frequencies of activation in the training rows, or in 20,000 of them if there are more,
        encoded with the parameters at that time; see :meth:`recount`.
    prior_ : CodePrior
        The prior over codes, learnt from the same codes. After :meth:`partial_fit` it has
        independent activations, until :meth:`recount` is called.
    types_ : tuple of RowType
        Types of rows, the most frequent first: the components of the prior, with their weights,
        the activation probabilities of experts and the most probable code.
    objective_history_ : ndarray of shape (`n_iter_`,)
        Mean joint log-likelihood log P(x | h) + log P(h) of each iteration's rows, in nats.
    history_ : tuple of IterationRecord
        One record per iteration of learning.
    adaptation_ : Adaptation
        Adaptation of the schedule to the data, with reasons; printed with ``verbose=2``.
    family_ : Family
        The family of the columns.
    n_iter_ : int
        Number of iterations of learning.
    n_features_in_ : int
        Number of variables.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the variables, if the input had names.
    image_shape_ : tuple of int
        (height, width) if rows are images. Set it after a fit, or before a fit with
        `autoregressive`; model files, figures and commands use it.
    schema_ : Schema
        Kinds, names and levels of the variables, and the image shape.

    Notes
    -----
    If you change parameters after a fit, those of encoding (`max_active` to `prune`) take effect at
    once, the others at the next fit. A fit that fails or is interrupted leaves the model unchanged.
    Attributes with the experts are read-only: replacing one is an error.

    References
    ----------
    .. [1] Goessling, M. and Amit, Y. (2017), "Dynamic Partition Models", ICLR workshop.

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

    _complaint: ClassVar[type[Warning]] = ConvergenceWarning

    # Repeated here because set_output wraps only methods of the estimator's own class.
    transform = LearningModel.transform

    def _validated(self, X: Any, *, reset: bool, **checks: Any) -> Any:
        return validate_data(self, X, reset=reset, **checks)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags
