"""Summaries: a description of a model as fields, text and tables; does not know models."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dynpart.listing import listed_labels
from dynpart.naming import percent
from dynpart.stability import LEGEND
from dynpart.wording import counted, saving_in_words

SELDOM = 0.5
"""If an expert decides a variable in a smaller share of its rows, the share is printed."""
MOST_TYPES = 10
"""Number of types of rows that are listed one by one."""
NEARLY_ALWAYS = 0.9
"""Below this share of a type's rows in which an expert is active, the share is printed."""


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


def _lists(one: ExpertSummary) -> list[tuple[str, str]]:
    """The lists of an expert: its rows and the experts that go with it."""
    told = [("typical", listed_labels(one.typical))] if one.typical else []
    if one.stability is not None:
        told.insert(0, ("stability", one.stability))
    for title, others in (("often with", one.together), ("rarely with", one.apart)):
        if others:
            told.append((title, "; ".join(other.name for other in others)))
    return told


def _part_of_row(unit: str) -> str:
    """What is independent in the baseline, by the unit of a description."""
    return "pixel" if unit == "pixel" else "column"
