"""Does ``n_experts="auto"`` find the number of experts that made the data, and in what time?

    python -m benchmarks.sizes
    python -m benchmarks.sizes --data pairs bars --seeds 20
    python -m benchmarks.sizes --data zoo titanic --seeds 1
    python -m benchmarks.sizes --figure docs/images/selection.png

Data with a known number of experts: five pairs (ten levels), bars of 5 x 5 pixels (ten bars and a
background), and planted tables of random parts over a background. For each seed it prints the
chosen number, and at the end how many are within one of the truth. The time is that of a fit with
"auto", relative to a fit with the chosen number, run back to back.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_zoo, make_bars, make_pairs

N_ROWS = 1000


def planted(
    n_parts: int = 6,
    n_rows: int = N_ROWS,
    *,
    n_columns: int = 20,
    n_levels: int = 2,
    support: int = 6,
    chance: float = 0.3,
    noise: float = 0.05,
    seed: int = 0,
) -> NDArray[Any]:
    """A table of parts over a background; the truth has one expert for each, and one for the rest.

    Every column has a usual level. A part has other levels in some columns, and occurs at random.
    Parts overlap; a later one covers an earlier one. Some values are noise.
    """
    rng = np.random.default_rng(seed)
    usual = rng.integers(n_levels, size=n_columns)
    rows = np.tile(usual, (n_rows, 1))
    for _ in range(n_parts):
        columns = rng.choice(n_columns, support, replace=False)
        other = (usual[columns] + rng.integers(1, n_levels, size=support)) % n_levels
        there = np.flatnonzero(rng.random(n_rows) < chance)
        rows[np.ix_(there, columns)] = other
    wrong = rng.random(rows.shape) < noise
    rows[wrong] = rng.integers(n_levels, size=int(wrong.sum()))
    return rows.astype(np.uint8) if n_levels == 2 else np.array(list("abcdefgh"))[rows]


def titanic(seed: int) -> Any:
    """Class, sex, age group and survival of passengers, from the folder named by DYNPART_DATA."""
    import os

    import pandas as pd

    return pd.read_csv(f"{os.environ['DYNPART_DATA']}/tables/titanic.csv")


def zoo(seed: int) -> Any:
    """The animals that come with the package."""
    import pandas as pd

    animals = load_zoo()
    return pd.DataFrame(animals.data, columns=list(animals.feature_names))


DATA: dict[str, tuple[Callable[[int], Any], int | None]] = {
    "pairs": (lambda seed: make_pairs(5, N_ROWS, random_state=seed), 10),
    "pairs-32": (lambda seed: make_pairs(5), 10),
    "bars": (lambda seed: make_bars(5, N_ROWS, random_state=seed), 11),
    "planted-binary": (lambda seed: planted(seed=seed), 7),
    "planted-levels": (lambda seed: planted(n_levels=3, seed=seed), 7),
    "zoo": (zoo, None),
    "titanic": (titanic, None),
}
"""Tables by seed, and the number of experts that made them."""


def measured(X: Any, seed: int, columns: Any = None) -> tuple[DynamicPartitionModel, float]:
    """A model with the size that it chose, and its time beside that of a fit of that size."""
    seconds = []
    n_experts: Any = "auto"
    for _ in range(2):
        begun = time.perf_counter()
        model = DynamicPartitionModel(n_experts, columns=columns, random_state=seed).fit(X)
        seconds.append(time.perf_counter() - begun)
        if n_experts == "auto":
            chosen, n_experts = model, model.n_experts_
    return chosen, seconds[0] / seconds[1]


def main() -> None:
    """Print a line for each table and seed, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = [name for name, (_, truth) in DATA.items() if truth is not None]
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=known)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--figure", help="only draw the curve of bars into this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.figure:
        from dynpart.plotting import plot_selection

        bars = DynamicPartitionModel("auto", random_state=0).fit(DATA["bars"][0](0))
        plot_selection(bars).savefig(options.figure, dpi=120)
        return
    counts = []
    for name in options.data:
        make, truth = DATA[name]
        DynamicPartitionModel(4, max_iter=4).fit(make(0))  # kernels are compiled
        columns = load_zoo().kinds if name == "zoo" else None
        found, ratios = [], []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            model, ratio = measured(make(seed), seed, columns)
            found.append(model.n_experts_)
            ratios.append(ratio)
            print(f"{name}, seed {seed}: {model.selection_}; {ratio:.1f} x the time", flush=True)
        near = "" if truth is None else sum(abs(n - truth) <= 1 for n in found)
        told = ", ".join(f"{n} ({found.count(n)})" for n in sorted(set(found)))
        counts.append((name, truth or "", near, len(found), told, float(np.median(ratios))))
    print("\n| table | truth | within one | seeds | chosen (times) | time of one fit, median |")
    print("|---|---:|---:|---:|---|---:|")
    for name, truth, near, n_seeds, told, ratio in counts:
        print(f"| {name} | {truth} | {near} | {n_seeds} | {told} | {ratio:.1f} x |")


if __name__ == "__main__":
    main()
