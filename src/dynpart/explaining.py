"""Explaining: one row in words: its parts, its unexplained values, and the next best code.

Every sentence is about numbers in an :class:`Explanation`; does not use commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import row_blocks, to_numpy
from dynpart.composition import compose_hard, owners
from dynpart.describing import observed_shares
from dynpart.listing import taken
from dynpart.naming import opinion_in_words, percent, place_in_words, value_in_words
from dynpart.opinions import Opinions
from dynpart.savings import NATS
from dynpart.wording import times_in_words

if TYPE_CHECKING:
    from dynpart.schema import Schema

Array = NDArray[np.float64]
FAR = 2.0
"""Standard deviations from an expert's opinion above which a number is unexpected."""
MOST_SURPRISES = 5
MOST_BOOK_CODES = 1000
"""Number of codes of training rows, the most frequent first, that are tried as alternatives."""


@dataclass(frozen=True)
class Cell:
    """The opinion of the responsible expert on one variable of a row, and the row's value.

    Attributes
    ----------
    variable : str
    says : str
        The opinion and the usual rate: "yes (99%; usually 41%)".
    value : str or None
        Value of the row; None if it was not observed.
    expected : bool
        Whether the value agrees with the opinion: the same level, or a number that is near.
    chance : float or None
        Probability of the row's level under the expert; None for numbers and gaps.
    bits : float
        Gain of the expert over the usual rate; negative if it is worse.
    known : bool, default=True
        Whether any expert of the model makes such a number more probable than its tails do.
    """

    variable: str
    says: str
    value: str | None
    expected: bool
    chance: float | None
    bits: float
    known: bool = True


@dataclass(frozen=True)
class Part:
    """One active expert, and the variables that it explains.

    Attributes
    ----------
    expert : int
    name : str
    active : float
        Share of all rows in which it is active.
    n_owned : int
        Variables it explains in this row.
    where : str
        Place in an image where it gains most over the usual rates; empty for tables, and if no
        place stands out.
    bits : float
        Gain on these variables over the usual rates.
    cells : tuple of Cell
        Some of its variables, the most distinctive first.
    """

    expert: int
    name: str
    active: float
    n_owned: int
    where: str
    bits: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Explanation:
    """The explanation of one row; ``print`` it, or use ``to_dict()``.

    Attributes
    ----------
    row : str
        Name of the row.
    n_experts, n_variables, n_observed : int
        Numbers of experts of the model, of variables, and of observed variables of this row.
    unit : str
        "variables", or "pixels".
    parts : tuple of Part
        Active experts, those that gain most first.
    unexplained : tuple of Cell
        Values that contradict the opinion of the responsible expert, the most surprising first.
    n_unexplained : int
        Number of such values in all.
    expected : tuple of tuple of str
        Variables that were not observed, with the name of the expert and the value it expects.
    code_bits : float or None
        Cost of the code, that is of naming the active experts; None if activations were counted
        with other encoding parameters.
    saved_bits : float
        Bits saved against independent columns, with the cost of the code if it is known.
    other : str
        The next best code, as a change to this one; empty if there is no other.
    other_bits : float
        Number of bits by which it is worse.
    unexplained_where : str
        Place in an image of most values that are not explained; empty for tables, for fewer than
        two of them, and if they are everywhere.
    n_numbers : int
        Number of observed variables that are numbers and have no levels.
    """

    row: str
    n_experts: int
    n_variables: int
    n_observed: int
    unit: str
    parts: tuple[Part, ...]
    unexplained: tuple[Cell, ...]
    n_unexplained: int
    expected: tuple[tuple[str, str, str], ...]
    code_bits: float | None
    saved_bits: float
    other: str
    other_bits: float
    unexplained_where: str = ""
    n_numbers: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The text of ``print``, line by line."""
        return list(self._told())

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _told(self) -> Iterator[str]:
        used = [part for part in self.parts if part.n_owned]
        who = f"{len(used)} of {self.n_experts} experts explain" if len(used) > 1 else (
            "one expert explains"
        )  # fmt: skip
        gaps = self.n_variables - self.n_observed
        unseen = f", {gaps} of them not observed" if gaps else ""
        yield f"{self.row}: {who} its {self._variables()}{unseen}."
        for place, part in enumerate(used, start=1):
            yield ""
            yield from self._told_part(place, part)
        idle = " and ".join(f"“{part.name}”" for part in self.parts if not part.n_owned)
        if idle:
            yield ""
            yield f"Active as well, but others know better everywhere: {idle}."
        if self.expected:
            yield ""
            yield from self._told_expected()
        yield ""
        yield from self._told_unexplained()
        yield from self._told_in_all()

    def _variables(self) -> str:
        """The number of variables: "1 variable", "784 pixels"."""
        unit = self.unit.removesuffix("s") if self.n_variables == 1 else self.unit
        return f"{self.n_variables} {unit}"

    def _told_part(self, place: int, part: Part) -> Iterator[str]:
        yield f"{place}. {part.name}   (expert {part.expert}, in {percent(part.active)} of rows)"
        where = f" and helps most {part.where}" if part.where else ""
        yield f"   It explains {part.n_owned} of {self._variables()}{where}."
        width = max((len(cell.variable) for cell in part.cells), default=0)
        for cell in part.cells:
            yield f"   - {cell.variable:<{width}}  says {cell.says}{_seen(cell)}"
        rest = part.n_owned - len(part.cells)
        if part.cells and rest:
            yield f"   ... and {rest} more"

    def _told_expected(self) -> Iterator[str]:
        yield "Not observed, and what the responsible expert expects there:"
        width = max(len(variable) for variable, _, _ in self.expected)
        for variable, name, says in self.expected:
            yield f"   - {variable:<{width}}  {says}, says “{name}”"
        more = self.n_variables - self.n_observed - len(self.expected)
        if more:
            yield f"   ... and {more} more; `dynpart impute` writes them all"

    def _told_unexplained(self) -> Iterator[str]:
        if not self.n_observed:
            yield "Nothing of the row was observed: there is nothing to be right or wrong about."
        elif not self.n_unexplained:
            near = f"numbers within {FAR:g} standard deviations"
            right = "the experts are right about everything observed"
            if self.n_numbers == self.n_observed:
                right = f"all {near} of what the experts say"
            elif self.n_numbers:
                right = f"all levels are as the experts say, and {near}"
            yield f"Nothing in it is unexpected: {right}."
        elif self.unit == "pixels":
            share = percent(self.n_unexplained / self.n_observed)
            is_one = self.n_unexplained == 1
            pixels = "1 pixel" if is_one else f"{self.n_unexplained} pixels"
            where = f", most of them {self.unexplained_where}" if self.unexplained_where else ""
            yield (
                f"Not explained: {pixels} ({share}) {'is' if is_one else 'are'} not as expected"
                f"{where}."
            )
        else:
            yield "Not as expected:"
            width = max(len(cell.variable) for cell in self.unexplained)
            for cell in self.unexplained:
                chance = "" if cell.chance is None else f" (chance {percent(cell.chance)})"
                name = f"{cell.variable:<{width}}"
                unlike = "" if cell.known else ", which no expert explains"
                yield f"   - {name}  is {cell.value}{chance}{unlike}; expected {cell.says}"
            if self.n_unexplained > len(self.unexplained):
                yield f"   ... and {self.n_unexplained - len(self.unexplained)} more"

    def _told_in_all(self) -> Iterator[str]:
        if not self.n_observed:
            return
        part = "pixel" if self.unit == "pixels" else "column"
        cost = "" if self.code_bits is None else f"; naming the experts costs {self.code_bits:.1f}"
        if self.saved_bits > 0:
            yield (
                f"In all the row is {times_in_words(self.saved_bits)} as likely as {part} by "
                f"{part} ({self.saved_bits:.1f} bits saved{cost})."
            )
        else:
            yield (
                f"In all its experts describe the row no better than {part} by {part} "
                f"({-self.saved_bits:.1f} bits lost{cost})."
            )
        if self.other:
            worse = "just as good"
            if self.other_bits >= 0.1:
                worse = f"{times_in_words(self.other_bits)} less likely"
            yield f"Next best: {self.other} ({worse})."


def _seen(cell: Cell) -> str:
    if cell.value is None:
        return "   (not observed)"
    if cell.expected:
        return "" if cell.chance is not None else f"; is {cell.value}"
    return f"; but it is {cell.value}"


# ------------------------------------------------------------------ from a model


class ExplainsRows:
    """The method of a fitted model that explains a row."""

    if TYPE_CHECKING:  # attributes of the rest of the model
        _ready: Any
        _experts: Any
        _book: Any
        _rule: Any
        _is_counted: Any
        _opinions: Any
        _usual_eta: Any
        _checked_rows: Any
        _engine: Any
        transform: Any
        score_samples: Any
        schema_: Any

    def explain(
        self, X: Any, row: int = 0, *, label: str | None = None, top: int = 5
    ) -> Explanation:
        """Explain one row in words: its parts, its unexplained values, and the next best code.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows with the columns of the training data.
        row : int, default=0
            Which row of `X`.
        label : str, default=None
            Name of the row; by default its entry in the index of a data frame.
        top : int, default=5
            Variables to name per expert.

        Returns
        -------
        Explanation
            ``print`` shows it.

        Examples
        --------
        >>> from dynpart import DynamicPartitionModel
        >>> from dynpart.datasets import make_pairs
        >>> X = make_pairs(2)
        >>> model = DynamicPartitionModel(4, random_state=0).fit(X)
        >>> print(model.explain(X, 3).lines()[0])
        Row 3: 2 of 4 experts explain its 4 variables.
        """
        n_experts = self._ready()
        X = taken(X, [row])
        index = getattr(X, "index", None)
        if label is None and index is not None and index.dtype.kind not in "iu":
            label = str(index[0])
        rows = self._checked_rows(X, self._engine(X)).to_numpy()
        active = to_numpy(self.transform(X)).astype(bool)
        view = _View(self, rows, active)
        parts = sorted(
            (view.part(int(k), top) for k in np.flatnonzero(active[0])), key=lambda p: -p.bits
        )
        wrong = view.unexpected()
        telling = not view.is_image
        gaps = np.flatnonzero(~view.observed).tolist() if telling else []
        other, other_bits = self._runner_up(rows, active, view.names)
        code_nats = None
        if self._is_counted():
            code_nats = float(view.own.sum()) - float(to_numpy(self.score_samples(X))[0])
        saved = float((view.own - view.usual).sum()) - (code_nats or 0.0)
        return Explanation(
            f"Row {row}" + (f" ({label})" if label and label.strip() else ""),
            n_experts,
            len(view.schema),
            int(view.observed.sum()),
            "pixels" if view.is_image else "variables",
            tuple(parts),
            tuple(view.cell(d) for d in wrong[:MOST_SURPRISES]) if telling else (),
            len(wrong),
            tuple(
                (view.schema.label(d), view.names[view.owner[d]], view.says(d)) for d in gaps[:top]
            ),
            None if code_nats is None else code_nats / NATS,
            saved / NATS,
            other,
            other_bits,
            view.place_of(np.bincount(wrong, minlength=len(view.schema))) if len(wrong) > 1 else "",
            sum(not view.has_levels(int(d)) for d in np.flatnonzero(view.observed)),
        )

    def _runner_up(
        self, rows: Any, active: NDArray[np.bool_], names: Sequence[str]
    ) -> tuple[str, float]:
        """The best other code, of single changes and training rows, and the bits it loses."""
        codes = _others(active[0], self._book)
        rule = self._rule()
        n_active = codes.sum(axis=1)
        codes = codes[(n_active >= max(1, rule.min_active)) & (n_active <= rule.max_active)]
        if not len(codes):
            return "", 0.0
        experts = self._experts().like(np.empty(0))
        both = np.vstack([active, codes])
        score = -(both @ to_numpy(rule.cost))
        if rule.prior is not None:
            score += rule.prior.like(score).log_joint(both).max(axis=1)
        for block in row_blocks(len(both), rows.shape[1]):
            owner = owners(experts.ranks, both[block])
            values = np.repeat(rows.values, len(both[block]), axis=0)
            score[block] += experts.owned_log_density(values, owner).sum(axis=1)
        best = int(score[1:].argmax())
        change = _change_in_words(active[0], codes[best], names)
        return change, float(score[0] - score[1 + best]) / NATS


def expected_numbers(model: Any, X: Any) -> tuple[Array, Array]:
    """Mean and standard deviation of every variable under the expert that owns it.

    Parameters
    ----------
    model : DynamicPartitionModel
    X : array-like of shape (n_rows, n_features)

    Returns
    -------
    mean, spread : ndarray of shape (n_rows, n_features)
    """
    codes = to_numpy(model.transform(X)).astype(bool)
    experts = model._experts().like(np.empty(0))
    mean, spread = np.empty((2, len(codes), experts.log2_expertise.shape[1]))
    for block in row_blocks(*mean.shape):
        eta = compose_hard(experts.eta, owners(experts.ranks, codes[block]))
        mean[block] = experts.family.mean(eta)
        spread[block] = np.sqrt(experts.family.variance(eta))
    return mean, spread


class _View:
    """Quantities of one row with its code."""

    def __init__(self, model: Any, rows: Any, active: NDArray[np.bool_]) -> None:
        experts = model._experts().like(np.empty(0))
        family = experts.family
        self.schema: Schema = model.schema_
        self.names: list[str] = model.expert_names_
        self.opinions: Opinions = model._opinions()
        self.share = observed_shares(model)
        self.owner = [int(k) for k in owners(experts.ranks, active)[0]]
        eta, usual = compose_hard(experts.eta, np.array([self.owner])), model._usual_eta()
        self.x = family.decode(rows.values)[0]
        self.observed = ~np.isnan(self.x)
        self.own = experts.owned_log_density(rows.values, np.array([self.owner]))[0]
        self.usual = family.log_density(rows.values, usual)[0]
        everyone = family.log_density(rows.values, experts.eta) - family.log_base(rows.values)
        least = family.least_log_density(rows.values)
        self.known = ~np.isfinite(least[0]) | (everyone > least).any(axis=0)
        self.mean, self.spread = family.mean(eta)[0], np.sqrt(family.variance(eta))[0]

    @property
    def is_image(self) -> bool:
        return self.schema.image_shape is not None and self.schema.names is None

    def has_levels(self, d: int) -> bool:
        return not np.isnan(self.opinions.chance[self.owner[d], d])

    def is_expected(self, d: int) -> bool:
        """Whether the row's value agrees with the owner's opinion."""
        if self.has_levels(d):
            return bool(self.x[d] == self.opinions.value[self.owner[d], d])
        return bool(abs(self.x[d] - self.mean[d]) <= FAR * self.spread[d])

    def unexpected(self) -> list[int]:
        """Observed variables that contradict their owners' opinions, the most surprising first."""
        wrong = [int(d) for d in np.flatnonzero(self.observed) if not self.is_expected(int(d))]
        return sorted(wrong, key=lambda d: (self.own[d] - self.usual[d], d))

    def says(self, d: int) -> str:
        return opinion_in_words(self.opinions, self.schema, self.owner[d], d)

    def cell(self, d: int) -> Cell:
        seen = bool(self.observed[d])
        chance = float(np.exp(self.own[d])) if seen and self.has_levels(d) else None
        return Cell(
            self.schema.label(d),
            self.says(d),
            value_in_words(self.schema, d, self.x[d]) if seen else None,
            self.is_expected(d) if seen else True,
            chance,
            float(self.own[d] - self.usual[d]) / NATS,
            bool(self.known[d]),
        )

    def place_of(self, weight: NDArray[Any]) -> str:
        """Where most of a weight of pixels is, other than usual: "in the lower left"."""
        if not self.is_image:
            return ""
        usual = self.opinions.weight.sum(axis=0)
        if not usual.any():
            return ""
        place = place_in_words(weight, self.schema.image_shape or (1, 1), usual)
        if place in ("everywhere", "nowhere"):
            return ""
        return f"{_preposition(place)} {place}"

    def part(self, k: int, top: int) -> Part:
        owned = np.flatnonzero(np.array(self.owner) == k)
        cells: tuple[Cell, ...] = ()
        where = ""
        if self.is_image:
            gain = np.maximum(self.own - self.usual, 0.0)
            where = self.place_of(np.where(np.array(self.owner) == k, gain, 0.0))
        else:
            telling = owned[np.argsort(-self.opinions.strength[k, owned], kind="stable")[:top]]
            cells = tuple(self.cell(int(d)) for d in telling)
        return Part(
            k,
            self.names[k],
            float(self.share[k]),
            len(owned),
            where,
            float((self.own - self.usual)[owned].sum()) / NATS,
            cells,
        )


def _preposition(place: str) -> str:
    return "at the" if place in ("top", "bottom", "left", "right") else "in the"


def _others(active: NDArray[np.bool_], book: Any) -> NDArray[np.bool_]:
    """Codes that differ by one addition, removal or exchange, and codes of training rows."""
    codes = []
    inside, outside = np.flatnonzero(active), np.flatnonzero(~active)
    for changed in [[k] for k in range(len(active))] + [[i, o] for i in inside for o in outside]:
        code = active.copy()
        code[changed] ^= True
        codes.append(code)
    if book is not None:
        codes += [code for code in book.codes[:MOST_BOOK_CODES] if (code != active).any()]
    return np.array(codes, dtype=bool).reshape(-1, len(active))


def _change_in_words(
    code: NDArray[np.bool_], other: NDArray[np.bool_], names: Sequence[str]
) -> str:
    """Difference between two codes: "A instead of B", "without B", "with A as well"."""
    new = [f"“{names[k]}”" for k in np.flatnonzero(other & ~code).tolist()]
    gone = [f"“{names[k]}”" for k in np.flatnonzero(code & ~other).tolist()]
    if new and gone:
        return f"{' and '.join(new)} instead of {' and '.join(gone)}"
    return f"with {' and '.join(new)} as well" if new else f"without {' and '.join(gone)}"
