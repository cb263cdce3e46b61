"""Runs of density models on binary sets, with one file of results per set for reuse."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from dynpart.atomic import atomic_write
from dynpart.comparison.density_models import DensityModel
from dynpart.comparison.density_sets import BinaryRows, DensitySet, load_density_set


@dataclass(frozen=True)
class DensityResult:
    """Result of one model on one set with one seed.

    Attributes
    ----------
    data, model : str
        Names of the set and of the model.
    seed : int
        0 if results do not depend on it.
    n_features, n_train, n_valid, n_test : int
        Columns of the set, and rows of its splits.
    seconds : float
        Time to learn, to choose a size if the model does, and to score.
    scores : dict of str to float
        "nats": mean log P(x) of the test rows. A mixture has "components" and "smoothing"; ours
        has "code_nats", mean log P(x given h) + log P(h), "experts" and "active".
    """

    data: str
    model: str
    seed: int
    n_features: int
    n_train: int
    n_valid: int
    n_test: int
    seconds: float
    scores: dict[str, float]


def run_density(
    sets: Sequence[DensitySet],
    models: Sequence[DensityModel],
    seeds: Sequence[int],
    *,
    folder: Path,
    redo: Sequence[str] = (),
    report: Callable[[str], None] = print,
) -> None:
    """Learn and score everything that is not in the folder yet.

    Parameters
    ----------
    sets : sequence of DensitySet
    models : sequence of DensityModel
        One that does not depend on the seed is run once.
    seeds : sequence of int
    folder : Path
        Folder of results, with a file per set; created if needed.
    redo : sequence of str
        Models whose kept results, of these sets and seeds, are computed again.
    report : callable, default=print
        Called with a line about each run.

    Raises
    ------
    FileNotFoundError
        Before any computation, if the file of a set is missing.
    """
    wanted = [(model, seed) for model in models for seed in (seeds if model.seeded else [0])]
    again = {(model.name, seed) for model, seed in wanted if model.name in redo}
    to_do = {}
    for entry in sets:
        kept = {(r.model, r.seed) for r in load_density([entry], folder)} - again
        to_do[entry] = [(model, seed) for model, seed in wanted if (model.name, seed) not in kept]
        if to_do[entry]:
            entry.find()  # report missing files before the long runs
    folder.mkdir(parents=True, exist_ok=True)
    for entry, runs in to_do.items():
        if not runs:
            continue
        rows = load_density_set(entry)
        for model, seed in runs:
            result = score_model(entry, rows, model, seed)
            _save(entry, folder, result)
            report(
                f"{entry.title}, {model.title}, seed {seed}: {result.scores['nats']:.2f} nats, "
                f"{result.seconds:.1f} s"
            )


def load_density(sets: Sequence[DensitySet], folder: Path) -> list[DensityResult]:
    """The folder's results of these sets, in the order in which they were computed."""
    found = []
    for entry in sets:
        path = file_of(entry, folder)
        if path.is_file():
            found += [DensityResult(**each) for each in json.loads(path.read_text())["results"]]
    return found


def file_of(entry: DensitySet, folder: Path) -> Path:
    """The file of results of a set."""
    return folder / f"density-{entry.name}.json"


def score_model(
    entry: DensitySet, rows: BinaryRows, model: DensityModel, seed: int
) -> DensityResult:
    """Learn from the training rows of a set and score its test rows."""
    with warnings.catch_warnings():
        # Fits that stop early show in the scores.
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        scores = model.score(rows, seed)
        seconds = time.perf_counter() - began
    n_features = rows.train.shape[1]
    n_train, n_valid, n_test = len(rows.train), len(rows.valid), len(rows.test)
    return DensityResult(
        entry.name, model.name, seed, n_features, n_train, n_valid, n_test, seconds, scores
    )


def _save(entry: DensitySet, folder: Path, result: DensityResult) -> None:
    """Add a result to the file; it replaces an earlier result of the same run."""
    run = result.model, result.seed
    others = [r for r in load_density([entry], folder) if (r.model, r.seed) != run]
    with atomic_write(file_of(entry, folder)) as file:
        kept = [asdict(r) for r in [*others, result]]
        file.write(json.dumps({"results": kept}, indent=1).encode())
