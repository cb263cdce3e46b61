"""Problems: data sets with their splits and the sizes of model requested. Knows `datasets`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart import datasets
from dynpart.datasets import ImageDataset

VALIDATION_SHARE = 1 / 6
SPLIT_SEED = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from and rows to score, and how large a model to use.

    Attributes
    ----------
    name, title : str
    train, score : ndarray of shape (n_rows, n_features)
        Rows for learning, and rows for scoring (test or validation).
    split : {"test", "validation"}
    n_components : int
        Units of every model.
    n_active : int
        Number of active units at which codes are compared.
    capped : bool
        Whether `n_active` is the maximum for every row. If not, it is given only to models that
        need a number.
    exactly : bool
        Whether our model uses exactly `n_active`.
    max_iter : int
        Iterations of our own learner.
    rates : tuple of int
        Limits on active units for the rate-distortion curve.
    image_shape : tuple of int or None
    truth : {"pairs", "bars"} or None
        The known factors.
    train_labels, score_labels : ndarray or None
    """

    name: str
    title: str
    train: NDArray
    score: NDArray
    split: str
    n_components: int
    n_active: int
    capped: bool = True
    exactly: bool = False
    max_iter: int = 30
    rates: tuple[int, ...] = ()
    image_shape: tuple[int, int] | None = None
    truth: str | None = None
    train_labels: NDArray | None = field(default=None, repr=False)
    score_labels: NDArray | None = field(default=None, repr=False)

    @property
    def binary(self) -> bool:
        """Whether all values are 0 or 1."""
        return self.train.dtype.kind in "bu"

    @property
    def factors(self) -> NDArray | None:
        """True factors of the scored rows, (n_rows, n_factors), or None."""
        if self.truth == "pairs":
            return self.score[:, ::2]
        if self.truth == "bars":
            bars = datasets.bar_templates(round(self.score.shape[1] ** 0.5))
            return np.stack([self.score[:, bar].all(axis=1) for bar in bars], axis=1)
        return None

    def first_rows(self, n_rows: int | None) -> Problem:
        """The same with at most `n_rows` training rows."""
        if n_rows is None or n_rows >= len(self.train):
            return self
        labels = None if self.train_labels is None else self.train_labels[:n_rows]
        return replace(self, train=self.train[:n_rows], train_labels=labels)


Loader = Callable[[int, str], Problem]


def load_problem(name: str, seed: int = 0, split: str = "test") -> Problem:
    """Load a problem by name.

    Parameters
    ----------
    name : str
        A key of `PROBLEMS`.
    seed : int, default=0
        Seed of synthetic data; published data are the same for every seed.
    split : {"test", "validation"}, default="test"
        "validation" scores on held-back training rows and does not use the test rows: for tuning.

    Returns
    -------
    Problem

    Examples
    --------
    >>> load_problem("digits", split="validation").score.shape
    (250, 64)
    """
    if split not in ("test", "validation"):
        raise ValueError(f"split must be 'test' or 'validation', got {split!r}")
    if name not in PROBLEMS:
        raise ValueError(f"data must be one of {', '.join(PROBLEMS)}, got {name!r}")
    return PROBLEMS[name](seed, split)


def _pairs(n_pairs: int, **sizes: Any) -> Loader:
    def load(seed: int, split: str) -> Problem:
        # Five pairs: all 32 rows, as in the paper. The others: rows drawn by the seed.
        rows = datasets.make_pairs(n_pairs, None if n_pairs == 5 else 2000, random_state=seed)
        return Problem(
            name="synthetic" if n_pairs == 5 else f"pairs{n_pairs}",
            title=f"{n_pairs} pairs",
            train=rows,
            score=rows,
            split=split,
            n_components=2 * n_pairs,
            n_active=n_pairs,
            capped=False,
            rates=tuple(range(1, n_pairs + 2)) if n_pairs == 5 else (),
            truth="pairs",
            **sizes,
        )

    return load


def _bars(seed: int, split: str) -> Problem:
    offset = {"test": 1, "validation": 2}[split]
    return Problem(
        name="bars",
        title="bars 5 x 5",
        train=datasets.make_bars(5, 1000, random_state=3 * seed),
        score=datasets.make_bars(5, 1000, random_state=3 * seed + offset),
        split=split,
        n_components=12,
        n_active=3,
        capped=False,
        max_iter=60,
        rates=(1, 2, 3, 4, 6, 8),
        image_shape=(5, 5),
        truth="bars",
    )


def _images(load_images: Callable[[], ImageDataset], name: str, **sizes: Any) -> Loader:
    def load(seed: int, split: str) -> Problem:
        data = load_images()
        labels = data.train_labels
        n_rest = data.n_train + data.n_validation
        rows = data.data[:n_rest]
        if split == "test":
            parts = (rows, data.test, _labels(data, slice(n_rest)), data.test_labels)
        else:
            order = np.random.RandomState(SPLIT_SEED).permutation(data.n_train)
            held = order[: round(VALIDATION_SHARE * data.n_train)]
            kept = np.setdiff1d(order, held)
            parts = (
                data.train[kept],
                data.train[held],
                None if labels is None else labels[kept],
                None if labels is None else labels[held],
            )
        return Problem(
            name=name,
            title=data.name,
            train=parts[0],
            score=parts[1],
            split=split,
            image_shape=data.image_shape if data.image_shape[0] > 1 else None,
            train_labels=parts[2],
            score_labels=parts[3],
            **sizes,
        )

    return load


def _labels(data: ImageDataset, rows: slice) -> NDArray | None:
    return None if data.labels is None else data.labels[rows]


def _from_folder(file: str, array: str, title: str, *, binary: bool) -> Callable[[], ImageDataset]:
    """An array of a file in the user's folder; a random 80% of its rows are for training."""

    def load() -> ImageDataset:
        path = Path(os.environ.get("DYNPART_DATA", ".")) / file
        if not path.is_file():
            raise FileNotFoundError(f"{title}: put {file} into the folder named by DYNPART_DATA")
        with np.load(path, allow_pickle=False) as stored:
            images = stored[array]
        order = np.random.RandomState(SPLIT_SEED).permutation(len(images))
        rows = images.reshape(len(images), -1)[order]
        shape = images.shape[1:] if images.ndim == 3 else (1, images.shape[1])
        data = rows.astype(np.uint8) if binary else rows.astype(np.float32) / np.float32(255)
        return ImageDataset(title, data, shape, n_train=round(0.8 * len(rows)))

    return load


PROBLEMS: Mapping[str, Loader] = {
    "synthetic": _pairs(5),
    "pairs10": _pairs(10, max_iter=60),
    "pairs20": _pairs(20, max_iter=60),
    "bars": _bars,
    "digits": _images(
        datasets.load_digits, "digits", n_components=30, n_active=6, rates=(1, 2, 3, 4, 6, 8, 12)
    ),
    "digits-gray": _images(
        lambda: datasets.load_digits(binarize=False),
        "digits-gray",
        n_components=30,
        n_active=6,
        rates=(1, 2, 3, 4, 6, 8, 12),
    ),
    "mnist": _images(
        datasets.load_mnist, "mnist", n_components=100, n_active=12, rates=(1, 2, 4, 8, 12, 16)
    ),
    "motorcycles": _images(
        datasets.load_caltech_motorcycles,
        "motorcycles",
        n_components=50,
        n_active=7,
        rates=(1, 2, 4, 7, 10),
    ),
    "horses": _images(
        datasets.load_weizmann_horses,
        "horses",
        n_components=20,
        n_active=4,
        exactly=True,
        rates=(1, 2, 4, 6),
    ),
    "silhouettes": _images(
        datasets.load_caltech_silhouettes,
        "silhouettes",
        n_components=100,
        n_active=12,
        rates=(1, 2, 4, 8, 12, 16),
    ),
    "faces": _images(
        _from_folder("frey_faces_28x20.npz", "images", "Frey faces", binary=False),
        "faces",
        n_components=50,
        n_active=7,
        rates=(1, 2, 4, 7, 10),
    ),
    "news": _images(
        _from_folder("20news_w100.npz", "documents", "20 newsgroups, 100 words", binary=True),
        "news",
        n_components=20,
        n_active=5,
        rates=(1, 2, 3, 5, 8),
    ),
}
