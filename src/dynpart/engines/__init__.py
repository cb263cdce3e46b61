"""Engines: where rows are touched. Engines know families and composition, and hold no policy."""

from __future__ import annotations

from dynpart.engines._contract import (
    MARGIN,
    Codes,
    CodeSummary,
    Engine,
    Experts,
    GradientSums,
    PursuitRule,
    ResponsibilitySums,
)

__all__ = [
    "MARGIN",
    "CodeSummary",
    "Codes",
    "Engine",
    "Experts",
    "GradientSums",
    "PursuitRule",
    "ResponsibilitySums",
    "make_engine",
]

ENGINES = ("auto", "cpu", "reference")


def make_engine(name: str = "auto") -> Engine:
    """Build the engine called `name`.

    Parameters
    ----------
    name : {"auto", "cpu", "reference"}
        "cpu" runs compiled kernels on all cores; "reference" is the readable specification in
        NumPy; "auto" means "cpu".

    Returns
    -------
    Engine

    Examples
    --------
    >>> from dynpart.engines import make_engine
    >>> make_engine("reference").name
    'reference'
    """
    if name in ("auto", "cpu"):
        from dynpart.engines.cpu import CpuEngine

        return CpuEngine()
    if name == "reference":
        from dynpart.engines.reference import ReferenceEngine

        return ReferenceEngine()
    raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {name!r}")
