"""Experts with gains and offsets, in plain torch; the specification is the reference."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dynpart.amplitudes import Terms, row_amplitudes
from dynpart.arrays import is_observed
from dynpart.composition import owners
from dynpart.engines._contract import Experts
from dynpart.engines._torch_codes import binary_codes
from dynpart.engines._torch_pursuit import log_densities, order_of_nobody
from dynpart.engines._torch_sums import counted_rows, slot_shares
from dynpart.rows import Rows


class AmplitudeHard:
    """Log P(x | h) under the hard rule if every active expert has its own gain and offset."""

    def __init__(self, x: Tensor, experts: Experts) -> None:
        self.shape = (len(x), experts.n_experts)
        self.ranks: Any = experts.ranks
        amplitude: Any = experts.amplitude
        self.amplitude = amplitude
        terms = Terms.of(experts.family, experts.eta, amplitude)
        values: Any = x
        T: Any = experts.family.statistics(values)[0]
        observed = is_observed(T)[:, None]
        w = torch.where(observed, terms.weight, 0.0)
        e = torch.where(observed, T[:, None] - terms.mean, 0.0)
        wf = w * terms.measured
        parts = w, wf, wf * terms.measured, w * e, wf * e, log_densities(x, experts)
        self.terms = torch.stack(parts, dim=-1)
        self.compose(order_of_nobody(x))

    def compose(self, order: Tensor, without: int = -1) -> None:
        """Find the owner of every variable, and the sums of every slot."""
        n_rows, n_experts, n_features, n_sums = self.terms.shape
        self.owner_rank = self.ranks.new_full((n_rows, n_features), n_experts)
        slot_of = torch.full((n_rows, n_features), -1, device=order.device)
        own = self.terms.new_zeros((n_rows, n_features, n_sums))
        for slot in range(order.shape[1]):
            if slot == without:
                continue
            k = order[:, slot].clamp(min=0)
            wins = (order[:, slot, None] >= 0) & (self.ranks[k] < self.owner_rank)
            self.owner_rank = torch.where(wins, self.ranks[k], self.owner_rank)
            slot_of = torch.where(wins, slot, slot_of)
            every = torch.arange(n_rows, device=order.device)
            own = torch.where(wins[:, :, None], self.terms[every, k], own)
        slots = torch.arange(order.shape[1], device=order.device)
        owns = (slot_of[:, :, None] == slots)[..., None]
        self.own = torch.where(owns, own[:, :, None], 0.0)
        self.totals = self.own.sum(dim=1)

    def _worth(self, sums: Tensor) -> Any:
        """Log-likelihood of the variables with these sums; 0 for no variables."""
        return self.amplitude.evidence(sums[..., :-1].unbind(-1)) + sums[..., -1]

    def gains(self) -> Tensor:
        """Change of the log-likelihood by each expert, including the losses of other experts."""
        wins = (self.ranks < self.owner_rank[:, None]).double()
        won = torch.einsum("nkd,nkds->nks", wins, self.terms)
        # Losses of all owners, in one product that reads `wins` once.
        lost = (wins @ self.own.flatten(2)).unflatten(2, self.own.shape[2:])
        left = self._worth(self.totals[:, None] - lost)
        return self._worth(won) + (left - self._worth(self.totals)[:, None]).sum(dim=-1)

    def log_likelihood(self) -> Tensor:
        """Log P(x | h) of every row."""
        return self._worth(self.totals).sum(dim=1)


def _shared_out(rows: Rows, experts: Experts, order: Tensor) -> tuple[Any, Any, list[Any]]:
    """T(x), flags of observed values, and gain and offset of the expert in each slot."""
    family, amplitude = experts.family, experts.amplitude
    assert amplitude is not None
    T: Any = family.statistics(rows.values)
    observed = is_observed(T[0])
    T = torch.where(observed, T, 0.0)
    active: Any = binary_codes(order, experts.n_experts)
    owner = owners(experts.ranks, active)
    gain, offset, _ = row_amplitudes(T, observed, owner, active, family, experts.eta, amplitude)
    slots = order.clamp(min=0)
    told = (gain.gather(1, slots).T, offset.gather(1, slots).T)
    return T, observed, [(a[:, None], b[:, None]) for a, b in zip(*told, strict=True)]


def gradient_sums(rows: Rows, experts: Experts, order: Tensor) -> Tensor:
    """Sums of g and g^2, with opinions transformed by gains and offsets of the row."""
    family, amplitude, eta = experts.family, experts.amplitude, torch.as_tensor(experts.eta)
    assert amplitude is not None
    T, observed, told = _shared_out(rows, experts, order)
    shares, members = slot_shares(experts, order)
    shift = amplitude.shift(family)

    def said(k: Tensor, gain: Tensor, offset: Tensor) -> Tensor:
        mean, second = eta[0][k], eta[1][k]
        here = mean + gain * (mean + shift) + offset
        return torch.stack([here, second - mean * mean + here * here])

    opinions = [said(k, *each) for k, each in zip(order.T.clamp(min=0), told, strict=True)]
    composed: Any = sum(r * opinion for r, opinion in zip(shares, opinions, strict=True))
    pull: Any = family.pull(T, composed)
    total = eta.new_zeros((2, *eta.shape[1:]))
    for r, opinion, member in zip(shares, opinions, members, strict=True):
        g = torch.where(observed, r * (pull * (opinion - composed)).sum(dim=0), 0.0)
        counted = counted_rows(member, rows)
        total += torch.stack([counted.T @ g, counted.T @ (g * g)])
    return total


def responsibility_sums(rows: Rows, experts: Experts, order: Tensor) -> Tensor:
    """Sums of r and r T(x) of rows transformed to each expert's scale."""
    amplitude, eta = experts.amplitude, torch.as_tensor(experts.eta)
    assert amplitude is not None
    T, observed, told = _shared_out(rows, experts, order)
    shares, members = slot_shares(experts, order)
    shift = amplitude.shift(experts.family)
    total = eta.new_zeros((3, *eta.shape[1:]))
    for share, member, (gain, offset) in zip(shares, members, told, strict=True):
        r, counted = torch.where(observed, share, 0.0), counted_rows(member, rows)
        a, heard = 1 + gain, T[0] - gain * shift - offset
        parts = r * a * a, r * a * heard, r * heard * heard
        total += torch.stack([counted.T @ part for part in parts])
    return total
