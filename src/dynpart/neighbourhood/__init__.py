"""The neighbourhood of codes: sums over codes that a few changes lead to, and draws of them."""

from dynpart.neighbourhood._draws import redrawn
from dynpart.neighbourhood._sums import (
    MOST_TURNS,
    Neighbourhood,
    all_summed,
    expert_losses,
    neighbourhood,
    neighbourhood_kernels,
)

__all__ = [
    "MOST_TURNS",
    "Neighbourhood",
    "all_summed",
    "expert_losses",
    "neighbourhood",
    "neighbourhood_kernels",
    "redrawn",
]
