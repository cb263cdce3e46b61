"""Starts one worker after another, all with the same threads, and gathers what they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.speed.case import Case, Sizes

ROOT = Path(__file__).parents[2]
THREAD_VARIABLES = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


def work(threads: int, **order: Any) -> dict:
    """Have a fresh process do one thing."""
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
    # What is measured is the package beside the benchmark, installed or not.
    places = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    command = [sys.executable, "-m", "benchmarks.speed.worker", json.dumps(order)]
    answer = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    if answer.returncode:
        what = order.get("case", order["task"])
        raise SystemExit(f"benchmark {what} failed:\n{answer.stderr[-4000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def measure(
    cases: Sequence[Case],
    sizes: Sizes,
    place: Path,
    threads: int,
    repeats: int,
    tell: Callable[[str], None] = print,
) -> list[dict]:
    """All cases in turn, `repeats` rounds; models of fits stay in `place` for the encoders."""
    results: dict[str, dict] = {}
    loaded: dict[tuple[str, str], float] = {}
    for round_ in range(repeats):
        for case in cases:
            n_threads = case.threads or threads
            order = {"case": case.name, "sizes": asdict(sizes), "place": str(place)}
            if (case.group, case.dtype) not in loaded:
                answer = work(n_threads, task="load", **order)
                loaded[case.group, case.dtype] = answer["peak_mb"]
            answer = work(n_threads, task="run", **order)
            beyond = answer["peak_mb"] - loaded[case.group, case.dtype]
            result = results.setdefault(
                case.name,
                {
                    "name": case.name,
                    "title": case.title,
                    "group": case.group,
                    "n_rows": case.n_rows(sizes),
                    "threads": n_threads,
                    "twin": case.twin,
                    "seconds": [],
                    "cpu_seconds": [],
                    "beyond_input_mb": None,
                },
            )
            result["seconds"].append(answer["seconds"])
            result["cpu_seconds"].append(answer["cpu_seconds"])
            if case.one_process:
                result["beyond_input_mb"] = max(beyond, result["beyond_input_mb"] or 0.0)
            tell(
                f"{round_ + 1}/{repeats} {case.name}: {answer['seconds']:.3f} s, "
                f"{beyond:.0f} MB beyond its input"
            )
    return list(results.values())
