"""A model file read without scikit-learn or kernels gives the descriptions of the loaded model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynpart
from dynpart import DynamicPartitionModel, load
from dynpart.cli.info import _facts
from dynpart.datasets import load_digits, make_pairs
from dynpart.portrait import DEFAULTS, portrait
from dynpart.storage import ModelFileError

HEAVY = {"sklearn", "scipy", "numba", "joblib", "pandas", "matplotlib", "torch"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    DynamicPartitionModel(10, random_state=0, prune=True).fit(make_pairs(5)).save(folder / "pairs")
    digits = load_digits(binarize=False)
    gray = DynamicPartitionModel(6, max_active=3, max_iter=4, random_state=0)
    gray.fit(digits.data[:200]).rename_experts({2: "mine"}).save(folder / "gray")
    return folder


def test_defaults_are_those_of_the_estimator():
    """A new parameter has to be entered in `portrait.DEFAULTS`, too."""
    assert DynamicPartitionModel().get_params() == DEFAULTS


@pytest.mark.parametrize("name", ["pairs", "gray"])
def test_it_tells_what_the_loaded_model_tells(files, name):
    shown, loaded = portrait(files / name), load(files / name)
    assert _facts(shown, 1) == _facts(loaded, 1)
    assert shown.get_params() == loaded.get_params()
    assert shown.describe() == loaded.describe()


def test_a_damaged_file_is_refused(files, tmp_path):
    damaged = tmp_path / "half"
    damaged.write_bytes((files / "pairs").read_bytes()[:-9])
    with pytest.raises(ModelFileError):
        portrait(damaged)


def test_info_needs_no_heavy_library(files):
    program = f"""
import sys
from dynpart.cli import app
app(["info", {str(files / "gray")!r}, "--json"], standalone_mode=False)
print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(dynpart.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert json.loads(done.stdout)["n_experts"] == 6
    assert done.stderr == "[]\n"
