"""Documents that are written by commands can be read as text."""

from pathlib import Path

import pytest

from dynpart.markdown import WIDTH, wrapped

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")]
)
SENTENCE = "A sentence of some length that is here to be folded. " * 4


def test_prose_and_lists_are_folded_and_nothing_else_is():
    table, picture, code = f"| {SENTENCE} |", f"![{SENTENCE}](a.png)", f"```\n{SENTENCE}\n```"
    text = "\n".join([f"# {SENTENCE}", SENTENCE, f"- {SENTENCE}", table, picture, code])
    lines = wrapped(text).split("\n")
    assert lines[0] == f"# {SENTENCE}"
    assert lines[-5:] == [table, picture, *code.split("\n")]
    prose = lines[1:-5]
    assert all(len(line) <= WIDTH for line in prose)
    item = next(i for i, line in enumerate(prose) if line.startswith("- "))
    assert all(line.startswith("  ") for line in prose[item + 1 :])
    assert " ".join(" ".join(prose).split()) == f"{SENTENCE}- {SENTENCE}".strip()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_has_a_long_line_of_prose(path):
    text = path.read_text(encoding="utf-8")
    assert wrapped(text) == text
