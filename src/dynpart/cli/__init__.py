"""The command line: finds commands, and turns known errors into one clear message.

Each command is a module of this package with a function ``command`` and an entry in `COMMANDS`.
A command module imports what is heavy inside its function, so that ``dynpart --help`` is quick.
Whatever `KNOWN_ERRORS` it raises is printed without a traceback and ends with status 2; an
interruption ends with status 130.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = (
    "fit",
    "encode",
    "reconstruct",
    "info",
    "explain",
    "report",
    "demo",
    "reproduce",
    "compare",
)
"""Commands in the order of ``dynpart --help``: each is the module of this package of that name."""

KNOWN_ERRORS = (ValueError, OSError, ImportError)
"""What bad input, files and missing extras raise; anything else is a fault and shows itself."""

USAGE_ERROR = 2
INTERRUPTED = 130


def report_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that known errors become a message on stderr and an exit status.

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
            return function(*args, **kwargs)
        except BrokenPipeError:
            # The reader of our output has left: nobody to tell.
            sys.stderr.close()
            raise typer.Exit(1) from None
        except KNOWN_ERRORS as error:
            typer.echo(f"dynpart: {_worded(error)}", err=True)
            raise typer.Exit(USAGE_ERROR) from None
        except KeyboardInterrupt:
            typer.echo("dynpart: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return guarded


def _worded(error: Exception) -> str:
    """The message of an error; of a file's error, without the number that nobody reads."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class LazyGroup(TyperGroup):
    """A group that imports a command when it is asked for."""

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


def main() -> None:
    """Run the command line; the entry point of the package."""
    try:
        app()
    except KeyboardInterrupt:
        # Outside of any command, for example while one is imported.
        sys.exit(INTERRUPTED)
