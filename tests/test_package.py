"""The package as a whole: quick to import, honest about its names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynpart


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
