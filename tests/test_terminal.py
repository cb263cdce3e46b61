"""Text from files shows on a terminal and does nothing else."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.cli._shared import say
from dynpart.terminal import printable

CONTROLS = ("Cc", "Cs", "Zl", "Zp")


@given(st.text() | st.text(st.characters(categories=[*CONTROLS, "Cf"])))
def test_nothing_is_left_that_a_terminal_obeys(text):
    shown = printable(text)
    assert not [c for c in shown if unicodedata.category(c) in CONTROLS]
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
    shown.encode()  # no halves of characters
    assert printable(shown) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_stays_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize("name", ["größer", "日本語", "میخواهم\u200cها", "a  b", r"\x1b"])
def test_names_of_all_languages_stay_as_they_are(name):
    assert printable(name) == name


def test_what_is_said_moves_no_cursor(capsys):
    say("column \x1b[2J\x9b31m\rgone\u202e\ntwo")
    assert capsys.readouterr().err == "column \\x1b[2J\\x9b31m\\rgone\\u202e\ntwo\n"
