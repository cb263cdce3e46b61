"""Speed-up by cores: fit and encode MNIST with 1, 2, 4, ... threads.

    python -m benchmarks.speed.cores               # prints a table
    python -m benchmarks.speed.cores --write-docs  # and puts it into docs/performance.md

A fit is timed once; encoding is repeated for a second, at most three times, and its median counts.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.speed import case, data
from benchmarks.speed.measure import ROOT
from benchmarks.speed.report import write_block
from benchmarks.speed.worker import clocked
from dynpart import DynamicPartitionModel
from dynpart.comparison.report import markdown_table

BEGIN, END = "<!-- cores:begin -->", "<!-- cores:end -->"


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
        fit = median(clocked(lambda model=model: model.fit(rows), 1)[1])
        encode = median(clocked(lambda model=model: model.transform(rows), 3)[1])
        alone = alone or (fit, encode)
        lines.append(
            [f"{n_jobs}", f"{fit:.2f} s", f"{alone[0] / fit:.1f}", f"{encode:.2f} s",
             f"{alone[1] / encode:.1f}"]
        )  # fmt: skip
    return markdown_table(
        ["threads", "fit, max_iter=10", "speed-up", f"encode {len(rows):,} rows", "speed-up"], lines
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.speed.cores", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--saved", type=Path, help="measure nothing, take the table of this file")
    parser.add_argument("--write-docs", action="store_true", help="into docs/performance.md")
    option = parser.parse_args(arguments)
    text = option.saved.read_text() if option.saved else table(os.cpu_count() or 1)
    print(text)
    if option.write_docs:
        write_block(ROOT / "docs" / "performance.md", text, BEGIN, END)


if __name__ == "__main__":
    main()
