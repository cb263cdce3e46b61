"""A short run of the fuzzer: its targets work and find nothing. `make fuzz` runs the long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.mark.parametrize(
    "target", ["model-file", "forged-model", "text-table", "array-file", "codes", "names"]
)
def test_a_short_run_finds_nothing(target):
    command = [sys.executable, FUZZ, "--cases", "40", "--only", target]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no fault" in done.stdout
