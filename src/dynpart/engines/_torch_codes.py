"""Codes on a device, and their inverse: the rows of each expert."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dynpart.deprecated import renamed
from dynpart.engines._charges import Charges
from dynpart.engines._contract import MARGIN, CodeSummary, PursuitRule


def binary_codes(members: Tensor, n_experts: int) -> Tensor:
    """Binary codes from lists of active experts, shape (n_rows, n_experts)."""
    codes = torch.zeros((len(members), n_experts + 1), dtype=torch.bool, device=members.device)
    codes.scatter_(1, torch.where(members >= 0, members, n_experts).long(), True)
    return codes[:, :-1]


def _as_wide(codes: list[Tensor]) -> list[Tensor]:
    """Lists of active experts with as many slots as the widest of them."""
    n_slots = max(members.shape[1] for members in codes)
    pad = torch.nn.functional.pad
    return [pad(members, (0, n_slots - members.shape[1]), value=-1) for members in codes]


@renamed(order="members")
@dataclass(frozen=True, eq=False)
class TorchCodes:
    """Which experts are active in each row.

    Attributes
    ----------
    members : Tensor of shape (n_rows, n_slots), int32
        Indices of active experts, padded with -1, in no order where a code was refined. Slots
        that no row uses may be missing.
    log_likelihood : Tensor of shape (n_rows,)
        Log P(x | h) under the hard composition, whichever rule found the code.
    n_experts : int
    kernels : bool
        Whether kernels may be used to invert the codes.
    known_usage : Tensor of shape (n_experts,) or None
        Number of rows in which each expert is active, if computed already.
    log_base : Tensor of shape (n_rows,) or 0.0
        The part of the log-likelihood that does not depend on experts: b(x).
    weight : Tensor of shape (n_rows,) or None
        Weight of each row; None if all are 1.
    """

    members: Tensor
    log_likelihood: Tensor
    n_experts: int
    kernels: bool
    known_usage: Tensor | None = None
    log_base: Tensor | float = 0.0
    weight: Tensor | None = None

    def trimmed(self) -> TorchCodes:
        """The codes without the slots that no row uses."""
        n_slots = max(1, int((self.members >= 0).any(dim=0).sum()))
        return replace(self, members=self.members[:, :n_slots].contiguous())

    @classmethod
    def joined(cls, parts: list[TorchCodes]) -> TorchCodes:
        """The codes of several parts of the rows, concatenated."""
        if len(parts) == 1:
            return parts[0]
        members = _as_wide([part.members for part in parts])
        log_likelihood = torch.cat([part.log_likelihood for part in parts])
        usage = torch.stack([part.usage for part in parts]).sum(dim=0)
        first = parts[0]
        bases: list[Any] = [part.log_base for part in parts]
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(
            torch.cat(members),
            log_likelihood,
            first.n_experts,
            first.kernels,
            usage,
            0.0 if isinstance(bases[0], float) else torch.cat(bases),
            torch.cat(weights) if weights else None,
        )

    def with_code(self, rows: Any, code: Any) -> TorchCodes:
        """The same codes with this code, of likelihood 1, in some rows."""
        members, _ = _as_wide([self.members, self.members.new_full((1, len(code)), -1)])
        members, log_likelihood = members.clone(), self.log_likelihood.clone()
        members[rows] = -1
        members[rows, : len(code)] = torch.as_tensor(
            code, dtype=members.dtype, device=members.device
        )
        log_likelihood[rows] = 0.0
        return replace(self, members=members, log_likelihood=log_likelihood, known_usage=None)

    def or_better(self, other: TorchCodes, charges: Charges) -> TorchCodes:
        """The better code of each row, by log-likelihood minus charges."""
        mine, theirs = _as_wide([self.members, other.members])

        def worth(codes: TorchCodes) -> Tensor:
            return codes.log_likelihood + charges.of_codes(codes.members)

        better = worth(other) > worth(self) + MARGIN
        members = torch.where(better[:, None], theirs, mine)
        log_likelihood = torch.where(better, other.log_likelihood, self.log_likelihood)
        return TorchCodes(members, log_likelihood, self.n_experts, self.kernels)

    def __getitem__(self, block: slice) -> TorchCodes:
        if block.start == 0 and block.stop == len(self.members):
            return self
        base = self.log_base if isinstance(self.log_base, float) else self.log_base[block]
        weight = None if self.weight is None else self.weight[block]
        return replace(
            self, members=self.members[block], log_likelihood=self.log_likelihood[block],
            known_usage=None, log_base=base, weight=weight,
        )  # fmt: skip

    @property
    def n_active(self) -> Tensor:
        return (self.members >= 0).sum(dim=1)

    def active(self, n_experts: int) -> Tensor:
        """The binary codes h, shape (n_rows, n_experts)."""
        return binary_codes(self.members, n_experts)

    @cached_property
    def rows_by_expert(self) -> tuple[Tensor, Tensor]:
        """Rows of each expert, ascending, and their numbers, as kernels list them."""
        from dynpart.engines._triton_codes import rows_by_expert

        with torch.cuda.device_of(self.members):
            return rows_by_expert(self.members, self.n_experts)

    @property
    def usage(self) -> Tensor:
        """Weighted number of rows in which each expert is active, shape (n_experts,)."""
        if self.known_usage is not None:
            return self.known_usage
        if self.weight is not None:
            return self.weight @ self.active(self.n_experts).double()
        if self.kernels:
            return self.rows_by_expert[1].double()
        return self.active(self.n_experts).sum(dim=0).double()

    def summary(self, n_experts: int) -> CodeSummary:
        """Summary of these codes for the learner, on the device."""
        usage: Any = self.usage
        sums: list[Any] = [self.log_likelihood, self.log_base]
        n_rows: Any = len(self.members)
        if self.weight is not None:
            sums, n_rows = [self.weight * term for term in sums], float(self.weight.sum())
        log_likelihood, base = (term if isinstance(term, float) else term.sum() for term in sums)
        return CodeSummary(n_rows, usage, log_likelihood, base)


def best_start(
    pursue_from: Callable[[int], tuple[Tensor, Tensor]], rule: PursuitRule
) -> tuple[Tensor, Tensor]:
    """The best of the codes found from several first experts, and its log-likelihood.

    The argument of `pursue_from` is the place of the first expert in the order of single gains.
    """
    n_payable = len(rule.cost)
    order, log_likelihood = pursue_from(0)
    n_starts = min(rule.n_starts, n_payable)
    if n_starts == 1:  # may be recorded, and a recording allows no transfers
        return order, log_likelihood
    charges = rule.charges.like(order)
    for place in range(1, n_starts):
        best = TorchCodes(order, log_likelihood, n_payable, False)
        best = best.or_better(TorchCodes(*pursue_from(place), n_payable, False), charges)
        order, log_likelihood = best.members, best.log_likelihood
    return order, log_likelihood
