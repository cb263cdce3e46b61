"""The neighbourhood of codes: sums over all codes that differ by one change."""

from dynpart.neighbourhood._sums import (
    Neighbourhood,
    all_summed,
    expert_losses,
    neighbourhood,
    neighbourhood_kernels,
)

__all__ = [
    "Neighbourhood",
    "all_summed",
    "expert_losses",
    "neighbourhood",
    "neighbourhood_kernels",
]
