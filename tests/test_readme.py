"""The README shows the output of the program, and its Python code runs."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynpart.cli import app
from dynpart.datasets import write_zoo

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.S | re.M)


def commands():
    """Arguments of the commands for a start: those of the first console block."""
    found = [shlex.split(line, comments=True) for line in blocks("console")[0].splitlines()]
    return [words[1:] for words in found if words and words[0] == "dynpart"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the commands print, run one after the other; of the demo only the zoo is made."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "demo-output").mkdir()
    write_zoo(folder / "demo-output" / "zoo.csv")
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in commands():
            if words == ["demo"]:
                continue
            run = CliRunner().invoke(app, words)
            assert run.exit_code == 0, run.output
            told[words[0]] = run.stdout
    return told


def test_there_are_three_commands_for_a_start():
    assert [words[0] for words in commands()] == ["demo", "fit", "explain"]


def test_the_transcript_is_what_the_last_command_prints(printed):
    """Line by line; three dots stand for lines left out."""
    shown = [line.rstrip() for line in blocks("text")[0].splitlines()]
    actual = [line.rstrip() for line in printed["explain"].splitlines()]
    assert len(shown) > 10
    place = 0
    skipping = False
    for line in shown:
        if line.strip() == "...":
            skipping = True
            continue
        if skipping:
            assert line in actual[place:], line
            place = actual.index(line, place)
            skipping = False
        assert actual[place] == line
        place += 1


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks("python"):
        exec(compile(block, str(README), "exec"), {})


@pytest.mark.skipif(
    not (README.parent / "docs" / "start.md").exists(), reason="a source distribution has no pages"
)
def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT):
        if not target.startswith("http"):
            assert (README.parent / target).exists(), target
