"""Check and time the torch engine on a GPU, beside lower bounds of its time and its peers.

    python -m benchmarks.gpu                # everything, a few minutes
    python -m benchmarks.gpu --skip-large   # without the million rows
    python -m benchmarks.gpu --saved benchmarks/results/gpu.json --write-docs

MNIST and the motorcycles are read from the folder named by DYNPART_DATA; without it drawings of the
same shape stand in for the former and the latter are left out. Operations are timed by CUDA events,
fits by the clock around a synchronised call; all are medians of warm calls.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.speed import case, data
from benchmarks.speed.kernels import changes, different
from benchmarks.speed.report import write_block
from dynpart import DynamicPartitionModel
from dynpart.arrays import to_numpy
from dynpart.comparison.report import markdown_table
from dynpart.engines import Codes, Experts, PursuitRule
from dynpart.engines.cpu import CpuEngine
from dynpart.engines.torch import TorchEngine
from dynpart.pursuits import pursue
from dynpart.rows import Rows

ROOT = Path(__file__).resolve().parents[1]
N_EXPERTS = 100
N_LANES = 128
"""Experts with those that fill up the last warp."""
LANES_PER_CORE = 128
BEGIN, END = "<!-- gpu:begin -->", "<!-- gpu:end -->"
INSTRUCTIONS = 6
"""Compare, select, compare, select, subtract, add: what a term takes at least."""


TERM_BYTES = 5
"""A log-density and a rank."""


def seconds(call: Callable[[], Any], repeats: int = 9) -> float:
    """Median time of a call by CUDA events."""
    call()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return median(times)


def clock(call: Callable[[], Any], repeats: int = 5, warm: int = 1) -> float:
    """Median time of a call on the clock, the GPU idle before and after."""
    times = []
    for _ in range(warm + repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return median(times[warm:])


def lane_rate() -> float:
    """Instructions a second of all lanes at the card's highest clock."""
    card = torch.cuda.get_device_properties(0)
    hertz = 1e3 * getattr(card, "clock_rate", 1.98e6)
    return card.multi_processor_count * LANES_PER_CORE * hertz


def bandwidth() -> float:
    """Bytes a second that a plain copy moves, read and written."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * len(source) / seconds(lambda: target.copy_(source))


def boltzmann_machine(rows: Tensor, *, n_units: int = 100, epochs: int = 10) -> Tensor:
    """Persistent contrastive divergence in batches of 100, as scikit-learn's machine has it."""
    generator = torch.Generator(rows.device).manual_seed(0)
    n_rows, n_features = rows.shape
    weight = 0.01 * torch.randn((n_units, n_features), device=rows.device, generator=generator)
    hidden_bias, visible_bias = weight.new_zeros(n_units), weight.new_zeros(n_features)
    chain = weight.new_zeros((100, n_units))

    def sample(p: Tensor) -> Tensor:
        return torch.bernoulli(p, generator=generator)

    for _ in range(epochs):
        for lo in range(0, n_rows - 99, 100):
            visible = rows[lo : lo + 100].float()
            fantasy = sample(torch.sigmoid(chain @ weight + visible_bias))
            up = torch.sigmoid(visible @ weight.T + hidden_bias)
            down = torch.sigmoid(fantasy @ weight.T + hidden_bias)
            weight += 1e-3 * (up.T @ visible - down.T @ fantasy)
            hidden_bias += 0.1 / 100 * (up.sum(0) - down.sum(0))
            visible_bias += 0.1 / 100 * (visible.sum(0) - fantasy.sum(0))
            chain = sample(down)
    return weight


def check(table: Tensor, experts: Experts, rule: PursuitRule) -> dict[str, float]:
    """How often codes differ from the CPU engine's, and sums from the plain ones in float64."""
    engine, plain, rows = TorchEngine("cuda"), TorchEngine("cuda", kernels=False), Rows(table)
    codes = pursue(engine, rows, experts, rule)
    exact: Codes = pursue(CpuEngine(), rows.to_numpy(), experts.like(np.empty(0)), rule)
    found = to_numpy(codes.active(experts.n_experts))
    differ = (found != exact.active(experts.n_experts)).any(axis=1)
    off = 0.0
    for operation in ("gradient_sums", "responsibility_sums"):
        ours = getattr(engine, operation)(rows, experts, codes)
        theirs = getattr(plain, operation)(rows, experts, codes)
        for found_sums, expected in zip(ours.array, theirs.array, strict=True):
            gap = (found_sums - expected).abs().max() / expected.abs().max()
            off = max(off, float(gap))
    return {"rows": len(rows), "codes that differ": int(differ.sum()), "sums off by": off}


def operations(train: Tensor, test: Tensor, model: DynamicPartitionModel) -> list[dict]:
    """Each operation with its lower bounds."""
    fit_rows, coded = Rows(train), Rows(test)
    engine, experts = TorchEngine("cuda"), model._experts()
    swaps = model._rule()
    rule = replace(swaps, n_swaps=0)
    codes = pursue(engine, fit_rows, experts, rule)
    soft = replace(rule, smoothed=True, min_active=12)
    some = fit_rows[:2000]
    rate, bytes_a_second = lane_rate(), bandwidth()
    n_rows, n_features = fit_rows.shape
    per_row = changes(experts.like(np.empty(0)), to_numpy(codes.members[:2000]))
    n_different = int(different(experts.like(np.empty(0))).sum())
    mean_active = float(codes.n_active.double().mean())

    def row(what: str, call: Callable[[], Any], terms: float, n_bytes: float) -> dict:
        return {
            "what": what, "seconds": seconds(call), "terms": terms, "bytes": n_bytes,
            "terms bound": terms * INSTRUCTIONS / rate, "bytes bound": n_bytes / bytes_a_second,
        }  # fmt: skip

    terms = per_row * N_EXPERTS
    shares = mean_active * n_features
    n_coded = len(coded)
    return [
        row(f"hard pursuit, {n_rows:,} rows", lambda: pursue(engine, fit_rows, experts, rule),
            n_rows * terms, n_rows * n_features),
        row(f"hard pursuit, {n_coded:,} rows", lambda: pursue(engine, coded, experts, rule),
            n_coded * terms, n_coded * n_features),
        row(f"the same with swaps, at least one round, {n_coded:,} rows",
            lambda: pursue(engine, coded, experts, swaps),
            n_coded * (terms + n_different * N_EXPERTS), n_coded * n_features),
        row("smoothed pursuit, 2,000 rows, 12 steps", lambda: pursue(engine, some, experts, soft),
            2000 * 12 * n_features * N_EXPERTS, 2000 * n_features),
        row(f"gradient sums, {n_rows:,} rows",
            lambda: engine.gradient_sums(fit_rows, experts, codes),
            2 * n_rows * shares, 12 * n_rows * (n_features + shares)),
        row(f"responsibility sums, {n_rows:,} rows",
            lambda: engine.responsibility_sums(fit_rows, experts, codes),
            2 * n_rows * shares, n_rows * (4 * n_features + 5 * shares)),
    ]  # fmt: skip


def fit(rows: Any, n_experts: int = N_EXPERTS, **settings: Any) -> DynamicPartitionModel:
    return DynamicPartitionModel(n_experts, random_state=0, **settings).fit(rows)


def large_rows(rows: Tensor) -> Tensor:
    """A million images: those there are, moved by up to two pixels either way."""
    generator = torch.Generator(rows.device).manual_seed(0)
    images = rows.view(-1, data.SIDE, data.SIDE)
    moved = []
    for down in range(-2, 3):
        for right in range(-2, 3):
            drawn = torch.randint(len(images), (40_000,), device=rows.device, generator=generator)
            moved.append(images[drawn].roll((down, right), dims=(1, 2)).flatten(1))
    return torch.cat(moved)


def fits(rows: Tensor, coded: Tensor, *, large: bool, folder: str | None) -> list[dict]:
    """Whole fits and encodings, ours and the peers'."""
    found = []

    def add(what: str, call: Callable[[], Any], repeats: int = 5, wanted: str = "") -> None:
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        took = clock(call, repeats)
        memory = (torch.cuda.max_memory_allocated() - held) / 1e6
        found.append({"what": what, "seconds": took, "wanted": wanted, "megabytes": memory})
        print(f"{what}: {took:.4f} s", flush=True)

    host = to_numpy(rows)
    add("fit, max_iter=10", lambda: fit(rows, max_iter=10), 5, "0.06 s")
    add("fit, max_iter=10, at most 12 active", lambda: fit(rows, max_iter=10, max_active=12), 5)
    add("fit, 30 iterations", lambda: fit(rows), 3, "0.2 s")
    add("fit, max_iter=10, from NumPy", lambda: fit(host, max_iter=10, device="cuda"), repeats=3)
    model = fit(rows, max_active=12)
    add(f"encode {len(coded):,} rows", lambda: model.transform(coded), 9, wanted="0.004 s")
    add(f"score {len(coded):,} rows", lambda: model.score_samples(coded), 9)
    codes = model.transform(coded)
    add(f"partition of {len(coded):,} codes", lambda: model.partition(codes), 9)
    add(f"reconstruct {len(coded):,} rows", lambda: model.inverse_transform(codes), 9)
    greedy = fit(rows, max_active=12, n_swaps=0)
    add(f"encode {len(coded):,} rows, n_swaps=0", lambda: greedy.transform(coded), 9)
    some = Rows(rows[:2000])
    plain = TorchEngine("cuda", kernels=False)
    add("plain torch: pursuit of 2,000 rows",
        lambda: pursue(plain, some, model._experts(), model._rule()), 3)  # fmt: skip
    add("kernels: pursuit of 2,000 rows",
        lambda: pursue(TorchEngine("cuda"), some, model._experts(), model._rule()))  # fmt: skip
    add("torch Boltzmann machine, 10 epochs", lambda: boltzmann_machine(rows), 1)
    cpu = f"CPU engine, {os.cpu_count()} cores: fit, max_iter=10"
    add(cpu, lambda: fit(host, max_iter=10), 1)
    if folder:
        from dynpart.datasets import load_caltech_motorcycles

        gray = torch.as_tensor(load_caltech_motorcycles(folder=folder).train, device="cuda")
        shape = f"{gray.shape[0]} x {gray.shape[1]:,}"
        add(f"motorcycles {shape}, K = 50, 10 iterations, at most 7 active",
            lambda: fit(gray, 50, max_iter=10, max_active=7), 9, "0.2 s")  # fmt: skip
        add(f"motorcycles {shape}, K = 50, 10 iterations",
            lambda: fit(gray, 50, max_iter=10), 9, "0.15 s")  # fmt: skip
    if large:
        many = large_rows(rows)
        add(f"{len(many):,} x {many.shape[1]}, K = 500, 30 iterations",
            lambda: fit(many, 500), 1, "8 s")  # fmt: skip
    return found


def measured(option: argparse.Namespace) -> dict[str, Any]:
    folder = os.environ.get("DYNPART_DATA")
    title, train, test = data.load(case.FULL, folder)
    rows, coded = (torch.as_tensor(np.ascontiguousarray(x), device="cuda") for x in (train, test))
    model = fit(rows, max_active=12)
    checked = check(coded, model._experts(), model._rule())
    print(checked, flush=True)
    card = torch.cuda.get_device_properties(0)
    return {
        "card": card.name,
        "cores": card.multi_processor_count,
        "software": f"Python {platform.python_version()}, torch {torch.__version__}",
        "data": f"{title}, {len(rows):,} x {rows.shape[1]}, K = {N_EXPERTS}",
        "check": checked,
        "operations": operations(rows, coded, model),
        "fits": fits(rows, coded, large=not option.skip_large, folder=folder),
    }


def shown(value: float) -> str:
    return f"{value:.3g} s" if value >= 0.1 else f"{1e3 * value:.3g} ms"


def markdown(saved: dict[str, Any]) -> str:
    """All tables, with the card's name."""
    checked = saved["check"]
    ops = [
        [
            op["what"], shown(op["seconds"]), shown(op["terms bound"]), shown(op["bytes bound"]),
            f"{op['seconds'] / max(op['terms bound'], op['bytes bound']):.1f}",
        ]
        for op in saved["operations"]
    ]  # fmt: skip
    pursuit = saved["operations"][0]
    read = pursuit["terms"] / N_EXPERTS * N_LANES * TERM_BYTES
    fits = [
        [row["what"], shown(row["seconds"]), row["wanted"], f"{row['megabytes']:,.0f} MB"]
        for row in saved["fits"]
    ]
    return "\n\n".join(
        [
            f"{saved['card']} ({saved['cores']} multiprocessors), {saved['software']}; "
            f"{saved['data']}.",
            markdown_table(["what", "time", "target", "GPU memory beyond the rows"], fits),
            markdown_table(
                ["operation", "time", "bound: terms", "bound: bytes", "ratio to the bound"], ops
            ),
            f"{pursuit['what'].capitalize()}: {1e-9 * read:.0f} GB of tables are read, "
            f"{1e-12 * read / pursuit['seconds']:.1f} TB/s from the caches.",
            f"Codes of {checked['rows']:,} rows: {checked['codes that differ']} differ from the "
            f"CPU engine's. Sums are within {checked['sums off by']:.1e} of plain torch in "
            "float64, relative to the largest.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--skip-large", action="store_true", help="leave out the million rows")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.json")
    parser.add_argument("--saved", type=Path, help="measure nothing, show what this file kept")
    parser.add_argument("--write-docs", action="store_true", help="into docs/performance.md")
    option = parser.parse_args(arguments)
    if option.saved:
        saved = json.loads(option.saved.read_text())
    elif not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use")
    else:
        saved = measured(option)
        option.out.parent.mkdir(parents=True, exist_ok=True)
        option.out.write_text(json.dumps(saved, indent=1) + "\n")
    print(markdown(saved))
    if option.write_docs:
        write_block(ROOT / "docs" / "performance.md", markdown(saved), BEGIN, END)


if __name__ == "__main__":
    main()
