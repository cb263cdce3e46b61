"""How the time of an iteration and of encoding grows with rows, experts and variables.

Experts are synthetic (rows of the data, blurred towards the mean, with random levels of expertise)
and every row gets exactly 12 of them, so that only the size changes.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

N_ACTIVE = 12
N_CALLS = 3
AXES = {"n": "rows", "K": "experts", "D": "variables"}
FULL = {
    "n": [(n, 100, 784) for n in (3_750, 7_500, 15_000, 30_000, 60_000)],
    "K": [(7_500, k, 784) for k in (25, 50, 100, 200, 400)],
    "D": [(7_500, 100, d) for d in (196, 392, 784, 1_568, 3_136)],
}
QUICK = {
    "n": [(n, 50, 196) for n in (100, 200, 400, 800)],
    "K": [(100, k, 196) for k in (16, 32, 64, 128)],
    "D": [(100, 50, d) for d in (98, 196, 392, 784)],
}
COLOURS = {"iteration_s": "#b3442f", "encode_s": "#2f6db3"}
LABELS = {"iteration_s": "iteration", "encode_s": "encoding"}


def measure_growth(images: NDArray[np.uint8], quick: bool) -> list[dict]:
    """Median seconds for every size of every axis."""
    return [
        {"axis": axis, "n": n, "K": k, "D": d, **_measure(images, n, k, d)}
        for axis, sizes in (QUICK if quick else FULL).items()
        for n, k, d in sizes
    ]


def _measure(images: NDArray[np.uint8], n_rows: int, n_experts: int, n_features: int) -> dict:
    from dynpart.engines import Experts, PursuitRule
    from dynpart.engines.cpu import CpuEngine
    from dynpart.families import column_moments, make_family
    from dynpart.rows import Rows

    columns = np.arange(n_features) * images.shape[1] // n_features
    rows = np.ascontiguousarray(images[:n_rows, columns])
    moments = column_moments(rows)
    rng = np.random.default_rng(0)
    drawn = rows[rng.choice(len(rows), n_experts, replace=len(rows) < n_experts)]
    eta = np.clip(0.8 * drawn + 0.2 * moments.mean, 0.01, 0.99)[None]
    experts = Experts(make_family("bernoulli", moments), eta, rng.normal(0, 3, eta.shape[1:]))
    engine, rule = CpuEngine(), PursuitRule(N_ACTIVE, N_ACTIVE, np.zeros(n_experts))
    rows, encode, sums = Rows(rows), [], []
    for _ in range(1 + N_CALLS):
        start = time.perf_counter()
        codes = engine.pursue(rows, experts, rule)
        middle = time.perf_counter()
        engine.gradient_sums(rows, experts, codes)
        engine.responsibility_sums(rows, experts, codes)
        encode.append(middle - start)
        sums.append(time.perf_counter() - middle)
    encoded = float(np.median(encode[1:]))
    return {"encode_s": encoded, "iteration_s": encoded + float(np.median(sums[1:]))}


def exponent(results: list[dict], axis: str, what: str) -> float:
    """Slope on logarithmic axes: 1 is linear."""
    points = [(r[axis], r[what]) for r in results if r["axis"] == axis]
    sizes, seconds = np.log(np.array(points)).T
    return float(np.polyfit(sizes, seconds, 1)[0])


def draw(results: list[dict], path: Path) -> None:
    """One panel per axis, with a dotted line for what linear growth would be."""
    figure = Figure(figsize=(9, 3.1), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for panel, (axis, name) in zip(panels, AXES.items(), strict=True):
        here = [r for r in results if r["axis"] == axis]
        sizes = np.array([r[axis] for r in here])
        for what, colour in COLOURS.items():
            seconds = np.array([r[what] for r in here])
            slope = exponent(results, axis, what)
            panel.loglog(sizes, seconds[-1] * sizes / sizes[-1], ":", color=colour, alpha=0.6)
            label = f"{LABELS[what]}, exponent {slope:.2f}"
            panel.loglog(sizes, seconds, "o-", color=colour, ms=4, lw=1.5, label=label)
        fixed = [f"{other} = {here[0][other]:,}" for other in AXES if other != axis]
        panel.set_title(", ".join(fixed), fontsize=9)
        panel.set_xlabel(f"{name} {axis}")
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        panel.minorticks_off()
        panel.grid(alpha=0.25, lw=0.6)
        panel.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("seconds")
    panels[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels[0].yaxis.set_major_formatter("{x:g}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # No date, so that the same measurements give the same file.
    figure.savefig(path, dpi=130, metadata={"Software": None})
