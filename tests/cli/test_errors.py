"""Commands end with a clear message and the right status, whatever goes wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import dynpart
from dynpart import cli

runner = CliRunner()


def app_that_raises(error):
    app = typer.Typer(pretty_exceptions_enable=False)

    def fail(wanted: int = 3) -> None:
        raise error

    app.command()(cli.report_errors(fail))
    return app


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("n_experts must be at least 1"), 2),
        (FileNotFoundError("no such table: data.csv"), 2),
        (NotADirectoryError("DYNPART_DATA is not a folder"), 2),
        (ImportError("needs the extra dynpart[gpu]"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_known_errors_are_one_message_without_a_traceback(error, status):
    result = runner.invoke(app_that_raises(error), [])
    assert result.exit_code == status
    assert result.stderr.strip() == f"dynpart: {str(error) or 'interrupted'}"
    assert not result.stdout


def test_faults_of_our_own_are_not_hidden():
    result = runner.invoke(app_that_raises(ZeroDivisionError("a bug")), [])
    assert isinstance(result.exception, ZeroDivisionError)


def test_the_guard_keeps_the_options_of_a_command():
    result = runner.invoke(app_that_raises(ValueError("x")), ["--help"])
    assert result.exit_code == 0
    assert "--wanted" in result.stdout


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example(name):
    result = runner.invoke(cli.app, [name, "--help"], prog_name="dynpart")
    assert result.exit_code == 0
    assert f"dynpart {name}" in result.stdout


def test_help_lists_every_command_and_version_is_the_packages():
    shown = runner.invoke(cli.app, ["--help"]).stdout
    assert all(name in shown for name in cli.COMMANDS)
    assert runner.invoke(cli.app, ["--version"]).stdout.strip() == f"dynpart {dynpart.__version__}"


@pytest.mark.parametrize("words", [["no-such-command"], ["demo", "--no-such-option"]])
def test_unknown_words_end_with_status_two(words):
    assert runner.invoke(cli.app, words).exit_code == 2


def test_help_loads_no_heavy_library():
    heavy = "{'numpy', 'scipy', 'sklearn', 'numba', 'matplotlib', 'torch'}"
    program = (
        "import sys\nfrom dynpart.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stderr.strip() == "[]"
