"""Kinds: the kind of each column of a table, from the user's settings and the values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import column_words, first_true, is_observed, place, row_blocks
from dynpart.cells import DASHES, ERRORS, Fields, Kind
from dynpart.coding import Coded, in_order, level_name
from dynpart.levels import GIVE_NUMBERS, boolean_words, first_text, listed, short
from dynpart.schema import KINDS, MOST_LEVELS, Range, Schema

ColumnSettings = Mapping[int, "str | tuple[str, ...]"]
"""The user's settings by index of the column: a kind, or the levels of a categorical column."""

FEW_NUMBERS = 10
"""Maximum number of different numbers in texts for levels; more are numbers stored as text."""
FEW_TEXTS = 20
"""A column with at most this many different texts has levels, for any number of rows."""
ROWS_OF_TWO = 20
"""Two different integers in a table of at least this many rows are two levels, such as 1 and 2."""
OBSERVED_OF_TWO = 10
"""Minimum number of rows in which such levels are observed."""


def column_settings(columns: Any, n_features: int, names: Sequence[str] | None) -> ColumnSettings:
    """The parameter `columns`, by the indices of columns.

    Parameters
    ----------
    columns : None, str, mapping or sequence
        A kind for all columns; kinds, or levels, by name or index; one entry per column, None to
        detect the kind.
    n_features : int
    names : sequence of str or None

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If a name, an index or a kind is not known.

    Examples
    --------
    >>> from dynpart.kinds import column_settings
    >>> column_settings({"legs": "categorical"}, 2, ["hair", "legs"])
    {1: 'categorical'}
    """
    if columns is None:
        return {}
    if isinstance(columns, str):
        return {d: _kind(columns, d, names) for d in range(n_features)}
    if isinstance(columns, Mapping):
        settings = {}
        for key, value in columns.items():
            d = _place(key, n_features, names)
            if d in settings:
                raise ValueError(f"columns names {column_words(d, names)} twice")
            settings[d] = _kind(value, d, names)
        return settings
    listed = list(columns)
    if len(listed) != n_features:
        raise ValueError(
            f"columns must have an entry per column ({n_features}), got {len(listed)}; use a dict "
            "to set only some columns"
        )
    return {d: _kind(kind, d, names) for d, kind in enumerate(listed) if kind is not None}


def _place(key: Any, n_features: int, names: Sequence[str] | None) -> int:
    if isinstance(key, str):
        found = [d for d, name in enumerate(names if names is not None else ()) if name == key]
        if found:
            return found[0]
        if names is None:
            raise ValueError(
                f"columns names {key!r}, but X has no names of columns: use indices from 0 to "
                f"{n_features - 1}"
            )
        raise ValueError(
            f"columns names {key!r}, which is not a column of X; it has {listed(names)}"
        )
    whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if whole and -n_features <= int(key) < n_features:
        return int(key) % n_features
    raise ValueError(
        f"columns must name columns by name or by a place below {n_features}, got {key!r}"
    )


def _kind(value: Any, d: int, names: Sequence[str] | None) -> str | tuple[str, ...]:
    if isinstance(value, str) and value in KINDS:
        return value
    if isinstance(value, list | tuple | np.ndarray) and len(value):
        levels = tuple(level_name(level) for level in value)
        if len(set(levels)) == len(levels) <= MOST_LEVELS:
            return levels
        raise ValueError(
            f"columns gives {column_words(d, names)} levels that must differ from each other, at "
            f"most {MOST_LEVELS}, got {listed(levels)}"
        )
    known = ", ".join(map(repr, KINDS))
    raise ValueError(
        f"columns sets {column_words(d, names)} to {value!r}; a kind is one of {known}, or a list "
        "of levels"
    )


class Survey:
    """Facts about the columns of a table, collected block by block.

    Parameters
    ----------
    columns : None, str, mapping or sequence
        The user's settings; see :func:`column_settings`.

    Examples
    --------
    >>> from dynpart.coding import coded
    >>> from dynpart.kinds import Survey
    >>> survey = Survey({1: "count"})
    >>> survey.look(coded([["cat", 4], ["dog", 2]]))
    >>> survey.schema().kinds
    ('categorical', 'count')
    """

    def __init__(self, columns: Any = None) -> None:
        self.columns = columns
        self.settings: ColumnSettings = {}
        self.names: tuple[str, ...] | None = None
        self.container: str | None = None
        self.dtypes: list[str] = []
        self.special: tuple[str, ...] = ()
        self.texts: list[Counter[str] | None] = []
        self.numbers: dict[int, set[float]] = {}
        self.zero_one: NDArray[np.bool_] = np.empty(0, dtype=bool)
        self.two: dict[int, set[float]] = {}
        """Columns with at most two different numbers so far, and these numbers."""
        self.n_rows = 0
        self.n_observed: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self.low: NDArray[np.float64] = np.empty(0)
        self.high: NDArray[np.float64] = np.empty(0)
        self.whole: NDArray[np.bool_] = np.empty(0, dtype=bool)

    def look(self, table: Coded, name: str = "X") -> None:
        """Update the facts with more rows; errors refer to the table as `name`."""
        n_features = table.shape[1]
        if not self.dtypes:
            self.names, self.container = table.names, table.container
            self.special = table.special
            self.settings = column_settings(self.columns, n_features, self.names)
            self.dtypes, self.texts = list(table.dtypes), [None] * n_features
            self.zero_one = np.ones(n_features, dtype=bool)
            self.two = {d: set() for d in range(n_features)}
            self.n_observed = np.zeros(n_features, dtype=np.intp)
            self.low, self.high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
            self.whole = np.ones(n_features, dtype=bool)
        self.n_rows += table.shape[0]
        if table.special != self.special:  # blocks of different types
            self.special = ()
        self.zero_one &= _are_zero_or_one(table.values)
        self._count_numbers(table.values)
        for d, words in enumerate(table.words):
            if words is not None:
                self._count_words(d, words, table)
            elif self.texts[d] is None and is_observed(table.values[:, d]).any():
                self.dtypes[d] = _wider(self.dtypes[d], table.dtypes[d])
            setting = self.settings.get(d)
            if setting is not None:
                self._check_setting(setting, d, table, name)

    def _count_numbers(self, values: NDArray[Any]) -> None:
        """Update the ranges of numbers and the columns with at most two different numbers."""
        for block in row_blocks(*values.shape):
            part = values[block]
            seen = is_observed(part)
            low = np.where(seen, part, np.inf).min(axis=0, initial=np.inf)
            high = np.where(seen, part, -np.inf).max(axis=0, initial=-np.inf)
            self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
            self.n_observed += seen.sum(axis=0)
            if part.dtype.kind == "f":
                self.whole &= (~seen | (part == np.round(part))).all(axis=0)
            columns = list(self.two)
            fits = (part == low) | (part == high) | ~seen if columns else seen
            for d in columns:
                if low[d] <= high[d]:  # something was observed
                    self.two[d] |= {float(low[d]), float(high[d])}
                if len(self.two[d]) > 2 or not fits[:, d].all():
                    del self.two[d]

    def _count_words(self, d: int, words: tuple[str, ...], table: Coded) -> None:
        counts = self.texts[d] or Counter(dict.fromkeys(words, 0))
        codes = table.values[:, d]
        codes = codes[is_observed(codes)].astype(np.intp)
        for word, n in zip(words, np.bincount(codes, minlength=len(words)).tolist(), strict=True):
            counts[word] += n
            if not counts[word] and table.dtypes[d] == "text":
                del counts[word]  # only in rows that do not count
        self.texts[d], self.dtypes[d] = counts, table.dtypes[d]

    def _check_setting(self, setting: Any, d: int, table: Coded, name: str) -> None:
        """Reject values that contradict the user's settings; collect levels that are numbers."""
        values, words = table.values[:, d], table.words[d]
        if isinstance(setting, tuple) or setting == "categorical":
            if words is None:
                self.numbers.setdefault(d, set()).update(np.unique(values[is_observed(values)]))
            return
        if words is not None:
            if setting == "binary":
                return
            row = first_text(values, words) if is_observed(values).any() else 0
            word = words[int(values[row])] if is_observed(values).any() else ""
            raise ValueError(
                f"{name} holds {word!r} in {place(row, d, table.names)}, a text, but columns sets "
                f"the column to {setting}: {GIVE_NUMBERS}"
            )
        if setting == "real":
            return
        allowed = (values == 0) | (values == 1) if setting == "binary" else _are_counts(values)
        wrong = first_true((~allowed & is_observed(values))[:, None])
        if wrong is not None:
            needs = "0 or 1" if setting == "binary" else "whole numbers from 0"
            raise ValueError(
                f"{name} holds {level_name(values[wrong[0]])} in "
                f"{place(wrong[0], d, table.names)}, but columns sets it to {setting}, and "
                f"{setting} columns hold {needs}: correct the value, or use 'real' or 'categorical'"
            )

    def schema(self, *, codes: bool = True) -> Schema:
        """The schema of the columns.

        Parameters
        ----------
        codes : bool, default=True
            Whether two different integers in many rows are codes of levels. This is so in tables
            with names, not in arrays.

        Raises
        ------
        ValueError
            If a column of text cannot be a variable; it names the column and a remedy.
        """
        kinds, levels = [], []
        for d in range(len(self.dtypes)):
            kind, names = self._judged(d, codes)
            kinds.append(kind)
            levels.append(names)
        return Schema(
            tuple(kinds),
            self.names,
            None,
            tuple(levels) if any(levels) else None,
            tuple(self.dtypes),
            self.container,
            tuple(self._range(d) if kind == "real" else None for d, kind in enumerate(kinds)),
            self.special if any(self.special) else None,
        )

    def _range(self, d: int) -> Range | None:
        """The range of a column of numbers; None without observed values."""
        low, high = float(self.low[d]), float(self.high[d])
        finite = self.texts[d] is None and np.isfinite([low, high]).all()
        return Range(low, high, bool(self.whole[d])) if finite else None

    def _judged(self, d: int, codes: bool) -> tuple[str, tuple[str, ...] | None]:
        setting, texts, dtype = self.settings.get(d), self.texts[d], self.dtypes[d]
        if isinstance(setting, tuple):
            return "categorical", setting
        if texts is None:
            if setting == "categorical":
                names = [level_name(number) for number in sorted(self.numbers.get(d, ()))]
                return setting, self._checked_levels(d, names)
            if setting is None and codes and self._is_coded(d):
                return "categorical", tuple(level_name(number) for number in sorted(self.two[d]))
            return setting or ("binary" if self.zero_one[d] else "real"), None
        words = self._in_order(d, texts)
        flags = boolean_words(words) if dtype == "text" else None
        if setting == "binary" and flags is None and len(words) != 2:
            raise ValueError(
                f"columns sets {self._called(d)} to binary, but it holds {len(words)} "
                f"different texts, {listed(words)}: use 'categorical'"
            )
        if setting == "binary" or (setting is None and flags is not None):
            return "binary", flags or tuple(words)
        if setting is None and dtype == "text":
            check_text(texts, self._called(d), d if self.names is None else self.names[d])
        return "categorical", self._checked_levels(d, words)

    def _is_coded(self, d: int) -> bool:
        """Whether a column has two different integers, not 0 and 1, in many rows."""
        numbers = self.two.get(d, set())
        whole = len(numbers) == 2 and all(number.is_integer() for number in numbers)
        many = self.n_rows >= ROWS_OF_TWO and bool(self.n_observed[d] >= OBSERVED_OF_TWO)
        return whole and not self.zero_one[d] and many

    def _in_order(self, d: int, texts: Counter[str]) -> list[str]:
        words = list(texts)
        words += [level_name(n) for n in self.numbers.get(d, ()) if level_name(n) not in texts]
        return sorted(words, key=in_order(words)) if self.dtypes[d] == "text" else words

    def _checked_levels(self, d: int, names: Sequence[str]) -> tuple[str, ...]:
        if not names:
            raise ValueError(f"X has no observed value in {self._called(d)}: leave the column out")
        if len(names) > MOST_LEVELS:
            raise ValueError(too_many_levels(self._called(d), len(names)))
        return tuple(names)

    def _called(self, d: int) -> str:
        return column_words(d, self.names)


def too_many_levels(called: str, n_levels: int) -> str:
    """The message about a categorical column with more than `MOST_LEVELS` levels."""
    return (
        f"{called} has {n_levels:,} levels, and a categorical column may have {MOST_LEVELS:,}: "
        "join rare ones, or leave the column out"
    )


def tells_rows_apart(n_different: int, n_observed: int) -> bool:
    """Whether a column with so many different texts identifies rows."""
    return n_different == n_observed >= FEW_NUMBERS or n_different > max(FEW_TEXTS, n_observed / 2)


class TextProblem(NamedTuple):
    """Reason why the texts of a column are probably not levels.

    Attributes
    ----------
    reason : {"dates", "numbers", "mixed", "names"}
        Dates; numbers stored as text; numbers with a few texts among them; texts that identify
        rows.
    example : str
        An example from the column.
    """

    reason: str
    example: str


def text_problem(texts: Mapping[str, int], fields: Fields | None = None) -> TextProblem | None:
    """Reason why texts are probably not levels; None if they may be.

    Parameters
    ----------
    texts : mapping
        How often each text stands in the column.
    fields : Fields, default=None
        How numbers are written.

    Examples
    --------
    >>> from dynpart.kinds import text_problem
    >>> text_problem({"45%": 3, "50%": 2})
    TextProblem(reason='numbers', example='45%')
    >>> text_problem({"red": 3, "blue": 2}) is None
    True
    """
    fields = fields or Fields(decimal_comma=False)
    looks = {text: fields.kind(text) for text in texts}
    n_observed = sum(texts.values())
    of_kind: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for text, kind in looks.items():
        of_kind[kind].append(text)

    def mostly(*kinds: Kind) -> bool:
        return 2 * sum(texts[text] for kind in kinds for text in of_kind[kind]) > n_observed

    if mostly(Kind.DATE):
        return TextProblem("dates", of_kind[Kind.DATE][0])
    odd, plain, other = (of_kind[k] for k in (Kind.LIKE_A_NUMBER, Kind.NUMBER, Kind.TEXT))
    broken = [text for text in other if text in ERRORS]
    if not broken and set(other) <= DASHES:
        broken = other
    if broken:
        return TextProblem("mixed", broken[0])
    if mostly(Kind.NUMBER, Kind.LIKE_A_NUMBER):
        if odd and not other:
            return TextProblem("numbers", odd[0])
        if len(odd) + len(plain) > FEW_NUMBERS:
            return TextProblem("mixed" if other else "numbers", (other or odd or plain)[0])
    if tells_rows_apart(len(texts), n_observed):
        return TextProblem("names", next(iter(texts)))
    return None


def check_text(texts: Mapping[str, int], called: str, key: Any) -> None:
    """Reject a column of text that probably does not hold levels.

    Parameters
    ----------
    texts : mapping
        How often each text stands in the column.
    called : str
        The column for messages.
    key : str or int
        How the parameter `columns` would name it.

    Raises
    ------
    ValueError
        For dates, numbers stored as text, and texts that identify rows.
    """
    found = text_problem(texts)
    if found is None:
        return
    example, n_rows = short(found.example), sum(texts.values())
    problem = {
        "dates": f"holds dates or times ({example}), which are no measurements: turn them into "
        "numbers, such as days since the first of them, or",
        "numbers": f"holds numbers stored as text ({example}): turn them into numbers, or",
        "mixed": f"holds numbers stored as text, and other texts among them ({example}): turn "
        "them into numbers and None, or",
        "names": f"holds {len(texts):,} different texts in {n_rows:,} rows, which tell rows apart "
        "and hardly describe them:",
    }[found.reason]
    raise ValueError(
        f"{called} {problem} leave the column out, or set columns={{{key!r}: 'categorical'}} to "
        "use the texts as levels"
    )


def _are_zero_or_one(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which columns hold only 0, 1 and gaps."""
    found = np.ones(values.shape[1], dtype=bool)
    for block in row_blocks(*values.shape):
        part = values[block]
        found &= ((part == 0) | (part == 1) | ~is_observed(part)).all(axis=0)
    return found


def _are_counts(values: NDArray[Any]) -> NDArray[np.bool_]:
    return (values >= 0) & (values == np.round(values))


def _wider(before: str, now: str) -> str:
    """The common type of numbers that were stored as two types."""
    order = ("bool", "int", "float")
    if before not in order or now not in order:
        return now
    return order[max(order.index(before), order.index(now))]
