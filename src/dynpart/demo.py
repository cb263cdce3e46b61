"""The demo: learns synthetic pairs, small digits and the zoo; prints, draws, and writes a page."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.datasets import load_digits, load_zoo, make_pairs, pairs_recovered, write_zoo
from dynpart.estimator import DynamicPartitionModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

ZOO_EXPERTS = 6
ZOO_SHOWN = ("platypus", "bear", "dolphin", "chicken", "penguin", "bass", "frog", "honeybee")
"""Animals in the zoo's figure."""

Drawings = dict[str, Callable[[], "Figure"]]


@dataclass(frozen=True)
class DemoRow:
    """One line of the demo's table: how a model describes rows it was, or was not, fitted on.

    Attributes
    ----------
    data : str
    n_rows : int
        Number of rows that are measured.
    n_experts : int
    mean_active : float
        Active experts per row.
    error : float
        Share of values that the composed template, rounded, gets wrong.
    bits : float
        Code length per row: which experts are active, and the row given them.
    seconds : float
        Time of the fit.
    """

    data: str
    n_rows: int
    n_experts: int
    mean_active: float
    error: float
    bits: float
    seconds: float


def describe(
    data: str, model: DynamicPartitionModel, X: NDArray[np.uint8], seconds: float
) -> DemoRow:
    """Measure how a fitted model describes binary rows X of shape (n_rows, n_features)."""
    H = model.transform(X)
    wrong = (model.inverse_transform(H) > 0.5) != X.astype(bool)
    return DemoRow(
        data,
        len(X),
        model.n_experts_,
        float(H.sum(axis=1).mean()),
        float(wrong.mean()),
        -model.score(X) / math.log(2),
        seconds,
    )


def run_demo(out: str | os.PathLike[str], *, seed: int = 0) -> list[DemoRow]:
    """Fit the data sets, print the table, write figures and a page into `out`, and print the paths.

    The last data set is the zoo, with commands to explore its table.

    Parameters
    ----------
    out : path-like
        Folder for the figures; created if needed.
    seed : int, default=0

    Returns
    -------
    list of DemoRow
        The table, for calls from Python.
    """
    from rich.console import Console

    console = Console()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)

    pairs = make_pairs(5)
    digits = load_digits()
    console.print("Compiling kernels for the first fit after an installation")
    # The same fit as below: it is short, uses all kernels and does not warn.
    DynamicPartitionModel(10, random_state=seed).fit(pairs)
    console.print("[bold]1/3[/] five hidden pairs, ten experts")
    pair_model, pair_seconds = _timed_fit(DynamicPartitionModel(10, random_state=seed), pairs)
    found = int(pairs_recovered(pair_model.means_).sum())
    console.print(f"    found {found} of 10 factor levels")
    console.print("[bold]2/3[/] 8 x 8 digits, twenty experts, at most six per digit")
    digit_model, digit_seconds = _timed_fit(
        DynamicPartitionModel(20, max_active=6, max_iter=20, random_state=seed), digits.train
    )

    rows = [
        describe("pairs", pair_model, pairs, pair_seconds),
        describe("digits (test)", digit_model, digits.test, digit_seconds),
    ]
    _print_table(console, rows)
    drawings = _drawings(pair_model, pairs, digit_model, digits.test, digits.image_shape)
    _write(console, folder, drawings)
    _zoo(console, folder, seed)
    return rows


def _zoo(console: Console, folder: Path, seed: int) -> None:
    """The zoo as text and as a page: names of experts, an explanation of the platypus."""
    from dynpart import plotting
    from dynpart.describing import observed_shares
    from dynpart.explorer import write_report

    zoo = load_zoo()
    console.print(f"[bold]3/3[/] the zoo: 101 animals, {ZOO_EXPERTS} experts")
    data, model_file, page = (folder / f"zoo.{end}" for end in ("csv", "dynpart", "html"))
    write_zoo(data)
    model = DynamicPartitionModel(ZOO_EXPERTS, columns=zoo.kinds, random_state=seed)
    model.fit(zoo.table()).save(model_file)
    for name, share in zip(model.expert_names_, observed_shares(model), strict=True):
        console.print(f"    {name}: {share:.0%} of the animals", highlight=False, markup=False)
    platypus = model.explain(zoo.table(), zoo.row_names.index("platypus"), label="platypus")
    console.print("", *platypus.lines(), sep="\n", highlight=False, markup=False)
    shown = [zoo.row_names.index(name) for name in ZOO_SHOWN]
    labels = [zoo.row_names[n] for n in shown]
    figure = plotting.table_partition(model, zoo.table(shown), labels)
    figure.savefig(folder / "zoo-partition.png")
    write_report(
        model,
        zoo.table(),
        page,
        overwrite=True,
        labels=zoo.row_names,
        title="Zoo",
        by=zoo.classes,
        by_name="type",
    )
    console.print("")
    console.print(f"Open [bold]{page.resolve()}[/] in a browser, or run:")
    for asked in ("describe", "explain --label dolphin"):
        command, *more = asked.split()
        text = " ".join(["dynpart", command, str(model_file), str(data), *more])
        console.print(f"  {text}", highlight=False, soft_wrap=True)


def _timed_fit(model: DynamicPartitionModel, X: NDArray) -> tuple[DynamicPartitionModel, float]:
    start = time.perf_counter()
    model.set_params(verbose=1).fit(X)
    return model.set_params(verbose=0), time.perf_counter() - start


def _print_table(console: Console, rows: list[DemoRow]) -> None:
    from rich.table import Table

    table = Table(title="Results", title_justify="left", title_style="bold")
    table.add_column("data")
    for name in ("rows", "experts", "mean active", "error", "bits per row", "fit"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.data,
            f"{row.n_rows:,}",
            str(row.n_experts),
            f"{row.mean_active:.1f}",
            f"{row.error:.1%}",
            f"{row.bits:.1f}",
            f"{row.seconds:.1f} s",
        )
    console.print(table)


def _drawings(
    pair_model: DynamicPartitionModel,
    pairs: NDArray[np.uint8],
    digit_model: DynamicPartitionModel,
    digits: NDArray[np.uint8],
    shape: tuple[int, int],
) -> Drawings:
    from dynpart import plotting

    image: dict[str, Any] = {"image_shape": shape}
    return {
        "pairs-experts": lambda: plotting.plot_experts(pair_model),
        "pairs-decomposition": lambda: plotting.plot_decomposition(pair_model, pairs[:8]),
        "digits-experts": lambda: plotting.plot_experts(digit_model, **image),
        "digits-partition": lambda: plotting.plot_partition(
            digit_model, digits[:14], n_columns=7, **image
        ),
        "digits-pursuit": lambda: plotting.plot_pursuit(digit_model, digits[:14], **image),
        "digits-decomposition": lambda: plotting.plot_decomposition(
            digit_model, digits[:10], n_blocks=2, **image
        ),
        "digits-supports": lambda: plotting.plot_supports(digit_model, digits, n_codes=9, **image),
        "digits-history": lambda: plotting.plot_history(digit_model),
    }


def _write(console: Console, folder: Path, drawings: Drawings) -> None:
    with console.status("drawing"):
        for name, draw in drawings.items():
            draw().savefig(folder / f"{name}.png")
    console.print(f"{len(drawings)} figures in [bold]{folder.resolve()}[/]:")
    console.print("  " + ", ".join(f"{name}.png" for name in drawings), highlight=False)
