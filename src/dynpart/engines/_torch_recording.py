"""Recordings: the GPU operations of a batch, captured as a graph and replayed for later batches.

A batch is some ninety small operations, and launching them one by one takes longer than they do. A
graph launches them all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from dynpart.engines._contract import Fold
from dynpart.rows import Rows

ONE_AT_A_TIME = Lock()
"""Lock for recordings: concurrent learners share the stream on which they record."""


@lru_cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Stream for recordings; memory is reused only among those of the same stream."""
    return torch.cuda.Stream(device)


@lru_cache
def keeper(device: torch.device) -> torch.cuda.CUDAGraph:
    """A minimal graph, whose memory pool all recordings on a device use, one after the other.

    It outlives them, so memory that one of them releases is reused by the next. A private pool of
    a recording would be held and not be reused.
    """
    return captured(lambda: torch.zeros(1, device=device), device, torch.cuda.graph_pool_handle())


def captured(call: Callable[[], object], device: torch.device, pool: Any) -> torch.cuda.CUDAGraph:
    """The GPU operations of a call, as a graph."""
    graph, aside = torch.cuda.CUDAGraph(), side_stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with ONE_AT_A_TIME, torch.cuda.stream(aside):
        # Kernels may be compiled and loaded during the capture, hence not the strictest mode.
        graph.capture_begin(pool=pool, capture_error_mode="relaxed")
        try:
            call()
        finally:
            graph.capture_end()
    return graph


class Recording:
    """A function of a batch of rows and some arrays, recorded at its first call.

    It must not wait for the GPU, and all its calls must have arrays of the same shapes. Its results
    are overwritten by the next call.

    Parameters
    ----------
    fold : callable
        (rows, *arrays) -> arrays of the same shapes.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, rows: Rows, *arrays: Tensor) -> tuple[Tensor, ...]:
        if not rows.complete or rows.weight is not None:
            return self._fold(rows, *arrays)  # then the operations depend on the values
        if self._graph is None:
            self._held = tuple(array.clone() for array in (rows.values, *arrays))
            device = self._held[0].device
            self._graph = captured(self._replace_held, device, keeper(device).pool())
        else:
            for held, given in zip(self._held, (rows.values, *arrays), strict=True):
                if given is not held:
                    held.copy_(given)
        self._graph.replay()
        return self._held[1:]

    def _replace_held(self) -> None:
        values, *arrays = self._held
        for held, new in zip(arrays, self._fold(Rows(values), *arrays), strict=True):
            held.copy_(new)
