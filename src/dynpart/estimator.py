"""The scikit-learn face of the model: what its tools and pipelines expect of an estimator."""

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
"""Arguments with which everything is done as the paper's text says."""


class DynamicPartitionModel(
    LearningModel,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    DensityMixin,
    BaseEstimator,
):
    """Dynamic partition model: explain each row by a few experts, each variable by one of them.

    Every expert has an opinion on every variable and a level of expertise for it. A row's code
    says which experts are active; each variable is explained by the active expert with the highest
    expertise, so the code also partitions the variables. Codes are found by greedy likelihood
    matching pursuit, then refined until no single change improves them; experts and expertise are
    learnt by an EM-like loop [1]_.

    Parameters
    ----------
    n_experts : int or "auto", default=10
        Number of experts to learn. "auto" chooses it by the description length of rows that are
        held back, in three to five times the time of one fit, then learns from all rows as if the
        number had been given; see ``selection_``. It is at least `max_active` or `n_active`.
    family : {"auto", "bernoulli", "gaussian", "count"} or a registered name, default="auto"
        Distribution of a variable under an expert. "auto" follows the kinds of the columns. An
        array of numbers without names is judged as a whole: "bernoulli" when every value is 0 or 1,
        otherwise "gaussian" with one scale for all columns, as pixels have it. Columns of a data
        frame, of a structured array or of rows with text are judged one by one: booleans, 0/1 and
        yes/no are binary, other texts and categories categorical, other numbers real, each column
        with a scale of its own. A name, also one of :func:`dynpart.families.register`, is for all
        columns.
    columns : dict, str or sequence, default=None
        What columns are, where that should not be guessed: names or places and their kinds, as in
        ``{"legs": "categorical", "visits": "count"}``; one kind for all; or one per column, None
        where nothing is said. Kinds are "binary", "categorical", "count" and "real". A list of
        levels instead of a kind makes a column categorical with these levels, in this order.
    unknown : {"error", "missing"}, default="error"
        What to do about a level that was not there in the fit: refuse it, or take it as not
        observed.
    max_iter : int, default=30
        Iterations of learning. The schedule stretches over all of them.
    learning : {"annealed", "paper"} or Plan, default="annealed"
        How to learn. "paper" is the paper's text taken literally (with ``n_swaps=0`` and
        ``prior=None``). An object with the methods of :class:`dynpart.learning.Plan` replaces the
        schedule as a whole.
    expert_update : {"average", "newton"}, default="average"
        How opinions move. "average" is the paper's eq. 5 and 6. "newton" is the method of its
        appendix B, for :meth:`fit` and binary columns; ``docs/learning.md`` says where it does
        worse.
    n_init : int, default=1
        Number of fits from different starts; the one with the shortest description is kept.
    max_active : int, default=None
        At most so many experts are active in a row, in learning and encoding; None for no limit.
    n_active : int, default=None
        Exactly so many experts are active in a row; None leaves the number to the data.
    prior : {"auto", "independent"} or None, default="auto"
        The prior P(h) over codes. "auto" learns which experts go together: a mixture of trees, or
        one of its special cases, whichever describes codes best that are held back.
        "independent" takes every activation for itself. With both, codes are chosen by log P(x|h)
        + log P(h), so that no expert is active that does not pay for itself. None chooses codes by
        log P(x|h) alone, as the paper does, and scores them by independent activations.
    activation_cost : float, default=0.0
        Further nats an expert must gain to be activated when rows are encoded.
    criterion : {"likelihood", "reconstruction"}, default="likelihood"
        What codes are chosen for when rows are encoded. "likelihood" takes every opinion as firmly
        as it is held. "reconstruction" holds all of them alike: fewer values come out wrong, or
        squared errors are smaller, at the price of likelihood. Learning is the same.
    n_starts : int, default=None
        Greedy searches for the code of a row when rows are encoded, each begun with another
        expert; the best code is kept. None tries as many as cost little: every expert on a small
        table, one on rows of many variables. With ``n_swaps=0`` None means one.
    n_swaps : int, default=None
        Most rounds of the refinement that follows: experts are exchanged, dropped and added. None
        goes on until no single change improves the code. With 0 codes are the paper's: greedy, and
        found in less than half the time.
    prune : bool, default=False
        Drop experts that later activations made useless when rows are encoded.
    amplitude : {"offset", "gain"}, default=None
        Whether activations are real-valued, in real columns that share one scale: an active expert
        says its opinion plus an offset about what it owns ("offset"), or gain * opinion + offset
        ("gain"). Both numbers are found for each row; see :meth:`amplitudes`. None keeps
        activations binary.
    autoregressive : int or "all", default=None
        Whether what an expert says about a variable depends on the variables before it: P(x_d |
        x_<d, h) instead of P(x_d | h), with weights that all experts share, in columns that are all
        binary or all real. "all" takes every earlier column; a number so many of them, or on images
        (``image_shape_``, set before the fit) pixels at most so many lines and columns away. Learnt
        by :meth:`fit` after the experts, from rows without gaps. None takes variables as
        independent given the code.
    variance_floor : float, default=None
        Smallest variance of a Gaussian expert relative to the data's mean column variance, or to
        each column's own where columns have their own scale. Small values fit densities, 1.0
        reconstructs best. None means 0.0001 where columns have their own scale. Where they share
        one it means 1.0 for learning and for choosing codes; variances that describe rows are then
        estimated at the end.
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
    n_experts_ : int
        Number of experts learnt.
    selection_ : Selection
        How the number was chosen, after a fit with ``n_experts="auto"``: the sizes that were tried,
        how each describes held-back rows, and two baselines.
    baseline_ : Baseline
        How likely training rows are to the model, and to independent columns.
    stability_ : Stability
        How often each expert is found again in other samples, after :meth:`stability`.
    means_ : ndarray of shape (n_experts, n_features)
        Opinions: the mean of every variable under every expert.
    variances_ : ndarray of shape (n_experts, n_features)
        Variances of the opinions, in families of numbers.
    expertise_ : ndarray of shape (n_experts, n_features)
        Levels of expertise. Only their order and ratios within a variable matter.
    activation_probabilities_ : ndarray of shape (n_experts,)
        How often each expert is active in the training rows, in 20,000 of them if there are more,
        encoded as the parameters said at that time; see :meth:`recount`.
    prior_ : CodePrior
        The prior over codes, learnt from the same codes. After :meth:`partial_fit` independent
        activations, until :meth:`recount`.
    types_ : tuple of RowType
        Types of rows, the most frequent first: the components of the prior, with their weights,
        the activation probabilities of experts and the most probable code.
    objective_history_ : ndarray of shape (`n_iter_`,)
        Mean joint log-likelihood log P(x | h) + log P(h) of each iteration's rows, in nats.
    history_ : tuple of IterationRecord
        The full log of learning.
    adaptation_ : Adaptation
        How the schedule was adapted to the data, and why; printed with ``verbose=2``.
    family_ : Family
        The family the data asked for.
    n_iter_ : int
        Iterations run.
    n_features_in_ : int
        Number of variables.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the variables, where the input had names.
    image_shape_ : tuple of int
        (height, width) if rows are images and somebody has said so: set it after a fit, and model
        files, figures and commands know it.
    schema_ : Schema
        What the variables are: their kinds, names and shape in one place.

    Notes
    -----
    Of parameters changed after the fit, those of encoding (`max_active` to `prune`) count at once,
    others from the next fit on. A fit that fails or is interrupted leaves the model as it was.
    Attributes that show the experts are for reading: one that was replaced is an error.

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

    _complaint: ClassVar[type[Warning]] = ConvergenceWarning

    transform = LearningModel.transform
    """Named here, since :meth:`set_output` works on what the estimator's own class has."""

    def _validated(self, X: Any, *, reset: bool, **checks: Any) -> Any:
        return validate_data(self, X, reset=reset, **checks)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags
