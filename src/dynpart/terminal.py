"""Text for terminals: what a terminal would obey is escaped. Knows characters, nothing else."""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"
"""Marks without which Persian and Hindi cannot be spelt; a terminal does not obey them."""


def printable(text: str) -> str:
    r"""The same text with everything escaped that a terminal would obey instead of show.

    These are control characters (with those that begin a colour, move the cursor or end a line),
    marks that turn the direction of writing, and halves of characters.

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
