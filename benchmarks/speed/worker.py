"""One measurement in a process of its own: load, warm up, run, and print what it took as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from benchmarks.speed.case import Case, Sizes

N_WARM = 64
"""Rows of the call before the clock runs."""
ENOUGH_S, MOST_CALLS = 1.0, 5
"""Short calls are repeated for so long, or so often."""


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    try:
        # getrusage would start from the peak of the process that started this one.
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def clocked(call: Callable[[], Any], most_calls: int) -> tuple[Any, list[float], list[float]]:
    """Result of the last call, seconds and processor seconds of each."""
    clock, processor = [], []
    while not clock or (len(clock) < most_calls and sum(clock) < ENOUGH_S):
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        clock.append(time.perf_counter() - wall)
        processor.append(time.process_time() - cpu)
    return result, clock, processor


def run(case: Case, sizes: Sizes, place: Path, load_only: bool) -> dict:
    rows = np.load(place / f"{case.group}-{case.dtype}.npy")
    if load_only:
        return {"peak_mb": peak_mb()}
    if case.model is not None:
        model = joblib.load(place / f"{case.model}.model")
        case.call(model, rows[:N_WARM])
        _, clock, processor = clocked(lambda: case.call(model, rows), MOST_CALLS)
        peak = peak_mb()
    else:
        case.call(rows[:N_WARM], min(4, sizes.n_components))
        fitted, clock, processor = clocked(lambda: case.call(rows, sizes.n_components), 1)
        peak = peak_mb()
        joblib.dump(fitted, place / f"{case.name}.model")
    return {
        "seconds": float(np.median(clock)),
        "cpu_seconds": float(np.median(processor)),
        "peak_mb": peak,
    }


def main(text: str) -> dict:
    order = json.loads(text)
    sizes, place = Sizes(**order["sizes"]), Path(order["place"])
    if order["task"] == "data":
        from benchmarks.speed.data import store

        return {"data": store(sizes, order["folder"], place)}
    if order["task"] == "growth":
        from benchmarks.speed.growth import measure_growth

        return {"growth": measure_growth(np.load(place / "fit-uint8.npy"), order["quick"])}
    if order["task"] == "images":
        from benchmarks.speed.images import measure_images

        return {"images": measure_images(order["name"], order["folder"], order["quick"])}
    from benchmarks.speed.competitors import CASES

    return run(CASES[order["case"]], sizes, place, order["task"] == "load")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps(main(sys.argv[1])))
