"""Definition of an experiment: data, variants of learning, figures."""

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
    """Training rows and test rows.

    Attributes
    ----------
    train : ndarray of shape (n_train, n_features)
    test : ndarray of shape (n_test, n_features)
    image_shape : tuple of int or None
        (height, width) if rows are images.
    """

    train: NDArray[Any]
    test: NDArray[Any]
    image_shape: tuple[int, int] | None = None


@dataclass(frozen=True)
class Variant:
    """One variant of learning an experiment's data.

    Attributes
    ----------
    key : str
        Name of its files.
    title : str
        Heading of its column in the report.
    parameters : mapping
        Arguments of the estimator.
    on_grid : bool
        Whether evidence for expertise is smoothed over neighbouring pixels.
    """

    key: str
    title: str
    parameters: Mapping[str, Any]
    on_grid: bool = False


@dataclass(frozen=True)
class Result:
    """Measurements of one fitted variant, on test rows unless stated otherwise.

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
        Wall time and processor time to learn, and wall time to encode all test rows.
    n_local : int
        Number of local experts: a fifth of the variables holds four fifths of the expert's weight
        or, for images, its spread is at most one half.
    extent : float
        Median over experts of that share or spread.
    n_used : int
        Experts that are active in some test row.
    recovered : int or None
        Factor levels found by this fit, if factors are known.
    seeds_recovered, n_seeds : int or None
        Number of other fits that found all factor levels, and number of other fits.
    linear_error : float or None
        Error of principal components, as many as the codes have real numbers.
    n_linear : int or None
        Number of these components.
    resumed : bool
        Whether the fit continued from a checkpoint; its time is that of the last part only.
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
        Templates by number of iterations, if the experiment needs them.
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
        Function from a run and the data to a figure.
    draw_shared : callable or None
        Function from the data and a seed to a figure.
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
        The result that the paper reports.
    load : callable
        Fetches the data.
    variants : tuple of Variant
    pictures : tuple of Picture
    remarks : callable
        Function from the results by variant to sentences on differences from the paper.
    snapshots : tuple of int
        Iterations after which templates are kept.
    n_seeds : int
        Number of further fits that count how often all factors are found; 0 without known factors.
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
