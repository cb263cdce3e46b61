"""What an experiment is: data, ways to learn it, figures to draw. Knows no experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dynpart.estimator import DynamicPartitionModel


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to learn from and rows to judge by.

    Attributes
    ----------
    train : ndarray of shape (n_train, n_features)
    test : ndarray of shape (n_test, n_features)
    image_shape : tuple of int or None
        (height, width) where rows are images.
    """

    train: NDArray[Any]
    test: NDArray[Any]
    image_shape: tuple[int, int] | None = None


@dataclass(frozen=True)
class Variant:
    """One way to learn an experiment's data.

    Attributes
    ----------
    key : str
        Names its files.
    title : str
        Heads its column in the report.
    parameters : mapping
        Arguments of the estimator.
    on_grid : bool
        Whether evidence for expertise flows between neighbouring pixels.
    """

    key: str
    title: str
    parameters: Mapping[str, Any]
    on_grid: bool = False


@dataclass(frozen=True)
class Result:
    """What was measured of one fitted variant, on test rows unless it says otherwise.

    Attributes
    ----------
    mean_active : float
        Active experts per row.
    error : float
        Share of wrong pixels for binary data, root mean square error for gray data.
    log_likelihood : float
        Conditional log P(x | h), nats per row.
    bits : float
        Code length per row: the code, and the row given the code. Gray values are counted as
        256 levels.
    fit_seconds, fit_processor_seconds, encode_seconds : float
        Time to learn, by the clock and by the processors, and to encode all test rows.
    n_local : int
        Experts that speak about a small part of the variables: a fifth of them holds four fifths
        of what the expert has to say or, for images, its spread is at most one half.
    extent : float
        Median over experts of that share or spread.
    n_used : int
        Experts that are active in some test row.
    recovered : int or None
        Factor levels found by this fit, where factors are known.
    seeds_recovered, n_seeds : int or None
        In how many of so many other fits all factor levels were found.
    linear_error : float or None
        Error of principal components, as many as the codes have real numbers.
    n_linear : int or None
        How many these are.
    resumed : bool
        Whether the fit went on from a checkpoint, and its time is that of the last part only.
    """

    mean_active: float
    error: float
    log_likelihood: float
    bits: float
    fit_seconds: float
    fit_processor_seconds: float
    encode_seconds: float
    n_local: int
    extent: float
    n_used: int
    recovered: int | None = None
    seeds_recovered: int | None = None
    n_seeds: int | None = None
    linear_error: float | None = None
    n_linear: int | None = None
    resumed: bool = False


@dataclass(frozen=True, eq=False)
class Run:
    """A fitted variant with its measurements.

    Attributes
    ----------
    variant : Variant
    model : DynamicPartitionModel
    result : Result
    snapshots : dict of int to ndarray of shape (n_experts, n_features)
        Templates after so many iterations, where the experiment asks for them.
    """

    variant: Variant
    model: DynamicPartitionModel
    result: Result
    snapshots: dict[int, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """One of the paper's figures, drawn for each variant or, if `draw_shared`, once.

    Attributes
    ----------
    name : str
    caption : str
    draw : callable or None
        From a run and the data to a figure.
    draw_shared : callable or None
        From the data and a seed to a figure.
    """

    name: str
    caption: str
    draw: Callable[[Run, Data], Figure] | None = None
    draw_shared: Callable[[Data, int], Figure] | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper's section 4.

    Attributes
    ----------
    name, title : str
    setting : str
        Data, sizes and iterations, in a sentence.
    claim : str
        What the paper says came out.
    load : callable
        Fetches the data.
    variants : tuple of Variant
    pictures : tuple of Picture
    remarks : callable
        From the results by variant to sentences on where we differ from the paper, and why.
    snapshots : tuple of int
        Iterations after which templates are kept.
    n_seeds : int
        Further fits that count how often all factors are found; 0 where none are known.
    """

    name: str
    title: str
    setting: str
    claim: str
    load: Callable[[], Data]
    variants: tuple[Variant, ...]
    pictures: tuple[Picture, ...]
    remarks: Callable[[Mapping[str, Result]], list[str]]
    snapshots: tuple[int, ...] = ()
    n_seeds: int = 0
