"""Baselines: the models the paper names, behind one small interface.

Each learns from rows (`fit`), turns rows into codes (`encode`) and codes into rows (`decode`), and
shows the templates of its units (`templates`). Knows the estimator and scikit-learn; scores and
tables are in `dynpart.comparison`.
"""

from dynpart.baselines._base import Baseline
from dynpart.baselines.autoencoder import Autoencoder
from dynpart.baselines.boltzmann import BoltzmannMachine
from dynpart.baselines.composed import ComposedPursuit
from dynpart.baselines.dynamic import DynamicPartition
from dynpart.baselines.linear import PrincipalComponents, SparseDictionary
from dynpart.baselines.masked import MaskedNetwork
from dynpart.baselines.mixture import KMeansCodes, Mixture
from dynpart.baselines.partition import FixedPartition, block_cells, grid_cells
from dynpart.baselines.shape import ShapeBoltzmannMachine
from dynpart.baselines.tracking import (
    SegmentedSequence,
    fixed_share,
    hindsight_share,
    learn_expertise,
    make_segments,
    owner_agreement,
    sequence_losses,
)
from dynpart.deprecated import renamed_in

__all__ = [
    "Autoencoder",
    "Baseline",
    "BoltzmannMachine",
    "ComposedPursuit",
    "DynamicPartition",
    "FixedPartition",
    "KMeansCodes",
    "MaskedNetwork",
    "Mixture",
    "PrincipalComponents",
    "SegmentedSequence",
    "ShapeBoltzmannMachine",
    "SparseDictionary",
    "block_cells",
    "fixed_share",
    "grid_cells",
    "hindsight_share",
    "learn_expertise",
    "make_segments",
    "owner_agreement",
    "sequence_losses",
]

__getattr__ = renamed_in(__name__, believed_right="owner_agreement")
