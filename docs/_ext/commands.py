"""The page of commands, written from what each command says of itself."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from typer.main import get_command

TOP = """# Commands

This page lists every command and its options; `dynpart COMMAND --help` prints the same.
[Tables and files](your-own-data.md) describes the files that commands read and write.

"""
EXAMPLE = re.compile(r"`([^`]+)`")


def write_page(app: Sphinx) -> None:
    """Write `commands.md` into the sources, unless it says the same already."""
    from dynpart.cli import app as cli

    group: Any = get_command(cli)
    names = group.list_commands(None)
    text = TOP + "\n".join(section(name, group.get_command(None, name)) for name in names)
    page = Path(app.srcdir, "commands.md")
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def section(name: str, command: Any) -> str:
    """One command: what it does, examples, arguments and options."""
    paragraphs = [block.strip() for block in command.help.split("\n\n")]
    examples = [found[1] for block in paragraphs if (found := EXAMPLE.fullmatch(block))]
    words = [block for block in paragraphs if not EXAMPLE.fullmatch(block)]
    if examples and words[-1].endswith(":"):
        words.pop()
    lines = [f"## dynpart {name}", *words]
    if examples:
        lines.append("\n".join(["```console", *examples, "```"]))
    shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    rows = [f"| {spelled(p)} | {meaning(p)} |" for p in shown]
    if rows:
        lines.append("\n".join(["| argument or option | meaning |", "|---|---|", *rows]))
    return "\n\n".join(lines) + "\n"


def spelled(parameter: Any) -> str:
    """How a parameter is written on the command line."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = sorted(parameter.opts, key=len, reverse=True) + parameter.secondary_opts
    metavar = f" {parameter.metavar}" if parameter.metavar else ""
    return ", ".join(f"`{name}{metavar}`" for name in names).replace("|", "\\|")


def meaning(parameter: Any) -> str:
    """What a parameter is for, with its default."""
    words = " ".join((parameter.help or "").split())
    default = parameter.default
    if parameter.required:
        words += " Required."
    elif default not in (None, False, (), "") and not callable(default):
        words += f" Default: `{getattr(default, 'value', default)}`."
    return words.replace("|", "\\|")


def setup(app: Sphinx) -> dict:
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True}
