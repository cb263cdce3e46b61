"""The neighbourhood of codes: sums over all codes that one change leads to."""

from dynpart.neighbourhood._sums import Neighbourhood, all_summed, expert_losses, neighbourhood

__all__ = ["Neighbourhood", "all_summed", "expert_losses", "neighbourhood"]
