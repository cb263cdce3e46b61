"""Text for terminals: control characters are escaped."""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"
"""Joiners needed to write Persian and Hindi; they do not control a terminal."""


def printable(text: str) -> str:
    r"""The text with all characters escaped that would control a terminal.

    These are control characters (including those that set colours, move the cursor or end a line),
    marks of writing direction, and surrogates.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> from dynpart.terminal import printable
    >>> print(printable("red \x1b[31m, größer, two\nlines"))
    red \x1b[31m, größer, two\nlines
    """
    return "".join(character if _is_shown(character) else _escaped(character) for character in text)


def _is_shown(character: str) -> bool:
    kind = unicodedata.category(character)
    return character in JOINERS or kind not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
