"""Fits and their measurements, kept in a folder for reuse."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from dynpart import __version__
from dynpart.atomic import atomic_write
from dynpart.datasets import pairs_recovered
from dynpart.estimator import DynamicPartitionModel
from dynpart.persistence import load, save
from dynpart.reproduce._design import Data, Experiment, Result, Run, Variant
from dynpart.reproduce._measures import measure, principal_components, timed
from dynpart.reproduce._snapshots import fitted_aside, snapshots

WARM_UP_ROWS = 20


def run(
    experiment: Experiment,
    variant: Variant,
    data: Data,
    folder: Path,
    *,
    seed: int,
    engine: str,
    fresh: bool = False,
    report: Callable[[str], None] = lambda text: None,
) -> Run:
    """Fit and measure one variant, or read it from `folder` if it was fitted before.

    The record is written last, so an interrupted run is never taken for a finished one. The next
    call continues from its checkpoint.

    Parameters
    ----------
    experiment : Experiment
    variant : Variant
    data : Data
    folder : Path
        Folder of this experiment's runs.
    seed : int
    engine : str
    fresh : bool, default=False
        Learn again even if there is a kept run.
    report : callable
        Called with a line of text before each long step.

    Returns
    -------
    Run
    """
    settings = _settings(experiment, variant, data, seed, engine)
    kept = None if fresh else read_record(folder, variant, settings)
    if kept is not None:
        report(f"{variant.title}: kept from before")
        return Run(
            variant, load(_model_path(folder, variant)), kept, _read_snapshots(folder, variant)
        )

    report(f"{variant.title}: learning from {len(data.train):,} rows")
    model = _model(variant, data, seed, engine)
    # Compile kernels before the time is measured.
    fitted_aside(clone(model).set_params(max_iter=2), data.train[:WARM_UP_ROWS])
    folder.mkdir(parents=True, exist_ok=True)
    journal = folder / f"{variant.key}.checkpoint"
    if fresh:
        journal.unlink(missing_ok=True)
    resumed = journal.exists()
    clock = timed(lambda: model.set_params(verbose=1).fit(data.train, checkpoint=journal))
    journal.unlink(missing_ok=True)
    model.set_params(verbose=0)
    result = measure(model, data.test, clock, data.image_shape)
    result = dataclasses.replace(result, resumed=resumed)
    n_numbers = {"offset": 1, "gain": 2}.get(model.amplitude or "", 0)  # of an active expert
    if n_numbers:
        wanted = round(n_numbers * result.mean_active)
        error, n_linear = principal_components(data.train, data.test, wanted)
        result = dataclasses.replace(result, linear_error=error, n_linear=n_linear)
    if experiment.n_seeds:
        report(f"{variant.title}: {experiment.n_seeds} more seeds")
        result = _with_recovery(result, model, data, seed, experiment.n_seeds)
    taken = snapshots(model, data.train, experiment.snapshots)
    _keep(folder, variant, settings, Run(variant, model, result, taken))
    return Run(variant, model, result, taken)


def read_record(
    folder: Path, variant: Variant, settings: dict[str, Any] | None = None
) -> Result | None:
    """Measurements of a kept run, or None if there is none with these settings."""
    try:
        record = json.loads(_record_path(folder, variant).read_text())
        result = Result(**record["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if settings is None or record.get("settings") == settings else None


def _model(variant: Variant, data: Data, seed: int, engine: str) -> DynamicPartitionModel:
    parameters = dict(variant.parameters)
    if variant.on_grid:
        from sklearn.feature_extraction.image import grid_to_graph

        assert data.image_shape is not None
        parameters["connectivity"] = grid_to_graph(*data.image_shape)
    return DynamicPartitionModel(**parameters, engine=engine, random_state=seed)


def _with_recovery(
    result: Result, model: DynamicPartitionModel, data: Data, seed: int, n_seeds: int
) -> Result:
    """Add the number of factor levels found, and how often other seeds find all of them."""
    from rich.console import Console
    from rich.progress import track

    n_found = 0
    for i in track(range(n_seeds), "Seeds", console=Console(stderr=True), transient=True):
        other = fitted_aside(clone(model).set_params(random_state=seed + 1 + i), data.train)
        n_found += bool(pairs_recovered(other.means_).all())
    return dataclasses.replace(
        result,
        recovered=int(pairs_recovered(model.means_).sum()),
        seeds_recovered=n_found,
        n_seeds=n_seeds,
    )


def _settings(
    experiment: Experiment, variant: Variant, data: Data, seed: int, engine: str
) -> dict[str, Any]:
    """Settings that a kept run must have to be reused, as JSON values."""
    settings = {
        "dynpart": __version__,
        "parameters": dict(variant.parameters),
        "on_grid": variant.on_grid,
        "train": list(data.train.shape),
        "test": list(data.test.shape),
        "snapshots": list(experiment.snapshots),
        "n_seeds": experiment.n_seeds,
        "seed": seed,
        "engine": engine,
    }
    return json.loads(json.dumps(settings))


def _keep(folder: Path, variant: Variant, settings: dict[str, Any], finished: Run) -> None:
    save(finished.model, _model_path(folder, variant))
    if finished.snapshots:
        arrays: dict[str, Any] = {str(t): means for t, means in finished.snapshots.items()}
        with atomic_write(_snapshot_path(folder, variant)) as file:
            np.savez_compressed(file, **arrays)
    record = {"settings": settings, "result": dataclasses.asdict(finished.result)}
    with atomic_write(_record_path(folder, variant)) as file:
        file.write((json.dumps(record, indent=2) + "\n").encode())


def _read_snapshots(folder: Path, variant: Variant) -> dict[int, Any]:
    path = _snapshot_path(folder, variant)
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as arrays:
        return {int(name): arrays[name] for name in arrays.files}


def _model_path(folder: Path, variant: Variant) -> Path:
    return folder / f"{variant.key}.dynpart"


def _record_path(folder: Path, variant: Variant) -> Path:
    return folder / f"{variant.key}.json"


def _snapshot_path(folder: Path, variant: Variant) -> Path:
    return folder / f"{variant.key}-snapshots.npz"
