"""A short run of the fuzzer: its targets work and find nothing. `make fuzz` runs the long one."""

import importlib.util
import warnings
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.fixture(scope="module")
def fuzz():
    if not FUZZ.exists():
        pytest.skip("the fuzzer is not part of this distribution")
    spec = importlib.util.spec_from_file_location("fuzz", FUZZ)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("target", "n_cases"),
    [
        ("model-file", 60),
        ("forged-model", 60),
        ("text-table", 60),
        ("array-file", 60),
        ("command-line", 25),
        ("codes", 60),
        ("names", 30),
        ("gappy-table", 8),
        ("estimator", 40),
        ("full-disk", 10),
    ],
)
def test_a_short_run_finds_nothing(fuzz, target, n_cases, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = fuzz.TARGETS[target][0](n_cases, tmp_path)
    assert 0 < sum(counts.values()) <= 2 * n_cases
