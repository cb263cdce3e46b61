"""Hidden cells: runs of all imputers on all tables, shares and seeds; scores are kept."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from dynpart.comparison.gaps import SHARES, GapTable, hide, load_gap_table
from dynpart.comparison.imputers import Imputer
from dynpart.comparison.scores import imputation_scores

FILE = "imputation.json"


@dataclass(frozen=True)
class ImputationResult:
    """Result of one imputer on one table with one share of its cells hidden.

    Attributes
    ----------
    table, title, imputer : str
    share : float
    seed : int
    n_rows, n_features, n_experts, n_scored : int
        Size of the table and of the model, and number of hidden cells that are scored.
    seconds : float
        Time to learn and to fill.
    scores : dict
        See :func:`dynpart.comparison.scores.imputation_scores`.
    """

    table: str
    title: str
    imputer: str
    share: float
    seed: int
    n_rows: int
    n_features: int
    n_experts: int
    n_scored: int
    seconds: float
    scores: dict[str, float]

    @property
    def key(self) -> tuple[str, str, float, int]:
        """Unique key of the run."""
        return self.table, self.imputer, self.share, self.seed


def impute_one(table: GapTable, imputer: Imputer, share: float, seed: int) -> ImputationResult:
    """Hide cells of a table, impute them, and score the result.

    Parameters
    ----------
    table : GapTable
    imputer : Imputer
    share : float
    seed : int
        Seed of the hidden cells and of the imputer.

    Returns
    -------
    ImputationResult
    """
    hidden = hide(table, share, seed)
    with warnings.catch_warnings():
        # Warnings are not needed: a method that has not converged has bad scores.
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        filling = imputer.fill(hidden.given, table, seed)
        seconds = time.perf_counter() - began
        values = imputation_scores(
            table.values,
            filling.filled,
            filling.expected(),
            binary=table.binary,
            scored=hidden.scored,
            held_back=hidden.held_back,
        )
    return ImputationResult(
        table.name,
        table.title,
        imputer.name,
        share,
        seed,
        len(table.values),
        table.values.shape[1],
        table.n_experts,
        int(hidden.scored.sum()),
        seconds,
        values,
    )


def run_imputation(
    names: Iterable[str],
    imputers: Sequence[Imputer],
    seeds: Sequence[int],
    *,
    folder: Path,
    redo: Sequence[str] = (),
    report: Callable[[str], None] = print,
) -> list[ImputationResult]:
    """Fill and score everything that is not in the folder yet.

    Parameters
    ----------
    names : iterable of str
        Tables. Tables without their file are left out.
    imputers : sequence of Imputer
    seeds : sequence of int
    folder : Path
        Folder of results; created if needed.
    redo : sequence of str
        Imputers whose kept results are computed again.
    report : callable, default=print
        Called with a line about each run.

    Returns
    -------
    list of ImputationResult
        All results in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {r.key: r for r in load_imputations(folder)}
    again = {imputer.name for imputer in imputers} & set(redo)
    for name in names:
        try:
            table = load_gap_table(name)
        except OSError as error:
            report(f"Imputation: {name} left out ({str(error).splitlines()[0]})")
            continue
        kept = {k: r for k, r in kept.items() if not (r.table == name and r.imputer in again)}
        for imputer in imputers:
            wanted = [(share, seed) for share in SHARES for seed in seeds]
            wanted = [(s, seed) for s, seed in wanted if (name, imputer.name, s, seed) not in kept]
            if wanted and imputer.compiled:
                _warm_up(table, imputer)
            for share, seed in wanted:
                result = impute_one(table, imputer, share, seed)
                kept[result.key] = result
                _save(folder, list(kept.values()))
                report(_line(imputer, result))
    return list(kept.values())


def load_imputations(folder: Path) -> list[ImputationResult]:
    """Results kept in a folder; none if there is no file."""
    path = folder / FILE
    if not path.is_file():
        return []
    return [ImputationResult(**entry) for entry in json.loads(path.read_text())["results"]]


def _warm_up(table: GapTable, imputer: Imputer) -> None:
    """Compile all kernels on a few rows, so that times exclude compilation."""
    few = replace(table, values=table.values[:40], n_experts=4)
    impute_one(few, imputer, SHARES[0], 0)


def _save(folder: Path, results: Sequence[ImputationResult]) -> None:
    part = folder / f"{FILE}.part"
    part.write_text(json.dumps({"results": [asdict(r) for r in results]}, indent=1))
    os.replace(part, folder / FILE)


def _line(imputer: Imputer, result: ImputationResult) -> str:
    values = result.scores
    binary = f"{values['recovered']:.2%} recovered, " if "recovered" in values else ""
    real = f"RMSE {values['rmse']:.3f}, " if "rmse" in values else ""
    return (
        f"{result.title}, {result.share:.0%} hidden, seed {result.seed}: {imputer.title}: "
        f"{binary}{real}{values['log_likelihood']:.4f} nats per cell ({result.seconds:.1f} s)"
    )
