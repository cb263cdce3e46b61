"""Engines: operations over rows. They use families and composition, and make no policy."""

from __future__ import annotations

from typing import Any

from dynpart.engines._contract import (
    MARGIN,
    Codes,
    CodeSummary,
    Engine,
    Experts,
    Fold,
    GradientSums,
    OpinionSums,
    PursuitRule,
    ResponsibilitySums,
    row_log_base,
)
from dynpart.engines._mixture import MixtureSums, mixture_densities

__all__ = [
    "MARGIN",
    "CodeSummary",
    "Codes",
    "Engine",
    "Experts",
    "Fold",
    "GradientSums",
    "MixtureSums",
    "OpinionSums",
    "PursuitRule",
    "ResponsibilitySums",
    "make_engine",
    "mixture_densities",
    "row_log_base",
]

ENGINES = ("auto", "cpu", "reference", "torch")


def make_engine(name: str = "auto", n_jobs: int | None = None, device: Any = None) -> Engine:
    """Build the engine called `name`.

    Parameters
    ----------
    name : {"auto", "cpu", "reference", "torch"}, default="auto"
        "cpu" runs compiled kernels on all cores. "torch" works on a GPU, or on another device of
        torch. "reference" is plain NumPy, easy to read and slow. "auto" means "torch" if a device
        is given, and "cpu" otherwise, or "reference" if NUMBA_DISABLE_JIT=1 turns compilation off.
    n_jobs : int, default=None
        Number of threads of the CPU engine. None uses as many as Numba and threadpoolctl allow, -1
        all cores.
    device : str or torch.device, default=None
        Device of the torch engine, such as "cuda:1"; None uses the GPU if there is one.

    Returns
    -------
    Engine
        For functions with an `engine` parameter, such as :func:`dynpart.streaming.accumulate`.

    Examples
    --------
    >>> from dynpart.engines import make_engine
    >>> make_engine("reference").name
    'reference'
    """
    if name not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {name!r}")
    if name == "torch" or (name == "auto" and device is not None):
        return _torch_engine(device)
    if device is not None:
        raise ValueError(f"device is for engine='torch', got engine={name!r}, device={device!r}")
    if name in ("auto", "cpu") and _compiles(name):
        from dynpart.engines.cpu import CpuEngine

        if n_jobs is None:
            return CpuEngine()
        from joblib import effective_n_jobs

        return CpuEngine(n_threads=effective_n_jobs(n_jobs))
    from dynpart.engines.reference import ReferenceEngine

    return ReferenceEngine()


def _compiles(name: str) -> bool:
    """Whether the CPU engine can run; if not, "auto" warns and uses the reference."""
    from dynpart.compiled import can_compile, say_once

    if can_compile():
        return True
    if name == "cpu":
        raise ImportError(
            "engine='cpu' needs compiled kernels, and NUMBA_DISABLE_JIT=1 disables compilation: "
            "unset it, or use engine='reference', which is slow"
        )
    say_once(
        "NUMBA_DISABLE_JIT=1 turns compilation off: engine='auto' takes the reference engine, "
        "which is slow"
    )
    return False


def _torch_engine(device: Any) -> Engine:
    try:
        from dynpart.engines.torch import TorchEngine
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError("engine='torch' needs torch: pip install 'dynpart[gpu]'") from None
    try:
        return TorchEngine(device)
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used by torch: {reason}") from error
