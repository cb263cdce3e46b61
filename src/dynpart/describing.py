"""Describing: a fitted model in words and numbers; does not use commands."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import row_blocks, to_numpy
from dynpart.codebook import MOST_CODES
from dynpart.composition import owners
from dynpart.naming import opinion_in_words, percent, says_in_words
from dynpart.opinions import Opinions, usual_parameters
from dynpart.stability import LEGEND

if TYPE_CHECKING:
    from dynpart.baseline import Baseline, RepeatedValues
    from dynpart.schema import Schema

Array = NDArray[np.float64]
NATS = math.log(2)
"""Nats in a bit."""
LEAST_BITS = 0.05
"""Bits per row that are printed as 0.0."""
LEAST_MORE, LEAST_MORE_SHARE = 0.1, 0.1
"""The sum over all codes is mentioned if it saves this many bits more, and this share more."""
MANY_BITS = 40.0
"""From this many saved bits on, the sum over all codes is not computed: more says nothing new."""
SUMMED_ROWS = 1000
"""Maximum number of rows for which codes are summed; their gain stands for that of all rows."""
LARGEST_TOLD = 1000
"""Bits from which a factor is not told any more."""
SELDOM = 0.5
"""If an expert decides a variable in a smaller share of its rows, the share is printed."""
MOST_TYPES = 10
"""Number of types of rows that are listed one by one."""
MOST_ROWS, NEARLY_ALWAYS = 0.5, 0.9
"""Minimum share of a type's rows for its experts; below the second value the share is printed."""
TOGETHER, APART = 0.15, -0.15
"""Correlations of activations above and below which experts are listed as together or apart."""


@dataclass(frozen=True)
class Opinion:
    """An expert's opinion about one variable.

    Attributes
    ----------
    variable : str
    says : str
        A level, or a mean.
    chance : float or None
        Probability of the level under the expert; None for numbers.
    usual : float
        How often the level occurs in all rows, or the mean of all rows.
    decides : float
        Share of the rows with this expert in which it owns the variable.
    words : str
        A short text: "yes (99%; usually 41%)".
    """

    variable: str
    says: str
    chance: float | None
    usual: float
    decides: float
    words: str

    def told(self) -> str:
        """The words, and the share of the expert's rows in which it owns the variable, if small."""
        if self.decides >= SELDOM:
            return self.words
        return f"{self.words}, in {percent(self.decides)} of its rows"


@dataclass(frozen=True)
class Company:
    """Another expert, and how activations of the two are correlated."""

    expert: int
    name: str
    correlation: float


@dataclass(frozen=True)
class ExpertSummary:
    """One expert in short.

    Attributes
    ----------
    expert : int
        Its number.
    name : str
    active : float
        Share of rows in which it is active.
    opinions : tuple of Opinion
        The strongest first; none where rows are images.
    typical : tuple of str
        Rows that it explains best, by their labels; empty if no rows were given.
    typical_rows : tuple of int
        The same rows by their numbers.
    together, apart : tuple of Company
        Experts that are active in the same rows more often, or less often, than by chance.
    stability : str or None
        How often it is found again in bootstrap samples, in words; None if not computed.
    """

    expert: int
    name: str
    active: float
    opinions: tuple[Opinion, ...]
    typical: tuple[str, ...]
    typical_rows: tuple[int, ...]
    together: tuple[Company, ...]
    apart: tuple[Company, ...]
    stability: str | None = None


@dataclass(frozen=True)
class RowTypeSummary:
    """A type of rows: experts that are active together in many rows.

    Attributes
    ----------
    share : float
        Share of the rows that are of this type.
    experts : tuple of int
        Those active in at least half of these rows.
    names : tuple of str
        Their names.
    active : tuple of float
        Share of these rows in which each of them is active.
    """

    share: float
    experts: tuple[int, ...]
    names: tuple[str, ...]
    active: tuple[float, ...]


@dataclass(frozen=True)
class Description:
    """Description of a fitted model; ``print`` it, or use ``to_frame()`` or ``to_dict()``.

    Attributes
    ----------
    experts : tuple of ExpertSummary
        The most active first.
    n_variables : int
        Number of variables.
    mean_active : float
        Active experts per row.
    n_rows : int or None
        Number of rows of `X`; None if no rows were given.
    bits : float or None
        Bits per row under this model: the code, and the values given the code. Without rows, those
        of the training rows. None if activations were counted with other encoding parameters.
    baseline_bits : float or None
        The same under independent columns.
    summed_bits : float or None
        Bits per row of the sum over all codes, `log_density`, which names no experts; with more
        than 1,000 rows, estimated on some of them. None if no rows were given, or if `bits` saves
        40 or more against `baseline_bits`.
    repeated_bits : float
        Bits per row that independent columns would save by knowing which values repeat, such as
        whole numbers. They tell nothing about columns together.
    odd : tuple of str
        Rows that save fewest bits against independent columns, the worst first, by their labels.
        The least likely rows, which `dynpart score` ranks first, may be others.
    odd_rows : tuple of int
        The same rows by their numbers.
    types : tuple of RowTypeSummary
        Types of rows, the most frequent first: components of the prior over codes, those with the
        same experts together.
    unit : str
        "variable", or "pixel".
    """

    experts: tuple[ExpertSummary, ...]
    n_variables: int
    mean_active: float
    n_rows: int | None = None
    bits: float | None = None
    baseline_bits: float | None = None
    summed_bits: float | None = None
    repeated_bits: float = 0.0
    odd: tuple[str, ...] = ()
    odd_rows: tuple[int, ...] = ()
    types: tuple[RowTypeSummary, ...] = ()
    unit: str = "variable"

    @property
    def saved_bits(self) -> float | None:
        """Bits per row that the model saves; negative if independent columns are better."""
        if self.bits is None or self.baseline_bits is None:
            return None
        return self.baseline_bits - self.bits

    @property
    def saving(self) -> str:
        """A sentence on the bits that the model saves; empty if they are not known."""
        if self.baseline_bits is None or self.saved_bits is None:
            return ""
        row = "training row" if self.n_rows is None else "row"
        part = _part_of_row(self.unit)
        summed = None if self.summed_bits is None else self.baseline_bits - self.summed_bits
        return saving_in_words(self.saved_bits, row, part, summed, self.repeated_bits)

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON values."""
        return {**asdict(self), "saved_bits": self.saved_bits}

    def records(self) -> list[dict[str, Any]]:
        """One flat record per expert, for tables."""
        return [
            {
                "expert": one.expert,
                "name": one.name,
                "active": one.active,
                "says": "; ".join(f"{o.variable}: {o.told()}" for o in one.opinions),
                "typical": "; ".join(one.typical),
                "together": "; ".join(other.name for other in one.together),
                "apart": "; ".join(other.name for other in one.apart),
                **({} if one.stability is None else {"stability": one.stability}),
            }
            for one in self.experts
        ]

    def to_frame(self) -> Any:
        """One row per expert, as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame.from_records(self.records()).set_index("expert")

    def lines(self) -> list[str]:
        """The text of ``print``, line by line."""
        told = [self._summary(), *self._judged()]
        for one in self.experts:
            if not one.active:
                continue
            told += ["", f"{one.name}   (expert {one.expert}, in {percent(one.active)} of rows)"]
            width = max((len(o.variable) for o in one.opinions), default=0)
            told += [f"   {o.variable:<{width}}  {o.told()}" for o in one.opinions]
            for title, items in _lists(one):
                told.append(f"   {title}: {items}")
        if unused := self._unused():
            told += ["", unused]
        if len(self.types) > 1:
            told += ["", "Types of rows, by the experts that come together in them:"]
            told += [f"   {line}" for line in types_in_words(self.types)]
        if any(one.stability is not None for one in self.experts):
            told += ["", "Stability, in bootstrap samples:"]
            told += [f"   {mark}: {meaning}" for mark, meaning in LEGEND.items()]
        return told

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _summary(self) -> str:
        rows = "" if self.n_rows is None else f", on average over {counted(self.n_rows, 'row')}"
        experts = f"{len(self.experts)} experts" if len(self.experts) > 1 else "One expert"
        variables = counted(self.n_variables, self.unit)
        return f"{experts} for {variables}; {self.mean_active:.1f} active in a row{rows}."

    def _unused(self) -> str:
        """A sentence on experts that are active in no row; empty if there are none."""
        unused = sorted(one.expert for one in self.experts if not one.active)
        experts = "experts" if len(unused) > 1 else "expert"
        return f"Active in no row: {experts} {', '.join(map(str, unused))}." if unused else ""

    def _judged(self) -> list[str]:
        told = [self.saving] if self.saving else []
        if self.odd:
            part = _part_of_row(self.unit)
            told.append(f"Rows that gain least over {part} by {part}: {listed_labels(self.odd)}.")
        return told

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = []
        for one in self.experts:
            opinions = "<br>".join(
                f"{html.escape(o.variable)}: {html.escape(o.told())}" for o in one.opinions
            )
            lists = "<br>".join(f"{title}: {html.escape(items)}" for title, items in _lists(one))
            rows.append(
                f"<tr><td>{one.expert}</td><th style='text-align:left'>{html.escape(one.name)}</th>"
                f"<td>{percent(one.active)}</td><td style='text-align:left'>{opinions}</td>"
                f"<td style='text-align:left'>{lists}</td></tr>"
            )
        head = "".join(f"<th>{t}</th>" for t in ("", "expert", "active in", "says", "rows"))
        told = "<br>".join(html.escape(line) for line in (self._summary(), *self._judged()))
        kinds = "; ".join(line.strip() for line in types_in_words(self.types))
        if len(self.types) > 1:
            told += f"<br>Types of rows: {html.escape(kinds)}."
        return (
            f"<p>{told}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
        )


def _part_of_row(unit: str) -> str:
    """What is independent in the baseline, by the unit of a description."""
    return "pixel" if unit == "pixel" else "column"


def counted(number: int, noun: str) -> str:
    """A number and a noun: "1 row", "2,201 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed_labels(labels: Sequence[str]) -> str:
    """Labels of rows in a line: parted by semicolons if one of them has a comma."""
    return ("; " if any("," in label for label in labels) else ", ").join(labels)


def _lists(one: ExpertSummary) -> list[tuple[str, str]]:
    """The lists of an expert: its rows and the experts that go with it."""
    told = [("typical", listed_labels(one.typical))] if one.typical else []
    if one.stability is not None:
        told.insert(0, ("stability", one.stability))
    for title, others in (("often with", one.together), ("rarely with", one.apart)):
        if others:
            told.append((title, "; ".join(other.name for other in others)))
    return told


def type_in_words(kind: RowTypeSummary) -> str:
    """The experts of a type of row: "milk, hair, eggs: no + four legs, tail (in 70% of them)"."""
    told = (
        name if active >= NEARLY_ALWAYS else f"{name} (in {percent(active)} of them)"
        for name, active in zip(kind.names, kind.active, strict=True)
    )
    return " + ".join(told) or "no expert in particular"


def types_in_words(types: Sequence[RowTypeSummary], most: int = MOST_TYPES) -> list[str]:
    """Types of rows with their shares, one per line; those after the first `most` in one line."""
    lines = [f"{percent(kind.share):>4}  {type_in_words(kind)}" for kind in types[:most]]
    rest = types[most:]
    if rest:
        share = percent(sum(kind.share for kind in rest))
        lines.append(f"{share:>4}  {counted(len(rest), 'other type')}")
    return lines


def saving_in_words(
    saved: float,
    row: str = "row",
    part: str = "column",
    summed: float | None = None,
    repeats: float = 0.0,
) -> str:
    """Bits per row that a model saves against independent columns, or pixels, in words.

    Parameters
    ----------
    saved : float
        With one code per row, whose experts are named; negative if columns are better.
    row, part : str
        What is described, and its parts.
    summed : float, default=None
        Bits saved by the sum over all codes, which names no expert; mentioned if it saves clearly
        more than `saved`. None if it is not known.
    repeats : float, default=0.0
        Bits that columns on their own would save by knowing which values repeat; mentioned if they
        are a noticeable part.
    """
    told = _saving_in_words(saved, row, part, summed)
    if repeats < max(LEAST_MORE, LEAST_MORE_SHARE * saved):
        return told
    alone = f"{part.capitalize()}s on their own would save {repeats:.1f} bits"
    return f"{told} {alone} by knowing which values they repeat, such as whole numbers."


def _saving_in_words(saved: float, row: str, part: str, summed: float | None) -> str:
    """The same without repeated values."""
    if abs(saved) < LEAST_BITS:
        same = f"A {row} takes as many bits as {part} by {part}"
        if summed is None or summed < LEAST_BITS:
            return f"{same}: its experts save next to nothing."
        return f"{same}; over all choices of experts, it is {times_in_words(summed)} as likely."
    if saved > 0:
        less = f"A {row} takes {saved:.1f} bits less than {part} by {part}"
        likely = f"{less}: {times_in_words(saved)} as likely"
        if summed is None:
            return likely + (" with one choice of experts." if saved < MANY_BITS else ".")
        if summed - saved < max(LEAST_MORE, LEAST_MORE_SHARE * saved):
            return f"{likely}."
        return (
            f"{likely}. Over all choices of experts, it takes {summed:.1f} bits less: "
            f"{times_in_words(summed)} as likely."
        )
    alone, bits = f"{part.capitalize()}s on their own describe a {row}", f"by {-saved:.1f} bits"
    if summed is not None and summed <= 0:
        return f"{alone} better, {bits}: these experts found nothing that holds."
    one = f"{alone} better than the experts named for it do, {bits}."
    if summed is None:
        return one
    return (
        f"{one} Over all choices of experts, it is {times_in_words(summed)} as likely as {part} by "
        f"{part}."
    )


def worth_in_words(
    model: Any,
    X: Any,
    scores: Array,
    independent: Array,
    *,
    weights: Array | None = None,
    row: str = "row",
    part: str = "column",
) -> str:
    """A sentence on the bits that a model saves on rows: with one code, and with all codes.

    Parameters
    ----------
    model : DynamicPartitionModel
    X : array-like of shape (n_rows, n_features)
    scores, independent : ndarray of shape (n_rows,)
        `score_samples` and `independent_scores` of the rows.
    weights : ndarray of shape (n_rows,), default=None
    row, part : str
    """
    saved = float(np.average(scores - independent, weights=weights)) / NATS
    summed = _summed_saving(model, X, scores, saved, weights)
    repeats = float(np.average(model._saved_by_repeats(X), weights=weights)) / NATS
    return saving_in_words(saved, row, part, summed, repeats)


def _summed_saving(
    model: Any, X: Any, scores: Array, saved: float, weights: Array | None = None
) -> float | None:
    """Bits per row that the sum over all codes saves, if one code per row saves `saved` bits.

    None if that is so much that the sum does not matter.
    """
    if saved >= MANY_BITS:
        return None
    chosen = np.arange(len(scores)) if weights is None else np.flatnonzero(weights)
    if len(chosen) > SUMMED_ROWS:
        chosen = chosen[np.arange(SUMMED_ROWS) * len(chosen) // SUMMED_ROWS]
    some = X if len(chosen) == len(scores) else taken(X, chosen)
    more = to_numpy(model.log_density(some)) - scores[chosen]
    of_rows = None if weights is None else weights[chosen]
    return saved + float(np.average(more, weights=of_rows)) / NATS


def taken(X: Any, rows: Any) -> Any:
    """These rows of a data frame or array, or of a list as an array."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def times_in_words(bits: float) -> str:
    """A factor, if every bit doubles it: "about 12 times"."""
    if bits > LARGEST_TOLD:
        return f"more than 2^{LARGEST_TOLD} times"
    if bits > 40:
        return f"2^{bits:.0f} times"
    times = 2.0**bits
    if times >= 100:
        exponent = 10 ** (int(math.log10(times)) - 1)
        return f"about {round(times / exponent) * exponent:,} times"
    if times >= 10:
        return f"about {times:.0f} times"
    return f"{times:.3g} times" if times < 1.1 else f"{times:.2g} times"


# ------------------------------------------------------------------ from a model


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
        log_density: Any
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
        summed = _summed_saving(self, X, scores, baseline - bits)
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


def rows_by_type(codes: NDArray[Any], types: NDArray[np.integer]) -> NDArray[np.intp]:
    """Rows by their type, frequent types first; within one, equal codes together.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_experts)
    types : ndarray of shape (n_rows,)
        A number for each row.
    """
    busiest = np.argsort(-codes.sum(axis=0, dtype=int), kind="stable")
    place = np.argsort(np.argsort(-np.bincount(types), kind="stable"))[types]
    return np.lexsort([*(1 - codes[:, k].astype(int) for k in busiest[::-1]), place])


def row_labels(X: Any, labels: Sequence[str] | None, n_rows: int) -> list[str]:
    """Names of rows: as given, from the index of a data frame, or their numbers if empty."""
    if labels is not None:
        if len(labels) != n_rows:
            raise ValueError(f"labels must have one entry per row ({n_rows}), got {len(labels)}")
        return [str(label).strip() or f"row {n}" for n, label in enumerate(labels)]
    index = getattr(X, "index", None)
    if index is not None and len(index) == n_rows and not callable(index):
        return [str(label).strip() or f"row {n}" for n, label in enumerate(index)]
    return [f"row {n}" for n in range(n_rows)]


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
