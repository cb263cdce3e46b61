"""Real-valued activations: reconstruction with offsets and gains, beside binary codes and PCA.

    DYNPART_DATA=data python -m benchmarks.amplitudes --data faces motorcycles digits

Root mean squared error on test rows. Every model is learnt with its amplitude, and once more the
binary model is only encoded with gains. PCA is given as many real numbers as the codes with gains
have on average: two per active expert.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.feature_extraction.image import grid_to_graph

from dynpart import DynamicPartitionModel
from dynpart.comparison import load_problem

NAMES = {"faces": "faces", "motorcycles": "motorcycles", "digits": "digits-gray"}
MODES = (None, "offset", "gain")


def rmse(found: NDArray, X: NDArray) -> float:
    """Root mean squared error."""
    return float(np.sqrt(((found - X) ** 2).mean(dtype=np.float64)))


def reconstructed(model: DynamicPartitionModel, X: NDArray) -> tuple[float, float]:
    """Reconstruction error of the rows, and the number of active experts."""
    H = model.transform(X)
    return rmse(model.inverse_transform(H, model.amplitudes(X, H)), X), float(H.sum(axis=1).mean())


def lines(
    name: str, seeds: int, n_rows: int | None, neighbours: bool, **more: Any
) -> Iterator[str]:
    """The lines of one data set."""
    problem = load_problem(NAMES[name])
    train, test = problem.train[:n_rows], problem.score
    graph = grid_to_graph(*problem.image_shape) if neighbours else None
    what = f"{problem.title}, {len(train)} rows" + (", neighbours" if neighbours else "")
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        models = {}
        for mode in MODES:
            model = DynamicPartitionModel(
                problem.n_components,
                max_active=problem.n_active,
                amplitude=mode,
                prior=None,
                connectivity=graph,
                random_state=seed,
                **more,
            ).fit(train)
            models[mode] = model
            found.setdefault(f"{mode or 'binary'}", []).append(reconstructed(model, test))
        encoded = models[None].set_params(amplitude="gain")
        found.setdefault("binary, encoded with gains", []).append(reconstructed(encoded, test))
    for key, values in found.items():
        error, active = np.mean(values, axis=0)
        yield f"| {what} | {key} | {error:.4f} | {active:.1f} |"
    n_numbers = round(2 * float(np.mean([active for _, active in found["gain"]])))
    for n in (problem.n_active, n_numbers):
        pca = PCA(n, random_state=0).fit(train)
        error = rmse(pca.inverse_transform(pca.transform(test)), test)
        yield f"| {what} | PCA, {n} components | {error:.4f} | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, help="training rows, at most")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--neighbours", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # what a fit says of itself
    print("| data | activations | RMSE | active |")
    print("| --- | --- | ---: | ---: |")
    for name in arguments.data:
        settings = arguments.seeds, arguments.rows, arguments.neighbours
        for line in lines(name, *settings, max_iter=arguments.iterations):
            print(line, flush=True)


if __name__ == "__main__":
    main()
