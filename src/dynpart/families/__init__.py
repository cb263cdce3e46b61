"""Families: the distribution of one variable under one expert, in exponential-family form.

This room knows nothing of rows, experts' supports or learning; every other room builds on it.
"""

from dynpart.families._base import Family
from dynpart.families._bernoulli import Bernoulli
from dynpart.families._gaussian import Gaussian
from dynpart.families._moments import ColumnMoments, column_moments

__all__ = ["Bernoulli", "ColumnMoments", "Family", "Gaussian", "column_moments", "make_family"]


def make_family(name: str, moments: ColumnMoments, *, variance_floor: float = 1.0) -> Family:
    """Build the family called `name` for data with the given column moments.

    Parameters
    ----------
    name : {"auto", "bernoulli", "gaussian"}
        "auto" takes the Bernoulli family when every value is 0 or 1 and the Gaussian otherwise.
    moments : ColumnMoments
        What is known of the data, column by column.
    variance_floor : float, default=1.0
        Smallest variance of a Gaussian expert, in units of the data's mean column variance.

    Returns
    -------
    Family

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.families import column_moments, make_family
    >>> make_family("auto", column_moments(np.eye(3))).name
    'bernoulli'
    """
    if name == "auto":
        name = "bernoulli" if moments.is_binary else "gaussian"
    if name == "bernoulli":
        return Bernoulli()
    if name == "gaussian":
        return Gaussian.for_data(moments, variance_floor=variance_floor)
    raise ValueError(f"family must be 'auto', 'bernoulli' or 'gaussian', got {name!r}")
