"""Levels: words and numbers of a table to indices of levels, or an error with the place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_observed, place
from dynpart.cells import Fields
from dynpart.coding import Coded, coded, level_name
from dynpart.schema import Schema
from dynpart.validation import check_exact, without_masks

BOOLEANS = ({"no": 0, "yes": 1}, {"false": 0, "true": 1})
"""Words of columns that are binary, in any case."""
GIVE_NUMBERS = "give numbers there, and None or NaN where nothing was observed"


def boolean_words(words: Sequence[str]) -> tuple[str, str] | None:
    """Names of 0 and 1 if the words are yes and no, or true and false, in any case; else None."""
    for known in BOOLEANS:
        if words and all(word.strip().lower() in known for word in words):
            names = list(known)
            for word in reversed(words):
                names[known[word.strip().lower()]] = word
            return names[0], names[1]
    return None


@dataclass(frozen=True)
class Encoder:
    """Converts blocks of rows to numbers, by their schema.

    Attributes
    ----------
    schema : Schema
    unknown : {"error", "missing"}
        What becomes of levels that the schema does not have.
    """

    schema: Schema
    unknown: str = "error"

    def __call__(
        self, X: Any, name: str = "X", gone: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """The table as numbers; errors refer to it as `name`. Rows that are `gone` become gaps."""
        check_exact(X, name)
        table = coded(X)
        if table is None:
            table = Coded.of_numbers(np.asarray(without_masks(X)))
        return encoded(table.without(gone), self.schema, unknown=self.unknown, name=name)


def encoded(
    table: Coded, schema: Schema, *, unknown: str = "error", name: str = "X"
) -> NDArray[Any]:
    """The table as numbers, with levels as indices in the schema.

    Parameters
    ----------
    table : Coded
        With the columns of the schema in their order.
    schema : Schema
    unknown : {"error", "missing"}, default="error"
        What becomes of levels that the schema does not have.
    name : str
        Name of the table in errors.

    Returns
    -------
    ndarray of shape (n_rows, n_features)

    Raises
    ------
    ValueError
        For an unknown level, or a text in a column of numbers; it names the place.

    Examples
    --------
    >>> from dynpart.coding import coded
    >>> from dynpart.levels import encoded
    >>> from dynpart.schema import Schema
    >>> schema = Schema(("categorical",), levels=(("cat", "dog"),))
    >>> encoded(coded([["dog"], ["cat"]]), schema).ravel()
    array([1., 0.])
    """
    touched = [
        d
        for d, words in enumerate(table.words)
        if words is not None or schema.levels_of(d) is not None
    ]
    if not touched:
        return table.values
    values = table.values.astype(np.float64)
    for d in touched:
        values[:, d] = _encoded_column(table, schema, d, unknown, name)
    return values


def _encoded_column(
    table: Coded, schema: Schema, d: int, unknown: str, name: str
) -> NDArray[np.float64]:
    values, words = table.values[:, d], table.words[d]
    levels = schema.levels_of(d)
    binary = schema.kinds[d] == "binary"
    there = is_observed(values)
    if words is None:
        if binary:
            return values  # the family checks for 0 and 1
        found, codes = np.unique(np.where(there, values, 0), return_inverse=True)
        words = tuple(level_name(number) for number in found)
    else:
        codes = np.where(there, values, 0).astype(np.intp)
    known = {level: float(i) for i, level in enumerate(levels or ())}
    if binary:
        known |= _booleans(levels)
    table_of = [
        known.get(word, known.get(word.strip().lower(), -1.0) if binary else -1.0) for word in words
    ]
    index = np.array([*table_of, -1.0])[codes]
    wrong = np.flatnonzero(there & (index < 0))
    if len(wrong) and (unknown == "error" or levels is None):
        row = int(wrong[0]) if binary or levels is not None else first_text(values, words)
        raise ValueError(_unknown(words[int(codes[row])], row, d, table, schema, name))
    return np.where(there & (index >= 0), index, np.nan)


def first_text(values: NDArray[Any], words: Sequence[str]) -> int:
    """The first row of a column of words that is no number; if all are, the first observed row.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Indices of words, NaN for missing values; at least one is observed.
    words : sequence of str
    """
    fields = Fields(decimal_comma=False)
    is_text = np.array([fields.plain_number(word) is None for word in words])
    there = is_observed(values)
    found = np.flatnonzero(there & is_text[np.where(there, values, 0).astype(np.intp)])
    return int(found[0] if len(found) else np.flatnonzero(there)[0])


def _booleans(levels: tuple[str, ...] | None) -> dict[str, float]:
    """The words for 0 and 1 of a binary column."""
    for known in BOOLEANS:
        if levels is None or all(level.strip().lower() in known for level in levels):
            return {word: float(number) for word, number in known.items()}
    return {}


def _unknown(word: str, row: int, d: int, table: Coded, schema: Schema, name: str) -> str:
    where = place(row, d, table.names if table.names is not None else schema.names)
    levels = schema.levels_of(d)
    if levels is None:
        return (
            f"{name} holds {short(word)} in {where}, but the model knows the column as "
            f"{schema.kinds[d]}, with numbers: {GIVE_NUMBERS}"
        )
    measured = ""
    if table.words[d] is None:
        measured = ", or learn with the column as 'real' if it is measured"
    return (
        f"{name} holds {short(word)} in {where}, a level that was not there when the model was "
        f"learnt; known are {listed(levels)}. Correct the value, or take unknown levels as not "
        f"observed with unknown='missing'{measured}"
    )


def listed(words: Sequence[str], most: int = 8) -> str:
    """The first words for a message, and their number."""
    shown = ", ".join(short(word) for word in words[:most])
    return shown if len(words) <= most else f"{shown}, ... ({len(words)} in all)"


def short(word: str) -> str:
    """A word for a message, in quotes and shortened."""
    return repr(word if len(word) <= 40 else f"{word[:37]}...")
