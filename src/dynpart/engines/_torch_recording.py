"""Recordings: what a batch makes a GPU do, captured as a graph and replayed for the next batches.

A batch is some ninety small operations, and naming them to the GPU one by one takes longer than
they do. A graph names them all at once.
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
"""Threads that learn side by side share the stream on which they record."""


@lru_cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Where recordings are made; memory is handed on among those of one stream alone."""
    return torch.cuda.Stream(device)


@lru_cache
def keeper(device: torch.device) -> torch.cuda.CUDAGraph:
    """A graph of next to nothing, whose memory all recordings on a device use, one after the other.

    It outlives them: what one of them leaves the next one takes. Memory that a recording had to
    itself would be held, and not be used again.
    """
    return captured(lambda: torch.zeros(1, device=device), device, torch.cuda.graph_pool_handle())


def captured(call: Callable[[], object], device: torch.device, pool: Any) -> torch.cuda.CUDAGraph:
    """What a call makes the GPU do."""
    graph, aside = torch.cuda.CUDAGraph(), side_stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with ONE_AT_A_TIME, torch.cuda.stream(aside):
        # Kernels may have to be compiled and loaded on the way, hence not the strictest mode.
        graph.capture_begin(pool=pool, capture_error_mode="relaxed")
        try:
            call()
        finally:
            graph.capture_end()
    return graph


class Recording:
    """A function of a batch of rows and some arrays, recorded when it is called for the first time.

    It must not wait for the GPU, and all its calls must have arrays of the same shapes. What it
    returns is overwritten by the next call.

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
            return self._fold(rows, *arrays)  # what is done then depends on the values
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
