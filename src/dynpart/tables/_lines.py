"""Tables in .jsonl files: a JSON object on every line, whose keys are columns."""

from __future__ import annotations

import json
import math
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.cells import NONE, Fields, is_missing
from dynpart.coding import level_name
from dynpart.tables._columns import Choice, checked_names, columns_before, infinite
from dynpart.tables._rules import Roles
from dynpart.tables._table import Table, TableError, compact
from dynpart.tables._text import NUMBERS_AT_ONCE, labels_from_first, text_lines
from dynpart.tables._texts import TextColumn, Words, none_remarks, not_a_number
from dynpart.tables.limits import MOST_VALUES, check_room


def read_jsonl(path: Path, *, choice: Choice, roles: Roles) -> Table:
    """Read a table of JSON lines, plain or zipped.

    Columns are in the order in which their keys first appear. Missing keys, null, and texts for
    missing values are gaps. true and false are words if a column holds nothing else, and otherwise
    1 and 0; texts are numbers by the rules of .csv files. A first column of texts that distinguish
    rows holds labels.
    """
    reading = _Reading(path, choice, roles)
    for line, text in text_lines(path):
        if text.strip():
            reading.add(line, _parsed(path, line, text))
    return reading.table()


def _parsed(path: Path, line: int, text: str) -> list[tuple[str, Any]]:
    """Keys and values of a line."""
    try:
        found = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{path}: line {line} is no JSON: {error}"[:300]) from error
    if not isinstance(found, _Object):
        raise TableError(f"{path}: line {line} must be an object, {{...}}, got {text.strip()[:40]}")
    keys = [key for key, _ in found]
    checked_names(Path(f"{path}: line {line}"), keys)
    if "" in keys:
        raise TableError(f"{path}: line {line} has a key without a letter")
    return found


BOOLEAN_WORDS = ("false", "true")
"""The words for 0 and 1 in columns of booleans."""


class _Object(list):
    """A JSON object as pairs: a type of its own, which keeps duplicate keys."""


class _Reading:
    """The state of reading a file: its values with their rows and columns.

    Columns can be selected only after all keys have been read, so errors about values are stored by
    column until then.
    """

    def __init__(self, path: Path, choice: Choice, roles: Roles) -> None:
        self.path, self.choice, self.roles = path, choice, roles
        self.fields = Fields(decimal_comma=False)
        self.names: dict[str, int] = {}
        self.lines = array("q")
        self.rows, self.columns, self.numbers = array("q"), array("q"), array("d")
        self.wrong: dict[int, TableError] = {}
        self.texts: dict[int, dict[int, str]] = {}
        self.has_boolean: set[int] = set()
        self.has_number: set[int] = set()
        self.n_texts = 0
        self.labels: list[str] = []
        self.check_at = NUMBERS_AT_ONCE

    def add(self, line: int, pairs: list[tuple[str, Any]]) -> None:
        """Add the next row."""
        row = len(self.lines)
        self.lines.append(line)
        self.labels.append("")
        for key, value in pairs:
            column = self.names.setdefault(key, len(self.names))
            if key == self.roles.label_column:
                self.labels[row] = "" if value is None else str(value)
            if isinstance(value, str) and self._may_be_text(key, value):
                self.texts.setdefault(column, {})[row] = value
                self.n_texts += 1
                continue
            try:
                number = self._number(key, value, row)
            except TableError as error:
                self.wrong.setdefault(column, error)
                continue
            if isinstance(value, bool):
                self.has_boolean.add(column)
            elif not math.isnan(number):
                self.has_number.add(column)
            self.rows.append(row)
            self.columns.append(column)
            self.numbers.append(number)
        if len(self.numbers) + self.n_texts > self.check_at:
            check_room(24 * NUMBERS_AT_ONCE, f"{self.path}: going on after line {line}")
            self.check_at += NUMBERS_AT_ONCE

    def _may_be_text(self, key: str, value: str) -> bool:
        """Whether a string may be a level: it is no number, or the user says so, or it is None."""
        is_text = self.fields.plain_value(value) is None or self.roles.says_text(key)
        return is_text or value.strip().lower() == NONE

    def _number(self, key: str, value: Any, row: int) -> float:
        number: Any = self.fields.value(value) if isinstance(value, str) else value
        where = f"{self.path}: row {row} (line {self.lines[row]}), column {key!r}"
        if value is None:
            return math.nan
        if isinstance(value, list):
            raise TableError(
                f"{where} is nested; a value must be a number, true, false, a text or null: write "
                f"its parts under keys of their own, or leave it out with --drop {key!r}"
            )
        try:
            number = float(number)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise TableError(infinite(where, number))
        return number

    def table(self) -> Table:
        """The table that was read."""
        if not self.lines:
            raise TableError(f"{self.path} is empty")
        names = list(self.names)
        labelled = self.roles.label_column
        checked_names(self.path, names, labelled)
        places = self.choice.columns(self.path, len(names), names)
        kept = [names[i] for i in places if names[i] != labelled]
        first = self.choice.may_hold_labels(self.path, len(names), names)
        may_label = labelled is None and 0 in first
        extra = may_label and names[0] not in kept and 0 not in self.wrong
        kept = [names[0], *kept] if extra else kept
        if not kept:
            raise TableError(f"{self.path} has no column to learn from")
        for name in kept:
            if self.names[name] in self.wrong:
                raise self.wrong[self.names[name]]
        values = self._values(kept)
        found = {}
        for at, name in enumerate(kept):
            texts = self.texts.get(self.names[name])
            if texts is not None and self._holds_text(name, texts):
                found[name] = self._words(values[:, at], texts, name)
                values[:, at] = found[name].values
            elif self.names[name] in self.has_boolean - self.has_number:
                found[name] = Words(values[:, at], BOOLEAN_WORDS)
        words = tuple(found[name].words if name in found else None for name in kept)
        labels = tuple(self.labels) if isinstance(labelled, str) else None
        table = Table(
            compact(values),
            tuple(kept),
            labels,
            remarks=tuple(none_remarks(found)) if self.roles.judge else (),
            words=words if any(words) else None,
            label_name=labelled or None,
            label_place=columns_before(labelled, kept, names) if labelled else 0,
        )
        if may_label and kept[0] == names[0]:
            table = labels_from_first(table, found.get(kept[0]), self.roles, kept=not extra)
        for name in table.names or ():
            if name in found:
                self._check_words(name, found[name])
        return table

    def _holds_text(self, name: str, texts: dict[int, str]) -> bool:
        """Whether a column is one of texts: not if its only strings are None."""
        return self.roles.says_text(name) or not all(map(is_missing, texts.values()))

    def _words(self, numbers: NDArray[np.float64], texts: dict[int, str], name: str) -> Words:
        """A column with texts, and possibly numbers."""
        column = TextColumn()
        for row, number in enumerate(numbers.tolist()):
            text = texts.get(row)
            column.add(text or "" if text is not None or number != number else level_name(number))
        return column.finished(
            self.fields,
            as_it_is=self.roles.takes_text(name),
            none_is_level=name in self.roles.nones,
        )

    def _check_words(self, name: str, content: Words) -> None:
        problem = content.problem
        if problem is None or problem.reason == "names":
            return
        where = f"{self.path}: row {content.row} (line {self.lines[content.row]}), column {name!r}"
        raise TableError(f"{where} is {problem.example[:40]!r}, {not_a_number(problem, name)}")

    def _values(self, kept: list[str]) -> NDArray[np.float64]:
        """The table of numbers, NaN elsewhere; many different keys can make it large."""
        n_rows, n_columns = len(self.lines), len(kept)
        if n_rows * n_columns > MOST_VALUES:
            raise TableError(f"{self.path} has {n_rows:,} rows of {n_columns:,} keys: too many")
        check_room(10 * n_rows * n_columns, f"{n_rows:,} rows of {n_columns:,} keys")
        place_of = np.full(len(self.names), -1)
        place_of[[self.names[name] for name in kept]] = np.arange(n_columns)
        values = np.full((n_rows, n_columns), np.nan)
        rows, columns = (np.frombuffer(part, np.int64) for part in (self.rows, self.columns))
        at = place_of[columns]
        there = at >= 0
        values[rows[there], at[there]] = np.frombuffer(self.numbers, np.float64)[there]
        return values
