"""How good are the codes? Small one-hot tables, where every code can be tried.

    DYNPART_DATA=data python -m benchmarks.codes

For the tables in the folder `tables` of DYNPART_DATA: mean difference, in nats per row, between the
best of all codes and default codes, codes from one start, and greedy codes; rows whose default code
is worse than the greedy one; and rows that one addition, removal or exchange would improve. Codes
are chosen and scored by log P(x | h), and by the joint: log P(x | h) + log P(h) under the learnt
prior.
"""

from __future__ import annotations

import csv
import itertools
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynpart import DynamicPartitionModel
from dynpart.comparison.report import markdown_table
from dynpart.composition import owners
from dynpart.engines import MARGIN, Experts
from dynpart.engines.cpu import CpuEngine
from dynpart.engines.reference import expert_log_densities
from dynpart.prior import CodePrior
from dynpart.pursuits import pursue
from dynpart.rows import Rows

TABLES = ("titanic", "zoo", "heart_disease")
SIZES = (4, 6, 8, 10)
SEEDS = (0, 1)
FEW_LEVELS = 8
"""Columns of numbers with more different values are cut at their quartiles; texts are left out."""
NEAR = 5e-3
"""Tolerance for rounding and the margin, in nats."""


def one_hot(path: Path) -> NDArray[np.uint8]:
    """A table as indicators: one column for each answer, gaps being an answer of their own."""
    _, *rows = csv.reader(path.open())
    columns: list[NDArray[np.bool_]] = []
    for values in zip(*rows, strict=True):
        answers = np.array(values)
        if len(set(values)) > FEW_LEVELS:
            try:
                numbers = np.array([float(value or "nan") for value in values])
            except ValueError:
                continue
            answers = np.digitize(numbers, np.nanquantile(numbers, [0.25, 0.5, 0.75]))
        columns += [answers == level for level in np.unique(answers)]
    return np.stack(columns, axis=1).astype(np.uint8)


def values_of_all_codes(
    rows: Rows, experts: Experts, prior: CodePrior | None
) -> tuple[NDArray, NDArray]:
    """All codes, (n_codes, n_experts), and their objective for each row, (n_codes, n_rows)."""
    codes = np.array(list(itertools.product([False, True], repeat=experts.n_experts))[1:])
    density = expert_log_densities(rows, experts)
    owner = owners(experts.ranks, codes)
    every = np.arange(rows.shape[1])
    likelihood = np.stack([density[:, each, every].sum(axis=1) for each in owner])
    if prior is None:
        return codes, likelihood
    return codes, likelihood + prior.log_prob(codes)[:, None]


def improvable(codes: NDArray, values: NDArray, found: NDArray) -> int:
    """Rows that one addition, removal or exchange would improve by more than the margin."""
    place = {code.tobytes(): at for at, code in enumerate(codes)}
    count = 0
    for row, code in enumerate(found):
        changed = codes != code
        exchange = (changed.sum(axis=1) == 2) & (codes.sum(axis=1) == code.sum())
        near = (changed.sum(axis=1) == 1) | exchange
        count += bool(values[near, row].max() > values[place[code.tobytes()], row] + NEAR)
    return count


def line(model: DynamicPartitionModel, rows: Rows, prior: CodePrior | None) -> list[str]:
    """Figures of the codes of a fitted model."""
    n_experts, experts = model.n_experts, model._experts()
    rule = replace(model._rule(), cost=np.zeros(n_experts), prior=prior)
    codes, values = values_of_all_codes(rows, experts, prior)
    place = {code.tobytes(): at for at, code in enumerate(codes)}
    engine, every = CpuEngine(), np.arange(len(rows))
    rules = [rule, replace(rule, n_starts=1), replace(rule, n_starts=1, n_swaps=0)]
    found = [pursue(engine, rows, experts, each).active(n_experts) for each in rules]
    worth = [values[[place[code.tobytes()] for code in h], every] for h in found]
    best = values.max(axis=0)
    worse = int((worth[0] < worth[2] - MARGIN - NEAR).sum())
    gaps = [f"{np.mean(best - each):.3f}" for each in worth]
    return [*gaps, str(worse), str(improvable(codes, values, found[0]))]


def lines(name: str, table: NDArray, n_experts: int, seed: int) -> list[list[str]]:
    """A line for codes chosen by likelihood, and one for codes chosen by the joint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DynamicPartitionModel(n_experts, random_state=seed).fit(table)
    rows = Rows(np.unique(table, axis=0))
    begin = [name, *map(str, (len(rows), rows.shape[1], n_experts, seed))]
    types = str(model.prior_.n_types)
    return [
        [*begin, "likelihood", "", *line(model, rows, None)],
        [*begin, "joint", types, *line(model, rows, model.prior_)],
    ]


def main() -> None:
    folder = Path(os.environ.get("DYNPART_DATA", ".")) / "tables"
    table = []
    for name in TABLES:
        if not (folder / f"{name}.csv").exists():
            print(f"{name} left out: there is no {folder / name}.csv")
            continue
        rows = one_hot(folder / f"{name}.csv")
        table += [each for k in SIZES for seed in SEEDS for each in lines(name, rows, k, seed)]
    headings = ["table", "different rows", "columns", "experts", "seed", "chosen by", "types",
                "default", "one start", "greedy", "worse than greedy", "improvable"]  # fmt: skip
    print(markdown_table(headings, table))


if __name__ == "__main__":
    main()
