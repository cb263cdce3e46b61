"""Binary data sets for density models, with published results. Knows `gaps`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynpart.comparison.gaps import in_folder
from dynpart.formats import read_npz

DENSITY = "density"
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class DensitySet:
    """A published set of binary rows with fixed splits.

    Attributes
    ----------
    name : str
        Name of its file, debd/NAME.npz in the folder named by DYNPART_DATA.
    title : str
    published : float
        Mean log P(x) of the test rows in nats, published for hidden Chow-Liu trees.
    """

    name: str
    title: str
    published: float

    def find(self) -> Path:
        """Its file, or an error that names DYNPART_DATA."""
        return in_folder(Path("debd") / f"{self.name}.npz")


@dataclass(frozen=True, eq=False)
class BinaryRows:
    """The rows of a set.

    Attributes
    ----------
    train, valid, test : ndarray of shape (n_rows, n_features), uint8
        Zeros and ones; numbers of rows differ.
    """

    train: NDArray[np.uint8]
    valid: NDArray[np.uint8]
    test: NDArray[np.uint8]


def load_density_set(entry: DensitySet) -> BinaryRows:
    """Read the rows of a set.

    Parameters
    ----------
    entry : DensitySet

    Returns
    -------
    BinaryRows

    Raises
    ------
    FileNotFoundError
        If the file is not in the folder named by DYNPART_DATA.
    ValueError
        If the file does not hold three tables of zeros and ones.
    """
    path = entry.find()
    stored = read_npz(path, SPLITS)
    width = stored["train"].shape[1:]
    for split, rows in stored.items():
        if rows.ndim != 2 or not rows.size or rows.shape[1:] != width:
            raise ValueError(
                f"{path}: {split!r} must be a table with as many columns as 'train', got shape "
                f"{rows.shape}"
            )
        if not ((rows == 0) | (rows == 1)).all():
            raise ValueError(f"{path}: {split!r} must hold only zeros and ones")
    return BinaryRows(**{split: rows.astype(np.uint8) for split, rows in stored.items()})


DENSITY_SETS = {
    entry.name: entry
    for entry in (
        DensitySet("nltcs", "NLTCS", -6.00),
        DensitySet("msnbc", "MSNBC", -6.06),
        DensitySet("kdd", "KDD", -2.18),
        DensitySet("baudio", "Audio", -39.77),
        DensitySet("bnetflix", "Netflix", -56.28),
        DensitySet("accidents", "Accidents", -26.74),
        DensitySet("tretail", "Retail", -10.87),
        DensitySet("pumsb_star", "Pumsb-star", -23.65),
        DensitySet("kosarek", "Kosarek", -10.67),
        DensitySet("tmovie", "Movie", -50.82),
        DensitySet("cwebkb", "WebKB", -152.77),
        DensitySet("c20ng", "20 Newsgroups", -153.40),
    )
}
DENSITY_NAMES = (DENSITY, *(f"{DENSITY}-{name}" for name in DENSITY_SETS))
"""Names for ``--data``: all sets together, and each of them."""


def chosen_sets(names: Sequence[str]) -> list[DensitySet]:
    """The sets selected by names of data.

    Examples
    --------
    >>> [entry.title for entry in chosen_sets(["density-kdd", "bars"])]
    ['KDD']
    >>> len(chosen_sets(["density"]))
    12
    """
    return [
        entry
        for name, entry in DENSITY_SETS.items()
        if DENSITY in names or f"{DENSITY}-{name}" in names
    ]
