"""Unseen rows of tables: every method learns from four folds and scores the fifth."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sklearn.model_selection import KFold

from dynpart.comparison.densities import DensityMethod, MixedTable, load_mixed_table

FILE = "tables.json"
N_FOLDS = 5
N_EXPERTS = (2, 4, 8)
SEED = 0


@dataclass(frozen=True)
class UnseenResult:
    """Result of one method on one fold of one table.

    Attributes
    ----------
    table, title, method : str
    n_experts, fold : int
    n_rows, n_real, n_categorical : int
        Size of the table.
    seconds : float
        Time to learn and to score.
    scores : dict
        Means over test rows: "nats", for our model also "code_nats" and "active". Scores that are
        not finite are left out.
    """

    table: str
    title: str
    method: str
    n_experts: int
    fold: int
    n_rows: int
    n_real: int
    n_categorical: int
    seconds: float
    scores: dict[str, float]

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Unique key of the run."""
        return self.table, self.method, self.n_experts, self.fold


def score_fold(table: MixedTable, method: DensityMethod, n_experts: int, fold: int) -> UnseenResult:
    """Learn from all folds but one and score that one.

    Parameters
    ----------
    table : MixedTable
    method : DensityMethod
    n_experts : int
        Experts, or latent classes.
    fold : int
        From 0.

    Returns
    -------
    UnseenResult
    """
    folds = KFold(N_FOLDS, shuffle=True, random_state=SEED).split(table.values)
    train, test = list(folds)[fold]
    with warnings.catch_warnings():
        # Warnings are not needed: empty classes and early stops show in the scores.
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        scores = method.score(table, table.values[train], table.values[test], n_experts, SEED)
        seconds = time.perf_counter() - began
    n_real = sum(levels is None for levels in table.levels)
    return UnseenResult(
        table.name,
        table.title,
        method.name,
        n_experts,
        fold,
        len(table.values),
        n_real,
        len(table.levels) - n_real,
        seconds,
        {name: value for name, value in scores.items() if math.isfinite(value)},
    )


def run_unseen(
    names: Iterable[str],
    methods: Sequence[DensityMethod],
    *,
    folder: Path,
    redo: Sequence[str] = (),
    report: Callable[[str], None] = print,
) -> list[UnseenResult]:
    """Score everything that is not in the folder yet.

    Parameters
    ----------
    names : iterable of str
        Tables. Tables without their file are left out.
    methods : sequence of DensityMethod
        Methods without their package are left out.
    folder : Path
        Folder of results; created if needed.
    redo : sequence of str
        Methods whose kept results are computed again.
    report : callable, default=print
        Called with a line about each run, and each table or method left out.

    Returns
    -------
    list of UnseenResult
        All results in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for method in methods:
        if not method.installed:
            report(f"{method.title} left out (pip install {method.needs})")
    present = [method for method in methods if method.installed]
    again = {method.name for method in present} & set(redo)
    kept = {r.key: r for r in load_unseen(folder)}
    for name in names:
        try:
            table = load_mixed_table(name)
        except OSError as error:
            report(f"Tables: {name} left out ({str(error).splitlines()[0]})")
            continue
        kept = {k: r for k, r in kept.items() if not (r.table == name and r.method in again)}
        for method in present:
            for n_experts in (1,) if method.alone else N_EXPERTS:
                for fold in range(N_FOLDS):
                    if (name, method.name, n_experts, fold) not in kept:
                        result = score_fold(table, method, n_experts, fold)
                        kept[result.key] = result
                        _save(folder, list(kept.values()))
                        report(_line(method, result))
    return list(kept.values())


def load_unseen(folder: Path) -> list[UnseenResult]:
    """Results kept in a folder; none if there is no file."""
    path = folder / FILE
    if not path.is_file():
        return []
    return [UnseenResult(**entry) for entry in json.loads(path.read_text())["results"]]


def _save(folder: Path, results: Sequence[UnseenResult]) -> None:
    part = folder / f"{FILE}.part"
    part.write_text(json.dumps({"results": [asdict(r) for r in results]}, indent=1))
    part.replace(folder / FILE)


def _line(method: DensityMethod, result: UnseenResult) -> str:
    nats = result.scores.get("nats")
    score = "no value" if nats is None else f"{nats:.3f} nats per row"
    return (
        f"{result.title}, {result.n_experts} experts, fold {result.fold + 1} of {N_FOLDS}: "
        f"{method.title}: {score} ({result.seconds:.1f} s)"
    )
