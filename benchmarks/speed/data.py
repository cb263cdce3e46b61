"""Binary images: MNIST where a folder has it, otherwise drawings of the same shape."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.case import Sizes

SIDE = 28
N_KINDS = 10
N_STROKES = 3
N_POINTS = 24
JITTER = 1.6
DTYPES = ("uint8", "float32")


def make_strokes(n_rows: int, seed: int = 0) -> NDArray[np.uint8]:
    """Three bent strokes a row, in ten arrangements that move about, (n_rows, 784)."""
    rng = np.random.default_rng(seed)
    kinds = rng.uniform(4, SIDE - 5, (N_KINDS, N_STROKES, 3, 2))
    t = np.linspace(0, 1, N_POINTS)
    curve = np.stack([(1 - t) ** 2, 2 * t * (1 - t), t**2])
    images = np.zeros((n_rows, SIDE, SIDE), dtype=np.uint8)
    for lo in range(0, n_rows, 4096):
        block = images[lo : lo + 4096]
        knots = kinds[rng.integers(0, N_KINDS, len(block))]
        knots = knots + rng.normal(0, JITTER, knots.shape)
        points = np.einsum("nskc,kp->nspc", knots, curve).reshape(len(block), -1, 2)
        places = np.clip(np.rint(points), 0, SIDE - 2).astype(np.intp)
        rows = np.arange(len(block))[:, None]
        for down in (0, 1):
            for right in (0, 1):
                block[rows, places[..., 0] + down, places[..., 1] + right] = 1
    return images.reshape(n_rows, SIDE * SIDE)


def load(sizes: Sizes, folder: str | None) -> tuple[str, NDArray[np.uint8], NDArray[np.uint8]]:
    """What the rows are, rows to fit and rows to encode. Nothing is downloaded."""
    folder = folder or os.environ.get("DYNPART_DATA")
    if folder:
        from dynpart.datasets import load_mnist

        mnist = load_mnist(folder=folder)
        return "binarised MNIST", mnist.train[: sizes.n_fit], mnist.test[: sizes.n_encode]
    drawn = make_strokes(sizes.n_fit + sizes.n_encode)
    return "made-up strokes", drawn[: sizes.n_fit], drawn[sizes.n_fit :]


def store(sizes: Sizes, folder: str | None, place: Path) -> str:
    """Write the rows as each competitor wants them, so that loading leaves no copy behind."""
    title, fit, encode = load(sizes, folder)
    for dtype in DTYPES:
        np.save(place / f"fit-{dtype}.npy", fit.astype(dtype, copy=False))
        np.save(place / f"encode-{dtype}.npy", encode.astype(dtype, copy=False))
        np.save(place / f"subset-{dtype}.npy", fit[: sizes.n_subset].astype(dtype, copy=False))
    return title
