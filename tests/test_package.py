"""The package: import time, lazy imports and public names."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dynpart
from dynpart.engines import make_engine

ROOT = Path(__file__).parents[1]
LIBRARIES = {"numpy", "scipy", "sklearn", "numba", "matplotlib", "torch", "dask", "pandas"}
TOOLS = {"matplotlib", "typer", "rich", "pooch", "requests", "PIL", "safetensors", "torch", "dask"}


def loaded(program, libraries):
    """Those of the libraries that a program of its own has imported in the end."""
    ending = f"; import sys; print(sorted({libraries!r} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program + ending],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.strip()


def test_importing_the_package_loads_no_heavy_library():
    assert loaded("import dynpart", LIBRARIES) == "[]"


@pytest.mark.parametrize(
    "program",
    [
        "from dynpart import DynamicPartitionModel; from dynpart.datasets import make_pairs; "
        "DynamicPartitionModel(4, max_iter=1).fit(make_pairs(2)).transform(make_pairs(2))",
        "import dynpart.datasets",
    ],
)
def test_a_fit_loads_nothing_that_draws_or_talks(program):
    assert loaded(f"import warnings; warnings.simplefilter('ignore'); {program}", TOOLS) == "[]"


def test_every_public_name_can_be_imported():
    for name in dynpart.__all__:
        assert getattr(dynpart, name) is not None
        assert name in dir(dynpart)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no_such_name"):
        dynpart.no_such_name  # noqa: B018


def test_the_torch_engine_asks_for_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "dynpart.engines.torch", raising=False)
    with pytest.raises(ImportError, match=r"engine='torch' needs torch.*'dynpart\[gpu\]'"):
        make_engine("torch")


# ------------------------------------------------------------------ what is said in several files


@pytest.fixture
def project():
    path = ROOT / "pyproject.toml"
    if not path.exists():
        pytest.skip("not part of this installation")
    return tomllib.loads(path.read_text())["project"]


def test_the_citation_and_the_recipe_are_of_this_version(project):
    for name, spelled in (("CITATION.cff", "version: {}"), ("conda/meta.yaml", 'version = "{}"')):
        if (ROOT / name).exists():
            assert spelled.format(dynpart.__version__) in (ROOT / name).read_text(), name


def test_the_recipe_asks_for_the_same_versions(project):
    recipe = ROOT / "conda" / "meta.yaml"
    if not recipe.exists():
        pytest.skip("not part of this distribution")
    run = recipe.read_text().split("  run:\n")[1].split("\n\n")[0]
    asked = dict(re.findall(r"- ([a-z-]+) >=([0-9.,<]+)", run))
    asked["matplotlib"] = asked.pop("matplotlib-base")
    python = asked.pop("python")
    assert project["requires-python"] == f">={python}"
    assert {f"{name}>={bound}" for name, bound in asked.items()} == set(project["dependencies"])


def test_a_dependency_with_private_imports_has_an_upper_bound(project):
    private = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                names = [
                    alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")
                ]
            private.update(
                name.split(".")[0]
                for name in names
                if re.search(r"\._(?!_)", name) and not name.startswith("dynpart.")
            )
    assert "numba" in private  # the search finds the known case
    for name in private:
        (requirement,) = [line for line in project["dependencies"] if line.startswith(name)]
        assert ",<" in requirement, f"{name} has no upper bound"
