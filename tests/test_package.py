"""The package as a whole: quick to import, honest about its names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynpart
from dynpart.engines import make_engine


def test_importing_the_package_loads_no_heavy_library():
    heavy = "{'numpy', 'scipy', 'sklearn', 'numba', 'matplotlib', 'torch'}"
    program = f"import sys, dynpart; print(sorted({heavy} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"


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
