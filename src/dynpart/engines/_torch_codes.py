"""Codes on a device, and the same the other way round: the rows of each expert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynpart.engines._contract import MARGIN, Array, CodeSummary


def binary_codes(order: Tensor, n_experts: int) -> Tensor:
    """Binary codes from orders of activation, shape (n_rows, n_experts)."""
    codes = torch.zeros((len(order), n_experts + 1), dtype=torch.bool, device=order.device)
    codes.scatter_(1, torch.where(order >= 0, order, n_experts).long(), True)
    return codes[:, :-1]


def _as_wide(orders: list[Tensor]) -> list[Tensor]:
    """Orders of activation with as many slots as the widest of them."""
    n_slots = max(order.shape[1] for order in orders)
    pad = torch.nn.functional.pad
    return [pad(order, (0, n_slots - order.shape[1]), value=-1) for order in orders]


@dataclass(frozen=True, eq=False)
class TorchCodes:
    """Which experts are active in each row, in the order of their activation.

    Attributes
    ----------
    order : Tensor of shape (n_rows, n_slots), int32
        Indices of experts, padded with -1. Slots that no row uses may be missing.
    log_likelihood : Tensor of shape (n_rows,)
        Log P(x | h) under the hard composition, whichever rule found the code.
    n_experts : int
    kernels : bool
        Whether kernels may be used to turn the codes round.
    known_usage : Tensor of shape (n_experts,) or None
        In how many rows each expert is active, where that was found out already.
    """

    order: Tensor
    log_likelihood: Tensor
    n_experts: int
    kernels: bool
    known_usage: Tensor | None = None

    def trimmed(self) -> TorchCodes:
        """The codes without the slots that no row uses."""
        n_slots = max(1, int((self.order >= 0).any(dim=0).sum()))
        return replace(self, order=self.order[:, :n_slots].contiguous())

    @classmethod
    def joined(cls, parts: list[TorchCodes]) -> TorchCodes:
        """The codes of one part of the rows after the other."""
        if len(parts) == 1:
            return parts[0]
        orders = _as_wide([part.order for part in parts])
        log_likelihood = torch.cat([part.log_likelihood for part in parts])
        usage = torch.stack([part.usage for part in parts]).sum(dim=0)
        first = parts[0]
        return cls(torch.cat(orders), log_likelihood, first.n_experts, first.kernels, usage)

    def or_better(self, other: TorchCodes, cost: Array) -> TorchCodes:
        """Of each row this code, or the other where it explains more beyond its cost."""
        charge = torch.as_tensor(np.append(cost, 0.0), device=self.order.device)
        mine, theirs = _as_wide([self.order, other.order])

        def worth(codes: TorchCodes, order: Tensor) -> Tensor:
            return codes.log_likelihood - charge[order.long()].sum(dim=1)

        better = worth(other, theirs) > worth(self, mine) + MARGIN
        order = torch.where(better[:, None], theirs, mine)
        log_likelihood = torch.where(better, other.log_likelihood, self.log_likelihood)
        return TorchCodes(order, log_likelihood, self.n_experts, self.kernels)

    def __getitem__(self, block: slice) -> TorchCodes:
        if block.start == 0 and block.stop == len(self.order):
            return self
        return TorchCodes(
            self.order[block], self.log_likelihood[block], self.n_experts, self.kernels
        )

    @property
    def n_active(self) -> Tensor:
        return (self.order >= 0).sum(dim=1)

    def active(self, n_experts: int) -> Tensor:
        """The binary codes h, shape (n_rows, n_experts)."""
        return binary_codes(self.order, n_experts)

    @cached_property
    def rows_by_expert(self) -> tuple[Tensor, Tensor]:
        """Rows of each expert, ascending, and how many they are, as kernels list them."""
        from dynpart.engines._triton_codes import rows_by_expert

        with torch.cuda.device_of(self.order):
            return rows_by_expert(self.order, self.n_experts)

    @property
    def usage(self) -> Tensor:
        """In how many rows each expert is active, shape (n_experts,)."""
        if self.known_usage is not None:
            return self.known_usage
        if self.kernels:
            return self.rows_by_expert[1].double()
        return self.active(self.n_experts).sum(dim=0).double()

    def summary(self, n_experts: int) -> CodeSummary:
        """What the learner needs to know, still on the device."""
        usage: Any = self.usage
        log_likelihood: Any = self.log_likelihood.sum()
        return CodeSummary(len(self.order), usage, log_likelihood)
