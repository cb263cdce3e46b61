"""Seconds until there is an answer: the first fit after an installation, and small commands.

    python -m benchmarks.speed.startup               # both tables
    python -m benchmarks.speed.startup --kernels     # and what each kernel takes to compile

Every kind of table is fitted twice, in two processes that share a fresh cache: the first compiles
the kernels, the second loads them. Commands run with that cache; the fastest of three runs counts.
Its processor time is reported, too, because other load changes it less; that of a first fit
includes the process that compiles some of its kernels, but the times of single kernels do not. Fits
are timed without imports, commands with the start of Python. Bytecode is cached beside the modules,
as in an installation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dynpart.comparison.report import markdown_table

N_ROWS, N_COLUMNS, N_EXPERTS = 200, 20, 5
N_CALLS = 3

TABLES = {
    "binary": "rng.integers(0, 2, shape).astype(np.uint8)",
    "binary, with gaps": "np.where(rng.random(shape) < 0.1, np.nan, rng.integers(0, 2, shape))",
    "five levels": "pd.DataFrame(rng.integers(0, 5, shape)).astype('category')",
    "counts and levels": "pd.DataFrame(rng.poisson(3, shape)).astype(dict.fromkeys(range(9), 'category'))",  # noqa: E501
    "numbers": "rng.normal(size=shape)",
}
"""Kinds of tables, and how to draw one."""

FIT = """
import json, os, sys, time, warnings
import numpy as np, pandas as pd
from numba.core import event
warnings.simplefilter("ignore")
from dynpart import DynamicPartitionModel

class Clock(event.Listener):
    def __init__(self):
        self.begun, self.took = [], {}
    def on_start(self, which):
        self.begun.append(time.process_time())
    def on_end(self, which):
        seconds = time.process_time() - self.begun.pop()
        if not self.begun:
            name = which.data["dispatcher"].py_func.__name__
            self.took[name] = self.took.get(name, 0.0) + seconds

clock = Clock()
event.register("numba:compile", clock)
rng, shape = np.random.default_rng(0), (ROWS, COLUMNS)
table = TABLE
begin = time.perf_counter(), sum(os.times()[:4])
DynamicPartitionModel(EXPERTS, random_state=0).fit(table)
took = time.perf_counter() - begin[0], sum(os.times()[:4]) - begin[1]
print(json.dumps([took, clock.took]))
"""

FLOOR = "import numpy, numba"
"""What commands that encode cannot do without."""


def first_and_second(table: str, cache: str) -> list[tuple[list[float], dict[str, float]]]:
    """Seconds of two fits, on the clock and of the processor, and of every kernel compiled."""
    program = FIT.replace("TABLE", TABLES[table])
    for name, size in (("ROWS", N_ROWS), ("COLUMNS", N_COLUMNS), ("EXPERTS", N_EXPERTS)):
        program = program.replace(name, str(size))
    told = [_run([sys.executable, "-c", program], cache)[1] for _ in range(2)]
    return [tuple(json.loads(text.splitlines()[-1])) for text in told]


def commands(cache: str) -> dict[str, tuple[float, float]]:
    """Seconds of commands about a small table, on the clock and of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        model, data = str(Path(folder) / "zoo.dynpart"), str(Path(folder) / "zoo.csv")
        script = "import sys; from dynpart.datasets import write_zoo; write_zoo(sys.argv[1])"
        _run([sys.executable, "-c", script, data], cache)
        calls = {
            "imports of NumPy and Numba": None,
            "--help": ["--help"],
            "fit, 101 rows": ["fit", data, "-o", model, "-k", "8", "--force", "--quiet"],
            "info": ["info", model],
            "encode": ["encode", model, data],
            "explain": ["explain", model, data, "--row", "3"],
        }
        took = {}
        for name, arguments in calls.items():
            call = [sys.executable, "-c", FLOOR]
            if arguments is not None:
                call = [sys.executable, "-m", "dynpart", *arguments]
            _run(call, cache)  # compiles what is not compiled yet
            took[name] = min(_timed(call, cache) for _ in range(N_CALLS))
        return took


def _timed(call: list[str], cache: str) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    before = os.times()
    seconds, _ = _run(call, cache)
    after = os.times()
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system


def _run(call: list[str], cache: str) -> tuple[float, str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    done = subprocess.run(call, capture_output=True, text=True, env=environment, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{' '.join(call)[:200]} failed: {done.stderr[-2000:]}")
    return seconds, done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", action="store_true", help="seconds of every kernel, too")
    parser.add_argument("--only", choices=TABLES, action="append", help="kinds of tables to fit")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as shared:
        lines = []
        for table in asked.only or TABLES:
            with tempfile.TemporaryDirectory() as cache:
                (first, took), (second, _) = first_and_second(table, cache)
            lines.append([table, f"{first[0]:.1f} s", f"{first[1]:.1f} s", f"{second[0]:.2f} s"])
            if asked.kernels:
                lines += [[f"... {name}", "", f"{s:.1f} s", ""] for name, s in took.items()]
        head = [f"fit of {N_ROWS} x {N_COLUMNS}", "first", "processor", "second"]
        print(markdown_table(head, lines))
        if not asked.only:
            print()
            rows = [
                [name, f"{seconds:.2f} s", f"{used:.2f} s"]
                for name, (seconds, used) in commands(shared).items()
            ]
            print(markdown_table(["command, warm cache", "clock", "processor"], rows))


if __name__ == "__main__":
    main()
