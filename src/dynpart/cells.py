"""Cells: classify a text in a table as a number, a date, a missing value or other text."""

from __future__ import annotations

import math
import re
from enum import Enum, auto

WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
NONE = "none"
"""The only missing value that is also a common level, as in "airbags: None"."""
MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", NONE, "?", "."}
"""Texts for missing values, in any case and with blanks around them.

These are the words that pandas reads as missing, the question mark of many published data sets, and
the point that SAS and Stata write. A dash is not among them, because tables of money use it for
zero.
"""
ERRORS = {"#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"}
"""Error values of spreadsheet formulas."""
DASHES = {"-", "–", "—"}

_CLOCK = (
    r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[ap]m)?( ?(z|utc|[+-][0-9]{2}:?[0-9]{2}))?"
)
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = "|".join(
    (
        r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}",
        r"[0-9]{1,2}([-/])[0-9]{1,2}[-/][0-9]{2,4}",
        r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{2,4}",
        rf"[0-9]{{1,2}}[. -]+{_MONTH}[ -]+[0-9]{{2,4}}",
        rf"{_MONTH} [0-9]{{1,2}},? [0-9]{{4}}",
    )
)
_DATE = re.compile(rf"({_DAY})([t ]+{_CLOCK})?|{_CLOCK}", re.IGNORECASE)

_SIGNS, _ENDS = r"[\s$€£¥%‰+−-]*", r"[\s$€£¥%‰−-]*"  # 5+ is not a number but a level, as is >4
_LIKE_A_NUMBER = re.compile(
    rf"\(?{_SIGNS}([0-9]{{1,3}}([ ,.'’\u00a0\u202f][0-9]{{3}})+|[0-9]+)([.,][0-9]+)?{_ENDS}\)?"
)


class Kind(Enum):
    """The class of a text field."""

    NUMBER = auto()
    WORD = auto()
    MISSING = auto()
    LIKE_A_NUMBER = auto()
    DATE = auto()
    TEXT = auto()


def is_missing(field: str) -> bool:
    """Whether a field is a missing value."""
    return field.strip().lower() in MISSING


class Fields:
    """Reads single fields.

    Parameters
    ----------
    decimal_comma : bool
        Whether 1,5 is a number.
    """

    def __init__(self, decimal_comma: bool) -> None:
        self.decimal_comma = decimal_comma

    def number(self, field: str) -> float | None:
        """The field's number, or None."""
        word = WORDS.get(field.strip().lower())
        return self.plain_number(field) if word is None else word

    def plain_number(self, field: str) -> float | None:
        """The number that the field spells in digits, or None."""
        text = field.strip()
        if self.decimal_comma:
            text = text.replace(",", ".")
        # Python reads 1_0 as ten and accepts digits of all scripts; tables must not.
        if "_" in text or not text.isascii():
            return None
        try:
            return float(text)
        except ValueError:
            return None

    def value(self, field: str) -> float | None:
        """The field's number, NaN if it is missing, or None if it is something else."""
        return math.nan if is_missing(field) else self.number(field)

    def plain_value(self, field: str) -> float | None:
        """As `value`, except that true and yes are text."""
        return math.nan if is_missing(field) else self.plain_number(field)

    def kind(self, field: str) -> Kind:
        """The class of the field."""
        text = field.strip()
        if is_missing(text):
            return Kind.MISSING
        if text.lower() in WORDS:
            return Kind.WORD
        if self.number(text) is not None:
            return Kind.NUMBER
        if _DATE.fullmatch(text):
            return Kind.DATE
        like = _LIKE_A_NUMBER.fullmatch(text) or text.replace("_", "").isdecimal()
        return Kind.LIKE_A_NUMBER if like else Kind.TEXT
