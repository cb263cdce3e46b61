"""Composition: how active experts share the variables, hard (eq. 2) or smoothed (eq. 4)."""

from dynpart.composition._rules import (
    compose_hard,
    compose_smoothed,
    expertise_ranks,
    owners,
    owners_of,
    responsibilities,
    supports,
)

__all__ = [
    "compose_hard",
    "compose_smoothed",
    "expertise_ranks",
    "owners",
    "owners_of",
    "responsibilities",
    "supports",
]
