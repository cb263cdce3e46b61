"""No module depends on a family's name, except those about particular families."""

import ast
from pathlib import Path

import pytest

import dynpart
from dynpart.cli.fit import FamilyName
from dynpart.families import KINDS, family_names

PACKAGE = Path(dynpart.__file__).parent
ABOUT_FAMILIES = {"families", "baselines", "comparison", "reproduce", "datasets"}
MODULES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).parts[0] not in ABOUT_FAMILIES
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_asks_which_family_it_is(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom | ast.Import):
            classes = {"Bernoulli", "Categorical", "Count", "Gaussian", "Mixed"}
            assert not {alias.name for alias in node.names} & classes
        if isinstance(node, ast.Compare | ast.Dict):
            constants = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            # What a column is called is no name of a family.
            assert not constants & (set(family_names()) - set(KINDS)), f"line {node.lineno}"


def test_the_command_offers_all_families_of_the_package():
    assert set(FamilyName) == {"auto", *family_names()}
