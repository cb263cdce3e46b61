"""Wrapping of Markdown: no line of prose is longer than 100 columns."""

from __future__ import annotations

from textwrap import fill

WIDTH = 100


def wrapped(text: str) -> str:
    """The same document with long lines of prose and of lists folded.

    Tables, headings, pictures, blocks of code and shorter lines do not change.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> print(wrapped("- " + "word " * 22 + "end"))  # doctest: +ELLIPSIS
    - word ... word
      word word word end
    """
    lines, in_code = [], False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        whole = in_code or line.lstrip().startswith(("|", "#", "!", "```", "<"))
        lines.append(line if whole or len(line) <= WIDTH else _folded(line))
    return "\n".join(lines)


def _folded(line: str) -> str:
    margin = len(line) - len(line.lstrip())
    indent = " " * (margin + 2 if line.lstrip().startswith(("- ", "* ")) else margin)
    return fill(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
