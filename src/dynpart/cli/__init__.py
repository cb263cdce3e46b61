"""The command line: finds commands, and turns known errors into one clear message.

Each command is a module of this package with a function ``command`` and an entry in `COMMANDS`.
A command module imports what is heavy inside its function, so that ``dynpart --help`` is quick.
Whatever `KNOWN_ERRORS` it raises is printed without a traceback and ends with status 2; an
interruption ends with status 130, a closed output with 141. Warnings are printed as notes.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from dynpart import notices
from dynpart.cli._shared import warnings_in_words
from dynpart.terminal import printable

COMMANDS = (
    "fit",
    "encode",
    "reconstruct",
    "impute",
    "score",
    "sample",
    "info",
    "describe",
    "explain",
    "report",
    "rename",
    "demo",
    "reproduce",
    "compare",
)
"""Commands in the order of ``dynpart --help``: each is the module of this package of that name."""

KNOWN_ERRORS = (ValueError, OSError, ImportError, MemoryError)
"""Errors of bad input, files and missing extras; any other error is a bug and shows a traceback."""

USAGE_ERROR = 2
INTERRUPTED = 130
OUTPUT_CLOSED = 141
"""Exit status that a shell reports for a program with a closed output, as in ``| head -1``."""


def report_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command: known errors become a message and an exit status, warnings a message.

    Parameters
    ----------
    function : callable
        The command; its signature is kept, since typer reads the options from it.

    Returns
    -------
    callable
    """

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            with warnings_in_words():
                return function(*args, **kwargs)
        except BrokenPipeError:
            _leave_quietly()
            raise typer.Exit(OUTPUT_CLOSED) from None
        except KNOWN_ERRORS as error:
            typer.echo(printable(f"dynpart: {_worded(error)}"), err=True)
            raise typer.Exit(USAGE_ERROR) from None
        except KeyboardInterrupt:
            typer.echo("dynpart: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return guarded


def _worded(error: Exception) -> str:
    """The message of an error in one line; for file errors without the error number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = " ".join(str(error).splitlines())
    return f"not enough memory. {text}".rstrip() if isinstance(error, MemoryError) else text


def _leave_quietly() -> None:
    """Discard pending output: the reader has closed the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


class LazyGroup(TyperGroup):
    """A group that imports a command when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Build one command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        function = import_module(f"dynpart.cli.{cmd_name.replace('-', '_')}").command
        single = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
        )
        single.command(cmd_name)(report_errors(function))
        return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        from dynpart import __version__

        typer.echo(f"dynpart {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Dynamic partition models: explain each row by a few experts, each variable by one of them."""
    notices.enable_messages()


def main() -> None:
    """Run the command line; the entry point of the package."""
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # at exit, Python would print an error about a closed output
    except BrokenPipeError:
        _leave_quietly()
        sys.exit(OUTPUT_CLOSED)
    except SystemExit as end:
        # Status 1 comes only from typer and rich, when the output is closed.
        sys.exit(OUTPUT_CLOSED if end.code == 1 else end.code)
    except KeyboardInterrupt:
        # Raised outside of any command, for example during its import.
        sys.exit(INTERRUPTED)
