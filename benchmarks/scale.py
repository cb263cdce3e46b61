"""How time, memory and traffic grow with rows and workers, on one machine.

    python -m benchmarks.scale                    # 1e5 and 1e6 rows
    python -m benchmarks.scale --rows 1e7 --append # one more size, kept with the others
    python -m benchmarks.scale --table            # only rewrite the table in docs/scaling.md
    python -m benchmarks.scale --constants        # what a task costs, and an idle process

Every measurement runs in its own process, so that peaks of memory do not mix. Rows are generated
block by block where they are used: on the workers, or in the single process of the plain CPU
engine, which gets the same rows and as many threads as there are workers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.report import write_block

N_FEATURES = 100
N_EXPERTS = 10
N_PARTS = 5
MOST_ROWS = 250_000
N_SEARCH, N_FULL = 4, 2
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "scale.json"
PAGE = HERE.parent / "docs" / "scaling.md"
BEGIN, END = "<!-- scale:begin -->", "<!-- scale:end -->"
TASK_BEGIN, TASK_END = "<!-- tasks:begin -->", "<!-- tasks:end -->"
N_TASKS = 540
IDLE_S = 10.0


def make_block(index: int, n_rows: int) -> np.ndarray:
    """Rows of five parts with two levels each, and one value in fifty flipped."""
    rng = np.random.default_rng((7, index))
    levels = np.random.default_rng(7).integers(0, 2, (2, N_FEATURES), dtype=np.uint8)
    states = np.repeat(rng.integers(0, 2, (n_rows, N_PARTS)), N_FEATURES // N_PARTS, axis=1)
    flips = rng.integers(0, 50, (n_rows, N_FEATURES), dtype=np.uint8) == 0
    return np.where(states == 1, levels[1], levels[0]) ^ flips.astype(np.uint8)


def block_sizes(n_rows: int) -> list[int]:
    """At least four blocks, none larger than a worker handles in about a second."""
    size = min(MOST_ROWS, -(-n_rows // 4))
    return [min(size, n_rows - start) for start in range(0, n_rows, size)]


class Schedule:
    """The default plan's own steps: a few on drawn rows, a few on all of them."""

    def __init__(self) -> None:
        from dynpart.learning import Annealed

        self.plan = Annealed(min_active=5)

    def __getattr__(self, name: str):
        return getattr(self.plan, name)

    def steps(self, task, min_active):
        steps = self.plan.steps(task, min_active)
        drawn = [step for step in steps if step.n_rows is not None]
        full = [step for step in steps if step.n_rows is None]
        *again, last = full[-1:] * N_FULL
        again = [replace(step, shrink=False) for step in again]
        return [*drawn[:: max(1, len(drawn) // N_SEARCH)][:N_SEARCH], *again, last]


def learn(engine, rows, moments, probe) -> dict:
    """Times of the iterations, and what `probe` counted during those on all rows."""
    from dynpart.engines import PursuitRule
    from dynpart.families import make_family
    from dynpart.learning import Task, fit_experts

    laps, marks = [time.perf_counter()], []

    def report(record) -> None:
        laps.append(time.perf_counter())
        if record.iteration + 1 in (N_SEARCH, N_SEARCH + N_FULL):
            marks.append((time.perf_counter(), time.process_time(), probe()))

    family = make_family("bernoulli", moments)
    fit = fit_experts(
        Task(engine, rows, moments, family, N_EXPERTS, 30, 1, N_EXPERTS),
        Schedule(),
        n_init=1,
        seed=0,
        rule=PursuitRule(1, N_EXPERTS, np.zeros(N_EXPERTS)),
        report=report,
    )
    times = np.diff(laps)
    (wall0, cpu0, counts0), (wall1, cpu1, counts1) = marks
    counts = {name: (counts1[name] - counts0[name]) / N_FULL for name in counts0}
    driver_cpu = (cpu1 - cpu0) / N_FULL
    return {
        "drawn_s": float(np.mean(times[1:N_SEARCH])),
        "iteration_s": float(np.mean(times[N_SEARCH:])),
        "cpu_s": driver_cpu + counts.pop("worker_cpu_s", 0.0),
        "driver_cpu_s": driver_cpu,
        "driver_share": (cpu1 - cpu0) / (wall1 - wall0),
        "moved": counts,
        "mean_active": fit.history[-1].mean_active,
        "checksum": float(fit.experts.eta.sum()),
    }


def measure_plain(n_rows: int, n_workers: int) -> dict:
    from dynpart.engines.cpu import CpuEngine
    from dynpart.families import column_moments

    start = time.perf_counter()
    rows, filled = np.empty((n_rows, N_FEATURES), dtype=np.uint8), 0
    for index, size in enumerate(block_sizes(n_rows)):
        rows[filled : filled + size] = make_block(index, size)
        filled += size
    moments = column_moments(rows)
    loaded = time.perf_counter() - start
    result = learn(CpuEngine(n_threads=n_workers), rows, moments, dict)
    return {**result, "load_s": loaded, "driver_mb": peak_mb()}


@contextmanager
def cluster_of(n_workers: int) -> Iterator[Any]:
    """A client of workers of one thread each, the scheduler in this process."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.admin.tick.limit": "1h"})
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", memory_limit="2GB"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def task_costs(n_workers: int = 2) -> str:
    """Processor time of an empty task, and of a cluster that does nothing, in Markdown."""

    def nothing(i: int) -> int:
        return i

    with cluster_of(n_workers) as client:

        def spent() -> np.ndarray:
            workers = sum(client.run(time.process_time).values())
            return np.array([time.perf_counter(), time.process_time(), workers])

        client.gather(client.map(nothing, range(100), pure=False))
        start = spent()
        time.sleep(IDLE_S)
        idle = spent()
        client.gather(client.map(nothing, range(N_TASKS), pure=False))
        seconds, *background = idle - start
        busy, *used = spent() - idle
    driver, worker = (
        1e3 * (u - b / seconds * busy) / N_TASKS for u, b in zip(used, background, strict=True)
    )
    driver_share, workers_share = (100 * b / seconds for b in background)
    return "\n".join(
        [
            f"| {N_TASKS} empty tasks, {n_workers} workers | constant |",
            "|---|---|",
            f"| a task | {driver:.1f} ms of the driver and scheduler, {worker:.1f} ms of a "
            "worker |",
            f"| idle | {driver_share:.1f}% of a core for the driver, "
            f"{workers_share / n_workers:.1f}% for a worker |",
        ]
    )


def measure_dask(n_rows: int, n_workers: int) -> dict:
    import dask
    import dask.array as da
    import psutil

    from dynpart.engines.cpu import CpuEngine
    from dynpart.opening import open_data

    with cluster_of(n_workers) as client:
        client.run(warm_up)

        def probe() -> dict[str, float]:
            between = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
            return {
                "worker_cpu_s": sum(client.run(time.process_time).values()),
                "between_workers": sum(between.values()),
                "network": psutil.net_io_counters(pernic=True)["lo"].bytes_sent,
            }

        start = time.perf_counter()
        sizes = block_sizes(n_rows)
        blocks = [
            da.from_delayed(dask.delayed(make_block)(i, n), (n, N_FEATURES), np.uint8)
            for i, n in enumerate(sizes)
        ]
        data = open_data(da.concatenate(blocks), CpuEngine(n_threads=n_workers))
        loaded = time.perf_counter() - start
        result = learn(data.engine, data.rows, data.moments, probe)
        workers = [round(mb) for mb in client.run(peak_mb).values()]
        spilled = client.run(lambda dask_worker: dask_worker.data.spilled_total.disk)
    return {
        **result,
        "load_s": loaded,
        "driver_mb": peak_mb(),
        "worker_mb": max(workers),
        "spilled_mb": sum(spilled.values()) / 1e6,
        "n_blocks": len(sizes),
    }


def warm_up() -> None:
    """Let a process import and load its compiled kernels before the clock runs."""
    from dynpart.engines import PursuitRule
    from dynpart.engines.cpu import CpuEngine
    from dynpart.families import column_moments, make_family
    from dynpart.learning import Annealed
    from dynpart.rows import Rows

    block = make_block(0, 64)
    moments, rows = column_moments(block), Rows(block)
    family = make_family("bernoulli", moments)
    experts = Annealed().start(family, moments, N_EXPERTS, np.random.default_rng(0))
    engine = CpuEngine(n_threads=1)
    codes = engine.pursue(rows, experts, PursuitRule(1, N_EXPERTS, np.zeros(N_EXPERTS)))
    engine.gradient_sums(rows, experts, codes)
    engine.responsibility_sums(rows, experts, codes)


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


KINDS = {"plain": measure_plain, "dask": measure_dask}


def measure(kind: str, n_rows: int, n_workers: int) -> dict:
    """One measurement, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--one", kind, str(n_rows), str(n_workers)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, check=False)
    if answer.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{answer.stderr[-4000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def case_of(result: dict) -> tuple:
    return tuple(result[name] for name in ("kind", "n_rows", "n_workers"))


def ratio(dask: dict, plain: dict, name: str) -> str:
    return f"{dask[name] / plain[name]:.2f}" if plain else ""


def table(results: list[dict]) -> str:
    """The measurements in Markdown."""
    found = {case_of(result): result for result in results}
    lines = [
        "| rows | workers | iteration, plain | iteration, Dask | ratio (wall time) "
        "| ratio (CPU time) | drawn rows, Dask | per worker | driver | moved per iteration "
        "| driver's CPU time |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for n_rows, n_workers in sorted({(r["n_rows"], r["n_workers"]) for r in results}):
        plain, dask = (found.get((kind, n_rows, n_workers), {}) for kind in ("plain", "dask"))
        if not dask:
            continue
        ratios = [ratio(dask, plain, name) for name in ("iteration_s", "cpu_s")]
        plain_s = f"{plain['iteration_s']:.1f} s" if plain else "not measured"
        lines.append(
            f"| {n_rows:,} | {n_workers} | {plain_s} | {dask['iteration_s']:.1f} s "
            f"| {ratios[0]} | {ratios[1]} | {dask['drawn_s']:.2f} s "
            f"| {dask['worker_mb']:.0f} MB | {dask['driver_mb']:.0f} MB "
            f"| {dask['moved']['network'] / 1e6:.1f} MB | {dask['driver_cpu_s']:.2f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=float, default=[1e5, 1e6])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--append", action="store_true", help="keep earlier measurements")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--constants", action="store_true", help="only what tasks cost")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "ROWS", "WORKERS"))
    options = parser.parse_args()
    if options.one:
        kind, n_rows, n_workers = options.one[0], int(options.one[1]), int(options.one[2])
        warm_up()
        result = KINDS[kind](n_rows, n_workers)
        print(json.dumps({"kind": kind, "n_rows": n_rows, "n_workers": n_workers, **result}))
        return
    if options.constants:
        print(text := task_costs())
        write_block(PAGE, text, TASK_BEGIN, TASK_END)
        return
    kept = RESULTS.exists() and (options.append or options.table)
    results = json.loads(RESULTS.read_text())["results"] if kept else []
    cases = itertools.product(map(int, options.rows), options.workers, options.kinds)
    for n_rows, n_workers, kind in () if options.table else cases:
        result = measure(kind, n_rows, n_workers)
        print(json.dumps(result), flush=True)
        results = [r for r in results if case_of(r) != case_of(result)] + [result]
        RESULTS.parent.mkdir(exist_ok=True)
        about = {"cores": os.cpu_count(), "python": platform.python_version()}
        RESULTS.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")
    print(table(results))
    write_block(PAGE, table(results), BEGIN, END)


if __name__ == "__main__":
    main()
