"""Autoregression: predictions of a variable from the earlier values of its row.

The paper's discussion proposes experts that are autoregressive models: P(x_d | x_<d, h) is the
prediction of x_d by the owner of variable d from x_1 to x_{d-1}. Here all experts share the
weights. The earlier values of a row give one *offset* per variable, which is added to the
prediction of every expert: to the log-odds of a binary variable, to the mean of a real one. This
module knows weights and values, no experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like, namespace
from dynpart.families import Family

Array = NDArray[np.float64]

ALL = "all"
"""Value of `autoregressive` that uses every earlier column."""


@dataclass(frozen=True, eq=False)
class Autoregression:
    """Weights of earlier values, shared by all experts.

    Attributes
    ----------
    weights : ndarray of shape (n_features, n_features)
        ``weights[d, j]`` is added to the log-odds, or to the mean, of variable d per unit of
        variable j; 0 unless j comes before d.
    centre : ndarray of shape (n_features,)
        Values are measured from the centre, so that opinions apply to a row with average values.
    """

    weights: Array
    centre: Array

    def __post_init__(self) -> None:
        n_features = len(self.centre)
        if tuple(self.weights.shape) != (n_features, n_features):
            raise ValueError(
                f"weights of shape {tuple(self.weights.shape)} do not suit {n_features} variables"
            )
        if bool((namespace(self.weights).triu(self.weights) != 0).any()):
            raise ValueError("a variable may depend on earlier variables only")

    def like(self, reference: Any) -> Autoregression:
        """The same weights as the type of arrays that `reference` is."""
        return Autoregression(like(self.weights, reference), like(self.centre, reference))

    def offsets(self, numbers: Any) -> Any:
        """Offset of each variable from the earlier values, shape (n_rows, n_features).

        Parameters
        ----------
        numbers : array of shape (n_rows, n_features)
            Rows in double precision, all values observed.

        Examples
        --------
        >>> import numpy as np
        >>> from dynpart.autoregression import Autoregression
        >>> second_follows_first = np.array([[0.0, 0.0], [2.0, 0.0]])
        >>> given = Autoregression(second_follows_first, centre=np.array([0.5, 0.5]))
        >>> given.offsets(np.array([[1.0, 0.0], [0.0, 0.0]]))
        array([[ 0.,  1.],
               [ 0., -1.]])
        """
        return (numbers - self.centre) @ self.weights.T


@dataclass(frozen=True, eq=False)
class AutoregressionSums:
    """Sums over rows for the weights of earlier values; sums of two sets of rows add up.

    Attributes
    ----------
    n_rows : float
        Total weight of the rows.
    log_likelihood : float
        Sum of log P(x | h) under the hard rule.
    weights : ndarray of shape (n_features, n_features)
        Its derivative with respect to every weight.
    opinions : ndarray of shape (n_experts, n_features)
        Its derivative with respect to every opinion: the log-odds of a binary variable, the mean of
        a real one.
    """

    n_rows: float
    log_likelihood: float
    weights: Array
    opinions: Array

    def __add__(self, other: AutoregressionSums) -> AutoregressionSums:
        return AutoregressionSums(
            self.n_rows + other.n_rows,
            self.log_likelihood + other.log_likelihood,
            self.weights + other.weights,
            self.opinions + other.opinions,
        )


def check_autoregressive(autoregressive: Any, family: Family, *, complete: bool) -> None:
    """Raise ValueError unless all columns have one kind that supports offsets and no gaps.

    Parameters
    ----------
    autoregressive : int or "all"
        For the message.
    family : Family
    complete : bool
        Whether all values were observed.
    """
    if not (family.is_binary or family.is_normal):
        raise ValueError(
            f"autoregressive={autoregressive!r} is for columns that are all binary or all real, "
            f"found family={family.name!r}; use autoregressive=None"
        )
    if not complete:
        raise ValueError(
            f"autoregressive={autoregressive!r} needs rows without gaps, since every value depends "
            "on the earlier ones; found values that were not observed: fill them in first, or use "
            "autoregressive=None"
        )


def earlier_columns(
    autoregressive: int | str, n_features: int, image_shape: tuple[int, int] | None = None
) -> NDArray[np.bool_]:
    """Which earlier columns each column may depend on.

    Parameters
    ----------
    autoregressive : int or "all"
        On images the maximum distance in lines and columns of pixels; only earlier pixels, line by
        line, are used. On other tables the number of columns.
    n_features : int
    image_shape : tuple of int, default=None
        Height and width if rows are images.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        ``[d, j]`` is True where column d may depend on the earlier column j.

    Examples
    --------
    >>> from dynpart.autoregression import earlier_columns
    >>> earlier_columns(1, 3).astype(int)
    array([[0, 0, 0],
           [1, 0, 0],
           [0, 1, 0]])
    >>> earlier_columns(1, 4, image_shape=(2, 2)).sum(axis=1)
    array([0, 1, 2, 3])
    """
    earlier = np.tri(n_features, k=-1, dtype=bool)
    if autoregressive == ALL:
        return earlier
    reach, place = int(autoregressive), np.arange(n_features)
    width = 1 if image_shape is None else image_shape[1]
    line, column = np.divmod(place, width)
    near = abs(line[:, None] - line) <= reach
    return earlier & near & (abs(column[:, None] - column) <= reach)


def log_density_given(values: Any, eta: Any, family: Family, given: Autoregression) -> Any:
    """Log P(x_d | x_<d) of every variable under composed opinions, shape (n_rows, n_features).

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
        As :meth:`Family.encode` returns them, all observed.
    eta : array of shape (n_statistics, n_rows, n_features)
        Opinions of the owners.
    family : Family
        Binary or normal.
    given : Autoregression
    """
    numbers = family.decode(values)
    offsets = given.offsets(numbers)
    if family.is_normal:
        return family.log_density(numbers - offsets, eta)
    return binary_log_density(numbers, family.natural(eta)[0][0] + offsets)


def binary_log_density(x: Any, log_odds: Any) -> Any:
    """Log P(x) of binary values with these log-odds of a one."""
    xp = namespace(log_odds)
    return x * log_odds - xp.logaddexp(log_odds, xp.zeros_like(log_odds))


def mean_given(numbers: Any, eta: Any, family: Family, given: Autoregression) -> Any:
    """E[x_d | x_<d] under composed opinions, shape (n_rows, n_features); see above."""
    offsets = given.offsets(numbers)
    if family.is_normal:
        return family.mean(eta) + offsets
    return _chance_of_one(family.natural(eta)[0][0] + offsets)


def _chance_of_one(log_odds: Any) -> Any:
    xp = namespace(log_odds)
    return xp.exp(-xp.logaddexp(-log_odds, xp.zeros_like(log_odds)))


def drawn(
    eta: Array, family: Family, given: Autoregression, rng: np.random.RandomState
) -> NDArray[Any]:
    """Rows drawn variable by variable, each given those before it.

    Parameters
    ----------
    eta : ndarray of shape (n_statistics, n_rows, n_features)
        Opinions of the owners.
    family : Family
    given : Autoregression
    rng : RandomState

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        Values of the kind that `family.draw` returns.
    """
    x = np.zeros_like(eta[0])
    if family.is_normal:
        plain = family.draw(eta, rng)
    else:
        log_odds, chance = family.natural(eta)[0][0], rng.uniform(size=x.shape)
    for d in range(x.shape[1]):
        offset = (x[:, :d] - given.centre[:d]) @ given.weights[d, :d]
        if family.is_normal:
            x[:, d] = plain[:, d] + offset
        else:
            x[:, d] = chance[:, d] < _chance_of_one(log_odds[:, d] + offset)
    return x if family.is_normal else x.astype(np.uint8)
