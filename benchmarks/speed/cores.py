"""What more cores buy: fit and encode MNIST with 1, 2, 4, ... threads.

    python -m benchmarks.speed.cores               # prints a table
    python -m benchmarks.speed.cores --out FILE    # and keeps it

Every figure is the median of three calls, a fit's of one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.speed import case, data
from benchmarks.speed.measure import ROOT
from benchmarks.speed.report import write_block
from dynpart import DynamicPartitionModel
from dynpart.comparison.report import markdown_table

BEGIN, END = "<!-- cores:begin -->", "<!-- cores:end -->"


def clock(call: Callable[[], Any], repeats: int) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return median(times)


def table(n_cores: int) -> str:
    """Times and speed-ups, threads doubling up to the number of cores."""
    _, rows, _ = data.load(case.FULL, os.environ.get("DYNPART_DATA"))
    rows = np.ascontiguousarray(rows)
    DynamicPartitionModel(4, max_iter=4, random_state=0).fit(rows[:500]).transform(rows[:500])
    lines: list[list[str]] = []
    alone: tuple[float, float] | None = None
    threads = [2**n for n in range(n_cores.bit_length()) if 2**n <= n_cores]
    for n_jobs in threads:
        model = DynamicPartitionModel(100, max_iter=10, random_state=0, n_jobs=n_jobs, engine="cpu")
        fit = clock(lambda model=model: model.fit(rows), 1)
        encode = clock(lambda model=model: model.transform(rows), 3)
        alone = alone or (fit, encode)
        lines.append(
            [f"{n_jobs}", f"{fit:.2f} s", f"{alone[0] / fit:.1f}", f"{encode:.2f} s",
             f"{alone[1] / encode:.1f}"]
        )  # fmt: skip
        print(*lines[-1], flush=True)
    return markdown_table(
        ["threads", "fit, max_iter=10", "speed-up", f"encode {len(rows):,} rows", "speed-up"], lines
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.speed.cores", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, help="a file for the table")
    parser.add_argument("--saved", type=Path, help="measure nothing, show what this file kept")
    parser.add_argument("--write-docs", action="store_true", help="into docs/performance.md")
    option = parser.parse_args(arguments)
    text = option.saved.read_text() if option.saved else table(os.cpu_count() or 1)
    print(text)
    if option.out:
        option.out.write_text(text)
    if option.write_docs:
        write_block(ROOT / "docs" / "performance.md", text, BEGIN, END)


if __name__ == "__main__":
    main()
