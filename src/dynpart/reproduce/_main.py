"""Runs experiments one after the other: fits, figures and a report."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dynpart.atomic import atomic_write
from dynpart.reproduce._design import Data, Experiment, Run
from dynpart.reproduce._experiments import EXPERIMENTS
from dynpart.reproduce._report import figure_path, write_report
from dynpart.reproduce._runs import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


def reproduce(
    names: Iterable[str],
    out: str | os.PathLike[str],
    *,
    report: str | os.PathLike[str] | None = None,
    seed: int = 0,
    engine: str = "auto",
    fresh: bool = False,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
) -> list[Run]:
    """Run experiments of the paper, draw its figures and write a report.

    Finished fits are kept in `out` and reused, so a figure can be drawn again without learning, and
    an interruption loses at most the current fit.

    Parameters
    ----------
    names : iterable of str
        Names of experiments: "synthetic", "mnist", "horses", "motorcycles"; "intensities" and
        "order" for proposals of the paper's discussion.
    out : path-like
        Folder for models, measurements and figures; created if needed.
    report : path-like, default=None
        The Markdown file to write; by default ``reproduction.md`` in `out`.
    seed : int, default=0
    engine : str, default="auto"
    fresh : bool, default=False
        Learn again instead of reusing kept fits.
    experiments : mapping of str to Experiment
        All experiments.

    Returns
    -------
    list of Run
        The runs of the named experiments.
    """
    from rich.console import Console

    names = list(names)
    unknown = [name for name in names if name not in experiments]
    if unknown:
        raise ValueError(f"experiment must be one of {', '.join(experiments)}, got {unknown[0]!r}")
    console = Console(stderr=True, highlight=False)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "reproduction.md" if report is None else Path(report)
    runs: list[Run] = []
    start = time.perf_counter()
    try:
        for name in names:
            experiment = experiments[name]
            console.print(f"[bold]{experiment.title}[/]")
            runs += _run_experiment(experiment, folder / name, console, seed, engine, fresh)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. Finished results are kept in {folder}: the same command continues from "
            "there."
        )
        raise
    finally:
        write_report(experiments.values(), folder, target)
    console.print(
        f"Done in {time.perf_counter() - start:.0f} s. Figures in {folder}, report in {target}."
    )
    return runs


def _run_experiment(
    experiment: Experiment, folder: Path, console: Console, seed: int, engine: str, fresh: bool
) -> list[Run]:
    def report(text: str) -> None:
        console.print(f"  {text}")

    data = experiment.load()
    runs = []
    for variant in experiment.variants:
        finished = run(
            experiment, variant, data, folder, seed=seed, engine=engine, fresh=fresh, report=report
        )
        runs.append(finished)
        with console.status("drawing"):
            _draw_run(experiment, finished, data, folder)
    with console.status("drawing"):
        _draw_shared(experiment, data, folder, seed)
    return runs


def _draw_run(experiment: Experiment, finished: Run, data: Data, folder: Path) -> None:
    for picture in experiment.pictures:
        if picture.draw is not None:
            _save(picture.draw(finished, data), figure_path(folder, picture, finished.variant))


def _draw_shared(experiment: Experiment, data: Data, folder: Path, seed: int) -> None:
    for picture in experiment.pictures:
        if picture.draw_shared is not None:
            _save(picture.draw_shared(data, seed), figure_path(folder, picture, None))


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        figure.savefig(file, format="png")
