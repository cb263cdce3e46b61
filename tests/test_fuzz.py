"""A short run of the fuzzer: its targets work and find nothing. `make fuzz` runs the long one."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest

from dynpart import DynamicPartitionModel

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
        ("array-file", 30),
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


@pytest.mark.parametrize(
    "container", [np.asarray, np.ndarray.tolist, pandas.DataFrame, polars.DataFrame, lambda X: [X]]
)
def test_rows_of_weight_zero_may_hold_what_the_others_do_not(fuzz, container):
    """Without them the column is binary, and such rows are refused later, as any other row is."""
    X, weight = np.array([[0.0], [1.0], [0.5], [0.0]]), [1.0, 1.0, 0.0, 1.0]
    table = container(X)
    its_weight = [weight] if isinstance(table, list) and table[0] is X else weight
    case = (table, {"n_experts": 1, "max_iter": 2}, {}, its_weight, False)
    assert fuzz.cases.check_fit(case) == "fitted"
    model = DynamicPartitionModel(1, max_iter=2).fit(X, sample_weight=weight)
    with pytest.raises(ValueError, match=r"found 0\.5 in row 2, column 0"):
        model.transform(X)
