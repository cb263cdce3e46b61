"""Processor seconds of each operation of the CPU engine, beside the least it could take.

    python -m benchmarks.speed.kernels               # prints a table
    python -m benchmarks.speed.kernels --write-docs  # and puts it into docs/performance.md

Processor time is summed over threads, the least of three calls. Rows are those of the speed
benchmark, and the paper's large images if DYNPART_DATA has them. Bounds assume vectors of 16
float32 values on one core at the given clock rate.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed import case, data
from benchmarks.speed.images import SETS, images_at_hand
from benchmarks.speed.measure import ROOT
from benchmarks.speed.report import write_block
from dynpart import DynamicPartitionModel
from dynpart.comparison.report import markdown_table
from dynpart.engines import Experts
from dynpart.engines.cpu import CpuEngine
from dynpart.pursuits import pursue
from dynpart.rows import Rows

BEGIN, END = "<!-- kernels:begin -->", "<!-- kernels:end -->"
VECTOR = 16
STEPS = 12


def processor(call: Callable[[], Any], repeats: int = 3) -> float:
    """Least processor time of a warm call."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def different(experts: Experts) -> NDArray[np.bool_]:
    """Variables on which not all experts have the same opinion: the others need no owner."""
    first = experts.eta[:, :1]
    return np.any(experts.eta != first, axis=(0, 1))


def changes(experts: Experts, order: NDArray) -> float:
    """Variables that change hands per row after the first expert was chosen, on average."""
    ranks = experts.ranks[:, different(experts)]
    best, total = ranks[order[:, 0]], 0
    for k in order[:, 1:].T:
        wins = (k >= 0)[:, None] & (ranks[k] < best)
        total += int(wins.sum())
        best = np.where(wins, ranks[k], best)
    return total / len(order)


def small_rows(hertz: float) -> list[list[str]]:
    """Binary rows of 784 variables, 100 experts, at most 12 active."""
    _, train, test = data.load(case.FULL, os.environ.get("DYNPART_DATA"))
    train, test = np.ascontiguousarray(train), np.ascontiguousarray(test)
    model = DynamicPartitionModel(100, max_iter=10, max_active=STEPS, random_state=0).fit(train)
    train, test = Rows(train), Rows(test)
    engine, experts, swaps = CpuEngine(), model._experts(), model._rule()
    rule = replace(swaps, n_swaps=0)
    codes = pursue(engine, train, experts, rule)
    soft = replace(rule, smoothed=True, min_active=STEPS)
    some = train[:3000]
    n_experts, n_features = experts.log2_expertise.shape
    n_lanes = VECTOR * -(-n_experts // VECTOR)
    n_different = int(different(experts).sum())
    changed = changes(experts, codes.members[:2000])
    active = float(codes.n_active.mean())

    def line(what: str, call: Callable[[], Any], instructions: float) -> list[str]:
        took, bound = processor(call), instructions / VECTOR / hertz
        return [what, f"{instructions / VECTOR:.1e}", f"{bound:.2f} s", f"{took:.2f} s",
                f"{took / bound:.1f}"]  # fmt: skip

    def pursuit(rows: Rows) -> float:
        return 3.0 * len(rows) * changed * n_lanes

    shares = len(train) * active * n_features
    return [
        line(f"hard pursuit, {len(train):,} rows: {changed:,.0f} changed variables per row x "
             f"{n_lanes} lanes; compare, select, add",
             lambda: pursue(engine, train, experts, rule), pursuit(train)),
        line(f"hard pursuit, {len(test):,} rows",
             lambda: pursue(engine, test, experts, rule), pursuit(test)),
        line(f"the same with swaps: at least {n_different:,} more changes per row",
             lambda: pursue(engine, test, experts, swaps),
             pursuit(test) + 3.0 * len(test) * n_different * n_lanes),
        line(f"smoothed pursuit, {len(some):,} rows, {STEPS} steps: all variables and lanes; four "
             "operations, two at a time",
             lambda: pursue(engine, some, experts, soft),
             2.0 * len(some) * STEPS * n_features * n_lanes),
        line(f"gradient sums, {len(train):,} rows: {active:.1f} active experts x {n_features} "
             "variables per row; four loads and two stores, two at a time, twice",
             lambda: engine.gradient_sums(train, experts, codes), 6.0 * shares),
        line(f"responsibility sums, {len(train):,} rows: the same with one value fewer",
             lambda: engine.responsibility_sums(train, experts, codes), 4.0 * shares),
    ]  # fmt: skip


def wide_line(images: Any, options: dict[str, int]) -> list[str]:
    """Every operation on one of the paper's sets of large images."""
    rows = np.ascontiguousarray(images.train)
    model = DynamicPartitionModel(random_state=0, max_iter=3, **options).fit(rows)
    rows = Rows.of(rows, model.family_)
    engine, experts = CpuEngine(), model._experts()
    rule = replace(model._rule(), n_swaps=0)
    codes, soft = pursue(engine, rows, experts, rule), replace(rule, smoothed=True)
    calls = [
        lambda: pursue(engine, rows, experts, rule),
        lambda: pursue(engine, rows, experts, soft),
        lambda: engine.gradient_sums(rows, experts, codes),
        lambda: engine.responsibility_sums(rows, experts, codes),
    ]
    title = f"{images.name}, {len(rows)} x {rows.shape[1]:,}, {model.n_experts} experts"
    return [title, *(f"{processor(call, 2):.2f} s" for call in calls)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.speed.kernels", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--gigahertz", type=float, default=2.8)
    parser.add_argument("--write-docs", action="store_true", help="into docs/performance.md")
    option = parser.parse_args(arguments)
    parts = [
        markdown_table(
            ["operation", "vector instructions", "lower bound", "measured", "ratio to the bound"],
            small_rows(1e9 * option.gigahertz),
        )
    ]
    sets = [(images_at_hand(name, None), options) for name, (_, options) in SETS.items()]
    wide = [wide_line(images, options) for images, options in sets if images is not None]
    if wide:
        headings = ["wide rows", "hard pursuit", "smoothed pursuit", "gradient sums"]
        parts.append(markdown_table([*headings, "responsibility sums"], wide))
    text = "\n\n".join(parts)
    print(text)
    if option.write_docs:
        write_block(ROOT / "docs" / "performance.md", text, BEGIN, END)


if __name__ == "__main__":
    main()
