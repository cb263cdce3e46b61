"""Each room of docs/architecture.md imports only public names of the rooms above it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import dynpart

PACKAGE = Path(dynpart.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


# ------------------------------------------------------------------ what is there


def rooms_in_table(page: str) -> list[str]:
    """Rooms in the order of the table under "## Rooms", as they stand there: ``engines/``."""
    section = re.search(r"^## Rooms$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, "there is no section called Rooms"
    return re.findall(r"^\| `([^`]+)` \|", section[1], re.MULTILINE)


def rooms_in_code(package: Path) -> set[str]:
    """Modules and sub-packages, the latter with a slash; the package's own doors are no rooms."""
    modules = {path.stem for path in package.glob("*.py") if not is_door(path.stem)}
    return modules | {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}


def is_door(name: str) -> bool:
    """Whether this is ``__init__`` or ``__main__`` of the package, or ``__version__`` in it."""
    return name.startswith("__")


def is_private(name: str) -> bool:
    return name.startswith("_") and not is_door(name)


# ------------------------------------------------------------------ who knows whom


@dataclass(frozen=True)
class Reach:
    """A line that names something of the package."""

    file: str
    line: int
    room: str
    path: tuple[str, ...]
    """What is named, below the package: ("engines", "cpu", "CpuEngine")."""

    @property
    def target(self) -> str:
        return self.path[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.room} knows dynpart.{'.'.join(self.path)}"


def reaches(package: Path) -> Iterator[Reach]:
    """All that one room names of another, at the top of modules, in functions, for types only."""
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package)
        room = inside.parts[0].removesuffix(".py")
        found = named(ast.parse(file.read_text()), (package.name, *inside.parent.parts), package)
        for line, path in sorted(found):
            if path and path[0] != room:
                yield Reach(inside.as_posix(), line, room, path)


def named(tree: ast.Module, home: tuple[str, ...], package: Path) -> set[tuple[int, tuple]]:
    """Lines and names, below the package, of imports and of attributes of imported modules."""
    found: set[tuple[int, tuple[str, ...]]] = set()
    modules: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = tuple(alias.name.split("."))
                found.add((node.lineno, full))
                modules[alias.asname or full[0]] = full if alias.asname else full[:1]
        elif isinstance(node, ast.ImportFrom):
            begin = home[: len(home) - node.level + 1] if node.level else ()
            base = begin + tuple(node.module.split(".") if node.module else ())
            for alias in node.names:
                full = (*base, alias.name)
                found.add((node.lineno, full))
                if is_module(package.parent.joinpath(*full)):
                    modules[alias.asname or alias.name] = full
        elif isinstance(node, ast.Call) and name_of(node.func)[-1:] == ("import_module",):
            found.add((node.lineno, tuple(leading_text(node.args[0]).split("."))))
    longer = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) in longer:
            continue  # a part of `a.b.c`, which is looked at as a whole
        if isinstance(node, ast.Attribute) and (chain := name_of(node)) and chain[0] in modules:
            found.add((node.lineno, modules[chain[0]] + chain[1:]))
    return {(line, full[1:]) for line, full in found if full[0] == package.name}


def is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or path.is_dir()


def name_of(node: ast.expr) -> tuple[str, ...]:
    """``a.b.c`` as its parts; nothing for what is no chain of names."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (begin := name_of(node.value)):
        return (*begin, node.attr)
    return ()


def leading_text(node: ast.expr) -> str:
    """A text, or what an f-string begins with."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) else node
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


# ------------------------------------------------------------------ what must hold


def unlisted(package: Path, page: str) -> list[str]:
    """Differences between the table and the code."""
    table, code = rooms_in_table(page), rooms_in_code(package)
    return [
        *(f"{room} is not in the table of rooms" for room in sorted(code - set(table))),
        *(f"{room} is in the table of rooms only" for room in sorted(set(table) - code)),
        *(f"{room} is in the table twice" for room in sorted(set(table)) if table.count(room) > 1),
    ]


def downward(package: Path, page: str) -> list[str]:
    """Reaches into rooms below, and through the package's door, behind which all rooms are."""
    order = [room.removesuffix("/") for room in rooms_in_table(page)]
    wrong = []
    for reach in reaches(package):
        if is_door(reach.room) or is_door(reach.target) or reach.room not in order:
            continue
        if reach.target not in order:
            wrong.append(f"{reach}, which is no room: import it from the room that has it")
        elif order.index(reach.target) > order.index(reach.room):
            wrong.append(f"{reach}, but {reach.target} is below {reach.room}")
    return wrong


def trespassing(package: Path) -> list[str]:
    """Reaches into what is private to another room."""
    return [
        f"{reach}, which is private to {reach.target}"
        for reach in reaches(package)
        if any(map(is_private, reach.path))
    ]


def test_the_table_lists_every_room():
    assert unlisted(PACKAGE, PAGE.read_text()) == []


def test_no_room_knows_one_below():
    wrong = downward(PACKAGE, PAGE.read_text())
    assert not wrong, "\n".join(wrong)


def test_no_room_enters_what_is_private_to_another():
    wrong = trespassing(PACKAGE)
    assert not wrong, "\n".join(wrong)


# ------------------------------------------------------------------ the checks can fail

TABLE = """
# How it is built

| room |
|---|
| `not_this_table` |

## Rooms

| room | what it is |
|---|---|
| `arrays` | numbers |
| `engines/` | machines |
| `model` | the model |

## Later

| `nor_this_one` | |
"""


@pytest.fixture
def package(tmp_path):
    """A package whose rooms are in order."""
    files = {
        "__init__.py": "from dynpart.model import Model\n__version__ = '1'\n",
        "arrays.py": "import numpy\n_small = 1\n",
        "engines/__init__.py": "from dynpart.engines._inner import run\n",
        "engines/_inner.py": "from .. import arrays\nfrom . import fast\narrays.add\n",
        "engines/fast.py": "from dynpart.engines import _inner\n_inner._secret\n",
        "model.py": "from dynpart import __version__\nfrom dynpart.engines import fast, run\n",
    }
    root = tmp_path / "dynpart"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_package_in_order_passes(package):
    assert unlisted(package, TABLE) == downward(package, TABLE) == trespassing(package) == []


def test_rooms_are_read_from_the_one_table_in_order():
    assert rooms_in_table(TABLE) == ["arrays", "engines/", "model"]


def test_rooms_that_are_missing_or_gone_are_found(package):
    (package / "tables").mkdir()
    (package / "tables" / "__init__.py").touch()
    (package / "arrays.py").unlink()
    assert unlisted(package, TABLE) == [
        "tables/ is not in the table of rooms",
        "arrays is in the table of rooms only",
    ]
    assert "model is in the table twice" in unlisted(package, TABLE.replace("arrays", "model"))


@pytest.mark.parametrize(
    "text",
    [
        "from dynpart.model import Model",
        "from dynpart import model",
        "import dynpart.model",
        "from ..model import Model",
        "from .. import model",
        "def later():\n    from dynpart.model import Model",
        "if TYPE_CHECKING:\n    from dynpart.model import Model",
        "import_module('dynpart.model')",
        "importlib.import_module(f'dynpart.model.{name}')",
        "import dynpart\ndynpart.model.Model()",
    ],
)
def test_reaches_downwards_are_found(package, text):
    (package / "engines" / "fast.py").write_text(f"\n{text}\n")
    line = 2 + text.count("\n")
    [message] = downward(package, TABLE)
    assert message.startswith(f"engines/fast.py:{line}: engines knows dynpart.model")
    assert message.endswith("model is below engines")
    assert trespassing(package) == []


def test_the_door_of_the_package_is_no_way_round(package):
    (package / "engines" / "fast.py").write_text("from dynpart import Model\n")
    [message] = downward(package, TABLE)
    assert message.startswith("engines/fast.py:1: engines knows dynpart.Model, which is no room")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("from dynpart.engines._inner import run", "engines._inner.run"),
        ("from dynpart.engines import _inner", "engines._inner"),
        ("from dynpart.arrays import _small", "arrays._small"),
        ("import dynpart.engines._inner as inner", "engines._inner"),
        ("from dynpart import arrays\narrays._small", "arrays._small"),
        ("from dynpart.engines import fast as quick\nquick._x", "engines.fast._x"),
        ("def later():\n    from .engines._inner import run", "engines._inner.run"),
    ],
)
def test_reaches_into_private_things_are_found(package, text, what):
    (package / "model.py").write_text(f"{text}\n")
    line, room = 1 + text.count("\n"), what.split(".")[0]
    assert trespassing(package) == [
        f"model.py:{line}: model knows dynpart.{what}, which is private to {room}"
    ]
