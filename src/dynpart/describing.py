"""Describing: a fitted model as a description; how it is printed is in `summaries`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import row_blocks, to_numpy
from dynpart.codebook import MOST_CODES
from dynpart.composition import owners
from dynpart.listing import row_labels
from dynpart.naming import opinion_in_words, says_in_words
from dynpart.opinions import Opinions, usual_parameters
from dynpart.savings import NATS, summed_saving
from dynpart.summaries import Company, Description, ExpertSummary, Opinion, RowTypeSummary

if TYPE_CHECKING:
    from dynpart.baseline import Baseline, RepeatedValues
    from dynpart.schema import Schema

Array = NDArray[np.float64]
MOST_ROWS = 0.5
"""Minimum share of a type's rows for its experts."""
TOGETHER, APART = 0.15, -0.15
"""Correlations of activations above and below which experts are listed as together or apart."""


class DescribesItself:
    """Methods of a fitted model that describe its experts."""

    if TYPE_CHECKING:  # attributes of the rest of the model
        _ready: Any
        _experts: Any
        _book: Any
        _is_counted: Any
        _checked_rows: Any
        _engine: Any
        transform: Any
        score_samples: Any
        schema_: Any
        types_: Any
        activation_probabilities_: Any

    _given_names: Mapping[int, str] | None = None

    @property
    def expert_names_(self) -> list[str]:
        """Names of the experts: their most unusual opinions, or names set by the user.

        Names come from the opinions that differ most from the overall rates, among the variables
        that the expert owns: "milk, hair, eggs: no". For images they give the place: "lower left".
        """
        from dynpart.naming import expert_names

        return expert_names(self._opinions(), self.schema_, self._given_names)

    def rename_experts(self, names: Mapping[int, str | None]) -> Any:
        """Set names of experts for figures, reports, commands and model files.

        Parameters
        ----------
        names : mapping of int to str or None
            New names by the index of the expert; None restores the automatic name. Other experts
            keep their names. A new :meth:`fit` deletes all of them.

        Returns
        -------
        self : DynamicPartitionModel
            The model with the new names.

        Examples
        --------
        >>> from dynpart import DynamicPartitionModel
        >>> from dynpart.datasets import make_pairs
        >>> model = DynamicPartitionModel(4, random_state=0).fit(make_pairs(2))
        >>> model.rename_experts({1: "both of the first pair"}).expert_names_[1]
        'both of the first pair'
        """
        from dynpart.naming import checked_names

        n_experts = self._ready()
        merged = dict(self._given_names or {}) | dict(names)
        self._given_names = checked_names(merged, n_experts)
        return self

    def describe(
        self, X: Any = None, *, labels: Sequence[str] | None = None, top: int = 5
    ) -> Description:
        """Describe every expert, and the bits that the model saves.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), default=None
            Rows for typical rows, unusual rows and bits per row. Without them, the description uses
            only the fitted attributes.
        labels : sequence of str, default=None
            Names of the rows; by default the index of a data frame, or their numbers.
        top : int, default=5
            Number of opinions per expert.

        Returns
        -------
        Description
            ``print`` and notebooks show it; its method ``to_frame`` returns a data frame.

        Examples
        --------
        >>> from dynpart import DynamicPartitionModel
        >>> from dynpart.datasets import make_pairs
        >>> X = make_pairs(2)
        >>> model = DynamicPartitionModel(4, random_state=0).fit(X)
        >>> print(model.describe().lines()[0])
        4 experts for 4 variables; 2.0 active in a row.
        """
        n_experts = self._ready()
        opinions, schema = self._opinions(), self.schema_
        names = self.expert_names_
        share = observed_shares(self)
        judged = _judged_in_training(getattr(self, "baseline_", None)) if X is None else {}
        typical: list[tuple[int, ...]] = [()] * n_experts
        called: Sequence[str] = ()
        if X is not None:
            codes = to_numpy(self.transform(X)).astype(bool)
            share = codes.mean(axis=0)
            called = row_labels(X, labels, len(codes))
            typical, judged = self._judged(X, codes, called)
        book = self._book
        if X is not None:
            related = _correlation(codes, np.ones(len(codes)))
        elif book is not None:
            if len(book) < MOST_CODES:  # it has the codes of all rows
                share = np.where(book.codes.any(axis=0), share, 0.0)
            related = _correlation(book.codes, book.counts)
        else:
            related = np.zeros((n_experts, n_experts))
        stability = getattr(self, "stability_", None)
        experts = tuple(
            ExpertSummary(
                k,
                names[k],
                float(share[k]),
                _opinions_in_short(opinions, schema, k, top),
                tuple(called[n] for n in typical[k]),
                typical[k],
                *_company(related[k], names, k),
                None if stability is None else stability.words(k),
            )
            for k in np.argsort(-share, kind="stable").tolist()
        )
        types = _types_in_short(self.types_, names)
        unit = "variable" if schema.image_shape is None else "pixel"
        active = float((share if X is not None else self.activation_probabilities_).sum())
        return Description(experts, len(schema), active, types=types, unit=unit, **judged)

    def independent_scores(self, X: Any) -> Array:
        """Log-likelihood of each row under independent columns, in nats.

        The baseline of :meth:`score_samples`: each column has its distribution over all training
        rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows,)
            Sums of the log-likelihoods of the observed values.
        """
        self._ready()
        rows = self._checked_rows(X, self._engine(X)).to_numpy()
        family, usual = self._experts().like(np.empty(0)).family, self._usual_eta()
        scores = np.empty(len(rows))
        for block in row_blocks(*rows.shape):
            scores[block] = family.log_density(rows.values[block], usual).sum(axis=1)
        return scores

    def _repr_html_inner(self) -> str:
        """HTML for notebooks: scikit-learn's diagram and, for a fitted model, its experts."""
        return super()._repr_html_inner() + self._experts_in_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._experts_in_html()
        return bundle

    def _experts_in_html(self) -> str:
        return self.describe()._repr_html_() if hasattr(self, "means_") else ""

    def _opinions(self) -> Opinions:
        from dynpart.opinions import array_opinions

        return array_opinions(self)

    def _usual_eta(self) -> Array:
        """Mean parameters of all training rows, shape (n_statistics, 1, n_features)."""
        experts = self._experts().like(np.empty(0))
        share = to_numpy(self.activation_probabilities_)
        return usual_parameters(experts.family, experts.eta, share, getattr(self, "_moments", None))

    def _repeated_values(self) -> RepeatedValues:
        from dynpart.baseline import RepeatedValues

        share = to_numpy(self.activation_probabilities_)
        experts = self._experts().like(np.empty(0))
        return RepeatedValues.of(experts, self._usual_eta(), share, getattr(self, "_book", None))

    def _saved_by_repeats(self, X: Any) -> Array:
        """Nats per row that independent columns would save by knowing which values repeat."""
        return self._repeated_values().saved(self._checked_rows(X, self._engine(X)).to_numpy())

    def _judged(
        self, X: Any, codes: NDArray[np.bool_], labels: Sequence[str]
    ) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
        """Typical rows of every expert, and the measures of all rows."""
        gain, usual = self._gains(X, codes)
        typical = [tuple(_best(gain[:, k], codes[:, k], 4)) for k in range(len(gain[0]))]
        if not self._is_counted():
            return typical, {"n_rows": len(codes)}
        scores = to_numpy(self.score_samples(X))
        bits, baseline = float(-scores.mean()) / NATS, float(-usual.mean()) / NATS
        summed = summed_saving(self, X, scores, baseline - bits)
        worst = np.argsort(scores - usual, kind="stable")[: min(3, len(scores) // 10)]
        judged = {
            "n_rows": len(codes),
            "bits": bits,
            "baseline_bits": baseline,
            "summed_bits": None if summed is None else baseline - summed,
            "repeated_bits": float(self._saved_by_repeats(X).mean()) / NATS,
            "odd": tuple(labels[n] for n in worst),
            "odd_rows": tuple(int(n) for n in worst),
        }
        return typical, judged

    def _gains(self, X: Any, codes: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Gain of each expert on the variables it owns, (n_rows, n_experts), over the usual
        opinion; and the log-likelihood of independent columns, (n_rows,). Both in nats.
        """
        rows = self._checked_rows(X, self._engine(X)).to_numpy()
        experts = self._experts().like(np.empty(0))
        family = experts.family
        usual_eta = self._usual_eta()
        gain, usual = np.zeros(codes.shape), np.empty(len(codes))
        for block in row_blocks(*rows.shape):
            values = rows.values[block]
            owner = owners(experts.ranks, codes[block])
            common = family.log_density(
                values, np.broadcast_to(usual_eta, (len(usual_eta), *values.shape))
            )
            better = experts.owned_log_density(values, owner) - common
            usual[block] = common.sum(axis=1)
            for k in np.flatnonzero(codes[block].any(axis=0)):
                gain[block, k] = np.where(owner == k, better, 0.0).sum(axis=1)
        return gain, usual


def observed_shares(model: Any) -> Array:
    """Share of the rows in which each expert is active, as counted by the model.

    `activation_probabilities_` are kept off 0 and 1 by half a row, so they differ from what
    `describe` counts in the same rows. A model that learnt from a stream has no such count: its
    probabilities are returned.

    Parameters
    ----------
    model : DynamicPartitionModel

    Returns
    -------
    ndarray of shape (n_experts,)
    """
    kept = to_numpy(model.activation_probabilities_)
    book = getattr(model, "_book", None)
    if book is None:
        return kept
    n_rows = book.counts.sum()
    return np.clip(((n_rows + 1) * kept - 0.5) / n_rows, 0.0, 1.0)


def _judged_in_training(baseline: Baseline | None) -> dict[str, Any]:
    """Bits per training row, if they were counted."""
    if baseline is None:
        return {}
    return {
        "bits": -baseline.nats / NATS,
        "baseline_bits": -baseline.columns / NATS,
        "repeated_bits": baseline.repeats / NATS,
    }


def _best(gain: Array, active: NDArray[np.bool_], most: int) -> list[int]:
    """Rows in which an expert is active and gains most."""
    rows = np.flatnonzero(active)
    return [int(n) for n in rows[np.argsort(-gain[rows], kind="stable")[:most]]]


def _correlation(codes: NDArray[Any], counts: Array) -> Array:
    """Correlation of activations of every pair of experts; 0 if one is never or always active."""
    share = counts / counts.sum()
    active = codes.astype(np.float64)
    mean = share @ active
    covariance = (active * share[:, None]).T @ active - np.outer(mean, mean)
    spread = np.sqrt(np.clip(np.diag(covariance), 0, None))
    scale = np.outer(spread, spread)
    return np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 1e-12)


def _company(
    related: Array, names: Sequence[str], k: int
) -> tuple[tuple[Company, ...], tuple[Company, ...]]:
    """Experts that are active together with expert k, and apart from it, the clearest first."""
    order = [int(j) for j in np.argsort(-related, kind="stable") if j != k]
    entries = [Company(j, names[j], float(related[j])) for j in order]
    together = tuple(c for c in entries if c.correlation >= TOGETHER)[:3]
    return together, tuple(c for c in reversed(entries) if c.correlation <= APART)[:3]


def _types_in_short(types: Any, names: Sequence[str]) -> tuple[RowTypeSummary, ...]:
    """Types of rows by the experts of most of their rows; those with the same ones are merged."""
    found: dict[tuple[int, ...], tuple[float, Array]] = {}
    for kind in types:
        active = to_numpy(kind.activation_probabilities)
        experts = tuple(np.flatnonzero(active >= MOST_ROWS).tolist())
        share, sums = found.get(experts, (0.0, np.zeros(len(active))))
        found[experts] = (share + float(kind.weight), sums + float(kind.weight) * active)
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    return tuple(
        RowTypeSummary(
            share,
            experts,
            tuple(names[k] for k in experts),
            tuple(float(sums[k] / share) for k in experts),
        )
        for experts, (share, sums) in ordered
    )


def _opinions_in_short(opinions: Opinions, schema: Schema, k: int, top: int) -> tuple[Opinion, ...]:
    if schema.image_shape is not None and schema.names is None:
        return ()  # single pixels mean little to a reader
    return tuple(
        Opinion(
            schema.label(d),
            says_in_words(opinions, schema, k, d),
            None if np.isnan(opinions.chance[k, d]) else float(opinions.chance[k, d]),
            float(opinions.usual[k, d]),
            float(opinions.decides[k, d]),
            opinion_in_words(opinions, schema, k, d),
        )
        for d in opinions.strongest(k, top)
    )
