"""What kinds of columns and missing cells cost: processor time beside complete binary columns.

    python -m benchmarks.speed.kinds               # prints a table
    python -m benchmarks.speed.kinds --write-docs  # and puts it into docs/performance.md

Rows are planted: twelve parts of ten variables, each part in one of four patterns, a tenth of the
cells noise. Every row has exactly twelve active experts of 48, so that kinds differ in nothing
else; there are too many rows for drawn codes, about which held-back rows would decide. The prior
over codes may learn more types of rows for one kind than for another, and encoding pays for types,
so rows are encoded without a prior as well. One thread; a fit is timed once, encoding three times.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.speed.measure import ROOT
from benchmarks.speed.report import write_block
from dynpart import DynamicPartitionModel
from dynpart.comparison.report import markdown_table

BEGIN, END = "<!-- kinds:begin -->", "<!-- kinds:end -->"
N_PARTS, SIZE, N_PATTERNS = 12, 10, 4
NOISE = 0.1


def planted(n_rows: int, n_levels: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of levels, shape (n_rows, 120)."""
    patterns = rng.integers(0, n_levels, (N_PARTS, N_PATTERNS, SIZE))
    chosen = rng.integers(0, N_PATTERNS, (n_rows, N_PARTS))
    rows = patterns[np.arange(N_PARTS), chosen].reshape(n_rows, -1)
    return np.where(rng.random(rows.shape) < NOISE, rng.integers(0, n_levels, rows.shape), rows)


def _with_gaps(rows: NDArray, share: float, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.where(rng.random(rows.shape) < share, np.nan, rows)


def _categories(rows: NDArray) -> pd.DataFrame:
    names = [f"column {d}" for d in range(rows.shape[1])]
    return pd.DataFrame(rows, columns=names).astype("category")


KINDS: dict[str, Callable[[int, np.random.Generator], tuple[Any, Any]]] = {
    "binary": lambda n, rng: (planted(n, 2, rng).astype(np.uint8), None),
    "binary, 10% missing": lambda n, rng: (_with_gaps(planted(n, 2, rng), 0.1, rng), None),
    "binary, 30% missing": lambda n, rng: (_with_gaps(planted(n, 2, rng), 0.3, rng), None),
    "two levels": lambda n, rng: (_categories(planted(n, 2, rng)), None),
    "five levels": lambda n, rng: (_categories(planted(n, 5, rng)), None),
    "ten levels": lambda n, rng: (_categories(planted(n, 10, rng)), None),
    "counts": lambda n, rng: (rng.poisson(1 + 3 * planted(n, 3, rng)), "count"),
    "real": lambda n, rng: (planted(n, 3, rng) + rng.normal(0, 0.3, (n, N_PARTS * SIZE)), None),
}


def measure(name: str, n_rows: int) -> tuple[list[float], int]:
    """Processor seconds, and the number of types of rows.

    Of a fit with six iterations, and of encoding the same rows without a prior and by default.
    """
    rows, columns = KINDS[name](n_rows, np.random.default_rng(0))
    model = DynamicPartitionModel(
        4 * N_PARTS, n_active=N_PARTS, max_iter=6, columns=columns, random_state=0, n_jobs=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short fits warn that they are short
        model.fit(rows[:300]).transform(rows[:300])  # compiles what it needs
        fit = _processor(lambda: model.fit(rows))
        n_types, default = model.prior_.n_types, _encoding(model, rows)
        return [fit, _encoding(model.set_params(prior=None), rows), default], n_types


def _encoding(model: DynamicPartitionModel, rows: Any) -> float:
    return median(_processor(lambda: model.transform(rows)) for _ in range(3))


def _processor(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def table(n_rows: int) -> str:
    """Times of all kinds, and their ratios to complete binary columns."""
    lines, base = [], None
    for name in KINDS:
        found, n_types = measure(name, n_rows)
        base = base or found
        cells = [f"{s:.2f} s | {s / b:.2f}" for s, b in zip(found, base, strict=True)]
        parts = [part for cell in cells for part in cell.split(" | ")]
        lines.append([name, *parts, str(n_types)])
    without = f"encode {n_rows:,} rows without a prior"
    headings = ["cells", "fit", "ratio", without, "ratio", "by default", "ratio", "types of rows"]
    return markdown_table(headings, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.speed.kinds", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rows", type=int, default=36_000)
    parser.add_argument("--write-docs", action="store_true", help="into docs/performance.md")
    option = parser.parse_args(arguments)
    text = table(option.rows)
    print(text)
    if option.write_docs:
        write_block(ROOT / "docs" / "performance.md", text, BEGIN, END)


if __name__ == "__main__":
    main()
