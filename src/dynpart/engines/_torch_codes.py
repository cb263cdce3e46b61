"""Codes on a device, and the same the other way round: the rows of each expert."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dynpart.engines._contract import CodeSummary


def binary_codes(order: Tensor, n_experts: int) -> Tensor:
    """Binary codes from orders of activation, shape (n_rows, n_experts)."""
    codes = torch.zeros((len(order), n_experts + 1), dtype=torch.bool, device=order.device)
    codes.scatter_(1, torch.where(order >= 0, order, n_experts).long(), True)
    return codes[:, :-1]


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
    """

    order: Tensor
    log_likelihood: Tensor
    n_experts: int

    @classmethod
    def trimmed(cls, order: Tensor, log_likelihood: Tensor, n_experts: int) -> TorchCodes:
        """Codes without the slots that no row uses."""
        n_slots = max(1, int((order >= 0).any(dim=0).sum()))
        return cls(order[:, :n_slots].int().contiguous(), log_likelihood, n_experts)

    @classmethod
    def joined(cls, parts: list[TorchCodes]) -> TorchCodes:
        """The codes of one part of the rows after the other."""
        if len(parts) == 1:
            return parts[0]
        n_slots = max(part.order.shape[1] for part in parts)
        orders = [
            torch.nn.functional.pad(part.order, (0, n_slots - part.order.shape[1]), value=-1)
            for part in parts
        ]
        log_likelihood = torch.cat([part.log_likelihood for part in parts])
        return cls(torch.cat(orders), log_likelihood, parts[0].n_experts)

    def __getitem__(self, block: slice) -> TorchCodes:
        if block.start == 0 and block.stop == len(self.order):
            return self
        return TorchCodes(self.order[block], self.log_likelihood[block], self.n_experts)

    @property
    def n_active(self) -> Tensor:
        return (self.order >= 0).sum(dim=1)

    def active(self, n_experts: int) -> Tensor:
        """The binary codes h, shape (n_rows, n_experts)."""
        return binary_codes(self.order, n_experts)

    @cached_property
    def rows_by_expert(self) -> tuple[Tensor, Tensor]:
        """Rows of expert after expert, ascending, and where each expert's begin."""
        n_slots = self.order.shape[1]
        expert = torch.where(self.order < 0, self.n_experts, self.order).flatten()
        experts, places = expert.sort(stable=True)
        wanted = torch.arange(self.n_experts + 1, device=experts.device, dtype=experts.dtype)
        rows = places.div(n_slots, rounding_mode="floor").int()
        return rows, torch.searchsorted(experts, wanted, out_int32=True)

    def summary(self, n_experts: int) -> CodeSummary:
        """What the learner needs to know, still on the device."""
        starts: Any = self.rows_by_expert[1]
        usage = (starts[1:] - starts[:-1]).double()
        log_likelihood: Any = self.log_likelihood.sum()
        return CodeSummary(len(self.order), usage, log_likelihood)
