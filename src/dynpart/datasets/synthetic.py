"""Binary data with known factors, to test whether learning finds them. Imports no other module."""

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

# Maximum number of pairs for which all combinations are listed (4,096 rows of 24 variables).
_MOST_PAIRS_LISTED = 12


def make_pairs(
    n_pairs: int = 5,
    n_samples: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> NDArray[np.uint8]:
    """Independent factors with two levels each: the set ``{(0, 1), (1, 0)} ** n_pairs``.

    The synthetic data of section 4.1 of the paper (with five pairs). Variables ``2 * l`` and
    ``2 * l + 1`` form pair ``l``; each pair is (0, 1) or (1, 0), independently of the others.

    Parameters
    ----------
    n_pairs : int, default=5
        Number of factors, at least 1.
    n_samples : int, default=None
        Number of rows to draw at random. By default every combination of levels occurs exactly
        once, in counting order, if there are at most 12 pairs; with more pairs
        ``200 * n_pairs`` rows are drawn.
    random_state : int, RandomState or None, default=None
        Seed of the draw; without effect where all combinations are listed.

    Returns
    -------
    X : ndarray of shape (n_samples, 2 * n_pairs), dtype uint8
        The rows, with values 0 and 1.

    Examples
    --------
    >>> from dynpart.datasets import make_pairs
    >>> make_pairs(2)
    array([[0, 1, 0, 1],
           [0, 1, 1, 0],
           [1, 0, 0, 1],
           [1, 0, 1, 0]], dtype=uint8)
    """
    _check_count("n_pairs", n_pairs)
    if n_samples is None and n_pairs <= _MOST_PAIRS_LISTED:
        first = np.array(list(product((0, 1), repeat=n_pairs)), dtype=np.uint8)
    else:
        n_rows = 200 * n_pairs if n_samples is None else n_samples
        _check_count("n_samples", n_rows)
        rng = check_random_state(random_state)
        first = rng.randint(0, 2, size=(n_rows, n_pairs), dtype=np.uint8)
    return np.stack([first, 1 - first], axis=2).reshape(len(first), 2 * n_pairs)


def bar_templates(size: int = 5) -> NDArray[np.bool_]:
    """All horizontal and vertical bars of a square grid.

    Parameters
    ----------
    size : int, default=5
        Height and width of the grid, at least 2.

    Returns
    -------
    bars : ndarray of shape (2 * size, size * size), dtype bool
        True on the pixels of the bar: first the rows from top to bottom, then the columns from
        left to right.

    Examples
    --------
    >>> from dynpart.datasets import bar_templates
    >>> bar_templates(2).astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 1, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1]])
    """
    _check_count("size", size, least=2)
    line = np.eye(size, dtype=bool)[:, :, None]
    rows = np.broadcast_to(line, (size, size, size))
    columns = rows.transpose(0, 2, 1)
    return np.concatenate([rows, columns]).reshape(2 * size, size * size)


def make_bars(
    size: int = 5,
    n_samples: int = 1000,
    probability: float | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> NDArray[np.uint8]:
    """Draw images in which horizontal and vertical bars appear independently of each other.

    The classic bars test (Foldiak, 1990): a pixel is on if any of the bars through it is. Since
    crossing bars share a pixel, no fixed partition of the pixels explains the data.

    Parameters
    ----------
    size : int, default=5
        Height and width of the image, at least 2; there are ``2 * size`` bars.
    n_samples : int, default=1000
        Number of images.
    probability : float, default=None
        Probability of each bar, between 0 and 1. Default: ``1 / size``, which is two bars per
        image on average (some images are empty).
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, size * size), dtype uint8
        The images, with values 0 and 1, pixels in row-major order.

    Examples
    --------
    >>> from dynpart.datasets import make_bars
    >>> X = make_bars(size=5, n_samples=200, random_state=0)
    >>> X.shape
    (200, 25)
    """
    bars = bar_templates(size)
    _check_count("n_samples", n_samples)
    chance = 1 / size if probability is None else probability
    if not 0 <= chance <= 1:
        raise ValueError(f"probability must lie between 0 and 1, got {probability!r}")
    rng = check_random_state(random_state)
    shown = rng.uniform(size=(n_samples, 2 * size)) < chance
    # Both factors are exact in float32, and BLAS does the product.
    return (shown.astype(np.float32) @ bars.astype(np.float32) > 0).astype(np.uint8)


def _check_count(name: str, value: int, least: int = 1) -> None:
    """Raise an error that names the argument unless it is an integer of at least ``least``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or not math.isfinite(value):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
