"""Columns of text: distinct texts are stored once, and become numbers or indices of words."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynpart.cells import DASHES, NONE, Fields, Kind
from dynpart.coding import in_order
from dynpart.kinds import TextProblem, text_problem
from dynpart.levels import boolean_words
from dynpart.tables._rules import without_guard


class LateText(Exception):
    """A column of numbers has a text in a later row and must be read as text."""

    def __init__(self, columns: set[int]) -> None:
        super().__init__(columns)
        self.columns = columns


class Words(NamedTuple):
    """A parsed column.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        Numbers, or indices of words; NaN for missing values.
    words : tuple of str or None
        None if all texts were numbers.
    problem : TextProblem or None
        Reason why the words are probably not levels.
    row : int
        The first row with the example.
    n_none : int
        Number of cells that say None beside other texts, and count as missing.
    """

    values: NDArray[np.float64]
    words: tuple[str, ...] | None = None
    problem: TextProblem | None = None
    row: int = 0
    n_none: int = 0


class TextColumn:
    """Cells of a column, each different text kept once."""

    def __init__(self) -> None:
        self.codes = array("q")
        self.places: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Add the next cell."""
        text = text.strip()
        code = self.places.get(text)
        if code is None:
            code = self.places[text] = len(self.places)
        self.codes.append(code)

    def finished(
        self,
        fields: Fields,
        *,
        as_it_is: bool = False,
        typed: bool = False,
        none_is_level: bool = False,
    ) -> Words:
        """The column as numbers if all cells are numbers or gaps, otherwise as words.

        Parameters
        ----------
        fields : Fields
            How numbers are written.
        as_it_is : bool, default=False
            Whether all texts are words, even if they look like numbers.
        typed : bool, default=False
            Whether the file stores types, so that no text is a number.
        none_is_level : bool, default=False
            Whether None is a text like the others, if there are others.
        """
        codes = np.frombuffer(self.codes, dtype=np.int64) if self.codes else np.empty(0, np.int64)
        looks = [fields.kind(text) for text in self.places]
        nones = [text for text in self.places if text.lower() == NONE] if Kind.TEXT in looks else []
        if none_is_level:
            looks = [
                Kind.TEXT if text in nones else kind
                for text, kind in zip(self.places, looks, strict=True)
            ]
        found = set(looks) - {Kind.MISSING}
        texts = [without_guard(text) for text in self.places]
        there = [text for text, kind in zip(texts, looks, strict=True) if kind is not Kind.MISSING]
        flags = boolean_words(there)
        numeric = found <= {Kind.NUMBER, Kind.WORD} and flags is None
        if not found or (numeric and not as_it_is and not typed):
            numbers = [fields.value(text) for text in self.places]
            return Words(np.array(numbers, dtype=np.float64)[codes])
        words = flags or tuple(sorted(set(there), key=in_order(there)))
        values = _indices(texts, looks, words)[codes]
        counts = np.bincount(codes, minlength=len(texts)).tolist()
        counted = {
            text: n
            for text, kind, n in zip(texts, looks, counts, strict=True)
            if kind is not Kind.MISSING
        }
        problem = None if as_it_is else text_problem(counted, fields)
        row = 0 if problem is None else int(np.argmax(codes == texts.index(problem.example)))
        n_none = 0 if none_is_level else sum(counts[self.places[text]] for text in nones)
        return Words(values, words, problem, row, n_none)


def not_a_number(problem: TextProblem, name: str) -> str:
    """What a text is that stands for a number or a date, with remedies.

    Parameters
    ----------
    problem : TextProblem
    name : str
        Name of the column; empty if it has none.
    """
    options = other_uses(name) if name else "take the column out"
    if problem.example in DASHES:
        gap = "leave the cell empty if it was not observed"
        return f"not a number; write 0, or {gap}; or {options}"
    if problem.reason == "dates":
        return f"a date, not a number; {options}, or turn it into a number"
    if problem.reason == "mixed":
        return f"not a number; leave the cell empty if it was not observed, or {options}"
    return f"not a plain number; write digits and a point alone, or {options}"


def other_uses(name: str) -> str:
    """What can be done with a column of texts that are no levels."""
    return (
        f"leave the column out with --drop {name!r}, name the rows by it with --label-column "
        f"{name!r} or take its texts for levels with --categorical {name!r}"
    )


def none_remarks(found: Mapping[str, Words]) -> list[str]:
    """Remarks about columns of texts in which None counts as missing, by their names."""
    return [
        f"column {name!r}: None counts as missing (cells: {words.n_none:,}); --categorical "
        f"{name!r} makes it a level"
        for name, words in found.items()
        if words.n_none
    ]


def _indices(texts: list[str], looks: list[Any], words: Sequence[str]) -> NDArray[np.float64]:
    """The index of each text among the words; NaN for missing values."""
    index = {word: i for i, word in enumerate(words)}
    for i, word in enumerate(words):
        index.setdefault(word.lower(), i)
    return np.array(
        [
            np.nan if kind is Kind.MISSING else index.get(text, index.get(text.lower(), np.nan))
            for text, kind in zip(texts, looks, strict=True)
        ]
    )
