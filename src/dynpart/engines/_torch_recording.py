"""Recordings: what a batch makes a GPU do, captured as a graph and replayed for the next batches.

A batch is some ninety small operations, and naming them to the GPU one by one takes longer than
they do. A graph names them all at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dynpart.engines._contract import Fold


class Recording:
    """A function of a batch of rows and some arrays, recorded when it is called for the first time.

    It must not wait for the GPU, and all its calls must have arrays of the same shapes. What it
    returns is overwritten by the next call.

    Parameters
    ----------
    fold : callable
        (rows, *arrays) -> arrays of the same shapes.
    previous : Recording or None
        One that is over: its memory is used again.
    """

    def __init__(self, fold: Fold, previous: Recording | None) -> None:
        self._fold = fold
        self._previous = previous
        self._pool: Any = torch.cuda.graph_pool_handle() if previous is None else previous._pool
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, rows: Tensor, *arrays: Tensor) -> tuple[Tensor, ...]:
        if self._graph is None:
            self._held = tuple(array.clone() for array in (rows, *arrays))
            self._graph = self._recorded()
            self._previous = None  # until now it kept the memory from being given back
        else:
            for held, given in zip(self._held, (rows, *arrays), strict=True):
                if given is not held:
                    held.copy_(given)
        self._graph.replay()
        return self._held[1:]

    def _recorded(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        aside = torch.cuda.Stream(self._held[0].device)
        aside.wait_stream(torch.cuda.current_stream(aside.device))
        with torch.cuda.stream(aside):
            # Kernels may have to be compiled and loaded on the way, hence not the strictest mode.
            graph.capture_begin(pool=self._pool, capture_error_mode="relaxed")
            try:
                for held, new in zip(self._held[1:], self._fold(*self._held), strict=True):
                    held.copy_(new)
            finally:
                graph.capture_end()
        return graph
