"""Autoregressive models: ours and autoregressive networks on the same rows."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from dynpart.atomic import atomic_write
from dynpart.baselines import MaskedNetwork, Mixture
from dynpart.datasets import ImageDataset, load_digits, load_mnist
from dynpart.estimator import DynamicPartitionModel

Array = NDArray[np.float64]

FILE = "ordered.json"
N_LINES, N_COLUMNS = 4, 12
"""Number of samples in a picture."""
LEAST_CHANCE = 1e-4
"""Minimum distance of the mixture's probabilities from 0 and 1, as in our model."""


class RowModel(Protocol):
    """Interface of a model of rows."""

    def scores(self, X: NDArray) -> dict[str, float]:
        """Mean nats of rows as "nats", and further scores by name."""

    def sample(self, n_samples: int) -> NDArray:
        """New rows of zeros and ones."""


@dataclass(frozen=True)
class OrderedProblem:
    """Binary rows, and the size of the models."""

    name: str
    title: str
    load: Callable[[], ImageDataset]
    n_experts: int
    max_active: int
    n_hidden: int


@dataclass(frozen=True)
class _Ours:
    model: DynamicPartitionModel

    def scores(self, X: NDArray) -> dict[str, float]:
        return {
            "nats": self.model.score(X),
            "nearby": float(np.mean(self.model.log_density(X))),
            "active": float(np.mean(np.sum(self.model.transform(X), axis=1))),
        }

    def sample(self, n_samples: int) -> NDArray:
        return self.model.sample(n_samples, random_state=0)


@dataclass(frozen=True)
class _Network:
    model: MaskedNetwork

    def scores(self, X: NDArray) -> dict[str, float]:
        return {"nats": float(np.mean(self.model.log_density(X)))}

    def sample(self, n_samples: int) -> NDArray:
        return self.model.sample(n_samples)


@dataclass(frozen=True)
class _Mixture:
    model: Mixture

    def scores(self, X: NDArray) -> dict[str, float]:
        p = self.model.means_.clip(LEAST_CHANCE, 1 - LEAST_CHANCE)
        explained = X @ np.log(p).T + (1.0 - X) @ np.log1p(-p).T
        return {"nats": float(np.mean(logsumexp(explained + np.log(self.model.weights_), axis=1)))}

    def sample(self, n_samples: int) -> NDArray:
        rng = np.random.default_rng(0)
        chosen = rng.choice(len(self.model.weights_), n_samples, p=self.model.weights_)
        means = self.model.means_[chosen]
        return (rng.random(means.shape) < means).astype(np.uint8)


Learn = Callable[[OrderedProblem, ImageDataset, int, str | None], RowModel]
"""Function from a problem, its rows, a seed and a device of torch to a model."""


def _ours(**settings: Any) -> Learn:
    def learn(
        problem: OrderedProblem, data: ImageDataset, seed: int, device: str | None
    ) -> RowModel:
        limits = {"max_active": problem.max_active, "device": device} | settings
        model = DynamicPartitionModel(problem.n_experts, random_state=seed, **limits)
        return _Ours(model.fit(data.train))

    return learn


def _network(*, hidden: bool) -> Learn:
    def learn(
        problem: OrderedProblem, data: ImageDataset, seed: int, device: str | None
    ) -> RowModel:
        n_hidden = problem.n_hidden if hidden else 0
        network = MaskedNetwork(n_hidden, device=device, random_state=seed)
        return _Network(network.fit(data.train))

    return learn


def _mixture(
    problem: OrderedProblem, data: ImageDataset, seed: int, device: str | None
) -> RowModel:
    return _Mixture(Mixture(problem.n_experts, random_state=seed).fit(data.train))


@dataclass(frozen=True)
class OrderedContestant:
    """A model of rows and how it learns."""

    name: str
    title: str
    learn: Learn


ORDERED_CONTESTANTS = {
    each.name: each
    for each in (
        OrderedContestant(
            "dynamic-autoregressive", "ours, autoregressive", _ours(autoregressive="all")
        ),
        OrderedContestant(
            "one-autoregressive",
            "ours, autoregressive, one expert a row",
            _ours(autoregressive="all", max_active=1),
        ),
        OrderedContestant("dynamic-plain", "ours", _ours()),
        OrderedContestant(
            "visible-network", "fully visible sigmoid network", _network(hidden=False)
        ),
        OrderedContestant("made", "MADE", _network(hidden=True)),
        OrderedContestant("bernoulli-mixture", "mixture of Bernoullis", _mixture),
    )
}
ORDERED_PROBLEMS = {
    "autoregressive": OrderedProblem("autoregressive", "digits", load_digits, 30, 4, 200),
    "autoregressive-mnist": OrderedProblem(
        "autoregressive-mnist", "MNIST", load_mnist, 100, 4, 1000
    ),
}


@dataclass(frozen=True)
class OrderedResult:
    """Result of one model with one seed, on the test rows.

    Attributes
    ----------
    problem, contestant, title : str
    seed : int
    scores : dict of str to float
        "nats" per row, and further scores of the model.
    seconds : float
        Time to learn.
    """

    problem: str
    contestant: str
    title: str
    seed: int
    scores: dict[str, float]
    seconds: float


def run_ordered(
    problems: Sequence[OrderedProblem],
    contestants: Sequence[OrderedContestant],
    seeds: Sequence[int],
    *,
    folder: Path,
    redo: Sequence[str] = (),
    device: str | None = None,
    report: Callable[[str], None] = print,
) -> list[OrderedResult]:
    """Fit and score what is not in the folder yet; draw the first seed's samples.

    Parameters
    ----------
    problems : sequence of OrderedProblem
    contestants : sequence of OrderedContestant
    seeds : sequence of int
    folder : Path
    redo : sequence of str
        Contestants to compute again.
    device : str, default=None
        Device of torch, for our models and the networks, such as "cuda".
    report : callable
        Called with a line about each result.

    Returns
    -------
    list of OrderedResult
        All results in the folder.
    """
    kept = {
        (r.problem, r.contestant, r.seed): r
        for r in load_ordered(folder)
        if r.contestant not in redo
    }
    for problem in problems:
        data = problem.load()
        for contestant in contestants:
            for seed in seeds:
                if (problem.name, contestant.name, seed) in kept:
                    continue
                began = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = contestant.learn(problem, data, seed, device)
                seconds = time.perf_counter() - began
                result = OrderedResult(
                    problem.name,
                    contestant.name,
                    contestant.title,
                    seed,
                    model.scores(data.test),
                    seconds,
                )
                report(
                    f"{problem.title}, {contestant.title}, seed {seed}: "
                    f"{result.scores['nats']:.2f} nats, {seconds:.0f} s"
                )
                kept[problem.name, contestant.name, seed] = result
                folder.mkdir(parents=True, exist_ok=True)
                with atomic_write(folder / FILE) as file:
                    file.write(json.dumps([asdict(r) for r in kept.values()], indent=1).encode())
                if seed == seeds[0]:
                    picture = draw_rows(model.sample(N_LINES * N_COLUMNS), data.image_shape)
                    picture.savefig(picture_of(folder, result), bbox_inches="tight")
    return list(kept.values())


def load_ordered(folder: Path) -> list[OrderedResult]:
    """All results in the folder."""
    path = folder / FILE
    return [OrderedResult(**each) for each in json.loads(path.read_text())] if path.exists() else []


def picture_of(folder: Path, result: OrderedResult) -> Path:
    """The file with samples of a model."""
    return folder / f"{result.problem}-{result.contestant}.png"


def draw_rows(rows: NDArray, image_shape: tuple[int, int]) -> Figure:
    """Rows as pictures, side by side on a grid of `N_COLUMNS`."""
    height, width = image_shape
    n_lines = -(-len(rows) // N_COLUMNS)
    canvas = np.full((n_lines * (height + 1), N_COLUMNS * (width + 1)), 0.5)
    for n, row in enumerate(rows):
        line, column = divmod(n, N_COLUMNS)
        top, left = line * (height + 1), column * (width + 1)
        canvas[top : top + height, left : left + width] = np.reshape(row, image_shape)
    figure = Figure(figsize=(8, 8 * canvas.shape[0] / canvas.shape[1]), dpi=130)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(canvas, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()
    return figure
