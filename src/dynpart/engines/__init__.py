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


def make_engine(name: str = "auto", n_jobs: int | None = None) -> Engine:
    """Build the engine called `name`.

    Parameters
    ----------
    name : {"auto", "cpu", "reference"}
        "cpu" runs compiled kernels on all cores; "reference" is the readable specification in
        NumPy; "auto" means "cpu".
    n_jobs : int, default=None
        Threads of the CPU engine: None takes what Numba and threadpoolctl allow, -1 all cores.

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
        from joblib import effective_n_jobs

        from dynpart.engines.cpu import CpuEngine

        return CpuEngine(n_threads=effective_n_jobs(n_jobs) if n_jobs is not None else None)
    if name == "reference":
        from dynpart.engines.reference import ReferenceEngine

        return ReferenceEngine()
    raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {name!r}")
