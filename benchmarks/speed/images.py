"""The paper's large images, where a folder has them: a fit with our defaults, by the iteration."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.speed.worker import clocked
from dynpart import DynamicPartitionModel, datasets

SETS: dict[str, tuple[Callable, dict[str, int]]] = {
    "horses": (datasets.load_weizmann_horses, {"n_experts": 20, "n_active": 4}),
    "motorcycles": (datasets.load_caltech_motorcycles, {"n_experts": 50, "max_active": 7}),
}
QUICK = {"max_iter": 2}
N_QUICK = 20
N_WARM = 8


def images_at_hand(name: str, folder: str | None) -> Any:
    """The images if a folder has them, else None. Nothing is downloaded."""
    folder = folder or os.environ.get("DYNPART_DATA")
    try:
        return SETS[name][0](folder=folder) if folder else None
    except FileNotFoundError:
        return None


def measure_images(name: str, folder: str | None, quick: bool) -> dict | None:
    """One fit, or None where the images are not at hand."""
    images, options = images_at_hand(name, folder), SETS[name][1]
    if images is None:
        return None
    rows = np.ascontiguousarray(images.train[: N_QUICK if quick else None])
    model = DynamicPartitionModel(random_state=0, **options, **(QUICK if quick else {}))
    DynamicPartitionModel(random_state=0, **options, **QUICK).fit(rows[:N_WARM])
    _, (seconds,), (processor,) = clocked(lambda: model.fit(rows), 1)
    return {
        "name": images.name,
        "n_rows": len(rows),
        "n_features": rows.shape[1],
        "n_experts": options["n_experts"],
        "n_iter": model.n_iter_,
        "seconds": seconds / model.n_iter_,
        "cpu_seconds": processor / model.n_iter_,
    }
