"""Rules by which text becomes a table: which fields are names and labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dynpart.cells import Fields, Kind
from dynpart.tables._table import LabelColumn

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that spreadsheets evaluate as formulas."""


class Decision(NamedTuple):
    """A decision, with a sentence about it if it was ambiguous."""

    value: int | bool | None
    remark: str = ""


def holds_names(head: Sequence[str], below: Sequence[str] | None, fields: Fields) -> Decision:
    """Decide whether the first line holds names, by comparing it with the second.

    Parameters
    ----------
    head : sequence of str
        Fields of the first line.
    below : sequence of str or None
        Fields of the second line, if there is one.
    fields : Fields

    Returns
    -------
    Decision
    """
    top = [fields.kind(field) for field in head]
    if below is None:
        return Decision(Kind.TEXT in top)
    short = len(below) == len(head) + 1  # R writes no name for the column of labels
    pairs = list(zip(top, (fields.kind(f) for f in (below[1:] if short else below)), strict=False))
    if any(a is Kind.TEXT and b is not Kind.TEXT for a, b in pairs):
        return Decision(True)
    as_names = f"its first line ({_listed(head)}) is taken for names"
    but = "--no-header reads it as a row"
    if any(a is Kind.WORD and b is Kind.NUMBER for a, b in pairs):
        return Decision(True, f"{as_names}, since numbers stand below the words; {but}")
    filled = [pair for pair in pairs if pair[0] is not Kind.MISSING]
    plain = (Kind.NUMBER, Kind.MISSING)
    below_plain = all(a is not Kind.NUMBER and b in plain for a, b in filled)
    if below_plain and any(b is Kind.NUMBER for _, b in filled):
        return Decision(True, f"{as_names}, since plain numbers stand below; {but}")
    if _counts_columns(head):
        return Decision(True, f"{as_names}, since it counts the columns; {but}")
    if Kind.TEXT not in top:
        return Decision(False)
    if all(a in (Kind.TEXT, Kind.MISSING) for a in top):
        return Decision(True)
    if len({field.strip() for field in head}) == len(head):
        return Decision(True, f"{as_names}, though it looks like the line below; {but}")
    return Decision(
        False,
        "its first line is taken for a row, since it looks like the line below and repeats itself; "
        "--header reads it as names",
    )


def _counts_columns(head: Sequence[str]) -> bool:
    """Whether the line is that of pandas for columns without names: empty, 0, 1, 2."""
    if len(head) < 2 or head[0].strip():
        return False
    found = [field.strip() for field in head[1:]]
    return any(found == [str(start + i) for i in range(len(found))] for start in (0, 1))


def nameless_labels(names: Sequence[str], kept: Sequence[int]) -> Decision:
    """Decide whether a first column without a name holds labels; the value is 0 or None.

    Parameters
    ----------
    names : sequence of str
        Names of the columns, if the file has any; empty for a column without one.
    kept : sequence of int
        Columns that were not dropped.
    """
    if len(kept) < 2 or kept[0] != 0 or not names or names[0]:
        return Decision(None)
    text = "its first column has no name and is taken for the rows' labels"
    return Decision(0, f"{text}; --no-labels makes it a variable")


def label_remark(name: str, n_different: int, n_rows: int) -> str:
    """The remark about a first column that holds labels."""
    called = f"its first column ({name!r})" if name else "its first column"
    texts = f"{n_different:,} different texts in {n_rows:,} rows"
    if n_different == n_rows:
        texts = "a different text in every row"
    other = (
        f"; --categorical {name!r} makes it a variable, --label-column NAME takes another"
        if name
        else ""
    )
    return f"{called} holds {texts} and is taken for the rows' labels{other}"


class Roles(NamedTuple):
    """The user's settings for the roles of columns.

    Attributes
    ----------
    label_column : str, False or None
        Name of the column of labels; False for none, None to detect it.
    levels : collection of str
        Names of columns whose texts are levels, even if they look like numbers or dates.
    variables : collection of str
        Names of columns that do not hold labels.
    judge : bool
        Whether to reject texts that are probably not levels.
    nones : collection of str
        Names of columns of text in which None is a level.
    """

    label_column: LabelColumn = None
    levels: Collection[str] = ()
    variables: Collection[str] = ()
    judge: bool = True
    nones: Collection[str] = ()

    def takes_text(self, name: str) -> bool:
        """Whether a column accepts any text."""
        return not self.judge or name in self.levels

    def says_text(self, name: str) -> bool:
        """Whether the user declared levels for a column, so that 01 is a text."""
        return name in self.levels

    def may_label(self, name: str) -> bool:
        """Whether a first column may hold labels."""
        known = name in self.levels or name in self.variables
        return self.label_column is None and not known


def without_guard(text: str) -> str:
    """A name or label without the apostrophe added by `with_guard`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA_STARTS) else text


def with_guard(text: str) -> str:
    """A name or label with an apostrophe in front if a spreadsheet would evaluate it.

    Negative numbers are returned unchanged.
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not _is_plain(text) else text


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"[+-][0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?", text, re.IGNORECASE) is not None


def _listed(head: Sequence[str]) -> str:
    shown = ", ".join(repr(field.strip()[:20]) for field in head[:3])
    return shown if len(head) <= 3 else f"{shown}, ..."
