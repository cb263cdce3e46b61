"""Data sets: synthetic ones with known factors, the zoo, and images of the paper's experiments.

This package does not know the model. Loaders of published images search a local folder (the
argument ``folder`` or the environment variable ``DYNPART_DATA``). Otherwise they download into a
cache (``DYNPART_CACHE``, or the default of the operating system) and verify the checksum.
"""

from dynpart.datasets._dataset import ImageDataset
from dynpart.datasets.caltech import load_caltech_motorcycles, load_caltech_silhouettes
from dynpart.datasets.digits import load_digits, load_mnist
from dynpart.datasets.horses import load_weizmann_horses
from dynpart.datasets.recovery import bars_recovered, pairs_recovered
from dynpart.datasets.synthetic import bar_templates, make_bars, make_pairs
from dynpart.datasets.zoo import TableDataset, load_zoo, write_zoo

__all__ = [
    "ImageDataset",
    "TableDataset",
    "bar_templates",
    "bars_recovered",
    "load_caltech_motorcycles",
    "load_caltech_silhouettes",
    "load_digits",
    "load_mnist",
    "load_weizmann_horses",
    "load_zoo",
    "make_bars",
    "make_pairs",
    "pairs_recovered",
    "write_zoo",
]
