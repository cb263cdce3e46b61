"""Shapes: our model and the shape Boltzmann machine on small horses, with hidden halves."""

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
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import grid_to_graph

from dynpart.atomic import atomic_write
from dynpart.baselines import ShapeBoltzmannMachine
from dynpart.datasets import ImageDataset, load_weizmann_horses
from dynpart.estimator import DynamicPartitionModel

FILE = "shapes.json"
SMALL, LARGE = (32, 32), (200, 240)
HALVES = ("left", "right", "top", "bottom")
N_SHOWN = 8


class ShapeModel(Protocol):
    """Interface of a model of shapes."""

    def reconstruct(self, X: NDArray) -> NDArray:
        """Reconstructed rows, values from 0 to 1."""

    def fill(self, X: NDArray) -> NDArray:
        """Rows with imputed values for NaN."""

    def sample(self, n_samples: int) -> NDArray:
        """New rows, as probabilities if the model has them."""


@dataclass(frozen=True)
class _Ours:
    model: DynamicPartitionModel
    seed: int

    def reconstruct(self, X: NDArray) -> NDArray:
        return self.model.inverse_transform(self.model.transform(X))

    def fill(self, X: NDArray) -> NDArray:
        return self.model.impute(X)

    def sample(self, n_samples: int) -> NDArray:
        return self.model.sample(n_samples, random_state=self.seed)


@dataclass(frozen=True)
class _Machine:
    model: ShapeBoltzmannMachine

    def reconstruct(self, X: NDArray) -> NDArray:
        return self.model.decode(self.model.encode(X))

    def fill(self, X: NDArray) -> NDArray:
        return self.model.fill(X)

    def sample(self, n_samples: int) -> NDArray:
        return self.model.sample(n_samples)


@dataclass(frozen=True)
class _Average:
    mean: NDArray

    def reconstruct(self, X: NDArray) -> NDArray:
        return np.broadcast_to(self.mean, X.shape)

    def fill(self, X: NDArray) -> NDArray:
        return np.where(np.isnan(X), self.mean, X)

    def sample(self, n_samples: int) -> NDArray:
        return np.broadcast_to(self.mean, (n_samples, len(self.mean)))


@dataclass(frozen=True)
class ShapeContestant:
    """A model of shapes, how it learns, and the size of its pictures."""

    name: str
    title: str
    image_shape: tuple[int, int]
    learn: Callable[[ImageDataset, int], ShapeModel]


def _ours(n_experts: int, **settings: Any) -> Callable[[ImageDataset, int], ShapeModel]:
    def learn(data: ImageDataset, seed: int) -> ShapeModel:
        graph = grid_to_graph(*data.image_shape)
        model = DynamicPartitionModel(n_experts, connectivity=graph, random_state=seed, **settings)
        return _Ours(model.fit(data.train), seed)

    return learn


def _machine(data: ImageDataset, seed: int) -> ShapeModel:
    return _Machine(ShapeBoltzmannMachine(data.image_shape, random_state=seed).fit(data.train))


_ALL = (
    ShapeContestant(
        "dynamic", "dynamic partition (ours), 20 experts", SMALL, _ours(20, n_active=4)
    ),
    ShapeContestant(
        "dynamic-50", "dynamic partition (ours), 50 experts", SMALL, _ours(50, max_active=10)
    ),
    ShapeContestant("shape-boltzmann", "shape Boltzmann machine", SMALL, _machine),
    ShapeContestant(
        "average",
        "average of the training horses",
        SMALL,
        lambda data, seed: _Average(data.train.mean(axis=0)),
    ),
    ShapeContestant(
        "dynamic-large",
        "dynamic partition (ours), 20 experts, 200 x 240",
        LARGE,
        _ours(20, n_active=4),
    ),
)
SHAPE_CONTESTANTS = {each.name: each for each in _ALL}


@dataclass(frozen=True)
class ShapeResult:
    """Result of one model with one seed, on the test horses.

    Attributes
    ----------
    contestant, title : str
    seed : int
    reconstruction : float
        Share of wrong pixels.
    hidden : dict of str to float
        Share of wrong pixels in the hidden half, by which half was hidden.
    seconds : float
        Time to learn.
    """

    contestant: str
    title: str
    seed: int
    reconstruction: float
    hidden: dict[str, float]
    seconds: float


def hidden_half(image_shape: tuple[int, int], half: str) -> NDArray[np.bool_]:
    """Which pixels lie in a half of the picture, shape (n_features,)."""
    height, width = image_shape
    row, column = np.mgrid[:height, :width]
    inside = {
        "left": column < width // 2,
        "right": column >= width // 2,
        "top": row < height // 2,
        "bottom": row >= height // 2,
    }
    return inside[half].ravel()


def run_shapes(
    contestants: Sequence[ShapeContestant],
    seeds: Sequence[int],
    *,
    folder: Path,
    redo: Sequence[str] = (),
    report: Callable[[str], None] = print,
) -> list[ShapeResult]:
    """Fit and score what is not in the folder yet; draw the first seed's pictures.

    Parameters
    ----------
    contestants : sequence of ShapeContestant
    seeds : sequence of int
    folder : Path
    redo : sequence of str
        Contestants to compute again.
    report : callable
        Called with a line about each result.

    Returns
    -------
    list of ShapeResult
        All results in the folder.
    """
    kept = {(r.contestant, r.seed): r for r in load_shapes(folder) if r.contestant not in redo}
    for contestant in contestants:
        data = load_weizmann_horses(image_shape=contestant.image_shape)
        for seed in seeds:
            if (contestant.name, seed) in kept:
                continue
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = contestant.learn(data, seed)
            result = measure(contestant, model, data, seed, time.perf_counter() - began)
            report(f"{contestant.title}, seed {seed}: {result.seconds:.0f} s")
            kept[contestant.name, seed] = result
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder / FILE) as file:
                file.write(json.dumps([asdict(r) for r in kept.values()], indent=1).encode())
            if seed == seeds[0]:
                picture = draw_shapes(model, data)
                picture.savefig(folder / f"shapes-{contestant.name}.png", bbox_inches="tight")
    return list(kept.values())


def load_shapes(folder: Path) -> list[ShapeResult]:
    """All results in the folder."""
    path = folder / FILE
    return [ShapeResult(**each) for each in json.loads(path.read_text())] if path.exists() else []


def measure(
    contestant: ShapeContestant, model: ShapeModel, data: ImageDataset, seed: int, seconds: float
) -> ShapeResult:
    """Share of wrong pixels of the test horses: of reconstructions, and in hidden halves."""
    test = data.test
    wrong = float(((model.reconstruct(test) > 0.5) != test).mean())
    hidden = {}
    for half in HALVES:
        inside = hidden_half(data.image_shape, half)
        found = model.fill(np.where(inside, np.nan, test.astype(np.float64)))
        hidden[half] = float(((found > 0.5) != test)[:, inside].mean())
    return ShapeResult(contestant.name, contestant.title, seed, wrong, hidden, seconds)


def draw_shapes(model: ShapeModel, data: ImageDataset) -> Figure:
    """Test horses, their reconstructions, a hidden half filled in, and samples: a row each."""
    test = data.test[:N_SHOWN]
    inside = hidden_half(data.image_shape, "right")
    filled = model.fill(np.where(inside, np.nan, test.astype(np.float64)))
    rows = {
        "test": test,
        "reconstructed": model.reconstruct(test),
        "right half filled in": filled,
        "samples": model.sample(N_SHOWN),
    }
    figure = Figure(figsize=(N_SHOWN, len(rows)), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), N_SHOWN, squeeze=False)
    for line, (title, pictures) in zip(axes, rows.items(), strict=True):
        for place, picture in zip(line, pictures, strict=True):
            place.imshow(
                np.reshape(picture, data.image_shape), cmap="gray_r", vmin=0, vmax=1, aspect="auto"
            )
            place.set_xticks([])
            place.set_yticks([])
        line[0].set_title(title, loc="left", fontsize=7)
    return figure
